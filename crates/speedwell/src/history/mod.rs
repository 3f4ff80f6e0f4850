//! `speedwell history`: lists the sessions in the store, and shows results over time.

mod annotations;
mod changes;
pub mod project;
mod session_list;
mod trend;

use super::CommandStatus;
use super::options::{OutputArgs, StoreArgs};
use clap::{Args, Subcommand};
use regex::Regex;
use session_list::ListRequest;
use speedwell_report::{self as report, ReportFormat, SessionsPage};
use speedwell_store::SessionFilter;

/// List stored sessions, newest last, or show results over time
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct HistoryArgs {
    #[command(subcommand)]
    command: Option<HistoryCommand>,
    /// Show the N newest sessions; 0 shows all [default: 30]
    ///
    /// CSV, JSON, HTML, AsciiDoc and Org show all sessions by default.
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// Show page N, counted from the newest sessions
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    page: u32,
    /// Show only sessions measured on this branch
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// Show only sessions since a revision or day: v1.4, 2026-01-31
    ///
    /// For a revision (v1.4, @base), these are sessions of later code; for a day, sessions that began on it or later.
    #[arg(long, value_name = "REV|DATE")]
    since: Option<String>,
    /// Show only sessions with a case matching RE (repeatable)
    ///
    /// The pattern may match anywhere in the name of a case. With several patterns, one must match.
    #[arg(short, long, value_name = "RE")]
    filter: Vec<Regex>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Debug, Subcommand)]
enum HistoryCommand {
    Trend(Box<trend::TrendArgs>),
    Changes(Box<changes::ChangesArgs>),
    Triage(annotations::TriageArgs),
    Rename(annotations::RenameArgs),
    Note(annotations::NoteArgs),
}

/// Default number of sessions on a page.
const DEFAULT_LIMIT: u32 = 30;

impl HistoryArgs {
    /// Returns the number of sessions on a page, or `None` for all. By default, formats other than
    /// text and Markdown show all sessions, but a request for a later page sets the limit.
    fn page_limit(&self, format: Option<ReportFormat>) -> Option<u32> {
        let is_for_humans =
            matches!(format, None | Some(ReportFormat::Text | ReportFormat::Markdown));
        let default_limit = (is_for_humans || self.page > 1).then_some(DEFAULT_LIMIT);
        self.limit.or(default_limit).filter(|limit| *limit > 0)
    }
}

/// Lists the sessions, or runs the subcommand.
///
/// # Errors
/// Fails if the store cannot be read.
pub fn run(args: HistoryArgs) -> anyhow::Result<CommandStatus> {
    match args.command {
        None => list_sessions(args),
        Some(HistoryCommand::Trend(args)) => trend::run(*args),
        Some(HistoryCommand::Changes(args)) => changes::run(*args),
        Some(HistoryCommand::Triage(args)) => annotations::triage_change(args),
        Some(HistoryCommand::Rename(args)) => annotations::rename_case(args),
        Some(HistoryCommand::Note(args)) => annotations::add_note(args),
    }
}

fn list_sessions(args: HistoryArgs) -> anyhow::Result<CommandStatus> {
    let store = args.store.open_to_read()?;
    let output = args.output.report_settings();
    let limit = args.page_limit(output.format);
    let request = ListRequest { branch: args.branch, since: args.since, filters: args.filter };
    let filter = session_list::build_filter(&store, &request)?;
    let sessions = match limit {
        Some(limit) => store.session_page(&filter, limit, args.page - 1)?,
        None => store.list_sessions(&filter)?,
    };
    let page = SessionsPage {
        sessions: &sessions,
        number: args.page,
        all: store.count_sessions(&filter)?,
        is_chosen: filter != SessionFilter::default(),
    };
    args.output.print_document(&report::list_sessions(&page))?;
    Ok(CommandStatus::DONE)
}
