//! Replaces Go's benchstat as a drop-in: summarizes results of Go benchmarks and compares them in
//! tables.
//!
//! Decides which flags exist, which files are read, and the exit status: 0 if tables were written,
//! 1 if a file or an expression could not be read, or if a file has no results, 2 for an invalid
//! command line. `docs/reference/benchstat.md` lists the differences from Go's benchstat. Start at
//! [`run`].

mod output;
mod query;
mod records;
mod samples;
mod tables;

use crate::benchstat::records::{BenchmarkRecord, BenchmarkRecords};
use crate::benchstat::tables::{
    BenchstatTables, TableRules, UsedKeys, check_filter, filter_record,
};
use crate::console::{DropInConsole, EXIT_REJECTED, split_value};
use anyhow::{Context, Result, anyhow};
use speedwell_formats::foreign::diagnosis::{self, UnreadableFile};
use speedwell_report::escape_controls;
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
}
