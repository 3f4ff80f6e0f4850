//! Result of one execution, and the rules that decide whether it failed.

use super::{Description, Job, Linking, Setting, Source};
use crate::compile::Failed;
use speedwell_model::{Case, Cause, Failure, Metric, Sample, Step, Surroundings, Usage};
use speedwell_process::{Ended, Outcome, Spec, replay};
use std::sync::Arc;

/// Lines of stderr kept with a failure.
const TAIL_LINES: usize = 20;

/// Larger values are rejected: their squares, which a variance needs, are not finite.
const LARGEST: f64 = 1e150;

/// One finished process: what it reported, what it cost, and why it failed, if it did.
///
/// A process may both report and fail; then its measurements are kept together with the failure.
#[derive(Debug, Clone, Default)]
pub struct Attempt {
    /// Reported results in order.
    pub observations: Vec<Observation>,
    /// Why the execution counts as failed.
    pub failure: Option<Failure>,
    /// Whether the user interrupted it; then it counts as not executed.
    pub interrupted: bool,
    /// Start in milliseconds since the Unix epoch.
    pub started_unix_ms: i64,
    /// Lifetime of the process.
    pub wall_ns: u64,
    /// Resource usage of the process.
    pub usage: Option<Usage>,
    /// Kernel counters during the run, if they are not to be read from this machine.
    pub surroundings: Option<Surroundings>,
    /// Captured stdout, for `-v`.
    pub stdout: String,
    /// How its program was linked, if there are several builds.
    pub linking: Option<Linking>,
}

/// Result reported for one case.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// The case as named by the process.
    pub case: Case,
    /// Measured values.
    pub samples: Vec<Sample>,
    /// Metrics of the values.
    pub metrics: Vec<Metric>,
    /// Notes on these values, as whole sentences.
    pub notes: Vec<String>,
    /// Checksum computed by the process, compared between variants.
    pub check: Option<String>,
    /// Details of an HTTP load; see [`speedwell_model::Run::load`].
    pub load: Option<Arc<str>>,
}

impl Observation {
    /// Creates an observation without samples; the first of the metrics is the one compared.
    pub(crate) fn new(case: Case, metrics: Vec<Metric>) -> Observation {
        Observation {
            case,
            samples: Vec::new(),
            metrics,
            notes: Vec::new(),
            check: None,
            load: None,
        }
    }

    /// Adds a value without elapsed time and iterations.
    pub(crate) fn add(&mut self, metric: Metric, value: f64) {
        self.samples.push(Sample {
            metric: Arc::from(metric.name.as_str()),
            value,
            elapsed_ns: None,
            iterations: None,
        });
        if self.metrics.iter().all(|known| known.name != metric.name) {
            self.metrics.push(metric);
        }
    }

    /// Adds processor times per iteration, in nanoseconds, unless the benchmark reports this metric
    /// itself.
    pub(crate) fn add_cpu_times(&mut self, times_ns: &[f64]) {
        let metric = Metric::cpu_time();
        if self.metrics.iter().all(|known| known.name != metric.name) {
            times_ns
                .iter()
                .for_each(|&value| self.add(metric.clone(), value));
        }
    }
}

/// Builds a cause from a sentence fragment.
pub(crate) fn invalid(reason: impl Into<String>) -> Cause {
    Cause::Invalid {
        reason: reason.into(),
    }
}

impl Attempt {
    /// Creates the result of a finished process. `reported` is the fault in its report, if any; the
    /// exit status takes precedence, because it explains the rest.
    pub(super) fn new(
        spec: &Spec,
        outcome: &Outcome,
        mut observations: Vec<Observation>,
        reported: Option<Cause>,
        job: &Job,
        setting: &Setting<'_>,
    ) -> Attempt {
        let impossible = || observations.iter().find_map(impossible);
        let cause = outcome.cause(spec.limit).or(reported).or_else(impossible);
        for seen in &mut observations {
            seen.notes.extend(remarks(outcome));
        }
        Attempt {
            observations,
            failure: cause.map(|cause| {
                failure(
                    cause,
                    outcome.stderr.last_lines(TAIL_LINES),
                    spec,
                    job,
                    setting,
                )
            }),
            interrupted: outcome.ended == Ended::Interrupted,
            started_unix_ms: outcome.started_unix_ms,
            wall_ns: outcome.wall_ns,
            usage: Some(outcome.usage),
            stdout: outcome.stdout.text(),
            ..Attempt::default()
        }
    }

    /// Creates the result of a process that could not be started.
    pub(super) fn not_started(
        spec: &Spec,
        error: &std::io::Error,
        job: &Job,
        setting: &Setting<'_>,
    ) -> Attempt {
        let reason = start_reason(spec, error);
        Attempt::without_process(Cause::Start { reason }, spec, job, setting)
    }

    /// Creates the result of a job that cannot be performed on this machine.
    pub(super) fn refused(spec: &Spec, reason: &str, job: &Job, setting: &Setting<'_>) -> Attempt {
        Attempt::without_process(invalid(reason), spec, job, setting)
    }

    /// Adds how the program was linked for its run.
    pub(super) fn linked(mut self, linking: Option<Linking>) -> Attempt {
        let note = linking.as_ref().and_then(Linking::note);
        for seen in &mut self.observations {
            seen.notes.extend(note.clone());
        }
        self.linking = linking;
        self
    }

    fn without_process(cause: Cause, spec: &Spec, job: &Job, setting: &Setting<'_>) -> Attempt {
        let failure = failure(cause, String::new(), spec, job, setting);
        Attempt {
            failure: Some(failure),
            ..Attempt::default()
        }
    }
}

/// Rejects values that no measurement can produce. Checks every source here: a harness, a command,
/// or a benchmark that writes to the harness channel itself.
fn impossible(seen: &Observation) -> Option<Cause> {
    let reason = seen.samples.iter().find_map(|sample| {
        let (name, value) = (&sample.metric, sample.value);
        let metric = seen.metrics.iter().find(|metric| metric.name == **name);
        let is_time = metric.is_some_and(|metric| metric.unit == "ns");
        if !value.is_finite() || value.abs() > LARGEST {
            return Some(format!(
                "reported the impossible figure {value:e} for '{name}'"
            ));
        }
        (is_time && value < 0.0)
            .then(|| format!("reported {value} ns for '{name}', but no time is below zero"))
    })?;
    Some(invalid(reason))
}

/// Notes on how the process ended.
fn remarks(outcome: &Outcome) -> Vec<String> {
    let mut remarks = Vec::new();
    if outcome.ended == Ended::Lingered {
        remarks.push("The process did not end after reporting and was ended.".to_owned());
    }
    remarks.extend(outcome.leftovers());
    remarks
}

/// Explains why a program could not be started, including its name.
pub(super) fn start_reason(spec: &Spec, error: &std::io::Error) -> String {
    format!("'{}': {error}", spec.program.display())
}

/// Builds the failure of an execution.
pub(super) fn failure(
    cause: Cause,
    stderr_tail: String,
    spec: &Spec,
    job: &Job,
    setting: &Setting<'_>,
) -> Failure {
    Failure {
        step: Step::Run,
        benchmark: job.source.name.clone(),
        case: Some(job.label.clone()),
        variant: Some(setting.variant.name.clone()),
        slot: Some(setting.slot),
        cause,
        stderr_tail,
        replay: replay(spec),
    }
}

/// Builds the failure of a description.
pub(super) fn not_described(
    source: &Source,
    cause: Cause,
    spec: &Spec,
    outcome: Option<&Outcome>,
) -> Description {
    let failure = Failure {
        step: Step::Describe,
        benchmark: source.name.clone(),
        case: None,
        variant: None,
        slot: None,
        cause,
        stderr_tail: outcome
            .map(|o| o.stderr.last_lines(TAIL_LINES))
            .unwrap_or_default(),
        replay: replay(spec),
    };
    Description {
        failure: Some(failure),
        ..Description::default()
    }
}

impl Failed {
    /// Converts to a failure of describing a file, or of performing the given job.
    pub fn failure(self, source: &Source, of: Option<(&Job, &Setting<'_>)>) -> Failure {
        Failure {
            step: if of.is_some() {
                Step::Run
            } else {
                Step::Describe
            },
            benchmark: source.name.clone(),
            case: of.map(|(job, _)| job.label.clone()),
            variant: of.map(|(_, setting)| setting.variant.name.clone()),
            slot: of.map(|(_, setting)| setting.slot),
            cause: self.cause,
            stderr_tail: self.output,
            replay: self.replay,
        }
    }
}
