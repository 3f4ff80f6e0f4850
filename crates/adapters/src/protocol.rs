//! Describes files and performs cases over the harness protocol (docs/reference/protocol.md).
//!
//! This module decides, for all languages, which commands are sent and what the events mean. The
//! harness of a language decides how its process is started, and which command a user would type to
//! repeat the execution. All commands are known before the process starts, so they are all sent up
//! front and the process never waits for us. Start with [`describe_file`] and [`perform_case`].

use crate::cache::{self, DescriptionInputs, DescriptionOrigin};
use crate::counting::{self, CountingInputs};
use crate::events::{EventLog, observe_case};
use crate::job::{
    BenchmarkDescription, BenchmarkJob, BenchmarkSource, DeclaredParameter, DescribeRequest,
    RunContext, SourceKind, StartMode, TrialMode,
};
use crate::own_program;
use crate::run_outcome::{description_failure, start_reason};
use crate::{ProtocolMessage, RunOutcome, RunResult};
use speedwell_machine::process::{ProcessSpec, run_child};
use speedwell_model::{
    Case, FailureCause, ParameterValue, Run, SampleDivision, SampleLength, SteadyRule, ValueKind,
    VariantWorktree,
};
use std::fs;
use std::path::Path;

/// Whether the file or the harness marks start and end of the measured section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoopOwner {
    /// The file marks them, and is measured once per process.
    File,
    /// The harness marks them. It takes several samples and chooses the number of iterations.
    Harness,
}

/// Asks the process of `spec` for the cases of a file. Each case becomes a copy of `draft`. `plain`
/// is the command with which a user can repeat a failure.
pub(super) fn describe_file(
    source: &BenchmarkSource,
    request: &DescribeRequest,
    spec: &ProcessSpec,
    plain: &ProcessSpec,
    draft: &BenchmarkJob,
) -> BenchmarkDescription {
    let spec = ProcessSpec { limit: request.limit, ..spec.clone() };
    let mut message = ProtocolMessage::new("describe")
        .with("id", 2)
        .with("path", source.file.display())
        .with("root", source.root.display())
        .with_list("args", &request.assignments());
    if request.trial != TrialMode::No {
        message = message.with("test", 1);
    }
    let mut events = EventLog::new([message]);
    match cache::ask_cached(&spec, &mut events, dependencies_in) {
        Err(error) => {
            let reason = start_reason(&spec, &error);
            description_failure(source, FailureCause::Start { reason }, plain, None)
        }
        Ok(outcome) => {
            match events.error_cause().or_else(|| outcome.as_ref()?.failure_cause(spec.limit)) {
                Some(cause) => description_failure(source, cause, plain, outcome.as_ref()),
                None => to_description(source, request, &events, draft),
            }
        }
    }
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

/// Builds the description of a file that is unreadable or invalid.
pub(super) fn unreadable_file(
    source: &BenchmarkSource,
    error: &anyhow::Error,
) -> BenchmarkDescription {
    let reason = format!("{error:#}");
    description_failure(
        source,
        FailureCause::Invalid { reason },
        &ProcessSpec::new(own_program()),
        None,
    )
}

/// Builds a job without values: the common part of all cases of `source`.
pub(super) fn draft_job(source: &BenchmarkSource, request: &DescribeRequest) -> BenchmarkJob {
    BenchmarkJob {
        source: source.clone(),
        label: source.name.clone(),
        route: StartMode::Direct,
        flags: Vec::new(),
        arguments: Vec::new(),
        names: Vec::new(),
        in_suite: None,
        test: request.trial != TrialMode::No,
        http_tool: None,
        unavailable: None,
        case: None,
        snippet: None,
        samples: None,
        measured: None,
    }
}

/// Builds the job of a case with known values.
pub(super) fn job_for_case(
    source: &BenchmarkSource,
    request: &DescribeRequest,
    case: Case,
) -> BenchmarkJob {
    let values = case.values.iter();
    BenchmarkJob {
        label: case.id(),
        arguments: values.map(|(name, value)| format!("{name}={}", value.plain())).collect(),
        case: Some(case),
        ..draft_job(source, request)
    }
}

/// Performs one case in the process of `spec`. `plain` is the command with which a user can repeat
/// it.
pub(super) fn perform_case(
    job: &BenchmarkJob,
    setting: &RunContext<'_>,
    spec: &ProcessSpec,
    plain: &ProcessSpec,
    owner: LoopOwner,
) -> RunOutcome {
    if let Some(counting) = setting.counting {
        let inputs = CountingInputs { job, setting, counting, spec, plain };
        let commands = |samples: &SampleDivision| {
            EventLog::new([load_message(job, setting), samples_message(samples, false)])
        };
        return counting::perform_counted(&inputs, &commands, &|events| observe_case(job, events));
    }
    let worktree = setting.variant.worktree.as_ref();
    let mut run_message = measure_message(job, setting, owner);
    if let Some(checkout) = worktree.and_then(|worktree| fs::canonicalize(&worktree.checkout).ok())
    {
        run_message = run_message.with("modules_below", checkout.display());
    }
    let mut events = EventLog::new([load_message(job, setting), run_message]);
    match run_child(&setting.layout.apply_to(spec), &mut events) {
        Err(error) => RunOutcome::start_failed(spec, &error, job, setting),
        Ok(outcome) => {
            let (mut result, fault) = observe_case(job, &events);
            if let (Some(result), Some(worktree)) = (&mut result, worktree) {
                result.notes.extend(stray_note(&events, worktree));
            }
            // Other kinds of sources are not checked: their benchmarks may report times that they
            // did not measure themselves, for example times of a device.
            let is_clocked = job.source.kind == SourceKind::Node;
            let wall_ns = outcome.wall_ns;
            let fault =
                fault.or_else(|| check_lifetime(result.as_ref().filter(|_| is_clocked)?, wall_ns));
            RunOutcome::from_process(
                plain,
                &outcome,
                result.into_iter().collect(),
                fault,
                job,
                setting,
            )
        }
    }
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

/// Rejects a measured section that is longer than the lifetime of its process. Such a time cannot
/// have been measured.
fn check_lifetime(result: &RunResult, wall_ns: u64) -> Option<FailureCause> {
    let elapsed = result.samples.iter().filter_map(|sample| sample.elapsed_ns);
    let longest = elapsed.max().filter(|longest| *longest > wall_ns)?;
    let reason =
        format!("reported a section of {longest} ns, but its process ran for only {wall_ns} ns");
    Some(FailureCause::Invalid { reason })
}

fn load_message(job: &BenchmarkJob, setting: &RunContext<'_>) -> ProtocolMessage {
    let mut message = ProtocolMessage::new("load")
        .with("id", 2)
        .with("job", "case")
        .with("form", "case")
        .with("path", job.source.file.display())
        .with("root", job.source.root.display());
    if let Some(benchmark) = job.benchmark_under(&setting.variant.name) {
        message = message.with("benchmark", benchmark);
    }
    if job.test {
        message = message.with("test", 1);
    }
    for word in &job.arguments {
        if let Some((name, value)) = word.split_once('=') {
            message = message.with(format!("value.{name}"), value);
        }
    }
    message
}

fn measure_message(
    job: &BenchmarkJob,
    setting: &RunContext<'_>,
    owner: LoopOwner,
) -> ProtocolMessage {
    // A trial only checks whether the case works.
    if owner == LoopOwner::File || job.test {
        return run_case().with("mode", "once");
    }
    samples_message(&setting.samples, setting.is_series)
}

fn run_case() -> ProtocolMessage {
    ProtocolMessage::new("run").with("id", 3).with("jobs", "case")
}

fn samples_message(samples: &SampleDivision, is_series: bool) -> ProtocolMessage {
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
pub(super) fn to_description(
    source: &BenchmarkSource,
    request: &DescribeRequest,
    events: &EventLog,
    draft: &BenchmarkJob,
) -> BenchmarkDescription {
    let mut description = BenchmarkDescription::default();
    let described = events.events_of("described").next();
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
    let versions = events.first("described").map(|described| described.list("versions"));
    description.versions = versions
        .iter()
        .flatten()
        .filter_map(|word| word.split_once('='))
        .map(|(name, version)| (name.to_owned(), version.to_owned()))
        .collect();
    if description.jobs.is_empty() && events.first("described").is_some() {
        description.warnings.push(no_cases_warning(source, events));
    }
    description
}

/// Explains why a file has no cases although describing it succeeded.
fn no_cases_warning(source: &BenchmarkSource, events: &EventLog) -> String {
    let name = &source.name;
    match events.first("benchmark") {
        Some(_) => format!("'{name}' has no cases: its own filter excludes all of them."),
        None => format!("'{name}' declares no benchmark."),
    }
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
    let job = build_job(event.list("args"), event, benchmark, draft);
    let measured = event.list("measured");
    BenchmarkJob {
        measured: (!measured.is_empty())
            .then(|| Box::new(build_job(measured, event, benchmark, draft))),
        ..job
    }
}

fn build_job(
    mut arguments: Vec<String>,
    event: &ProtocolMessage,
    benchmark: &ProtocolMessage,
    draft: &BenchmarkJob,
) -> BenchmarkJob {
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
}
