//! Defines the results of the analysis as plain figures. Reports turn these into documents; nothing
//! here is formatted.

use crate::grid::DisturbanceExposure;
use crate::validity::ValidityFinding;
use serde::{Deserialize, Serialize};
use speedwell_model::{
    Case, IntervalEstimate, Metric, MetricDirection, NoiseCalibration, ParameterValue, RejectRule,
    RunOrder, RunValue, StepFailure, Verdict,
};
use speedwell_stats::variance::VarianceComponents;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Findings on one session, or on the sources of one comparison.
#[derive(Debug, Clone, Default)]
pub struct AnalysisFindings {
    /// One summary per case, variant and metric, in order of first appearance.
    pub summaries: Vec<CaseSummary>,
    /// One comparison per candidate and metric; empty with a single variant.
    pub comparisons: Vec<CandidateComparison>,
    /// Comparisons by exact counts that were not requested, such as bytes and allocations, which
    /// reports show next to the requested metric. Gates ignore them.
    pub beside: Vec<CandidateComparison>,
    /// Steps without a usable result.
    pub failures: Vec<StepFailure>,
    /// Warnings about all figures together, as whole sentences.
    pub warnings: Vec<String>,
    /// Findings on implausible figures.
    pub validity: Vec<ValidityFinding>,
    /// How much builds of one source differ, for cases with several runs per build.
    pub layout: Vec<LayoutSpread>,
    /// Whether the user named the sides with `--old` and `--new`. Sentences are then about the
    /// candidate, and otherwise about the faster side.
    pub is_about_candidate: bool,
    /// Whether the sides come from different sessions, so that their runs have no common order.
    pub is_cross_session: bool,
    /// The order of the runs, if a single session made them.
    pub order: Option<RunOrder>,
    /// Whether the machine was busy with other work.
    pub was_busy: bool,
    /// Number of runs so far, if the session was interrupted or is still running.
    pub ended_after: Option<usize>,
    /// Whether runs were rejected as disturbed so often that the remaining runs may be a biased
    /// selection.
    pub is_too_busy: bool,
    /// Reasons why a gate cannot be evaluated, as parts of a sentence, such as `'old' has no runs`.
    pub gate_obstacles: Vec<String>,
    /// Variants of the sources that were left out, as parts of a sentence.
    pub excluded: Vec<String>,
    /// Programs behind the variants `old` and `new`; see
    /// [`speedwell_model::Session::program_names`].
    pub program_names: BTreeMap<String, String>,
}

/// Summary of one series: the runs of one case and variant, for one metric.
#[derive(Debug, Clone)]
pub struct CaseSummary {
    /// The case.
    pub case: Arc<Case>,
    /// Name of the variant.
    pub variant: Arc<str>,
    /// The metric.
    pub metric: Metric,
    /// One value per run, in execution order.
    pub runs: Arc<[RunValue]>,
    /// Median with its interval. If there are too few runs for an interval (fewer than 6 at 95%),
    /// `low` and `high` equal `value`.
    pub center: IntervalEstimate,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation divided by mean; `None` for one run.
    pub variation: Option<f64>,
    /// Lag-1 autocorrelation in execution order; `None` for fewer than 8 runs and for equal values.
    pub autocorrelation: Option<f64>,
    /// How often the runs were disturbed.
    pub exposure: DisturbanceExposure,
    /// Indexes into `runs` of values far from the median. They are never dropped.
    pub outliers: Vec<usize>,
    /// Notes, as whole sentences.
    pub notes: Vec<String>,
}

/// How much the values of one case differ between builds of one source, and between runs of one
/// build.
#[derive(Debug, Clone, PartialEq)]
pub struct LayoutSpread {
    /// Case id.
    pub case: String,
    /// Metric name.
    pub metric: String,
    /// Standard deviations of logarithms between builds and between runs of a build. A build is
    /// compared only with builds of its own variant.
    pub components: VarianceComponents,
    /// Ratio of the largest to the smallest median of a build, for the variant with the largest
    /// ratio.
    pub range: f64,
}

/// How the p value and the interval were obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StatisticalMethod {
    /// Stratified-permutation rank test; the default for blocked sessions.
    Rank,
    /// Wilcoxon's signed-rank test of the ratios; the default for pairs measured at once.
    SignedRank,
    /// Welch's t test on the values.
    Welch,
    /// Mann-Whitney U test; the default for runs in neither blocks nor pairs.
    MannWhitney,
    /// Percentile bootstrap of the ratio of means.
    Bootstrap,
}

/// How p values of many cases are adjusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TestingCorrection {
    /// Benjamini-Hochberg: controls the false discovery rate.
    #[default]
    BenjaminiHochberg,
    /// Holm: controls the family-wise error rate.
    Holm,
    /// No adjustment.
    None,
}

/// Comparison of a baseline with one candidate, for one metric.
#[derive(Debug, Clone)]
pub struct CandidateComparison {
    /// Name of the baseline.
    pub baseline: String,
    /// Name of the candidate.
    pub candidate: String,
    /// The metric compared.
    pub metric: Metric,
    /// The test used.
    pub method: StatisticalMethod,
    /// Confidence level of the intervals, such as 0.95.
    pub confidence: f64,
    /// Largest change that still counts as "same", as a fraction.
    pub delta: f64,
    /// Threshold that a change must exceed to be better or worse, as a fraction; `None` if there is
    /// no threshold.
    pub threshold: Option<f64>,
    /// Correction that turns `p` into `q` in each row.
    pub correction: TestingCorrection,
    /// One row per case that both sides have, in order of first appearance.
    pub rows: Vec<CaseComparison>,
    /// Geometric mean of the changes, as a fraction, with its interval. Leaves out rows with a
    /// withheld answer. Also leaves out rows without a bounded interval, if at least two other rows
    /// remain.
    pub overall: Option<IntervalEstimate>,
    /// Whether `overall` describes a typical case: there are five cases or more, and their changes
    /// differ no more than their intervals can explain.
    pub is_typical: bool,
    /// Ids of cases that only the baseline has.
    pub only_baseline: Vec<String>,
    /// Ids of cases that only the candidate has.
    pub only_candidate: Vec<String>,
}

impl CandidateComparison {
    /// Rows with this verdict, in order. Leaves out rows with a withheld answer.
    pub fn rows_with_verdict(&self, verdict: Verdict) -> impl Iterator<Item = &CaseComparison> {
        let rows = self.rows.iter().filter(|row| row.withheld.is_none());
        rows.filter(move |row| row.verdict == verdict)
    }

    /// The typical change, if there is one.
    pub fn typical(&self) -> Option<IntervalEstimate> {
        self.overall.filter(|_| self.is_typical)
    }

    /// The smallest and the largest change; `None` if there are fewer than two changes.
    pub fn range(&self) -> Option<[IntervalEstimate; 2]> {
        let judged = self.rows.iter().filter(|row| row.withheld.is_none());
        let mut changes: Vec<IntervalEstimate> = judged.filter_map(|row| row.change).collect();
        changes.sort_by(|one, other| one.value.total_cmp(&other.value));
        match changes[..] {
            [min, .., max] => Some([min, max]),
            _ => None,
        }
    }
}

/// Why a case has no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoVerdict {
    /// The test cannot decide with so few runs, whatever their values.
    TooFewRuns,
    /// The test is undefined for these values.
    NoTest,
    /// Values of this kind must not be compared under these conditions.
    NotComparable,
}

/// Why an answer is withheld.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WithheldReason {
    /// The benchmark differs between the sides.
    BenchmarkChanged,
    /// A side loaded these project files from the user's checkout.
    LoadsCheckout {
        /// Whether both sides loaded files from the checkout, not only one.
        is_both: bool,
        /// The files, relative to the checkout's root.
        files: Vec<String>,
    },
    /// The stored session with this number is still being measured. Between the planned interim
    /// analyses, verdicts would be wrong more often than the stated error rate allows.
    HasNotEnded(i64),
}

/// One side of a row.
#[derive(Debug, Clone)]
pub struct SideSummary {
    /// One value per run, in execution order.
    pub runs: Arc<[RunValue]>,
    /// Figure that matches the change: the candidate's figure is the baseline's figure times the
    /// estimated ratio. Without a ratio, it is the average of the side's own runs.
    pub location: f64,
    /// Median over the runs.
    pub median: f64,
    /// Mean over the runs.
    pub mean: f64,
    /// Standard deviation divided by mean; `None` for one run.
    pub variation: Option<f64>,
    /// How often the runs were disturbed.
    pub exposure: DisturbanceExposure,
}

/// Comparison of one case.
#[derive(Debug, Clone)]
pub struct CaseComparison {
    /// The case.
    pub case: Arc<Case>,
    /// The baseline's side.
    pub baseline: SideSummary,
    /// The candidate's side.
    pub candidate: SideSummary,
    /// (candidate - baseline) / baseline, with its interval; `None` if undefined. An end of the
    /// interval is -1 or infinite if there are too few runs to bound it.
    pub change: Option<IntervalEstimate>,
    /// Change of the arithmetic means, with its interval; sensitive to outliers and tails.
    pub mean_change: Option<IntervalEstimate>,
    /// Whether `change` and `mean_change` differ by more than half the width of the wider interval.
    pub is_shape_changed: bool,
    /// p value of the hypothesis of no change or, if there is a threshold, of no change beyond the
    /// threshold. The p value is valid no matter when measuring ended, and agrees with the
    /// interval. `None` if undefined.
    pub p: Option<f64>,
    /// The p value adjusted for all comparisons shown together.
    pub q: Option<f64>,
    /// Verdict.
    pub verdict: Verdict,
    /// Why the answer is withheld, for instance because the sides did not measure the same work.
    /// The verdict is then `unclear` and meaningless.
    pub withheld: Option<WithheldReason>,
    /// Why no verdict is possible; the verdict is then `unclear`.
    pub no_verdict: Option<NoVerdict>,
    /// Whether the sides differ beyond the threshold, in either direction.
    pub differs: bool,
    /// Whether the change is exact, because the values are counts that do not vary.
    pub is_exact: bool,
    /// Whether the verdict is only a hint, because the order of runs is unknown or fixed, or the
    /// sides come from different sessions.
    pub is_indicative: bool,
    /// Runs per side at which the sequential test decided.
    pub decided_at: Option<u32>,
    /// Smallest change, as a fraction, that this many runs would find with a probability of 80%.
    pub detectable: Option<f64>,
    /// Approximate number of additional runs per side that an unclear case needs.
    pub more_runs: Option<u32>,
    /// Cliff's delta of the candidate over the baseline, -1 to 1; positive means larger values.
    pub cliffs_delta: Option<f64>,
    /// Results by machine, if several machines measured the session.
    pub machines: Option<AcrossMachines>,
    /// Notes, as whole sentences.
    pub notes: Vec<String>,
}

impl CaseComparison {
    /// Verdicts that a gate considers: the row's verdict, and the verdict on all machines of the
    /// session together. The two verdicts differ if the row's verdict was withdrawn because it
    /// depends on the machine. Empty if the answer is withheld.
    pub fn gate_verdicts(&self) -> impl Iterator<Item = Verdict> {
        let overall = self.machines.as_ref().map(|machines| machines.on_these);
        let verdicts = [self.verdict].into_iter().chain(overall);
        verdicts.filter(|_| self.withheld.is_none())
    }

    /// Whether this is a change from zero, which has no percentage.
    pub fn is_from_zero(&self) -> bool {
        self.change.is_none() && self.baseline.location == 0.0 && self.candidate.location > 0.0
    }

    /// Whether the case has a verdict, which may be `unclear` because the data do not decide it.
    pub fn is_judged(&self) -> bool {
        self.withheld.is_none() && self.no_verdict.is_none()
    }

    /// The change with a sign such that positive is good; `None` if the preferred direction is
    /// unknown.
    pub fn improvement(&self, metric: &Metric) -> Option<IntervalEstimate> {
        let change = self.change?;
        match metric.better {
            MetricDirection::Higher => Some(change),
            MetricDirection::Lower => Some(IntervalEstimate {
                value: -change.value,
                low: -change.high,
                high: -change.low,
            }),
            MetricDirection::Unknown => None,
        }
    }
}

/// Results for a case by machine.
#[derive(Debug, Clone, PartialEq)]
pub struct AcrossMachines {
    /// One entry per machine that measured the case, in session order.
    pub machines: Vec<MachineEffect>,
    /// Verdict on these machines from all blocks together. Gates use this verdict.
    pub on_these: Verdict,
    /// p value of the hypothesis that the change is the same on all machines. `None` if fewer than
    /// two machines have enough blocks, or if values vary only on some machines.
    pub p_equal: Option<f64>,
    /// Whether the verdict was withdrawn because it depends on the machine.
    pub depends: bool,
    /// Expected change on other machines, for each class with enough measured machines.
    pub populations: Vec<MachinePopulation>,
}

/// Change on a single machine.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineEffect {
    /// Name of the machine in the fleet.
    pub name: String,
    /// Machine class.
    pub class: String,
    /// Number of complete blocks.
    pub blocks: usize,
    /// Change with its interval, from the machine's own runs; `None` if there are too few runs.
    pub change: Option<IntervalEstimate>,
    /// Log ratio of each complete block.
    pub(super) effects: Vec<f64>,
}

/// Change on machines of one class.
#[derive(Debug, Clone, PartialEq)]
pub struct MachinePopulation {
    /// Machine class.
    pub class: String,
    /// Number of measured machines of the class.
    pub machines: usize,
    /// Expected change on a machine of this class, with Student's interval of the mean over
    /// machines.
    pub change: IntervalEstimate,
    /// Number of additional machines that would halve the interval.
    pub to_halve: usize,
}

impl AcrossMachines {
    /// The machines with the lowest and the highest change.
    pub fn extreme_machines(&self) -> Option<[&MachineEffect; 2]> {
        let value = |machine: &&MachineEffect| machine.change.map(|change| change.value);
        let measured = || self.machines.iter().filter(|machine| value(machine).is_some());
        let order = |a: &&MachineEffect, b: &&MachineEffect| {
            let [a, b] = [a, b].map(|machine| value(machine).unwrap_or_default());
            a.total_cmp(&b)
        };
        Some([measured().min_by(order)?, measured().max_by(order)?])
    }
}

/// Result of comparing cases with themselves.
#[derive(Debug, Clone, Default)]
pub struct CalibrationFindings {
    /// The metric compared; `None` if nothing was measured.
    pub metric: Option<Metric>,
    /// Runs per side in one comparison.
    pub runs: usize,
    /// Number of comparisons and of false alarms over all cases, with the expected range.
    pub counts: NoiseCalibration,
    /// Conclusion.
    pub outcome: CalibrationOutcome,
    /// Error rate that the test promises, as a fraction.
    pub alpha: f64,
    /// Actual error rate of these comparisons when nothing differs. It is below `alpha` if there
    /// are few runs.
    pub level: f64,
    /// False alarms per comparison, with an interval; `None` without comparisons.
    pub rate: Option<IntervalEstimate>,
    /// Smallest number of comparisons at which a lack of false alarms differs from chance.
    /// `None` if nothing varies, because no number is then enough.
    pub needed: Option<u32>,
    /// Rules, each with the fraction of the runs that it would reject.
    pub rules: Vec<(RejectRule, f64)>,
    /// One entry per case, in order of first appearance.
    pub cases: Vec<CalibratedCase>,
    /// Steps without a usable result.
    pub failures: Vec<StepFailure>,
    /// Warnings about all figures together, as whole sentences.
    pub warnings: Vec<String>,
}

/// Whether the default test keeps its error rate on a machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CalibrationOutcome {
    /// As many false alarms as expected.
    Yes,
    /// More than expected: the test finds differences where there are none.
    TooManyAlarms,
    /// Fewer than expected: the test is too conservative and overlooks changes.
    TooFewAlarms,
    /// Too few comparisons to tell.
    #[default]
    Unknown,
}

/// A case that was compared with itself.
#[derive(Debug, Clone)]
pub struct CalibratedCase {
    /// The case.
    pub case: Arc<Case>,
    /// Number of comparisons of the case with itself.
    pub comparisons: u32,
    /// Number of comparisons that found a difference.
    pub false_alarms: u32,
    /// Standard deviation of all runs divided by their mean; `None` for one run.
    pub variation: Option<f64>,
    /// Lag-1 autocorrelation of the runs in execution order; `None` for fewer than 8 runs and for
    /// equal values.
    pub autocorrelation: Option<f64>,
    /// Whether the autocorrelation exceeds what chance can explain.
    pub is_dependent: bool,
    /// Smallest change, as a fraction, that 32 runs per side would find with a probability of 80%.
    pub detectable: Option<f64>,
}

/// How much the runs of a case differed from each other before and after a change to the machine.
#[derive(Debug, Clone)]
pub struct SpreadChange {
    /// The case.
    pub case: Arc<Case>,
    /// Median difference between two runs of a block before the change, as a fraction.
    pub before: f64,
    /// Median difference between two runs of a block after the change, as a fraction.
    pub after: f64,
    /// Relative change of the median difference, with an interval from resampled blocks; `None` if
    /// no runs differed before.
    pub change: Option<IntervalEstimate>,
}

/// A parameter study: how a metric depends on one parameter.
#[derive(Debug, Clone)]
pub struct ParameterStudy {
    /// The metric.
    pub metric: Metric,
    /// Parameter along the x axis.
    pub x_axis: String,
    /// Another parameter, or `variant` or `benchmark`. The study has one line for each of its
    /// values. `None` for a single line.
    pub by: Option<String>,
    /// Other parameters with several values; cases are aggregated over them.
    pub aggregated: Vec<AggregatedParameter>,
    /// One point per x and line.
    pub points: Vec<StudyPoint>,
    /// Steps between neighboring x values of a line.
    pub steps: Vec<StudyStep>,
    /// Slope of log value over log x per line; `None` unless x is numeric and positive.
    pub exponents: Vec<(String, Option<f64>)>,
    /// Warnings, as whole sentences.
    pub warnings: Vec<String>,
}

/// A parameter over whose values cases are aggregated.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregatedParameter {
    /// Name of the parameter.
    pub name: String,
    /// Fraction of the variance within points that this parameter explains (eta squared), 0 to 1.
    pub explained: Option<f64>,
}

/// One point of a study.
#[derive(Debug, Clone)]
pub struct StudyPoint {
    /// The x value: a number where possible, else text.
    pub x: ParameterValue,
    /// Line that the point belongs to; empty for a single line.
    pub line: String,
    /// Values of all runs, case by case.
    pub runs: Vec<f64>,
    /// Number of different cases aggregated.
    pub cases: usize,
    /// Mean of the cases' means. The interval is computed by resampling the runs of each case.
    pub mean: IntervalEstimate,
    /// Median over runs.
    pub median: f64,
    /// Whether skewness exceeds 1 or the median lies outside the mean's interval.
    pub is_skewed: bool,
}

/// A step from one x value of a line to the next.
#[derive(Debug, Clone)]
pub struct StudyStep {
    /// The line.
    pub line: String,
    /// Start of the step.
    pub from: ParameterValue,
    /// End of the step.
    pub to: ParameterValue,
    /// Value at `to` divided by value at `from`.
    pub ratio: f64,
    /// Mann-Whitney p value between the runs of the two points.
    pub p: Option<f64>,
    /// Cliff's delta.
    pub cliffs_delta: Option<f64>,
    /// Scaling exponent of this step: ln ratio / ln (to / from).
    pub exponent: Option<f64>,
}
