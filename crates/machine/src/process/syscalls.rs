//! Makes system calls that rustix lacks. They reap a child with its resource usage, disable address
//! randomization, read the processor time of another process, and set real-time priority.
//!
//! The unsafe calls of this folder are here, with three exceptions: time slices (`scheduling.rs`),
//! code between fork and exec (`supervise.rs`, `unsupervised.rs`), and the signal handler
//! (`interrupt.rs`).

use rustix::process::Pid;
use speedwell_model::ResourceUsage;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Waits for a child and returns its status and resource usage (wait4(2)).
pub fn reap_child(child: Pid) -> io::Result<(ExitStatus, ResourceUsage)> {
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
        ResourceUsage {
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

/// Disables address randomization for programs that this process executes from now on
/// (personality(2)). If a sandbox forbids this, the function has no effect.
pub fn disable_address_randomization() {
    // SAFETY: the call changes a number in the kernel and nothing in memory.
    unsafe { libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) };
}

/// Returns the processor time of one process, including its ended threads. The clock is far finer
/// than the ticks in /proc, which last 10 ms (clock_getcpuclockid(3)).
pub fn cpu_ns_of_process(pid: i32) -> Option<u64> {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both pointers are valid for their calls, which only write to them.
    let is_read = unsafe {
        libc::clock_getcpuclockid(pid, &mut clock) == 0
            && libc::clock_gettime(clock, &mut time) == 0
    };
    is_read.then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Scheduling policy of a thread (sched(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadScheduling {
    policy: libc::c_long,
    parameters: SchedulingParameters,
}

/// Argument of sched_setscheduler(2). In musl, this function and those that read the scheduling
/// only return ENOSYS, because POSIX defines them for processes but Linux implements them for
/// threads. So the system calls are made directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
struct SchedulingParameters {
    priority: libc::c_int,
}

/// In the system calls about scheduling, this number denotes the calling thread.
const CALLING_THREAD: libc::c_long = 0;

impl ThreadScheduling {
    /// Scheduling ahead of every process without real-time priority (`SCHED_FIFO`).
    pub fn real_time(priority: i32) -> ThreadScheduling {
        ThreadScheduling {
            policy: libc::SCHED_FIFO.into(),
            parameters: SchedulingParameters { priority },
        }
    }

    /// Returns the scheduling of the calling thread.
    pub fn current_scheduling() -> io::Result<ThreadScheduling> {
        let mut parameters = SchedulingParameters { priority: 0 };
        // SAFETY: the calls write to the given structure, which outlives them.
        let (policy, result) = unsafe {
            (
                libc::syscall(libc::SYS_sched_getscheduler, CALLING_THREAD),
                libc::syscall(libc::SYS_sched_getparam, CALLING_THREAD, &raw mut parameters),
            )
        };
        if policy < 0 || result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(ThreadScheduling { policy, parameters })
    }

    /// Applies the scheduling to the calling thread.
    pub fn apply(self) -> io::Result<()> {
        // SAFETY: the call reads the given structure, which outlives it.
        let result = unsafe {
            libc::syscall(
                libc::SYS_sched_setscheduler,
                CALLING_THREAD,
                self.policy,
                &raw const self.parameters,
            )
        };
        match result {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
