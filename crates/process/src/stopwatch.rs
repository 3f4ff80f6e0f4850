//! One short process, timed from its start to its end, with what it cost.
//!
//! Nothing listens to it and nobody waits beside it: what is measured is what the operating system takes to start,
//! execute and end it. Start at [`Stopwatch::time`].

use crate::kernel::reap;
use crate::spec::Ended;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::io;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Instant;

/// What one execution took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timed {
    /// From just before its start until its end was known, in nanoseconds.
    pub wall_ns: u64,
    /// Processor time in user mode.
    pub user_ns: u64,
    /// Processor time in kernel mode.
    pub system_ns: u64,
    /// Its largest resident set.
    pub max_rss_bytes: u64,
    /// How it ended.
    pub ended: Ended,
}

/// Times one process after the other; another thread may end the running one, and all that would follow.
#[derive(Debug, Default)]
pub struct Stopwatch {
    running: AtomicI32,
    stopped: AtomicBool,
}

impl Stopwatch {
    /// Executes `command` and waits for its end.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn time(&self, command: &mut Command) -> io::Result<Timed> {
        let begin = Instant::now();
        let child = command.spawn()?;
        let pid = Pid::from_child(&child);
        self.running.store(pid.as_raw_pid(), Ordering::SeqCst);
        if self.is_stopped() {
            kill(pid);
        }
        // The process is its own group's leader only if the command says so; it is waited for by number.
        let waited = reap(pid);
        let wall_ns = begin.elapsed().as_nanos() as u64;
        self.running.store(0, Ordering::SeqCst);
        let (status, usage) = waited?;
        Ok(Timed {
            wall_ns,
            user_ns: usage.user_ns,
            system_ns: usage.system_ns,
            max_rss_bytes: usage.max_rss_bytes,
            ended: status.into(),
        })
    }

    /// Ends the running process, and every one that is started later.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        if let Some(pid) = Pid::from_raw(self.running.load(Ordering::SeqCst)) {
            kill(pid);
        }
    }

    /// Processes may be started again.
    pub fn go_on(&self) {
        self.stopped.store(false, Ordering::SeqCst);
    }

    /// Whether [`Stopwatch::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }
}

/// Kills the process and the group that it leads. It is a child of ours that is not yet waited for or has just ended;
/// its number cannot have been given away within so short a time.
fn kill(pid: Pid) {
    let _ = kill_process_group(pid, Signal::KILL);
    let _ = kill_process(pid, Signal::KILL);
}
