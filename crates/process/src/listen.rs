//! One child from start to end: the loop that listens, and the decisions it takes.

use super::channel::{Conversation, Next};
use super::start::{Running, start};
use super::{
    Capture, Ended, Farewell, Farewelled, Outcome, Spec, Stream, family_of, interrupted, stray,
};
use speedwell_model::Usage;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
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
    listener.farewell = spec.farewell;
    listener.leash = match end {
        Some(pipe) => Leash::Pipe(pipe),
        None => Leash::User,
    };
    let ended = listener.listen();
    let (status, usage) = reap(group)?;
    stray::forget(group);
    let wall_ns = begin.elapsed().as_nanos() as u64;
    let farewell = listener.asked.map(|asked| Farewelled {
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
    let strays = left.len() + stray::clear(group, &left);
    Ok(Outcome {
        ended: ended.unwrap_or_else(|| from_status(status)),
        wall_ns,
        started_unix_ms,
        usage,
        stdout: listener.stdout,
        stderr: listener.stderr,
        strays,
        farewell,
    })
}

/// Milliseconds since the Unix epoch.
pub fn unix_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as i64)
}

/// Who decides that the child has to end before its time limit.
enum Leash {
    /// The user.
    User,
    /// The holder of the other end of this pipe.
    Pipe(OwnedFd),
    /// The decision was taken; the child has until the deadline.
    Let,
}

struct Listener<'a> {
    child: Running,
    conversation: &'a mut dyn Conversation,
    deadline: Instant,
    leash: Leash,
    farewell: Farewell,
    /// When it was asked to end.
    asked: Option<Instant>,
    was_killed: bool,
    stopped: Option<Ended>,
    lingering: bool,
    /// The child of a holder was told that the user wishes it to stop what it does.
    told: bool,
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
            leash: Leash::User,
            farewell: Farewell::default(),
            asked: None,
            was_killed: false,
            stopped: None,
            lingering: false,
            told: false,
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
        let grace = match &self.leash {
            Leash::User if interrupted() => match self.conversation.stopping() {
                None => return Some(Ended::Interrupted),
                Some((words, grace)) => {
                    self.unsent.extend(words);
                    Some(grace)
                }
            },
            Leash::Pipe(pipe) if is_closed(pipe) => {
                // SAFETY: kill only sends a signal, to the group of a child we have not reaped.
                unsafe { libc::kill(-self.child.pid, self.farewell.signal) };
                self.asked = Some(Instant::now());
                Some(self.farewell.grace)
            }
            // Its holder decides what follows; the child only has to bring its answer to an end.
            Leash::Pipe(_) if interrupted() && !self.told => {
                self.told = true;
                let words = self.conversation.stopping();
                self.unsent
                    .extend(words.into_iter().flat_map(|(words, _)| words));
                self.send();
                None
            }
            _ => None,
        };
        if let Some(grace) = grace {
            self.leash = Leash::Let;
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
            entry(self.leash.pipe(), libc::POLLIN),
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

impl Leash {
    fn pipe(&self) -> Option<&OwnedFd> {
        match self {
            Leash::Pipe(pipe) => Some(pipe),
            Leash::User | Leash::Let => None,
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
