//! What the analysis found, in plain figures. Reports turn findings into documents; nothing here
//! is formatted.

use crate::builds::LayoutSpread;
use crate::disturbed::Exposure;
use crate::machines::AcrossMachines;
use crate::validity::Finding;
use crate::withheld::Withheld;
use serde::{Deserialize, Serialize};
use speedwell_model::{Calibration, Case, Estimate, Failure, Metric, Rule, RunValue, Verdict};
use std::sync::Arc;

/// Everything found in one session, or in the sources of one comparison.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    /// One summary per case, variant and metric, in order of first appearance.
    pub summaries: Vec<CaseSummary>,
    /// One comparison per candidate and metric; empty with a single variant.
    pub comparisons: Vec<Comparison>,
    /// Steps that gave nothing.
    pub failures: Vec<Failure>,
    /// Whole sentences about the validity of all figures together.
    pub warnings: Vec<String>,
    /// Figures that cannot be what they are said to be.
    pub validity: Vec<Finding>,
    /// By how much builds of one source differ, in cases in which they have several runs.
    pub layout: Vec<LayoutSpread>,
    /// Whether the sides come from different sessions, so that their slots have no common order.
    pub apart: bool,
    /// Runs after which measuring was cut short, if it was.
    pub ended_after: Option<usize>,
    /// Whether so many runs were disturbed and rejected that the others may be a selection.
    pub is_too_busy: bool,
    /// Why a gate cannot judge what it was asked, as parts of a sentence: what a session or a side lacks.
    pub gate_obstacles: Vec<String>,
    /// What the sources hold that takes no part, as parts of a sentence.
    pub left_out: Vec<String>,
}

/// One series in figures.
#[derive(Debug, Clone)]
pub struct CaseSummary {
    /// The case.
    pub case: Arc<Case>,
    /// The variant's name.
    pub variant: Arc<str>,
    /// The metric.
    pub metric: Metric,
    /// One value per run, in order of execution.
    pub runs: Arc<[RunValue]>,
    /// Median with its interval; without interval (low = high = value) below 6 runs.
    pub center: Estimate,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation divided by mean; `None` for one run.
    pub variation: Option<f64>,
    /// Lag-1 autocorrelation in order of execution; `None` below 8 runs.
    pub autocorrelation: Option<f64>,
    /// How often the runs were disturbed.
    pub exposure: Exposure,
    /// Indexes into `runs` of values far from the median. They are never dropped.
    pub outliers: Vec<usize>,
    /// Remarks as whole sentences.
    pub notes: Vec<String>,
}

/// How the p value and the interval were obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Stratified-permutation rank test; the default for blocked sessions.
    Rank,
    /// Wilcoxon's signed-rank test of the ratios; the default for pairs measured at once.
    SignedRank,
    /// Welch's t test on the values.
    Welch,
    /// Mann-Whitney U test; the default for runs of unknown order.
    MannWhitney,
    /// Percentile bootstrap of the ratio of means.
    Bootstrap,
}

/// How p values of many cases are adjusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Correction {
    /// Benjamini-Hochberg: controls the false discovery rate.
    BenjaminiHochberg,
    /// Holm: controls the family-wise error rate.
    Holm,
    /// None.
    None,
}

/// Baseline against one candidate, for one metric.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// Name of the reference.
    pub baseline: String,
    /// Name of the other side.
    pub candidate: String,
    /// The metric compared.
    pub metric: Metric,
    /// The test used.
    pub method: Method,
    /// Confidence of the intervals as a share: 0.95.
    pub confidence: f64,
    /// The change that counts as none, as a share.
    pub delta: f64,
    /// What a change must exceed to be called, as a share; `None` where any change counts.
    pub threshold: Option<f64>,
    /// How q was obtained.
    pub correction: Correction,
    /// One row per case that both sides have, in order of first appearance.
    pub rows: Vec<CaseComparison>,
    /// Geometric mean of the changes of all rows, as a share, with its interval.
    pub overall: Option<Estimate>,
    /// Whether `overall` is what a typical case can expect: five cases or more, which differ by no more than their
    /// intervals explain.
    pub is_typical: bool,
    /// Ids of cases that only the baseline has.
    pub only_baseline: Vec<String>,
    /// Ids of cases that only the candidate has.
    pub only_candidate: Vec<String>,
}

impl Comparison {
    /// The rows with this verdict, in order; none whose answer is withheld.
    pub fn rows_that_are(&self, verdict: Verdict) -> impl Iterator<Item = &CaseComparison> {
        let rows = self.rows.iter().filter(|row| row.withheld.is_none());
        rows.filter(move |row| row.verdict == verdict)
    }
}

/// Why a case has no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoVerdict {
    /// The test cannot decide with so few runs, whatever they give.
    TooFewRuns,
    /// The test is undefined for these figures.
    NoTest,
    /// Figures of this kind must not be compared under these circumstances.
    NotComparable,
}

/// One side of a row.
#[derive(Debug, Clone)]
pub struct Side {
    /// One value per run, in order of execution.
    pub runs: Arc<[RunValue]>,
    /// The figure that belongs to the change: the candidate's is the baseline's times the estimated
    /// ratio. The median of all runs where no ratio exists.
    pub location: f64,
    /// Median over the runs.
    pub median: f64,
    /// Mean over the runs.
    pub mean: f64,
    /// Standard deviation divided by mean; `None` for one run.
    pub variation: Option<f64>,
    /// How often its runs were disturbed.
    pub exposure: Exposure,
}

/// One case, compared.
#[derive(Debug, Clone)]
pub struct CaseComparison {
    /// The case.
    pub case: Arc<Case>,
    /// The reference.
    pub baseline: Side,
    /// The other side.
    pub candidate: Side,
    /// (candidate - baseline) / baseline with its interval, as shares; `None` when undefined. An
    /// end is -1 or infinite where the runs are too few to bound it.
    pub change: Option<Estimate>,
    /// The same for the ratio of arithmetic means, which feels outliers and tails.
    pub mean_change: Option<Estimate>,
    /// Whether typical and mean change disagree beyond both intervals.
    pub shape_changed: bool,
    /// The p value of the question: of no change, or of a change within the threshold. It is valid whenever measuring
    /// ended, and agrees with the interval. `None` when undefined.
    pub p: Option<f64>,
    /// The p value adjusted for all comparisons that are shown together.
    pub q: Option<f64>,
    /// The answer.
    pub verdict: Verdict,
    /// Why there is no answer, where the sides did not measure the same; the verdict is then unclear, and means nothing.
    pub withheld: Option<Withheld>,
    /// Why there can be no answer, whatever the figures are; the verdict is then "unclear".
    pub no_verdict: Option<NoVerdict>,
    /// Whether the sides differ beyond the threshold, in whichever direction is the good one.
    pub differs: bool,
    /// Whether the change is known exactly, because the figures are counts that do not vary.
    pub is_exact: bool,
    /// Whether the order of runs is unknown or fixed, so that the verdict is only a hint.
    pub indicative: bool,
    /// Runs per side at which the sequential test decided.
    pub decided_at: Option<u32>,
    /// The smallest change that these runs would have found in 80 % of cases, as a share.
    pub detectable: Option<f64>,
    /// About how many more runs per side an unclear case needs.
    pub more_runs: Option<u32>,
    /// Cliff's delta of candidate over baseline, -1 to 1, + means larger values.
    pub cliffs_delta: Option<f64>,
    /// What is known by machine, of a session that several machines measured.
    pub machines: Option<AcrossMachines>,
    /// Remarks as whole sentences.
    pub notes: Vec<String>,
}

impl Comparison {
    /// The change of the typical case, if there is one.
    pub fn typical(&self) -> Option<Estimate> {
        self.overall.filter(|_| self.is_typical)
    }

    /// The smallest and the largest change of two cases or more.
    pub fn range(&self) -> Option<[Estimate; 2]> {
        let judged = self.rows.iter().filter(|row| row.withheld.is_none());
        let mut changes: Vec<Estimate> = judged.filter_map(|row| row.change).collect();
        changes.sort_by(|one, other| one.value.total_cmp(&other.value));
        match changes[..] {
            [least, .., most] => Some([least, most]),
            _ => None,
        }
    }
}

impl CaseComparison {
    /// What a gate looks at: the answer, and that on the machines of the session taken together, which may have been taken back
    /// because it depends on the machine; nothing where the answer is withheld.
    pub fn gated(&self) -> impl Iterator<Item = Verdict> {
        let on_these = self.machines.as_ref().map(|machines| machines.on_these);
        let all = [self.verdict].into_iter().chain(on_these);
        all.filter(|_| self.withheld.is_none())
    }

    /// Whether the change is one from zero, which has no percentage.
    pub fn is_from_zero(&self) -> bool {
        self.change.is_none() && self.baseline.location == 0.0 && self.candidate.location > 0.0
    }

    /// Whether the case has an answer, be it that the data leave it open.
    pub fn is_judged(&self) -> bool {
        self.withheld.is_none() && self.no_verdict.is_none()
    }

    /// The change turned so that + is good; `None` where no direction is known.
    pub fn improvement(&self, metric: &Metric) -> Option<Estimate> {
        let change = self.change?;
        match metric.better {
            speedwell_model::Better::Higher => Some(change),
            speedwell_model::Better::Lower => Some(Estimate {
                value: -change.value,
                low: -change.high,
                high: -change.low,
            }),
            speedwell_model::Better::Unknown => None,
        }
    }
}

/// What came of comparing things with themselves.
#[derive(Debug, Clone, Default)]
pub struct CalibrationFindings {
    /// The metric compared; `None` when nothing was measured.
    pub metric: Option<Metric>,
    /// Runs of either side in one comparison.
    pub runs: usize,
    /// The counts over all cases.
    pub counts: Calibration,
    /// What they say.
    pub outcome: Calibrated,
    /// The error rate that the test promises, as a share.
    pub alpha: f64,
    /// The error rate that these comparisons have where nothing differs: with few runs the test cannot
    /// use all of `alpha`.
    pub level: f64,
    /// The share of false alarms with its interval; `None` without comparisons.
    pub rate: Option<Estimate>,
    /// Comparisons from which too few false alarms can be distinguished from chance; `None` if no number is
    /// enough, because nothing varies.
    pub needed: Option<u32>,
    /// Rules, with the share of all runs that each would reject.
    pub rules: Vec<(Rule, f64)>,
    /// One entry per case, in order of first appearance.
    pub cases: Vec<CalibratedCase>,
    /// Steps that gave nothing.
    pub failures: Vec<Failure>,
    /// Whole sentences about the validity of all figures together.
    pub warnings: Vec<String>,
}

/// Whether the default test keeps its promise on a machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Calibrated {
    /// As many false alarms as are to be expected.
    Yes,
    /// More: differences are seen where there are none.
    TooManyAlarms,
    /// Fewer: the test is more careful than it says, and changes are overlooked.
    TooFewAlarms,
    /// There are too few comparisons to say.
    #[default]
    Unknown,
}

/// A case that was compared with itself.
#[derive(Debug, Clone)]
pub struct CalibratedCase {
    /// The case.
    pub case: Arc<Case>,
    /// Comparisons of it with itself.
    pub comparisons: u32,
    /// How many of them found a difference.
    pub false_alarms: u32,
    /// Standard deviation of all runs divided by their mean; `None` for one run.
    pub variation: Option<f64>,
    /// Lag-1 autocorrelation of the runs in order of execution; `None` below 8 runs.
    pub autocorrelation: Option<f64>,
    /// Whether that is more than chance.
    pub is_dependent: bool,
    /// The smallest change that 32 runs a side would find in 80 % of cases, as a share.
    pub detectable: Option<f64>,
}

/// How far runs of the same thing differed, before and after something on the machine was changed.
#[derive(Debug, Clone)]
pub struct SpreadChange {
    /// The case.
    pub case: Arc<Case>,
    /// The median difference between two runs of a block, as a share.
    pub before: f64,
    /// The same afterwards.
    pub after: f64,
    /// The change of it as a share, with the interval of resampled blocks; `None` where nothing differed before.
    pub change: Option<Estimate>,
}

/// A parameter study: how a metric depends on one parameter.
#[derive(Debug, Clone)]
pub struct Study {
    /// The metric.
    pub metric: Metric,
    /// The parameter along the x axis.
    pub x_axis: String,
    /// The parameter that separates lines, or `variant`; `None` for one line.
    pub by: Option<String>,
    /// Parameters with several values that are neither: their cases are aggregated.
    pub aggregated: Vec<Aggregated>,
    /// One point per x and line.
    pub points: Vec<StudyPoint>,
    /// Steps between neighbouring x values of a line.
    pub steps: Vec<StudyStep>,
    /// Per line: slope of log value over log x; `None` where x is not numeric and positive.
    pub exponents: Vec<(String, Option<f64>)>,
    /// Whole sentences.
    pub warnings: Vec<String>,
}

/// A parameter that was averaged over.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregated {
    /// Its name.
    pub name: String,
    /// Share of the variance within points that it explains (eta squared), 0 to 1.
    pub explained: Option<f64>,
}

/// One point of a study.
#[derive(Debug, Clone)]
pub struct StudyPoint {
    /// The x value as text, and as a number where it is one.
    pub x: speedwell_model::Value,
    /// The line it belongs to; empty for one line.
    pub line: String,
    /// The value of every run, case by case.
    pub runs: Vec<f64>,
    /// Number of different cases aggregated.
    pub cases: usize,
    /// Mean over cases of the mean over runs, with an interval that resamples runs within cases.
    pub mean: Estimate,
    /// Median over runs.
    pub median: f64,
    /// Whether skewness exceeds 1 or the median lies outside the mean's interval.
    pub skewed: bool,
}

/// From one x value of a line to the next.
#[derive(Debug, Clone)]
pub struct StudyStep {
    /// The line.
    pub line: String,
    /// The x value left.
    pub from: speedwell_model::Value,
    /// The x value reached.
    pub to: speedwell_model::Value,
    /// Value at `to` divided by value at `from`.
    pub ratio: f64,
    /// Mann-Whitney p between the two points' runs.
    pub p: Option<f64>,
    /// Cliff's delta.
    pub cliffs_delta: Option<f64>,
    /// Scaling exponent of this step: ln ratio / ln (to / from).
    pub exponent: Option<f64>,
}
