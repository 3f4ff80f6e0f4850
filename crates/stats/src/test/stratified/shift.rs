//! The shift of logarithms, and its interval, by inverting the test.
//!
//! Decides how a shift is searched. The tails of the permutation distribution are monotone in the shift: lowering the
//! candidate raises no candidate's rank and lowers no baseline's, so that every rearrangement gains on the observed one.
//! Hence the shifts that are not rejected form one interval, and zero lies in it exactly when the test of zero does not
//! reject. It must not know ratios. Start at [`interval`].

use super::blocks::Blocks;
use super::permutation::{is_affordable, tails};
use crate::interval::Interval;

/// First bracket of theta: ratios from 0.55 to 1.82, beyond which a change needs no fine search. Its middle is zero, so
/// that an interval agrees with the test of zero.
const FIRST_BRACKET: f64 = 0.6;

/// The widest bracket tried, a ratio of e^77; a z that has not crossed the limit by then never will.
const WIDEST_BRACKET: f64 = 77.0;

/// Width at which the search stops: a millionth of the finest change anyone measures.
pub(super) const FINE: f64 = 1e-12;

/// Width for figures that are resampled anyway: a ten-thousandth of a percent.
pub(super) const COARSE: f64 = 1e-6;

/// The theta at which z is zero: the middle between the last positive and the first negative z.
pub(super) fn estimate(blocks: &Blocks, resolution: f64) -> f64 {
    let middle = |is_below: &dyn Fn(f64) -> bool| {
        let (low, high) = crossing(resolution, |theta| is_below(blocks.z(theta)));
        0.5 * (low + high)
    };
    0.5 * (middle(&|z| z > 0.0) + middle(&|z| z >= 0.0))
}

/// The thetas that the two-sided test does not reject at `p_limit`; infinite where none is.
pub(super) fn interval(blocks: &Blocks, p_limit: f64) -> Interval {
    let limit = 0.5 * p_limit;
    let is_below = |theta: f64| tails(blocks, theta).upper <= limit;
    let is_above = |theta: f64| tails(blocks, theta).lower <= limit;
    if is_affordable(blocks) {
        let steps = Steps::new(blocks);
        return Interval {
            low: steps.first_beyond(is_below),
            high: steps.last_before(is_above),
        };
    }
    // The end is the outermost shift that was tried and not rejected.
    Interval {
        low: crossing(FINE, is_below).1,
        high: crossing(FINE, |theta| !is_above(theta)).0,
    }
}

/// The shifts at which ranks change: the differences between a candidate's and a baseline's logarithm.
struct Steps(Vec<f64>);

impl Steps {
    fn new(blocks: &Blocks) -> Steps {
        let mut steps: Vec<f64> = blocks.differences().collect();
        steps.sort_unstable_by(f64::total_cmp);
        // Differences that only rounding tells apart are one.
        steps.dedup_by(|next, kept| *next - *kept <= FINE);
        Steps(steps)
    }

    /// A shift before the step of this index and after the one before it.
    fn before(&self, index: usize) -> f64 {
        match (index.checked_sub(1), self.0.get(index)) {
            (None, Some(next)) => next - 1.0,
            (Some(last), Some(next)) => 0.5 * (self.0[last] + next),
            (Some(last), None) => self.0[last] + 1.0,
            (None, None) => 0.0,
        }
    }

    /// How many of the stretches between steps, from the smallest shift on, satisfy what only the first of them do.
    fn count(&self, is_first: impl Fn(f64) -> bool) -> usize {
        let (mut low, mut high) = (0, self.0.len() + 1);
        while low < high {
            let middle = low.midpoint(high);
            if is_first(self.before(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The smallest shift that is not `rejected`, where all below it are.
    fn first_beyond(&self, rejected: impl Fn(f64) -> bool) -> f64 {
        let Some(step) = self.count(&rejected).checked_sub(1) else {
            return f64::NEG_INFINITY;
        };
        // At a step itself values are tied, and the test may reject there still.
        let step = self.0[step];
        if rejected(step) { step + FINE } else { step }
    }

    /// The largest shift that is not `rejected`, where all above it are.
    fn last_before(&self, rejected: impl Fn(f64) -> bool) -> f64 {
        let accepted = self.count(|theta| !rejected(theta));
        let Some(&step) = accepted.checked_sub(1).and_then(|last| self.0.get(last)) else {
            return f64::INFINITY;
        };
        if rejected(step) { step - FINE } else { step }
    }
}

/// A bracket of the theta at which `is_below` turns from true to false: true at its first end, false at the other.
///
/// Both ends are minus infinity when it is false, and plus infinity when it is true for every theta.
fn crossing(resolution: f64, is_below: impl Fn(f64) -> bool) -> (f64, f64) {
    let (mut low, mut high) = (-FIRST_BRACKET, FIRST_BRACKET);
    while !is_below(low) {
        if low < -WIDEST_BRACKET {
            return (f64::NEG_INFINITY, f64::NEG_INFINITY);
        }
        (low, high) = (2.0 * low, low);
    }
    while is_below(high) {
        if high > WIDEST_BRACKET {
            return (f64::INFINITY, f64::INFINITY);
        }
        (low, high) = (high, 2.0 * high);
    }
    while high - low > resolution * high.abs().max(1.0) {
        let middle = low + 0.5 * (high - low);
        if is_below(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low, high)
}
