//! Services a target depends on, such as a database: ready before the target starts, and stopped
//! after it.
//!
//! Start at [`RunningService::start`]; [`run_shared_services`] runs services that several runs
//! share.

use super::lifecycle::{find_listener, pick_port};
use super::{RunReport, RunSite, StageResult, stage_failure, target};
use crate::load::UNLIMITED;
use crate::server::{ReadinessFailure, StartFailure, TAIL_LINES, wait_until_ready};
use speedwell_model::assignment::{BackingService, PlaceholderValue, ScopedServices, fill_text};
use speedwell_model::performed::{RunStage, StageFailure};
use speedwell_process::{self as process, ProcessEnd, ProcessSpec, ServiceProcess};
use std::thread;
use std::time::{Duration, Instant};

/// Interval for polling services.
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
    /// Starts a service and waits until it is ready.
    ///
    /// # Errors
    /// Returns the stage that failed.
    pub fn start(
        own: &BackingService,
        site: &RunSite<'_>,
        ports: Option<(u16, u16)>,
    ) -> StageResult<RunningService> {
        let port = pick_port(None, ports, site)?;
        let host = site.host().to_string();
        let blanks = [("host".to_owned(), host.clone()), port_blank(port)];
        let mut spec =
            target::target_spec(&own.program.clone().fill_placeholders(&blanks), Some(port));
        spec.shutdown = target::shutdown(&own.stop);
        spec.limit = UNLIMITED;
        let asked = own.ready.as_ref().map(|words| ProcessSpec {
            limit: READY_COMMAND_TIMEOUT,
            ..ready_command(&spec, words, &blanks)
        });
        let program = spec.program.display().to_string();
        let begin = Instant::now();
        let service = ServiceProcess::start(spec)
            .map_err(|error| stage_failure(RunStage::Start, format!("'{program}': {error}")))?;
        let limit = Duration::from_millis(own.within_ms);
        let found = wait_until_ready(&service, begin, limit, || match &asked {
            Some(spec) => run_ready_command(spec),
            None => find_listener(site, port, service.pid()).map(drop),
        });
        match found {
            Ok(_) => Ok(RunningService {
                name: own.name.clone(),
                service,
                host,
                port,
            }),
            Err(why) => Err(stop_unready(service, &why, limit)),
        }
    }

    /// Placeholders for the address of the service.
    pub fn placeholders(&self) -> [PlaceholderValue; 2] {
        [
            (format!("{}.host", self.name), self.host.clone()),
            (format!("{}.port", self.name), self.port.to_string()),
        ]
    }

    /// Name of the service.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Port of the service.
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
    /// Fails if it had to be killed.
    pub fn stop(self, done: &mut RunReport) -> StageResult<()> {
        let outcome = self
            .service
            .stop_and_wait()
            .map_err(|error| stage_failure(RunStage::Stop, error.to_string()))?;
        done.performed.notes.extend(outcome.describe_leftovers());
        if outcome.shutdown.is_some_and(|own| own.was_killed) {
            let reason = "it did not stop when requested and was killed";
            return Err(StageFailure {
                stderr_tail: outcome.stderr.last_lines(TAIL_LINES),
                ..stage_failure(RunStage::Stop, reason)
            });
        }
        Ok(())
    }
}

/// Attributes a failure to a service.
fn name_service(name: &str, why: StageFailure) -> StageFailure {
    StageFailure {
        reason: format!("service '{name}': {}", why.reason),
        ..why
    }
}

/// Starts services in order, since later ones may need earlier ones. Adds the address of each to
/// `blanks`.
pub(super) fn start_all(
    services: &[BackingService],
    site: &RunSite<'_>,
    ports: Option<(u16, u16)>,
    blanks: &mut Vec<PlaceholderValue>,
) -> StageResult<Vec<RunningService>> {
    let mut started = Vec::new();
    for service in services {
        let running: RunningService =
            RunningService::start(&service.clone().fill_placeholders(blanks), site, ports)
                .map_err(|why| name_service(&service.name, why))?;
        blanks.extend(running.placeholders());
        started.push(running);
    }
    Ok(started)
}

/// Returns the failure of the first service that has ended by itself.
pub(super) fn find_lost_service(services: &[RunningService]) -> Option<StageFailure> {
    let lost = |own: &RunningService| own.find_failure().map(|why| name_service(own.name(), why));
    services.iter().find_map(lost)
}

/// Stops services in reverse order.
pub(super) fn stop_all(services: Vec<RunningService>, done: &mut RunReport) -> StageResult<()> {
    let mut stopped = Ok(());
    for own in services.into_iter().rev() {
        let name = own.name().to_owned();
        stopped = stopped.and(own.stop(done).map_err(|why| name_service(&name, why)));
    }
    stopped
}

/// Runs services on this machine until an interrupt tells the process to stop them. Calls `ready`
/// with their addresses once all are ready.
///
/// # Errors
/// Returns the stage that failed, or fails if a service ended by itself.
pub fn run_shared_services(
    keeping: &ScopedServices,
    ready: &mut dyn FnMut(&[PlaceholderValue]),
    done: &mut RunReport,
) -> StageResult<()> {
    let site = RunSite::default();
    let mut blanks = site.placeholders();
    blanks.extend_from_slice(&keeping.kept);
    let known = blanks.len();
    let services = start_all(&keeping.services, &site, keeping.ports, &mut blanks)?;
    ready(&blanks[known..]);
    let ended = wait_for_loss(|| find_lost_service(&services));
    let stopped = stop_all(services, done);
    ended.and(stopped)
}

/// Waits until the process is interrupted or something is lost.
///
/// # Errors
/// Returns the failure from `lost`.
pub fn wait_for_loss(lost: impl Fn() -> Option<StageFailure>) -> StageResult<()> {
    while !process::is_interrupt_requested() {
        if let Some(why) = lost() {
            return Err(why);
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

fn port_blank(port: u16) -> PlaceholderValue {
    ("port".to_owned(), port.to_string())
}

/// Builds a command with the directory and environment of the service.
fn ready_command(like: &ProcessSpec, words: &[String], blanks: &[PlaceholderValue]) -> ProcessSpec {
    let mut filled = words.iter().map(|word| fill_text(word, blanks));
    let mut spec = ProcessSpec::new(filled.next().unwrap_or_default()).args(filled);
    spec.directory.clone_from(&like.directory);
    spec.environment.clone_from(&like.environment);
    spec.unset.clone_from(&like.unset);
    spec
}

fn run_ready_command(question: &ProcessSpec) -> Result<(), ReadinessFailure> {
    let program = question.program.display();
    let outcome = process::run_child(question, &mut ())
        .map_err(|error| ReadinessFailure::Never(format!("cannot start '{program}': {error}")))?;
    match outcome.ended {
        ProcessEnd::Exit(0) => Ok(()),
        _ => {
            let said = outcome.stderr.last_lines(1);
            Err(ReadinessFailure::NotYet(format!(
                "'{program}': {} {said}",
                outcome.ended
            )))
        }
    }
}

fn stop_unready(service: ServiceProcess, why: &StartFailure, limit: Duration) -> StageFailure {
    let reason = why.reason(limit);
    let outcome = service.stop_and_wait();
    let mut failure = stage_failure(RunStage::Ready, reason);
    if let Ok(outcome) = outcome {
        if matches!(why, StartFailure::Ended) {
            failure.reason = format!("{}: {}", failure.reason, outcome.ended);
        }
        failure.stderr_tail = outcome.stderr.last_lines(TAIL_LINES);
    }
    failure
}
