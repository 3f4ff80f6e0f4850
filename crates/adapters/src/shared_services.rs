//! Starts and stops the services that several runs of an experiment share ([`SharedServicePool`]).
//! They are in further processes of this program ([`worker_spec`]): one for the session, and one
//! for the current block.

use crate::failure::TAIL_LINES;
use crate::{ProtocolMessage, own_program};
use speedwell_machine::process::{
    ChannelKind, ChildConversation, NextStep, ProcessOutcome, ProcessSpec, ServiceProcess,
    is_interrupt_requested,
};
use speedwell_machine::worker::WORKER_COMMAND;
use speedwell_model::assignment::{
    BackingService, PlaceholderValue, RunAssignment, ScopedServices, ServiceScope,
};
use speedwell_model::stage_report::{RunStage, StageFailure, StageReport};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Subcommand of [`WORKER_COMMAND`] that performs a run, or keeps services for several runs.
pub const RUN_SUBCOMMAND: &str = "run";

/// Builds a process of this program that performs a run, or keeps services for several runs.
pub(super) fn worker_spec(limit: Duration) -> ProcessSpec {
    ProcessSpec {
        channel: ChannelKind::Harness,
        limit,
        ..ProcessSpec::new(own_program()).args([WORKER_COMMAND, RUN_SUBCOMMAND])
    }
}

/// Time limit of a process that runs services: longer than any session.
const SERVICE_LIFETIME: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// Time limit for stopping all services.
const STOP_TIMEOUT: Duration = Duration::from_secs(120);
/// Interval for checking whether the user has interrupted.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// After a failed run, how long to wait for a report that a service has ended. The service may have
/// caused the failure, but its report may arrive later.
const REPORT_DELAY: Duration = Duration::from_millis(300);

/// Running services that several runs share. Dropping the pool stops them.
#[derive(Debug, Default)]
pub struct SharedServicePool {
    session_keeper: Mutex<Option<ServiceKeeper>>,
    block_keeper: Mutex<Option<ServiceKeeper>>,
}

impl SharedServicePool {
    /// Makes sure that the shared services of a run are ready, and adds their addresses to the
    /// assignment. Block services restart for each block of each case.
    ///
    /// # Errors
    /// Fails with the stage that failed.
    pub(super) fn ensure_ready(
        &self,
        assignment: &mut RunAssignment,
        block: (usize, u32),
    ) -> Result<(), StageFailure> {
        for (scope, slot, block) in [
            (ServiceScope::Session, &self.session_keeper, None),
            (ServiceScope::Block, &self.block_keeper, Some(block)),
        ] {
            let is_in_scope = |service: &BackingService| service.scope == scope;
            let (services, others) = assignment.services.drain(..).partition(is_in_scope);
            assignment.services = others;
            let keeping = ScopedServices { services, place: assignment.place.clone() };
            if keeping.services.is_empty() {
                continue;
            }
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            let is_current = |keeper: &ServiceKeeper| {
                keeper.block == block && keeper.keeping == keeping && !keeper.service.has_ended()
            };
            let keeper = match slot.take_if(|keeper| is_current(keeper)) {
                Some(keeper) => keeper,
                None => {
                    // Stop the old services first: two instances could conflict.
                    *slot = None;
                    ServiceKeeper::start(keeping, block)?
                }
            };
            assignment.place.kept.extend_from_slice(&keeper.addresses);
            *slot = Some(keeper);
        }
        Ok(())
    }

    /// Returns why a service has become unusable; `None` if all services are usable. After a failed
    /// run, waits briefly: the report that a service has ended may come after the failure.
    pub(super) fn find_loss(&self, has_failed: bool) -> Option<StageFailure> {
        let timeout = if has_failed { REPORT_DELAY } else { Duration::ZERO };
        [&self.session_keeper, &self.block_keeper].into_iter().find_map(|slot| {
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            let loss = slot.as_ref()?.receive_loss(timeout)?;
            *slot = None;
            Some(loss)
        })
    }

    /// Stops the services of the current block. Returns their notes, and their failure if there is
    /// one.
    pub fn stop_block(&self) -> StageReport {
        stop_keeper(&self.block_keeper)
    }

    /// Stops all services. Returns their notes and the first failure.
    pub fn stop_all(&self) -> StageReport {
        let mut report = stop_keeper(&self.block_keeper);
        let session_report = stop_keeper(&self.session_keeper);
        report.notes.extend(session_report.notes);
        report.failure = report.failure.or(session_report.failure);
        report
    }
}

fn stop_keeper(slot: &Mutex<Option<ServiceKeeper>>) -> StageReport {
    let keeper = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    keeper.map_or_else(StageReport::default, ServiceKeeper::stop)
}

/// A process that runs shared services. Dropping the keeper stops the services.
#[derive(Debug)]
struct ServiceKeeper {
    keeping: ScopedServices,
    block: Option<(usize, u32)>,
    service: ServiceProcess,
    messages: Receiver<ProtocolMessage>,
    /// Addresses of the services.
    addresses: Vec<PlaceholderValue>,
}

impl ServiceKeeper {
    fn start(
        keeping: ScopedServices,
        block: Option<(usize, u32)>,
    ) -> Result<ServiceKeeper, StageFailure> {
        let start_failure = |reason: String| stage_failure(RunStage::Start, reason);
        let mut spec = worker_spec(SERVICE_LIFETIME);
        spec.shutdown.grace = STOP_TIMEOUT;
        let text =
            serde_json::to_string(&keeping).map_err(|error| start_failure(error.to_string()))?;
        let request = ProtocolMessage::new("keep").with("id", 2).with("services", text);
        let (sender, messages) = mpsc::channel();
        let forwarder =
            MessageForwarder { opening: request.to_string().into_bytes(), messages: sender };
        let service =
            ServiceProcess::start_with_conversation(spec, forwarder).map_err(|error| {
                start_failure(format!("cannot start the process that runs the services: {error}"))
            })?;
        let mut keeper = ServiceKeeper { keeping, block, service, messages, addresses: Vec::new() };
        loop {
            match keeper.messages.recv_timeout(POLL_INTERVAL) {
                Ok(message) if message.verb == "ready" => {
                    let addresses = message.get("places").unwrap_or_default();
                    keeper.addresses = serde_json::from_str(&addresses).map_err(|error| {
                        start_failure(format!("cannot read the addresses of the services: {error}"))
                    })?;
                    return Ok(keeper);
                }
                Ok(message) => {
                    return Err(reported_failure(&message).unwrap_or_else(|| keeper.silent_exit()));
                }
                Err(RecvTimeoutError::Timeout) if !is_interrupt_requested() => {}
                Err(RecvTimeoutError::Timeout) => {
                    return Err(start_failure("interrupted".to_owned()));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(keeper.silent_exit()),
            }
        }
    }

    /// Waits up to `timeout` for a report that the services have become unusable; returns the
    /// reason.
    fn receive_loss(&self, timeout: Duration) -> Option<StageFailure> {
        match self.messages.recv_timeout(timeout) {
            Ok(message) => reported_failure(&message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                let reason = "the process that runs the services has ended".to_owned();
                Some(stage_failure(RunStage::Alive, reason))
            }
        }
    }

    /// Builds the failure for a process that ended without a report.
    fn silent_exit(self) -> StageFailure {
        let outcome = self.service.stop_and_wait();
        let (how, stderr_tail) = match outcome {
            Ok(outcome) => (outcome.ended.to_string(), outcome.stderr.last_lines(TAIL_LINES)),
            Err(error) => (error.to_string(), String::new()),
        };
        StageFailure {
            stage: RunStage::Start,
            reason: format!("the process that runs the services ended: {how}"),
            stderr_tail,
        }
    }

    fn stop(self) -> StageReport {
        let outcome = self.service.stop_and_wait();
        let ended = self.messages.try_iter().find(|ended| ended.verb == "ended");
        ended.as_ref().and_then(parse_report).unwrap_or_else(|| {
            let reason = match outcome {
                Ok(ProcessOutcome { ended, .. }) => {
                    format!("the process that runs the services did not stop cleanly: {ended}")
                }
                Err(error) => format!("cannot wait for the services to stop: {error}"),
            };
            let failure = Some(stage_failure(RunStage::Stop, reason));
            StageReport { failure, ..StageReport::default() }
        })
    }
}

fn stage_failure(stage: RunStage, reason: String) -> StageFailure {
    StageFailure { stage, reason, stderr_tail: String::new() }
}

/// Extracts the failure from the process's final report.
fn reported_failure(message: &ProtocolMessage) -> Option<StageFailure> {
    parse_report(message)?.failure
}

/// Extracts the report from a message.
pub(super) fn parse_report(message: &ProtocolMessage) -> Option<StageReport> {
    serde_json::from_str(&message.get("json")?).ok()
}

/// Tells the process which services to run, and forwards received messages.
struct MessageForwarder {
    opening: Vec<u8>,
    messages: Sender<ProtocolMessage>,
}

impl ChildConversation for MessageForwarder {
    fn opening_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.opening)
    }

    fn handle_line(&mut self, line: &[u8]) -> NextStep {
        if let Some(message) = ProtocolMessage::parse(line) {
            // The receiver is gone only if the process is about to be stopped.
            let _ = self.messages.send(message);
        }
        NextStep::Wait
    }
}
