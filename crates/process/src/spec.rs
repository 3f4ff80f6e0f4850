//! What to start and how long to wait for it, where a program is found, and how its process ended.
//!
//! Start at [`Spec`] and [`Outcome`].

use crate::{Channel, CpuSet};
use anyhow::{Context, bail};
use rustix::process::Signal;
use speedwell_clock::Clock;
use speedwell_model::{Cause, Usage, quote};
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

/// A program to start once.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The program: a path, or a name to be found in `PATH`.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables added to our own environment.
    pub environment: Vec<(String, String)>,
    /// Variables taken out of our own environment.
    pub unset: Vec<String>,
    /// The working directory; ours when `None`.
    pub directory: Option<PathBuf>,
    /// Processors it may use; all when `None`.
    pub pin: Option<CpuSet>,
    /// After this time it is ended.
    pub limit: Duration,
    /// Its private line.
    pub channel: Channel,
    /// How it is asked to end, where somebody decides that it has to.
    pub shutdown: Shutdown,
    /// What its time limit and its grace go by; the time that it took is always real.
    pub clock: Clock,
    /// Whether it sees no variables but its own, and addresses that are not drawn at random, so that nothing but its
    /// program decides what it does.
    pub is_fixed: bool,
}

/// How a child is asked to end before it is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shutdown {
    /// The signal that its group gets.
    pub signal: Signal,
    /// How long its end may take.
    pub grace: Duration,
}

impl Default for Shutdown {
    fn default() -> Shutdown {
        Shutdown {
            signal: Signal::TERM,
            grace: Duration::from_secs(3),
        }
    }
}

impl Spec {
    /// Starts `program` without arguments, with a limit of one minute.
    pub fn new(program: impl AsRef<Path>) -> Spec {
        Spec {
            program: program.as_ref().to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            unset: Vec::new(),
            directory: None,
            pin: None,
            limit: Duration::from_secs(60),
            channel: Channel::None,
            shutdown: Shutdown::default(),
            clock: Clock::REAL,
            is_fixed: false,
        }
    }

    /// Adds arguments.
    pub fn args<I: IntoIterator<Item = S>, S: Into<String>>(mut self, arguments: I) -> Spec {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a variable.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Spec {
        self.environment.push((name.into(), value.into()));
        self
    }
}

/// The shell line that starts what `spec` describes: folder, variables, program, arguments.
pub fn replay(spec: &Spec) -> String {
    let mut words = Vec::new();
    if let Some(folder) = &spec.directory {
        words.push(format!("cd {} &&", quote(&folder.to_string_lossy())));
    }
    for (name, value) in &spec.environment {
        words.push(format!("{name}={}", quote(value)));
    }
    words.push(quote(&spec.program.to_string_lossy()));
    words.extend(spec.arguments.iter().map(|argument| quote(argument)));
    words.join(" ")
}

/// How a process came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this status.
    Exit(i32),
    /// By a signal that was not ours.
    Signal(i32),
    /// By us, at its time limit.
    Timeout,
    /// By us, because it did not end although it had nothing more to say.
    Lingered,
    /// By us, because the user asked us to stop.
    Interrupted,
}

/// Of a process that nobody of us ended.
impl From<ExitStatus> for Ended {
    fn from(status: ExitStatus) -> Ended {
        match status.signal() {
            Some(signal) => Ended::Signal(signal),
            None => Ended::Exit(status.code().unwrap_or_default()),
        }
    }
}

/// As the end of a sentence about the process.
impl fmt::Display for Ended {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Exit(code) => Cause::Exit { code: *code }.fmt(out),
            Ended::Signal(signal) => Cause::Signal { signal: *signal }.fmt(out),
            Ended::Timeout | Ended::Lingered | Ended::Interrupted => write!(out, "was ended"),
        }
    }
}

/// Everything known of a process that has ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How it ended.
    pub ended: Ended,
    /// From just before its start to its end.
    pub wall_ns: u64,
    /// When it was started, in milliseconds since the Unix epoch.
    pub started_unix_ms: i64,
    /// Resources it and its waited-for children used.
    pub usage: Usage,
    /// What it wrote on stdout.
    pub stdout: Capture,
    /// What it wrote on stderr.
    pub stderr: Capture,
    /// What the processes called themselves that it left behind and we ended.
    pub strays: BTreeSet<String>,
    /// What came of asking it to end, where it was asked.
    pub shutdown: Option<ShutdownOutcome>,
}

/// How a child ended that was asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShutdownOutcome {
    /// How it ended: by itself with a status, by the signal it was asked with, or by being killed.
    pub manner: Ended,
    /// From the question to its end.
    pub took_ns: u64,
    /// It did not end in time and was killed.
    pub was_killed: bool,
}

impl Outcome {
    /// A sentence about what it left behind, if it did.
    pub fn leftovers(&self) -> Option<String> {
        // Without their number: a sentence that is true of every run is said once.
        let names: Vec<String> = self.strays.iter().map(|name| format!("'{name}'")).collect();
        (!names.is_empty()).then(|| {
            let names = names.join(", ");
            format!("It left processes behind, which were ended: {names}.")
        })
    }

    /// The cause of failure, if the way it ended is one.
    pub fn cause(&self, limit: std::time::Duration) -> Option<Cause> {
        match self.ended {
            Ended::Exit(0) | Ended::Lingered | Ended::Interrupted => None,
            Ended::Exit(code) => Some(Cause::Exit { code }),
            Ended::Signal(signal) => Some(Cause::Signal { signal }),
            Ended::Timeout => Some(Cause::Timeout {
                limit_ms: limit.as_millis() as u64,
            }),
        }
    }
}

/// The absolute path of a program given as path or by name, so that every process starts the same.
///
/// # Errors
/// No such program, or a file that cannot be executed.
pub fn resolve(program: &Path) -> anyhow::Result<PathBuf> {
    let found = if program.components().count() > 1 {
        program.exists().then(|| program.to_owned())
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let in_path = std::env::split_paths(&path).map(|folder| folder.join(program));
        in_path
            .chain([program.to_owned()])
            .find(|file| file.is_file())
    };
    let shown = program.display();
    let found = found.with_context(|| format!("no program '{shown}' here or in PATH"))?;
    let mode = found
        .metadata()
        .with_context(|| format!("cannot look at '{shown}'"))?;
    if mode.is_dir() || mode.permissions().mode() & 0o111 == 0 {
        bail!("'{shown}' cannot be executed\nhint: chmod +x '{shown}'");
    }
    std::path::absolute(&found).with_context(|| format!("cannot resolve '{shown}'"))
}

/// Bytes kept of the beginning, and as many of the end.
const KEPT_BYTES: usize = 64 * 1024;

/// The captured beginning and end of a stream. A child may write gigabytes; we keep 128 KiB.
#[derive(Debug, Default, Clone)]
pub struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total_bytes: u64,
}

impl Capture {
    /// Adds what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total_bytes += bytes.len() as u64;
        let space = KEPT_BYTES - self.head.len().min(KEPT_BYTES);
        let (head, rest) = bytes.split_at(space.min(bytes.len()));
        self.head.extend_from_slice(head);
        // Only the last KEPT_BYTES of what is left can survive, however much came at once.
        let rest = &rest[rest.len().saturating_sub(KEPT_BYTES)..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(KEPT_BYTES);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    /// How much the child wrote in all.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Everything kept, with a remark where the middle is missing.
    pub fn text(&self) -> String {
        let kept = (self.head.len() + self.tail.len()) as u64;
        let mut bytes = self.head.clone();
        if kept < self.total_bytes {
            let missing = self.total_bytes - kept;
            bytes.extend_from_slice(format!("\n[... {missing} bytes left out ...]\n").as_bytes());
        }
        bytes.extend(&self.tail);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The last `lines` lines, without trailing blank ones.
    pub fn last_lines(&self, lines: usize) -> String {
        let text = self.text();
        let all: Vec<&str> = text.trim_end().lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_keeps_its_beginning_and_its_end() {
        let mut capture = Capture::default();
        capture.push(b"first\n");
        for _ in 0..1000 {
            capture.push(&[b'x'; 4096]);
        }
        capture.push(b"\nlast\n");
        let text = capture.text();
        assert!(text.starts_with("first\n") && text.ends_with("last\n"));
        assert!(text.contains("bytes left out"));
        assert!(text.len() < 3 * KEPT_BYTES);
        assert_eq!(capture.total_bytes(), 6 + 1000 * 4096 + 6);
        assert_eq!(capture.last_lines(1), "last");
    }

    #[test]
    fn a_short_stream_is_kept_whole() {
        let mut capture = Capture::default();
        capture.push(b"one\ntwo\n\n");
        assert_eq!(capture.text(), "one\ntwo\n\n");
        assert_eq!(capture.last_lines(5), "one\ntwo");
    }
}
