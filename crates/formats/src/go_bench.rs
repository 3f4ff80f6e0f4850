//! Reads the output of `go test -bench`, with or without `-json`. This output is also the input of
//! benchstat.
//!
//! Decides what each line is (`GoBenchLine::parse`), which lines form a result, what the units of
//! a line measure, and how the user is warned about other lines. The lines of one benchmark
//! (`-count`) come from one process. In an imported file, each of them becomes a run with a note
//! that says so; in the output of a measured process, they are samples. Start at [`read`] or
//! [`read_reported`]; `names.rs` decides what a name means.
//!
//! The format is Go's "Benchmark Data Format" (golang.org/design/14313-benchmark-format); cmd/go and
//! the `testing` package also print lines that this format does not define. With `-json` the lines
//! are wrapped in events (`go doc test2json`), and packages that are tested concurrently are
//! interleaved.

mod names;

pub use names::case_from_name;

use crate::SkippedLines;
use crate::foreign::json::JsonContent;
use crate::foreign::require_utf8;
use crate::foreign::suites::ReportedResult;
use crate::foreign::unit::MetricConversion;
use crate::session_builder::{
    ImportedProcess, InputFile, NOTE_ON_REPETITIONS, REPETITIONS_WARNING, SessionBuilder,
    value_sample,
};
use anyhow::{Context, Result};
use indexmap::IndexMap;
use names::{ProcessorSuffixes, replay_command, split_announced_name};
use serde::Deserialize;
use speedwell_model::{Case, Environment, FailureCause, Metric, MetricDirection, Sample, Session};
use std::collections::HashMap;

/// Returns whether the data are output of `go test`: their beginning contains a result, or one of
/// the lines that `go test` prints even if there is no result.
pub fn recognizes(file: &JsonContent<'_>) -> bool {
    is_events(file.bytes)
        || file.beginning().lines().any(|line| {
            matches!(
                GoBenchLine::parse(line),
                GoBenchLine::Result(..)
                    | GoBenchLine::Fail(_)
                    | GoBenchLine::Configuration("goos" | "goarch", _)
            )
        })
}

/// Reads the whole output. Adds messages for the user to `remarks`.
///
/// # Errors
/// Fails if the text has no results, or if the output consists of events and one of them is
/// invalid.
pub fn read(file: &InputFile<'_>, remarks: &mut Vec<String>) -> Result<Vec<Session>> {
    let output = if is_events(file.bytes) {
        output_of_events(file.bytes)?.into()
    } else {
        String::from_utf8_lossy(file.bytes)
    };
    let text = output.strip_prefix('\u{feff}').unwrap_or(&output);
    let mut reading = GoOutputParser::default();
    for line in text.split_inclusive('\n') {
        let Some(line) = line.strip_suffix('\n') else {
            reading.parse_last_line(line);
            continue;
        };
        reading.parse_line(line.strip_suffix('\r').unwrap_or(line));
    }
    reading.end_package(None);
    let mut imported = SessionBuilder::default();
    imported.environment = reading.environment;
    remarks.extend(reading.skipped.warning());
    remarks.extend(reading.remarks);
    add_entries(reading.entries, &reading.directions, &mut imported, remarks);
    Ok(vec![imported.into_session(file.label)?])
}

/// Reads the output of one process of a Go test binary. Lines with the same name are samples of one
/// benchmark, and each unit is a metric. The results do not show a failure before the first
/// benchmark; the exit status of the binary does.
///
/// # Errors
/// Never fails. The function returns a `Result` because the readers of all suites have the same
/// signature.
pub fn read_reported(bytes: &[u8]) -> Result<Vec<ReportedResult>> {
    let text = String::from_utf8_lossy(bytes);
    let mut reading = GoOutputParser::default();
    text.lines().for_each(|line| reading.parse_line(line));
    Ok(reading.into_reported())
}

#[derive(Default)]
struct GoOutputParser<'a> {
    entries: Vec<GoBenchEntry<'a>>,
    /// Number of entries whose package has ended.
    settled: usize,
    package: Option<&'a str>,
    /// Name of a benchmark whose result has not been printed yet.
    begun: Option<&'a str>,
    /// The name that `-v` printed last. The results that follow belong to this benchmark.
    announced: Option<&'a str>,
    /// Whether a panic has occurred. The lines up to the end of the package are then the stacks of
    /// all goroutines.
    is_in_panic: bool,
    /// Whether the next line, if it is indented, explains why the benchmark of the last entry
    /// stopped.
    explains_entry: bool,
    /// The indented line that was read last. With `-v`, it explains why the benchmark in the next
    /// line stopped.
    logged: Option<&'a str>,
    directions: HashMap<&'a str, bool>,
    environment: Environment,
    skipped: SkippedLines,
    remarks: Vec<String>,
}

impl<'a> GoOutputParser<'a> {
    fn parse_line(&mut self, text: &'a str) {
        let line = GoBenchLine::parse(text);
        let explains = std::mem::take(&mut self.explains_entry);
        let logged = self.logged.take();
        match line {
            GoBenchLine::Result(name, figures) => {
                self.abandon_pending();
                self.push_entry(name, GoBenchOutcome::Measured(figures));
            }
            GoBenchLine::Begin(name) => {
                self.abandon_pending();
                self.begun = Some(name);
            }
            GoBenchLine::Rest(figures) => match self.begun.take() {
                Some(name) => self.push_entry(name, GoBenchOutcome::Measured(figures)),
                None => self.skipped.add_line(text.as_bytes()),
            },
            GoBenchLine::Announced(name) => self.announced = Some(name),
            GoBenchLine::Configuration(key, value) => self.set_configuration(key, value),
            GoBenchLine::Direction { unit, is_higher } => {
                self.directions.insert(unit, is_higher);
            }
            GoBenchLine::Fail(name) => {
                self.push_stopped(name, FailureCause::invalid("failed"), logged)
            }
            GoBenchLine::Skip(name) => {
                self.push_stopped(name, FailureCause::Skipped { reason: String::new() }, logged)
            }
            GoBenchLine::End(package, is_good) => {
                self.end_package(package);
                if !is_good {
                    self.remarks.push(format!(
                        "'{}' ended with FAIL, so results may be missing",
                        package.unwrap_or_default()
                    ));
                }
            }
            GoBenchLine::Panic(message) => {
                self.remarks.push(format!(
                    "a package ended with a panic: '{message}'; its later results are missing"
                ));
                self.is_in_panic = true;
            }
            GoBenchLine::Log(message) if explains => self.set_reason(message),
            GoBenchLine::Log(message) => self.logged = Some(message),
            GoBenchLine::Quiet => {}
            GoBenchLine::Other if self.is_in_panic => {}
            GoBenchLine::Other => self.skipped.add_line(text.as_bytes()),
        }
    }

    /// Handles a last line that does not end with a line feed. Go always writes line feeds, so a
    /// figure or unit at the end of such a line may be truncated.
    fn parse_last_line(&mut self, text: &'a str) {
        match GoBenchLine::parse(text) {
            GoBenchLine::Result(..) | GoBenchLine::Begin(_) | GoBenchLine::Rest(_) => {
                let excerpt: String = text.trim().chars().take(60).collect();
                self.remarks.push(format!(
                    "the last line has no newline, so it may be cut short and was left out: \
                     '{excerpt}'"
                ));
                self.begun = None;
            }
            _ => self.parse_line(text),
        }
    }

    fn push_entry(&mut self, name: &'a str, outcome: GoBenchOutcome<'a>) {
        self.entries.push(GoBenchEntry {
            package: self.package,
            name,
            announced: self.announced,
            outcome,
        });
    }

    /// Adds a benchmark that failed or was skipped. `logged` is the message in the previous line.
    fn push_stopped(&mut self, name: &'a str, cause: FailureCause, logged: Option<&str>) {
        self.begun = self.begun.filter(|begun| *begun != name);
        self.push_entry(name, GoBenchOutcome::Stopped(cause));
        let is_of = |announced| split_announced_name(announced, name).is_some();
        match logged.filter(|_| self.announced.is_some_and(is_of)) {
            Some(message) => self.set_reason(message),
            None => self.explains_entry = true,
        }
    }

    fn set_reason(&mut self, message: &str) {
        match self.entries.last_mut().map(|entry| &mut entry.outcome) {
            Some(GoBenchOutcome::Stopped(FailureCause::Skipped { reason })) => {
                *reason = message.to_owned()
            }
            Some(GoBenchOutcome::Stopped(cause)) => {
                *cause = FailureCause::invalid(format!("failed: {message}"))
            }
            _ => {}
        }
    }

    fn abandon_pending(&mut self) {
        if let Some(name) = self.begun.take() {
            self.push_entry(name, GoBenchOutcome::Lost);
        }
    }

    /// Ends a package. `package` is the name of the package in its last line. Entries before that
    /// line may lack the name, because a benchmark can fail before the configuration is printed.
    fn end_package(&mut self, package: Option<&'a str>) {
        self.abandon_pending();
        for entry in &mut self.entries[self.settled..] {
            entry.package = entry.package.or(self.package).or(package);
        }
        self.settled = self.entries.len();
        self.package = None;
        self.announced = None;
        self.is_in_panic = false;
    }

    fn set_configuration(&mut self, key: &'a str, value: &'a str) {
        let facts = &mut self.environment.facts;
        let earlier = match key {
            "pkg" => {
                self.package = Some(value);
                return;
            }
            "cpu" => self.environment.cpu.replace(value.to_owned()),
            _ => facts.insert(key.to_owned(), value.to_owned()),
        };
        if let Some(earlier) = earlier.filter(|earlier| earlier != value) {
            self.remarks.push(format!(
                "its benchmarks were measured under different conditions: {key} is first '{earlier}', then '{value}'"
            ));
        }
    }

    /// Returns the results of each benchmark.
    fn into_reported(self) -> Vec<ReportedResult> {
        let names = split_names(&self.entries);
        let mut reported: Vec<ReportedResult> = Vec::new();
        for (entry, (name, count)) in self.entries.into_iter().zip(names) {
            let outcome = match entry.outcome {
                GoBenchOutcome::Measured(figures) => Ok(figures),
                GoBenchOutcome::Stopped(cause) => Err(cause),
                // The benchmark itself may have printed the name.
                GoBenchOutcome::Lost => continue,
            };
            let is_known = |existing: &ReportedResult| existing.name.as_deref() == Some(name);
            let index = reported.iter().position(is_known).unwrap_or_else(|| {
                let count = outcome.is_ok().then_some(count);
                let case = case_from_name(entry.package, name, count);
                reported.push(ReportedResult::of_case(name, case));
                reported.len() - 1
            });
            match outcome {
                Ok(figures) => add_figures(&mut reported[index], &figures, &self.directions),
                Err(cause) => reported[index].cause = Some(cause),
            }
        }
        reported
    }
}

fn add_figures(
    reported: &mut ReportedResult,
    figures: &GoFigures<'_>,
    directions: &HashMap<&str, bool>,
) {
    for (value, unit) in &figures.values {
        let measure = measure_for_unit(unit, directions.get(unit).copied());
        // A figure that the benchmark itself reports (`b.ReportMetric`) may be infinite or NaN. The
        // other figures of the benchmark stay valid.
        if let Err(error) = reported.add_value(&measure, *value, Some(figures.iterations)) {
            let reason = format!("'{}': {error}", measure.metric.name);
            reported.cause = Some(FailureCause::invalid(reason));
        }
    }
}

/// A result or a failure.
#[derive(Debug)]
struct GoBenchEntry<'a> {
    /// Package, if known.
    package: Option<&'a str>,
    /// Name as printed.
    name: &'a str,
    /// Name that `-v` printed last before this entry.
    announced: Option<&'a str>,
    /// Result of the benchmark.
    outcome: GoBenchOutcome<'a>,
}

/// Result of a benchmark.
#[derive(Debug)]
enum GoBenchOutcome<'a> {
    /// Figures.
    Measured(GoFigures<'a>),
    /// The reason why there are no figures.
    Stopped(FailureCause),
    /// The name was printed, but no figures.
    Lost,
}

impl<'a> GoBenchEntry<'a> {
    /// Splits the name of a result into benchmark and GOMAXPROCS if `-v` announced the benchmark.
    fn split_announced(&self) -> Option<(&'a str, u32)> {
        let is_measured = matches!(self.outcome, GoBenchOutcome::Measured(_));
        let announced = self.announced.filter(|_| is_measured)?;
        split_announced_name(announced, self.name)
    }

    /// Splits the name into benchmark and GOMAXPROCS.
    fn split_name(&self, processors: &ProcessorSuffixes) -> (&'a str, u32) {
        match self.outcome {
            GoBenchOutcome::Measured(_) => {
                let announced = self.split_announced();
                announced.unwrap_or_else(|| processors.split_name(self.name))
            }
            GoBenchOutcome::Stopped(_) | GoBenchOutcome::Lost => {
                processors.split_stopped_name(self.name, self.announced)
            }
        }
    }
}

/// Splits the name of each entry into benchmark and GOMAXPROCS. Finds out, per package, which
/// numbers at the ends of names are GOMAXPROCS.
fn split_names<'a>(entries: &[GoBenchEntry<'a>]) -> Vec<(&'a str, u32)> {
    let mut by_package: HashMap<Option<&str>, (Vec<&str>, Vec<u32>)> = HashMap::new();
    for entry in entries {
        let (names, announced) = by_package.entry(entry.package).or_default();
        match entry.split_announced() {
            Some((_, count)) => announced.push(count),
            None if matches!(entry.outcome, GoBenchOutcome::Measured(_)) => names.push(entry.name),
            None => {}
        }
    }
    let of_package = |(names, announced)| ProcessorSuffixes::from_names(names, announced);
    let processors: HashMap<Option<&str>, ProcessorSuffixes> =
        by_package.into_iter().map(|(package, found)| (package, of_package(found))).collect();
    entries.iter().map(|entry| entry.split_name(&processors[&entry.package])).collect()
}

/// Adds all entries to a session. For each unit that has a `Unit` line in the text, `directions`
/// contains whether higher is better. Adds messages for the user to `remarks`.
fn add_entries(
    entries: Vec<GoBenchEntry<'_>>,
    directions: &HashMap<&str, bool>,
    imported: &mut SessionBuilder,
    remarks: &mut Vec<String>,
) {
    let cases: Vec<(&str, Case)> = (entries.iter().zip(split_names(&entries)))
        .map(|(entry, (name, count))| (name, case_from_name(entry.package, name, Some(count))))
        .collect();
    let mut counts: HashMap<String, u32> = HashMap::new();
    for (entry, (_, case)) in entries.iter().zip(&cases) {
        if matches!(entry.outcome, GoBenchOutcome::Measured(_)) {
            *counts.entry(case.id()).or_default() += 1;
        }
    }
    let mut not_finite = 0;
    for (entry, (name, case)) in entries.into_iter().zip(cases) {
        let cause = match entry.outcome {
            GoBenchOutcome::Measured(figures) => {
                let mut process = build_process(&figures, directions, imported);
                not_finite += figures.values.len() - process.samples.len();
                if counts.get(&case.id()).is_some_and(|count| *count > 1) {
                    process.notes.push(NOTE_ON_REPETITIONS.to_owned());
                }
                imported.add_run(case, process);
                continue;
            }
            GoBenchOutcome::Stopped(cause) => cause,
            GoBenchOutcome::Lost => FailureCause::invalid(
                "has no result: it did not finish, or its own output hides the result",
            ),
        };
        imported.add_failure(&case, cause, replay_command(entry.package, name));
    }
    if counts.values().any(|count| *count > 1) {
        remarks.push(REPETITIONS_WARNING.to_owned());
    }
    match not_finite {
        0 => {}
        1 => remarks.push("1 non-finite value was left out".to_owned()),
        count => remarks.push(format!("{count} non-finite values were left out")),
    }
}

/// Returns the process of a result, without figures that are not finite.
fn build_process(
    figures: &GoFigures<'_>,
    directions: &HashMap<&str, bool>,
    imported: &mut SessionBuilder,
) -> ImportedProcess {
    let mut process = ImportedProcess::default();
    for (value, unit) in figures.values.iter().filter(|(value, _)| value.is_finite()) {
        let measure = measure_for_unit(unit, directions.get(unit).copied());
        let is_time = measure.metric.name == "time";
        let scaled = value * measure.factor;
        let total_ns = scaled * figures.iterations;
        if is_time {
            process.wall_ns = total_ns;
        }
        let metric = imported.declare_metric(measure.metric);
        process.samples.push(Sample {
            elapsed_ns: is_time.then_some(total_ns as u64),
            iterations: is_time.then_some(figures.iterations),
            ..value_sample(&metric, scaled)
        });
    }
    process
}

/// Keys of the configuration lines that `go test` itself writes.
const CONFIGURATION_KEYS: [&str; 4] = ["goos", "goarch", "pkg", "cpu"];

/// Kind of a line.
#[derive(Debug, Clone, PartialEq)]
enum GoBenchLine<'a> {
    /// A result with its name.
    Result(&'a str, GoFigures<'a>),
    /// A name whose result follows later, because the benchmark itself printed something.
    Begin(&'a str),
    /// A result whose name is in an earlier `Begin` line.
    Rest(GoFigures<'a>),
    /// `goos: linux`.
    Configuration(&'a str, &'a str),
    /// `Unit NAME better=higher`.
    Direction {
        /// Unit.
        unit: &'a str,
        /// Whether higher is better.
        is_higher: bool,
    },
    /// `--- FAIL: NAME`.
    Fail(&'a str),
    /// `--- SKIP: NAME`.
    Skip(&'a str),
    /// Last line of a package. It contains the path of the package, if stated, and whether all
    /// tests passed.
    End(Option<&'a str>, bool),
    /// `panic: WHY`.
    Panic(&'a str),
    /// An indented line: a log message, or the reason for a failure or skip. The reason follows the
    /// line that reports the failure or skip; with `-v`, it precedes that line.
    Log(&'a str),
    /// A name alone, without GOMAXPROCS, as `-v` prints it before the results of the benchmark.
    Announced(&'a str),
    /// A line of the Go tools that contains nothing of interest.
    Quiet,
    /// Anything else.
    Other,
}

/// Figures of a result.
#[derive(Debug, Clone, PartialEq)]
struct GoFigures<'a> {
    /// Number of iterations.
    iterations: f64,
    /// Values with their units, as in the line.
    values: Vec<(f64, &'a str)>,
}

impl<'a> GoBenchLine<'a> {
    /// Parses `line`, which has no line end.
    fn parse(line: &'a str) -> GoBenchLine<'a> {
        if let Some(line_content) = parse_result(line).or_else(|| parse_tool_line(line)) {
            return line_content;
        }
        if line.starts_with("    ") {
            return GoBenchLine::Log(line.trim());
        }
        let is_quiet = line.trim().is_empty()
            || ["=== ", "--- BENCH: ", "exit status ", "coverage: ", "?   "]
                .iter()
                .any(|start| line.starts_with(start));
        match line.trim_end() {
            name if is_benchmark_name(name) && !name.contains(char::is_whitespace) => {
                GoBenchLine::Announced(name)
            }
            _ if is_quiet => GoBenchLine::Quiet,
            _ => GoBenchLine::Other,
        }
    }
}

/// Parses a result, or the name of a result that follows on a later line.
fn parse_result(line: &str) -> Option<GoBenchLine<'_>> {
    let (first, figures_text) = line.split_once(char::is_whitespace)?;
    if is_benchmark_name(first) {
        if let Some(figures) = parse_figures(figures_text) {
            return Some(GoBenchLine::Result(first, figures));
        }
        let is_begin = figures_text.trim_start_matches(' ').starts_with('\t');
        return is_begin.then_some(GoBenchLine::Begin(first));
    }
    parse_figures(line).map(GoBenchLine::Rest)
}

/// Parses lines that the Go tools print.
fn parse_tool_line(line: &str) -> Option<GoBenchLine<'_>> {
    let mut words = line.split_whitespace();
    if line.starts_with("PASS") || line.starts_with("ok  \t") || line.starts_with("FAIL") {
        let is_good = !line.starts_with("FAIL");
        return match words.next()? {
            "PASS" => Some(GoBenchLine::Quiet),
            // Go prints FAIL alone on a line before the line that names a failed package, and once
            // more after the last package.
            "FAIL" if words.clone().next().is_none() => Some(GoBenchLine::Quiet),
            "ok" | "FAIL" => Some(GoBenchLine::End(words.next(), is_good)),
            _ => None,
        };
    }
    if let Some(message) = line.strip_prefix("panic: ") {
        return Some(GoBenchLine::Panic(message));
    }
    let benchmark = |start: &str| {
        let tail = line.trim_start().strip_prefix(start)?;
        tail.split_whitespace().next().filter(|name| is_benchmark_name(name))
    };
    let stopped = benchmark("--- FAIL: ")
        .map(GoBenchLine::Fail)
        .or_else(|| benchmark("--- SKIP: ").map(GoBenchLine::Skip));
    if stopped.is_some() {
        return stopped;
    }
    if line.starts_with("Unit ") {
        let unit = words.nth(1)?;
        return words.find_map(|word| {
            let is_higher = word.strip_prefix("better=")? == "higher";
            Some(GoBenchLine::Direction { unit, is_higher })
        });
    }
    let (key, value) = line.split_once(':')?;
    CONFIGURATION_KEYS.contains(&key).then(|| GoBenchLine::Configuration(key, value.trim()))
}

/// Applies Go's rule for benchmark function names: `Benchmark`, then anything but a lowercase
/// letter.
fn is_benchmark_name(word: &str) -> bool {
    word.strip_prefix("Benchmark").is_some_and(|rest| !rest.starts_with(char::is_lowercase))
}

/// Parses `62466  97.59 ns/op  16 B/op`.
fn parse_figures(text: &str) -> Option<GoFigures<'_>> {
    let mut words = text.split_whitespace();
    let iterations: u64 = words.next()?.parse().ok()?;
    let mut values = Vec::new();
    while let Some(value) = words.next() {
        values.push((value.parse().ok()?, words.next()?));
    }
    (!values.is_empty()).then_some(GoFigures { iterations: iterations as f64, values })
}

/// The units that Go's `testing` package reports, each with the name of its metric, the stored
/// unit, the direction, and the factor from the reported to the stored unit.
const KNOWN_UNITS: [(&str, &str, &str, MetricDirection, f64); 4] = [
    ("ns/op", "time", "ns", MetricDirection::Lower, 1.0),
    ("MB/s", "bytes_per_second", "B/s", MetricDirection::Higher, 1e6),
    ("B/op", "bytes_per_op", "B", MetricDirection::Lower, 1.0),
    ("allocs/op", "allocs_per_op", "", MetricDirection::Lower, 1.0),
];

/// Returns the metric and the conversion factor of a unit. `is_higher` is the direction that a
/// `Unit` line states for the unit, if there is such a line; it overrides the usual direction.
fn measure_for_unit(unit: &str, is_higher: Option<bool>) -> MetricConversion {
    let unknown = (unit, unit, unit, MetricDirection::of_unit(unit), 1.0);
    let known = KNOWN_UNITS.into_iter().find(|(known, ..)| *known == unit);
    let (_, name, stored_unit, usual, factor) = known.unwrap_or(unknown);
    let better = match is_higher {
        Some(true) => MetricDirection::Higher,
        Some(false) => MetricDirection::Lower,
        None => usual,
    };
    MetricConversion { metric: Metric::new(name, stored_unit, better), factor }
}

/// The keys that are read from an event of `go test -json`. Only events about output have the key
/// `Output`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct TestEvent {
    package: String,
    output: String,
}

/// Returns whether the data are events of `go test -json`.
fn is_events(bytes: &[u8]) -> bool {
    let first = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    // Cheap check first: the line may be a whole file.
    first.trim_ascii_start().starts_with(b"{") && JsonContent::new(first).has_key(1, "Action")
}

/// Returns the text that the tests printed, taken from events and joined package by package.
///
/// # Errors
/// Fails if a line is not an event; the message names the line.
fn output_of_events(bytes: &[u8]) -> Result<String> {
    let mut packages: IndexMap<String, String> = IndexMap::new();
    for (line, number) in require_utf8(bytes)?.lines().zip(1..) {
        if line.trim().is_empty() {
            continue;
        }
        let event: TestEvent = serde_json::from_str(line).with_context(|| {
            format!("line {number} is not an event of go test -json\nhint: is the file cut short?")
        })?;
        packages.entry(event.package).or_default().push_str(&event.output);
    }
    Ok(packages.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "goos: linux\npkg: x.y/tiny\nBenchmarkSum\nBenchmarkSum/n=8\n\
        BenchmarkSum/n=8-2 \t 1000\t 29.68 ns/op\t 100.0 items/op\t 16 B/op\n\
        BenchmarkSum/n=8-2 \t 1000\t 30.5 ns/op\t 100.0 items/op\t 16 B/op\n\
        BenchmarkFails\n    tiny_test.go:23: no luck\n--- FAIL: BenchmarkFails\n\
        BenchmarkSkips\n    tiny_test.go:25: not here\n--- SKIP: BenchmarkSkips\nPASS\n";

    #[test]
    fn lines_with_the_same_name_are_samples_and_every_unit_is_a_metric() {
        let read = read_reported(TEXT.as_bytes()).unwrap();
        let sum = &read[0];
        assert_eq!(sum.name.as_deref(), Some("BenchmarkSum/n=8"));
        let case = sum.case.as_ref().unwrap();
        assert_eq!(case.id(), "x.y/tiny/Sum gomaxprocs=2 n=8");
        let metrics: Vec<&str> = sum.metrics.iter().map(|metric| &*metric.name).collect();
        assert_eq!(metrics, ["time", "items/op", "bytes_per_op"]);
        let times = sum.samples.iter().filter(|sample| &*sample.metric == "time");
        let times: Vec<_> = times.map(|sample| (sample.value, sample.iterations)).collect();
        assert_eq!(times, [(29.68, Some(1000.0)), (30.5, Some(1000.0))]);
    }

    #[test]
    fn a_number_at_the_end_of_a_name_is_gomaxprocs_only_if_the_process_had_it() {
        let text = |processors: &str| {
            let sizes = ["gzip", "gzip-1", "gzip-6", "gzip-9"];
            let lines = sizes.map(|size| {
                format!("BenchmarkZip/{size}\nBenchmarkZip/{size}{processors} \t 1\t 7.0 ns/op\n")
            });
            lines.concat()
        };
        let ids = |text: &str| -> Vec<String> {
            let read = read_reported(text.as_bytes()).unwrap().into_iter();
            read.map(|result| result.case.unwrap().id()).collect()
        };
        for (suffix, processors) in [("", 1), ("-2", 2), ("-6", 6)] {
            let expected = ["gzip", "gzip-1", "gzip-6", "gzip-9"]
                .map(|size| format!("Zip/{size} gomaxprocs={processors}"));
            let with_names = text(suffix);
            assert_eq!(ids(&with_names), expected, "-test.v, {processors}");
            let results = with_names.lines().filter(|line| line.contains('\t'));
            let results: Vec<&str> = results.collect();
            assert_eq!(ids(&results.join("\n")), expected, "{processors}");
        }
        let alone = "BenchmarkZip/gzip-6\nBenchmarkZip/gzip-6 \t 1\t 7.0 ns/op\n";
        assert_eq!(ids(alone), ["Zip/gzip-6 gomaxprocs=1"]);
    }

    #[test]
    fn failure_messages_are_found_above_and_below_the_fail_line() {
        for text in [
            TEXT.to_owned(),
            TEXT.replace(
                "    tiny_test.go:23: no luck\n--- FAIL: BenchmarkFails\n",
                "--- FAIL: BenchmarkFails\n    tiny_test.go:23: no luck\n",
            ),
        ] {
            let reported = read_reported(text.as_bytes()).unwrap();
            let failed = FailureCause::invalid("failed: tiny_test.go:23: no luck");
            let skipped = FailureCause::Skipped { reason: "tiny_test.go:25: not here".to_owned() };
            assert_eq!(reported[1].cause, Some(failed.clone()));
            assert_eq!(reported[2].cause, Some(skipped.clone()));
            let file = InputFile::new("f", text.as_bytes());
            let session = read(&file, &mut Vec::new()).unwrap().remove(0);
            let causes: Vec<_> = session.failures.into_iter().map(|one| one.cause).collect();
            assert_eq!(causes, [failed, skipped]);
        }
    }

    #[test]
    fn lines_are_classified_by_their_form() {
        let figures = GoFigures { iterations: 20.0, values: vec![(1.5, "ns/op"), (3.0, "x/y")] };
        for (line, expected) in [
            (
                "BenchmarkA/n=8-2 \t 20\t 1.5 ns/op 3 x/y",
                GoBenchLine::Result("BenchmarkA/n=8-2", figures.clone()),
            ),
            ("BenchmarkA-2  \thello", GoBenchLine::Begin("BenchmarkA-2")),
            (" 20\t 1.5 ns/op 3 x/y", GoBenchLine::Rest(figures)),
            ("BenchmarkA-2 takes long", GoBenchLine::Other),
            ("BenchmarkA-2 20 1.5", GoBenchLine::Other),
            ("Benchmarks 20 1.5 ns/op", GoBenchLine::Other),
            ("BenchmarkA", GoBenchLine::Announced("BenchmarkA")),
            ("cpu: A: B", GoBenchLine::Configuration("cpu", "A: B")),
            ("note: x", GoBenchLine::Other),
            ("--- FAIL: BenchmarkA-2", GoBenchLine::Fail("BenchmarkA-2")),
            ("--- FAIL: TestA (0.00s)", GoBenchLine::Other),
            ("FAIL\tx/y\t0.2s", GoBenchLine::End(Some("x/y"), false)),
            ("ok  \tx/y\t0.2s", GoBenchLine::End(Some("x/y"), true)),
            ("FAIL", GoBenchLine::Quiet),
            (
                "Unit fills/x better=higher",
                GoBenchLine::Direction { unit: "fills/x", is_higher: true },
            ),
        ] {
            assert_eq!(GoBenchLine::parse(line), expected, "{line}");
        }
    }

    #[test]
    fn directions_come_from_the_unit_or_from_its_line() {
        let direction = |unit, line| measure_for_unit(unit, line).metric.better;
        assert_eq!(direction("ns/op", None), MetricDirection::Lower);
        assert_eq!(direction("MB/s", None), MetricDirection::Higher);
        assert_eq!(direction("rows/second", None), MetricDirection::Higher);
        assert_eq!(direction("misses/s", None), MetricDirection::Unknown);
        assert_eq!(direction("hits/op", None), MetricDirection::Unknown);
        assert_eq!(direction("hits/op", Some(true)), MetricDirection::Higher);
        assert_eq!(direction("ops/s", Some(false)), MetricDirection::Lower, "the file says so");
    }
}
