//! Decides whether a suspected change is confirmed when both sides are measured again.
//!
//! Defines when the runs are analyzed, the error rate, and what counts as confirmed. The earlier
//! runs that raised the suspicion are excluded, so the ratio is not overstated. Start at
//! [`evaluate_confirmation`]; [`read_confirmations`] reads a session.

use crate::evidence::FROM_ZERO_RATIO;
use crate::findings::{AnalysisFindings, CandidateComparison, CaseComparison};
use crate::summary::estimate_with_interval;
use speedwell_model::{IntervalEstimate, Verdict};
use speedwell_stats::sequential::{LookDecision, SequentialDesign, decide_at_look};
use speedwell_stats::test::stratified::{StratifiedError, StratifiedRank, stratified_rank};
use speedwell_stats::{BlockObservation, BlockSide};
use std::sync::LazyLock;

/// Numbers of runs per side after which a confirmation is analyzed and may stop.
pub const CONFIRMATION_LOOKS: [u32; 6] = [14, 20, 26, 32, 40, 48];

/// Probability of confirming a change that does not exist.
pub const CONFIRMATION_ALPHA: f64 = 0.01;

/// Exponent of the spending function alpha t^rho (Kim and DeMets, Biometrika 74, 1987).
const SPENDING_EXPONENT: f64 = 2.0;

static CONFIRMATION_DESIGN: LazyLock<SequentialDesign> = LazyLock::new(|| {
    let looks = CONFIRMATION_LOOKS.map(|look| look as usize);
    SequentialDesign::new(&looks, CONFIRMATION_ALPHA, SPENDING_EXPONENT)
});

/// Result of measuring again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ConfirmationResult {
    /// The sides differ, in the suspected direction if there was one.
    Confirmed(IntervalEstimate),
    /// The data do not show a difference, or the difference is too small to matter, or the
    /// direction is opposite to the suspected one.
    Refuted(IntervalEstimate),
}

impl ConfirmationResult {
    /// The relative change. Its interval is valid although the runs were analyzed several times.
    pub fn change(&self) -> IntervalEstimate {
        match self {
            ConfirmationResult::Confirmed(change) | ConfirmationResult::Refuted(change) => *change,
        }
    }
}

/// Evaluates the runs of a confirmation so far. Returns `None` if no analysis is due after this
/// number of runs, or if the analysis leaves the question open. `delta` is the smallest change that
/// matters, as a fraction. `is_more` says whether the candidate's values were larger when the
/// change was suspected.
///
/// # Errors
/// Returns an error if a value has no logarithm or no block has both sides.
pub fn evaluate_confirmation(
    runs: &[BlockObservation],
    delta: f64,
    is_more: bool,
) -> Result<Option<ConfirmationResult>, StratifiedError> {
    let candidate_runs = runs.iter().filter(|run| run.side == BlockSide::Candidate).count();
    let smaller_side = candidate_runs.min(runs.len() - candidate_runs);
    let Some(look) = CONFIRMATION_DESIGN.look_at(smaller_side) else { return Ok(None) };
    let decision = decide_at_look(runs, &look, delta)?;
    if decision == LookDecision::GoOn && !look.is_last {
        return Ok(None);
    }
    let change = tested_change(&stratified_rank(runs)?, look.p_limit);
    let is_there = decision == LookDecision::Rejected && (change.value > 0.0) == is_more;
    let result = if is_there { ConfirmationResult::Confirmed } else { ConfirmationResult::Refuted };
    Ok(Some(result(change)))
}

/// The tested relative change, with the interval of changes that the test does not reject at
/// `p_limit`. A change from zero is infinite.
pub(crate) fn tested_change(test: &StratifiedRank, p_limit: f64) -> IntervalEstimate {
    let share = |ratio: f64| {
        if ratio > FROM_ZERO_RATIO { f64::INFINITY } else { ratio - 1.0 }
    };
    estimate_with_interval(share(test.ratio()), Some(test.interval_at(p_limit).map(share)))
}

/// Takes a case id and a metric name. Tells whether the candidate's values were larger when the
/// change was suspected; `None` if no direction was suspected.
pub type IsMore<'a> = &'a dyn Fn(&str, &str) -> Option<bool>;

/// Reads the confirmations of a session. Returns each compared case's comparison, row and
/// confirmation result. If no direction was suspected, a change in either direction can be
/// confirmed. The result is `None` if there are not enough runs, if no change can be computed, or
/// if the answer for the case is withheld.
pub fn read_confirmations<'a>(
    findings: &'a AnalysisFindings,
    is_more: IsMore<'_>,
) -> Vec<(&'a CandidateComparison, &'a CaseComparison, Option<ConfirmationResult>)> {
    let mut confirmations = Vec::new();
    for comparison in &findings.comparisons {
        for row in &comparison.rows {
            let was_more = is_more(&row.case.id(), &comparison.metric.name);
            let judge_change = |change: IntervalEstimate| {
                let is_sure = matches!(row.verdict, Verdict::Better | Verdict::Worse);
                let is_there =
                    is_sure && was_more.is_none_or(|was_more| (change.value > 0.0) == was_more);
                let runs = row.baseline.runs.len().min(row.candidate.runs.len());
                let last_look = CONFIRMATION_LOOKS[CONFIRMATION_LOOKS.len() - 1] as usize;
                let is_open = row.verdict == Verdict::Unclear && runs < last_look;
                let confirmed = is_there.then_some(ConfirmationResult::Confirmed(change));
                confirmed.or((!is_open).then_some(ConfirmationResult::Refuted(change)))
            };
            // A change from zero counts as an infinite change.
            let from_zero = row.is_from_zero().then(|| estimate_with_interval(f64::INFINITY, None));
            let change = (row.change.or(from_zero)).filter(|_| row.withheld.is_none());
            confirmations.push((comparison, row, change.and_then(judge_change)));
        }
    }
    confirmations
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of two runs per side; the candidate's values are larger by `share`.
    fn runs(blocks: u32, share: f64) -> Vec<BlockObservation> {
        let noise = |at: u32| 1.0 + 0.01 * f64::from(at * 7919 % 101) / 101.0;
        (0..blocks)
            .flat_map(|block| {
                let old =
                    [0, 1].map(|run| BlockObservation::baseline(noise(4 * block + run), block));
                let new = [2, 3].map(|run| {
                    BlockObservation::candidate((1.0 + share) * noise(4 * block + run), block)
                });
                old.into_iter().chain(new)
            })
            .collect()
    }

    #[test]
    fn a_change_is_confirmed_at_the_first_look_that_shows_it_and_not_between_looks() {
        assert_eq!(evaluate_confirmation(&runs(6, 0.05), 0.02, true), Ok(None));
        let Ok(Some(ConfirmationResult::Confirmed(change))) =
            evaluate_confirmation(&runs(7, 0.05), 0.02, true)
        else {
            panic!("the change is not confirmed");
        };
        assert!((change.value - 0.05).abs() < 0.004, "{change:?}");
        assert!(change.low > 0.0 && change.high < 0.1, "{change:?}");
        assert_eq!(evaluate_confirmation(&runs(8, 0.05), 0.02, true), Ok(None));
    }

    #[test]
    fn opposite_and_negligible_changes_are_refuted() {
        let refuted = |share, is_more| {
            let first = (7..=24).find_map(|blocks| {
                evaluate_confirmation(&runs(blocks, share), 0.02, is_more).ok()?
            });
            matches!(first, Some(ConfirmationResult::Refuted(_)))
        };
        assert!(refuted(0.05, false) && refuted(0.0, true));
        assert!(!refuted(0.05, true));
    }

    #[test]
    fn an_undecided_change_is_refuted_at_the_last_look() {
        // With delta 0, no change is too small to matter.
        assert_eq!(evaluate_confirmation(&runs(20, 0.0), 0.0, true), Ok(None));
        let last = evaluate_confirmation(&runs(24, 0.0), 0.0, true);
        assert!(matches!(last, Ok(Some(ConfirmationResult::Refuted(_)))), "{last:?}");
    }

    /// Limits of |z| from an independent simulation of 1.5 million paths.
    #[test]
    fn the_limits_match_an_independent_simulation() {
        let simulated = [3.35, 3.24, 3.12, 3.02, 2.87, 2.76];
        for (look, z) in CONFIRMATION_DESIGN.limits().iter().zip(simulated) {
            assert!((look.z_limit - z).abs() < 0.02, "{look:?}");
        }
    }
}
