//! What a number of runs can show: the smallest change that they find, and how many runs a question needs.
//!
//! Both follow from the normal approximation, with the standard error that the test's own interval implies: unlike the
//! coefficient of variation it knows what blocks took away and what outliers could not add.

use crate::policy::{Policy, planned_units};
use crate::warnings::percent;
use crate::{Correction, Method, Settings};
use speedwell_model::Design;
use speedwell_stats::distribution::normal;
use speedwell_stats::test::stratified::MINIMUM_PER_SIDE;

/// Share of cases in which a change of the detectable size is found.
const POWER: f64 = 0.8;

/// A question that needs more runs per side than this is hopeless by measuring on.
const MOST_RUNS: f64 = 10_000.0;

/// What is known of one case when one asks for more.
#[derive(Debug, Clone, Copy)]
pub(super) struct Precision {
    /// Runs per side that were looked at.
    pub runs: usize,
    /// Standard error of the logarithm of the ratio at this number of runs.
    pub error: f64,
}

impl Precision {
    /// The smallest change, as a share, that these runs show in 80 % of cases at the error rate `alpha`.
    pub fn detectable(&self, alpha: f64) -> f64 {
        (self.error * quantiles(alpha)).exp_m1()
    }

    /// About how many runs per side show at the error rate `alpha` that the logarithm of the ratio differs from a limit
    /// that it is `distance` away from. `None` if hopeless.
    pub fn runs_for(&self, distance: f64, alpha: f64) -> Option<usize> {
        let growth = (self.error * quantiles(alpha) / distance).powi(2);
        let needed = self.runs as f64 * growth;
        (distance > 0.0 && needed <= MOST_RUNS).then(|| needed.ceil() as usize)
    }
}

/// How many standard errors away a change must be: once to be called, once to be called often.
fn quantiles(alpha: f64) -> f64 {
    normal::upper_quantile(0.5 * alpha) + normal::quantile(POWER)
}

/// How far the logarithm of a ratio lies beyond `threshold`; negative within it. All as shares.
pub(super) fn distance_to_change(change: f64, threshold: f64) -> f64 {
    change.ln_1p().abs() - threshold.ln_1p()
}

/// How far the logarithm of a ratio lies within `delta`; negative beyond it. All as shares.
pub(super) fn distance_to_same(change: f64, delta: f64) -> f64 {
    delta.ln_1p() - change.ln_1p().abs()
}

/// The smallest two-sided p value of `runs` runs per side in blocks of `block` runs of either: 2 of all the ways to deal
/// out the labels.
fn smallest_p(runs: usize, block: usize) -> f64 {
    let ways = |runs: usize| {
        let factors = (1..=runs).map(|k| (runs + k) as f64 / k as f64);
        factors.product::<f64>()
    };
    2.0 / (ways(block).powi((runs / block) as i32) * ways(runs % block))
}

/// The fewest runs per side, in blocks of `block` runs of either, whose smallest p value is at most `level`.
pub(super) fn fewest_runs(level: f64, block: usize) -> usize {
    let mut runs = 0;
    while smallest_p(runs, block) > level.max(0.0) {
        runs += block;
    }
    runs
}

/// That the fixed number of runs in `design` cannot show a change among this many comparisons, whatever the runs will be;
/// `None` if it can, or where the runs are not limited.
pub fn out_of_reach(design: &Design, settings: &Settings, comparisons: usize) -> Option<String> {
    let runs = planned_units(design)?;
    let policy = Policy::new(design, settings);
    let unit = policy.unit;
    let block = match policy.method {
        Method::Rank | Method::SignedRank => policy.runs_per_block(),
        Method::MannWhitney => runs,
        // Their p values have no lower limit, or not one that more runs would change.
        Method::Welch | Method::Bootstrap => return None,
    };
    let tests = match settings.correction {
        Correction::Holm | Correction::BenjaminiHochberg => comparisons,
        Correction::None => 1,
    };
    let enough = || {
        let level = policy.alpha / tests as f64;
        let reaches = |runs: &usize| smallest_p(*runs, *runs) <= level;
        let needed = match policy.method {
            Method::Rank | Method::SignedRank => fewest_runs(level, block),
            _ => (1..).find(reaches).unwrap_or_default(),
        };
        needed.max(MINIMUM_PER_SIDE)
    };
    let smallest = smallest_p(runs, block);
    // Under Benjamini and Hochberg's correction so many changes are found together or not at all.
    let at_once = (smallest * tests as f64 / policy.alpha * (1.0 - 1e-9)).ceil() as usize;
    let why = match () {
        () if comparisons == 0 => return None,
        () if runs < MINIMUM_PER_SIDE => {
            let show = if runs == 1 { "shows" } else { "show" };
            let runs = unit.counted(runs);
            format!("{runs} a side {show} nothing: below {MINIMUM_PER_SIDE} nothing is claimed")
        }
        () if at_once <= 1 => return None,
        () => {
            let few = if settings.correction == Correction::BenjaminiHochberg && at_once <= tests {
                format!("fewer than {at_once} changes")
            } else {
                "any change".into()
            };
            let digits = (1.0 - smallest.log10().floor()).max(0.0) as usize;
            format!(
                "{} a side cannot show {few} among {tests} comparisons: the smallest p value, \
                 {smallest:.digits$}, times {tests} is above {} %",
                unit.counted(runs),
                percent(policy.alpha)
            )
        }
    };
    Some(format!(
        "{why}. --{} {} is enough.",
        unit.plural(),
        enough()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_stats::power::{minimum_detectable_effect, runs_per_side};

    /// The standard error of the rank test's shift, for normal noise of this variation.
    fn precision(runs: usize, variation: f64) -> Precision {
        let error = variation * (2.0 / (0.955 * runs as f64)).sqrt();
        Precision { runs, error }
    }

    #[test]
    fn for_normal_noise_the_planning_formulas_result() {
        let known = precision(30, 0.02);
        let reference = minimum_detectable_effect(0.02, 30, 0.05, 0.8);
        assert!((known.detectable(0.05) / reference - 1.0).abs() < 1e-3);
        assert!(
            (known.detectable(0.05) - 0.0149).abs() < 1e-4,
            "docs/why/statistics.md, power planning"
        );

        let total = precision(8, 0.05).runs_for(0.02f64.ln_1p(), 0.05).unwrap();
        assert!(
            total.abs_diff(runs_per_side(0.05, 0.02, 0.05, 0.8)) <= 1,
            "{total}"
        );
    }

    #[test]
    fn hopeless_questions_have_no_answer_and_stricter_ones_need_more() {
        let known = precision(10, 0.02);
        assert!(known.runs_for(0.5, 0.05).unwrap() <= 1);
        assert!(known.runs_for(0.02, 0.05).unwrap() < known.runs_for(0.02, 0.001).unwrap());
        assert_eq!(known.runs_for(0.0001, 0.05), None);
        assert_eq!(known.runs_for(-0.1, 0.05), None);
        assert_eq!(known.runs_for(f64::NAN, 0.05), None);
    }

    #[test]
    fn the_smallest_p_value_limits_what_few_runs_can_show() {
        // Blocks of two and two: 2 / 6^4 = .0015, 2 / 6^5 = .00026, 2 / 6^7 = 7.1e-6.
        assert_eq!(smallest_p(8, 2), 2.0 / 1296.0);
        assert_eq!(smallest_p(9, 2), 1.0 / 1296.0, "one more run of either");
        // R: `wilcox.test(1:8, 9:16)$p.value` is 1.554e-4.
        assert!((smallest_p(8, 8) - 2.0 / 12_870.0).abs() < 1e-18);
        assert_eq!(fewest_runs(0.05, 2), 6);
        assert_eq!(fewest_runs(0.05 / 32.0, 2), 8);
        assert_eq!(fewest_runs(0.05 / 33.0, 2), 10);
        assert_eq!(fewest_runs(0.05 / 3000.0, 2), 14);
    }

    #[test]
    fn distances_are_those_to_the_limits() {
        assert!(
            (distance_to_same(0.001, 0.02) - (0.02f64.ln_1p() - 0.001f64.ln_1p())).abs() < 1e-15
        );
        assert!((distance_to_change(0.019, 0.0) - 0.019f64.ln_1p()).abs() < 1e-15);
        assert!(
            (distance_to_change(-0.08, 0.05) - (0.92f64.ln().abs() - 0.05f64.ln_1p())).abs()
                < 1e-15
        );
    }
}
