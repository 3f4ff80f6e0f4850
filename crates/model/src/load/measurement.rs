//! Describes the result of a load: counts, times, and the generator's report about itself. The
//! result can be written to a file, read back, and merged with the results of other generators
//! without loss.
//!
//! Start at [`LoadMeasurement`].

use crate::load::latency::{
    AchievedCounts, ClosedLatency, ConnectTime, IntendedStart, OpenLatency, OpenVerdict,
    RequestOutcome, RequestTimes, ServiceTime, ServiceTimes, TimeDistribution,
    effective_concurrency,
};
use crate::load::outcomes::{ErrorClass, OutcomeCounts};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The result of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadMeasurement {
    /// Start of the load, in milliseconds since the Unix epoch.
    pub began_epoch_ms: u64,
    /// Duration in nanoseconds, from the end of the warm-up. A load with a fixed number of requests
    /// lasts until the last response. A load with a time limit lasts until the end of sending.
    /// Rates refer to this duration.
    pub elapsed_ns: u64,
    /// Number of successful responses within [`LoadMeasurement::elapsed_ns`]. The throughput is
    /// computed from this number.
    pub ok_in_time: u64,
    /// Total time that requests were in flight within [`LoadMeasurement::elapsed_ns`]. Only the
    /// part of a request within this duration counts. Absent in older files.
    #[serde(default, alias = "under_way_ns")]
    pub in_flight_ns: Option<u64>,
    /// Totals of all requests after the warm-up.
    #[serde(alias = "account")]
    pub totals: RequestTotals,
    /// Totals of the warm-up. [`LoadMeasurement::totals`] does not include them.
    pub warmup: RequestTotals,
    /// The timeline of the load.
    pub timeline: LoadTimeline,
    /// Reports from each thread of each generator.
    pub threads: Vec<ThreadReport>,
    /// Maximum number of simultaneous connections, summed over the threads.
    #[serde(alias = "most_connections")]
    pub max_connections: u32,
    /// Whether an open load needed more connections than its limit.
    #[serde(alias = "reached_most_connections")]
    pub reached_max_connections: bool,
    /// Whether the load was interrupted.
    pub is_interrupted: bool,
    /// One row per request that started after the warm-up, in order of completion. Empty unless
    /// rows were requested.
    pub rows: Vec<RequestRecord>,
}

impl LoadMeasurement {
    /// Successful responses per second.
    pub fn throughput(&self) -> Option<f64> {
        (self.elapsed_ns > 0).then(|| self.ok_in_time as f64 / (self.elapsed_ns as f64 / 1e9))
    }

    /// Whether some errors suggest that the server died.
    pub fn has_lost_server(&self) -> bool {
        let mut classes = ErrorClass::all_classes().filter(|class| class.indicates_dead_server());
        classes.any(|class| self.totals.outcomes.errors(class) > 0)
    }

    /// Mean number of requests in flight, by Little's law; `None` if the duration is zero.
    pub fn effective_concurrency(&self) -> Option<f64> {
        match self.in_flight_ns {
            Some(sum_ns) => (self.elapsed_ns > 0).then(|| sum_ns as f64 / self.elapsed_ns as f64),
            None => {
                let service = self.totals.latency.all_sent().service;
                effective_concurrency(&service, self.elapsed_ns)
            }
        }
    }

    /// Merges the result of another generator that sent another part of the load at the same time.
    pub fn merge(&mut self, other: LoadMeasurement) {
        self.began_epoch_ms = self.began_epoch_ms.min(other.began_epoch_ms);
        self.elapsed_ns = self.elapsed_ns.max(other.elapsed_ns);
        self.ok_in_time += other.ok_in_time;
        let both = self.in_flight_ns.zip(other.in_flight_ns);
        self.in_flight_ns = both.map(|(mine, theirs)| mine + theirs);
        self.totals.merge(&other.totals);
        self.warmup.merge(&other.warmup);
        self.timeline.merge(&other.timeline);
        self.threads.extend(other.threads);
        self.max_connections += other.max_connections;
        self.reached_max_connections |= other.reached_max_connections;
        self.is_interrupted |= other.is_interrupted;
        self.rows.extend(other.rows);
        self.rows.sort_by_key(|row| row.end_ns);
    }

    /// Shifts all times by `later_ns`, for a generator that started later than the others.
    pub fn shift_by(&mut self, later_ns: u64) {
        self.timeline.shift_by(later_ns);
        for row in &mut self.rows {
            row.shift_by(later_ns);
        }
    }

    /// Assesses whether an open load was delivered on schedule and whether the generator kept up.
    /// Returns `None` for a closed load, which has no schedule.
    pub fn verdict(&self) -> Option<OpenVerdict> {
        let LoadLatency::Open(latency) = &self.totals.latency else {
            return None;
        };
        let outcomes = &self.totals.outcomes;
        let due = outcomes.attempts();
        let sent = due.saturating_sub(outcomes.count_of("unsent"));
        let achieved = AchievedCounts { due, sent };
        Some(OpenVerdict::assess(latency, achieved))
    }
}

/// One request. Times are in nanoseconds since the start of the load, including the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// Sequence number in the load, from 0.
    pub index: u64,
    /// Request kind, as an index into [`crate::load::run::LoadFacts::kinds`].
    pub kind: u16,
    /// Scheduled start, in an open load.
    pub intended_ns: Option<u64>,
    /// When processing started: connecting, if the request needed a connection, otherwise sending.
    pub begun_ns: u64,
    /// When the request was sent; `None` if it was not sent.
    pub sent_ns: Option<u64>,
    /// When the first byte of the response arrived.
    pub first_byte_ns: Option<u64>,
    /// When the request ended.
    pub end_ns: u64,
    /// Outcome of the request.
    pub outcome: RequestOutcome,
    /// Status code of a complete response, or of an HTTP/1 response that was cut short by the end
    /// of the connection. Otherwise 0.
    pub status: u16,
    /// Body bytes received.
    pub body_bytes: u64,
    /// Bytes of the whole response on the wire.
    pub wire_bytes: u64,
    /// Whether another request had used the connection before.
    pub is_reused: bool,
}

impl RequestRecord {
    /// Shifts all times by `later_ns`.
    fn shift_by(&mut self, later_ns: u64) {
        let known_times = [&mut self.intended_ns, &mut self.sent_ns, &mut self.first_byte_ns]
            .into_iter()
            .flatten();
        for ns in known_times.chain([&mut self.begun_ns, &mut self.end_ns]) {
            *ns += later_ns;
        }
    }
}

/// CPU utilization above which a thread counts as a bottleneck.
const MAX_BUSY_SHARE: f64 = 0.9;

/// Resource usage of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ThreadReport {
    /// Elapsed time in nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time, user and kernel, in nanoseconds.
    pub cpu_ns: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
    /// Iterations of the event loop.
    pub loops: u64,
    /// System calls for waits, sends, receives and connection setup. With HTTP/3, a lower bound:
    /// only socket calls and one wait per iteration are counted.
    pub system_calls: u64,
    /// Time slept to read several responses at once, in nanoseconds.
    pub batched_ns: u64,
    /// The longest of these sleeps, in nanoseconds. Timestamps of responses may be up to this much
    /// too late.
    pub longest_batch_ns: u64,
    /// Most requests on one connection.
    pub most_requests: u64,
    /// Fewest requests on one connection, without connections that never carried a request.
    pub fewest_requests: u64,
}

impl ThreadReport {
    /// Fraction of the elapsed time in which the thread was busy.
    pub fn busy_share(&self) -> f64 {
        match self.elapsed_ns {
            0 => 0.0,
            elapsed => self.cpu_ns as f64 / elapsed as f64,
        }
    }

    /// Whether the thread was busy enough to have been the bottleneck.
    pub fn is_bottleneck(&self) -> bool {
        self.busy_share() > MAX_BUSY_SHARE
    }
}

/// Counts and times of a set of requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestTotals {
    /// Outcomes of all requests.
    #[serde(alias = "books")]
    pub outcomes: OutcomeCounts,
    /// How long requests took.
    pub latency: LoadLatency,
    /// Properties of the responses.
    #[serde(alias = "replies")]
    pub responses: ResponseStats,
}

impl RequestTotals {
    /// Creates empty totals for a closed or an open load.
    pub fn new(is_closed: bool) -> RequestTotals {
        RequestTotals {
            outcomes: OutcomeCounts::new(),
            latency: LoadLatency::new(is_closed),
            responses: ResponseStats::default(),
        }
    }

    /// Adds the totals of another thread, period or generator of the same load.
    pub fn merge(&mut self, other: &RequestTotals) {
        self.outcomes.merge(&other.outcomes);
        self.latency.merge(&other.latency);
        self.responses.merge(&other.responses);
    }

    /// Clears all totals but keeps the allocated memory.
    pub fn clear(&mut self) {
        self.outcomes = OutcomeCounts::new();
        self.latency.clear();
        self.responses = ResponseStats::default();
    }
}

/// Times of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadLatency {
    /// Clients wait for each response: service times only.
    Closed(Box<ClosedLatency>),
    /// Requests follow a schedule: service times, response times since the intended start, and lag.
    Open(Box<OpenLatency>),
}

impl LoadLatency {
    /// Creates an empty set of times.
    pub fn new(is_closed: bool) -> LoadLatency {
        if is_closed {
            LoadLatency::Closed(Box::default())
        } else {
            LoadLatency::Open(Box::default())
        }
    }

    /// Adds the times of a load with the same model.
    ///
    /// # Panics
    /// Panics if one load is closed and the other open, because their times differ in meaning.
    pub fn merge(&mut self, other: &LoadLatency) {
        match (self, other) {
            (LoadLatency::Closed(mine), LoadLatency::Closed(theirs)) => mine.merge(theirs),
            (LoadLatency::Open(mine), LoadLatency::Open(theirs)) => mine.merge(theirs),
            _ => panic!("cannot merge the times of a closed and an open load"),
        }
    }

    /// Clears the times but keeps the allocated memory.
    pub fn clear(&mut self) {
        match self {
            LoadLatency::Closed(times) => times.clear(),
            LoadLatency::Open(times) => times.clear(),
        }
    }

    /// Records a request that was sent. A closed load ignores the intended start.
    pub fn record(
        &mut self,
        outcome: RequestOutcome,
        intended: IntendedStart,
        times: RequestTimes,
    ) {
        match self {
            LoadLatency::Closed(latency) => latency.record(outcome, times),
            LoadLatency::Open(latency) => latency.record(outcome, intended, times),
        }
    }

    /// Records an established connection.
    pub fn record_connect(&mut self, ns: u64) {
        match self {
            LoadLatency::Closed(latency) => latency.connect.record(ns),
            LoadLatency::Open(latency) => latency.connect.record(ns),
        }
    }

    /// Connect times.
    pub fn connect_times(&self) -> &TimeDistribution<ConnectTime> {
        match self {
            LoadLatency::Closed(latency) => &latency.connect,
            LoadLatency::Open(latency) => &latency.connect,
        }
    }

    /// Times since sending, for each outcome that occurred.
    pub fn by_outcome(&self) -> Vec<(RequestOutcome, &ServiceTimes)> {
        match self {
            LoadLatency::Closed(latency) => latency.requests.iter().collect(),
            LoadLatency::Open(latency) => {
                let seen = latency.requests.iter();
                seen.map(|(outcome, times)| (outcome, &times.sent)).collect()
            }
        }
    }

    /// Times since sending, over all outcomes.
    pub fn all_sent(&self) -> ServiceTimes {
        match self {
            LoadLatency::Closed(latency) => latency.requests.merge_all(),
            LoadLatency::Open(latency) => latency.requests.merge_all().sent,
        }
    }

    /// Service times of successful responses.
    pub fn service_times(&self) -> &TimeDistribution<ServiceTime> {
        match self {
            LoadLatency::Closed(latency) => &latency.requests.ok().service,
            LoadLatency::Open(latency) => &latency.requests.ok().sent.service,
        }
    }
}

// Properties of responses that may reveal a flaw in the experiment.

/// Properties of complete responses with a successful status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ResponseStats {
    /// Number of complete responses.
    pub count: u64,
    /// Length of the first body in bytes.
    pub first_body_bytes: Option<u64>,
    /// Length of the shortest body in bytes.
    #[serde(alias = "least_body_bytes")]
    pub min_body_bytes: u64,
    /// Length of the longest body in bytes.
    #[serde(alias = "greatest_body_bytes")]
    pub max_body_bytes: u64,
    /// Bodies that differ in length from the first.
    pub other_lengths: u64,
    /// Responses after which the connection can be reused.
    pub reusable: u64,
    /// Responses with both Transfer-Encoding and Content-Length (RFC 9112, section 6.1).
    pub doubtful_framing: u64,
    /// Connections closed because unexpected bytes arrived.
    pub stray_bytes: u64,
}

impl ResponseStats {
    /// Returns the stats with which the next period starts: counts of zero, but the same body
    /// lengths, for comparison with later responses.
    pub fn next_period(&self) -> ResponseStats {
        ResponseStats {
            first_body_bytes: self.first_body_bytes,
            min_body_bytes: self.min_body_bytes,
            max_body_bytes: self.max_body_bytes,
            ..ResponseStats::default()
        }
    }

    /// Counts a complete response.
    pub fn count_response(&mut self, body_bytes: u64, is_reusable: bool, is_doubtful: bool) {
        match self.first_body_bytes {
            None => {
                self.first_body_bytes = Some(body_bytes);
                self.min_body_bytes = body_bytes;
                self.max_body_bytes = body_bytes;
            }
            Some(first) => {
                self.other_lengths += u64::from(first != body_bytes);
                self.min_body_bytes = self.min_body_bytes.min(body_bytes);
                self.max_body_bytes = self.max_body_bytes.max(body_bytes);
            }
        }
        self.count += 1;
        self.reusable += u64::from(is_reusable);
        self.doubtful_framing += u64::from(is_doubtful);
    }

    /// Adds the responses of another thread or period. If the first bodies differ in length, all
    /// responses of `other` with the length of its first body count as different. For the remaining
    /// responses of `other`, it is unknown whether they differ, so they do not count as different.
    pub fn merge(&mut self, other: &ResponseStats) {
        match (self.first_body_bytes, other.first_body_bytes) {
            (_, None) => {}
            (None, Some(_)) => {
                self.first_body_bytes = other.first_body_bytes;
                self.min_body_bytes = other.min_body_bytes;
                self.max_body_bytes = other.max_body_bytes;
                self.other_lengths += other.other_lengths;
            }
            (Some(mine), Some(theirs)) => {
                self.min_body_bytes = self.min_body_bytes.min(other.min_body_bytes);
                self.max_body_bytes = self.max_body_bytes.max(other.max_body_bytes);
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

    /// Number of responses after which the server closed the connection.
    pub fn closing(&self) -> u64 {
        self.count.saturating_sub(self.reusable)
    }

    /// Whether body lengths vary.
    pub fn lengths_vary(&self) -> bool {
        self.min_body_bytes != self.max_body_bytes
    }
}

// The timeline: events per interval.

/// Events in one interval.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TimelineTick {
    /// Successful responses.
    pub ok: u64,
    /// Failed requests.
    pub errors: u64,
    /// Median of the service times of successful responses, in nanoseconds. For merged intervals,
    /// the largest of their medians.
    pub p50_ns: Option<u64>,
    /// 99th percentile of these service times. For merged intervals, the largest of their
    /// percentiles.
    pub p99_ns: Option<u64>,
    /// Maximum of these service times.
    #[serde(alias = "most_ns")]
    pub max_ns: Option<u64>,
}

impl TimelineTick {
    /// Creates the entry of an interval from its counts and service times.
    pub fn new(ok: u64, errors: u64, service: &TimeDistribution<ServiceTime>) -> TimelineTick {
        let quantiles = service.quantiles(&[500_000, 990_000]);
        let ns = |at: usize| quantiles[at].map(|quantile| quantile.ns);
        TimelineTick { ok, errors, p50_ns: ns(0), p99_ns: ns(1), max_ns: service.max_ns() }
    }

    /// Merges the events of another generator, or of a later part of the interval. For each
    /// statistic of the service times, keeps the larger value.
    pub fn merge(&mut self, other: &TimelineTick) {
        self.ok += other.ok;
        self.errors += other.errors;
        self.p50_ns = self.p50_ns.max(other.p50_ns);
        self.p99_ns = self.p99_ns.max(other.p99_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }
}

/// Events in intervals of equal length since the start of the load, including the warm-up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadTimeline {
    /// Length of an interval in nanoseconds.
    pub interval_ns: u64,
    /// Number of intervals at the beginning that belong to the warm-up.
    pub warmup: usize,
    /// Events of each interval.
    pub ticks: Vec<TimelineTick>,
}

impl LoadTimeline {
    /// Merges each pair of adjacent intervals.
    pub fn merge_pairs(&mut self) {
        let pairs = self.ticks.chunks(2).map(|pair| {
            let mut both = pair[0].clone();
            pair[1..].iter().for_each(|second| both.merge(second));
            both
        });
        self.ticks = pairs.collect();
        self.interval_ns *= 2;
        self.warmup = self.warmup.div_ceil(2);
    }

    /// Shifts the timeline by `later_ns`, rounded to whole intervals.
    fn shift_by(&mut self, later_ns: u64) {
        let intervals = later_ns
            .saturating_add(self.interval_ns / 2)
            .checked_div(self.interval_ns)
            .unwrap_or(0) as usize;
        let before = std::iter::repeat_with(TimelineTick::default).take(intervals);
        self.ticks.splice(0..0, before);
        if self.warmup > 0 {
            self.warmup += intervals;
        }
    }

    /// Merges the timeline of another generator that started at the same time. If one timeline has
    /// shorter intervals, they are first merged in pairs until both timelines have intervals of the
    /// same length.
    pub fn merge(&mut self, other: &LoadTimeline) {
        let mut other = Cow::Borrowed(other);
        while (1..other.interval_ns).contains(&self.interval_ns) {
            self.merge_pairs();
        }
        while (1..self.interval_ns).contains(&other.interval_ns) {
            other.to_mut().merge_pairs();
        }
        if self.ticks.len() < other.ticks.len() {
            self.ticks.resize_with(other.ticks.len(), TimelineTick::default);
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
    fn a_timeline_that_began_later_is_moved_to_the_nearest_interval() {
        let tick = |ok| TimelineTick { ok, ..TimelineTick::default() };
        let course =
            |warmup| LoadTimeline { interval_ns: 100, warmup, ticks: vec![tick(1), tick(2)] };
        let delayed = |warmup, later_ns| {
            let mut own = course(warmup);
            own.shift_by(later_ns);
            let ok: Vec<u64> = own.ticks.iter().map(|tick| tick.ok).collect();
            (own.warmup, ok)
        };
        assert_eq!(delayed(0, 49), (0, vec![1, 2]));
        assert_eq!(delayed(0, 50), (0, vec![0, 1, 2]));
        assert_eq!(delayed(1, 249), (3, vec![0, 0, 1, 2]));
    }

    #[test]
    fn timelines_with_intervals_of_different_length_are_merged_by_time() {
        let timeline = |interval_ns, warmup, counts: &[u64]| LoadTimeline {
            interval_ns,
            warmup,
            ticks: (counts.iter())
                .map(|&ok| TimelineTick { ok, ..TimelineTick::default() })
                .collect(),
        };
        let (short, long) = (timeline(100, 2, &[1, 2, 3, 4, 5]), timeline(200, 1, &[10, 20]));
        for (mut own, other) in [(short.clone(), long.clone()), (long, short)] {
            own.merge(&other);
            let ok: Vec<u64> = own.ticks.iter().map(|tick| tick.ok).collect();
            assert_eq!((own.interval_ns, own.warmup, ok), (200, 1, vec![13, 27, 5]));
        }
    }
}
