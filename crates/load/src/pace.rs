//! When the next request is due.
//!
//! A pace is data: closed (a number of clients, each of which waits for its answer) or open (a
//! schedule that does not care about answers). Nothing here sleeps or reads a clock. Start reading
//! at [`Schedule`], the arithmetic of the open model, then [`Share`], one thread's part of it.

mod closed;
mod schedule;
mod share;
mod stage;

pub use closed::{Closed, Think, Thinker};
pub use schedule::{Schedule, Spacing};
pub use share::{Due, Share, part_of};
pub use stage::{FOREVER_NS, PaceError, Rate, Stage};

/// How requests are paced.
#[derive(Debug, Clone, PartialEq)]
pub enum Pace {
    /// Each client sends its next request when it has its answer. Only service time has a meaning.
    Closed(Closed),
    /// Requests are sent when the schedule says, whatever the server does.
    Open(Schedule),
}

/// When a load ends. The condition that is met first counts; without any it goes on until stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stop {
    /// Requests in all, over every thread.
    pub after_requests: Option<u64>,
    /// Nanoseconds from the start; a request due at this time or later is not sent.
    pub after_ns: Option<u64>,
}

impl Stop {
    /// Whether request `index` (from 0), due `at_ns` after the start, is still to be sent.
    pub fn admits(&self, index: u64, at_ns: u64) -> bool {
        self.after_requests.is_none_or(|count| index < count)
            && self.after_ns.is_none_or(|end_ns| at_ns < end_ns)
    }
}
