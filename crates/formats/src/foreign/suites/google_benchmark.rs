//! Parses the JSON that one process of a google/benchmark program writes. The repetitions of a
//! benchmark are its samples. If the JSON contains only aggregates, the median is stored as the
//! only sample.

use super::ReportedResult;
use crate::foreign::google_benchmark::{
    GoogleBenchmarkFile, GoogleBenchmarkRow, debug_build_warning, metric_for_name,
};
use crate::foreign::json::JsonNode;
use anyhow::Result;
use speedwell_model::{FailureCause, Metric};
use std::sync::Arc;

/// Note on a benchmark whose wall time is much longer than its CPU time.
const WAITING_NOTE: &str = "Wall time was more than a tenth above CPU time: the machine was busy, \
     or the code waits; --metric cpu_time shows CPU time.";

/// Reason for the failure of benchmarks that have the same name.
const SAME_NAME_REASON: &str = "several benchmarks of the program have this name, and nothing tells them apart; give each a unique name";

/// Parses the output of a program.
///
/// # Errors
/// Fails if the bytes are not JSON as the library writes it; the message names the location.
pub fn read(bytes: &[u8]) -> Result<Vec<ReportedResult>> {
    let file = GoogleBenchmarkFile::read(bytes)?;
    let context = JsonNode::at_location("context".to_owned(), &file.context);
    let remark = debug_build_warning(&context).map(|remark| to_sentence(&remark));
    let mut names: Vec<&str> = Vec::new();
    for row in &file.rows {
        if !names.contains(&row.name.as_str()) {
            names.push(&row.name);
        }
    }
    let reported = names.into_iter().filter_map(|name| read_benchmark(name, &file));
    Ok(reported
        .map(|mut reported| {
            reported.notes.extend(remark.clone());
            reported
        })
        .collect())
}

fn read_benchmark(name: &str, file: &GoogleBenchmarkFile) -> Option<ReportedResult> {
    let named_rows = || file.rows.iter().filter(|row| row.name == name);
    let mut rows: Vec<&GoogleBenchmarkRow> =
        named_rows().filter(|row| !row.is_aggregate()).collect();
    if rows.is_empty() {
        rows.extend(named_rows().find(|row| row.is_center("median")));
    }
    let mut reported = ReportedResult {
        notes: rows.first()?.figure_notes(),
        cause: rows.iter().find_map(|row| row.failure_cause()),
        ..ReportedResult::new(Some(name.to_owned()))
    };
    if rows.iter().any(|row| row.place != rows[0].place) {
        reported.cause = Some(FailureCause::Invalid { reason: SAME_NAME_REASON.to_owned() });
        return Some(reported);
    }
    if rows.iter().filter(|row| row.is_waiting() == Some(true)).count() > rows.len() / 2 {
        reported.notes.push(WAITING_NOTE.to_owned());
    }
    let mut metrics: Vec<(Metric, Arc<str>)> = Vec::new();
    for row in rows.iter().filter(|row| row.failure_cause().is_none()) {
        reported.samples.extend(row.to_samples(|name| {
            if let Some((_, existing)) = metrics.iter().find(|(existing, _)| existing.name == name)
            {
                return existing.clone();
            }
            let shared: Arc<str> = Arc::from(name);
            metrics.push((metric_for_name(name), shared.clone()));
            shared
        }));
    }
    reported.metrics = metrics.into_iter().map(|(metric, _)| metric).collect();
    if let Some(reason) = reported.find_fault() {
        reported.samples.clear();
        reported.cause = Some(FailureCause::Invalid { reason });
    }
    Some(reported)
}

/// Formats a warning as a whole sentence.
fn to_sentence(remark: &str) -> String {
    let mut characters = remark.chars();
    let first = characters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(characters).chain(['.']).collect()
}
