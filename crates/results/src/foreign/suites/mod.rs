//! What suites print of one process: google/benchmark, `go test`, criterion and the like, and suites that a table describes.
//!
//! Decides what the output of a suite means, and nothing else: who starts it, and which of its results were wanted, is
//! decided by the harness. Each reader is a function from bytes to [`Reported`]; a file has one of them.

pub mod catch2;
pub mod criterion;
pub mod divan;
pub mod go_bench;
pub mod google_benchmark;
pub mod jmh;
pub mod json_path;
pub mod libtest;
pub mod lines;
pub mod pytest_benchmark;
pub mod vitest;

use crate::foreign::unit::Measure;
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
        }
    }

    /// Adds a value of that measure, as the suite wrote it; of how many iterations it is the mean, if that is known.
    pub fn add(&mut self, measure: &Measure, value: f64, iterations: Option<f64>) {
        let value = value * measure.factor;
        let metric = &measure.metric;
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

/// The first line that is not empty, for messages about output that cannot be read.
pub fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    line.unwrap_or_default().chars().take(120).collect()
}
