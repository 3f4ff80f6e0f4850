//! Plans the number of runs: computes how many runs are needed to detect a change, and which change
//! a given number of runs can detect.
//!
//! Uses the normal approximation of the rank test. Changes and coefficients of variation are
//! fractions: 0.02 is 2 %. Start at [`runs_per_side`].

use crate::distribution::normal;

/// Asymptotic efficiency of the rank test relative to the t-test for normal noise: 3 / pi, to three
/// digits (Lehmann, Nonparametrics, 1975, section 2.4). The efficiency is larger for heavier tails,
/// so plans err on the safe side.
const EFFICIENCY: f64 = 0.955;

/// Number of runs per side, at least 1, with which a two-sided test at `alpha` detects a relative
/// `change` with probability `power`. Each side has the coefficient of variation `cv`.
///
/// 2 (z(alpha/2) + z(power))^2 (cv / ln(1 + change))^2 / efficiency, rounded up. A planner should
/// not go below [`MINIMUM_PER_SIDE`](crate::test::stratified::MINIMUM_PER_SIDE).
/// A change of 0 needs `usize::MAX` runs.
pub fn runs_per_side(cv: f64, change: f64, alpha: f64, power: f64) -> usize {
    let effect = change.ln_1p().abs() / cv;
    let runs = 2.0 * quantile_sum(alpha, power).powi(2) / (effect * effect * EFFICIENCY);
    // An effect of 0 gives infinity, which this conversion turns into `usize::MAX`.
    (runs.ceil() as usize).max(1)
}

/// The smallest relative change that `n` runs per side detect with probability `power`: the inverse
/// of [`runs_per_side`].
pub fn minimum_detectable_effect(cv: f64, n: usize, alpha: f64, power: f64) -> f64 {
    let effect = quantile_sum(alpha, power) * (2.0 / (n as f64 * EFFICIENCY)).sqrt();
    (effect * cv).exp_m1()
}

/// Required distance of a change from zero, in standard errors. One part of the sum is for
/// significance, the other for power.
fn quantile_sum(alpha: f64, power: f64) -> f64 {
    normal::upper_quantile(0.5 * alpha) + normal::quantile(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values from R 4.2.2: 2 (qnorm(.975) + qnorm(.8))^2 (cv / log(1 + d))^2 / .955,
    /// rounded up.
    #[test]
    fn planned_runs_follow_the_formula() {
        let changes = [0.005, 0.01, 0.02, 0.05, 0.10];
        let table = [
            (0.005, [17, 5, 2, 1, 1]),
            (0.01, [67, 17, 5, 1, 1]),
            (0.02, [265, 67, 17, 3, 1]),
            (0.05, [1652, 416, 105, 18, 5]),
            (0.10, [6608, 1661, 420, 70, 19]),
        ];
        for (cv, expected) in table {
            let runs = changes.map(|change| runs_per_side(cv, change, 0.05, 0.8));
            assert_eq!(runs, expected, "cv {cv}");
        }
    }

    #[test]
    fn thirty_runs_detect_an_effect_of_three_quarters_of_the_variation() {
        for (cv, percent) in [(0.005, 0.37), (0.01, 0.74), (0.02, 1.49), (0.05, 3.8), (0.1, 7.7)] {
            let effect = 100.0 * minimum_detectable_effect(cv, 30, 0.05, 0.8);
            assert!((effect / percent - 1.0).abs() < 0.01, "cv {cv}: {effect}");
        }
    }

    #[test]
    fn planning_for_the_detectable_effect_gives_back_the_runs() {
        for n in [8, 13, 30, 77, 400] {
            let effect = minimum_detectable_effect(0.03, n, 0.05, 0.9);
            assert!(runs_per_side(0.03, effect, 0.05, 0.9).abs_diff(n) <= 1);
        }
        assert_eq!(runs_per_side(0.01, 0.0, 0.05, 0.8), usize::MAX);
    }

    #[test]
    fn a_loss_needs_as_many_runs_as_the_gain_that_undoes_it() {
        assert_eq!(runs_per_side(0.05, 0.25, 0.05, 0.8), runs_per_side(0.05, -0.2, 0.05, 0.8));
    }
}
