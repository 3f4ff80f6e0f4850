//! Computes Fieller's interval of a ratio of means.
//!
//! The ratio is mean(candidate) / mean(baseline) of two independent groups with unequal variances.
//! This module ignores blocks; [`bootstrap`](crate::bootstrap) takes them into account. Start at
//! [`fieller_interval`].

use crate::describe::{mean, variance};
use crate::distribution::student_t;
use crate::interval::Interval;

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
