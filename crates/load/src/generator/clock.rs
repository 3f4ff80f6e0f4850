//! Time since the start of the load.

use rustix::time::{ClockId, Timespec, clock_gettime};
use std::time::Instant;

/// No time: for moments that have not come.
pub(super) const NEVER: u64 = u64::MAX;

const NS_PER_S: u64 = 1_000_000_000;

/// Nanoseconds since the start of the load, which all threads share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    start: Instant,
    /// The same moment on the monotonic clock of the operating system.
    system_start_ns: u64,
}

impl Clock {
    /// Begins now.
    pub fn start() -> Clock {
        Clock {
            start: Instant::now(),
            system_start_ns: system_ns(),
        }
    }

    /// Now. The monotonic clock costs no system call (vDSO).
    pub fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// A time of the load on the monotonic clock of the operating system.
    pub fn system_time(&self, at_ns: u64) -> Timespec {
        let ns = self.system_start_ns.saturating_add(at_ns);
        Timespec {
            tv_sec: (ns / NS_PER_S) as i64,
            tv_nsec: (ns % NS_PER_S) as i64,
        }
    }
}

fn system_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * NS_PER_S + now.tv_nsec as u64
}
