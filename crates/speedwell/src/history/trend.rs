//! `speedwell history trend`: the course of cases along a line of revisions.

use crate::Status;
use crate::options::{OutputArgs, SeriesArgs, StoreArgs};
use clap::{Args, ValueEnum};
use speedwell_measure::history::{HistoryRequest, history};
use speedwell_report::{self as report, CourseAxis, Subject};

/// Show the course of cases, revision by revision, with what changed
#[derive(Debug, Args)]
pub struct TrendArgs {
    #[command(flatten)]
    series: SeriesArgs,
    /// Show the ratio to this variant of the same session, such as an old release that is measured beside every revision
    #[arg(long, value_name = "VARIANT")]
    relative: Option<String>,
    /// What the charts have at the bottom: revisions in their order, or the time when they were committed
    #[arg(long, value_name = "AXIS", default_value = "revision")]
    x_axis: XAxis,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// The bottom axis of charts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum XAxis {
    Revision,
    Time,
}

/// Shows.
///
/// # Errors
/// The store cannot be read, or there is no such branch.
pub fn run(args: TrendArgs) -> anyhow::Result<Status> {
    args.output.check(Subject::Trend)?;
    let mut store = args.store.open_to_derive()?;
    let request = HistoryRequest {
        relative: args.relative.clone(),
        with_circumstances: true,
        ..args.series.request()?
    };
    let history = history(&mut store, &request)?;
    let axis = match args.x_axis {
        XAxis::Revision => CourseAxis::Revision,
        XAxis::Time => CourseAxis::Time,
    };
    let document = report::trend(&history, axis, &args.output.settings());
    args.output.print(&document)?;
    Ok(Status::DONE)
}
