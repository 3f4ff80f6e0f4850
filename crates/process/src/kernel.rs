//! Calls of the kernel that rustix does not have: the end of a child with what it cost, the processor time of another
//! process, and real-time priority.
//!
//! The unsafe calls of this crate are here, besides what is done between fork and exec (`listen.rs`, `attached.rs`) and
//! in a signal handler (`interrupt.rs`).

use rustix::process::Pid;
use speedwell_model::Usage;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Waits for a child and takes its status and resource usage (wait4(2)).
pub fn reap(child: Pid) -> io::Result<(ExitStatus, Usage)> {
    let mut status = 0;
    // SAFETY: both pointers are valid for the call; rusage is plain data.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        while libc::wait4(child.as_raw_pid(), &mut status, 0, &mut usage) < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        usage
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    Ok((
        ExitStatus::from_raw(status),
        Usage {
            user_ns: ns(usage.ru_utime),
            system_ns: ns(usage.ru_stime),
            max_rss_bytes: usage.ru_maxrss as u64 * 1024,
            involuntary_switches: usage.ru_nivcsw as u64,
            voluntary_switches: Some(usage.ru_nvcsw as u64),
            minor_faults: Some(usage.ru_minflt as u64),
            major_faults: Some(usage.ru_majflt as u64),
            migrations: None,
        },
    ))
}

/// From now on, programs that this process executes lie at the same addresses every time (personality(2)). Where a
/// sandbox forbids it, they do not.
pub fn keep_addresses() {
    // SAFETY: the call changes a number of the kernel's, and nothing in memory.
    unsafe { libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) };
}

/// The processor time of one process, whose ended threads count, too. Its clock is far finer than the ticks in
/// /proc, which last 10 ms (clock_getcpuclockid(3)).
pub fn cpu_ns_of_process(pid: i32) -> Option<u64> {
    let mut clock = 0;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: both pointers are valid for their calls, which only write to them.
    let is_read = unsafe {
        libc::clock_getcpuclockid(pid, &mut clock) == 0
            && libc::clock_gettime(clock, &mut time) == 0
    };
    is_read.then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// How the kernel chooses when a thread runs (sched(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheduling {
    policy: libc::c_long,
    parameters: Parameters,
}

/// What the kernel takes (sched_setscheduler(2)). The calls are made directly: musl's functions of these names only
/// report that the system does not have them, because POSIX means processes and Linux means threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
struct Parameters {
    priority: libc::c_int,
}

/// The calling thread.
const THIS: libc::c_long = 0;

impl Scheduling {
    /// Before every process without real-time priority (`SCHED_FIFO`).
    pub fn real_time(priority: i32) -> Scheduling {
        Scheduling {
            policy: libc::SCHED_FIFO.into(),
            parameters: Parameters { priority },
        }
    }

    /// That of the calling thread.
    pub fn current() -> io::Result<Scheduling> {
        let mut parameters = Parameters { priority: 0 };
        // SAFETY: the calls write to the structure given, which outlives them.
        let (policy, read) = unsafe {
            (
                libc::syscall(libc::SYS_sched_getscheduler, THIS),
                libc::syscall(libc::SYS_sched_getparam, THIS, &raw mut parameters),
            )
        };
        if policy < 0 || read != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Scheduling { policy, parameters })
    }

    /// Makes it that of the calling thread.
    pub fn enter(self) -> io::Result<()> {
        // SAFETY: the call reads the structure given, which outlives it.
        let done = unsafe {
            libc::syscall(
                libc::SYS_sched_setscheduler,
                THIS,
                self.policy,
                &raw const self.parameters,
            )
        };
        match done {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
