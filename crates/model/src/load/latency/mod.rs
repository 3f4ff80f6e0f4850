//! Records the outcomes and the latency of requests, merges them, and computes quantiles.
//!
//! Each quantity has its own type, so that the time since a request was sent and the time since it
//! was due cannot be mixed in one histogram. A closed load has no response time at all. Start at
//! [`RequestTotals`], and follow a time through [`LoadLatency::record`] to [`TimeDistribution`],
//! which holds [`TimeValues`]. `verdict.rs` judges how far the latency can be trusted.

mod by_outcome;
mod log;
mod statistics;
mod stored;
mod verdict;

pub use by_outcome::{ByOutcome, OutcomeSet, RequestOutcome};
pub use log::{HistogramLogError, HistogramLogRow, LoggedHistogram, read_log, write_log};
pub use statistics::{AB_PERCENTS, HistogramBin, PercentRow, percent_rows, percent_rows_of};
pub use verdict::{
    AchievedCounts, MIN_ACHIEVED_SHARE, MIN_CONCURRENCY_SHARE, OpenVerdict, TimeRefusal,
    bounds_agree, effective_concurrency, is_concurrency_short, is_range_too_wide,
};

use crate::load::outcomes::{OutcomeCounts, ResponseStats};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::OnceLock;

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

// The times of a load of either model.

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

    /// The times of all requests that did not fail.
    pub fn without_failed(&self) -> LoadLatency {
        match self {
            LoadLatency::Closed(latency) => LoadLatency::Closed(Box::new(ClosedLatency {
                requests: latency.requests.without_failed(),
                connect: latency.connect.clone(),
            })),
            LoadLatency::Open(latency) => LoadLatency::Open(Box::new(OpenLatency {
                requests: latency.requests.without_failed(),
                lag: latency.lag.clone(),
                own_lag: latency.own_lag.clone(),
                connect: latency.connect.clone(),
            })),
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

// A closed load records the times since a request was sent, but no response times.

/// Timestamps of one sent request, in nanoseconds since the start of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestTimes {
    /// When the request was sent.
    pub sent_ns: u64,
    /// When the first byte of the response arrived.
    pub first_byte_ns: Option<u64>,
    /// When the request or the load ended.
    pub end_ns: u64,
}

/// Times since a request was sent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ServiceTimes {
    /// Time to the last byte of the response.
    pub service: TimeDistribution<ServiceTime>,
    /// Time to the first byte of the response.
    pub first_byte: TimeDistribution<FirstByteTime>,
}

impl OutcomeSet for ServiceTimes {
    fn merge(&mut self, other: &ServiceTimes) {
        self.service.merge(&other.service);
        self.first_byte.merge(&other.first_byte);
    }

    fn clear(&mut self) {
        self.service.clear();
        self.first_byte.clear();
    }
}

impl ServiceTimes {
    fn record(&mut self, outcome: RequestOutcome, times: RequestTimes) {
        record_time(&mut self.service, outcome, times.end_ns.saturating_sub(times.sent_ns));
        if let Some(first_byte_ns) = times.first_byte_ns {
            self.first_byte.record(first_byte_ns.saturating_sub(times.sent_ns));
        }
    }
}

/// Records a time. If the request has not ended, the time is a lower bound.
fn record_time<K: TimeQuantity>(times: &mut TimeDistribution<K>, outcome: RequestOutcome, ns: u64) {
    if outcome.has_ended() { times.record(ns) } else { times.record_lower_bound(ns) }
}

/// Latency of a closed load. Requests have no intended start, so there is no response time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ClosedLatency {
    /// Request times by outcome.
    pub requests: ByOutcome<ServiceTimes>,
    /// Connect times of established connections.
    pub connect: TimeDistribution<ConnectTime>,
}

impl ClosedLatency {
    /// Records a request that was sent.
    pub fn record(&mut self, outcome: RequestOutcome, times: RequestTimes) {
        self.requests.get_or_create(outcome).record(outcome, times);
    }

    /// Adds the latencies of another thread.
    pub fn merge(&mut self, other: &ClosedLatency) {
        self.requests.merge(&other.requests);
        self.connect.merge(&other.connect);
    }

    /// Clears the times but keeps the allocated memory.
    pub fn clear(&mut self) {
        self.requests.clear();
        self.connect.clear();
    }
}

// An open load records service time, response time from the intended start, and lag.

/// Times since sending and since the intended start.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OpenTimes {
    /// Times since sending, without correction for lag.
    pub sent: ServiceTimes,
    /// From the intended start to the last byte.
    pub response: TimeDistribution<ResponseTime>,
    /// The response time of each request, minus the generator's own lag; empty in older files.
    #[serde(default)]
    pub punctual: TimeDistribution<PunctualTime>,
}

impl OutcomeSet for OpenTimes {
    fn merge(&mut self, other: &OpenTimes) {
        self.sent.merge(&other.sent);
        self.response.merge(&other.response);
        self.punctual.merge(&other.punctual);
    }

    fn clear(&mut self) {
        self.sent.clear();
        self.response.clear();
        self.punctual.clear();
    }
}

/// State of the connection on which a request is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ConnectionLag {
    /// Time at which the connection became free, in nanoseconds since the start of the load.
    pub since_ns: u64,
    /// Own lag of the previous request, as returned by [`OpenLatency::record_sent`]; 0 for a new
    /// connection.
    pub own_lag_ns: u64,
}

/// The intended start of a request, and the delay caused by the generator alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IntendedStart {
    /// Intended start, in nanoseconds since the start of the load.
    pub due_ns: u64,
    /// Own lag of the request, as returned by [`OpenLatency::record_sent`].
    pub own_lag_ns: u64,
}

/// Latency of an open load.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OpenLatency {
    /// Request times by outcome.
    pub requests: ByOutcome<OpenTimes>,
    /// Delay between the intended start and sending.
    pub lag: TimeDistribution<SendLag>,
    /// The part of the lag that busy connections do not explain.
    pub own_lag: TimeDistribution<GeneratorLag>,
    /// Connect times of established connections.
    pub connect: TimeDistribution<ConnectTime>,
}

impl OpenLatency {
    /// Records that a request with the intended start `intended_ns` is sent. Returns the request's
    /// own lag, to be kept with the connection for its next request.
    ///
    /// The wait for a busy connection counts as the server's lag, and any further delay as our own.
    /// But if we sent the previous request on the connection late, the wait counts as our own lag,
    /// up to that request's own lag. Otherwise, a generator that slept for a second would blame the
    /// server for the queue behind the first late request.
    pub fn record_sent(
        &mut self,
        intended_ns: u64,
        connection: ConnectionLag,
        sent_ns: u64,
    ) -> u64 {
        self.lag.record(sent_ns.saturating_sub(intended_ns));
        let waited_ns = connection.since_ns.saturating_sub(intended_ns);
        let late_ns = sent_ns.saturating_sub(intended_ns.max(connection.since_ns));
        let own_ns = late_ns + waited_ns.min(connection.own_lag_ns);
        self.own_lag.record(own_ns);
        own_ns
    }

    /// Records a request that was sent.
    pub fn record(
        &mut self,
        outcome: RequestOutcome,
        intended: IntendedStart,
        times: RequestTimes,
    ) {
        let set = self.requests.get_or_create(outcome);
        set.sent.record(outcome, times);
        let response_ns = times.end_ns.saturating_sub(intended.due_ns);
        record_time(&mut set.response, outcome, response_ns);
        let punctual_ns = response_ns.saturating_sub(intended.own_lag_ns);
        record_time(&mut set.punctual, outcome, punctual_ns);
    }

    /// Records a request that was due but not sent. Its age is a lower bound of the response time.
    pub fn record_unsent(&mut self, intended: IntendedStart, end_ns: u64) {
        let set = self.requests.get_or_create(RequestOutcome::Unsent);
        let age_ns = end_ns.saturating_sub(intended.due_ns);
        set.response.record_lower_bound(age_ns);
        let punctual_ns = age_ns.saturating_sub(intended.own_lag_ns);
        set.punctual.record_lower_bound(punctual_ns);
    }

    /// Adds the latencies of another thread.
    pub fn merge(&mut self, other: &OpenLatency) {
        self.requests.merge(&other.requests);
        self.lag.merge(&other.lag);
        self.own_lag.merge(&other.own_lag);
        self.connect.merge(&other.connect);
    }

    /// Clears the times but keeps the allocated memory.
    pub fn clear(&mut self) {
        self.requests.clear();
        self.lag.clear();
        self.own_lag.clear();
        self.connect.clear();
    }
}

// Times of one quantity.

/// Recorded times of one kind. All kinds can be read as [`TimeValues`], but only times of the same
/// kind can be merged.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeDistribution<K> {
    values: TimeValues,
    kind: PhantomData<K>,
}

impl<K> Default for TimeDistribution<K> {
    fn default() -> TimeDistribution<K> {
        TimeDistribution { values: TimeValues::default(), kind: PhantomData }
    }
}

impl<K> Deref for TimeDistribution<K> {
    type Target = TimeValues;

    fn deref(&self) -> &TimeValues {
        &self.values
    }
}

impl<K: TimeQuantity> TimeDistribution<K> {
    /// Creates an empty distribution.
    pub fn new() -> TimeDistribution<K> {
        TimeDistribution::default()
    }

    /// Adds a time.
    pub fn record(&mut self, ns: u64) {
        self.values.record_n(ns, 1);
    }

    /// Adds the time of an unfinished request: a lower bound of the true time.
    pub fn record_lower_bound(&mut self, ns: u64) {
        self.values.record_lower_bound(ns);
    }

    /// Adds `count` equal times.
    fn record_n(&mut self, ns: u64, count: u64) {
        self.values.record_n(ns, count);
    }

    /// Merges the values of another thread or process. Order and grouping do not matter.
    pub fn merge(&mut self, other: &TimeDistribution<K>) {
        self.values.merge(&other.values);
    }

    /// Clears the values but keeps the allocated memory for the next snapshot.
    pub fn clear(&mut self) {
        self.values.clear();
    }
}

/// A quantity in nanoseconds.
pub trait TimeQuantity {
    /// Stable name in files.
    const NAME: &'static str;
}

macro_rules! kinds {
    ($($(#[$text:meta])* $kind:ident = $name:literal;)*) => {$(
        $(#[$text])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $kind {}

        impl TimeQuantity for $kind {
            const NAME: &'static str = $name;
        }
    )*};
}

kinds! {
    /// From sending a request to the last byte of its response: the time of server and network.
    ServiceTime = "service";
    /// From sending a request to the first byte of its response.
    FirstByteTime = "first-byte";
    /// From the intended start of a request to the last byte of its response: the longest delay
    /// that a user could have experienced. Open model only.
    ResponseTime = "response";
    /// [`ResponseTime`] minus the generator's own lag: the shortest delay that a user could have
    /// experienced.
    PunctualTime = "punctual";
    /// From the intended start to sending.
    SendLag = "lag";
    /// The part of the lag that the generator itself caused, because it was late.
    GeneratorLag = "own-lag";
    /// From the start of a connection attempt to a usable connection, including TLS if requested.
    ConnectTime = "connect";
}

// The code below stores recorded times, with their exact count, sum, minimum and maximum.

/// Upper limit of the histogram: one hour.
pub const MAX_RECORDABLE_NS: u64 = 3_600_000_000_000;

/// Significant digits of a recorded value: a quantile is off by at most 0.1%.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Maximum number of recorded times that are kept individually. If there are more, a histogram is
/// used. A histogram takes 270 kB. Creating, merging, reading or clearing it costs the same for a
/// handful of values as for millions.
const MAX_INDIVIDUAL: usize = 2048;

/// A quantile is marked as a lower bound if unfinished requests could shift it by more than this
/// factor.
const LOWER_BOUND_TOLERANCE: f64 = 1.01;

/// Recorded times in nanoseconds, regardless of the quantity. A small number of values takes up to
/// 16 kB, and more values take 270 kB.
#[derive(Debug, Clone)]
pub struct TimeValues {
    /// The individual values within range, until there are too many. Then all move to the
    /// histogram, which is empty before that.
    early: Vec<u64>,
    /// Created on demand, then kept.
    histogram: Option<Histogram<u64>>,
    moments: ExactSums,
    beyond: u64,
    lower_bounds: u64,
    min_lower_bound_ns: u64,
}

/// Sums of integers, which do not depend on the order of addition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ExactSums {
    min_ns: u64,
    max_ns: u64,
    sum: u128,
    sum_of_squares: u128,
}

impl ExactSums {
    const EMPTY: ExactSums = ExactSums { min_ns: u64::MAX, max_ns: 0, sum: 0, sum_of_squares: 0 };
}

impl Default for TimeValues {
    fn default() -> TimeValues {
        TimeValues {
            early: Vec::new(),
            histogram: None,
            moments: ExactSums::EMPTY,
            beyond: 0,
            lower_bounds: 0,
            min_lower_bound_ns: u64::MAX,
        }
    }
}

/// Creates an empty histogram.
fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, MAX_RECORDABLE_NS, SIGNIFICANT_DIGITS)
        .unwrap_or_else(|_| unreachable!("1 ns to 1 h with 3 digits is a legal histogram"))
}

/// A histogram that is always empty, used to look up bin boundaries.
fn bin_reference() -> &'static Histogram<u64> {
    static RULER: OnceLock<Histogram<u64>> = OnceLock::new();
    RULER.get_or_init(new_histogram)
}

impl TimeValues {
    /// Adds the time of an unfinished request: a lower bound of the true time.
    fn record_lower_bound(&mut self, ns: u64) {
        self.lower_bounds += 1;
        self.min_lower_bound_ns = self.min_lower_bound_ns.min(ns);
        self.record_n(ns, 1);
    }

    /// Adds `count` equal times.
    fn record_n(&mut self, ns: u64, count: u64) {
        let moments = &mut self.moments;
        moments.min_ns = moments.min_ns.min(ns);
        moments.max_ns = moments.max_ns.max(ns);
        let sum = u128::from(ns) * u128::from(count);
        moments.sum = moments.sum.saturating_add(sum);
        let squares = sum.saturating_mul(u128::from(ns));
        moments.sum_of_squares = moments.sum_of_squares.saturating_add(squares);
        if ns <= MAX_RECORDABLE_NS { self.store_times(ns, count) } else { self.beyond += count }
    }

    fn store_times(&mut self, ns: u64, count: u64) {
        if count == 1 && self.early.len() < MAX_INDIVIDUAL && self.recorded_in_histogram() == 0 {
            self.early.push(ns);
            return;
        }
        self.move_to_histogram()
            .record_n(ns, count)
            .unwrap_or_else(|_| unreachable!("the histogram covers all values up to 1 h"));
    }

    fn recorded_in_histogram(&self) -> u64 {
        self.histogram.as_ref().map_or(0, Histogram::len)
    }

    fn move_to_histogram(&mut self) -> &mut Histogram<u64> {
        let histogram = self.histogram.get_or_insert_with(new_histogram);
        for ns in self.early.drain(..) {
            histogram
                .record(ns)
                .unwrap_or_else(|_| unreachable!("the histogram covers all values up to 1 h"));
        }
        histogram
    }

    /// Returns all values within range as one histogram.
    fn to_histogram(&self) -> Cow<'_, Histogram<u64>> {
        if self.early.is_empty() {
            Cow::Borrowed(self.histogram.as_ref().unwrap_or(bin_reference()))
        } else {
            let mut all = self.clone();
            all.move_to_histogram();
            Cow::Owned(all.histogram.unwrap_or_else(new_histogram))
        }
    }

    /// Iterates over the non-empty histogram bins in ascending order. Yields the largest value of
    /// each bin and the number of values in it.
    fn recorded_bins(&self) -> Box<dyn Iterator<Item = (u64, u64)> + '_> {
        if let Some(histogram) = self.histogram.as_ref().filter(|all| !all.is_empty()) {
            let bins = histogram.iter_recorded();
            return Box::new(bins.map(|bin| (bin.value_iterated_to(), bin.count_at_value())));
        }
        let greatest = |ns: &u64| bin_reference().highest_equivalent(*ns);
        let mut early: Vec<u64> = self.early.iter().map(greatest).collect();
        early.sort_unstable();
        let bins = early.chunk_by(|a, b| a == b);
        let bins: Vec<(u64, u64)> = bins.map(|bin| (bin[0], bin.len() as u64)).collect();
        Box::new(bins.into_iter())
    }

    /// Merges the values of another thread or process. Order and grouping do not matter.
    fn merge(&mut self, other: &TimeValues) {
        if other.count() == 0 {
            return;
        }
        match other.histogram.as_ref().filter(|all| !all.is_empty()) {
            None => other.early.iter().for_each(|ns| self.store_times(*ns, 1)),
            Some(histogram) => self
                .move_to_histogram()
                .add(histogram)
                .unwrap_or_else(|_| unreachable!("all histograms have the same bounds")),
        }
        let (mine, theirs) = (&mut self.moments, &other.moments);
        mine.min_ns = mine.min_ns.min(theirs.min_ns);
        mine.max_ns = mine.max_ns.max(theirs.max_ns);
        mine.sum = mine.sum.saturating_add(theirs.sum);
        mine.sum_of_squares = mine.sum_of_squares.saturating_add(theirs.sum_of_squares);
        self.beyond += other.beyond;
        self.lower_bounds += other.lower_bounds;
        self.min_lower_bound_ns = self.min_lower_bound_ns.min(other.min_lower_bound_ns);
    }

    /// Clears the values but keeps the allocated memory for the next snapshot.
    fn clear(&mut self) {
        if self.count() == 0 {
            return;
        }
        self.early.clear();
        if let Some(histogram) = self.histogram.as_mut().filter(|all| !all.is_empty()) {
            histogram.reset();
        }
        self.moments = ExactSums::EMPTY;
        self.beyond = 0;
        self.lower_bounds = 0;
        self.min_lower_bound_ns = u64::MAX;
    }

    /// Number of values, including values beyond the range.
    pub fn count(&self) -> u64 {
        self.recorded_in_histogram() + self.early.len() as u64 + self.beyond
    }

    /// The quantile at `ppm` parts per million: 990 000 is the 99th percentile. The quantile is the
    /// value of rank ceil(ppm / 1 000 000 * count). It is at most 0.1% too large.
    pub fn quantile(&self, ppm: u32) -> Option<TimeQuantile> {
        self.quantiles(&[ppm]).into_iter().next().flatten()
    }

    /// Computes several quantiles in one pass; `ppm` must be ascending.
    pub fn quantiles(&self, ppm: &[u32]) -> Vec<Option<TimeQuantile>> {
        let rank_of = |ppm: &u32| (self.count() > 0).then(|| quantile_rank(*ppm, self.count()));
        let ranks: Vec<Option<u64>> = ppm.iter().map(rank_of).collect();
        let values = self.values_at(ranks.iter().flatten().copied());
        // In the worst case, all unfinished requests would have taken longer than all finished
        // requests. The quantile is then higher by as many ranks as there are unfinished requests.
        let moved = |rank: &u64| (rank + self.lower_bounds).min(self.count());
        let moved = match self.lower_bounds {
            0 => values.clone(),
            _ => self.values_at(ranks.iter().flatten().map(moved)),
        };
        let mut known = values.into_iter().zip(moved);
        ranks
            .into_iter()
            .map(|rank| {
                let (rank, (value_ns, moved_ns)) = rank.zip(known.next())?;
                Some(self.quantile_at(rank, value_ns, moved_ns))
            })
            .collect()
    }

    /// Returns the values at `ranks`, which must be ascending; `None` for values beyond the range.
    fn values_at(&self, ranks: impl Iterator<Item = u64>) -> Vec<Option<u64>> {
        let mut bins = self.recorded_bins();
        let (mut passed, mut value_ns) = (0, 0);
        ranks
            .map(|rank| {
                while passed < rank {
                    let Some((max_ns, count)) = bins.next() else { break };
                    passed += count;
                    value_ns = max_ns;
                }
                (passed >= rank).then_some(value_ns)
            })
            .collect()
    }

    fn quantile_at(&self, rank: u64, value_ns: Option<u64>, moved_ns: Option<u64>) -> TimeQuantile {
        let ExactSums { min_ns, max_ns, .. } = self.moments;
        let is_last = rank == self.count();
        let ns = match value_ns {
            _ if is_last => max_ns,
            // The end of the bin may lie outside the recorded range.
            Some(ns) => ns.clamp(min_ns, max_ns),
            None => MAX_RECORDABLE_NS,
        };
        let has_no_place = value_ns.is_none() && !is_last;
        // Unfinished requests with times above this quantile do not change it. A few unfinished
        // requests with times below it hardly change it if many values are similar.
        let is_beyond = rank + self.lower_bounds > self.count();
        let moves = is_beyond
            || moved_ns.is_none_or(|moved| moved as f64 > ns as f64 * LOWER_BOUND_TOLERANCE);
        TimeQuantile {
            ns,
            is_lower_bound: has_no_place || (ns >= self.min_lower_bound_ns && moves),
        }
    }
}

/// All values, in parts per million.
pub const ALL_PPM: u32 = 1_000_000;

/// Returns the rank, from 1, of the quantile at `ppm` parts per million among `count` values.
pub fn quantile_rank(ppm: u32, count: u64) -> u64 {
    let product = u128::from(ppm.min(ALL_PPM)) * u128::from(count);
    (product.div_ceil(u128::from(ALL_PPM)) as u64).max(1)
}

/// Whether the quantile at `ppm` parts per million of `count` requests is that of a failed request,
/// which has no time and counts as slower than any other.
pub fn is_reached_by_failures(ppm: u32, failed: u64, count: u64) -> bool {
    failed > 0 && quantile_rank(ppm, count) > count.saturating_sub(failed)
}

/// A time that a given fraction of the values does not exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeQuantile {
    /// The time in nanoseconds.
    pub ns: u64,
    /// Whether the true value may be higher because of unfinished requests or values beyond the
    /// range.
    pub is_lower_bound: bool,
}
