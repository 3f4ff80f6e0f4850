//! Measures benchmarks of other frameworks through adapters: lists the cases, executes each case in
//! a fresh process, and parses the results.
//!
//! This file decides how one case is started and how its output is handled. The adapters in
//! `crates/adapters/suites/*.toml` declare the options of each framework, and
//! `formats::foreign::suites` parses the output. [`KnownAdapters`] recognizes files, and `build.rs`
//! builds packages first. Start at [`FrameworkHarness`].

mod build;
mod command;
mod list;
mod read;
mod registry;
pub mod serialization;
mod without_adapter;

pub use registry::{KnownAdapters, builtin_adapter, files_matching, is_elf, is_wrapper};
pub use without_adapter::{explain_framework, framework_without_adapter};

use crate::compile::CompileFailure;
use crate::job::{
    BenchmarkDescription, BenchmarkJob, BenchmarkSource, DescribeRequest, RunContext,
};
use crate::{LanguageHarness, ProgressReporter, RunOutcome, RunResult};
use anyhow::{Result, anyhow, bail};
use build::BuiltProgram;
use command::{CollectedOutput, PlaceholderValues, RESULT_PIPE, ResultLocation, with_placeholders};
use list::{CaseListing, collect_parameters, select_values};
use read::tail_lines;
use speedwell_config::adapter::SuiteAdapter;
use speedwell_machine::process::{ProcessEnd, ProcessSpec, ScratchFolder, run_child};
use speedwell_model::{Case, FailureCause, RequestedDivision, Variant};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Harness for all adapters.
pub struct FrameworkHarness;

impl LanguageHarness for FrameworkHarness {
    fn describe_source(
        &self,
        source: &BenchmarkSource,
        request: &DescribeRequest,
    ) -> BenchmarkDescription {
        let built = match target_programs(source, &request.program, &request.variant) {
            Ok(built) => built,
            Err(error) => {
                return BenchmarkDescription {
                    failure: Some(error.into_failure(source, None)),
                    ..BenchmarkDescription::default()
                };
            }
        };
        let mut description = BenchmarkDescription::default();
        for built in &built {
            let described = CaseListing { source, request, built }.describe_cases();
            description.jobs.extend(described.jobs);
            description.failure = description.failure.or(described.failure);
            description.suites.extend(described.suites);
            description.warnings.extend(described.warnings);
        }
        description.parameters = collect_parameters(&description.jobs);
        select_values(&mut description, &request.sets);
        description
    }

    fn perform_job(&self, job: &BenchmarkJob, setting: &RunContext<'_>) -> RunOutcome {
        let plain = ProcessSpec::new(&setting.program);
        let wanted = job.in_suite.as_ref().and_then(|suite_case| suite_case.target.as_deref());
        let built = match target_programs(&job.source, &setting.program, setting.variant) {
            Ok(built) => built.into_iter().find(|built| built.target.as_deref() == wanted),
            Err(error) => {
                return RunOutcome {
                    interrupted: error.interrupted,
                    failure: Some(error.into_failure(&job.source, Some((job, setting)))),
                    ..RunOutcome::default()
                };
            }
        };
        let Some(built) = built else {
            let reason = format!("has no benchmark program '{}'", wanted.unwrap_or_default());
            return RunOutcome::unsupported(&plain, &reason, job, setting);
        };
        match ScratchFolder::new() {
            Ok(scratch) => perform_case(job, setting, &built, &scratch),
            Err(error) => RunOutcome::unsupported(&plain, &format!("{error:#}"), job, setting),
        }
    }

    fn prepare_job(&self, job: &BenchmarkJob, setting: &RunContext<'_>) {
        let _ = target_programs(&job.source, &setting.program, setting.variant);
    }

    fn default_program(&self, source: &BenchmarkSource) -> PathBuf {
        let program = source.adapter().and_then(|adapter| adapter.keys.program.clone());
        program.map_or_else(|| source.file.clone(), PathBuf::from)
    }

    fn has_version(&self, source: &BenchmarkSource) -> bool {
        source.adapter().is_some_and(|adapter| adapter.keys.program.is_some())
    }

    fn divides_runs(&self) -> bool {
        true
    }

    fn records_series(&self) -> bool {
        false
    }
}

/// Returns the requested option that the framework of a file does not support, if any.
pub fn unsupported_option(
    source: &BenchmarkSource,
    requested: RequestedDivision,
) -> Option<&'static str> {
    // For a package, only the programs built from it have options.
    let adapter = source.adapter().filter(|adapter| adapter.keys.build.is_none())?;
    command::unsupported_option(adapter, requested)
}

/// Builds the programs of a package under a variant. Does nothing if the source is not a package,
/// or if this process has already built the programs.
///
/// # Errors
/// Fails if the package does not compile, or its tool is missing.
pub fn build_if_package(
    source: &BenchmarkSource,
    variant: &Variant,
    reporter: ProgressReporter<'_>,
) -> Result<()> {
    let Some(adapter) = source.adapter().filter(|adapter| adapter.keys.build.is_some()) else {
        return Ok(());
    };
    let default_program = || FrameworkHarness.default_program(&source.under(variant));
    let program = variant.program.clone().unwrap_or_else(default_program);
    let source = source.under(variant);
    let built = build::build_programs(
        (adapter, &source.user_suites),
        &source.file,
        &program,
        variant,
        reporter,
    );
    built.map(drop).map_err(|error| {
        anyhow!("'{}' of '{}' {}", source.name, variant.name, describe_failure(&error))
    })
}

/// Explains why nothing was built, and how to repeat the build.
fn describe_failure(error: &CompileFailure) -> String {
    let CompileFailure { cause, replay, .. } = error;
    match replay.as_str() {
        "" => cause.to_string(),
        command => format!("{cause}\nhint: repeat it with: {command}"),
    }
}

/// Returns the only program built from a package folder, and its adapter.
///
/// # Errors
/// Fails if the package cannot be built, or has several programs.
pub fn build_single_program(
    (adapter, adapters): (&SuiteAdapter, &KnownAdapters),
    folder: &Path,
    variant: &Variant,
    reporter: ProgressReporter<'_>,
) -> Result<(PathBuf, Arc<SuiteAdapter>)> {
    let tool = adapter.keys.program.clone().unwrap_or_default();
    let shown = folder.display();
    let user_adapters = adapters.user_adapters();
    let built = build::build_programs(
        (adapter, user_adapters),
        folder,
        Path::new(&tool),
        variant,
        reporter,
    )
    .map_err(|error| anyhow!("'{shown}' {}", describe_failure(&error)))?;
    match &built[..] {
        [only] => Ok((only.program.clone(), only.adapter.clone())),
        several => bail!(
            "the package '{shown}' has {} benchmark programs; expected one\n\
             hint: --old rev:A --new rev:B compares revisions of a package with all its programs",
            several.len()
        ),
    }
}

/// Returns the programs of a target: the target itself, or the programs built from it.
fn target_programs(
    source: &BenchmarkSource,
    program: &Path,
    variant: &Variant,
) -> Result<Vec<BuiltProgram>, CompileFailure> {
    let adapter = source.suite.clone().ok_or_else(|| {
        let reason = format!("'{}' belongs to no known suite", source.file.display());
        CompileFailure::before_start(FailureCause::Invalid { reason })
    })?;
    if let Some(option) = command::find_refused_option(&adapter, &variant.arguments) {
        return Err(option_failure(&adapter, option));
    }
    if adapter.keys.build.is_none() {
        return Ok(vec![BuiltProgram {
            program: program.to_owned(),
            adapter,
            target: None,
            folder: source.directory.clone(),
        }]);
    }
    let user_suites = &source.user_suites;
    let built =
        build::build_programs((&adapter, user_suites), &source.file, program, variant, &|_| ())?;
    for built in &built {
        if let Some(option) = command::find_refused_option(&built.adapter, &variant.arguments) {
            return Err(option_failure(&built.adapter, option));
        }
    }
    Ok(built)
}

fn option_failure(adapter: &SuiteAdapter, option: &str) -> CompileFailure {
    CompileFailure::before_start(refused_option(adapter, option))
}

/// Explains why an option of the user is rejected.
fn refused_option(adapter: &SuiteAdapter, option: &str) -> FailureCause {
    let reason = format!(
        "does not accept the option '{option}' of {}, because --filter and --set choose the cases, \
         and Speedwell stores the results",
        adapter.name
    );
    FailureCause::Invalid { reason }
}

/// Performs one case in a fresh process.
fn perform_case(
    job: &BenchmarkJob,
    setting: &RunContext<'_>,
    built: &BuiltProgram,
    scratch: &ScratchFolder,
) -> RunOutcome {
    let (adapter, keys) = (&built.adapter, &built.adapter.keys);
    let name = job.name_under(&setting.variant.name);
    let options = match &keys.trial {
        Some(words) if job.test => words.clone(),
        _ => command::run_options(adapter, setting.requested),
    };
    let options = command::remove_given(options, &setting.variant.arguments);
    let common = built
        .placeholder_values(&job.source, setting.variant)
        .with_case(name, job.case.as_ref(), keys)
        .words("options", options);
    let command = with_placeholders(&keys.run, &["options", "arguments"]);
    let spec_of = |filling: &PlaceholderValues| ProcessSpec {
        limit: setting.limit,
        ..built.build_process(&command, filling, setting.variant)
    };
    let plain = spec_of(&read::for_terminal(common.clone()));
    let output = scratch.path("results");
    let filling =
        common.path("output", &output).path("scratch", scratch.folder()).text("pipe", RESULT_PIPE);
    let location = ResultLocation::from_adapter(adapter);
    let spec = ProcessSpec {
        channel: location.required_channel(),
        pin: setting.pin.cloned(),
        ..spec_of(&filling)
    };
    let mut collected = CollectedOutput::default();
    let outcome = match run_child(&setting.layout.apply_to(&spec), &mut collected) {
        Ok(outcome) => outcome,
        Err(error) => return RunOutcome::start_failed(&plain, &error, job, setting),
    };
    let case = job.case.clone().unwrap_or_else(|| Case::new(name, Vec::new()));
    let written = location.read_results(&collected, scratch, &output);
    let printed = match location {
        ResultLocation::Stdout => String::from_utf8_lossy(&collected.0).into_owned(),
        _ => outcome.stdout.text(),
    };
    let (mut run, mut fault) = read::extract_observation(adapter, name, &case, &written);
    if run.is_none() && outcome.ended == ProcessEnd::Exit(0) {
        let skip = read::find_skip(adapter, &printed).or(fault.take_if(|fault| fault.is_skip()));
        if job.test && keys.trial.is_some() && skip.is_none() {
            // Frameworks write no results when they only try a case.
            (run, fault) = (Some(RunResult::new(case, Vec::new())), None);
        }
        fault = skip.or(fault);
    }
    let has_no_samples = run.as_ref().is_some_and(|run| run.samples.is_empty());
    let reported = fault.clone().filter(|_| has_no_samples);
    let observations = run.filter(|_| reported.is_none()).into_iter().collect();
    let mut attempt = RunOutcome::from_process(&plain, &outcome, observations, fault, job, setting);
    attempt.stdout = printed;
    if attempt.failure.is_some() {
        attempt.observations.retain(|run| !run.samples.is_empty());
    }
    explain_failure(&mut attempt, reported);
    attempt
}

/// If the framework reported an error, uses this error as the cause of the failure. The error says
/// more than the exit status.
fn explain_failure(attempt: &mut RunOutcome, reported: Option<FailureCause>) {
    let stdout = &attempt.stdout;
    let Some(failure) = &mut attempt.failure else {
        return;
    };
    if matches!(failure.cause, FailureCause::Exit { .. }) {
        failure.cause = reported.unwrap_or(failure.cause.clone());
    }
    if failure.stderr_tail.is_empty() {
        failure.stderr_tail = tail_lines(stdout);
    }
}
