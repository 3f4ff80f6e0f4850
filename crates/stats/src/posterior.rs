//! Bisects a sequence of revisions by Bayes' rule: computes from noisy runs which revision
//! introduced a change, and which revision to measure next.
//!
//! The evidence of a run depends on how much more often similar values occurred at the bad end of
//! the sequence than at the good end. No shape of the noise is assumed. This module builds and
//! measures nothing. The method is probabilistic bisection (Horstein, IEEE Transactions on
//! Information Theory 9, 1963; Burnashev and Zigangirov, Problems of Information Transmission 10,
//! 1974). Start at [`RevisionPosterior`].

use crate::describe::quantile;
use std::ops::RangeInclusive;

/// The evidence that a measured value gives for the bad end against the good end. The quartiles of
/// the pooled values of both ends define four quarters. The evidence depends only on the quarter of
/// the measured value.
#[derive(Debug, Clone, PartialEq)]
pub struct PosteriorBins {
    cuts: [f64; 3],
    /// Log likelihood ratio in each quarter.
    evidence: [f64; 4],
}

impl PosteriorBins {
    /// Computes the bins from the runs of both ends so far. The caller computes them anew after
    /// every block. `None` when an end has no run.
    ///
    /// Half a run is added to every count, so that no quarter is decisive by itself, even if one
    /// end never reached it.
    pub fn new(good: &[f64], bad: &[f64]) -> Option<PosteriorBins> {
        if good.is_empty() || bad.is_empty() {
            return None;
        }
        let mut sorted = [good, bad].concat();
        sorted.sort_unstable_by(f64::total_cmp);
        let cuts = [0.25, 0.5, 0.75].map(|share| quantile(&sorted, share));
        let share = |values: &[f64], bin: usize| {
            let inside = values.iter().filter(|&&value| bin_of(&cuts, value) == bin);
            (inside.count() as f64 + 0.5) / (values.len() as f64 + 2.0)
        };
        let evidence = [0, 1, 2, 3].map(|bin| (share(bad, bin) / share(good, bin)).ln());
        Some(PosteriorBins { cuts, evidence })
    }

    /// Evidence that a value gives for the bad end: positive if such values are more frequent there
    /// than at the good end.
    pub fn evidence(&self, value: f64) -> f64 {
        self.evidence[bin_of(&self.cuts, value)]
    }
}

fn bin_of(cuts: &[f64; 3], value: f64) -> usize {
    cuts.iter().filter(|&&cut| cut < value).count()
}

/// For each candidate, the probability that it is the first bad revision.
///
/// Candidates are numbered from 0, oldest first. The last candidate is the bad end itself; the good
/// end precedes the first candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct RevisionPosterior {
    probability: Vec<f64>,
}

impl RevisionPosterior {
    /// Computes the posterior from all runs of revisions between the ends, as (candidate, value). A
    /// run of revision m that looks bad supports all candidates up to m; a run of m that looks good
    /// counts against them. The prior is uniform.
    pub fn new(
        candidates: usize,
        bins: &PosteriorBins,
        runs: &[(usize, f64)],
    ) -> RevisionPosterior {
        let mut logs = vec![0.0; candidates];
        for &(revision, value) in runs {
            logs[revision] += bins.evidence(value);
        }
        for candidate in (1..candidates).rev() {
            logs[candidate - 1] += logs[candidate];
        }
        let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = logs.iter().map(|log| (log - largest).exp()).collect();
        let total: f64 = weights.iter().sum();
        RevisionPosterior { probability: weights.iter().map(|weight| weight / total).collect() }
    }

    /// The revision to measure next: the buildable revision that splits the probability most
    /// evenly. `None` when no buildable revision is left between the ends.
    pub fn next_revision(&self, can_build: impl Fn(usize) -> bool) -> Option<usize> {
        let mut cumulative = 0.0;
        let candidates = self.probability.split_last()?.1.iter().enumerate();
        let distances = candidates.map(|(revision, probability)| {
            cumulative += probability;
            (revision, f64::abs(cumulative - 0.5))
        });
        let buildable = distances.filter(|&(revision, _)| can_build(revision));
        buildable.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(revision, _)| revision)
    }

    /// The first group of neighboring candidates whose probabilities together reach `level`.
    /// Candidates belong to the same group if no buildable revision separates them; most groups are
    /// a single candidate. `None` as long as no group reaches `level`.
    pub fn credible_answer(
        &self,
        level: f64,
        can_build: impl Fn(usize) -> bool,
    ) -> Option<RangeInclusive<usize>> {
        let (mut first, mut sum) = (0, 0.0);
        for (candidate, probability) in self.probability.iter().enumerate() {
            sum += probability;
            if candidate + 1 < self.probability.len() && !can_build(candidate) {
                continue;
            }
            if sum >= level {
                return Some(first..=candidate);
            }
            (first, sum) = (candidate + 1, 0.0);
        }
        None
    }

    /// The fewest candidates whose probabilities together reach `level`, oldest first. This is the
    /// answer if measuring ended early.
    pub fn credible_set(&self, level: f64) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.probability.len()).collect();
        order.sort_by(|&a, &b| self.probability[b].total_cmp(&self.probability[a]));
        let mut sum = 0.0;
        let is_needed = |&candidate: &usize| {
            let is_needed = sum < level;
            sum += self.probability[candidate];
            is_needed
        };
        let mut set: Vec<usize> = order.into_iter().take_while(is_needed).collect();
        set.sort_unstable();
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The quartiles are 2.75, 4.5 and 6.25. The good runs lie in two quarters and the bad runs in
    /// the other two, so the evidence is -+ ln 5.
    fn sample_bins() -> PosteriorBins {
        PosteriorBins::new(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0]).unwrap()
    }

    fn assert_probabilities(posterior: &RevisionPosterior, shares: &[f64]) {
        let total: f64 = shares.iter().sum();
        for (probability, share) in posterior.probability.iter().zip(shares) {
            assert!((probability - share / total).abs() < 1e-12, "{posterior:?}");
        }
        assert_eq!(posterior.probability.len(), shares.len());
    }

    #[test]
    fn evidence_is_the_log_ratio_of_bad_to_good_frequencies() {
        assert!((sample_bins().evidence(4.5) + 5f64.ln()).abs() < 1e-12);
        assert!((sample_bins().evidence(100.0) - 5f64.ln()).abs() < 1e-12);
        assert_eq!(PosteriorBins::new(&[], &[1.0]), None);
        let equal = PosteriorBins::new(&[3.0; 4], &[3.0; 4]).unwrap();
        assert_eq!(equal.evidence(3.0), 0.0);
    }

    #[test]
    fn bad_runs_make_all_candidates_up_to_their_revision_more_likely() {
        assert_probabilities(&RevisionPosterior::new(4, &sample_bins(), &[]), &[1.0; 4]);
        let runs = [(1, 7.0), (1, 8.0)];
        assert_probabilities(
            &RevisionPosterior::new(4, &sample_bins(), &runs),
            &[25.0, 25.0, 1.0, 1.0],
        );
        let runs = [(1, 7.0), (1, 8.0), (0, 1.0)];
        assert_probabilities(
            &RevisionPosterior::new(4, &sample_bins(), &runs),
            &[5.0, 25.0, 1.0, 1.0],
        );
    }

    #[test]
    fn the_next_revision_splits_the_probability_most_evenly() {
        let posterior = RevisionPosterior::new(4, &sample_bins(), &[(1, 7.0), (1, 8.0)]);
        assert_eq!(posterior.next_revision(|_| true), Some(0));
        assert_eq!(posterior.next_revision(|revision| revision != 0), Some(1));
        assert_eq!(posterior.next_revision(|_| false), None);
        // The bad end itself is never measured in place of a candidate.
        assert_eq!(RevisionPosterior::new(1, &sample_bins(), &[]).next_revision(|_| true), None);
    }

    #[test]
    fn the_answer_is_one_candidate_or_an_inseparable_group() {
        let runs = [(1, 7.0), (1, 8.0), (1, 9.0), (0, 1.0)];
        let posterior = RevisionPosterior::new(4, &sample_bins(), &runs);
        assert_probabilities(&posterior, &[25.0, 125.0, 1.0, 1.0]);
        assert_eq!(posterior.credible_answer(0.95, |_| true), None);
        assert_eq!(posterior.credible_answer(0.95, |revision| revision != 0), Some(0..=1));
        assert_eq!(posterior.credible_answer(0.8, |_| true), Some(1..=1));
        assert_eq!(posterior.credible_answer(0.95, |_| false), Some(0..=3));
        assert_eq!(posterior.credible_set(0.95), [0, 1]);
        assert_eq!(posterior.credible_set(1.0).len(), 4);
    }
}
