//! What suites print of one process: google/benchmark, `go test`, criterion and the like, and suites that a table describes.
//!
//! Decides what the output of a suite means, and nothing else: who starts it, and which of its results were wanted, is
//! decided by the harness. Each reader is a function from bytes to [`Reported`]; a file has one of them.

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

/// A result of one case as its suite wrote it. A suite that repeats a case in one process writes several, which are
/// samples of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Reported {
    /// What the suite calls the case, as it is chosen on the command line; `None` where the output does not say, because
    /// one process measures one case.
    pub name: Option<String>,
    /// The case, where the name has parameters in it that the suite knows.
    pub case: Option<Case>,
    /// The metrics of the samples; the first one is compared.
    pub metrics: Vec<Metric>,
    /// The values: times in nanoseconds per iteration.
    pub samples: Vec<Sample>,
    /// Whole sentences about the values.
    pub notes: Vec<String>,
    /// What the suite says went wrong, or why it skipped the case.
    pub cause: Option<Cause>,
    /// What else the suite says of the case, that may tell it apart from another one of its name.
    pub details: Vec<(String, String)>,
}

impl Reported {
    /// Nothing of the case of that name yet.
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

    /// Adds a value of that measure, as the suite wrote it; of how many iterations it is the mean, if that is known.
    ///
    /// # Errors
    /// No measurement gives such a value: it is not finite, or a time or rate below zero. The message does not say where it stands.
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

    /// What is wrong with its samples, which were not added one by one.
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

    /// Adds the number at a place of a JSON text.
    ///
    /// # Errors
    /// It is none, or as for [`Reported::add`]; the message names the place.
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

/// A measure for nanoseconds per iteration.
pub fn nanoseconds() -> Measure {
    Measure::of_unit("ns")
}

/// A measure for seconds per iteration.
pub fn seconds() -> Measure {
    Measure::of_unit("s")
}

/// The value of a parameter that a suite wrote as text: of a kind of its own only if it is handed back as the same text.
pub fn alike(text: &str) -> Value {
    let guessed = Value::guess(text);
    if guessed.plain() == text {
        guessed
    } else {
        Value::Text(text.to_owned())
    }
}

/// Refuses what no measurement gives.
///
/// # Errors
/// The value is not finite, or a time or rate below zero.
pub fn check(metric: &Metric, value: f64) -> Result<()> {
    ensure!(value.is_finite(), "{value} is not a finite number");
    let unit = metric.unit.as_str();
    let is_below_zero = value < 0.0 && ["ns", "1/s"].contains(&unit);
    ensure!(!is_below_zero, "{value} {unit} is below zero");
    Ok(())
}

/// The first line that is not empty, for messages about output that cannot be read.
pub fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    excerpt(line.unwrap_or_default())
}

/// As much of a line as a message has room for.
pub fn excerpt(line: &str) -> String {
    let line = line.trim();
    match line.char_indices().nth(LONGEST_EXCERPT) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.to_owned(),
    }
}

/// Letters of a line that a message repeats.
const LONGEST_EXCERPT: usize = 120;
