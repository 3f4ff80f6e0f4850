//! The session that a file of another program becomes.
//!
//! Decides what such a session says of its design: one variant, an order that nobody knows. It
//! must not know any format. Start at [`Imported`].

use crate::model::{
    Case, Cause, Design, Environment, Failure, Metric, Order, Run, Sample, Session, State, Step,
    Stopping, Variant,
};
use anyhow::{Result, ensure};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The name of the only variant.
pub const VARIANT: &str = "default";

/// What is said of every run that is one of several repetitions inside one process.
pub const NOTE_ON_REPETITIONS: &str = "Repetitions of one process are not independent.";

/// What has been read of a file. Runs take their slots in the order in which they are added.
#[derive(Debug, Default)]
pub struct Imported {
    metrics: Vec<Metric>,
    cases: HashMap<String, Arc<Case>>,
    /// How many runs there are of each case.
    counts: HashMap<String, u32>,
    runs: Vec<Run>,
    failures: Vec<Failure>,
}

/// One process as the file tells of it.
#[derive(Debug, Default)]
pub struct Process {
    /// How long it lived, at least.
    pub wall_ns: f64,
    /// What it measured.
    pub samples: Vec<Sample>,
    /// Remarks.
    pub notes: Vec<String>,
}

impl Imported {
    /// Makes a metric known; the first one is the primary one. Gives its name for samples.
    pub fn metric(&mut self, metric: Metric) -> Arc<str> {
        let name = metric.name.as_str().into();
        if !self.metrics.iter().any(|known| known.name == metric.name) {
            self.metrics.push(metric);
        }
        name
    }

    /// Adds a run.
    pub fn run(&mut self, case: Case, process: Process) {
        let count = self.counts.entry(case.id()).or_default();
        let block = *count;
        *count += 1;
        let slot = self.next_slot();
        self.runs.push(Run {
            case: self.cases.entry(case.id()).or_insert(case.into()).clone(),
            variant: VARIANT.into(),
            slot,
            block,
            started_unix_ms: 0,
            // A cast of floats saturates, so odd values in a file do no harm.
            wall_ns: process.wall_ns as u64,
            usage: None,
            samples: process.samples,
            notes: process.notes,
        });
    }

    /// Adds a run that gave nothing. `replay` repeats it, as far as the file tells.
    pub fn failure(&mut self, case: &Case, cause: Cause, replay: String) {
        self.failures.push(Failure {
            step: Step::Run,
            benchmark: case.benchmark.clone(),
            case: Some(case.id()),
            variant: Some(VARIANT.to_owned()),
            slot: Some(self.next_slot()),
            cause,
            stderr_tail: String::new(),
            replay,
        });
    }

    /// All of it as a session. `label` is what the user calls the file; `started_unix_ms` is when
    /// it was measured, else now is taken.
    ///
    /// # Errors
    /// Nothing was added.
    pub fn into_session(
        self,
        label: &str,
        environment: Environment,
        started_unix_ms: Option<i64>,
    ) -> Result<Session> {
        ensure!(
            !self.runs.is_empty() || !self.failures.is_empty(),
            "there are no results in it"
        );
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Ok(Session {
            id: uuid::Uuid::now_v7().to_string(),
            number: None,
            started_unix_ms: started_unix_ms.unwrap_or(now.as_millis() as i64),
            state: State::Imported,
            tags: Vec::new(),
            command: vec!["import".to_owned(), label.to_owned()],
            design: Design {
                order: Order::Imported,
                stopping: Stopping::Fixed {
                    runs: self.counts.values().copied().max().unwrap_or(1),
                },
                baseline: VARIANT.to_owned(),
                seed: 0,
                runs_per_block: 1,
                threshold: None,
            },
            variants: vec![Variant::plain(VARIANT)],
            metrics: self.metrics,
            environment,
            runs: self.runs,
            failures: self.failures,
        })
    }

    fn next_slot(&self) -> u32 {
        (self.runs.len() + self.failures.len()) as u32
    }
}

/// A value with no further circumstances.
pub fn sample(metric: &Arc<str>, value: f64) -> Sample {
    Sample {
        metric: metric.clone(),
        value,
        elapsed_ns: None,
        iterations: None,
    }
}
