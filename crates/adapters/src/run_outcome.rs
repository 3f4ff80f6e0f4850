//! Asks a child for its cases ([`describe_file`]), has it perform one ([`perform_case`]), and decides
//! how its report becomes the outcome of a run ([`observe_case`], [`RunOutcome::from_process`]).
//!
//! This module decides, for all languages that speak the harness protocol
//! (docs/reference/protocol.md), which commands are sent and what the events mean. The harness of a
//! language decides how its process is started, and which command a user would type to repeat the
//! execution. All commands are known before the process starts, so they are all sent up front and
//! the process never waits for a command. `wire.rs` formats the messages, `reported_values.rs` judges
//! the values that a process computed itself, and `counting.rs` counts instructions.

use crate::cache::{self, DescriptionInputs, DescriptionOrigin};
use crate::failure::{HarnessFailure, converse};
use crate::job::{
    BenchmarkDescription, BenchmarkJob, BenchmarkSource, DeclaredParameter, DescribeRequest,
    RunContext, SourceKind, StartMode, TrialMode,
};
use crate::layout::LinkRecord;
use crate::reported_values::{
    ReportedRate, RunResult, check_lifetime, find_impossible_value, observe_rate,
};
use crate::wire::{EventLog, ProtocolMessage};
use speedwell_machine::process::{ProcessEnd, ProcessOutcome, ProcessSpec};
use speedwell_model::{
    Case, FailureCause, KernelStats, Metric, MetricDirection, ParameterValue, ResourceUsage, Run,
    SampleDivision, SampleLength, SessionStep, SteadyRule, StepFailure, ValueKind, VariantWorktree,
};
use std::fs;
use std::path::Path;

/// Describes and performs benchmarks of one language or framework.
pub trait LanguageHarness: Sync {
    /// Finds the cases of a file without measuring anything.
    ///
    /// # Errors
    /// Returns why there are no cases.
    fn describe_source(&self, _request: &DescribeRequest) -> DescribeResult {
        // Snippets do not describe themselves: the caller creates their jobs.
        Ok(BenchmarkDescription::default())
    }

    /// Executes the job of the run in a fresh process.
    ///
    /// # Errors
    /// Returns why the job was not executed.
    fn perform_job(&self, setting: &RunContext<'_>) -> Result<RunOutcome, HarnessFailure>;

    /// Builds in advance what [`LanguageHarness::perform_job`] needs. Before several runs start at
    /// the same time, this is called for each run in turn. Failures are reported when the job is
    /// performed.
    fn prepare_job(&self, _setting: &RunContext<'_>) {}
}

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

impl RunOutcome {
    /// Creates the result of a finished process. `report_fault` is the fault in its report, if any.
    /// The exit status takes precedence, because it explains a faulty report.
    pub(super) fn from_process(
        replay: &ProcessSpec,
        outcome: &ProcessOutcome,
        results: impl IntoIterator<Item = RunResult>,
        report_fault: Option<FailureCause>,
        setting: &RunContext<'_>,
    ) -> RunOutcome {
        let mut observations: Vec<RunResult> = results.into_iter().collect();
        let find_impossible = || observations.iter().find_map(find_impossible_value);
        let cause = outcome.failure_cause(replay.limit).or(report_fault).or_else(find_impossible);
        let remark = "The process did not exit after reporting and was stopped.".to_owned();
        let lingered = (outcome.ended == ProcessEnd::Lingered).then_some(remark);
        let notes: Vec<String> = lingered.into_iter().chain(outcome.describe_leftovers()).collect();
        observations.iter_mut().for_each(|result| result.notes.extend_from_slice(&notes));
        let failure = cause.map(|cause| HarnessFailure::of_process(cause, outcome));
        RunOutcome {
            observations,
            failure: failure.map(|failure| failure.with_replay(replay).in_run(setting)),
            interrupted: outcome.ended == ProcessEnd::Interrupted,
            started_unix_ms: outcome.started_unix_ms,
            wall_ns: outcome.wall_ns,
            usage: Some(outcome.usage),
            stdout: outcome.stdout.text(),
            ..RunOutcome::default()
        }
    }

    /// Creates the outcome of a run whose job was not executed.
    pub(super) fn from_failure(failure: HarnessFailure, setting: &RunContext<'_>) -> RunOutcome {
        RunOutcome {
            interrupted: failure.interrupted,
            failure: Some(failure.in_run(setting)),
            ..RunOutcome::default()
        }
    }

    /// Attributes the outcome of a variant's own job to the case that the variants share.
    #[must_use]
    pub fn attributed_to(mut self, job: &BenchmarkJob) -> RunOutcome {
        if let (Some(case), false) = (&job.case, job.sides.is_empty()) {
            self.observations.iter_mut().for_each(|result| result.case = case.clone());
            self.failure.iter_mut().for_each(|failure| failure.case = Some(job.label.clone()));
        }
        self
    }

    /// Adds the record of how the program was linked for this run.
    pub(super) fn with_linking(mut self, linking: Option<LinkRecord>) -> RunOutcome {
        let note = linking.as_ref().and_then(LinkRecord::coarse_note);
        self.observations.iter_mut().for_each(|result| result.notes.extend(note.clone()));
        self.linking = linking;
        self
    }
}

/// A description of a source, or why there is none.
pub type DescribeResult = Result<BenchmarkDescription, HarnessFailure>;

impl HarnessFailure {
    /// Converts to the failure of a run.
    pub(super) fn in_run(self, setting: &RunContext<'_>) -> StepFailure {
        StepFailure {
            step: SessionStep::Run,
            case: Some(setting.job.label.clone()),
            variant: Some(setting.variant.name.clone()),
            slot: Some(setting.slot),
            ..self.in_description(&setting.job.source)
        }
    }

    /// Converts to the failure of a description.
    pub(super) fn in_description(self, source: &BenchmarkSource) -> StepFailure {
        StepFailure {
            step: SessionStep::Describe,
            benchmark: source.name.clone(),
            case: None,
            variant: None,
            slot: None,
            cause: self.cause,
            stderr_tail: self.output,
            replay: self.replay,
        }
    }
}

/// Asks the process of `spec` for the cases of a file. Each case becomes a job: a copy of `draft`,
/// completed with what the file reports about the case. `plain` is the command with which a user
/// can repeat a failure.
pub(super) fn describe_file(
    request: &DescribeRequest,
    spec: &ProcessSpec,
    plain: &ProcessSpec,
    draft: &BenchmarkJob,
) -> DescribeResult {
    let source = &request.source;
    let spec = ProcessSpec { limit: request.limit, ..spec.clone() };
    let is_trial = request.selection.trial != TrialMode::No;
    let message = ProtocolMessage::new("describe")
        .with("id", 2)
        .with("path", source.file.display())
        .with("root", source.root.display())
        .with_list("args", &request.assignments())
        .with_some("test", is_trial.then_some(1));
    let mut events = EventLog::new([message]);
    let outcome = cache::ask_cached(&spec, plain, &mut events, dependencies_in)?;
    let process_cause = || outcome.as_ref()?.failure_cause(spec.limit);
    let Some(cause) = events.error_cause().or_else(process_cause) else {
        return Ok(to_description(request, &events, draft));
    };
    let failure = match &outcome {
        Some(outcome) => HarnessFailure::of_process(cause, outcome),
        None => cause.into(),
    };
    Err(failure.with_replay(plain))
}

/// Extracts the dependencies of a description from the last event, if the language reports them.
fn dependencies_in(line: &[u8]) -> Option<DescriptionOrigin> {
    let described = ProtocolMessage::parse(line).filter(|message| message.verb == "described")?;
    Some(DescriptionOrigin {
        program: described.get("program")?.into(),
        depends: DescriptionInputs {
            files: described.list("files").into_iter().map(Into::into).collect(),
            environment: described.list("env"),
            volatile: described.get("volatile").is_some() || described.get("more").is_some(),
        },
    })
}

/// Performs the job in the process of `spec`. `plain` is the command with which a user can repeat
/// it. A JavaScript file marks the measured section itself, and is measured once per process. For
/// other languages, the harness marks it, and takes several samples.
pub(super) fn perform_case(
    setting: &RunContext<'_>,
    spec: &ProcessSpec,
    plain: &ProcessSpec,
) -> Result<RunOutcome, HarnessFailure> {
    let worktree = setting.variant.worktree.as_ref();
    let is_javascript = setting.job.source.kind == SourceKind::Node;
    // A trial only checks whether the case works.
    let run_message = if is_javascript || setting.job.test {
        run_case().with("mode", "once")
    } else {
        samples_message(&setting.samples, setting.is_series)
    };
    let checkout = worktree.and_then(|worktree| fs::canonicalize(&worktree.checkout).ok());
    let run_message =
        run_message.with_some("modules_below", checkout.as_ref().map(|path| path.display()));
    let mut events = EventLog::new([load_message(setting), run_message]);
    let outcome = converse(&setting.layout.apply_to(spec), spec, &mut events)?;
    let (mut result, result_fault) = observe_case(setting.job, &events);
    if let (Some(result), Some(worktree)) = (&mut result, worktree) {
        result.notes.extend(stray_note(&events, worktree));
    }
    // Files in other languages are not checked: their benchmarks may report times that they did not
    // measure themselves, for example times of a device.
    let clocked = result.as_ref().filter(|_| is_javascript);
    let fault = result_fault.or_else(|| check_lifetime(clocked?, outcome.wall_ns));
    Ok(RunOutcome::from_process(plain, &outcome, result, fault, setting))
}

/// Returns a note if the process loaded modules from the user's checkout instead of the worktree.
/// The worktree may be a folder inside the checkout.
fn stray_note(events: &EventLog, worktree: &VariantWorktree) -> Option<String> {
    let [checkout, folder] = [&worktree.checkout, &worktree.folder]
        .map(|path| fs::canonicalize(path).unwrap_or_else(|_| path.clone()));
    let modules = events.first("end")?.list("modules");
    let mut checkout_files: Vec<String> = modules
        .iter()
        .map(Path::new)
        .filter(|file| !file.starts_with(&folder))
        .filter_map(|file| file.strip_prefix(&checkout).ok())
        .map(|file| file.to_string_lossy().into_owned())
        .collect();
    checkout_files.sort();
    (!checkout_files.is_empty()).then(|| Run::stray_note(&checkout_files))
}

pub(super) fn load_message(setting: &RunContext<'_>) -> ProtocolMessage {
    let job = setting.job;
    let mut message = ProtocolMessage::new("load")
        .with("id", 2)
        .with("job", "case")
        .with("form", "case")
        .with("path", job.source.file.display())
        .with("root", job.source.root.display())
        .with_some("benchmark", job.benchmark_under(&setting.variant.name))
        .with_some("test", job.test.then_some(1));
    for word in &job.arguments {
        if let Some((name, value)) = word.split_once('=') {
            message = message.with(format!("value.{name}"), value);
        }
    }
    message
}

fn run_case() -> ProtocolMessage {
    ProtocolMessage::new("run").with("id", 3).with("jobs", "case")
}

pub(super) fn samples_message(samples: &SampleDivision, is_series: bool) -> ProtocolMessage {
    let run = run_case().with("samples", samples.count);
    let run = if is_series {
        run.with("mode", "series").with("reference", SteadyRule::REFERENCE_EVERY)
    } else {
        run.with("mode", "timed").with("warmup_ns", samples.warmup_ns)
    };
    match samples.length {
        SampleLength::TimeNs(ns) => run.with("sample_ns", ns),
        SampleLength::Iterations(count) => run.with("loop", count),
    }
}

/// Converts events to the description of a file. The jobs of the description are copies of `draft`.
fn to_description(
    request: &DescribeRequest,
    events: &EventLog,
    draft: &BenchmarkJob,
) -> BenchmarkDescription {
    let mut description = BenchmarkDescription::default();
    let described = events.first("described");
    for list in ["files", "loaded"] {
        let files = described.map(|described| described.list(list)).unwrap_or_default();
        description.loaded.extend(files.into_iter().map(Into::into));
    }
    for benchmark in events.events_of("benchmark") {
        description.parameters.extend(declared_parameters(benchmark));
        let draft = BenchmarkJob { flags: benchmark.list("flags"), ..draft.clone() };
        if benchmark.get("setup").as_deref() == Some("1") {
            // The benchmark's set-up must run once before all cases, so the file has to start the
            // cases itself.
            description.jobs.push(BenchmarkJob {
                route: StartMode::Parent,
                arguments: request.assignments(),
                flags: Vec::new(),
                ..draft
            });
            continue;
        }
        let name = benchmark.get("name");
        let cases = events.events_of("case").filter(|case| case.get("benchmark") == name);
        description.jobs.extend(cases.map(|case| parse_job(case, benchmark, &draft)));
    }
    let versions = described.map(|described| described.list("versions")).unwrap_or_default();
    let pairs = versions.iter().filter_map(|word| word.split_once('='));
    description.versions =
        pairs.map(|(name, version)| (name.to_owned(), version.to_owned())).collect();
    if description.jobs.is_empty() && described.is_some() {
        let name = &request.source.name;
        description.warnings.push(match events.first("benchmark") {
            Some(_) => format!("'{name}' has no cases: its own filter excludes all of them."),
            None => format!("'{name}' declares no benchmark."),
        });
    }
    description
}

/// Returns the declared kind of a parameter.
fn parameter_kind(benchmark: &ProtocolMessage, name: &str) -> ValueKind {
    match benchmark.get(&format!("type.{name}")).as_deref() {
        Some("int" | "float") => ValueKind::Number,
        Some("bool") => ValueKind::Bool,
        _ => ValueKind::Text,
    }
}

fn declared_parameters(benchmark: &ProtocolMessage) -> Vec<DeclaredParameter> {
    let names = benchmark.keys().filter_map(|key| key.strip_prefix("param."));
    names
        .map(|name| {
            let kind = parameter_kind(benchmark, name);
            let value_strings = benchmark.list(&format!("param.{name}"));
            let values =
                value_strings.iter().filter_map(|text| ParameterValue::parse(text, kind)).collect();
            DeclaredParameter { name: name.to_owned(), values }
        })
        .collect()
}

fn parse_job(
    event: &ProtocolMessage,
    benchmark: &ProtocolMessage,
    draft: &BenchmarkJob,
) -> BenchmarkJob {
    let build = |mut arguments: Vec<String>| {
        let pairs = arguments.iter().filter_map(|word| word.split_once('='));
        let values = pairs.map(|(name, text)| {
            let value = ParameterValue::parse(text, parameter_kind(benchmark, name));
            (name.to_owned(), value.unwrap_or_else(|| ParameterValue::infer_value(text)))
        });
        let case = Case::new(event.get("benchmark").unwrap_or_default(), values.collect());
        let missing_arguments: Vec<String> =
            draft.arguments.iter().filter(|word| !arguments.contains(word)).cloned().collect();
        arguments.extend(missing_arguments);
        BenchmarkJob { label: case.id(), arguments, case: Some(case), ..draft.clone() }
    };
    let measured = Some(event.list("measured")).filter(|measured| !measured.is_empty());
    BenchmarkJob {
        measured: measured.map(|measured| Box::new(build(measured))),
        ..build(event.list("args"))
    }
}

/// Converts the events to the result of the job's case. Also returns the fault of the result, if
/// any.
pub(super) fn observe_case(
    job: &BenchmarkJob,
    events: &EventLog,
) -> (Option<RunResult>, Option<FailureCause>) {
    let mut case = job.known_case();
    let results = events.events_of("timed").count() + events.events_of("once").count();
    if results > 1 {
        let reason = format!("reported {results} results for one run; expected one");
        return (None, Some(FailureCause::invalid(reason)));
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
    events.events_of("metric").for_each(|metric| add_metric(&mut result, metric));
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
    let failure = (failed_requests > 0.0).then(|| FailureCause::invalid(failure));
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
    let mut fault =
        is_invalid.then(|| FailureCause::invalid("reported samples that are not numbers"));
    for (index, &elapsed_ns) in times.iter().enumerate() {
        // There is one count per sample, or a single count for all samples.
        let count = counts.get(index).or(counts.first()).copied().unwrap_or(0);
        let iterations = count as f64 * workers;
        if elapsed_ns == 0 || iterations == 0.0 {
            let reason = format!("reported {iterations} iterations in {elapsed_ns} ns");
            fault = fault.or(Some(FailureCause::invalid(reason)));
            continue;
        }
        let per_s = iterations / elapsed_ns as f64 * 1e9;
        result.add_throughput(per_s, elapsed_ns, iterations);
        let cpu_ns = cpu_times.get(index);
        each_cpu_ns.extend(cpu_ns.map(|&cpu_ns| cpu_ns as f64 / iterations));
    }
    events.events_of("metric").for_each(|metric| add_metric(&mut result, metric));
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
    let Some(name) = event.get("name") else { return };
    let unit = event.get("unit").unwrap_or_default();
    let metric = declared_metric(&name, &unit, event.get("better").as_deref());
    let texts = event.list("value");
    for value in texts.iter().filter_map(|text| text.parse::<f64>().ok()) {
        result.add_value(metric.clone(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_machine::process::ChildConversation;

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
