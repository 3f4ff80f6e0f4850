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
//! The gallery of a page has a chart of its own per case (`every_run.rs`), which nobody asks for by name.

mod changes;
mod every_run;
mod gather;
mod runs;
mod study;

pub use changes::{band, forest_row};
pub use every_run::{Lane, every_run};
pub use gather::{Compared, labels};
pub use runs::bars;

use super::document::Chart;
use super::unit::UnitChoice;
use anyhow::bail;
use speedwell_analysis::{Findings, Study};
use std::str::FromStr;

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
        let mut charts = changes::forests(&findings.comparisons);
        charts.extend(runs::boxes(findings, unit));
        return Ok(charts);
    };
    let mut charts = match kind {
        ChartKind::Forest if findings.comparisons.is_empty() => {
            bail!("a forest chart shows changes, and there is nothing to compare")
        }
        ChartKind::Forest => changes::forests(&findings.comparisons),
        ChartKind::Box => runs::boxes(findings, unit),
        ChartKind::Bar => runs::bars(findings, unit),
        ChartKind::Histogram => runs::histograms(&findings.summaries, unit),
        ChartKind::Scatter => runs::in_order(&findings.summaries, unit),
        ChartKind::Flame => {
            bail!("flame graphs are drawn of profiles, and nothing was recorded\nhint: --profile")
        }
        ChartKind::Line => bail!("a line chart needs a parameter study (--x-axis NAME)"),
    };
    // What was asked for is shown, whatever else shows the same.
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
