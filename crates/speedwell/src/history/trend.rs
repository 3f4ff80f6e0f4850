//! `speedwell history trend`: the course of cases along a line of revisions.

use crate::Status;
use crate::options::{OutputArgs, SeriesArgs, StoreArgs};
use clap::Args;
use speedwell_measure::history::{HistoryRequest, history};
use speedwell_report::{self as report, Subject};

/// Show the course of cases, revision by revision, with what changed
#[derive(Debug, Args)]
pub struct TrendArgs {
    #[command(flatten)]
    series: SeriesArgs,
    /// Show the ratio to this variant of the same session, such as an old release that is measured beside every revision
    #[arg(long, value_name = "VARIANT")]
    relative: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
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
    let document = report::trend(&history, &args.output.settings());
    args.output.print(&document)?;
    Ok(Status::DONE)
}
