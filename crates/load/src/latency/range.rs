//! A response time between two bounds: from when its request was due, and that less what the generator was late by.

use super::{Distribution, OpenTimes, Punctual};

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

/// Whether two bounds in nanoseconds are so far apart that neither may be told.
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
            let ns = |known: Option<super::Quantile>| known.map_or(0.0, |known| known.ns as f64);
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
