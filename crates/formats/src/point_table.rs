//! Reads tables of points over time in the format of Otava: CSV with the columns `time` and
//! `commit`, and one column per metric.
//!
//! Decides the role of each column by its name: `branch` and `machine` describe the point,
//! `benchmark` is the name of the benchmark, and every other numeric column is a metric. The user
//! must state the direction of each metric, because such files do not. Start at [`read`].

use super::duplicate_names::{ListedResult, add_distinguishing_parameters};
use super::session_builder::{
    DroppedEntries, FileSessions, ImportedProcess, InputFile, PointKey, revision_origin,
};
use crate::foreign::json::JsonContent;
use crate::foreign::require_utf8;
use anyhow::{Context, Result, anyhow, bail, ensure};
use indexmap::IndexMap;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, civil};
use speedwell_model::{Case, CodeOrigin, Environment, Metric, Session};
use std::collections::HashSet;
use std::path::Path;

/// Name of the format in the ids of sessions.
const FORMAT: &str = "points over time";

/// Cell separators, in the order in which they are tried until a header has the required columns.
const SEPARATORS: [char; 3] = [',', ';', '\t'];

/// Accepted names of the time column and of the commit column, in lower case. If a header has
/// several of these names, the first one in the list is used.
const TIME_COLUMNS: [&str; 4] = ["time", "date", "timestamp", "datetime"];
const COMMIT_COLUMNS: [&str; 7] =
    ["commit", "commit_id", "commit id", "sha", "revision", "hash", "git_commit"];

/// Returns whether the data have this format.
pub fn recognizes(file: &JsonContent<'_>) -> bool {
    let line = file.bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    std::str::from_utf8(line).is_ok_and(|line| TableColumns::parse(line).is_some())
}

/// Reads a whole table. Rows with the same time, commit, branch and machine form a session. Adds
/// messages about dropped content to `remarks`.
///
/// # Errors
/// Fails if no row can be read (the message names the line of the first error), a quote is not
/// closed, or the direction of a metric is unknown.
pub fn read(file: &InputFile<'_>, remarks: &mut Vec<String>) -> Result<Vec<Session>> {
    let text = require_utf8(file.bytes)?;
    let (complete_lines, last_line) = text.split_at(text.rfind('\n').map_or(0, |end| end + 1));
    if !last_line.trim().is_empty() {
        let cut = "its last line has no newline and was left out; it may be cut short";
        remarks.push(cut.to_owned());
    }
    let header = complete_lines.lines().next().and_then(TableColumns::parse);
    let mut columns = header.context("the header is missing")?;
    let mut rows = parse_rows(complete_lines, columns.separator)?.split_off(1);
    let mut left_out = DroppedEntries::default();
    rows.retain(|row| left_out.ok_or_count(columns.check_length(row)).is_some());
    columns.classify_columns(&rows, remarks);
    let mut table = TableReader {
        metrics: (columns.metrics.iter())
            .map(|column| {
                Ok(Metric::new(&column.name, "", file.better.require_direction(&column.name)?))
            })
            .collect::<Result<_>>()?,
        benchmark: default_benchmark(file.label),
        keys: IndexMap::new(),
        missing_cells: 0,
        left_out,
    };
    let mut points = Vec::new();
    for row in &rows {
        let point = table.read_point(row, &columns);
        points.extend(table.left_out.ok_or_count(point));
    }
    let (missing_cells, left_out) = (table.missing_cells, table.left_out);
    let has_no_values = points.iter().all(|point| point.content.is_empty());
    remarks.extend(left_out.into_warning(has_no_values)?);
    remarks.extend(match missing_cells {
        0 => None,
        1 => Some("1 cell without a number was left out".to_owned()),
        count => Some(format!("{count} cells without a number were left out")),
    });
    build_sessions(points, &table.keys, &table.metrics, file.label)
}

/// Builds the sessions of all points. If rows of one benchmark at one point differ in a text
/// column, they become different cases. Rows that do not differ become runs of the same case.
fn build_sessions(
    mut points: Vec<ListedResult<RowValues>>,
    keys: &IndexMap<String, PointKey>,
    metrics: &[Metric],
    label: &str,
) -> Result<Vec<Session>> {
    add_distinguishing_parameters(&mut points);
    let mut sessions_of_file = FileSessions::new(FORMAT);
    for point in points.into_iter().filter(|point| !point.content.is_empty()) {
        let imported = sessions_of_file.session_for(keys[point.measurement].clone());
        let values = point.content.into_iter();
        let samples =
            values.map(|(metric, value)| imported.metric_sample(metrics[metric].clone(), value));
        let process = ImportedProcess { samples: samples.collect(), ..ImportedProcess::default() };
        imported.add_run(point.case, process);
    }
    let sessions = sessions_of_file.into_sessions(label);
    sessions.context("it has a header but no results")
}

/// Returns the file name without extension, which names the benchmark if no column does.
fn default_benchmark(label: &str) -> String {
    let stem = Path::new(label).file_stem().map(|stem| stem.to_string_lossy());
    match stem.as_deref() {
        None | Some("" | "-") => "points".to_owned(),
        Some(stem) => stem.to_owned(),
    }
}

struct TableRow {
    /// Line number, counting from 1.
    line: usize,
    cells: Vec<String>,
}

#[derive(Debug, Default)]
struct TableColumns {
    separator: char,
    time: usize,
    commit: usize,
    branch: Option<usize>,
    machine: Option<usize>,
    benchmark: Option<usize>,
    metrics: Vec<DataColumn>,
    /// Text columns whose values recur. They may distinguish the rows of one point.
    text_columns: Vec<DataColumn>,
    count: usize,
}

#[derive(Debug)]
struct DataColumn {
    name: String,
    index: usize,
    style: NumberStyle,
}

impl TableColumns {
    /// Parses a header; `None` if the required columns are missing.
    fn parse(line: &str) -> Option<TableColumns> {
        SEPARATORS
            .into_iter()
            .find_map(|separator| TableColumns::parse_with_separator(line, separator))
    }

    fn parse_with_separator(line: &str, separator: char) -> Option<TableColumns> {
        let header = parse_rows(line, separator).ok()?.into_iter().next()?.cells;
        let names: Vec<String> =
            header.iter().map(|name| name.trim().to_ascii_lowercase()).collect();
        let find = |candidates: &[&str]| {
            candidates.iter().find_map(|candidate| names.iter().position(|name| name == candidate))
        };
        let (time, commit) = (find(&TIME_COLUMNS)?, find(&COMMIT_COLUMNS)?);
        let [branch, machine, benchmark] =
            ["branch", "machine", "benchmark"].map(|name| find(&[name]));
        let is_other = |index: &usize| {
            let special_columns = [Some(time), Some(commit), branch, machine, benchmark];
            !names[*index].is_empty() && !special_columns.contains(&Some(*index))
        };
        let column = |index: usize| DataColumn {
            name: header[index].trim().to_owned(),
            index,
            style: NumberStyle::Point,
        };
        let columns = TableColumns {
            separator,
            time,
            commit,
            branch,
            machine,
            benchmark,
            metrics: (0..names.len()).filter(is_other).map(column).collect(),
            text_columns: Vec::new(),
            count: names.len(),
        };
        (!columns.metrics.is_empty()).then_some(columns)
    }

    fn check_length(&self, row: &TableRow) -> Result<()> {
        ensure!(
            row.cells.len() == self.count,
            "the number of cells in line {} is {}, expected {} as in the header",
            row.line,
            row.cells.len(),
            self.count
        );
        Ok(())
    }

    /// Determines the number style of each column. Columns without numbers or with an ambiguous
    /// style are removed from the metrics, with a message about each in `remarks`. A column without
    /// numbers becomes a text column if its values recur.
    fn classify_columns(&mut self, rows: &[TableRow], remarks: &mut Vec<String>) {
        for mut column in std::mem::take(&mut self.metrics) {
            let cells = || rows.iter().map(|row| row.cells[column.index].trim());
            let name = column.name.escape_debug().to_string();
            let Some(style) = NumberStyle::detect_in_cells(cells()) else {
                remarks.push(format!(
                    "the column '{name}' was left out: its commas may separate thousands or decimals"
                ));
                continue;
            };
            if cells().any(|cell| style.parse_number(cell).is_some()) {
                column.style = style;
                self.metrics.push(column);
                continue;
            }
            remarks.push(format!("the column '{name}' contains no numbers and was left out"));
            let distinct: HashSet<&str> = cells().collect();
            if 2 * distinct.len() <= rows.len() {
                self.text_columns.push(column);
            }
        }
    }
}

/// How numbers in a column are written.
#[derive(Debug, Clone, Copy, PartialEq)]
enum NumberStyle {
    /// `1234.5`.
    Point,
    /// `1,234.5`.
    Thousands,
    /// `1.234,5`.
    DecimalComma,
}

impl NumberStyle {
    /// Returns the style of all numbers among these cells; `None` if it is ambiguous or
    /// inconsistent.
    fn detect_in_cells<'c>(cells: impl Iterator<Item = &'c str>) -> Option<NumberStyle> {
        let is_number = |cell: &&str| {
            let is_part =
                |character: char| character.is_ascii_digit() || "+-.,eE".contains(character);
            cell.contains(|character: char| character.is_ascii_digit()) && cell.chars().all(is_part)
        };
        let numbers = cells.filter(|cell| is_number(cell) && cell.contains(','));
        let styles: Vec<Option<NumberStyle>> = numbers.map(NumberStyle::detect_in_cell).collect();
        let mut known_styles = styles.iter().flatten();
        match known_styles.next() {
            None if styles.is_empty() => Some(NumberStyle::Point),
            None => None,
            Some(style) => known_styles.all(|other| other == style).then_some(*style),
        }
    }

    /// Returns the style of a number with a comma; `None` if it is ambiguous, like `1,234`.
    fn detect_in_cell(cell: &str) -> Option<NumberStyle> {
        let (integer_part, digits_after) = cell.rsplit_once(',')?;
        let integer_part = integer_part.trim_start_matches(['+', '-']);
        if digits_after.contains('.') || integer_part.contains(',') {
            Some(NumberStyle::Thousands)
        } else if integer_part.contains('.')
            || digits_after.len() != 3
            || integer_part.len() > 3
            || integer_part.starts_with('0')
        {
            Some(NumberStyle::DecimalComma)
        } else {
            None
        }
    }

    /// Parses the number in a cell. The number may be infinite or NaN.
    fn parse_number(self, cell: &str) -> Option<f64> {
        match self {
            NumberStyle::Point => cell.parse().ok(),
            NumberStyle::Thousands => cell.replace(',', "").parse().ok(),
            // In a cell without a comma, the point is ambiguous: it may separate thousands or
            // decimals.
            NumberStyle::DecimalComma if cell.contains('.') && !cell.contains(',') => None,
            NumberStyle::DecimalComma => cell.replace('.', "").replace(',', ".").parse().ok(),
        }
    }
}

/// Values of a row, each with the index of its metric.
type RowValues = Vec<(usize, f64)>;

struct TableReader {
    metrics: Vec<Metric>,
    benchmark: String,
    /// All points, by the ids of their sessions.
    keys: IndexMap<String, PointKey>,
    /// Number of cells without a number.
    missing_cells: usize,
    left_out: DroppedEntries,
}

impl TableReader {
    /// Returns the point of a row, and the values of the row. Cells without a number are counted
    /// and left out.
    ///
    /// # Errors
    /// Fails if the time cannot be parsed, or the commit is missing.
    fn read_point(
        &mut self,
        row: &TableRow,
        columns: &TableColumns,
    ) -> Result<ListedResult<RowValues>> {
        let cell = |index: usize| row.cells[index].trim();
        let optional_cell = |index: Option<usize>| index.map(cell).filter(|cell| !cell.is_empty());
        let time_text = cell(columns.time);
        let started = parse_time(time_text).with_context(|| {
            format!(
                "line {}: cannot parse time '{}'\nhint: write it as 2026-01-31T12:00:00Z, or as seconds since 1970",
                row.line,
                time_text.escape_debug()
            )
        })?;
        let commit = cell(columns.commit);
        ensure!(!commit.is_empty(), "line {}: the commit is missing", row.line);
        let key = PointKey {
            // If no column names the benchmark, the benchmark is named after the file. This name
            // distinguishes the point from points of other files.
            suite: optional_cell(columns.benchmark)
                .map_or(self.benchmark.clone(), |_| String::new()),
            key: started.to_string(),
            origin: CodeOrigin {
                branch: optional_cell(columns.branch).map(str::to_owned),
                ..revision_origin(commit)
            },
            environment: Environment {
                machine: optional_cell(columns.machine).map(str::to_owned),
                ..Environment::default()
            },
            started_unix_ms: Some(started),
            ..PointKey::default()
        };
        let text_columns = columns.text_columns.iter();
        let details =
            text_columns.map(|column| (column.name.clone(), cell(column.index).to_owned()));
        let benchmark = optional_cell(columns.benchmark).unwrap_or(&self.benchmark).to_owned();
        Ok(ListedResult {
            measurement: self.point_index(key),
            case: Case::new(benchmark, Vec::new()),
            metric: String::new(),
            details: details.filter(|(_, text)| !text.is_empty()).collect(),
            content: self.read_values(row, columns),
        })
    }

    fn read_values(&mut self, row: &TableRow, columns: &TableColumns) -> RowValues {
        let mut values = Vec::new();
        for (metric, column) in columns.metrics.iter().enumerate() {
            let cell = row.cells[column.index].trim();
            match column.style.parse_number(cell) {
                Some(value) if value.is_finite() => values.push((metric, value)),
                None if !cell.is_empty() => {
                    let error = anyhow!(
                        "line {}: '{}' in the column '{}' is not a number",
                        row.line,
                        cell.escape_debug(),
                        column.name
                    );
                    self.left_out.ok_or_count::<()>(Err(error));
                }
                // A cell that is empty, or whose value is not finite, is counted as a missing cell.
                _ => self.missing_cells += 1,
            }
        }
        values
    }

    /// Returns the index of a point. All rows with the same time, revision, branch and machine
    /// share this index.
    fn point_index(&mut self, key: PointKey) -> usize {
        let entry = self.keys.entry(key.session_id(FORMAT));
        let index = entry.index();
        entry.or_insert(key);
        index
    }
}

/// Accepted time formats. A time without a zone is in UTC. [`parse_time`] handles dates without a
/// time separately.
const FORMATS_WITH_ZONE: [&str; 4] = [
    "%Y-%m-%d %H:%M:%S %z",
    "%Y-%m-%d %H:%M:%S%.f%:z",
    "%Y-%m-%d %H:%M:%S%.f %:z",
    "%a, %d %b %Y %H:%M:%S %z",
];
const FORMATS_WITHOUT_ZONE: [&str; 3] =
    ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M"];

/// Parses a time into milliseconds since the Unix epoch. Accepts a date such as `2026-01-31`,
/// optionally with time and zone; a time in the format of email headers; and seconds or
/// milliseconds since the Unix epoch.
pub fn parse_time(input: &str) -> Option<i64> {
    if let Ok(seconds) = input.parse::<f64>() {
        // A number below 1e11 is taken as seconds, which covers times until the year 5138. A larger
        // number is taken as milliseconds, which covers times from 1973 on.
        let factor = if seconds.abs() < 1e11 { 1e3 } else { 1.0 };
        return (0.0..1e14).contains(&(seconds * factor)).then_some((seconds * factor) as i64);
    }
    if let Ok(moment) = input.parse::<Timestamp>() {
        return Some(moment.as_millisecond());
    }
    // Dates with points or slashes must start with the year; otherwise day and month would be
    // ambiguous.
    let text = match input.get(..10) {
        Some(date) => date.replace(['.', '/'], "-") + &input[10..],
        None => input.replace(['.', '/'], "-"),
    };
    let with_zone = FORMATS_WITH_ZONE.iter().find_map(|format| {
        let parsed = strtime::parse(format, &text).ok()?;
        parsed.to_timestamp().ok()
    });
    let utc =
        |time: civil::DateTime| time.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
    let without_zone = || {
        let time = |format: &&str| civil::DateTime::strptime(format, &text).ok();
        utc(FORMATS_WITHOUT_ZONE.iter().find_map(time)?)
    };
    let date = || utc(civil::Date::strptime("%Y-%m-%d", &text).ok()?.at(0, 0, 0, 0));
    let moment = with_zone.or_else(without_zone).or_else(date)?;
    Some(moment.as_millisecond())
}

/// Parses the rows of a table, except blank lines. Cells may be in double quotes; a quote inside is
/// doubled.
fn parse_rows(text: &str, separator: char) -> Result<Vec<TableRow>> {
    let mut rows = Vec::new();
    let (mut rest, mut line) = (text, 1);
    while let Some(first_line) = rest.split_inclusive('\n').next() {
        if first_line.trim().is_empty() {
            rest = &rest[first_line.len()..];
            line += 1;
            continue;
        }
        let mut row = TableRow { line, cells: Vec::new() };
        loop {
            let (cell, after) = match rest.trim_start_matches(' ').strip_prefix('"') {
                Some(quoted) => parse_quoted(quoted).with_context(|| {
                    format!(
                        "line {}: a quote is not closed\nhint: is the file cut short?",
                        row.line
                    )
                })?,
                None => {
                    let end = rest.find([separator, '\n']).unwrap_or(rest.len());
                    (rest[..end].to_owned(), &rest[end..])
                }
            };
            line += cell.matches('\n').count();
            row.cells.push(cell);
            rest = after.trim_start_matches([' ', '\r']);
            match rest.strip_prefix(separator) {
                Some(next_cell) => rest = next_cell,
                None if rest.is_empty() || rest.starts_with('\n') => break,
                None => bail!("line {}: unexpected text after a closing quote", row.line),
            }
        }
        rest = rest.strip_prefix('\n').unwrap_or_default();
        line += 1;
        rows.push(row);
    }
    Ok(rows)
}

/// Parses a quoted cell; `text` starts after its opening quote. Returns the content of the cell and
/// the text after its closing quote, or `None` if the closing quote is missing.
fn parse_quoted(text: &str) -> Option<(String, &str)> {
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
    use super::*;
    use crate::session_builder::MetricDirections;
    use speedwell_model::MetricDirection;

    fn read_text(text: &str) -> (Result<Vec<Session>>, Vec<String>) {
        let mut warnings = Vec::new();
        let better =
            MetricDirections { all: Some(MetricDirection::Lower), ..MetricDirections::default() };
        let input = InputFile { label: "out/join.csv", bytes: text.as_bytes(), better: &better };
        (read(&input, &mut warnings), warnings)
    }

    fn error_text(text: &str) -> String {
        format!("{:#}", read_text(text).0.unwrap_err())
    }

    #[test]
    fn columns_are_known_by_their_names_and_cells_may_be_quoted() {
        let text = "Commit;ops;\"time\";note;machine;size \n\
                    c1;1e3;2026-01-31;\"a;\"\"b\";lab;\n\
                    \n\
                    c2; 2.5 ;2026-02-01;;lab;7\n";
        assert!(recognizes(&JsonContent::new(text.as_bytes())));
        let (sessions, warnings) = read_text(text);
        let sessions = sessions.unwrap();
        assert_eq!(sessions.len(), 2);
        let run = &sessions[0].runs[0];
        assert_eq!((run.case.id(), run.value_of("ops")), ("join".into(), Some(1000.0)));
        assert_eq!(run.value_of("size"), None);
        assert_eq!(sessions[1].runs[0].value_of("size"), Some(7.0));
        assert_eq!(sessions[0].environment.machine.as_deref(), Some("lab"));
        assert_eq!(sessions[0].started_unix_ms, 1_769_817_600_000);
        assert_eq!(
            warnings,
            [
                "the column 'note' contains no numbers and was left out",
                "1 cell without a number was left out"
            ]
        );
    }

    #[test]
    fn moments_are_read_as_people_write_them() {
        let expected = 1_704_074_400_000;
        for time_text in [
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
            assert_eq!(parse_time(time_text), Some(expected), "{time_text}");
        }
        assert_eq!(parse_time("2024-01-01"), Some(expected - 7_200_000));
        for invalid in ["", "yesterday", "01/02/2024", "-5", "1e300", "2024-13-01", "NaN"] {
            assert_eq!(parse_time(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn a_mistake_is_named_with_its_line_and_the_other_rows_are_read() {
        let table = |row: &str| format!("time,commit,ops\n2026-01-31,c1,5\n{row}\n");
        let error_message = |row: &str| {
            let (sessions, warnings) = read_text(&table(row));
            assert_eq!(sessions.unwrap().len(), 1);
            warnings.concat()
        };
        for (row, mistake) in [
            ("2026-01-31,c2", "the number of cells in line 3 is 2, expected 3 as in the header"),
            ("2026-01-31,c2,fast", "line 3: 'fast' in the column 'ops' is not a number"),
            ("2026-01-31,,5", "line 3: the commit is missing"),
            ("soon,c2,5", "line 3: cannot parse time 'soon'"),
        ] {
            let expected = format!("an entry that cannot be read was left out: {mistake}");
            assert_eq!(error_message(row), expected);
        }
        // After an unclosed quote, no later line can be parsed.
        assert!(
            error_text(&table("2026-01-31,\"c2,5")).starts_with("line 3: a quote is not closed")
        );
        assert!(error_text(&table("2026-01-31,\"c2\"x,5")).starts_with("line 3: unexpected text"));
        assert!(
            error_text("time,commit,ops\nsoon,c2,5\n")
                .starts_with("line 2: cannot parse time 'soon'")
        );
        assert!(error_text("time,commit,ops\n").starts_with("it has a header but no results"));
    }

    fn read_column(text: &str) -> (Vec<Option<f64>>, Vec<String>) {
        let (sessions, warnings) = read_text(text);
        let sessions = sessions.unwrap();
        let runs = sessions.iter().flat_map(|session| &session.runs);
        (runs.map(|run| run.value_of("ops")).collect(), warnings)
    }

    #[test]
    fn the_whole_column_determines_how_commas_are_read() {
        let table = |cells: [&str; 3]| {
            let rows = cells.iter().enumerate();
            let rows = rows.map(|(at, cell)| format!("2026-01-0{};c{at};{cell}\n", at + 1));
            format!("date;sha;ops\n{}", rows.collect::<String>())
        };
        let some = |values: [f64; 3]| values.map(Some).to_vec();
        assert_eq!(
            read_column(&table(["1,5", "12,125", "1.000,25"])).0,
            some([1.5, 12.125, 1000.25])
        );
        assert_eq!(
            read_column(&table(["1,234", "1,234,567", "7"])).0,
            some([1234.0, 1_234_567.0, 7.0])
        );
        let unclear = "date;sha;ops;n\n2026-01-01;c;1,234;5\n2026-01-02;d;2,345;6\n";
        let (found, warnings) = read_column(unclear);
        assert_eq!(found, [None, None]);
        assert_eq!(
            warnings,
            ["the column 'ops' was left out: its commas may separate thousands or decimals"]
        );
    }

    #[test]
    fn a_column_of_numbers_may_begin_with_words() {
        let (found, warnings) = read_column("time,commit,ops\n2026-01-01,c,n/a\n2026-01-02,d,5\n");
        assert_eq!(found, [Some(5.0)]);
        assert!(warnings[0].contains("line 2: 'n/a' in the column 'ops'"), "{warnings:?}");
    }

    #[test]
    fn rows_of_one_moment_are_told_apart_by_a_column_of_text() {
        let text = "time,commit,mode,ops\n2026-01-01,c,cold,1\n2026-01-01,c,warm,2\n\
                    2026-01-02,d,cold,3\n2026-01-02,d,warm,4\n";
        let sessions = read_text(text).0.unwrap();
        let runs = sessions.iter().flat_map(|session| &session.runs);
        let ids: Vec<String> = runs.map(|run| run.case.id()).collect();
        assert_eq!(ids, ["join mode=cold", "join mode=warm", "join mode=cold", "join mode=warm"]);
    }

    #[test]
    fn a_last_line_without_a_newline_is_left_out() {
        let (sessions, warnings) = read_text("time,commit,ops\n2026-01-31,c1,5\n2026-02-01,c2,6");
        assert_eq!(sessions.unwrap().len(), 1);
        assert!(warnings[0].contains("has no newline and was left out"), "{warnings:?}");
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
