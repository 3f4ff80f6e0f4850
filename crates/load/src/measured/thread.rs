//! What a thread of the generator says of itself: whether it was the load that was measured, or the
//! generator.

use serde::{Deserialize, Serialize};

/// A thread that is busy for more than this share of the time is the bottleneck.
const MOST_BUSY: f64 = 0.9;

/// The work of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ThreadReport {
    /// Time that it ran, in nanoseconds.
    pub elapsed_ns: u64,
    /// Processor time in user mode and in the kernel, in nanoseconds.
    pub cpu_ns: u64,
    /// Times that it was taken off its processor while it had work to do.
    pub involuntary_switches: u64,
    /// Rounds of its loop.
    pub loops: u64,
    /// System calls made: waits, sends, receives, and those of making connections. With HTTP/3 a
    /// lower bound: calls of the sockets, and one wait for each round.
    pub system_calls: u64,
    /// Time slept so that several answers could be read at once, in nanoseconds.
    pub batched_ns: u64,
    /// The longest such sleep: time stamps of answers may be late by it.
    pub longest_batch_ns: u64,
    /// Most requests on one connection.
    pub most_requests: u64,
    /// Fewest requests on one connection that was not cut short by the end.
    pub fewest_requests: u64,
}

impl ThreadReport {
    /// Share of the time that it was busy.
    pub fn busy(&self) -> f64 {
        match self.elapsed_ns {
            0 => 0.0,
            elapsed => self.cpu_ns as f64 / elapsed as f64,
        }
    }

    /// Whether it was so busy that it may have been what was measured.
    pub fn is_bottleneck(&self) -> bool {
        self.busy() > MOST_BUSY
    }
}
