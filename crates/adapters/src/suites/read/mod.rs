//! Parses framework output: the cases it lists, and the results of an executed case. Start at
//! [`parse_results`].

use super::command::PlaceholderValues;
use crate::RunResult;
use crate::run_outcome::invalid_cause;
use anyhow::{Context as _, Result, ensure};
use regex::Regex;
use speedwell_config::adapter::{GoodDirection, ResultFormat, SuiteAdapter};
use speedwell_formats::foreign::suites::{
    ReportedResult, catch2, configured, criterion, divan, google_benchmark, jmh, libtest,
    pytest_benchmark, vitest,
};
use speedwell_formats::foreign::{diagnosis, require_utf8};
use speedwell_formats::{go_bench, pyperf};
use speedwell_model::{Case, FailureCause, Metric, MetricDirection};

/// A case listed by its framework.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedCase {
    /// Name that selects the case on the command line.
    pub name: String,
    /// The case as Speedwell names it.
    pub case: Case,
}

/// Last lines of a framework's stdout, for failures without stderr.
pub fn tail_lines(stdout: &str) -> String {
    let lines: Vec<&str> = stdout.trim_end().lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// Parses the results in a framework's output.
///
/// # Errors
/// Fails if the output does not match the adapter; the message gives the position of the first
/// error.
pub fn parse_results(adapter: &SuiteAdapter, bytes: &[u8]) -> Result<Vec<ReportedResult>> {
    ensure!(!diagnosis::is_utf16(bytes), "it is UTF-16 text, not UTF-8");
    let bytes = diagnosis::strip_bom(bytes)?;
    let keys = &adapter.keys;
    let unit = keys.unit.as_deref().unwrap_or("ns");
    let better = keys.better.map(|direction| match direction {
        GoodDirection::Less => MetricDirection::Lower,
        GoodDirection::More => MetricDirection::Higher,
    });
    match keys.read {
        ResultFormat::Json => {
            let paths = configured::ResultPaths {
                results: &keys.results,
                name: keys.name.as_deref(),
                samples: keys.samples.as_deref().unwrap_or_default(),
                unit,
                better,
            };
            paths.read(bytes)
        }
        ResultFormat::Lines => {
            let pattern = Regex::new(keys.line.as_deref().unwrap_or_default())?;
            configured::read_lines(bytes, &pattern, unit, better)
        }
        ResultFormat::GoogleBenchmark => google_benchmark::read(bytes),
        ResultFormat::GoBench => go_bench::read_reported(bytes),
        ResultFormat::Criterion => criterion::read(bytes),
        ResultFormat::Divan => divan::read(bytes),
        ResultFormat::Libtest => libtest::read(bytes),
        ResultFormat::Jmh => jmh::read(bytes),
        ResultFormat::PytestBenchmark => pytest_benchmark::read(bytes),
        ResultFormat::Pyperf => pyperf::read_reported(bytes),
        ResultFormat::Catch2 => catch2::read(bytes),
        ResultFormat::Vitest => vitest::read(bytes),
    }
}

/// Parses the listed cases from the lines that match the adapter's pattern. If the adapter has no
/// pattern, takes the cases from the names of results.
///
/// # Errors
/// Fails for the same reasons as [`parse_results`], or if the parameters of a case cannot be
/// parsed.
pub fn parse_cases(adapter: &SuiteAdapter, output: &[u8]) -> Result<Vec<ListedCase>> {
    let Some(pattern) = &adapter.keys.case else {
        return Ok(parse_results(adapter, output)?.into_iter().filter_map(to_listed).collect());
    };
    let pattern = Regex::new(pattern)?;
    let mut found = Vec::new();
    for groups in require_utf8(output)?.lines().filter_map(|line| pattern.captures(line)) {
        let group = |name| groups.name(name).map(|group| group.as_str().to_owned());
        let name = group("name").unwrap_or_default();
        ensure!(!name.is_empty(), "a case has no name: '{}'", &groups[0]);
        let case = match group("params") {
            Some(words) => Case::with_values(&name, &words).with_context(|| {
                format!("cannot parse the parameters of '{name}': expected k=v k=v")
            })?,
            None => Case::new(&name, Vec::new()),
        };
        found.push(ListedCase { name, case });
    }
    Ok(found)
}

/// Returns the case to which a result belongs; `None` if the result has no name.
pub fn to_listed(reported: ReportedResult) -> Option<ListedCase> {
    let name = reported.name?;
    let case = reported.case.unwrap_or_else(|| Case::new(&name, Vec::new()));
    Some(ListedCase { name, case })
}

/// Extracts the result of the case that the framework calls `name`.
pub fn extract_observation(
    adapter: &SuiteAdapter,
    name: &str,
    case: &Case,
    written: &[u8],
) -> (Option<RunResult>, Option<FailureCause>) {
    let failure = |reason: String| (None, Some(invalid_cause(reason)));
    if written.trim_ascii().is_empty() {
        return failure(format!("wrote no results; does benchmark '{name}' exist?"));
    }
    let results = match parse_results(adapter, written) {
        Ok(results) => results,
        Err(error) => {
            let reason = shorten_reason(&format!("{error:#}"));
            return failure(format!("wrote unreadable results: {reason}"));
        }
    };
    // Go appends the number of processors to a name if there are several, so the names may differ.
    // However, a single result is always the requested one.
    let is_only = results.len() == 1 && adapter.keys.read == ResultFormat::GoBench;
    let is_requested = |reported: &ReportedResult| {
        is_only || (reported.name.as_deref()).is_none_or(|reported| reported == name)
    };
    let (mut matching, others): (Vec<ReportedResult>, Vec<ReportedResult>) =
        results.into_iter().partition(is_requested);
    if matching.is_empty() {
        let reason = format!("wrote no results for '{name}'");
        return (None, Some(all_skipped(&others).unwrap_or_else(|| invalid_cause(reason))));
    }
    // One name may select several cases, such as the benchmarks of one test. Only the results of
    // the requested case are kept.
    if matching.iter().any(|reported| is_case(reported, case)) {
        matching.retain(|reported| is_case(reported, case));
    }
    if let Some(count) = count_namesakes(adapter.keys.read, &matching) {
        return failure(format!(
            "wrote results of {count} benchmarks that are all called '{name}'; give each a unique \
             name"
        ));
    }
    let mut observation = RunResult::new(case.clone(), Vec::new());
    let mut cause = None;
    for reported in matching {
        cause = cause.or(reported.cause);
        for metric in reported.metrics {
            if observation.metrics.iter().all(|other| other.name != metric.name) {
                observation.metrics.push(metric);
            }
        }
        observation.samples.extend(reported.samples);
        observation.notes.extend(reported.notes);
    }
    if observation.samples.is_empty() && cause.is_none() {
        return failure(format!("wrote no samples for '{name}'"));
    }
    (Some(observation), cause)
}

/// Returns how many benchmarks share one name, if several do. `results` are all results with this
/// name. In most formats, a benchmark's name occurs once: the reader merges repetitions, or the
/// framework writes one result for each name. Several results for one metric therefore mean several
/// benchmarks. Pyperf's format and formats that an adapter describes are not checked, because a
/// benchmark may repeat its name there.
fn count_namesakes(read: ResultFormat, results: &[ReportedResult]) -> Option<usize> {
    let may_repeat =
        matches!(read, ResultFormat::Json | ResultFormat::Lines | ResultFormat::Pyperf);
    let primary = || results.iter().filter_map(|reported| reported.metrics.first());
    let count_with_metric =
        |first: &Metric| primary().filter(|metric| metric.name == first.name).count();
    let max_count = primary().map(count_with_metric).max()?;
    (max_count > 1 && !may_repeat).then_some(max_count)
}

/// Returns why nothing was measured, if all benchmarks that make up a case were skipped.
fn all_skipped(reported: &[ReportedResult]) -> Option<FailureCause> {
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

fn shorten_reason(reason: &str) -> String {
    match reason.char_indices().nth(MAX_REASON_LENGTH) {
        Some((end, _)) => format!("{}...", &reason[..end]),
        None => reason.to_owned(),
    }
}

/// Whether a result belongs to the case. The name of the case may have the program's name as a
/// prefix.
fn is_case(reported: &ReportedResult, case: &Case) -> bool {
    (reported.case.as_ref()).is_some_and(|reported_case| {
        reported_case.values == case.values && case.benchmark.ends_with(&reported_case.benchmark)
    })
}

/// Sets the placeholders for the command that a user would type. That command prints its results on
/// the terminal.
pub fn for_terminal(filling: PlaceholderValues) -> PlaceholderValues {
    let terminal = "/dev/stdout";
    filling.text("pipe", terminal).text("output", terminal)
}

#[cfg(test)]
mod tests;
