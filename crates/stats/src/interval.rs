//! Defines the interval type, and computes intervals for one group of values.
//!
//! There are intervals of a mean (Student), of a median (order statistics) and of a proportion
//! (exact binomial). The modules of the statistical tests compute the intervals of comparisons.
//! Start at [`Interval`].

use crate::describe::{mean, standard_deviation};
use crate::distribution::{binomial, decreasing_root, student_t};

/// A closed range; an end is infinite where the data cannot bound it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether the range contains `value`, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Half of the distance between the ends.
    pub fn half_width(&self) -> f64 {
        0.5 * (self.high - self.low)
    }

    /// Whether both ends are finite.
    pub fn is_bounded(&self) -> bool {
        self.low.is_finite() && self.high.is_finite()
    }

    /// Applies an increasing function to both ends.
    pub fn map(&self, f: impl Fn(f64) -> f64) -> Interval {
        Interval { low: f(self.low), high: f(self.high) }
    }
}

/// Student's interval of the mean: mean -+ qt(1 - risk/2, n - 1) x sd / sqrt(n).
///
/// `confidence` is a fraction such as 0.95. `None` with fewer than 2 values.
pub fn mean_t(values: &[f64], confidence: f64) -> Option<Interval> {
    if values.len() < 2 {
        return None;
    }
    let n = values.len() as f64;
    let t = student_t::upper_quantile(0.5 * (1.0 - confidence), n - 1.0);
    let half_width = t * standard_deviation(values) / n.sqrt();
    let center = mean(values);
    Some(Interval { low: center - half_width, high: center + half_width })
}

/// Smallest number of values that at least halves the width of the interval of the mean
/// ([`mean_t`]), compared with `count` values of the same scatter; `count` is 2 or more.
pub fn values_to_halve(count: usize, confidence: f64) -> usize {
    let width = |count: usize| {
        let t = student_t::upper_quantile(0.5 * (1.0 - confidence), count.max(2) as f64 - 1.0);
        t / (count.max(2) as f64).sqrt()
    };
    let max_width = 0.5 * width(count);
    // Student's factor falls with the count, so four times as many values are always enough.
    (count..4 * count.max(2))
        .find(|&larger_count| width(larger_count) <= max_width)
        .unwrap_or(4 * count.max(2))
}

/// Interval of the median between two order statistics, from the exact binomial distribution.
///
/// Takes the narrowest symmetric pair whose coverage is at least `confidence` for any continuous
/// distribution (Conover, Practical Nonparametric Statistics, section 3.2). `None` when even the
/// range from minimum to maximum covers less. At 95%, this means fewer than 6 values.
pub fn median_binomial(values: &[f64], confidence: f64) -> Option<Interval> {
    let n = values.len();
    let cut = values_to_cut(n, 0.5 * (1.0 - confidence))?;
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Some(Interval { low: sorted[cut], high: sorted[n - 1 - cut] })
}

/// Number of values that may be cut from each end: the largest k with P(Bin(n, 1/2) <= k) <=
/// `tail`.
fn values_to_cut(n: usize, tail: f64) -> Option<usize> {
    // The weights are the probabilities divided by the probability in the middle, computed from the
    // middle outwards. The probabilities themselves would underflow for n above 1000, but their
    // ratios C(n, k) / C(n, k + 1) = (k + 1) / (n - k) do not.
    let middle = n / 2;
    let mut weights = vec![0.0; middle + 1];
    weights[middle] = 1.0;
    for k in (0..middle).rev() {
        weights[k] = weights[k + 1] * (k + 1) as f64 / (n - k) as f64;
    }
    let lower: f64 = weights.iter().sum();
    let total = if n.is_multiple_of(2) { 2.0 * lower - 1.0 } else { 2.0 * lower };
    let cumulative = weights.iter().scan(0.0, |sum, weight| {
        *sum += weight / total;
        Some(*sum)
    });
    cumulative.take_while(|probability| *probability <= tail).count().checked_sub(1)
}

/// Interval of the probability of an event that happened `count` times in `trials` (Clopper and
/// Pearson, Biometrika 26, 1934).
///
/// Covers the true probability with at least `confidence`, whatever that probability is. Without
/// trials, the interval is 0..1.
pub fn share_exact(count: u64, trials: u64, confidence: f64) -> Interval {
    let tail = 0.5 * (1.0 - confidence);
    let low = |share: f64| tail - binomial::upper_tail(count - 1, trials, share);
    let high = |share: f64| binomial::cdf(count, trials, share) - tail;
    Interval {
        low: if count == 0 { 0.0 } else { decreasing_root(0.0, 1.0, low) },
        high: if count >= trials { 1.0 } else { decreasing_root(0.0, 1.0, high) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halving_the_interval_of_few_values_takes_under_four_times_as_many() {
        // According to R, qt(.975, n - 1) / sqrt(n) is 8.985, 2.484, 1.591, 1.2417 and 1.049 for 2
        // to 6 values.
        assert_eq!(values_to_halve(3, 0.95), 5);
        assert_eq!(values_to_halve(2, 0.95), 3);
        // The ratio approaches four as the count grows.
        let many = values_to_halve(1000, 0.95);
        assert!((3990..=4000).contains(&many), "{many}");
    }

    /// R 4.2.2: `t.test(c(5.1, 4.9, 5.6, 5.8, 6.0, 5.2))$conf.int`, printed with 17 digits.
    #[test]
    fn mean_interval_equals_that_of_r() {
        let interval = mean_t(&[5.1, 4.9, 5.6, 5.8, 6.0, 5.2], 0.95).unwrap();
        assert!((interval.low / 4.97992531587776 - 1.0).abs() < 1e-12);
        assert!((interval.high / 5.886741350788906 - 1.0).abs() < 1e-12);
        assert_eq!(mean_t(&[1.0], 0.95), None);
    }

    /// R 4.2.2: `qbinom(.025, n, .5)` is the rank of the lower end for these n.
    #[test]
    fn median_interval_takes_the_binomial_order_statistics() {
        for (n, rank) in [(6, 1), (8, 1), (9, 2), (10, 2), (20, 6), (30, 10), (101, 41)] {
            let values: Vec<f64> = (1..=n).rev().map(f64::from).collect();
            let interval = median_binomial(&values, 0.95).unwrap();
            assert_eq!(interval.low, f64::from(rank), "n = {n}");
            assert_eq!(interval.high, f64::from(n + 1 - rank), "n = {n}");
        }
    }

    #[test]
    fn five_values_cannot_bound_the_median_at_95_percent() {
        assert_eq!(median_binomial(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95), None);
        assert_eq!(median_binomial(&[], 0.95), None);
        assert!(median_binomial(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.90).is_some());
    }

    #[test]
    fn thousands_of_values_do_not_underflow() {
        let values: Vec<f64> = (0..5000).map(f64::from).collect();
        let interval = median_binomial(&values, 0.95).unwrap();
        // By the normal approximation, the ends are n/2 -+ 1.96 sqrt(n)/2.
        assert!((interval.low - (2500.0 - 1.96 * 5000f64.sqrt() / 2.0)).abs() < 2.0);
    }

    #[test]
    fn containment_and_boundedness_of_intervals_consider_both_ends() {
        let narrow = Interval { low: 0.99, high: 1.01 };
        let wide = Interval { low: 0.95, high: f64::INFINITY };
        assert!(wide.contains(7.0) && !narrow.contains(7.0));
        assert!(narrow.is_bounded() && !wide.is_bounded());
        assert!((narrow.map(f64::ln).half_width() - 0.010000333).abs() < 1e-8);
    }
}
