//! Times one short process from start to end, including its resource usage.
//!
//! Nothing listens to the process and no thread waits beside it: the result is the time the
//! operating system takes to start, execute and end it. Start at [`Stopwatch::time`].

use crate::kernel::reap;
use crate::spec::Ended;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::io;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Instant;

/// Cost of one execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timed {
    /// From just before its start until its end was known, in nanoseconds.
    pub wall_ns: u64,
    /// Processor time in user mode, in nanoseconds.
    pub user_ns: u64,
    /// Processor time in kernel mode, in nanoseconds.
    pub system_ns: u64,
    /// Peak resident set.
    pub max_rss_bytes: u64,
    /// How it ended.
    pub ended: Ended,
}

/// Times processes one after the other. Another thread may kill the running one and all that would
/// follow.
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
        // Waits by pid: the process leads a group of its own only if the command says so.
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

    /// Kills the running process, and every one started later.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        if let Some(pid) = Pid::from_raw(self.running.load(Ordering::SeqCst)) {
            kill(pid);
        }
    }

    /// Allows processes to be started again.
    pub fn go_on(&self) {
        self.stopped.store(false, Ordering::SeqCst);
    }

    /// Whether [`Stopwatch::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }
}

/// Kills the process and the group it leads. Our child has not been reaped, or only just; its pid
/// cannot be reused that quickly.
fn kill(pid: Pid) {
    let _ = kill_process_group(pid, Signal::KILL);
    let _ = kill_process(pid, Signal::KILL);
}
