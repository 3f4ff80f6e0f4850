//! Builds the home page of a project.
//!
//! This module chooses wording and columns; the server chooses the pages that cells link to. Start
//! at [`report_home`]. `series_list.rs` lists the series.

use crate::changes::OpenChanges;
use crate::document::Document;
use crate::figure::{
    DAY_MS, format_about, format_age, format_count, format_count_or, join_texts, unless_empty,
};
use crate::live::remaining_time;
use crate::series_change::series_changes;
use crate::series_list::{branch_title, list_series};
use crate::session_list::{ResultLine, SessionResult};
use crate::table::{
    Datum, ReportCell, ReportColumn, ReportRow, ReportTable, TextEmphasis, column_set,
};
use serde_json::json;
use speedwell_analysis::history::ProjectHistory;
use speedwell_analysis::schedule::SilentSchedule;
use speedwell_model::stored::{SessionArrival, SessionOverview};
use speedwell_model::{ChangeState, SessionState, quote, short_revision};
use std::collections::HashMap;
use std::time::Duration;

/// The data of a project's page.
#[derive(Debug)]
pub struct HomeState<'a> {
    /// The name of the project.
    pub project: &'a str,
    /// The current time, in milliseconds since the Unix epoch.
    pub now_unix_ms: i64,
    /// The measurements in progress.
    pub running: &'a [RunningSession],
    /// The history of the branch.
    pub history: &'a ProjectHistory,
    /// The open changes, as the page of changes lists them.
    pub changes: Document,
    /// The author of each first revision after a change, if known.
    pub authors: &'a HashMap<String, String>,
    /// The sessions of the last days, newest first.
    pub arrivals: &'a [SessionArrival],
    /// Numbers of sessions whose process was killed.
    pub killed: &'a [i64],
    /// Schedules that are silent.
    pub silent: &'a [SilentSchedule<'a>],
    /// The newest [`one_off_sessions`].
    pub one_off: &'a [SessionOverview],
    /// Their known results, by number.
    pub results: &'a HashMap<i64, SessionResult>,
    /// Titles of machines by number.
    pub machines: &'a HashMap<i64, String>,
    /// The words that the name of a shown benchmark contains.
    pub filter: &'a str,
}

/// A session or a load that is being measured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunningSession {
    /// The number of the session; `None` for a load, which is not stored before its end.
    pub number: Option<i64>,
    /// The id of the session; empty for a load.
    pub id: String,
    /// The command line.
    pub command: Vec<String>,
    /// The number of completed slots.
    pub done: usize,
    /// The number of planned slots; 0 if unknown.
    pub planned: usize,
    /// The time since the start, in milliseconds.
    pub elapsed_ms: u64,
    /// The planned duration of a load, in milliseconds.
    pub planned_ms: Option<u64>,
}

/// Age up to which one-off sessions are listed.
const ONE_OFF_MS: i64 = 7 * DAY_MS;
/// Maximum number of one-off sessions and of failed sessions listed.
const MAX_LISTED: usize = 5;
/// Maximum number of open changes on the home page.
const MAX_CHANGES: usize = 8;
/// Maximum length of a command in a line, in characters.
const MAX_COMMAND_CHARS: usize = 48;
/// Maximum length of the result of a one-off session, in characters.
const MAX_RESULT_CHARS: usize = 80;
/// Maximum length of the subject of a commit, in characters.
const MAX_SUBJECT_CHARS: usize = 60;

/// Reports a project: running measurements, open changes, missing sessions, and every series.
pub fn report_home(state: &HomeState<'_>) -> Document {
    let mut document = Document::new("project");
    let day_start = state.now_unix_ms - DAY_MS;
    let recent: Vec<&SessionArrival> =
        state.arrivals.iter().take_while(|each| each.started_unix_ms >= day_start).collect();
    // A session that runs, or that a user resumes, is not counted before its end.
    let has_failed = |each: &&SessionArrival| {
        let is_cut_short = each.state == SessionState::Interrupted;
        each.failures > 0 || is_cut_short || state.killed.contains(&each.number)
    };
    let failed: Vec<&SessionArrival> = recent.iter().copied().filter(has_failed).collect();
    document.push_headline(home_headline(state, failed.len()));
    if !state.running.is_empty() {
        document.push_table(running_table(state.running));
    }
    if let Some(table) = compact_changes(state) {
        document.push_heading(2, "Open changes");
        document.push_table(table);
    }
    document.push_heading(2, "Since yesterday");
    document.push_table(arrivals_table(state, recent.len(), &failed));
    document.push_heading(2, "Benchmarks");
    document.append_document(list_series(state.history, state.filter, state.now_unix_ms));
    if !state.one_off.is_empty() {
        document.push_heading(2, "One-off");
        document.push_table(one_off_table(state));
    }
    document.attach_data("line", json!(state.history.branch_name()));
    document
}

/// Returns the newest sessions that are single measurements, which no series continues.
pub fn one_off_sessions(arrivals: &[SessionArrival], now_unix_ms: i64) -> Vec<i64> {
    let is_one_off = |session: &&SessionArrival| {
        session.started_unix_ms >= now_unix_ms - ONE_OFF_MS
            && matches!(command_kind(&session.command), "load" | "eval" | "time" | "as")
    };
    arrivals.iter().filter(is_one_off).take(MAX_LISTED).map(|session| session.number).collect()
}

fn one_off_table(state: &HomeState<'_>) -> ReportTable {
    let lines = state.one_off.iter().map(|session| (session, state.results.get(&session.number)));
    let columns = column_set! { line: ResultLine<'_>;
        figure("number", "session") => ReportCell::session(line.0.number),
        words("command", "result") => result_cell(line.0, line.1),
    };
    columns.build_table("one_off", lines)
}

/// Builds the cell with the kind of a session, its target unless the result names it, and its
/// result. Without a result, it has the command. Programs get the command.
fn result_cell(session: &SessionOverview, result: Option<&SessionResult>) -> ReportCell {
    let cell = command_cell(&session.command);
    let Some(SessionResult { text, emphasis }) = result.filter(|result| !result.text.is_empty())
    else {
        return cell;
    };
    let target = match &session.loads[..] {
        [load] if !text.contains(load) => format!("{load} "),
        _ => String::new(),
    };
    let text = format!("{} {target}{text}", command_kind(&session.command));
    cell.with_text(shorten_text(&text, MAX_RESULT_CHARS)).with_emphasis(*emphasis)
}

/// Returns the first word of a command line after the program, as in `load`.
fn command_kind(command: &[String]) -> &str {
    command_words(command).first().map_or("", String::as_str)
}

/// Returns a command line without the program, if it is this program.
fn command_words(command: &[String]) -> &[String] {
    match command.split_first() {
        Some((program, words)) if program.rsplit('/').next() == Some("speedwell") => words,
        _ => command,
    }
}

fn command_cell(command: &[String]) -> ReportCell {
    ReportCell::words(command.join(" ")).with_text(shorten_command(command))
}

fn shorten_command(command: &[String]) -> String {
    let line = join_texts(" ", command_words(command).iter().map(|word| quote(word)));
    shorten_text(&join_texts(" ", line.split_whitespace()), MAX_COMMAND_CHARS)
}

fn shorten_text(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text.to_owned(),
    }
}

fn home_headline(state: &HomeState<'_>, failed: usize) -> String {
    let OpenChanges { known, suspected, .. } = OpenChanges::from_history(state.history);
    let open = known + suspected;
    let changes = format_count_or("no open change", open, "open change", "open changes");
    let failed = unless_empty(failed, |failed| format!(" · {failed} failed"));
    let live = unless_empty(state.running.len(), |live| format!(" · ● {live} live"));
    format!("{} / {}. {changes}{failed}{live}", state.project, branch_title(state.history))
}

fn running_table(running: &[RunningSession]) -> ReportTable {
    let columns = column_set! { session: RunningSession;
        label("number", "session") => match session.number {
            Some(number) => ReportCell::session(number).with_text(format!("● @{number}")),
            None => ReportCell::text("● load"),
        },
        machine("id") => &session.id,
        words("command", "command") => command_cell(&session.command),
        words("progress", "progress").for_people() => ReportCell::text(progress_text(session)),
        machine("done") => session.done,
        machine("planned") => session.planned,
        words("watch", "").for_people() => ReportCell::text("watch"),
    };
    columns.build_table("running", running)
}

/// Describes progress, as in `18 of at most 64 runs, about 40 s left`.
fn progress_text(session: &RunningSession) -> String {
    let left = |time: Duration| format!(", about {} left", format_about(time));
    if session.number.is_none() {
        let planned = session.planned_ms.filter(|planned| *planned > session.elapsed_ms);
        let time_left = planned.map(|planned| Duration::from_millis(planned - session.elapsed_ms));
        let elapsed = Duration::from_millis(session.elapsed_ms);
        return format!("{}{}", format_about(elapsed), time_left.map(left).unwrap_or_default());
    }
    if session.planned == 0 {
        return format_count(session.done, "run", "runs");
    }
    let remaining = session.planned.saturating_sub(session.done);
    let time = remaining_time(Duration::from_millis(session.elapsed_ms), session.done, remaining);
    format!(
        "{} of at most {}{}",
        session.done,
        format_count(session.planned, "run", "runs"),
        time.map(left).unwrap_or_default()
    )
}

/// Counts the sessions since yesterday, and lists the failed and missing ones.
fn arrivals_table(state: &HomeState<'_>, recent: usize, failed: &[&SessionArrival]) -> ReportTable {
    let row = |kind: &str, session: Option<i64>, text: String| {
        let emphasis = if kind == "sessions" { TextEmphasis::None } else { TextEmphasis::Bad };
        let cell = ReportCell::words(text).with_emphasis(emphasis);
        ReportRow::Cells(vec![cell, ReportCell::words(kind), ReportCell::from(session)])
    };
    let mut rows = vec![row("sessions", None, format_count(recent, "session", "sessions"))];
    for session in failed.iter().take(MAX_LISTED) {
        rows.push(row("failed", Some(session.number), format!("@{} failed", session.number)));
    }
    if failed.len() > MAX_LISTED {
        rows.push(row("failed", None, format!("{} more failed", failed.len() - MAX_LISTED)));
    }
    for silent in state.silent {
        let name = schedule_name(silent.newest, state.machines);
        let text = format!("! {name} silent for {}", format_age(silent.silent_ms));
        rows.push(row("silent", Some(silent.newest.number), text));
    }
    ReportTable {
        columns: vec![
            ReportColumn::words("arrived", "since yesterday"),
            ReportColumn::machine("kind"),
            ReportColumn::machine("session"),
        ],
        rows,
        ..ReportTable::new("arrivals")
    }
}

/// Names a schedule by its tags or command, and its machine, as in `nightly/ci-2`.
fn schedule_name(session: &SessionArrival, machines: &HashMap<i64, String>) -> String {
    let name = match &session.tags[..] {
        [] => shorten_command(&session.command),
        tags => tags.join(" "),
    };
    match session.machine.and_then(|machine| machines.get(&machine)) {
        Some(machine) => format!("{name}/{machine}"),
        None => name,
    }
}

// Open changes in few columns.

/// Columns of the table of changes whose text the home page leaves to the page of changes.
const HIDDEN_COLUMNS: [&str; 7] =
    ["number", "verdict", "between", "state", "triage", "causes", "note"];

/// Merges the tables of open changes into one with few columns: the case with the verdict's symbol,
/// metric, size, revision with its subject, age and author. Returns `None` if there is no change.
fn compact_changes(state: &HomeState<'_>) -> Option<ReportTable> {
    let mut tables = state.changes.tables().filter(|table| table.name == "changes").cloned();
    let mut table = tables.next()?;
    table.rows.extend(tables.flat_map(|other| other.rows));
    table.rows.retain(|row| matches!(row, ReportRow::Cells(_)));
    let all = table.rows.len();
    table.rows.truncate(MAX_CHANGES);
    if all == 0 {
        return None;
    }
    if all > MAX_CHANGES {
        table.footnotes.push(format!("{} more", all - MAX_CHANGES));
    }
    let index_of = |key: &str| table.columns.iter().position(|column| column.key == key);
    let (case, verdict, status) = (index_of("case")?, index_of("verdict")?, index_of("state")?);
    let (subject, after) = (index_of("subject")?, index_of("after")?);
    let hidden: Vec<usize> = HIDDEN_COLUMNS.into_iter().filter_map(index_of).collect();
    let since = change_times(state.history);
    for row in &mut table.rows {
        let ReportRow::Cells(cells) = row else { continue };
        let text_at = |index: usize| {
            cells[index].value.as_ref().and_then(Datum::as_str).unwrap_or_default().to_owned()
        };
        let is_suspected = text_at(status) == ChangeState::Suspected.to_string();
        let revision = text_at(after);
        let symbol = cells[verdict].text.chars().next().filter(|_| !is_suspected).unwrap_or('?');
        cells[case].text = format!("{symbol} {}", cells[case].text);
        cells[case].emphasis = cells[verdict].emphasis;
        for &index in &hidden {
            cells[index].text.clear();
        }
        let text = shorten_text(&cells[subject].text, MAX_SUBJECT_CHARS);
        let text = format!("{} {text}", short_revision(&revision));
        cells[subject].text = text.trim_end().to_owned();
        let time = since.get(revision.as_str()).copied();
        let age = time.map(|time| format_age(state.now_unix_ms - time)).unwrap_or_default();
        cells.push(ReportCell::from(time).with_text(age));
        cells.push(ReportCell::from(state.authors.get(&revision)));
        cells.swap(0, case);
    }
    table.name = "open_changes";
    table.columns.push(ReportColumn::figure("since_unix_ms", "since"));
    table.columns.push(ReportColumn::words("author", "by"));
    table.columns.swap(0, case);
    Some(table)
}

/// Returns the times of the first revisions after changes, by id.
fn change_times(history: &ProjectHistory) -> HashMap<&str, i64> {
    let mut times = HashMap::new();
    for line in history.series.iter().flat_map(|series| series_changes(series, history)) {
        if let Some(point) = line.first_point() {
            times.entry(&*line.change.after).or_insert(point.time_unix_ms());
        }
    }
    times
}

/// Returns the sessions of the first points after open changes. Their origins name the authors of
/// the changes.
pub fn sessions_of_changes(history: &ProjectHistory) -> Vec<i64> {
    let lines = history.series.iter().flat_map(|series| series_changes(series, history));
    let open = lines.filter(|line| line.change.is_open());
    open.filter_map(|line| Some(line.first_point()?.session)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::ReportBlock;
    use crate::figure::MINUTE_MS;
    use crate::series_list::tests::{NOW_MS, history, series, texts};

    #[test]
    fn the_home_page_counts_changes_failures_and_what_is_silent() {
        let history = history(vec![series("g/slow n=1", 60, 1.3)]);
        let arrival = |number: i64, hours: i64, failures| SessionArrival {
            number,
            started_unix_ms: NOW_MS - hours * 60 * MINUTE_MS,
            tags: vec!["nightly".into()],
            command: vec!["/bin/speedwell".into(), "load".into(), "http://x/".into()],
            machine: Some(2),
            failures,
            ..SessionArrival::default()
        };
        let arrivals = [arrival(3, 1, 0), arrival(2, 2, 1), arrival(1, 72, 4)];
        let silent = [SilentSchedule { newest: &arrivals[2], silent_ms: 3 * DAY_MS }];
        let running = RunningSession {
            number: Some(4),
            done: 18,
            planned: 64,
            elapsed_ms: 18_000,
            ..RunningSession::default()
        };
        let points = history.series[0].trend.points.iter();
        let authors: HashMap<String, String> =
            points.map(|point| (point.revision.id.clone(), "an author".to_owned())).collect();
        let document = report_home(&HomeState {
            project: "acme",
            now_unix_ms: NOW_MS,
            running: &[running],
            history: &history,
            changes: crate::report_changes(
                &history,
                &|_, change| change.is_open(),
                &crate::OutputOptions::default(),
            ),
            authors: &authors,
            arrivals: &arrivals,
            killed: &[],
            silent: &silent,
            one_off: &[],
            results: &HashMap::new(),
            machines: &HashMap::from([(2, "ci-2".to_owned())]),
            filter: "",
        });
        let Some(ReportBlock::Headline(headline)) = document.blocks.first() else { panic!() };
        assert_eq!(headline, "acme / main. 1 open change · 1 failed · ● 1 live");
        let texts = |table: &str, key: &str| texts(&document, table, key);
        assert_eq!(texts("running", "progress"), ["18 of at most 64 runs, about 46 s left"]);
        assert_eq!(
            texts("arrivals", "arrived"),
            ["2 sessions", "@2 failed", "! nightly/ci-2 silent for 3 d"]
        );
        assert_eq!(texts("open_changes", "since_unix_ms"), ["9 d"]);
        assert_eq!(texts("open_changes", "author"), ["an author"]);
        assert!(texts("open_changes", "subject")[0].ends_with(" handle escapes"));
        assert!(texts("open_changes", "case")[0].ends_with(" g/slow n=1"));
        assert_eq!(texts("open_changes", "verdict"), [""], "the symbol is beside the case");
    }

    #[test]
    fn recent_one_off_sessions_are_listed_with_their_results() {
        let command = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let arrival = |(number, days, words): (i64, i64, &str)| SessionArrival {
            number,
            started_unix_ms: NOW_MS - days * DAY_MS,
            command: command(words),
            ..SessionArrival::default()
        };
        let arrivals = [(4, 0, "speedwell run g"), (3, 1, "speedwell load /x"), (2, 8, "load /x")];
        assert_eq!(one_off_sessions(&arrivals.map(arrival), NOW_MS), [3]);
        let session = SessionOverview {
            command: command("bin/speedwell load --rate 50 /x"),
            loads: vec!["/x".to_owned()],
            ..SessionOverview::default()
        };
        let shown = |text: &str| {
            let result = SessionResult { text: text.to_owned(), ..SessionResult::default() };
            result_cell(&session, Some(&result)).text
        };
        assert_eq!(shown("gate failed: p99 40.3 ms"), "load /x gate failed: p99 40.3 ms");
        assert_eq!(shown("GET /x: 4,000/s"), "load GET /x: 4,000/s");
        assert_eq!(shown(""), "load --rate 50 /x");
        assert_eq!(result_cell(&session, None).text, shown(""));
    }
}
