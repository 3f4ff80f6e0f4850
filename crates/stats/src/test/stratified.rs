//! The stratified permutation rank test: two sides, measured in randomised blocks.
//!
//! Decides whether the sides differ, by how large a ratio, and which ratios the data do not rule
//! out. Ranks are taken over all values together, labels are permuted only inside blocks, so the
//! analysis matches the randomisation whatever drifts between blocks. It must not know when to stop
//! measuring ([`sequential`](crate::sequential) does). Start at [`stratified_rank`].

mod blocks;
mod permutation;
mod shift;

use crate::interval::Interval;
pub(crate) use blocks::Blocks;
use std::fmt;

pub use permutation::Tails;

pub use crate::observation::{Observation, Side};

/// Below this many runs a side no p-value should be claimed: with blocks of two and two, 8 runs a
/// side reach p = 2/1296, fewer cannot pass the limits of an early look.
pub const MINIMUM_PER_SIDE: usize = 8;

/// Why the test cannot be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StratifiedError {
    /// The value at this index is not a positive finite number, so it has no logarithm.
    NotPositive {
        /// Index into the observations.
        index: usize,
    },
    /// No block holds both sides.
    NoBlock,
}

impl fmt::Display for StratifiedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StratifiedError::NotPositive { index } => {
                write!(f, "value {index} is not a positive finite number")
            }
            StratifiedError::NoBlock => f.write_str("no block holds both sides"),
        }
    }
}

impl std::error::Error for StratifiedError {}

/// Result of the stratified permutation rank test, which can be asked for the ratio and its intervals.
#[derive(Debug, Clone)]
pub struct StratifiedRank {
    /// Values of the side with fewer of them, after blocks with one side only were left out.
    pub n_per_side: usize,
    /// Two-sided p-value: twice the smaller of the two tails, at most 1.
    pub p: f64,
    /// Whether the permutation distribution was computed exactly; otherwise its normal approximation with a
    /// correction for continuity is taken. Blocks of two and two are exact up to 64 runs a side and beyond.
    pub is_exact: bool,
    blocks: Blocks,
}

/// Tests whether the two sides differ.
///
/// Blocks may have any number of values of either side; those with one side only are left out, as
/// they tell nothing about the difference. With blocks of two and two this is the test simulated in
/// `docs/why/statistics.md`; the idea is that of van Elteren (Bulletin ISI 37, 1960), with ranks over
/// all blocks instead of within each.
///
/// # Errors
///
/// See [`StratifiedError`].
pub fn stratified_rank(observations: &[Observation]) -> Result<StratifiedRank, StratifiedError> {
    let blocks = Blocks::new(observations)?;
    Ok(StratifiedRank {
        n_per_side: blocks.n_per_side(),
        p: permutation::tails(&blocks, 0.0).both(),
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

    /// Interval of the ratio: every ratio that this test would not reject at a p-value of at most
    /// `p_limit`, such as that of a look of a [`Design`](crate::sequential::Design).
    ///
    /// Too few blocks cannot reject any ratio on one side or both: that end is then 0 or infinite.
    pub fn interval_at(&self, p_limit: f64) -> Interval {
        shift::interval(&self.blocks, p_limit).map(f64::exp)
    }

    /// How often this test gives a p-value of at most `alpha` where nothing differs, given these ranks:
    /// the p-value takes only so many values, so this is less than `alpha` when blocks are few.
    ///
    /// `alpha` itself where the normal approximation is taken.
    pub fn level(&self, alpha: f64) -> f64 {
        permutation::level(&self.blocks, alpha)
    }

    /// The test's normal approximation; positive when the candidate's values are larger.
    pub fn z(&self) -> f64 {
        self.blocks.z(0.0)
    }

    /// The tails with `theta` subtracted from the candidate's logarithms: the test of a ratio of exp(theta).
    ///
    /// With theta = ln(1 + delta), a small lower tail says the ratio is below 1 + delta; with
    /// -ln(1 + delta), a small upper tail says it is above 1 / (1 + delta).
    pub fn shifted(&self, theta: f64) -> Tails {
        permutation::tails(&self.blocks, theta)
    }
}
