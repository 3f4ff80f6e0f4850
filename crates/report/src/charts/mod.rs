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
//! request.

mod panel;
mod runs;
mod trend;

pub use panel::{ComparedSides, label_cases, metric_axis, point_series};
pub use runs::{VariantLane, draw_bars, draw_every_run, draw_study};
pub use trend::{TrendXAxis, draw_trend};

use crate::document::ReportChart;
use crate::figure::{better_direction, format_setting};
use crate::unit::UnitChoice;
use anyhow::{anyhow, bail};
use speedwell_analysis::{AnalysisFindings, CandidateComparison, CaseComparison};
use speedwell_model::Verdict;
use speedwell_plot as plot;
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

/// An unknown kind of chart.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown chart '{0}': supported charts are box, scatter, line, bar, forest, histogram, flame and trend"
)]
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
            "trend" => ChartKind::Trend,
            _ => return Err(UnknownChart(text.to_owned())),
        })
    }
}

/// Draws charts of the given `kind` from `findings`. Without a kind, draws charts of the changes,
/// followed by charts of every run.
///
/// # Errors
/// Fails if `findings` have no chart of that kind.
pub fn draw_findings(
    findings: &AnalysisFindings,
    kind: Option<ChartKind>,
    unit: Option<UnitChoice>,
) -> anyhow::Result<Vec<ReportChart>> {
    let Some(kind) = kind else {
        let mut charts = draw_forests(&findings.comparisons);
        if count_runs(findings) <= MAX_DRAWN_RUNS {
            charts.extend(runs::draw_boxes(findings, unit));
        }
        return Ok(charts);
    };
    let mut charts = match kind {
        ChartKind::Forest if findings.comparisons.is_empty() => {
            bail!("a forest chart shows changes, but there is nothing to compare")
        }
        ChartKind::Forest => draw_forests(&findings.comparisons),
        ChartKind::Box => runs::draw_boxes(findings, unit),
        ChartKind::Bar => runs::draw_bars(findings, unit),
        ChartKind::Histogram => runs::draw_histograms(&findings.summaries, unit),
        ChartKind::Scatter => runs::draw_in_order(&findings.summaries, unit),
        ChartKind::Flame => {
            bail!(
                "flame graphs need profiles, but none were recorded\nhint: measure with --profile"
            )
        }
        ChartKind::Line => bail!("a line chart needs a parameter study (--x-axis NAME)"),
        ChartKind::Trend => return Err(not_a_trend()),
    };
    // Show a requested chart even if other parts of the report show the same.
    for chart in &mut charts {
        chart.shown_elsewhere = false;
    }
    Ok(charts)
}

/// Returns the error for a trend chart of a report that does not cover revisions.
pub fn not_a_trend() -> anyhow::Error {
    anyhow!(
        "a trend chart shows results over revisions, which this report does not have\nhint: speedwell history trend -o trend.svg"
    )
}

/// Draws a forest chart for each comparison that has a change to show.
fn draw_forests(comparisons: &[CandidateComparison]) -> Vec<ReportChart> {
    let has_change =
        |comparison: &&CandidateComparison| comparison.rows.iter().any(|row| row.change.is_some());
    comparisons.iter().filter(has_change).map(draw_forest).collect()
}

fn draw_forest(comparison: &CandidateComparison) -> ReportChart {
    let cases: Vec<_> = comparison.rows.iter().map(|row| Arc::clone(&row.case)).collect();
    let (shared, names) = label_cases(&cases);
    let rows =
        names.into_iter().filter_map(|(index, label)| forest_row(&comparison.rows[index], label));
    let metric = &comparison.metric;
    let title =
        format!("{}: {} against {}", metric.name, comparison.candidate, comparison.baseline);
    let confidence = format_setting(comparison.confidence);
    ReportChart {
        picture: plot::AnyChart::Forest(plot::ForestChart {
            title: title.clone(),
            subtitle: Some(shared).filter(|shared| !shared.is_empty()),
            x_label: format!(
                "change in % with {confidence} interval ({})",
                better_direction(metric.better)
            ),
            percent: true,
            reference: 0.0,
            band: threshold_band(comparison),
            rows: rows.collect(),
        }),
        title,
        shown_elsewhere: true,
    }
}

/// Returns the range of changes that count as the same, in percent. Returns `None` if the range is
/// empty.
pub fn threshold_band(comparison: &CandidateComparison) -> Option<(f64, f64)> {
    let delta = comparison.delta * 100.0;
    (delta > 0.0).then_some((-delta, delta))
}

/// Returns one case of a forest chart, in percent. Returns `None` if the change is unknown.
pub fn forest_row(row: &CaseComparison, label: String) -> Option<plot::ForestRow> {
    let change = row.change?;
    Some(plot::ForestRow {
        label,
        estimate: change.value * 100.0,
        low: change.low * 100.0,
        high: change.high * 100.0,
        mark: verdict_mark(row.verdict),
    })
}

fn verdict_mark(verdict: Verdict) -> plot::VerdictMark {
    match verdict {
        Verdict::Better => plot::VerdictMark::Better,
        Verdict::Worse => plot::VerdictMark::Worse,
        Verdict::Same => plot::VerdictMark::Same,
        Verdict::Unclear => plot::VerdictMark::Unclear,
    }
}
