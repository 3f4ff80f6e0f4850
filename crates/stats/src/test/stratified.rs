//! The stratified permutation rank test: two sides, measured in randomised blocks.
//!
//! Decides whether the sides differ, by how large a ratio, and which ratios the data do not rule
//! out. Ranks are taken over all values together, labels are permuted only inside blocks, so the
//! analysis matches the randomisation whatever drifts between blocks. It must not know when to stop
//! measuring ([`sequential`](crate::sequential) does). Start at [`stratified_rank`].

mod permutation;

pub use permutation::Tails;

use crate::interval::Interval;
use permutation::{is_affordable, tails};
use std::fmt;

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
/// they say nothing about the difference. With blocks of two and two this is the test simulated in
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
        interval(&self.blocks, p_limit).map(f64::exp)
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

/// Which of the two compared sides an observation belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The reference.
    Baseline,
    /// What is compared with the reference.
    Candidate,
}

/// One value, measured in a block within which the order of the sides was drawn at random.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// The measured value, in any unit; positive.
    pub value: f64,
    /// The side it was measured for.
    pub side: Side,
    /// The block it was measured in; any number, equal for the members of a block.
    pub block: u32,
}

impl Observation {
    /// An observation of the baseline.
    pub fn baseline(value: f64, block: u32) -> Observation {
        Observation {
            value,
            side: Side::Baseline,
            block,
        }
    }

    /// An observation of the candidate.
    pub fn candidate(value: f64, block: u32) -> Observation {
        Observation {
            value,
            side: Side::Candidate,
            block,
        }
    }
}

// Observations arranged for ranking: logarithms by side in ascending order, each with its block.
// Decides which observations count and computes ranks and the normal approximation for any shift of
// the candidate.

/// Logarithms of the observations that can be compared.
#[derive(Debug, Clone)]
pub(crate) struct Blocks {
    baseline: Vec<Member>,
    candidate: Vec<Member>,
    sizes: Vec<Size>,
}

/// Number of values of either side in one block.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    baseline: usize,
    candidate: usize,
}

impl Size {
    fn total(&self) -> usize {
        self.baseline + self.candidate
    }
}

/// Logarithms this close count as equal: they differ only by the rounding of a shift or of a unit.
const TIE: f64 = 1e-13;

#[derive(Debug, Clone, Copy)]
struct Member {
    log: f64,
    block: usize,
}

impl Blocks {
    pub(crate) fn new(observations: &[Observation]) -> Result<Blocks, StratifiedError> {
        let not_positive = |o: &Observation| !(o.value.is_finite() && o.value > 0.0);
        if let Some(index) = observations.iter().position(not_positive) {
            return Err(StratifiedError::NotPositive { index });
        }
        let mut in_order: Vec<&Observation> = observations.iter().collect();
        in_order.sort_by_key(|observation| observation.block);
        let mut blocks = Blocks {
            baseline: Vec::new(),
            candidate: Vec::new(),
            sizes: Vec::new(),
        };
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

    fn push(&mut self, block: &[&Observation]) {
        let candidate = block.iter().filter(|o| o.side == Side::Candidate).count();
        let size = Size {
            baseline: block.len() - candidate,
            candidate,
        };
        if size.baseline == 0 || size.candidate == 0 {
            return;
        }
        for observation in block {
            let member = Member {
                log: observation.value.ln(),
                block: self.sizes.len(),
            };
            match observation.side {
                Side::Baseline => self.baseline.push(member),
                Side::Candidate => self.candidate.push(member),
            }
        }
        self.sizes.push(size);
    }

    pub(crate) fn n_per_side(&self) -> usize {
        self.baseline.len().min(self.candidate.len())
    }

    pub(crate) fn count(&self) -> usize {
        self.sizes.len()
    }

    /// The blocks at `picks`, in which a block picked twice counts as two.
    pub(crate) fn resampled(&self, picks: &[usize]) -> Blocks {
        let mut places = vec![Vec::new(); self.sizes.len()];
        for (place, &pick) in picks.iter().enumerate() {
            places[pick].push(place);
        }
        // Copies follow their original, so the sides stay sorted.
        let copies = |side: &[Member]| {
            let of = |member: &Member| {
                let log = member.log;
                places[member.block]
                    .iter()
                    .map(move |&block| Member { log, block })
            };
            side.iter().flat_map(of).collect()
        };
        Blocks {
            baseline: copies(&self.baseline),
            candidate: copies(&self.candidate),
            sizes: picks.iter().map(|&pick| self.sizes[pick]).collect(),
        }
    }

    /// The shift of the candidate's logarithms.
    pub(crate) fn log_ratio(&self) -> f64 {
        estimate(self, FINE)
    }

    /// The same to six decimals in half the time, for resampling.
    pub(crate) fn rough_log_ratio(&self) -> f64 {
        estimate(self, COARSE)
    }

    fn sizes(&self) -> &[Size] {
        &self.sizes
    }

    /// Every candidate's logarithm minus every baseline's.
    fn differences(&self) -> impl Iterator<Item = f64> {
        self.candidate
            .iter()
            .flat_map(|c| self.baseline.iter().map(move |b| c.log - b.log))
    }

    /// Calls `visit(block, side, doubled mid-rank)` for every value in ascending order, with `theta` subtracted from
    /// the candidate's logarithms. Both sides are sorted already, so ranking is one merge.
    fn visit_ranks(&self, theta: f64, mut visit: impl FnMut(usize, Side, usize)) {
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
            a[first_i..i]
                .iter()
                .for_each(|member| visit(member.block, Side::Baseline, rank));
            b[first_j..j]
                .iter()
                .for_each(|member| visit(member.block, Side::Candidate, rank));
        }
    }

    /// The candidate's rank sum minus its mean, over its standard deviation; 0 when no arrangement changes the sum.
    pub(crate) fn z(&self, theta: f64) -> f64 {
        let (excess, variance) = self.excess_and_variance(theta);
        if variance > 0.0 {
            excess / variance.sqrt()
        } else {
            0.0
        }
    }

    /// The candidate's rank sum minus its mean under permutation, and the variance of the sum.
    ///
    /// In a block of m values, c of them the candidate's, the sum of c drawn without replacement
    /// has the variance c (m - c) / (m - 1) times the population variance of the block's ranks
    /// (Cochran, Sampling Techniques, section 2.6); for c = m/2 that is m^2 / (4 (m - 1)).
    fn excess_and_variance(&self, theta: f64) -> (f64, f64) {
        let mut sums = vec![Sums::default(); self.sizes.len()];
        self.visit_ranks(theta, |block, side, doubled| {
            let rank = 0.5 * doubled as f64;
            let sums = &mut sums[block];
            sums.ranks += rank;
            sums.squares += rank * rank;
            if side == Side::Candidate {
                sums.candidate += rank;
            }
        });
        let (mut excess, mut variance) = (0.0, 0.0);
        for (size, sums) in self.sizes.iter().zip(&sums) {
            let (a, c) = (size.baseline as f64, size.candidate as f64);
            let m = a + c;
            let mean = sums.ranks / m;
            excess += sums.candidate - c * mean;
            variance += c * a / (m - 1.0) * (sums.squares / m - mean * mean).max(0.0);
        }
        (excess, variance)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    ranks: f64,
    squares: f64,
    candidate: f64,
}

// The shift of logarithms, and its interval, by inverting the test. Decides how a shift is searched.
// The tails of the permutation distribution are monotone in the shift: lowering the candidate raises
// no candidate's rank and lowers no baseline's, so that every rearrangement gains on the observed one.
// Hence the shifts that are not rejected form one interval, and zero lies in it exactly when the test
// of zero does not reject.

/// First bracket of theta: ratios from 0.55 to 1.82, beyond which a change needs no fine search. Its middle is zero, so
/// that an interval agrees with the test of zero.
const FIRST_BRACKET: f64 = 0.6;

/// The widest bracket tried, a ratio of e^77; a z that has not crossed the limit by then never will.
const WIDEST_BRACKET: f64 = 77.0;

/// Width at which the search stops: a millionth of the finest change anyone measures.
const FINE: f64 = 1e-12;

/// Width for figures that are resampled anyway: a ten-thousandth of a percent.
const COARSE: f64 = 1e-6;

/// The theta at which z is zero: the middle between the last positive and the first negative z.
fn estimate(blocks: &Blocks, resolution: f64) -> f64 {
    let middle = |is_below: &dyn Fn(f64) -> bool| {
        let (low, high) = crossing(resolution, |theta| is_below(blocks.z(theta)));
        0.5 * (low + high)
    };
    0.5 * (middle(&|z| z > 0.0) + middle(&|z| z >= 0.0))
}

/// The thetas that the two-sided test does not reject at `p_limit`; infinite where none is.
fn interval(blocks: &Blocks, p_limit: f64) -> Interval {
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
        // Differences that differ only by rounding are one.
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
