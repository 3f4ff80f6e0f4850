//! The null distribution: labels permuted inside every block.
//!
//! Decides how arrangements are drawn or enumerated, and counts those at least as extreme as the
//! observed one. It must not know logarithms or shifts. Start at [`Permutation::tails`].

use super::Options;
use super::blocks::{Blocks, Size};
use crate::observation::Side;
use crate::random::Indices;

/// With at most this many arrangements all of them are counted instead of drawing some.
const MOST_ENUMERATED: usize = 10_000;

/// Tables of blocks are multiplied up to this many entries, so that one random index decides
/// several blocks and the tables stay in the first-level cache.
const LARGEST_TABLE: usize = 2048;

/// Rank sums this close count as equal: they differ only by rounding.
const TOLERANCE: f64 = 1e-9;

/// Observed rank sum and everything it is compared with.
pub(super) struct Permutation {
    /// The candidate's rank sum minus its mean under permutation.
    observed: f64,
    /// Possible rank sums, minus their means, of groups of blocks.
    tables: Vec<Vec<f64>>,
    /// Blocks with too many arrangements for a table.
    large: Vec<LargeBlock>,
}

/// Shares of arrangements at least as extreme as the observed one.
pub(super) struct Tails {
    pub(super) lower: f64,
    pub(super) upper: f64,
    pub(super) both: f64,
    pub(super) enumerated: bool,
}

struct LargeBlock {
    centred_ranks: Vec<f64>,
    candidates: usize,
}

impl Permutation {
    pub(super) fn new(blocks: &Blocks, theta: f64) -> Permutation {
        let mut ranks: Vec<Vec<f64>> = vec![Vec::new(); blocks.sizes().len()];
        let mut sums = vec![0.0; blocks.sizes().len()];
        blocks.visit_ranks(theta, |block, side, rank| {
            ranks[block].push(rank);
            if side == Side::Candidate {
                sums[block] += rank;
            }
        });
        let mut permutation = Permutation {
            observed: 0.0,
            tables: Vec::new(),
            large: Vec::new(),
        };
        for ((ranks, sum), size) in ranks.into_iter().zip(sums).zip(blocks.sizes()) {
            permutation.push(ranks, sum, *size);
        }
        permutation.merge_tables();
        permutation
    }

    fn push(&mut self, mut ranks: Vec<f64>, candidate_sum: f64, size: Size) {
        let mean = ranks.iter().sum::<f64>() / ranks.len() as f64;
        self.observed += candidate_sum - size.candidate as f64 * mean;
        for rank in &mut ranks {
            *rank -= mean;
        }
        // Members come by rank, so the order carries no trace of the labels.
        if combinations(ranks.len(), size.candidate) <= MOST_ENUMERATED as f64 {
            let mut sums = Vec::new();
            choose(&ranks, size.candidate, 0.0, &mut sums);
            self.tables.push(sums);
        } else {
            self.large.push(LargeBlock {
                centred_ranks: ranks,
                candidates: size.candidate,
            });
        }
    }

    /// Multiplies tables: into one if all arrangements can be enumerated, else into several of
    /// handy size.
    fn merge_tables(&mut self) {
        let everything: f64 = self.tables.iter().map(|table| table.len() as f64).product();
        let all = self.large.is_empty() && everything <= MOST_ENUMERATED as f64;
        let limit = if all { MOST_ENUMERATED } else { LARGEST_TABLE };
        let mut merged: Vec<Vec<f64>> = Vec::new();
        for table in self.tables.drain(..) {
            match merged.last_mut() {
                Some(last) if last.len() * table.len() <= limit => *last = all_sums(last, &table),
                _ => merged.push(table),
            }
        }
        self.tables = merged;
    }

    pub(super) fn tails(&self, options: &Options) -> Tails {
        let mut counts = Counts::new(self.observed);
        let enumerated = self.large.is_empty() && self.tables.len() == 1;
        if enumerated {
            self.tables[0].iter().for_each(|&sum| counts.add(sum));
            counts.shares(0, self.tables[0].len())
        } else {
            self.draw(options, &mut counts);
            // The observed arrangement is one of the possible ones: without the added 1 the test
            // would reject too often (Phipson and Smyth, SAGMB 9, 2010).
            counts.shares(1, options.draws + 1)
        }
    }

    /// The largest share not above `alpha` that [`Tails::both`] can take; `alpha` where arrangements
    /// are drawn.
    pub(super) fn level(&self, alpha: f64) -> f64 {
        let ([sums], true) = (&self.tables[..], self.large.is_empty()) else {
            return alpha;
        };
        let mut distances: Vec<f64> = sums.iter().map(|sum| sum.abs()).collect();
        distances.sort_unstable_by(|a, b| b.total_cmp(a));
        // Equal distances are counted together, so their share is known where the next one begins.
        let mut level = 0.0;
        for count in 1..=distances.len() {
            let share = count as f64 / distances.len() as f64;
            if share > alpha {
                break;
            }
            let next = distances.get(count);
            if next.is_none_or(|next| next + TOLERANCE < distances[count - 1]) {
                level = share;
            }
        }
        level
    }

    fn draw(&self, options: &Options, counts: &mut Counts) {
        let mut indices = Indices::new(options.seed);
        let (pairs, rest) = self.tables.as_chunks::<2>();
        let mut pool = Vec::new();
        for _ in 0..options.draws {
            let mut sum = 0.0;
            for [first, second] in pairs {
                let (i, j) = indices.pair_below(first.len(), second.len());
                sum += first[i] + second[j];
            }
            for table in rest {
                sum += table[indices.below(table.len())];
            }
            for block in &self.large {
                sum += block.draw(&mut indices, &mut pool);
            }
            counts.add(sum);
        }
    }
}

impl LargeBlock {
    /// Sum of a random choice of the candidates' ranks: the first steps of a Fisher-Yates shuffle.
    fn draw(&self, indices: &mut Indices, pool: &mut Vec<f64>) -> f64 {
        pool.clear();
        pool.extend_from_slice(&self.centred_ranks);
        for place in 0..self.candidates {
            let other = place + indices.below(pool.len() - place);
            pool.swap(place, other);
        }
        pool[..self.candidates].iter().sum()
    }
}

/// Arrangements seen on either side of the observed sum.
struct Counts {
    observed: f64,
    lower: usize,
    upper: usize,
    both: usize,
}

impl Counts {
    fn new(observed: f64) -> Counts {
        Counts {
            observed,
            lower: 0,
            upper: 0,
            both: 0,
        }
    }

    fn add(&mut self, sum: f64) {
        self.lower += usize::from(sum <= self.observed + TOLERANCE);
        self.upper += usize::from(sum >= self.observed - TOLERANCE);
        self.both += usize::from(sum.abs() >= self.observed.abs() - TOLERANCE);
    }

    fn shares(&self, extra: usize, total: usize) -> Tails {
        let share = |count: usize| (count + extra) as f64 / total as f64;
        Tails {
            lower: share(self.lower),
            upper: share(self.upper),
            both: share(self.both),
            enumerated: extra == 0,
        }
    }
}

/// Number of ways to choose `k` of `n`, as a float: it may be astronomically large.
fn combinations(n: usize, k: usize) -> f64 {
    (1..=k.min(n - k))
        .map(|i| (n + 1 - i) as f64 / i as f64)
        .product::<f64>()
        .round()
}

/// Appends `base` plus the sum of every choice of `k` of `ranks`.
fn choose(ranks: &[f64], k: usize, base: f64, sums: &mut Vec<f64>) {
    if k == 0 {
        sums.push(base);
        return;
    }
    for first in 0..=ranks.len() - k {
        choose(&ranks[first + 1..], k - 1, base + ranks[first], sums);
    }
}

fn all_sums(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter()
        .flat_map(|x| b.iter().map(move |y| x + y))
        .collect()
}
