//! The Mann-Whitney U test, two-sided, for two groups without blocks.
//!
//! Decides which null distribution is used and equals `scipy.stats.mannwhitneyu` where that has the
//! method. It must not know blocks; values measured in randomised blocks belong to
//! [`stratified`](super::stratified). Start at [`mann_whitney`].

mod exact;

pub use crate::effect::{Magnitude, Shift, cliffs_delta, hodges_lehmann};
pub(crate) use exact::lower_tail_quantile;

use crate::distribution::normal;
use crate::rank::{mid_ranks, tie_term};

/// scipy takes the exact distribution only while a side has at most this many values.
const LARGEST_EXACT_SIDE: usize = 8;

/// Which null distribution gives the p-value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// As scipy: exact when a side has at most 8 values and there are no ties, else asymptotic.
    Auto,
    /// The distribution of U without ties, applied to any values (scipy's `exact`).
    Exact,
    /// All rearrangements of the mid-ranks at hand, so that ties are honoured.
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
    /// The distribution that was used; never [`Method::Auto`]. An exact method that would be too
    /// large for the groups at hand gives way to [`Method::Asymptotic`].
    pub method: Method,
}

/// Tests whether values of one group tend to be larger than those of the other
/// (Mann and Whitney, Annals of Mathematical Statistics 18, 1947).
pub fn mann_whitney(x: &[f64], y: &[f64], method: Method) -> MannWhitney {
    let pooled = [x, y].concat();
    let ranks = mid_ranks(&pooled);
    let (n1, n2) = (x.len(), y.len());
    let rank_sum: f64 = ranks[..n1].iter().sum();
    let u1 = rank_sum - 0.5 * (n1 * (n1 + 1)) as f64;
    if n1 == 0 || n2 == 0 {
        return MannWhitney {
            u1,
            p: f64::NAN,
            method: Method::Asymptotic,
        };
    }
    let ties = tie_term(&pooled);
    let wanted = match method {
        Method::Auto if n1.min(n2) <= LARGEST_EXACT_SIDE && ties == 0.0 => Method::Exact,
        Method::Auto => Method::Asymptotic,
        chosen => chosen,
    };
    let exact = match wanted {
        Method::Exact => exact::two_sided(u1, n1, n2),
        Method::ExactTies => exact::two_sided_with_ties(&ranks, n1, rank_sum),
        Method::Auto | Method::Asymptotic => None,
    };
    match exact {
        Some(p) => MannWhitney {
            u1,
            p,
            method: wanted,
        },
        None => MannWhitney {
            u1,
            p: asymptotic(u1, n1, n2, ties),
            method: Method::Asymptotic,
        },
    }
}

/// The smallest two-sided p-value that groups of these sizes can reach without ties: 2 / C(n, n1).
pub fn smallest_p(n1: usize, n2: usize) -> f64 {
    let (few, many) = (n1.min(n2), n1.max(n2));
    let share = |k: usize| k as f64 / (many + k) as f64;
    (1..=few).map(share).product::<f64>().min(0.5) * 2.0
}

/// Normal approximation with continuity correction; the variance loses the tie term
/// (Lehmann, Nonparametrics, 1975, section 1.4).
fn asymptotic(u1: f64, n1: usize, n2: usize, ties: f64) -> f64 {
    let (pairs, n) = ((n1 * n2) as f64, (n1 + n2) as f64);
    let larger = u1.max(pairs - u1);
    let variance = pairs / 12.0 * ((n + 1.0) - ties / (n * (n - 1.0)));
    if variance <= 0.0 {
        // All values are equal, so nothing speaks against equal sides.
        return 1.0;
    }
    let z = (larger - 0.5 * pairs - 0.5) / variance.sqrt();
    (2.0 * normal::upper_tail(z)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_p_is_that_of_complete_separation() {
        let (x, y) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0, 9.0]);
        let test = mann_whitney(&x, &y, Method::Exact);
        assert!((test.p / smallest_p(4, 5) - 1.0).abs() < 1e-14);
        assert_eq!(smallest_p(1, 1), 1.0);
    }

    #[test]
    fn exchanging_the_groups_leaves_p_and_mirrors_u() {
        let (x, y) = ([1.0, 3.0, 3.0, 9.0], [2.0, 3.0, 7.0]);
        for method in [
            Method::Auto,
            Method::Exact,
            Method::ExactTies,
            Method::Asymptotic,
        ] {
            let (forth, back) = (mann_whitney(&x, &y, method), mann_whitney(&y, &x, method));
            assert_eq!(forth.u1 + back.u1, 12.0);
            assert!((forth.p - back.p).abs() < 1e-15, "{method:?}");
        }
    }

    #[test]
    fn groups_too_large_for_an_exact_answer_say_so() {
        let x: Vec<f64> = (0..3000).map(f64::from).collect();
        let y: Vec<f64> = (0..3000).map(|i| f64::from(i) + 0.5).collect();
        assert_eq!(
            mann_whitney(&x, &y, Method::Exact).method,
            Method::Asymptotic
        );
        assert_eq!(
            mann_whitney(&x, &y, Method::ExactTies).method,
            Method::Asymptotic
        );
        assert!(mann_whitney(&x, &[], Method::Auto).p.is_nan());
    }

    /// The two exact methods are different algorithms; without ties they must agree.
    #[test]
    fn both_exact_distributions_agree_without_ties() {
        for shift in 0..40 {
            let x: Vec<f64> = (0..12).map(|i| f64::from(i * 37 % 41)).collect();
            let y: Vec<f64> = (0..17)
                .map(|i| f64::from((i * 53 + shift) % 59) + 0.5)
                .collect();
            let plain = mann_whitney(&x, &y, Method::Exact).p;
            let general = mann_whitney(&x, &y, Method::ExactTies).p;
            assert!((plain / general - 1.0).abs() < 1e-12, "{plain} {general}");
        }
    }
}
