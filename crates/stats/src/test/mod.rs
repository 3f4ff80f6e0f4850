//! Contains statistical tests of two or more groups of values, each in its own file, and the rank
//! functions that most tests share.
//!
//! A test decides whether groups differ by more than chance allows, not what to do about it. Start
//! at [`stratified`], the test for randomised blocks; [`mod@signed_rank`] is for pairs,
//! [`mod@mann_whitney`] and [`mod@welch`] are for data without blocks, [`fisher_exact`] is for
//! counts, and [`mod@welch_anova`] is for more than two groups.

pub mod mann_whitney;
pub mod signed_rank;
pub mod stratified;
pub mod welch;

pub use mann_whitney::{MannWhitney, PValueMethod, mann_whitney};
pub use signed_rank::{SignedRank, SignedRankError, signed_rank};
pub use stratified::{StratifiedError, StratifiedRank, TailProbabilities, stratified_rank};
pub use welch::{WelchAnova, WelchError, WelchTest, welch, welch_anova};

/// Two-sided p-value of Fisher's exact test for an event that occurred `happened` times out of
/// `all` on each side. Given the margins, this is the probability of all tables that are at most as
/// likely as the observed table (Fisher, Journal of the Royal Statistical Society 98, 1935). The
/// p-value is 1 if the event always or never happened.
///
/// # Panics
/// Panics if `happened[i] > all[i]` for a side `i`.
pub fn fisher_exact(happened: [u32; 2], all: [u32; 2]) -> f64 {
    assert!(happened[0] <= all[0] && happened[1] <= all[1]);
    let in_all = happened[0] + happened[1];
    let (smallest, largest) = (in_all.saturating_sub(all[1]), in_all.min(all[0]));
    // Logarithms of the hypergeometric probabilities, up to a common constant, computed from the
    // ratios of neighboring probabilities.
    let mut logs = vec![0.0];
    for count in smallest..largest {
        let [first, second] = [all[0] - count, in_all - count].map(f64::from);
        let divisor = f64::from(all[1] + count + 1 - in_all);
        let last = logs[logs.len() - 1];
        logs.push(last + (first * second / (f64::from(count + 1) * divisor)).ln());
    }
    let observed = logs[(happened[0] - smallest) as usize];
    let highest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weight = |log: &f64| (log - highest).exp();
    // Tables of equal probability may differ by rounding. The tolerance is the same as in R and
    // scipy.
    let as_rare: f64 = logs.iter().filter(|log| **log <= observed + 1e-7).map(weight).sum();
    (as_rare / logs.iter().map(weight).sum::<f64>()).min(1.0)
}

// Ranks with ties: equal values share the mean of their ranks.

/// Rank of every value, from 1; equal values get the mean of the ranks they occupy.
///
/// The ranks come in the order of the values. Values must not be NaN.
pub fn mid_ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    for (first, tied) in runs_of_equals(&order, values) {
        let rank = first as f64 + 0.5 * (tied.len() + 1) as f64;
        for &index in tied {
            ranks[index] = rank;
        }
    }
    ranks
}

/// Sum of t^3 - t over the groups of t equal values: 0 without ties.
///
/// Ties reduce the variance of a rank sum in proportion to this term (Lehmann, Nonparametrics,
/// 1975).
pub fn tie_term(values: &[f64]) -> f64 {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|&a, &b| values[a].total_cmp(&values[b]));
    runs_of_equals(&order, values)
        .map(|(_, tied)| {
            let t = tied.len() as f64;
            t * t * t - t
        })
        .sum()
}

/// The groups of equal values in ascending order, each with the position of its first member in
/// `order`.
fn runs_of_equals<'a>(
    order: &'a [usize],
    values: &'a [f64],
) -> impl Iterator<Item = (usize, &'a [usize])> {
    let mut first = 0;
    order.chunk_by(|&a, &b| values[a] == values[b]).map(move |tied| {
        let start = first;
        first += tied.len();
        (start, tied)
    })
}

#[cfg(test)]
mod fisher_tests {
    use super::*;

    /// P-values of `scipy.stats.fisher_exact`. A row starts with how often the event happened and
    /// did not happen on one side, followed by the same two numbers for the other side.
    const SCIPY: [([u32; 4], f64); 10] = [
        ([7, 13, 3, 17], 0.273343047536596),
        ([0, 10, 5, 5], 0.032507739938080496),
        ([1, 9, 11, 3], 0.0027594561852200836),
        ([8, 2, 1, 5], 0.034965034965034975),
        ([0, 0, 3, 4], 1.0),
        ([12, 20, 4, 28], 0.041328406199167445),
        ([30, 66, 15, 81], 0.016486083500402773),
        ([2, 6, 2, 6], 1.0),
        ([350, 650, 300, 700], 0.019284321614513614),
        ([5, 0, 0, 5], 0.007936507936507938),
    ];

    #[test]
    fn p_values_are_those_of_scipy_whichever_side_comes_first() {
        for ([a, b, c, d], expected) in SCIPY {
            let p = fisher_exact([a, c], [a + b, c + d]);
            assert!((p - expected).abs() < 1e-10, "{a} {b} {c} {d}: {p}");
            let turned = fisher_exact([c, a], [c + d, a + b]);
            assert!((p - turned).abs() < 1e-12);
        }
    }
}

#[cfg(test)]
mod rank_tests {
    use super::*;

    #[test]
    fn tied_values_share_their_mean_rank() {
        assert_eq!(mid_ranks(&[8.0, 8.0, 7.0, 4.54, 800.0]), [3.5, 3.5, 2.0, 1.0, 5.0]);
        assert_eq!(mid_ranks(&[5.0; 4]), [2.5; 4]);
        assert!(mid_ranks(&[]).is_empty());
    }

    #[test]
    fn negative_zero_equals_zero() {
        assert_eq!(mid_ranks(&[0.0, -0.0]), [1.5, 1.5]);
    }

    #[test]
    fn ranks_always_add_up_to_the_triangular_number() {
        for n in 1..60u32 {
            let values: Vec<f64> = (0..n).map(|i| f64::from(i * 7919 % 13)).collect();
            let sum: f64 = mid_ranks(&values).iter().sum();
            assert_eq!(sum, f64::from(n * (n + 1)) / 2.0);
        }
    }

    #[test]
    fn the_tie_term_sums_over_all_groups_of_ties() {
        assert_eq!(tie_term(&[1.0, 2.0, 3.0]), 0.0);
        assert_eq!(tie_term(&[1.0, 1.0, 2.0, 3.0, 3.0, 3.0]), 6.0 + 24.0);
    }
}
