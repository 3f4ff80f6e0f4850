//! Output of wrk, wrk2 and h2load, and JSON of autocannon.
//!
//! Decides how these are recognised, and what their figures become. What their words mean is decided
//! in `foreign/http_output.rs`, which the harness for Node.js needs as well. Start at [`read_text`]
//! and [`read_autocannon`].

use super::load_report::{LoadReport, NS_PER_MS, NS_PER_SECOND};
use crate::foreign::http_output::{HttpOutput, autocannon};
use crate::foreign::json::{self, Node};
use anyhow::{Context, Result, ensure};
use speedwell_model::{Better, Metric, Session, Value};

/// Tools that print text, and how their output begins, on a line of its own.
const TEXTS: [(&str, &[&str]); 2] = [
    ("wrk", &["Running "]),
    ("h2load", &["starting benchmark...", "finished in "]),
];

/// autocannon counts whole milliseconds.
const AUTOCANNON_RESOLUTION_NS: f64 = NS_PER_MS;

/// Whether bytes are text of one of these tools.
pub fn recognises_text(bytes: &[u8]) -> bool {
    tool_of(&String::from_utf8_lossy(super::beginning(bytes))).is_some()
}

fn tool_of(text: &str) -> Option<&'static str> {
    let is_of = |beginnings: &[&str]| {
        text.lines().any(|line| {
            beginnings.iter().any(|start| line.starts_with(start))
                && (!line.starts_with("Running ") || line.contains(" test @ "))
        })
    };
    TEXTS
        .iter()
        .find(|(_, beginnings)| is_of(beginnings))
        .map(|(tool, _)| *tool)
}

/// Whether bytes are JSON of autocannon.
pub fn recognises_autocannon(bytes: &[u8]) -> bool {
    let keys = json::keys(bytes);
    ["connections", "sampleInt", "pipelining"]
        .iter()
        .all(|key| keys.contains(&(1, key.as_bytes())))
}

/// Reads the text of one load test. What the user should know is added to `warnings`.
///
/// # Errors
/// The text is not that of a finished test.
pub fn read_text(label: &str, bytes: &[u8], warnings: &mut Vec<String>) -> Result<Session> {
    let text = String::from_utf8_lossy(bytes);
    let tool = tool_of(&text).context("there is no output of wrk or h2load in it")?;
    // Every line of these tools ends; what stands behind the last end may have lost digits.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let output = HttpOutput::read(tool, whole).with_context(|| {
        format!("{tool} did not print its results\nhint: is the text cut short?")
    })?;
    ensure!(output.rate.is_some(), "the rate is missing");
    let mut load = load_of(output, 0.0);
    if !text.ends_with('\n') && text.len() > whole.len() + 1 {
        load.remarks
            .push("its last line has no line end, so it was left out".to_owned());
    }
    load.into_session(label, warnings)
}

/// Reads the JSON of one load test. What the user should know is added to `warnings`.
///
/// # Errors
/// The file is no JSON, or a value is missing or of another type; the message names its place.
pub fn read_autocannon(label: &str, bytes: &[u8], warnings: &mut Vec<String>) -> Result<Session> {
    let parsed = json::parse(bytes)?;
    let root = Node::root(&parsed);
    root.need("errors")?.number()?;
    let requests = root.need("requests")?;
    requests.need("total")?.number()?;
    let duration = root.need("duration")?;
    ensure!(
        duration.number()? > 0.0,
        "'{}' is {}, so there is no rate",
        duration.place(),
        duration.value()
    );
    root.need("latency")?;
    let output = autocannon(&parsed).context("it has no results")?;
    load_of(output, AUTOCANNON_RESOLUTION_NS).into_session(label, warnings)
}

fn load_of(output: HttpOutput, resolution_ns: f64) -> LoadReport {
    let bandwidth = Metric::new("bytes_per_second", "B/s", Better::Higher);
    let times = output.latency_ms.iter();
    LoadReport {
        target: output.url.unwrap_or_else(|| output.tool.to_owned()),
        concurrency: output.connections,
        throughput: output.rate,
        requests: output.requests,
        elapsed_ns: output.seconds.map(|seconds| seconds * NS_PER_SECOND),
        errors: Some(output.errors),
        non2xx: Some(output.non2xx),
        times_ns: times
            .map(|(name, ms)| (format!("latency_{name}"), ms * NS_PER_MS))
            .collect(),
        resolution_ns,
        has_fixed_rate: output.has_fixed_rate,
        parameters: output
            .pipelining
            .map(|requests| ("pipelining".to_owned(), Value::Number(requests)))
            .into_iter()
            .collect(),
        others: output
            .bytes_per_second
            .map(|bytes| (bandwidth, bytes))
            .into_iter()
            .collect(),
        remarks: output.remarks,
        ..LoadReport::default()
    }
}
