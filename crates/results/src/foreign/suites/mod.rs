//! Parses the output of benchmark frameworks for one process: google/benchmark, `go test`,
//! criterion and the like, and frameworks described by a table.
//!
//! Decides only what the output means; the harness decides who starts a process and which results
//! were wanted. Each reader is a function from bytes to [`Reported`], one per file.

pub mod catch2;
pub mod criterion;
pub mod described;
pub mod divan;
pub mod go_bench;
pub mod google_benchmark;
pub mod jmh;
pub mod libtest;
pub mod pytest_benchmark;
pub mod vitest;

use crate::foreign::json::Node;
use crate::foreign::unit::Measure;
use anyhow::{Result, anyhow, ensure};
use speedwell_model::{Case, Cause, Metric, Sample, Value};
use std::sync::Arc;

/// Result of one case as written by its framework. A framework that repeats a case in one process
/// writes several, which are samples of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Reported {
    /// Name that selects the case on the framework's command line; `None` if the output does not
    /// state it, because one process measures one case.
    pub name: Option<String>,
    /// The case, if the name contains parameters that the framework knows.
    pub case: Option<Case>,
    /// Metrics of the samples; the first one is compared.
    pub metrics: Vec<Metric>,
    /// Values; times in nanoseconds per iteration.
    pub samples: Vec<Sample>,
    /// Notes on the values, as whole sentences.
    pub notes: Vec<String>,
    /// Failure reported by the framework, or why it skipped the case.
    pub cause: Option<Cause>,
    /// Other facts about the case, which may distinguish it from others with the same name.
    pub details: Vec<(String, String)>,
}

impl Reported {
    /// Creates an empty result for the case with that name.
    pub fn new(name: Option<String>) -> Reported {
        Reported {
            name,
            case: None,
            metrics: Vec::new(),
            samples: Vec::new(),
            notes: Vec::new(),
            cause: None,
            details: Vec::new(),
        }
    }

    /// Adds a value as written by the framework, with the number of iterations it is the mean of,
    /// if known.
    ///
    /// # Errors
    /// The value is impossible: not finite, or a negative time or rate. The message does not name
    /// its location.
    pub fn add(&mut self, measure: &Measure, value: f64, iterations: Option<f64>) -> Result<()> {
        let metric = &measure.metric;
        let value = value * measure.factor;
        check(metric, value)?;
        if self.metrics.iter().all(|known| known.name != metric.name) {
            self.metrics.push(metric.clone());
        }
        let is_time = metric.name == Metric::TIME;
        let iterations = iterations.filter(|_| is_time);
        self.samples.push(Sample {
            metric: Arc::from(metric.name.as_str()),
            value,
            elapsed_ns: iterations.map(|count| (count * value) as u64),
            iterations,
        });
        Ok(())
    }

    /// Returns what is wrong with samples that were not added individually, if anything.
    pub fn fault(&self) -> Option<String> {
        self.samples.iter().find_map(|sample| {
            let metric = self
                .metrics
                .iter()
                .find(|known| known.name == *sample.metric)?;
            let error = check(metric, sample.value).err()?;
            Some(format!("'{}': {error}", metric.name))
        })
    }

    /// Adds a number from a JSON document.
    ///
    /// # Errors
    /// The value is not a number, or as for [`Reported::add`]; the message names the location.
    pub fn add_node(
        &mut self,
        measure: &Measure,
        node: &Node<'_>,
        iterations: Option<f64>,
    ) -> Result<()> {
        let place = node.place();
        ensure!(!node.is_null(), "'{place}' is not a finite number");
        self.add(measure, node.number()?, iterations)
            .map_err(|error| anyhow!("'{place}': {error}"))
    }
}

/// Returns a measure for nanoseconds per iteration.
pub fn nanoseconds() -> Measure {
    Measure::of_unit("ns")
}

/// Returns a measure for seconds per iteration.
pub fn seconds() -> Measure {
    Measure::of_unit("s")
}

/// Parses a parameter value that a framework wrote as text. It is typed only if it formats back to
/// the same text.
pub fn alike(text: &str) -> Value {
    let guessed = Value::guess(text);
    if guessed.plain() == text {
        guessed
    } else {
        Value::Text(text.to_owned())
    }
}

/// Rejects impossible values.
///
/// # Errors
/// The value is not finite, or a negative time or rate.
pub fn check(metric: &Metric, value: f64) -> Result<()> {
    ensure!(value.is_finite(), "{value} is not a finite number");
    let unit = metric.unit.as_str();
    let is_below_zero = value < 0.0 && ["ns", "1/s"].contains(&unit);
    ensure!(!is_below_zero, "{value} {unit} is below zero");
    Ok(())
}

/// Returns the first non-empty line, for messages about unreadable output.
pub fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    excerpt(line.unwrap_or_default())
}

/// Shortens a line for a message.
pub fn excerpt(line: &str) -> String {
    let line = line.trim();
    match line.char_indices().nth(LONGEST_EXCERPT) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.to_owned(),
    }
}

/// Maximum length of a line quoted in a message.
const LONGEST_EXCERPT: usize = 120;
