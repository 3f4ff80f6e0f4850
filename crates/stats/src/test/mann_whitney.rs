//! Implements the two-sided Mann-Whitney U test for two groups without blocks.
//!
//! This module chooses the null distribution. It agrees with `scipy.stats.mannwhitneyu` for the
//! methods that scipy has. It ignores blocks: use [`stratified`](super::stratified) for values that
//! were measured in randomised blocks. Start at [`mann_whitney`].

pub use crate::effect::{ShiftEstimate, cliffs_delta, hodges_lehmann};

use crate::distribution::normal;
use crate::test::{mid_ranks, tie_term};

/// scipy uses the exact distribution only if a side has at most this many values.
const MAX_EXACT_SIDE: usize = 8;

/// Which null distribution gives the p-value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PValueMethod {
    /// The method that scipy would choose: exact when a side has at most 8 values and there are no
    /// ties, else asymptotic.
    Auto,
    /// The distribution of U without ties, applied to any values (scipy's `exact`).
    Exact,
    /// The distribution over all rearrangements of the observed mid-ranks. It accounts for ties.
    ExactTies,
    /// The normal approximation with corrections for ties and continuity.
    Asymptotic,
}

/// Result of the Mann-Whitney test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MannWhitney {
    /// Number of pairs in which the first group's value is the larger; ties count one half.
    pub u1: f64,
    /// Two-sided p-value; NaN when a group is empty.
    pub p: f64,
    /// The distribution that was used; never [`PValueMethod::Auto`]. An exact method that would be
    /// too expensive is replaced by [`PValueMethod::Asymptotic`].
    pub method: PValueMethod,
}

/// Tests whether values of one group tend to be larger than values of the other (Mann and Whitney,
/// Annals of Mathematical Statistics 18, 1947).
pub fn mann_whitney(x: &[f64], y: &[f64], method: PValueMethod) -> MannWhitney {
    let pooled = [x, y].concat();
    let ranks = mid_ranks(&pooled);
    let (n1, n2) = (x.len(), y.len());
    let rank_sum: f64 = ranks[..n1].iter().sum();
    let u1 = rank_sum - 0.5 * (n1 * (n1 + 1)) as f64;
    if n1 == 0 || n2 == 0 {
        return MannWhitney { u1, p: f64::NAN, method: PValueMethod::Asymptotic };
    }
    let ties = tie_term(&pooled);
    let wanted = match method {
        PValueMethod::Auto if n1.min(n2) <= MAX_EXACT_SIDE && ties == 0.0 => PValueMethod::Exact,
        PValueMethod::Auto => PValueMethod::Asymptotic,
        chosen => chosen,
    };
    let exact = match wanted {
        PValueMethod::Exact => two_sided(u1, n1, n2),
        PValueMethod::ExactTies => two_sided_with_ties(&ranks, n1, rank_sum),
        PValueMethod::Auto | PValueMethod::Asymptotic => None,
    };
    let asymptotic = || (asymptotic_p(u1, n1, n2, ties), PValueMethod::Asymptotic);
    let (p, method) = exact.map_or_else(asymptotic, |p| (p, wanted));
    MannWhitney { u1, p, method }
}

/// The smallest two-sided p-value that groups of these sizes can reach without ties: 2 / C(n, n1).
pub fn smallest_p(n1: usize, n2: usize) -> f64 {
    let (smaller, larger) = (n1.min(n2), n1.max(n2));
    let factor = |k: usize| k as f64 / (larger + k) as f64;
    (1..=smaller).map(factor).product::<f64>().min(0.5) * 2.0
}

/// Normal approximation with continuity correction; the tie term is subtracted from the variance
/// (Lehmann, Nonparametrics, 1975, section 1.4).
fn asymptotic_p(u1: f64, n1: usize, n2: usize, ties: f64) -> f64 {
    let (pairs, n) = ((n1 * n2) as f64, (n1 + n2) as f64);
    let larger = u1.max(pairs - u1);
    let variance = pairs / 12.0 * ((n + 1.0) - ties / (n * (n - 1.0)));
    if variance <= 0.0 {
        // All values are equal, so there is no evidence against equal sides.
        return 1.0;
    }
    let z = (larger - 0.5 * pairs - 0.5) / variance.sqrt();
    (2.0 * normal::upper_tail(z)).min(1.0)
}

// Exact null distributions of the statistic, with and without ties, unless there are too many
// arrangements to count.

/// Maximum number of additions for counting; for larger groups, the normal approximation is
/// accurate to more digits than a p-value shows.
const MAX_ADDITIONS: usize = 200_000_000;

/// Two-sided p-value of `u1` under the distribution without ties: twice the tail, at most 1.
///
/// With ties, the larger of the two U statistics is rounded down, as in scipy. `None` when the
/// number of arrangements exceeds 128 bits, or counting them would take too long.
fn two_sided(u1: f64, n1: usize, n2: usize) -> Option<f64> {
    let pairs = (n1 * n2) as f64;
    let larger = u1.max(pairs - u1).floor();
    let counts = lower_counts((pairs - larger) as usize, n1, n2)?;
    let tail = counts.iter().sum::<u128>() as f64 / count_arrangements(n1, n2)? as f64;
    Some((2.0 * tail).min(1.0))
}

/// The smallest u with P(U <= u) >= `probability` (R: `qwilcox`), for probabilities below 1/2.
pub(crate) fn lower_tail_quantile(probability: f64, n1: usize, n2: usize) -> Option<usize> {
    let tails = lower_tails(n1 * n2 / 2, n1, n2)?;
    tails.iter().position(|&tail| tail >= probability)
}

/// P(U <= 0), P(U <= 1), ... P(U <= `last`) without ties; `None` when the arrangements cannot be
/// counted.
pub(crate) fn lower_tails(last: usize, n1: usize, n2: usize) -> Option<Vec<f64>> {
    let total = count_arrangements(n1, n2)? as f64;
    let counts = lower_counts(last, n1, n2)?;
    let cumulative = counts.iter().scan(0u128, |sum, count| {
        *sum += count;
        Some(*sum as f64 / total)
    });
    Some(cumulative.collect())
}

/// Number of arrangements with U = 0, 1, ... `last`: coefficients of the Gaussian binomial
/// [n1 + n2, n1]_q, built factor by factor as (1 - q^(large + i)) / (1 - q^i).
///
/// Intermediate coefficients may be negative. Arithmetic modulo 2^128 still ends at the true value,
/// because the true value is known to fit in 128 bits.
fn lower_counts(last: usize, n1: usize, n2: usize) -> Option<Vec<u128>> {
    count_arrangements(n1, n2)?;
    let (small, large) = (n1.min(n2), n1.max(n2));
    if small.checked_mul(last + 1)? > MAX_ADDITIONS {
        return None;
    }
    let mut counts = vec![0u128; last + 1];
    counts[0] = 1;
    for i in 1..=small {
        for u in (large + i..=last).rev() {
            counts[u] = counts[u].wrapping_sub(counts[u - large - i]);
        }
        for u in i..=last {
            counts[u] = counts[u].wrapping_add(counts[u - i]);
        }
    }
    Some(counts)
}

/// C(n1 + n2, n1); None above 128 bits.
fn count_arrangements(n1: usize, n2: usize) -> Option<u128> {
    let (small, large) = (n1.min(n2) as u128, n1.max(n2) as u128);
    (1..=small).try_fold(1u128, |product, i| Some(product.checked_mul(large + i)? / i))
}

/// Two-sided p-value of a rank sum over all ways to pick `n1` of `ranks`: the fraction of picks at
/// least as far from the mean as `rank_sum`. `None` when counting them would take too long.
///
/// Ranks are doubled to make mid-ranks integers; then picks are counted by size and sum, one rank
/// after the other (Streitberg and Roehmel, EDV in Medizin und Biologie 18, 1987).
fn two_sided_with_ties(ranks: &[f64], n1: usize, rank_sum: f64) -> Option<f64> {
    // The rank sums of the two groups deviate from their means by opposite amounts, so counting the
    // picks of the smaller group is enough.
    let total: f64 = ranks.iter().sum();
    let (size, sum) =
        if 2 * n1 <= ranks.len() { (n1, rank_sum) } else { (ranks.len() - n1, total - rank_sum) };
    let doubled: Vec<usize> = ranks.iter().map(|rank| (2.0 * rank) as usize).collect();
    let widest = widest_sum(&doubled, size);
    if ranks.len().checked_mul(size)?.checked_mul(widest)? > MAX_ADDITIONS {
        return None;
    }
    let counts = picks_by_sum(&doubled, size, widest);
    let expected = 2.0 * total * size as f64 / ranks.len() as f64;
    let observed = (2.0 * sum - expected).abs();
    let is_extreme = |&(sum, _): &(usize, &f64)| (sum as f64 - expected).abs() >= observed - 1e-9;
    let extreme: f64 = counts.iter().enumerate().filter(is_extreme).map(|(_, count)| count).sum();
    Some(extreme / counts.iter().sum::<f64>())
}

/// P(U1 <= `u`) over all ways to divide the given values, which accounts for ties. U1 counts the
/// pairs in which the first group's value is the larger; ties count one half. NaN when a group is
/// empty.
///
/// Takes time proportional to n² n1², for n values of which n1 are in the first group. Meant for
/// tens of values.
pub fn lower_tail_with_ties(x: &[f64], y: &[f64], u: f64) -> f64 {
    if x.is_empty() || y.is_empty() {
        return f64::NAN;
    }
    let ranks = mid_ranks(&[x, y].concat());
    let doubled: Vec<usize> = ranks.iter().map(|rank| (2.0 * rank) as usize).collect();
    let n1 = x.len();
    let counts = picks_by_sum(&doubled, n1, widest_sum(&doubled, n1));
    // The rank sum of the first group is its U plus the sum of its ranks within itself.
    let last = (2.0 * u) as usize + n1 * (n1 + 1);
    let below: f64 = counts.iter().take(last + 1).sum();
    below / counts.iter().sum::<f64>()
}

/// The largest sum of `size` of the doubled ranks.
fn widest_sum(doubled: &[usize], size: usize) -> usize {
    let mut descending = doubled.to_vec();
    descending.sort_unstable_by(|a, b| b.cmp(a));
    descending[..size].iter().sum()
}

/// Counts the picks of `size` elements by their sum. Uses floating point, since only positive
/// counts are added and the largest possible count stays below 1e300.
fn picks_by_sum(doubled: &[usize], size: usize, widest: usize) -> Vec<f64> {
    let width = widest + 1;
    let mut counts = vec![0.0; (size + 1) * width];
    counts[0] = 1.0;
    for (index, &rank) in doubled.iter().enumerate() {
        for picked in (1..=size.min(index + 1)).rev() {
            let (fewer, current) = counts[(picked - 1) * width..].split_at_mut(width);
            for (count, &from) in current[..width].iter_mut().skip(rank).zip(fewer.iter()) {
                *count += from;
            }
        }
    }
    counts.split_off(size * width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_p_is_that_of_complete_separation() {
        let (x, y) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0, 9.0]);
        let test = mann_whitney(&x, &y, PValueMethod::Exact);
        assert!((test.p / smallest_p(4, 5) - 1.0).abs() < 1e-14);
        assert_eq!(smallest_p(1, 1), 1.0);
    }

    #[test]
    fn swapping_the_groups_keeps_p_and_mirrors_u() {
        let (x, y) = ([1.0, 3.0, 3.0, 9.0], [2.0, 3.0, 7.0]);
        for method in [
            PValueMethod::Auto,
            PValueMethod::Exact,
            PValueMethod::ExactTies,
            PValueMethod::Asymptotic,
        ] {
            let (forth, back) = (mann_whitney(&x, &y, method), mann_whitney(&y, &x, method));
            assert_eq!(forth.u1 + back.u1, 12.0);
            assert!((forth.p - back.p).abs() < 1e-15, "{method:?}");
        }
    }

    #[test]
    fn groups_too_large_for_an_exact_p_value_use_the_approximation() {
        let x: Vec<f64> = (0..3000).map(f64::from).collect();
        let y: Vec<f64> = (0..3000).map(|i| f64::from(i) + 0.5).collect();
        assert_eq!(mann_whitney(&x, &y, PValueMethod::Exact).method, PValueMethod::Asymptotic);
        assert_eq!(mann_whitney(&x, &y, PValueMethod::ExactTies).method, PValueMethod::Asymptotic);
        assert!(mann_whitney(&x, &[], PValueMethod::Auto).p.is_nan());
    }

    /// The two exact methods are different algorithms; without ties they must agree.
    #[test]
    fn both_exact_distributions_agree_without_ties() {
        for shift in 0..40 {
            let x: Vec<f64> = (0..12).map(|i| f64::from(i * 37 % 41)).collect();
            let y: Vec<f64> = (0..17).map(|i| f64::from((i * 53 + shift) % 59) + 0.5).collect();
            let plain = mann_whitney(&x, &y, PValueMethod::Exact).p;
            let general = mann_whitney(&x, &y, PValueMethod::ExactTies).p;
            assert!((plain / general - 1.0).abs() < 1e-12, "{plain} {general}");
        }
    }

    #[test]
    fn counts_without_ties_are_those_of_the_published_table() {
        // For n1 = 3 and n2 = 4, the probabilities in table I of Mann and Whitney 1947, times
        // C(7, 3) = 35.
        assert_eq!(lower_counts(6, 3, 4).unwrap(), [1, 1, 2, 3, 4, 4, 5]);
        assert_eq!(count_arrangements(3, 4), Some(35));
        assert_eq!(count_arrangements(30, 30), Some(118_264_581_564_861_424));
        assert_eq!(count_arrangements(80, 80), None);
    }

    /// R 4.2.2: `qwilcox(.025, m, n)`.
    #[test]
    fn quantiles_equal_those_of_r() {
        for (m, n, expected) in [(5, 5, 3), (8, 9, 16), (10, 12, 30), (30, 30, 318), (3, 3, 0)] {
            assert_eq!(lower_tail_quantile(0.025, m, n), Some(expected), "{m} {n}");
        }
    }

    #[test]
    fn picks_are_counted_by_their_sum() {
        // Of the three pairs of the values 1, 2 and 2, two have the sum 3, and one has the sum 4.
        assert_eq!(picks_by_sum(&[1, 2, 2], 2, 4), [0.0, 0.0, 0.0, 2.0, 1.0]);
    }
}
