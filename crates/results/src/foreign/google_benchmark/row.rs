//! One row of `benchmarks`: a repetition, or an aggregate of several.
//!
//! Decides what a row stands for and what its figures are. It must not know other rows; how it is
//! spelled is known to `members`.

use super::counter::{CPU_TIME, REAL_TIME};
use speedwell_model::{Cause, Metric, Sample};
use std::sync::Arc;

/// Ends of the names of aggregates.
const ENDS: [&str; 6] = ["_mean", "_median", "_stddev", "_cv", "_BigO", "_RMS"];

/// What a row is.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// One repetition.
    Iteration,
    /// A figure over several repetitions, with its name: `median`.
    Aggregate(String),
    /// Files before version 1.5 of the library do not say.
    Unsaid,
}

/// One row.
#[derive(Debug)]
pub struct Row {
    /// The benchmark's name with arguments and thread number, without the aggregate's.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Over all threads; of an aggregate the number of repetitions.
    pub iterations: Option<f64>,
    /// Number of threads.
    pub threads: f64,
    /// Per iteration.
    pub real_ns: Option<f64>,
    /// Per iteration.
    pub cpu_ns: Option<f64>,
    /// Counters in the order of the file.
    pub counters: Vec<(String, f64)>,
    /// Of a fit over all arguments of a family (BigO and RMS): its figures.
    pub fit: Vec<(Metric, f64)>,
    /// How the time of a family grows: `NlgN`.
    pub big_o: Option<String>,
    pub(super) error: Option<String>,
    pub(super) skipped: Option<String>,
    pub(super) label: Option<String>,
}

impl Row {
    /// Whether it is said to be a figure over several repetitions.
    pub fn is_aggregate(&self) -> bool {
        matches!(self.kind, Kind::Aggregate(_)) || !self.fit.is_empty()
    }

    /// Whether it is the aggregate of that name, and has a time.
    pub fn is_centre(&self, name: &str) -> bool {
        self.real_ns.is_some() && self.kind == Kind::Aggregate(name.to_owned())
    }

    /// The name without the end that an aggregate's has.
    pub fn base(&self) -> Option<&str> {
        ENDS.iter().find_map(|end| self.name.strip_suffix(end))
    }

    /// Why it has no result, if it has none.
    pub fn cause(&self) -> Option<Cause> {
        let invalid = |reason: &str| Cause::Invalid {
            reason: reason.to_owned(),
        };
        match (&self.error, &self.skipped) {
            (Some(message), _) => Some(invalid(message)),
            (None, Some(reason)) => Some(Cause::Skipped {
                reason: reason.clone(),
            }),
            (None, None) if self.real_ns.is_none() => Some(invalid("there is no real_time")),
            (None, None) => None,
        }
    }

    /// Its times and counters. `metric` makes a name known that occurs, and gives it back.
    pub fn samples(&self, mut metric: impl FnMut(&str) -> Arc<str>) -> Vec<Sample> {
        let iterations = self.iterations.filter(|_| !self.is_aggregate());
        let elapsed_ns = self.elapsed_ns();
        let times = [
            (REAL_TIME, self.real_ns, elapsed_ns),
            (CPU_TIME, self.cpu_ns, None),
        ];
        let mut samples = Vec::with_capacity(times.len() + self.counters.len());
        for (name, value, elapsed_ns) in times {
            samples.extend(value.map(|value| Sample {
                metric: metric(name),
                value,
                elapsed_ns,
                iterations,
            }));
        }
        samples.extend(self.counters.iter().map(|(name, value)| Sample {
            metric: metric(name),
            value: *value,
            elapsed_ns: None,
            iterations: None,
        }));
        samples
    }

    /// Whether an iteration took more than a tenth longer than its CPU time: then the machine was
    /// busy or the code waits, and wall time says little of the code. `None` where the two times are
    /// not meant to be alike, with several threads or a clock of the benchmark's own.
    pub fn waits(&self) -> Option<bool> {
        let comparable = self.threads <= 1.0 && !self.name.contains("/manual_time");
        let (real_ns, cpu_ns) = self.real_ns.zip(self.cpu_ns).filter(|_| comparable)?;
        Some(real_ns > 1.1 * cpu_ns)
    }

    /// Length of the measured section. With several threads the row does not tell whether their
    /// iterations overlapped.
    pub fn elapsed_ns(&self) -> Option<u64> {
        let iterations = self.iterations.filter(|_| !self.is_aggregate());
        iterations
            .zip(self.real_ns)
            .filter(|_| self.threads <= 1.0)
            .map(|(iterations, each)| (iterations * each) as u64)
    }

    /// Remarks on its figures.
    pub fn notes(&self) -> Vec<String> {
        let label = self
            .label
            .iter()
            .map(|label| format!("Its label is '{label}'."));
        let aggregate = match &self.kind {
            Kind::Aggregate(name) => Some(format!(
                "This is the {name} of {} repetitions, which are not in the file.",
                self.iterations
                    .map_or("some".to_owned(), |count| count.to_string())
            )),
            _ => None,
        };
        label.chain(aggregate).collect()
    }
}
