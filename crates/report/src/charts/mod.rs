//! Chooses the charts of each kind of findings, and builds them as data for `speedwell_plot`.
//!
//! | kind | shows |
//! |---|---|
//! | forest | the change of every case with its interval |
//! | box | every run of every case, variants side by side |
//! | bar | medians with their intervals; both sides of a comparison with the interval of the change |
//! | histogram | how often values occur, a panel per case |
//! | scatter | values in the order of execution, a panel per case; for a study, its points |
//! | flame | where the time goes; drawn with the profiles (`profile/mod.rs`) |
//! | line | a study: points with their intervals, joined, plus single runs |
//! | trend | a series over revisions, with its changes |
//!
//! The gallery of a page has its own chart per case, [`draw_every_run`], which no option can
//! request. `runs.rs` and `trend.rs` draw the charts from the parts that are defined here.

mod runs;
mod trend;

pub use runs::{VariantLane, draw_bars, draw_every_run, draw_findings, draw_study};
pub use trend::{TrendXAxis, draw_trend};

use crate::case_labels::{CaseLabels, LabelLine, distinct};
use crate::document::ReportChart;
use crate::figure::{better_direction, format_setting, name_in_unit};
use crate::unit::{FigureScale, UnitChoice};
use anyhow::anyhow;
use indexmap::IndexMap;
use speedwell_analysis::{AnalysisFindings, CandidateComparison, CaseComparison, CaseSummary};
use speedwell_model::{Case, IntervalEstimate, Metric, Verdict, name_variants};
use speedwell_plot as plot;
use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;

/// Nanoseconds in a millisecond, the unit of the axes of latencies.
pub(crate) const NS_PER_MS: f64 = 1e6;

/// Maximum number of runs drawn one by one, on pages and in default charts.
pub(crate) const MAX_DRAWN_RUNS: usize = 200_000;

/// Counts the runs in the summaries of `findings`.
pub(crate) fn count_runs(findings: &AnalysisFindings) -> usize {
    findings.summaries.iter().map(|summary| summary.runs.len()).sum()
}

/// A kind of chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChartKind {
    /// Distributions side by side.
    Box,
    /// Single points.
    Scatter,
    /// Points joined by lines.
    Line,
    /// Bars with intervals.
    Bar,
    /// Changes with intervals.
    Forest,
    /// Frequencies of values.
    Histogram,
    /// Where the time goes, from recorded profiles.
    Flame,
    /// A series over revisions.
    Trend,
}

name_variants!(ChartKind: Box = "box", Scatter = "scatter", Line = "line", Bar = "bar",
    Forest = "forest", Histogram = "histogram", Flame = "flame", Trend = "trend");

/// An unknown kind of chart.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown chart '{0}': supported charts are box, scatter, line, bar, forest, histogram, flame, trend and all"
)]
pub struct UnknownChart(pub String);

impl FromStr for ChartKind {
    type Err = UnknownChart;

    fn from_str(text: &str) -> Result<ChartKind, UnknownChart> {
        ChartKind::from_name(text).ok_or_else(|| UnknownChart(text.to_owned()))
    }
}

/// The charts that a user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChartRequest {
    /// Every chart of the report, each in a file of its own.
    All,
    /// Charts of this kind.
    Kind(ChartKind),
}

impl FromStr for ChartRequest {
    type Err = UnknownChart;

    fn from_str(text: &str) -> Result<ChartRequest, UnknownChart> {
        if text == "all" { Ok(ChartRequest::All) } else { text.parse().map(ChartRequest::Kind) }
    }
}

/// Returns the error for a trend chart of a report that does not cover revisions.
pub fn not_a_trend() -> anyhow::Error {
    anyhow!(
        "a trend chart shows results over revisions, which this report does not have\nhint: speedwell history trend -o trend.svg"
    )
}

/// Returns the range of changes that count as the same, in percent. Returns `None` if the range is
/// empty.
pub fn threshold_band(comparison: &CandidateComparison) -> Option<(f64, f64)> {
    let delta = comparison.delta * 100.0;
    (delta > 0.0).then_some((-delta, delta))
}

/// Returns one case of a forest chart, in percent. Returns `None` if the change is unknown.
pub fn forest_row(row: &CaseComparison, label: String) -> Option<plot::ForestRow> {
    Some(change_row(label, row.change?, verdict_mark(row.verdict)))
}

/// Returns a change as a row of a forest chart, in percent.
pub fn change_row(
    label: String,
    change: IntervalEstimate,
    mark: plot::VerdictMark,
) -> plot::ForestRow {
    let IntervalEstimate { value: estimate, low, high } = change.map(|share| share * 100.0);
    plot::ForestRow { label, estimate, low, high, mark }
}

/// Draws changes of a comparison. The tables and the gallery of a page show the same data.
pub fn forest_chart(
    comparison: &CandidateComparison,
    title: String,
    subtitle: Option<String>,
    rows: Vec<plot::ForestRow>,
) -> ReportChart {
    let confidence = format_setting(comparison.confidence);
    let better = better_direction(comparison.metric.better);
    let picture = plot::AnyChart::Forest(plot::ForestChart {
        title,
        subtitle,
        x_label: format!("change in % with {confidence} interval ({better})"),
        percent: true,
        reference: 0.0,
        band: threshold_band(comparison),
        rows,
    });
    ReportChart { shown_elsewhere: true, ..ReportChart::from_picture(picture) }
}

fn verdict_mark(verdict: Verdict) -> plot::VerdictMark {
    match verdict {
        Verdict::Better => plot::VerdictMark::Better,
        Verdict::Worse => plot::VerdictMark::Worse,
        Verdict::Same => plot::VerdictMark::Same,
        Verdict::Unclear => plot::VerdictMark::Unclear,
    }
}

// The parts that a metric's charts share: the cases of a panel with their names, the values of both
// sides of a comparison, and axes.

/// Maximum ratio of values on a linear axis. At a larger ratio, a linear axis would hide the small
/// values, so the axis is logarithmic.
const MAX_LINEAR_RATIO: f64 = 50.0;

/// The contents of one chart of a metric.
pub struct MetricPanel<'a> {
    /// The metric.
    pub metric: &'a Metric,
    /// How the metric's values are shown.
    pub scale: FigureScale,
    /// The benchmark, folder or parameters that all cases share, as text for the subtitle; may be
    /// empty.
    pub shared: String,
    /// Cases in the order of the tables.
    pub categories: Vec<CaseCategory<'a>>,
}

/// One case.
pub struct CaseCategory<'a> {
    /// The case's name. A line break separates benchmark and parameters.
    pub label: String,
    /// One summary per variant.
    pub variants: Vec<&'a CaseSummary>,
}

/// Creates one panel per metric.
pub fn metric_panels(summaries: &[CaseSummary], unit: Option<UnitChoice>) -> Vec<MetricPanel<'_>> {
    let metrics = distinct(summaries.iter().map(|summary| &summary.metric)).into_iter();
    metrics.map(|metric| metric_panel(metric, summaries, unit)).collect()
}

fn metric_panel<'a>(
    metric: &'a Metric,
    summaries: &'a [CaseSummary],
    unit: Option<UnitChoice>,
) -> MetricPanel<'a> {
    let mut by_id: IndexMap<String, Vec<&CaseSummary>> = IndexMap::new();
    for summary in summaries.iter().filter(|summary| summary.metric == *metric) {
        by_id.entry(summary.case.id()).or_default().push(summary);
    }
    let mut cases: Vec<Vec<&CaseSummary>> = by_id.into_values().collect();
    let medians = cases.iter().flatten().map(|s| s.center.value);
    let scale = FigureScale::typical_scale(&metric.unit, medians, unit);
    let first_cases: Vec<_> = cases.iter().map(|variants| Arc::clone(&variants[0].case)).collect();
    let (shared, labels) = label_cases(&first_cases);
    let categories = labels
        .into_iter()
        .map(|(index, label)| CaseCategory { label, variants: std::mem::take(&mut cases[index]) });
    MetricPanel { metric, scale, shared, categories: categories.collect() }
}

/// The values of both sides of each comparison, by metric, case and variant. Charts show these
/// values: medians over all runs could contradict the change shown next to them.
#[derive(Debug, Default)]
pub struct ComparedSides(HashMap<(String, String, String), IntervalEstimate>);

impl ComparedSides {
    /// Collects the sides of `comparisons`. The first comparison of a variant determines its
    /// values.
    pub fn new(comparisons: &[CandidateComparison]) -> ComparedSides {
        let mut sides = HashMap::new();
        for comparison in comparisons {
            for row in &comparison.rows {
                let key = |variant: &str| {
                    let metric = comparison.metric.name.clone();
                    (metric, row.case.id(), variant.to_owned())
                };
                let [baseline, candidate] = [row.baseline.location, row.candidate.location];
                let exact_value = |value| IntervalEstimate { value, low: value, high: value };
                let with_change = |change: IntervalEstimate| IntervalEstimate {
                    value: candidate,
                    ..change.map(|share| baseline * (1.0 + share))
                };
                let candidate = row.change.map_or(exact_value(candidate), with_change);
                sides.entry(key(&comparison.baseline)).or_insert(exact_value(baseline));
                sides.entry(key(&comparison.candidate)).or_insert(candidate);
            }
        }
        ComparedSides(sides)
    }

    /// Whether nothing was compared.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the value of one side of a comparison. A candidate's interval is derived from the
    /// interval of the change. A baseline has no interval, because the change is relative to the
    /// baseline.
    pub fn side_estimate(&self, summary: &CaseSummary) -> Option<IntervalEstimate> {
        let key = (summary.metric.name.clone(), summary.case.id(), summary.variant.to_string());
        self.0.get(&key).copied()
    }
}

/// Returns a text that names the benchmark, folder or parameters that all cases share, and the name
/// of each case with its index in `cases`.
pub fn label_cases(cases: &[Arc<Case>]) -> (String, Vec<(usize, String)>) {
    let labels = CaseLabels::new(cases);
    let mut heading = String::new();
    let mut named = Vec::new();
    for line in labels.lines {
        match line {
            LabelLine::Group(name) => heading = name.full,
            LabelLine::Case { index, name } => {
                let short = name.full.split_whitespace().collect::<Vec<_>>().join(" ");
                let full = if heading.is_empty() { short } else { format!("{heading}\n{short}") };
                named.push((index, full));
            }
        }
    }
    (labels.shared, named)
}

impl MetricPanel<'_> {
    /// Returns a value axis that fits all `values` (in display units).
    pub fn value_axis(&self, values: impl Iterator<Item = f64>) -> plot::ChartAxis {
        metric_axis(self.metric, &self.scale, values)
    }

    /// Returns the subtitle: the benchmark, folder or parameters that all cases share, if any.
    pub fn subtitle(&self) -> Option<String> {
        Some(self.shared.clone()).filter(|shared| !shared.is_empty())
    }

    /// Returns the values of a summary's runs in display units.
    pub fn shown_values(&self, summary: &CaseSummary) -> Vec<f64> {
        summary.runs.iter().map(|run| self.scale.to_shown(run.value)).collect()
    }
}

/// Creates an axis for a metric's values.
pub fn metric_axis(
    metric: &Metric,
    scale: &FigureScale,
    values: impl Iterator<Item = f64>,
) -> plot::ChartAxis {
    let name = name_in_unit(metric.plain_name(), &scale.symbol);
    let label = format!("{name} ({})", better_direction(metric.better));
    let (mut smallest, mut largest) = (f64::INFINITY, 0.0_f64);
    for value in values.filter(|value| value.is_finite()) {
        smallest = smallest.min(value);
        largest = largest.max(value);
    }
    if smallest > 0.0 && largest / smallest > MAX_LINEAR_RATIO {
        plot::ChartAxis::log10(label)
    } else {
        plot::ChartAxis::linear(label)
    }
}

/// Draws a bar per label. `name` says what the bars show.
pub fn single_bars(
    title: &str,
    name: &str,
    values: impl Iterator<Item = (String, f64)>,
) -> plot::AnyChart {
    let category = |(label, value): (String, f64)| {
        let bar = plot::ChartBar { name: name.to_owned(), value, ..plot::ChartBar::default() };
        plot::BarCategory { label, bars: vec![bar] }
    };
    plot::AnyChart::Bar(plot::BarChart {
        title: title.to_owned(),
        categories: values.map(category).collect(),
        ..plot::BarChart::default()
    })
}

/// Creates a line or a cloud of points. Its color follows from its position among the series of the
/// chart.
pub fn point_series(
    name: impl Into<String>,
    points: impl IntoIterator<Item = plot::ChartPoint>,
) -> plot::PointSeries {
    plot::PointSeries { name: name.into(), points: points.into_iter().collect(), colour: None }
}
