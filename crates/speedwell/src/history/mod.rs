//! `speedwell history`: the sessions in the store, and what they say over time.

mod changes;
mod judge;
mod trend;

use super::Status;
use super::options::{MetricArgs, OutputArgs, StoreArgs, parse};
use anyhow::Context;
use clap::{Args, Subcommand};
use regex::Regex;
use speedwell_measure::history::HistoryRequest;
use speedwell_report::{self as report, Format, Page};
use speedwell_suite::project::Project;

/// List the sessions in the store, newest last; or show how results went over time
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct HistoryArgs {
    #[command(subcommand)]
    command: Option<HistoryCommand>,
    /// Show the N newest sessions; 0 shows all [default: 30; all as CSV or JSON]
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// Show page N, counted from the newest sessions
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    page: u32,
    /// Only sessions that were measured on this branch
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Debug, Subcommand)]
enum HistoryCommand {
    Trend(Box<trend::TrendArgs>),
    Changes(Box<changes::ChangesArgs>),
    Judge(judge::JudgeArgs),
    Rename(judge::RenameArgs),
    Note(judge::NoteArgs),
}

/// Which series are looked at.
#[derive(Debug, Args)]
#[command(next_help_heading = "Selection")]
struct SeriesArgs {
    /// Only cases whose name matches this pattern (repeatable)
    #[arg(value_name = "PATTERN")]
    patterns: Vec<Regex>,
    /// Only cases with this value of a parameter (repeatable)
    #[arg(short = 's', long, value_name = "NAME=VALUE", value_parser = parse::assignment)]
    set: Vec<(String, String)>,
    #[command(flatten)]
    metric: MetricArgs,
    /// The branch whose commits are the line [default: that of speedwell.toml, the one that others are merged into, or
    /// that of the checkout]
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// The smallest change that matters: a change is 'worse' or 'better' if all of its interval is beyond it
    /// [default: that of speedwell.toml, or any sure change]
    #[arg(long, value_name = "PCT", value_parser = parse::percent)]
    threshold: Option<f64>,
    /// Go on where the benchmark itself was changed, as if it had not been
    #[arg(long)]
    same_work: bool,
}

impl SeriesArgs {
    fn request(&self) -> anyhow::Result<HistoryRequest> {
        let here = std::env::current_dir()?;
        let root = here.ancestors().last().context("no folder")?;
        let of_project = Project::find(&here, root)?.and_then(|project| project.history.threshold);
        Ok(HistoryRequest {
            branch: self.branch.clone(),
            filters: self.patterns.clone(),
            sets: self.set.clone(),
            metrics: self.metric.names.clone(),
            threshold: self.threshold.or(of_project).unwrap_or(0.0),
            same_work: self.same_work,
            ..HistoryRequest::default()
        })
    }
}

/// Sessions on a page: what can be looked over.
const USUAL_LIMIT: u32 = 30;

impl HistoryArgs {
    /// Sessions on a page, unless all are shown. Programs get all if they do not say otherwise.
    fn limit(&self, format: Option<Format>) -> Option<u32> {
        let is_for_people = matches!(format, None | Some(Format::Text | Format::Markdown));
        let usual = (is_for_people || self.page > 1).then_some(USUAL_LIMIT);
        self.limit.or(usual).filter(|limit| *limit > 0)
    }
}

/// Lists, or does what the words behind it ask for.
///
/// # Errors
/// The store cannot be read.
pub fn run(args: HistoryArgs) -> anyhow::Result<Status> {
    match args.command {
        None => list(args),
        Some(HistoryCommand::Trend(args)) => trend::run(*args),
        Some(HistoryCommand::Changes(args)) => changes::run(*args),
        Some(HistoryCommand::Judge(args)) => judge::run(args),
        Some(HistoryCommand::Rename(args)) => judge::rename(args),
        Some(HistoryCommand::Note(args)) => judge::note(args),
    }
}

fn list(args: HistoryArgs) -> anyhow::Result<Status> {
    let store = args.store.open_to_read()?;
    let output = args.output.settings();
    let branch = args.branch.as_deref();
    let sessions = match args.limit(output.format) {
        Some(limit) => store.page(branch, limit, args.page - 1)?,
        None => store.list(branch)?,
    };
    let page = Page {
        sessions: &sessions,
        number: args.page,
        all: store.count(branch)?,
    };
    args.output.print(&report::sessions(&page))?;
    Ok(Status::DONE)
}
