//! Prepares the parts that a metric's charts share: the cases of a panel with their names, the
//! values of both sides of a comparison, and axes.

use crate::case_labels::{CaseLabels, LabelLine};
use crate::figure::{better_direction, name_in_unit};
use crate::unit::{FigureScale, UnitChoice};
use indexmap::IndexMap;
use speedwell_analysis::{CandidateComparison, CaseSummary};
use speedwell_model::{Case, IntervalEstimate, Metric};
use speedwell_plot::{self as plot, ChartAxis};
use std::collections::HashMap;
use std::sync::Arc;

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
    let mut metrics: Vec<&Metric> = Vec::new();
    for summary in summaries {
        if !metrics.contains(&&summary.metric) {
            metrics.push(&summary.metric);
        }
    }
    metrics.into_iter().map(|metric| metric_panel(metric, summaries, unit)).collect()
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
                    low: baseline * (1.0 + change.low),
                    high: baseline * (1.0 + change.high),
                };
                let candidate = row.change.map_or(exact_value(candidate), with_change);
                let baseline = sides.entry(key(&comparison.baseline));
                baseline.or_insert(exact_value(row.baseline.location));
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
    pub fn value_axis(&self, values: impl Iterator<Item = f64>) -> ChartAxis {
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
) -> ChartAxis {
    let label = format!(
        "{} ({})",
        name_in_unit(&metric.name, &scale.symbol),
        better_direction(metric.better)
    );
    let (mut smallest, mut largest) = (f64::INFINITY, 0.0_f64);
    for value in values.filter(|value| value.is_finite()) {
        smallest = smallest.min(value);
        largest = largest.max(value);
    }
    if smallest > 0.0 && largest / smallest > MAX_LINEAR_RATIO {
        ChartAxis::log10(label)
    } else {
        ChartAxis::linear(label)
    }
}

/// Creates a line or a cloud of points. Its color follows from its position among the series of the
/// chart.
pub fn point_series(
    name: impl Into<String>,
    points: impl IntoIterator<Item = plot::ChartPoint>,
) -> plot::PointSeries {
    plot::PointSeries { name: name.into(), points: points.into_iter().collect(), colour: None }
}
