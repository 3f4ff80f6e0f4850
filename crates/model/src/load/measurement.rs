//! Defines the record of one HTTP load: its options, facts about the server, and the result: counts,
//! times, and the generator's report about itself. The record can be written to a file, read back,
//! and merged with the results of other generators without loss.
//!
//! Start at [`LoadRun`] and [`LoadMeasurement`].

use crate::Session;
use crate::load::latency::{
    LoadLatency, OpenVerdict, RequestOutcome, RequestTotals, TimeDistribution,
    effective_concurrency,
};
use crate::load::outcomes::ErrorClass;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The complete record of one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadRun {
    /// Label that distinguishes the load from other loads in a report: the URL.
    pub label: String,
    /// The target URL, with the path of the first kind of request.
    pub url: String,
    /// Number of the round, from 0. In each round, every URL gets one load.
    pub round: u32,
    /// Position of the load in the execution order of all loads of the command, from 0.
    pub slot: u32,
    /// The options of the load.
    #[serde(alias = "asked")]
    pub requested: LoadFacts,
    /// Result of the probe request before the load. `None` with `--no-verify`, or if an experiment
    /// started the server.
    pub probe: Option<ProbeFacts>,
    /// Measurements, merged over all generators.
    pub measured: LoadMeasurement,
    /// Start-up time, processor time and premature end of the server, if the load's command started
    /// it.
    pub server: Option<ServerOutcome>,
    /// Each machine's part, if several machines generated the load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<LoadPart>,
    /// Whether the measurement is incomplete, because a generator process or the server died or a
    /// machine was lost. [`LoadRun::warnings`] has the explanation.
    pub is_partial: bool,
    /// Caveats that the numbers do not show, as whole sentences. For example, redirects were
    /// followed.
    pub warnings: Vec<String>,
}

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
        self.rows.iter_mut().for_each(|row| row.shift_by(later_ns));
    }

    /// Assesses whether an open load was delivered on schedule and whether the generator kept up.
    /// Returns `None` for a closed load, which has no schedule.
    pub fn verdict(&self) -> Option<OpenVerdict> {
        let LoadLatency::Open(latency) = &self.totals.latency else { return None };
        let outcomes = &self.totals.outcomes;
        let due = outcomes.attempts();
        let sent = due.saturating_sub(outcomes.count_of("unsent"));
        Some(OpenVerdict::assess(latency, due, sent))
    }
}

/// One request. Times are in nanoseconds since the start of the load, including the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// Sequence number in the load, from 0.
    pub index: u64,
    /// Request kind, as an index into [`LoadFacts::kinds`].
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
        known_times.chain([&mut self.begun_ns, &mut self.end_ns]).for_each(|ns| *ns += later_ns);
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
        if self.elapsed_ns == 0 { 0.0 } else { self.cpu_ns as f64 / self.elapsed_ns as f64 }
    }

    /// Whether the thread was busy enough to have been the bottleneck.
    pub fn is_bottleneck(&self) -> bool {
        self.busy_share() > MAX_BUSY_SHARE
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
    pub fn new(ok: u64, errors: u64, service: &TimeDistribution) -> TimelineTick {
        let quantiles = service.quantiles(&[500_000, 990_000]);
        let ns = |at: usize| quantiles[at].map(|quantile| quantile.ns);
        TimelineTick { ok, errors, p50_ns: ns(0), p99_ns: ns(1), max_ns: service.max_ns() }
    }

    /// Merges the events of several intervals or generators.
    pub fn merge_all<'t>(ticks: impl IntoIterator<Item = &'t TimelineTick>) -> TimelineTick {
        let mut merged = TimelineTick::default();
        ticks.into_iter().for_each(|tick| merged.merge(tick));
        merged
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
        self.ticks = self.ticks.chunks(2).map(TimelineTick::merge_all).collect();
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
        self.ticks.iter_mut().zip(&other.ticks).for_each(|(mine, theirs)| mine.merge(theirs));
    }
}

// What was requested, and who sent and served it.

/// One machine's part of a load that several machines generate. Times are converted to the clock of
/// the coordinator, which is the machine that controls the load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadPart {
    /// The machine's name.
    pub machine: String,
    /// The machine's unique id.
    pub id: String,
    /// Index of the machine's first generator process, counted over all machines from 0.
    pub first: u32,
    /// Number of generator processes on the machine.
    pub processes: u32,
    /// Offset of the clocks in nanoseconds, measured before the load: the coordinator's time minus
    /// the machine's time.
    pub offset_ns: i64,
    /// Uncertainty of `offset_ns`, in nanoseconds.
    pub uncertainty_ns: u64,
    /// Change of `offset_ns` by the end of the load, in nanoseconds; `None` if the offset could not
    /// be measured again.
    pub drift_ns: Option<i64>,
    /// Delay of the machine's first generator after the agreed start, in nanoseconds.
    pub began_ns: Option<i64>,
    /// Shortest time to connect before the load, among several attempts, in nanoseconds.
    pub connect_ns: Option<u64>,
    /// Requests attempted after the warm-up.
    pub attempted: u64,
    /// Number of these requests that succeeded.
    pub ok: u64,
    /// Number of these requests that failed.
    pub errors: u64,
    /// Duration of the part, as in [`LoadMeasurement::elapsed_ns`].
    pub elapsed_ns: u64,
    /// Utilization of the machine's busiest thread, from 0 to 1.
    pub busiest: f64,
    /// Whether `busiest` is so high that the generator may have been the bottleneck.
    pub is_bottleneck: bool,
    /// For a load with a rate: the 99th percentile of the generator's own delay in sending
    /// requests, and the limit for this percentile, both in nanoseconds.
    pub own_lag_p99_ns: Option<(u64, u64)>,
    /// The network device that used the largest fraction of its bandwidth, and this fraction.
    pub link: Option<(String, f64)>,
    /// Why the part was lost; `None` if it was not lost. The numbers of a lost part come from its
    /// last progress report, and the measurements of the load do not include them.
    pub lost: Option<String>,
}

/// The options of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadFacts {
    /// How the load was paced.
    pub pace: PaceFacts,
    /// Number of requests after which the load ends, not counting the warm-up.
    pub requests: Option<u64>,
    /// Duration of the load after the warm-up, in nanoseconds.
    pub time_ns: Option<u64>,
    /// Duration of the warm-up, in nanoseconds. The warm-up is recorded separately.
    pub warmup_ns: u64,
    /// How long to wait for outstanding responses at the end, in nanoseconds.
    pub drain_ns: u64,
    /// The requests, in the order of [`RequestRecord::kind`].
    pub kinds: Vec<KindFacts>,
    /// `HTTP/1.0`, `HTTP/1.1`, `HTTP/2` or `HTTP/3`.
    pub protocol: String,
    /// With HTTP/2: maximum size of the header compression table that the server may use, in bytes.
    pub h2_table_bytes: Option<u32>,
    /// Maximum number of requests in flight per connection.
    #[serde(alias = "lanes")]
    pub streams_per_connection: u32,
    /// Whether connections are reused.
    pub keeps_alive: bool,
    /// Number of requests after which a connection is closed.
    #[serde(alias = "most_requests_per_connection")]
    pub max_requests_per_connection: Option<u64>,
    /// Age after which a connection gets only one more request, in nanoseconds.
    pub connection_lifetime_ns: Option<u64>,
    /// Time limits.
    pub timeouts: RequestTimeouts,
    /// Whether requests are retried when an idle connection turns out to be closed.
    pub retries_stale: bool,
    /// Criteria for a successful response.
    pub success: RuleFacts,
    /// Threads of each generator.
    pub threads: u32,
    /// Generator processes.
    pub processes: u32,
    /// Processors to which the threads were pinned.
    pub processors: Vec<usize>,
    /// Whether the generator ran with real-time priority.
    pub is_realtime: bool,
    /// Whether the generator polled instead of sleeping.
    pub busy_polls: bool,
    /// Maximum time by which batching delays reads, in nanoseconds; `None` if batching was off.
    pub batching_ns: Option<u64>,
}

impl LoadFacts {
    /// Number of concurrent requests; `None` for an open load.
    pub fn concurrency(&self) -> Option<u32> {
        let PaceFacts::Closed { concurrency, .. } = self.pace else { return None };
        Some(concurrency)
    }
}

/// How a load was paced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "model")]
pub enum PaceFacts {
    /// Each client waits for a response before its next request.
    Closed {
        /// Number of clients.
        concurrency: u32,
        /// The pause between a response and the next request, in nanoseconds; 0 for no pause.
        think_ns: u64,
        /// Whether pauses are random, with `think_ns` as their mean.
        thinks_at_random: bool,
        /// Seed of random pauses.
        seed: u64,
    },
    /// Requests follow a schedule.
    Open {
        /// The stages of the schedule, in order.
        stages: Vec<StageFacts>,
        /// Whether arrivals are random (Poisson) instead of evenly spaced.
        is_poisson: bool,
        /// Seed of random arrivals.
        seed: u64,
        /// Initial number of connections.
        connections: u32,
        /// Maximum number of connections.
        #[serde(alias = "most_connections")]
        max_connections: u32,
    },
}

/// One stage of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StageFacts {
    /// Rate at the start of the stage, in requests per second.
    pub from_per_s: f64,
    /// Rate at the end of the stage, in requests per second.
    pub to_per_s: f64,
    /// Length of the stage in nanoseconds; `None` if the stage lasts until the load ends.
    pub duration_ns: Option<u64>,
}

/// One kind of request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindFacts {
    /// Name of the kind.
    pub name: String,
    /// Relative frequency of the kind.
    pub weight: u32,
    /// The method.
    pub method: String,
    /// Path and query as given, with placeholders unexpanded.
    pub path: String,
    /// Bytes of the body.
    pub body_bytes: Option<u64>,
}

/// Time limits of connections and requests; `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RequestTimeouts {
    /// From the start of connecting until the connection is usable, including TLS, in nanoseconds.
    pub connect_ns: Option<u64>,
    /// From sending a request to the first byte of its response, in nanoseconds.
    pub first_byte_ns: Option<u64>,
    /// From sending a request to the last byte of its response, in nanoseconds.
    pub total_ns: Option<u64>,
}

/// Criteria for a successful response.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RuleFacts {
    /// Inclusive ranges of accepted statuses. An empty list accepts 200 to 299.
    pub statuses: Vec<(u16, u16)>,
    /// Text that each body had to contain.
    pub body_contains: Option<String>,
    /// Required length of each body.
    pub body_bytes: Option<u64>,
}

/// Result of the probe request before the load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeFacts {
    /// The peer: `127.0.0.1:8080`, or the path of a Unix domain socket.
    pub address: String,
    /// Negotiated TLS parameters.
    pub tls: Option<TlsFacts>,
    /// The status.
    pub status: u16,
    /// The value of the header field `Server`.
    pub server: Option<String>,
    /// The value of the header field `Content-Type`.
    pub content_type: Option<String>,
    /// Bytes of the body.
    pub body_bytes: u64,
    /// Bytes of the whole response.
    pub wire_bytes: u64,
    /// Whether the server keeps the connection open.
    pub is_reusable: bool,
    /// Time to connect, in nanoseconds.
    pub connect_ns: u64,
    /// Time from sending to the last byte, in nanoseconds.
    pub service_ns: u64,
    /// URLs that redirected to the probed URL, in order, if redirects were followed.
    pub redirected_from: Vec<String>,
}

/// Negotiated TLS parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsFacts {
    /// The version, such as `TLSv1.3`.
    pub version: String,
    /// The cipher suite, such as `TLS13_AES_256_GCM_SHA384`.
    pub cipher: String,
    /// Size in bits of the key in the server's certificate, for known key types; not stored.
    #[serde(skip)]
    pub key_bits: Option<u32>,
    /// The group of the key exchange.
    pub group: Option<String>,
    /// The protocol negotiated by ALPN.
    pub alpn: Option<String>,
}

/// Start-up time, processor time and premature end of a server that was started for the load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerOutcome {
    /// The command that started the server.
    pub command: String,
    /// Time from the server's start to its first accepted connection, in nanoseconds.
    pub ready_ns: u64,
    /// Processor time of the server's processes during the measurement, in nanoseconds; `None` if
    /// the operating system does not report it.
    pub cpu_ns: Option<u64>,
    /// How the server ended prematurely, as the end of a sentence: `exited with status 1`.
    pub died: Option<String>,
    /// Last lines of the server's stderr, if it died.
    pub stderr_tail: String,
}

/// Returns the loads of a session, in the order of its runs.
///
/// # Errors
/// Fails if a load was written by an incompatible version.
pub fn stored_loads(session: &Session) -> Result<Vec<LoadRun>> {
    let stored = session.runs.iter().filter_map(|run| run.load.as_deref());
    stored.map(|text| serde_json::from_str(text).context("cannot read a stored load")).collect()
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
