//! Implements Welch's t-test for two groups with unequal variances (Biometrika 34, 1947).
//!
//! The test is defined in the same cases as R's `t.test`, and gives the same values. Start at
//! [`welch`].

use crate::describe::{mean, variance};
use crate::distribution::student_t;
use std::fmt;

/// Result of Welch's test of the difference candidate - baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WelchTest {
    /// Mean of the baseline.
    pub mean_baseline: f64,
    /// Mean of the candidate.
    pub mean_candidate: f64,
    /// Standard error of the difference of the means.
    pub standard_error: f64,
    /// Difference over its standard error; positive when the candidate's mean is larger.
    pub t: f64,
    /// Degrees of freedom (Welch-Satterthwaite), not rounded.
    pub df: f64,
    /// Two-sided p-value.
    pub p: f64,
}

impl WelchTest {
    /// Half width of the interval of the difference at `risk`, for instance 0.05 for 95 %.
    pub fn half_width(&self, risk: f64) -> f64 {
        student_t::upper_quantile(0.5 * risk, self.df) * self.standard_error
    }
}

/// Why Welch's test is not defined for the given values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WelchError {
    /// A side has fewer than 2 values.
    TooFew,
    /// The values are constant, or vary only by rounding.
    Constant,
}

impl fmt::Display for WelchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WelchError::TooFew => "a side has fewer than 2 values",
            WelchError::Constant => "the values are essentially constant",
        })
    }
}

impl std::error::Error for WelchError {}

/// Tests whether the means of two groups differ.
///
/// # Errors
///
/// [`WelchError::TooFew`] below 2 values per side; [`WelchError::Constant`] by R's rule, when the
/// standard error is below 10 machine epsilons of the larger mean.
pub fn welch(baseline: &[f64], candidate: &[f64]) -> Result<WelchTest, WelchError> {
    if baseline.len() < 2 || candidate.len() < 2 {
        return Err(WelchError::TooFew);
    }
    let (mean_baseline, mean_candidate) = (mean(baseline), mean(candidate));
    let share = |values: &[f64]| variance(values) / values.len() as f64;
    let (a, b) = (share(baseline), share(candidate));
    let standard_error = (a + b).sqrt();
    let scale = mean_baseline.abs().max(mean_candidate.abs());
    if standard_error < 10.0 * f64::EPSILON * scale || standard_error == 0.0 {
        return Err(WelchError::Constant);
    }
    let freedom = |values: &[f64]| (values.len() - 1) as f64;
    // Divide both by their sum first; otherwise, the squares of tiny variances would underflow.
    let (a, b) = (a / (a + b), b / (a + b));
    let df = 1.0 / (a * a / freedom(baseline) + b * b / freedom(candidate));
    let t = (mean_candidate - mean_baseline) / standard_error;
    let p = student_t::two_sided(t, df);
    Ok(WelchTest { mean_baseline, mean_candidate, standard_error, t, df, p })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_a_side_is_too_few() {
        assert_eq!(welch(&[1.0], &[1.0, 2.0]), Err(WelchError::TooFew));
        assert_eq!(welch(&[1.0, 2.0], &[]), Err(WelchError::TooFew));
    }

    #[test]
    fn constant_and_nearly_constant_values_are_refused_as_in_r() {
        assert_eq!(welch(&[5.0, 5.0], &[5.0, 5.0]), Err(WelchError::Constant));
        assert_eq!(welch(&[0.0, 0.0], &[0.0, 0.0]), Err(WelchError::Constant));
        let nearly = [1.0, 1.0 + f64::EPSILON];
        assert_eq!(welch(&nearly, &nearly), Err(WelchError::Constant));
        assert!(welch(&[1.0, 1.0 + 1e-14], &[1.0, 1.0 + 1e-14]).is_ok());
    }

    #[test]
    fn swapping_the_sides_changes_only_the_sign() {
        let (a, b) = ([1.0, 2.0, 4.0], [3.0, 5.0, 8.0, 8.5]);
        let (forth, back) = (welch(&a, &b).unwrap(), welch(&b, &a).unwrap());
        assert_eq!(forth.t, -back.t);
        assert_eq!(forth.p, back.p);
        assert!(forth.t > 0.0);
    }

    #[test]
    fn the_interval_touches_zero_exactly_at_the_p_value() {
        let test = welch(&[1.0, 2.0, 4.0], &[3.0, 5.0, 8.0, 8.5]).unwrap();
        let difference = test.mean_candidate - test.mean_baseline;
        assert!((test.half_width(test.p) / difference - 1.0).abs() < 1e-12);
    }
}
