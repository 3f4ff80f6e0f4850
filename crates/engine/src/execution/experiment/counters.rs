//! Reads hardware and kernel counters of a target while it is measured.

use super::RunReport;
use super::metrics::LoadCounters;
use rustix::io::read;
use speedwell_machine::environment::ActivityInterval;
use speedwell_model::assignment::RunAssignment;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Counters of a measurement in progress.
pub struct ActiveCounters<'a> {
    interval: ActivityInterval,
    instructions: Option<(&'a InstructionCounter, u64)>,
}

impl<'a> ActiveCounters<'a> {
    /// Starts counting for the target whose root process is `pid`.
    pub fn begin(pid: i32, counter: Option<&'a InstructionCounter>) -> ActiveCounters<'a> {
        let instructions = counter.and_then(|counter| Some((counter, counter.read()?)));
        ActiveCounters { instructions, interval: ActivityInterval::start(pid) }
    }

    pub fn end(self) -> LoadCounters {
        let spent = self.interval.finish();
        let instructions = self
            .instructions
            .and_then(|(counter, start_count)| Some(counter.read()?.saturating_sub(start_count)));
        LoadCounters { spent, instructions }
    }
}

/// `PERF_TYPE_HARDWARE`.
const HARDWARE: u32 = 0;
/// `PERF_COUNT_HW_INSTRUCTIONS`.
const INSTRUCTIONS: u64 = 1;

// Bits of `perf_event_attr`: disabled, inherit, exclude_kernel, exclude_hv, enable_on_exec.
const DISABLED: u64 = 1;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const ENABLE_ON_EXEC: u64 = 1 << 12;

/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: u64 = 1 << 3;

/// First version of `perf_event_attr`, which every kernel accepts (`PERF_ATTR_SIZE_VER0`).
#[repr(C)]
#[derive(Default)]
struct PerfEventAttributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// Opens an instruction counter if a metric needs one and the machine provides one.
pub fn open_if_wanted(
    assignment: &RunAssignment,
    report: &mut RunReport,
) -> Option<InstructionCounter> {
    let needs_counter = |name: &String| name.starts_with("instructions");
    if !assignment.also.iter().any(needs_counter) {
        return None;
    }
    InstructionCounter::open()
        .map_err(|error| {
            report.performed.notes.push(format!(
                "Instructions cannot be counted on this machine ({error}); processor time is \
                 reported instead."
            ));
        })
        .ok()
}

/// Counts instructions in user mode.
#[derive(Debug)]
pub struct InstructionCounter(OwnedFd);

impl InstructionCounter {
    /// Opens a counter for the processes that this thread will start.
    ///
    /// # Errors
    /// Fails if the machine has no such counter, or access is denied.
    pub fn open() -> io::Result<InstructionCounter> {
        InstructionCounter::open_kind(HARDWARE, INSTRUCTIONS)
    }

    fn open_kind(kind: u32, config: u64) -> io::Result<InstructionCounter> {
        let attributes = PerfEventAttributes {
            kind,
            size: size_of::<PerfEventAttributes>() as u32,
            config,
            flags: DISABLED | INHERIT | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | ENABLE_ON_EXEC,
            ..PerfEventAttributes::default()
        };
        let flags = CLOSE_ON_EXEC;
        // SAFETY: the structure outlives the call, which only reads it. The arguments 0 and -1
        // stand for this thread on any processor.
        let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &attributes, 0, -1, -1, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just created and has no other owner.
        Ok(InstructionCounter(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
    }

    /// Returns the number of instructions so far.
    pub fn read(&self) -> Option<u64> {
        let mut count = [0u8; 8];
        (read(&self.0, &mut count) == Ok(8)).then(|| u64::from_ne_bytes(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// `PERF_TYPE_SOFTWARE`.
    const SOFTWARE: u32 = 1;
    /// `PERF_COUNT_SW_TASK_CLOCK`: a counter of nanoseconds that every machine has.
    const TASK_CLOCK: u64 = 1;

    #[test]
    fn children_are_counted_and_this_thread_is_not() {
        let Ok(counter) = InstructionCounter::open_kind(SOFTWARE, TASK_CLOCK) else {
            eprintln!("skipped: perf events are not permitted here");
            return;
        };
        let before = counter.read().unwrap();
        assert_eq!(before, 0, "nothing is counted before a program starts");
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        let status = Command::new("/bin/sh").args(["-c", script]).status();
        assert!(status.unwrap().success());
        let once = counter.read().unwrap();
        assert!(once > 1_000_000, "{once} ns");
        assert_eq!(counter.read(), Some(once), "this thread itself is not counted");
    }
}
