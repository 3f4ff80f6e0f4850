//! Reads the output of wrk, wrk2, h2load, hey and oha, and the JSON of autocannon and oha.
//!
//! Decides how these outputs are recognized and which figures they contain. The output of wrk,
//! wrk2, h2load and autocannon is parsed in `foreign/http_output.rs`, which the Node.js harness
//! also uses. hey and oha print neither address nor concurrency, so their cases are named after the
//! tool. Start at [`read_text`], [`read_autocannon`], [`read_hey_oha`] and [`read_oha`].

use crate::foreign::http_output::{HttpOutput, parse_autocannon};
use crate::foreign::json::{self, JsonContent, JsonNode};
use crate::load_report::{LoadReport, NS_PER_MS, NS_PER_SECOND, percentile_metric};
use crate::session_builder::InputFile;
use anyhow::{Context, Result, ensure};
use speedwell_model::{Metric, MetricDirection, ParameterValue, Run, Session};

/// autocannon measures in whole milliseconds.
const AUTOCANNON_RESOLUTION_NS: f64 = NS_PER_MS;

/// Returns whether the data are text output of one of these tools.
pub fn recognizes_text(file: &JsonContent<'_>) -> bool {
    detect_tool(&file.beginning()).is_some()
}

fn detect_tool(text: &str) -> Option<&'static str> {
    let is_wrk = |line: &str| line.starts_with("Running ") && line.contains(" test @ ");
    let is_h2load =
        |line: &str| line.starts_with("starting benchmark...") || line.starts_with("finished in ");
    let wrk = text.lines().any(is_wrk).then_some("wrk");
    wrk.or_else(|| text.lines().any(is_h2load).then_some("h2load"))
}

/// Returns whether the data are autocannon JSON.
pub fn recognizes_autocannon(file: &JsonContent<'_>) -> bool {
    // `sampleInt` is not required, because only versions since 2020 write it.
    ["connections", "pipelining", "non2xx", "latency", "requests"]
        .iter()
        .all(|key| file.has_key(1, key))
}

/// Reads the text that wrk, wrk2 or h2load printed. Adds messages for the user to `remarks`.
///
/// # Errors
/// Fails if the text is not the output of a finished test.
pub fn read_text(file: &InputFile<'_>, remarks: &mut Vec<String>) -> Result<Vec<Session>> {
    let text = String::from_utf8_lossy(file.bytes);
    let tool = detect_tool(&text).context("it contains no output of wrk or h2load")?;
    // These tools end every line with a line feed, so a last line without a line feed may have lost
    // digits.
    let complete_lines = text.rfind('\n').map_or("", |end| &text[..end]);
    let output = HttpOutput::read(tool, complete_lines).with_context(|| {
        format!("{tool} did not print its results\nhint: is the text cut short?")
    })?;
    ensure!(output.rate.is_some(), "the rate is missing");
    let mut load = into_load_report(output, 0.0);
    if !text.ends_with('\n') && text.len() > complete_lines.len() + 1 {
        load.remarks.push(
            "the last line has no newline, so it may be cut short and was left out".to_owned(),
        );
    }
    load.into_sessions(file, remarks)
}

/// Reads the JSON of autocannon. Adds messages for the user to `remarks`.
///
/// # Errors
/// Fails if the file is not JSON, or a value is missing or has the wrong type; the message names
/// its location.
pub fn read_autocannon(file: &InputFile<'_>, remarks: &mut Vec<String>) -> Result<Vec<Session>> {
    let parsed = json::parse(file.bytes)?;
    let root = JsonNode::from_root(&parsed);
    root.require("errors")?.number()?;
    let requests = root.require("requests")?;
    requests.require("total")?.number()?;
    let duration = root.require("duration")?;
    ensure!(
        duration.number()? > 0.0,
        "'{}' is {}, so the rate is undefined",
        duration.location(),
        duration.value()
    );
    root.require("latency")?;
    let output = parse_autocannon(&parsed).context("it contains no results")?;
    into_load_report(output, AUTOCANNON_RESOLUTION_NS).into_sessions(file, remarks)
}

fn into_load_report(output: HttpOutput, resolution_ns: f64) -> LoadReport {
    let bandwidth = Metric::new("bytes_per_second", "B/s", MetricDirection::Higher);
    let times = output.latency_ms.iter();
    let pipelining = output.pipelining.map(ParameterValue::Number);
    LoadReport {
        target: output.url.unwrap_or_else(|| output.tool.to_owned()),
        concurrency: output.connections,
        throughput: output.rate,
        requests: output.requests,
        elapsed_ns: output.seconds.map(|seconds| seconds * NS_PER_SECOND),
        errors: Some(output.errors),
        non2xx: Some(output.non2xx),
        times_ns: times.map(|(name, ms)| (format!("latency_{name}"), ms * NS_PER_MS)).collect(),
        resolution_ns,
        idle_note: output.has_fixed_rate.then_some(Run::AT_FIXED_RATE),
        parameters: pipelining.map(|count| ("pipelining".to_owned(), count)).into_iter().collect(),
        others: output.bytes_per_second.map(|bytes| (bandwidth, bytes)).into_iter().collect(),
        remarks: output.remarks,
        ..LoadReport::default()
    }
}

/// Beginnings of the lines with durations in the summary of hey and oha, each with the name of its
/// metric.
const SUMMARY_TIMES: [(&str, &str); 3] =
    [("Average:", "latency_mean"), ("Fastest:", "latency_min"), ("Slowest:", "latency_max")];

/// Returns whether the data are text output of hey or oha.
pub fn recognizes_hey_oha(file: &JsonContent<'_>) -> bool {
    let text = file.beginning();
    let has = |start: &str| text.lines().any(|line| line.trim() == start);
    has("Summary:") && text.lines().any(|line| line.trim().starts_with("Slowest:"))
}

/// Returns whether the data are oha JSON.
pub fn recognizes_oha(file: &JsonContent<'_>) -> bool {
    file.begins_with_key("summary") && file.has_key(2, "requestsPerSec")
}

/// Reads the text that hey or oha printed. Adds messages for the user to `remarks`.
///
/// # Errors
/// Fails if the rate is missing.
pub fn read_hey_oha(file: &InputFile<'_>, remarks: &mut Vec<String>) -> Result<Vec<Session>> {
    let text = String::from_utf8_lossy(file.bytes);
    let is_oha = text.contains("Success rate:");
    let target = if is_oha { "oha" } else { "hey" }.to_owned();
    let mut load = LoadReport { target, errors: Some(0.0), ..LoadReport::default() };
    let complete_lines = text.rfind('\n').map_or("", |end| &text[..end]);
    complete_lines.lines().map(str::trim).for_each(|line| parse_hey_oha_line(line, &mut load));
    load.throughput.context("the line 'Requests/sec' is missing\nhint: is the text cut short?")?;
    let failed = load.errors.unwrap_or(0.0);
    if load.requests.is_none() && failed > 0.0 {
        // The lines with numbers of responses are missing because there was no response, not
        // because the text is cut short.
        load.requests = Some(0.0);
    }
    match load.requests {
        None => {
            load.remarks.push("the text is cut short, so figures at its end are missing".to_owned())
        }
        // hey includes failed requests in its rate, so compute the rate of the answered requests.
        Some(answered) if !is_oha => {
            load.throughput = load.throughput.map(|rate| rate * answered / (answered + failed));
        }
        Some(_) => {}
    }
    load.into_sessions(file, remarks)
}

fn parse_hey_oha_line(line: &str, load: &mut LoadReport) {
    if let Some((_, name)) = SUMMARY_TIMES.iter().find(|(start, _)| line.starts_with(start)) {
        let time = line.split_once(':').and_then(|(_, time)| parse_duration_ns(time));
        load.times_ns.extend(time.map(|ns| ((*name).to_owned(), ns)));
    } else if let Some(rate) = line.strip_prefix("Requests/sec:") {
        load.throughput = rate.trim().parse().ok();
    } else if let Some(total) = line.strip_prefix("Total:") {
        load.elapsed_ns = parse_duration_ns(total);
    } else if let Some((percent, time)) = line.split_once(" in ") {
        // hey prints the percent sign twice.
        let number = percent.trim_end_matches('%');
        let is_number = number.parse::<f64>().is_ok();
        if let Some(ns) = parse_duration_ns(time).filter(|_| is_number) {
            load.times_ns.push((percentile_metric(number), ns));
        }
    } else if let Some((number, description)) =
        line.strip_prefix('[').and_then(|l| l.split_once(']'))
    {
        let Ok(number) = number.parse::<f64>() else { return };
        match description.trim().strip_suffix(" responses") {
            Some(count) => count_responses(number, count.trim().parse().unwrap_or(0.0), load),
            None => load.errors = load.errors.map(|errors| errors + number),
        }
    }
}

fn count_responses(status: f64, count: f64, load: &mut LoadReport) {
    load.requests = Some(load.requests.unwrap_or(0.0) + count);
    let is_good = (200.0..300.0).contains(&status);
    let non2xx = if is_good { 0.0 } else { count };
    load.non2xx = Some(load.non2xx.unwrap_or(0.0) + non2xx);
}

/// Parses `0.0354 secs` or `35.67 ms`.
fn parse_duration_ns(text: &str) -> Option<f64> {
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

/// Reads oha's JSON. Adds messages for the user to `remarks`.
///
/// # Errors
/// Fails if the file is not JSON, or a value is missing or has the wrong type; the message names
/// its location.
pub fn read_oha(file: &InputFile<'_>, remarks: &mut Vec<String>) -> Result<Vec<Session>> {
    let parsed = json::parse(file.bytes)?;
    let root = JsonNode::from_root(&parsed);
    let summary = root.require("summary")?;
    let seconds = |node: &JsonNode<'_>, key: &str| -> Result<Option<f64>> {
        Ok(node.number_of(key)?.map(|seconds| seconds * NS_PER_SECOND))
    };
    let mut load = LoadReport {
        target: "oha".to_owned(),
        throughput: Some(summary.require("requestsPerSec")?.number()?),
        elapsed_ns: seconds(&summary, "total")?,
        errors: Some(0.0),
        ..LoadReport::default()
    };
    for (key, name) in [("average", "mean"), ("fastest", "min"), ("slowest", "max")] {
        let time = seconds(&summary, key)?;
        load.times_ns.extend(time.map(|ns| (format!("latency_{name}"), ns)));
    }
    let percentiles = root.require("latencyPercentiles")?;
    for (key, _) in percentiles.members() {
        if let (Some(percent), Some(ns)) = (key.strip_prefix('p'), seconds(&percentiles, key)?) {
            load.times_ns.push((percentile_metric(percent), ns));
        }
    }
    let statuses = root.require("statusCodeDistribution")?;
    for (status, count) in statuses.members() {
        if let (Ok(status), Some(count)) = (status.parse(), count.as_f64()) {
            count_responses(status, count, &mut load);
        }
    }
    let errors = root.require("errorDistribution")?;
    let counts = errors.members().filter_map(|(_, count)| count.as_f64());
    load.errors = Some(counts.fold(0.0, |sum, count| sum + count));
    load.into_sessions(file, remarks)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEY: &str = "\nSummary:\n  Total:\t0.0491 secs\n  Slowest:\t0.0142 secs\n  Fastest:\t0.0002 secs\n  \
                       Average:\t0.0023 secs\n  Requests/sec:\t800.0\n\nStatus code distribution:\n";

    #[test]
    fn the_rate_of_hey_counts_only_answered_requests() {
        let text = format!(
            "{HEY}  [200]\t30 responses\n\nError distribution:\n  [10]\tGet \"http://a/\": EOF\n\n"
        );
        let mut warnings = Vec::new();
        let file = InputFile::new("h", text.as_bytes());
        let session = read_hey_oha(&file, &mut warnings).unwrap().remove(0);
        let run = &session.runs[0];
        assert_eq!(run.value_of("requests_per_second"), Some(600.0));
        assert_eq!(run.value_of("http_errors"), Some(10.0));
        assert_eq!(run.samples[0].iterations, Some(30.0));
    }

    #[test]
    fn a_load_without_answers_is_a_failure_with_the_number_of_errors() {
        let text = format!("{HEY}\nError distribution:\n  [12]\tGet: EOF\n  [8]\tGet: refused\n\n");
        let mut warnings = Vec::new();
        let file = InputFile::new("h", text.as_bytes());
        let session = read_hey_oha(&file, &mut warnings).unwrap().remove(0);
        assert!(session.runs.is_empty());
        assert_eq!(session.failures[0].cause.to_string(), "no request was answered (20 errors)");
        assert_eq!(warnings, [""; 0]);
    }

    /// Output of autocannon 2.4, which names percentiles differently and states fewer facts.
    const AUTOCANNON_2: &str = r#"{"url":"http://127.0.0.1:18277/","requests":{"average":1476,"total":1476,"sent":1481},
        "latency":{"average":3.01,"min":0,"max":96.665785,"p50":0,"p75":4,"p90":7,"p99":27,"p999":95,"p9999":96},
        "throughput":{"average":184320,"total":187452},"errors":0,"timeouts":0,"duration":1,"connections":5,
        "pipelining":1,"non2xx":0,"2xx":1476}"#;

    #[test]
    fn json_of_older_versions_of_autocannon_is_read() {
        let bytes = AUTOCANNON_2.as_bytes();
        assert!(recognizes_autocannon(&JsonContent::new(bytes)));
        let file = InputFile::new("a", bytes);
        let session = read_autocannon(&file, &mut Vec::new()).unwrap().remove(0);
        let value = |metric: &str| session.runs[0].value_of(metric);
        assert_eq!(value("throughput"), Some(1476.0));
        assert_eq!(value("latency_p75"), Some(4e6));
        assert_eq!(value("latency_p99_9"), Some(95e6));
        assert_eq!(value("latency_p99_99"), Some(96e6));
    }
}
