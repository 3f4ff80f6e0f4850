//! Converts z values of the standard normal distribution to tail areas, and back.
//!
//! Start at [`upper_tail`]; [`upper_quantile`] goes in the other direction.

use std::f64::consts::{PI, SQRT_2};

/// Probability that a standard normal variable exceeds `z`.
///
/// Uses the complementary error function. Unlike `1 - cdf`, the function keeps its relative
/// accuracy in far tails.
pub fn upper_tail(z: f64) -> f64 {
    0.5 * libm::erfc(z / SQRT_2)
}

/// Probability that a standard normal variable is at most `z`.
pub fn cdf(z: f64) -> f64 {
    upper_tail(-z)
}

/// Probability that a standard normal variable is farther from zero than `z`.
pub fn two_sided(z: f64) -> f64 {
    libm::erfc(z.abs() / SQRT_2)
}

/// Density at `z`.
pub fn density(z: f64) -> f64 {
    (-0.5 * z * z).exp() / (2.0 * PI).sqrt()
}

/// The z that is exceeded with probability `tail`.
///
/// `tail` outside 0..=1 gives NaN; 0 and 1 give the infinities.
pub fn upper_quantile(tail: f64) -> f64 {
    if !(0.0..=1.0).contains(&tail) {
        return f64::NAN;
    }
    if tail > 0.5 {
        return -upper_quantile(1.0 - tail);
    }
    if tail == 0.0 {
        return f64::INFINITY;
    }
    upper_quantile_near(tail, initial_guess(tail), 1e-15)
}

/// The z that is exceeded with probability `tail`, to a relative error of about `precision`,
/// starting from a nearby z.
pub(crate) fn upper_quantile_near(tail: f64, mut z: f64, precision: f64) -> f64 {
    // Apply Newton's method to the logarithm of the tail area. This logarithm is concave and nearly
    // quadratic in z, so a nearby start converges in a few steps.
    let target = tail.ln();
    for _ in 0..20 {
        let area = upper_tail(z);
        let step = (area.ln() - target) * area / density(z);
        z += step;
        if step.abs() <= precision * z.abs().max(1e-300) {
            break;
        }
    }
    z
}

/// The z at or below which a fraction `p` of the distribution lies.
pub fn quantile(p: f64) -> f64 {
    -upper_quantile(p)
}

/// A first guess for the upper quantile. In the tail, it comes from inverting Mills' ratio once:
/// Q(z) is close to exp(-z^2/2) / (z sqrt(2 pi)) there (Mills, Biometrika 18, 1926). Near the
/// middle, it comes from the density at 0.
fn initial_guess(tail: f64) -> f64 {
    if tail > 0.1 {
        return (0.5 - tail) / density(0.0);
    }
    let rough = (-2.0 * tail.ln()).sqrt();
    (rough * rough - 2.0 * (rough * (2.0 * PI).sqrt()).ln()).max(1.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R 4.2.2: `sprintf("%.17g", pnorm(-z))` and `qnorm(p)`.
    #[test]
    fn tails_equal_those_of_r() {
        let areas = [
            (0.0, 0.5),
            (1.0, 0.158655253931457),
            (1.96, 0.02499789514822043),
            (6.0, 9.865_876_450_376_98e-10),
            (20.0, 2.753_624_118_606_234e-89),
        ];
        for (z, area) in areas {
            assert!((upper_tail(z) / area - 1.0).abs() < 1e-13, "z = {z}");
        }
    }

    #[test]
    fn quantiles_invert_the_tail_over_three_hundred_decades() {
        for exponent in 1..300 {
            let tail = 10f64.powi(-exponent);
            let z = upper_quantile(tail);
            assert!((upper_tail(z) / tail - 1.0).abs() < 1e-11, "tail 1e-{exponent}");
        }
        assert!((upper_quantile(0.025) - 1.959963984540054).abs() < 1e-14);
        assert_eq!(upper_quantile(0.5), 0.0);
        assert_eq!(quantile(0.75), -quantile(0.25));
    }

    #[test]
    fn quantiles_are_nan_for_invalid_tails_and_infinite_for_zero_and_one() {
        assert!(upper_quantile(-0.1).is_nan());
        assert!(upper_quantile(f64::NAN).is_nan());
        assert_eq!(upper_quantile(0.0), f64::INFINITY);
        assert_eq!(upper_quantile(1.0), f64::NEG_INFINITY);
    }
}
