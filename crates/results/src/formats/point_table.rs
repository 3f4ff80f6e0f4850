//! Tables of points over time, as Otava reads them: CSV with the columns `time` and `commit`, and one column for each metric.
//!
//! Decides what the columns are, by their names: `branch` and `machine` belong to the point, `benchmark` names what was measured,
//! every other column of numbers is a metric. Which direction of a metric is good is in no such file, so the user says it. It
//! must not know what is made of the points. Start at [`read`].

use super::imported::{Process, sample};
use super::input::Input;
use super::points::{Place, Points, revision};
use crate::foreign::utf8;
use anyhow::{Context, Result, bail, ensure};
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, civil};
use speedwell_model::{Case, Environment, Metric, Origin, Session};
use std::path::Path;

/// Characters that separate cells. The first by which a header has the columns that are needed is taken.
const SEPARATORS: [char; 3] = [',', ';', '\t'];

/// Whether bytes are of this kind.
pub fn recognises(bytes: &[u8]) -> bool {
    let line = bytes
        .split(|&byte| byte == b'\n')
        .next()
        .unwrap_or_default();
    std::str::from_utf8(line).is_ok_and(|line| Columns::parse(line).is_some())
}

/// Reads a whole table: the rows of one time, commit, branch and machine are a session.
///
/// # Errors
/// A row is not what the header says, a time or number cannot be read (the message names its line), or the good direction of a
/// metric is not known.
pub fn read(file: &Input<'_>, warnings: &mut Vec<String>) -> Result<Vec<Session>> {
    let text = utf8(file.bytes)?;
    let mut warn = |sentence: String| warnings.push(format!("'{}': {sentence}", file.label));
    let (whole, rest) = text.split_at(text.rfind('\n').map_or(0, |end| end + 1));
    if !rest.trim().is_empty() {
        warn("its last line has no end and was left out; it may be cut short".to_owned());
    }
    let mut columns = whole
        .lines()
        .next()
        .and_then(Columns::parse)
        .context("the header is missing")?;
    let rows = Rows::new(whole, columns.separator).skip(1);
    let rows: Vec<Row> = rows.collect::<Result<_>>()?;
    for row in &rows {
        columns.check_length(row)?;
    }
    for name in columns.leave_out_text(&rows) {
        warn(format!(
            "the column '{}' holds no numbers and was left out",
            name.escape_debug()
        ));
    }
    let mut table = Table {
        metrics: columns.metrics(file)?,
        benchmark: benchmark(file.label),
        points: Points::new("points over time"),
        missing: 0,
    };
    for row in &rows {
        table.add(row, &columns)?;
    }
    match table.missing {
        0 => {}
        1 => warn("a cell holds no number and gives no point".to_owned()),
        many => warn(format!("{many} cells hold no number and give no point")),
    }
    table
        .points
        .into_sessions(file.label)
        .context("has a header but no results")
}

/// What was measured, where no column says it: the file's name without its ending.
fn benchmark(label: &str) -> String {
    let stem = Path::new(label)
        .file_stem()
        .map(|stem| stem.to_string_lossy());
    match stem.as_deref() {
        None | Some("" | "-") => "points".to_owned(),
        Some(stem) => stem.to_owned(),
    }
}

/// A line of the table.
struct Row {
    /// From 1.
    line: usize,
    cells: Vec<String>,
}

/// Which column is what.
#[derive(Debug, Default)]
struct Columns {
    separator: char,
    time: usize,
    commit: usize,
    branch: Option<usize>,
    machine: Option<usize>,
    benchmark: Option<usize>,
    /// Of metrics: name and place.
    metrics: Vec<(String, usize)>,
    count: usize,
}

impl Columns {
    /// The columns of a header; `None` if it is of another kind of file.
    fn parse(line: &str) -> Option<Columns> {
        let by = |separator: char| {
            let header = Rows::new(line, separator).next()?.ok()?;
            let mut columns = Columns {
                separator,
                count: header.cells.len(),
                ..Columns::default()
            };
            let (mut time, mut commit) = (None, None);
            for (at, name) in header.cells.into_iter().enumerate() {
                let place = match name.trim().to_ascii_lowercase().as_str() {
                    "time" => &mut time,
                    "commit" => &mut commit,
                    "branch" => &mut columns.branch,
                    "machine" => &mut columns.machine,
                    "benchmark" => &mut columns.benchmark,
                    "" => continue,
                    _ => {
                        columns.metrics.push((name.trim().to_owned(), at));
                        continue;
                    }
                };
                place.get_or_insert(at);
            }
            (columns.time, columns.commit) = (time?, commit?);
            (!columns.metrics.is_empty()).then_some(columns)
        };
        SEPARATORS.into_iter().find_map(by)
    }

    fn check_length(&self, row: &Row) -> Result<()> {
        ensure!(
            row.cells.len() == self.count,
            "line {} has {} cells, but the header has {}",
            row.line,
            row.cells.len(),
            self.count
        );
        Ok(())
    }

    /// Forgets columns whose first cell with a content is no number, and gives their names.
    fn leave_out_text(&mut self, rows: &[Row]) -> Vec<String> {
        let is_text = |at: usize| {
            let mut cells = rows.iter().map(|row| row.cells[at].trim());
            let first = cells.find(|cell| !cell.is_empty());
            first.is_none_or(|cell| cell.parse::<f64>().is_err())
        };
        let (left_out, kept) = std::mem::take(&mut self.metrics)
            .into_iter()
            .partition(|(_, at)| is_text(*at));
        self.metrics = kept;
        let left_out: Vec<(String, usize)> = left_out;
        left_out.into_iter().map(|(name, _)| name).collect()
    }

    fn metrics(&self, file: &Input<'_>) -> Result<Vec<Metric>> {
        let metrics = self.metrics.iter();
        let metric =
            |(name, _): &(String, usize)| Ok(Metric::new(name, "", file.better.need(name)?));
        metrics.map(metric).collect()
    }
}

/// A table that is being read.
struct Table {
    metrics: Vec<Metric>,
    benchmark: String,
    points: Points,
    /// Cells without a number.
    missing: usize,
}

impl Table {
    fn add(&mut self, row: &Row, columns: &Columns) -> Result<()> {
        let cell = |at: usize| row.cells[at].trim();
        let named = |at: Option<usize>| at.map(cell).filter(|cell| !cell.is_empty());
        let written = cell(columns.time);
        let started = moment(written).with_context(|| {
            format!(
                "line {}: '{}' is no time that can be read\nhint: write it as 2026-01-31T12:00:00Z, or as seconds since 1970",
                row.line,
                written.escape_debug()
            )
        })?;
        let commit = cell(columns.commit);
        ensure!(
            !commit.is_empty(),
            "line {}: the commit is missing",
            row.line
        );
        let place = Place {
            // The benchmark of the file, so that tables of several benchmarks stay apart.
            suite: named(columns.benchmark).map_or(self.benchmark.clone(), |_| String::new()),
            key: started.to_string(),
            origin: Origin {
                branch: named(columns.branch).map(str::to_owned),
                ..revision(commit)
            },
            environment: Environment {
                machine: named(columns.machine).map(str::to_owned),
                ..Environment::default()
            },
            started_unix_ms: Some(started),
            ..Place::default()
        };
        let imported = self.points.at(place);
        let mut samples = Vec::new();
        for ((name, at), metric) in columns.metrics.iter().zip(&self.metrics) {
            let written = cell(*at);
            match written.parse::<f64>() {
                Ok(value) if value.is_finite() => {
                    samples.push(sample(&imported.metric(metric.clone()), value));
                }
                Err(_) if !written.is_empty() => bail!(
                    "line {}: '{}' in the column '{name}' is not a number",
                    row.line,
                    written.escape_debug()
                ),
                // Nothing, or not finite: there is no point, and none is made up.
                _ => self.missing += 1,
            }
        }
        if !samples.is_empty() {
            let benchmark = named(columns.benchmark).unwrap_or(&self.benchmark);
            let process = Process {
                samples,
                ..Process::default()
            };
            imported.run(Case::new(benchmark, Vec::new()), process);
        }
        Ok(())
    }
}

/// Ways in which people write a moment: with a zone, without one (then it is UTC), and without a time of day.
const WITH_ZONE: [&str; 4] = [
    "%Y-%m-%d %H:%M:%S %z",
    "%Y-%m-%d %H:%M:%S%.f%:z",
    "%Y-%m-%d %H:%M:%S%.f %:z",
    "%a, %d %b %Y %H:%M:%S %z",
];
const WITHOUT_ZONE: [&str; 3] = [
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%d %H:%M",
];

/// A moment as people write it, in milliseconds since the Unix epoch.
fn moment(written: &str) -> Option<i64> {
    if let Ok(seconds) = written.parse::<f64>() {
        // Seconds until the year 5138, milliseconds from 1973 on.
        let factor = if seconds.abs() < 1e11 { 1e3 } else { 1.0 };
        return (0.0..1e14)
            .contains(&(seconds * factor))
            .then_some((seconds * factor) as i64);
    }
    if let Ok(moment) = written.parse::<Timestamp>() {
        return Some(moment.as_millisecond());
    }
    // Dates with points and slashes, year first; anything else with them could be day or month first.
    let text = match written.get(..10) {
        Some(date) => date.replace(['.', '/'], "-") + &written[10..],
        None => written.replace(['.', '/'], "-"),
    };
    let with_zone = WITH_ZONE.iter().find_map(|format| {
        let parsed = strtime::parse(format, &text).ok()?;
        parsed.to_timestamp().ok()
    });
    let utc = |time: civil::DateTime| {
        time.to_zoned(TimeZone::UTC)
            .ok()
            .map(|zoned| zoned.timestamp())
    };
    let without = || {
        let time = |format: &&str| civil::DateTime::strptime(format, &text).ok();
        utc(WITHOUT_ZONE.iter().find_map(time)?)
    };
    let date = || {
        utc(civil::Date::strptime("%Y-%m-%d", &text)
            .ok()?
            .at(0, 0, 0, 0))
    };
    let moment = with_zone.or_else(without).or_else(date)?;
    Some(moment.as_millisecond())
}

/// The rows of a text: cells may stand in double quotes, which are doubled inside.
struct Rows<'a> {
    rest: &'a str,
    line: usize,
    separator: char,
}

impl<'a> Rows<'a> {
    fn new(text: &'a str, separator: char) -> Rows<'a> {
        Rows {
            rest: text,
            line: 1,
            separator,
        }
    }

    /// The next row, which is not blank.
    fn row(&mut self) -> Result<Row> {
        let line = self.line;
        let mut cells = Vec::new();
        loop {
            let (cell, after) = match self.rest.trim_start_matches(' ').strip_prefix('"') {
                Some(quoted) => unquoted(quoted).with_context(|| {
                    format!("line {line}: a quote has no end\nhint: is the file cut short?")
                })?,
                None => {
                    let end = self.rest.find([self.separator, '\n']);
                    let (cell, after) = self.rest.split_at(end.unwrap_or(self.rest.len()));
                    (cell.to_owned(), after)
                }
            };
            self.line += cell.matches('\n').count();
            cells.push(cell);
            let after = after.trim_start_matches([' ', '\r']);
            match after.chars().next() {
                Some(letter) if letter == self.separator => self.rest = &after[letter.len_utf8()..],
                Some('\n') | None => {
                    self.rest = after.strip_prefix('\n').unwrap_or_default();
                    self.line += 1;
                    return Ok(Row { line, cells });
                }
                Some(_) => bail!("line {line}: something stands behind a closing quote"),
            }
        }
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        loop {
            let end = self.rest.find('\n').map_or(self.rest.len(), |end| end + 1);
            if end == 0 {
                return None;
            }
            if !self.rest[..end].trim().is_empty() {
                break;
            }
            self.rest = &self.rest[end..];
            self.line += 1;
        }
        let row = self.row();
        if row.is_err() {
            self.rest = "";
        }
        Some(row)
    }
}

/// The content of a cell behind its first quote, and what follows its last one.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut cell = String::new();
    let mut rest = text;
    loop {
        let (part, after) = rest.split_once('"')?;
        cell.push_str(part);
        match after.strip_prefix('"') {
            Some(after) => {
                cell.push('"');
                rest = after;
            }
            None => return Some((cell, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::input::Directions;
    use super::*;
    use speedwell_model::Better;

    fn read_text(text: &str) -> (Result<Vec<Session>>, Vec<String>) {
        let mut warnings = Vec::new();
        let better = Directions {
            all: Some(Better::Lower),
            ..Directions::default()
        };
        let input = Input {
            label: "out/join.csv",
            bytes: text.as_bytes(),
            better: &better,
        };
        (read(&input, &mut warnings), warnings)
    }

    fn message(text: &str) -> String {
        format!("{:#}", read_text(text).0.unwrap_err())
    }

    #[test]
    fn columns_are_known_by_their_names_and_cells_may_be_quoted() {
        let text = "Commit;ops;\"time\";note;machine;size \n\
                    c1;1e3;2026-01-31;\"a;\"\"b\";lab;\n\
                    \n\
                    c2; 2.5 ;2026-02-01;;lab;7\n";
        assert!(recognises(text.as_bytes()));
        let (sessions, warnings) = read_text(text);
        let sessions = sessions.unwrap();
        assert_eq!(sessions.len(), 2);
        let run = &sessions[0].runs[0];
        assert_eq!(
            (run.case.id(), run.value_of("ops")),
            ("join".into(), Some(1000.0))
        );
        assert_eq!(run.value_of("size"), None);
        assert_eq!(sessions[1].runs[0].value_of("size"), Some(7.0));
        assert_eq!(sessions[0].environment.machine.as_deref(), Some("lab"));
        assert_eq!(sessions[0].started_unix_ms, 1_769_817_600_000);
        assert_eq!(
            warnings,
            [
                "'out/join.csv': the column 'note' holds no numbers and was left out",
                "'out/join.csv': a cell holds no number and gives no point"
            ]
        );
    }

    #[test]
    fn moments_are_read_as_people_write_them() {
        let at = 1_704_074_400_000;
        for written in [
            "2024-01-01T02:00:00Z",
            "2024.01.01 3:00:00 +0100",
            "2024-01-01 02:00:00",
            "2024/01/01 02:00",
            "2024-01-01T02:00:00.000",
            "2024-01-01 03:00:00+01:00",
            "Mon, 1 Jan 2024 03:00:00 +0100",
            "1704074400",
            "1704074400000",
        ] {
            assert_eq!(moment(written), Some(at), "{written}");
        }
        assert_eq!(moment("2024-01-01"), Some(at - 7_200_000));
        for wrong in [
            "",
            "yesterday",
            "01/02/2024",
            "-5",
            "1e300",
            "2024-13-01",
            "NaN",
        ] {
            assert_eq!(moment(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_mistake_is_named_with_its_line() {
        let table = |row: &str| format!("time,commit,ops\n2026-01-31,c1,5\n{row}\n");
        assert_eq!(
            message(&table("2026-01-31,c2")),
            "line 3 has 2 cells, but the header has 3"
        );
        assert_eq!(
            message(&table("2026-01-31,c2,fast")),
            "line 3: 'fast' in the column 'ops' is not a number"
        );
        assert_eq!(
            message(&table("2026-01-31,,5")),
            "line 3: the commit is missing"
        );
        assert!(message(&table("soon,c2,5")).starts_with("line 3: 'soon' is no time that"));
        assert!(message(&table("2026-01-31,\"c2,5")).starts_with("line 3: a quote has no end"));
        assert!(message(&table("2026-01-31,\"c2\"x,5")).starts_with("line 3: something stands"));
        assert!(message("time,commit,ops\n").starts_with("has a header but no results"));
    }

    #[test]
    fn a_last_line_without_an_end_may_be_cut_short() {
        let (sessions, warnings) = read_text("time,commit,ops\n2026-01-31,c1,5\n2026-02-01,c2,6");
        assert_eq!(sessions.unwrap().len(), 1);
        assert!(
            warnings[0].contains("has no end and was left out"),
            "{warnings:?}"
        );
    }

    #[test]
    fn rows_of_one_moment_are_runs_of_one_session() {
        let text =
            "time,commit,benchmark,ops\n1700000000,c,a,5\n1700000000,c,b,6\n1700000000,c,a,7\n";
        let sessions = read_text(text).0.unwrap();
        assert_eq!(sessions.len(), 1);
        let runs = sessions[0].runs.iter();
        let runs: Vec<_> = runs.map(|run| (run.case.id(), run.block)).collect();
        assert_eq!(runs, [("a".into(), 0), ("b".into(), 0), ("a".into(), 1)]);
    }
}
