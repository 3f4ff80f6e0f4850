//! Connects this process to one role of an experiment on another machine. Start at
//! [`RoleConnection::open`].

use super::worker::{LoadReply, ROLE_SUBCOMMAND, WorkerEvent, WorkerRequest};
use crate::machines::FleetEngine;
use anyhow::Result;
use speedwell_engine::execution::experiment::{StageResult, stage_failure};
use speedwell_machine::process;
use speedwell_machine::worker::WorkerConnection;
use speedwell_model::PlacedMachine;
use speedwell_model::stage_report::{RunStage, StageFailure};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Interval between checks for an interrupt by the user.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long to wait until a role and everything that it started have ended.
const END_GRACE: Duration = Duration::from_secs(30);

/// A role of an experiment on its machine. The role ends when this value is dropped.
pub(super) struct RoleConnection {
    /// Name in messages, for example `target` or `service 'db'`.
    name: String,
    machine: String,
    connection: Arc<WorkerConnection>,
    events: Receiver<Result<WorkerEvent>>,
    alarm: Arc<AtomicBool>,
}

impl RoleConnection {
    /// Starts this program on a machine, and sends `request` to it. `name` is the name of the role
    /// in messages.
    ///
    /// # Errors
    /// Fails if the machine cannot be reached.
    pub fn open(
        engine: &mut FleetEngine,
        machine: &PlacedMachine,
        name: &str,
        request: &WorkerRequest,
    ) -> StageResult<RoleConnection> {
        let connect_failure = |error: anyhow::Error| {
            let reason = format!("{name} on '{}': cannot connect: {error:#}", machine.name);
            stage_failure(RunStage::Start, reason)
        };
        let connection = engine.start_worker(&machine.name, &machine.program, &[ROLE_SUBCOMMAND]);
        let connection = Arc::new(connection.map_err(connect_failure)?);
        // If the connection has failed, the next message gives the reason.
        let _ = connection.send(request);
        let alarm = Arc::new(AtomicBool::new(false));
        Ok(RoleConnection {
            name: name.to_owned(),
            machine: machine.name.clone(),
            events: receive_events(Arc::clone(&connection), Arc::clone(&alarm)),
            connection,
            alarm,
        })
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// Fails if the connection breaks or the user interrupts.
    pub fn next_event(&self) -> StageResult<WorkerEvent> {
        loop {
            if process::is_interrupt_requested() {
                return Err(self.end_failure("interrupted"));
            }
            match self.events.recv_timeout(POLL_INTERVAL) {
                Ok(Ok(event)) => return Ok(event),
                Ok(Err(error)) => {
                    let reason = self.connection.end(Some(&error)).reason().unwrap_or_default();
                    return Err(self.end_failure(&format!("connection lost: {reason}")));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.end_failure("connection lost"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Returns the failure that made a service unusable, if any.
    pub fn find_failure(&self) -> Option<StageFailure> {
        if !self.alarm.load(Ordering::Relaxed) {
            return None;
        }
        let failure = match self.next_event() {
            Ok(WorkerEvent::Done(outcome)) => {
                outcome.performed.failure.map(|failure| self.with_role_name(failure))
            }
            Ok(_) => None,
            Err(failure) => Some(failure),
        };
        Some(failure.unwrap_or_else(|| self.end_failure("it has ended")))
    }

    /// Returns a flag that is set when a running load has to end: when the role asks to stop the
    /// load, or when the role itself ends.
    pub fn alarm(&self) -> &AtomicBool {
        &self.alarm
    }

    /// Sends the outcome of a load to the role that requested it.
    pub fn send_outcome(&self, reply: &LoadReply) {
        self.alarm.store(false, Ordering::Relaxed);
        // The next message reports a broken connection.
        let _ = self.connection.send(reply);
    }

    /// Ends a service. Appends the notes of its final report to `notes`.
    ///
    /// # Errors
    /// Fails if the final report of the service contains a failure.
    pub fn end_service(self, notes: &mut Vec<String>) -> StageResult<()> {
        self.connection.close(END_GRACE);
        let final_report = self.events.iter().find_map(|event| match event {
            Ok(WorkerEvent::Done(outcome)) => Some(outcome.performed),
            _ => None,
        });
        let Some(performed) = final_report else {
            return Ok(());
        };
        let attributed = |note: &String| format!("{} on '{}': {note}", self.name, self.machine);
        notes.extend(performed.notes.iter().map(attributed));
        performed.failure.map_or(Ok(()), |failure| Err(self.with_role_name(failure)))
    }

    fn end_failure(&self, reason: &str) -> StageFailure {
        self.with_role_name(stage_failure(RunStage::Alive, reason))
    }

    /// Returns why a role did not start: the failure that it reports, or that it sent something
    /// unexpected.
    pub fn start_failure(&self, event: WorkerEvent) -> StageFailure {
        let reported = match event {
            WorkerEvent::Done(outcome) => outcome.performed.failure,
            _ => None,
        };
        let unexpected = || stage_failure(RunStage::Start, "it sent an unexpected message");
        self.with_role_name(reported.unwrap_or_else(unexpected))
    }

    /// Prefixes the reason with the role and its machine.
    pub fn with_role_name(&self, failure: StageFailure) -> StageFailure {
        StageFailure {
            reason: format!("{} on '{}': {}", self.name, self.machine, failure.reason),
            ..failure
        }
    }
}

impl Drop for RoleConnection {
    /// Waits until everything that the role started has ended.
    fn drop(&mut self) {
        self.connection.close(END_GRACE);
    }
}

/// Receives messages in a thread. Raises the alarm when the role ends or asks to stop a load.
fn receive_events(
    connection: Arc<WorkerConnection>,
    alarm: Arc<AtomicBool>,
) -> Receiver<Result<WorkerEvent>> {
    let (sender, events) = mpsc::channel();
    thread::spawn(move || {
        loop {
            let event = connection.receive();
            let is_last = matches!(event, Err(_) | Ok(WorkerEvent::Done(_)));
            if is_last || matches!(event, Ok(WorkerEvent::StopLoad)) {
                alarm.store(true, Ordering::Relaxed);
            }
            if sender.send(event).is_err() || is_last {
                break;
            }
        }
    });
    events
}
