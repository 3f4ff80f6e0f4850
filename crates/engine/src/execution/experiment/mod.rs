//! Performs one run of an experiment in a process of its own: receives the assignment, starts a fresh
//! process tree, checks that the intended variant is running, measures it, stops all processes, and
//! sends the report.
//!
//! Decides the order of stages and which failure belongs to which stage. This module knows nothing
//! about definition files and plans: a [`RunAssignment`] is the whole input, and a [`RunReport`] is
//! the result. A run needs a process of its own, because it may enter another network namespace.
//! Start at [`serve_request`]; `lifecycle.rs` has the stages of a server. [`target_spec`] builds the
//! command of a target with its environment.

mod assertions;
mod command;
mod lifecycle;
mod loads;
mod metrics;
mod services;
mod site;

pub use metrics::{RunReport, StageResult, stage_failure};
pub use services::{RunningService, wait_for_loss};
pub use site::RunSite;

use crate::execution::server::UNLIMITED;
use anyhow::Context;
use speedwell_adapters::ProtocolMessage;
use speedwell_machine::process::{self, ProcessSpec};
use speedwell_model::MachinePlacement;
use speedwell_model::assignment::{
    BackingService, PlaceholderValue, RunAssignment, ScopedServices, TargetProgram, TargetWork,
};
use speedwell_model::stage_report::StageReport;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::thread;
use std::time::Duration;

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
    let mut messages = BufReader::new(commands)
        .split(b'\n')
        .map_while(Result::ok)
        .filter_map(|line| ProtocolMessage::parse(&line));
    let request = messages
        .find(|message| matches!(message.verb.as_str(), "run" | "keep"))
        .context("received no request")?;
    process::adopt_orphans();
    process::install_handlers()?;
    if request.verb == "keep" {
        thread::spawn(move || {
            // Further input is ignored; the services end when the channel is closed.
            messages.for_each(drop);
            process::request_interrupt();
        });
        return services::keep_requested(&request, &mut events, keep_services);
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
    events.write_all(ProtocolMessage::new("end").to_string().as_bytes())?;
    Ok(())
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

/// Performs a run on this machine, drawing random choices from `seed`. A failure is part of the
/// report.
fn perform_run(assignment: &RunAssignment, seed: u64) -> RunReport {
    let site = RunSite::default();
    let mut report = RunReport::default();
    let result = enter_private_network(assignment, &mut report)
        .and_then(|()| run_with_services(assignment, &site, seed, &mut report));
    report.performed.failure = result.err();
    report
}

/// Enters a private network if the assignment requests one; adds a note if that is not permitted.
/// This process must still have a single thread.
fn enter_private_network(assignment: &RunAssignment, report: &mut RunReport) -> StageResult<()> {
    let TargetWork::Server(service) = &assignment.work else { return Ok(()) };
    if service.private_network
        && let Err(error) = site::enter_network_namespace()
    {
        report.performed.notes.push(format!(
            "A private network is not permitted here ({error}); the run used the network of the \
             machine."
        ));
    }
    Ok(())
}

/// Starts the backing services, runs the target, and stops the services in reverse order.
fn run_with_services(
    assignment: &RunAssignment,
    site: &RunSite<'_>,
    seed: u64,
    report: &mut RunReport,
) -> StageResult<()> {
    let mut placeholders = site.placeholders();
    placeholders.extend_from_slice(&assignment.place.kept);
    let services =
        start_all(&assignment.services, site, assignment.place.ports, &mut placeholders)?;
    let filled_assignment = assignment.clone().fill_placeholders(&placeholders);
    let result = run_target(&filled_assignment, site, seed, report);
    let lost_service = services::find_lost_service(&services);
    let stop_result = services::stop_all(services, report);
    // The loss of a service takes precedence over a failure of the target, because the loss may be
    // the cause.
    lost_service.map_or_else(|| result.and(stop_result), Err)
}

/// Starts services in the given order, because a service may need the services before it. Adds the
/// address of each service to `placeholders`.
fn start_all(
    services: &[BackingService],
    site: &RunSite<'_>,
    ports: Option<(u16, u16)>,
    placeholders: &mut Vec<PlaceholderValue>,
) -> StageResult<Vec<RunningService>> {
    let mut started = Vec::new();
    for service in services {
        let running: RunningService =
            start_service(&service.clone().fill_placeholders(placeholders), site, ports)
                .map_err(|failure| services::name_service(&service.name, failure))?;
        placeholders.extend(running.placeholders());
        started.push(running);
    }
    Ok(started)
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
    let port = lifecycle::pick_port(None, ports, site)?;
    let address =
        [("host".to_owned(), site.host().to_string()), ("port".to_owned(), port.to_string())];
    let service = service.clone().fill_placeholders(&address);
    let shutdown = site::shutdown(&service.stop);
    let spec =
        ProcessSpec { shutdown, limit: UNLIMITED, ..target_spec(&service.program, Some(port)) };
    RunningService::start(&service, spec, port, site)
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
    let site = RunSite::default();
    let mut placeholders = site.placeholders();
    placeholders.extend_from_slice(&scope.place.kept);
    let known_count = placeholders.len();
    let services = start_all(&scope.services, &site, scope.place.ports, &mut placeholders)?;
    ready(&placeholders[known_count..]);
    let result = wait_for_loss(|| services::find_lost_service(&services));
    let stop_result = services::stop_all(services, report);
    result.and(stop_result)
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
    let (target, pin) =
        (&assignment.target, site::divide_processors(assignment.processors, report));
    match &assignment.work {
        TargetWork::Command => {
            let spec = ProcessSpec { pin, ..target_spec(target, None) };
            command::run_command(assignment, spec, report)
        }
        TargetWork::Server(service) => {
            let port = lifecycle::pick_port(service.port, assignment.place.ports, site)?;
            let shutdown = site::shutdown(&service.stop);
            let spec = ProcessSpec { pin, shutdown, ..target_spec(target, Some(port)) };
            lifecycle::run_server(assignment, service, (seed, site), (port, spec), report)
        }
        TargetWork::Load(spec) => {
            let port = lifecycle::pick_port(None, None, &RunSite::default())?;
            let fill = |text: &str| text.replace("{port}", &port.to_string());
            let spec = spec.clone().fill_placeholders(&fill);
            let server = spec.serve.as_deref().map(|line| {
                let command = ["/bin/sh", "-c", line].map(str::to_owned).to_vec();
                let target = TargetProgram { command, ..target.clone() };
                ProcessSpec { limit: UNLIMITED, pin, ..target_spec(&target, Some(port)) }
            });
            loads::send_load(&spec, server, seed, report)
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
        let (name, value) = change.apply(|name| current_value(&spec, name));
        spec.environment.retain(|(variable, _)| variable != name);
        match value {
            Some(value) => spec.environment.push((name.to_owned(), value)),
            None => spec.unset.push(name.to_owned()),
        }
    }
    spec
}

/// Returns the value that the variable `name` has after the changes that `spec` already contains.
fn current_value(spec: &ProcessSpec, name: &str) -> Option<String> {
    let found = spec.environment.iter().find(|(variable, _)| variable == name);
    let is_unset = spec.unset.iter().any(|variable| variable == name);
    let inherited = || std::env::var(name).ok().filter(|_| !is_unset);
    found.map(|(_, value)| value.clone()).or_else(inherited)
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
