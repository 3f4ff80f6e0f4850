//! JavaScript files that use our package, driven over the harness protocol.
//!
//! The protocol is the same for every language. This module starts Node.js, Bun and Deno, and
//! handles files that start their cases themselves: those report over Node.js's own channel
//! ([`Reports`]).

pub mod core;
pub mod http_tool;
pub mod probe;
mod reports;
pub(crate) mod runtime;

use crate::attempt::not_described;
use crate::job::{Description, Job, Request, Route, Setting, Source};
use crate::node::probe::FOREIGN;
use crate::node::reports::Reports;
use crate::node::runtime::Runtime;
use crate::protocol::{self, Loop};
use crate::{Attempt, Harness, sources};
use speedwell_model::Cause;
use speedwell_process::{Channel, Spec, run};
use std::path::PathBuf;

/// Harness for files that use our package.
pub struct Node;

impl Harness for Node {
    fn describe(&self, source: &Source, request: &Request) -> Description {
        let runtime = Runtime::detect(&request.program);
        match harness_spec(&request.program, source, None) {
            Ok(mut spec) => {
                spec.environment
                    .extend(probe::search_path(&request.variant));
                let draft = draft(source, request);
                // A file's declarations do not depend on flags of Node.js; Deno's flags decide what
                // the file may do.
                let flags = match runtime {
                    Runtime::Deno => runtime.arguments(&request.variant.arguments),
                    _ => Vec::new(),
                };
                spec.arguments.splice(0..0, flags.clone());
                let plain = by_hand(&request.program, source, flags, &request.assignments());
                protocol::describe(source, request, &spec, &plain, &draft)
            }
            Err(cause) => not_described(source, cause, &Spec::new(&request.program), None),
        }
    }

    fn perform(&self, job: &Job, setting: &Setting<'_>) -> Attempt {
        let spec = match measuring_spec(job, setting) {
            Ok(spec) => spec,
            Err(cause) => {
                let spec = Spec::new(&setting.program);
                return Attempt::refused(&spec, &cause.to_string(), job, setting);
            }
        };
        if let Some(reason) = &job.unavailable {
            return Attempt::refused(&spec, reason, job, setting);
        }
        if let Some(reason) = Runtime::detect(&setting.program).refusal(job) {
            return Attempt::refused(&plain_spec(job, setting), &reason, job, setting);
        }
        if job.route == Route::Parent {
            return perform_whole(job, setting, &spec);
        }
        // A replay command starts the file itself, without the protocol.
        let plain = plain_spec(job, setting);
        protocol::perform(job, setting, &spec, &plain, Loop::OfTheFile)
    }

    fn usual_program(&self, _source: &Source) -> PathBuf {
        PathBuf::from("node")
    }
}

/// Common part of all jobs of the file, with the HTTP tool it needs.
fn draft(source: &Source, request: &Request) -> Job {
    let text = std::fs::read_to_string(&source.file).unwrap_or_default();
    let tool = http_tool::choose(&text, request, http_tool::Library::Ours);
    core::with_tool(protocol::draft(source, request), &tool)
}

/// Builds a process of the harness itself.
fn harness_spec(
    program: &std::path::Path,
    source: &Source,
    tool: Option<&str>,
) -> Result<Spec, Cause> {
    let folder = sources::NODE.folder()?;
    let mut spec = Spec::new(program).args([folder.join("harness.cjs").to_string_lossy()]);
    spec.directory = Some(source.directory.clone());
    spec.unset = FOREIGN.map(str::to_owned).to_vec();
    spec.channel = Channel::Harness;
    if Runtime::detect(program) == Runtime::Deno {
        // Deno colors its output even in a pipe, and the end of it is shown with a failure.
        spec.environment.push(("NO_COLOR".into(), "1".into()));
    }
    Ok(http_tool::with_surroundings(spec, tool))
}

fn measuring_spec(job: &Job, setting: &Setting<'_>) -> Result<Spec, Cause> {
    let mut spec = harness_spec(&setting.program, &job.source, job.http_tool.as_deref())?;
    if job.route == Route::Parent {
        let folder = sources::NODE.folder()?;
        let register = folder.join("register.cjs").to_string_lossy().into_owned();
        spec.arguments = vec![
            "-r".into(),
            register,
            job.source.file.to_string_lossy().into(),
        ];
        spec.arguments.extend(job.arguments.iter().cloned());
        spec.channel = Channel::NodeSocket;
    }
    spec.arguments.splice(0..0, flags(job, setting));
    spec.environment
        .extend(setting.variant.environment.iter().cloned());
    spec.limit = setting.limit;
    spec.pin = setting.pin.cloned();
    Ok(spec)
}

/// The command a user would type to run the same case.
fn plain_spec(job: &Job, setting: &Setting<'_>) -> Spec {
    let flags = flags(job, setting);
    Spec {
        environment: setting.variant.environment.clone(),
        limit: setting.limit,
        ..by_hand(&setting.program, &job.source, flags, &job.arguments)
    }
}

/// Flags given by the user, then those required by the file.
fn flags(job: &Job, setting: &Setting<'_>) -> Vec<String> {
    let own = Runtime::detect(&setting.program).arguments(&setting.variant.arguments);
    [&own[..], &job.flags].concat()
}

/// Starts the file without the harness, but with our package available.
fn by_hand(
    program: &std::path::Path,
    source: &Source,
    mut flags: Vec<String>,
    arguments: &[String],
) -> Spec {
    let mut spec = Spec::new(program);
    if let Ok(folder) = sources::NODE.folder() {
        let register = folder.join("register.cjs").to_string_lossy().into_owned();
        flags = Runtime::detect(program).preloading(register, flags);
    }
    spec.directory = Some(source.directory.clone());
    spec.args(flags)
        .args([source.file.to_string_lossy()])
        .args(arguments.iter().cloned())
}

fn perform_whole(job: &Job, setting: &Setting<'_>, spec: &Spec) -> Attempt {
    let mut reports = Reports::new(None, None, job.test);
    match run(spec, &mut reports) {
        Err(error) => Attempt::not_started(spec, &error, job, setting),
        Ok(outcome) => {
            let fault = reports.verdict();
            Attempt::new(spec, &outcome, reports.observations, fault, job, setting)
        }
    }
}
