//! Arranges observations for ranking: sorts the logarithms of each side in ascending order, and
//! keeps the block of each logarithm.
//!
//! This module decides which observations count, and computes ranks and the normal approximation
//! for any shift of the candidate.

use std::fmt;

/// Why the test is undefined.
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
            StratifiedError::NoBlock => f.write_str("no block contains both sides"),
        }
    }
}

impl std::error::Error for StratifiedError {}

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
pub(crate) struct RankedBlocks {
    baseline: Vec<BlockMember>,
    candidate: Vec<BlockMember>,
    sizes: Vec<BlockSize>,
}

/// Number of values of either side in one block.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BlockSize {
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
    pub(crate) fn new(observations: &[BlockObservation]) -> Result<RankedBlocks, StratifiedError> {
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

    pub(crate) fn n_per_side(&self) -> usize {
        self.baseline.len().min(self.candidate.len())
    }

    pub(crate) fn count(&self) -> usize {
        self.sizes.len()
    }

    /// Returns the blocks at `picks`; a block picked twice counts as two.
    pub(crate) fn resample_blocks(&self, picks: &[usize]) -> RankedBlocks {
        let mut copy_blocks = vec![Vec::new(); self.sizes.len()];
        for (copy_block, &pick) in picks.iter().enumerate() {
            copy_blocks[pick].push(copy_block);
        }
        // All copies of a value take the place of the value, so the sides stay sorted.
        let copies = |side: &[BlockMember]| {
            let copies_of = |member: &BlockMember| {
                let log = member.log;
                copy_blocks[member.block].iter().map(move |&block| BlockMember { log, block })
            };
            side.iter().flat_map(copies_of).collect()
        };
        RankedBlocks {
            baseline: copies(&self.baseline),
            candidate: copies(&self.candidate),
            sizes: picks.iter().map(|&pick| self.sizes[pick]).collect(),
        }
    }

    pub(super) fn sizes(&self) -> &[BlockSize] {
        &self.sizes
    }

    /// All differences between a logarithm of the candidate and a logarithm of the baseline.
    pub(super) fn differences(&self) -> impl Iterator<Item = f64> {
        self.candidate.iter().flat_map(|c| self.baseline.iter().map(move |b| c.log - b.log))
    }

    /// Calls `visit(block, side, doubled mid-rank)` for every value in ascending order, with
    /// `theta` subtracted from the candidate's logarithms. Both sides are sorted, so ranking is one
    /// merge.
    pub(super) fn visit_ranks(&self, theta: f64, mut visit: impl FnMut(usize, BlockSide, usize)) {
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
    pub(crate) fn z_score(&self, theta: f64) -> f64 {
        let (excess, variance) = self.excess_and_variance(theta);
        if variance > 0.0 { excess / variance.sqrt() } else { 0.0 }
    }

    /// The candidate's rank sum minus its mean under permutation, and the variance of the sum.
    ///
    /// In a block of m values, of which c are the candidate's, the sum of c ranks drawn without
    /// replacement has the variance c (m - c) / (m - 1) times the population variance of the
    /// block's ranks (Cochran, Sampling Techniques, section 2.6). The factor is m^2 / (4 (m - 1))
    /// for c = m/2.
    pub(super) fn excess_and_variance(&self, theta: f64) -> (f64, f64) {
        let mut sums = vec![RankSums::default(); self.sizes.len()];
        self.visit_ranks(theta, |block, side, doubled| {
            let rank = 0.5 * doubled as f64;
            let sums = &mut sums[block];
            sums.ranks += rank;
            sums.squares += rank * rank;
            if side == BlockSide::Candidate {
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
struct RankSums {
    ranks: f64,
    squares: f64,
    candidate: f64,
}
