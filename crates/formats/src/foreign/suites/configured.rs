//! Parses output whose format is described by a table in the configuration. The output is JSON or
//! text. In JSON, the results are at a path such as `results[*]`, and each result has samples and
//! may have a name. In text, every line that matches a pattern is a sample; lines with the same
//! name belong to one result.
//!
//! A path consists of keys separated by dots; `[*]` after a key selects every element of its list.
//! This module knows nothing about particular frameworks. Start at [`ResultPaths::read`] and
//! [`read_lines`].

use super::{ReportedResult, first_line, shorten_line};
use crate::foreign::json::{self, JsonNode};
use crate::foreign::require_utf8;
use crate::foreign::unit::MetricConversion;
use anyhow::{Context, Result, bail};
use regex::Regex;
use serde_json::Value;
use speedwell_model::MetricDirection;

/// Paths to the results in a JSON document and to the parts of each result.
#[derive(Debug, Clone, Copy)]
pub struct ResultPaths<'a> {
    /// Path to the results; empty for the whole document.
    pub results: &'a str,
    /// Path from a result to its name; `None` if each process writes a single result.
    pub name: Option<&'a str>,
    /// Path from a result to a number or a list of numbers.
    pub samples: &'a str,
    /// Unit of the samples.
    pub unit: &'a str,
    /// Direction of the metric, if the unit does not imply it.
    pub better: Option<MetricDirection>,
}

impl ResultPaths<'_> {
    /// Reads a whole document.
    ///
    /// # Errors
    /// Fails if the document is not JSON, or has an unexpected value at a path; the message names
    /// the location.
    pub fn read(&self, bytes: &[u8]) -> Result<Vec<ReportedResult>> {
        let parsed = json::parse(bytes)?;
        let results = follow_path(JsonNode::from_root(&parsed), self.results)?;
        let read = |result: &JsonNode<'_>| self.read_result(result);
        results.iter().map(read).collect()
    }

    fn read_result(&self, result: &JsonNode<'_>) -> Result<ReportedResult> {
        let name = match self.name {
            Some(path) => Some(follow_to_single(result, path)?.text()?.to_owned()),
            None => None,
        };
        let mut reported = ReportedResult::new(name);
        let measure = unit_measure(self.unit, self.better);
        for node in follow_path(result.clone(), self.samples)? {
            let values = match node.value() {
                Value::Array(_) => node.elements()?,
                _ => vec![node],
            };
            for value in values {
                reported.add_node(&measure, &value, None)?;
            }
        }
        Ok(reported)
    }
}

/// Returns the metric and the conversion factor of a unit. `better`, if given, replaces the
/// direction that the unit implies.
pub fn unit_measure(unit: &str, better: Option<MetricDirection>) -> MetricConversion {
    let mut measure = MetricConversion::from_unit(unit);
    measure.metric.better = better.unwrap_or(measure.metric.better);
    measure
}

fn follow_path<'a>(from: JsonNode<'a>, path: &str) -> Result<Vec<JsonNode<'a>>> {
    let mut nodes = vec![from];
    for step in path.split('.').filter(|step| !step.is_empty()) {
        let (key, takes_all) = step.strip_suffix("[*]").map_or((step, false), |key| (key, true));
        let mut next = Vec::new();
        for node in nodes {
            let node = if key.is_empty() { node } else { node.require(key)? };
            if takes_all {
                next.extend(node.elements()?);
            } else {
                next.push(node);
            }
        }
        nodes = next;
    }
    Ok(nodes)
}

fn follow_to_single<'a>(from: &JsonNode<'a>, path: &str) -> Result<JsonNode<'a>> {
    let mut nodes = follow_path(from.clone(), path)?;
    match (nodes.pop(), nodes.is_empty()) {
        (Some(only), true) => Ok(only),
        (None, _) => bail!("no value at '{path}' in '{}'", from.location()),
        (Some(_), false) => bail!("several values at '{path}' in '{}'", from.location()),
    }
}

/// Parses the lines that match `pattern`, and ignores other lines. The group `value` of the pattern
/// is a sample; the optional groups `name` and `unit` are the name of the result and the unit of
/// the sample. The argument `unit` applies to lines without a unit.
///
/// # Errors
/// Fails if the text is not UTF-8, no line matches, or a value is not a number.
pub fn read_lines(
    bytes: &[u8],
    pattern: &Regex,
    unit: &str,
    better: Option<MetricDirection>,
) -> Result<Vec<ReportedResult>> {
    let text = require_utf8(bytes)?;
    let mut reported: Vec<ReportedResult> = Vec::new();
    for (line, line_number) in text.lines().zip(1..) {
        let Some(groups) = pattern.captures(line) else { continue };
        let group = |name: &str| groups.name(name).map(|group| group.as_str());
        let value = group("value").unwrap_or_default();
        // The value may contain commas that separate thousands: 1,000.
        let number: f64 = (value.replace(',', "").parse()).ok().with_context(|| {
            format!("line {line_number}: '{}' is not a number", shorten_line(value))
        })?;
        let measure = unit_measure(group("unit").unwrap_or(unit), better);
        let name = group("name").map(str::to_owned);
        let existing = reported.iter().position(|existing| existing.name == name);
        let index = existing.unwrap_or_else(|| {
            reported.push(ReportedResult::new(name));
            reported.len() - 1
        });
        (reported[index].add_value(&measure, number, None))
            .with_context(|| format!("line {line_number}"))?;
    }
    if reported.is_empty() {
        bail!("no line matches '{}'; the first line is '{}'", pattern.as_str(), first_line(text));
    }
    Ok(reported)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: ResultPaths<'_> = ResultPaths {
        results: "results[*]",
        name: Some("name"),
        samples: "times",
        unit: "us",
        better: None,
    };

    #[test]
    fn results_are_found_at_their_paths_and_times_become_nanoseconds() {
        let read = PATHS
            .read(br#"{"results": [{"name": "a", "times": [1, 2.5]}, {"name": "b", "times": 3}]}"#);
        let values = |reported: &ReportedResult| -> Vec<f64> {
            reported.samples.iter().map(|sample| sample.value).collect()
        };
        let read = read.unwrap();
        assert_eq!(read[0].name.as_deref(), Some("a"));
        assert_eq!(values(&read[0]), [1000.0, 2500.0]);
        assert_eq!(values(&read[1]), [3000.0]);
        assert_eq!(read[0].metrics[0].unit, "ns");
    }

    #[test]
    fn a_document_may_be_one_result_with_a_configured_direction() {
        let paths = ResultPaths {
            results: "",
            name: None,
            samples: "deep[*].rate",
            unit: "rounds",
            better: Some(MetricDirection::Higher),
        };
        let read = paths.read(br#"{"deep": [{"rate": 1}, {"rate": 2}]}"#).unwrap();
        assert_eq!((read[0].name.clone(), read[0].samples.len()), (None, 2));
        assert_eq!(read[0].metrics[0].better, MetricDirection::Higher);
    }

    #[test]
    fn missing_or_invalid_values_are_reported_with_their_path() {
        let error_message = |text: &str| PATHS.read(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(error_message(r#"{"result": []}"#), "the key 'results' is missing");
        assert_eq!(error_message(r#"{"results": 3}"#), "'results' is 3, not an array");
        assert!(
            error_message(r#"{"results": [{"name": 3, "times": []}]}"#).contains("not a string")
        );
        let nan = error_message(r#"{"results": [{"name": "a", "times": [NaN]}]}"#);
        assert_eq!(nan, "'results[0].times[0]' is not a finite number");
        assert!(error_message(r#"{"results": [{"#).contains("cut short"));
        assert!(error_message(r#"{"results": []} {"results": []}"#).contains("trailing"));
    }
}

#[cfg(test)]
mod line_tests {
    use super::*;

    #[test]
    fn matching_lines_with_the_same_name_are_samples_of_one_result() {
        let pattern = Regex::new(r"^(?P<name>\w+): (?P<value>[\d,.]+) (?P<unit>\S+)$").unwrap();
        let read = |text: &str| read_lines(text.as_bytes(), &pattern, "ns", None);
        let found = read("hello\na: 1,500 us\nb: 2 ops/s\na: 1.25 ms\n").unwrap();
        let values: Vec<f64> = found[0].samples.iter().map(|sample| sample.value).collect();
        assert_eq!(values, [1.5e6, 1.25e6]);
        assert_eq!(found[1].metrics[0].better, MetricDirection::Higher);
        let message = read("\n  nothing here\n").unwrap_err().to_string();
        assert!(message.ends_with("the first line is 'nothing here'"), "{message}");
        assert!(read("a: 1.2.3 us").is_err());
    }
}
