//! Implements Welch's t-test for two groups with unequal variances (Biometrika 34, 1947).
//!
//! The test is defined in the same cases as R's `t.test`, and gives the same values. Start at
//! [`welch`].

use crate::describe::{mean, variance};
use crate::distribution::{f_upper_tail, student_t};

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
    /// Half width of the interval of the difference at `risk`, for instance 0.05 for 95%.
    pub fn half_width(&self, risk: f64) -> f64 {
        student_t::upper_quantile(0.5 * risk, self.df) * self.standard_error
    }
}

/// Why Welch's test is not defined for the given values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WelchError {
    /// A side has fewer than 2 values.
    #[error("a side has fewer than 2 values")]
    TooFew,
    /// The values are constant, or vary only by rounding.
    #[error("the values are essentially constant")]
    Constant,
}

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

// Implements Welch's analysis of variance for several groups with unequal variances (Biometrika 38,
// 1951). The analysis decides whether the means of two or more groups differ by more than chance
// allows. It gives the same values as R's `oneway.test`.

/// Result of Welch's analysis of variance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WelchAnova {
    /// Scatter of the groups' means, relative to the scatter expected if the true means are equal.
    pub f: f64,
    /// Degrees of freedom between groups: number of groups minus one.
    pub between_df: f64,
    /// Degrees of freedom within groups (Welch), not rounded.
    pub within_df: f64,
    /// Probability of an F this large or larger if the means are equal.
    pub p: f64,
}

/// Tests whether the means of groups differ. For two groups this is [`welch()`](super::welch()),
/// with F = t².
///
/// # Errors
///
/// [`WelchError::TooFew`] if there are fewer than two groups, or a group has fewer than two values.
/// [`WelchError::Constant`] if the standard error of a group's mean is below 10 machine epsilons of
/// that mean (the rule of R's `t.test`), because such a group would have all the weight.
pub fn welch_anova(groups: &[&[f64]]) -> Result<WelchAnova, WelchError> {
    if groups.len() < 2 || groups.iter().any(|group| group.len() < 2) {
        return Err(WelchError::TooFew);
    }
    let summaries: Vec<(f64, f64, f64)> = (groups.iter())
        .map(|group| {
            let squared_error = variance(group) / group.len() as f64;
            (mean(group), squared_error, (group.len() - 1) as f64)
        })
        .collect();
    let is_constant = |&(mean, squared_error, _): &(f64, f64, f64)| {
        squared_error == 0.0 || squared_error.sqrt() < 10.0 * f64::EPSILON * mean.abs()
    };
    if summaries.iter().any(is_constant) {
        return Err(WelchError::Constant);
    }
    // Divide all weights by the largest: only their ratios matter, and the reciprocals of tiny
    // variances would overflow.
    let smallest = (summaries.iter())
        .map(|(_, squared_error, _)| *squared_error)
        .fold(f64::INFINITY, f64::min);
    let weight = |squared_error: f64| smallest / squared_error;
    let total: f64 = summaries.iter().map(|&(_, e, _)| weight(e)).sum();
    let shares = || summaries.iter().map(|&(_, e, _)| weight(e) / total);
    let center: f64 =
        (summaries.iter().zip(shares())).map(|(&(mean, _, _), share)| share * mean).sum();
    let k = groups.len() as f64;
    let scatter: f64 = (summaries.iter())
        .map(|&(mean, squared_error, _)| (mean - center).powi(2) / squared_error)
        .sum();
    let lost = (summaries.iter().zip(shares()))
        .map(|(&(_, _, freedom), share)| (1.0 - share).powi(2) / freedom)
        .sum::<f64>()
        / (k * k - 1.0);
    let f = scatter / ((k - 1.0) * (1.0 + 2.0 * (k - 2.0) * lost));
    let (between_df, within_df) = (k - 1.0, 1.0 / (3.0 * lost));
    Ok(WelchAnova { f, between_df, within_df, p: f_upper_tail(f, between_df, within_df) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::welch;

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

    #[test]
    fn two_groups_give_welchs_t_test() {
        let (a, b) = ([1.0, 2.0, 4.0], [3.0, 5.0, 8.0, 8.5]);
        let (several, two) = (welch_anova(&[&a, &b]).unwrap(), welch(&a, &b).unwrap());
        assert!((several.f / (two.t * two.t) - 1.0).abs() < 1e-12);
        assert!((several.within_df / two.df - 1.0).abs() < 1e-12);
        assert!((several.p / two.p - 1.0).abs() < 1e-12);
    }

    #[test]
    fn neither_order_nor_unit_nor_origin_matters() {
        let groups: [&[f64]; 3] = [&[1.0, 2.0, 4.0], &[3.0, 5.0, 8.0], &[2.5, 2.0, 6.0, 7.0]];
        let wanted = welch_anova(&groups).unwrap();
        let turned = welch_anova(&[groups[2], groups[0], groups[1]]).unwrap();
        let moved: Vec<Vec<f64>> = (groups.iter())
            .map(|group| group.iter().map(|value| 1e-100 * (value + 64.0)).collect())
            .collect();
        let moved: Vec<&[f64]> = moved.iter().map(Vec::as_slice).collect();
        for other in [turned, welch_anova(&moved).unwrap()] {
            assert!((other.f / wanted.f - 1.0).abs() < 1e-9, "{other:?}");
            assert!((other.p / wanted.p - 1.0).abs() < 1e-9, "{other:?}");
        }
    }

    #[test]
    fn constant_groups_and_too_few_values_are_refused() {
        let group = [1.0, 2.0, 4.0];
        assert_eq!(welch_anova(&[&group]), Err(WelchError::TooFew));
        assert_eq!(welch_anova(&[&group, &[1.0]]), Err(WelchError::TooFew));
        let constant = [3.0, 3.0, 3.0];
        assert_eq!(welch_anova(&[&group, &constant]), Err(WelchError::Constant));
    }
}
