//! `speedwell history trend`: shows or exports the results of cases in the history of a branch.

use crate::history::project::{HistoryRequest, check_metrics, load_history};
use crate::options::{OutputArgs, SeriesArgs, StoreArgs};
use crate::{CommandStatus, status};
use anyhow::ensure;
use clap::{Args, ValueEnum};
use speedwell_analysis::history::ProjectHistory;
use speedwell_report::{self as report, ExportedHistory, ReportSubject, TrendXAxis};

/// Show the trend of cases, revision by revision, with their changes
#[derive(Debug, Args)]
pub struct TrendArgs {
    #[command(flatten)]
    series: SeriesArgs,
    /// Show ratios to this variant of the same session
    ///
    /// For example, an old release that is measured along with every revision.
    #[arg(long, value_name = "VARIANT")]
    relative: Option<String>,
    /// Horizontal axis: revisions in order, or the commit time
    #[arg(long, value_name = "AXIS", default_value = "revision")]
    x_axis: XAxis,
    /// Instead of a report, export the points for another program
    #[arg(long, value_name = "KIND", conflicts_with_all = ["format", "json", "output"])]
    export: Option<ExportFormat>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// Programs that read results over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// CSV for Otava: time, commit, machine and a column for each series.
    Otava,
    /// data.js for the pages of github-action-benchmark.
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
/// Fails if the store cannot be read, or the branch or a metric does not exist.
pub fn run(args: TrendArgs) -> anyhow::Result<CommandStatus> {
    args.output.check_report(ReportSubject::Trend)?;
    let mut store = args.store.open_to_derive()?;
    let request = HistoryRequest {
        relative: args.relative.clone(),
        includes_details: true,
        ..args.series.history_request()?
    };
    check_metrics(&mut store, &request)?;
    let history = load_history(&mut store, &request)?;
    match args.export {
        Some(ExportFormat::Otava) => return export_table(&history),
        Some(ExportFormat::DataJs) => {
            let text = report::export_data_js(&history);
            status::write_stdout(text)?;
            return Ok(CommandStatus::DONE);
        }
        None => {}
    }
    let axis = match args.x_axis {
        XAxis::Revision => TrendXAxis::Revision,
        XAxis::Time => TrendXAxis::Time,
    };
    let document = report::report_trend(&history, axis, usize::MAX, &args.output.report_settings());
    args.output.print_document(&document)?;
    Ok(CommandStatus::DONE)
}

/// Writes the points of all series as one table.
fn export_table(history: &ProjectHistory) -> anyhow::Result<CommandStatus> {
    let ExportedHistory { text, left_out } = report::export_otava(history);
    ensure!(
        text.lines().count() > 1,
        "no session has a point in every series\nhint: use a pattern to select cases that were measured together"
    );
    if left_out > 0 {
        status::print_warning(&format!(
            "{left_out} sessions lack a point in some series and were left out, because Otava does not accept gaps; \
             use a pattern to select cases that were measured together."
        ));
    }
    status::write_stdout(text)?;
    Ok(CommandStatus::DONE)
}
