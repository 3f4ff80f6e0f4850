//! Defines what every harness does, builds the result of one execution, and decides whether the
//! execution failed.
//!
//! A reported rate may be faulty ([`observe_rate`]): no value, NaN, infinity, zero or less, a number
//! as text, a count instead of a rate, and a load with failed requests. The tools of Node.js core
//! accept all of them.

use crate::compile::CompileFailure;
use crate::job::{
    BenchmarkDescription, BenchmarkJob, BenchmarkSource, DescribeRequest, RunContext,
};
use crate::layout::LinkRecord;
use serde_json::Value as Json;
use speedwell_machine::process::{ProcessEnd, ProcessOutcome, ProcessSpec, shell_line};
use speedwell_model::{
    Case, FailureCause, KernelStats, Metric, MetricDirection, ParameterValue, ResourceUsage,
    Sample, SessionStep, StepFailure,
};
use std::path::PathBuf;
use std::sync::Arc;

/// Describes and performs benchmarks of one language or framework.
pub trait LanguageHarness: Sync {
    /// Finds the cases of a file without measuring anything.
    fn describe_source(&self, request: &DescribeRequest) -> BenchmarkDescription;

    /// Executes one job in a fresh process.
    fn perform_job(&self, job: &BenchmarkJob, setting: &RunContext<'_>) -> RunOutcome;

    /// Builds in advance what [`LanguageHarness::perform_job`] needs. Before several runs start at
    /// the same time, this is called for each run in turn. Failures are reported when the job is
    /// performed.
    fn prepare_job(&self, _job: &BenchmarkJob, _setting: &RunContext<'_>) {}

    /// Returns the program to start for variants that do not name one.
    fn default_program(&self, source: &BenchmarkSource) -> PathBuf;

    /// Whether a variant's program may be queried for its version. A benchmark program might
    /// interpret this query as a command to measure.
    fn has_version(&self, _source: &BenchmarkSource) -> bool {
        true
    }

    /// Whether the harness divides a run into samples as `--samples`, `--time`, `--iterations` and
    /// `--warmup` request.
    fn divides_runs(&self) -> bool {
        false
    }

    /// Whether the harness can record a series from the first iteration on.
    fn records_series(&self) -> bool {
        self.divides_runs()
    }
}

/// Lines of stderr kept with a failure.
const TAIL_LINES: usize = 20;

/// Largest accepted value. The square of a larger value might overflow, for example in a variance.
const MAX_VALUE: f64 = 1e150;

/// Outcome of one execution: the report and the resource usage of the process, if it was started,
/// and the reason for a failure.
///
/// If a process reports results but then fails, its measurements are kept together with the
/// failure.
#[derive(Debug, Clone, Default)]
pub struct RunOutcome {
    /// Reported results in order.
    pub observations: Vec<RunResult>,
    /// The reason, if the execution failed.
    pub failure: Option<StepFailure>,
    /// Whether the user interrupted the process. If so, the run is treated as if it had not been
    /// executed.
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

/// Builds a failure cause. `reason` is a sentence fragment, such as "reported no finite rate".
pub(crate) fn invalid_cause(reason: impl Into<String>) -> FailureCause {
    FailureCause::Invalid { reason: reason.into() }
}

impl RunOutcome {
    /// Creates the result of a finished process. `report_fault` is the fault in its report, if any.
    /// The exit status takes precedence, because it explains a faulty report.
    pub(super) fn from_process(
        spec: &ProcessSpec,
        outcome: &ProcessOutcome,
        results: impl IntoIterator<Item = RunResult>,
        report_fault: Option<FailureCause>,
        job: &BenchmarkJob,
        setting: &RunContext<'_>,
    ) -> RunOutcome {
        let mut observations: Vec<RunResult> = results.into_iter().collect();
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
    let tail = outcome.map(|o| o.stderr.last_lines(TAIL_LINES)).unwrap_or_default();
    let failure =
        StepFailure { replay: shell_line(spec), ..describing_failure(source, cause, tail) };
    BenchmarkDescription { failure: Some(failure), ..BenchmarkDescription::default() }
}

/// Builds the failure of a description, without the command that repeats it.
pub(super) fn describing_failure(
    source: &BenchmarkSource,
    cause: FailureCause,
    stderr_tail: String,
) -> StepFailure {
    StepFailure {
        step: SessionStep::Describe,
        benchmark: source.name.clone(),
        case: None,
        variant: None,
        slot: None,
        cause,
        stderr_tail,
        replay: String::new(),
    }
}

impl CompileFailure {
    /// Converts the failed compilation to a description that records why describing the source
    /// failed.
    pub(crate) fn into_description(self, source: &BenchmarkSource) -> BenchmarkDescription {
        BenchmarkDescription {
            failure: Some(StepFailure {
                replay: self.replay,
                ..describing_failure(source, self.cause, self.output)
            }),
            ..BenchmarkDescription::default()
        }
    }

    /// Converts the failed compilation to the outcome of a run that needed the program.
    pub(crate) fn into_outcome(self, job: &BenchmarkJob, setting: &RunContext<'_>) -> RunOutcome {
        let spec = ProcessSpec::new(&setting.program);
        let failure = run_failure(self.cause, self.output, &spec, job, setting);
        RunOutcome {
            interrupted: self.interrupted,
            failure: Some(StepFailure { replay: self.replay, ..failure }),
            ..RunOutcome::default()
        }
    }
}

/// Metric that holds the value as reported, if the rate had to be corrected.
pub const REPORTED_METRIC: &str = "reported";

/// One reported rate.
#[derive(Debug, Clone, Default)]
pub struct ReportedRate {
    /// The rate as received: a number, text, or nothing usable.
    pub rate: Json,
    /// Length of the measured section, if it could be read.
    pub elapsed_ns: Option<u64>,
    /// Further results of the HTTP tool, if the harness kept them.
    pub http: Option<Json>,
}

/// Converts `rate` to an observation of `case`. In a trial (`test`), implausible rates such as zero
/// are accepted, because no conclusion is drawn from them.
pub fn observe_rate(
    case: Case,
    rate: &ReportedRate,
    test: bool,
) -> (RunResult, Option<FailureCause>) {
    let mut result = RunResult::new(case, vec![Metric::throughput()]);
    let value = match parse_rate(&rate.rate, &mut result.notes) {
        Ok(value) => value,
        Err(reason) => return (result, Some(invalid_cause(reason))),
    };
    if !test && let Some(reason) = find_implausible(value) {
        return (result, Some(invalid_cause(reason)));
    }
    let value = correct_rate(value, rate, &mut result);
    let iterations = rate.elapsed_ns.map(|elapsed_ns| value * elapsed_ns as f64 / 1e9);
    result.samples.insert(
        0,
        Sample {
            metric: Arc::from(Metric::THROUGHPUT),
            value,
            elapsed_ns: rate.elapsed_ns,
            iterations: iterations.map(f64::round).filter(|count| count.is_finite()),
        },
    );
    let cause = rate.http.as_ref().and_then(|http| add_http_metrics(http, &mut result));
    (result, cause)
}

/// Parses seconds, given as decimal text (`"0.003686740"`) or as a number, with nanosecond
/// precision.
pub fn parse_elapsed_ns(time: &Json) -> Option<u64> {
    let text = match time {
        Json::String(text) => text.clone(),
        Json::Number(number) => format!("{:.9}", number.as_f64()?),
        _ => return None,
    };
    let (seconds, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let digits: String = fraction.chars().chain(std::iter::repeat('0')).take(9).collect();
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(digits.parse().ok()?)
}

fn parse_rate(rate: &Json, notes: &mut Vec<String>) -> Result<f64, String> {
    match rate {
        Json::Number(number) => number.as_f64().ok_or_else(|| "reported no finite rate".to_owned()),
        Json::String(text) => match text.trim().parse::<f64>() {
            Ok(value) => {
                notes.push("The rate was reported as text and converted to a number.".to_owned());
                Ok(value)
            }
            Err(_) => Err(format!("reported the rate '{text}', which is not a number")),
        },
        Json::Null => Err("reported no rate (null, which also stands for NaN)".to_owned()),
        other => Err(format!("reported the rate {other}, which is not a number")),
    }
}

fn find_implausible(value: f64) -> Option<String> {
    if value.is_nan() || value.is_infinite() || value == f64::MAX {
        Some(format!("reported the impossible rate {value:e}"))
    } else if value <= 0.0 {
        Some(format!("reported the rate {value}; expected a rate above zero"))
    } else {
        None
    }
}

/// Corrects the rate of `test-double`, the stand-in for an HTTP tool in Node.js. The stand-in
/// reports the number of requests, but its callers print this number as a rate. This function
/// divides the number by the time, and keeps the reported value as a second metric.
fn correct_rate(value: f64, rate: &ReportedRate, result: &mut RunResult) -> f64 {
    let tool = result.case.value("benchmarker").map(ParameterValue::plain).unwrap_or_default();
    if !tool.starts_with("test-double") {
        return value;
    }
    let reported_seconds = rate.http.as_ref().and_then(|http| http["seconds"].as_f64());
    let Some(seconds) =
        reported_seconds.or(rate.elapsed_ns.map(|ns| ns as f64 / 1e9)).filter(|s| *s > 0.0)
    else {
        return value;
    };
    result.notes.push(format!(
        "The test double reported a count of {value} requests; the rate is this count divided by \
         the measured time of {seconds} s."
    ));
    result.add_value(Metric::new(REPORTED_METRIC, "", MetricDirection::Higher), value);
    value / seconds
}

/// Adds latency and error counts. A load with failed requests does not measure the server.
fn add_http_metrics(http: &Json, result: &mut RunResult) -> Option<FailureCause> {
    let mut add = |name: &str, unit: &str, value: Option<f64>| {
        let metric = Metric::new(name, unit, MetricDirection::Lower);
        if let Some(value) = value {
            result.add_value(metric, value);
        }
    };
    for name in ["mean", "p50", "p75", "p90", "p99", "max"] {
        let ms = http["latency_ms"][name].as_f64();
        add(&format!("latency_{name}"), "ns", ms.map(|ms| ms * 1e6));
    }
    let errors = http["errors"].as_f64();
    let non2xx = http["non2xx"].as_f64();
    add("http_errors", "", errors);
    add("http_non2xx", "", non2xx);
    let failed_requests = errors.unwrap_or(0.0) + non2xx.unwrap_or(0.0);
    (failed_requests > 0.0).then(|| {
        invalid_cause(format!(
            "{failed_requests} requests failed ({} errors, {} responses other than 2xx), so the rate is invalid",
            errors.unwrap_or(0.0),
            non2xx.unwrap_or(0.0)
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rate(rate: Json) -> ReportedRate {
        ReportedRate { rate, elapsed_ns: Some(2_000_000_000), http: None }
    }

    fn case(tool: &str) -> Case {
        let value = speedwell_model::ParameterValue::Text(tool.into());
        Case::new("http/simple.js", vec![("benchmarker".into(), value)])
    }

    #[test]
    fn elapsed_seconds_are_parsed_to_the_nanosecond() {
        assert_eq!(parse_elapsed_ns(&json!("0.003686740")), Some(3_686_740));
        assert_eq!(parse_elapsed_ns(&json!("12.5")), Some(12_500_000_000));
        assert_eq!(parse_elapsed_ns(&json!(1.5)), Some(1_500_000_000));
        assert_eq!(parse_elapsed_ns(&json!("x")), None);
    }

    #[test]
    fn a_figure_as_text_is_converted_and_noted() {
        let (result, cause) = observe_rate(case("h2load"), &rate(json!("549.52")), false);
        assert_eq!((result.samples[0].value, cause), (549.52, None));
        assert_eq!(result.notes.len(), 1);
    }

    #[test]
    fn impossible_rates_are_failures() {
        for value in [json!(null), json!(0), json!(-1.0), json!(f64::MAX), json!("abc"), json!([])]
        {
            let (_, cause) = observe_rate(case("wrk"), &rate(value.clone()), false);
            assert!(matches!(cause, Some(FailureCause::Invalid { .. })), "{value}");
        }
        assert_eq!(
            observe_rate(case("wrk"), &rate(json!(0)), true).1,
            None,
            "a trial may report 0"
        );
    }

    #[test]
    fn the_count_of_a_test_double_is_converted_to_a_rate() {
        let (result, _) = observe_rate(case("test-double-http"), &rate(json!(2473)), false);
        assert_eq!(result.samples[0].value, 1236.5);
        assert_eq!(
            (&*result.samples[1].metric, result.samples[1].value),
            (REPORTED_METRIC, 2473.0)
        );
    }

    #[test]
    fn failed_requests_fail_a_load_but_keep_its_latencies() {
        let mut rate = rate(json!(1000.0));
        rate.http = Some(json!({"tool": "wrk", "errors": 3, "latency_ms": {"p99": 4.2}}));
        let (result, cause) = observe_rate(case("wrk"), &rate, false);
        assert!(cause.unwrap().to_string().contains("3 requests failed"));
        assert!(result.samples.iter().any(|s| &*s.metric == "latency_p99" && s.value == 4.2e6));
    }
}
