//! How long requests took, and what may be said about it.
//!
//! Every quantity has a type of its own, so the time since a request was sent and the time since it
//! was due cannot be added to one histogram, and a closed load has no response time to ask for.
//! What a histogram cannot hold is counted beside it. Start reading at [`Distribution`], then
//! [`ClosedLatency`] and [`OpenLatency`], which record, then [`OpenVerdict`], which judges.

mod distribution;
mod log;

pub use distribution::{
    AB_PERCENTS, Bin, Connect, Distribution, FirstByte, HIGHEST_NS, Kind, Lag, OwnLag, Punctual,
    Quantile, Response, Served, Service, Values, every_percent, percentage_served,
};
pub use log::{LogError, LogRow, Logged, read_log, write_log};

use crate::outcomes::ErrorClass;
use serde::{Deserialize, Serialize};

// Latencies apart by what became of the request.

/// What became of a request whose times are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Answered well.
    Ok,
    /// Failed in some way.
    Failed(ErrorClass),
    /// Still without an end when the load ended; its times are lower bounds.
    InFlight,
    /// Given up by the client; its times are lower bounds.
    Cancelled,
    /// Due but never sent; its response time is a lower bound.
    Unsent,
}

/// Places for every outcome: those of [`Outcome`] besides the classes are four.
const PLACES: usize = ErrorClass::COUNT + 4;

impl Outcome {
    /// The name in files, the same as in [`crate::outcomes::OutcomeCounts::rows`].
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::Failed(class) => class.name(),
            Outcome::InFlight => "in-flight",
            Outcome::Cancelled => "cancelled",
            Outcome::Unsent => "unsent",
        }
    }

    /// The outcome with this name.
    pub fn from_name(name: &str) -> Option<Outcome> {
        Outcome::every().find(|outcome| outcome.name() == name)
    }

    /// Whether the request has come to an end, so that its times are whole.
    pub fn is_over(self) -> bool {
        matches!(self, Outcome::Ok | Outcome::Failed(_))
    }

    fn place(self) -> usize {
        match self {
            Outcome::Ok => 0,
            Outcome::Failed(class) => 1 + class.index(),
            Outcome::InFlight => PLACES - 3,
            Outcome::Cancelled => PLACES - 2,
            Outcome::Unsent => PLACES - 1,
        }
    }

    fn every() -> impl Iterator<Item = Outcome> {
        let last = [Outcome::InFlight, Outcome::Cancelled, Outcome::Unsent];
        std::iter::once(Outcome::Ok)
            .chain(ErrorClass::every().map(Outcome::Failed))
            .chain(last)
    }
}

/// A set of distributions that is kept for each outcome.
pub trait Timed: Default {
    /// Adds another set.
    fn merge(&mut self, other: &Self);

    /// Empties it and keeps its memory.
    fn clear(&mut self);
}

/// One set per outcome. That of good answers is there from the start; any other is made when its
/// outcome first happens, once in a load, and never again.
#[derive(Debug, Clone, PartialEq)]
pub struct ByOutcome<T> {
    sets: [Option<Box<T>>; PLACES],
}

impl<T: Timed> Default for ByOutcome<T> {
    fn default() -> ByOutcome<T> {
        let mut sets = [const { None }; PLACES];
        sets[Outcome::Ok.place()] = Some(Box::default());
        ByOutcome { sets }
    }
}

impl<T: Timed> ByOutcome<T> {
    /// The set of an outcome, if it happened.
    pub fn get(&self, outcome: Outcome) -> Option<&T> {
        self.sets[outcome.place()].as_deref()
    }

    /// The set of good answers.
    pub fn ok(&self) -> &T {
        self.get(Outcome::Ok)
            .unwrap_or_else(|| unreachable!("the set of good answers is there from the start"))
    }

    /// The outcomes that happened, with their sets, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = (Outcome, &T)> {
        Outcome::every().filter_map(|outcome| Some((outcome, self.get(outcome)?)))
    }

    /// All outcomes in one set.
    pub fn merged(&self) -> T {
        let mut all = T::default();
        self.iter().for_each(|(_, set)| all.merge(set));
        all
    }

    fn entry(&mut self, outcome: Outcome) -> &mut T {
        self.sets[outcome.place()].get_or_insert_default()
    }

    /// Empties every set and keeps its memory.
    pub fn clear(&mut self) {
        self.sets.iter_mut().flatten().for_each(|set| set.clear());
    }

    /// Adds the sets of another thread.
    pub fn merge(&mut self, other: &ByOutcome<T>) {
        for (outcome, set) in other.iter() {
            self.entry(outcome).merge(set);
        }
    }
}

// A closed load records service times, and nothing that pretends to know more.

/// The times of one request that was sent, in nanoseconds from the start of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// When it was sent.
    pub sent_ns: u64,
    /// When the first byte of its answer came.
    pub first_byte_ns: Option<u64>,
    /// When it ended, or when the load did.
    pub end_ns: u64,
}

/// Times from sending on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ServiceTimes {
    /// To the last byte.
    pub service: Distribution<Service>,
    /// To the first byte.
    pub first_byte: Distribution<FirstByte>,
}

impl Timed for ServiceTimes {
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
    fn record(&mut self, outcome: Outcome, times: Times) {
        record(
            &mut self.service,
            outcome,
            times.end_ns.saturating_sub(times.sent_ns),
        );
        if let Some(first_byte_ns) = times.first_byte_ns {
            self.first_byte
                .record(first_byte_ns.saturating_sub(times.sent_ns));
        }
    }
}

/// Records a time that is a lower bound unless the request is over.
fn record<K: Kind>(times: &mut Distribution<K>, outcome: Outcome, ns: u64) {
    if outcome.is_over() {
        times.record(ns)
    } else {
        times.record_lower_bound(ns)
    }
}

/// Latencies of a closed load. There is no intended start, so there is no response time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ClosedLatency {
    /// Times of requests, by what became of them.
    pub requests: ByOutcome<ServiceTimes>,
    /// Times of connections that came about.
    pub connect: Distribution<Connect>,
}

impl ClosedLatency {
    /// Records a request that was sent.
    pub fn record(&mut self, outcome: Outcome, times: Times) {
        self.requests.entry(outcome).record(outcome, times);
    }

    /// Adds the latencies of another thread.
    pub fn merge(&mut self, other: &ClosedLatency) {
        self.requests.merge(&other.requests);
        self.connect.merge(&other.connect);
    }

    /// Forgets the times and keeps the memory.
    pub fn clear(&mut self) {
        self.requests.clear();
        self.connect.clear();
    }
}

// An open load records service time, response time from the intended start, and lag.

/// Times from sending on, and from the intended start on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OpenTimes {
    /// From sending on; not corrected.
    pub sent: ServiceTimes,
    /// From the intended start to the last byte.
    pub response: Distribution<Response>,
    /// The same less the own lag of each request; empty in files that were written without it.
    #[serde(default)]
    pub punctual: Distribution<Punctual>,
}

impl Timed for OpenTimes {
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

/// The connection that a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Freed {
    /// Since when it had been free, in nanoseconds from the start of the load.
    pub since_ns: u64,
    /// The own lag of the request before, as [`OpenLatency::sent`] gave it; 0 for a new connection.
    pub own_lag_ns: u64,
}

/// When a request was to be sent, and how much later the generator alone made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Intended {
    /// When it was due, in nanoseconds from the start of the load.
    pub due_ns: u64,
    /// Its own lag, as [`OpenLatency::sent`] gave it.
    pub own_lag_ns: u64,
}

/// Latencies of an open load.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OpenLatency {
    /// Times of requests, by what became of them.
    pub requests: ByOutcome<OpenTimes>,
    /// How long after its intended start each request was sent.
    pub lag: Distribution<Lag>,
    /// The part of the lag that busy connections do not explain.
    pub own_lag: Distribution<OwnLag>,
    /// Times of connections that came about.
    pub connect: Distribution<Connect>,
}

impl OpenLatency {
    /// Records that a request intended for `intended_ns` is sent over a connection, and returns the
    /// own lag, which the connection keeps for the request after it.
    ///
    /// What was waited for a busy connection is the server's lag, and what was waited after that is
    /// our own. A connection that is busy because its last request was sent late is our own lag
    /// again, up to the lateness of that request; otherwise a generator that slept a second would
    /// blame the queue behind its first late request on the server.
    pub fn sent(&mut self, intended_ns: u64, connection: Freed, sent_ns: u64) -> u64 {
        self.lag.record(sent_ns.saturating_sub(intended_ns));
        let waited_ns = connection.since_ns.saturating_sub(intended_ns);
        let late_ns = sent_ns.saturating_sub(intended_ns.max(connection.since_ns));
        let own_ns = late_ns + waited_ns.min(connection.own_lag_ns);
        self.own_lag.record(own_ns);
        own_ns
    }

    /// Records a request that was sent.
    pub fn record(&mut self, outcome: Outcome, intended: Intended, times: Times) {
        let set = self.requests.entry(outcome);
        set.sent.record(outcome, times);
        let response_ns = times.end_ns.saturating_sub(intended.due_ns);
        record(&mut set.response, outcome, response_ns);
        let punctual_ns = response_ns.saturating_sub(intended.own_lag_ns);
        record(&mut set.punctual, outcome, punctual_ns);
    }

    /// Records a request that was due but not sent: its age is a lower bound of its response time.
    pub fn unsent(&mut self, intended: Intended, end_ns: u64) {
        let set = self.requests.entry(Outcome::Unsent);
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

    /// Forgets the times and keeps the memory.
    pub fn clear(&mut self) {
        self.requests.clear();
        self.lag.clear();
        self.own_lag.clear();
        self.connect.clear();
    }
}

// A response time between two bounds: from when its request was due, and that less what the generator
// was late by.

/// Two bounds that differ by no more than this are one figure.
const AGREEMENT: f64 = 1.05;

/// A range wider than this factor says nothing ...
const WIDEST: f64 = 2.0;

/// ... unless it is narrower than this: what a timer with a millisecond's resolution and one missed turn on a
/// processor amount to is reported as what it is.
const NARROW_NS: f64 = 1e6;

/// Whether two bounds in nanoseconds are one figure.
pub fn bounds_agree(low_ns: f64, high_ns: f64) -> bool {
    high_ns <= low_ns * AGREEMENT
}

/// Whether two bounds in nanoseconds are so far apart that neither may be reported.
pub fn is_range_too_wide(low_ns: f64, high_ns: f64) -> bool {
    high_ns > low_ns * WIDEST && high_ns - low_ns > NARROW_NS
}

impl OpenTimes {
    /// The lower bounds; `None` where lateness was not kept with every request.
    pub fn low(&self) -> Option<&Distribution<Punctual>> {
        let is_kept = self.punctual.count() == self.response.count();
        is_kept.then_some(&self.punctual)
    }

    /// Whether the bounds of these quantiles are too far apart; shares in millionths, ascending. `None` where
    /// lateness was not kept.
    pub fn are_too_wide(&self, ppm: &[u32]) -> Option<Vec<bool>> {
        let lows = self.low()?.quantiles(ppm);
        let both = lows.into_iter().zip(self.response.quantiles(ppm));
        let is_wide = |(low, high)| {
            let ns = |known: Option<Quantile>| known.map_or(0.0, |known| known.ns as f64);
            is_range_too_wide(ns(low), ns(high))
        };
        Some(both.map(is_wide).collect())
    }

    /// The same of the means.
    pub fn is_mean_too_wide(&self) -> Option<bool> {
        let low = self.low()?.mean_ns().unwrap_or(0.0);
        let high = self.response.mean_ns().unwrap_or(0.0);
        Some(is_range_too_wide(low, high))
    }
}

// Whether a load was the one that was asked for, and whether the generator could keep up.

/// Below this share of the asked concurrency a closed load is warned about.
pub const LEAST_CONCURRENCY: f64 = 0.95;

/// Below this share of the offered rate the tail is not reported.
pub const LEAST_ACHIEVED: f64 = 0.98;

/// An own lag of up to a millisecond is never held against a generator: it is what timers with a
/// millisecond's resolution and one missed turn on a processor amount to.
const OWN_LAG_FLOOR_NS: u64 = 1_000_000;

/// Above the floor, the own lag may make up a tenth of the response time that it is part of.
const OWN_LAG_SHARE: f64 = 0.1;

/// The percentile at which lag and response time are compared, in millionths.
const TAIL_PPM: u32 = 990_000;

/// Requests on their way on average, by Little's law: rate times mean service time, which is the sum
/// of the service times over the duration (Little 1961). `None` without a duration.
pub fn effective_concurrency(service: &Distribution<Service>, elapsed_ns: u64) -> Option<f64> {
    (elapsed_ns > 0).then(|| service.sum_ns() as f64 / elapsed_ns as f64)
}

/// Whether fewer requests were on their way than asked for, so that the load was not that load.
pub fn is_concurrency_short(effective: f64, requested: u32) -> bool {
    effective < LEAST_CONCURRENCY * f64::from(requested)
}

/// Requests that were due, and those of them that were sent, up to the end of the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Achieved {
    /// By the schedule.
    pub due: u64,
    /// In time, or late but before the end.
    pub sent: u64,
}

impl Achieved {
    /// The share that was sent; all, when none was due.
    pub fn share(self) -> f64 {
        match self.due {
            0 => 1.0,
            due => self.sent as f64 / due as f64,
        }
    }
}

/// What is to be said about an open load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OpenVerdict {
    /// The share of the due requests that was sent.
    pub achieved: f64,
    /// The 99th percentile of the lag that busy connections do not explain, in nanoseconds.
    pub own_lag_p99_ns: u64,
    /// What it may be at most.
    pub own_lag_limit_ns: u64,
}

impl OpenVerdict {
    /// Judges a load.
    pub fn judge(latency: &OpenLatency, achieved: Achieved) -> OpenVerdict {
        let response = latency.requests.merged().response;
        let p99_ns = response.quantile(TAIL_PPM).map_or(0, |value| value.ns);
        let own = latency
            .own_lag
            .quantile(TAIL_PPM)
            .map_or(0, |value| value.ns);
        let allowed_ns = (p99_ns as f64 * OWN_LAG_SHARE) as u64;
        OpenVerdict {
            achieved: achieved.share(),
            own_lag_p99_ns: own,
            own_lag_limit_ns: allowed_ns.max(OWN_LAG_FLOOR_NS),
        }
    }

    /// The lag is the generator's own, not the server's: its figures are refused.
    pub fn is_generator_limited(&self) -> bool {
        self.own_lag_p99_ns > self.own_lag_limit_ns
    }

    /// Too few of the due requests were sent: what the others would have met is not known.
    pub fn is_rate_missed(&self) -> bool {
        self.achieved < LEAST_ACHIEVED
    }

    /// Whether the tail of the response time may be reported.
    pub fn allows_tail(&self) -> bool {
        !self.is_generator_limited() && !self.is_rate_missed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_agree_within_five_percent_and_say_nothing_beyond_a_factor_of_two() {
        let ms = 1e6;
        assert!(bounds_agree(100.0 * ms, 105.0 * ms) && !bounds_agree(100.0 * ms, 106.0 * ms));
        assert!(bounds_agree(0.0, 0.0));
        assert!(
            is_range_too_wide(10.0 * ms, 20.1 * ms) && !is_range_too_wide(10.0 * ms, 20.0 * ms)
        );
        // A fast server: most of it is lateness, and still less than a millisecond of it.
        assert!(!is_range_too_wide(0.1 * ms, 1.0 * ms) && is_range_too_wide(0.1 * ms, 1.2 * ms));
    }
}
