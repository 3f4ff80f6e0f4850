//! The stratified permutation rank test: two sides, measured in randomised blocks.
//!
//! Decides whether the sides differ, by how large a ratio, and which ratios the data do not rule
//! out. Ranks are taken over all values together, labels are permuted only inside blocks, so the
//! analysis matches the randomisation whatever drifts between blocks. It must not know when to stop
//! measuring ([`sequential`](crate::sequential) does). Start at [`stratified_rank`].

mod blocks;
mod permutation;
mod shift;

use crate::distribution::normal;
use crate::interval::Interval;
pub(crate) use blocks::Blocks;
use permutation::Permutation;
use std::fmt;

pub use crate::observation::{Observation, Side};

/// Below this many runs a side no p-value should be claimed: with blocks of two and two, 8 runs a
/// side reach p = 2/1296, fewer cannot pass the limits of an early look.
pub const MINIMUM_PER_SIDE: usize = 8;

/// How the null distribution is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Number of random arrangements, used when there are more than 10 000 of them.
    pub draws: usize,
    /// Seed of the draws: the same seed and data give the same p-value for ever.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            draws: 10_000,
            seed: 0,
        }
    }
}

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

/// Result of the stratified permutation rank test, which can be asked for intervals.
#[derive(Debug, Clone)]
pub struct StratifiedRank {
    /// Values of the side with fewer of them, after blocks with one side only were left out.
    pub n_per_side: usize,
    /// Two-sided p-value.
    pub p: f64,
    /// Whether every arrangement was counted, so that `p` is exact.
    pub enumerated: bool,
    /// Typical candidate value over typical baseline value: exp of the Hodges-Lehmann shift of the
    /// logarithms within blocks.
    pub ratio: f64,
    blocks: Blocks,
    options: Options,
}

/// One-sided p-values after the candidate's logarithms were lowered by some amount.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shifted {
    /// Small when the lowered candidate is still below the baseline.
    pub p_lower: f64,
    /// Small when the lowered candidate is still above the baseline.
    pub p_upper: f64,
}

/// Tests whether the two sides differ.
///
/// Blocks may have any number of values of either side; those with one side only are left out, as
/// they tell nothing about the difference. With blocks of two and two this is the test simulated in
/// `docs/statistics.md`; the idea is that of van Elteren (Bulletin ISI 37, 1960), with ranks over
/// all blocks instead of within each.
///
/// # Errors
///
/// See [`StratifiedError`].
pub fn stratified_rank(
    observations: &[Observation],
    options: &Options,
) -> Result<StratifiedRank, StratifiedError> {
    Ok(StratifiedRank::new(Blocks::new(observations)?, *options))
}

impl StratifiedRank {
    pub(crate) fn new(blocks: Blocks, options: Options) -> StratifiedRank {
        let tails = Permutation::new(&blocks, 0.0).tails(&options);
        StratifiedRank {
            n_per_side: blocks.n_per_side(),
            p: tails.both,
            enumerated: tails.enumerated,
            ratio: blocks.log_ratio().exp(),
            blocks,
            options,
        }
    }

    /// Interval of the ratio: every ratio that the normal approximation of this test would not
    /// reject at `confidence`, for instance 0.95.
    pub fn interval(&self, confidence: f64) -> Interval {
        self.interval_at(normal::upper_quantile(0.5 * (1.0 - confidence)))
    }

    /// Interval of the ratio with an explicit limit for |z|, such as that of a look of a
    /// [`Design`](crate::sequential::Design).
    ///
    /// Too few blocks cannot reject any ratio on one side or both: that end is then 0 or infinite.
    pub fn interval_at(&self, z_limit: f64) -> Interval {
        shift::interval(&self.blocks, z_limit).map(f64::exp)
    }

    /// How often this test gives a p-value of at most `alpha` where nothing differs, given these ranks:
    /// the p-value takes only so many values, so this is less than `alpha` when blocks are few.
    ///
    /// Exact where every arrangement is counted, and otherwise `alpha` itself.
    pub fn level(&self, alpha: f64) -> f64 {
        Permutation::new(&self.blocks, 0.0).level(alpha)
    }

    /// The test's normal approximation; positive when the candidate's values are larger.
    pub fn z(&self) -> f64 {
        self.blocks.z(0.0)
    }

    /// One-sided permutation p-values with `theta` subtracted from the candidate's logarithms.
    ///
    /// With theta = ln(1 + delta), a small `p_lower` says the ratio is below 1 + delta; with
    /// -ln(1 + delta), a small `p_upper` says it is above 1 / (1 + delta).
    pub fn shifted(&self, theta: f64) -> Shifted {
        shifted(&self.blocks, theta, &self.options)
    }
}

pub(crate) fn shifted(blocks: &Blocks, theta: f64, options: &Options) -> Shifted {
    let tails = Permutation::new(blocks, theta).tails(options);
    Shifted {
        p_lower: tails.lower,
        p_upper: tails.upper,
    }
}

/// The two-sided permutation p-value alone.
pub(crate) fn two_sided(blocks: &Blocks, options: &Options) -> f64 {
    Permutation::new(blocks, 0.0).tails(options).both
}
