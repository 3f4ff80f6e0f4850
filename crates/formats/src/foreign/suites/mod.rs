//! Parses what one process of a benchmark framework writes. The frameworks are google/benchmark,
//! `go test`, criterion and the like, and any other that a table in the configuration describes.
//!
//! Decides only what the output means; the harness decides how processes are started and which
//! results are kept. Each submodule converts the output of one framework into [`ReportedResult`]s.

pub mod catch2;
pub mod configured;
pub mod jmh;
pub mod pytest_benchmark;
pub mod rust;
pub mod vitest;

use crate::foreign::json::JsonNode;
use crate::foreign::unit::MetricConversion;
use anyhow::{Result, anyhow, ensure};
use speedwell_model::{Case, FailureCause, Metric, ParameterValue, Sample};
use std::sync::Arc;

/// Result of one case, as its framework wrote it. A framework that repeats a case in one process
/// writes several results, and they are samples of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReportedResult {
    /// Name that selects the case on the framework's command line; `None` if the output does not
    /// state it, because one process measures one case.
    pub name: Option<String>,
    /// The case, if the reader can tell it from the output, for example because the output states
    /// parameters. `None` if only `name` identifies the case.
    pub case: Option<Case>,
    /// Metrics of the samples. Comparisons use the first one.
    pub metrics: Vec<Metric>,
    /// Samples. Times are in nanoseconds per iteration.
    pub samples: Vec<Sample>,
    /// Notes on the values, as whole sentences.
    pub notes: Vec<String>,
    /// The failure that the framework reported, or the reason why it skipped the case.
    pub cause: Option<FailureCause>,
    /// Other facts about the case. They may distinguish the case from other cases with the same
    /// name.
    pub details: Vec<(String, String)>,
}

impl ReportedResult {
    /// Creates an empty result for the case with that name.
    pub fn new(name: Option<String>) -> ReportedResult {
        ReportedResult { name, ..ReportedResult::default() }
    }

    /// Creates an empty result for `case`, which the framework calls `name`.
    pub fn of_case(name: impl Into<String>, case: Case) -> ReportedResult {
        ReportedResult { case: Some(case), ..ReportedResult::new(Some(name.into())) }
    }

    /// Adds a value that the framework wrote. `iterations` is the number of iterations over which
    /// the value is a mean, if known.
    ///
    /// # Errors
    /// Fails if the value is impossible: not finite, or a negative time or rate. The message does
    /// not say where in the output the value is.
    pub fn add_value(
        &mut self,
        measure: &MetricConversion,
        value: f64,
        iterations: Option<f64>,
    ) -> Result<()> {
        let metric = &measure.metric;
        let scaled = value * measure.factor;
        validate_value(metric, scaled)?;
        if self.metrics.iter().all(|existing| existing.name != metric.name) {
            self.metrics.push(metric.clone());
        }
        let iterations = iterations.filter(|_| metric.name == Metric::TIME);
        let elapsed_ns = iterations.map(|count| (count * scaled) as u64);
        let metric = Arc::from(metric.name.as_str());
        self.samples.push(Sample { metric, value: scaled, elapsed_ns, iterations });
        Ok(())
    }

    /// Returns the first error in samples that were added in bulk, without validation.
    pub fn find_fault(&self) -> Option<String> {
        self.samples.iter().find_map(|sample| {
            let metric = self.metrics.iter().find(|known| known.name == *sample.metric)?;
            let error = validate_value(metric, sample.value).err()?;
            Some(format!("'{}': {error}", metric.name))
        })
    }

    /// Adds a number from a JSON document.
    ///
    /// # Errors
    /// Fails if the value is not a number, or if [`ReportedResult::add_value`] fails; the message
    /// names the location.
    pub fn add_node(
        &mut self,
        measure: &MetricConversion,
        node: &JsonNode<'_>,
        iterations: Option<f64>,
    ) -> Result<()> {
        let location = node.location();
        ensure!(!node.is_null(), "'{location}' is not a finite number");
        self.add_value(measure, node.number()?, iterations)
            .map_err(|error| anyhow!("'{location}': {error}"))
    }
}

/// Parses a parameter value that a framework wrote as text. The result is a number or a boolean
/// only if formatting it gives the same text again; otherwise, it is a string.
pub fn typed_value(text: &str) -> ParameterValue {
    let guessed = ParameterValue::infer_value(text);
    if guessed.plain() == text { guessed } else { ParameterValue::Text(text.to_owned()) }
}

/// Rejects impossible values.
///
/// # Errors
/// Fails if the value is not finite, or is a negative time or rate.
pub fn validate_value(metric: &Metric, value: f64) -> Result<()> {
    ensure!(value.is_finite(), "{value} is not a finite number");
    let unit = metric.unit.as_str();
    let is_below_zero = value < 0.0 && ["ns", "1/s"].contains(&unit);
    ensure!(!is_below_zero, "{value} {unit} is below zero");
    Ok(())
}

/// Returns the first non-empty line, for messages about unreadable output.
pub fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    shorten_line(line.unwrap_or_default())
}

/// Shortens a line for a message.
pub fn shorten_line(line: &str) -> String {
    let line = line.trim();
    let cut = line.char_indices().nth(MAX_EXCERPT_CHARS);
    cut.map_or_else(|| line.to_owned(), |(end, _)| format!("{}...", &line[..end]))
}

/// Maximum length of a line quoted in a message.
const MAX_EXCERPT_CHARS: usize = 120;
