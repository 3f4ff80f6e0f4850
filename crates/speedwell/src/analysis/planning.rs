//! What a given number of runs can show, and how many more would settle an open question.
//!
//! Decides by the normal approximation, with the standard error that the test's own interval
//! implies: unlike the coefficient of variation it knows what blocks took away and what outliers
//! could not add. It must not know verdicts.

use speedwell_stats::distribution::normal;

/// Share of cases in which a change of the detectable size is found.
const POWER: f64 = 0.8;
/// A question that needs more runs per side than this is hopeless by measuring on.
const MOST_RUNS: f64 = 10_000.0;

/// What is known of one case when one asks for more.
#[derive(Debug, Clone, Copy)]
pub(super) struct Precision {
    /// Runs per side that were looked at.
    pub runs: usize,
    /// Standard error of the logarithm of the ratio at this number of runs.
    pub error: f64,
    /// Error rate of the test.
    pub alpha: f64,
}

impl Precision {
    /// The smallest change, as a share, that these runs show in 80 % of cases.
    pub fn detectable(&self) -> f64 {
        (self.error * self.quantiles()).exp_m1()
    }

    /// About how many more runs per side show that the logarithm of the ratio differs from a limit
    /// that it is `distance` away from; in whole blocks, and at least one. `None` if hopeless.
    pub fn more_runs(&self, distance: f64, runs_per_block: usize) -> Option<u32> {
        let growth = (self.error * self.quantiles() / distance).powi(2);
        let needed = self.runs as f64 * growth;
        if !(distance > 0.0 && needed <= MOST_RUNS) {
            return None;
        }
        let more = (needed.ceil() as usize).saturating_sub(self.runs).max(1);
        Some((more.div_ceil(runs_per_block) * runs_per_block) as u32)
    }

    /// How many standard errors away a change must be: once to be called, once to be called often.
    fn quantiles(&self) -> f64 {
        normal::upper_quantile(0.5 * self.alpha) + normal::quantile(POWER)
    }
}

/// How far the logarithm of a ratio is from the nearest question that more runs may answer: beyond
/// `threshold`, or within `delta`; all as shares.
pub(super) fn distance(change: f64, threshold: f64, delta: f64) -> f64 {
    let size = change.ln_1p().abs();
    f64::max(size - threshold.ln_1p(), delta.ln_1p() - size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_stats::power::{minimum_detectable_effect, runs_per_side};

    /// The standard error of the rank test's shift, for normal noise of this variation.
    fn precision(runs: usize, variation: f64) -> Precision {
        let error = variation * (2.0 / (0.955 * runs as f64)).sqrt();
        Precision {
            runs,
            error,
            alpha: 0.05,
        }
    }

    #[test]
    fn for_normal_noise_the_planning_formulas_result() {
        let known = precision(30, 0.02);
        let reference = minimum_detectable_effect(0.02, 30, 0.05, 0.8);
        assert!((known.detectable() / reference - 1.0).abs() < 1e-3);
        assert!(
            (known.detectable() - 0.0149).abs() < 1e-4,
            "docs/statistics.md, power planning"
        );

        let total = 8 + precision(8, 0.05).more_runs(0.02f64.ln_1p(), 1).unwrap() as usize;
        assert!(
            total.abs_diff(runs_per_side(0.05, 0.02, 0.05, 0.8)) <= 1,
            "{total}"
        );
    }

    #[test]
    fn runs_come_in_whole_blocks_and_hopeless_questions_have_no_answer() {
        let known = precision(10, 0.02);
        assert_eq!(known.more_runs(0.5, 2), Some(2), "at least one block");
        assert_eq!(known.more_runs(0.02, 4), Some(8));
        assert_eq!(known.more_runs(0.0001, 2), None);
        assert_eq!(known.more_runs(-0.1, 2), None);
        assert_eq!(known.more_runs(f64::NAN, 2), None);
    }

    #[test]
    fn the_nearer_question_counts() {
        assert!((distance(0.001, 0.0, 0.02) - (0.02f64.ln_1p() - 0.001f64.ln_1p())).abs() < 1e-15);
        assert!((distance(0.019, 0.0, 0.02) - 0.019f64.ln_1p()).abs() < 1e-15);
        assert!(
            (distance(-0.08, 0.05, 0.05) - (0.92f64.ln().abs() - 0.05f64.ln_1p())).abs() < 1e-15
        );
    }
}
