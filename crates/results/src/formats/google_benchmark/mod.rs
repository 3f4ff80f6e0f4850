//! Results of google/benchmark programs: `--benchmark_out=F` or `--benchmark_format=json`.
//!
//! Decides how rows are mapped: each repetition becomes a run, because compare.py treats them as
//! replicates too, with the note that they share a process. Does not know where the file comes
//! from. Start at [`read`]. The format is json_schema_version 1 of the library's JSON reporter.

use crate::foreign::google_benchmark::{self, File, Kind, Row, context};
use crate::foreign::json::{Content, Node};
use crate::formats::imported::{
    Imported, NOTE_ON_REPETITIONS, Process, REMARK_ON_REPETITIONS, VARIANT, sample,
};
use crate::formats::same_names::{Listed, tell_apart};
use anyhow::Result;
use indexmap::IndexMap;
use speedwell_model::{Case, Sample, Session, Value};
use std::collections::HashSet;

/// Note on the coefficient and the RMS of a family.
const NOTE_ON_FIT: &str = "A fit of the times over all arguments of this family.";

/// Returns whether the data have this format.
pub fn recognises(file: &Content<'_>) -> bool {
    // Other tools have a list with this name, too.
    let has_row = || ROW_KEYS.iter().any(|key| file.has(3, key));
    file.begins_with("context") || (file.has(1, "benchmarks") && has_row())
}

/// Keys of the library's rows, some of them specific to a version.
const ROW_KEYS: [&str; 6] = [
    "real_time",
    "cpu_time",
    "time_unit",
    "run_name",
    "run_type",
    "error_occurred",
];

/// Reads a whole file. Adds messages for the user to `warnings`.
///
/// # Errors
/// The file is not JSON or has another version, or a value is missing, unknown or of the wrong
/// type; the message names its location.
pub fn read(label: &str, bytes: &[u8], warnings: &mut Vec<String>) -> Result<Session> {
    let file = File::read(bytes)?;
    let context =
        Some(Node::at("context".to_owned(), &file.context)).filter(|node| !node.is_null());
    let executable = context.as_ref().and_then(|node| node.get("executable"));
    let mut reading = Reading {
        executable: executable.map(|node| node.text()).transpose()?,
        ..Reading::default()
    };
    for time in [google_benchmark::REAL_TIME, google_benchmark::CPU_TIME] {
        reading.imported.metric(google_benchmark::metric(time));
    }
    let listed = by_benchmark(&file.rows).into_iter();
    let listed = listed.map(|((name, _), rows)| Listed {
        measurement: 0,
        case: Case::new(name, Vec::new()),
        metric: String::new(),
        details: shared_label(&rows).into_iter().collect(),
        content: rows,
    });
    let mut remarks = Vec::new();
    for one in tell_apart(listed.collect(), &mut remarks)? {
        reading.benchmark(one.case, &one.content);
    }
    remarks.extend(reading.remarks());
    remarks.extend(context.as_ref().map_or_else(Vec::new, context::remarks));
    warnings.extend(remarks.iter().map(|remark| format!("'{label}': {remark}")));
    let environment = context
        .as_ref()
        .map(|node| context::environment(node, VARIANT))
        .transpose()?;
    let started = context.as_ref().and_then(context::started_unix_ms);
    reading
        .imported
        .into_session(label, environment.unwrap_or_default(), started)
}

/// Name of a benchmark, and its position in the program if the file states it.
type Identity<'a> = (&'a str, Option<(u64, u64)>);

/// Groups rows by benchmark, in order of first appearance. In files of old versions, only the
/// suffix of the name distinguishes aggregates from repetitions.
fn by_benchmark(rows: &[Row]) -> IndexMap<Identity<'_>, Vec<&Row>> {
    let names: HashSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    let mut found: IndexMap<Identity<'_>, Vec<&Row>> = IndexMap::new();
    for row in rows {
        let is_old_aggregate =
            row.kind == Kind::Unsaid && row.base().is_some_and(|base| names.contains(base));
        if !is_old_aggregate {
            found.entry((&row.name, row.place)).or_default().push(row);
        }
    }
    found
}

/// Returns the label of a benchmark, if all its rows share it.
fn shared_label(rows: &[&Row]) -> Option<(String, String)> {
    let label = rows.first()?.label()?;
    let is_shared = rows.iter().all(|row| row.label() == Some(label));
    is_shared.then(|| ("label".to_owned(), label.to_owned()))
}

/// State of reading a file.
#[derive(Default)]
struct Reading<'a> {
    imported: Imported,
    executable: Option<&'a str>,
    has_repetitions: bool,
    has_only_aggregates: bool,
    has_fits: bool,
    /// Number of benchmarks whose wall time is well above their CPU time, and of all for which this
    /// is known.
    waiting: (usize, usize),
}

impl Reading<'_> {
    fn benchmark(&mut self, case: Case, rows: &[&Row]) {
        let repetitions: Vec<&Row> = rows
            .iter()
            .copied()
            .filter(|row| !row.is_aggregate())
            .collect();
        let centre = ["median", "mean"]
            .iter()
            .find_map(|kind| rows.iter().find(|row| row.is_centre(kind)));
        let judged: Vec<bool> = repetitions.iter().filter_map(|row| row.waits()).collect();
        let waiting = judged.iter().filter(|waits| **waits).count();
        self.waiting.0 += usize::from(waiting > judged.len() / 2);
        self.waiting.1 += usize::from(!judged.is_empty());
        for row in &repetitions {
            let mut notes = row.notes();
            if repetitions.len() > 1 {
                self.has_repetitions = true;
                notes.push(NOTE_ON_REPETITIONS.to_owned());
            }
            match row.cause() {
                Some(cause) => {
                    self.imported
                        .failure(&case, cause, replay(self.executable, &case.benchmark))
                }
                None => self.run(case.clone(), row, notes),
            }
        }
        if let Some(row) = centre.filter(|_| repetitions.is_empty()) {
            self.has_only_aggregates = true;
            self.run(case.clone(), row, row.notes());
        }
        self.fit(case, rows);
    }

    /// Adds the fit over all arguments of a family, which is spread over two rows. The case
    /// includes the complexity class, because the coefficient depends on it.
    fn fit(&mut self, mut case: Case, rows: &[&Row]) {
        let figures = rows.iter().flat_map(|row| &row.fit);
        let samples: Vec<Sample> = figures
            .map(|(metric, value)| sample(&self.imported.metric(metric.clone()), *value))
            .collect();
        if samples.is_empty() {
            return;
        }
        let big_o = rows.iter().find_map(|row| row.big_o.clone());
        let big_o = big_o.map(|big_o| ("big_o".to_owned(), Value::Text(big_o)));
        case.values.extend(big_o);
        let process = Process {
            samples,
            notes: vec![NOTE_ON_FIT.to_owned()],
            ..Process::default()
        };
        self.has_fits = true;
        self.imported.run(case, process);
    }

    fn run(&mut self, case: Case, row: &Row, notes: Vec<String>) {
        let imported = &mut self.imported;
        let samples = row.samples(|name| {
            if let Some(known) = imported.known(name) {
                return known;
            }
            imported.metric(google_benchmark::metric(name))
        });
        let process = Process {
            wall_ns: row.elapsed_ns().unwrap_or_default() as f64,
            samples,
            notes,
        };
        self.imported.run(case, process);
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.has_repetitions {
            remarks.push(REMARK_ON_REPETITIONS.to_owned());
        }
        if self.has_only_aggregates {
            remarks.push(
                "some benchmarks have aggregates only; their median or mean counts as one run"
                    .to_owned(),
            );
        }
        if let (waiting @ 1.., judged) = self.waiting {
            remarks.push(format!(
                "wall time is more than a tenth above CPU time in {waiting} of {judged} benchmarks: \
                 the machine was busy, or the code waits; --metric cpu_time shows CPU time"
            ));
        }
        if self.has_fits {
            remarks.push(
                "its fits of whole families (BigO, RMS) are kept; --metric real_coefficient shows \
                 them"
                    .to_owned(),
            );
        }
        remarks
    }
}

/// Returns the shell command that runs only this benchmark.
fn replay(executable: Option<&str>, name: &str) -> String {
    let filter = format!("--benchmark_filter={}", google_benchmark::filter(name));
    executable.map_or_else(String::new, |path| shell_words::join([path, &filter]))
}

#[cfg(test)]
mod tests;
