//! Implements the stratified permutation rank test for two sides that were measured in randomised
//! blocks.
//!
//! The test decides whether the sides differ. It also estimates their ratio, and the interval of
//! the ratios that the data do not rule out. Ranks are taken over all values together. The null
//! distribution permutes the labels of the sides only within blocks, as the randomisation did, so
//! drift between blocks does not distort the result. The test does not decide when to stop
//! measuring; [`sequential`](crate::sequential) does. Start at [`stratified_rank`].

use crate::distribution::normal;
use crate::interval::Interval;

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
        n_per_side: blocks.baseline.len().min(blocks.candidate.len()),
        p: tail_probabilities(&blocks, 0.0).two_sided_p(),
        is_exact: is_affordable(&blocks),
        blocks,
    })
}

impl StratifiedRank {
    /// Typical candidate value over typical baseline value: exp of the Hodges-Lehmann shift of the
    /// logarithms within blocks.
    pub fn ratio(&self) -> f64 {
        estimate_shift(&self.blocks).exp()
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
        if !self.is_exact {
            return alpha;
        }
        let (ranks, step) = ranks_on_lattice(&self.blocks, 0.0);
        PermutationDistribution::new(&ranks, step, &self.blocks.sizes).exact_level(alpha)
    }

    /// Standard normal deviate by the test's normal approximation; positive when the candidate's
    /// values are larger.
    pub fn z_score(&self) -> f64 {
        self.blocks.z_score(0.0)
    }

    /// Tests the ratio exp(theta): returns the tails after `theta` was subtracted from the
    /// candidate's logarithms.
    ///
    /// With theta = ln(1 + delta), a small lower tail says the ratio is below 1 + delta; with
    /// -ln(1 + delta), a small upper tail says it is above 1 / (1 + delta).
    pub fn test_shifted(&self, theta: f64) -> TailProbabilities {
        tail_probabilities(&self.blocks, theta)
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
const RESOLUTION: f64 = 1e-12;

/// The theta at which z is zero: the middle between the last positive and the first negative z.
fn estimate_shift(blocks: &RankedBlocks) -> f64 {
    let middle = |is_below: &dyn Fn(f64) -> bool| {
        let (low, high) = bracket_crossing(|theta| is_below(blocks.z_score(theta)));
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
        low: bracket_crossing(is_below).1,
        high: bracket_crossing(|theta| !is_above(theta)).0,
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
        steps.dedup_by(|next, previous| *next - *previous <= RESOLUTION);
        ShiftSteps(steps)
    }

    /// Counts the gaps between steps that satisfy `is_first`. These gaps must precede all other
    /// gaps.
    fn count_first(&self, is_first: impl Fn(f64) -> bool) -> usize {
        let (mut low, mut high) = (0, self.0.len() + 1);
        while low < high {
            let middle = low.midpoint(high);
            if is_first(shift_before(&self.0, middle)) {
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
        if rejected(step) { step + RESOLUTION } else { step }
    }

    /// The largest shift that is not `rejected`, given that all larger shifts are rejected.
    fn last_before(&self, rejected: impl Fn(f64) -> bool) -> f64 {
        let accepted = self.count_first(|theta| !rejected(theta));
        let Some(&step) = accepted.checked_sub(1).and_then(|last| self.0.get(last)) else {
            return f64::INFINITY;
        };
        if rejected(step) { step - RESOLUTION } else { step }
    }
}

/// Returns a shift between the step of this index and the one before it.
pub(super) fn shift_before(steps: &[f64], index: usize) -> f64 {
    match (index.checked_sub(1), steps.get(index)) {
        (None, Some(next)) => next - 1.0,
        (Some(last), Some(next)) => 0.5 * (steps[last] + next),
        (Some(last), None) => steps[last] + 1.0,
        (None, None) => 0.0,
    }
}

/// Brackets the theta at which `is_below` turns from true to false: true at the first end, false at
/// the second.
///
/// Both ends are minus infinity if `is_below` is false for every theta, and plus infinity if it is
/// true for every theta.
fn bracket_crossing(is_below: impl Fn(f64) -> bool) -> (f64, f64) {
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
    while high - low > RESOLUTION * high.abs().max(1.0) {
        let middle = low + 0.5 * (high - low);
        if is_below(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low, high)
}

// Arranges observations for ranking: sorts the logarithms of each side in ascending order, and
// keeps the block of each logarithm. The code below decides which observations are used, and
// computes ranks and the normal approximation for any shift of the candidate.

/// Why the test is undefined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StratifiedError {
    /// The value at this index is not a positive finite number, so it has no logarithm.
    #[error("value {index} is not a positive finite number")]
    NotPositive {
        /// Index into the observations.
        index: usize,
    },
    /// No block holds both sides.
    #[error("no block contains both sides")]
    NoBlock,
}

/// Which of the two compared sides an observation belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockSide {
    /// The reference.
    Baseline,
    /// The side that is compared with the reference.
    Candidate,
}

/// One value, measured in a block with a random order of the sides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockObservation {
    /// The measured value, in any unit; positive.
    pub value: f64,
    /// The side it was measured for.
    pub side: BlockSide,
    /// The block it was measured in; any number, equal for the members of a block.
    pub block: u32,
}

impl BlockObservation {
    /// An observation of the baseline.
    pub fn baseline(value: f64, block: u32) -> BlockObservation {
        BlockObservation { value, side: BlockSide::Baseline, block }
    }

    /// An observation of the candidate.
    pub fn candidate(value: f64, block: u32) -> BlockObservation {
        BlockObservation { value, side: BlockSide::Candidate, block }
    }
}

/// Logarithms of the observations that can be compared.
#[derive(Debug, Clone)]
struct RankedBlocks {
    baseline: Vec<BlockMember>,
    candidate: Vec<BlockMember>,
    sizes: Vec<BlockSize>,
}

/// Number of values of either side in one block.
#[derive(Debug, Clone, Copy, Default)]
struct BlockSize {
    pub baseline: usize,
    pub candidate: usize,
}

impl BlockSize {
    pub fn total(&self) -> usize {
        self.baseline + self.candidate
    }
}

/// Logarithms this close count as equal: they differ only because a shift or a change of unit was
/// rounded.
const TIE: f64 = 1e-13;

#[derive(Debug, Clone, Copy)]
struct BlockMember {
    log: f64,
    block: usize,
}

impl RankedBlocks {
    fn new(observations: &[BlockObservation]) -> Result<RankedBlocks, StratifiedError> {
        let is_invalid = |o: &BlockObservation| !(o.value.is_finite() && o.value > 0.0);
        if let Some(index) = observations.iter().position(is_invalid) {
            return Err(StratifiedError::NotPositive { index });
        }
        let mut in_order: Vec<&BlockObservation> = observations.iter().collect();
        in_order.sort_by_key(|observation| observation.block);
        let mut blocks =
            RankedBlocks { baseline: Vec::new(), candidate: Vec::new(), sizes: Vec::new() };
        for block in in_order.chunk_by(|a, b| a.block == b.block) {
            blocks.push(block);
        }
        if blocks.sizes.is_empty() {
            return Err(StratifiedError::NoBlock);
        }
        blocks.baseline.sort_by(|a, b| a.log.total_cmp(&b.log));
        blocks.candidate.sort_by(|a, b| a.log.total_cmp(&b.log));
        Ok(blocks)
    }

    fn push(&mut self, block: &[&BlockObservation]) {
        let candidate = block.iter().filter(|o| o.side == BlockSide::Candidate).count();
        let size = BlockSize { baseline: block.len() - candidate, candidate };
        if size.baseline == 0 || size.candidate == 0 {
            return;
        }
        for observation in block {
            let member = BlockMember { log: observation.value.ln(), block: self.sizes.len() };
            match observation.side {
                BlockSide::Baseline => self.baseline.push(member),
                BlockSide::Candidate => self.candidate.push(member),
            }
        }
        self.sizes.push(size);
    }

    /// All differences between a logarithm of the candidate and a logarithm of the baseline.
    fn differences(&self) -> impl Iterator<Item = f64> {
        self.candidate.iter().flat_map(|c| self.baseline.iter().map(move |b| c.log - b.log))
    }

    /// Calls `visit(block, side, doubled mid-rank)` for every value in ascending order, with
    /// `theta` subtracted from the candidate's logarithms. Both sides are sorted, so ranking is one
    /// merge.
    fn visit_ranks(&self, theta: f64, mut visit: impl FnMut(usize, BlockSide, usize)) {
        let (a, b) = (&self.baseline, &self.candidate);
        let (mut i, mut j) = (0, 0);
        while i < a.len() || j < b.len() {
            let (first_i, first_j) = (i, j);
            let from_a = a.get(i).map_or(f64::INFINITY, |member| member.log);
            let from_b = b.get(j).map_or(f64::INFINITY, |member| member.log - theta);
            let level = from_a.min(from_b) + TIE;
            while i < a.len() && a[i].log <= level {
                i += 1;
            }
            while j < b.len() && b[j].log - theta <= level {
                j += 1;
            }
            let rank = first_i + first_j + i + j + 1;
            a[first_i..i].iter().for_each(|member| visit(member.block, BlockSide::Baseline, rank));
            b[first_j..j].iter().for_each(|member| visit(member.block, BlockSide::Candidate, rank));
        }
    }

    /// The candidate's rank sum minus its mean, divided by its standard deviation; 0 when no
    /// arrangement changes the sum.
    fn z_score(&self, theta: f64) -> f64 {
        let (excess, variance) = self.excess_and_variance(theta);
        if variance > 0.0 { excess / variance.sqrt() } else { 0.0 }
    }

    /// The candidate's rank sum minus its mean under permutation, and the variance of the sum.
    ///
    /// In a block of m values, of which c are the candidate's, the sum of c ranks drawn without
    /// replacement has the variance c (m - c) / (m - 1) times the population variance of the
    /// block's ranks (Cochran, Sampling Techniques, section 2.6). The factor is m^2 / (4 (m - 1))
    /// for c = m/2.
    fn excess_and_variance(&self, theta: f64) -> (f64, f64) {
        // Sums of the ranks, of their squares, and of the candidate's ranks.
        let mut sums = vec![[0.0_f64; 3]; self.sizes.len()];
        self.visit_ranks(theta, |block, side, doubled| {
            let rank = 0.5 * doubled as f64;
            let [ranks, squares, candidate] = &mut sums[block];
            *ranks += rank;
            *squares += rank * rank;
            if side == BlockSide::Candidate {
                *candidate += rank;
            }
        });
        let (mut excess, mut variance) = (0.0, 0.0);
        for (size, [ranks, squares, candidate]) in self.sizes.iter().zip(sums) {
            let (a, c) = (size.baseline as f64, size.candidate as f64);
            let m = a + c;
            let mean = ranks / m;
            excess += candidate - c * mean;
            variance += c * a / (m - 1.0) * (squares / m - mean * mean).max(0.0);
        }
        (excess, variance)
    }
}

// Computes the null distribution of the stratified rank test, by permuting the labels within every
// block. The null distribution is the distribution of the candidate's rank sum over all
// assignments of the labels. It is computed exactly, by convolving the distributions of the blocks,
// or by the normal approximation where the convolution would cost too much.

/// Maximum number of additions for the exact distribution, estimated for the widest possible ranks.
/// 64 runs per side, in blocks of two candidate and two baseline runs, take 3 million.
const MAX_EXACT_WORK: f64 = 4e6;

/// The observed rank sum and its null distribution.
struct PermutationDistribution {
    /// For each block, the possible rank sums with their probabilities, ascending. Each sum is
    /// given as its distance from the smallest sum of the block, in units of the step that
    /// [`ranks_on_lattice`] returns.
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

/// Ranks of one block, doubled so that mid-ranks are integers, and the sum of the candidate's.
type BlockRanks = (Vec<usize>, usize);

/// Tails with `theta` subtracted from the candidate's logarithms.
fn tail_probabilities(blocks: &RankedBlocks, theta: f64) -> TailProbabilities {
    let (ranks, step) = ranks_on_lattice(blocks, theta);
    if is_affordable(blocks) {
        PermutationDistribution::new(&ranks, step, &blocks.sizes).exact_tails()
    } else {
        approximate_tails(blocks, theta, step)
    }
}

/// Doubled ranks by block, and the step of the lattice on which they lie: the greatest common
/// divisor of all differences between doubled ranks of the same block. The step is 0 if the ranks
/// within every block are equal.
fn ranks_on_lattice(blocks: &RankedBlocks, theta: f64) -> (Vec<BlockRanks>, usize) {
    let mut ranks = vec![BlockRanks::default(); blocks.sizes.len()];
    blocks.visit_ranks(theta, |block, side, doubled| {
        ranks[block].0.push(doubled);
        if side == BlockSide::Candidate {
            ranks[block].1 += doubled;
        }
    });
    // Values are visited in ascending order of rank, so the first is the smallest, and the order
    // does not depend on the labels.
    let differences =
        ranks.iter().flat_map(|(doubled, _)| doubled.iter().map(|rank| rank - doubled[0]));
    let step = differences.fold(0, greatest_common_divisor);
    (ranks, step)
}

/// Returns whether the exact distribution is worth its cost. Depends only on block sizes, so that
/// all shifts of the same data use the same distribution.
fn is_affordable(blocks: &RankedBlocks) -> bool {
    let values: usize = blocks.sizes.iter().map(|size| size.total()).sum();
    let (mut width, mut work) = (0.0, 0.0);
    for size in &blocks.sizes {
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
        let (mut blocks, mut observed, step) = (Vec::with_capacity(ranks.len()), 0, step.max(1));
        for ((doubled, candidate_sum), size) in ranks.iter().zip(sizes) {
            let smallest = doubled[0];
            let offsets: Vec<usize> = doubled.iter().map(|r| (r - smallest) / step).collect();
            let mut sums = sums_of_choices(&offsets, size.candidate);
            let smallest_sum = sums[0].0;
            for sum in &mut sums {
                sum.0 -= smallest_sum;
            }
            observed += (candidate_sum - size.candidate * smallest) / step - smallest_sum;
            blocks.push(sums);
        }
        PermutationDistribution { blocks, observed }
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
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
