//! Describes one case of a comparison (its figures, and notes for the reader), and decides the
//! verdicts of all cases together.
//!
//! A change is reported only if its p value survives a correction for all comparisons in the
//! report, across metrics, candidates and cases. Also estimates how many more runs an undecided
//! case needs. Does not compute p values. Start at [`describe_case`], then [`correct_family`].

use crate::evidence::ShiftDirection;
use crate::exact::ExactCounts;
use crate::grid::DisturbanceExposure;
use crate::paired::{
    ComparedData, PairedRuns, RunMatching, is_noise_autocorrelated, is_one_after_the_other,
};
use crate::policy::{
    AchievedPrecision, JudgingPolicy, distance_to_change, distance_to_same, explain_too_few,
    most_comparisons,
};
use crate::sequential::{DataEnd, SequentialOutcome, adjust_function};
use crate::summary::finite_or_none;
use crate::warnings::format_count;
use crate::withheld::WithheldReason;
use crate::{
    CaseComparison, NoVerdict, SideSummary, StatisticalMethod, TestingCorrection, evidence,
};
use speedwell_model::{Case, IntervalEstimate, MetricDirection, RunValue, Verdict};
use speedwell_stats::describe::{coefficient_of_variation, mean, median};
use speedwell_stats::effect::cliffs_delta;
use speedwell_stats::sequential::survives_correction;
use std::sync::Arc;

/// A case that two sides have in common.
pub(super) struct MatchedCase {
    pub case: Arc<Case>,
    pub id: String,
    /// Values of all runs of baseline and candidate; `None` if `pair` has the same values.
    pub sides: Option<[Vec<RunValue>; 2]>,
    /// Compared values.
    pub pair: PairedRuns,
    /// Values of baseline and candidate in the pairs whose sides ran one after the other, each with
    /// the processor to itself.
    pub alone: Vec<(f64, f64)>,
    /// Whether the sides come from different sessions.
    pub apart: bool,
    /// Reason why the verdict on the case is withheld; `None` if it is not withheld.
    pub withheld: Option<WithheldReason>,
    /// How often baseline and candidate were disturbed.
    pub exposures: [DisturbanceExposure; 2],
}

/// A described case, with the data that its verdict needs.
pub(super) struct CaseRow {
    pub comparison: CaseComparison,
    /// Results of the tests. The tested data are dropped, because there may be thousands of cases.
    pub outcome: SequentialOutcome,
    /// Independent units (runs or builds) per side that the tests used.
    pub runs: usize,
    /// Smallest p value that a single test of this many units can give.
    pub smallest_p: f64,
    /// Standard error of the log ratio, with the number of units from which it was computed.
    pub precision: Option<AchievedPrecision>,
    /// Whether the sides were measured one after the other.
    pub one_after_the_other: bool,
    /// Whether the sides affected each other, so that their ratio is biased.
    pub disturb_each_other: bool,
    /// Exact comparison of the values, if the metric is a count.
    pub counts: ExactCounts,
}

/// Describes one case, given the `outcome` of its tests. The verdict is added later. `names` holds
/// the names of baseline and candidate.
pub(super) fn describe_case(
    case: MatchedCase,
    mut outcome: SequentialOutcome,
    policy: &JudgingPolicy,
    names: [&str; 2],
) -> CaseRow {
    let seed = policy.seed_for(&case.id);
    let counts = counts_of(&case.pair, policy);
    if counts.is_exact() {
        (outcome.change, outcome.p, outcome.error) = (counts.exact_change(), None, None);
    }
    let runs = outcome.data.smaller_side_runs();
    let precision = outcome.error.map(|error| AchievedPrecision { runs, error });
    let mean_change = evidence::mean_change(&outcome.data, policy.confidence(), seed);
    // In randomized blocks, one side comes first only by chance. The test accounts for this.
    let one_after_the_other =
        case.apart || (policy.indicative && is_one_after_the_other(&case.pair));
    let mut notes = case_notes(&case.pair, &outcome, policy, counts);
    if is_noise_autocorrelated(&case.pair, case.apart) {
        notes.extend(note_dependence(policy, one_after_the_other));
    }
    let [old, new] = &case.exposures;
    notes.extend(old.explain_unequal(new, names).filter(|_| !case.apart));
    let disturb_each_other = policy.matching == RunMatching::Pairs
        && evidence::sharing_matters(&outcome.data.to_pairs(), &case.alone);
    notes.extend(disturb_each_other.then(|| DISTURB_EACH_OTHER.to_owned()));
    let [baseline, candidate] = (case.sides).unwrap_or([case.pair.baseline, case.pair.candidate]);
    let (baseline, candidate) = (row_side(baseline, old), row_side(candidate, new));
    let comparison = CaseComparison {
        case: case.case,
        change: outcome.change,
        mean_change,
        is_shape_changed: has_shape_changed(outcome.change, mean_change),
        p: outcome.p,
        q: None,
        verdict: Verdict::Unclear,
        withheld: case.withheld,
        no_verdict: None,
        differs: false,
        is_exact: counts.is_exact(),
        is_indicative: policy.indicative,
        decided_at: (outcome.decided_at).map(|units| units * policy.unit.runs_per_unit() as u32),
        detectable: None,
        more_runs: None,
        cliffs_delta: finite_or_none(cliffs_delta(&outcome.data.baseline, &outcome.data.candidate)),
        machines: None,
        notes,
        baseline,
        candidate,
    };
    let sizes = [&outcome.data.baseline, &outcome.data.candidate].map(Vec::len);
    CaseRow {
        comparison,
        smallest_p: policy.smallest_p().for_runs(sizes),
        runs,
        // Drop the data, because there may be thousands of cases.
        outcome: SequentialOutcome { data: ComparedData::default(), ..outcome },
        precision,
        one_after_the_other,
        disturb_each_other,
        counts,
    }
}

const DISTURB_EACH_OTHER: &str = "Paired and single runs disagree: the sides disturb each other's \
    caches. Use --order blocks to measure them separately.";

/// Compares the values as counts if the metric is a count.
fn counts_of(pair: &PairedRuns, policy: &JudgingPolicy) -> ExactCounts {
    if policy.counts {
        ExactCounts::from_runs(&pair.baseline, &pair.candidate)
    } else {
        ExactCounts::TooFew
    }
}

/// Differences between logarithms that are smaller than this come from rounding. The limit is
/// needed for noiseless values, because their intervals have no width.
const ROUNDING_TOLERANCE: f64 = 1e-9;

/// Whether the mean and the typical run changed by different amounts: the logarithms of the two
/// changes lie further apart than half the width of the wider interval (docs/why/statistics.md,
/// "Effect and interval").
fn has_shape_changed(typical: Option<IntervalEstimate>, mean: Option<IntervalEstimate>) -> bool {
    let log = |share: f64| share.ln_1p();
    let half = |estimate: &IntervalEstimate| 0.5 * (log(estimate.high) - log(estimate.low));
    match (typical, mean) {
        (Some(typical), Some(mean)) => {
            let apart = (log(mean.value) - log(typical.value)).abs();
            apart > half(&typical).max(half(&mean)).max(ROUNDING_TOLERANCE)
        }
        _ => false,
    }
}

fn row_side(runs: Vec<RunValue>, exposure: &DisturbanceExposure) -> SideSummary {
    let values: Vec<f64> = runs.iter().map(|run| run.value).collect();
    let typical = median(&values);
    SideSummary {
        location: typical,
        median: typical,
        mean: mean(&values),
        variation: finite_or_none(coefficient_of_variation(&values)),
        exposure: exposure.clone(),
        runs: runs.into(),
    }
}

/// Notes on one case of a comparison.
fn case_notes(
    pair: &PairedRuns,
    outcome: &SequentialOutcome,
    policy: &JudgingPolicy,
    counts: ExactCounts,
) -> Vec<String> {
    let mut notes = Vec::new();
    if !counts.is_exact() {
        notes.extend(note_run_count(pair, outcome, policy));
        if pair.incomplete > 0 {
            let blocks = format_count(pair.incomplete, "block lacks", "blocks lack");
            notes.push(format!("{blocks} a run and cannot be compared."));
        }
        notes.extend(note_values(outcome, policy));
    }
    notes.extend(counts.to_note(pair.baseline.len().min(pair.candidate.len())));
    notes
}

fn note_run_count(
    pair: &PairedRuns,
    outcome: &SequentialOutcome,
    policy: &JudgingPolicy,
) -> Option<String> {
    let runs = outcome.data.smaller_side_runs();
    let counted = |number: usize| policy.unit.format_count(number);
    let run_count = counted(runs);
    if outcome.is_contradictory {
        return Some(format!(
            "The intervals of the interim analyses do not overlap, so something changed while \
             measuring; the figures are from the analysis after {run_count} on each side, where the \
             change is clearest."
        ));
    }
    match outcome.end {
        DataEnd::TooFew if policy.looks.is_none() => None,
        DataEnd::TooFew => Some(format!(
            "Measuring ended before the first interim analysis; there are {run_count} a side."
        )),
        DataEnd::Early => {
            let next = policy.looks.as_ref().and_then(|looks| looks.design.next_after(runs));
            let planned = next
                .map_or(String::new(), |look| format!(" after {} on each side", counted(look.n)));
            Some(format!(
                "Measuring ended before the interim analysis{planned}; the figures are from the \
                 one after {runs}."
            ))
        }
        DataEnd::Final if pair.comparable_runs() > runs && policy.looks.is_some() => {
            Some(format!("Decided at {run_count} a side; later ones do not affect the verdict."))
        }
        DataEnd::Final => None,
    }
}

fn note_values(outcome: &SequentialOutcome, policy: &JudgingPolicy) -> Option<String> {
    let data = &outcome.data;
    if data.smaller_side_runs() == 0 {
        return None;
    }
    let varies = |values: &[f64]| values.iter().any(|&value| value != values[0]);
    if data.constant_value().is_some() {
        Some("All values of both sides are identical.".into())
    } else if outcome.change.is_none() && data.is_from_zero() {
        Some("The baseline's median is zero, so the change has no percentage.".into())
    } else if !data.is_never_negative() && outcome.change.is_none() {
        Some("Some values are below zero and have no logarithm, so no change can be given.".into())
    } else if policy.method == StatisticalMethod::Welch
        && !varies(&data.baseline)
        && !varies(&data.candidate)
    {
        Some("Neither side's values vary, so Welch's test is undefined.".into())
    } else if !outcome.is_same && outcome.change.is_none() {
        Some(
            "The baseline's mean is indistinguishable from zero, so no change can be given.".into(),
        )
    } else {
        None
    }
}

fn note_dependence(policy: &JudgingPolicy, one_after_the_other: bool) -> Option<String> {
    let text = match policy.matching {
        // The test of randomized blocks stays valid even if runs depend on each other.
        RunMatching::Blocks { .. } | RunMatching::Pairs if !policy.indicative => return None,
        _ if one_after_the_other => {
            "Runs depend on each other and the sides were measured one after the other, so the p \
             value is not valid."
        }
        _ => "Runs depend on each other, so the p value is not reliable.",
    };
    Some(text.into())
}

/// A row, with the policy and the metric's direction that its verdict depends on.
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
