//! Order statistics: quantiles and what is measured from the median.
//!
//! Decides the quantile definition and when a value stands out. Start at [`quantile`].

/// Makes the median absolute deviation of a normal distribution equal its standard deviation:
/// 1 / qnorm(3/4), rounded as everywhere in the literature and in R's `mad`.
pub const NORMAL_CONSISTENCY: f64 = 1.4826;

/// Values farther from the median than this many (consistent) deviations are called outliers. Wide
/// on purpose: skewed timings must not be marked by the dozen.
const OUTLIER_DEVIATIONS: f64 = 5.0;

/// The quantile `p` (0 to 1) of ascending values, by linear interpolation between order statistics:
/// type 7 of Hyndman and Fan (American Statistician 50, 1996), the default of R and numpy.
///
/// NaN when there is no value.
pub fn quantile(sorted: &[f64], p: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let position = p.clamp(0.0, 1.0) * last as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (position - below as f64) * (sorted[above] - sorted[below])
}

/// The median; NaN when there is no value.
pub fn median(values: &[f64]) -> f64 {
    let mut copy = values.to_vec();
    copy.sort_unstable_by(f64::total_cmp);
    quantile(&copy, 0.5)
}

/// Median of the absolute deviations from the median, not scaled; NaN when there is no value.
///
/// Multiply by [`NORMAL_CONSISTENCY`] to compare it with a standard deviation.
pub fn mad(values: &[f64]) -> f64 {
    let centre = median(values);
    let deviations: Vec<f64> = values.iter().map(|value| (value - centre).abs()).collect();
    median(&deviations)
}

/// Indices of values farther than 5 x 1.4826 x MAD from the median, in ascending order.
///
/// Meant for marking, never for dropping. If more than half of the values are equal, the MAD is 0
/// and every other value is an outlier.
pub fn outliers(values: &[f64]) -> Vec<usize> {
    let centre = median(values);
    let limit = OUTLIER_DEVIATIONS * NORMAL_CONSISTENCY * mad(values);
    let far = |&(_, value): &(usize, &f64)| (value - centre).abs() > limit;
    values
        .iter()
        .enumerate()
        .filter(far)
        .map(|(index, _)| index)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R 4.2.2: `quantile(c(1, 2, 4, 8, 16, 32), p)`.
    #[test]
    fn quantiles_equal_type_seven_of_r() {
        let values = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];
        for (p, expected) in [(0.0, 1.0), (0.1, 1.5), (0.25, 2.5), (0.5, 6.0), (0.9, 24.0)] {
            assert!((quantile(&values, p) - expected).abs() < 1e-12, "p = {p}");
        }
        assert_eq!(quantile(&values, 1.0), 32.0);
        assert!(quantile(&[], 0.5).is_nan());
    }

    /// R 4.2.2: `mad(c(1, 1, 2, 2, 4, 6, 9), constant = 1)` is 1.
    #[test]
    fn median_and_mad_ignore_the_order_of_values() {
        let values = [9.0, 1.0, 4.0, 2.0, 6.0, 1.0, 2.0];
        assert_eq!(median(&values), 2.0);
        assert_eq!(mad(&values), 1.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn only_values_far_beyond_the_spread_stand_out() {
        let mut values: Vec<f64> = (0..20).map(|i| 100.0 + f64::from(i % 5)).collect();
        assert!(outliers(&values).is_empty());
        values[7] = 150.0;
        values[2] = 50.0;
        assert_eq!(outliers(&values), [2, 7]);
        assert!(outliers(&[]).is_empty());
    }

    #[test]
    fn the_one_different_value_among_equals_stands_out() {
        assert_eq!(outliers(&[7.0, 7.0, 7.0, 8.0, 7.0]), [3]);
    }
}
