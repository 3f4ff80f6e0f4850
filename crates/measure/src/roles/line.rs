//! A connection to one role of an experiment. Start at [`Role::open`].

use super::worker::{Answer, COMMAND, Order, Said};
use crate::load::machines::line::{Line, next};
use speedwell_fleet::Engine;
use speedwell_model::performed::{Stage, StageFailure};
use speedwell_process as process;
use speedwell_runner::experiment::{Fallible, stage_failure};
use std::io::BufReader;
use std::process::ChildStdout;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Poll interval for interrupts by the user.
const PULSE: Duration = Duration::from_millis(20);
/// How long a role may take to end, including what it started.
const GRACE: Duration = Duration::from_secs(30);

/// A role of an experiment on its machine. It ends when this value is dropped.
pub(super) struct Role {
    /// Name in messages: `target`, `service 'db'`.
    name: String,
    machine: String,
    line: Line,
    said: Receiver<anyhow::Result<Said>>,
    alarm: Arc<AtomicBool>,
}

impl Role {
    /// Starts our program on a machine, given by its name and the program's path there, and sends
    /// the request.
    /// # Errors
    /// Fails if the machine cannot be reached.
    pub fn open(
        engine: &mut Engine,
        (machine, program): (&str, &str),
        name: &str,
        order: &Order,
    ) -> Fallible<Role> {
        let failed = |error: anyhow::Error| {
            let reason = format!("{name} on '{machine}': it cannot be reached: {error:#}");
            stage_failure(Stage::Start, reason)
        };
        let child = engine.reach(machine, &[program, COMMAND]).map_err(failed)?;
        let (line, from) = Line::new(child).map_err(failed)?;
        let text = serde_json::to_string(order).map_err(|error| failed(error.into()))?;
        // Ignore errors: the end of a failed connection tells why.
        let _ = line.say(&text);
        let alarm = Arc::new(AtomicBool::new(false));
        Ok(Role {
            name: name.to_owned(),
            machine: machine.to_owned(),
            line,
            said: listen(from, Arc::clone(&alarm)),
            alarm,
        })
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// Fails if the connection breaks or the user interrupts.
    pub fn next(&self) -> Fallible<Said> {
        loop {
            if process::interrupted() {
                return Err(self.named(stage_failure(Stage::Alive, "interrupted")));
            }
            match self.said.recv_timeout(PULSE) {
                Ok(Ok(said)) => return Ok(said),
                Ok(Err(error)) => {
                    let reason = format!("its line is cut: {}", self.line.reason(&error));
                    return Err(self.named(stage_failure(Stage::Alive, reason)));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.named(stage_failure(Stage::Alive, "its line is cut")));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Why a service is no longer usable, if so.
    pub fn lost(&self) -> Option<StageFailure> {
        if !self.alarm.load(Ordering::Relaxed) {
            return None;
        }
        let why = match self.next() {
            Ok(Said::Done(done)) => done.performed.failure.map(|why| self.named(why)),
            Ok(_) => None,
            Err(why) => Some(why),
        };
        Some(why.unwrap_or_else(|| self.named(stage_failure(Stage::Alive, "it has ended"))))
    }

    /// Set when a running load has to end: the role asks for it or has ended.
    pub fn alarm(&self) -> &AtomicBool {
        &self.alarm
    }

    /// Sends the outcome of the load that it requested.
    pub fn answer(&self, answer: &Answer) {
        self.alarm.store(false, Ordering::Relaxed);
        if let Ok(text) = serde_json::to_string(answer) {
            // The next read reports a broken connection.
            let _ = self.line.say(&text);
        }
    }

    /// Ends a service and appends its final notes to `notes`.
    ///
    /// # Errors
    /// Fails if it did not end cleanly.
    pub fn end(self, notes: &mut Vec<String>) -> Fallible<()> {
        self.line.close(GRACE);
        let last = self.said.iter().find_map(|said| match said {
            Ok(Said::Done(done)) => Some(done.performed),
            _ => None,
        });
        let Some(performed) = last else {
            return Ok(());
        };
        let whose = |note: &String| format!("{} on '{}': {note}", self.name, self.machine);
        notes.extend(performed.notes.iter().map(whose));
        performed.failure.map_or(Ok(()), |why| Err(self.named(why)))
    }

    /// Prefixes the reason with the role and its machine.
    pub fn named(&self, why: StageFailure) -> StageFailure {
        StageFailure {
            reason: format!("{} on '{}': {}", self.name, self.machine, why.reason),
            ..why
        }
    }
}

impl Drop for Role {
    /// Waits for everything that the role started to end.
    fn drop(&mut self) {
        self.line.close(GRACE);
    }
}

/// Receives messages in a thread. Raises the alarm when the role ends or asks to stop a load.
fn listen(
    mut from: BufReader<ChildStdout>,
    alarm: Arc<AtomicBool>,
) -> Receiver<anyhow::Result<Said>> {
    let (sender, said) = mpsc::channel();
    thread::spawn(move || {
        loop {
            let line = next(&mut from).and_then(|line| Ok(serde_json::from_str::<Said>(&line)?));
            let is_last = matches!(line, Err(_) | Ok(Said::Done(_)));
            if is_last || matches!(line, Ok(Said::StopLoad)) {
                alarm.store(true, Ordering::Relaxed);
            }
            if sender.send(line).is_err() || is_last {
                break;
            }
        }
    });
    said
}
