//! What a load gave: counts, times, and what the generator says of itself. Plain data that can be
//! written to a file, read back, and added to the data of other generators without loss.
//!
//! Start reading at [`Measured`].

use crate::latency::{
    Achieved, ClosedLatency, Connect, Distribution, Intended, OpenLatency, OpenVerdict, Outcome,
    Service, ServiceTimes, Times, effective_concurrency,
};
use crate::outcomes::{ErrorClass, OutcomeCounts};
use serde::{Deserialize, Serialize};

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

    /// The same, seen from a moment so much earlier, in nanoseconds: where others began before this one, its course lies there
    /// in that of the whole.
    pub fn delay(&mut self, later_ns: u64) {
        self.timeline.delay(later_ns);
        for row in &mut self.rows {
            row.delay(later_ns);
        }
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

impl RequestRecord {
    /// The same, seen from a moment so much earlier, in nanoseconds.
    fn delay(&mut self, later_ns: u64) {
        let known = [
            &mut self.intended_ns,
            &mut self.sent_ns,
            &mut self.first_byte_ns,
        ];
        let known = known.into_iter().flatten();
        for ns in known.chain([&mut self.begun_ns, &mut self.end_ns]) {
            *ns += later_ns;
        }
    }
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

/// What is counted and timed of a set of requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// What became of every request.
    #[serde(rename = "books")]
    pub outcomes: OutcomeCounts,
    /// How long they took.
    pub latency: Latency,
    /// What the answers were like.
    pub replies: Replies,
}

impl Totals {
    /// An empty one, for a closed or an open load.
    pub fn new(is_closed: bool) -> Totals {
        Totals {
            outcomes: OutcomeCounts::new(),
            latency: Latency::new(is_closed),
            replies: Replies::default(),
        }
    }

    /// Adds the totals of another thread, time or generator of the same load.
    pub fn merge(&mut self, other: &Totals) {
        self.outcomes.merge(&other.outcomes);
        self.latency.merge(&other.latency);
        self.replies.merge(&other.replies);
    }

    /// Empties it and keeps its memory.
    pub fn clear(&mut self) {
        self.outcomes = OutcomeCounts::new();
        self.latency.clear();
        self.replies = Replies::default();
    }
}

/// The times of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Latency {
    /// Of clients that wait for their answers: service times only.
    Closed(Box<ClosedLatency>),
    /// Of a schedule: response times from the intended start, and lag, as well.
    Open(Box<OpenLatency>),
}

impl Latency {
    /// No times yet.
    pub fn new(is_closed: bool) -> Latency {
        if is_closed {
            Latency::Closed(Box::default())
        } else {
            Latency::Open(Box::default())
        }
    }

    /// Adds times of the same kind of load.
    ///
    /// # Panics
    /// One load is closed and the other open: their times mean different things.
    pub fn merge(&mut self, other: &Latency) {
        match (self, other) {
            (Latency::Closed(mine), Latency::Closed(theirs)) => mine.merge(theirs),
            (Latency::Open(mine), Latency::Open(theirs)) => mine.merge(theirs),
            _ => panic!("the times of a closed and an open load cannot be added"),
        }
    }

    /// Forgets the times and keeps the memory.
    pub fn clear(&mut self) {
        match self {
            Latency::Closed(times) => times.clear(),
            Latency::Open(times) => times.clear(),
        }
    }

    /// Records a request that was sent. An intended start is only known to an open load.
    pub fn record(&mut self, outcome: Outcome, intended: Intended, times: Times) {
        match self {
            Latency::Closed(latency) => latency.record(outcome, times),
            Latency::Open(latency) => latency.record(outcome, intended, times),
        }
    }

    /// Records a connection that came about.
    pub fn connected(&mut self, ns: u64) {
        match self {
            Latency::Closed(latency) => latency.connect.record(ns),
            Latency::Open(latency) => latency.connect.record(ns),
        }
    }

    /// Times of connections.
    pub fn connect(&self) -> &Distribution<Connect> {
        match self {
            Latency::Closed(latency) => &latency.connect,
            Latency::Open(latency) => &latency.connect,
        }
    }

    /// Times from sending on, of one outcome, if it happened.
    pub fn sent(&self, outcome: Outcome) -> Option<&ServiceTimes> {
        match self {
            Latency::Closed(latency) => latency.requests.get(outcome),
            Latency::Open(latency) => latency.requests.get(outcome).map(|times| &times.sent),
        }
    }

    /// Times from sending on, of every outcome that happened.
    pub fn by_outcome(&self) -> Vec<(Outcome, &ServiceTimes)> {
        match self {
            Latency::Closed(latency) => latency.requests.iter().collect(),
            Latency::Open(latency) => {
                let seen = latency.requests.iter();
                seen.map(|(outcome, times)| (outcome, &times.sent))
                    .collect()
            }
        }
    }

    /// Times from sending on, of all outcomes together.
    pub fn all_sent(&self) -> ServiceTimes {
        match self {
            Latency::Closed(latency) => latency.requests.merged(),
            Latency::Open(latency) => latency.requests.merged().sent,
        }
    }

    /// Service times of good answers.
    pub fn service(&self) -> &Distribution<Service> {
        match self {
            Latency::Closed(latency) => &latency.requests.ok().service,
            Latency::Open(latency) => &latency.requests.ok().sent.service,
        }
    }
}

// What the answers were like, as far as it may be a sign of a wrong experiment.

/// Properties of whole answers with a good status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Replies {
    /// Whole answers that were counted here.
    pub count: u64,
    /// Bytes of the first body.
    pub first_body_bytes: Option<u64>,
    /// Bytes of the shortest body.
    pub least_body_bytes: u64,
    /// Bytes of the longest body.
    pub greatest_body_bytes: u64,
    /// Bodies whose length is not that of the first.
    pub other_lengths: u64,
    /// Answers whose connection may be used again.
    pub reusable: u64,
    /// Answers with both Transfer-Encoding and Content-Length (RFC 9112, section 6.1).
    pub doubtful_framing: u64,
    /// Connections closed because unexpected bytes arrived.
    pub stray_bytes: u64,
}

impl Replies {
    /// Empty counts for the time after these, which still know the first body.
    pub fn following(&self) -> Replies {
        Replies {
            first_body_bytes: self.first_body_bytes,
            least_body_bytes: self.least_body_bytes,
            greatest_body_bytes: self.greatest_body_bytes,
            ..Replies::default()
        }
    }

    /// Counts a whole answer.
    pub fn count(&mut self, body_bytes: u64, is_reusable: bool, is_doubtful: bool) {
        match self.first_body_bytes {
            None => {
                self.first_body_bytes = Some(body_bytes);
                self.least_body_bytes = body_bytes;
                self.greatest_body_bytes = body_bytes;
            }
            Some(first) => {
                self.other_lengths += u64::from(first != body_bytes);
                self.least_body_bytes = self.least_body_bytes.min(body_bytes);
                self.greatest_body_bytes = self.greatest_body_bytes.max(body_bytes);
            }
        }
        self.count += 1;
        self.reusable += u64::from(is_reusable);
        self.doubtful_framing += u64::from(is_doubtful);
    }

    /// Adds the answers of another thread or time. If its first body had another length, so had at
    /// least those of its answers that were like it.
    pub fn merge(&mut self, other: &Replies) {
        match (self.first_body_bytes, other.first_body_bytes) {
            (_, None) => {}
            (None, Some(_)) => {
                self.first_body_bytes = other.first_body_bytes;
                self.least_body_bytes = other.least_body_bytes;
                self.greatest_body_bytes = other.greatest_body_bytes;
                self.other_lengths += other.other_lengths;
            }
            (Some(mine), Some(theirs)) => {
                self.least_body_bytes = self.least_body_bytes.min(other.least_body_bytes);
                self.greatest_body_bytes = self.greatest_body_bytes.max(other.greatest_body_bytes);
                self.other_lengths += if mine == theirs {
                    other.other_lengths
                } else {
                    other.count - other.other_lengths
                };
            }
        }
        self.count += other.count;
        self.reusable += other.reusable;
        self.doubtful_framing += other.doubtful_framing;
        self.stray_bytes += other.stray_bytes;
    }

    /// Whether bodies differed in length.
    pub fn lengths_vary(&self) -> bool {
        self.least_body_bytes != self.greatest_body_bytes
    }
}

// The timeline: what happened in each interval of time.

/// What happened in one interval.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Tick {
    /// Good answers.
    pub ok: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Service times of good answers: the median, the 99th percentile and the greatest, in
    /// nanoseconds. Where intervals of several generators or times were put together, the greatest
    /// of each.
    pub p50_ns: Option<u64>,
    /// See [`Tick::p50_ns`].
    pub p99_ns: Option<u64>,
    /// See [`Tick::p50_ns`].
    pub most_ns: Option<u64>,
}

impl Tick {
    /// The times of an interval.
    pub fn new(ok: u64, errors: u64, service: &Distribution<Service>) -> Tick {
        let quantiles = service.quantiles(&[500_000, 990_000]);
        let ns = |at: usize| quantiles[at].map(|quantile| quantile.ns);
        Tick {
            ok,
            errors,
            p50_ns: ns(0),
            p99_ns: ns(1),
            most_ns: service.greatest_ns(),
        }
    }

    /// Adds what happened elsewhere, or later, in the same interval: of times, the greatest is kept.
    pub(crate) fn merge(&mut self, other: &Tick) {
        self.ok += other.ok;
        self.errors += other.errors;
        self.p50_ns = self.p50_ns.max(other.p50_ns);
        self.p99_ns = self.p99_ns.max(other.p99_ns);
        self.most_ns = self.most_ns.max(other.most_ns);
    }
}

/// Intervals of equal length, from the start of the load, the warm-up included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// The length of an interval in nanoseconds.
    pub interval_ns: u64,
    /// The intervals that belong to the warm-up, at the beginning.
    pub warmup: usize,
    /// What happened in each.
    pub ticks: Vec<Tick>,
}

impl Timeline {
    /// Puts intervals together by twos.
    pub(crate) fn halve(&mut self) {
        let pairs = self.ticks.chunks(2).map(|pair| {
            let mut both = pair[0].clone();
            pair[1..].iter().for_each(|second| both.merge(second));
            both
        });
        self.ticks = pairs.collect();
        self.interval_ns *= 2;
        self.warmup = self.warmup.div_ceil(2);
    }

    /// The same course, seen from a moment so much earlier, in nanoseconds: to the next whole interval.
    fn delay(&mut self, later_ns: u64) {
        let intervals = later_ns.saturating_add(self.interval_ns / 2);
        let intervals = intervals.checked_div(self.interval_ns).unwrap_or(0) as usize;
        let before = std::iter::repeat_with(Tick::default).take(intervals);
        self.ticks.splice(0..0, before);
        if self.warmup > 0 {
            self.warmup += intervals;
        }
    }

    /// Adds the course of another generator that began at the same time.
    pub fn merge(&mut self, other: &Timeline) {
        if self.ticks.len() < other.ticks.len() {
            self.ticks.resize_with(other.ticks.len(), Tick::default);
        }
        for (mine, theirs) in self.ticks.iter_mut().zip(&other.ticks) {
            mine.merge(theirs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_course_that_began_later_is_moved_to_the_nearest_interval() {
        let tick = |ok| Tick {
            ok,
            ..Tick::default()
        };
        let course = |warmup| Timeline {
            interval_ns: 100,
            warmup,
            ticks: vec![tick(1), tick(2)],
        };
        let delayed = |warmup, later_ns| {
            let mut own = course(warmup);
            own.delay(later_ns);
            let ok: Vec<u64> = own.ticks.iter().map(|tick| tick.ok).collect();
            (own.warmup, ok)
        };
        assert_eq!(delayed(0, 49), (0, vec![1, 2]));
        assert_eq!(delayed(0, 50), (0, vec![0, 1, 2]));
        assert_eq!(delayed(1, 249), (3, vec![0, 0, 1, 2]));
    }
}
