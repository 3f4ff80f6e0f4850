//! A connection to a machine that sends part of a load, and the state of that machine. Start at
//! [`GeneratorConnection::follow_load`].

use super::worker::{GeneratorReady, GeneratorReport};
use anyhow::{Context, Result, bail};
use speedwell_fleet::clock::{self, ClockOffset};
use speedwell_process::CompanionProcess;
use speedwell_runner::load::{LoadSnapshot, WorkerAssignment};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const MAX_STDERR_BYTES: u64 = 4096;

/// State of the machine at the other end.
#[derive(Debug, Default)]
pub(super) struct GeneratorState {
    pub ready: Option<(GeneratorReady, ClockOffset)>,
    pub snapshot: Option<LoadSnapshot>,
    pub reported: Option<GeneratorReport>,
    /// Its clock offset after the load.
    pub after: Option<ClockOffset>,
    /// Why the connection ended, once it has; the inner value is `None` after a normal end.
    pub over: Option<Option<String>>,
    /// When it was last heard from.
    pub heard: Option<Instant>,
}

/// State shared by the threads that follow connections.
#[derive(Debug)]
pub(super) struct SharedLoadState {
    seen: Mutex<Vec<GeneratorState>>,
    changed: Condvar,
    /// The agreed start by our clock, once settled; the inner value is `None` if the load does not
    /// start.
    start: Mutex<Option<Option<i64>>>,
}

impl SharedLoadState {
    pub fn new(lines: usize) -> SharedLoadState {
        SharedLoadState {
            seen: Mutex::new((0..lines).map(|_| GeneratorState::default()).collect()),
            changed: Condvar::new(),
            start: Mutex::new(None),
        }
    }

    pub fn generator_states(&self) -> MutexGuard<'_, Vec<GeneratorState>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn into_generator_states(self) -> Vec<GeneratorState> {
        self.seen
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a generator's state changes, but at most this long.
    pub fn wait_for_news(&self, most: Duration) -> MutexGuard<'_, Vec<GeneratorState>> {
        let waited = self.changed.wait_timeout(self.generator_states(), most);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn update_state(&self, at: usize, note: impl FnOnce(&mut GeneratorState)) {
        let mut seen = self.generator_states();
        seen[at].heard = Some(Instant::now());
        note(&mut seen[at]);
        drop(seen);
        self.changed.notify_all();
    }

    /// Announces when all machines start, or that they do not.
    pub fn announce_start(&self, start: Option<i64>) {
        let mut agreed = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        agreed.get_or_insert(start);
        drop(agreed);
        self.changed.notify_all();
    }

    /// Waits for that announcement.
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

/// An open connection. The thread that follows it owns the reading end.
pub(crate) struct GeneratorConnection {
    _companion: CompanionProcess,
    child: Mutex<Child>,
    to: Mutex<Option<ChildStdin>>,
    complaint: Mutex<Option<JoinHandle<String>>>,
}

impl GeneratorConnection {
    /// Creates a connection; also returns its reading end.
    pub fn new(mut child: Child) -> Result<(GeneratorConnection, BufReader<ChildStdout>)> {
        let from = child
            .stdout
            .take()
            .context("the connection has no stdout")?;
        let stderr = child.stderr.take();
        let complaint = stderr.map(|mut stderr| {
            std::thread::spawn(move || {
                let mut said = Vec::new();
                // Discard the rest, so that the other end never blocks on us.
                let _ = stderr
                    .by_ref()
                    .take(MAX_STDERR_BYTES)
                    .read_to_end(&mut said);
                let _ = std::io::copy(&mut stderr, &mut std::io::sink());
                String::from_utf8_lossy(&said).into_owned()
            })
        });
        let line = GeneratorConnection {
            _companion: CompanionProcess::of(&child),
            to: Mutex::new(child.stdin.take()),
            child: Mutex::new(child),
            complaint: Mutex::new(complaint),
        };
        Ok((line, BufReader::new(from)))
    }

    /// Makes the machine send its part, and records its reports.
    pub(super) fn follow_load(
        &self,
        at: usize,
        mut from: BufReader<ChildStdout>,
        order: &WorkerAssignment,
        board: &SharedLoadState,
    ) {
        let done = self.run_protocol(at, &mut from, order, board);
        *self.to.lock().unwrap_or_else(PoisonError::into_inner) = None;
        drop(from);
        let over = done.err().map(|error| self.end_reason(&error));
        if over.is_none() {
            // It has reported everything. Wait for it to exit, so that no process remains.
            let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = child.wait();
        }
        board.update_state(at, |seen| seen.over = Some(over));
    }

    fn run_protocol(
        &self,
        at: usize,
        from: &mut BufReader<ChildStdout>,
        order: &WorkerAssignment,
        board: &SharedLoadState,
    ) -> Result<()> {
        self.send_line(&serde_json::to_string(order)?)?;
        let ready = await_line(from, "ready")?;
        let ready: GeneratorReady =
            serde_json::from_str(&ready).context("it sent an unexpected message")?;
        let offset = self.query_offset(from)?;
        board.update_state(at, |seen| seen.ready = Some((ready, offset)));
        let Some(start_ns) = board.await_start() else {
            return self.send_line("stop");
        };
        self.send_line(&format!("start {}", offset.to_remote_ns(start_ns)))?;
        loop {
            let line = read_line(from)?;
            match line.split_once(' ') {
                Some(("at", snapshot)) => {
                    let snapshot = serde_json::from_str(snapshot).ok();
                    board
                        .update_state(at, |seen| seen.snapshot = snapshot.or(seen.snapshot.take()));
                }
                Some(("measured", reported)) => {
                    let reported =
                        serde_json::from_str(reported).context("cannot parse its results")?;
                    // Its clock may have drifted. If the query fails, the measurement is still
                    // valid.
                    let after = self.query_offset(from).ok();
                    board.update_state(at, |seen| {
                        (seen.reported, seen.after) = (Some(reported), after);
                    });
                    return Ok(());
                }
                _ => {}
            }
        }
    }

    /// Queries its clock offset. The lock keeps other messages out of this exchange.
    fn query_offset(&self, from: &mut BufReader<ChildStdout>) -> Result<ClockOffset> {
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        clock::query_clock(to.as_mut().context("the connection is closed")?, from)
    }

    /// Sends a line.
    ///
    /// # Errors
    /// Fails if the connection is broken.
    pub fn send_line(&self, text: &str) -> Result<()> {
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        let stdin = to.as_mut().context("the connection is closed")?;
        writeln!(stdin, "{text}").and_then(|()| stdin.flush())?;
        Ok(())
    }

    /// Breaks the connection.
    pub fn kill_process(&self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        // It may have exited already.
        let _ = child.kill();
    }

    /// Closes our end and waits for the other end to exit, but at most this long.
    pub fn close(&self, most: Duration) {
        *self.to.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let until = Instant::now() + most;
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        while Instant::now() < until && matches!(child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        // Most have exited by now.
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Why the connection ended: the stderr and exit status of the other end.
    pub fn end_reason(&self, error: &anyhow::Error) -> String {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        // It exits without its input, unless the machine does not respond.
        let _ = child.kill();
        let status = child.wait();
        drop(child);
        let complaint = self
            .complaint
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let stderr = complaint
            .and_then(|complaint| complaint.join().ok())
            .unwrap_or_default();
        let said = stderr.trim().trim_start_matches("speedwell: ");
        match status {
            _ if !said.is_empty() => said.to_owned(),
            Ok(status) if !status.success() => format!("{error:#} ({status})"),
            _ => format!("{error:#}"),
        }
    }
}

/// Reads the next line, without its newline.
pub(crate) fn read_line(from: &mut BufReader<ChildStdout>) -> Result<String> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 || !line.ends_with('\n') {
        bail!("connection lost");
    }
    line.pop();
    Ok(line)
}

/// Skips to the next line that starts with this word, and returns the rest of it.
fn await_line(from: &mut BufReader<ChildStdout>, word: &str) -> Result<String> {
    loop {
        let line = read_line(from)?;
        if let Some(rest) = line.strip_prefix(word) {
            return Ok(rest.trim_start().to_owned());
        }
    }
}
