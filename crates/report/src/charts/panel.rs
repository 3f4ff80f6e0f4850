//! Shared parts of the charts of a metric: the cases of a panel with their names, the figures of
//! both sides of a comparison, axes.

use crate::case_labels::{CaseLabels, Line};
use crate::figure::{direction, in_unit};
use crate::unit::{Scale, UnitChoice};
use speedwell_analysis::{CaseSummary, Comparison};
use speedwell_model::{Case, Estimate, Metric};
use speedwell_plot as plot;
use speedwell_plot::Axis;
use std::collections::HashMap;
use std::sync::Arc;

/// Largest ratio of values for a linear axis. Beyond it, a linear axis hides the small values and
/// the axis becomes logarithmic.
const LINEAR_SPREAD: f64 = 50.0;

/// The contents of one chart of a metric.
pub struct Panel<'a> {
    /// The metric.
    pub metric: &'a Metric,
    /// How its values are shown.
    pub scale: Scale,
    /// What all cases share; may be empty.
    pub shared: String,
    /// Cases in the order of the tables.
    pub categories: Vec<Category<'a>>,
}

/// One case.
pub struct Category<'a> {
    /// Its name; a line break separates benchmark and parameters.
    pub label: String,
    /// One summary per variant.
    pub variants: Vec<&'a CaseSummary>,
}

/// One panel per metric.
pub fn panels(summaries: &[CaseSummary], unit: Option<UnitChoice>) -> Vec<Panel<'_>> {
    let mut metrics: Vec<&Metric> = Vec::new();
    for summary in summaries {
        if !metrics.contains(&&summary.metric) {
            metrics.push(&summary.metric);
        }
    }
    metrics
        .into_iter()
        .map(|metric| panel(metric, summaries, unit))
        .collect()
}

fn panel<'a>(
    metric: &'a Metric,
    summaries: &'a [CaseSummary],
    unit: Option<UnitChoice>,
) -> Panel<'a> {
    let of_metric: Vec<_> = summaries.iter().filter(|s| s.metric == *metric).collect();
    let mut ids: Vec<String> = Vec::new();
    let mut cases: Vec<Vec<&CaseSummary>> = Vec::new();
    for summary in of_metric {
        let id = summary.case.id();
        match ids.iter().position(|known| *known == id) {
            Some(at) => cases[at].push(summary),
            None => {
                ids.push(id);
                cases.push(vec![summary]);
            }
        }
    }
    let medians = cases.iter().flatten().map(|s| s.center.value);
    let scale = Scale::typical(&metric.unit, medians, unit);
    let firsts: Vec<_> = cases
        .iter()
        .map(|variants| Arc::clone(&variants[0].case))
        .collect();
    let (shared, labels) = labels(&firsts);
    let categories = labels.into_iter().map(|(index, label)| Category {
        label,
        variants: std::mem::take(&mut cases[index]),
    });
    Panel {
        metric,
        scale,
        shared,
        categories: categories.collect(),
    }
}

/// The figures of both sides of each comparison, by metric, case and variant. A picture of medians
/// over all runs could contradict the change beside it.
#[derive(Debug, Default)]
pub struct Compared(HashMap<(String, String, String), Estimate>);

impl Compared {
    /// Collects the sides of `comparisons`; where a variant is in several, the first one wins.
    pub fn new(comparisons: &[Comparison]) -> Compared {
        let mut sides = HashMap::new();
        for comparison in comparisons {
            for row in &comparison.rows {
                let key = |variant: &str| {
                    let metric = comparison.metric.name.clone();
                    (metric, row.case.id(), variant.to_owned())
                };
                let [baseline, candidate] = [row.baseline.location, row.candidate.location];
                let sure = |value| Estimate {
                    value,
                    low: value,
                    high: value,
                };
                let of_change = |change: Estimate| Estimate {
                    value: candidate,
                    low: baseline * (1.0 + change.low),
                    high: baseline * (1.0 + change.high),
                };
                let moved = row.change.map_or(sure(candidate), of_change);
                let baseline = sides.entry(key(&comparison.baseline));
                baseline.or_insert(sure(row.baseline.location));
                sides.entry(key(&comparison.candidate)).or_insert(moved);
            }
        }
        Compared(sides)
    }

    /// Whether nothing was compared.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The figure of one side: that of its row, with the interval of its change. The baseline, to
    /// which the change is relative, has no interval.
    pub fn side(&self, summary: &CaseSummary) -> Option<Estimate> {
        let key = (
            summary.metric.name.clone(),
            summary.case.id(),
            summary.variant.to_string(),
        );
        self.0.get(&key).copied()
    }
}

/// What all cases share, and the name of each case with its index in `cases`.
pub fn labels(cases: &[Arc<Case>]) -> (String, Vec<(usize, String)>) {
    let labels = CaseLabels::new(cases);
    let mut heading = String::new();
    let mut named = Vec::new();
    for line in labels.lines {
        match line {
            Line::Group(name) => heading = name.full,
            Line::Case { index, name } => {
                let own = name.full.split_whitespace().collect::<Vec<_>>().join(" ");
                let full = if heading.is_empty() {
                    own
                } else {
                    format!("{heading}\n{own}")
                };
                named.push((index, full));
            }
        }
    }
    (labels.shared, named)
}

impl Panel<'_> {
    /// A value axis that fits all `values` (in display units).
    pub fn axis(&self, values: impl Iterator<Item = f64>) -> Axis {
        axis(self.metric, &self.scale, values)
    }

    /// The subtitle: whatever all cases share, if anything.
    pub fn subtitle(&self) -> Option<String> {
        Some(self.shared.clone()).filter(|shared| !shared.is_empty())
    }

    /// The values of a summary's runs in display units.
    pub fn values(&self, summary: &CaseSummary) -> Vec<f64> {
        summary
            .runs
            .iter()
            .map(|run| self.scale.shown(run.value))
            .collect()
    }
}

/// An axis of a metric's values.
pub fn axis(metric: &Metric, scale: &Scale, values: impl Iterator<Item = f64>) -> Axis {
    let label = format!(
        "{} ({})",
        in_unit(&metric.name, &scale.symbol),
        direction(metric.better)
    );
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for value in values.filter(|value| value.is_finite()) {
        least = least.min(value);
        most = most.max(value);
    }
    if least > 0.0 && most / least > LINEAR_SPREAD {
        Axis::log10(label)
    } else {
        Axis::linear(label)
    }
}

/// A line or a cloud of points; its color follows from its position.
pub fn point_series(
    name: impl Into<String>,
    points: impl IntoIterator<Item = plot::Point>,
) -> plot::PointSeries {
    plot::PointSeries {
        name: name.into(),
        points: points.into_iter().collect(),
        colour: None,
    }
}
