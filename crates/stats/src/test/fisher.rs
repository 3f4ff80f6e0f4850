//! Fisher's exact test of two shares: did something happen on one side more often than on the other?

/// The two-sided p value of `happened` out of `all` on either side: the probability, given how often it happened in all,
/// of tables that are as rare as this one or rarer (Fisher, Journal of the Royal Statistical Society 98, 1935). 1 where
/// it always or never happened.
///
/// # Panics
/// If more happened on a side than there is.
pub fn fisher_exact(happened: [u32; 2], all: [u32; 2]) -> f64 {
    assert!(happened[0] <= all[0] && happened[1] <= all[1]);
    let in_all = happened[0] + happened[1];
    let (fewest, most) = (in_all.saturating_sub(all[1]), in_all.min(all[0]));
    // Logarithms of the hypergeometric probabilities but for what all have in common, by their ratios.
    let mut logs = vec![0.0];
    for count in fewest..most {
        let [one, other] = [all[0] - count, in_all - count].map(f64::from);
        let rest = f64::from(all[1] + count + 1 - in_all);
        let last = logs[logs.len() - 1];
        logs.push(last + (one * other / (f64::from(count + 1) * rest)).ln());
    }
    let observed = logs[(happened[0] - fewest) as usize];
    let highest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weight = |log: &f64| (log - highest).exp();
    // Tables of the same probability differ by rounding, as in R and scipy.
    let as_rare: f64 = logs
        .iter()
        .filter(|log| **log <= observed + 1e-7)
        .map(weight)
        .sum();
    (as_rare / logs.iter().map(weight).sum::<f64>()).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `scipy.stats.fisher_exact` of what happened and did not on one side, and on the other.
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
