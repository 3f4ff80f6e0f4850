//! Implements Welch's analysis of variance for several groups with unequal variances (Biometrika
//! 38, 1951).
//!
//! The analysis decides whether the means of two or more groups differ by more than chance allows.
//! It gives the same values as R's `oneway.test`. Start at [`welch_anova`].

use super::WelchError;
use crate::describe::{mean, variance};
use crate::distribution::mean_squares::f_upper_tail;

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
