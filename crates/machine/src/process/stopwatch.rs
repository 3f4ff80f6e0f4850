//! Times one short process from start to end, including its resource usage.
//!
//! Nothing reads the output of the process, and no other thread waits for the process. So the
//! result is the time that the operating system takes to start, execute and end the process. Start
//! at [`ProcessStopwatch::time_process`].

use crate::process::spec::ProcessEnd;
use crate::process::syscalls::reap_child;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::io;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Instant;

/// Cost of one execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedExecution {
    /// Time from just before the process started until we knew that it had ended, in nanoseconds.
    pub wall_ns: u64,
    /// Processor time in user mode, in nanoseconds.
    pub user_ns: u64,
    /// Processor time in kernel mode, in nanoseconds.
    pub system_ns: u64,
    /// Peak resident set.
    pub max_rss_bytes: u64,
    /// How the process ended.
    pub ended: ProcessEnd,
}

/// Times processes one after the other. Another thread may kill the running process and later ones.
#[derive(Debug, Default)]
pub struct ProcessStopwatch {
    running: AtomicI32,
    stopped: AtomicBool,
}

impl ProcessStopwatch {
    /// Executes `command` and waits for it to exit.
    ///
    /// # Errors
    /// Fails if the process cannot be started.
    pub fn time_process(&self, command: &mut Command) -> io::Result<TimedExecution> {
        let begin = Instant::now();
        let child = command.spawn()?;
        let pid = Pid::from_child(&child);
        self.running.store(pid.as_raw_pid(), Ordering::SeqCst);
        if self.is_stopped() {
            kill(pid);
        }
        // This waits for the pid, because the process may not lead a process group.
        let reaped = reap_child(pid);
        let wall_ns = begin.elapsed().as_nanos() as u64;
        self.running.store(0, Ordering::SeqCst);
        let (status, usage) = reaped?;
        Ok(TimedExecution {
            wall_ns,
            user_ns: usage.user_ns,
            system_ns: usage.system_ns,
            max_rss_bytes: usage.max_rss_bytes,
            ended: status.into(),
        })
    }

    /// Kills the running process, and every process that is started before
    /// [`ProcessStopwatch::resume`] is called.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        if let Some(pid) = Pid::from_raw(self.running.load(Ordering::SeqCst)) {
            kill(pid);
        }
    }

    /// Allows processes to be started again.
    pub fn resume(&self) {
        self.stopped.store(false, Ordering::SeqCst);
    }

    /// Whether [`ProcessStopwatch::stop`] was called after the last [`ProcessStopwatch::resume`].
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }
}

/// Kills the process and the group that the process leads. If the process has been reaped, that was
/// only a moment ago, and the kernel does not reuse a pid that quickly.
fn kill(pid: Pid) {
    let _ = kill_process_group(pid, Signal::KILL);
    let _ = kill_process(pid, Signal::KILL);
}
