//! Whether a load was the one that was asked for, and whether the generator could keep up.

use super::{Distribution, OpenLatency, Service};

/// Below this share of the asked concurrency a closed load is warned about.
pub const LEAST_CONCURRENCY: f64 = 0.95;

/// Below this share of the offered rate the tail is not told.
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
pub fn is_concurrency_short(effective: f64, asked: u32) -> bool {
    effective < LEAST_CONCURRENCY * f64::from(asked)
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

    /// Whether the tail of the response time may be told.
    pub fn allows_tail(&self) -> bool {
        !self.is_generator_limited() && !self.is_rate_missed()
    }
}
