//! `speedwell history`: lists the sessions in the store, shows results over time, and stores
//! annotations (`history triage`, `history rename` and `history note`).
//!
//! This module decides what `--since` means. A day selects sessions measured since that day. A
//! revision selects sessions that measured later commits. `history changes` lists changes, when they
//! began and how certain they are, and evaluates a gate. `project.rs` loads the results.

pub mod line;
pub mod project;

use crate::gate::CommandGate;
use crate::history::project::{
    HistoryRequest, check_metrics, current_name, load_history, summarize_sessions,
};
use crate::options::{
    FailOn, MeasureTask, OutputArgs, SeriesArgs, StoreArgs, hide_unused, is_for_people, parse,
};
use crate::{CommandStatus, confirm, status, stored_session};
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand, ValueEnum};
use regex::Regex;
use speedwell_analysis::AnalysisSettings;
use speedwell_analysis::gate::GateOutcome;
use speedwell_analysis::history::{ProjectHistory, SeriesTrend};
use speedwell_analysis::trend::TrendSearch;
use speedwell_engine::{BuildArgs, MeasureRequest};
use speedwell_formats::point_table::parse_time;
use speedwell_machine::environment::GitRepository;
use speedwell_machine::process::unix_time_ms;
use speedwell_model::stored::SessionOverview;
use speedwell_model::{
    ChangeState, ChangeTriage, MetricDirection, RecordedChange, Verdict, check_note,
};
use speedwell_report::{
    self as report, ExportedHistory, OutputOptions, ReportFormat, ReportSubject, SessionsPage,
    TrendXAxis,
};
use speedwell_store::{SessionFilter, Store};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

/// List stored sessions, newest last, or show results over time
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    mut_args(|arg| hide_unused(arg, "tag no_save chart unit no_progress"))
)]
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
    Trend(Box<TrendArgs>),
    Changes(Box<ChangesArgs>),
    Triage(TriageArgs),
    Rename(RenameArgs),
    Note(NoteArgs),
}

/// Default number of sessions on a page.
const DEFAULT_LIMIT: u32 = 30;

impl HistoryArgs {
    /// Returns the number of sessions on a page, or `None` for all. By default, formats other than
    /// text and Markdown show all sessions, but a request for a later page sets the limit.
    fn page_limit(&self, format: Option<ReportFormat>) -> Option<u32> {
        let default_limit = (is_for_people(format) || self.page > 1).then_some(DEFAULT_LIMIT);
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
        Some(HistoryCommand::Trend(args)) => show_trend(*args),
        Some(HistoryCommand::Changes(args)) => show_changes(*args),
        Some(HistoryCommand::Triage(args)) => triage_change(args),
        Some(HistoryCommand::Rename(args)) => rename_case(args),
        Some(HistoryCommand::Note(args)) => add_note(args),
    }
}

fn list_sessions(args: HistoryArgs) -> anyhow::Result<CommandStatus> {
    let store = args.store.open_with(Store::open_to_read)?;
    let output = args.output.report_settings();
    let limit = args.page_limit(output.format);
    let filter = build_filter(&store, &args)?;
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
    let mut answers = HashMap::new();
    if is_for_people(output.format) && limit.is_some() {
        answers = find_answers(&store, &sessions);
    }
    let document = report::list_sessions_with_answers(&page, &answers);
    let width = output.width.or_else(|| (!args.output.verbose).then(piped_width));
    args.output.print_with(&document, &OutputOptions { width, ..output })?;
    Ok(CommandStatus::DONE)
}

/// Maximum width of a list that does not go to a terminal.
const MAX_PIPED_WIDTH: usize = 100;

/// Returns the width of a list that does not go to a terminal: that of the environment, if it is
/// known and not too wide.
fn piped_width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    columns.unwrap_or(MAX_PIPED_WIDTH).clamp(40, MAX_PIPED_WIDTH)
}

/// Maximum number of runs of a session whose answer the list shows: the list appears at once.
const MAX_ANSWERED_RUNS: usize = 500;

/// Returns the answers of the small sessions that can be read, by number.
fn find_answers(store: &Store, sessions: &[SessionOverview]) -> HashMap<i64, String> {
    let settings = AnalysisSettings::default();
    let is_small = |session: &&SessionOverview| (1..=MAX_ANSWERED_RUNS).contains(&session.runs);
    let answer = |session: &SessionOverview| {
        let stored = store.load_session(session.number).ok()?;
        Some((session.number, report::session_answer(&stored, &settings)))
    };
    sessions.iter().filter(is_small).filter_map(answer).collect()
}

/// Timeout of the git queries that `--since REVISION` needs, which read the history.
const GIT_HISTORY_TIMEOUT: Duration = Duration::from_secs(10);

/// Translates the options into a filter for the store. `--filter` matches the current names of
/// cases.
fn build_filter(store: &Store, args: &HistoryArgs) -> Result<SessionFilter> {
    let mut filter = SessionFilter { branch: args.branch.clone(), ..SessionFilter::default() };
    if let Some(word) = &args.since {
        match parse_day(word) {
            Some(unix_ms) => filter.since_unix_ms = Some(unix_ms),
            None => filter.numbers = Some(later_sessions(store, word)?),
        }
    }
    if !args.filter.is_empty() {
        let renames = store.list_renames()?;
        let is_wanted = |case: &str| {
            let name = current_name(case, &renames);
            args.filter.iter().any(|filter| filter.is_match(&name))
        };
        let sessions_with_case = store.numbers_with_case(is_wanted)?;
        filter.numbers = Some(match filter.numbers {
            Some(later) => (later.into_iter())
                .filter(|number| sessions_with_case.binary_search(number).is_ok())
                .collect(),
            None => sessions_with_case,
        });
    }
    Ok(filter)
}

/// Parses a date with an optional time into milliseconds since the Unix epoch. Rejects digits
/// without separators, because they may be the prefix of a revision id.
fn parse_day(word: &str) -> Option<i64> {
    let separator = word.as_bytes().get(4)?;
    matches!(separator, b'-' | b'.' | b'/').then(|| parse_time(word))?
}

/// Returns the sessions that measured descendants of the revision `word`, according to git or to
/// the store.
fn later_sessions(store: &Store, word: &str) -> Result<Vec<i64>> {
    let git = GitRepository::for_folder(Path::new("."), GIT_HISTORY_TIMEOUT);
    let revision = stored_session::resolve_revision(store, &git, word)?;
    let measured = store.revisions_of_sessions()?;
    let tips: HashSet<&str> = measured.iter().map(|(_, id)| id.as_str()).collect();
    let by_git = git.commits_after(&revision, &tips.into_iter().collect::<Vec<_>>());
    let by_line = store.later_revisions(&revision)?;
    ensure!(
        by_git.is_some() || by_line.is_some(),
        "cannot resolve '{word}': expected a day, or a revision known to git or the store\nhint: \
         --since 2026-01-31, --since v1.4, --since @rev:v1.4"
    );
    let mut later = by_git.unwrap_or_default();
    later.extend(by_line.unwrap_or_default());
    Ok(measured.iter().filter(|(_, id)| later.contains(id)).map(|(number, _)| *number).collect())
}

/// Show the trend of cases, revision by revision, with their changes
#[derive(Debug, Args)]
#[command(mut_args(|arg| hide_unused(arg, "tag no_save")))]
struct TrendArgs {
    /// Show ratios to this variant of the same session
    ///
    /// For example, an old release that is measured along with every revision.
    #[arg(long, value_name = "VARIANT")]
    relative: Option<String>,
    /// Horizontal axis: revisions in order, or the commit time
    #[arg(long, value_name = "AXIS", default_value = "revision", value_parser = ["revision", "time"])]
    x_axis: String,
    /// Instead of a report, export the points for another program
    #[arg(long, value_name = "KIND", conflicts_with_all = ["format", "json", "output"])]
    export: Option<ExportFormat>,
    #[command(flatten)]
    series: SeriesArgs,
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

/// Shows or exports the trend.
///
/// # Errors
/// Fails if the store cannot be read, or the branch or a metric does not exist.
fn show_trend(args: TrendArgs) -> anyhow::Result<CommandStatus> {
    args.output.check_report(ReportSubject::Trend)?;
    let mut store = args.store.open_with(Store::open_to_derive)?;
    let request = HistoryRequest {
        relative: args.relative.clone(),
        includes_details: true,
        ..args.series.history_request()?
    };
    check_metrics(&mut store, &request)?;
    let history = load_history(&mut store, &request)?;
    match args.export {
        Some(ExportFormat::Otava) => export_table(&history)?,
        Some(ExportFormat::DataJs) => status::write_stdout(report::export_data_js(&history))?,
        None => {
            let is_time = args.x_axis == "time";
            let axis = if is_time { TrendXAxis::Time } else { TrendXAxis::Revision };
            let output = args.output.report_settings();
            let document = report::report_trend(&history, axis, usize::MAX, &output);
            args.output.print_with(&document, &output)?;
        }
    }
    Ok(CommandStatus::DONE)
}

/// Writes the points of all series as one table.
fn export_table(history: &ProjectHistory) -> Result<()> {
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
    status::write_stdout(text)
}

/// Timeout of a git command.
const GIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Mark a change as accepted, wrong, fixed or open
#[derive(Debug, Args)]
#[command(mut_args(|arg| hide_unused(arg, "tag no_save")))]
struct TriageArgs {
    /// Number of the change, as shown by 'history changes'
    #[arg(value_name = "CHANGE")]
    change: i64,
    /// Outcome of the triage
    #[arg(value_parser = parse::choice(OUTCOMES))]
    outcome: ChangeTriage,
    /// Reason for the outcome
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    #[command(flatten)]
    store: StoreArgs,
}

/// Outcomes of a triage: their names, help and values.
const OUTCOMES: [parse::Choice<ChangeTriage>; 4] = [
    ("accepted", "Intended, or worth its cost", ChangeTriage::Accepted),
    ("wrong", "False alarm", ChangeTriage::Wrong),
    ("fixed", "Undone in a later revision", ChangeTriage::Fixed),
    ("open", "Not triaged yet", ChangeTriage::Open),
];

/// Stores the triage of a change.
///
/// # Errors
/// Fails if the note is too long, there is no such change, or the store cannot be written.
fn triage_change(args: TriageArgs) -> anyhow::Result<CommandStatus> {
    check_note(args.note.as_deref().unwrap_or_default())?;
    let mut store = args.store.open_store()?;
    let stored_change = store.find_change(args.change)?;
    let user = GitRepository::for_folder(Path::new("."), GIT_TIMEOUT)
        .try_git_output(&["config", "user.name"])
        .or_else(|| std::env::var("USER").ok());
    store.store_triage(&RecordedChange {
        triage: args.outcome,
        note: args.note.or(stored_change.change.note),
        triaged_by: user,
        triaged_unix_ms: Some(unix_time_ms()),
        ..stored_change.change
    })?;
    status::print_note(&format!("change {} is {}", args.change, args.outcome));
    Ok(CommandStatus::DONE)
}

/// Join the history of a benchmark or case with its history under another name
#[derive(Debug, Args)]
#[command(mut_args(|arg| hide_unused(arg, "tag no_save")))]
struct RenameArgs {
    /// Old name: a benchmark, or a case with its parameters
    old: String,
    /// Current name
    #[arg(required_unless_present = "undo")]
    new: Option<String>,
    /// Treat OLD as a pattern for case names; NEW may contain $1
    #[arg(long, conflicts_with = "undo")]
    regex: bool,
    /// Undo the rename of OLD
    #[arg(long, conflicts_with = "new")]
    undo: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Stores or undoes a rename.
///
/// # Errors
/// Fails if no benchmark or case has the old name, there is no rename to undo, the renames form a
/// cycle, or the store cannot be written.
fn rename_case(args: RenameArgs) -> anyhow::Result<CommandStatus> {
    let mut store = args.store.open_store()?;
    let Some(new) = args.new else {
        ensure!(
            store.undo_rename(&args.old)?,
            "'{}' has not been renamed, so there is nothing to undo",
            args.old
        );
        status::print_note(&format!("'{}' has its own history again", args.old));
        return Ok(CommandStatus::DONE);
    };
    summarize_sessions(&mut store, usize::MAX)?;
    let cases: BTreeSet<String> =
        store.list_series()?.into_iter().map(|series| series.key.case).collect();
    let pairs: Vec<(String, String)> = if args.regex {
        let pattern = Regex::new(&args.old).context("cannot parse OLD as a pattern")?;
        let renamed =
            cases.iter().map(|case| (case.clone(), pattern.replace_all(case, &*new).into_owned()));
        renamed.filter(|(old, new)| old != new).collect()
    } else {
        let is_named =
            |case: &String| *case == args.old || case.split(' ').next() == Some(&args.old);
        cases.iter().any(is_named).then(|| (args.old.clone(), new)).into_iter().collect()
    };
    if pairs.is_empty() {
        bail!(
            "no benchmark or case in the history is named '{}'\nhint: 'speedwell history trend' lists the names",
            args.old
        );
    }
    for (old, new) in &pairs {
        store.add_rename(old, new)?;
        status::print_note(&format!("'{old}' is now '{new}'"));
    }
    Ok(CommandStatus::DONE)
}

/// Add a note to a revision, shown in trends
#[derive(Debug, Args)]
#[command(mut_args(|arg| hide_unused(arg, "tag no_save")))]
struct NoteArgs {
    /// Revision
    revision: String,
    /// Text of the note
    text: String,
    #[command(flatten)]
    store: StoreArgs,
}

/// Stores a note on a revision.
///
/// # Errors
/// Fails if the note is too long, or the store cannot be written.
fn add_note(args: NoteArgs) -> anyhow::Result<CommandStatus> {
    check_note(&args.text)?;
    let mut store = args.store.open_store()?;
    let id = GitRepository::for_folder(Path::new("."), GIT_TIMEOUT).commit_id(&args.revision);
    store.add_note(&id.unwrap_or(args.revision), &args.text)?;
    Ok(CommandStatus::DONE)
}

/// List changes in the history of a branch, when they began, and how certain they are
#[derive(Debug, Args)]
#[command(
    mut_arg("build", |arg| arg.requires("confirm")),
    mut_args(|arg| hide_unused(arg, "no_save"))
)]
struct ChangesArgs {
    #[command(flatten)]
    series: SeriesArgs,
    /// Show only changes after this revision or session, e.g. v1.4
    #[arg(long, value_name = "REV")]
    since: Option<String>,
    /// Show only changes that are neither triaged nor refuted
    #[arg(long)]
    open: bool,
    /// Exit with status 1 if an open change is for the worse
    ///
    /// With 'unclear', an open suspected change also sets status 1. The status is 2 if no series could be searched.
    #[arg(long, value_name = "WHEN", default_value = "never", value_parser = parse::choice(parse::FAIL_ON), help_heading = "Gate")]
    fail_on: FailOn,
    /// Pass if the history is too short to search
    #[arg(long, requires = "fail_on", help_heading = "Gate")]
    allow_short_history: bool,
    /// First re-measure open changes for the worse, on this machine
    ///
    /// The gate then considers only confirmed changes.
    #[arg(long, conflicts_with_all = ["format", "json", "no_save"], help_heading = "Gate")]
    confirm: bool,
    #[command(flatten, next_help_heading = "Gate")]
    build: BuildArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// Lists the changes.
///
/// # Errors
/// Fails if the store cannot be read, if the branch, revision or metric does not exist, or if no
/// series could be searched for the gate.
fn show_changes(args: ChangesArgs) -> anyhow::Result<CommandStatus> {
    args.output.check_report(ReportSubject::Changes)?;
    let mut store = args.store.open_with(Store::open_to_derive)?;
    let request = args.series.history_request()?;
    check_metrics(&mut store, &request)?;
    let mut history = load_history(&mut store, &request)?;
    let position =
        |revision: &String| stored_session::line_position(&store, &history.line, revision);
    let since = args.since.as_ref().map(position).transpose()?;
    let is_shown = |series: &SeriesTrend, change: &RecordedChange| {
        let is_new = since.is_none_or(|since| {
            let position = series.trend.revision_position(&change.after);
            position.is_none_or(|position| position > since)
        });
        is_new && (!args.open || change.is_open())
    };
    let mut confirm_status = CommandStatus::DONE;
    if args.confirm {
        confirm_status = confirm_changes(&args, &mut store, &history, &is_shown)?;
        history = load_history(&mut store, &request)?;
    }
    let mut document = report::report_changes(&history, &is_shown, &args.output.report_settings());
    let gate = evaluate_gate(&history, &is_shown, &args);
    if let Ok(gate) = &gate {
        gate.add_to(&mut document, &args.output);
    }
    args.output.print_document(&document)?;
    Ok(confirm_status.combine_with_gate(gate?.exit_status()))
}

/// Re-measures open changes for the worse, except confirmed changes and gradual drifts. Also
/// re-measures a series' newest point if it is far from the other points, although it does not
/// count as a change yet. A refuted change does not make the command fail.
fn confirm_changes(
    args: &ChangesArgs,
    store: &mut Store,
    history: &ProjectHistory,
    is_shown: &dyn Fn(&SeriesTrend, &RecordedChange) -> bool,
) -> anyhow::Result<CommandStatus> {
    let mut numbers = Vec::new();
    for series in &history.series {
        let is_wanted = |change: &&RecordedChange| {
            let is_settled = change.state == ChangeState::Confirmed || change.is_drift;
            let is_worse = series.change_verdict(change, history.threshold) == Verdict::Worse;
            is_shown(series, change) && change.is_open() && is_worse && !is_settled
        };
        numbers.extend(series.trend.changes.iter().filter(is_wanted).map(|change| change.number));
        let newest = series.trend.change_of_newest();
        if let Some(newest) = newest.filter(|change| is_wanted(&change)) {
            // Store the newest point as a change, because the outcome needs the change's number.
            let changes = [&series.trend.changes[..], &[newest]].concat();
            let stored_changes = store.replace_changes(series.number, &history.line, &changes)?;
            numbers.extend(stored_changes.last().map(|change| change.number));
        }
    }
    let task =
        confirm::confirm_task(MeasureTask { store: args.store.clone(), ..MeasureTask::default() });
    let mut request = MeasureRequest::default();
    request.variants.build = args.build.clone();
    let status = confirm::confirm_changes(&numbers, &request, store, &task)?;
    Ok(if status == CommandStatus::NEGATIVE { CommandStatus::DONE } else { status })
}

/// Returns whether any series was searched. If none was, fails, unless some series are too short to
/// search and `allow_short_history` is set.
fn is_searchable(history: &ProjectHistory, allow_short_history: bool) -> anyhow::Result<bool> {
    let has_search = |matches_search: fn(&TrendSearch) -> bool| {
        let mut series = history.series.iter();
        series.any(|series| matches_search(&series.trend.search))
    };
    if has_search(|search| *search == TrendSearch::Done) {
        return Ok(true);
    }
    let is_too_short = has_search(|search| matches!(search, TrendSearch::TooShort(_)));
    let message = "nothing could be compared: no series has enough points";
    ensure!(
        is_too_short && allow_short_history,
        "{message}\nhint: speedwell compare --old rev:@base --new rev:HEAD compares two revisions directly; \
         --allow-short-history accepts a young history"
    );
    status::print_note(message);
    Ok(false)
}

/// Returns why a gate cannot judge some series: it is unknown whether higher or lower values of a
/// metric are better, or values are negative.
fn gate_obstacles(searched: &[&SeriesTrend], unsearched: &[&SeriesTrend]) -> Vec<String> {
    let metrics = searched.iter().map(|series| &series.key.metric);
    let undirected = metrics.filter(|metric| metric.better == MetricDirection::Unknown);
    let undirected: BTreeSet<&str> = undirected.map(|metric| metric.name.as_str()).collect();
    let explain = |metric: &&str| {
        format!("it is unknown whether lower or higher values of '{metric}' are better")
    };
    let mut obstacles: Vec<String> = undirected.iter().map(explain).collect();
    let searches = unsearched.iter().map(|series| &series.trend.search);
    let impossible_count =
        searches.filter(|search| matches!(search, TrendSearch::Impossible(_))).count();
    if impossible_count > 0 {
        obstacles
            .push(format!("{impossible_count} series with negative values cannot be searched"));
    }
    obstacles
}

/// Evaluates the gate on changes in the history.
fn evaluate_gate(
    history: &ProjectHistory,
    is_shown: &dyn Fn(&SeriesTrend, &RecordedChange) -> bool,
    args: &ChangesArgs,
) -> anyhow::Result<CommandGate> {
    let fail_on = args.fail_on;
    if fail_on == FailOn::Never || !is_searchable(history, args.allow_short_history)? {
        return Ok(CommandGate::default());
    }
    let fails_gate = |series: &SeriesTrend, change: &RecordedChange| {
        let counts = match change.state {
            ChangeState::Confirmed => true,
            _ if args.confirm => false,
            ChangeState::Suspected => fail_on == FailOn::Unclear,
            _ => true,
        };
        let verdict = series.change_verdict(change, history.threshold);
        is_shown(series, change) && change.is_open() && counts && fail_on.fails_on(verdict)
    };
    let mut failing_count = 0;
    for series in &history.series {
        let changes = series.trend.changes.iter();
        failing_count += changes.filter(|change| fails_gate(series, change)).count();
    }
    let (searched, unsearched): (Vec<&SeriesTrend>, Vec<&SeriesTrend>) =
        (history.series.iter()).partition(|series| series.trend.is_searched());
    let (change, changes) = if fail_on == FailOn::Unclear {
        ("unclear change or change for the worse", "unclear changes or changes for the worse")
    } else {
        ("change for the worse", "changes for the worse")
    };
    let failing_remark =
        (failing_count > 0).then(|| report::format_count(failing_count, change, changes));
    let unsearched_remark =
        (!unsearched.is_empty()).then(|| format!("{} not searched", unsearched.len()));
    let outcome = GateOutcome {
        judged: format!("{} series", searched.len()),
        failing: failing_remark.into_iter().collect(),
        obstacles: gate_obstacles(&searched, &unsearched),
        remarks: unsearched_remark.into_iter().collect(),
    };
    Ok(CommandGate::from_outcome(Some(outcome), CommandStatus::DONE))
}
