//! Builds the home page of a project, and the list of its series with sparklines.
//!
//! This module chooses wording and columns; the server chooses the pages that cells link to. Start
//! at [`report_home`] and [`report_trends`].

use crate::changes::OpenChanges;
use crate::columns::{ColumnSet, column_set};
use crate::comparison::{verdict_emphasis, verdict_symbol};
use crate::document::{Document, ReportBlock};
use crate::figure::{format_about, format_count, format_share};
use crate::live::remaining_time;
use crate::series_change::{SeriesChange, case_phrase, format_figure, series_changes};
use crate::table::{Datum, ReportCell, ReportColumn, ReportRow, ReportTable, TextEmphasis};
use serde_json::json;
use speedwell_analysis::history::{ProjectHistory, SeriesTrend};
use speedwell_analysis::schedule::SilentSchedule;
use speedwell_analysis::trend::{SeriesLevel, TrendPoint, TrendSearch};
use speedwell_model::stored::SessionArrival;
use speedwell_model::{
    ChangeState, ChangeTriage, IntervalEstimate, SessionState, quote, short_revision,
};
use speedwell_plot::SparkLevel;
use std::collections::{BTreeMap, HashMap, HashSet};
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

const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 86_400_000;
/// Length of a sparkline.
const SPARKLINE_MS: i64 = 30 * DAY_MS;
/// Age up to which one-off sessions are listed.
const ONE_OFF_MS: i64 = 7 * DAY_MS;
/// Maximum number of one-off sessions and of failed sessions listed.
const MAX_LISTED: usize = 5;
/// Maximum number of open changes on the home page.
const MAX_CHANGES: usize = 8;
/// Maximum number of series in one list. More series are grouped.
const MAX_UNGROUPED: usize = 40;
/// Maximum length of a command in a line, in characters.
const MAX_COMMAND_CHARS: usize = 48;
/// Maximum length of the subject of a commit, in characters.
const MAX_SUBJECT_CHARS: usize = 60;

/// Reports a project: running measurements, open changes, missing sessions, and every series.
pub fn report_home(state: &HomeState<'_>) -> Document {
    let mut document = Document::new("project");
    let day_start = state.now_unix_ms - DAY_MS;
    let recent: Vec<&SessionArrival> =
        state.arrivals.iter().take_while(|each| each.started_unix_ms >= day_start).collect();
    let failed: Vec<&SessionArrival> = (recent.iter().copied())
        .filter(|each| has_failed(each) || state.killed.contains(&each.number))
        .collect();
    document.push_headline(home_headline(state, failed.len()));
    if !state.running.is_empty() {
        document.push_table(running_columns().build_table("running", state.running));
    }
    if let Some(table) = compact_changes(state) {
        document.push_heading(2, "Open changes");
        document.push_table(table);
    }
    document.push_heading(2, "Since yesterday");
    document.push_table(arrivals_table(state, recent.len(), &failed));
    document.push_heading(2, "Benchmarks");
    document.append_document(list_series(state.history, state.filter, state.now_unix_ms));
    let one_off: Vec<&SessionArrival> = (state.arrivals.iter())
        .filter(|each| is_one_off(each) && each.started_unix_ms >= state.now_unix_ms - ONE_OFF_MS)
        .take(MAX_LISTED)
        .collect();
    if !one_off.is_empty() {
        document.push_heading(2, "One-off");
        let columns = column_set! { session: &SessionArrival;
            figure("number", "session") => ReportCell::session(session.number),
            words("command", "command") =>
                ReportCell::words(session.command.join(" "))
                    .with_text(shorten_command(&session.command)),
        };
        document.push_table(columns.build_table("one_off", &one_off));
    }
    document.attach_data("line", json!(state.history.branch_name()));
    document
}

/// Whether a session ended without all its results. One that runs, or that a user resumes, is not
/// counted before its end.
fn has_failed(session: &SessionArrival) -> bool {
    session.failures > 0 || session.state == SessionState::Interrupted
}

/// Whether a session is a single measurement that no series continues.
fn is_one_off(session: &SessionArrival) -> bool {
    let first = command_words(&session.command).first().map(String::as_str);
    matches!(first, Some("load" | "eval" | "time" | "as"))
}

/// Returns a command line without the program, if it is this program.
fn command_words(command: &[String]) -> &[String] {
    match command.split_first() {
        Some((program, words)) if program.rsplit('/').next() == Some("speedwell") => words,
        _ => command,
    }
}

fn shorten_command(command: &[String]) -> String {
    let words = command_words(command).iter().map(|word| quote(word));
    let line = words.collect::<Vec<_>>().join(" ");
    shorten_text(&line.split_whitespace().collect::<Vec<_>>().join(" "), MAX_COMMAND_CHARS)
}

fn shorten_text(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text.to_owned(),
    }
}

fn home_headline(state: &HomeState<'_>, failed: usize) -> String {
    let open = OpenChanges::from_history(state.history);
    let mut parts = vec![match open.known + open.suspected {
        0 => "no open change".to_owned(),
        count => format_count(count, "open change", "open changes"),
    }];
    if failed > 0 {
        parts.push(format!("{failed} failed"));
    }
    if !state.running.is_empty() {
        parts.push(format!("● {} live", state.running.len()));
    }
    format!("{} / {}. {}", state.project, branch_title(state.history), parts.join(" · "))
}

fn branch_title(history: &ProjectHistory) -> &str {
    match history.branch_name() {
        "" => "all branches",
        branch => branch,
    }
}

fn running_columns() -> ColumnSet<RunningSession> {
    column_set! { session: RunningSession;
        label("number", "session") => match session.number {
            Some(number) => ReportCell::session(number).with_text(format!("● @{number}")),
            None => ReportCell::text("● load"),
        },
        machine("id") => &session.id,
        words("command", "command") =>
            ReportCell::words(session.command.join(" "))
                .with_text(shorten_command(&session.command)),
        words("progress", "progress").for_people() => ReportCell::text(progress_text(session)),
        machine("done") => session.done,
        machine("planned") => session.planned,
        words("watch", "").for_people() => ReportCell::text("watch"),
    }
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

/// Formats a time that has passed, as in `12 min`, `5 h` or `2 d`.
fn format_age(ms: i64) -> String {
    match ms.max(0) {
        ms if ms < MINUTE_MS => "< 1 min".to_owned(),
        ms if ms < 60 * MINUTE_MS => format!("{} min", ms / MINUTE_MS),
        ms if ms < DAY_MS => format!("{} h", ms / (60 * MINUTE_MS)),
        ms => format!("{} d", ms / DAY_MS),
    }
}

/// Counts the sessions since yesterday, and lists the failed and missing ones.
fn arrivals_table(state: &HomeState<'_>, recent: usize, failed: &[&SessionArrival]) -> ReportTable {
    let row = |kind: &str, session: Option<i64>, cell: ReportCell| {
        ReportRow::Cells(vec![cell, ReportCell::words(kind), ReportCell::from(session)])
    };
    let count = ReportCell::words(format_count(recent, "session", "sessions"));
    let mut rows = vec![row("sessions", None, count)];
    for session in failed.iter().take(MAX_LISTED) {
        let text = format!("@{} failed", session.number);
        let cell = ReportCell::words(text).with_emphasis(TextEmphasis::Bad);
        rows.push(row("failed", Some(session.number), cell));
    }
    if failed.len() > MAX_LISTED {
        let text = format!("{} more failed", failed.len() - MAX_LISTED);
        rows.push(row("failed", None, ReportCell::words(text).with_emphasis(TextEmphasis::Bad)));
    }
    for silent in state.silent {
        let name = schedule_name(silent.newest, state.machines);
        let text = format!("! {name} silent for {}", format_age(silent.silent_ms));
        let cell = ReportCell::words(text).with_emphasis(TextEmphasis::Bad);
        rows.push(row("silent", Some(silent.newest.number), cell));
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
    let [case, verdict, status, subject, after] =
        ["case", "verdict", "state", "subject", "after"].map(&index_of);
    let hidden: Vec<usize> = HIDDEN_COLUMNS.into_iter().filter_map(index_of).collect();
    let since = change_times(state.history);
    for row in &mut table.rows {
        let ReportRow::Cells(cells) = row else { continue };
        let text_at = |index: Option<usize>| {
            let value = index.and_then(|index| cells[index].value.as_ref());
            value.and_then(Datum::as_str).unwrap_or_default().to_owned()
        };
        let is_suspected = text_at(status) == ChangeState::Suspected.to_string();
        let revision = text_at(after);
        if let (Some(case), Some(verdict)) = (case, verdict) {
            let symbol = cells[verdict].text.chars().next().unwrap_or('?');
            let symbol = if is_suspected { '?' } else { symbol };
            cells[case].text = format!("{symbol} {}", cells[case].text);
            cells[case].emphasis = cells[verdict].emphasis;
        }
        for &index in &hidden {
            cells[index].text.clear();
        }
        if let Some(subject) = subject {
            let text = shorten_text(&cells[subject].text, MAX_SUBJECT_CHARS);
            let text = format!("{} {text}", short_revision(&revision));
            cells[subject].text = text.trim_end().to_owned();
        }
        let time = since.get(revision.as_str()).copied();
        let age = time.map(|time| format_age(state.now_unix_ms - time)).unwrap_or_default();
        cells.push(ReportCell::from(time).with_text(age));
        cells.push(ReportCell::from(state.authors.get(&revision)));
        if let Some(case) = case {
            cells.swap(0, case);
        }
    }
    table.name = "open_changes";
    table.columns.push(ReportColumn::figure("since_unix_ms", "since"));
    table.columns.push(ReportColumn::words("author", "by"));
    if let Some(case) = case {
        table.columns.swap(0, case);
    }
    Some(table)
}

/// Returns the time of each revision with a point, by id.
fn change_times(history: &ProjectHistory) -> HashMap<&str, i64> {
    let mut times = HashMap::new();
    for series in &history.series {
        let borders: HashSet<&str> =
            series.trend.changes.iter().map(|change| &*change.after).collect();
        let points = series.trend.points.iter();
        for point in points.filter(|point| borders.contains(&*point.revision.id)) {
            times.entry(&*point.revision.id).or_insert_with(|| point_time(point));
        }
    }
    times
}

/// The commit time of a point or, if it is unknown, the time of its measurement.
fn point_time(point: &TrendPoint) -> i64 {
    point.revision.committed_unix_ms.unwrap_or(point.at_unix_ms)
}

/// Returns the sessions of the first points after open changes, by revision. Their origins name the
/// authors of the changes.
pub fn sessions_of_changes(history: &ProjectHistory) -> BTreeMap<String, i64> {
    let mut sessions = BTreeMap::new();
    for series in &history.series {
        for change in series.trend.changes.iter().filter(|change| change.is_open()) {
            let mut points = series.trend.points.iter();
            if let Some(point) = points.find(|point| point.revision.id == change.after) {
                sessions.entry(change.after.clone()).or_insert(point.session);
            }
        }
    }
    sessions
}

// The list of series.

/// A series with what the list says of it.
struct SeriesLine<'a> {
    series: &'a SeriesTrend,
    /// The newest change that matters.
    change: Option<SeriesChange<'a>>,
    now_unix_ms: i64,
    /// Start of the sparkline.
    sparkline_start: i64,
}

/// Reports all series of a branch whose names contain all words of `filter`, as a list.
pub fn report_trends(history: &ProjectHistory, filter: &str, now_unix_ms: i64) -> Document {
    let mut document = Document::new("trends");
    let open = OpenChanges::from_history(history);
    document.push_headline(format!(
        "{} on {}, {} open",
        format_count(history.series.len(), "series", "series"),
        branch_title(history),
        format_count(open.known + open.suspected, "change", "changes")
    ));
    document.append_document(list_series(history, filter, now_unix_ms));
    document
}

/// Lists the series whose names contain all words of `filter`: current value, sparkline and level
/// change. Series with the largest open changes come first. The sparkline shows the 30 days before the
/// newest measurement of the branch. Many series are grouped by the first differing part of their
/// names; groups without an open change are folded.
fn list_series(history: &ProjectHistory, filter: &str, now_unix_ms: i64) -> Document {
    let mut document = Document::default();
    let words: Vec<String> = filter.split_whitespace().map(str::to_lowercase).collect();
    let points = history.series.iter().flat_map(|series| &series.trend.points);
    let newest = points.map(|point| point.at_unix_ms).max().unwrap_or(now_unix_ms);
    let mut lines: Vec<SeriesLine<'_>> = (history.series.iter())
        .filter(|series| {
            let name = case_phrase(series).to_lowercase();
            words.iter().all(|word| name.contains(word))
        })
        .map(|series| SeriesLine {
            series,
            change: newest_change(series, history, now_unix_ms),
            now_unix_ms,
            sparkline_start: newest - SPARKLINE_MS,
        })
        .collect();
    lines.sort_by(|one, other| {
        other.urgency().total_cmp(&one.urgency()).then_with(|| one.name().cmp(&other.name()))
    });
    if lines.is_empty() {
        let message = match (history.series.is_empty(), words.is_empty()) {
            (true, _) => "no series has a point on this branch".to_owned(),
            (false, _) => format!("no benchmark matches '{filter}'"),
        };
        document.push(ReportBlock::Paragraph(message));
    }
    if lines.len() <= MAX_UNGROUPED {
        document.push_table(series_columns().build_table("series", &lines));
        return document;
    }
    let depth = common_depth(&lines);
    let mut groups: BTreeMap<String, Vec<SeriesLine<'_>>> = BTreeMap::new();
    for line in lines {
        groups.entry(group_name(&line.series.key.case, depth)).or_default().push(line);
    }
    let is_only = groups.len() == 1;
    for (name, members) in groups {
        let changed = members.iter().filter(|line| line.urgency() > 0.0).count();
        let name = if name.is_empty() { "other" } else { &name };
        let table = ReportTable {
            caption: vec![format!("benchmarks of {name}")],
            ..series_columns().build_table("series", &members)
        };
        document.push(ReportBlock::Aside {
            summary: format!(
                "{name}: {}, {}",
                format_count(members.len(), "benchmark", "benchmarks"),
                match changed {
                    0 => "no change".to_owned(),
                    count => format!("{count} changed"),
                }
            ),
            open: changed > 0 || is_only || !words.is_empty(),
            blocks: vec![ReportBlock::Table(table)],
        });
    }
    document
}

/// Returns the newest open change of a series or, if there is none, the newest change that a user
/// has accepted or fixed in the last 30 days.
fn newest_change<'a>(
    series: &'a SeriesTrend,
    history: &ProjectHistory,
    now_unix_ms: i64,
) -> Option<SeriesChange<'a>> {
    let changes = series_changes(series, history);
    let open = changes.iter().rfind(|line| line.change.is_open());
    let is_recent = |line: &&SeriesChange<'_>| {
        let time = change_time(series, &line.change.after);
        let is_triaged = matches!(line.change.triage, ChangeTriage::Accepted | ChangeTriage::Fixed);
        let is_refuted = matches!(line.change.state, ChangeState::Refuted | ChangeState::Withdrawn);
        is_triaged && !is_refuted && time.is_some_and(|time| now_unix_ms - time <= SPARKLINE_MS)
    };
    open.or_else(|| changes.iter().rfind(is_recent)).copied()
}

fn change_time(series: &SeriesTrend, revision: &str) -> Option<i64> {
    let mut points = series.trend.points.iter();
    points.find(|point| point.revision.id == revision).map(point_time)
}

/// Returns the path in the id of a case, without its parameters.
fn case_path(case: &str) -> Vec<&str> {
    case.split(' ').next().unwrap_or_default().split('/').collect()
}

/// Returns how many leading parts all names share.
fn common_depth(lines: &[SeriesLine<'_>]) -> usize {
    let mut paths = lines.iter().map(|line| case_path(&line.series.key.case));
    let first = paths.next().unwrap_or_default();
    let shared =
        |path: Vec<&str>| first.iter().zip(path).take_while(|(one, other)| **one == *other).count();
    paths.map(shared).min().unwrap_or(0)
}

/// Returns the name of a case's group: its path up to the first part that differs between cases.
/// The last part of the path names the benchmark itself.
fn group_name(case: &str, depth: usize) -> String {
    let path = case_path(case);
    let end = (depth + 1).min(path.len() - 1);
    path[..end].join("/")
}

impl SeriesLine<'_> {
    fn name(&self) -> (String, &str) {
        (case_phrase(self.series), &self.series.key.metric.name)
    }

    /// The size of the open change on a logarithmic scale; 0 without an open change. An established
    /// change comes before any suspicion.
    fn urgency(&self) -> f64 {
        let Some(line) = self.change.filter(|line| line.change.is_open()) else { return 0.0 };
        let size = line.change.ratio.value.ln().abs().clamp(f64::MIN_POSITIVE, 1e6);
        let is_suspected = line.change.state == ChangeState::Suspected;
        if is_suspected { size / 1e9 } else { size }
    }

    /// The current value: the last level or, without one, the newest point.
    fn current_value(&self) -> Option<IntervalEstimate> {
        let trend = &self.series.trend;
        let level = trend.levels.last().filter(|level| level.is_claimed);
        level.map(|level| level.value).or_else(|| {
            let point = &trend.points.last()?.point;
            let (low, high) = point.interval.unwrap_or((point.value, point.value));
            Some(IntervalEstimate { value: point.value, low, high })
        })
    }

    /// Builds the cell with the current value.
    fn value_cell(&self) -> ReportCell {
        let value = self.current_value();
        let text = value.map(|value| format_figure(&value, &self.series.key.metric));
        ReportCell::figure(value.map(|value| value.value)).with_text(text.unwrap_or_default())
    }

    /// Builds the cell with the sparkline.
    fn sparkline_cell(&self) -> ReportCell {
        let trend = &self.series.trend;
        let is_shown =
            |point: &TrendPoint| point.is_searched() && point.at_unix_ms >= self.sparkline_start;
        let shown: Vec<usize> = (trend.points.iter().enumerate())
            .filter(|(_, point)| is_shown(point))
            .map(|(index, _)| index)
            .collect();
        let shown_level = |level: &SeriesLevel| {
            let first = shown.partition_point(|index| *index < level.first);
            let end = shown.partition_point(|index| *index <= level.last);
            let last = end.checked_sub(1).filter(|last| first <= *last)?;
            Some(SparkLevel { first, last, value: level.value.value })
        };
        let levels = trend.levels.iter().filter(|level| level.is_claimed);
        let points = shown.iter().map(|index| trend.points[*index].point.value);
        ReportCell::sparkline(points.collect(), levels.filter_map(shown_level).collect())
    }

    /// Builds the cell with the level change: the newest change or, if there is none, the smallest
    /// one that the search would have found. Pages sort the cell by its value.
    fn level_cell(&self) -> ReportCell {
        let trend = &self.series.trend;
        if let Some(line) = &self.change {
            let mark = match line.change.state {
                ChangeState::Suspected => '?',
                _ => verdict_symbol(line.verdict),
            };
            let time = change_time(self.series, &line.change.after);
            let age = time.map(|time| format!(", {}", format_age(self.now_unix_ms - time)));
            let triage = match line.change.triage {
                ChangeTriage::Open => String::new(),
                triage => format!(", {triage}"),
            };
            let size = line.size_text(false);
            let emphasis = match line.change.state {
                _ if !line.change.is_open() => TextEmphasis::Muted,
                ChangeState::Suspected => TextEmphasis::Caution,
                _ => verdict_emphasis(line.verdict),
            };
            return ReportCell::figure(Some(line.relative_change().value.abs()))
                .with_text(format!("{mark} {size}{}{triage}", age.unwrap_or_default()))
                .with_emphasis(emphasis);
        }
        let text = match (trend.search, trend.smallest_visible) {
            (TrendSearch::Done, Some(ratio)) => format!("none ≥ {}", format_share(ratio - 1.0)),
            (TrendSearch::Done, None) => "none".to_owned(),
            (TrendSearch::TooShort(missing), _) => {
                let searched = trend.points.iter().filter(|point| point.is_searched()).count();
                let points = format_count(searched, "point", "points");
                format!("{points}, {} needed", searched + missing)
            }
            (TrendSearch::Impossible(_), _) => "cannot be searched".to_owned(),
        };
        let rank = if trend.is_searched() { 0.0 } else { -1.0 };
        ReportCell::figure(Some(rank)).with_text(text).with_emphasis(TextEmphasis::Muted)
    }

    fn missing_points(&self) -> usize {
        match self.series.trend.search {
            TrendSearch::TooShort(missing) => missing,
            TrendSearch::Done | TrendSearch::Impossible(_) => 0,
        }
    }
}

fn series_columns<'a>() -> ColumnSet<SeriesLine<'a>> {
    column_set! { line: SeriesLine<'a>;
        label("case", "case") =>
            ReportCell::words(&line.series.key.case).with_text(case_phrase(line.series)),
        machine("variant") => &line.series.key.variant,
        words("metric", "metric").expendable(2) =>
            ReportCell::words(&line.series.key.metric.name).with_emphasis(TextEmphasis::Muted),
        figure("value", "now") => line.value_cell(),
        machine("low") => line.current_value().map(|value| value.low),
        machine("high") => line.current_value().map(|value| value.high),
        machine("unit") => &line.series.key.metric.unit,
        words("sparkline", "30 d").for_people() => line.sparkline_cell(),
        words("level_change", "level change").for_people() => line.level_cell(),
        machine("change") => line.change.map(|change| change.relative_change().value),
        machine("verdict") =>
            line.change.map(|change| ReportCell::words(change.verdict.to_string())),
        machine("change_state") =>
            line.change.map(|change| ReportCell::words(change.change.state.to_string())),
        machine("triage") =>
            line.change.map(|change| ReportCell::words(change.change.triage.to_string())),
        machine("after") => line.change.map(|change| ReportCell::words(&change.change.after)),
        machine("smallest_visible") => line.series.trend.smallest_visible,
        machine("points") => line.series.trend.points.len(),
        machine("missing") => line.missing_points(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_analysis::trend::search_trend;
    use speedwell_model::{HistoryPoint, Metric, PointKind, Revision, SeriesKey};
    use std::sync::Arc;

    const NOW_MS: i64 = 100 * DAY_MS;

    /// A series with a point a day up to now, which rises by `factor` nine days ago.
    fn series(case: &str, points: u32, factor: f64) -> SeriesTrend {
        let point = |index: u32| {
            let at_unix_ms = NOW_MS - i64::from(points - 1 - index) * DAY_MS;
            let is_new = index + 10 >= points;
            let noise = 1.0 + 0.001 * f64::from((index * 7) % 11);
            TrendPoint {
                session: i64::from(index),
                at_unix_ms,
                revision: Arc::new(Revision {
                    id: format!("{index:040x}"),
                    tree: None,
                    parents: Vec::new(),
                    committed_unix_ms: Some(at_unix_ms),
                    subject: Some("handle escapes".into()),
                }),
                position: index,
                machine: 1,
                point: HistoryPoint {
                    value: 1000.0 * noise * if is_new { factor } else { 1.0 },
                    interval: None,
                    runs: 8,
                    spread: None,
                    kind: PointKind::Measured,
                    is_dirty: false,
                    benchmark_digest: None,
                },
            }
        };
        let trend = search_trend((0..points).map(point).collect(), &[], false);
        SeriesTrend {
            number: 1,
            key: SeriesKey {
                case: case.to_owned(),
                variant: "default".into(),
                metric: Metric::cpu_time(),
            },
            causes: vec![Vec::new(); trend.changes.len()],
            trend,
            environment_changes: BTreeMap::new(),
            failures: Vec::new(),
            continuation: Vec::new(),
        }
    }

    fn history(series: Vec<SeriesTrend>) -> ProjectHistory {
        ProjectHistory { line: "main".into(), series, ..ProjectHistory::default() }
    }

    fn column<'a>(table: &'a ReportTable, key: &str) -> Vec<&'a ReportCell> {
        let index = table.columns.iter().position(|column| column.key == key).unwrap();
        table.cell_rows().map(|cells| &cells[index]).collect()
    }

    fn texts<'a>(document: &'a Document, table: &str, key: &str) -> Vec<&'a str> {
        let table = document.tables().find(|each| each.name == table).unwrap();
        column(table, key).into_iter().map(|cell| &*cell.text).collect()
    }

    #[test]
    fn a_series_shows_its_level_change_or_what_would_have_been_seen() {
        let history = history(vec![
            series("g/flat n=1", 60, 1.0),
            series("g/one n=1", 1, 1.0),
            series("g/slow n=1", 60, 1.3),
        ]);
        let document = list_series(&history, "", NOW_MS);
        let table = document.tables().next().unwrap();
        assert_eq!(
            texts(&document, "series", "case"),
            ["g/slow n=1", "g/flat n=1", "g/one n=1"],
            "changed ones first"
        );
        let levels = texts(&document, "series", "level_change");
        let is_near = levels[0].contains("+30") || levels[0].contains("+29.9");
        assert!(is_near && levels[0].ends_with(", 9 d"), "{levels:?}");
        assert!(levels[1].starts_with("none ≥ "), "{levels:?}");
        assert_eq!(levels[2], "1 point, 18 needed");
        let sparklines = column(table, "sparkline");
        let sparkline = sparklines[0].sparkline_drawing().unwrap();
        assert_eq!(sparkline.points.len(), 31, "30 days and the last one");
        assert_eq!(sparkline.levels.last().unwrap().last, 30);
        assert_eq!(column(table, "missing")[2].value.as_ref().unwrap().as_f64(), Some(17.0));
        let filtered = list_series(&history, "SLOW g/", NOW_MS);
        assert_eq!(filtered.tables().next().unwrap().cell_rows().count(), 1);
    }

    #[test]
    fn many_series_are_grouped_and_groups_with_changes_stay_open() {
        let mut all: Vec<SeriesTrend> = (0..50)
            .map(|index| series(&format!("lib/{}/case{index} n=1", index % 3), 2, 1.0))
            .collect();
        all.push(series("lib/1/slow n=1", 60, 1.3));
        let document = list_series(&history(all), "", NOW_MS);
        let folds: Vec<(&str, bool)> = (document.blocks.iter())
            .filter_map(|block| match block {
                ReportBlock::Aside { summary, open, .. } => Some((summary.as_str(), *open)),
                _ => None,
            })
            .collect();
        assert_eq!(
            folds,
            [
                ("lib/0: 17 benchmarks, no change", false),
                ("lib/1: 18 benchmarks, 1 changed", true),
                ("lib/2: 16 benchmarks, no change", false),
            ]
        );
    }

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
        let revisions = sessions_of_changes(&history).into_keys();
        let authors: HashMap<String, String> =
            revisions.map(|revision| (revision, "an author".to_owned())).collect();
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
        assert_eq!(texts("one_off", "command")[0], "load http://x/");
        assert_eq!(texts("one_off", "number"), ["@3", "@2", "@1"]);
    }

    #[test]
    fn ages_have_one_unit() {
        let minutes = |minutes: i64| format_age(minutes * MINUTE_MS);
        assert_eq!([minutes(0), minutes(5), minutes(60)], ["< 1 min", "5 min", "1 h"]);
        assert_eq!([minutes(1439), minutes(1440), minutes(-3)], ["23 h", "1 d", "< 1 min"]);
    }
}
