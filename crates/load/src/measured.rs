//! What a load gave: counts, times, and what the generator says of itself. Plain data that can be
//! written to a file, read back, and added to the data of other generators without loss.
//!
//! Start reading at [`Measured`].

use crate::latency::{Achieved, OpenVerdict, Outcome, effective_concurrency};
use crate::outcomes::ErrorClass;
use serde::{Deserialize, Serialize};

mod replies;
mod tick;
mod totals;

pub use replies::Replies;
pub use tick::{Tick, Timeline};
pub use totals::{Latency, Totals};

/// What a load gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// When it began, in milliseconds after 1970.
    pub began_epoch_ms: u64,
    /// From the end of the warm-up to the last answer of a load that ends by requests, or to the
    /// end of sending of one that ends by time. Rates refer to it.
    pub elapsed_ns: u64,
    /// Answers that were good and came within [`Measured::elapsed_ns`]: those of throughput.
    pub ok_in_time: u64,
    /// Time that requests were in flight within [`Measured::elapsed_ns`], added up: of one that began before or ended
    /// after it, the part within. Absent in files that were written without it.
    #[serde(default)]
    pub under_way_ns: Option<u64>,
    /// Everything after the warm-up.
    #[serde(rename = "account")]
    pub totals: Totals,
    /// The requests of the warm-up, which are in no other figure.
    pub warmup: Totals,
    /// The course of the load.
    pub timeline: Timeline,
    /// What each thread of each generator says of itself.
    pub threads: Vec<ThreadReport>,
    /// The most connections that were open at once.
    pub most_connections: u32,
    /// An open load needed more connections than it may have.
    pub reached_most_connections: bool,
    /// It was interrupted.
    pub is_interrupted: bool,
    /// A row for every request, in the order of their ends, where asked for.
    pub rows: Vec<RequestRecord>,
}

impl Measured {
    /// Good answers per second.
    pub fn throughput(&self) -> Option<f64> {
        (self.elapsed_ns > 0).then(|| self.ok_in_time as f64 / (self.elapsed_ns as f64 / 1e9))
    }

    /// Whether requests failed in the way in which they do when a server dies.
    pub fn has_lost_server(&self) -> bool {
        let mut classes = ErrorClass::every().filter(|class| class.is_of_lost_server());
        classes.any(|class| self.totals.outcomes.errors(class) > 0)
    }

    /// Requests in flight on average, by Little's law; `None` without a duration.
    pub fn effective_concurrency(&self) -> Option<f64> {
        match self.under_way_ns {
            Some(sum_ns) => (self.elapsed_ns > 0).then(|| sum_ns as f64 / self.elapsed_ns as f64),
            None => {
                let service = self.totals.latency.all_sent().service;
                effective_concurrency(&service, self.elapsed_ns)
            }
        }
    }

    /// Adds what another generator gave that sent its part of the same load at the same time.
    pub fn merge(&mut self, other: Measured) {
        self.began_epoch_ms = self.began_epoch_ms.min(other.began_epoch_ms);
        self.elapsed_ns = self.elapsed_ns.max(other.elapsed_ns);
        self.ok_in_time += other.ok_in_time;
        let both = self.under_way_ns.zip(other.under_way_ns);
        self.under_way_ns = both.map(|(mine, theirs)| mine + theirs);
        self.totals.merge(&other.totals);
        self.warmup.merge(&other.warmup);
        self.timeline.merge(&other.timeline);
        self.threads.extend(other.threads);
        self.most_connections += other.most_connections;
        self.reached_most_connections |= other.reached_most_connections;
        self.is_interrupted |= other.is_interrupted;
        self.rows.extend(other.rows);
        self.rows.sort_by_key(|row| row.end_ns);
    }
}

/// One request, with times in nanoseconds from the start of the load, the warm-up included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// Its number in the load, from 0.
    pub index: u64,
    /// Its kind, as a place in [`crate::load::Kinds::entries`].
    pub kind: u16,
    /// When it was due, in an open load.
    pub intended_ns: Option<u64>,
    /// When it was taken up: the attempt to connect, if one was needed for it, else sending.
    pub begun_ns: u64,
    /// When it was sent; absent when it never was.
    pub sent_ns: Option<u64>,
    /// When the first byte of its answer came.
    pub first_byte_ns: Option<u64>,
    /// When it ended.
    pub end_ns: u64,
    /// What became of it.
    pub outcome: Outcome,
    /// The status of its whole answer, else 0.
    pub status: u16,
    /// Bytes of the body.
    pub body_bytes: u64,
    /// Bytes of the whole answer.
    pub wire_bytes: u64,
    /// It went over a connection that had been used before.
    pub is_reused: bool,
}

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

impl Measured {
    /// Whether the load was the one that was asked for and the generator kept up; `None` of a closed
    /// load, which has no schedule to miss.
    pub fn verdict(&self) -> Option<OpenVerdict> {
        let Latency::Open(latency) = &self.totals.latency else {
            return None;
        };
        let outcomes = &self.totals.outcomes;
        let unsent = outcomes.rows().find(|row| row.name == "unsent");
        let due = outcomes.attempts();
        let achieved = Achieved {
            due,
            sent: due.saturating_sub(unsent.map_or(0, |row| row.count)),
        };
        Some(OpenVerdict::judge(latency, achieved))
    }
}
