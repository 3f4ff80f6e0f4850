//! Sets the CPU affinity (`--pin 0,2-4`), the time slice and the real-time priority of threads.
//!
//! Also makes the system calls that rustix lacks. Start at [`CpuSet`], [`TimeSlice`] and [`RealTimeGuard`].

use rustix::process::Pid;
use rustix::thread;
use serde::{Deserialize, Serialize};
use speedwell_model::ResourceUsage;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::str::FromStr;
use std::time::Duration;

/// Processors that a measured process may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuSet(Vec<usize>);

/// A string that is not a list of processors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot parse processor list '{0}': expected a list such as '0', '0-2' or '0,2-4'")]
pub struct CpuSetError(String);

/// Error: this thread may not use the processor `cpu`. It may use only the processors in `usable`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot use processor '{cpu}': expected one of '{}'", usable.ranges())]
pub struct UnusableCpu {
    cpu: usize,
    usable: CpuSet,
}

impl CpuSet {
    /// The processors in ascending order, without duplicates.
    pub fn cpus(&self) -> &[usize] {
        &self.0
    }

    /// Returns the processors that this thread may use.
    ///
    /// # Errors
    /// Fails if the system does not report the processors.
    pub fn usable_by_thread() -> io::Result<CpuSet> {
        let mask = thread::sched_getaffinity(None)?;
        let all_cpus = 0..thread::CpuSet::MAX_CPU;
        Ok(all_cpus.filter(|cpu| mask.is_set(*cpu)).collect())
    }

    /// Checks that this thread may use all processors of the set.
    ///
    /// # Errors
    /// Fails if this thread may not use one of the processors, and names the processor.
    pub fn check_usable(&self) -> Result<(), UnusableCpu> {
        let Ok(usable) = CpuSet::usable_by_thread() else {
            // The system does not report the usable processors. `bind_thread` then fails if the set
            // cannot be used.
            return Ok(());
        };
        let is_unusable = |cpu: &&usize| !usable.0.contains(cpu);
        self.0.iter().find(is_unusable).map_or(Ok(()), |&cpu| Err(UnusableCpu { cpu, usable }))
    }

    /// Binds this thread to the processors of the set, along with all threads and processes that
    /// the thread starts from now on.
    ///
    /// # Errors
    /// Fails if the system does not allow this.
    pub fn bind_thread(&self) -> io::Result<()> {
        Ok(thread::sched_setaffinity(None, &self.to_mask())?)
    }

    /// Formats the set as a list of ranges: `0-3,6`.
    pub(crate) fn ranges(&self) -> String {
        let ranges = self.0.chunk_by(|cpu, next| cpu + 1 == *next).map(|range| match range {
            [cpu] => cpu.to_string(),
            _ => format!("{}-{}", range[0], range[range.len() - 1]),
        });
        ranges.collect::<Vec<_>>().join(",")
    }

    /// Converts to the kernel's representation.
    pub(super) fn to_mask(&self) -> thread::CpuSet {
        let mut mask = thread::CpuSet::new();
        self.0.iter().for_each(|&cpu| mask.set(cpu));
        mask
    }
}

/// How long a thread may run before another thread waiting for the same processor is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeSlice(pub Duration);

/// First version of the kernel's `struct sched_attr`.
#[repr(C)]
#[derive(Default)]
struct SchedulingAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

impl TimeSlice {
    /// Applies the time slice to this thread, and to all threads and processes that the thread
    /// starts from now on.
    ///
    /// # Errors
    /// Fails if the kernel rejects the time slice. Linux before 6.12 does not support time
    /// slices and may silently ignore them.
    pub fn apply(self) -> io::Result<()> {
        let mut attributes = SchedulingAttributes::default();
        let size = size_of::<SchedulingAttributes>() as u32;
        // SAFETY: the kernel fills in at most `size` bytes of a plain struct.
        let read =
            unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
        check(read)?;
        attributes.size = size;
        attributes.runtime = self.0.as_nanos() as u64;
        // SAFETY: the kernel reads `size` bytes of the same struct.
        check(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) })
    }
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> CpuSet {
        let mut cpus: Vec<usize> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        CpuSet(cpus)
    }
}

impl FromStr for CpuSet {
    type Err = CpuSetError;

    fn from_str(text: &str) -> Result<CpuSet, CpuSetError> {
        let error = || CpuSetError(text.to_owned());
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: usize = first.parse().map_err(|_| error())?;
            let last: usize = last.parse().map_err(|_| error())?;
            if first > last || last >= thread::CpuSet::MAX_CPU {
                return Err(error());
            }
            cpus.extend(first..=last);
        }
        Ok(cpus.into_iter().collect())
    }
}

impl TryFrom<String> for CpuSet {
    type Error = CpuSetError;
    fn try_from(text: String) -> Result<CpuSet, CpuSetError> {
        text.parse()
    }
}

impl From<CpuSet> for String {
    fn from(set: CpuSet) -> String {
        let cpus: Vec<String> = set.0.iter().map(usize::to_string).collect();
        cpus.join(",")
    }
}

/// A real-time priority above ordinary processes, but below most kernel threads.
const REAL_TIME_PRIORITY: i32 = 10;

/// Gives the thread that created the guard real-time priority until the guard is dropped. The
/// thread, and threads that it starts, run ahead of every process without real-time priority
/// (`SCHED_FIFO`, sched(7)).
#[derive(Debug)]
pub struct RealTimeGuard {
    previous: ThreadScheduling,
}

impl RealTimeGuard {
    /// Raises the priority of the calling thread.
    ///
    /// # Errors
    /// Fails if the operating system does not permit a higher priority.
    pub fn raise_priority() -> io::Result<RealTimeGuard> {
        let previous = ThreadScheduling::current_scheduling()?;
        ThreadScheduling::real_time(REAL_TIME_PRIORITY).apply()?;
        Ok(RealTimeGuard { previous })
    }
}

impl Drop for RealTimeGuard {
    fn drop(&mut self) {
        // A thread may always lower its priority.
        let _ = self.previous.apply();
    }
}

// System calls that rustix lacks. The unsafe calls of this folder are in this file, with two
// exceptions: code between fork and exec (`supervise.rs`) and the signal handler (`interrupt.rs`).

/// Converts the result of a system call that returns 0 on success.
fn check(result: libc::c_long) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

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

/// Returns the processor time of one process, including its ended threads. The clock
/// (clock_getcpuclockid(3)) has a far higher resolution than /proc, which counts ticks of 10 ms.
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

/// Scheduling policy and priority of a thread (sched(7)).
///
/// In musl, the functions that read and set them only return ENOSYS, because POSIX defines them for
/// processes but Linux implements them for threads. This file therefore makes the system calls
/// directly. Their argument is a structure whose only field is the priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadScheduling {
    policy: libc::c_long,
    priority: libc::c_int,
}

/// In the system calls about scheduling, this number denotes the calling thread.
const CALLING_THREAD: libc::c_long = 0;

impl ThreadScheduling {
    /// Scheduling ahead of every process without real-time priority (`SCHED_FIFO`).
    pub fn real_time(priority: i32) -> ThreadScheduling {
        ThreadScheduling { policy: libc::SCHED_FIFO.into(), priority }
    }

    /// Returns the scheduling of the calling thread.
    pub fn current_scheduling() -> io::Result<ThreadScheduling> {
        let mut priority: libc::c_int = 0;
        // SAFETY: the calls write to the given number, which outlives them.
        let (policy, result) = unsafe {
            (
                libc::syscall(libc::SYS_sched_getscheduler, CALLING_THREAD),
                libc::syscall(libc::SYS_sched_getparam, CALLING_THREAD, &raw mut priority),
            )
        };
        if policy < 0 || result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(ThreadScheduling { policy, priority })
    }

    /// Applies the scheduling to the calling thread.
    pub fn apply(self) -> io::Result<()> {
        // SAFETY: the call reads the given number, which outlives it.
        let result = unsafe {
            libc::syscall(
                libc::SYS_sched_setscheduler,
                CALLING_THREAD,
                self.policy,
                &raw const self.priority,
            )
        };
        check(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_bound_to_some_of_the_processors_it_may_use() {
        let usable = CpuSet::usable_by_thread().unwrap();
        let last: CpuSet = usable.cpus().last().copied().into_iter().collect();
        let bound = std::thread::spawn(move || {
            last.bind_thread().unwrap();
            (CpuSet::usable_by_thread().unwrap(), last)
        });
        let (now, wanted) = bound.join().unwrap();
        assert_eq!(now, wanted);
        assert_eq!(CpuSet::usable_by_thread().unwrap(), usable, "other threads are not bound");
    }

    #[test]
    fn lists_and_ranges_are_read_and_words_refused() {
        assert_eq!("0,2-4,3".parse::<CpuSet>().unwrap().cpus(), [0, 2, 3, 4]);
        for invalid in ["", "a", "3-1", "1,", "-1", "99999"] {
            assert!(invalid.parse::<CpuSet>().is_err(), "{invalid}");
        }
    }

    #[test]
    fn the_priority_is_inherited_by_threads_and_given_back() {
        let before = ThreadScheduling::current_scheduling().unwrap();
        match RealTimeGuard::raise_priority() {
            Err(error) => eprintln!("skipped: no real-time priority here: {error}"),
            Ok(guard) => {
                assert_eq!(
                    ThreadScheduling::current_scheduling().unwrap(),
                    ThreadScheduling::real_time(REAL_TIME_PRIORITY)
                );
                let inherited =
                    std::thread::spawn(|| ThreadScheduling::current_scheduling().unwrap())
                        .join()
                        .unwrap();
                assert_eq!(inherited, ThreadScheduling::real_time(REAL_TIME_PRIORITY));
                drop(guard);
            }
        }
        assert_eq!(ThreadScheduling::current_scheduling().unwrap(), before);
    }
}
