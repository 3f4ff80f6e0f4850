//! Replaces Go's benchstat as a drop-in: summarizes results of Go benchmarks and compares them in
//! tables.
//!
//! Decides which flags exist, which files are read, and the exit status: 0 if tables were written,
//! 1 if a file or an expression could not be read, or if a file has no results, 2 for an invalid
//! command line. `docs/reference/benchstat.md` lists the differences from Go's benchstat. Start at
//! [`run`].

mod output;
mod query;
mod samples;
mod tables;

use crate::benchstat::samples::{ValueAssumption, tidy_unit};
use crate::benchstat::tables::{
    BenchstatTables, TableRules, UsedKeys, check_filter, filter_record,
};
use crate::console::{DropInConsole, EXIT_REJECTED, split_value};
use anyhow::{Context, Result, anyhow};
use speedwell_formats::foreign::diagnosis::{self, UnreadableFile};
use speedwell_report::escape_controls;
use std::collections::HashMap;
use std::fs;

const TOOL: &str = "benchstat";
const USAGE: &str = include_str!("../usage/benchstat.txt");

/// Flags with a value.
const FLAGS: [&str; 8] =
    ["table", "row", "col", "ignore", "filter", "alpha", "confidence", "format"];

/// Options of the command line.
struct BenchstatOptions<'a> {
    table: &'a str,
    row: &'a str,
    column: &'a str,
    ignore: &'a str,
    filter: &'a str,
    alpha: f64,
    confidence: f64,
    is_csv: bool,
    files: &'a [String],
}

impl<'a> BenchstatOptions<'a> {
    /// Sets the value of a flag.
    fn set_flag(&mut self, name: &str, value: &'a str) -> Result<(), String> {
        let share = || match value.parse() {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
            _ => Err(format!("-{name} '{value}' is not a number from 0 to 1")),
        };
        match name {
            "table" => self.table = value,
            "row" => self.row = value,
            "col" => self.column = value,
            "ignore" => self.ignore = value,
            "filter" => self.filter = value,
            "alpha" => self.alpha = share()?,
            "confidence" => self.confidence = share()?,
            _ if value == "csv" => self.is_csv = true,
            _ if value == "text" => self.is_csv = false,
            _ => return Err(format!("-format '{value}' must be text or csv")),
        }
        Ok(())
    }
}

/// Runs the tool; returns the exit status.
///
/// # Errors
/// Fails if a file or an expression cannot be read.
pub fn run(arguments: &[String], console: &mut DropInConsole<'_>) -> Result<i32> {
    match parse_options(arguments) {
        Ok(None) => Ok(console.print_help(USAGE)?),
        Ok(Some(request)) => compare_files(&request, console),
        Err(reason) => Ok(console.reject_with_hint(TOOL, &reason, "-h")?),
    }
}

/// Parses flags as Go's flag package does. A flag begins with one dash or two. Its value follows
/// after `=`, or is the next argument. Flags end at the first argument that is not a flag. Returns
/// `None` if help is requested.
fn parse_options(arguments: &[String]) -> Result<Option<BenchstatOptions<'_>>, String> {
    let mut request = BenchstatOptions {
        table: ".config",
        row: ".fullname",
        column: ".file",
        ignore: "",
        filter: "*",
        alpha: 0.05,
        confidence: 0.95,
        is_csv: false,
        files: arguments,
    };
    let mut remaining = arguments.iter();
    while let Some(argument) = remaining.as_slice().first() {
        let Some(flag) = argument.strip_prefix('-').filter(|flag| !flag.is_empty()) else { break };
        remaining.next();
        if argument == "--" {
            break;
        }
        let (name, attached) = split_value(flag.strip_prefix('-').unwrap_or(flag));
        if matches!(name, "h" | "help") {
            return Ok(None);
        }
        if !FLAGS.contains(&name) {
            return Err(format!("unknown flag '{argument}'"));
        }
        let next = attached.or_else(|| remaining.next().map(String::as_str));
        let value = next.ok_or_else(|| format!("'{argument}' needs a value"))?;
        request.set_flag(name, value)?;
    }
    request.files = remaining.as_slice();
    if request.files.is_empty() {
        return Err("no file given".to_owned());
    }
    Ok(Some(request))
}

fn compare_files(request: &BenchstatOptions<'_>, console: &mut DropInConsole<'_>) -> Result<i32> {
    let filter = query::parse_filter(request.filter)
        .and_then(|filter| check_filter(&filter).map(|()| filter))
        .map_err(|error| anyhow!(error).context("cannot read -filter"))?;
    let mut used_keys = UsedKeys::default();
    let mut project = |flag: &str, text: &str, has_unit: bool| {
        let parts = query::parse_projection(text);
        let projection = parts.and_then(|parts| used_keys.add_projection(parts, has_unit));
        projection.map_err(|error| anyhow!(error).context(format!("cannot read {flag}")))
    };
    let table = project("-table", request.table, true)?;
    let row = project("-row", request.row, false)?;
    let column = project("-col", request.column, false)?;
    let ignored = project("-ignore", request.ignore, false)?;
    let (mut records, missing_messages) = read_files(request, console)?;
    for complaint in &records.complaints {
        writeln!(console.stderr, "{}", escape_controls(complaint))?;
    }
    let projections = [&table, &row, &column, &ignored];
    let is_admitted =
        |record: &BenchmarkRecord| projections.iter().all(|projection| projection.admits(record));
    let admitted = std::mem::take(&mut records.results).into_iter().filter(is_admitted);
    let results: Vec<_> = admitted.filter_map(|record| filter_record(&filter, record)).collect();
    let rules = TableRules {
        remaining: used_keys.remaining_projection(),
        table,
        row,
        column,
        used_keys,
        confidence: request.confidence,
        alpha: request.alpha,
    };
    let tables = BenchstatTables::new(rules, &results, &records);
    if request.is_csv {
        let (text, remarks) = output::format_csv(&tables);
        console.stdout.write_all(text.as_bytes())?;
        console.stderr.write_all(remarks.as_bytes())?;
    } else {
        console.stdout.write_all(output::format_text(&tables).as_bytes())?;
    }
    console.stdout.flush()?;
    for message in &missing_messages {
        writeln!(console.stderr, "{TOOL}: {}", escape_controls(message))?;
    }
    Ok(if missing_messages.is_empty() { 0 } else { EXIT_REJECTED })
}

/// Reads all files. Also returns a message about each file without results; Go's benchstat ignores
/// such files.
fn read_files(
    request: &BenchstatOptions<'_>,
    console: &mut DropInConsole<'_>,
) -> Result<(BenchmarkRecords, Vec<String>)> {
    let mut records = BenchmarkRecords::default();
    let mut missing_messages = Vec::new();
    for (path, label) in label_files(request.files) {
        let mut bytes = Vec::new();
        let unreadable = || format!("cannot read '{path}'");
        match path.as_str() {
            "-" => console.stdin.read_to_end(&mut bytes).map(drop),
            path => fs::read(path).map(|read| bytes = read),
        }
        .with_context(unreadable)?;
        let content = diagnosis::strip_bom(&bytes).with_context(unreadable)?;
        let count_before = records.results.len();
        records.read_file(&path, &label, &String::from_utf8_lossy(content));
        if records.results.len() == count_before {
            let diagnosis = UnreadableFile::diagnose(content);
            let command = "go test -bench . -count 10 > FILE";
            missing_messages.push(match diagnosis.hint {
                "" => format!("'{path}' has no results\nhint: create some with '{command}'"),
                _ => format!("'{path}' {}{}", diagnosis.found, diagnosis.hint_line()),
            });
        }
    }
    Ok((records, missing_messages))
}

/// Returns each path with the name of its column. An argument `LABEL=PATH` gives both. Otherwise,
/// the name is the path, followed by a number if the same path is given several times.
fn label_files(files: &[String]) -> Vec<(String, String)> {
    let label = |(index, file): (usize, &String)| match file.split_once('=') {
        Some((label, path)) => (path.to_owned(), label.to_owned()),
        None => {
            let count = |files: &[String]| files.iter().filter(|other| *other == file).count();
            let is_repeated = count(files) > 1;
            let number = is_repeated.then(|| format!("#{}", count(&files[..index])));
            (file.clone(), format!("{file}{}", number.unwrap_or_default()))
        }
    };
    files.iter().enumerate().map(label).collect()
}

// Reads results in Go's benchmark format, each with the configuration that applies to it.
//
// Our benchstat does not use the importer of such files (`formats/go_bench`), which builds
// sessions. Our benchstat needs the lines as written and every configuration key, and must make
// the same complaints as Go's benchstat.

/// One figure of a result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BenchstatFigure {
    /// Value in the tidied unit.
    pub value: f64,
    /// Tidied unit.
    pub unit: String,
    /// Unit as written in the file, if different.
    pub typed_unit: Option<String>,
}

/// One result.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct BenchmarkRecord {
    /// Name without the prefix `Benchmark`.
    pub name: String,
    /// Keys and values of the configuration, in the same order as in Go's benchstat. The key `.file`
    /// does not come from a line of the file.
    pub settings: Vec<(String, String)>,
    pub figures: Vec<BenchstatFigure>,
}

impl BenchmarkRecord {
    /// Returns the value of a configuration key, or an empty string.
    pub fn setting_value(&self, key: &str) -> &str {
        let found = self.settings.iter().find(|(known, _)| known == key);
        found.map_or("", |(_, value)| value)
    }

    /// Returns the name up to the first slash; without a slash, the name without the number of
    /// processors.
    pub fn base_name(&self) -> &str {
        let before_slash = self.name.split_once('/').map(|(base, _)| base);
        before_slash.unwrap_or(split_processors(&self.name).0)
    }

    /// Returns the first part of the name, and a list of the other parts, each with its slash. If
    /// the name contains the number of processors, this number is last in the list, with its dash.
    pub fn name_parts(&self) -> (&str, Vec<&str>) {
        let (name, processors) = split_processors(&self.name);
        let mut cuts: Vec<usize> = name.match_indices('/').map(|(index, _)| index).collect();
        cuts.push(name.len());
        let mut parts: Vec<&str> = cuts.windows(2).map(|ends| &name[ends[0]..ends[1]]).collect();
        parts.extend(processors);
        (&name[..cuts[0]], parts)
    }
}

/// Splits off the number of processors, with its dash, from the end of a name. Like Go's benchstat,
/// looks only at this name (`go doc golang.org/x/perf/benchfmt.Name.Parts`). Our importer also
/// looks at the other names in the file.
fn split_processors(name: &str) -> (&str, Option<&str>) {
    let before = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let base = before.strip_suffix('-').filter(|_| before.len() < name.len());
    base.map_or((name, None), |base| (base, Some(&name[base.len()..])))
}

/// Contents of all files.
#[derive(Debug, Default)]
pub(crate) struct BenchmarkRecords {
    /// Results in order.
    pub results: Vec<BenchmarkRecord>,
    /// Complaints about lines, in order, each with path and line number.
    pub complaints: Vec<String>,
    /// Values from `Unit` lines, by unit and key.
    units: HashMap<(String, String), String>,
}

impl BenchmarkRecords {
    /// Reads the `text` of one file. Complaints name the file by `path`; the key `.file`, and thus
    /// the column of the file, has the value `label`.
    pub fn read_file(&mut self, path: &str, label: &str, text: &str) {
        let mut active_settings = Vec::new();
        set_entry(&mut active_settings, ".file", label);
        for (index, line) in text.lines().enumerate() {
            let line = &*escape_controls(line);
            let complain = |reason: String| format!("{path}:{}: {reason}", index + 1);
            if let Some(result) = line.strip_prefix("Benchmark") {
                match parse_result(result) {
                    Ok(None) => {}
                    Ok(Some((name, figures))) => {
                        let settings = active_settings.clone();
                        self.results.push(BenchmarkRecord { name, settings, figures });
                    }
                    Err(reason) => self.complaints.push(complain(reason)),
                }
            } else if line.split_whitespace().next() == Some("Unit") && line.starts_with("Unit") {
                let complaints = self.read_unit_line(line);
                self.complaints.extend(complaints.into_iter().map(complain));
            } else if let Some((key, value)) = parse_setting(line) {
                set_entry(&mut active_settings, key, value);
            }
        }
    }

    fn read_unit_line(&mut self, line: &str) -> Vec<String> {
        let mut fields = line.split_whitespace().skip(1);
        let Some(unit) = fields.next() else { return vec!["missing unit".to_owned()] };
        let mut complaints = Vec::new();
        for field in fields {
            let Some((key, value)) = field.split_once('=').filter(|(key, _)| !key.is_empty())
            else {
                complaints.push("expected key=value".to_owned());
                continue;
            };
            let metadata_key = (tidy_unit(unit).0, key.to_owned());
            let known = self.units.entry(metadata_key).or_insert_with(|| value.to_owned());
            if known != value {
                complaints.push(format!("metadata {key} of unit {unit} already set to {known}"));
            }
        }
        complaints
    }

    /// Returns the assumption that the `Unit` lines of the files state about the values of a unit.
    pub fn assumption(&self, unit: &str) -> ValueAssumption {
        let assumed = self.units.get(&(tidy_unit(unit).0, "assume".to_owned()));
        let is_exact = assumed.is_some_and(|assumed| assumed == "exact");
        if is_exact { ValueAssumption::Exact } else { ValueAssumption::Nothing }
    }
}

/// Sets the value of a key. An empty value removes the key. As in Go's benchstat, the last key then
/// moves to the position of the removed key.
fn set_entry(settings: &mut Vec<(String, String)>, key: &str, value: &str) {
    match settings.iter().position(|(known, _)| known == key) {
        Some(position) if value.is_empty() => drop(settings.swap_remove(position)),
        Some(position) => settings[position].1 = value.to_owned(),
        None if value.is_empty() => {}
        None => settings.push((key.to_owned(), value.to_owned())),
    }
}

/// Parses `key: value`: the key begins with a lowercase letter and contains neither white space nor
/// uppercase letters.
fn parse_setting(line: &str) -> Option<(&str, &str)> {
    if !line.starts_with(char::is_lowercase) {
        return None;
    }
    let end = line.find(|c: char| c == ':' || c.is_whitespace() || c.is_uppercase())?;
    let value = line[end..].strip_prefix(':')?;
    let trimmed = value.trim_start_matches([' ', '\t']);
    (value.is_empty() || trimmed.len() < value.len()).then_some((&line[..end], trimmed))
}

/// Parses the part of a line after `Benchmark` into name and figures. Returns `None` if the line
/// holds only a name.
fn parse_result(result: &str) -> Result<Option<(String, Vec<BenchstatFigure>)>, String> {
    let Some((name, result)) = result.split_once(char::is_whitespace) else { return Ok(None) };
    let mut fields = result.split_whitespace();
    let count = fields.next().ok_or("missing iteration count")?;
    count.parse::<i64>().map_err(|error| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        let is_large = matches!(error.kind(), PosOverflow | NegOverflow);
        let reason = if is_large { "value out of range" } else { "invalid syntax" };
        format!("parsing iteration count: {reason}")
    })?;
    let mut figures = Vec::new();
    while let Some(field) = fields.next() {
        let written_value = parse_number(field)?;
        let unit = fields.next().ok_or("missing units")?;
        let (tidied, factor) = tidy_unit(unit);
        let value = written_value * factor;
        // If tidying does not change the value, the value keeps its unit: a time of 0 stays in
        // nanoseconds.
        let is_kept = value == written_value;
        figures.push(BenchstatFigure {
            value,
            unit: if is_kept { unit.to_owned() } else { tidied },
            typed_unit: (!is_kept).then(|| unit.to_owned()),
        });
    }
    if figures.is_empty() {
        return Err("missing measurements".to_owned());
    }
    Ok(Some((name.to_owned(), figures)))
}

fn parse_number(field: &str) -> Result<f64, String> {
    match field.parse::<f64>() {
        Err(_) => Err("parsing measurement: invalid syntax".to_owned()),
        Ok(number) if number.is_infinite() && !field.contains(['i', 'I', 'n', 'N']) => {
            Err("parsing measurement: value out of range".to_owned())
        }
        Ok(number) => Ok(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn flags_are_parsed_as_go_parses_them() {
        let line = split_words("-alpha 0.1 --row=/x -format=csv a -col b");
        let request = parse_options(&line).unwrap().unwrap();
        assert_eq!((request.alpha, request.row, request.is_csv), (0.1, "/x", true));
        assert_eq!(request.files, ["a", "-col", "b"]);
        assert!(parse_options(&split_words("-alpha 0.1 -h x")).unwrap().is_none());
        for line in
            ["", "-alpha 2 a", "-alpha", "-format html a", "-colour red a", "-confidence x a"]
        {
            assert!(parse_options(&split_words(line)).is_err(), "{line}");
        }
    }

    #[test]
    fn files_that_are_given_several_times_are_numbered() {
        let named = label_files(&split_words("a b a new=a -"));
        let labels: Vec<&str> = named.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(labels, ["a#0", "b", "a#1", "new", "-"]);
        assert_eq!(named[3].0, "a");
    }

    #[test]
    fn lines_are_results_settings_units_or_nothing() {
        let mut records = BenchmarkRecords::default();
        let text = "goos: linux\nnote:\t x\nBenchmarkA/n=1-8 10 5 ns/op 3 B/op\nnote:\nPASS\nBad key: x\nok \tx\t1s\n\
                    Unit ns/op assume=exact\nBenchmarkAlone\nBenchmarkZero 1 0 ns/op\n";
        records.read_file("p", "l", text);
        assert!(records.complaints.is_empty(), "{records:?}");
        let [first, second] = &records.results[..] else { panic!("{records:?}") };
        assert_eq!((first.name.as_str(), first.base_name()), ("A/n=1-8", "A"));
        assert_eq!(first.name_parts(), ("A", vec!["/n=1", "-8"]));
        assert_eq!((first.setting_value("note"), second.setting_value("note")), ("x", ""));
        assert_eq!(first.setting_value(".file"), "l");
        assert_eq!(
            (first.figures[0].unit.as_str(), first.figures[0].value),
            ("sec/op", 5.0 * 1e-9)
        );
        assert_eq!(second.figures[0].unit, "ns/op");
        assert_eq!(records.assumption("sec/op"), ValueAssumption::Exact);
        assert_eq!(records.assumption("B/op"), ValueAssumption::Nothing);
    }

    #[test]
    fn malformed_lines_are_reported_with_their_line_number() {
        let mut records = BenchmarkRecords::default();
        let text = "BenchmarkA \nBenchmarkA x\nBenchmarkA 1\nBenchmarkA 1 x ns/op\nBenchmarkA 1 5\nBenchmarkA 1 1e999 B\n\
                    BenchmarkA 99999999999999999999 1 B\nUnit\nUnit B a\nUnit B a=1\nUnit B a=2\n";
        records.read_file("f", "f", text);
        let complaints: Vec<&str> = records.complaints.iter().map(String::as_str).collect();
        assert_eq!(
            complaints,
            [
                "f:1: missing iteration count",
                "f:2: parsing iteration count: invalid syntax",
                "f:3: missing measurements",
                "f:4: parsing measurement: invalid syntax",
                "f:5: missing units",
                "f:6: parsing measurement: value out of range",
                "f:7: parsing iteration count: value out of range",
                "f:8: missing unit",
                "f:9: expected key=value",
                "f:11: metadata a of unit B already set to 1",
            ]
        );
    }
}
