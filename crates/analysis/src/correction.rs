//! Corrects for multiple testing, and estimates how many more runs an undecided case needs.
//!
//! Decides the verdicts: a change is reported only if its p value survives a correction for all
//! comparisons in the report, across metrics, candidates and cases. Does not compute p values.
//! Start at [`correct_family`].

use crate::case_row::CaseRow;
use crate::evidence::ShiftDirection;
use crate::policy::JudgingPolicy;
use crate::power::{distance_to_change, distance_to_same, explain_too_few, most_comparisons};
use crate::sequential::{DataEnd, SequentialOutcome, adjust_function};
use crate::{CaseComparison, NoVerdict, TestingCorrection};
use speedwell_model::{MetricDirection, Verdict};
use speedwell_stats::sequential::survives_correction;

/// A row, and what its verdict depends on.
pub(super) struct FamilyMember<'a> {
    pub row: &'a mut CaseRow,
    pub policy: &'a JudgingPolicy,
    pub better: MetricDirection,
}

/// Fills in the adjusted p values and verdicts of a family of comparisons. For each unclear
/// comparison, also fills in how many more runs it needs.
pub(super) fn correct_family(family: &mut [FamilyMember<'_>], correction: TestingCorrection) {
    let p: Vec<f64> =
        family.iter().map(|member| member.row.outcome.p.unwrap_or(f64::NAN)).collect();
    let adjusted = adjust_function(correction)(&p);
    let tests = p.iter().filter(|p| !p.is_nan()).count();
    let mut discoveries = 0;
    for (member, &adjusted) in family.iter_mut().zip(&adjusted) {
        let FamilyMember { row, policy, better } = member;
        let outcome = &row.outcome;
        let survives = survives_correction(adjusted, policy.alpha);
        discoveries += usize::from(survives);
        let comparison = &mut row.comparison;
        comparison.q =
            outcome.p.map(|_| adjusted).filter(|_| correction != TestingCorrection::None);
        comparison.verdict = match outcome.direction.filter(|_| survives) {
            _ if row.disturb_each_other || comparison.withheld.is_some() => Verdict::Unclear,
            _ if comparison.is_exact => {
                row.counts.exact_verdict(policy.delta, *better).unwrap_or(Verdict::Unclear)
            }
            Some(direction) => verdict_of_direction(direction, *better),
            None if outcome.is_same => Verdict::Same,
            None => Verdict::Unclear,
        };
        let is_withheld = comparison.withheld.is_some();
        comparison.differs = if comparison.is_exact {
            row.counts.exceeds_delta(policy.delta) && !is_withheld
        } else {
            let is_spoiled = row.disturb_each_other || is_withheld;
            survives && outcome.direction.is_some() && !is_spoiled
        };
        explain_no_verdict(row, policy, correction, tests);
        let (comparison, outcome) = (&mut row.comparison, &row.outcome);
        if !row.disturb_each_other && !comparison.is_exact && !is_withheld {
            comparison.notes.extend(explain_open_verdict(comparison, outcome, policy));
        }
    }
    let share = next_alpha_share(correction, tests, discoveries);
    for FamilyMember { row, policy, .. } in family {
        let level = policy.alpha * share;
        row.comparison.detectable =
            row.precision.map(|precision| precision.detectable_change(level));
        let comparison = &row.comparison;
        let is_open = comparison.verdict == Verdict::Unclear
            && !comparison.differs
            && comparison.withheld.is_none();
        if is_open && !row.disturb_each_other {
            row.comparison.more_runs = additional_runs(row, policy, level);
        }
    }
}

/// Returns the level, as a fraction of the error rate, at which one more change would be
/// significant after the correction.
fn next_alpha_share(correction: TestingCorrection, tests: usize, discoveries: usize) -> f64 {
    let (tests, discoveries) = (tests.max(1), discoveries.min(tests.saturating_sub(1)));
    match correction {
        TestingCorrection::BenjaminiHochberg => (discoveries + 1) as f64 / tests as f64,
        TestingCorrection::Holm => 1.0 / (tests - discoveries) as f64,
        TestingCorrection::None => 1.0,
    }
}

/// If a case is undecided because it cannot have a verdict, records the reason. If there are too
/// few runs and no interim analyses, a note says how many runs are enough.
fn explain_no_verdict(
    row: &mut CaseRow,
    policy: &JudgingPolicy,
    correction: TestingCorrection,
    tests: usize,
) {
    let tests = match correction {
        TestingCorrection::Holm => tests,
        // The number of tests does not put a verdict out of reach: Benjamini-Hochberg can find many
        // changes together, and without correction each test stands alone.
        TestingCorrection::BenjaminiHochberg | TestingCorrection::None => 1,
    };
    let comparison = &row.comparison;
    let is_open = comparison.verdict == Verdict::Unclear
        && !comparison.differs
        && comparison.withheld.is_none();
    let reason = no_verdict(row, policy, tests).filter(|_| is_open);
    row.comparison.no_verdict = reason;
    if reason == Some(NoVerdict::TooFewRuns) && policy.looks.is_none() {
        let text = explain_too_few(policy, row.runs, row.smallest_p, tests);
        let note = format!("Too few {}: {text}.", policy.unit.plural_noun());
        row.comparison.notes.insert(0, note);
    }
}

/// Why an undecided case cannot have a verdict: it has too few runs for this many tests, or the
/// test is undefined.
fn no_verdict(row: &CaseRow, policy: &JudgingPolicy, tests: usize) -> Option<NoVerdict> {
    if row.outcome.end == DataEnd::TooFew {
        return Some(NoVerdict::TooFewRuns);
    }
    if row.outcome.p.is_none() {
        return Some(NoVerdict::NoTest);
    }
    let is_out_of_reach =
        policy.looks.is_none() && most_comparisons(row.smallest_p, policy.alpha) < tests.max(1);
    is_out_of_reach.then_some(NoVerdict::TooFewRuns)
}

fn verdict_of_direction(direction: ShiftDirection, better: MetricDirection) -> Verdict {
    match (direction, better) {
        (_, MetricDirection::Unknown) => Verdict::Unclear,
        (ShiftDirection::Larger, MetricDirection::Higher)
        | (ShiftDirection::Smaller, MetricDirection::Lower) => Verdict::Better,
        (ShiftDirection::Larger, MetricDirection::Lower)
        | (ShiftDirection::Smaller, MetricDirection::Higher) => Verdict::Worse,
    }
}

/// Explains why a visible change does not affect the verdict.
fn explain_open_verdict(
    comparison: &CaseComparison,
    outcome: &SequentialOutcome,
    policy: &JudgingPolicy,
) -> Option<String> {
    let is_change = matches!(comparison.verdict, Verdict::Better | Verdict::Worse);
    let would_stand = outcome.direction.is_some() && outcome.p.is_some_and(|p| p <= policy.alpha);
    if !is_change && would_stand {
        return Some(
            "The change is significant on its own, but not after correction for the \
             number of cases (see q)."
                .into(),
        );
    }
    let excludes_zero =
        comparison.change.is_some_and(|change| change.low > 0.0 || change.high < 0.0);
    let is_within = comparison.verdict == Verdict::Same && policy.threshold > 0.0 && excludes_zero;
    is_within.then(|| {
        "There is a change (the interval excludes zero), but it lies within the threshold.".into()
    })
}

/// Approximate number of additional runs per side after which an unclear case is decided: the
/// smaller of the numbers needed for "same" and for "changed" at `level`, the significance level
/// after the correction. `None` if it is unknown how much the runs scatter.
fn additional_runs(row: &CaseRow, policy: &JudgingPolicy, level: f64) -> Option<u32> {
    let block = policy.runs_per_block();
    let outcome = &row.outcome;
    let runs = row.runs;
    let level_of_one = policy.smallest_p().fewest_runs(level);
    let reachable = level_of_one.max(policy.fewest_runs(level));
    let in_blocks = |missing: usize| {
        (missing.max(1).div_ceil(block) * block * policy.unit.runs_per_unit()) as u32
    };
    let (precision, change) = row.precision.zip(outcome.change)?;
    let runs_for_change = precision
        .runs_for(distance_to_change(change.value, policy.threshold), level)
        .map(|required| required.max(reachable));
    let runs_for_same =
        precision.runs_for(distance_to_same(change.value, policy.delta), policy.alpha);
    let required = match (runs_for_change, runs_for_same) {
        (Some(runs_for_change), Some(runs_for_same)) => runs_for_change.min(runs_for_same),
        (for_change, for_same) => for_change.or(for_same)?,
    };
    Some(in_blocks(required.saturating_sub(runs)))
}
