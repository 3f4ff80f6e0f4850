//! Whether to wait a moment so that several answers are read at once.
//!
//! A generator that is faster than its server meets each answer as it comes, and both sides then pay
//! for a sleep and a wake-up per request. A moment's pause lets answers gather. It only pays when the
//! processor of this thread is busy and many requests are under way.

use crate::load::Batching;
use std::time::Duration;

/// Requests under way below which every answer is read at once.
const FEWEST_UNDER_WAY: u64 = 16;

/// Of the requests under way, the share that is enough for one round: one of these.
const ENOUGH: u64 = 4;

/// The pause is at most this part of the median service time.
const PART_OF_MEDIAN: u64 = 8;

/// Busy shares of the thread at which pauses begin and end.
const BEGIN_BUSY: f64 = 0.6;
const END_BUSY: f64 = 0.3;

/// Decides about pauses.
#[derive(Debug, Clone)]
pub(super) struct Batcher {
    most_ns: u64,
    pause_ns: u64,
    is_on: bool,
}

impl Batcher {
    pub fn new(batching: Batching, is_closed: bool) -> Batcher {
        let most_ns = match batching {
            Batching::Adaptive { most_ns } if is_closed => most_ns,
            _ => 0,
        };
        Batcher {
            most_ns,
            pause_ns: 0,
            is_on: false,
        }
    }

    /// How busy the thread was of late, and the median service time.
    pub fn adapt(&mut self, busy: f64, median_ns: Option<u64>) {
        self.is_on = match self.is_on {
            true => busy > END_BUSY,
            false => busy > BEGIN_BUSY,
        };
        self.pause_ns = median_ns.map_or(0, |median| (median / PART_OF_MEDIAN).min(self.most_ns));
    }

    /// How long to pause before the next wait, when the last round brought the end of so many.
    pub fn pause(&self, under_way: u64, ended: u64) -> Option<Duration> {
        let pays = self.is_on
            && self.pause_ns > 0
            && under_way > FEWEST_UNDER_WAY
            && ended < under_way / ENOUGH;
        pays.then(|| Duration::from_nanos(self.pause_ns))
    }
}
