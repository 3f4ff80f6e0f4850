//! Which chart shows which findings, and the charts as data for `speedwell_plot`.
//!
//! | kind | shows |
//! |---|---|
//! | forest | the change of every case with its interval |
//! | box | every run of every case, variants side by side |
//! | bar | medians with their intervals; both sides of a comparison with the interval of the change |
//! | histogram | how often values occur, a panel per case |
//! | scatter | values in the order of execution, a panel per case; of a study: its points |
//! | flame | where the time goes; drawn with the profiles (`report/profile`) |
//! | line | a study: points with their intervals, joined, and single runs beside them |
//!
//! The gallery of a page has a chart of its own per case ([`every_run`]), which nobody asks for by name.

mod runs;
mod study;

pub use runs::{Lane, bars, every_run};

use crate::case_labels::{CaseLabels, Line};
use crate::document::Chart;
use crate::figure::{direction, in_unit, setting};
use crate::unit::{Scale, UnitChoice};
use anyhow::bail;
use speedwell_analysis::{CaseComparison, CaseSummary, Comparison, Findings, Study};
use speedwell_model::{Estimate, Metric, Verdict};
use speedwell_plot as plot;
use speedwell_plot::Axis;
use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;

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
    /// Where the time goes, of profiles that were recorded.
    Flame,
}

/// A kind of chart that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown chart '{0}' (known: box, scatter, line, bar, forest, histogram, flame)")]
pub struct UnknownChart(pub String);

impl FromStr for ChartKind {
    type Err = UnknownChart;

    fn from_str(text: &str) -> Result<ChartKind, UnknownChart> {
        Ok(match text {
            "box" => ChartKind::Box,
            "scatter" => ChartKind::Scatter,
            "line" => ChartKind::Line,
            "bar" => ChartKind::Bar,
            "forest" => ChartKind::Forest,
            "histogram" => ChartKind::Histogram,
            "flame" => ChartKind::Flame,
            _ => return Err(UnknownChart(text.to_owned())),
        })
    }
}

/// The charts of `findings`: those of `kind`, else the changes and then every run.
///
/// # Errors
/// A kind that these findings do not have.
pub fn of_findings(
    findings: &Findings,
    kind: Option<ChartKind>,
    unit: Option<UnitChoice>,
) -> anyhow::Result<Vec<Chart>> {
    let Some(kind) = kind else {
        let mut charts = forests(&findings.comparisons);
        charts.extend(runs::boxes(findings, unit));
        return Ok(charts);
    };
    let mut charts = match kind {
        ChartKind::Forest if findings.comparisons.is_empty() => {
            bail!("a forest chart shows changes, and there is nothing to compare")
        }
        ChartKind::Forest => forests(&findings.comparisons),
        ChartKind::Box => runs::boxes(findings, unit),
        ChartKind::Bar => runs::bars(findings, unit),
        ChartKind::Histogram => runs::histograms(&findings.summaries, unit),
        ChartKind::Scatter => runs::in_order(&findings.summaries, unit),
        ChartKind::Flame => {
            bail!("flame graphs are drawn of profiles, and nothing was recorded\nhint: --profile")
        }
        ChartKind::Line => bail!("a line chart needs a parameter study (--x-axis NAME)"),
    };
    // What was requested is shown, whatever else shows the same.
    for chart in &mut charts {
        chart.shown_elsewhere = false;
    }
    Ok(charts)
}

/// The chart of a parameter study; `log` doubles along the x axis.
///
/// # Errors
/// A kind that a study does not have.
pub fn of_study(
    study: &Study,
    kind: Option<ChartKind>,
    unit: Option<UnitChoice>,
    log: bool,
) -> anyhow::Result<Chart> {
    match kind {
        None | Some(ChartKind::Line) => Ok(study::line(study, unit, log)),
        Some(ChartKind::Scatter) => Ok(study::scatter(study, unit, log)),
        Some(ChartKind::Bar) => Ok(study::bar(study, unit)),
        Some(_) => bail!("a parameter study can be drawn as line, scatter or bar"),
    }
}

/// On an axis whose largest value is more than this many times the smallest, equal distances hide
/// the small ones, and doubling gets equal distances instead.
const LINEAR_SPREAD: f64 = 50.0;

/// Everything that one chart of a metric shows.
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

/// What comparisons say of the sides of each case, by metric, case and variant. A picture that drew medians of all
/// runs could contradict the change beside it.
#[derive(Debug, Default)]
pub struct Compared(HashMap<(String, String, String), Estimate>);

impl Compared {
    /// What `comparisons` say; where a variant takes part in several, the first.
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

    /// What is said of one side: the figure of its row, with the interval of its change. The
    /// baseline, to which that is relative, has none.
    pub fn side(&self, summary: &CaseSummary) -> Option<Estimate> {
        let key = (
            summary.metric.name.clone(),
            summary.case.id(),
            summary.variant.to_string(),
        );
        self.0.get(&key).copied()
    }
}

/// What all cases share, and the name of each with its position in `cases`.
pub fn labels(cases: &[Arc<speedwell_model::Case>]) -> (String, Vec<(usize, String)>) {
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
    /// The axis of the values, fit for all of `values` (shown ones).
    pub fn axis(&self, values: impl Iterator<Item = f64>) -> Axis {
        axis(self.metric, &self.scale, values)
    }

    /// A line below the title, if there is anything that all cases share.
    pub fn subtitle(&self) -> Option<String> {
        Some(self.shared.clone()).filter(|shared| !shared.is_empty())
    }

    /// The shown values of a summary's runs.
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

/// A line or a cloud of points, in the colour of its place.
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

/// One forest chart per comparison that has a change to show.
pub fn forests(comparisons: &[Comparison]) -> Vec<Chart> {
    let shows = |comparison: &&Comparison| comparison.rows.iter().any(|row| row.change.is_some());
    comparisons.iter().filter(shows).map(forest).collect()
}

fn forest(comparison: &Comparison) -> Chart {
    let cases: Vec<_> = comparison
        .rows
        .iter()
        .map(|row| Arc::clone(&row.case))
        .collect();
    let (shared, names) = labels(&cases);
    let rows = names
        .into_iter()
        .filter_map(|(index, label)| forest_row(&comparison.rows[index], label));
    let metric = &comparison.metric;
    let title = format!(
        "{}: {} against {}",
        metric.name, comparison.candidate, comparison.baseline
    );
    let confidence = setting(comparison.confidence);
    Chart {
        picture: plot::Chart::Forest(plot::ForestChart {
            title: title.clone(),
            subtitle: Some(shared).filter(|shared| !shared.is_empty()),
            x_label: format!(
                "change in % with {confidence} interval ({})",
                direction(metric.better)
            ),
            percent: true,
            reference: 0.0,
            band: band(comparison),
            rows: rows.collect(),
        }),
        title,
        shown_elsewhere: true,
    }
}

/// The changes that count as none, in percent.
pub fn band(comparison: &Comparison) -> Option<(f64, f64)> {
    let delta = comparison.delta * 100.0;
    (delta > 0.0).then_some((-delta, delta))
}

/// One case of a forest chart, in percent; `None` where the change is not known.
pub fn forest_row(row: &CaseComparison, label: String) -> Option<plot::ForestRow> {
    let change = row.change?;
    Some(plot::ForestRow {
        label,
        estimate: change.value * 100.0,
        low: change.low * 100.0,
        high: change.high * 100.0,
        mark: match row.verdict {
            Verdict::Better => plot::Mark::Better,
            Verdict::Worse => plot::Mark::Worse,
            Verdict::Same => plot::Mark::Same,
            Verdict::Unclear => plot::Mark::Unclear,
        },
    })
}
