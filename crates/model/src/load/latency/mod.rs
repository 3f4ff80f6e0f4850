//! Records the outcomes and the latency of requests, merges them, and computes quantiles.
//!
//! Times are kept apart by quantity and by the outcome of the request. A closed load has no response
//! time at all. Start at [`RequestTotals`], and follow a time through [`LoadLatency::record`] to
//! [`TimeDistribution`]. `verdict.rs` judges how far the latency can be trusted.

mod distribution;
mod log;
mod verdict;

pub use distribution::{
    AB_PERCENTS, ALL_PPM, HistogramBin, MAX_RECORDABLE_NS, PercentRow, TimeDistribution,
    TimeQuantile, is_reached_by_failures, percent_rows, quantile_rank,
};
pub use log::{HistogramLogError, HistogramLogRow, LoggedHistogram, read_log, write_log};
pub use verdict::{
    MIN_ACHIEVED_SHARE, MIN_CONCURRENCY_SHARE, OpenVerdict, TimeRefusal, bounds_agree,
    effective_concurrency, is_concurrency_short, is_range_too_wide,
};

use crate::load::outcomes::{ErrorClass, OutcomeCounts, ResponseStats};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

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
            outcomes: OutcomeCounts::default(),
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
        self.outcomes = OutcomeCounts::default();
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
    pub fn connect_times(&self) -> &TimeDistribution {
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
        let mut remaining = self.clone();
        match &mut remaining {
            LoadLatency::Closed(latency) => latency.requests.drop_failed(),
            LoadLatency::Open(latency) => latency.requests.drop_failed(),
        }
        remaining
    }

    /// Service times of successful responses.
    pub fn service_times(&self) -> &TimeDistribution {
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
    /// Time to the last byte of the response: the time of server and network.
    pub service: TimeDistribution,
    /// Time to the first byte of the response.
    pub first_byte: TimeDistribution,
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
fn record_time(times: &mut TimeDistribution, outcome: RequestOutcome, ns: u64) {
    if outcome.has_ended() { times.record(ns) } else { times.record_lower_bound(ns) }
}

/// Latency of a closed load. Requests have no intended start, so there is no response time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ClosedLatency {
    /// Request times by outcome.
    pub requests: ByOutcome<ServiceTimes>,
    /// From the start of each successful connection attempt to a usable connection, including TLS
    /// if requested.
    pub connect: TimeDistribution,
}

impl ClosedLatency {
    /// Records a request that was sent.
    pub fn record(&mut self, outcome: RequestOutcome, times: RequestTimes) {
        self.requests.get_or_create(outcome).record(outcome, times);
    }
}

// An open load records service time, response time from the intended start, and lag.

/// Times since sending and since the intended start.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OpenTimes {
    /// Times since sending, without correction for lag.
    pub sent: ServiceTimes,
    /// From the intended start to the last byte: the longest delay that a user could have
    /// experienced.
    pub response: TimeDistribution,
    /// The response time of each request, minus the generator's own lag: the shortest delay that a
    /// user could have experienced; empty in older files.
    #[serde(default)]
    pub punctual: TimeDistribution,
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
    pub lag: TimeDistribution,
    /// The part of the lag that busy connections do not explain.
    pub own_lag: TimeDistribution,
    /// From the start of each successful connection attempt to a usable connection, including TLS
    /// if requested.
    pub connect: TimeDistribution,
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
}

// Keeps a set of times for each outcome of a request.

/// Outcome of a request whose times are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// A set of distributions.
pub trait TimeSet: Default {
    /// Adds the set of another thread.
    fn merge(&mut self, other: &Self);

    /// Clears the set but keeps the allocated memory.
    fn clear(&mut self);
}

/// Implements [`TimeSet`] for types, each with its fields.
macro_rules! time_sets {
    ($($set:ty: $($field:ident),+;)+) => {$(
        impl TimeSet for $set {
            fn merge(&mut self, other: &$set) {
                $(self.$field.merge(&other.$field);)+
            }

            fn clear(&mut self) {
                $(self.$field.clear();)+
            }
        }
    )+};
}

time_sets!(
    ServiceTimes: service, first_byte;
    OpenTimes: sent, response, punctual;
    ClosedLatency: requests, connect;
    OpenLatency: requests, lag, own_lag, connect;
);

/// One set per outcome. The set of successful responses always exists. Every other set is allocated
/// when its outcome first occurs, so at most once per load.
#[derive(Debug, Clone, PartialEq)]
pub struct ByOutcome<T> {
    sets: [Option<Box<T>>; OUTCOME_COUNT],
}

impl<T: TimeSet> Default for ByOutcome<T> {
    fn default() -> ByOutcome<T> {
        let mut sets = [const { None }; OUTCOME_COUNT];
        sets[RequestOutcome::Ok.outcome_index()] = Some(Box::default());
        ByOutcome { sets }
    }
}

impl<T: TimeSet> ByOutcome<T> {
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

    /// Drops the sets of failures.
    fn drop_failed(&mut self) {
        for class in ErrorClass::all_classes() {
            self.sets[RequestOutcome::Failed(class).outcome_index()] = None;
        }
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

impl Serialize for RequestOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for RequestOutcome {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        RequestOutcome::from_name(&name)
            .ok_or_else(|| D::Error::custom(format!("unknown outcome '{name}'")))
    }
}

impl<T: TimeSet + Serialize> Serialize for ByOutcome<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de, T: TimeSet + Deserialize<'de>> Deserialize<'de> for ByOutcome<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut sets = ByOutcome::default();
        for (outcome, set) in BTreeMap::<RequestOutcome, T>::deserialize(deserializer)? {
            *sets.get_or_create(outcome) = set;
        }
        Ok(sets)
    }
}
