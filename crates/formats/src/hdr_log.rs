//! Reads HdrHistogram logs (`.hlog`), which Speedwell or another program wrote, and computes
//! percentiles from them.
//!
//! Decides what the tag of a line means: `service/ok` in Speedwell's own logs is a quantity and an
//! outcome; any other tag names a case. Lines with the same tag are intervals of one measurement
//! and are added up. Start at [`read`]; the encoding of a log is implemented in
//! `speedwell_model::load::latency`.

use super::load_report::{LoadReport, NS_PER_SECOND};
use super::load_session::time_metrics;
use super::session_builder::SessionBuilder;
use crate::foreign::{file_beginning, require_utf8};
use anyhow::{Context, Result};
use speedwell_model::load::latency::{LoggedHistogram, ServiceTime, TimeDistribution, read_log};
use speedwell_model::{Environment, Metric, MetricDirection, ParameterValue, Session};
use std::time::Duration;

/// Quantities in Speedwell's own logs, with the prefixes of their metrics.
const QUANTITIES: [(&str, &str); 6] = [
    ("service", "latency"),
    ("response", "response"),
    ("first-byte", "first_byte"),
    ("connect", "connect"),
    ("lag", "lag"),
    ("own-lag", "own_lag"),
];

/// Name of the benchmark for lines whose tag does not name a benchmark.
const BENCHMARK: &str = "load";

/// Returns whether the data are an HdrHistogram log. Near its beginning, a log has a comment with
/// the version of the format, or the usual header of the columns.
pub fn recognizes(bytes: &[u8]) -> bool {
    let beginning = String::from_utf8_lossy(file_beginning(bytes));
    beginning.lines().take(32).any(|line| {
        line.starts_with("#[Histogram log format version")
            || line.starts_with("\"StartTimestamp\",\"Interval_Length\"")
    })
}

/// Sum of the lines of one quantity, outcome and benchmark.
struct TaggedTotal {
    benchmark: String,
    outcome: Option<String>,
    quantity: &'static str,
    times: TimeDistribution<ServiceTime>,
    length: Duration,
}

/// Reads the log. Times are taken as nanoseconds, because the recorders of HdrHistogram write
/// nanoseconds.
///
/// # Errors
/// Fails if a line is invalid, or the log has no values.
pub fn read(label: &str, bytes: &[u8], warnings: &mut Vec<String>) -> Result<Session> {
    let mut totals: Vec<TaggedTotal> = Vec::new();
    let mut has_foreign = false;
    for line in read_log(require_utf8(bytes)?)? {
        let total = line_total(&line);
        if total.times.count() == 0 {
            continue;
        }
        has_foreign |= total.outcome.is_none();
        // Under an open load, the response times of the case with the outcome `ok` cover all
        // requests. Therefore, also add the requests with other outcomes to this case.
        if total.quantity == "response" && total.outcome.as_deref() != Some("ok") {
            add_total(
                &mut totals,
                TaggedTotal {
                    outcome: Some("ok".to_owned()),
                    length: Duration::ZERO,
                    times: total.times.clone(),
                    benchmark: total.benchmark.clone(),
                    ..total
                },
            );
        }
        add_total(&mut totals, total);
    }
    let mut imported = SessionBuilder::default();
    let mut remarks = Vec::new();
    for total in &totals {
        let is_first = |other: &&TaggedTotal| same_case(other, total);
        if totals.iter().find(is_first).is_some_and(|first| std::ptr::eq(first, total)) {
            build_report(total, &totals).add_to(&mut imported, &mut remarks);
        }
    }
    if has_foreign {
        warnings.push(format!("'{label}': its times are taken as nanoseconds"));
    }
    warnings.extend(remarks.iter().map(|remark| format!("'{label}': {remark}")));
    let session = imported.into_session(label, Environment::default(), None);
    session.context("every histogram in it is empty")
}

/// Converts a line of a log. Only Speedwell's own logs state an outcome.
fn line_total(line: &LoggedHistogram) -> TaggedTotal {
    let tag = line.tag.as_deref().unwrap_or_default();
    let own_tag = tag.split_once('/').and_then(|(name, outcome)| {
        let (_, quantity) = QUANTITIES.iter().find(|(quantity_name, _)| *quantity_name == name)?;
        Some((*quantity, outcome))
    });
    let (benchmark, quantity, outcome) = match own_tag {
        Some((quantity, "all")) => (BENCHMARK, quantity, Some("ok")),
        Some((quantity, outcome)) => (BENCHMARK, quantity, Some(outcome)),
        None if tag.is_empty() => (BENCHMARK, "latency", None),
        None => (tag, "latency", None),
    };
    TaggedTotal {
        benchmark: benchmark.to_owned(),
        outcome: outcome.map(str::to_owned),
        quantity,
        times: line.to_distribution(),
        length: line.length,
    }
}

fn add_total(totals: &mut Vec<TaggedTotal>, addition: TaggedTotal) {
    let existing = totals
        .iter_mut()
        .find(|total| total.quantity == addition.quantity && same_case(total, &addition));
    match existing {
        Some(total) => {
            total.times.merge(&addition.times);
            total.length += addition.length;
        }
        None => totals.push(addition),
    }
}

fn same_case(first: &TaggedTotal, second: &TaggedTotal) -> bool {
    (&first.benchmark, &first.outcome) == (&second.benchmark, &second.outcome)
}

/// Builds the report of all quantities of a case.
fn build_report(case: &TaggedTotal, totals: &[TaggedTotal]) -> LoadReport {
    let outcome = case.outcome.iter().filter(|outcome| *outcome != "ok");
    let mut report = LoadReport {
        target: case.benchmark.clone(),
        parameters: outcome
            .map(|outcome| ("outcome".to_owned(), ParameterValue::Text(outcome.clone())))
            .collect(),
        ..LoadReport::default()
    };
    for total in totals.iter().filter(|total| same_case(total, case)) {
        let figures = time_metrics(total.quantity, &total.times, |_| true);
        if total.quantity != "latency" {
            let metric = |(name, ns)| (Metric::new(name, "ns", MetricDirection::Lower), ns);
            report.others.extend(figures.into_iter().map(metric));
            continue;
        }
        let elapsed_ns = total.length.as_nanos() as f64;
        report.times_ns = figures;
        report.requests = Some(total.times.count() as f64);
        report.elapsed_ns = Some(elapsed_ns);
        report.throughput = Some(total.times.count() as f64 * NS_PER_SECOND / elapsed_ns);
    }
    report
}
