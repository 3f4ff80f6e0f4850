//! The usual description of one group of values in one struct.
//!
//! Decides which numbers a summary holds; formatting them is the caller's business.

use super::{mad, mean, quantile, skewness, standard_deviation};

/// Description of one group of values, in the unit of the values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Number of values.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub median: f64,
    /// Standard deviation with the divisor n - 1; NaN for one value.
    pub standard_deviation: f64,
    /// Median absolute deviation, not scaled.
    pub mad: f64,
    /// Smallest value.
    pub min: f64,
    /// Lower quartile (type 7).
    pub lower_quartile: f64,
    /// Upper quartile (type 7).
    pub upper_quartile: f64,
    /// Largest value.
    pub max: f64,
    /// Moment coefficient of skewness; NaN for constant values.
    pub skewness: f64,
}

impl Summary {
    /// Describes `values`; None when there is none.
    pub fn of(values: &[f64]) -> Option<Summary> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        Some(Summary {
            n: values.len(),
            mean: mean(values),
            median: quantile(&sorted, 0.5),
            standard_deviation: standard_deviation(values),
            mad: mad(&sorted),
            min: *sorted.first()?,
            lower_quartile: quantile(&sorted, 0.25),
            upper_quartile: quantile(&sorted, 0.75),
            max: *sorted.last()?,
            skewness: skewness(values),
        })
    }

    /// Standard deviation over mean, as a share.
    pub fn coefficient_of_variation(&self) -> f64 {
        self.standard_deviation / self.mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_describes_values_in_any_order() {
        let summary = Summary::of(&[3.0, 1.0, 2.0, 5.0, 4.0]).unwrap();
        assert_eq!((summary.n, summary.min, summary.max), (5, 1.0, 5.0));
        assert_eq!((summary.mean, summary.median, summary.mad), (3.0, 3.0, 1.0));
        assert_eq!((summary.lower_quartile, summary.upper_quartile), (2.0, 4.0));
        assert!((summary.standard_deviation - 2.5f64.sqrt()).abs() < 1e-15);
        assert!((summary.coefficient_of_variation() - 2.5f64.sqrt() / 3.0).abs() < 1e-15);
        assert_eq!(summary.skewness, 0.0);
    }

    #[test]
    fn nothing_cannot_be_described_and_one_value_has_no_spread() {
        assert_eq!(Summary::of(&[]), None);
        let single = Summary::of(&[7.0]).unwrap();
        assert!(single.standard_deviation.is_nan());
        assert_eq!((single.mean, single.mad), (7.0, 0.0));
    }
}
