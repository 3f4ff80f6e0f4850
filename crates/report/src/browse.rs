//! Lists of what a store holds: projects, benchmarks, cases, machines, calibrations.
//!
//! Decides on wording and columns; callers decide where a row links to. Start with [`benchmarks`].

use crate::document::{Block, Chart, Document};
use crate::figure::{count, moment, share, spell};
use crate::table::{Cell, Column, Columns, Emphasis, Kind, Name, Row};
use serde_json::json;
use speedwell_model::Calibration;
use speedwell_plot::{Bar, BarCategory, BarChart};
use speedwell_results::store::{
    Overview, StoredBenchmark, StoredCalibration, StoredCase, StoredMachine,
};

/// A project in the list of projects.
#[derive(Debug, Clone, Default)]
pub struct ProjectLine {
    /// Its name.
    pub name: String,
    /// Its newest session.
    pub newest: Option<Overview>,
    /// The number of its sessions; `None` if there are too many to count.
    pub sessions: Option<usize>,
    /// The number of sessions begun on each of the last seven days, with the day's name.
    pub week: Vec<(String, usize)>,
}

/// Adds the commands for first-time users.
pub fn nothing_measured(document: &mut Document) {
    document.push(Block::Headline("no session yet".into()));
    document.push(Block::Paragraph(
        "What is measured is shown here as soon as it begins.".into(),
    ));
    document.push(Block::Command {
        label: "measure the benchmarks of a file or folder".into(),
        line: "speedwell run bench/".into(),
    });
    document.push(Block::Command {
        label: "or a line of code".into(),
        line: "speedwell eval python 'sum(range(1000))'".into(),
    });
}

/// Lists the projects.
pub fn projects(projects: &[ProjectLine]) -> Document {
    let mut document = Document::new("overview");
    if projects.iter().all(|project| project.newest.is_none()) {
        nothing_measured(&mut document);
    } else {
        let week: usize = projects.iter().map(sessions_of_week).sum();
        document.push(Block::Headline(format!(
            "{}, {} in the last seven days",
            count(projects.len(), "project", "projects"),
            count(week, "session", "sessions")
        )));
    }
    let mut columns = Columns::<ProjectLine>::new();
    columns.add(
        Column::new("project", "project", Kind::Label),
        |project: &ProjectLine| Cell::words(&project.name),
    );
    columns.add(
        Column::figure("newest", "newest session"),
        |project| match &project.newest {
            Some(newest) => Cell::value(newest.number).shown(format!("@{}", newest.number)),
            None => Cell::default(),
        },
    );
    columns.add(
        Column::words("started_unix_ms", "started (UTC)"),
        |project| match &project.newest {
            Some(newest) => {
                Cell::value(newest.started_unix_ms).shown(moment(newest.started_unix_ms))
            }
            None => Cell::default(),
        },
    );
    columns.add(Column::figure("sessions", "sessions"), |project| {
        up_to_a_thousand(project.sessions)
    });
    columns.add(Column::figure("week", "in seven days"), |project| {
        counted(sessions_of_week(project))
    });
    document.push(Block::Table(columns.table("projects", projects)));
    for project in projects.iter().filter(|line| sessions_of_week(line) > 0) {
        document.push_charts([Chart::new(
            format!("Sessions of {} in the last seven days", project.name),
            speedwell_plot::Chart::Bar(week_chart(project)),
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
        bars: vec![Bar {
            name: "sessions".into(),
            value: *sessions as f64,
            ..Bar::default()
        }],
    };
    BarChart {
        title: "Sessions by day (UTC)".into(),
        categories: project.week.iter().map(category).collect(),
        ..BarChart::default()
    }
}

/// A session count; `None` means that counting stopped at the limit.
fn up_to_a_thousand(sessions: Option<usize>) -> Cell {
    sessions.map_or_else(|| Cell::text("more than 1,000"), counted)
}

fn counted(number: usize) -> Cell {
    Cell::value(number).shown(spell(number as f64, 0))
}

/// Lists all benchmarks by group.
pub fn benchmarks(benchmarks: &[StoredBenchmark]) -> Document {
    let mut document = Document::new("benchmarks");
    if benchmarks.is_empty() {
        nothing_measured(&mut document);
        return document;
    }
    let cases = benchmarks.iter().map(|benchmark| benchmark.cases).sum();
    document.push(Block::Headline(format!(
        "{} with {}",
        count(benchmarks.len(), "benchmark", "benchmarks"),
        count(cases, "case", "cases")
    )));
    let mut columns = Columns::<StoredBenchmark>::new();
    columns.add(
        Column::new("benchmark", "benchmark", Kind::Label),
        |benchmark: &StoredBenchmark| {
            let (_, name) = group_of(&benchmark.name);
            Cell::words(&benchmark.name).shown(name)
        },
    );
    columns.add(Column::figure("cases", "cases"), |benchmark| {
        counted(benchmark.cases)
    });
    columns.add(Column::figure("sessions", "sessions"), |benchmark| {
        up_to_a_thousand(benchmark.sessions)
    });
    columns.add(Column::figure("newest", "newest session"), |benchmark| {
        Cell::value(benchmark.newest).shown(format!("@{}", benchmark.newest))
    });
    columns.add(
        Column::words("ended_unix_ms", "measured last (UTC)"),
        |benchmark| Cell::value(benchmark.ended_unix_ms).shown(moment(benchmark.ended_unix_ms)),
    );
    let mut rows = Vec::new();
    let mut group = "";
    for benchmark in benchmarks {
        let (own, _) = group_of(&benchmark.name);
        if own != group {
            group = own;
            rows.push(Row::Group(Name::plain(own)));
        }
        rows.push(columns.row(benchmark));
    }
    document.push(Block::Table(columns.table_of_rows("benchmarks", rows)));
    document
}

/// Splits a benchmark's name into its group and its name in the group.
fn group_of(name: &str) -> (&str, &str) {
    name.rsplit_once('/').unwrap_or(("", name))
}

/// Lists the cases of one benchmark.
pub fn cases_of(benchmark: &str, cases: &[StoredCase]) -> Document {
    let mut document = Document::new("benchmark");
    document.push(Block::Headline(format!(
        "{benchmark}: {}",
        count(cases.len(), "case", "cases")
    )));
    let mut columns = Columns::<StoredCase>::new();
    columns.add(
        Column::new("case", "case", Kind::Label),
        |case: &StoredCase| Cell::words(&case.id),
    );
    columns.add(Column::figure("sessions", "sessions"), |case| {
        up_to_a_thousand(case.sessions)
    });
    columns.add(Column::figure("runs", "runs"), |case| match case.sessions {
        Some(_) => counted(case.runs),
        None => Cell::value(case.runs).shown(format!("more than {}", spell(case.runs as f64, 0))),
    });
    columns.add(Column::figure("newest", "newest session"), |case| {
        Cell::value(case.newest).shown(format!("@{}", case.newest))
    });
    document.push(Block::Table(columns.table("cases", cases)));
    document
}

/// Lists all machines; `calibrated` returns the calibration of each, if there is one.
pub fn machines(
    machines: &[StoredMachine],
    calibrated: &dyn Fn(&StoredMachine) -> Option<Calibration>,
) -> Document {
    let mut document = Document::new("machines");
    let words = match machines.len() {
        0 => "no machine is known yet".to_owned(),
        some => count(some, "machine", "machines"),
    };
    document.push(Block::Headline(words));
    if machines.is_empty() {
        document.push(Block::Paragraph(
            "A machine is known from its first complete session.".into(),
        ));
    }
    let known: Vec<(&StoredMachine, Option<Calibration>)> = machines
        .iter()
        .map(|machine| (machine, calibrated(machine)))
        .collect();
    let owned: Vec<MachineLine> = known.into_iter().map(MachineLine::from_stored).collect();
    let mut columns = Columns::<MachineLine>::new();
    columns.add(
        Column::new("machine", "machine", Kind::Label),
        |line: &MachineLine| Cell::words(&line.title),
    );
    columns.add_value("number", |line| line.stored.number);
    columns.add(Column::words("class", "processor"), |line| {
        Cell::words(line.stored.machine.class.clone().unwrap_or_default())
    });
    columns.add(Column::figure("sessions", "sessions"), |line| {
        counted(line.stored.sessions)
    });
    columns.add(Column::words("first_unix_ms", "first (UTC)"), |line| {
        Cell::value(line.stored.first_unix_ms).shown(moment(line.stored.first_unix_ms))
    });
    columns.add(Column::words("last_unix_ms", "last (UTC)"), |line| {
        Cell::value(line.stored.last_unix_ms).shown(moment(line.stored.last_unix_ms))
    });
    columns.add(Column::words("calibration", "calibration"), |line| {
        calibration_cell(line.calibration.as_ref())
    });
    document.push(Block::Table(columns.table("machines", &owned)));
    document
}

/// A machine in the list of machines.
struct MachineLine {
    title: String,
    stored: StoredMachine,
    calibration: Option<Calibration>,
}

impl MachineLine {
    fn from_stored((stored, calibration): (&StoredMachine, Option<Calibration>)) -> MachineLine {
        MachineLine {
            title: stored.machine.title().to_owned(),
            stored: stored.clone(),
            calibration,
        }
    }
}

fn calibration_cell(known: Option<&Calibration>) -> Cell {
    match known {
        None => Cell::text("never calibrated").emphasised(Emphasis::Muted),
        Some(known) if known.is_in_range() => Cell::words("calibrated").emphasised(Emphasis::Good),
        Some(known) => {
            let words = if known.false_alarms < known.expected_low {
                "too few false alarms"
            } else {
                "too many false alarms"
            };
            Cell::words(words).emphasised(Emphasis::Bad)
        }
    }
}

/// Describes one machine: its name and class. Its properties are listed in the environment facts of
/// its newest session.
pub fn machine(machine: &StoredMachine) -> Document {
    let mut document = Document::new("machine");
    document.push(Block::Headline(format!(
        "{}: {}",
        machine.machine.title(),
        count(machine.sessions, "session", "sessions")
    )));
    let facts = [
        ("Host", machine.machine.name.clone()),
        ("Label", machine.machine.label.clone()),
        ("Processor", machine.machine.class.clone()),
        ("First session", Some(moment(machine.first_unix_ms))),
        ("Last session", Some(moment(machine.last_unix_ms))),
    ];
    let known = facts
        .into_iter()
        .filter_map(|(name, fact)| Some((name.to_owned(), fact?)));
    document.push(Block::Facts(known.collect()));
    document.attach(
        "machine",
        json!({"number": machine.number, "id": machine.machine.id, "name": machine.machine.name,
            "label": machine.machine.label, "class": machine.machine.class}),
    );
    document
}

/// A change in the environment of a machine: session, property, old and new value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CircumstanceChange {
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
pub fn circumstance_changes(changes: &[CircumstanceChange]) -> Document {
    let mut document = Document::new("machine");
    document.push_heading(2, "What changed");
    if changes.is_empty() {
        document.push(Block::Paragraph(
            "Nothing that could move figures, as far as it was recorded.".into(),
        ));
        return document;
    }
    let mut columns = Columns::<CircumstanceChange>::new();
    columns.add(
        Column::new("session", "session", Kind::Label),
        |change: &CircumstanceChange| {
            Cell::value(change.session).shown(format!("@{}", change.session))
        },
    );
    columns.add(Column::words("name", "what"), |change| {
        Cell::words(&change.name)
    });
    columns.add(Column::words("before", "before"), |change| {
        Cell::words(&change.before)
    });
    columns.add(Column::words("after", "after"), |change| {
        Cell::words(&change.after)
    });
    document.push(Block::Table(columns.table("circumstances", changes)));
    document
}

/// Lists all calibrations, newest first.
pub fn calibrations(calibrations: &[StoredCalibration]) -> Document {
    let mut document = Document::new("calibrations");
    if calibrations.is_empty() {
        document.push(Block::Headline("no machine was calibrated yet".into()));
        document.push(Block::Paragraph(
            "A calibration compares a program with itself many times: it shows how often this machine takes equal things for \
             different, which should be as often as the confidence says."
                .into(),
        ));
        document.push(Block::Command {
            label: "calibrate this machine".into(),
            line: "speedwell doctor --calibrate FILE".into(),
        });
        return document;
    }
    let unfit = calibrations
        .iter()
        .filter(|calibration| !calibration.found.is_in_range())
        .count();
    document.push(Block::Headline(match unfit {
        0 => format!(
            "{}, all with as many false alarms as expected",
            count(calibrations.len(), "calibration", "calibrations")
        ),
        some => format!(
            "{}, {some} with too many or too few false alarms",
            count(calibrations.len(), "calibration", "calibrations")
        ),
    }));
    let table = calibration_columns().table("calibrations", calibrations);
    document.push(Block::Table(table));
    document
}

fn calibration_columns() -> Columns<StoredCalibration> {
    let mut columns = Columns::<StoredCalibration>::new();
    columns.add(
        Column::new("session", "session", Kind::Label),
        |line: &StoredCalibration| {
            Cell::value(line.found.session).shown(format!("@{}", line.found.session))
        },
    );
    columns.add(Column::words("started_unix_ms", "started (UTC)"), |line| {
        Cell::value(line.found.started_unix_ms).shown(moment(line.found.started_unix_ms))
    });
    columns.add(Column::words("host", "host"), |line| {
        Cell::words(line.host.clone().unwrap_or_default())
    });
    columns.add(Column::words("cpu", "processor").expendable(1), |line| {
        Cell::words(line.cpu.clone().unwrap_or_default())
    });
    columns.add(Column::figure("comparisons", "comparisons"), |line| {
        Cell::count(line.found.comparisons)
    });
    columns.add(Column::figure("false_alarms", "false alarms"), |line| {
        let found = &line.found;
        let part = f64::from(found.false_alarms) / f64::from(found.comparisons.max(1));
        Cell::value(found.false_alarms).shown(format!("{} ({})", found.false_alarms, share(part)))
    });
    columns.add(Column::figure("expected_high", "expected"), |line| {
        Cell::value(line.found.expected_high).shown(format!(
            "{} to {}",
            line.found.expected_low, line.found.expected_high
        ))
    });
    columns.add(Column::words("result", "result"), |line| {
        calibration_cell(Some(&line.found))
    });
    columns
}
