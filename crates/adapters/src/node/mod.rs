//! Lists and performs the cases of JavaScript files that use the package `speedwell`.
//!
//! Such a file runs in Node.js, Bun or Deno, under a harness that speaks the same protocol as the
//! harnesses of other languages (`protocol.rs`). A file that starts its cases itself runs without
//! the harness, and reports over Node.js's own channel ([`ReportCollector`]).

pub mod core;
pub mod http_tool;
pub mod probe;
mod reports;
pub(crate) mod runtime;

use crate::job::{
    BenchmarkDescription, BenchmarkJob, BenchmarkSource, DescribeRequest, RunContext, StartMode,
};
use crate::node::probe::LEAKED_VARIABLES;
use crate::node::reports::ReportCollector;
use crate::node::runtime::JsRuntime;
use crate::protocol::{self, LoopOwner};
use crate::run_outcome::description_failure;
use crate::{LanguageHarness, RunOutcome, sources};
use speedwell_machine::process::{ChannelKind, ProcessSpec, run_child};
use speedwell_model::FailureCause;
use std::path::PathBuf;

/// Harness for files that use the package `speedwell`.
pub struct NodeHarness;

impl LanguageHarness for NodeHarness {
    fn describe_source(
        &self,
        source: &BenchmarkSource,
        request: &DescribeRequest,
    ) -> BenchmarkDescription {
        let runtime = JsRuntime::from_program(&request.program);
        match harness_spec(&request.program, source, None) {
            Ok(mut spec) => {
                spec.environment.extend(probe::search_path(&request.variant));
                let draft = draft_job(source, request);
                // Flags of Node.js do not change what a file declares, so they are left out. Flags
                // of Deno are needed, because they decide what the file is permitted to do.
                let flags = match runtime {
                    JsRuntime::Deno => runtime.arguments(&request.variant.arguments),
                    _ => Vec::new(),
                };
                spec.arguments.splice(0..0, flags.clone());
                let plain = plain_command(&request.program, source, flags, &request.assignments());
                protocol::describe_file(source, request, &spec, &plain, &draft)
            }
            Err(cause) => {
                description_failure(source, cause, &ProcessSpec::new(&request.program), None)
            }
        }
    }

    fn perform_job(&self, job: &BenchmarkJob, setting: &RunContext<'_>) -> RunOutcome {
        let spec = match measuring_spec(job, setting) {
            Ok(spec) => spec,
            Err(cause) => {
                let spec = ProcessSpec::new(&setting.program);
                return RunOutcome::unsupported(&spec, &cause.to_string(), job, setting);
            }
        };
        if let Some(reason) = &job.unavailable {
            return RunOutcome::unsupported(&spec, reason, job, setting);
        }
        if let Some(reason) = JsRuntime::from_program(&setting.program).refuse_flags(job) {
            return RunOutcome::unsupported(&plain_spec(job, setting), &reason, job, setting);
        }
        if job.route == StartMode::Parent {
            return perform_file(job, setting, &spec);
        }
        // A replay command starts the file itself, without the protocol.
        let plain = plain_spec(job, setting);
        protocol::perform_case(job, setting, &spec, &plain, LoopOwner::File)
    }

    fn default_program(&self, _source: &BenchmarkSource) -> PathBuf {
        PathBuf::from("node")
    }
}

/// Builds the common part of all jobs of the file, including the HTTP tool that the file needs.
fn draft_job(source: &BenchmarkSource, request: &DescribeRequest) -> BenchmarkJob {
    let text = std::fs::read_to_string(&source.file).unwrap_or_default();
    let tool = http_tool::choose_tool(&text, request, http_tool::BenchmarkLibrary::Ours);
    core::with_tool(protocol::draft_job(source, request), &tool)
}

/// Builds a process of the harness itself.
fn harness_spec(
    program: &std::path::Path,
    source: &BenchmarkSource,
    tool: Option<&str>,
) -> Result<ProcessSpec, FailureCause> {
    let folder = sources::NODE.folder()?;
    let mut spec = ProcessSpec::new(program).args([folder.join("harness.cjs").to_string_lossy()]);
    spec.directory = Some(source.directory.clone());
    spec.unset = LEAKED_VARIABLES.map(str::to_owned).to_vec();
    spec.channel = ChannelKind::Harness;
    if JsRuntime::from_program(program) == JsRuntime::Deno {
        // Deno colors its output even in a pipe. The colors would appear in failures, which show
        // the end of the output.
        spec.environment.push(("NO_COLOR".into(), "1".into()));
    }
    Ok(http_tool::with_isolated_environment(spec, tool))
}

fn measuring_spec(
    job: &BenchmarkJob,
    setting: &RunContext<'_>,
) -> Result<ProcessSpec, FailureCause> {
    let mut spec = harness_spec(&setting.program, &job.source, job.http_tool.as_deref())?;
    if job.route == StartMode::Parent {
        let folder = sources::NODE.folder()?;
        let register = folder.join("register.cjs").to_string_lossy().into_owned();
        spec.arguments = vec!["-r".into(), register, job.source.file.to_string_lossy().into()];
        spec.arguments.extend(job.arguments.iter().cloned());
        spec.channel = ChannelKind::NodeSocket;
    }
    spec.arguments.splice(0..0, program_flags(job, setting));
    spec.environment.extend(setting.variant.environment.iter().cloned());
    spec.limit = setting.limit;
    spec.pin = setting.pin.cloned();
    Ok(spec)
}

/// Builds the command that a user would type to run the same case.
fn plain_spec(job: &BenchmarkJob, setting: &RunContext<'_>) -> ProcessSpec {
    let flags = program_flags(job, setting);
    ProcessSpec {
        environment: setting.variant.environment.clone(),
        limit: setting.limit,
        ..plain_command(&setting.program, &job.source, flags, &job.arguments)
    }
}

/// Returns the flags given by the user, followed by the flags that the file requires.
fn program_flags(job: &BenchmarkJob, setting: &RunContext<'_>) -> Vec<String> {
    let arguments = JsRuntime::from_program(&setting.program).arguments(&setting.variant.arguments);
    [&arguments[..], &job.flags].concat()
}

/// Builds a command that starts the file without the harness, but with the package `speedwell`
/// available.
fn plain_command(
    program: &std::path::Path,
    source: &BenchmarkSource,
    mut flags: Vec<String>,
    arguments: &[String],
) -> ProcessSpec {
    let mut spec = ProcessSpec::new(program);
    if let Ok(folder) = sources::NODE.folder() {
        let register = folder.join("register.cjs").to_string_lossy().into_owned();
        flags = JsRuntime::from_program(program).preload_arguments(register, flags);
    }
    spec.directory = Some(source.directory.clone());
    spec.args(flags).args([source.file.to_string_lossy()]).args(arguments.iter().cloned())
}

fn perform_file(job: &BenchmarkJob, setting: &RunContext<'_>, spec: &ProcessSpec) -> RunOutcome {
    let mut reports = ReportCollector::new(None, None, job.test);
    match run_child(spec, &mut reports) {
        Err(error) => RunOutcome::start_failed(spec, &error, job, setting),
        Ok(outcome) => {
            let fault = reports.find_fault();
            RunOutcome::from_process(spec, &outcome, reports.observations, fault, job, setting)
        }
    }
}
