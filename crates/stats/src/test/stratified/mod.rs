//! Implements the stratified permutation rank test for two sides that were measured in randomised
//! blocks.
//!
//! The test decides whether the sides differ, by how large a ratio, and which ratios the data do
//! not rule out. Ranks are taken over all values together. Labels are permuted only within blocks,
//! as in the randomisation, so drift between blocks does no harm. The test does not decide when to
//! stop measuring; [`sequential`](crate::sequential) does. Start at [`stratified_rank`].

mod blocks;
mod permutation;

pub(crate) use blocks::RankedBlocks;
pub use blocks::{BlockObservation, BlockSide, StratifiedError};
pub use permutation::TailProbabilities;

use crate::interval::Interval;
use permutation::{is_affordable, tail_probabilities};

/// Minimum number of runs per side for a conclusion from the p-value. In blocks of two runs of each
/// side, 8 runs per side can reach p = 2/1296; fewer runs cannot reach the limit of an early
/// interim analysis.
pub const MINIMUM_PER_SIDE: usize = 8;

/// Result of the stratified permutation rank test, from which ratio and intervals are computed.
#[derive(Debug, Clone)]
pub struct StratifiedRank {
    /// Number of values of the smaller side, without blocks that have one side only.
    pub n_per_side: usize,
    /// Two-sided p-value: twice the smaller of the two tails, at most 1.
    pub p: f64,
    /// Whether the permutation distribution was computed exactly, rather than by its normal
    /// approximation with a continuity correction. With blocks of two runs of each side it is
    /// exact up to at least 64 runs per side.
    pub is_exact: bool,
    blocks: RankedBlocks,
}

/// Tests whether the two sides differ.
///
/// Blocks may have any number of values of either side; blocks with one side only are left out,
/// because they say nothing about the difference. With blocks of two runs of each side this is the
/// test in `crates/stats/benches/simulate.md`. The idea is van Elteren's (Bulletin ISI 37, 1960),
/// with ranks over all blocks instead of ranks within each block.
///
/// # Errors
///
/// See [`StratifiedError`].
pub fn stratified_rank(
    observations: &[BlockObservation],
) -> Result<StratifiedRank, StratifiedError> {
    let blocks = RankedBlocks::new(observations)?;
    Ok(StratifiedRank {
        n_per_side: blocks.n_per_side(),
        p: permutation::tail_probabilities(&blocks, 0.0).two_sided_p(),
        is_exact: permutation::is_affordable(&blocks),
        blocks,
    })
}

impl StratifiedRank {
    /// Typical candidate value over typical baseline value: exp of the Hodges-Lehmann shift of the
    /// logarithms within blocks.
    pub fn ratio(&self) -> f64 {
        self.blocks.log_ratio().exp()
    }

    /// Interval of the ratio: every ratio that this test would not reject at `confidence`, for
    /// instance 0.95.
    ///
    /// It holds 1 exactly when [`p`](StratifiedRank::p) is above 1 - confidence.
    pub fn interval(&self, confidence: f64) -> Interval {
        self.interval_at(1.0 - confidence)
    }

    /// Interval of the ratio: every ratio whose p-value in this test is above `p_limit`, such as
    /// the limit of a [`DesignLook`](crate::sequential::DesignLook).
    ///
    /// With too few blocks, the test cannot reject any ratio on one side or on both: the end on
    /// that side is then 0 or infinite.
    pub fn interval_at(&self, p_limit: f64) -> Interval {
        shift_interval(&self.blocks, p_limit).map(f64::exp)
    }

    /// Probability that this test gives a p-value of at most `alpha` if nothing differs, given the
    /// ranks of the compared values. p-values are discrete, so this probability is less than
    /// `alpha` with few blocks.
    ///
    /// Returns `alpha` itself if the normal approximation is used.
    pub fn attained_level(&self, alpha: f64) -> f64 {
        permutation::attained_level(&self.blocks, alpha)
    }

    /// The test's normal approximation; positive when the candidate's values are larger.
    pub fn z_score(&self) -> f64 {
        self.blocks.z_score(0.0)
    }

    /// Tests the ratio exp(theta): returns the tails after `theta` was subtracted from the
    /// candidate's logarithms.
    ///
    /// With theta = ln(1 + delta), a small lower tail says the ratio is below 1 + delta; with
    /// -ln(1 + delta), a small upper tail says it is above 1 / (1 + delta).
    pub fn test_shifted(&self, theta: f64) -> TailProbabilities {
        permutation::tail_probabilities(&self.blocks, theta)
    }
}

// The shift of logarithms, and its interval, by inverting the test. The tails of the permutation
// distribution are monotone in the shift: if the candidate's values are lowered, no rank of the
// candidate rises and no rank of the baseline falls. So the rank sum of every rearrangement rises
// relative to the observed rank sum. Hence the shifts that are not rejected form one interval,
// which contains zero exactly when the test of zero does not reject.

/// Initial bracket of theta: ratios from 0.55 to 1.82. For larger changes, the search moves the
/// bracket outwards. Centered at zero, so that an interval agrees with the test of zero.
const INITIAL_BRACKET: f64 = 0.6;

/// Maximum bracket, a ratio of e^77: a z that has not crossed the limit by then never will.
const MAX_BRACKET: f64 = 77.0;

/// Width at which the search stops: a millionth of the finest measurable change.
const FINE_RESOLUTION: f64 = 1e-12;

/// Width at which the search stops when resampling: a ten-thousandth of a percent.
const COARSE_RESOLUTION: f64 = 1e-6;

impl RankedBlocks {
    /// The shift of the candidate's logarithms.
    pub(crate) fn log_ratio(&self) -> f64 {
        estimate_shift(self, FINE_RESOLUTION)
    }

    /// Like [`RankedBlocks::log_ratio`], but to six decimals only, in half the time, for
    /// resampling.
    pub(crate) fn rough_log_ratio(&self) -> f64 {
        estimate_shift(self, COARSE_RESOLUTION)
    }
}

/// The theta at which z is zero: the middle between the last positive and the first negative z.
fn estimate_shift(blocks: &RankedBlocks, resolution: f64) -> f64 {
    let middle = |is_below: &dyn Fn(f64) -> bool| {
        let (low, high) = bracket_crossing(resolution, |theta| is_below(blocks.z_score(theta)));
        0.5 * (low + high)
    };
    0.5 * (middle(&|z| z > 0.0) + middle(&|z| z >= 0.0))
}

/// The thetas that the two-sided test does not reject at `p_limit`. An end is infinite if the test
/// rejects no theta on that side.
fn shift_interval(blocks: &RankedBlocks, p_limit: f64) -> Interval {
    let limit = 0.5 * p_limit;
    let is_below = |theta: f64| tail_probabilities(blocks, theta).upper <= limit;
    let is_above = |theta: f64| tail_probabilities(blocks, theta).lower <= limit;
    if is_affordable(blocks) {
        let steps = ShiftSteps::new(blocks);
        return Interval { low: steps.first_beyond(is_below), high: steps.last_before(is_above) };
    }
    // Each end is the outermost tried shift that was not rejected.
    Interval {
        low: bracket_crossing(FINE_RESOLUTION, is_below).1,
        high: bracket_crossing(FINE_RESOLUTION, |theta| !is_above(theta)).0,
    }
}

/// The shifts at which ranks change: the differences between a candidate's and a baseline's
/// logarithm.
struct ShiftSteps(Vec<f64>);

impl ShiftSteps {
    fn new(blocks: &RankedBlocks) -> ShiftSteps {
        let mut steps: Vec<f64> = blocks.differences().collect();
        steps.sort_unstable_by(f64::total_cmp);
        // Merge differences that are equal up to rounding.
        steps.dedup_by(|next, previous| *next - *previous <= FINE_RESOLUTION);
        ShiftSteps(steps)
    }

    /// Returns a shift between the step of this index and the one before it.
    fn shift_before(&self, index: usize) -> f64 {
        match (index.checked_sub(1), self.0.get(index)) {
            (None, Some(next)) => next - 1.0,
            (Some(last), Some(next)) => 0.5 * (self.0[last] + next),
            (Some(last), None) => self.0[last] + 1.0,
            (None, None) => 0.0,
        }
    }

    /// Counts the gaps between steps that satisfy `is_first`. These gaps must precede all other
    /// gaps.
    fn count_first(&self, is_first: impl Fn(f64) -> bool) -> usize {
        let (mut low, mut high) = (0, self.0.len() + 1);
        while low < high {
            let middle = low.midpoint(high);
            if is_first(self.shift_before(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The smallest shift that is not `rejected`, given that all smaller shifts are rejected.
    fn first_beyond(&self, rejected: impl Fn(f64) -> bool) -> f64 {
        let Some(step) = self.count_first(&rejected).checked_sub(1) else {
            return f64::NEG_INFINITY;
        };
        // Exactly at a step, values are tied, and the test may still reject.
        let step = self.0[step];
        if rejected(step) { step + FINE_RESOLUTION } else { step }
    }

    /// The largest shift that is not `rejected`, given that all larger shifts are rejected.
    fn last_before(&self, rejected: impl Fn(f64) -> bool) -> f64 {
        let accepted = self.count_first(|theta| !rejected(theta));
        let Some(&step) = accepted.checked_sub(1).and_then(|last| self.0.get(last)) else {
            return f64::INFINITY;
        };
        if rejected(step) { step - FINE_RESOLUTION } else { step }
    }
}

/// Brackets the theta at which `is_below` turns from true to false: true at the first end, false at
/// the second.
///
/// Both ends are minus infinity if `is_below` is false for every theta, and plus infinity if it is
/// true for every theta.
fn bracket_crossing(resolution: f64, is_below: impl Fn(f64) -> bool) -> (f64, f64) {
    let (mut low, mut high) = (-INITIAL_BRACKET, INITIAL_BRACKET);
    while !is_below(low) {
        if low < -MAX_BRACKET {
            return (f64::NEG_INFINITY, f64::NEG_INFINITY);
        }
        (low, high) = (2.0 * low, low);
    }
    while is_below(high) {
        if high > MAX_BRACKET {
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
