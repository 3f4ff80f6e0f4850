//! `speedwell history trend`: results of cases along a line of revisions.

use crate::options::{OutputArgs, SeriesArgs, StoreArgs};
use crate::{Status, status};
use anyhow::ensure;
use clap::{Args, ValueEnum};
use speedwell_analysis::history::History;
use speedwell_measure::history::{HistoryRequest, check_metrics, history};
use speedwell_report::{self as report, CourseAxis, Exported, Subject};

/// Show the course of cases, revision by revision, with what changed
#[derive(Debug, Args)]
pub struct TrendArgs {
    #[command(flatten)]
    series: SeriesArgs,
    /// Show the ratio to this variant of the same session
    ///
    /// For example an old release that is measured beside every revision.
    #[arg(long, value_name = "VARIANT")]
    relative: Option<String>,
    /// The bottom axis: revisions in order, or the time of commits
    #[arg(long, value_name = "AXIS", default_value = "revision")]
    x_axis: XAxis,
    /// Write the points for another program instead of a report
    #[arg(long, value_name = "KIND", conflicts_with_all = ["format", "json", "output"])]
    export: Option<Export>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// Programs that read results over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Export {
    /// CSV for Otava: time, commit and machine, and a column for each series.
    Otava,
    /// The data.js that the pages of github-action-benchmark show.
    #[value(name = "data.js")]
    DataJs,
}

/// Horizontal axis of the charts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum XAxis {
    Revision,
    Time,
}

/// Shows or exports the trend.
///
/// # Errors
/// If the store cannot be read, or there is no such branch or metric.
pub fn run(args: TrendArgs) -> anyhow::Result<Status> {
    args.output.check(Subject::Trend)?;
    let mut store = args.store.open_to_derive()?;
    let request = HistoryRequest {
        relative: args.relative.clone(),
        whole_course: true,
        ..args.series.request()?
    };
    check_metrics(&mut store, &request)?;
    let history = history(&mut store, &request)?;
    match args.export {
        Some(Export::Otava) => return export_table(&history),
        Some(Export::DataJs) => {
            let text = report::data_js(&history);
            status::say(text)?;
            return Ok(Status::DONE);
        }
        None => {}
    }
    let axis = match args.x_axis {
        XAxis::Revision => CourseAxis::Revision,
        XAxis::Time => CourseAxis::Time,
    };
    let document = report::trend(&history, axis, usize::MAX, &args.output.settings());
    args.output.print(&document)?;
    Ok(Status::DONE)
}

/// Writes the points of all series as one table.
fn export_table(history: &History) -> anyhow::Result<Status> {
    let Exported { text, left_out } = report::otava(history);
    ensure!(
        text.lines().count() > 1,
        "there is no session with a point of every series\nhint: a pattern picks cases that were measured together"
    );
    if left_out > 0 {
        status::warn(&format!(
            "{left_out} sessions lack a point of some series and were left out, because Otava reads no gaps; a pattern picks \
             cases that were measured together."
        ));
    }
    status::say(text)?;
    Ok(Status::DONE)
}
