//! Lists what a store holds (projects, benchmarks, cases, machines, calibrations) and how a server
//! is configured.
//!
//! This module chooses wording and columns; its callers choose the page that a row links to. Start
//! with [`list_benchmarks`].

use crate::charts::{point_series, single_bars};
use crate::document::{Document, ReportBlock, ReportChart, known_facts};
use crate::figure::{format_count, format_count_or, format_moment, format_share, format_whole};
use crate::table::{ReportCell, ReportRow, RowName, TextEmphasis, column_set};
use serde_json::json;
use speedwell_analysis::FactChange;
use speedwell_model::stored::{
    AuditEntry, SessionOverview, StoredBenchmark, StoredCalibration, StoredCase, StoredMachine,
    StoredToken,
};
use speedwell_model::{NoiseCalibration, SeriesKey};
use speedwell_plot::{AnyChart, ChartAxis, ChartPoint, ScatterChart};

/// A project in the list of projects.
#[derive(Debug, Clone, Default)]
pub struct ProjectLine {
    /// The project's name.
    pub name: String,
    /// The newest session.
    pub newest: Option<SessionOverview>,
    /// The number of open changes on the default branch; `None` if it is unknown.
    pub open_changes: Option<usize>,
    /// The number of sessions; `None` if there are too many to count.
    pub sessions: Option<usize>,
    /// The last seven days: each day's name, and the number of sessions begun on it.
    pub week: Vec<(String, usize)>,
}

/// Adds the commands for first-time users.
pub fn add_first_steps(document: &mut Document) {
    document.push_headline("no sessions yet");
    document.push_paragraph("Sessions appear here as soon as they start.");
    document.push_command("measure the benchmarks of a file or folder", "speedwell run bench/");
    document.push_command("or a line of code", "speedwell eval python 'sum(range(1000))'");
}

/// Lists the projects.
pub fn list_projects(projects: &[ProjectLine]) -> Document {
    let mut document = Document::new("overview");
    if projects.iter().all(|project| project.newest.is_none()) {
        add_first_steps(&mut document);
    } else {
        document.push_headline(format!(
            "{}, {} in the last seven days",
            format_count(projects.len(), "project", "projects"),
            format_count(projects.iter().map(sessions_of_week).sum(), "session", "sessions")
        ));
    }
    let columns = column_set! { project: ProjectLine;
        label("project", "project") => &project.name,
        figure("open_changes", "open changes") => project.open_changes,
        figure("newest", "newest session") =>
            project.newest.as_ref().map(|newest| ReportCell::session(newest.number)),
        words("started_unix_ms", "started (UTC)") =>
            project.newest.as_ref().map(|newest| ReportCell::moment(newest.started_unix_ms)),
        figure("sessions", "sessions") => capped_count_cell(project.sessions),
        figure("week", "last 7 days") => sessions_of_week(project),
    };
    document.push_table(columns.build_table("projects", projects));
    let busy = projects.iter().filter(|line| sessions_of_week(line) > 0);
    document.push_charts(busy.map(|project| {
        let title = format!("Sessions of {} in the last seven days", project.name);
        let days = project.week.iter().map(|(day, sessions)| (day.clone(), *sessions as f64));
        ReportChart::new(title, single_bars("Sessions by day (UTC)", "sessions", days))
    }));
    document
}

fn sessions_of_week(project: &ProjectLine) -> usize {
    project.week.iter().map(|(_, sessions)| sessions).sum()
}

/// Formats a number of sessions. `None` means that counting stopped at the limit.
fn capped_count_cell(sessions: Option<usize>) -> ReportCell {
    sessions.map_or_else(|| ReportCell::text("more than 1,000"), ReportCell::from)
}

/// Lists all benchmarks by group.
pub fn list_benchmarks(benchmarks: &[StoredBenchmark]) -> Document {
    let mut document = Document::new("benchmarks");
    if benchmarks.is_empty() {
        add_first_steps(&mut document);
        return document;
    }
    let cases = benchmarks.iter().map(|benchmark| benchmark.cases).sum();
    document.push_headline(format!(
        "{} with {}",
        format_count(benchmarks.len(), "benchmark", "benchmarks"),
        format_count(cases, "case", "cases")
    ));
    let columns = column_set! { benchmark: StoredBenchmark;
        label("benchmark", "benchmark") =>
            ReportCell::words(&benchmark.name).with_text(split_group(&benchmark.name).1),
        figure("cases", "cases") => benchmark.cases,
        figure("sessions", "sessions") => capped_count_cell(benchmark.sessions),
        figure("newest", "newest session") => ReportCell::session(benchmark.newest),
        words("ended_unix_ms", "last measured (UTC)") =>
            ReportCell::moment(benchmark.ended_unix_ms),
    };
    let mut rows = Vec::new();
    let mut group = "";
    for benchmark in benchmarks {
        let (new_group, _) = split_group(&benchmark.name);
        if new_group != group {
            group = new_group;
            rows.push(ReportRow::Group(RowName::plain(group)));
        }
        rows.push(columns.build_row(benchmark));
    }
    document.with_table(columns.table_of_rows("benchmarks", rows))
}

/// Splits a benchmark's name into its group and its name in the group.
fn split_group(name: &str) -> (&str, &str) {
    name.rsplit_once('/').unwrap_or(("", name))
}

/// Lists the cases of one benchmark.
pub fn list_cases(benchmark: &str, cases: &[StoredCase]) -> Document {
    let mut document = Document::new("benchmark");
    document.push_headline(format!("{benchmark}: {}", format_count(cases.len(), "case", "cases")));
    let columns = column_set! { case: StoredCase;
        label("case", "case") => &case.id,
        figure("sessions", "sessions") => capped_count_cell(case.sessions),
        figure("runs", "runs") => runs_cell(case),
        figure("newest", "newest session") => ReportCell::session(case.newest),
    };
    document.with_table(columns.build_table("cases", cases))
}

/// Builds the cell of a case's number of runs. If the case has too many sessions, only some of its
/// runs were counted.
fn runs_cell(case: &StoredCase) -> ReportCell {
    let more_than = if case.sessions.is_some() { "" } else { "more than " };
    let text = format!("{more_than}{}", format_whole(case.runs));
    ReportCell::value(case.runs).with_text(text)
}

/// Lists all machines. `calibrated` returns the calibration of a machine, if there is one.
pub fn list_machines(
    machines: &[StoredMachine],
    calibrated: &dyn Fn(&StoredMachine) -> Option<NoiseCalibration>,
) -> Document {
    let mut document = Document::new("machines");
    let headline = format_count_or("no machines yet", machines.len(), "machine", "machines");
    document.push_headline(headline);
    if machines.is_empty() {
        document.push_paragraph("A machine is listed after its first complete session.");
    }
    let lines = machines.iter().map(|stored| (stored, calibrated(stored)));
    let columns = column_set! { line: (&StoredMachine, Option<NoiseCalibration>);
        label("machine", "machine") => line.0.machine.title(),
        machine("number") => line.0.number,
        words("class", "processor") => line.0.machine.class.as_deref().unwrap_or_default(),
        figure("sessions", "sessions") => line.0.sessions,
        words("first_unix_ms", "first (UTC)") => ReportCell::moment(line.0.first_unix_ms),
        words("last_unix_ms", "last (UTC)") => ReportCell::moment(line.0.last_unix_ms),
        words("calibration", "calibration") => calibration_cell(line.1.as_ref()),
    };
    document.with_table(columns.build_table("machines", lines))
}

fn calibration_cell(calibration: Option<&NoiseCalibration>) -> ReportCell {
    match calibration {
        None => ReportCell::text("never calibrated").with_emphasis(TextEmphasis::Muted),
        Some(calibration) if calibration.is_in_range() => {
            ReportCell::words("calibrated").with_emphasis(TextEmphasis::Good)
        }
        Some(calibration) => {
            let is_low = calibration.false_alarms < calibration.expected_low;
            let problem = if is_low { "too few false alarms" } else { "too many false alarms" };
            ReportCell::words(problem).with_emphasis(TextEmphasis::Bad)
        }
    }
}

/// Describes one machine by name and class. Its other properties are in the environment facts of
/// its newest session.
pub fn describe_machine(machine: &StoredMachine) -> Document {
    let mut document = Document::new("machine");
    document.push_headline(format!(
        "{}: {}",
        machine.machine.title(),
        format_count(machine.sessions, "session", "sessions")
    ));
    let facts = [
        ("Host", machine.machine.name.clone()),
        ("Label", machine.machine.label.clone()),
        ("Processor", machine.machine.class.clone()),
        ("First session", Some(format_moment(machine.first_unix_ms))),
        ("Last session", Some(format_moment(machine.last_unix_ms))),
    ];
    document.push(ReportBlock::Facts(known_facts(facts)));
    document.attach_data(
        "machine",
        json!({"number": machine.number, "id": machine.machine.id, "name": machine.machine.name,
            "label": machine.machine.label, "class": machine.machine.class}),
    );
    document
}

/// Draws the load that other work put on a machine, over its sessions. `figures` has a name and
/// the sessions with their percentages for each figure of the kernel.
pub fn chart_machine_load(figures: &[(&'static str, Vec<(i64, f64)>)]) -> Document {
    let mut document = Document::new("machine");
    if figures.iter().all(|(_, values)| values.len() < 2) {
        return document;
    }
    let point = |(session, percent): &(i64, f64)| ChartPoint::new(*session as f64, *percent);
    let series = figures.iter().map(|(name, values)| point_series(*name, values.iter().map(point)));
    let chart = ScatterChart {
        title: "Load by other work".into(),
        x: ChartAxis::linear("session"),
        y: ChartAxis::linear("median over the runs in %"),
        series: series.collect(),
        ..ScatterChart::default()
    };
    document.push_heading(2, "Load by other work");
    document.push_charts([ReportChart::from_picture(AnyChart::Scatter(chart))]);
    document
}

/// A series whose runs differ more than they did.
#[derive(Debug, Clone, PartialEq)]
pub struct NoisySeries {
    /// The case, variant and metric.
    pub key: SeriesKey,
    /// The relative spread of the runs before, as a fraction.
    pub before: f64,
    /// The relative spread in the latest sessions.
    pub after: f64,
}

/// Lists the series whose noise grew on a machine, or nothing if there are none.
pub fn list_noisy_series(series: &[NoisySeries]) -> Document {
    let mut document = Document::new("machine");
    if series.is_empty() {
        return document;
    }
    document.push_heading(2, "Noise grew");
    let columns = column_set! { line: NoisySeries;
        label("case", "case") => &line.key.case,
        words("variant", "variant") => &line.key.variant,
        words("metric", "metric") => &line.key.metric.name,
        figure("before", "spread before") => ReportCell::share(line.before),
        figure("after", "spread now") => ReportCell::share(line.after),
    };
    document.push_table(columns.build_table("noisy_series", series));
    document.push_note(
        "The last 5 sessions of a series are compared with up to 20 before them. A series is listed \
         if the spread of its runs is at least 1.5 times as large, and chance is an unlikely \
         explanation.",
    );
    document
}

/// Lists what changed on a machine from session to session, newest first. `changes` are in the
/// order of the sessions.
pub fn list_environment_changes(changes: &[FactChange]) -> Document {
    let mut document = Document::new("machine");
    document.push_heading(2, "What changed");
    if changes.is_empty() {
        document.push_paragraph("No recorded change could have affected the results.");
        return document;
    }
    let columns = column_set! { change: FactChange;
        label("session", "session") => ReportCell::session(change.session),
        words("name", "what") => &change.difference.name,
        words("before", "before") => &change.difference.before,
        words("after", "after") => &change.difference.after,
    };
    document.with_table(columns.build_table("environment_facts", changes.iter().rev()))
}

/// Lists all calibrations, newest first.
pub fn list_calibrations(calibrations: &[StoredCalibration]) -> Document {
    let mut document = Document::new("calibrations");
    if calibrations.is_empty() {
        document.push_headline("no machine has been calibrated yet");
        document.push_paragraph(
            "A calibration compares a program with itself many times. It shows how often this \
             machine finds a difference where there is none; at 95% confidence, about 5% \
             of the comparisons should find one.",
        );
        document.push_command("calibrate this machine", "speedwell doctor --calibrate FILE");
        return document;
    }
    let unexpected =
        calibrations.iter().filter(|calibration| !calibration.found.is_in_range()).count();
    let number = format_count(calibrations.len(), "calibration", "calibrations");
    document.push_headline(match unexpected {
        0 => format!("{number}, all with as many false alarms as expected"),
        count => format!("{number}, {count} with too many or too few false alarms"),
    });
    let columns = column_set! { line: StoredCalibration;
        label("session", "session") => ReportCell::session(line.found.session),
        words("started_unix_ms", "started (UTC)") => ReportCell::moment(line.found.started_unix_ms),
        words("host", "host") => line.host.as_deref().unwrap_or_default(),
        words("cpu", "processor").expendable(1) => line.cpu.as_deref().unwrap_or_default(),
        figure("comparisons", "comparisons") => line.found.comparisons,
        figure("false_alarms", "false alarms") => false_alarms_cell(&line.found),
        figure("expected_high", "expected") =>
            ReportCell::value(line.found.expected_high)
                .with_text(format!("{} to {}", line.found.expected_low, line.found.expected_high)),
        words("result", "result") => calibration_cell(Some(&line.found)),
    };
    document.with_table(columns.build_table("calibrations", calibrations))
}

fn false_alarms_cell(calibration: &NoiseCalibration) -> ReportCell {
    let NoiseCalibration { false_alarms, comparisons, .. } = *calibration;
    let share = f64::from(false_alarms) / f64::from(comparisons.max(1));
    ReportCell::value(false_alarms).with_text(format!("{false_alarms} ({})", format_share(share)))
}

// Reports the configuration of a server: its projects, its tokens and the audit log. The command
// line and the server's settings page show the same report.

/// A project of a server.
#[derive(Debug, Clone)]
pub struct ServedProject {
    /// The project's name.
    pub name: String,
    /// Whether the project can be read without a token.
    pub is_public: bool,
    /// The number of sessions.
    pub sessions: usize,
    /// The size in bytes of the project's file, if there is one.
    pub bytes: Option<u64>,
    /// The repository on whose pull requests the server comments, if any.
    pub forge: Option<String>,
}

/// The configuration of a server.
#[derive(Debug, Clone, Copy)]
pub struct ServerSettings<'a> {
    /// The version of the program.
    pub version: &'a str,
    /// A description of the store.
    pub store: &'a str,
    /// The current time, in milliseconds since the Unix epoch.
    pub now_unix_ms: i64,
    /// The projects.
    pub projects: &'a [ServedProject],
    /// The tokens.
    pub tokens: &'a [StoredToken],
    /// The latest audit entries, newest first.
    pub audit: &'a [AuditEntry],
}

/// Reports all settings.
pub fn report_settings(settings: &ServerSettings<'_>) -> Document {
    let mut document = Document::new("settings");
    let now = settings.now_unix_ms;
    let valid = settings.tokens.iter().filter(|token| token.is_valid(now));
    document.push_headline(format!(
        "{} and {}, on {}",
        format_count(settings.projects.len(), "project", "projects"),
        format_count(valid.count(), "valid token", "valid tokens"),
        settings.store
    ));
    document.push_paragraph(format!(
        "Speedwell {}. To manage tokens, projects and comments on pull requests, use 'speedwell \
         serve token', 'speedwell serve project' and 'speedwell serve forge' on the server's \
         machine.",
        settings.version
    ));
    document.push_heading(2, "Projects");
    document.append_document(list_served_projects(settings.projects));
    document.push_heading(2, "Tokens");
    document.append_document(list_tokens(settings.tokens, now));
    document.push_heading(2, "Audit");
    document.append_document(list_audit(settings.audit));
    document
}

/// Lists the projects of a server.
pub fn list_served_projects(projects: &[ServedProject]) -> Document {
    let has_forge = projects.iter().any(|project| project.forge.is_some());
    let columns = column_set! { project: ServedProject;
        label("project", "project") =>
            ReportCell::words(&project.name).with_link(format!("/{}/", project.name)),
        words("read", "read by") => if project.is_public { "everybody" } else { "tokens" },
        figure("sessions", "sessions") => project.sessions,
        figure("bytes", "file") =>
            ReportCell::quantity(project.bytes.map(|bytes| bytes as f64), "B"),
        words("forge", "comments on") if has_forge => project.forge.as_deref().unwrap_or_default(),
    };
    Document::new("projects").with_table(columns.build_table("projects", projects))
}

/// Lists the tokens of a server, without their secrets.
pub fn list_tokens(tokens: &[StoredToken], now_unix_ms: i64) -> Document {
    let mut document = Document::new("tokens");
    if tokens.is_empty() {
        document.push_paragraph("No tokens yet.");
        return document;
    }
    let columns = column_set! { token: StoredToken;
        label("id", "token") => &token.id,
        words("name", "name") => &token.name,
        words("scopes", "may") =>
            token.scopes.iter().map(|scope| scope.name()).collect::<Vec<_>>().join(", "),
        words("project", "in") => token.project.as_deref().unwrap_or("all projects"),
        words("branches", "branches") => name_list(token.branches.as_deref()),
        words("machines", "machines") => name_list(token.machines.as_deref()),
        words("state", "state") => token_state(token, now_unix_ms),
        words("created_unix_ms", "made (UTC)") => ReportCell::moment(token.created_unix_ms),
        words("expires_unix_ms", "expires (UTC)") => token.expires_unix_ms.map(ReportCell::moment),
        // The time is stored as the beginning of an hour, so it may be earlier than the creation of
        // the token.
        words("used_unix_ms", "last used (UTC, by the hour)") =>
            token.used_unix_ms.map(|ms| ReportCell::moment(ms.max(token.created_unix_ms))),
    };
    document.with_table(columns.build_table("tokens", tokens))
}

/// Joins names. `None` becomes "all".
fn name_list(names: Option<&[String]>) -> String {
    names.map_or_else(|| "all".to_owned(), |names| names.join(", "))
}

fn token_state(token: &StoredToken, now_unix_ms: i64) -> &'static str {
    match token.revoked_unix_ms {
        _ if token.is_valid(now_unix_ms) => "valid",
        Some(_) => "revoked",
        None => "expired",
    }
}

/// Lists the audit log: who did what.
pub fn list_audit(lines: &[AuditEntry]) -> Document {
    let mut document = Document::new("audit");
    if lines.is_empty() {
        document.push_paragraph("No changes yet.");
        return document;
    }
    let columns = column_set! { line: AuditEntry;
        label("at_unix_ms", "when (UTC)") => ReportCell::moment(line.at_unix_ms),
        words("actor", "actor") => &line.actor,
        words("action", "action") => &line.action,
        words("token", "token") => line.token.as_ref(),
        words("address", "address") => line.address.as_ref(),
        words("project", "project") => line.project.as_ref(),
        words("subject", "subject") => line.subject.as_ref(),
        words("result", "result") => &line.result,
    };
    document.with_table(columns.build_table("audit", lines))
}

/// A pull request in the list of pull requests.
#[derive(Debug, Clone, Default)]
pub struct PullLine {
    /// The number on the forge.
    pub number: String,
    /// The newest session, if it has arrived.
    pub newest: Option<SessionOverview>,
    /// The answer of the newest comment; empty if there is none.
    pub verdict: String,
    /// The state of the newest comment.
    pub status: String,
    /// Whether the comment was rejected.
    pub is_refused: bool,
}

/// Lists pull requests, the most recently measured first.
pub fn list_pulls(pulls: &[PullLine]) -> Document {
    let mut document = Document::new("pulls");
    let none = "no pull requests measured yet";
    document.push_headline(format_count_or(none, pulls.len(), "pull request", "pull requests"));
    if pulls.is_empty() {
        document.push_paragraph(
            "Sessions of a pull request appear here when a CI job of GitHub, GitLab, Gitea or \
             Forgejo pushes them.",
        );
    }
    let columns = column_set! { pull: PullLine;
        label("pull", "pull request") =>
            ReportCell::words(&pull.number).with_text(format!("#{}", pull.number)),
        words("verdict", "verdict") => &pull.verdict,
        words("status", "comment") => ReportCell::words(&pull.status).with_emphasis(
            if pull.is_refused { TextEmphasis::Bad } else { TextEmphasis::None },
        ),
        words("subject", "commit") => pull.newest.as_ref()
            .and_then(|newest| newest.origin.as_ref()?.subject.as_deref()).unwrap_or_default(),
        words("revision", "revision") => pull.newest.as_ref()
            .and_then(|newest| newest.origin.as_ref())
            .map(|origin| ReportCell::words(&origin.revision).with_text(origin.short())),
        words("branch", "branch") => pull.newest.as_ref()
            .and_then(|newest| newest.origin.as_ref()?.branch.as_deref()).unwrap_or_default(),
        figure("newest", "newest session") =>
            pull.newest.as_ref().map(|newest| ReportCell::session(newest.number)),
        words("started_unix_ms", "started (UTC)") => pull.newest.as_ref().map(|newest| {
            ReportCell::moment(newest.started_unix_ms).with_moment(newest.started_unix_ms)
        }),
    };
    document.with_table(columns.build_table("pulls", pulls))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{RenderDocument as _, TextFormat};
    use speedwell_model::stored::TokenScope;

    /// Times of use are stored as the beginning of an hour. A time before the creation of the token
    /// is not shown.
    #[test]
    fn a_token_is_never_shown_as_used_before_its_creation() {
        const HOUR_MS: i64 = 3_600_000;
        let token = |used: i64| StoredToken {
            id: "ab12".into(),
            digest: Vec::new(),
            name: "ci".into(),
            scopes: vec![TokenScope::Push],
            project: None,
            branches: None,
            machines: None,
            created_unix_ms: 20 * HOUR_MS + 1_800_000,
            expires_unix_ms: None,
            used_unix_ms: Some(used * HOUR_MS),
            revoked_unix_ms: None,
        };
        let mut bytes = Vec::new();
        let document = list_tokens(&[token(20), token(22)], 30 * HOUR_MS);
        TextFormat::default().render(&document, &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let times: Vec<&str> = text
            .lines()
            .flat_map(|line| {
                line.match_indices("1970-01-01 ")
                    .map(|(at, day)| &line[at + day.len()..at + day.len() + 5])
            })
            .collect();
        assert_eq!(times, ["20:30", "20:30", "20:30", "22:00"], "{text}");
        // All times are in one zone. Each header names the zone.
        assert_eq!(text.matches("(UTC").count(), 2, "{text}");
    }
}
