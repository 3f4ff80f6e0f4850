//! Node.js files that use our package, driven over the harness protocol.
//!
//! All commands of a measuring process are known before it starts, so they are sent at once and
//! the process never waits for us.

use super::attempt::description_failure;
use super::job::{Description, Job, Request, Route, Setting, Source, Trial};
use super::node_channel::Reports;
use super::node_describe::described;
use super::node_events::{Events, observation};
use super::node_probe::FOREIGN;
use super::{Attempt, Harness, Message, node_core, sources};
use crate::model::Cause;
use crate::process::{Channel, Spec, run};
use std::path::PathBuf;

/// The harness for files that use our package.
pub struct Node;

impl Harness for Node {
    fn describe(&self, source: &Source, request: &Request) -> Description {
        let spec = match harness_spec(&request.program, source, None) {
            Ok(spec) => Spec {
                limit: request.limit,
                ..spec
            },
            Err(cause) => return failed(source, cause, &Spec::new(&request.program)),
        };
        let sets = node_core::set_arguments(request);
        let mut describe = Message::new("describe")
            .with("id", 2)
            .with("path", source.file.display())
            .with("root", source.root.display())
            .with_list("args", &sets);
        if request.trial != Trial::No {
            describe = describe.with("test", 1);
        }
        let mut events = Events::after([describe]);
        match run(&spec, &mut events) {
            Err(error) => {
                let reason = super::attempt::start_reason(&spec, &error);
                failed(source, Cause::Start { reason }, &spec)
            }
            Ok(outcome) => match events.error().or_else(|| outcome.cause(spec.limit)) {
                Some(cause) => Description {
                    failure: Some(description_failure(
                        &source.name,
                        cause,
                        &spec,
                        Some(&outcome),
                    )),
                    ..Description::default()
                },
                None => described(source, request, &events),
            },
        }
    }

    fn perform(&self, job: &Job, setting: &Setting<'_>) -> Attempt {
        let mut spec = match measuring_spec(job, setting) {
            Ok(spec) => spec,
            Err(cause) => {
                let spec = Spec::new(&setting.program);
                return Attempt::refused(&spec, &cause.to_string(), job, setting);
            }
        };
        if let Some(reason) = &job.unavailable {
            return Attempt::refused(&spec, reason, job, setting);
        }
        if job.route == Route::Parent {
            return perform_whole(job, setting, &spec);
        }
        let mut events = Events::after([load(job), once()]);
        match run(&spec, &mut events) {
            Err(error) => Attempt::not_started(&spec, &error, job, setting),
            Ok(outcome) => {
                let (seen, fault) = observation(job, &events);
                // What the reader is to repeat is the file itself, not our side of the protocol.
                spec = plain_spec(job, setting);
                Attempt::new(
                    &spec,
                    &outcome,
                    seen.into_iter().collect(),
                    fault,
                    job,
                    setting,
                )
            }
        }
    }

    fn usual_program(&self, _source: &Source) -> PathBuf {
        PathBuf::from("node")
    }
}

fn failed(source: &Source, cause: Cause, spec: &Spec) -> Description {
    let failure = Some(description_failure(&source.name, cause, spec, None));
    Description {
        failure,
        ..Description::default()
    }
}

/// A process of the harness itself.
fn harness_spec(
    program: &std::path::Path,
    source: &Source,
    tool: Option<&str>,
) -> Result<Spec, Cause> {
    let folder = sources::node().map_err(|error| Cause::Start {
        reason: format!("{error:#}"),
    })?;
    let mut spec = Spec::new(program).args([folder.join("harness.cjs").to_string_lossy()]);
    spec.directory = Some(source.directory.clone());
    spec.unset = FOREIGN.to_vec();
    spec.channel = Channel::Harness;
    Ok(node_core::with_surroundings(spec, tool))
}

fn measuring_spec(job: &Job, setting: &Setting<'_>) -> Result<Spec, Cause> {
    let mut spec = harness_spec(&setting.program, &job.source, job.http_tool.as_deref())?;
    if job.route == Route::Parent {
        let folder = sources::node().map_err(|error| Cause::Start {
            reason: format!("{error:#}"),
        })?;
        let register = folder.join("register.cjs").to_string_lossy().into_owned();
        spec.arguments = vec![
            "-r".into(),
            register,
            job.source.file.to_string_lossy().into(),
        ];
        spec.arguments.extend(job.arguments.iter().cloned());
        spec.channel = Channel::NodeSocket;
    }
    let flags = setting.variant.arguments.iter().chain(&job.flags).cloned();
    spec.arguments.splice(0..0, flags);
    spec.environment
        .extend(setting.variant.environment.iter().cloned());
    spec.limit = setting.limit;
    spec.pin = setting.pin.cloned();
    Ok(spec)
}

/// The line that a person would type to see the same case.
fn plain_spec(job: &Job, setting: &Setting<'_>) -> Spec {
    let mut spec = Spec::new(&setting.program)
        .args(setting.variant.arguments.iter().chain(&job.flags).cloned())
        .args([job.source.file.to_string_lossy()])
        .args(job.arguments.iter().cloned());
    spec.environment = setting.variant.environment.clone();
    if let Ok(folder) = sources::node() {
        let register = folder.join("register.cjs");
        spec.arguments.splice(
            0..0,
            ["-r".to_owned(), register.to_string_lossy().into_owned()],
        );
    }
    spec.directory = Some(job.source.directory.clone());
    spec.limit = setting.limit;
    spec
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

fn load(job: &Job) -> Message {
    let mut message = Message::new("load")
        .with("id", 2)
        .with("job", "case")
        .with("form", "case")
        .with("path", job.source.file.display())
        .with("root", job.source.root.display());
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

fn once() -> Message {
    Message::new("run")
        .with("id", 3)
        .with("jobs", "case")
        .with("mode", "once")
}
