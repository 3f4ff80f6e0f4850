//! Computes the smallest change that a number of runs can show, and the number of runs needed to
//! decide a case.
//!
//! Both follow from the normal approximation. The standard error is derived from the test's own
//! interval. Unlike the coefficient of variation, this error accounts for blocks and is robust to
//! outliers.

use crate::policy::{JudgingPolicy, planned_units};
use crate::warnings::to_percent;
use crate::{AnalysisSettings, TestingCorrection};
use speedwell_model::SessionDesign;
use speedwell_stats::distribution::normal;
use speedwell_stats::test::stratified::MINIMUM_PER_SIDE;

/// Probability of finding a change of the detectable size.
const DETECTION_POWER: f64 = 0.8;

/// Maximum number of runs per side to suggest. If a case needs more, no number is suggested.
const MAX_PLANNED_RUNS: f64 = 10_000.0;

/// Precision that the runs of one case achieved, from which further runs are planned.
#[derive(Debug, Clone, Copy)]
pub(super) struct AchievedPrecision {
    /// Runs per side used.
    pub runs: usize,
    /// Standard error of the log ratio at this number of runs.
    pub error: f64,
}

impl AchievedPrecision {
    /// Smallest change, as a fraction, that this many runs find with a probability of 80 % at the
    /// error rate `alpha`.
    pub fn detectable_change(&self, alpha: f64) -> f64 {
        (self.error * power_quantiles(alpha)).exp_m1()
    }

    /// Approximate number of runs per side needed to show that the log ratio differs from a limit
    /// `distance` away, at the error rate `alpha`. `None` if that takes hopelessly many runs, or if
    /// `distance` is not positive.
    pub fn runs_for(&self, distance: f64, alpha: f64) -> Option<usize> {
        let growth = (self.error * power_quantiles(alpha) / distance).powi(2);
        let required_runs = self.runs as f64 * growth;
        (distance > 0.0 && required_runs <= MAX_PLANNED_RUNS).then(|| required_runs.ceil() as usize)
    }
}

/// Distance from the limit, in standard errors, at which a change is found with a probability of
/// [`DETECTION_POWER`].
fn power_quantiles(alpha: f64) -> f64 {
    normal::upper_quantile(0.5 * alpha) + normal::quantile(DETECTION_POWER)
}

/// How far the log ratio of a change lies beyond `threshold`; negative if it lies within. Both
/// arguments are fractions.
pub(super) fn distance_to_change(change: f64, threshold: f64) -> f64 {
    change.ln_1p().abs() - threshold.ln_1p()
}

/// How far the log ratio of a change lies within `delta`; negative if it lies beyond. Both
/// arguments are fractions.
pub(super) fn distance_to_same(change: f64, delta: f64) -> f64 {
    delta.ln_1p() - change.ln_1p().abs()
}

/// How the smallest two-sided p value of a test depends on the number of runs. This p value is 2
/// divided by the number of ways to assign the labels "baseline" and "candidate" to the runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SmallestP {
    /// Labels are assigned within blocks of this many runs per side.
    Blocks(usize),
    /// Labels are assigned among all runs.
    Unmatched,
    /// The p value has no lower limit, but fewer than [`MINIMUM_PER_SIDE`] runs cannot give a
    /// verdict.
    Unbounded,
}

impl SmallestP {
    /// Smallest p value for these numbers of runs of the baseline and of the candidate. In blocks,
    /// the two numbers are equal.
    pub fn for_runs(self, [baseline, candidate]: [usize; 2]) -> f64 {
        let runs = baseline.min(candidate);
        if runs == 0 {
            return 1.0;
        }
        match self {
            SmallestP::Blocks(block) => {
                let assignments = |runs: usize| label_assignments(runs, runs);
                2.0 / (assignments(block).powi((runs / block) as i32) * assignments(runs % block))
            }
            SmallestP::Unmatched => 2.0 / label_assignments(baseline, candidate),
            SmallestP::Unbounded if runs < MINIMUM_PER_SIDE => 1.0,
            SmallestP::Unbounded => 0.0,
        }
    }

    /// Minimum number of runs per side that can give a p value of at most `level`.
    pub fn fewest_runs(self, level: f64) -> usize {
        let step = match self {
            SmallestP::Blocks(block) => block,
            _ => 1,
        };
        let mut runs = step;
        while self.for_runs([runs; 2]) > level.max(0.0) {
            runs += step;
        }
        runs
    }
}

/// Number of ways to choose which runs belong to the smaller side.
fn label_assignments(baseline: usize, candidate: usize) -> f64 {
    let factors =
        (1..=baseline.min(candidate)).map(|k| (baseline.max(candidate) + k) as f64 / k as f64);
    factors.product::<f64>()
}

/// Maximum number of comparisons that Holm's correction may cover if at least one of them is to be
/// decidable by tests whose smallest possible p value is `smallest_p`.
pub(super) fn most_comparisons(smallest_p: f64, alpha: f64) -> usize {
    (alpha / smallest_p * (1.0 + 1e-9)).floor() as usize
}

/// Explains how many runs a test needs to give a small enough p value for `tests` comparisons that
/// are corrected together.
pub(super) fn explain_too_few(
    policy: &JudgingPolicy,
    runs: usize,
    smallest: f64,
    tests: usize,
) -> String {
    let decidable = most_comparisons(smallest, policy.alpha).min(tests);
    let sufficient_runs = policy.smallest_p().fewest_runs(policy.alpha / tests.max(1) as f64);
    let conclusion = match decidable {
        0 => "nothing".to_owned(),
        1 => "at most 1 comparison".to_owned(),
        count => format!("at most {count} comparisons"),
    };
    let total_note = if decidable == 0 || tests < 2 {
        String::new()
    } else {
        format!(", and there are {tests}")
    };
    format!("{runs} a side can decide {conclusion}{total_note}; {sufficient_runs} are enough")
}

/// Explains that the fixed number of runs in `design` is too small to show any change among this
/// many comparisons. Returns `None` if the number suffices or is not fixed.
pub fn explain_out_of_reach(
    design: &SessionDesign,
    settings: &AnalysisSettings,
    comparisons: usize,
) -> Option<String> {
    let runs = planned_units(design)?;
    let policy = JudgingPolicy::new(design, settings);
    let unit = policy.unit;
    let tests = match settings.correction {
        TestingCorrection::Holm | TestingCorrection::BenjaminiHochberg => comparisons,
        TestingCorrection::None => 1,
    };
    let sufficient_runs = || {
        let level = policy.alpha / tests as f64;
        policy.smallest_p().fewest_runs(level)
    };
    let smallest = policy.smallest_p().for_runs([runs; 2]);
    // Benjamini-Hochberg finds changes only if at least this many cases change at once.
    let at_once = (smallest * tests as f64 / policy.alpha * (1.0 - 1e-9)).ceil() as usize;
    let reason = match () {
        () if comparisons == 0 => return None,
        () if smallest > policy.alpha => {
            let show = if runs == 1 { "shows" } else { "show" };
            let runs = unit.format_count(runs);
            format!("{runs} a side {show} nothing: the test needs more")
        }
        () if at_once <= 1 => return None,
        () => {
            let changes = if settings.correction == TestingCorrection::BenjaminiHochberg
                && at_once <= tests
            {
                format!("fewer than {at_once} changes")
            } else {
                "any change".into()
            };
            let digits = (1.0 - smallest.log10().floor()).max(0.0) as usize;
            format!(
                "{} a side cannot show {changes} among {tests} comparisons: the smallest possible p value, \
                 {smallest:.digits$}, times {tests} is above {} %",
                unit.format_count(runs),
                to_percent(policy.alpha)
            )
        }
    };
    Some(format!("{reason}. --{} {} is enough.", unit.plural_noun(), sufficient_runs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_stats::effect::{minimum_detectable_effect, runs_per_side};

    /// Standard error of the rank test's shift, for normal noise of this variation.
    fn precision(runs: usize, variation: f64) -> AchievedPrecision {
        let error = variation * (2.0 / (0.955 * runs as f64)).sqrt();
        AchievedPrecision { runs, error }
    }

    #[test]
    fn power_for_normal_noise_matches_the_planning_formulas() {
        let achieved = precision(30, 0.02);
        let reference = minimum_detectable_effect(0.02, 30, 0.05, 0.8);
        assert!((achieved.detectable_change(0.05) / reference - 1.0).abs() < 1e-3);
        assert!(
            (achieved.detectable_change(0.05) - 0.0149).abs() < 1e-4,
            "docs/why/statistics.md, power planning"
        );

        let total = precision(8, 0.05).runs_for(0.02f64.ln_1p(), 0.05).unwrap();
        assert!(total.abs_diff(runs_per_side(0.05, 0.02, 0.05, 0.8)) <= 1, "{total}");
    }

    #[test]
    fn stricter_levels_need_more_runs_and_hopeless_distances_give_none() {
        let achieved = precision(10, 0.02);
        assert!(achieved.runs_for(0.5, 0.05).unwrap() <= 1);
        assert!(achieved.runs_for(0.02, 0.05).unwrap() < achieved.runs_for(0.02, 0.001).unwrap());
        assert_eq!(achieved.runs_for(0.0001, 0.05), None);
        assert_eq!(achieved.runs_for(-0.1, 0.05), None);
        assert_eq!(achieved.runs_for(f64::NAN, 0.05), None);
    }

    #[test]
    fn the_smallest_p_value_limits_what_few_runs_can_show() {
        // Blocks of two and two: 2 / 6^4 = .0015, 2 / 6^5 = .00026, 2 / 6^7 = 7.1e-6.
        let blocks = SmallestP::Blocks(2);
        assert_eq!(blocks.for_runs([8; 2]), 2.0 / 1296.0);
        assert_eq!(blocks.for_runs([9; 2]), 1.0 / 1296.0, "one more run on each side");
        // R: `wilcox.test(1:8, 9:16)$p.value` is 1.554e-4.
        assert!((SmallestP::Unmatched.for_runs([8; 2]) - 2.0 / 12_870.0).abs() < 1e-18);
        assert!((SmallestP::Unmatched.for_runs([12, 3]) - 2.0 / 455.0).abs() < 1e-15);
        assert_eq!(SmallestP::Unmatched.for_runs([12, 0]), 1.0);
        assert_eq!(blocks.fewest_runs(0.05), 6, "2 / 6^3");
        assert_eq!(blocks.fewest_runs(0.05 / 32.0), 8);
        assert_eq!(blocks.fewest_runs(0.05 / 33.0), 10);
        assert_eq!(blocks.fewest_runs(0.05 / 3000.0), 14);
        assert_eq!(SmallestP::Unmatched.fewest_runs(0.05), 4, "2 / 70");
        assert_eq!(SmallestP::Unmatched.fewest_runs(0.05 / 40.0), 7, "2 / 3432");
        assert_eq!(SmallestP::Unbounded.fewest_runs(0.05), MINIMUM_PER_SIDE);
    }

    #[test]
    fn few_runs_can_decide_only_a_limited_number_of_comparisons() {
        let comparisons_for =
            |runs: usize| most_comparisons(SmallestP::Unmatched.for_runs([runs; 2]), 0.05);
        // 2/20, 2/70, 2/252, 2/924.
        assert_eq!([3, 4, 5, 6].map(comparisons_for), [0, 1, 6, 23]);
    }

    #[test]
    fn distances_to_the_limits_are_logarithmic() {
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
