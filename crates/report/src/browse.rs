//! Lists what a store holds: projects, benchmarks, cases, machines, calibrations.
//!
//! This module chooses wording and columns; its callers choose the page that a row links to. Start
//! with [`list_benchmarks`].

use crate::document::{Document, ReportBlock, ReportChart};
use crate::figure::{format_count, format_moment, format_number, format_share};
use crate::table::{
    ColumnKind, ColumnSet, ReportCell, ReportColumn, ReportRow, RowName, TextEmphasis,
};
use serde_json::json;
use speedwell_model::NoiseCalibration;
use speedwell_model::stored::{
    SessionOverview, StoredBenchmark, StoredCalibration, StoredCase, StoredMachine,
};
use speedwell_plot::{BarCategory, BarChart, ChartBar};

/// A project in the list of projects.
#[derive(Debug, Clone, Default)]
pub struct ProjectLine {
    /// The project's name.
    pub name: String,
    /// The newest session.
    pub newest: Option<SessionOverview>,
    /// The number of sessions; `None` if there are too many to count.
    pub sessions: Option<usize>,
    /// The last seven days: each day's name, and the number of sessions begun on it.
    pub week: Vec<(String, usize)>,
}

/// Adds the commands for first-time users.
pub fn add_first_steps(document: &mut Document) {
    document.push(ReportBlock::Headline("no sessions yet".into()));
    document.push(ReportBlock::Paragraph("Sessions appear here as soon as they start.".into()));
    document.push(ReportBlock::Command {
        label: "measure the benchmarks of a file or folder".into(),
        line: "speedwell run bench/".into(),
    });
    document.push(ReportBlock::Command {
        label: "or a line of code".into(),
        line: "speedwell eval python 'sum(range(1000))'".into(),
    });
}

/// Lists the projects.
pub fn list_projects(projects: &[ProjectLine]) -> Document {
    let mut document = Document::new("overview");
    if projects.iter().all(|project| project.newest.is_none()) {
        add_first_steps(&mut document);
    } else {
        let week: usize = projects.iter().map(sessions_of_week).sum();
        document.push(ReportBlock::Headline(format!(
            "{}, {} in the last seven days",
            format_count(projects.len(), "project", "projects"),
            format_count(week, "session", "sessions")
        )));
    }
    let mut columns = ColumnSet::<ProjectLine>::new();
    columns.add_column(
        ReportColumn::new("project", "project", ColumnKind::Label),
        |project: &ProjectLine| ReportCell::words(&project.name),
    );
    columns.add_column(ReportColumn::figure("newest", "newest session"), |project| match &project
        .newest
    {
        Some(newest) => ReportCell::value(newest.number).with_text(format!("@{}", newest.number)),
        None => ReportCell::default(),
    });
    columns.add_column(ReportColumn::words("started_unix_ms", "started (UTC)"), |project| {
        match &project.newest {
            Some(newest) => ReportCell::value(newest.started_unix_ms)
                .with_text(format_moment(newest.started_unix_ms)),
            None => ReportCell::default(),
        }
    });
    columns.add_column(ReportColumn::figure("sessions", "sessions"), |project| {
        capped_count_cell(project.sessions)
    });
    columns.add_column(ReportColumn::figure("week", "last 7 days"), |project| {
        count_cell(sessions_of_week(project))
    });
    document.push(ReportBlock::Table(columns.build_table("projects", projects)));
    for project in projects.iter().filter(|line| sessions_of_week(line) > 0) {
        document.push_charts([ReportChart::new(
            format!("Sessions of {} in the last seven days", project.name),
            speedwell_plot::AnyChart::Bar(week_chart(project)),
        )]);
    }
    document
}

fn sessions_of_week(project: &ProjectLine) -> usize {
    project.week.iter().map(|(_, sessions)| sessions).sum()
}

fn week_chart(project: &ProjectLine) -> BarChart {
    let category = |(day, sessions): &(String, usize)| BarCategory {
        label: day.clone(),
        bars: vec![ChartBar {
            name: "sessions".into(),
            value: *sessions as f64,
            ..ChartBar::default()
        }],
    };
    BarChart {
        title: "Sessions by day (UTC)".into(),
        categories: project.week.iter().map(category).collect(),
        ..BarChart::default()
    }
}

/// Formats a number of sessions. `None` means that counting stopped at the limit.
fn capped_count_cell(sessions: Option<usize>) -> ReportCell {
    sessions.map_or_else(|| ReportCell::text("more than 1,000"), count_cell)
}

fn count_cell(number: usize) -> ReportCell {
    ReportCell::value(number).with_text(format_number(number as f64, 0))
}

/// Lists all benchmarks by group.
pub fn list_benchmarks(benchmarks: &[StoredBenchmark]) -> Document {
    let mut document = Document::new("benchmarks");
    if benchmarks.is_empty() {
        add_first_steps(&mut document);
        return document;
    }
    let cases = benchmarks.iter().map(|benchmark| benchmark.cases).sum();
    document.push(ReportBlock::Headline(format!(
        "{} with {}",
        format_count(benchmarks.len(), "benchmark", "benchmarks"),
        format_count(cases, "case", "cases")
    )));
    let mut columns = ColumnSet::<StoredBenchmark>::new();
    columns.add_column(
        ReportColumn::new("benchmark", "benchmark", ColumnKind::Label),
        |benchmark: &StoredBenchmark| {
            let (_, name) = split_group(&benchmark.name);
            ReportCell::words(&benchmark.name).with_text(name)
        },
    );
    columns.add_column(ReportColumn::figure("cases", "cases"), |benchmark| {
        count_cell(benchmark.cases)
    });
    columns.add_column(ReportColumn::figure("sessions", "sessions"), |benchmark| {
        capped_count_cell(benchmark.sessions)
    });
    columns.add_column(ReportColumn::figure("newest", "newest session"), |benchmark| {
        ReportCell::value(benchmark.newest).with_text(format!("@{}", benchmark.newest))
    });
    columns.add_column(ReportColumn::words("ended_unix_ms", "last measured (UTC)"), |benchmark| {
        ReportCell::value(benchmark.ended_unix_ms).with_text(format_moment(benchmark.ended_unix_ms))
    });
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
    document.push(ReportBlock::Table(columns.table_of_rows("benchmarks", rows)));
    document
}

/// Splits a benchmark's name into its group and its name in the group.
fn split_group(name: &str) -> (&str, &str) {
    name.rsplit_once('/').unwrap_or(("", name))
}

/// Lists the cases of one benchmark.
pub fn list_cases(benchmark: &str, cases: &[StoredCase]) -> Document {
    let mut document = Document::new("benchmark");
    document.push(ReportBlock::Headline(format!(
        "{benchmark}: {}",
        format_count(cases.len(), "case", "cases")
    )));
    let mut columns = ColumnSet::<StoredCase>::new();
    columns
        .add_column(ReportColumn::new("case", "case", ColumnKind::Label), |case: &StoredCase| {
            ReportCell::words(&case.id)
        });
    columns.add_column(ReportColumn::figure("sessions", "sessions"), |case| {
        capped_count_cell(case.sessions)
    });
    columns.add_column(ReportColumn::figure("runs", "runs"), |case| match case.sessions {
        Some(_) => count_cell(case.runs),
        None => ReportCell::value(case.runs)
            .with_text(format!("more than {}", format_number(case.runs as f64, 0))),
    });
    columns.add_column(ReportColumn::figure("newest", "newest session"), |case| {
        ReportCell::value(case.newest).with_text(format!("@{}", case.newest))
    });
    document.push(ReportBlock::Table(columns.build_table("cases", cases)));
    document
}

/// Lists all machines. `calibrated` returns the calibration of a machine, if there is one.
pub fn list_machines(
    machines: &[StoredMachine],
    calibrated: &dyn Fn(&StoredMachine) -> Option<NoiseCalibration>,
) -> Document {
    let mut document = Document::new("machines");
    let headline = match machines.len() {
        0 => "no machines yet".to_owned(),
        count => format_count(count, "machine", "machines"),
    };
    document.push(ReportBlock::Headline(headline));
    if machines.is_empty() {
        document.push(ReportBlock::Paragraph(
            "A machine is listed after its first complete session.".into(),
        ));
    }
    let lines: Vec<MachineLine> = machines
        .iter()
        .map(|machine| MachineLine::from_stored((machine, calibrated(machine))))
        .collect();
    let mut columns = ColumnSet::<MachineLine>::new();
    columns.add_column(
        ReportColumn::new("machine", "machine", ColumnKind::Label),
        |line: &MachineLine| ReportCell::words(&line.title),
    );
    columns.add_value("number", |line| line.stored.number);
    columns.add_column(ReportColumn::words("class", "processor"), |line| {
        ReportCell::words(line.stored.machine.class.clone().unwrap_or_default())
    });
    columns.add_column(ReportColumn::figure("sessions", "sessions"), |line| {
        count_cell(line.stored.sessions)
    });
    columns.add_column(ReportColumn::words("first_unix_ms", "first (UTC)"), |line| {
        ReportCell::value(line.stored.first_unix_ms)
            .with_text(format_moment(line.stored.first_unix_ms))
    });
    columns.add_column(ReportColumn::words("last_unix_ms", "last (UTC)"), |line| {
        ReportCell::value(line.stored.last_unix_ms)
            .with_text(format_moment(line.stored.last_unix_ms))
    });
    columns.add_column(ReportColumn::words("calibration", "calibration"), |line| {
        calibration_cell(line.calibration.as_ref())
    });
    document.push(ReportBlock::Table(columns.build_table("machines", &lines)));
    document
}

struct MachineLine {
    title: String,
    stored: StoredMachine,
    calibration: Option<NoiseCalibration>,
}

impl MachineLine {
    fn from_stored(
        (stored, calibration): (&StoredMachine, Option<NoiseCalibration>),
    ) -> MachineLine {
        MachineLine {
            title: stored.machine.title().to_owned(),
            stored: stored.clone(),
            calibration,
        }
    }
}

fn calibration_cell(calibration: Option<&NoiseCalibration>) -> ReportCell {
    match calibration {
        None => ReportCell::text("never calibrated").with_emphasis(TextEmphasis::Muted),
        Some(calibration) if calibration.is_in_range() => {
            ReportCell::words("calibrated").with_emphasis(TextEmphasis::Good)
        }
        Some(calibration) => {
            let problem = if calibration.false_alarms < calibration.expected_low {
                "too few false alarms"
            } else {
                "too many false alarms"
            };
            ReportCell::words(problem).with_emphasis(TextEmphasis::Bad)
        }
    }
}

/// Describes one machine by name and class. Its other properties are in the environment facts of
/// its newest session.
pub fn describe_machine(machine: &StoredMachine) -> Document {
    let mut document = Document::new("machine");
    document.push(ReportBlock::Headline(format!(
        "{}: {}",
        machine.machine.title(),
        format_count(machine.sessions, "session", "sessions")
    )));
    let facts = [
        ("Host", machine.machine.name.clone()),
        ("Label", machine.machine.label.clone()),
        ("Processor", machine.machine.class.clone()),
        ("First session", Some(format_moment(machine.first_unix_ms))),
        ("Last session", Some(format_moment(machine.last_unix_ms))),
    ];
    let recorded = facts.into_iter().filter_map(|(name, fact)| Some((name.to_owned(), fact?)));
    document.push(ReportBlock::Facts(recorded.collect()));
    document.attach_data(
        "machine",
        json!({"number": machine.number, "id": machine.machine.id, "name": machine.machine.name,
            "label": machine.machine.label, "class": machine.machine.class}),
    );
    document
}

/// A change in the environment of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentChange {
    /// The first session with the new value.
    pub session: i64,
    /// What changed.
    pub name: String,
    /// The old value; empty if unknown.
    pub before: String,
    /// The new value.
    pub after: String,
}

/// Lists what changed on a machine from session to session.
pub fn list_environment_changes(changes: &[EnvironmentChange]) -> Document {
    let mut document = Document::new("machine");
    document.push_heading(2, "What changed");
    if changes.is_empty() {
        document.push(ReportBlock::Paragraph(
            "No recorded change could have affected the results.".into(),
        ));
        return document;
    }
    let mut columns = ColumnSet::<EnvironmentChange>::new();
    columns.add_column(
        ReportColumn::new("session", "session", ColumnKind::Label),
        |change: &EnvironmentChange| {
            ReportCell::value(change.session).with_text(format!("@{}", change.session))
        },
    );
    columns
        .add_column(ReportColumn::words("name", "what"), |change| ReportCell::words(&change.name));
    columns.add_column(ReportColumn::words("before", "before"), |change| {
        ReportCell::words(&change.before)
    });
    columns.add_column(ReportColumn::words("after", "after"), |change| {
        ReportCell::words(&change.after)
    });
    document.push(ReportBlock::Table(columns.build_table("environment_facts", changes)));
    document
}

/// Lists all calibrations, newest first.
pub fn list_calibrations(calibrations: &[StoredCalibration]) -> Document {
    let mut document = Document::new("calibrations");
    if calibrations.is_empty() {
        document.push(ReportBlock::Headline("no machine has been calibrated yet".into()));
        document.push(ReportBlock::Paragraph(
            "A calibration compares a program with itself many times. It shows how often this \
             machine finds a difference where there is none; at 95 % confidence, about 5 % \
             of the comparisons should find one."
                .into(),
        ));
        document.push(ReportBlock::Command {
            label: "calibrate this machine".into(),
            line: "speedwell doctor --calibrate FILE".into(),
        });
        return document;
    }
    let unexpected =
        calibrations.iter().filter(|calibration| !calibration.found.is_in_range()).count();
    document.push(ReportBlock::Headline(match unexpected {
        0 => format!(
            "{}, all with as many false alarms as expected",
            format_count(calibrations.len(), "calibration", "calibrations")
        ),
        count => format!(
            "{}, {count} with too many or too few false alarms",
            format_count(calibrations.len(), "calibration", "calibrations")
        ),
    }));
    let table = calibration_columns().build_table("calibrations", calibrations);
    document.push(ReportBlock::Table(table));
    document
}

fn calibration_columns() -> ColumnSet<StoredCalibration> {
    let mut columns = ColumnSet::<StoredCalibration>::new();
    columns.add_column(
        ReportColumn::new("session", "session", ColumnKind::Label),
        |line: &StoredCalibration| {
            ReportCell::value(line.found.session).with_text(format!("@{}", line.found.session))
        },
    );
    columns.add_column(ReportColumn::words("started_unix_ms", "started (UTC)"), |line| {
        ReportCell::value(line.found.started_unix_ms)
            .with_text(format_moment(line.found.started_unix_ms))
    });
    columns.add_column(ReportColumn::words("host", "host"), |line| {
        ReportCell::words(line.host.clone().unwrap_or_default())
    });
    columns.add_column(ReportColumn::words("cpu", "processor").expendable(1), |line| {
        ReportCell::words(line.cpu.clone().unwrap_or_default())
    });
    columns.add_column(ReportColumn::figure("comparisons", "comparisons"), |line| {
        ReportCell::count(line.found.comparisons)
    });
    columns.add_column(ReportColumn::figure("false_alarms", "false alarms"), |line| {
        let calibration = &line.found;
        let share = f64::from(calibration.false_alarms) / f64::from(calibration.comparisons.max(1));
        ReportCell::value(calibration.false_alarms).with_text(format!(
            "{} ({})",
            calibration.false_alarms,
            format_share(share)
        ))
    });
    columns.add_column(ReportColumn::figure("expected_high", "expected"), |line| {
        ReportCell::value(line.found.expected_high)
            .with_text(format!("{} to {}", line.found.expected_low, line.found.expected_high))
    });
    columns.add_column(ReportColumn::words("result", "result"), |line| {
        calibration_cell(Some(&line.found))
    });
    columns
}
