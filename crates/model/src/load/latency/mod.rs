//! Records the latency of requests, and judges how far the latency can be trusted.
//!
//! Each quantity has its own type, so that the time since a request was sent and the time since it
//! was due cannot be mixed in one histogram. A closed load has no response time at all. Start at
//! [`TimeDistribution`]. [`LoadLatency`] records latency, and [`OpenVerdict`] judges it.

mod distribution;
mod log;

pub use distribution::{
    AB_PERCENTS, ConnectTime, FirstByteTime, GeneratorLag, HistogramBin, MAX_RECORDABLE_NS,
    PercentRow, PunctualTime, ResponseTime, SendLag, ServiceTime, TimeDistribution, TimeQuantile,
    TimeQuantity, TimeValues, percent_rows, percent_rows_of,
};
pub use log::{HistogramLogError, HistogramLogRow, LoggedHistogram, read_log, write_log};

use crate::load::outcomes::ErrorClass;
use serde::{Deserialize, Serialize};

// Latency by outcome of the request.

/// Outcome of a request whose times are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestOutcome {
    /// Successful response.
    Ok,
    /// Failed.
    Failed(ErrorClass),
    /// Still in flight when the load ended; its times are lower bounds.
    InFlight,
    /// Cancelled by the client; its times are lower bounds.
    Cancelled,
    /// Due but never sent; its response time is a lower bound.
    Unsent,
}

const OUTCOME_COUNT: usize = ErrorClass::COUNT + 4;

impl RequestOutcome {
    /// Stable name in files, the same as in [`crate::load::outcomes::OutcomeCounts::rows`].
    pub fn name(self) -> &'static str {
        match self {
            RequestOutcome::Ok => "ok",
            RequestOutcome::Failed(class) => class.name(),
            RequestOutcome::InFlight => "in-flight",
            RequestOutcome::Cancelled => "cancelled",
            RequestOutcome::Unsent => "unsent",
        }
    }

    /// Finds an outcome by name.
    pub fn from_name(name: &str) -> Option<RequestOutcome> {
        RequestOutcome::all_outcomes().find(|outcome| outcome.name() == name)
    }

    /// Whether the request has ended, so that its times are complete.
    pub fn has_ended(self) -> bool {
        matches!(self, RequestOutcome::Ok | RequestOutcome::Failed(_))
    }

    fn outcome_index(self) -> usize {
        match self {
            RequestOutcome::Ok => 0,
            RequestOutcome::Failed(class) => 1 + class.index(),
            RequestOutcome::InFlight => OUTCOME_COUNT - 3,
            RequestOutcome::Cancelled => OUTCOME_COUNT - 2,
            RequestOutcome::Unsent => OUTCOME_COUNT - 1,
        }
    }

    fn all_outcomes() -> impl Iterator<Item = RequestOutcome> {
        let last = [RequestOutcome::InFlight, RequestOutcome::Cancelled, RequestOutcome::Unsent];
        std::iter::once(RequestOutcome::Ok)
            .chain(ErrorClass::all_classes().map(RequestOutcome::Failed))
            .chain(last)
    }
}

/// A set of distributions kept per outcome.
pub trait OutcomeSet: Default {
    /// Adds another set.
    fn merge(&mut self, other: &Self);

    /// Clears the set but keeps the allocated memory.
    fn clear(&mut self);
}

/// One set per outcome. The set of successful responses always exists. Every other set is allocated
/// when its outcome first occurs, so at most once per load.
#[derive(Debug, Clone, PartialEq)]
pub struct ByOutcome<T> {
    sets: [Option<Box<T>>; OUTCOME_COUNT],
}

impl<T: OutcomeSet> Default for ByOutcome<T> {
    fn default() -> ByOutcome<T> {
        let mut sets = [const { None }; OUTCOME_COUNT];
        sets[RequestOutcome::Ok.outcome_index()] = Some(Box::default());
        ByOutcome { sets }
    }
}

impl<T: OutcomeSet> ByOutcome<T> {
    /// Returns the set of an outcome, if it occurred.
    pub fn get(&self, outcome: RequestOutcome) -> Option<&T> {
        self.sets[outcome.outcome_index()].as_deref()
    }

    /// The set of successful responses.
    pub fn ok(&self) -> &T {
        self.get(RequestOutcome::Ok)
            .unwrap_or_else(|| unreachable!("the set of successful responses always exists"))
    }

    /// Iterates over `Ok` and the other outcomes that occurred, each with its set. The order is
    /// fixed.
    pub fn iter(&self) -> impl Iterator<Item = (RequestOutcome, &T)> {
        RequestOutcome::all_outcomes().filter_map(|outcome| Some((outcome, self.get(outcome)?)))
    }

    /// Merges all outcomes into one set.
    pub fn merge_all(&self) -> T {
        let mut merged = T::default();
        self.iter().for_each(|(_, set)| merged.merge(set));
        merged
    }

    fn get_or_create(&mut self, outcome: RequestOutcome) -> &mut T {
        self.sets[outcome.outcome_index()].get_or_insert_default()
    }

    /// Clears every set but keeps the allocated memory.
    pub fn clear(&mut self) {
        self.sets.iter_mut().flatten().for_each(|set| set.clear());
    }

    /// Adds the sets of another thread.
    pub fn merge(&mut self, other: &ByOutcome<T>) {
        for (outcome, set) in other.iter() {
            self.get_or_create(outcome).merge(set);
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

    /// Service times of successful responses.
    pub fn service_times(&self) -> &TimeDistribution<ServiceTime> {
        match self {
            LoadLatency::Closed(latency) => &latency.requests.ok().service,
            LoadLatency::Open(latency) => &latency.requests.ok().sent.service,
        }
    }
}

// The true response time lies between two bounds: the time since the intended start, and the same
// time minus the generator's own lag.

/// Bounds that differ by at most this factor are reported as one number.
const AGREEMENT_FACTOR: f64 = 1.05;

/// A range whose bounds differ by more than this factor is not reported, unless the range is
/// narrower than [`MIN_WIDE_RANGE_NS`].
const MAX_RANGE_FACTOR: f64 = 2.0;

/// A range narrower than this is always reported. A timer resolution of one millisecond or one
/// missed time slice can cause such a range.
const MIN_WIDE_RANGE_NS: f64 = 1e6;

/// Whether two bounds in nanoseconds can be reported as a single number.
pub fn bounds_agree(low_ns: f64, high_ns: f64) -> bool {
    high_ns <= low_ns * AGREEMENT_FACTOR
}

/// Whether two bounds in nanoseconds are too far apart to report either.
pub fn is_range_too_wide(low_ns: f64, high_ns: f64) -> bool {
    high_ns > low_ns * MAX_RANGE_FACTOR && high_ns - low_ns > MIN_WIDE_RANGE_NS
}

/// Why a time of an open load is not reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeRefusal {
    /// The generator itself was late, which distorts the times.
    GeneratorLimited,
    /// Too few of the due requests were sent to determine the tail.
    RateMissed,
}

impl OpenTimes {
    /// The lower bounds of the response times; `None` if lag was not recorded for every request.
    pub fn lower_bounds(&self) -> Option<&TimeDistribution<PunctualTime>> {
        let is_kept = self.punctual.count() == self.response.count();
        is_kept.then_some(&self.punctual)
    }

    /// Returns, for each quantile, why it is not reported; `None` if it is reported. `ppm` contains
    /// the ascending quantiles in parts per million. Without recorded lag, `verdict` alone decides.
    pub fn quantile_refusals(
        &self,
        verdict: &OpenVerdict,
        ppm: &[u32],
    ) -> Vec<Option<TimeRefusal>> {
        let too_wide = self
            .are_too_wide(ppm)
            .unwrap_or_else(|| vec![verdict.is_generator_limited(); ppm.len()]);
        let refusal = |(ppm, is_wide): (&u32, bool)| {
            if is_wide {
                Some(TimeRefusal::GeneratorLimited)
            } else {
                (verdict.is_rate_missed() && *ppm >= TAIL_PPM).then_some(TimeRefusal::RateMissed)
            }
        };
        ppm.iter().zip(too_wide).map(refusal).collect()
    }

    /// Same as [`OpenTimes::quantile_refusals`] for the mean.
    pub fn mean_refusal(&self, verdict: &OpenVerdict) -> Option<TimeRefusal> {
        let is_too_wide = |low: &TimeDistribution<PunctualTime>| {
            let high_ns = self.response.mean_ns().unwrap_or(0.0);
            is_range_too_wide(low.mean_ns().unwrap_or(0.0), high_ns)
        };
        let is_refused =
            self.lower_bounds().map_or_else(|| verdict.is_generator_limited(), is_too_wide);
        is_refused.then_some(TimeRefusal::GeneratorLimited)
    }

    /// Whether the bounds of each quantile are too far apart to report either. `None` if lag was
    /// not recorded.
    fn are_too_wide(&self, ppm: &[u32]) -> Option<Vec<bool>> {
        let lows = self.lower_bounds()?.quantiles(ppm);
        let both = lows.into_iter().zip(self.response.quantiles(ppm));
        let is_wide = |(low, high)| {
            let ns = |known: Option<TimeQuantile>| known.map_or(0.0, |known| known.ns as f64);
            is_range_too_wide(ns(low), ns(high))
        };
        Some(both.map(is_wide).collect())
    }
}

// The code below checks whether the load was delivered as requested, and whether the generator kept
// up.

/// There is a warning if a closed load reaches less than this fraction of the requested
/// concurrency.
pub const MIN_CONCURRENCY_SHARE: f64 = 0.95;

/// The tail of the response time is not reported if less than this fraction of the due requests was
/// sent.
pub const MIN_ACHIEVED_SHARE: f64 = 0.98;

/// The generator's own lag up to this value is always tolerated. A timer resolution of one
/// millisecond or one missed time slice can cause such a lag.
const TOLERATED_LAG_NS: u64 = 1_000_000;

/// Above [`TOLERATED_LAG_NS`], the generator's own lag may be at most this fraction of the response
/// time.
const MAX_LAG_SHARE: f64 = 0.1;

/// The percentile, in parts per million, at which the tail begins, and at which lag and response
/// time are compared. A load that missed its rate cannot determine the tail.
const TAIL_PPM: u32 = 990_000;

/// Mean number of requests in flight: the sum of the service times divided by the duration
/// (Little's law, 1961). `None` if the duration is zero.
pub fn effective_concurrency(
    service: &TimeDistribution<ServiceTime>,
    elapsed_ns: u64,
) -> Option<f64> {
    (elapsed_ns > 0).then(|| service.sum_ns() as f64 / elapsed_ns as f64)
}

/// Whether too few requests were in flight, compared with the requested concurrency.
pub fn is_concurrency_short(effective: f64, requested: u32) -> bool {
    effective < MIN_CONCURRENCY_SHARE * f64::from(requested)
}

/// How many requests were due, and how many were sent, by the end of the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AchievedCounts {
    /// Due according to the schedule.
    pub due: u64,
    /// Sent before the end, on time or late.
    pub sent: u64,
}

impl AchievedCounts {
    /// The fraction of the due requests that was sent; 1 if none was due.
    pub fn sent_share(self) -> f64 {
        match self.due {
            0 => 1.0,
            due => self.sent as f64 / due as f64,
        }
    }
}

/// Assessment of an open load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OpenVerdict {
    /// Fraction of the due requests that was sent.
    pub achieved: f64,
    /// 99th percentile of the generator's own lag, in nanoseconds.
    pub own_lag_p99_ns: u64,
    /// Upper limit for [`OpenVerdict::own_lag_p99_ns`].
    pub own_lag_limit_ns: u64,
}

impl OpenVerdict {
    /// Assesses a load.
    pub fn assess(latency: &OpenLatency, achieved: AchievedCounts) -> OpenVerdict {
        let response = latency.requests.merge_all().response;
        let p99_ns = response.quantile(TAIL_PPM).map_or(0, |value| value.ns);
        let own = latency.own_lag.quantile(TAIL_PPM).map_or(0, |value| value.ns);
        let allowed_ns = (p99_ns as f64 * MAX_LAG_SHARE) as u64;
        OpenVerdict {
            achieved: achieved.sent_share(),
            own_lag_p99_ns: own,
            own_lag_limit_ns: allowed_ns.max(TOLERATED_LAG_NS),
        }
    }

    /// Whether the generator was too slow, so that the tail of the response time is not reliable.
    pub fn is_generator_limited(&self) -> bool {
        self.own_lag_p99_ns > self.own_lag_limit_ns
    }

    /// Whether too few of the due requests were sent. The latency of the others is unknown.
    pub fn is_rate_missed(&self) -> bool {
        self.achieved < MIN_ACHIEVED_SHARE
    }

    /// Whether the tail of the response time can be reported.
    pub fn allows_tail(&self) -> bool {
        !self.is_generator_limited() && !self.is_rate_missed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_agree_within_five_percent_and_are_too_wide_beyond_double() {
        let ms = 1e6;
        assert!(bounds_agree(100.0 * ms, 105.0 * ms) && !bounds_agree(100.0 * ms, 106.0 * ms));
        assert!(bounds_agree(0.0, 0.0));
        assert!(
            is_range_too_wide(10.0 * ms, 20.1 * ms) && !is_range_too_wide(10.0 * ms, 20.0 * ms)
        );
        // A fast server: most of the response time is lag, but less than a millisecond.
        assert!(!is_range_too_wide(0.1 * ms, 1.0 * ms) && is_range_too_wide(0.1 * ms, 1.2 * ms));
    }
}
