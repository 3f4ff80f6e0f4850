//! Reads results of google/benchmark programs: `--benchmark_out=F` or `--benchmark_format=json`.
//!
//! Decides how rows are stored. Each repetition becomes a run, because the library's compare.py
//! also treats repetitions as replicates. A note says that these runs share a process. Start at
//! [`read`]. The format is json_schema_version 1 of the library's JSON reporter.

use crate::duplicate_names::{ListedResult, distinguish_results};
use crate::foreign::google_benchmark::{
    self, GoogleBenchmarkFile, GoogleBenchmarkRow, RowKind, context_warnings, read_environment,
    started_unix_ms,
};
use crate::foreign::json::{JsonContent, JsonNode};
use crate::session_builder::{
    ImportedProcess, InputFile, NOTE_ON_REPETITIONS, ONLY_VARIANT, REPETITIONS_WARNING,
    SessionBuilder,
};
use anyhow::Result;
use indexmap::IndexMap;
use speedwell_model::{Case, ParameterValue, Sample, Session};
use std::collections::HashSet;

/// Note on the run that holds the coefficient and the RMS of a family.
const FIT_NOTE: &str = "A fit of the times over all arguments of this family.";

/// Returns whether the data are results of google/benchmark.
pub fn recognizes(file: &JsonContent<'_>) -> bool {
    // Other tools also write a list named `benchmarks`, so its rows must have a key of the library.
    let has_row = || ROW_KEYS.iter().any(|key| file.has_key(3, key));
    file.begins_with_key("context") || (file.has_key(1, "benchmarks") && has_row())
}

/// Keys that identify the library's rows. Not every version of the library writes all of them.
const ROW_KEYS: [&str; 6] =
    ["real_time", "cpu_time", "time_unit", "run_name", "run_type", "error_occurred"];

/// Reads a whole file. Adds messages for the user to `remarks`.
///
/// # Errors
/// Fails if the file is not JSON, has an unsupported schema version, or has a missing or invalid
/// value; the message names the location of the value.
pub fn read(input: &InputFile<'_>, remarks: &mut Vec<String>) -> Result<Vec<Session>> {
    let file = GoogleBenchmarkFile::read(input.bytes)?;
    let context = JsonNode::at_location("context".to_owned(), &file.context);
    let mut reading =
        RowsReader { executable: context.text_of("executable")?, ..RowsReader::default() };
    for time in [google_benchmark::REAL_TIME, google_benchmark::CPU_TIME] {
        reading.imported.declare_metric(google_benchmark::metric_for_name(time));
    }
    let benchmarks = group_by_benchmark(&file.rows).into_iter();
    let listed = benchmarks.map(|((name, _), rows)| ListedResult {
        details: shared_label(&rows).into_iter().collect(),
        ..ListedResult::new(Case::new(name, Vec::new()), rows)
    });
    for result in distinguish_results(listed.collect(), remarks)? {
        reading.add_benchmark(result.case, &result.content);
    }
    remarks.extend(reading.warnings());
    remarks.extend(context_warnings(&context));
    let mut imported = reading.imported;
    imported.environment = read_environment(&context, ONLY_VARIANT)?;
    imported.started_unix_ms = started_unix_ms(&context);
    Ok(vec![imported.into_session(input.label)?])
}

/// Name of a benchmark, and its position in the program if the file states it.
type BenchmarkKey<'a> = (&'a str, Option<(u64, u64)>);

/// Groups rows by benchmark, in order of first appearance. In files of old versions, only a suffix
/// of the name distinguishes an aggregate from the repetitions. A row with such a suffix is dropped
/// if the file also has a row with the same name without the suffix.
fn group_by_benchmark(
    rows: &[GoogleBenchmarkRow],
) -> IndexMap<BenchmarkKey<'_>, Vec<&GoogleBenchmarkRow>> {
    let names: HashSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    let mut rows_by_benchmark: IndexMap<BenchmarkKey<'_>, Vec<&GoogleBenchmarkRow>> =
        IndexMap::new();
    for row in rows {
        let is_old_aggregate = row.kind == RowKind::Unspecified
            && row.base_name().is_some_and(|base| names.contains(base));
        if !is_old_aggregate {
            rows_by_benchmark.entry((&row.name, row.place)).or_default().push(row);
        }
    }
    rows_by_benchmark
}

/// Returns the label of a benchmark, if all its rows share it.
fn shared_label(rows: &[&GoogleBenchmarkRow]) -> Option<(String, String)> {
    let label = &rows.first()?.label;
    let is_shared = rows.iter().all(|row| row.label == *label);
    Some(("label".to_owned(), label.clone().filter(|_| is_shared)?))
}

#[derive(Default)]
struct RowsReader<'a> {
    imported: SessionBuilder,
    executable: Option<&'a str>,
    has_repetitions: bool,
    has_only_aggregates: bool,
    has_fits: bool,
    /// Number of benchmarks whose wall time is well above their CPU time, and number of benchmarks
    /// for which this is known.
    waiting: (usize, usize),
}

impl RowsReader<'_> {
    fn add_benchmark(&mut self, case: Case, rows: &[&GoogleBenchmarkRow]) {
        let repetitions: Vec<&GoogleBenchmarkRow> =
            rows.iter().copied().filter(|row| !row.is_aggregate()).collect();
        let center =
            ["median", "mean"].iter().find_map(|kind| rows.iter().find(|row| row.is_center(kind)));
        let are_waiting: Vec<bool> =
            repetitions.iter().filter_map(|row| row.is_waiting()).collect();
        let waiting_count = are_waiting.iter().filter(|is_waiting| **is_waiting).count();
        self.waiting.0 += usize::from(waiting_count > are_waiting.len() / 2);
        self.waiting.1 += usize::from(!are_waiting.is_empty());
        for row in &repetitions {
            let mut notes = row.figure_notes();
            if repetitions.len() > 1 {
                self.has_repetitions = true;
                notes.push(NOTE_ON_REPETITIONS.to_owned());
            }
            match row.failure_cause() {
                Some(cause) => self.imported.add_failure(
                    &case,
                    cause,
                    replay_command(self.executable, &case.benchmark),
                ),
                None => self.add_run(case.clone(), row, notes),
            }
        }
        if let Some(row) = center.filter(|_| repetitions.is_empty()) {
            self.has_only_aggregates = true;
            self.add_run(case.clone(), row, row.figure_notes());
        }
        self.add_fit(case, rows);
    }

    /// Adds the fit over all arguments of a family. Its figures are in two rows of the file, BigO
    /// and RMS. The case includes the complexity class, because the coefficient depends on it.
    fn add_fit(&mut self, mut case: Case, rows: &[&GoogleBenchmarkRow]) {
        let figures = rows.iter().flat_map(|row| &row.fit);
        let samples: Vec<Sample> = figures
            .map(|(metric, value)| self.imported.metric_sample(metric.clone(), *value))
            .collect();
        if samples.is_empty() {
            return;
        }
        let big_o = rows.iter().find_map(|row| row.big_o.clone());
        case.values.extend(big_o.map(|class| ("big_o".to_owned(), ParameterValue::Text(class))));
        let notes = vec![FIT_NOTE.to_owned()];
        self.has_fits = true;
        self.imported.add_run(case, ImportedProcess { wall_ns: 0.0, samples, notes });
    }

    fn add_run(&mut self, case: Case, row: &GoogleBenchmarkRow, notes: Vec<String>) {
        let imported = &mut self.imported;
        let samples =
            row.to_samples(|name| imported.declare_metric(google_benchmark::metric_for_name(name)));
        let wall_ns = row.elapsed_ns().unwrap_or_default() as f64;
        self.imported.add_run(case, ImportedProcess { wall_ns, samples, notes });
    }

    fn warnings(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.has_repetitions {
            remarks.push(REPETITIONS_WARNING.to_owned());
        }
        if self.has_only_aggregates {
            remarks.push(
                "some benchmarks only have aggregates; their median or mean is stored as one run"
                    .to_owned(),
            );
        }
        if let (waiting @ 1.., judged) = self.waiting {
            remarks.push(format!(
                "wall time exceeds CPU time by more than 10% in {waiting} of {judged} benchmarks: the \
                 machine was busy, or the code sleeps or waits for I/O; --metric cpu_time shows CPU time"
            ));
        }
        if self.has_fits {
            remarks.push(
                "it also contains fits of whole families (BigO, RMS); --metric real_coefficient shows \
                 them"
                    .to_owned(),
            );
        }
        remarks
    }
}

/// Returns the shell command that runs only this benchmark; empty if the executable is unknown.
fn replay_command(executable: Option<&str>, name: &str) -> String {
    let filter = format!("--benchmark_filter={}", google_benchmark::exact_filter(name));
    executable.map_or_else(String::new, |path| shell_words::join([path, &filter]))
}

#[cfg(test)]
mod tests;
