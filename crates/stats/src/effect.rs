//! Computes effect sizes of two groups of values, with no assumption about their distribution.
//!
//! An effect size describes how far or how often one group exceeds the other. Whether the
//! difference could be due to chance is decided by the statistical tests. This module ignores
//! blocks. Start at [`hodges_lehmann`].

use crate::describe::{mean, variance};
use crate::distribution::{normal, student_t};
use crate::interval::Interval;
use crate::test::mann_whitney::lower_tail_quantile;
use crate::test::mid_ranks;

/// A difference in location: candidate minus baseline, in the unit of the values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShiftEstimate {
    /// Median of all pairwise differences.
    pub estimate: f64,
    /// Interval of the shift. Its ends are infinite if the groups are too small for the confidence.
    pub interval: Interval,
}

/// Cliff's delta: P(candidate > baseline) - P(candidate < baseline) over all pairs, from -1 to 1
/// (Cliff, Psychological Bulletin 114, 1993). NaN when a group is empty.
pub fn cliffs_delta(baseline: &[f64], candidate: &[f64]) -> f64 {
    let ranks = mid_ranks(&[baseline, candidate].concat());
    let n = candidate.len();
    let rank_sum: f64 = ranks[baseline.len()..].iter().sum();
    let wins = rank_sum - 0.5 * (n * (n + 1)) as f64;
    2.0 * wins / (baseline.len() * n) as f64 - 1.0
}

/// Eta squared of groups within strata: the fraction of the squared deviations from the stratum
/// means that is explained by the group means (Fisher, Statistical Methods for Research Workers,
/// 1925; partial eta squared with several strata). `strata` holds groups of values; empty groups
/// are ignored. `None` when nothing varies within strata.
pub fn eta_squared(strata: &[Vec<Vec<f64>>]) -> Option<f64> {
    let (mut between, mut total) = (0.0, 0.0);
    for groups in strata {
        let pooled = groups.concat();
        let center = mean(&pooled);
        let squared = |value: f64| (value - center).powi(2);
        total += pooled.iter().map(|&value| squared(value)).sum::<f64>();
        let nonempty = groups.iter().filter(|group| !group.is_empty());
        between += nonempty.map(|group| group.len() as f64 * squared(mean(group))).sum::<f64>();
    }
    (total > 0.0).then(|| between / total)
}

/// Hodges-Lehmann shift of two groups and its interval (Annals of Mathematical Statistics 34,
/// 1963).
///
/// Both ends of the interval are pairwise differences. The ranks of these differences come from the
/// exact distribution of U if the number of arrangements fits in 128 bits (up to about 60 values
/// per side), and otherwise from the normal approximation. `None` when a group is empty.
pub fn hodges_lehmann(
    baseline: &[f64],
    candidate: &[f64],
    confidence: f64,
) -> Option<ShiftEstimate> {
    if baseline.is_empty() || candidate.is_empty() {
        return None;
    }
    let differences = PairwiseDifferences::new(baseline, candidate);
    let pairs = differences.count();
    let estimate = 0.5
        * (differences.kth_smallest(pairs.div_ceil(2)) + differences.kth_smallest(pairs / 2 + 1));
    let interval = match differences_to_cut(baseline.len(), candidate.len(), confidence) {
        0 => Interval { low: f64::NEG_INFINITY, high: f64::INFINITY },
        cut => Interval {
            low: differences.kth_smallest(cut),
            high: differences.kth_smallest(pairs + 1 - cut),
        },
    };
    Some(ShiftEstimate { estimate, interval })
}

/// Rank, from 1, of the difference that is the lower end of the interval; 0 if there is no such
/// difference.
///
/// Let u be the lower quantile of U, and risk = 1 - confidence. Then P(U <= u - 1) < risk / 2. So
/// the u-th smallest and the u-th largest difference bound the shift with at least the requested
/// confidence.
fn differences_to_cut(n1: usize, n2: usize, confidence: f64) -> usize {
    let tail = 0.5 * (1.0 - confidence);
    lower_tail_quantile(tail, n1, n2).unwrap_or_else(|| {
        let (pairs, n) = ((n1 * n2) as f64, (n1 + n2) as f64);
        let deviation = (pairs * (n + 1.0) / 12.0).sqrt();
        (0.5 * pairs - normal::upper_quantile(tail) * deviation).max(0.0) as usize
    })
}

/// All pairwise differences of two groups. Only the groups are stored, so memory stays linear.
struct PairwiseDifferences {
    baseline: Vec<f64>,
    candidate: Vec<f64>,
}

impl PairwiseDifferences {
    fn new(baseline: &[f64], candidate: &[f64]) -> PairwiseDifferences {
        let ascending = |values: &[f64]| {
            let mut copy = values.to_vec();
            copy.sort_unstable_by(f64::total_cmp);
            copy
        };
        PairwiseDifferences { baseline: ascending(baseline), candidate: ascending(candidate) }
    }

    fn count(&self) -> usize {
        self.baseline.len() * self.candidate.len()
    }

    /// Returns the k-th smallest difference, k from 1, by bisection between actual differences.
    fn kth_smallest(&self, k: usize) -> f64 {
        let last = |values: &[f64]| values[values.len() - 1];
        let mut low = self.candidate[0] - last(&self.baseline);
        let mut high = last(&self.candidate) - self.baseline[0];
        while low < high {
            // Between adjacent numbers the middle may round up to `high`, which would loop forever.
            let middle = low + 0.5 * (high - low);
            let (at_most, largest_at_most, smallest_above) =
                self.split_at(if middle < high { middle } else { low });
            if at_most >= k {
                high = largest_at_most;
            } else {
                low = smallest_above;
            }
        }
        low
    }

    /// Splits the differences at `limit`, in one pass over both groups. Returns how many are at
    /// most `limit`, the largest of them, and the smallest of the others. One pass is enough, because
    /// the number of candidate values that exceed a baseline value by at most `limit` can only grow
    /// with the baseline value. Rounding does not change this: the rounding of a difference is
    /// monotone in both operands.
    fn split_at(&self, limit: f64) -> (usize, f64, f64) {
        let (mut at_most, mut below) = (0, 0);
        let (mut largest_at_most, mut smallest_above) = (f64::NEG_INFINITY, f64::INFINITY);
        for &base in &self.baseline {
            while below < self.candidate.len() && self.candidate[below] - base <= limit {
                below += 1;
            }
            at_most += below;
            if below > 0 {
                largest_at_most = largest_at_most.max(self.candidate[below - 1] - base);
            }
            if let Some(next) = self.candidate.get(below) {
                smallest_above = smallest_above.min(next - base);
            }
        }
        (at_most, largest_at_most, smallest_above)
    }
}

// Computes Fieller's interval of a ratio of means. The ratio is mean(candidate) / mean(baseline)
// of two independent groups with unequal variances. This module ignores blocks; `bootstrap` takes
// them into account.

/// A ratio with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RatioEstimate {
    /// Candidate over baseline.
    pub ratio: f64,
    /// Interval of the ratio.
    pub interval: Interval,
}

/// Ratio of the means with Fieller's interval (Supplement to JRSS 7, 1940).
///
/// The interval holds every ratio r that a t-test of mean(candidate) = r mean(baseline) does not
/// reject. The degrees of freedom of this t-test are Satterthwaite's at the estimated ratio
/// (Tamhane and Logan, Biometrical Journal 46, 2004). `confidence` is a fraction such as 0.95.
///
/// `None` with fewer than 2 values per side, or if the baseline's mean cannot be distinguished from
/// zero: the ratios then do not form an interval.
pub fn fieller_interval(
    baseline: &[f64],
    candidate: &[f64],
    confidence: f64,
) -> Option<RatioEstimate> {
    if baseline.len() < 2 || candidate.len() < 2 {
        return None;
    }
    let (a, b) = (mean(baseline), mean(candidate));
    let ratio = b / a;
    let var_a = variance(baseline) / baseline.len() as f64;
    let var_b = variance(candidate) / candidate.len() as f64;
    if var_a + var_b == 0.0 {
        let point = Interval { low: ratio, high: ratio };
        return ratio.is_finite().then_some(RatioEstimate { ratio, interval: point });
    }
    let df = satterthwaite_df((ratio * ratio * var_a, baseline.len()), (var_b, candidate.len()));
    let t = student_t::upper_quantile(0.5 * (1.0 - confidence), df);
    // (b - r a)^2 = t^2 (var_b + r^2 var_a) is a quadratic in r. Its leading coefficient,
    // a^2 (1 - g), is positive exactly when the baseline's mean differs significantly from zero.
    let g = t * t * var_a / (a * a);
    if g.is_nan() || g >= 1.0 {
        return None;
    }
    let root = (var_b * (1.0 - g) + ratio * ratio * var_a).sqrt();
    let half_width = t / a.abs() * root;
    let interval =
        Interval { low: (ratio - half_width) / (1.0 - g), high: (ratio + half_width) / (1.0 - g) };
    Some(RatioEstimate { ratio, interval })
}

/// Degrees of freedom of a sum of two squared standard errors, each with its number of values.
fn satterthwaite_df(a: (f64, usize), b: (f64, usize)) -> f64 {
    let total = a.0 + b.0;
    let term = |(square, n): (f64, usize)| (square / total).powi(2) / (n - 1) as f64;
    1.0 / (term(a) + term(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::welch;

    const X: [f64; 8] = [12.1, 13.4, 11.8, 15.2, 14.1, 12.9, 13.3, 16.0];
    const Y: [f64; 9] = [14.2, 15.9, 13.9, 16.8, 17.1, 15.05, 14.95, 13.45, 18.2];

    /// R 4.2.2: `wilcox.test(y, x, conf.int = TRUE, exact = TRUE)`.
    #[test]
    fn shift_and_interval_equal_those_of_r() {
        let shift = hodges_lehmann(&X, &Y, 0.95).unwrap();
        assert!((shift.estimate - 1.8).abs() < 1e-12);
        assert!((shift.interval.low - 0.15).abs() < 1e-12);
        assert!((shift.interval.high - 3.7).abs() < 1e-12);
    }

    #[test]
    fn kth_smallest_agrees_with_sorting_all_differences() {
        let x: Vec<f64> = (0..9).map(|i| f64::from(i * 5 % 7)).collect();
        let y: Vec<f64> = (0..11).map(|i| f64::from(i * 4 % 9) / 3.0).collect();
        let mut all: Vec<f64> = x.iter().flat_map(|a| y.iter().map(move |b| b - a)).collect();
        all.sort_unstable_by(f64::total_cmp);
        let differences = PairwiseDifferences::new(&x, &y);
        for (index, expected) in all.iter().enumerate() {
            assert_eq!(differences.kth_smallest(index + 1), *expected);
        }
    }

    #[test]
    fn shifting_the_candidate_shifts_estimate_and_interval_equally() {
        let moved: Vec<f64> = Y.iter().map(|value| value + 8.0).collect();
        let (before, after) = (hodges_lehmann(&X, &Y, 0.9), hodges_lehmann(&X, &moved, 0.9));
        let (before, after) = (before.unwrap(), after.unwrap());
        assert!((after.estimate - before.estimate - 8.0).abs() < 1e-12);
        assert!((after.interval.low - before.interval.low - 8.0).abs() < 1e-12);
    }

    #[test]
    fn three_values_a_side_cannot_bound_a_shift_at_95_percent() {
        let shift = hodges_lehmann(&X[..3], &Y[..3], 0.95).unwrap();
        assert!(!shift.interval.is_bounded());
        assert_eq!(hodges_lehmann(&[], &Y, 0.95), None);
    }

    #[test]
    fn the_normal_approximation_is_used_for_thousands_of_values() {
        let x: Vec<f64> = (0..3000).map(|i| f64::from(i * 7 % 3001)).collect();
        let y: Vec<f64> = (0..3000).map(|i| f64::from(i * 11 % 3001) + 100.0).collect();
        let shift = hodges_lehmann(&x, &y, 0.95).unwrap();
        assert!(shift.interval.contains(shift.estimate) && shift.interval.is_bounded());
        assert!((shift.estimate - 100.0).abs() < 2.0, "{shift:?}");
    }

    /// R 4.2.2: `x <- ((0:79 * 7919) %% 1009) / 10; y <- ((0:89 * 104729) %% 1013) / 10 + 5`;
    /// `wilcox.test(y, x, conf.int = TRUE, exact = FALSE, correct = FALSE)`. R finds the ends by
    /// root search, so they lie between two differences.
    #[test]
    fn a_large_sample_agrees_with_the_asymptotic_interval_of_r() {
        let x: Vec<f64> = (0..80).map(|i| f64::from(i * 7919 % 1009) / 10.0).collect();
        let y: Vec<f64> = (0..90).map(|j| f64::from(j * 104_729 % 1013) / 10.0 + 5.0).collect();
        let shift = hodges_lehmann(&x, &y, 0.95).unwrap();
        assert!((shift.estimate - 3.2).abs() < 0.11, "{shift:?}");
        assert!((shift.interval.low + 6.3).abs() < 0.11, "{shift:?}");
        assert!((shift.interval.high - 12.5).abs() < 0.11, "{shift:?}");
    }

    /// R 4.2.2, with the first two of the strata below as `p` and `q`, their groups as `g` and the values as `y`: `rss
    /// <- function(m) sum(resid(m)^2)`; `1 - rss(lm(y ~ s:g)) / rss(lm(y ~ s))`; for the first stratum alone, `a <-
    /// anova(lm(y ~ g)); a$"Sum Sq"[1] / sum(a$"Sum Sq")`, and likewise `anova(lm(weight ~ group, PlantGrowth))`.
    #[test]
    fn eta_squared_equals_that_of_r() {
        let p = vec![
            vec![4.17, 5.58, 5.18, 6.11],
            vec![4.81, 4.17, 4.41, 3.59],
            vec![6.31, 5.12, 5.54],
        ];
        let q = vec![vec![12.5, 13.1, 11.9, 12.2], vec![14.0, 13.3, 15.1]];
        let plants = vec![
            vec![4.17, 5.58, 5.18, 6.11, 4.50, 4.61, 5.17, 4.53, 5.33, 5.14],
            vec![4.81, 4.17, 4.41, 3.59, 5.87, 3.83, 6.03, 4.89, 4.32, 4.69],
            vec![6.31, 5.12, 5.54, 5.50, 5.37, 5.29, 4.92, 6.15, 5.80, 5.26],
        ];
        for (strata, expected) in [
            (vec![p.clone(), q], 0.597_363_996_581_282),
            (vec![p], 0.521_372_147_695_141_1),
            (vec![plants], 0.264_148_296_832_119_6),
        ] {
            let share = eta_squared(&strata).unwrap();
            assert!((share - expected).abs() < 1e-12, "{share}");
        }
    }

    #[test]
    fn eta_squared_needs_variation_within_a_stratum() {
        assert_eq!(eta_squared(&[]), None);
        assert_eq!(eta_squared(&[vec![vec![2.0]], vec![vec![9.0, 9.0]]]), None);
        let alone = vec![vec![1.0], vec![3.0], Vec::new()];
        assert_eq!(eta_squared(&[alone, vec![vec![7.0]]]), Some(1.0));
    }

    #[test]
    fn cliffs_delta_counts_pairs_won_and_lost() {
        let wins = X.iter().flat_map(|x| Y.iter().map(move |y| y.total_cmp(x) as i32));
        assert!((cliffs_delta(&X, &Y) - f64::from(wins.sum::<i32>()) / 72.0).abs() < 1e-15);
        assert_eq!(cliffs_delta(&[1.0, 2.0], &[3.0]), 1.0);
        assert_eq!(cliffs_delta(&[1.0], &[1.0]), 0.0);
        assert!(cliffs_delta(&[], &[1.0]).is_nan());
    }

    /// R 4.2.2: `a <- summary(aov(y ~ g))[[1]]$"Sum Sq"; a[1] / sum(a)` with these three groups.
    #[test]
    fn eta_squared_is_the_share_between_the_groups() {
        let groups = vec![vec![4.0, 5.0, 6.5], vec![7.0, 9.0], vec![3.0, 3.5, 4.5, 5.0]];
        assert!((eta_squared(&[groups]).unwrap() / 0.7361376673040154 - 1.0).abs() < 1e-12);
        let stratum = |groups: [&[f64]; 3]| vec![groups.map(<[f64]>::to_vec).to_vec()];
        assert_eq!(eta_squared(&stratum([&[1.0, 1.0], &[], &[2.0, 2.0]])), Some(1.0));
        assert_eq!(eta_squared(&stratum([&[1.0, 2.0], &[], &[2.0, 1.0]])), Some(0.0));
        assert_eq!(eta_squared(&stratum([&[1.0], &[1.0], &[]])), None);
    }

    const A: [f64; 6] = [10.2, 11.1, 9.7, 10.9, 10.4, 10.0];
    const B: [f64; 5] = [12.9, 12.1, 13.6, 11.8, 12.4];

    /// R 4.2.2, solving the quadratic with `polyroot`:
    /// `a <- c(...); b <- c(...); va <- var(a)/6; vb <- var(b)/5; r <- mean(b)/mean(a)`
    /// `df <- (vb + r^2*va)^2 / (vb^2/4 + (r^2*va)^2/5); q <- qt(.975, df)^2`
    /// `polyroot(c(mean(b)^2 - q*vb, -2*mean(a)*mean(b), mean(a)^2 - q*va))`
    #[test]
    fn the_ends_solve_the_quadratic_of_fieller() {
        let estimate = fieller_interval(&A, &B, 0.95).unwrap();
        assert!((estimate.interval.low / 1.121193952823098 - 1.0).abs() < 1e-10);
        assert!((estimate.interval.high / 1.303695308526229 - 1.0).abs() < 1e-10);
    }

    /// The interval contains the ratios that a t-test does not reject. If Welch's test rejects
    /// equal means, the interval must therefore not contain 1. The two methods use different
    /// degrees of freedom, so they have to agree only where the rejection is clear.
    #[test]
    fn a_ratio_of_one_is_excluded_when_welch_rejects_clearly() {
        let estimate = fieller_interval(&A, &B, 0.999).unwrap();
        assert!(welch(&A, &B).unwrap().p < 0.001);
        assert!(!estimate.interval.contains(1.0) && estimate.interval.contains(estimate.ratio));
    }

    #[test]
    fn units_do_not_matter() {
        let scale = |values: &[f64]| values.iter().map(|v| v * 1e6).collect::<Vec<f64>>();
        let (small, large) =
            (fieller_interval(&A, &B, 0.9), fieller_interval(&scale(&A), &scale(&B), 0.9));
        let (small, large) = (small.unwrap().interval, large.unwrap().interval);
        assert!((small.low / large.low - 1.0).abs() < 1e-12);
        assert!((small.high / large.high - 1.0).abs() < 1e-12);
    }

    #[test]
    fn no_interval_exists_for_a_baseline_around_zero() {
        assert_eq!(fieller_interval(&[-1.0, 1.0, 0.5], &B, 0.95), None);
        assert_eq!(fieller_interval(&[0.0, 0.0], &[0.0, 0.0], 0.95), None);
        assert_eq!(fieller_interval(&[1.0], &B, 0.95), None);
        assert_eq!(
            fieller_interval(&[2.0, 2.0], &[3.0, 3.0], 0.95).map(|e| e.interval.high),
            Some(1.5)
        );
    }
}
