//! Output of `go test -bench`, as read by benchstat, also with `-json`.
//!
//! Decides which lines belong together, and how other lines are reported. Lines of one benchmark
//! (`-count`) come from one process; each becomes a run with that note, as for google/benchmark.
//! Does not know where the text comes from. Start at [`read`].

use crate::foreign::beginning;
use crate::foreign::go_bench::{self as line, Figures, Line, Processors};
use crate::formats::Skipped;
use crate::formats::imported::{
    Imported, NOTE_ON_REPETITIONS, Process, REMARK_ON_REPETITIONS, sample,
};
use anyhow::Result;
use speedwell_model::{Case, Cause, Environment, Sample, Session};
use std::collections::HashMap;

/// Returns whether the data have this format: their beginning contains a result, or what `go test`
/// prints if there is none.
pub fn recognises(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(beginning(bytes));
    let mut lines = text.lines();
    line::is_events(bytes)
        || lines.any(|line| {
            matches!(
                Line::parse(line),
                Line::Result(..) | Line::Fail(_) | Line::Configuration("goos" | "goarch", _)
            )
        })
}

/// Reads a whole text. Adds messages for the user to `warnings`.
///
/// # Errors
/// The text has no results, or an event that wraps it is invalid.
pub fn read(label: &str, bytes: &[u8], warnings: &mut Vec<String>) -> Result<Session> {
    let text = if line::is_events(bytes) {
        line::output_of_events(bytes)?.into()
    } else {
        String::from_utf8_lossy(bytes)
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut reading = Reading::default();
    for line in text.split_inclusive('\n') {
        let Some(line) = line.strip_suffix('\n') else {
            reading.last(line);
            continue;
        };
        reading.line(line.strip_suffix('\r').unwrap_or(line));
    }
    reading.end(None);
    let mut imported = Imported::default();
    let mut remarks: Vec<String> = reading.skipped.warning().into_iter().collect();
    remarks.extend(reading.remarks);
    let further = add(reading.entries, &reading.directions, &mut imported);
    remarks.extend(further);
    warnings.extend(remarks.iter().map(|remark| format!("'{label}': {remark}")));
    imported.into_session(label, reading.environment, None)
}

/// State of the parser.
#[derive(Default)]
struct Reading<'a> {
    entries: Vec<Entry<'a>>,
    /// Number of entries whose package has ended.
    settled: usize,
    package: Option<&'a str>,
    /// Name of a benchmark whose result has not been printed yet.
    begun: Option<&'a str>,
    /// Benchmark announced by `-v`, whose results follow.
    announced: Option<&'a str>,
    /// Inside a panic, which prints the stacks of all goroutines up to the end of the package.
    is_in_panic: bool,
    /// Whether indented lines explain the last entry.
    explains_entry: bool,
    directions: HashMap<&'a str, bool>,
    environment: Environment,
    skipped: Skipped,
    remarks: Vec<String>,
}

impl<'a> Reading<'a> {
    fn line(&mut self, text: &'a str) {
        let line = Line::parse(text);
        let explains = std::mem::take(&mut self.explains_entry);
        match line {
            Line::Result(name, figures) => {
                self.end_begun();
                self.push(name, Outcome::Measured(figures));
            }
            Line::Begin(name) => {
                self.end_begun();
                self.begun = Some(name);
            }
            Line::Rest(figures) => match self.begun.take() {
                Some(name) => self.push(name, Outcome::Measured(figures)),
                None => self.skipped.add(text.as_bytes()),
            },
            Line::Announced(name) => self.announced = Some(name),
            Line::Configuration(key, value) => self.configure(key, value),
            Line::Direction { unit, is_higher } => {
                self.directions.insert(unit, is_higher);
            }
            Line::Fail(name) => self.stopped(name, failed("failed")),
            Line::Skip(name) => self.stopped(
                name,
                Cause::Skipped {
                    reason: String::new(),
                },
            ),
            Line::End(package, is_good) => {
                self.end(package);
                if !is_good {
                    let package = package.unwrap_or_default();
                    self.remarks.push(format!(
                        "'{package}' ended with FAIL, so results may be missing"
                    ));
                }
            }
            Line::Panic(why) => {
                self.remarks.push(format!(
                    "a panic ended a package ('{why}'); what would have followed is missing"
                ));
                self.is_in_panic = true;
            }
            Line::Log(words) => {
                if explains {
                    self.explain(words);
                }
            }
            Line::Quiet => {}
            Line::Other if self.is_in_panic => {}
            Line::Other => self.skipped.add(text.as_bytes()),
        }
    }

    /// Handles a last line without a line end, which Go always writes: a figure or unit may be
    /// truncated.
    fn last(&mut self, text: &'a str) {
        match Line::parse(text) {
            Line::Result(..) | Line::Begin(_) | Line::Rest(_) => {
                let shown: String = text.trim().chars().take(60).collect();
                self.remarks.push(format!(
                    "the last line has no line end, so it may be cut short; it was left out: \
                     '{shown}'"
                ));
                self.begun = None;
            }
            _ => self.line(text),
        }
    }

    fn push(&mut self, name: &'a str, outcome: Outcome<'a>) {
        self.entries.push(Entry {
            package: self.package,
            name,
            announced: self.announced,
            outcome,
        });
    }

    /// Adds a benchmark that reported that it has no result.
    fn stopped(&mut self, name: &'a str, cause: Cause) {
        self.begun = self.begun.filter(|begun| *begun != name);
        self.push(name, Outcome::Stopped(cause));
        self.explains_entry = true;
    }

    fn explain(&mut self, words: &str) {
        match self.entries.last_mut().map(|entry| &mut entry.outcome) {
            Some(Outcome::Stopped(Cause::Skipped { reason })) => *reason = words.to_owned(),
            Some(Outcome::Stopped(cause)) => *cause = failed(&format!("failed: {words}")),
            _ => {}
        }
    }

    fn end_begun(&mut self) {
        if let Some(name) = self.begun.take() {
            let cause = failed("has no result: it did not end, or its own output hides it");
            self.push(name, Outcome::Stopped(cause));
        }
    }

    /// Ends a package, which may be named here for the first time: a benchmark can fail before the
    /// configuration is printed.
    fn end(&mut self, package: Option<&'a str>) {
        self.end_begun();
        for entry in &mut self.entries[self.settled..] {
            entry.package = entry.package.or(self.package).or(package);
        }
        self.settled = self.entries.len();
        self.package = None;
        self.announced = None;
        self.is_in_panic = false;
    }

    fn configure(&mut self, key: &'a str, value: &'a str) {
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
                "it was measured under different conditions: {key} is '{earlier}' and '{value}'"
            ));
        }
    }
}

fn failed(words: &str) -> Cause {
    Cause::Invalid {
        reason: words.to_owned(),
    }
}

/// A result or a failure.
#[derive(Debug)]
pub struct Entry<'a> {
    /// Package, if known.
    pub package: Option<&'a str>,
    /// Name as printed.
    pub name: &'a str,
    /// Name announced last.
    pub announced: Option<&'a str>,
    /// Result of the benchmark.
    pub outcome: Outcome<'a>,
}

/// Result of a benchmark.
#[derive(Debug)]
pub enum Outcome<'a> {
    /// Figures.
    Measured(Figures<'a>),
    /// No figures, with the reason.
    Stopped(Cause),
}

impl<'a> Entry<'a> {
    /// Returns benchmark and GOMAXPROCS of an announced result.
    fn split_announced(&self) -> Option<(&'a str, u32)> {
        let is_measured = matches!(self.outcome, Outcome::Measured(_));
        let announced = self.announced.filter(|_| is_measured)?;
        line::split_announced(announced, self.name)
    }

    /// Returns benchmark and GOMAXPROCS.
    fn split(&self, processors: &Processors) -> (&'a str, u32) {
        match self.outcome {
            Outcome::Measured(_) => {
                let announced = self.split_announced();
                announced.unwrap_or_else(|| processors.split(self.name))
            }
            Outcome::Stopped(_) => processors.split_stopped(self.name, self.announced),
        }
    }
}

/// Finds out, per package, which numbers at the ends of names are GOMAXPROCS.
fn processors<'a>(entries: &[Entry<'a>]) -> HashMap<Option<&'a str>, Processors> {
    let mut by_package: HashMap<Option<&str>, (Vec<&str>, Vec<u32>)> = HashMap::new();
    let measured = |entry: &&Entry<'_>| matches!(entry.outcome, Outcome::Measured(_));
    for entry in entries.iter().filter(measured) {
        let (names, announced) = by_package.entry(entry.package).or_default();
        match entry.split_announced() {
            Some((_, count)) => announced.push(count),
            None => names.push(entry.name),
        }
    }
    let of_package = |(names, announced)| Processors::from_names(names).with_announced(announced);
    (by_package.into_iter())
        .map(|(package, found)| (package, of_package(found)))
        .collect()
}

/// Adds all entries to a session. `directions` are those that the text states for units. Returns
/// messages for the user.
fn add(
    entries: Vec<Entry<'_>>,
    directions: &HashMap<&str, bool>,
    imported: &mut Imported,
) -> Vec<String> {
    let processors = processors(&entries);
    let none = Processors::default();
    let cases: Vec<(&str, Case)> = (entries.iter())
        .map(|entry| {
            let own = processors.get(&entry.package).unwrap_or(&none);
            let (name, count) = entry.split(own);
            (name, line::case(entry.package, name, Some(count)))
        })
        .collect();
    let mut counts: HashMap<String, u32> = HashMap::new();
    for (entry, (_, case)) in entries.iter().zip(&cases) {
        if matches!(entry.outcome, Outcome::Measured(_)) {
            *counts.entry(case.id()).or_default() += 1;
        }
    }
    let mut adding = Adding {
        directions,
        imported,
        not_finite: 0,
    };
    for (entry, (name, case)) in entries.into_iter().zip(cases) {
        let is_repeated = counts.get(&case.id()).is_some_and(|count| *count > 1);
        adding.entry(entry, (name, case), is_repeated);
    }
    let mut remarks = Vec::new();
    if counts.values().any(|count| *count > 1) {
        remarks.push(REMARK_ON_REPETITIONS.to_owned());
    }
    remarks.extend(adding.remarks());
    remarks
}

struct Adding<'a> {
    directions: &'a HashMap<&'a str, bool>,
    imported: &'a mut Imported,
    not_finite: u32,
}

impl Adding<'_> {
    fn entry(&mut self, entry: Entry<'_>, (name, case): (&str, Case), is_repeated: bool) {
        match entry.outcome {
            Outcome::Measured(figures) => {
                let mut process = self.process(&figures);
                if is_repeated {
                    process.notes.push(NOTE_ON_REPETITIONS.to_owned());
                }
                self.imported.run(case, process);
            }
            Outcome::Stopped(cause) => {
                let replay = line::replay(entry.package, name);
                self.imported.failure(&case, cause, replay);
            }
        }
    }

    fn process(&mut self, figures: &Figures<'_>) -> Process {
        let mut process = Process::default();
        for (value, unit) in &figures.values {
            if !value.is_finite() {
                self.not_finite += 1;
                continue;
            }
            let measure = line::measure_of_unit(unit, self.directions.get(unit).copied());
            let is_time = measure.metric.name == "time";
            let value = value * measure.factor;
            let total_ns = value * figures.iterations;
            if is_time {
                process.wall_ns = total_ns;
            }
            let metric = self.imported.metric(measure.metric);
            process.samples.push(Sample {
                elapsed_ns: is_time.then_some(total_ns as u64),
                iterations: is_time.then_some(figures.iterations),
                ..sample(&metric, value)
            });
        }
        process
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks: Vec<String> = Vec::new();
        if self.not_finite > 0 {
            remarks.push(match self.not_finite {
                1 => "1 value that is not finite was left out".to_owned(),
                count => format!("{count} values that are not finite were left out"),
            });
        }
        remarks
    }
}
