//! Defines the user settings of an analysis and the policy by which all cases of one comparison are
//! judged, and computes which changes a given number of runs can show under this policy.
//!
//! Derives the test, the error rate, the looks (interim analyses) and the limits of "same" from the
//! session's design and the user's [`AnalysisSettings`]. Where the user gives no setting, the
//! design decides. The stated error rate holds only for choices that the design fixed before
//! measuring. Does not look at the measured data.
//!
//! The smallest change that a number of runs can show, and the number of runs needed to decide a
//! case, follow from the normal approximation. The standard error is derived from the test's own
//! interval. Unlike the coefficient of variation, this error accounts for blocks and is robust to
//! outliers.

use crate::builds::IndependentUnit;
use crate::paired::RunMatching;
use crate::{StatisticalMethod, TestingCorrection, exact};
use serde::{Deserialize, Serialize};
use speedwell_model::{Metric, MetricDirection, RunOrder, SessionDesign, StoppingDesign};
use speedwell_stats::distribution::normal;
use speedwell_stats::sequential::{self, DEFAULT_DELTA, DesignLook, RepeatedP};
use speedwell_stats::test::stratified::MINIMUM_PER_SIDE;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Exponent of the spending function alpha t^rho (Kim and DeMets, Biometrika 74, 1987).
const SPENDING_EXPONENT: f64 = 2.0;

/// How the cases of one comparison are judged.
#[derive(Debug, Clone)]
pub(super) struct JudgingPolicy {
    pub method: StatisticalMethod,
    /// How runs are matched.
    pub matching: RunMatching,
    /// What counts as one independent observation, a run or a build. Sample sizes are numbers of
    /// these units.
    pub unit: IndependentUnit,
    /// Whether the order of the runs was not random, so that the result is only a hint.
    pub indicative: bool,
    /// Error rate of the test.
    pub alpha: f64,
    /// Largest change that still counts as "same", as a fraction.
    pub delta: f64,
    /// Threshold that a change must exceed to be reported, as a fraction; 0 if there is no
    /// threshold.
    pub threshold: f64,
    /// Looks of a session that was measured sequentially.
    pub looks: Option<SequentialLooks>,
    /// Seed of bootstraps.
    pub seed: u64,
    /// Whether the values are counts, which need no statistics if they do not vary.
    pub counts: bool,
}

/// Looks of a sequential design, with the function that computes p values valid after several looks
/// (repeated p values).
#[derive(Debug, Clone)]
pub(super) struct SequentialLooks {
    pub design: sequential::SequentialDesign,
    pub repeated: RepeatedP,
}

/// Significance limit, in two forms.
#[derive(Debug, Clone, Copy)]
pub(super) struct SignificanceLimit {
    /// Two-sided p value.
    pub p: f64,
    /// The same limit as |z|.
    pub z: f64,
}

impl From<&DesignLook> for SignificanceLimit {
    fn from(look: &DesignLook) -> SignificanceLimit {
        SignificanceLimit { p: look.p_limit, z: look.z_limit }
    }
}

impl JudgingPolicy {
    /// Creates the policy for the runs of one session.
    pub fn new(design: &SessionDesign, settings: &AnalysisSettings) -> JudgingPolicy {
        let default = match design.order {
            RunOrder::Blocks => StatisticalMethod::Rank,
            RunOrder::Paired => StatisticalMethod::SignedRank,
            RunOrder::Alternate | RunOrder::Parallel | RunOrder::Imported => {
                StatisticalMethod::MannWhitney
            }
        };
        let method = match settings.method {
            // Imported runs have no blocks for the rank test, and pairs have their own test.
            Some(StatisticalMethod::Rank)
                if matches!(design.order, RunOrder::Imported | RunOrder::Paired) =>
            {
                default
            }
            chosen => chosen.unwrap_or(default),
        };
        let needs_blocks = design.order == RunOrder::Blocks || method == StatisticalMethod::Rank;
        let runs = design.runs_per_block.max(1) as usize;
        let matching = if design.order == RunOrder::Paired {
            RunMatching::Pairs
        } else if needs_blocks {
            RunMatching::in_blocks(runs, planned_units(design))
        } else {
            RunMatching::None
        };
        let threshold = settings.threshold.or(design.threshold);
        let (alpha, delta) = match &design.stopping {
            StoppingDesign::Fixed { .. } => (DEFAULT_ALPHA, DEFAULT_DELTA),
            StoppingDesign::Sequential { alpha, delta, .. } => (*alpha, *delta),
        };
        let alpha = settings.confidence.map_or(alpha, |confidence| 1.0 - confidence);
        let unit = IndependentUnit::new(design);
        let counts = design.counting.is_some();
        JudgingPolicy {
            method,
            matching,
            unit,
            indicative: !matches!(design.order, RunOrder::Blocks | RunOrder::Paired),
            alpha,
            delta: threshold.unwrap_or(if counts { exact::COUNT_DELTA } else { delta }),
            counts,
            threshold: threshold.unwrap_or(0.0),
            looks: SequentialLooks::from_design(design, alpha, unit),
            seed: design.seed,
        }
    }

    /// The policy for `metric`. A time that was measured along with counts gets the policy for
    /// times.
    pub fn for_metric(&self, metric: &Metric) -> Cow<'_, JudgingPolicy> {
        if !self.counts || metric.is_count() {
            return Cow::Borrowed(self);
        }
        let delta = if self.threshold == 0.0 { DEFAULT_DELTA } else { self.threshold };
        Cow::Owned(JudgingPolicy { counts: false, delta, ..self.clone() })
    }

    /// Creates the policy for runs of different sessions, which have no common blocks and did not
    /// run at the same time.
    pub fn for_unmatched(settings: &AnalysisSettings) -> JudgingPolicy {
        let method = match settings.method {
            None | Some(StatisticalMethod::Rank | StatisticalMethod::SignedRank) => {
                StatisticalMethod::MannWhitney
            }
            Some(chosen) => chosen,
        };
        JudgingPolicy {
            method,
            matching: RunMatching::None,
            unit: IndependentUnit::Run,
            indicative: true,
            alpha: settings.confidence.map_or(DEFAULT_ALPHA, |confidence| 1.0 - confidence),
            delta: settings.threshold.unwrap_or(DEFAULT_DELTA),
            threshold: settings.threshold.unwrap_or(0.0),
            looks: None,
            seed: settings.seed,
            counts: false,
        }
    }

    /// Confidence level of the intervals, such as 0.95.
    pub fn confidence(&self) -> f64 {
        1.0 - self.alpha
    }

    /// Limit of a test with a single look.
    pub fn single_limit(&self) -> SignificanceLimit {
        SignificanceLimit { p: self.alpha, z: normal::upper_quantile(0.5 * self.alpha) }
    }

    /// Runs per side in a block; 1 without blocks.
    pub fn runs_per_block(&self) -> usize {
        self.matching.runs_together().unwrap_or(1)
    }

    /// Minimum number of runs per side with which the test can find a change at the error rate
    /// `level`. In a sequential design, this is the number of runs at the first look.
    pub fn fewest_runs(&self, level: f64) -> usize {
        let first = self.looks.as_ref().and_then(SequentialLooks::first_look);
        first.map_or_else(|| self.smallest_p().fewest_runs(level), |look| look.n)
    }

    /// Returns how the smallest possible p value at a single look depends on the number of runs.
    pub fn smallest_p(&self) -> SmallestP {
        match self.method {
            StatisticalMethod::Rank | StatisticalMethod::SignedRank => {
                SmallestP::Blocks(self.runs_per_block())
            }
            StatisticalMethod::MannWhitney => SmallestP::Unmatched,
            StatisticalMethod::Welch | StatisticalMethod::Bootstrap => SmallestP::Unbounded,
        }
    }

    /// Returns the seed of bootstraps for one case. It does not depend on which other cases there
    /// are.
    pub fn seed_for(&self, case_id: &str) -> u64 {
        // FNV-1a (Fowler, Noll and Vo), 64 bits.
        let prime = 0x0100_0000_01b3;
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(prime);
        case_id.bytes().fold(0xcbf2_9ce4_8422_2325 ^ self.seed, mix)
    }
}

impl SequentialLooks {
    /// Rounds looks up to complete blocks, and drops looks with fewer than [`MINIMUM_PER_SIDE`]
    /// units per side. Returns `None` for a fixed number of runs and for invalid looks.
    fn from_design(
        design: &SessionDesign,
        alpha: f64,
        unit: IndependentUnit,
    ) -> Option<SequentialLooks> {
        let StoppingDesign::Sequential { looks, .. } = &design.stopping else { return None };
        let runs_per_block = design.runs_per_block.max(1) as usize;
        let units = |runs: &u32| *runs as usize / unit.runs_per_unit();
        let round_up_to_blocks = |runs: &u32| units(runs).div_ceil(runs_per_block) * runs_per_block;
        let mut looks: Vec<usize> = looks.iter().map(round_up_to_blocks).collect();
        looks.retain(|&runs| runs >= MINIMUM_PER_SIDE);
        looks.dedup();
        let design =
            sequential::SequentialDesign::try_new(&looks, alpha, SPENDING_EXPONENT).ok()?;
        let repeated = RepeatedP::new(&design);
        Some(SequentialLooks { design, repeated })
    }

    /// The first look.
    pub fn first_look(&self) -> Option<DesignLook> {
        self.design.limits().first().copied()
    }
}

/// Number of units per variant, if it was fixed before measuring.
fn planned_units(design: &SessionDesign) -> Option<usize> {
    match design.stopping {
        StoppingDesign::Fixed { .. } if design.shares_builds() => {
            Some(design.layout.builds as usize)
        }
        StoppingDesign::Fixed { runs } => Some(runs as usize),
        StoppingDesign::Sequential { .. } => None,
    }
}

/// Error rate of the test if neither the user nor the design sets one.
const DEFAULT_ALPHA: f64 = 1.0 - AnalysisSettings::DEFAULT_CONFIDENCE;

/// User settings that shape the findings. By default the session's design decides.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AnalysisSettings {
    /// The test; `None` selects the test that matches the execution order of the runs.
    pub method: Option<StatisticalMethod>,
    /// Confidence level of the intervals, such as 0.95; the error rate of the tests is 1 minus this
    /// level. `None` keeps the error rate that was fixed before measuring. If none was fixed, the
    /// level is 0.95.
    pub confidence: Option<f64>,
    /// How the p values of many cases are adjusted.
    pub correction: TestingCorrection,
    /// Smallest change that matters, as a fraction. The whole interval of a better or worse result
    /// lies beyond this threshold. `None` selects the threshold of the design. Without one, every
    /// significant change is reported, and the design's delta decides what is "same".
    pub threshold: Option<f64>,
    /// Names of the metrics to analyze. An empty list selects the primary metric; the name `all`
    /// selects every metric.
    pub metrics: Vec<String>,
    /// Preferred direction by metric name, where the user specifies it.
    #[serde(default)]
    pub better: BTreeMap<String, MetricDirection>,
    /// Name of the baseline variant; `None` selects the baseline of the design.
    pub baseline: Option<String>,
    /// Seed of bootstraps for overall changes, parameter studies, and comparisons of different
    /// sessions. Other bootstraps use the seed in the session's design.
    pub seed: u64,
    /// Whether to judge cases whose benchmark differs between the sides.
    pub with_own_benchmarks: bool,
}

impl AnalysisSettings {
    /// Default confidence level, if neither the user nor the design sets one.
    pub const DEFAULT_CONFIDENCE: f64 = 0.95;

    /// Largest change that counts as "same" without a user-defined threshold, as a fraction.
    pub const DEFAULT_DELTA: f64 = 0.02;

    /// Default looks of the sequential test, in runs per side.
    pub const DEFAULT_LOOKS: [u32; 5] = [8, 14, 20, 26, 32];

    /// Whether all metrics are requested.
    pub fn wants_all_metrics(&self) -> bool {
        self.metrics.iter().any(|name| name == "all")
    }
}

/// Probability of finding a change of the detectable size.
const DETECTION_POWER: f64 = 0.8;

/// Maximum number of runs per side to suggest. If a case needs more, no number is suggested.
const MAX_PLANNED_RUNS: f64 = 10_000.0;

/// Precision that the runs of one case achieved. The number of further runs is derived from it.
#[derive(Debug, Clone, Copy)]
pub(super) struct AchievedPrecision {
    /// Runs per side used.
    pub runs: usize,
    /// Standard error of the log ratio at this number of runs.
    pub error: f64,
}

impl AchievedPrecision {
    /// Smallest change, as a fraction, that this many runs find with a probability of 80% at the
    /// error rate `alpha`.
    pub fn detectable_change(&self, alpha: f64) -> f64 {
        (self.error * power_quantiles(alpha)).exp_m1()
    }

    /// Approximate number of runs per side needed to show, at the error rate `alpha`, that the log
    /// ratio differs from a limit. `distance` is the distance between the log ratio and this limit.
    /// `None` if that takes hopelessly many runs, or if `distance` is not positive.
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
        let step = if let SmallestP::Blocks(block) = self { block } else { 1 };
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

/// Maximum number of comparisons for which Holm's method can still find a difference, if the tests
/// cannot give p values below `smallest_p`.
pub(super) fn most_comparisons(smallest_p: f64, alpha: f64) -> usize {
    (alpha / smallest_p * (1.0 + 1e-9)).floor() as usize
}

/// Explains how many comparisons `runs` runs per side can decide, and how many runs are enough to
/// decide `tests` comparisons that are corrected together.
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
    let is_corrected = settings.correction != TestingCorrection::None;
    let tests = if is_corrected { comparisons } else { 1 };
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
                 {smallest:.digits$}, times {tests} is above {}%",
                unit.format_count(runs),
                to_percent(policy.alpha)
            )
        }
    };
    let sufficient_runs = policy.smallest_p().fewest_runs(policy.alpha / tests as f64);
    Some(format!("{reason}. --{} {sufficient_runs} is enough.", unit.plural_noun()))
}

/// Converts a fraction to percent, without binary rounding noise.
pub(super) fn to_percent(share: f64) -> f64 {
    (share * 1e8).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn design(order: RunOrder, looks: &[u32], runs_per_block: u32) -> SessionDesign {
        let stopping =
            StoppingDesign::Sequential { looks: looks.to_vec(), alpha: 0.01, delta: 0.03 };
        SessionDesign { seed: 9, runs_per_block, ..SessionDesign::new(order, stopping, "old") }
    }

    #[test]
    fn the_design_decides_where_the_user_is_silent() {
        let policy = JudgingPolicy::new(
            &design(RunOrder::Blocks, &[8, 14], 2),
            &AnalysisSettings::default(),
        );
        assert_eq!((policy.method, policy.indicative), (StatisticalMethod::Rank, false));
        assert_eq!((policy.alpha, policy.delta, policy.threshold), (0.01, 0.03, 0.0));
        let settings = AnalysisSettings {
            confidence: Some(0.9),
            threshold: Some(0.05),
            method: Some(StatisticalMethod::Welch),
            ..AnalysisSettings::default()
        };
        let policy = JudgingPolicy::new(&design(RunOrder::Blocks, &[8, 14], 2), &settings);
        assert!((policy.alpha - 0.1).abs() < 1e-12);
        assert_eq!(
            (policy.delta, policy.threshold, policy.method),
            (0.05, 0.05, StatisticalMethod::Welch)
        );
    }

    #[test]
    fn runs_without_randomised_blocks_get_a_test_without_blocks_and_a_caveat() {
        for order in [RunOrder::Alternate, RunOrder::Parallel, RunOrder::Imported] {
            let policy = JudgingPolicy::new(&design(order, &[8], 1), &AnalysisSettings::default());
            assert_eq!(
                (policy.method, policy.matching),
                (StatisticalMethod::MannWhitney, RunMatching::None)
            );
            assert!(policy.indicative);
        }
        let rank = AnalysisSettings {
            method: Some(StatisticalMethod::Rank),
            ..AnalysisSettings::default()
        };
        assert_eq!(
            JudgingPolicy::new(&design(RunOrder::Imported, &[8], 1), &rank).method,
            StatisticalMethod::MannWhitney
        );
        assert_eq!(JudgingPolicy::for_unmatched(&rank).method, StatisticalMethod::MannWhitney);
        let alternate = JudgingPolicy::new(&design(RunOrder::Alternate, &[8], 1), &rank);
        assert_eq!(alternate.matching, RunMatching::in_blocks(1, None));
    }

    #[test]
    fn looks_happen_at_whole_blocks_and_never_below_eight_runs() {
        let looks = |looks: &[u32], per_block| {
            let policy = JudgingPolicy::new(
                &design(RunOrder::Blocks, looks, per_block),
                &AnalysisSettings::default(),
            );
            policy.looks.map(|l| l.design.limits().iter().map(|l| l.n).collect::<Vec<_>>())
        };
        assert_eq!(looks(&[8, 14, 20], 2), Some(vec![8, 14, 20]));
        assert_eq!(looks(&[8, 9, 20], 3), Some(vec![9, 21]));
        assert_eq!(looks(&[4, 8], 2), Some(vec![8]));
        assert_eq!(looks(&[4], 2), None);
    }

    #[test]
    fn each_case_and_each_user_seed_gives_a_different_seed() {
        let policy = JudgingPolicy::for_unmatched(&AnalysisSettings::default());
        assert_ne!(policy.seed_for("a"), policy.seed_for("b"));
        let other = JudgingPolicy::for_unmatched(&AnalysisSettings {
            seed: 1,
            ..AnalysisSettings::default()
        });
        assert_ne!(policy.seed_for("a"), other.seed_for("a"));
    }

    /// Standard error of the rank test's shift, for normal noise of this variation.
    fn precision(runs: usize, variation: f64) -> AchievedPrecision {
        let error = variation * (2.0 / (0.955 * runs as f64)).sqrt();
        AchievedPrecision { runs, error }
    }

    #[test]
    fn power_for_normal_noise_matches_the_planning_formulas() {
        // docs/why/statistics.md, power planning.
        for (variation, percent) in [(0.005, 0.37), (0.01, 0.74), (0.02, 1.49), (0.05, 3.8)] {
            let change = 100.0 * precision(30, variation).detectable_change(0.05);
            assert!((change / percent - 1.0).abs() < 0.01, "{variation}: {change}");
        }
        // R 4.2.2: 2 (qnorm(.975) + qnorm(.8))^2 (cv / log(1 + d))^2 / .955, rounded up.
        for (variation, change, runs) in [(0.02, 0.01, 67), (0.05, 0.02, 105), (0.1, 0.05, 70)] {
            let total = precision(8, variation).runs_for(f64::ln_1p(change), 0.05).unwrap();
            assert!(total.abs_diff(runs) <= 1, "{variation}, {change}: {total}");
        }
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
