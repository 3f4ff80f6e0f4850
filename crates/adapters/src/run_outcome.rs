//! Defines what every harness does, builds the result of one execution from the events of its
//! process ([`observe_case`]), and decides whether the execution failed.
//!
//! A reported rate may be faulty ([`observe_rate`]): no value, NaN, infinity, zero or less, a number
//! as text, a count instead of a rate, and a load with failed requests. The tools of Node.js core
//! accept all of them.

use crate::compile::CompileFailure;
use crate::job::{
    BenchmarkDescription, BenchmarkJob, BenchmarkSource, DescribeRequest, RunContext,
};
use crate::layout::LinkRecord;
use crate::wire::{EventLog, ProtocolMessage};
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

/// Converts the events to the result of the job's case. Also returns what is wrong with the result,
/// if anything.
pub(super) fn observe_case(
    job: &BenchmarkJob,
    events: &EventLog,
) -> (Option<RunResult>, Option<FailureCause>) {
    let mut case = job.known_case();
    let results = events.events_of("timed").count() + events.events_of("once").count();
    if results > 1 {
        let reason = format!("reported {results} results for one run; expected one");
        return (None, Some(invalid_cause(reason)));
    }
    if let Some(timed) = events.first("timed") {
        return observe_timed(case, timed, events);
    }
    let Some(once) = events.first("once") else {
        return (None, Some(events.error_cause().unwrap_or(FailureCause::Silent)));
    };
    if let Some(tool) = once.get("tool").filter(|tool| !tool.is_empty()) {
        case.values.retain(|(name, _)| name != "benchmarker");
        case.values.push(("benchmarker".into(), ParameterValue::Text(tool)));
    }
    let rate = ReportedRate {
        rate: once.get("rate").map_or(serde_json::Value::Null, |text| {
            text.parse::<f64>().ok().and_then(serde_json::Number::from_f64).into()
        }),
        elapsed_ns: once.parse_number("elapsed_ns"),
        http: None,
    };
    let (mut result, fault) = observe_rate(case, &rate, job.test);
    for metric in events.events_of("metric") {
        add_metric(&mut result, metric);
    }
    let iterations = once.parse_number::<f64>("iterations").filter(|count| *count > 0.0);
    if let (Some(cpu_ns), Some(count)) = (once.parse_number::<u64>("cpu_ns"), iterations) {
        result.add_cpu_times(&[cpu_ns as f64 / count]);
    }
    result.check = events.first("check").and_then(|check| check.get("text"));
    let logs = events.events_of("log").filter_map(|log| log.get("text"));
    result.notes.extend(logs);
    let metric_value = |name| {
        let found = result.samples.iter().find(|sample| &*sample.metric == name);
        found.map_or(0.0, |sample| sample.value)
    };
    let failed_requests = metric_value("http_errors") + metric_value("http_non2xx");
    let failure = format!("had {failed_requests} failed requests, so the rate is invalid");
    let failure = (failed_requests > 0.0).then(|| invalid_cause(failure));
    (Some(result), events.error_cause().or(fault).or(failure))
}

/// Converts the samples of a loop that the harness controls. Each sample has a number of iterations
/// and a time.
fn observe_timed(
    case: Case,
    timed: &ProtocolMessage,
    events: &EventLog,
) -> (Option<RunResult>, Option<FailureCause>) {
    let mut result = RunResult {
        notes: events.first("ready").map(harness_warnings).unwrap_or_default(),
        check: events.first("check").and_then(|check| check.get("text")),
        ..RunResult::new(case, vec![Metric::throughput()])
    };
    let numbers = |key| -> Vec<u64> {
        let texts = timed.list(key);
        texts.iter().filter_map(|text| text.parse().ok()).collect()
    };
    let (times, counts, cpu_times) = (numbers("ns"), numbers("loop"), numbers("cpu_ns"));
    let workers = timed.parse_number::<f64>("workers").unwrap_or(1.0);
    let is_invalid = times.len() != timed.list("ns").len()
        || counts.is_empty()
        || !timed.list("cpu_ns").is_empty() && cpu_times.len() != times.len();
    let mut each_cpu_ns = Vec::new();
    let mut fault = is_invalid.then(|| invalid_cause("reported samples that are not numbers"));
    for (index, &elapsed_ns) in times.iter().enumerate() {
        // There is one count per sample, or a single count for all samples.
        let count = counts.get(index).or(counts.first()).copied().unwrap_or(0);
        let iterations = count as f64 * workers;
        if elapsed_ns == 0 || iterations == 0.0 {
            let reason = format!("reported {iterations} iterations in {elapsed_ns} ns");
            fault = fault.or(Some(invalid_cause(reason)));
            continue;
        }
        result.samples.push(Sample {
            metric: Arc::from(Metric::THROUGHPUT),
            value: iterations / elapsed_ns as f64 * 1e9,
            elapsed_ns: Some(elapsed_ns),
            iterations: Some(iterations),
        });
        let cpu_ns = cpu_times.get(index);
        each_cpu_ns.extend(cpu_ns.map(|&cpu_ns| cpu_ns as f64 / iterations));
    }
    for metric in events.events_of("metric") {
        add_metric(&mut result, metric);
    }
    result.add_cpu_times(&each_cpu_ns);
    let reference = Metric::new(Metric::REFERENCE_TIME, "ns", MetricDirection::Lower);
    for ns in numbers("reference_ns") {
        result.add_value(reference.clone(), ns as f64);
    }
    (Some(result), events.error_cause().or(fault))
}

/// Returns the warnings of the harness about distorted values, as whole sentences.
pub(super) fn harness_warnings(ready: &ProtocolMessage) -> Vec<String> {
    let keys = ready.keys().filter(|key| key.starts_with("warn"));
    keys.filter_map(|key| ready.get(key))
        .map(|text| format!("The harness warns: {}.", text.trim_end_matches('.')))
        .collect()
}

/// Creates a metric as a harness declares it. If no direction is declared, the unit implies it.
pub(super) fn declared_metric(name: &str, unit: &str, better: Option<&str>) -> Metric {
    let better = match better {
        Some("higher") => MetricDirection::Higher,
        Some("lower") => MetricDirection::Lower,
        _ => MetricDirection::of_unit(unit),
    };
    Metric::new(name, unit, better)
}

/// Adds the values of a `metric` event, which has one value for the run or one for each sample.
pub(super) fn add_metric(result: &mut RunResult, event: &ProtocolMessage) {
    let Some(name) = event.get("name") else {
        return;
    };
    let unit = event.get("unit").unwrap_or_default();
    let metric = declared_metric(&name, &unit, event.get("better").as_deref());
    let texts = event.list("value");
    for value in texts.iter().filter_map(|text| text.parse::<f64>().ok()) {
        result.add_value(metric.clone(), value);
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
    use crate::{BenchmarkSource, SourceKind};
    use serde_json::json;
    use speedwell_machine::process::ChildConversation;
    use std::path::Path;

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

    fn observe_lines(lines: &[&str]) -> (RunResult, Option<FailureCause>) {
        let mut events = EventLog::new([]);
        for line in lines {
            events.handle_line(line.as_bytes());
        }
        let root = Path::new("/");
        let source = BenchmarkSource::new(SourceKind::Cpp, Path::new("/g/b.cpp"), root, root);
        let job = BenchmarkJob::new(source, "g/b/x");
        let (result, fault) = observe_case(&job, &events);
        (result.expect("something was reported"), fault)
    }

    fn metric_values(result: &RunResult, metric: &str) -> Vec<f64> {
        let samples = result.samples.iter().filter(|s| &*s.metric == metric);
        samples.map(|sample| sample.value).collect()
    }

    #[test]
    fn samples_count_the_iterations_of_all_workers() {
        let (result, fault) = observe_lines(&[
            "ready\twarn0=compiled without optimisation",
            "timed\tjob=case\tns=1000,2000\tloop=500\tworkers=2",
            "metric\tname=bytes\tunit=B/s\tbetter=higher\tvalue=7,8.5",
            "end",
        ]);
        assert_eq!(metric_values(&result, "throughput"), [1e9, 0.5e9]);
        assert_eq!(result.samples[1].iterations, Some(1000.0));
        assert_eq!(metric_values(&result, "bytes"), [7.0, 8.5]);
        assert_eq!(result.notes, ["The harness warns: compiled without optimisation."]);
        assert_eq!((result.metrics.len(), fault), (2, None));
    }

    #[test]
    fn each_sample_may_have_its_own_number_of_iterations() {
        let (result, _) = observe_lines(&["timed\tns=1000,1000\tloop=1,3\tworkers=1"]);
        assert_eq!(metric_values(&result, "throughput"), [1e6, 3e6]);
    }

    #[test]
    fn processor_time_is_per_iteration_and_not_the_first_metric() {
        let (result, fault) =
            observe_lines(&["timed\tns=1000,2000\tloop=5\tworkers=2\tcpu_ns=500,800"]);
        assert_eq!(metric_values(&result, Metric::CPU_TIME), [50.0, 80.0]);
        assert_eq!((result.metrics[0].name.as_str(), fault), ("throughput", None));
        let once = "once\titerations=4\telapsed_ns=1000\trate=4e6\tcpu_ns=600";
        assert_eq!(metric_values(&observe_lines(&[once]).0, Metric::CPU_TIME), [150.0]);
        let own = "metric\tname=cpu_time\tunit=ns\tbetter=lower\tvalue=7";
        assert_eq!(metric_values(&observe_lines(&[once, own]).0, Metric::CPU_TIME), [7.0]);
    }

    #[test]
    fn samples_without_time_or_with_invalid_numbers_are_faults() {
        for line in [
            "timed\tns=0\tloop=9",
            "timed\tns=5\tloop=",
            "timed\tns=x\tloop=1",
            "timed\tns=5,6\tloop=1\tcpu_ns=5",
        ] {
            let (_, fault) = observe_lines(&[line]);
            assert!(matches!(fault, Some(FailureCause::Invalid { .. })), "{line}");
        }
    }
}
