//! One line to a machine that sends a part of a load, and what is known of it meanwhile. Start at [`Line::follow`].

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

/// What is kept of what a line complains of.
const COMPLAINT_BYTES: u64 = 4096;

/// What is known of the machine at the other end.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub ready: Option<(Ready, Offset)>,
    pub snapshot: Option<Snapshot>,
    pub reported: Option<Reported>,
    /// Its clock after the load.
    pub after: Option<Offset>,
    /// Why the line is over; nothing of one that ended well.
    pub over: Option<Option<String>>,
    /// When it was last heard.
    pub heard: Option<Instant>,
}

/// What those who follow lines share.
#[derive(Debug)]
pub(super) struct Board {
    seen: Mutex<Vec<Seen>>,
    changed: Condvar,
    /// The moment at which all begin, by our clock; nothing within if they do not.
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

    /// Waits for news, at most so long.
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

    /// Says when all begin, or that they do not.
    pub fn settle(&self, start: Option<i64>) {
        let mut agreed = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        agreed.get_or_insert(start);
        drop(agreed);
        self.changed.notify_all();
    }

    /// Waits until that is said.
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

/// A line that is open. The reading end belongs to whoever follows it.
pub(crate) struct Line {
    _companion: Companion,
    child: Mutex<Child>,
    to: Mutex<Option<ChildStdin>>,
    complaint: Mutex<Option<JoinHandle<String>>>,
}

impl Line {
    /// A line, and what comes over it.
    pub fn new(mut child: Child) -> Result<(Line, BufReader<ChildStdout>)> {
        let from = child.stdout.take().context("the line has no end")?;
        let stderr = child.stderr.take();
        let complaint = stderr.map(|mut stderr| {
            std::thread::spawn(move || {
                let mut said = Vec::new();
                // What is complained of more than that is thrown away, so that nobody waits for us.
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

    /// Has the machine send its part, and notes what comes back.
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
            // It has said all; its end is waited for so that nothing of it stays.
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
                    // Its clock may have moved; that it cannot be asked any more takes nothing from what it measured.
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

    /// The difference of its clock. Nothing else is said meanwhile.
    fn clock(&self, from: &mut BufReader<ChildStdout>) -> Result<Offset> {
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        clock::ask(to.as_mut().context("the line is closed")?, from)
    }

    /// Says a line.
    ///
    /// # Errors
    /// The line is cut.
    pub fn say(&self, text: &str) -> Result<()> {
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        let to = to.as_mut().context("the line is closed")?;
        writeln!(to, "{text}").and_then(|()| to.flush())?;
        Ok(())
    }

    /// Cuts the line.
    pub fn cut(&self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        // It may have ended in between.
        let _ = child.kill();
    }

    /// Closes our end, and waits at most so long for the other one to end.
    pub fn close(&self, most: Duration) {
        *self.to.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let until = Instant::now() + most;
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        while Instant::now() < until && matches!(child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        // Most have ended.
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Why the line is over: what its other end complains of, and how it ended.
    pub fn reason(&self, error: &anyhow::Error) -> String {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        // Without its input nothing keeps it, but for a machine that does not answer.
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

/// The next line, without its end.
pub(crate) fn next(from: &mut BufReader<ChildStdout>) -> Result<String> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 || !line.ends_with('\n') {
        bail!("the line was cut");
    }
    line.pop();
    Ok(line)
}

/// What follows the next line with this word.
fn awaited(from: &mut BufReader<ChildStdout>, word: &str) -> Result<String> {
    loop {
        let line = next(from)?;
        if let Some(rest) = line.strip_prefix(word) {
            return Ok(rest.trim_start().to_owned());
        }
    }
}
