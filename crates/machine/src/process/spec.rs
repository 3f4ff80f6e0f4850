//! Describes what to start and for how long, locates programs, and describes how a process ended.
//!
//! Start at [`ProcessSpec`] and [`ProcessOutcome`].

use super::CpuSet;
use anyhow::{Context, bail};
use rustix::io::ioctl_fionbio;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;
use speedwell_model::clock::WaitClock;
use speedwell_model::{FailureCause, ResourceUsage, quote};
use std::collections::{BTreeSet, VecDeque};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;
use std::{fmt, io};

/// A program to start once, and how to run it.
#[derive(Debug, Clone, Default)]
pub struct ProcessSpec {
    /// The program: a path, or a name to be found in `PATH`.
    pub program: PathBuf,
    /// Command-line arguments.
    pub arguments: Vec<String>,
    /// Variables added to our own environment.
    pub environment: Vec<(String, String)>,
    /// Variables removed from our own environment.
    pub unset: Vec<String>,
    /// Working directory; ours if `None`.
    pub directory: Option<PathBuf>,
    /// Processors that the process may use; all if `None`.
    pub pin: Option<CpuSet>,
    /// Time limit after which the process is killed.
    pub limit: Duration,
    /// Private channel.
    pub channel: ChannelKind,
    /// How to shut the process down before its time limit.
    pub shutdown: ShutdownPolicy,
    /// Clock for the time limit and the grace period. Measured times always use the real clock.
    pub clock: WaitClock,
    /// Whether the process gets only the variables in `environment`, and no randomized memory
    /// addresses. The behavior of the process then depends on its program alone.
    pub is_fixed: bool,
}

/// How to shut a child down before killing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShutdownPolicy {
    /// Signal that the child's process group gets.
    pub signal: Signal,
    /// Time that the child may take to end.
    pub grace: Duration,
}

impl Default for ShutdownPolicy {
    fn default() -> ShutdownPolicy {
        ShutdownPolicy { signal: Signal::TERM, grace: Duration::from_secs(3) }
    }
}

impl ProcessSpec {
    /// Creates the specification of `program` without arguments, with a time limit of one minute.
    pub fn new(program: impl AsRef<Path>) -> ProcessSpec {
        ProcessSpec {
            program: program.as_ref().to_owned(),
            limit: Duration::from_secs(60),
            ..ProcessSpec::default()
        }
    }

    /// Adds arguments.
    pub fn args<I: IntoIterator<Item = S>, S: Into<String>>(mut self, arguments: I) -> ProcessSpec {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a variable.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> ProcessSpec {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Returns the value that a variable has after the changes of this specification.
    pub fn variable(&self, name: &str) -> Option<String> {
        let found = self.environment.iter().rev().find(|(variable, _)| variable == name);
        let is_unset = self.unset.iter().any(|variable| variable == name);
        let inherited = || std::env::var(name).ok().filter(|_| !is_unset);
        found.map(|(_, value)| value.clone()).or_else(inherited)
    }
}

/// Returns a shell line that starts the same program in the same folder with the same added
/// variables and arguments. Variables that `spec` removes are not shown.
pub fn shell_line(spec: &ProcessSpec) -> String {
    let mut parts = Vec::new();
    if let Some(folder) = &spec.directory {
        parts.push(format!("cd {} &&", quote(&folder.to_string_lossy())));
    }
    for (name, value) in &spec.environment {
        parts.push(format!("{name}={}", quote(value)));
    }
    parts.push(quote(&spec.program.to_string_lossy()));
    parts.extend(spec.arguments.iter().map(|argument| quote(argument)));
    parts.join(" ")
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEnd {
    /// By itself, with this status.
    Exit(i32),
    /// By a signal that was not ours.
    Signal(i32),
    /// Killed at its time limit.
    Timeout,
    /// Killed because it did not end after its last message.
    Lingered,
    /// Ended because the user interrupted us, or because we stopped a
    /// [`ServiceProcess`](crate::process::ServiceProcess).
    Interrupted,
}

/// Converts to `Exit` or `Signal` only: a status does not show whether we ended the process.
impl From<ExitStatus> for ProcessEnd {
    fn from(status: ExitStatus) -> ProcessEnd {
        let exit = || ProcessEnd::Exit(status.code().unwrap_or_default());
        status.signal().map_or_else(exit, ProcessEnd::Signal)
    }
}

/// Formats the predicate of a sentence about the process, such as "was ended".
impl fmt::Display for ProcessEnd {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProcessEnd::Exit(code) => FailureCause::Exit { code: *code }.fmt(out),
            ProcessEnd::Signal(signal) => FailureCause::Signal { signal: *signal }.fmt(out),
            ProcessEnd::Timeout | ProcessEnd::Lingered | ProcessEnd::Interrupted => {
                write!(out, "was ended")
            }
        }
    }
}

/// Everything known about a process that has ended.
#[derive(Debug, Clone)]
pub struct ProcessOutcome {
    /// How the process ended.
    pub ended: ProcessEnd,
    /// Wall time from just before the start of the process to its end.
    pub wall_ns: u64,
    /// Start time in milliseconds since the Unix epoch.
    pub started_unix_ms: i64,
    /// Resources used by the process and by the children that it waited for.
    pub usage: ResourceUsage,
    /// Captured stdout.
    pub stdout: CapturedStream,
    /// Captured stderr.
    pub stderr: CapturedStream,
    /// Names of the processes that were left behind and that we killed.
    pub strays: BTreeSet<String>,
    /// How the shutdown went, if one was requested.
    pub shutdown: Option<ShutdownOutcome>,
}

/// How a child ended after a shutdown request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShutdownOutcome {
    /// Time from the request to the end of the child.
    pub took_ns: u64,
    /// Whether the child did not end in time and was killed.
    pub was_killed: bool,
}

impl ProcessOutcome {
    /// Describes the processes that were left behind, if any.
    pub fn describe_leftovers(&self) -> Option<String> {
        // The message contains no counts, so that it is the same for several runs and is reported
        // only once.
        let names: Vec<String> = self.strays.iter().map(|name| format!("'{name}'")).collect();
        (!names.is_empty()).then(|| {
            format!("It left processes running, which were stopped: {}.", names.join(", "))
        })
    }

    /// Returns the cause of failure, if the process failed.
    pub fn failure_cause(&self, limit: std::time::Duration) -> Option<FailureCause> {
        let limit_ms = limit.as_millis() as u64;
        match self.ended {
            ProcessEnd::Exit(0) | ProcessEnd::Lingered | ProcessEnd::Interrupted => None,
            ProcessEnd::Exit(code) => Some(FailureCause::Exit { code }),
            ProcessEnd::Signal(signal) => Some(FailureCause::Signal { signal }),
            ProcessEnd::Timeout => Some(FailureCause::Timeout { limit_ms }),
        }
    }
}

/// Returns the absolute path of a program given by path or name, so that every process starts the
/// same file.
///
/// # Errors
/// Fails if there is no such program, or it is not executable.
pub fn resolve_program(program: &Path) -> anyhow::Result<PathBuf> {
    let candidate = if program.components().count() > 1 {
        program.exists().then(|| program.to_owned())
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let in_path = std::env::split_paths(&path).map(|folder| folder.join(program));
        in_path.chain([program.to_owned()]).find(|candidate| candidate.is_file())
    };
    let displayed = program.display();
    let candidate =
        candidate.with_context(|| format!("no program '{displayed}' here or in PATH"))?;
    let mode = candidate.metadata().with_context(|| format!("cannot access '{displayed}'"))?;
    if mode.is_dir() || mode.permissions().mode() & 0o111 == 0 {
        bail!("'{displayed}' cannot be executed\nhint: chmod +x '{displayed}'");
    }
    std::path::absolute(&candidate).with_context(|| format!("cannot resolve '{displayed}'"))
}

/// Maximum number of bytes kept from the beginning of a stream, and from its end.
const MAX_KEPT_BYTES: usize = 64 * 1024;

/// Beginning and end of a captured stream. A child may write gigabytes, of which we keep 128 KiB.
#[derive(Debug, Default, Clone)]
pub struct CapturedStream {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total_bytes: u64,
}

impl CapturedStream {
    /// Appends data.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total_bytes += bytes.len() as u64;
        let space = MAX_KEPT_BYTES - self.head.len().min(MAX_KEPT_BYTES);
        let (head, remainder) = bytes.split_at(space.min(bytes.len()));
        self.head.extend_from_slice(head);
        // Only the last MAX_KEPT_BYTES bytes of the input can be kept.
        let remainder = &remainder[remainder.len().saturating_sub(MAX_KEPT_BYTES)..];
        let excess = (self.tail.len() + remainder.len()).saturating_sub(MAX_KEPT_BYTES);
        self.tail.drain(..excess);
        self.tail.extend(remainder);
    }

    /// Total bytes that the child wrote.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Returns everything kept, with a note where the middle is missing.
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

    /// Returns the last `lines` lines, without trailing blank ones.
    pub fn last_lines(&self, lines: usize) -> String {
        let text = self.text();
        let all_lines: Vec<&str> = text.trim_end().lines().collect();
        all_lines[all_lines.len().saturating_sub(lines)..].join("\n")
    }
}

// Opens a private channel between us and a child, in addition to the child's standard streams, and
// defines the trait for conversations over the channel.

/// Kind of private channel that a child gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ChannelKind {
    /// No channel.
    #[default]
    None,
    /// A stream socket, like the one that Node.js uses between parent and child. The variable
    /// `NODE_CHANNEL_FD` holds the descriptor of the child's end.
    NodeSocket,
    /// Two pipes: the child reads commands on descriptor 3 and writes events on descriptor 4. The
    /// variable `SPEEDWELL_FDS` holds both numbers (docs/reference/protocol.md).
    Harness,
    /// One pipe from the child. The child's end is descriptor 3; the environment variable with the
    /// given name holds this number.
    Pipe(&'static str),
    /// The child's stdout is the channel, so the conversation receives all of its lines. With all
    /// other kinds, only the beginning and the end of a long stdout are kept.
    Stdout,
}

/// What to do after receiving a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextStep {
    /// Continue listening.
    Wait,
    /// Send these bytes, then continue listening.
    Send(Vec<u8>),
    /// Expect no more data, and give the child this long to end by itself.
    Linger(std::time::Duration),
}

/// A standard stream of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Our side of the protocol spoken over the private channel.
pub trait ChildConversation {
    /// Returns bytes to send as soon as the child has started.
    fn opening_bytes(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Handles a line, without its newline.
    fn handle_line(&mut self, line: &[u8]) -> NextStep;

    /// Observes output of the child on a standard stream.
    fn observe_output(&mut self, _stream: OutputStream, _bytes: &[u8]) {}

    /// Called each time before we wait for the child. Returns bytes to send if an answer is
    /// overdue.
    fn overdue_bytes(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// Called when the user interrupts us. Returns bytes to send to the child, and how long the
    /// child may take to end by itself; `None` kills the child at once. A
    /// [`ServiceProcess`](crate::process::ServiceProcess) gets only the bytes, and is not ended.
    fn stop_request(&mut self) -> Option<(Vec<u8>, std::time::Duration)> {
        None
    }
}

/// A conversation that sends nothing and expects nothing.
impl ChildConversation for () {
    fn handle_line(&mut self, _line: &[u8]) -> NextStep {
        NextStep::Wait
    }
}

/// Descriptors of an opened channel.
#[derive(Debug, Default)]
pub(super) struct ChannelEnds {
    /// Our read end.
    pub read: Option<OwnedFd>,
    /// Our write end.
    pub write: Option<OwnedFd>,
    /// The child's ends, each with its descriptor in the child.
    pub child: Vec<(OwnedFd, RawFd)>,
    /// Variables that describe the channel to the child.
    pub environment: Vec<(&'static str, String)>,
}

impl ChannelKind {
    /// Opens our ends and the child's ends, all close-on-exec. After the fork, the child moves its
    /// ends to their descriptors.
    pub(super) fn open(self) -> io::Result<ChannelEnds> {
        let mut ends = ChannelEnds::default();
        match self {
            ChannelKind::None => {}
            ChannelKind::NodeSocket => {
                let (domain, flags) = (AddressFamily::UNIX, SocketFlags::CLOEXEC);
                let (ours, theirs) = socketpair(domain, SocketType::STREAM, flags, None)?;
                ends.read = Some(ours);
                ends.child.push((theirs, 3));
                ends.environment.push(("NODE_CHANNEL_FD", "3".into()));
                // Node.js accepts only the modes json and advanced, and only json is a text format.
                ends.environment.push(("NODE_CHANNEL_SERIALIZATION_MODE", "json".into()));
            }
            ChannelKind::Harness => {
                let (commands_out, commands_in) = open_pipe()?;
                let (events_out, events_in) = open_pipe()?;
                ends.write = Some(commands_in);
                ends.read = Some(events_out);
                ends.child.extend([(commands_out, 3), (events_in, 4)]);
                ends.environment.push(("SPEEDWELL_FDS", "3,4".into()));
            }
            ChannelKind::Stdout | ChannelKind::Pipe(_) => {
                let (ours, theirs) = open_pipe()?;
                ends.read = Some(ours);
                ends.child.push((theirs, if self == ChannelKind::Stdout { 1 } else { 3 }));
            }
        }
        if let ChannelKind::Pipe(variable) = self {
            ends.environment.push((variable, "3".into()));
        }
        for ours in [&ends.read, &ends.write].into_iter().flatten() {
            set_nonblocking(ours)?;
        }
        Ok(ends)
    }
}

/// Opens a pipe as (read end, write end), close-on-exec.
pub(super) fn open_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe_with(PipeFlags::CLOEXEC)?)
}

/// Reads must never block: one child must not stall the whole session.
pub(super) fn set_nonblocking(fd: &OwnedFd) -> io::Result<()> {
    Ok(ioctl_fionbio(fd, true)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_very_long_stream_keeps_its_beginning_and_its_end() {
        let mut capture = CapturedStream::default();
        capture.push(b"first\n");
        for _ in 0..1000 {
            capture.push(&[b'x'; 4096]);
        }
        capture.push(b"\nlast\n");
        let text = capture.text();
        assert!(text.starts_with("first\n") && text.ends_with("last\n"));
        assert!(text.contains("bytes left out"));
        assert!(text.len() < 3 * MAX_KEPT_BYTES);
        assert_eq!(capture.total_bytes(), 6 + 1000 * 4096 + 6);
        assert_eq!(capture.last_lines(1), "last");
    }

    #[test]
    fn a_short_stream_is_kept_whole() {
        let mut capture = CapturedStream::default();
        capture.push(b"one\ntwo\n\n");
        assert_eq!(capture.text(), "one\ntwo\n\n");
        assert_eq!(capture.last_lines(5), "one\ntwo");
    }
}
