//! One child from start to end: descriptors in place, own group, bound to our life; the loop that listens, and the
//! decisions it takes; and what it wrote, of which the beginning and the end are kept. Start at [`run`].

use crate::channel::{self, Conversation, Ends, Next};
use crate::{
    Ended, Outcome, Shutdown, ShutdownOutcome, Spec, Stream, family_of, interrupted, process_tree,
};
use speedwell_model::Usage;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often the loop looks up when nothing happens: often enough for Ctrl-C, too rare to disturb.
const PULSE: Duration = Duration::from_millis(250);

/// Starts `spec`, talks with it, and returns when it and all it started are gone.
///
/// # Errors
/// The program could not be started. Everything that happens later is part of the [`Outcome`].
pub fn run(spec: &Spec, conversation: &mut dyn Conversation) -> io::Result<Outcome> {
    run_until(spec, conversation, None, |_| ())
}

/// Like [`run`], with the pid told to `started`. With `end`, the child lives until that pipe is
/// closed, whatever the user wishes: it is then asked to end, and killed if it does not.
pub(super) fn run_until(
    spec: &Spec,
    conversation: &mut dyn Conversation,
    end: Option<OwnedFd>,
    started: impl FnOnce(i32),
) -> io::Result<Outcome> {
    let started_unix_ms = unix_ms();
    let begin = Instant::now();
    let child = start(spec)?;
    let group = child.pid;
    started(group);
    let mut listener = Listener::new(child, begin + spec.limit, conversation);
    let is_held = end.is_some();
    listener.shutdown = spec.shutdown;
    listener.stop_source = match end {
        Some(pipe) => StopSource::Pipe(pipe),
        None => StopSource::User,
    };
    let ended = listener.listen();
    let (status, usage) = reap(group)?;
    process_tree::forget(group);
    let wall_ns = begin.elapsed().as_nanos() as u64;
    let shutdown = listener.asked.map(|asked| ShutdownOutcome {
        manner: from_status(status),
        took_ns: asked.elapsed().as_nanos() as u64,
        was_killed: listener.was_killed,
    });
    listener.drain();
    // A look at all processes of the machine takes time that a run of microseconds would notice.
    let left = if is_held {
        family_of(group)
    } else {
        Vec::new()
    };
    let strays = left.len() + process_tree::clear(group, &left);
    Ok(Outcome {
        ended: ended.unwrap_or_else(|| from_status(status)),
        wall_ns,
        started_unix_ms,
        usage,
        stdout: listener.stdout,
        stderr: listener.stderr,
        strays,
        shutdown,
    })
}

/// Milliseconds since the Unix epoch.
pub fn unix_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as i64)
}

/// Who decides that the child has to end before its time limit.
enum StopSource {
    /// The user.
    User,
    /// The holder of the other end of this pipe.
    Pipe(OwnedFd),
    /// The decision was taken; the child has until the deadline.
    Decided,
}

struct Listener<'a> {
    child: Running,
    conversation: &'a mut dyn Conversation,
    deadline: Instant,
    stop_source: StopSource,
    shutdown: Shutdown,
    /// When it was asked to end.
    asked: Option<Instant>,
    was_killed: bool,
    stopped: Option<Ended>,
    lingering: bool,
    /// The child of a holder was told that the user wishes it to stop what it does.
    notified: bool,
    line: Vec<u8>,
    unsent: Vec<u8>,
    stdout: Capture,
    stderr: Capture,
}

impl<'a> Listener<'a> {
    fn new(child: Running, deadline: Instant, conversation: &'a mut dyn Conversation) -> Self {
        let unsent = conversation.opening();
        Listener {
            child,
            conversation,
            deadline,
            stop_source: StopSource::User,
            shutdown: Shutdown::default(),
            asked: None,
            was_killed: false,
            stopped: None,
            lingering: false,
            notified: false,
            line: Vec::new(),
            unsent,
            stdout: Capture::default(),
            stderr: Capture::default(),
        }
    }

    /// Listens until the process has ended; the reason if it was ended by us.
    fn listen(&mut self) -> Option<Ended> {
        loop {
            self.unsent
                .extend(self.conversation.waiting().into_iter().flatten());
            self.send();
            if let Some(reason) = self.overdue() {
                // SAFETY: kill only sends a signal, to the group of a child we have not reaped.
                unsafe { libc::kill(-self.child.pid, libc::SIGKILL) };
                self.was_killed = true;
                self.wait(Duration::from_secs(10));
                return Some(reason);
            }
            let left = self.deadline.saturating_duration_since(Instant::now());
            // Rounded up to a whole millisecond, so that the last wait is not a busy loop.
            if self.wait(left.min(PULSE) + Duration::from_millis(1)) {
                return self.stopped;
            }
        }
    }

    /// Whether its time is up, and why. A child that can be asked is asked first.
    fn overdue(&mut self) -> Option<Ended> {
        let grace = match &self.stop_source {
            StopSource::User if interrupted() => match self.conversation.stopping() {
                None => return Some(Ended::Interrupted),
                Some((words, grace)) => {
                    self.unsent.extend(words);
                    Some(grace)
                }
            },
            StopSource::Pipe(pipe) if is_closed(pipe) => {
                // SAFETY: kill only sends a signal, to the group of a child we have not reaped.
                unsafe { libc::kill(-self.child.pid, self.shutdown.signal) };
                self.asked = Some(Instant::now());
                Some(self.shutdown.grace)
            }
            // Its holder decides what follows; the child only has to bring its answer to an end.
            StopSource::Pipe(_) if interrupted() && !self.notified => {
                self.notified = true;
                let words = self.conversation.stopping();
                self.unsent
                    .extend(words.into_iter().flat_map(|(words, _)| words));
                self.send();
                None
            }
            _ => None,
        };
        if let Some(grace) = grace {
            self.stop_source = StopSource::Decided;
            self.stopped = Some(Ended::Interrupted);
            self.deadline = Instant::now() + grace;
            self.send();
        }
        let late = Instant::now() >= self.deadline;
        late.then_some(match (self.stopped, self.lingering) {
            (Some(reason), _) => reason,
            (None, true) => Ended::Lingered,
            (None, false) => Ended::Timeout,
        })
    }

    /// Waits for something to read and reads it; whether the process has ended.
    fn wait(&mut self, longest: Duration) -> bool {
        let writing = self
            .child
            .write
            .as_ref()
            .filter(|_| !self.unsent.is_empty());
        let mut polled = [
            entry(Some(&self.child.pidfd), libc::POLLIN),
            entry(self.child.stdout.as_ref(), libc::POLLIN),
            entry(self.child.stderr.as_ref(), libc::POLLIN),
            entry(self.child.read.as_ref(), libc::POLLIN),
            entry(writing, libc::POLLOUT),
            entry(self.stop_source.pipe(), libc::POLLIN),
        ];
        // SAFETY: the array outlives the call and its length is given.
        let ready = unsafe {
            libc::poll(
                polled.as_mut_ptr(),
                polled.len() as _,
                longest.as_millis() as i32,
            )
        };
        if ready <= 0 {
            return false;
        }
        let mut any_output = false;
        for (at, polled) in polled[1..=3].iter().enumerate() {
            if polled.revents != 0 {
                any_output |= self.read_stream(at);
            }
        }
        polled[0].revents != 0 && !any_output
    }

    /// Reads what there is on stdout (0), stderr (1) or the line (2); whether there was anything.
    fn read_stream(&mut self, which: usize) -> bool {
        let mut buffer = [0u8; 16 * 1024];
        let stream = match which {
            0 => &mut self.child.stdout,
            1 => &mut self.child.stderr,
            _ => &mut self.child.read,
        };
        let Some(fd) = stream else { return false };
        // SAFETY: the buffer is writable for its whole length.
        let count = unsafe { libc::read(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
        if count == 0 {
            // Closed: a closed stream left in the poll would wake us up for ever.
            *stream = None;
        }
        let Ok(count @ 1..) = usize::try_from(count) else {
            return false;
        };
        let bytes = &buffer[..count];
        match which {
            0 => {
                self.conversation.wrote(Stream::Stdout, bytes);
                self.stdout.push(bytes);
            }
            1 => {
                self.conversation.wrote(Stream::Stderr, bytes);
                self.stderr.push(bytes);
            }
            _ => self.take(bytes),
        }
        true
    }

    /// Cuts what came over the line into lines and hands them on.
    fn take(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte != b'\n' {
                self.line.push(byte);
                continue;
            }
            let line = std::mem::take(&mut self.line);
            match self.conversation.received(&line) {
                Next::Wait => {}
                Next::Send(bytes) => self.unsent.extend(bytes),
                Next::Linger(patience) => {
                    self.lingering = true;
                    self.deadline = self.deadline.min(Instant::now() + patience);
                }
            }
        }
    }

    /// Writes what is waiting to be sent, as far as the pipe takes it.
    fn send(&mut self) {
        let Some(fd) = self
            .child
            .write
            .as_ref()
            .filter(|_| !self.unsent.is_empty())
        else {
            return;
        };
        let mut pipe = std::fs::File::from(match fd.try_clone() {
            Ok(fd) => fd,
            Err(_) => return,
        });
        match pipe.write(&self.unsent) {
            Ok(count) => drop(self.unsent.drain(..count)),
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            // The child closed its end: it will tell by its exit status why.
            Err(_) => self.unsent.clear(),
        }
    }

    /// Reads what the ended process left in the pipes. Its leftover children may keep them open,
    /// so the end is "nothing there now", not "closed".
    fn drain(&mut self) {
        for which in 0..3 {
            while self.read_stream(which) {}
        }
        if !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            self.conversation.received(&line);
        }
    }
}

impl StopSource {
    fn pipe(&self) -> Option<&OwnedFd> {
        match self {
            StopSource::Pipe(pipe) => Some(pipe),
            StopSource::User | StopSource::Decided => None,
        }
    }
}

/// Whether nobody holds the other end of a pipe any more.
fn is_closed(pipe: &OwnedFd) -> bool {
    let mut polled = entry(Some(pipe), libc::POLLIN);
    // SAFETY: the entry outlives the call, and there is one.
    let ready = unsafe { libc::poll(&mut polled, 1, 0) };
    ready > 0 && polled.revents & libc::POLLHUP != 0
}

/// A place in the poll; without descriptor the kernel skips it.
fn entry(fd: Option<&OwnedFd>, events: i16) -> libc::pollfd {
    libc::pollfd {
        fd: fd.map_or(-1, AsRawFd::as_raw_fd),
        events,
        revents: 0,
    }
}

/// Waits for the process and takes its status and resource usage.
pub(super) fn reap(pid: i32) -> io::Result<(i32, Usage)> {
    let mut status = 0;
    // SAFETY: both pointers are valid for the call; rusage is plain data.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        while libc::wait4(pid, &mut status, 0, &mut usage) < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        usage
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    Ok((
        status,
        Usage {
            user_ns: ns(usage.ru_utime),
            system_ns: ns(usage.ru_stime),
            max_rss_bytes: usage.ru_maxrss as u64 * 1024,
            involuntary_switches: usage.ru_nivcsw as u64,
        },
    ))
}

pub(super) fn from_status(status: i32) -> Ended {
    if libc::WIFSIGNALED(status) {
        Ended::Signal(libc::WTERMSIG(status))
    } else {
        Ended::Exit(libc::WEXITSTATUS(status))
    }
}

/// A running child and our ends of its streams.
pub(super) struct Running {
    /// Process id, which is also the number of its process group.
    pub pid: i32,
    /// Becomes readable when the process ends.
    pub pidfd: OwnedFd,
    /// Our end of its stdout, until it is closed.
    pub stdout: Option<OwnedFd>,
    /// Our end of its stderr, until it is closed.
    pub stderr: Option<OwnedFd>,
    /// Where its private line is read.
    pub read: Option<OwnedFd>,
    /// Where its private line is written.
    pub write: Option<OwnedFd>,
}

/// Starts the child.
pub(super) fn start(spec: &Spec) -> io::Result<Running> {
    let Ends {
        read,
        write,
        child,
        environment,
    } = spec.channel.open()?;
    let (stdout, stdout_child) = channel::pipe()?;
    let (stderr, stderr_child) = channel::pipe()?;
    channel::set_nonblocking(stdout.as_raw_fd())?;
    channel::set_nonblocking(stderr.as_raw_fd())?;

    let mut command = Command::new(&spec.program);
    command
        .args(&spec.arguments)
        .stdin(Stdio::null())
        .process_group(0);
    command.stdout(stdout_child).stderr(stderr_child);
    for name in &spec.unset {
        command.env_remove(name);
    }
    command.envs(spec.environment.iter().map(|(name, value)| (name, value)));
    command.envs(environment);
    if let Some(folder) = &spec.directory {
        command.current_dir(folder);
    }
    let pairs = clear_of_targets(child)?;
    let moves: Vec<(RawFd, RawFd)> = pairs.iter().map(|(fd, to)| (fd.as_raw_fd(), *to)).collect();
    let mask = spec.pin.as_ref().map(crate::CpuSet::mask);
    // SAFETY: the closure runs between fork and exec and calls only async-signal-safe functions;
    // all it uses was allocated before.
    unsafe {
        command.pre_exec(move || prepare(&moves, mask.as_ref()));
    }
    let pid = process_tree::spawn(&mut command)?.id() as i32;
    // The command still holds the child's ends of the standard streams; `pairs` the others.
    drop(command);
    drop(pairs);
    Ok(Running {
        pid,
        pidfd: pidfd_open(pid)?,
        stdout: Some(stdout),
        stderr: Some(stderr),
        read,
        write,
    })
}

/// Moves descriptors away from the numbers that the child's end will get, lest one overwrite
/// another while they are put in place.
fn clear_of_targets(child: Vec<(OwnedFd, RawFd)>) -> io::Result<Vec<(OwnedFd, RawFd)>> {
    child
        .into_iter()
        .map(|(fd, target)| {
            // SAFETY: F_DUPFD_CLOEXEC makes a new descriptor, which we own from then on.
            let high = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 10) };
            if high < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: `high` was just made and belongs to nobody else.
            Ok((unsafe { OwnedFd::from_raw_fd(high) }, target))
        })
        .collect()
}

/// Runs in the child before exec.
fn prepare(moves: &[(RawFd, RawFd)], mask: Option<&libc::cpu_set_t>) -> io::Result<()> {
    // SAFETY: plain system calls on descriptors that are valid in this process.
    unsafe {
        for &(from, to) in moves {
            if libc::dup2(from, to) < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        // If we are killed without a chance to clean up, the kernel ends the child for us.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if let Some(mask) = mask
            && libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), mask) != 0
        {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// A descriptor that becomes readable when the process ends (Linux 5.3 and newer).
pub(super) fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open returns a new descriptor or -1 and touches no memory.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
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
