//! Computes the binomial distribution: how likely it is that an event happens a given number of
//! times in `trials` independent trials.
//!
//! Tail areas and quantiles are sums of exact terms, which suits counts up to some tens of
//! thousands. Start at [`cdf`].

/// Probability that an event of probability `share` happens at most `count` times in `trials`
/// trials.
///
/// NaN for a `share` outside 0..=1.
pub fn cdf(count: u64, trials: u64, share: f64) -> f64 {
    if !(0.0..=1.0).contains(&share) {
        return f64::NAN;
    }
    if count >= trials || share == 0.0 {
        return 1.0;
    }
    if share == 1.0 {
        return 0.0;
    }
    // Sums the shorter tail, so that small probabilities keep their relative accuracy.
    if (count as f64) < trials as f64 * share {
        lower_tail(count, trials, share)
    } else {
        1.0 - lower_tail(trials - count - 1, trials, 1.0 - share)
    }
}

/// Probability that an event of probability `share` happens more than `count` times in `trials`
/// trials.
///
/// Computed from the number of trials without the event. This number is binomial as well.
pub fn upper_tail(count: u64, trials: u64, share: f64) -> f64 {
    if count >= trials { 0.0 } else { cdf(trials - count - 1, trials, 1.0 - share) }
}

/// The smallest count k with P(X <= k) >= `p` (R: `qbinom`).
///
/// Gives 0 for a `share` outside 0..=1 or a negative `p`, and `trials` for a `p` above 1.
pub fn quantile(p: f64, trials: u64, share: f64) -> u64 {
    // R's allowance for rounding errors, which matters if `p` is itself a value of the cdf.
    let target = p * (1.0 - 64.0 * f64::EPSILON);
    let (mut low, mut high) = (0, trials);
    while low < high {
        let middle = low + (high - low) / 2;
        if cdf(middle, trials, share) < target { low = middle + 1 } else { high = middle }
    }
    low
}

/// Probability of at most `count` events; `count` must be below the mean.
///
/// Terms are computed relative to the largest term and divided by their sum, because the ratios of
/// neighboring terms are exact. With thousands of trials, logarithms of factorials would lose
/// digits to cancellation.
fn lower_tail(count: u64, trials: u64, share: f64) -> f64 {
    let peak = (((trials + 1) as f64 * share) as u64).min(trials);
    let odds = share / (1.0 - share);
    let (mut between, mut tail, mut term) = (0.0, 0.0, 1.0);
    for k in (0..=peak).rev() {
        if k <= count {
            tail += term
        } else {
            between += term
        }
        if k <= count && is_negligible(term, tail) {
            break;
        }
        term *= k as f64 / ((trials - k + 1) as f64 * odds);
    }
    let (mut above, mut term) = (0.0, 1.0);
    for k in peak..trials {
        term *= (trials - k) as f64 * odds / (k + 1) as f64;
        above += term;
        if is_negligible(term, above) {
            break;
        }
    }
    tail / (tail + between + above)
}

/// Returns whether this term and all terms beyond it are too small to change the sum.
fn is_negligible(term: f64, sum: f64) -> bool {
    term < sum * f64::EPSILON * 1e-6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_hundred_comparisons_at_five_percent_give_four_to_sixteen_false_alarms() {
        assert_eq!(quantile(0.025, 200, 0.05), 4);
        assert_eq!(quantile(0.975, 200, 0.05), 16);
    }

    #[test]
    fn the_two_tails_add_up_to_one() {
        for count in 0..40 {
            let both = cdf(count, 40, 0.3) + upper_tail(count, 40, 0.3);
            assert!((both - 1.0).abs() < 1e-14, "{count}: {both}");
        }
        assert_eq!(upper_tail(40, 40, 0.3), 0.0);
    }

    #[test]
    fn certain_and_impossible_events_have_no_spread() {
        assert_eq!((cdf(0, 5, 0.0), cdf(4, 5, 1.0), cdf(5, 5, 1.0)), (1.0, 0.0, 1.0));
        assert_eq!((quantile(0.5, 5, 0.0), quantile(0.5, 5, 1.0)), (0, 5));
        assert!(cdf(1, 5, -0.1).is_nan() && cdf(1, 5, f64::NAN).is_nan());
        assert_eq!(cdf(0, 0, 0.5), 1.0, "no trial, no event");
    }
}
