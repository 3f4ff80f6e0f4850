//! Builds the result of one execution, and decides whether the execution failed.

use super::{BenchmarkDescription, BenchmarkJob, BenchmarkSource, LinkRecord, RunContext};
use crate::compile::CompileFailure;
use speedwell_machine::process::{ProcessEnd, ProcessOutcome, ProcessSpec, shell_line};
use speedwell_model::{
    Case, FailureCause, KernelStats, Metric, ResourceUsage, Sample, SessionStep, StepFailure,
};
use std::sync::Arc;

/// Lines of stderr kept with a failure.
const TAIL_LINES: usize = 20;

/// Largest accepted value. The square of a larger value might overflow, for example in a variance.
const MAX_VALUE: f64 = 1e150;

/// Outcome of one execution: the report and the resource usage of the process, if it was started,
/// and the reason for a failure.
///
/// If a process both reports and fails, its measurements are kept together with the failure.
#[derive(Debug, Clone, Default)]
pub struct RunOutcome {
    /// Reported results in order.
    pub observations: Vec<RunResult>,
    /// Why the execution counts as failed.
    pub failure: Option<StepFailure>,
    /// Whether the user interrupted the process. If so, the run counts as not executed.
    pub interrupted: bool,
    /// Start in milliseconds since the Unix epoch.
    pub started_unix_ms: i64,
    /// Lifetime of the process.
    pub wall_ns: u64,
    /// Resource usage of the process.
    pub usage: Option<ResourceUsage>,
    /// Kernel counters during the run, if it took place on another machine.
    pub kernel_stats: Option<KernelStats>,
    /// Captured stdout, for `-v`.
    pub stdout: String,
    /// How the program of the process was linked, if there are several builds.
    pub linking: Option<LinkRecord>,
}

/// Result reported for one case.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResult {
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

impl RunResult {
    /// Creates a result without samples. The first of the metrics is the one that is compared.
    pub(crate) fn new(case: Case, metrics: Vec<Metric>) -> RunResult {
        RunResult { case, samples: Vec::new(), metrics, notes: Vec::new(), check: None, load: None }
    }

    /// Adds a value that has neither an elapsed time nor a number of iterations.
    pub(crate) fn add_value(&mut self, metric: Metric, value: f64) {
        self.samples.push(Sample {
            metric: Arc::from(metric.name.as_str()),
            value,
            elapsed_ns: None,
            iterations: None,
        });
        if self.metrics.iter().all(|other| other.name != metric.name) {
            self.metrics.push(metric);
        }
    }

    /// Adds processor times per iteration, in nanoseconds, unless the benchmark reports this metric
    /// itself.
    pub(crate) fn add_cpu_times(&mut self, times_ns: &[f64]) {
        let metric = Metric::cpu_time();
        if self.metrics.iter().all(|other| other.name != metric.name) {
            times_ns.iter().for_each(|&value| self.add_value(metric.clone(), value));
        }
    }
}

/// Builds a cause from a sentence fragment.
pub(crate) fn invalid_cause(reason: impl Into<String>) -> FailureCause {
    FailureCause::Invalid { reason: reason.into() }
}

impl RunOutcome {
    /// Creates the result of a finished process. `report_fault` is the fault in its report, if any.
    /// The exit status takes precedence, because it explains a faulty report.
    pub(super) fn from_process(
        spec: &ProcessSpec,
        outcome: &ProcessOutcome,
        mut observations: Vec<RunResult>,
        report_fault: Option<FailureCause>,
        job: &BenchmarkJob,
        setting: &RunContext<'_>,
    ) -> RunOutcome {
        let find_impossible = || observations.iter().find_map(find_impossible_value);
        let cause = outcome.failure_cause(spec.limit).or(report_fault).or_else(find_impossible);
        for result in &mut observations {
            result.notes.extend(exit_notes(outcome));
        }
        RunOutcome {
            observations,
            failure: cause.map(|cause| {
                run_failure(cause, outcome.stderr.last_lines(TAIL_LINES), spec, job, setting)
            }),
            interrupted: outcome.ended == ProcessEnd::Interrupted,
            started_unix_ms: outcome.started_unix_ms,
            wall_ns: outcome.wall_ns,
            usage: Some(outcome.usage),
            stdout: outcome.stdout.text(),
            ..RunOutcome::default()
        }
    }

    /// Creates the result of a process that could not be started.
    pub(super) fn start_failed(
        spec: &ProcessSpec,
        error: &std::io::Error,
        job: &BenchmarkJob,
        setting: &RunContext<'_>,
    ) -> RunOutcome {
        let reason = start_reason(spec, error);
        RunOutcome::without_process(FailureCause::Start { reason }, spec, job, setting)
    }

    /// Creates the result of a job that was not started, because it cannot be performed.
    pub(super) fn unsupported(
        spec: &ProcessSpec,
        reason: &str,
        job: &BenchmarkJob,
        setting: &RunContext<'_>,
    ) -> RunOutcome {
        RunOutcome::without_process(invalid_cause(reason), spec, job, setting)
    }

    /// Adds the record of how the program was linked for this run.
    pub(super) fn with_linking(mut self, linking: Option<LinkRecord>) -> RunOutcome {
        let note = linking.as_ref().and_then(LinkRecord::coarse_note);
        for result in &mut self.observations {
            result.notes.extend(note.clone());
        }
        self.linking = linking;
        self
    }

    fn without_process(
        cause: FailureCause,
        spec: &ProcessSpec,
        job: &BenchmarkJob,
        setting: &RunContext<'_>,
    ) -> RunOutcome {
        let failure = run_failure(cause, String::new(), spec, job, setting);
        RunOutcome { failure: Some(failure), ..RunOutcome::default() }
    }
}

/// Rejects values that no measurement can produce. All results are checked here, whether they come
/// from a harness, a command, or a benchmark that writes to the harness channel itself.
fn find_impossible_value(result: &RunResult) -> Option<FailureCause> {
    let reason = result.samples.iter().find_map(|sample| {
        let (name, value) = (&sample.metric, sample.value);
        let metric = result.metrics.iter().find(|metric| metric.name == **name);
        let is_time = metric.is_some_and(|metric| metric.unit == "ns");
        if !value.is_finite() || value.abs() > MAX_VALUE {
            return Some(format!("reported the impossible value {value:e} for '{name}'"));
        }
        (is_time && value < 0.0)
            .then(|| format!("reported a negative time for '{name}': {value} ns"))
    })?;
    Some(invalid_cause(reason))
}

/// Notes on how the process ended.
fn exit_notes(outcome: &ProcessOutcome) -> Vec<String> {
    let mut remarks = Vec::new();
    if outcome.ended == ProcessEnd::Lingered {
        remarks.push("The process did not exit after reporting and was stopped.".to_owned());
    }
    remarks.extend(outcome.describe_leftovers());
    remarks
}

/// Explains why a program could not be started. The explanation contains the program's name.
pub(super) fn start_reason(spec: &ProcessSpec, error: &std::io::Error) -> String {
    format!("'{}': {error}", spec.program.display())
}

/// Builds the failure of an execution.
pub(super) fn run_failure(
    cause: FailureCause,
    stderr_tail: String,
    spec: &ProcessSpec,
    job: &BenchmarkJob,
    setting: &RunContext<'_>,
) -> StepFailure {
    StepFailure {
        step: SessionStep::Run,
        benchmark: job.source.name.clone(),
        case: Some(job.label.clone()),
        variant: Some(setting.variant.name.clone()),
        slot: Some(setting.slot),
        cause,
        stderr_tail,
        replay: shell_line(spec),
    }
}

/// Builds a description that records why describing the source failed.
pub(super) fn description_failure(
    source: &BenchmarkSource,
    cause: FailureCause,
    spec: &ProcessSpec,
    outcome: Option<&ProcessOutcome>,
) -> BenchmarkDescription {
    let failure = StepFailure {
        step: SessionStep::Describe,
        benchmark: source.name.clone(),
        case: None,
        variant: None,
        slot: None,
        cause,
        stderr_tail: outcome.map(|o| o.stderr.last_lines(TAIL_LINES)).unwrap_or_default(),
        replay: shell_line(spec),
    };
    BenchmarkDescription { failure: Some(failure), ..BenchmarkDescription::default() }
}

impl CompileFailure {
    /// Converts the failed compilation to a failure of the step that needed it: performing `run`
    /// or, if `run` is `None`, describing the file.
    pub fn into_failure(
        self,
        source: &BenchmarkSource,
        run: Option<(&BenchmarkJob, &RunContext<'_>)>,
    ) -> StepFailure {
        StepFailure {
            step: if run.is_some() { SessionStep::Run } else { SessionStep::Describe },
            benchmark: source.name.clone(),
            case: run.map(|(job, _)| job.label.clone()),
            variant: run.map(|(_, setting)| setting.variant.name.clone()),
            slot: run.map(|(_, setting)| setting.slot),
            cause: self.cause,
            stderr_tail: self.output,
            replay: self.replay,
        }
    }
}
