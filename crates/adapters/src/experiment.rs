//! Performs runs of experiments. Each run is a separate process of this program: it receives one
//! assignment and returns one report.
//!
//! `shared_services.rs` starts the services that several runs share.
//!
//! This module decides which parts of a report are samples and which are failures. The definition
//! file (`config/experiment`) defines the steps of a run, and `engine/execution/experiment`
//! performs them. Start at [`perform_run`].
//!
//! Runs may be profiled instead of timed ([`record_profile`]). All variants must then do the same
//! work. A load with a given duration is therefore replaced by a load with a given number of
//! requests.

pub use crate::shared_services::{RUN_SUBCOMMAND, SharedServicePool};

use crate::failure::{HarnessFailure, start_reason};
use crate::job::{
    BenchmarkDescription, BenchmarkJob, BenchmarkSource, DeclaredParameter, DescribeRequest,
    RunContext, SourceKind,
};
use crate::shared_services::{parse_report, worker_spec};
use crate::wire::EventLog;
use crate::{DescribeResult, LanguageHarness, ProtocolMessage, RunOutcome, RunResult, own_program};
use anyhow::{Context, anyhow, bail};
use speedwell_config::LazyDefinition;
use speedwell_config::experiment::Experiment;
use speedwell_machine::process::{
    ProcessEnd, ProcessOutcome, ProcessSpec, is_interrupt_requested, run_child,
};
use speedwell_model::assignment::{self, LoadWarmup, ProfilingOptions, RunAssignment, TargetWork};
use speedwell_model::experiment::{GroupKind, repeated_variant};
use speedwell_model::load::spec::LoadClient;
use speedwell_model::stage_report::{StageFailure, StageReport};
use speedwell_model::{FailureCause, ProfileOutcome, Sample, StackProfile, quote};
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How far a process may exceed the time limit of its run before it is killed.
const PROCESS_GRACE: Duration = Duration::from_secs(60);

/// Harness for experiments.
pub struct ExperimentHarness;

impl LanguageHarness for ExperimentHarness {
    fn describe_source(&self, request: &DescribeRequest) -> DescribeResult {
        let definition = request.source.definition();
        let experiment = definition
            .and_then(|definition| read_experiment(definition, request))
            .map_err(|error| to_failure(&error, &ProcessSpec::new(own_program())))?;
        let of_groups = experiment.groups.iter().flat_map(|group| group.parameters.iter().cloned());
        let params = experiment.params.iter();
        let of_file = params.map(|(name, value)| (name.clone(), vec![value.clone()]));
        let parameters = of_groups.chain(of_file);
        let cases = experiment.groups.iter().flat_map(|group| &group.cases);
        Ok(BenchmarkDescription {
            parameters: parameters
                .map(|(name, values)| DeclaredParameter { name, values })
                .collect(),
            jobs: cases.map(|case| request.job_for_case(case.clone())).collect(),
            ..BenchmarkDescription::default()
        })
    }

    fn perform_job(&self, setting: &RunContext<'_>) -> Result<RunOutcome, HarnessFailure> {
        let assigned_run = resolve_assignment(setting)
            .map_err(|error| to_failure(&error, &ProcessSpec::new(own_program())))?;
        perform_with_services(assigned_run, setting)
    }
}

/// Returns the program of the experiment's targets if the definition names one.
pub(crate) fn default_program(source: &BenchmarkSource) -> PathBuf {
    let experiment = source.definition().and_then(LazyDefinition::experiment).ok();
    let program = experiment.and_then(|experiment| experiment.program.clone());
    program.map_or_else(own_program, PathBuf::from)
}

fn to_failure(error: &anyhow::Error, replay: &ProcessSpec) -> HarnessFailure {
    HarnessFailure::invalid(format!("{error:#}")).with_replay(replay)
}

/// Returns the experiment with the user's values. The file of an experiment was read with them. A
/// load file may be measured together with other benchmarks, for which some of the values may be
/// meant. For a load file, values of undeclared parameters are therefore ignored.
fn read_experiment<'a>(
    definition: &'a LazyDefinition,
    request: &DescribeRequest,
) -> anyhow::Result<Cow<'a, Experiment>> {
    let plain = definition.experiment()?;
    if request.source.kind == SourceKind::Experiment {
        return Ok(Cow::Borrowed(plain));
    }
    let parameters = plain.groups.iter().flat_map(|group| &group.parameters);
    let is_declared =
        |(name, _): &&(String, String)| parameters.clone().any(|(declared, _)| declared == name);
    definition.experiment_with(request.sets.iter().filter(is_declared).cloned().collect())
}

/// Work of one run.
struct AssignedRun {
    assignment: RunAssignment,
    /// Seed for the random choices of the run.
    seed: u64,
    /// Names of the group's metrics, the primary metric first.
    metrics: Vec<String>,
}

fn resolve_assignment(setting: &RunContext<'_>) -> anyhow::Result<AssignedRun> {
    let job = setting.job;
    let experiment = job.source.definition()?.experiment()?;
    let case = job.case.as_ref().context("the case is not known")?;
    let group = experiment
        .group_of(case)
        .with_context(|| format!("'{}' belongs to no group", case.id()))?;
    let variant = repeated_variant(&setting.variant.name);
    let seed = group.seed.for_run(setting.seed, setting.slot);
    let mut assignment = match group.kind {
        GroupKind::Load => {
            experiment.load_assignment(group, case, setting.variant, Some(&setting.program))?
        }
        _ => experiment.assignment(group, case, variant, seed)?,
    };
    if job.test {
        shorten_for_trial(&mut assignment);
    }
    // A load defined as `[benchmark.NAME]` reports all metrics in a fixed order, the rate first.
    let reported = match group.kind {
        GroupKind::Load => 0,
        _ => group.metrics.len(),
    };
    let names = group.metrics[..reported].iter().map(|metric| group.stored_name(&metric.name));
    Ok(AssignedRun { assignment, seed, metrics: names.map(str::to_owned).collect() })
}

/// Reduces a load to a single request for a trial.
fn shorten_for_trial(assignment: &mut RunAssignment) {
    match &mut assignment.work {
        TargetWork::Command => {}
        TargetWork::Load(spec) => **spec = std::mem::take(&mut **spec).single_request(),
        TargetWork::Server(service) => {
            let load = &mut service.load;
            load.warmup = LoadWarmup::None;
            load.spec = std::mem::take(&mut load.spec).single_request();
        }
    }
}

/// Starts a process of this program that performs the assignment.
fn run_in_process(
    assignment: &RunAssignment,
    seed: u64,
    setting: &RunContext<'_>,
) -> anyhow::Result<(ProcessOutcome, EventLog)> {
    let limit = match assignment.work {
        TargetWork::Load(_) => setting.limit(),
        // The process itself enforces the limits of each stage. This limit is a fallback.
        _ => setting.limit() + PROCESS_GRACE,
    };
    let spec = ProcessSpec { pin: setting.pin.cloned(), ..worker_spec(limit) };
    let text = serde_json::to_string(assignment)?;
    let request = ProtocolMessage::new("run").with("id", 2).with("seed", seed);
    let mut events = EventLog::new([request.with("assignment", text)]);
    let outcome =
        run_child(&spec, &mut events).map_err(|error| anyhow!(start_reason(&spec, &error)))?;
    Ok((outcome, events))
}

/// Makes sure that the shared services of a run are ready, then performs the run.
fn perform_with_services(
    mut assigned_run: AssignedRun,
    setting: &RunContext<'_>,
) -> Result<RunOutcome, HarnessFailure> {
    let Some((services, block)) = setting.kept else {
        return perform_run(&assigned_run, setting);
    };
    let replay = replay_command(&assigned_run.assignment);
    let ready = services.ensure_ready(&mut assigned_run.assignment, block);
    ready.map_err(|failure| HarnessFailure {
        interrupted: is_interrupt_requested(),
        ..run_failure(failure, &replay)
    })?;
    let mut attempt = perform_run(&assigned_run, setting)
        .unwrap_or_else(|failure| RunOutcome::from_failure(failure, setting));
    // A lost service takes precedence over the run's own failure, which the loss may have caused.
    if let Some(failure) = services.find_loss(attempt.failure.is_some()) {
        attempt.failure = Some(run_failure(failure, &replay).in_run(setting));
    }
    Ok(attempt)
}

fn run_failure(failure: StageFailure, replay: &ProcessSpec) -> HarnessFailure {
    let StageFailure { stage, reason, stderr_tail } = failure;
    let cause = FailureCause::Stage { stage, reason };
    HarnessFailure { output: stderr_tail, ..cause.into() }.with_replay(replay)
}

/// Performs a run in a process.
fn perform_run(
    assigned_run: &AssignedRun,
    setting: &RunContext<'_>,
) -> Result<RunOutcome, HarnessFailure> {
    let replay = replay_command(&assigned_run.assignment);
    let (outcome, events) = run_in_process(&assigned_run.assignment, assigned_run.seed, setting)
        .map_err(|error| to_failure(&error, &replay))?;
    let message = events.first("performed");
    let mut performed = message.and_then(parse_report);
    let stage_failure = performed.as_mut().and_then(|report| report.failure.take());
    let silent = || events.error_cause().unwrap_or(FailureCause::Silent);
    let fault = performed.is_none().then(silent);
    let load = message.and_then(|message| message.get("load"));
    let result = performed
        .map(|performed| to_observation(setting.job, &assigned_run.metrics, performed, load));
    let mut attempt = RunOutcome::from_process(&replay, &outcome, result, fault, setting);
    if let Some(failure) = stage_failure {
        attempt.failure = Some(run_failure(failure, &replay).in_run(setting));
    }
    Ok(attempt)
}

/// Port shown in replay commands for servers without a fixed port. Another process may have taken
/// the run's own port.
const REPLAY_PORT: u16 = 3000;

/// Builds the command a user would type to start the target, or to send the load.
fn replay_command(assigned: &RunAssignment) -> ProcessSpec {
    let target = &assigned.target;
    let port = match &assigned.work {
        TargetWork::Server(service) => service.port.unwrap_or(REPLAY_PORT),
        TargetWork::Command | TargetWork::Load(_) => REPLAY_PORT,
    };
    let address = assigned.place.placement.as_ref().map(|placement| placement.of_target().address);
    let host = address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)).to_string();
    let placeholders = [
        ("port".to_owned(), port.to_string()),
        ("target.host".to_owned(), host.clone()),
        ("host".to_owned(), host),
    ];
    let fill = |text: &String| assignment::fill_text(text, &placeholders);
    if let TargetWork::Load(load) = &assigned.work {
        let mut spec = load.as_ref().clone().fill_placeholders(&|text| fill(&text.to_owned()));
        spec.serve = spec.serve.map(|line| export_commands(&target.plain_environment()) + &line);
        let args = ["load".to_owned()].into_iter().chain(spec.to_args());
        return ProcessSpec {
            directory: Some(target.directory.clone()),
            ..ProcessSpec::new(own_program()).args(args).args(["--no-save"])
        };
    }
    let mut words = target.command.iter().map(fill);
    let environment = target.plain_environment().into_iter();
    ProcessSpec {
        directory: Some(target.directory.clone()),
        environment: environment.map(|(name, value)| (name, fill(&value))).collect(),
        ..ProcessSpec::new(words.next().unwrap_or_default()).args(words)
    }
}

/// Returns shell commands that export variables for the server alone: the variables must not affect
/// the load generator.
fn export_commands(environment: &[(String, String)]) -> String {
    let export = |(name, value): &(String, String)| format!("export {name}={}; ", quote(value));
    environment.iter().map(export).collect()
}

/// Converts the report to samples.
fn to_observation(
    job: &BenchmarkJob,
    metrics: &[String],
    mut performed: StageReport,
    load: Option<String>,
) -> RunResult {
    // Metrics of the file come first, because the first metric is compared.
    performed.figures.sort_by_key(|measure| {
        let position = metrics.iter().position(|name| *name == measure.metric.name);
        position.unwrap_or(metrics.len())
    });
    let mut result = RunResult {
        notes: performed.notes,
        load: load.map(Arc::from),
        ..RunResult::new(job.known_case(), Vec::new())
    };
    for measure in performed.figures {
        let metric: Arc<str> = Arc::from(measure.metric.name.as_str());
        result.samples.extend(measure.values.iter().map(|&value| Sample {
            metric: metric.clone(),
            value,
            elapsed_ns: measure.elapsed_ns,
            iterations: measure.iterations,
        }));
        result.declare_metric(measure.metric);
    }
    result
}

/// How to profile a case. All variants are profiled in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProfileRequest {
    /// Which tool records, and when the recording starts.
    pub profiling: ProfilingOptions,
    /// Number of requests to send if the file gives a duration for the load instead of a number.
    pub requests: Option<u64>,
}

/// Profiles a run in a separate process. If no profile can be recorded, the outcome gives the
/// reason. Returns `None` only if the user interrupted the run.
pub fn record_profile(
    setting: &RunContext<'_>,
    request: &ProfileRequest,
) -> Option<ProfileOutcome> {
    let recorded = match take_profile(setting, request) {
        Ok(profile) => ProfileOutcome::Taken(Arc::new(profile)),
        Err(error) => ProfileOutcome::Missing(format!("{error:#}")),
    };
    (!is_interrupt_requested()).then_some(recorded)
}

fn take_profile(
    setting: &RunContext<'_>,
    request: &ProfileRequest,
) -> anyhow::Result<StackProfile> {
    let AssignedRun { mut assignment, seed, .. } = resolve_assignment(setting)?;
    let remark = prepare_assignment(&mut assignment, request)?;
    let (outcome, events) = run_in_process(&assignment, seed, setting)?;
    let performed = events.first("performed");
    if let Some(failure) = performed.and_then(parse_report).and_then(|performed| performed.failure)
    {
        bail!("the run failed at '{}': {}", failure.stage, failure.reason);
    }
    let Some(text) = performed.and_then(|performed| performed.get("profile")) else {
        match outcome.ended {
            ProcessEnd::Timeout => bail!("the run timed out"),
            _ => bail!("the run reported nothing"),
        }
    };
    let profile = serde_json::from_str(&text);
    let mut profile: StackProfile = profile.context("the profile cannot be read")?;
    profile.notes.extend(remark);
    Ok(profile)
}

/// Makes the work the same for all variants, and removes what only matters for measuring. If this
/// changes the load, returns a note for readers.
fn prepare_assignment(
    assignment: &mut RunAssignment,
    request: &ProfileRequest,
) -> anyhow::Result<Option<String>> {
    assignment.profile = Some(request.profiling);
    assignment.also.clear();
    assignment.figures.clear();
    let service = match &mut assignment.work {
        TargetWork::Server(service) => service,
        TargetWork::Command => return Ok(None),
        TargetWork::Load(_) => bail!("a load defined as [benchmark.NAME] cannot be profiled"),
    };
    let load = &mut service.load;
    // Only the built-in generator stops after a number of requests regardless of other options.
    load.spec.client = LoadClient::Builtin;
    let requests = match load.spec.count {
        Some(requests) => requests,
        None => {
            let served = request
                .requests
                .context("no timed run has shown how many requests the server can handle")?;
            // Fewer requests than connections would leave some connections unused.
            served.max(u64::from(load.in_flight()))
        }
    };
    let is_chosen = load.spec.count.is_none();
    (load.spec.time, load.spec.count) = (None, Some(requests));
    let is_timed = !matches!(load.warmup, LoadWarmup::None | LoadWarmup::Requests(_));
    if is_timed && !request.profiling.after_warmup {
        load.warmup = LoadWarmup::Requests(requests);
    }
    Ok(is_chosen.then(|| {
        format!(
            "For the profile, the server received {requests} requests instead of a load of fixed \
             duration, so that both sides do the same work."
        )
    }))
}
