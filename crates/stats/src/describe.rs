//! Computes descriptive statistics of one group of values: center, spread, shape and outliers.
//!
//! This module settles which textbook definition each name refers to. It does not compare groups.
//! Functions return NaN where a quantity is undefined (R's NA), so that a table can show the gap.
//! Values must not be NaN themselves. Start at [`mean`] and [`quantile`].

// Moments: sums of powers about the mean, in a numerically stable way.

/// Arithmetic mean; NaN when there is no value.
///
/// A second pass adds the mean of the deviations, which removes the rounding error of the first
/// pass. R does the same, and the tests expect R's values.
pub fn mean(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let first = values.iter().sum::<f64>() / n;
    if !first.is_finite() {
        return first;
    }
    first + values.iter().map(|value| value - first).sum::<f64>() / n
}

/// Variance with the divisor n - 1; NaN with fewer than 2 values.
pub fn variance(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return f64::NAN;
    }
    central_sum(values, mean(values), 2) / (values.len() - 1) as f64
}

/// Square root of [`variance`]; NaN with fewer than 2 values.
pub fn standard_deviation(values: &[f64]) -> f64 {
    variance(values).sqrt()
}

/// Standard deviation over mean, as a fraction; NaN with fewer than 2 values.
pub fn coefficient_of_variation(values: &[f64]) -> f64 {
    standard_deviation(values) / mean(values)
}

/// Moment coefficient of skewness g1 = m3 / m2^(3/2) with population moments (the same as
/// `scipy.stats.skew`); NaN for constant or empty values.
pub fn skewness(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let center = mean(values);
    let m2 = central_sum(values, center, 2) / n;
    let m3 = central_sum(values, center, 3) / n;
    m3 / m2.powf(1.5)
}

/// Correlation of each value with the one before it (R: `acf(x)$acf[2]`); NaN for constant values.
///
/// If the values were measured under two treatments, subtract each treatment's mean first.
/// Otherwise the result reflects the difference between the treatments, and not whether the noise
/// depends on its past.
pub fn lag1_autocorrelation(values: &[f64]) -> f64 {
    let center = mean(values);
    let products: f64 = values.windows(2).map(|w| (w[0] - center) * (w[1] - center)).sum();
    products / central_sum(values, center, 2)
}

fn central_sum(values: &[f64], center: f64, power: i32) -> f64 {
    values.iter().map(|value| (value - center).powi(power)).sum()
}

// Order statistics: quantiles, and deviations from the median.

/// The factor that makes the median absolute deviation of a normal distribution equal to its
/// standard deviation: 1 / qnorm(3/4), rounded as is customary in the literature and in R's `mad`.
pub const NORMAL_CONSISTENCY: f64 = 1.4826;

/// Values farther from the median than this many scaled deviations are outliers. The limit is
/// deliberately wide, so that skewed timings do not yield dozens of outliers.
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
    if copy.is_empty() {
        return f64::NAN;
    }
    let middle = copy.len() / 2;
    let (below, &mut upper, _) = copy.select_nth_unstable_by(middle, f64::total_cmp);
    if !values.len().is_multiple_of(2) {
        return upper;
    }
    let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    lower + 0.5 * (upper - lower)
}

/// Median of the absolute deviations from the median, not scaled; NaN when there is no value.
///
/// Multiply by [`NORMAL_CONSISTENCY`] to compare it with a standard deviation.
pub fn mad(values: &[f64]) -> f64 {
    let center = median(values);
    let deviations: Vec<f64> = values.iter().map(|value| (value - center).abs()).collect();
    median(&deviations)
}

/// Indices of values farther than 5 x 1.4826 x MAD from the median, in ascending order.
///
/// Mark these values, but never drop them. If more than half of the values are equal, the MAD is 0
/// and every value that differs from them is an outlier.
pub fn outliers(values: &[f64]) -> Vec<usize> {
    let center = median(values);
    let limit = OUTLIER_DEVIATIONS * NORMAL_CONSISTENCY * mad(values);
    let is_far = |&(_, value): &(usize, &f64)| (value - center).abs() > limit;
    values.iter().enumerate().filter(is_far).map(|(index, _)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PULSE: [f64; 8] = [64.0, 71.5, 68.0, 80.25, 59.0, 66.0, 75.0, 99.0];

    fn is_close(value: f64, reference: f64) -> bool {
        (value / reference - 1.0).abs() < 1e-13
    }

    /// R 4.2.2, x <- c(64, 71.5, 68, 80.25, 59, 66, 75, 99):
    /// `mean(x); var(x); sd(x)/mean(x); acf(x, plot = FALSE)$acf[2]`;
    /// skewness: `m <- mean(x); mean((x-m)^3) / mean((x-m)^2)^1.5`.
    #[test]
    fn moments_equal_those_of_r() {
        assert!(is_close(mean(&PULSE), 72.84375));
        assert!(is_close(variance(&PULSE), 155.0881696428571));
        assert!(is_close(coefficient_of_variation(&PULSE), 0.17096099627821));
        assert!(is_close(skewness(&PULSE), 1.148904909536739));
        assert!(is_close(lag1_autocorrelation(&PULSE), 0.01508268625997596));
    }

    #[test]
    fn a_large_offset_does_not_distort_the_variance() {
        let shifted: Vec<f64> = PULSE.iter().map(|value| value + 1e9).collect();
        assert!((variance(&shifted) / 155.0881696428571 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn undefined_moments_are_nan() {
        assert!(mean(&[]).is_nan());
        assert!(variance(&[3.0]).is_nan());
        assert!(skewness(&[2.0, 2.0, 2.0]).is_nan());
        assert!(lag1_autocorrelation(&[2.0, 2.0, 2.0]).is_nan());
    }

    #[test]
    fn alternating_values_are_negatively_correlated() {
        let values: Vec<f64> = (0..100).map(|i| f64::from(i % 2)).collect();
        assert!((lag1_autocorrelation(&values) + 0.99).abs() < 1e-12);
    }

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
