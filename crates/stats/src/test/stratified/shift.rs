//! The shift of logarithms, and its interval, by inverting the test's normal approximation.
//!
//! Decides how z(theta), a falling step function, is searched. It must not know ratios or p-values.
//! Start at [`interval`].

use super::blocks::Blocks;
use crate::interval::Interval;

/// First bracket of theta: ratios from 0.55 to 1.82, beyond which a change needs no fine search.
const FIRST_BRACKET: f64 = 0.6;

/// The widest bracket tried, a ratio of e^77; a z that has not crossed the limit by then never will.
const WIDEST_BRACKET: f64 = 77.0;

/// Width at which the search stops: a millionth of the finest change anyone measures.
pub(super) const FINE: f64 = 1e-12;

/// Width for figures that are resampled anyway: a ten-thousandth of a percent.
pub(super) const COARSE: f64 = 1e-6;

/// The theta at which z is zero: the middle between the last positive and the first negative z.
pub(super) fn estimate(blocks: &Blocks, resolution: f64) -> f64 {
    let last_positive = crossing(blocks, resolution, |z| z > 0.0);
    let first_negative = crossing(blocks, resolution, |z| z >= 0.0);
    0.5 * (last_positive + first_negative)
}

/// The thetas that are not rejected at `z_limit`; infinite where none is.
pub(super) fn interval(blocks: &Blocks, z_limit: f64) -> Interval {
    Interval {
        low: crossing(blocks, FINE, |z| z > z_limit),
        high: crossing(blocks, FINE, |z| z >= -z_limit),
    }
}

/// The theta at which `is_below(z(theta))` turns from true to false.
///
/// Minus infinity when it is false, plus infinity when it is true for every theta.
fn crossing(blocks: &Blocks, resolution: f64, is_below: impl Fn(f64) -> bool) -> f64 {
    let below = |theta: f64| is_below(blocks.z(theta));
    let (mut low, mut high) = (-FIRST_BRACKET, FIRST_BRACKET);
    while !below(low) {
        if low < -WIDEST_BRACKET {
            return f64::NEG_INFINITY;
        }
        (low, high) = (2.0 * low, low);
    }
    while below(high) {
        if high > WIDEST_BRACKET {
            return f64::INFINITY;
        }
        (low, high) = (high, 2.0 * high);
    }
    while high - low > resolution * high.abs().max(1.0) {
        let middle = low + 0.5 * (high - low);
        if below(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}
