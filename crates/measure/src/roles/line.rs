//! The line to one part of an experiment. Start at [`Role::open`].

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

/// Between two looks whether the user wants to stop.
const PULSE: Duration = Duration::from_millis(20);
/// How long a part may take to end, what it started included.
const GRACE: Duration = Duration::from_secs(30);

/// A part of an experiment on its machine. It ends with this value.
pub(super) struct Role {
    /// What it is, for messages: `target`, `service 'db'`.
    name: String,
    machine: String,
    line: Line,
    said: Receiver<anyhow::Result<Said>>,
    alarm: Arc<AtomicBool>,
}

impl Role {
    /// Starts our program on a machine, whose name and whose program there these are, and tells it what to do.
    ///
    /// # Errors
    /// It cannot be reached.
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
        // A line that failed says by its end why it cannot be written to.
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

    /// What it says next.
    ///
    /// # Errors
    /// The line is cut, or the user wants to stop.
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

    /// Why a service cannot be used any more, if that is so.
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

    /// Set when a load that is under way has to end: it wants that, or it has ended.
    pub fn alarm(&self) -> &AtomicBool {
        &self.alarm
    }

    /// Tells it what became of the load that it wanted.
    pub fn answer(&self, answer: &Answer) {
        self.alarm.store(false, Ordering::Relaxed);
        if let Ok(text) = serde_json::to_string(answer) {
            // If the line is cut, that is what is heard next.
            let _ = self.line.say(&text);
        }
    }

    /// Ends a service; `notes` get what it remarks at its end.
    ///
    /// # Errors
    /// It did not end well.
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

    /// Says which part it is, and on which machine.
    pub fn named(&self, why: StageFailure) -> StageFailure {
        StageFailure {
            reason: format!("{} on '{}': {}", self.name, self.machine, why.reason),
            ..why
        }
    }
}

impl Drop for Role {
    /// What it started ends before we go on.
    fn drop(&mut self) {
        self.line.close(GRACE);
    }
}

/// What comes over a line. One that ends, and what ends a load, raise the alarm.
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
