//! Finds the change points of a series, where the level or spread changes. Change points are the
//! borders between the segments of the best segmentation.
//!
//! Uses dynamic programming with pruning (PELT: Killick, Fearnhead and Eckley, JASA 107, 2012).
//! This module does not know what the values are or which changes matter. Start at
//! [`find_segments`].

use std::f64::consts::TAU;
use std::ops::Range;

/// Replaces a variance of zero, which has no logarithm (as in R's package changepoint).
const MIN_VARIANCE: f64 = 1e-11;

/// Allowance for rounding errors in a bound, because costs are computed as differences of large
/// sums. It is far smaller than any sensible penalty.
const SLACK: f64 = 1e-6;

/// Number of candidates in a group. Because the bound common to all groups usually lets a step skip
/// them, a step examines about this many candidates.
const GROUP: usize = 64;

/// Returns the segmentation with the minimum sum of `cost + penalty` over its segments. Each
/// segment has at least `shortest` values. The cost of a segment is twice the negative log
/// likelihood of its values under a normal distribution with their mean and variance.
///
/// A common penalty is 15 ln n (Barrett et al., OOPSLA 2017). Returns nothing for an empty slice,
/// and a single segment for fewer than `2 * shortest` values. A candidate is a possible start of
/// the last segment. It is dropped once its cost exceeds the best cost by `penalty`, as in R's
/// package changepoint and in ruptures. If `shortest` is above 1 and the penalty is small, a
/// slightly better segmentation may be missed.
///
/// Where little changes, plain PELT prunes nothing and takes O(n²) time. Therefore old candidates
/// are gathered into groups with a common lower bound. A group is formed at an index e after all
/// its candidates s. Without penalties, splitting a segment never increases the cost, so `best(s) +
/// cost(s..t) >= best(s) + cost(s..e) + cost(e..t)`. A group is skipped as a whole if its bound is
/// above the best cost. All groups are skipped at once if the minimum of their bounds is above the
/// best cost.
///
/// ```
/// use speedwell_stats::changepoint::find_segments;
/// let noise = [0.01, -0.02, 0.0, 0.02, -0.01];
/// let values: Vec<f64> = (0..40).map(|at| f64::from(at / 20) + noise[at as usize % 5]).collect();
/// assert_eq!(find_segments(&values, 15.0 * 40f64.ln(), 5), [0..20, 20..40]);
/// ```
pub fn find_segments(values: &[f64], penalty: f64, shortest: usize) -> Vec<Range<usize>> {
    let (count, shortest) = (values.len(), shortest.max(1));
    if count < 2 * shortest {
        return (count > 0).then_some(0..count).into_iter().collect();
    }
    SplitSearch::new(values, penalty, GROUP).best_segmentation(shortest)
}

/// A group of candidates for the last change point. All candidates of a group share one bound.
struct TiedGroup {
    candidates: Vec<usize>,
    /// The index at which the group was formed, after all its candidates.
    end: usize,
    /// The minimum of `best(s) + cost(s..end)` over the candidates s.
    bound: f64,
}

struct SplitSearch {
    sums: Vec<f64>,
    squares: Vec<f64>,
    penalty: f64,
    /// The minimum cost of the values before each index.
    best: Vec<f64>,
    /// For each index, the start of the last segment in the best segmentation of the values before
    /// this index.
    last_change: Vec<usize>,
    /// Groups of old candidates, in the order in which the groups were formed.
    groups: Vec<TiedGroup>,
    /// The minimum of the bounds of all groups at `end_of_all`, the index at which the last group
    /// was formed. It is a bound for all groups together.
    bound_of_all: f64,
    end_of_all: usize,
    /// Candidates that are in no group, ascending: recent ones, and older ones that are nearly
    /// optimal.
    young: Vec<usize>,
    group_size: usize,
}

impl SplitSearch {
    fn new(values: &[f64], penalty: f64, group_size: usize) -> SplitSearch {
        let sums = |term: fn(f64) -> f64| {
            let mut sum = 0.0;
            let sums = values.iter().map(|value| {
                sum += term(*value);
                sum
            });
            std::iter::once(0.0).chain(sums).collect()
        };
        let mut best = vec![f64::INFINITY; values.len() + 1];
        best[0] = -penalty;
        SplitSearch {
            sums: sums(|value| value),
            squares: sums(|value| value * value),
            penalty,
            best,
            last_change: vec![0; values.len() + 1],
            groups: Vec::new(),
            bound_of_all: f64::INFINITY,
            end_of_all: 0,
            young: Vec::new(),
            group_size,
        }
    }

    fn best_segmentation(mut self, shortest: usize) -> Vec<Range<usize>> {
        let count = self.best.len() - 1;
        self.admit_candidate(0);
        for end in shortest..=count {
            self.extend_to(end);
            // From the next `end` on, the last segment may start at `end + 1 - shortest`, if enough
            // values for a segment precede that index.
            if end + 1 >= 2 * shortest {
                self.admit_candidate(end + 1 - shortest);
            }
        }
        let mut ends = vec![count];
        while let Some(&end) = ends.last().filter(|end| **end > 0) {
            ends.push(self.last_change[end]);
        }
        ends.reverse();
        ends.windows(2).map(|pair| pair[0]..pair[1]).collect()
    }

    fn segment_cost(&self, begin: usize, end: usize) -> f64 {
        if begin == end {
            return 0.0;
        }
        let count = (end - begin) as f64;
        let sum = self.sums[end] - self.sums[begin];
        let variance = (self.squares[end] - self.squares[begin] - sum * sum / count) / count;
        let variance = if variance <= 0.0 { MIN_VARIANCE } else { variance };
        count * (TAU.ln() + variance.ln() + 1.0)
    }

    /// Returns the minimum cost of `0..end` if the last segment starts at `begin`.
    fn cost_through(&self, begin: usize, end: usize) -> f64 {
        self.best[begin] + self.segment_cost(begin, end) + self.penalty
    }

    fn admit_candidate(&mut self, index: usize) {
        self.young.push(index);
        // Without the minimum cost of the values before `index`, there is no bound.
        if index - self.end_of_all < self.group_size || !self.best[index].is_finite() {
            return;
        }
        // Nearly optimal candidates stay in `young`: a group with such a candidate could never be
        // skipped.
        let cost_through_here = |begin: usize| self.best[begin] + self.segment_cost(begin, index);
        let near_best = self.best[index] - self.penalty / 2.0;
        let (young, candidates): (Vec<usize>, Vec<usize>) = self
            .young
            .iter()
            .partition(|begin| **begin == index || cost_through_here(**begin) <= near_best);
        let bound = candidates.iter().map(|begin| cost_through_here(*begin));
        let group =
            TiedGroup { bound: bound.fold(f64::INFINITY, f64::min), end: index, candidates };
        let mut groups = std::mem::take(&mut self.groups);
        groups.push(group);
        groups.retain(|group| self.lower_bound(group, index) <= self.best[index]);
        let bounds = groups.iter().map(|group| self.lower_bound(group, index));
        self.bound_of_all = bounds.fold(f64::INFINITY, f64::min);
        self.end_of_all = index;
        (self.groups, self.young) = (groups, young);
    }

    /// Returns a lower bound of the cost of `0..end` through any candidate of the group, without
    /// the penalty.
    fn lower_bound(&self, group: &TiedGroup, end: usize) -> f64 {
        group.bound + self.segment_cost(group.end, end) - SLACK
    }

    /// Finds the best segmentation of `0..end`, and drops candidates that can never be best again.
    fn extend_to(&mut self, end: usize) {
        // The start of the last segment seldom changes, so its previous value gives nearly the
        // minimum cost.
        let begin = self.last_change[end - 1];
        let mut best = (self.cost_through(begin, end), begin);
        let bound = self.bound_of_all + self.segment_cost(self.end_of_all, end) - SLACK;
        if bound + self.penalty <= best.0 {
            let mut groups = std::mem::take(&mut self.groups);
            for group in &mut groups {
                if self.lower_bound(group, end) + self.penalty <= best.0 {
                    self.thin_out(&mut group.candidates, end, &mut best);
                }
            }
            groups.retain(|group| !group.candidates.is_empty());
            self.groups = groups;
        }
        let mut young = std::mem::take(&mut self.young);
        self.thin_out(&mut young, end, &mut best);
        self.young = young;
        (self.best[end], self.last_change[end]) = best;
    }

    /// Updates `best` (the minimum cost of `0..end` and the first index that attains it) from
    /// these candidates, and drops candidates that can no longer become optimal.
    fn thin_out(&self, candidates: &mut Vec<usize>, end: usize, best: &mut (f64, usize)) {
        let costs: Vec<f64> =
            candidates.iter().map(|index| self.cost_through(*index, end)).collect();
        for (cost, index) in costs.iter().zip(&*candidates) {
            if (*cost, *index) < *best {
                *best = (*cost, *index);
            }
        }
        let mut remaining = costs.iter();
        candidates.retain(|_| remaining.next().is_some_and(|cost| *cost <= best.0 + self.penalty));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{RngCore, SeedableRng};

    /// Roughly normal values: sums of twelve uniform numbers.
    fn normal_noise(seed: u64, count: usize) -> Vec<f64> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut uniform = || random.next_u64() as f64 / u64::MAX as f64;
        (0..count).map(|_| (0..12).map(|_| uniform()).sum::<f64>() - 6.0).collect()
    }

    #[test]
    fn grouping_candidates_does_not_change_the_segmentation() {
        for seed in 0..40 {
            let mut values = normal_noise(seed, 120);
            let at = 10 + seed as usize * 2;
            for value in &mut values[at..] {
                *value = *value * (1.0 + seed as f64 / 20.0) + (seed % 4) as f64;
            }
            let penalty = [20.0, 40.0, 72.0][seed as usize % 3];
            let plain = SplitSearch::new(&values, penalty, usize::MAX).best_segmentation(2);
            for group_size in [1, 4, 20] {
                let found = SplitSearch::new(&values, penalty, group_size).best_segmentation(2);
                assert_eq!(found, plain, "seed {seed}, groups of {group_size}");
            }
        }
    }

    #[test]
    fn short_and_constant_series_are_one_segment() {
        assert_eq!(find_segments(&[], 1.0, 5), []);
        assert_eq!(find_segments(&[1.0; 9], 1.0, 5).len(), 1);
        assert_eq!(find_segments(&[0.0; 50], 50.0, 5).len(), 1);
    }
}
