//! Where the level or the spread of a series changes: the best division of it into segments.
//!
//! Decides which division is best, by dynamic programming with pruning (PELT: Killick, Fearnhead and Eckley, JASA 107, 2012).
//! It must not know what the values are, or which changes matter to anybody. Start at [`segments`].

use std::f64::consts::TAU;
use std::ops::Range;

/// What stands in for a variance of zero, whose logarithm does not exist (R's package changepoint).
const LEAST_VARIANCE: f64 = 1e-11;

/// Rounding of a bound on costs that are differences of large sums. Bounds are missed by a penalty, which is far more.
const SLACK: f64 = 1e-6;

/// Candidates in a group. With the bound that all groups share, a step looks at about so many candidates.
const GROUP: usize = 64;

/// The segments, in order, that minimise the sum of `cost + penalty` over all segments, each of `shortest` values or more.
/// The cost of a segment is twice its negative log likelihood as normal values with a mean and a variance of its own.
///
/// A usual penalty is 15 ln n (Barrett et al., OOPSLA 2017). No values are no segment; fewer than twice `shortest` are one.
/// Candidates are dropped when they are `penalty` behind, as by R's package changepoint and by ruptures; with `shortest` above
/// 1 and a small penalty a division that is a little better may be missed.
///
/// Where little changes, plain PELT prunes nothing and takes time in proportion to n². So old candidates are gathered into
/// groups with a common lower bound: no division of s..t costs more than s..t itself, hence
/// `best(s) + cost(s..t) >= best(s) + cost(s..e) + cost(e..t)` for the last candidate e of the group. A group whose bound is
/// above the best cost is passed over as a whole, and so are all groups together by the least of their bounds.
///
/// ```
/// use speedwell_stats::changepoint::segments;
/// let noise = [0.01, -0.02, 0.0, 0.02, -0.01];
/// let values: Vec<f64> = (0..40).map(|at| f64::from(at / 20) + noise[at as usize % 5]).collect();
/// assert_eq!(segments(&values, 15.0 * 40f64.ln(), 5), [0..20, 20..40]);
/// ```
pub fn segments(values: &[f64], penalty: f64, shortest: usize) -> Vec<Range<usize>> {
    let (count, shortest) = (values.len(), shortest.max(1));
    if count < 2 * shortest {
        return if count == 0 {
            Vec::new()
        } else {
            std::iter::once(0..count).collect()
        };
    }
    Search::new(values, penalty, GROUP).divide(shortest)
}

/// Candidates for the last change with a common bound.
struct Group {
    candidates: Vec<usize>,
    /// The last candidate.
    end: usize,
    /// The least of `best(s) + cost(s..end)` over the candidates s.
    bound: f64,
}

struct Search {
    sums: Vec<f64>,
    squares: Vec<f64>,
    penalty: f64,
    /// The least cost of the values before each place.
    best: Vec<f64>,
    /// Where the last segment of that division begins.
    last_change: Vec<usize>,
    /// Old candidates, ascending.
    groups: Vec<Group>,
    /// The least bound of all groups where the last one was made: a bound for all of them together.
    bound_of_all: f64,
    end_of_all: usize,
    /// Young candidates, ascending, which come after all groups.
    young: Vec<usize>,
    /// How many make a group.
    group_size: usize,
}

impl Search {
    fn new(values: &[f64], penalty: f64, group_size: usize) -> Search {
        let sums = |of: fn(f64) -> f64| {
            let mut sum = 0.0;
            let sums = values.iter().map(|value| {
                sum += of(*value);
                sum
            });
            std::iter::once(0.0).chain(sums).collect()
        };
        let mut best = vec![f64::INFINITY; values.len() + 1];
        best[0] = -penalty;
        Search {
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

    /// The best division of all values.
    fn divide(mut self, shortest: usize) -> Vec<Range<usize>> {
        let count = self.best.len() - 1;
        self.admit(0);
        for end in shortest..=count {
            self.extend_to(end);
            // As a last change, this place leaves room for one more segment.
            if end + 1 >= 2 * shortest {
                self.admit(end + 1 - shortest);
            }
        }
        let mut ends = vec![count];
        while let Some(&end) = ends.last().filter(|end| **end > 0) {
            ends.push(self.last_change[end]);
        }
        ends.reverse();
        ends.windows(2).map(|pair| pair[0]..pair[1]).collect()
    }

    /// The cost of the values `begin..end` as one segment.
    fn cost(&self, begin: usize, end: usize) -> f64 {
        if begin == end {
            return 0.0;
        }
        let count = (end - begin) as f64;
        let sum = self.sums[end] - self.sums[begin];
        let variance = (self.squares[end] - self.squares[begin] - sum * sum / count) / count;
        let variance = if variance <= 0.0 {
            LEAST_VARIANCE
        } else {
            variance
        };
        count * (TAU.ln() + variance.ln() + 1.0)
    }

    /// The least cost of `0..end` whose last segment begins at `begin`.
    fn through(&self, begin: usize, end: usize) -> f64 {
        self.best[begin] + self.cost(begin, end) + self.penalty
    }

    /// Lets segments begin at `place` from now on.
    fn admit(&mut self, place: usize) {
        self.young.push(place);
        // Before the cost up to here is known there is no bound.
        if place - self.end_of_all < self.group_size || !self.best[place].is_finite() {
            return;
        }
        // What is nearly best is looked at every time: the bound of its group would pass over nothing.
        let through = |begin: usize| self.best[begin] + self.cost(begin, place);
        let near = self.best[place] - self.penalty / 2.0;
        let (young, candidates): (Vec<usize>, Vec<usize>) = self
            .young
            .iter()
            .partition(|begin| **begin == place || through(**begin) <= near);
        let bound = candidates.iter().map(|begin| through(*begin));
        let group = Group {
            bound: bound.fold(f64::INFINITY, f64::min),
            end: place,
            candidates,
        };
        let mut groups = std::mem::take(&mut self.groups);
        groups.push(group);
        groups.retain(|group| self.bound(group, place) <= self.best[place]);
        let bounds = groups.iter().map(|group| self.bound(group, place));
        self.bound_of_all = bounds.fold(f64::INFINITY, f64::min);
        self.end_of_all = place;
        (self.groups, self.young) = (groups, young);
    }

    /// What the cost of `0..end` through any candidate of the group is at least, without the penalty.
    fn bound(&self, group: &Group, end: usize) -> f64 {
        group.bound + self.cost(group.end, end) - SLACK
    }

    /// Finds the best division of `0..end`, and forgets the candidates that can never be best again.
    fn extend_to(&mut self, end: usize) {
        // The begin of the last segment seldom changes, so this is near the least cost.
        let begin = self.last_change[end - 1];
        let mut least = (self.through(begin, end), begin);
        let bound = self.bound_of_all + self.cost(self.end_of_all, end) - SLACK;
        if bound + self.penalty <= least.0 {
            let mut groups = std::mem::take(&mut self.groups);
            for group in &mut groups {
                if self.bound(group, end) + self.penalty <= least.0 {
                    self.thin_out(&mut group.candidates, end, &mut least);
                }
            }
            groups.retain(|group| !group.candidates.is_empty());
            self.groups = groups;
        }
        let mut young = std::mem::take(&mut self.young);
        self.thin_out(&mut young, end, &mut least);
        self.young = young;
        (self.best[end], self.last_change[end]) = least;
    }

    /// Lowers `least`, the least cost of `0..end` with the first place that has it, to that through these candidates, and
    /// keeps those of them that may be best one day.
    fn thin_out(&self, candidates: &mut Vec<usize>, end: usize, least: &mut (f64, usize)) {
        let costs: Vec<f64> = candidates
            .iter()
            .map(|place| self.through(*place, end))
            .collect();
        for (cost, place) in costs.iter().zip(&*candidates) {
            if (*cost, *place) < *least {
                *least = (*cost, *place);
            }
        }
        let mut costs = costs.iter();
        candidates.retain(|_| {
            costs
                .next()
                .is_some_and(|cost| *cost <= least.0 + self.penalty)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{RngCore, SeedableRng};

    /// About normal, by the sum of twelve uniform numbers.
    fn noise(seed: u64, count: usize) -> Vec<f64> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut uniform = || random.next_u64() as f64 / u64::MAX as f64;
        (0..count)
            .map(|_| (0..12).map(|_| uniform()).sum::<f64>() - 6.0)
            .collect()
    }

    #[test]
    fn groups_of_candidates_leave_the_result_as_it_is() {
        for seed in 0..40 {
            let mut values = noise(seed, 120);
            let at = 10 + seed as usize * 2;
            for value in &mut values[at..] {
                *value = *value * (1.0 + seed as f64 / 20.0) + (seed % 4) as f64;
            }
            let penalty = [20.0, 40.0, 72.0][seed as usize % 3];
            let plain = Search::new(&values, penalty, usize::MAX).divide(2);
            for group_size in [1, 4, 20] {
                let found = Search::new(&values, penalty, group_size).divide(2);
                assert_eq!(found, plain, "seed {seed}, groups of {group_size}");
            }
        }
    }

    #[test]
    fn short_and_constant_series_are_one_segment() {
        assert_eq!(segments(&[], 1.0, 5), []);
        assert_eq!(segments(&[1.0; 9], 1.0, 5), [0..9]);
        assert_eq!(segments(&[0.0; 50], 50.0, 5), [0..50]);
    }
}
