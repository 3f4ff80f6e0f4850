//! Parses pytest-benchmark JSON (`--benchmark-json`), with the time of every round or, if the file
//! lacks these times, their median.

use super::ReportedResult;
use crate::foreign::json::{self, JsonNode};
use crate::foreign::unit::MetricConversion;
use anyhow::{Result, ensure};

/// Parses the JSON that one process writes. The name of a result selects the test within its file:
/// `TestB::test_c[1-x]`.
///
/// # Errors
/// Fails if the bytes are not JSON, or a value is missing or of the wrong type; the message names
/// the location.
pub fn read(bytes: &[u8]) -> Result<Vec<ReportedResult>> {
    let parsed = json::parse(bytes)?;
    let benchmarks = JsonNode::from_root(&parsed).require("benchmarks")?.elements()?;
    benchmarks.iter().map(read_benchmark).collect()
}

/// Parses an element of `benchmarks`.
///
/// # Errors
/// See [`read`].
pub fn read_benchmark(benchmark: &JsonNode<'_>) -> Result<ReportedResult> {
    let node = benchmark.require("fullname")?.text()?;
    let (file, name) = node.split_once("::").unwrap_or(("", node));
    let mut reported = ReportedResult {
        details: read_details(file, benchmark),
        ..ReportedResult::new(Some(name.to_owned()))
    };
    let stats = benchmark.require("stats")?;
    let iterations = stats.require("iterations")?;
    let count = iterations.number()?;
    ensure!(count >= 1.0, "'{}' is {count}: expected at least 1", iterations.location());
    // Files stored by pytest-benchmark itself (--benchmark-save) contain the rounds only on
    // request.
    match (stats.get("data"), stats.get("median")) {
        (None, Some(median)) => {
            reported.add_node(&MetricConversion::from_unit("s"), &median, None)?;
            let rounds = stats.number_of("rounds")?.unwrap_or_default();
            reported.notes.push(format!(
                "This is the median of {rounds} rounds, which are not in the file (--benchmark-save-data keeps them)."
            ));
        }
        _ => {
            for round in stats.require("data")?.elements()? {
                reported.add_node(&MetricConversion::from_unit("s"), &round, Some(count))?;
            }
        }
    }
    Ok(reported)
}

/// Returns the file of a test, its group, and what the test itself adds (`benchmark.extra_info`).
fn read_details(file: &str, benchmark: &JsonNode<'_>) -> Vec<(String, String)> {
    let group = benchmark.text_of("group").ok().flatten();
    let mut details = vec![("file".to_owned(), file.to_owned())];
    details.extend(group.map(|group| ("group".to_owned(), group.to_owned())));
    let extra = benchmark.get("extra_info");
    for (key, value) in extra.iter().flat_map(JsonNode::members) {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        details.push((key.to_owned(), text));
    }
    details
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_samples_and_test_names_omit_the_file() {
        let text = r#"{"benchmarks":[{"fullname":"tests/test_a.py::TestB::test_c[1-x]","stats":{"iterations":10,"data":[1e-6,2e-6]}}]}"#;
        let read = read(text.as_bytes()).unwrap().remove(0);
        assert_eq!(read.name.as_deref(), Some("TestB::test_c[1-x]"));
        let values: Vec<_> = (read.samples.iter())
            .map(|sample| (sample.value, sample.iterations, sample.elapsed_ns))
            .collect();
        assert_eq!(
            values,
            [(1000.0, Some(10.0), Some(10_000)), (2000.0, Some(10.0), Some(20_000))]
        );
    }

    #[test]
    fn a_test_without_stored_rounds_has_their_median() {
        let text = r#"{"benchmarks":[{"fullname":"a.py::b","stats":{"iterations":1,"rounds":7,"median":3e-6}}]}"#;
        let read = read(text.as_bytes()).unwrap().remove(0);
        assert_eq!((read.samples.len(), read.samples[0].value), (1, 3000.0));
        assert!(read.notes[0].starts_with("This is the median of 7 rounds"));
    }

    #[test]
    fn invalid_files_are_refused_with_the_reason() {
        let error_message = |stats: &str| {
            let text = format!(r#"{{"benchmarks":[{{"fullname":"a::b","stats":{stats}}}]}}"#);
            read(text.as_bytes()).unwrap_err().to_string()
        };
        assert!(error_message(r#"{"iterations":1}"#).contains("data"));
        assert!(error_message(r#"{"iterations":0,"data":[]}"#).contains("expected at least 1"));
        let nan = error_message(r#"{"iterations":1,"data":[NaN]}"#);
        assert_eq!(nan, "'benchmarks[0].stats.data[0]' is not a finite number");
        assert!(read(br#"{"benchmarks":["#).unwrap_err().to_string().contains("cut short"));
        assert!(read(b"{} {}").is_err());
    }
}
