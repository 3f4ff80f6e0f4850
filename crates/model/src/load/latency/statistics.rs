//! Computes statistics of recorded times: mean, standard deviation, the percentage table of
//! ApacheBench (`ab`), and bins. Quantiles are in `mod.rs`.

use super::{ExactSums, TimeQuantile, TimeValues, bin_reference};

impl TimeValues {
    /// Number of values above [`super::MAX_RECORDABLE_NS`]. All statistics include these values. A
    /// quantile among them is reported as at least that limit, unless it is the maximum.
    pub fn count_beyond_range(&self) -> u64 {
        self.beyond
    }

    /// Number of values that are lower bounds, from unfinished requests.
    pub fn lower_bounds(&self) -> u64 {
        self.lower_bounds
    }

    /// The exact minimum.
    pub fn min_ns(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.moments.min_ns)
    }

    /// The exact maximum.
    pub fn max_ns(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.moments.max_ns)
    }

    /// The exact sum of all times in nanoseconds.
    pub fn sum_ns(&self) -> u128 {
        self.moments.sum
    }

    /// The mean in nanoseconds, from the exact sum.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.moments.sum as f64 / self.count() as f64)
    }

    /// Sample standard deviation (n - 1) in nanoseconds; `None` for fewer than two values.
    pub fn standard_deviation_ns(&self) -> Option<f64> {
        if self.count() < 2 {
            return None;
        }
        let count = self.count() as f64;
        let ExactSums { sum, sum_of_squares: squares, .. } = self.moments;
        // In floating point, n * squares - sum^2 loses precision by cancellation. Use integers
        // unless they overflow; a billion values of ten seconds still fit.
        let exact = squares.checked_mul(u128::from(self.count())).zip(sum.checked_mul(sum));
        let spread = match exact {
            Some((left, right)) => left.saturating_sub(right) as f64,
            None => (squares as f64 * count - (sum as f64).powi(2)).max(0.0),
        };
        Some((spread / count / (count - 1.0)).sqrt())
    }
}

/// Two sets are equal if they have the same sums, minimum and maximum, and the same values at the
/// resolution of the histogram.
impl PartialEq for TimeValues {
    fn eq(&self, other: &TimeValues) -> bool {
        self.moments == other.moments
            && self.beyond == other.beyond
            && self.lower_bounds == other.lower_bounds
            && self.min_lower_bound_ns == other.min_lower_bound_ns
            && self.to_histogram() == other.to_histogram()
    }
}

/// The percentages that ab prints.
pub const AB_PERCENTS: [u32; 9] = [50, 66, 75, 80, 90, 95, 98, 99, 100];

/// One row of the percentage table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PercentRow {
    /// Percentage of all requests.
    pub percent: u32,
    /// Time within which this percentage of the requests finished.
    pub within: TimeQuantile,
}

/// Returns the table for ascending percentages; empty without values. The rows are the quantiles of
/// [`TimeValues::quantile`]. The rows that `ab` prints are one rank too high.
pub fn percent_rows_of(times: &TimeValues, percents: &[u32]) -> Vec<PercentRow> {
    let ppm: Vec<u32> = percents.iter().map(|percent| percent * 10_000).collect();
    let rows = percents.iter().zip(times.quantiles(&ppm));
    rows.filter_map(|(&percent, within)| Some(PercentRow { percent, within: within? })).collect()
}

/// Returns the table for every percentage from 0 (fastest request) to 100 (slowest request).
pub fn percent_rows(times: &TimeValues) -> Vec<PercentRow> {
    let percents: Vec<u32> = (0..=100).collect();
    percent_rows_of(times, &percents)
}

/// A bin: a range of values that the histogram cannot distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistogramBin {
    /// The smallest time of the bin, in nanoseconds.
    pub from_ns: u64,
    /// The largest time of the bin, in nanoseconds.
    pub to_ns: u64,
    /// Number of values; never 0.
    pub count: u64,
}

impl TimeValues {
    /// Iterates over the non-empty bins in ascending order. Values beyond
    /// [`super::MAX_RECORDABLE_NS`] have no bin.
    pub fn bins(&self) -> impl Iterator<Item = HistogramBin> + '_ {
        self.recorded_bins().map(|(to_ns, count)| HistogramBin {
            from_ns: bin_reference().lowest_equivalent(to_ns),
            to_ns,
            count,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::latency::{MAX_RECORDABLE_NS, ServiceTime, TimeDistribution};

    #[test]
    fn every_value_within_the_range_lies_in_its_bin() {
        let mut times = TimeDistribution::<ServiceTime>::new();
        for ns in [5, 5, 1_000_000, MAX_RECORDABLE_NS + 1] {
            times.record(ns);
        }
        let bins: Vec<HistogramBin> = times.bins().collect();
        assert_eq!(bins.iter().map(|bin| bin.count).collect::<Vec<_>>(), [2, 1]);
        assert_eq!((bins[0].from_ns, bins[0].to_ns), (5, 5));
        // With three significant digits, a bin near a million nanoseconds is narrower than a
        // thousand nanoseconds.
        assert!((bins[1].from_ns..=bins[1].to_ns).contains(&1_000_000));
        assert!(bins[1].to_ns - bins[1].from_ns < 1_000);
    }
}
