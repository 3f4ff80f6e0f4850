//! Computes the null distribution of the stratified rank test, by permuting the labels within every
//! block.
//!
//! The null distribution is the distribution of the candidate's rank sum over all assignments of
//! the labels. It is computed exactly, by convolving the distributions of the blocks, or by the
//! normal approximation where the convolution would cost too much. Start at [`tail_probabilities`].

use super::blocks::{BlockSide, BlockSize, RankedBlocks};
use crate::distribution::normal;

/// Maximum number of additions for the exact distribution, estimated for the widest possible ranks.
/// 64 runs per side, in blocks of two candidate and two baseline runs, take 3 million.
const MAX_EXACT_WORK: f64 = 4e6;

/// The observed rank sum and its null distribution.
pub(super) struct PermutationDistribution {
    /// For each block, the possible rank sums with their probabilities, ascending. Each sum is the
    /// number of lattice steps from the smallest sum of the block.
    blocks: Vec<Vec<(usize, f64)>>,
    /// The observed rank sum on the same scale.
    observed: usize,
}

/// Probabilities that an arrangement is at least as extreme as the observed arrangement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TailProbabilities {
    /// Probability that a rank sum is at most the observed sum; small when the candidate is below
    /// the baseline.
    pub lower: f64,
    /// Probability that a rank sum is at least the observed sum; small when the candidate is above
    /// the baseline.
    pub upper: f64,
}

impl TailProbabilities {
    /// The two-sided p-value: twice the smaller tail, at most 1.
    pub fn two_sided_p(&self) -> f64 {
        (2.0 * self.lower.min(self.upper)).min(1.0)
    }
}

/// Ranks of one block, doubled so that mid-ranks are integers.
#[derive(Default, Clone)]
struct BlockRanks {
    doubled: Vec<usize>,
    candidate_sum: usize,
}

/// Tails with `theta` subtracted from the candidate's logarithms.
pub(super) fn tail_probabilities(blocks: &RankedBlocks, theta: f64) -> TailProbabilities {
    let (ranks, step) = ranks_on_lattice(blocks, theta);
    if is_affordable(blocks) {
        PermutationDistribution::new(&ranks, step, blocks.sizes()).exact_tails()
    } else {
        approximate_tails(blocks, theta, step)
    }
}

/// The actual size of the two-sided test at the nominal level `alpha`; `alpha` itself if the normal
/// approximation is used.
pub(super) fn attained_level(blocks: &RankedBlocks, alpha: f64) -> f64 {
    if !is_affordable(blocks) {
        return alpha;
    }
    let (ranks, step) = ranks_on_lattice(blocks, 0.0);
    PermutationDistribution::new(&ranks, step, blocks.sizes()).exact_level(alpha)
}

/// Doubled ranks by block, and the greatest common divisor of all differences within blocks. The
/// divisor is 0 if the ranks within every block are equal.
fn ranks_on_lattice(blocks: &RankedBlocks, theta: f64) -> (Vec<BlockRanks>, usize) {
    let mut ranks = vec![BlockRanks::default(); blocks.sizes().len()];
    blocks.visit_ranks(theta, |block, side, doubled| {
        ranks[block].doubled.push(doubled);
        if side == BlockSide::Candidate {
            ranks[block].candidate_sum += doubled;
        }
    });
    // Values are visited in ascending order of rank, so the first is the smallest, and the order
    // does not depend on the labels.
    let differences =
        ranks.iter().flat_map(|ranks| ranks.doubled.iter().map(|rank| rank - ranks.doubled[0]));
    let step = differences.fold(0, greatest_common_divisor);
    (ranks, step)
}

/// Returns whether the exact distribution is worth its cost. Depends only on block sizes, so that
/// all shifts of the same data use the same distribution.
pub(super) fn is_affordable(blocks: &RankedBlocks) -> bool {
    let values: usize = blocks.sizes().iter().map(|size| size.total()).sum();
    let (mut width, mut work) = (0.0, 0.0);
    for size in blocks.sizes() {
        let fewer = size.candidate.min(size.baseline);
        let widest = (2 * fewer * values) as f64;
        let terms = combinations(size.total(), fewer).min(widest);
        width += widest;
        work += 0.5 * width * terms + 0.5 * (size.total() * size.candidate) as f64 * terms;
    }
    work <= MAX_EXACT_WORK
}

/// The normal approximation with a continuity correction of half a step of the lattice on which
/// rank sums lie.
fn approximate_tails(blocks: &RankedBlocks, theta: f64, doubled_step: usize) -> TailProbabilities {
    let (excess, variance) = blocks.excess_and_variance(theta);
    if variance <= 0.0 {
        return TailProbabilities { lower: 1.0, upper: 1.0 };
    }
    let half_step = 0.25 * doubled_step as f64;
    let tail = |excess: f64| normal::upper_tail((excess - half_step) / variance.sqrt());
    TailProbabilities { lower: tail(-excess), upper: tail(excess) }
}

impl PermutationDistribution {
    fn new(ranks: &[BlockRanks], step: usize, sizes: &[BlockSize]) -> PermutationDistribution {
        let mut permutation =
            PermutationDistribution { blocks: Vec::with_capacity(ranks.len()), observed: 0 };
        for (ranks, size) in ranks.iter().zip(sizes) {
            permutation.push(ranks, step.max(1), size.candidate);
        }
        permutation
    }

    fn push(&mut self, ranks: &BlockRanks, step: usize, candidates: usize) {
        let smallest = ranks.doubled[0];
        let offsets: Vec<usize> = ranks.doubled.iter().map(|r| (r - smallest) / step).collect();
        let mut sums = sums_of_choices(&offsets, candidates);
        let smallest_sum = sums[0].0;
        for sum in &mut sums {
            sum.0 -= smallest_sum;
        }
        self.observed += (ranks.candidate_sum - candidates * smallest) / step - smallest_sum;
        self.blocks.push(sums);
    }

    /// The probability of every rank sum, from the smallest on.
    fn rank_sum_distribution(&self) -> Vec<f64> {
        let mut sums = vec![1.0];
        for block in &self.blocks {
            let widest = block.last().map_or(0, |term| term.0);
            let mut next = vec![0.0; sums.len() + widest];
            for &(shift, probability) in block {
                for (into, from) in next[shift..].iter_mut().zip(&sums) {
                    *into += probability * from;
                }
            }
            sums = next;
        }
        sums
    }

    fn exact_tails(&self) -> TailProbabilities {
        let sums = self.rank_sum_distribution();
        TailProbabilities {
            lower: sums[..=self.observed].iter().sum(),
            upper: sums[self.observed..].iter().rev().sum(),
        }
    }

    fn exact_level(&self, alpha: f64) -> f64 {
        // Probabilities that are equal up to rounding must fall on the same side of the limit.
        let limit = 0.5 * alpha * (1.0 + 1e-9);
        let sums = self.rank_sum_distribution();
        let tail = |sums: &mut dyn Iterator<Item = f64>| {
            let cumulative = sums.scan(0.0, |sum, probability| {
                *sum += probability;
                Some(*sum)
            });
            cumulative.take_while(|&sum| sum <= limit).last().unwrap_or(0.0)
        };
        tail(&mut sums.iter().copied()) + tail(&mut sums.iter().rev().copied())
    }
}

/// The possible sums of `count` of the `values` with their probabilities, ascending.
///
/// Adds values one by one, keeping the frequency of each sum for each number of chosen values.
fn sums_of_choices(values: &[usize], count: usize) -> Vec<(usize, f64)> {
    let mut sums: Vec<Vec<(usize, f64)>> = vec![Vec::new(); count + 1];
    sums[0].push((0, 1.0));
    for &value in values {
        for chosen in (0..count).rev() {
            sums[chosen + 1] = merge_sums(&sums[chosen + 1], &sums[chosen], value);
        }
    }
    let mut wanted = sums.swap_remove(count);
    let total: f64 = wanted.iter().map(|term| term.1).sum();
    wanted.iter_mut().for_each(|term| term.1 /= total);
    wanted
}

/// Merges two ascending lists of sums, the second shifted by `shift`; equal sums are added up.
fn merge_sums(first: &[(usize, f64)], second: &[(usize, f64)], shift: usize) -> Vec<(usize, f64)> {
    let mut result = Vec::with_capacity(first.len() + second.len());
    let (mut i, mut j) = (0, 0);
    while i < first.len() || j < second.len() {
        let a = first.get(i).map_or(usize::MAX, |term| term.0);
        let b = second.get(j).map_or(usize::MAX, |term| term.0 + shift);
        let mut ways = 0.0;
        if a <= b {
            ways += first[i].1;
            i += 1;
        }
        if b <= a {
            ways += second[j].1;
            j += 1;
        }
        result.push((a.min(b), ways));
    }
    result
}

/// Number of ways to choose `k` of `n`, as a float, because the number may be astronomically large.
fn combinations(n: usize, k: usize) -> f64 {
    (1..=k.min(n - k)).map(|i| (n + 1 - i) as f64 / i as f64).product::<f64>().round()
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    match b {
        0 => a,
        _ => greatest_common_divisor(b, a % b),
    }
}
