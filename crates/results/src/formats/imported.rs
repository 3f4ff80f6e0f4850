//! The session that a file of another program becomes.
//!
//! Decides what such a session says of its design: one variant, an order that nobody knows. It
//! must not know any format. Start at [`Imported`].

use anyhow::{Result, ensure};
use speedwell_model::{
    Case, Cause, Design, Environment, Failure, Metric, Order, Run, Sample, Session, State, Step,
    Stopping, Variant,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The name of the only variant.
pub const VARIANT: &str = "default";

/// What every repetition of several in one process is told to the reader.
pub const NOTE_ON_REPETITIONS: &str = "Repetitions of one process are not independent.";

/// What is told of a file that has such repetitions.
pub const REMARK_ON_REPETITIONS: &str = "repetitions of one process are not independent; they \
    count as runs here, so differences look surer than they are";

/// What has been read of a file. Runs take their slots in the order in which they are added.
#[derive(Debug, Default)]
pub struct Imported {
    metrics: Vec<Metric>,
    /// Their names, as samples share them.
    names: Vec<Arc<str>>,
    /// Every case by its id, with the number of its runs.
    cases: HashMap<String, (Arc<Case>, u32)>,
    /// The name of the only variant, as runs share it.
    variant: Option<Arc<str>>,
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
        if let Some(known) = self.names.iter().find(|known| ***known == *metric.name) {
            return known.clone();
        }
        let name: Arc<str> = metric.name.as_str().into();
        self.names.push(name.clone());
        self.metrics.push(metric);
        name
    }

    /// The shared name of a metric that was made known before.
    pub fn known(&self, name: &str) -> Option<Arc<str>> {
        self.names.iter().find(|known| &***known == name).cloned()
    }

    /// Adds a run.
    pub fn run(&mut self, case: Case, process: Process) {
        let slot = self.next_slot();
        let known = self.cases.entry(case.id());
        let (case, count) = known.or_insert_with(|| (case.into(), 0));
        let block = *count;
        *count += 1;
        self.runs.push(Run {
            case: case.clone(),
            variant: self.variant.get_or_insert_with(|| VARIANT.into()).clone(),
            slot,
            block,
            started_unix_ms: 0,
            // A cast of floats saturates, so odd values in a file do no harm.
            wall_ns: process.wall_ns as u64,
            usage: None,
            samples: process.samples,
            notes: process.notes,
            load: None,
        });
    }

    /// The run added last.
    pub fn last(&mut self) -> Option<&mut Run> {
        self.runs.last_mut()
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

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.failures.is_empty()
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
        ensure!(!self.is_empty(), "there are no results in it");
        let session = Session {
            metrics: self.metrics,
            environment,
            runs: self.runs,
            failures: self.failures,
            ..empty_session(
                label,
                vec![Variant::plain(VARIANT)],
                self.cases.values().map(|(_, runs)| *runs).max(),
            )
        };
        Ok(Session {
            started_unix_ms: started_unix_ms.unwrap_or(session.started_unix_ms),
            ..session
        })
    }

    fn next_slot(&self) -> u32 {
        (self.runs.len() + self.failures.len()) as u32
    }
}

/// A session without results, begun now. The first variant is the baseline; no case has more than
/// `most_runs` runs under one of them.
pub fn empty_session(label: &str, variants: Vec<Variant>, most_runs: Option<u32>) -> Session {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let baseline = variants.first().map(|variant| variant.name.clone());
    Session {
        id: uuid::Uuid::now_v7().to_string(),
        number: None,
        started_unix_ms: now.as_millis() as i64,
        state: State::Imported,
        tags: Vec::new(),
        command: vec!["import".to_owned(), label.to_owned()],
        design: Design {
            order: Order::Imported,
            stopping: Stopping::Fixed {
                runs: most_runs.unwrap_or(1),
            },
            baseline: baseline.unwrap_or_default(),
            seed: 0,
            runs_per_block: 1,
            threshold: None,
            experiment: None,
            definitions: Vec::new(),
            conditions: Vec::new(),
        },
        variants,
        metrics: Vec::new(),
        environment: Environment::default(),
        runs: Vec::new(),
        failures: Vec::new(),
        profiles: Vec::new(),
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
