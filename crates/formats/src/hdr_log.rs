//! Reads HdrHistogram logs (`.hlog`), which Speedwell or another program wrote, and computes
//! percentiles from them.
//!
//! Decides what the tag of a line means: `service/ok` in Speedwell's own logs is a quantity and an
//! outcome; any other tag names a case. Lines with the same tag are intervals of one measurement
//! and are added up. Start at [`read`]; the encoding of a log is implemented in
//! `speedwell_model::load::latency`.

use super::load_report::{LoadReport, NS_PER_SECOND};
use super::load_session::time_metrics;
use super::session_builder::{InputFile, SessionBuilder};
use crate::foreign::json::JsonContent;
use crate::foreign::require_utf8;
use anyhow::{Context, Result};
use indexmap::IndexMap;
use speedwell_model::load::latency::{TimeDistribution, read_log};
use speedwell_model::{Metric, MetricDirection, ParameterValue, Session};
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
pub fn recognizes(file: &JsonContent<'_>) -> bool {
    file.beginning().lines().take(32).any(|line| {
        line.starts_with("#[Histogram log format version")
            || line.starts_with("\"StartTimestamp\",\"Interval_Length\"")
    })
}

/// The times of one quantity, and the length of their intervals.
type QuantityTotal = (TimeDistribution, Duration);

/// Reads the log. Times are taken as nanoseconds, because the recorders of HdrHistogram write
/// nanoseconds.
///
/// # Errors
/// Fails if a line is invalid, or the log has no values.
pub fn read(file: &InputFile<'_>, remarks: &mut Vec<String>) -> Result<Vec<Session>> {
    // The sums of all lines by benchmark and outcome, then by quantity.
    let mut cases: IndexMap<(String, Option<String>), IndexMap<&str, QuantityTotal>> =
        IndexMap::new();
    let mut has_foreign = false;
    for line in read_log(require_utf8(file.bytes)?)? {
        let (benchmark, quantity, outcome) = parse_tag(line.tag.as_deref().unwrap_or_default());
        let times = line.to_distribution();
        if times.count() == 0 {
            continue;
        }
        has_foreign |= outcome.is_none();
        let mut add_line = |outcome: Option<&str>, length: Duration| {
            let case = (benchmark.to_owned(), outcome.map(str::to_owned));
            let total = cases.entry(case).or_default().entry(quantity).or_default();
            total.0.merge(&times);
            total.1 += length;
        };
        // Under an open load, the response times of the case with the outcome `ok` cover all
        // requests. Therefore, also add the requests with other outcomes to this case.
        if quantity == "response" && outcome != Some("ok") {
            add_line(Some("ok"), Duration::ZERO);
        }
        add_line(outcome, line.length);
    }
    if has_foreign {
        remarks.push("its times are taken as nanoseconds".to_owned());
    }
    let mut imported = SessionBuilder::default();
    for ((benchmark, outcome), totals) in cases {
        build_report(benchmark, outcome, totals).add_to(&mut imported, remarks);
    }
    let session = imported.into_session(file.label);
    Ok(vec![session.context("every histogram in it is empty")?])
}

/// Splits the tag of a line into benchmark, quantity and outcome. Only Speedwell's own logs state an
/// outcome.
fn parse_tag(tag: &str) -> (&str, &'static str, Option<&str>) {
    let own_tag = tag.split_once('/').and_then(|(name, outcome)| {
        let (_, quantity) = QUANTITIES.iter().find(|(quantity_name, _)| *quantity_name == name)?;
        Some((*quantity, outcome))
    });
    match own_tag {
        Some((quantity, "all")) => (BENCHMARK, quantity, Some("ok")),
        Some((quantity, outcome)) => (BENCHMARK, quantity, Some(outcome)),
        None if tag.is_empty() => (BENCHMARK, "latency", None),
        None => (tag, "latency", None),
    }
}

/// Builds the report of all quantities of a case.
fn build_report(
    target: String,
    outcome: Option<String>,
    totals: IndexMap<&str, QuantityTotal>,
) -> LoadReport {
    let failure = outcome.filter(|outcome| outcome != "ok").map(ParameterValue::Text);
    let parameters = failure.map(|outcome| ("outcome".to_owned(), outcome)).into_iter().collect();
    let mut report = LoadReport { target, parameters, ..LoadReport::default() };
    for (quantity, (times, length)) in totals {
        let figures = time_metrics(quantity, &times, |_| true);
        if quantity != "latency" {
            let metric = |(name, ns)| (Metric::new(name, "ns", MetricDirection::Lower), ns);
            report.others.extend(figures.into_iter().map(metric));
            continue;
        }
        let elapsed_ns = length.as_nanos() as f64;
        report.times_ns = figures;
        report.requests = Some(times.count() as f64);
        report.elapsed_ns = Some(elapsed_ns);
        report.throughput = Some(times.count() as f64 * NS_PER_SECOND / elapsed_ns);
    }
    report
}
