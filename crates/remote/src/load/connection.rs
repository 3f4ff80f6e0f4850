//! Follows the connection to a machine that sends part of a load, and records the state of that
//! machine. Start at [`GeneratorConnection::follow_load`].

use super::worker::{GeneratorReady, GeneratorReport};
use crate::machines::clock::{self, ClockOffset};
use anyhow::{Context, Result, bail};
use speedwell_engine::execution::load::{LoadSnapshot, WorkerAssignment};
use speedwell_machine::process::CompanionProcess;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const MAX_STDERR_BYTES: u64 = 4096;

/// State of a machine that sends part of the load.
#[derive(Debug, Default)]
pub(super) struct GeneratorState {
    pub ready: Option<(GeneratorReady, ClockOffset)>,
    pub snapshot: Option<LoadSnapshot>,
    pub report: Option<GeneratorReport>,
    /// Offset of the machine's clock after the load.
    pub offset_after: Option<ClockOffset>,
    /// `None` until the connection ends. The inner value is `None` after a normal end, otherwise
    /// the reason for the end.
    pub end: Option<Option<String>>,
    /// Time of the machine's last message or, once the connection has ended, time of the end.
    pub last_heard: Option<Instant>,
}

/// State shared by the threads that follow connections.
#[derive(Debug)]
pub(super) struct SharedLoadState {
    generators: Mutex<Vec<GeneratorState>>,
    changed: Condvar,
    /// `None` until the start is settled. The inner value is the agreed start by the clock of this
    /// machine, or `None` if the load does not start.
    start: Mutex<Option<Option<i64>>>,
}

impl SharedLoadState {
    pub fn new(count: usize) -> SharedLoadState {
        SharedLoadState {
            generators: Mutex::new((0..count).map(|_| GeneratorState::default()).collect()),
            changed: Condvar::new(),
            start: Mutex::new(None),
        }
    }

    pub fn generator_states(&self) -> MutexGuard<'_, Vec<GeneratorState>> {
        self.generators.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn into_generator_states(self) -> Vec<GeneratorState> {
        self.generators.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits at most `max_wait` for a generator's state to change.
    pub fn wait_for_news(&self, max_wait: Duration) -> MutexGuard<'_, Vec<GeneratorState>> {
        let result = self.changed.wait_timeout(self.generator_states(), max_wait);
        result.unwrap_or_else(PoisonError::into_inner).0
    }

    fn update_state(&self, index: usize, change: impl FnOnce(&mut GeneratorState)) {
        let mut generators = self.generator_states();
        generators[index].last_heard = Some(Instant::now());
        change(&mut generators[index]);
        drop(generators);
        self.changed.notify_all();
    }

    /// Announces the common start time, or `None` if the load will not start.
    pub fn announce_start(&self, start: Option<i64>) {
        let mut agreed = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        agreed.get_or_insert(start);
        drop(agreed);
        self.changed.notify_all();
    }

    fn await_start(&self) -> Option<i64> {
        loop {
            let agreed = *self.start.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(start) = agreed {
                return start;
            }
            drop(self.wait_for_news(Duration::from_millis(20)));
        }
    }
}

/// An open connection. The thread that follows the connection owns the reading end.
pub(crate) struct GeneratorConnection {
    _companion: CompanionProcess,
    child: Mutex<Child>,
    stdin: Mutex<Option<ChildStdin>>,
    stderr_reader: Mutex<Option<JoinHandle<String>>>,
}

impl GeneratorConnection {
    /// Creates a connection and its reading end.
    pub fn new(mut child: Child) -> Result<(GeneratorConnection, BufReader<ChildStdout>)> {
        let reader = child.stdout.take().context("the connection has no stdout")?;
        let stderr = child.stderr.take();
        let stderr_reader = stderr.map(|mut stderr| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                // Discard the rest: otherwise, the process would block on a full stderr pipe.
                let _ = stderr.by_ref().take(MAX_STDERR_BYTES).read_to_end(&mut bytes);
                let _ = std::io::copy(&mut stderr, &mut std::io::sink());
                String::from_utf8_lossy(&bytes).into_owned()
            })
        });
        let connection = GeneratorConnection {
            _companion: CompanionProcess::of(&child),
            stdin: Mutex::new(child.stdin.take()),
            child: Mutex::new(child),
            stderr_reader: Mutex::new(stderr_reader),
        };
        Ok((connection, BufReader::new(reader)))
    }

    /// Makes the machine send its part of the load, and records its reports.
    pub(super) fn follow_load(
        &self,
        index: usize,
        mut reader: BufReader<ChildStdout>,
        request: &WorkerAssignment,
        state: &SharedLoadState,
    ) {
        let result = self.run_protocol(index, &mut reader, request, state);
        *self.stdin.lock().unwrap_or_else(PoisonError::into_inner) = None;
        drop(reader);
        let end = result.err().map(|error| self.end_reason(&error));
        if end.is_none() {
            // The machine has reported everything. Reap the process of the connection.
            let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = child.wait();
        }
        state.update_state(index, |generator| generator.end = Some(end));
    }

    fn run_protocol(
        &self,
        index: usize,
        reader: &mut BufReader<ChildStdout>,
        request: &WorkerAssignment,
        state: &SharedLoadState,
    ) -> Result<()> {
        self.send_line(&serde_json::to_string(request)?)?;
        let ready = await_line(reader, "ready")?;
        let ready: GeneratorReady =
            serde_json::from_str(&ready).context("it sent an unexpected message")?;
        let offset = self.query_offset(reader)?;
        state.update_state(index, |generator| generator.ready = Some((ready, offset)));
        let Some(start_ns) = state.await_start() else {
            return self.send_line("stop");
        };
        self.send_line(&format!("start {}", offset.to_remote_ns(start_ns)))?;
        loop {
            let line = read_line(reader)?;
            match line.split_once(' ') {
                Some(("at", snapshot)) => {
                    let snapshot = serde_json::from_str(snapshot).ok();
                    state.update_state(index, |generator| {
                        generator.snapshot = snapshot.or(generator.snapshot.take())
                    });
                }
                Some(("measured", report)) => {
                    let report =
                        serde_json::from_str(report).context("cannot parse its results")?;
                    // The machine's clock may have drifted during the load. If the query fails, the
                    // measurement is still valid.
                    let offset_after = self.query_offset(reader).ok();
                    state.update_state(index, |generator| {
                        (generator.report, generator.offset_after) = (Some(report), offset_after);
                    });
                    return Ok(());
                }
                _ => {}
            }
        }
    }

    /// Queries the offset of the machine's clock. The lock keeps other messages out of this
    /// exchange.
    fn query_offset(&self, reader: &mut BufReader<ChildStdout>) -> Result<ClockOffset> {
        let mut stdin = self.stdin.lock().unwrap_or_else(PoisonError::into_inner);
        clock::query_clock(stdin.as_mut().context("the connection is closed")?, reader)
    }

    /// Sends a line.
    ///
    /// # Errors
    /// Fails if the connection is broken.
    pub fn send_line(&self, line: &str) -> Result<()> {
        let mut stdin = self.stdin.lock().unwrap_or_else(PoisonError::into_inner);
        let stdin = stdin.as_mut().context("the connection is closed")?;
        writeln!(stdin, "{line}").and_then(|()| stdin.flush())?;
        Ok(())
    }

    /// Breaks the connection.
    pub fn kill_process(&self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        // The process may have exited already.
        let _ = child.kill();
    }

    /// Closes stdin and waits at most `max_wait` for the process to exit, then kills it.
    pub fn close(&self, max_wait: Duration) {
        *self.stdin.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let deadline = Instant::now() + max_wait;
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        while Instant::now() < deadline && matches!(child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Ends the process of the connection. Returns the reason why the connection ended, based on
    /// the stderr and exit status of this process.
    pub fn end_reason(&self, error: &anyhow::Error) -> String {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        // If the machine no longer responds, the process does not exit by itself.
        let _ = child.kill();
        let status = child.wait();
        drop(child);
        let stderr_reader =
            self.stderr_reader.lock().unwrap_or_else(PoisonError::into_inner).take();
        let stderr =
            stderr_reader.and_then(|stderr_reader| stderr_reader.join().ok()).unwrap_or_default();
        let message = stderr.trim().trim_start_matches("speedwell: ");
        match status {
            _ if !message.is_empty() => message.to_owned(),
            Ok(status) if !status.success() => format!("{error:#} ({status})"),
            _ => format!("{error:#}"),
        }
    }
}

pub(crate) fn read_line(reader: &mut BufReader<ChildStdout>) -> Result<String> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 || !line.ends_with('\n') {
        bail!("connection lost");
    }
    line.pop();
    Ok(line)
}

/// Skips to the next line that starts with `word`, and returns the rest of that line.
fn await_line(reader: &mut BufReader<ChildStdout>, word: &str) -> Result<String> {
    loop {
        let line = read_line(reader)?;
        if let Some(remainder) = line.strip_prefix(word) {
            return Ok(remainder.trim_start().to_owned());
        }
    }
}
