//! Time since the start of the load.

use std::time::Instant;

/// No time: for moments that have not come.
pub(super) const NEVER: u64 = u64::MAX;

/// Nanoseconds since the start of the load, which all threads share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    start: Instant,
}

impl Clock {
    /// Begins now.
    pub fn start() -> Clock {
        Clock {
            start: Instant::now(),
        }
    }

    /// Now. The monotonic clock costs no system call (vDSO).
    pub fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}
