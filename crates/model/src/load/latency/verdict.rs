//! Judges how far the latency of a load can be trusted: whether the load was delivered as requested,
//! and whether the generator kept up. Start at [`OpenVerdict`].

use super::{OpenLatency, OpenTimes, TimeDistribution, TimeQuantile};

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
    pub fn lower_bounds(&self) -> Option<&TimeDistribution> {
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
        let is_too_wide = |low: &TimeDistribution| {
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
pub fn effective_concurrency(service: &TimeDistribution, elapsed_ns: u64) -> Option<f64> {
    (elapsed_ns > 0).then(|| service.sum_ns() as f64 / elapsed_ns as f64)
}

/// Whether too few requests were in flight, compared with the requested concurrency.
pub fn is_concurrency_short(effective: f64, requested: u32) -> bool {
    effective < MIN_CONCURRENCY_SHARE * f64::from(requested)
}

/// Assessment of an open load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OpenVerdict {
    /// Fraction of the due requests that was sent; 1 if none was due.
    pub achieved: f64,
    /// 99th percentile of the generator's own lag, in nanoseconds.
    pub own_lag_p99_ns: u64,
    /// Upper limit for [`OpenVerdict::own_lag_p99_ns`].
    pub own_lag_limit_ns: u64,
}

impl OpenVerdict {
    /// Assesses a load of which `due` requests were due by the end of the schedule, and `sent` of
    /// them were sent before the end, on time or late.
    pub fn assess(latency: &OpenLatency, due: u64, sent: u64) -> OpenVerdict {
        let response = latency.requests.merge_all().response;
        let p99_ns = response.quantile(TAIL_PPM).map_or(0, |value| value.ns);
        let own = latency.own_lag.quantile(TAIL_PPM).map_or(0, |value| value.ns);
        let allowed_ns = (p99_ns as f64 * MAX_LAG_SHARE) as u64;
        OpenVerdict {
            achieved: if due == 0 { 1.0 } else { sent as f64 / due as f64 },
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
