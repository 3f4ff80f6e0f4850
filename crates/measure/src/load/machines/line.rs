//! A connection to a machine that sends part of a load, and the state of that machine. Start at
//! [`Line::follow`].

use super::worker::{Ready, Reported};
use anyhow::{Context, Result, bail};
use speedwell_fleet::clock::{self, Offset};
use speedwell_process::Companion;
use speedwell_runner::load::{Snapshot, WorkerOrder};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const COMPLAINT_BYTES: u64 = 4096;

/// State of the machine at the other end.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub ready: Option<(Ready, Offset)>,
    pub snapshot: Option<Snapshot>,
    pub reported: Option<Reported>,
    /// Its clock offset after the load.
    pub after: Option<Offset>,
    /// Why the connection ended, once it has; the inner value is `None` after a normal end.
    pub over: Option<Option<String>>,
    /// When it was last heard from.
    pub heard: Option<Instant>,
}

/// State shared by the threads that follow connections.
#[derive(Debug)]
pub(super) struct Board {
    seen: Mutex<Vec<Seen>>,
    changed: Condvar,
    /// The agreed start by our clock, once settled; the inner value is `None` if the load does not
    /// start.
    start: Mutex<Option<Option<i64>>>,
}

impl Board {
    pub fn new(lines: usize) -> Board {
        Board {
            seen: Mutex::new((0..lines).map(|_| Seen::default()).collect()),
            changed: Condvar::new(),
            start: Mutex::new(None),
        }
    }

    pub fn seen(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn into_seen(self) -> Vec<Seen> {
        self.seen
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for news, but at most this long.
    pub fn wait(&self, most: Duration) -> MutexGuard<'_, Vec<Seen>> {
        let waited = self.changed.wait_timeout(self.seen(), most);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn note(&self, at: usize, note: impl FnOnce(&mut Seen)) {
        let mut seen = self.seen();
        seen[at].heard = Some(Instant::now());
        note(&mut seen[at]);
        drop(seen);
        self.changed.notify_all();
    }

    /// Announces when all machines start, or that they do not.
    pub fn settle(&self, start: Option<i64>) {
        let mut agreed = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        agreed.get_or_insert(start);
        drop(agreed);
        self.changed.notify_all();
    }

    /// Waits for that announcement.
    fn start(&self) -> Option<i64> {
        loop {
            let agreed = *self.start.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(start) = agreed {
                return start;
            }
            drop(self.wait(Duration::from_millis(20)));
        }
    }
}

/// An open connection. The thread that follows it owns the reading end.
pub(crate) struct Line {
    _companion: Companion,
    child: Mutex<Child>,
    to: Mutex<Option<ChildStdin>>,
    complaint: Mutex<Option<JoinHandle<String>>>,
}

impl Line {
    /// Creates a connection; also returns its reading end.
    pub fn new(mut child: Child) -> Result<(Line, BufReader<ChildStdout>)> {
        let from = child.stdout.take().context("the line has no end")?;
        let stderr = child.stderr.take();
        let complaint = stderr.map(|mut stderr| {
            std::thread::spawn(move || {
                let mut said = Vec::new();
                // Discard the rest, so that the other end never blocks on us.
                let _ = stderr.by_ref().take(COMPLAINT_BYTES).read_to_end(&mut said);
                let _ = std::io::copy(&mut stderr, &mut std::io::sink());
                String::from_utf8_lossy(&said).into_owned()
            })
        });
        let line = Line {
            _companion: Companion::of(&child),
            to: Mutex::new(child.stdin.take()),
            child: Mutex::new(child),
            complaint: Mutex::new(complaint),
        };
        Ok((line, BufReader::new(from)))
    }

    /// Makes the machine send its part, and records what it reports.
    pub(super) fn follow(
        &self,
        at: usize,
        mut from: BufReader<ChildStdout>,
        order: &WorkerOrder,
        board: &Board,
    ) {
        let done = self.converse(at, &mut from, order, board);
        *self.to.lock().unwrap_or_else(PoisonError::into_inner) = None;
        drop(from);
        let over = done.err().map(|error| self.reason(&error));
        if over.is_none() {
            // It has reported everything. Wait for it to exit, so that no process remains.
            let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = child.wait();
        }
        board.note(at, |seen| seen.over = Some(over));
    }

    fn converse(
        &self,
        at: usize,
        from: &mut BufReader<ChildStdout>,
        order: &WorkerOrder,
        board: &Board,
    ) -> Result<()> {
        self.say(&serde_json::to_string(order)?)?;
        let ready = awaited(from, "ready")?;
        let ready: Ready = serde_json::from_str(&ready).context("it says something else")?;
        let offset = self.clock(from)?;
        board.note(at, |seen| seen.ready = Some((ready, offset)));
        let Some(start_ns) = board.start() else {
            return self.say("stop");
        };
        self.say(&format!("start {}", offset.theirs(start_ns)))?;
        loop {
            let line = next(from)?;
            match line.split_once(' ') {
                Some(("at", snapshot)) => {
                    let snapshot = serde_json::from_str(snapshot).ok();
                    board.note(at, |seen| seen.snapshot = snapshot.or(seen.snapshot.take()));
                }
                Some(("measured", reported)) => {
                    let reported =
                        serde_json::from_str(reported).context("its figures cannot be read")?;
                    // Its clock may have drifted. If the query fails, the measurement is still
                    // valid.
                    let after = self.clock(from).ok();
                    board.note(at, |seen| {
                        (seen.reported, seen.after) = (Some(reported), after);
                    });
                    return Ok(());
                }
                _ => {}
            }
        }
    }

    /// Queries its clock offset. Nothing else is sent meanwhile.
    fn clock(&self, from: &mut BufReader<ChildStdout>) -> Result<Offset> {
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        clock::ask(to.as_mut().context("the line is closed")?, from)
    }

    /// Sends a line.
    ///
    /// # Errors
    /// Fails if the connection is broken.
    pub fn say(&self, text: &str) -> Result<()> {
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        let to = to.as_mut().context("the line is closed")?;
        writeln!(to, "{text}").and_then(|()| to.flush())?;
        Ok(())
    }

    /// Breaks the connection.
    pub fn cut(&self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        // It may have ended meanwhile.
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
    pub fn reason(&self, error: &anyhow::Error) -> String {
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
        let said = complaint.and_then(|complaint| complaint.join().ok());
        let said = said.unwrap_or_default();
        let said = said.trim().trim_start_matches("speedwell: ");
        match status {
            _ if !said.is_empty() => said.to_owned(),
            Ok(status) if !status.success() => format!("{error:#} ({status})"),
            _ => format!("{error:#}"),
        }
    }
}

/// Reads the next line, without its newline.
pub(crate) fn next(from: &mut BufReader<ChildStdout>) -> Result<String> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 || !line.ends_with('\n') {
        bail!("the line was cut");
    }
    line.pop();
    Ok(line)
}

/// Skips to the next line that starts with this word, and returns the rest of it.
fn awaited(from: &mut BufReader<ChildStdout>, word: &str) -> Result<String> {
    loop {
        let line = next(from)?;
        if let Some(rest) = line.strip_prefix(word) {
            return Ok(rest.trim_start().to_owned());
        }
    }
}
