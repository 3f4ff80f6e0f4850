//! Explains why a framework gave no results: it is missing or too old, it skipped the benchmark, it
//! reported an error, or several benchmarks have one name.

use super::command::CollectedOutput;
use crate::RunOutcome;
use crate::compile::BuiltProgram;
use regex::Regex;
use speedwell_config::adapter::{ResultFormat, SuiteAdapter};
use speedwell_formats::foreign::suites::ReportedResult;
use speedwell_machine::process::ProcessOutcome;
use speedwell_model::{FailureCause, Metric};

/// If the output of the failed listing says that the framework itself is missing, returns that
/// as the cause.
pub fn missing_framework(
    built: &BuiltProgram,
    outcome: &ProcessOutcome,
    output: &CollectedOutput,
) -> Option<FailureCause> {
    let adapter = &built.adapter;
    let pattern = Regex::new(adapter.keys.missing.as_deref()?).ok()?;
    let stdout = String::from_utf8_lossy(&output.0);
    if !pattern.is_match(&stdout) && !pattern.is_match(&outcome.stderr.text()) {
        return None;
    }
    let (suite, program) = (&adapter.name, built.program.display());
    let hint = adapter.install_hint();
    let reason = format!("needs {suite}, which is not installed for '{program}'{hint}");
    Some(FailureCause::invalid(reason))
}

/// Explains that the framework is too old, if it is.
pub fn check_minimum(adapter: &SuiteAdapter, version: &str) -> Option<FailureCause> {
    let (suite, minimum) = (&adapter.name, adapter.keys.minimum.as_deref()?);
    let numbers = |version: &str| -> Vec<u32> {
        let numbers = version.split('.').map_while(|part| part.parse().ok());
        numbers.collect()
    };
    let hint = adapter.install_hint();
    (numbers(version) < numbers(minimum)).then(|| {
        FailureCause::invalid(format!(
            "needs {suite} {minimum} or newer, but found {suite} {version}{hint}"
        ))
    })
}

/// If the framework reported an error, uses this error as the cause of the failure. The error says
/// more than the exit status.
pub fn explain_failure(attempt: &mut RunOutcome, reported: Option<FailureCause>) {
    let stdout = &attempt.stdout;
    let Some(failure) = &mut attempt.failure else { return };
    if matches!(failure.cause, FailureCause::Exit { .. }) {
        failure.cause = reported.unwrap_or(failure.cause.clone());
    }
    if failure.stderr_tail.is_empty() {
        failure.stderr_tail = tail_lines(stdout);
    }
}

/// Last lines of a framework's stdout, for failures without stderr.
pub fn tail_lines(stdout: &str) -> String {
    let lines: Vec<&str> = stdout.trim_end().lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// Returns how many benchmarks share one name, if several do. `results` are all results with this
/// name. In most formats, a benchmark's name occurs once: the reader merges repetitions, or the
/// framework writes one result for each name. Several results for one metric therefore mean several
/// benchmarks. Pyperf's format and formats that an adapter describes are not checked, because a
/// benchmark may repeat its name there.
pub fn count_namesakes(read: ResultFormat, results: &[ReportedResult]) -> Option<usize> {
    let may_repeat =
        matches!(read, ResultFormat::Json | ResultFormat::Lines | ResultFormat::Pyperf);
    let primary = || results.iter().filter_map(|reported| reported.metrics.first());
    let count_with_metric =
        |first: &Metric| primary().filter(|metric| metric.name == first.name).count();
    let max_count = primary().map(count_with_metric).max()?;
    (max_count > 1 && !may_repeat).then_some(max_count)
}

/// Returns why nothing was measured, if all benchmarks that make up a case were skipped.
pub fn all_skipped(reported: &[ReportedResult]) -> Option<FailureCause> {
    let is_skip =
        |result: &ReportedResult| result.cause.as_ref().is_some_and(FailureCause::is_skip);
    let first = reported.first()?.cause.clone();
    first.filter(|_| reported.iter().all(is_skip))
}

/// Returns the reason if the output says that the benchmark was skipped.
pub fn find_skip(adapter: &SuiteAdapter, printed: &str) -> Option<FailureCause> {
    let pattern = Regex::new(adapter.keys.skipped.as_deref()?).ok()?;
    let found = pattern.captures(printed)?;
    let reason = found.name("reason").map_or_else(
        || format!("{} skips it", adapter.name),
        |reason| reason.as_str().trim().to_owned(),
    );
    Some(FailureCause::Skipped { reason })
}

/// Maximum length of a reason: libraries may quote the input that they could not parse.
const MAX_REASON_LENGTH: usize = 400;

/// Shortens a reason that is too long.
pub fn shorten_reason(reason: &str) -> String {
    let cut = reason.char_indices().nth(MAX_REASON_LENGTH);
    cut.map_or_else(|| reason.to_owned(), |(end, _)| format!("{}...", &reason[..end]))
}
