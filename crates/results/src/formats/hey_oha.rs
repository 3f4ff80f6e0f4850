//! Output of hey and oha, which look alike: a summary, percentiles, counts of statuses and errors.
//! oha's JSON as well.
//!
//! Decides what their words mean. It must not know other tools. Start at [`read_text`] and
//! [`read_json`]. Neither prints the address or the concurrency.

use super::load_report::{LoadReport, NS_PER_MS, NS_PER_SECOND, percentile};
use crate::foreign::json::{self, Node};
use anyhow::{Context, Result};
use speedwell_model::Session;

/// Lines of the summary that tell durations.
const TIMES: [(&str, &str); 3] = [
    ("Average:", "latency_mean"),
    ("Fastest:", "latency_min"),
    ("Slowest:", "latency_max"),
];

/// Whether bytes are text of hey or oha.
pub fn recognises_text(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(super::beginning(bytes));
    let has = |start: &str| text.lines().any(|line| line.trim() == start);
    has("Summary:") && text.lines().any(|line| line.trim().starts_with("Slowest:"))
}

/// Whether bytes are JSON of oha.
pub fn recognises_json(bytes: &[u8]) -> bool {
    let keys = json::keys(bytes);
    keys.first() == Some(&(1, b"summary")) && keys.contains(&(2, b"requestsPerSec"))
}

/// Reads the text of one load test. What the user should know is added to `warnings`.
///
/// # Errors
/// The rate is missing.
pub fn read_text(label: &str, bytes: &[u8], warnings: &mut Vec<String>) -> Result<Session> {
    let text = String::from_utf8_lossy(bytes);
    let is_oha = text.contains("Success rate:");
    let mut load = LoadReport {
        target: if is_oha { "oha" } else { "hey" }.to_owned(),
        errors: Some(0.0),
        ..LoadReport::default()
    };
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    for line in whole.lines().map(str::trim) {
        self::line(line, &mut load);
    }
    load.throughput
        .context("the line 'Requests/sec' is missing\nhint: is the text cut short?")?;
    if load.requests.is_none() {
        load.remarks
            .push("the text is cut short, so figures at its end are missing".to_owned());
    }
    load.into_session(label, warnings)
}

fn line(line: &str, load: &mut LoadReport) {
    if let Some((_, name)) = TIMES.iter().find(|(start, _)| line.starts_with(start)) {
        let time = line.split_once(':').and_then(|(_, time)| duration_ns(time));
        load.times_ns
            .extend(time.map(|ns| ((*name).to_owned(), ns)));
    } else if let Some(rate) = line.strip_prefix("Requests/sec:") {
        load.throughput = rate.trim().parse().ok();
    } else if let Some(total) = line.strip_prefix("Total:") {
        load.elapsed_ns = duration_ns(total);
    } else if let Some((percent, time)) = line.split_once(" in ") {
        // hey prints the sign twice.
        let percent = percent.trim_end_matches('%');
        let is_number = percent.parse::<f64>().is_ok();
        if let Some(ns) = duration_ns(time).filter(|_| is_number) {
            load.times_ns.push((percentile(percent), ns));
        }
    } else if let Some((number, words)) = line.strip_prefix('[').and_then(|l| l.split_once(']')) {
        let Ok(number) = number.parse::<f64>() else {
            return;
        };
        match words.trim().strip_suffix(" responses") {
            Some(count) => responses(number, count.trim().parse().unwrap_or(0.0), load),
            None => load.errors = load.errors.map(|errors| errors + number),
        }
    }
}

/// Counts answers with a status.
fn responses(status: f64, count: f64, load: &mut LoadReport) {
    load.requests = Some(load.requests.unwrap_or(0.0) + count);
    let is_good = (200.0..300.0).contains(&status);
    let bad = if is_good { 0.0 } else { count };
    load.non2xx = Some(load.non2xx.unwrap_or(0.0) + bad);
}

/// `0.0354 secs`, `35.67 ms`.
fn duration_ns(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let number: f64 = words.next()?.parse().ok()?;
    let factor = match words.next()? {
        "secs" | "sec" | "s" => NS_PER_SECOND,
        "ms" => NS_PER_MS,
        "us" | "µs" => 1e3,
        "ns" => 1.0,
        _ => return None,
    };
    Some(number * factor)
}

/// Reads oha's JSON. What the user should know is added to `warnings`.
///
/// # Errors
/// The file is no JSON, or a value is missing or of another type; the message names its place.
pub fn read_json(label: &str, bytes: &[u8], warnings: &mut Vec<String>) -> Result<Session> {
    let parsed = json::parse(bytes)?;
    let root = Node::root(&parsed);
    let summary = root.need("summary")?;
    let seconds = |node: &Node<'_>, key: &str| -> Result<Option<f64>> {
        let number = node.get(key).map(|node| node.number()).transpose()?;
        Ok(number.map(|seconds| seconds * NS_PER_SECOND))
    };
    let mut load = LoadReport {
        target: "oha".to_owned(),
        throughput: Some(summary.need("requestsPerSec")?.number()?),
        elapsed_ns: seconds(&summary, "total")?,
        errors: Some(0.0),
        ..LoadReport::default()
    };
    for (key, name) in [("average", "mean"), ("fastest", "min"), ("slowest", "max")] {
        let time = seconds(&summary, key)?;
        load.times_ns
            .extend(time.map(|ns| (format!("latency_{name}"), ns)));
    }
    let percentiles = root.need("latencyPercentiles")?;
    for (key, _) in percentiles.members() {
        if let (Some(percent), Some(ns)) = (key.strip_prefix('p'), seconds(&percentiles, key)?) {
            load.times_ns.push((percentile(percent), ns));
        }
    }
    let statuses = root.need("statusCodeDistribution")?;
    for (status, count) in statuses.members() {
        if let (Ok(status), Some(count)) = (status.parse(), count.as_f64()) {
            responses(status, count, &mut load);
        }
    }
    let errors = root.need("errorDistribution")?;
    let counts = errors.members().filter_map(|(_, count)| count.as_f64());
    load.errors = Some(counts.fold(0.0, |sum, count| sum + count));
    load.into_session(label, warnings)
}
