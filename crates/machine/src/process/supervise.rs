//! Runs one child from start to end. Sets up its descriptors, its process group and the signal that
//! kills it if this process dies. Then reads its output and messages, and decides when to end it.
//! Start at [`run_child`].

use super::scheduling::{disable_address_randomization, reap_child};
use super::spec::{self, ChannelEnds, ChildConversation, NextStep};
use super::{
    CapturedStream, OutputStream, ProcessEnd, ProcessOutcome, ProcessSpec, ShutdownOutcome,
    ShutdownPolicy, is_interrupt_requested, process_tree, tree_of,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, dup2, fcntl_dupfd_cloexec, read, write};
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open,
    set_parent_process_death_signal, setsid,
};
use rustix::thread;
use speedwell_model::ResourceUsage;
use speedwell_model::clock::WaitClock;
use std::ffi::OsStr;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Polling interval while nothing happens. It is short enough to react to Ctrl-C, and long enough
/// not to disturb measurements.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Starts the process that `spec` describes, and exchanges messages with it. Returns when the
/// process and all processes that it started are gone.
///
/// # Errors
/// Fails if the program could not be started or waited for. Everything else is part of the
/// [`ProcessOutcome`].
pub fn run_child(
    spec: &ProcessSpec,
    conversation: &mut dyn ChildConversation,
) -> io::Result<ProcessOutcome> {
    run_until(spec, conversation, None, |_| ())
}

/// Same as [`run_child`], but passes the pid to `started`. If `end` is given, it is one end of a
/// pipe, and interrupts do not end the child. Instead, closing the other end of the pipe asks the
/// child to exit, and a child that does not exit in time is killed.
pub(super) fn run_until(
    spec: &ProcessSpec,
    conversation: &mut dyn ChildConversation,
    end: Option<OwnedFd>,
    started: impl FnOnce(i32),
) -> io::Result<ProcessOutcome> {
    let started_unix_ms = unix_time_ms();
    let begin = Instant::now();
    let child = start_child(spec)?;
    let group = child.pid;
    started(group.as_raw_pid());
    let mut listener = ChildListener::new(child, spec, conversation);
    let is_held = end.is_some();
    listener.stop_source = end.map_or(StopSource::User, StopSource::Pipe);
    let forced_end = listener.listen();
    let wall_ns = begin.elapsed().as_nanos() as u64;
    // The migrations are read before the process is reaped, because reaping removes the process
    // from /proc.
    let migrations = process_tree::migrations_of(group);
    let (status, usage) = reap_child(group)?;
    process_tree::unregister(group);
    let own_end = ProcessEnd::from(status);
    let shutdown = listener.end_requested_at.map(|requested| ShutdownOutcome {
        took_ns: requested.elapsed().as_nanos() as u64,
        was_killed: listener.was_killed,
    });
    listener.read_remaining();
    // Scanning all processes takes time, which would distort runs of microseconds. So the tree is
    // read only if a pipe controls the child (`StopSource::Pipe`).
    let held_tree = if is_held { tree_of(group.as_raw_pid()) } else { Vec::new() };
    let strays = process_tree::kill_leftovers(group, &held_tree);
    let [stdout, stderr] = listener.captured;
    Ok(ProcessOutcome {
        ended: forced_end.unwrap_or(own_end),
        wall_ns,
        started_unix_ms,
        usage: ResourceUsage { migrations, ..usage },
        stdout,
        stderr,
        strays,
        shutdown,
    })
}

/// Milliseconds since the Unix epoch.
pub fn unix_time_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// Who decides that the child must end before its time limit.
enum StopSource {
    /// The user, by an interrupt.
    User,
    /// The holder of the other end of this pipe, by closing it.
    Pipe(OwnedFd),
    /// No one, because we have already asked the child to end: it has time until the deadline.
    Decided,
}

struct ChildListener<'a> {
    child: RunningChild,
    conversation: &'a mut dyn ChildConversation,
    clock: WaitClock,
    /// Time of `clock` at which the child is killed.
    deadline: Instant,
    stop_source: StopSource,
    shutdown: ShutdownPolicy,
    /// When the shutdown was requested, in real time.
    end_requested_at: Option<Instant>,
    was_killed: bool,
    stop_reason: Option<ProcessEnd>,
    is_lingering: bool,
    /// Whether a cancel request was sent to a child that a pipe controls (`StopSource::Pipe`).
    was_notified: bool,
    partial_line: Vec<u8>,
    unsent: Vec<u8>,
    /// What the child wrote to stdout and stderr.
    captured: [CapturedStream; 2],
}

impl<'a> ChildListener<'a> {
    fn new(
        child: RunningChild,
        spec: &ProcessSpec,
        conversation: &'a mut dyn ChildConversation,
    ) -> Self {
        let unsent = conversation.opening_bytes();
        ChildListener {
            child,
            conversation,
            clock: spec.clock,
            deadline: spec.clock.now() + spec.limit,
            stop_source: StopSource::User,
            shutdown: spec.shutdown,
            end_requested_at: None,
            was_killed: false,
            stop_reason: None,
            is_lingering: false,
            was_notified: false,
            partial_line: Vec::new(),
            unsent,
            captured: Default::default(),
        }
    }

    /// Listens until the process has ended. Returns the reason if we ended it.
    fn listen(&mut self) -> Option<ProcessEnd> {
        loop {
            self.unsent.extend(self.conversation.overdue_bytes().into_iter().flatten());
            self.send_pending();
            if let Some(reason) = self.check_overdue() {
                let _ = kill_process_group(self.child.pid, Signal::KILL);
                self.was_killed = true;
                self.wait_for_events(Duration::from_secs(10));
                return Some(reason);
            }
            let remaining = self.clock.time_until(self.deadline);
            if self.wait_for_events(self.clock.max_wait(remaining.min(POLL_INTERVAL))) {
                return self.stop_reason;
            }
        }
    }

    /// Returns why the child must be killed, if its time is up. A child that supports shutdown
    /// requests first gets a request and a new deadline.
    fn check_overdue(&mut self) -> Option<ProcessEnd> {
        let grace = match &self.stop_source {
            StopSource::User if is_interrupt_requested() => {
                match self.conversation.stop_request() {
                    None => return Some(ProcessEnd::Interrupted),
                    Some((request, grace)) => {
                        self.unsent.extend(request);
                        Some(grace)
                    }
                }
            }
            StopSource::Pipe(pipe) if is_closed(pipe) => {
                let _ = kill_process_group(self.child.pid, self.shutdown.signal);
                self.end_requested_at = Some(Instant::now());
                Some(self.shutdown.grace)
            }
            // The holder of the pipe decides what happens next. The child only has to finish its
            // current response.
            StopSource::Pipe(_) if is_interrupt_requested() && !self.was_notified => {
                self.was_notified = true;
                let request = self.conversation.stop_request();
                self.unsent.extend(request.into_iter().flat_map(|(request, _)| request));
                self.send_pending();
                None
            }
            _ => None,
        };
        if let Some(grace) = grace {
            self.stop_source = StopSource::Decided;
            self.stop_reason = Some(ProcessEnd::Interrupted);
            self.deadline = self.clock.now() + grace;
            self.send_pending();
        }
        let is_overdue = self.clock.now() >= self.deadline;
        is_overdue.then_some(match (self.stop_reason, self.is_lingering) {
            (Some(reason), _) => reason,
            (None, true) => ProcessEnd::Lingered,
            (None, false) => ProcessEnd::Timeout,
        })
    }

    /// Waits for something to read and reads it. Returns whether the process has ended.
    fn wait_for_events(&mut self, max_wait: Duration) -> bool {
        let writing = self.child.write.as_ref().filter(|_| !self.unsent.is_empty());
        let stop_pipe = match &self.stop_source {
            StopSource::Pipe(pipe) => Some(pipe),
            StopSource::User | StopSource::Decided => None,
        };
        let watched = [
            (Some(&self.child.pidfd), PollFlags::IN),
            (self.child.streams[0].as_ref(), PollFlags::IN),
            (self.child.streams[1].as_ref(), PollFlags::IN),
            (self.child.streams[2].as_ref(), PollFlags::IN),
            (writing, PollFlags::OUT),
            (stop_pipe, PollFlags::IN),
        ];
        let open =
            watched.iter().filter_map(|(fd, flags)| Some(PollFd::new(*fd.as_ref()?, *flags)));
        let mut polled: Vec<PollFd<'_>> = open.collect();
        if !matches!(poll(&mut polled, Timespec::try_from(max_wait).ok().as_ref()), Ok(1..)) {
            return false;
        }
        let mut readiness = polled.iter().map(|entry| !entry.revents().is_empty());
        let ready = watched.map(|(fd, _)| fd.is_some() && readiness.next() == Some(true));
        let mut any_output = false;
        for (stream, ready) in ready[1..=3].iter().enumerate() {
            if *ready {
                any_output |= self.read_stream(stream);
            }
        }
        ready[0] && !any_output
    }

    /// Reads available data from stdout (0), stderr (1) or the channel (2). Returns whether there
    /// was any.
    fn read_stream(&mut self, stream_index: usize) -> bool {
        let mut buffer = [0u8; 16 * 1024];
        let Some(fd) = &self.child.streams[stream_index] else { return false };
        let count = match read(fd, &mut buffer[..]) {
            Ok(0) => {
                // The stream is closed. Polling it again would always return immediately.
                self.child.streams[stream_index] = None;
                return false;
            }
            Ok(count) => count,
            Err(_) => return false,
        };
        let bytes = &buffer[..count];
        match [OutputStream::Stdout, OutputStream::Stderr].get(stream_index) {
            Some(stream) => {
                self.conversation.observe_output(*stream, bytes);
                self.captured[stream_index].push(bytes);
            }
            None => self.handle_channel_bytes(bytes),
        }
        true
    }

    /// Splits channel data into lines and handles each line.
    fn handle_channel_bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte != b'\n' {
                self.partial_line.push(byte);
                continue;
            }
            let line = std::mem::take(&mut self.partial_line);
            match self.conversation.handle_line(&line) {
                NextStep::Wait => {}
                NextStep::Send(bytes) => self.unsent.extend(bytes),
                NextStep::Linger(grace) => {
                    self.is_lingering = true;
                    self.deadline = self.deadline.min(self.clock.now() + grace);
                }
            }
        }
    }

    /// Writes as many pending bytes as the pipe accepts.
    fn send_pending(&mut self) {
        let Some(fd) = self.child.write.as_ref().filter(|_| !self.unsent.is_empty()) else {
            return;
        };
        match write(fd, &self.unsent) {
            Ok(count) => drop(self.unsent.drain(..count)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            // The child closed its end. Its exit status will explain why.
            Err(_) => self.unsent.clear(),
        }
    }

    /// Reads what the ended process left in the pipes. Surviving children may keep a pipe open, so
    /// reading stops when no data is available.
    fn read_remaining(&mut self) {
        for stream_index in 0..3 {
            while self.read_stream(stream_index) {}
        }
        if !self.partial_line.is_empty() {
            let line = std::mem::take(&mut self.partial_line);
            self.conversation.handle_line(&line);
        }
    }
}

/// Whether the other end of a pipe is closed.
fn is_closed(pipe: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(pipe, PollFlags::IN)];
    let no_wait = Timespec::default();
    poll(&mut polled, Some(&no_wait)).is_ok() && polled[0].revents().contains(PollFlags::HUP)
}

/// A running child and our ends of its streams.
pub(super) struct RunningChild {
    /// Process id, which is also the id of its process group.
    pub pid: Pid,
    /// Becomes readable when the process ends.
    pub pidfd: OwnedFd,
    /// Our read ends of the child's stdout, its stderr and the private channel, until they are closed.
    pub streams: [Option<OwnedFd>; 3],
    /// Our write end of the private channel.
    pub write: Option<OwnedFd>,
}

pub(super) fn start_child(spec: &ProcessSpec) -> io::Result<RunningChild> {
    let ChannelEnds { read, write, child, environment } = spec.channel.open()?;
    let (stdout, stdout_child) = spec::open_pipe()?;
    let (stderr, stderr_child) = spec::open_pipe()?;
    spec::set_nonblocking(&stdout)?;
    spec::set_nonblocking(&stderr)?;

    let mut command = Command::new(&spec.program);
    command.args(&spec.arguments).stdin(Stdio::null()).process_group(0);
    command.stdout(stdout_child).stderr(stderr_child);
    if spec.is_fixed {
        command.env_clear();
    }
    for name in &spec.unset {
        command.env_remove(name);
    }
    command.envs(spec.environment.iter().map(|(name, value)| (name, value)));
    command.envs(environment);
    if let Some(folder) = &spec.directory {
        command.current_dir(folder);
    }
    let moves = move_above_targets(child)?;
    let is_fixed = spec.is_fixed;
    let mask = spec.pin.as_ref().map(crate::process::CpuSet::to_mask);
    // SAFETY: the closure runs between fork and exec and calls only async-signal-safe functions;
    // everything it uses was allocated before.
    unsafe {
        command.pre_exec(move || {
            if is_fixed {
                disable_address_randomization();
            }
            prepare_child(&moves, mask.as_ref())
        });
    }
    let pid = Pid::from_child(&process_tree::spawn_watched(&mut command)?);
    // The command still holds the child's ends of the streams, so dropping it closes them.
    drop(command);
    Ok(RunningChild {
        pid,
        pidfd: pidfd_open(pid, PidfdFlags::empty())?,
        streams: [Some(stdout), Some(stderr), read],
        write,
    })
}

/// Moves descriptors above the numbers that they will get in the child. Otherwise, assigning a
/// number could overwrite a descriptor that has not been assigned yet.
fn move_above_targets(child: Vec<(OwnedFd, RawFd)>) -> io::Result<Vec<(OwnedFd, RawFd)>> {
    let moved = child.into_iter().map(|(fd, target)| Ok((fcntl_dupfd_cloexec(fd, 10)?, target)));
    moved.collect()
}

/// Runs in the child before exec. Makes only system calls, and rustix makes them without the C
/// library.
fn prepare_child(moves: &[(OwnedFd, RawFd)], mask: Option<&thread::CpuSet>) -> io::Result<()> {
    for (from, to) in moves {
        // SAFETY: from now on, the number belongs to the new descriptor. If an old descriptor had
        // this number, nothing uses the old one between here and exec. ManuallyDrop keeps the
        // number open.
        let mut to = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(*to) });
        dup2(from, &mut to)?;
    }
    // If we are killed and cannot clean up, the kernel kills the child.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if let Some(mask) = mask {
        thread::sched_setaffinity(None, mask)?;
    }
    Ok(())
}

// Starts children without a time limit. `run_attached` starts a child that talks to the user, and
// `spawn_detached` a child that outlives us. An attached child has our streams and process group,
// so that the terminal treats it as part of this process. A detached child has its own session and
// another parent.

/// Starts `program` in `directory` and waits for it to exit. When the user interrupts us, the
/// program gets one SIGTERM. If it has not ended after `grace`, it is killed.
///
/// # Errors
/// Fails if the program could not be started or waited for.
pub fn run_attached<S: AsRef<OsStr>>(
    program: &Path,
    arguments: &[S],
    directory: &Path,
    grace: Duration,
) -> io::Result<ProcessEnd> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory);
    // SAFETY: one system call, which is async-signal-safe and touches no memory.
    unsafe {
        command.pre_exec(|| {
            // If we are killed and cannot clean up, the kernel kills the child.
            let _ = set_parent_process_death_signal(Some(Signal::KILL));
            Ok(())
        });
    }
    let mut child = process_tree::spawn_watched(&mut command)?;
    let ended = wait_with_grace(&mut child, grace);
    process_tree::unregister(Pid::from_child(&child));
    ended
}

fn wait_with_grace(child: &mut Child, grace: Duration) -> io::Result<ProcessEnd> {
    let pid = Pid::from_child(child);
    let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
    let mut terminated_at: Option<Instant> = None;
    loop {
        // The result is ignored, because the child is checked in any case.
        let _ = poll(
            &mut [PollFd::new(&pidfd, PollFlags::IN)],
            Timespec::try_from(POLL_INTERVAL).ok().as_ref(),
        );
        if let Some(status) = child.try_wait()? {
            return Ok(if is_interrupt_requested() {
                ProcessEnd::Interrupted
            } else {
                status.into()
            });
        }
        match terminated_at {
            // The signal is sent only once. The child would take a second signal for a second
            // interrupt, and end immediately.
            None if is_interrupt_requested() => {
                terminated_at = Some(Instant::now());
                let _ = kill_process(pid, Signal::TERM);
            }
            Some(instant) if instant.elapsed() >= grace => {
                let _ = kill_process(pid, Signal::KILL);
            }
            _ => {}
        }
    }
}

/// Starts a command in its own session, with another process as its parent. So neither our
/// terminal's signals nor our exit affect the command. Returns its stdout.
///
/// # Errors
/// Fails if the command could not be started.
pub fn spawn_detached(command: &mut Command) -> io::Result<ChildStdout> {
    command.stdout(Stdio::piped()).stderr(Stdio::null()).current_dir("/");
    // SAFETY: the calls are async-signal-safe and touch no memory; the intermediate process exits
    // immediately.
    unsafe {
        command.pre_exec(|| {
            setsid()?;
            match libc::fork() {
                0 => Ok(()),
                -1 => Err(io::Error::last_os_error()),
                _ => libc::_exit(0),
            }
        });
    }
    let mut intermediate = command.spawn()?;
    intermediate.wait()?;
    intermediate.stdout.take().ok_or_else(|| io::Error::other("the command has no output"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(2);

    fn run(script: &str) -> ProcessEnd {
        run_attached(Path::new("/bin/sh"), &["-c", script], Path::new("/"), GRACE).unwrap()
    }

    #[test]
    fn the_exit_status_or_signal_of_a_child_is_reported() {
        assert_eq!(run("exit 0"), ProcessEnd::Exit(0));
        assert_eq!(run("exit 7"), ProcessEnd::Exit(7));
        assert_eq!(run("kill -9 $$"), ProcessEnd::Signal(9));
    }

    #[test]
    fn a_program_that_cannot_be_started_is_an_error() {
        let error = run_attached::<&str>(Path::new("/nowhere/x"), &[], Path::new("/"), GRACE);
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_detached_child_has_a_session_of_its_own_and_another_parent() {
        use std::io::Read;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "cut -d ' ' -f 1,4,6 /proc/$$/stat"]);
        let mut text = String::new();
        let mut output = spawn_detached(&mut command).unwrap();
        output.read_to_string(&mut text).unwrap();
        let numbers: Vec<i32> = text.split(' ').map(|n| n.trim().parse().unwrap()).collect();
        let [pid, parent, session] = numbers[..] else { panic!("{text}") };
        let own_pid = std::process::id() as i32;
        assert!(parent != own_pid && session != pid && session != 0, "{text}");
    }
}
