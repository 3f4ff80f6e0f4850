//! Implements Wilcoxon's signed-rank test of pairs. A pair has one value of each side, both
//! measured under the same conditions.
//!
//! The test decides whether the sides differ. It also estimates their ratio, and the interval of
//! the ratios that the data do not rule out. In every pair, it was chosen at random which member is
//! the candidate. So if the sides are equal, both signs of a log ratio are equally likely. The null
//! distribution therefore assumes nothing about the noise. This module does not decide when to stop
//! measuring. Start at [`signed_rank`].

use crate::distribution::normal;
use crate::interval::Interval;
use crate::test::TailProbabilities;
use crate::test::stratified::shift_before;

/// Maximum number of pairs for the exact distribution: 200 pairs take 4 million additions.
const MAX_EXACT_PAIRS: usize = 200;

/// Logarithms this close count as equal: they differ only because a shift or a change of unit was
/// rounded.
const TIE: f64 = 1e-13;

/// Why the test is undefined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignedRankError {
    /// A value of the pair at this index is not a positive finite number, so it has no logarithm.
    #[error("a value of pair {index} is not a positive finite number")]
    NotPositive {
        /// Index into the pairs.
        index: usize,
    },
    /// There is no pair.
    #[error("no pairs")]
    NoPair,
}

/// Result of the signed-rank test, from which ratio and intervals are computed.
#[derive(Debug, Clone)]
pub struct SignedRank {
    /// Two-sided p-value: twice the smaller of the two tails, at most 1.
    pub p: f64,
    /// Logarithms of the ratios, candidate over baseline, ascending.
    differences: Vec<f64>,
    /// Walsh averages, ascending: the means of all pairs of differences, including each difference
    /// with itself. They are the shifts at which the rank sum changes.
    averages: Vec<f64>,
}

/// Tests whether the two sides of `pairs` differ; each pair is (baseline, candidate).
///
/// Differences of zero are left out and equal sizes share their ranks (Wilcoxon, Biometrics
/// Bulletin 1, 1945). The distribution is exact, including ties, up to 200 pairs; beyond that, the
/// normal approximation with a continuity correction is used.
///
/// # Errors
///
/// See [`SignedRankError`].
pub fn signed_rank(pairs: &[(f64, f64)]) -> Result<SignedRank, SignedRankError> {
    let is_positive = |value: f64| value.is_finite() && value > 0.0;
    let lacks_logarithm = |&(a, b): &(f64, f64)| !(is_positive(a) && is_positive(b));
    if let Some(index) = pairs.iter().position(lacks_logarithm) {
        return Err(SignedRankError::NotPositive { index });
    }
    if pairs.is_empty() {
        return Err(SignedRankError::NoPair);
    }
    let mut differences: Vec<f64> = pairs.iter().map(|(a, b)| b.ln() - a.ln()).collect();
    differences.sort_unstable_by(f64::total_cmp);
    Ok(SignedRank {
        p: tail_probabilities(&differences, 0.0).two_sided_p(),
        averages: walsh_averages(&differences),
        differences,
    })
}

impl SignedRank {
    /// Typical candidate value over typical baseline value: exp of the Hodges-Lehmann estimate,
    /// which is the median of the Walsh averages.
    pub fn ratio(&self) -> f64 {
        let middle = self.averages.len() / 2;
        let upper = self.averages[middle];
        let median = if self.averages.len() % 2 == 1 {
            upper
        } else {
            0.5 * (self.averages[middle - 1] + upper)
        };
        median.exp()
    }

    /// Interval of the ratio: every ratio whose p-value in this test is above `p_limit`.
    ///
    /// With too few pairs, the test cannot reject any ratio: the ends are then 0 and infinity.
    pub fn interval_at(&self, p_limit: f64) -> Interval {
        let level = 0.5 * p_limit;
        let steps = &self.averages;
        // The tails are the same for all shifts in the gap between two adjacent averages, and they
        // are monotone from gap to gap.
        let gaps: Vec<f64> = (0..=steps.len()).map(|index| shift_before(steps, index)).collect();
        let first_accepted = gaps.partition_point(|&gap| self.shifted(gap).upper <= level);
        let first_above = gaps.partition_point(|&gap| self.shifted(gap).lower > level);
        let low = first_accepted.checked_sub(1).map(|before| steps[before]);
        let high = (first_above <= steps.len()).then(|| steps[first_above.max(1) - 1]);
        Interval { low: low.map_or(0.0, f64::exp), high: high.map_or(f64::INFINITY, f64::exp) }
    }

    /// The tails with `theta` subtracted from every difference: the test of a ratio of exp(theta).
    pub fn shifted(&self, theta: f64) -> TailProbabilities {
        tail_probabilities(&self.differences, theta)
    }
}

/// Means of all pairs of values, including each value with itself, ascending.
fn walsh_averages(values: &[f64]) -> Vec<f64> {
    let with_first = |(at, first): (usize, &f64)| {
        let first = *first;
        values[at..].iter().map(move |second| 0.5 * (first + second))
    };
    let mut averages: Vec<f64> = values.iter().enumerate().flat_map(with_first).collect();
    averages.sort_unstable_by(f64::total_cmp);
    averages
}

/// Probabilities that the sum of positive ranks is at most, and at least, the observed sum.
fn tail_probabilities(differences: &[f64], theta: f64) -> TailProbabilities {
    let ranks = signed_ranks(differences, theta);
    let observed = ranks.iter().filter(|(_, is_positive)| *is_positive);
    let observed: usize = observed.map(|(rank, _)| rank).sum();
    let ranks: Vec<usize> = ranks.iter().map(|(rank, _)| *rank).collect();
    if ranks.len() > MAX_EXACT_PAIRS {
        return approximate_tails(&ranks, observed);
    }
    let distribution = rank_sum_distribution(&ranks);
    TailProbabilities {
        lower: distribution[..=observed].iter().sum::<f64>().min(1.0),
        upper: distribution[observed..].iter().sum::<f64>().min(1.0),
    }
}

/// Doubled mid-ranks of the absolute differences from `theta`, without zeros, and whether each
/// difference is positive.
fn signed_ranks(differences: &[f64], theta: f64) -> Vec<(usize, bool)> {
    let mut moved: Vec<f64> = differences.iter().map(|value| value - theta).collect();
    moved.retain(|value| value.abs() > TIE);
    moved.sort_unstable_by(|a, b| a.abs().total_cmp(&b.abs()));
    let mut ranks = Vec::with_capacity(moved.len());
    for tied in moved.chunk_by(|a, b| b.abs() - a.abs() <= TIE) {
        let rank = 2 * ranks.len() + tied.len() + 1;
        ranks.extend(tied.iter().map(|value| (rank, *value > 0.0)));
    }
    ranks
}

/// Probability of each sum of positive ranks when all signs are random.
fn rank_sum_distribution(ranks: &[usize]) -> Vec<f64> {
    let mut sums = vec![0.0; ranks.iter().sum::<usize>() + 1];
    sums[0] = 1.0;
    let mut largest = 0;
    for &rank in ranks {
        largest += rank;
        for sum in (0..=largest).rev() {
            let including = if sum >= rank { sums[sum - rank] } else { 0.0 };
            sums[sum] = 0.5 * (sums[sum] + including);
        }
    }
    sums
}

/// The normal approximation, with half a step of the sum as continuity correction.
fn approximate_tails(ranks: &[usize], observed: usize) -> TailProbabilities {
    let total: usize = ranks.iter().sum();
    let squares: f64 = ranks.iter().map(|&rank| (rank as f64).powi(2)).sum();
    let deviation = 0.5 * squares.sqrt();
    let excess = observed as f64 - 0.5 * total as f64;
    TailProbabilities {
        lower: normal::upper_tail((-excess - 1.0) / deviation),
        upper: normal::upper_tail((excess - 1.0) / deviation),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests pairs whose ratios have these logarithms.
    fn test_differences(differences: &[f64]) -> SignedRank {
        let pairs: Vec<(f64, f64)> = differences.iter().map(|d| (3.0, 3.0 * d.exp())).collect();
        signed_rank(&pairs).unwrap()
    }

    #[test]
    fn ten_pairs_of_one_sign_have_the_smallest_p_value() {
        let found = test_differences(&[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]);
        assert_eq!(found.p, 2.0 / 1024.0);
        assert_eq!(found.shifted(0.0).upper, 1.0 / 1024.0);
        assert_eq!(found.shifted(0.0).lower, 1.0);
    }

    #[test]
    fn swapping_the_sides_swaps_the_tails_and_inverts_the_interval() {
        let differences = [0.02, -0.01, 0.05, 0.03, 0.011, 0.07, -0.02, 0.04];
        let found = test_differences(&differences);
        let turned = test_differences(&differences.map(|d| -d));
        assert_eq!(found.shifted(0.01).upper, turned.shifted(-0.01).lower);
        assert!((found.ratio() * turned.ratio() - 1.0).abs() < 1e-12);
        let (one, other) = (found.interval_at(0.1), turned.interval_at(0.1));
        assert!((one.low * other.high - 1.0).abs() < 1e-12);
        assert!((one.high * other.low - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_interval_holds_the_ratios_that_are_not_rejected() {
        let found = test_differences(&[0.02, -0.01, 0.05, 0.03, 0.011, 0.07, -0.02, 0.04, 0.033]);
        for limit in [0.01, 0.05, 0.2] {
            let interval = found.interval_at(limit);
            for step in -200..200 {
                let theta = f64::from(step) * 5.3e-4;
                let is_kept = found.shifted(theta).two_sided_p() > limit;
                assert_eq!(interval.contains(theta.exp()), is_kept, "{limit} {theta}");
            }
        }
    }

    #[test]
    fn the_interval_of_too_few_pairs_is_unbounded() {
        let interval = test_differences(&[0.1, 0.2, 0.3, 0.4]).interval_at(0.05);
        assert_eq!((interval.low, interval.high), (0.0, f64::INFINITY));
    }

    #[test]
    fn equal_sides_have_a_p_value_and_a_ratio_of_one() {
        let found = test_differences(&[0.0; 12]);
        assert_eq!((found.p, found.ratio()), (1.0, 1.0));
    }

    #[test]
    fn missing_and_nonpositive_pairs_are_refused() {
        assert_eq!(signed_rank(&[]).unwrap_err(), SignedRankError::NoPair);
        let index = 1;
        let error = signed_rank(&[(1.0, 2.0), (0.0, 1.0)]).unwrap_err();
        assert_eq!(error, SignedRankError::NotPositive { index });
    }

    /// In every pair, it was chosen at random which member is the candidate. Hence, for every
    /// possible p-value x, the fraction of all choices with a p-value of at most x must equal x.
    #[test]
    fn p_values_equal_their_frequency_over_all_label_exchanges() {
        let distinct = [0.011, 0.32, 0.05, 0.2, 0.07, 0.41, 0.13, 0.02, 0.26, 0.6];
        let tied = [0.1, 0.1, 0.0, 0.3, 0.3, 0.3, 0.2, 0.5, 0.1, 0.4];
        for sizes in [distinct, tied] {
            let exchanged = |labels: u32| {
                let signs = (0..10).map(|pair| if labels >> pair & 1 == 1 { -1.0 } else { 1.0 });
                let differences: Vec<f64> =
                    sizes.iter().zip(signs).map(|(d, sign)| d * sign).collect();
                test_differences(&differences).p
            };
            let all: Vec<f64> = (0..1024).map(exchanged).collect();
            for &p in all.iter().filter(|&&p| p < 1.0) {
                let at_most = all.iter().filter(|&&other| other <= p * (1.0 + 1e-9));
                let share = at_most.count() as f64 / 1024.0;
                assert!((share / p - 1.0).abs() < 1e-9, "{p} in {share} of all");
            }
        }
    }

    #[test]
    fn the_approximation_meets_the_exact_distribution() {
        let differences: Vec<f64> =
            (0..200).map(|i| f64::from(i * 7919 % 211) / 211.0 - 0.44).collect();
        let ranks: Vec<usize> = (1..=200).map(|rank| 2 * rank).collect();
        let signs = signed_ranks(&differences, 0.0);
        let observed = signs.iter().filter(|(_, positive)| *positive);
        let observed: usize = observed.map(|(rank, _)| rank).sum();
        let exact = tail_probabilities(&differences, 0.0).two_sided_p();
        let approximate = approximate_tails(&ranks, observed).two_sided_p();
        assert!((approximate / exact - 1.0).abs() < 0.02, "{approximate} {exact}");
    }
}
