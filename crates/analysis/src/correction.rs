//! What many comparisons take from the verdict of one, and how many more runs an open one needs.
//!
//! Decides the verdicts: a change is called only where its p value survives the correction for everything that is shown
//! together, whatever its metric, candidate or case. Further runs follow from the normal approximation, with the
//! standard error that the test's own interval implies: unlike the coefficient of variation it knows what blocks took
//! away and what outliers could not add. It must not know how p values came about. Start at [`correct`].

use crate::comparison::CaseRow;
use crate::evidence::Direction;
use crate::policy::Policy;
use crate::sequential::{End, Outcome, adjustment};
use crate::{CaseComparison, Correction};
use speedwell_model::{Better, Verdict};
use speedwell_stats::distribution::normal;
use speedwell_stats::sequential::survives;

/// A row with what its verdict rests on.
pub(super) struct FamilyMember<'a> {
    pub row: &'a mut CaseRow,
    pub policy: &'a Policy,
    pub better: Better,
}

/// Fills in adjusted p values and verdicts of a family of comparisons, and how many more runs the unclear ones need.
pub(super) fn correct(family: &mut [FamilyMember<'_>], correction: Correction) {
    let p: Vec<f64> = family
        .iter()
        .map(|member| member.row.outcome.p.unwrap_or(f64::NAN))
        .collect();
    let adjusted = adjustment(correction)(&p);
    let tests = p.iter().filter(|p| !p.is_nan()).count();
    let mut found = 0;
    for (member, &adjusted) in family.iter_mut().zip(&adjusted) {
        let FamilyMember {
            row,
            policy,
            better,
        } = member;
        let outcome = &row.outcome;
        let survives = survives(adjusted, policy.alpha);
        found += usize::from(survives);
        let comparison = &mut row.comparison;
        comparison.q = outcome
            .p
            .map(|_| adjusted)
            .filter(|_| correction != Correction::None);
        comparison.verdict = match outcome.direction.filter(|_| survives) {
            Some(direction) => changed(direction, *better),
            None if outcome.is_same => Verdict::Same,
            None => Verdict::Unclear,
        };
        comparison.notes.extend(remark(comparison, outcome, policy));
    }
    let share = share(correction, tests, found);
    for FamilyMember { row, policy, .. } in family {
        let level = policy.alpha * share;
        row.comparison.detectable = row.precision.map(|known| known.detectable(level));
        if row.comparison.verdict == Verdict::Unclear {
            row.comparison.more_runs = more_runs(row, policy, level);
        }
    }
}

/// The share of the error rate at which the next change would be called.
fn share(correction: Correction, tests: usize, found: usize) -> f64 {
    let (tests, found) = (tests.max(1), found.min(tests.saturating_sub(1)));
    match correction {
        Correction::BenjaminiHochberg => (found + 1) as f64 / tests as f64,
        Correction::Holm => 1.0 / (tests - found) as f64,
        Correction::None => 1.0,
    }
}

fn changed(direction: Direction, better: Better) -> Verdict {
    match (direction, better) {
        (Direction::Larger, Better::Higher) | (Direction::Smaller, Better::Lower) => {
            Verdict::Better
        }
        (Direction::Larger, Better::Lower) | (Direction::Smaller, Better::Higher) => Verdict::Worse,
    }
}

/// Why a change that shows in the figures has no place in the verdict.
fn remark(comparison: &CaseComparison, outcome: &Outcome, policy: &Policy) -> Option<String> {
    let is_change = matches!(comparison.verdict, Verdict::Better | Verdict::Worse);
    let would_stand = outcome.direction.is_some() && outcome.p.is_some_and(|p| p <= policy.alpha);
    if !is_change && would_stand {
        return Some("The change would stand alone, but not among so many cases (see q).".into());
    }
    let excludes_zero = comparison
        .change
        .is_some_and(|c| c.low > 0.0 || c.high < 0.0);
    let is_within = comparison.verdict == Verdict::Same && policy.threshold > 0.0 && excludes_zero;
    is_within
        .then(|| "There is a change (the interval excludes zero), but within the threshold.".into())
}

/// About how many more runs per side settle what is unclear: the sooner of "changed", at the level that the correction
/// leaves, and "the same".
fn more_runs(row: &CaseRow, policy: &Policy, level: f64) -> Option<u32> {
    let block = policy.runs_per_block();
    let outcome = &row.outcome;
    let runs = outcome.data.runs();
    let reachable = fewest_runs(level, block).max(policy.fewest_runs());
    let in_blocks = |more: usize| (more.max(1).div_ceil(block) * block) as u32;
    if outcome.end == End::TooFew {
        return Some(in_blocks(reachable.saturating_sub(runs)));
    }
    let (known, change) = row.precision.zip(outcome.change)?;
    let beyond = known
        .runs_for(distance_to_change(change.value, policy.threshold), level)
        .map(|needed| needed.max(reachable));
    let within = known.runs_for(distance_to_same(change.value, policy.delta), policy.alpha);
    let needed = match (beyond, within) {
        (Some(beyond), Some(within)) => beyond.min(within),
        (one, other) => one.or(other)?,
    };
    Some(in_blocks(needed.saturating_sub(runs)))
}

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
}

impl Precision {
    /// The smallest change, as a share, that these runs show in 80 % of cases at the error rate `alpha`.
    pub fn detectable(&self, alpha: f64) -> f64 {
        (self.error * quantiles(alpha)).exp_m1()
    }

    /// About how many runs per side show at the error rate `alpha` that the logarithm of the ratio differs from a limit
    /// that it is `distance` away from. `None` if hopeless.
    pub fn runs_for(&self, distance: f64, alpha: f64) -> Option<usize> {
        let growth = (self.error * quantiles(alpha) / distance).powi(2);
        let needed = self.runs as f64 * growth;
        (distance > 0.0 && needed <= MOST_RUNS).then(|| needed.ceil() as usize)
    }
}

/// How many standard errors away a change must be: once to be called, once to be called often.
fn quantiles(alpha: f64) -> f64 {
    normal::upper_quantile(0.5 * alpha) + normal::quantile(POWER)
}

/// How far the logarithm of a ratio lies beyond `threshold`; negative within it. All as shares.
pub(super) fn distance_to_change(change: f64, threshold: f64) -> f64 {
    change.ln_1p().abs() - threshold.ln_1p()
}

/// How far the logarithm of a ratio lies within `delta`; negative beyond it. All as shares.
pub(super) fn distance_to_same(change: f64, delta: f64) -> f64 {
    delta.ln_1p() - change.ln_1p().abs()
}

/// The smallest two-sided p value of `runs` runs per side in blocks of `block` runs of either: 2 of all the ways to deal
/// out the labels.
pub(super) fn smallest_p(runs: usize, block: usize) -> f64 {
    let ways = |runs: usize| {
        let factors = (1..=runs).map(|k| (runs + k) as f64 / k as f64);
        factors.product::<f64>()
    };
    2.0 / (ways(block).powi((runs / block) as i32) * ways(runs % block))
}

/// The fewest runs per side, in blocks of `block` runs of either, whose smallest p value is at most `level`.
pub(super) fn fewest_runs(level: f64, block: usize) -> usize {
    let mut runs = 0;
    while smallest_p(runs, block) > level.max(0.0) {
        runs += block;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_stats::power::{minimum_detectable_effect, runs_per_side};

    /// The standard error of the rank test's shift, for normal noise of this variation.
    fn precision(runs: usize, variation: f64) -> Precision {
        let error = variation * (2.0 / (0.955 * runs as f64)).sqrt();
        Precision { runs, error }
    }

    #[test]
    fn for_normal_noise_the_planning_formulas_result() {
        let known = precision(30, 0.02);
        let reference = minimum_detectable_effect(0.02, 30, 0.05, 0.8);
        assert!((known.detectable(0.05) / reference - 1.0).abs() < 1e-3);
        assert!(
            (known.detectable(0.05) - 0.0149).abs() < 1e-4,
            "docs/why/statistics.md, power planning"
        );

        let total = precision(8, 0.05).runs_for(0.02f64.ln_1p(), 0.05).unwrap();
        assert!(
            total.abs_diff(runs_per_side(0.05, 0.02, 0.05, 0.8)) <= 1,
            "{total}"
        );
    }

    #[test]
    fn hopeless_questions_have_no_answer_and_stricter_ones_need_more() {
        let known = precision(10, 0.02);
        assert!(known.runs_for(0.5, 0.05).unwrap() <= 1);
        assert!(known.runs_for(0.02, 0.05).unwrap() < known.runs_for(0.02, 0.001).unwrap());
        assert_eq!(known.runs_for(0.0001, 0.05), None);
        assert_eq!(known.runs_for(-0.1, 0.05), None);
        assert_eq!(known.runs_for(f64::NAN, 0.05), None);
    }

    #[test]
    fn the_smallest_p_value_limits_what_few_runs_can_show() {
        // Blocks of two and two: 2 / 6^4 = .0015, 2 / 6^5 = .00026, 2 / 6^7 = 7.1e-6.
        assert_eq!(smallest_p(8, 2), 2.0 / 1296.0);
        assert_eq!(smallest_p(9, 2), 1.0 / 1296.0, "one more run of either");
        // R: `wilcox.test(1:8, 9:16)$p.value` is 1.554e-4.
        assert!((smallest_p(8, 8) - 2.0 / 12_870.0).abs() < 1e-18);
        assert_eq!(fewest_runs(0.05, 2), 6);
        assert_eq!(fewest_runs(0.05 / 32.0, 2), 8);
        assert_eq!(fewest_runs(0.05 / 33.0, 2), 10);
        assert_eq!(fewest_runs(0.05 / 3000.0, 2), 14);
    }

    #[test]
    fn distances_are_those_to_the_limits() {
        assert!(
            (distance_to_same(0.001, 0.02) - (0.02f64.ln_1p() - 0.001f64.ln_1p())).abs() < 1e-15
        );
        assert!((distance_to_change(0.019, 0.0) - 0.019f64.ln_1p()).abs() < 1e-15);
        assert!(
            (distance_to_change(-0.08, 0.05) - (0.92f64.ln().abs() - 0.05f64.ln_1p())).abs()
                < 1e-15
        );
    }
}
