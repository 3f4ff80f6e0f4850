//! Computes bootstrap intervals over blocks, for statistics that have no test of their own.
//!
//! Resamples whole blocks, because the values in a block share its noise. Uses percentile intervals
//! only: bias-corrected intervals had worse coverage in simulations with outliers. Do not use these
//! intervals to decide whether two sides differ. Start at [`ratio_of_means`].

use crate::describe::quantile;
use crate::effect::RatioEstimate;
use crate::interval::Interval;
use crate::test::stratified::{BlockObservation, BlockSide};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

/// Settings of a bootstrap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BootstrapOptions {
    /// Number of resamples.
    pub draws: usize,
    /// Fraction of resamples within the interval, such as 0.95.
    pub confidence: f64,
    /// Seed of the draws.
    pub seed: u64,
}

/// Ratio of arithmetic means with a percentile interval over blocks (Efron, Annals of Statistics 7,
/// 1979).
///
/// This ratio answers questions about total throughput and cost, but it is sensitive to outliers.
/// Blocks with one side only are left out. `None` when no block holds both sides.
pub fn ratio_of_means(
    observations: &[BlockObservation],
    options: &BootstrapOptions,
) -> Option<RatioEstimate> {
    let mut in_order = observations.to_vec();
    in_order.sort_by_key(|observation| observation.block);
    let blocks = in_order.chunk_by(|a, b| a.block == b.block).map(ResampleTotals::add_up);
    let has_both_sides = |totals: &ResampleTotals| totals.baseline.1 > 0 && totals.candidate.1 > 0;
    let blocks: Vec<ResampleTotals> = blocks.filter(has_both_sides).collect();
    if blocks.is_empty() {
        return None;
    }
    let ratio = blocks.iter().fold(ResampleTotals::default(), ResampleTotals::plus).ratio();
    let mut indices = RandomIndices::new(options.seed);
    let mut resample = || {
        let picks = (0..blocks.len()).map(|_| &blocks[indices.index_below(blocks.len())]);
        picks.fold(ResampleTotals::default(), ResampleTotals::plus).ratio()
    };
    let resamples: Vec<f64> = (0..options.draws).map(|_| resample()).collect();
    Some(RatioEstimate { ratio, interval: percentile_interval(resamples, options.confidence) })
}

/// Ratio of the median of `after` to the median of `before`, with a percentile interval. The values
/// of each side come in groups, and whole groups are resampled, because the values of a group may
/// depend on each other.
///
/// `None` if a side has no values, or the median of `before` is not positive.
pub fn ratio_of_medians(
    before: &[Vec<f64>],
    after: &[Vec<f64>],
    options: &BootstrapOptions,
) -> Option<RatioEstimate> {
    let mut pool = Vec::new();
    let mut median_of = |groups: &mut dyn Iterator<Item = &Vec<f64>>| {
        pool.clear();
        groups.for_each(|group| pool.extend_from_slice(group));
        let middle = pool.len() / 2;
        // Takes the upper of two middle values: selecting one value is faster than sorting.
        (!pool.is_empty()).then(|| *pool.select_nth_unstable_by(middle, f64::total_cmp).1)
    };
    let first = median_of(&mut before.iter()).filter(|median| *median > 0.0)?;
    let ratio = median_of(&mut after.iter())? / first;
    let mut indices = RandomIndices::new(options.seed);
    let mut resample = || {
        let mut side = |groups: &[Vec<f64>]| {
            let mut picks = (0..groups.len()).map(|_| &groups[indices.index_below(groups.len())]);
            median_of(&mut picks)
        };
        let (first, second) = (side(before)?, side(after)?);
        Some(second / first).filter(|ratio| !ratio.is_nan())
    };
    let resamples: Vec<f64> = (0..options.draws).filter_map(|_| resample()).collect();
    Some(RatioEstimate { ratio, interval: percentile_interval(resamples, options.confidence) })
}

/// The interval that holds the fraction `confidence` of the resamples, with equal tails.
pub fn percentile_interval(mut resamples: Vec<f64>, confidence: f64) -> Interval {
    resamples.sort_unstable_by(f64::total_cmp);
    let tail = 0.5 * (1.0 - confidence);
    Interval { low: quantile(&resamples, tail), high: quantile(&resamples, 1.0 - tail) }
}

/// Sum and number of the values of each side, over some blocks.
#[derive(Debug, Clone, Copy, Default)]
struct ResampleTotals {
    baseline: (f64, usize),
    candidate: (f64, usize),
}

impl ResampleTotals {
    fn add_up(block: &[BlockObservation]) -> ResampleTotals {
        let mut totals = ResampleTotals::default();
        for observation in block {
            let side = match observation.side {
                BlockSide::Baseline => &mut totals.baseline,
                BlockSide::Candidate => &mut totals.candidate,
            };
            side.0 += observation.value;
            side.1 += 1;
        }
        totals
    }

    fn plus(self, other: &ResampleTotals) -> ResampleTotals {
        let add = |a: (f64, usize), b: (f64, usize)| (a.0 + b.0, a.1 + b.1);
        ResampleTotals {
            baseline: add(self.baseline, other.baseline),
            candidate: add(self.candidate, other.candidate),
        }
    }

    fn ratio(&self) -> f64 {
        let mean = |(sum, n): (f64, usize)| sum / n as f64;
        mean(self.candidate) / mean(self.baseline)
    }
}

// Seeded random indices. A stored seed must give the same draws in every version. The output of the
// generator is fixed by its authors, and the code below, not a library, maps this output to a
// range.

/// A generator of indices (xoshiro256++, Blackman and Vigna, ACM TOMS 47, 2021).
struct RandomIndices(Xoshiro256PlusPlus);

impl RandomIndices {
    fn new(seed: u64) -> RandomIndices {
        RandomIndices(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Returns a uniform index below `count`, which must be positive.
    ///
    /// Multiplies and shifts without rejection (Lemire, ACM TOMACS 29, 2019): the bias is at most
    /// count / 2^64.
    fn index_below(&mut self, count: usize) -> usize {
        ((u128::from(self.0.next_u64()) * count as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_is_drawn_about_equally_often() {
        let mut indices = RandomIndices::new(7);
        let mut counts = [0u32; 6];
        for _ in 0..18_000 {
            counts[indices.index_below(6)] += 1;
        }
        // 250 is five standard deviations of a binomial count with this mean.
        assert!(counts.iter().all(|&count| count.abs_diff(3000) < 250), "{counts:?}");
    }

    #[test]
    fn a_seed_gives_the_same_indices_for_ever() {
        let mut indices = RandomIndices::new(42);
        let drawn: Vec<usize> = (0..8).map(|_| indices.index_below(1000)).collect();
        assert_eq!(drawn, [814, 318, 983, 701, 793, 588, 125, 605]);
    }
}
