//! Moments: sums of powers about the mean.
//!
//! Decides how they are summed without losing digits. Start at [`mean`].

/// Arithmetic mean; NaN when there is no value.
///
/// A second pass adds the mean of the deviations, which removes the rounding of the first; R does
/// the same, and its values are the reference.
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

/// Standard deviation over mean, as a share; NaN with fewer than 2 values.
pub fn coefficient_of_variation(values: &[f64]) -> f64 {
    standard_deviation(values) / mean(values)
}

/// Moment coefficient of skewness g1 = m3 / m2^(3/2) with population moments (as
/// `scipy.stats.skew`); NaN for constant or empty values.
pub fn skewness(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let centre = mean(values);
    let m2 = central_sum(values, centre, 2) / n;
    let m3 = central_sum(values, centre, 3) / n;
    m3 / m2.powf(1.5)
}

/// Correlation of each value with the one before it (R: `acf(x)$acf[2]`); NaN for constant values.
///
/// For values taken under two treatments, subtract each treatment's mean first: what is asked is
/// whether the noise depends on its past.
pub fn lag1_autocorrelation(values: &[f64]) -> f64 {
    let centre = mean(values);
    let products: f64 = values
        .windows(2)
        .map(|w| (w[0] - centre) * (w[1] - centre))
        .sum();
    products / central_sum(values, centre, 2)
}

fn central_sum(values: &[f64], centre: f64, power: i32) -> f64 {
    values
        .iter()
        .map(|value| (value - centre).powi(power))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PULSE: [f64; 8] = [64.0, 71.5, 68.0, 80.25, 59.0, 66.0, 75.0, 99.0];

    fn close(value: f64, reference: f64) -> bool {
        (value / reference - 1.0).abs() < 1e-13
    }

    /// R 4.2.2, x <- c(64, 71.5, 68, 80.25, 59, 66, 75, 99):
    /// `mean(x); var(x); sd(x)/mean(x); acf(x, plot = FALSE)$acf[2]`;
    /// skewness: `m <- mean(x); mean((x-m)^3) / mean((x-m)^2)^1.5`.
    #[test]
    fn moments_equal_those_of_r() {
        assert!(close(mean(&PULSE), 72.84375));
        assert!(close(variance(&PULSE), 155.0881696428571));
        assert!(close(coefficient_of_variation(&PULSE), 0.17096099627821));
        assert!(close(skewness(&PULSE), 1.148904909536739));
        assert!(close(lag1_autocorrelation(&PULSE), 0.01508268625997596));
    }

    #[test]
    fn a_large_offset_does_not_eat_the_variance() {
        let shifted: Vec<f64> = PULSE.iter().map(|value| value + 1e9).collect();
        assert!((variance(&shifted) / 155.0881696428571 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn undefined_moments_are_not_numbers() {
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
}
