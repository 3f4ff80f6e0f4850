//! Performs one run of an experiment in a process of its own: receives the assignment, starts a fresh
//! process tree, checks that the intended variant is running, measures it, stops all processes, and
//! sends the report.
//!
//! Decides the order of stages and which failure belongs to which stage. This module knows nothing
//! about definition files and plans: a [`RunAssignment`] is the whole input, and a [`RunReport`] is
//! the result. A run needs a process of its own, because it may enter another network namespace.
//! Start at [`serve_request`]; `lifecycle.rs` has the stages of a target. [`target_spec`] builds the
//! command of a target with its environment.
//!
//! Services that a target depends on, such as a database, are ready before the target starts, and
//! are stopped after it has ended ([`start_service`]).

mod assertions;
mod lifecycle;
mod metrics;
mod site;

pub use metrics::{RunReport, StageResult, stage_error, stage_failure};
pub use site::RunSite;

use crate::execution::server::{ReadinessFailure, TAIL_LINES, UNLIMITED, wait_until_ready};
use anyhow::Context;
use lifecycle::{run_command, run_server, send_load, stop_failed, stop_service};
use rustix::process::Signal;
use site::{divide_processors, enter_network_namespace, find_listener, pick_port};
use speedwell_adapters::ProtocolMessage;
use speedwell_machine::process::{self, ProcessEnd, ProcessSpec, ServiceProcess, ShutdownPolicy};
use speedwell_model::MachinePlacement;
use speedwell_model::assignment::{
    AssignedPlace, BackingService, PlaceholderValue, RunAssignment, ScopedServices, StopSignal,
    TargetProgram, TargetWork,
};
use speedwell_model::stage_report::{RunStage, StageFailure, StageReport};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::thread;
use std::time::{Duration, Instant};

/// Interval between checks whether a service has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Timeout of one readiness command of a service.
const READY_COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// Waits for a request on the private channel (docs/reference/protocol.md, "Transport"), performs
/// it, and sends the result. A request is a run, or services that several runs share.
///
/// `perform_placed_run` performs a run whose roles are placed on machines. `keep_services` passes
/// the addresses of services to its callback, and keeps the services running until this process is
/// interrupted.
///
/// # Errors
/// Fails if this process was started without a private channel, or if the channel is closed.
pub fn serve_request(
    perform_placed_run: impl FnOnce(&RunAssignment, &MachinePlacement, u64) -> RunReport,
    keep_services: impl FnOnce(&ScopedServices, &mut dyn FnMut(&[PlaceholderValue])) -> StageReport,
) -> anyhow::Result<()> {
    let (commands, mut events) =
        open_private_channel().context("this command is internal to Speedwell")?;
    let lines = BufReader::new(commands).split(b'\n').map_while(Result::ok);
    let mut messages = lines.filter_map(|line| ProtocolMessage::parse(&line));
    let found = messages.find(|message| matches!(message.verb.as_str(), "run" | "keep"));
    let request = found.context("received no request")?;
    process::adopt_orphans();
    process::install_handlers()?;
    if request.verb == "keep" {
        thread::spawn(move || {
            // Further input is ignored; the services end when the channel is closed.
            messages.for_each(drop);
            process::request_interrupt();
        });
        return keep_requested(&request, &mut events, keep_services);
    }
    let text = request.get("assignment").context("the request has no assignment")?;
    let assignment: RunAssignment = serde_json::from_str(&text)?;
    let seed = request.parse_number("seed").unwrap_or(0);
    let result = match &assignment.place.placement {
        None => perform_run(&assignment, seed),
        Some(placement) => perform_placed_run(&assignment, placement, seed),
    };
    let mut response =
        ProtocolMessage::new("performed").with("json", serde_json::to_string(&result.performed)?);
    if let Some(load) = &result.load {
        response = response.with("load", serde_json::to_string(load)?);
    }
    if let Some(profile) = &result.profile {
        response = response.with("profile", serde_json::to_string(profile)?);
    }
    events.write_all(response.to_string().as_bytes())?;
    Ok(events.write_all(ProtocolMessage::new("end").to_string().as_bytes())?)
}

/// Opens the two pipes that connect this process with its parent. `SPEEDWELL_FDS` names their file
/// descriptors. The function opens the pipes again by their paths in /proc, because this needs no
/// unsafe code.
fn open_private_channel() -> anyhow::Result<(File, File)> {
    let names = std::env::var("SPEEDWELL_FDS").context("SPEEDWELL_FDS is not set")?;
    let (input, output) =
        names.split_once(',').context("SPEEDWELL_FDS does not name two descriptors")?;
    let path = |number: &str| format!("/proc/self/fd/{number}");
    Ok((File::open(path(input))?, OpenOptions::new().write(true).open(path(output))?))
}

/// Keeps the requested services running with `keep_services`. Reports their addresses, and how they
/// ended.
fn keep_requested(
    request: &ProtocolMessage,
    events: &mut File,
    keep_services: impl FnOnce(&ScopedServices, &mut dyn FnMut(&[PlaceholderValue])) -> StageReport,
) -> anyhow::Result<()> {
    let services = request.get("services").context("the request has no services")?;
    let keeping: ScopedServices = serde_json::from_str(&services)?;
    let mut send_result = Ok(());
    let performed = keep_services(&keeping, &mut |addresses: &[PlaceholderValue]| {
        send_result = send_addresses(addresses, events);
    });
    send_result?;
    let ended = ProtocolMessage::new("ended").with("json", serde_json::to_string(&performed)?);
    Ok(events.write_all(ended.to_string().as_bytes())?)
}

fn send_addresses(addresses: &[PlaceholderValue], events: &mut File) -> anyhow::Result<()> {
    let ready = ProtocolMessage::new("ready").with("places", serde_json::to_string(addresses)?);
    Ok(events.write_all(ready.to_string().as_bytes())?)
}

/// Performs a run on this machine, drawing random choices from `seed`. A failure is part of the
/// report. Enters a private network if the assignment requests one, which needs a process with a
/// single thread; adds a note if that is not permitted.
fn perform_run(assignment: &RunAssignment, seed: u64) -> RunReport {
    let mut report = RunReport::default();
    if let TargetWork::Server(service) = &assignment.work
        && service.private_network
        && let Err(error) = enter_network_namespace()
    {
        report.performed.notes.push(format!(
            "A private network is not permitted here ({error}); the run used the network of the \
             machine."
        ));
    }
    let (services, place) = (&assignment.services, &assignment.place);
    let result = with_services(services, place, &mut report, |_, placeholders, report| {
        let filled = assignment.clone().fill_placeholders(placeholders);
        run_target(&filled, &RunSite::default(), seed, report)
    });
    report.performed.failure = result.err();
    report
}

/// Runs services on this machine until an interrupt tells the process to stop them. Once all
/// services are ready, calls `ready` with their addresses.
///
/// # Errors
/// Returns the stage that failed, for example because a service ended by itself.
pub fn run_shared_services(
    scope: &ScopedServices,
    ready: &mut dyn FnMut(&[PlaceholderValue]),
    report: &mut RunReport,
) -> StageResult<()> {
    with_services(&scope.services, &scope.place, report, |services, _, _| {
        let addresses = services.iter().flat_map(RunningService::placeholders);
        ready(&addresses.collect::<Vec<PlaceholderValue>>());
        wait_for_loss(|| find_lost_service(services))
    })
}

/// Starts services on this machine, calls `work` with them and with all placeholders, and stops the
/// services in reverse order.
fn with_services(
    services: &[BackingService],
    place: &AssignedPlace,
    report: &mut RunReport,
    work: impl FnOnce(&[RunningService], &[PlaceholderValue], &mut RunReport) -> StageResult<()>,
) -> StageResult<()> {
    let site = RunSite::default();
    let mut placeholders = site.placeholders();
    placeholders.extend_from_slice(&place.kept);
    let mut started: Vec<RunningService> = Vec::new();
    // A service may need the services before it.
    for service in services {
        let filled = service.clone().fill_placeholders(&placeholders);
        let running = start_service(&filled, &site, place.ports)
            .map_err(|failure| name_service(&service.name, failure))?;
        placeholders.extend(running.placeholders());
        started.push(running);
    }
    let result = work(&started, &placeholders, report);
    let lost_service = find_lost_service(&started);
    let mut stop_result = Ok(());
    for service in started.into_iter().rev() {
        let name = service.name.clone();
        let stopped = service.stop(report).map_err(|failure| name_service(&name, failure));
        stop_result = stop_result.and(stopped);
    }
    // The loss of a service takes precedence over a failure of the target, because the loss may be
    // the cause.
    lost_service.map_or_else(|| result.and(stop_result), Err)
}

/// A service that is ready.
#[derive(Debug)]
pub struct RunningService {
    name: String,
    service: ServiceProcess,
    host: String,
    port: u16,
}

/// Starts a service and waits until it is ready.
///
/// # Errors
/// Returns the stage that failed.
pub fn start_service(
    service: &BackingService,
    site: &RunSite<'_>,
    ports: Option<(u16, u16)>,
) -> StageResult<RunningService> {
    let port = pick_port(None, ports, site)?;
    let host = site.host().to_string();
    let address = [("host".to_owned(), host.clone()), ("port".to_owned(), port.to_string())];
    let definition = service.clone().fill_placeholders(&address);
    let spec = ProcessSpec {
        shutdown: shutdown(&definition.stop),
        limit: UNLIMITED,
        ..target_spec(&definition.program, Some(port))
    };
    let ready_spec = definition.ready.as_ref().map(|command| ready_command(&spec, command));
    let program = spec.program.display().to_string();
    let begin = Instant::now();
    let service = ServiceProcess::start(spec)
        .map_err(|error| stage_failure(RunStage::Start, format!("'{program}': {error}")))?;
    let limit = Duration::from_millis(definition.within_ms);
    let result = wait_until_ready(&service, begin, limit, || match &ready_spec {
        Some(spec) => run_ready_command(spec),
        None => find_listener(site, port, service.pid()).map(drop),
    });
    match result {
        Ok(_) => Ok(RunningService { name: definition.name, service, host, port }),
        Err(failure) => {
            Err(stop_failed(service, stage_failure(RunStage::Ready, failure.reason(limit))))
        }
    }
}

impl RunningService {
    /// Returns the placeholders for the address of the service.
    fn placeholders(&self) -> [PlaceholderValue; 2] {
        [
            (format!("{}.host", self.name), self.host.clone()),
            (format!("{}.port", self.name), self.port.to_string()),
        ]
    }

    /// Returns the port of the service.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns a failure if the service has ended by itself.
    pub fn find_failure(&self) -> Option<StageFailure> {
        let has_ended = self.service.has_ended() && !process::is_interrupt_requested();
        has_ended.then(|| stage_failure(RunStage::Alive, "it ended by itself"))
    }

    /// Stops the service.
    ///
    /// # Errors
    /// Fails if the service had to be killed.
    pub fn stop(self, report: &mut RunReport) -> StageResult<()> {
        let outcome = stop_service(self.service)?;
        report.performed.notes.extend(outcome.describe_leftovers());
        if outcome.shutdown.is_some_and(|shutdown| shutdown.was_killed) {
            let reason = "it did not stop when requested and was killed";
            return Err(StageFailure {
                stderr_tail: outcome.stderr.last_lines(TAIL_LINES),
                ..stage_failure(RunStage::Stop, reason)
            });
        }
        Ok(())
    }
}

/// Adds the name of a service to the reason for its failure.
fn name_service(name: &str, failure: StageFailure) -> StageFailure {
    StageFailure { reason: format!("service '{name}': {}", failure.reason), ..failure }
}

/// Returns the failure of the first service that has ended by itself.
fn find_lost_service(services: &[RunningService]) -> Option<StageFailure> {
    let named_failure = |service: &RunningService| {
        service.find_failure().map(|failure| name_service(&service.name, failure))
    };
    services.iter().find_map(named_failure)
}

/// Waits until the process is interrupted or `find_loss` finds a failure.
///
/// # Errors
/// Returns the failure that `find_loss` found.
pub fn wait_for_loss(find_loss: impl Fn() -> Option<StageFailure>) -> StageResult<()> {
    while !process::is_interrupt_requested() {
        if let Some(failure) = find_loss() {
            return Err(failure);
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// Builds a readiness command with the directory and environment of the service.
fn ready_command(service_spec: &ProcessSpec, command: &[String]) -> ProcessSpec {
    let mut parts = command.iter().cloned();
    let mut spec = ProcessSpec::new(parts.next().unwrap_or_default()).args(parts);
    spec.limit = READY_COMMAND_TIMEOUT;
    spec.directory.clone_from(&service_spec.directory);
    spec.environment.clone_from(&service_spec.environment);
    spec.unset.clone_from(&service_spec.unset);
    spec
}

fn run_ready_command(spec: &ProcessSpec) -> Result<(), ReadinessFailure> {
    let program = spec.program.display();
    let outcome = process::run_child(spec, &mut ())
        .map_err(|error| ReadinessFailure::Never(format!("cannot start '{program}': {error}")))?;
    match outcome.ended {
        ProcessEnd::Exit(0) => Ok(()),
        _ => {
            let last_line = outcome.stderr.last_lines(1);
            Err(ReadinessFailure::NotYet(format!("'{program}': {} {last_line}", outcome.ended)))
        }
    }
}

/// Runs a target at this site. The services that the target needs must be ready already.
///
/// # Errors
/// The error names the stage that failed. `report` then contains the results up to that stage.
pub fn run_target(
    assignment: &RunAssignment,
    site: &RunSite<'_>,
    seed: u64,
    report: &mut RunReport,
) -> StageResult<()> {
    let (target, pin) = (&assignment.target, divide_processors(assignment.processors, report));
    match &assignment.work {
        TargetWork::Command => {
            let spec = ProcessSpec { pin, ..target_spec(target, None) };
            run_command(assignment, spec, report)
        }
        TargetWork::Server(service) => {
            let port = pick_port(service.port, assignment.place.ports, site)?;
            let policy = shutdown(&service.stop);
            let spec = ProcessSpec { pin, shutdown: policy, ..target_spec(target, Some(port)) };
            run_server(assignment, service, (seed, site), (port, spec), report)
        }
        TargetWork::Load(spec) => {
            let port = pick_port(None, None, &RunSite::default())?;
            let fill = |text: &str| text.replace("{port}", &port.to_string());
            let spec = spec.clone().fill_placeholders(&fill);
            let server = spec.serve.as_deref().map(|line| {
                let command = ["/bin/sh", "-c", line].map(str::to_owned).to_vec();
                let target = TargetProgram { command, ..target.clone() };
                ProcessSpec { limit: UNLIMITED, pin, ..target_spec(&target, Some(port)) }
            });
            send_load(&spec, server, seed, report)
        }
    }
}

/// Builds the command. Replaces `{port}` in its arguments and environment variables with `port`.
fn target_spec(target: &TargetProgram, port: Option<u16>) -> ProcessSpec {
    let port = port.map(|port| ("port".to_owned(), port.to_string()));
    let target = target.clone().fill_placeholders(port.as_slice());
    let mut words = target.command.into_iter();
    let mut spec = ProcessSpec::new(words.next().unwrap_or_default()).args(words);
    spec.directory = Some(target.directory);
    spec.limit = Duration::from_millis(target.limit_ms);
    // The target may itself be a harness. It must not use the private channel of this process.
    spec.unset.push("SPEEDWELL_FDS".into());
    for change in &target.environment {
        let (name, value) = change.apply(|name| spec.variable(name));
        spec.environment.retain(|(variable, _)| variable != name);
        match value {
            Some(value) => spec.environment.push((name.to_owned(), value)),
            None => spec.unset.push(name.to_owned()),
        }
    }
    spec
}

/// Returns how to stop a server. The fallback to `TERM` is never needed, because definition files
/// accept only signals that have a name.
fn shutdown(stop: &StopSignal) -> ShutdownPolicy {
    ShutdownPolicy {
        signal: Signal::from_named_raw(stop.signal).unwrap_or(Signal::TERM),
        grace: Duration::from_millis(stop.grace_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::assignment::EnvVarChange;

    fn target(environment: Vec<EnvVarChange>) -> TargetProgram {
        TargetProgram {
            command: ["node", "--port={port}"].map(str::to_owned).to_vec(),
            directory: "/x".into(),
            environment,
            expected_exit: 0,
            limit_ms: 1000,
        }
    }

    #[test]
    fn changes_of_a_variable_are_applied_in_order() {
        let text = |a: &str| a.to_owned();
        let changes = vec![
            EnvVarChange::Set(text("OPTIONS"), text("-a")),
            EnvVarChange::Append(text("OPTIONS"), text("--port {port}")),
            EnvVarChange::Prepend(text("MY_PATH"), text("/new")),
            EnvVarChange::Append(text("MY_PATH"), text("/last")),
            EnvVarChange::Unset(text("HOME")),
        ];
        let spec = target_spec(&target(changes), Some(81));
        assert_eq!(spec.arguments, ["--port=81"]);
        assert_eq!(
            spec.environment,
            [("OPTIONS", "-a --port 81"), ("MY_PATH", "/new:/last")]
                .map(|(name, value)| (text(name), text(value)))
        );
        assert_eq!(spec.unset, ["SPEEDWELL_FDS", "HOME"]);
    }
}
