//! Time since the start of the load.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// No time: for moments that have not come.
pub(super) const NEVER: u64 = u64::MAX;

const NS_PER_S: u64 = 1_000_000_000;

/// Nanoseconds since the start of the load, which all threads share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    /// The start on the monotonic clock of the system.
    start_ns: u64,
}

impl Clock {
    /// Begins now.
    pub fn start() -> Clock {
        Clock {
            start_ns: monotonic_ns(),
        }
    }

    /// Now. The monotonic clock costs no system call (vDSO).
    pub fn now_ns(&self) -> u64 {
        monotonic_ns() - self.start_ns
    }

    /// A time of the load on the monotonic clock of the system.
    pub fn on_system(&self, at_ns: u64) -> Timespec {
        let ns = self.start_ns.saturating_add(at_ns);
        Timespec {
            tv_sec: (ns / NS_PER_S) as i64,
            tv_nsec: (ns % NS_PER_S) as i64,
        }
    }
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * NS_PER_S + now.tv_nsec as u64
}
