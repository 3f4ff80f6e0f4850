//! A connection to one role of an experiment. Start at [`RoleConnection::open`].

use super::worker::{COMMAND, LoadReply, WorkerEvent, WorkerRequest};
use crate::load::machines::line::{GeneratorConnection, read_line};
use speedwell_fleet::FleetEngine;
use speedwell_model::performed::{RunStage, StageFailure};
use speedwell_process as process;
use speedwell_runner::experiment::{StageResult, stage_failure};
use std::io::BufReader;
use std::process::ChildStdout;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Poll interval for interrupts by the user.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time in which a role, with everything it started, must end.
const END_GRACE: Duration = Duration::from_secs(30);

/// A role of an experiment on its machine. It ends when this value is dropped.
pub(super) struct RoleConnection {
    /// Name in messages: `target`, `service 'db'`.
    name: String,
    machine: String,
    connection: GeneratorConnection,
    events: Receiver<anyhow::Result<WorkerEvent>>,
    alarm: Arc<AtomicBool>,
}

impl RoleConnection {
    /// Starts our program on a machine, given by its name and the program's path there, and sends
    /// the request.
    /// # Errors
    /// Fails if the machine cannot be reached.
    pub fn open(
        engine: &mut FleetEngine,
        (machine, program): (&str, &str),
        name: &str,
        order: &WorkerRequest,
    ) -> StageResult<RoleConnection> {
        let failed = |error: anyhow::Error| {
            let reason = format!("{name} on '{machine}': cannot connect: {error:#}");
            stage_failure(RunStage::Start, reason)
        };
        let child = engine
            .start_command(machine, &[program, COMMAND])
            .map_err(failed)?;
        let (line, from) = GeneratorConnection::new(child).map_err(failed)?;
        let text = serde_json::to_string(order).map_err(|error| failed(error.into()))?;
        // Ignore errors: the end of a failed connection tells why.
        let _ = line.send_line(&text);
        let alarm = Arc::new(AtomicBool::new(false));
        Ok(RoleConnection {
            name: name.to_owned(),
            machine: machine.to_owned(),
            connection: line,
            events: receive_events(from, Arc::clone(&alarm)),
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
                return Err(self.with_role_name(stage_failure(RunStage::Alive, "interrupted")));
            }
            match self.events.recv_timeout(POLL_INTERVAL) {
                Ok(Ok(said)) => return Ok(said),
                Ok(Err(error)) => {
                    let reason = format!("connection lost: {}", self.connection.end_reason(&error));
                    return Err(self.with_role_name(stage_failure(RunStage::Alive, reason)));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(
                        self.with_role_name(stage_failure(RunStage::Alive, "connection lost"))
                    );
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
        let why = match self.next_event() {
            Ok(WorkerEvent::Done(done)) => {
                done.performed.failure.map(|why| self.with_role_name(why))
            }
            Ok(_) => None,
            Err(why) => Some(why),
        };
        Some(
            why.unwrap_or_else(|| {
                self.with_role_name(stage_failure(RunStage::Alive, "it has ended"))
            }),
        )
    }

    /// Set when a running load has to end: the role asks for it or has ended.
    pub fn alarm(&self) -> &AtomicBool {
        &self.alarm
    }

    /// Sends the outcome of the load that it requested.
    pub fn send_outcome(&self, answer: &LoadReply) {
        self.alarm.store(false, Ordering::Relaxed);
        if let Ok(text) = serde_json::to_string(answer) {
            // The next read reports a broken connection.
            let _ = self.connection.send_line(&text);
        }
    }

    /// Ends a service and appends its final notes to `notes`.
    ///
    /// # Errors
    /// Fails if it did not end cleanly.
    pub fn end_service(self, notes: &mut Vec<String>) -> StageResult<()> {
        self.connection.close(END_GRACE);
        let last = self.events.iter().find_map(|said| match said {
            Ok(WorkerEvent::Done(done)) => Some(done.performed),
            _ => None,
        });
        let Some(performed) = last else {
            return Ok(());
        };
        let whose = |note: &String| format!("{} on '{}': {note}", self.name, self.machine);
        notes.extend(performed.notes.iter().map(whose));
        performed
            .failure
            .map_or(Ok(()), |why| Err(self.with_role_name(why)))
    }

    /// Prefixes the reason with the role and its machine.
    pub fn with_role_name(&self, why: StageFailure) -> StageFailure {
        StageFailure {
            reason: format!("{} on '{}': {}", self.name, self.machine, why.reason),
            ..why
        }
    }
}

impl Drop for RoleConnection {
    /// Waits for everything that the role started to end.
    fn drop(&mut self) {
        self.connection.close(END_GRACE);
    }
}

/// Receives messages in a thread. Raises the alarm when the role ends or asks to stop a load.
fn receive_events(
    mut from: BufReader<ChildStdout>,
    alarm: Arc<AtomicBool>,
) -> Receiver<anyhow::Result<WorkerEvent>> {
    let (sender, said) = mpsc::channel();
    thread::spawn(move || {
        loop {
            let line = read_line(&mut from)
                .and_then(|line| Ok(serde_json::from_str::<WorkerEvent>(&line)?));
            let is_last = matches!(line, Err(_) | Ok(WorkerEvent::Done(_)));
            if is_last || matches!(line, Ok(WorkerEvent::StopLoad)) {
                alarm.store(true, Ordering::Relaxed);
            }
            if sender.send(line).is_err() || is_last {
                break;
            }
        }
    });
    said
}
