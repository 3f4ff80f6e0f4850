//! The process itself: its gauges, and the resolution of its clock.

use std::ffi::c_long;
use std::fs;
use std::sync::LazyLock;
use std::time::Instant;

/// The origin of times, as the clock has no defined one.
static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// A time as a number.
pub fn clock_ns(time: Instant) -> u128 {
    time.saturating_duration_since(*BEGIN).as_nanos()
}

pub fn now_ns() -> u128 {
    clock_ns(Instant::now())
}

/// The processor time of this thread. Reading it is a system call of about 1 µs: it is read outside the wall-clock
/// measurement, or once per window.
pub fn cpu_now_ns() -> i64 {
    #[repr(C)]
    struct Time {
        seconds: c_long,
        nanoseconds: c_long,
    }
    unsafe extern "C" {
        fn clock_gettime(clock: i32, time: *mut Time) -> i32;
    }
    // Linux's number, from time.h.
    const CLOCK_THREAD_CPUTIME_ID: i32 = 3;
    let mut time = Time {
        seconds: 0,
        nanoseconds: 0,
    };
    // SAFETY: writes to `time`, which has the layout of a `timespec`.
    unsafe { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.seconds * 1_000_000_000 + time.nanoseconds
}

/// Keeps child processes of the code from inheriting these descriptors.
pub fn close_on_exec(commands: i32, events: i32) {
    unsafe extern "C" {
        fn fcntl(descriptor: i32, command: i32, ...) -> i32;
    }
    // Linux's numbers, from fcntl.h.
    const F_SETFD: i32 = 2;
    const FD_CLOEXEC: i32 = 1;
    let _ = *BEGIN;
    for descriptor in [commands, events] {
        // SAFETY: sets a flag of a descriptor.
        unsafe { fcntl(descriptor, F_SETFD, FD_CLOEXEC) };
    }
}

/// Returns the number of threads, and resident memory in bytes.
pub fn gauges() -> (u64, u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let number = |key: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let word = line.and_then(|line| line.split_whitespace().next());
        word.and_then(|word| word.parse().ok()).unwrap_or(0)
    };
    (number("Threads:"), number("VmRSS:") * 1024)
}

/// Returns the smallest observable step of the clock.
pub fn clock_step_ns() -> u128 {
    let mut smallest = u128::MAX;
    let mut before = Instant::now();
    for _ in 0..32 {
        let now = Instant::now();
        let step = now.duration_since(before).as_nanos();
        if step > 0 {
            smallest = smallest.min(step);
        }
        before = now;
    }
    if smallest == u128::MAX {
        0
    } else {
        smallest
    }
}
