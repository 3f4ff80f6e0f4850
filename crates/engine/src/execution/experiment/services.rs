//! Runs the services that a target depends on, such as a database. Services are ready before the
//! target starts, and are stopped after it has ended.
//!
//! Start at [`RunningService::start`]. The parent module decides which services are started.

use super::lifecycle::find_listener;
use super::{RunReport, RunSite, StageResult, stage_failure};
use crate::execution::server::{ReadinessFailure, StartFailure, TAIL_LINES, wait_until_ready};
use anyhow::Context;
use speedwell_adapters::ProtocolMessage;
use speedwell_machine::process::{self, ProcessEnd, ProcessSpec, ServiceProcess};
use speedwell_model::assignment::{BackingService, PlaceholderValue, ScopedServices};
use speedwell_model::stage_report::{RunStage, StageFailure, StageReport};
use std::fs::File;
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Timeout of one readiness command.
const READY_COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// A service that is ready.
#[derive(Debug)]
pub struct RunningService {
    name: String,
    service: ServiceProcess,
    host: String,
    port: u16,
}

impl RunningService {
    /// Starts a service with `spec` and waits until it is ready at `port`. The placeholders of
    /// `definition` must already be filled.
    ///
    /// # Errors
    /// Returns the stage that failed.
    pub(super) fn start(
        definition: &BackingService,
        spec: ProcessSpec,
        port: u16,
        site: &RunSite<'_>,
    ) -> StageResult<RunningService> {
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
            Ok(_) => {
                let (name, host) = (definition.name.clone(), site.host().to_string());
                Ok(RunningService { name, service, host, port })
            }
            Err(failure) => Err(stop_unready(service, &failure, limit)),
        }
    }

    /// Returns the placeholders for the address of the service.
    pub fn placeholders(&self) -> [PlaceholderValue; 2] {
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
        let outcome = self
            .service
            .stop_and_wait()
            .map_err(|error| stage_failure(RunStage::Stop, error.to_string()))?;
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
pub(super) fn name_service(name: &str, failure: StageFailure) -> StageFailure {
    StageFailure { reason: format!("service '{name}': {}", failure.reason), ..failure }
}

/// Returns the failure of the first service that has ended by itself.
pub(super) fn find_lost_service(services: &[RunningService]) -> Option<StageFailure> {
    let named_failure = |service: &RunningService| {
        service.find_failure().map(|failure| name_service(&service.name, failure))
    };
    services.iter().find_map(named_failure)
}

/// Stops services in reverse order.
pub(super) fn stop_all(services: Vec<RunningService>, report: &mut RunReport) -> StageResult<()> {
    let mut result = Ok(());
    for service in services.into_iter().rev() {
        let name = service.name.clone();
        result = result.and(service.stop(report).map_err(|failure| name_service(&name, failure)));
    }
    result
}

/// Keeps the requested services running with `keep_services`. Reports their addresses, and how they
/// ended.
pub(super) fn keep_requested(
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
    events.write_all(ended.to_string().as_bytes())?;
    Ok(())
}

fn send_addresses(addresses: &[PlaceholderValue], events: &mut File) -> anyhow::Result<()> {
    let ready = ProtocolMessage::new("ready").with("places", serde_json::to_string(addresses)?);
    Ok(events.write_all(ready.to_string().as_bytes())?)
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

fn stop_unready(service: ServiceProcess, cause: &StartFailure, limit: Duration) -> StageFailure {
    let reason = cause.reason(limit);
    let outcome = service.stop_and_wait();
    let mut failure = stage_failure(RunStage::Ready, reason);
    if let Ok(outcome) = outcome {
        if matches!(cause, StartFailure::Ended) {
            failure.reason = format!("{}: {}", failure.reason, outcome.ended);
        }
        failure.stderr_tail = outcome.stderr.last_lines(TAIL_LINES);
    }
    failure
}
