//! What one execution gave, and the rules by which it counts as failed.

use super::{Description, Job, Linking, Setting, Source};
use crate::compile::Failed;
use speedwell_model::{Case, Cause, Failure, Metric, Sample, Step, Surroundings, Usage};
use speedwell_process::{Ended, Outcome, Spec, replay};
use std::sync::Arc;

/// Lines of stderr kept with a failure.
const TAIL_LINES: usize = 20;

/// Larger figures are none: squares of them, which every variance needs, are no longer finite.
const LARGEST: f64 = 1e150;

/// One process, over: what it reported, what it cost, and why it failed if it did.
///
/// A process may report and fail: what it had measured is kept, and so is the failure.
#[derive(Debug, Clone, Default)]
pub struct Attempt {
    /// What was reported, in order.
    pub observations: Vec<Observation>,
    /// Why the execution counts as failed.
    pub failure: Option<Failure>,
    /// Whether the user ended it; then it counts as not executed.
    pub interrupted: bool,
    /// Start in milliseconds since the Unix epoch.
    pub started_unix_ms: i64,
    /// Life of the process.
    pub wall_ns: u64,
    /// Its resources.
    pub usage: Option<Usage>,
    /// What the machine did meanwhile, if that is not to be asked of the machine.
    pub surroundings: Option<Surroundings>,
    /// What it wrote on stdout, for `-v`.
    pub stdout: String,
    /// How its program was linked, where there are several builds.
    pub linking: Option<Linking>,
}

/// What was reported for one case.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// The case as the process named it.
    pub case: Case,
    /// Its values.
    pub samples: Vec<Sample>,
    /// The metrics that the values belong to.
    pub metrics: Vec<Metric>,
    /// Whole sentences about these values.
    pub notes: Vec<String>,
    /// The answer that the process computed, for comparison between variants.
    pub check: Option<String>,
    /// Everything known of an HTTP load that it was: see [`speedwell_model::Run::load`].
    pub load: Option<Arc<str>>,
}

impl Observation {
    /// Nothing of `case` yet; the first of these metrics is the one that is compared.
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

    /// Adds a figure that neither a time nor iterations belong to.
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

    /// Adds processor times per iteration, in nanoseconds, unless the benchmark reports such a metric itself.
    pub(crate) fn add_cpu_times(&mut self, times_ns: &[f64]) {
        let metric = Metric::cpu_time();
        if self.metrics.iter().all(|known| known.name != metric.name) {
            times_ns
                .iter()
                .for_each(|&value| self.add(metric.clone(), value));
        }
    }
}

/// A cause that is a sentence's fragment.
pub(crate) fn invalid(reason: impl Into<String>) -> Cause {
    Cause::Invalid {
        reason: reason.into(),
    }
}

impl Attempt {
    /// Starts the record of an ended process. `reported` is what is wrong with its report, if
    /// anything; how the process ended comes first, because it explains the rest.
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

    /// The record of a process that could not be started.
    pub(super) fn not_started(
        spec: &Spec,
        error: &std::io::Error,
        job: &Job,
        setting: &Setting<'_>,
    ) -> Attempt {
        let reason = start_reason(spec, error);
        Attempt::without_process(Cause::Start { reason }, spec, job, setting)
    }

    /// The record of a job that cannot be performed on this machine.
    pub(super) fn refused(spec: &Spec, reason: &str, job: &Job, setting: &Setting<'_>) -> Attempt {
        Attempt::without_process(invalid(reason), spec, job, setting)
    }

    /// The attempt of a program that was linked for its run.
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

/// What no measurement can give. Everything is looked at here, whoever reported it: a harness, a command, or a benchmark
/// that writes to the harness's line itself.
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

/// What a reader of the values should know about the end of their process.
fn remarks(outcome: &Outcome) -> Vec<String> {
    let mut remarks = Vec::new();
    if outcome.ended == Ended::Lingered {
        remarks.push("The process did not end after reporting and was ended.".to_owned());
    }
    remarks.extend(outcome.leftovers());
    remarks
}

/// Why a program could not be started, with its name.
pub(super) fn start_reason(spec: &Spec, error: &std::io::Error) -> String {
    format!("'{}': {error}", spec.program.display())
}

/// A failed execution.
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

/// A failed description.
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
    /// What it is reported as: the words for a file that was to be described, or a job that was to be performed.
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
