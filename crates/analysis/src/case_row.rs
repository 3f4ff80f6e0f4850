//! Describes one case of a comparison: its figures, and notes for the reader.
//!
//! Decides which notes a row needs; `correction.rs` adds the verdict. Start at [`describe`].

use crate::disturbed::Exposure;
use crate::exact::Counts;
use crate::paired::{
    Data, Matching, PairedRuns, is_one_after_the_other, noise_depends_on_its_past,
};
use crate::policy::Policy;
use crate::power::Precision;
use crate::sequential::{End, Outcome};
use crate::summary::finite;
use crate::warnings::counted;
use crate::withheld::Withheld;
use crate::{CaseComparison, Method, Side, evidence};
use speedwell_model::{Case, Estimate, RunValue, Verdict};
use speedwell_stats::describe::{coefficient_of_variation, mean, median};
use speedwell_stats::effect::cliffs_delta;
use std::sync::Arc;

/// A case that two sides have in common.
pub(super) struct MatchedCase {
    pub case: Arc<Case>,
    pub id: String,
    /// All runs of baseline and candidate, if they differ from the compared values.
    pub sides: Option<[Vec<RunValue>; 2]>,
    /// Compared values.
    pub pair: PairedRuns,
    /// Pairs in which each side had the processor to itself.
    pub alone: Vec<(f64, f64)>,
    /// Whether the sides come from different sessions.
    pub apart: bool,
    /// Why the case has no answer, if so.
    pub withheld: Option<Withheld>,
    /// How often baseline and candidate were disturbed.
    pub exposures: [Exposure; 2],
}

/// A described case, with what its verdict needs.
pub(super) struct CaseRow {
    /// Findings of the case.
    pub comparison: CaseComparison,
    /// Results of the tests, without their data, because there may be thousands of cases.
    pub outcome: Outcome,
    /// Runs per side that the tests used.
    pub runs: usize,
    /// Smallest p value that a single look at this many runs can give.
    pub smallest_p: f64,
    /// Standard error of the log ratio, with the number of runs behind it.
    pub precision: Option<Precision>,
    /// Whether the sides were measured one after the other.
    pub one_after_the_other: bool,
    /// Whether the sides affected each other, so that their ratio is biased.
    pub disturb_each_other: bool,
    /// Result for count metrics.
    pub counts: Counts,
}

/// Describes one case with known `outcome`, still without a verdict; `names` are those of baseline
/// and candidate.
pub(super) fn describe(
    case: MatchedCase,
    mut outcome: Outcome,
    policy: &Policy,
    names: [&str; 2],
) -> CaseRow {
    let seed = policy.seed_for(&case.id);
    let counts = counts_of(&case.pair, policy);
    if counts.is_exact() {
        (outcome.change, outcome.p, outcome.error) = (counts.change(), None, None);
    }
    let runs = outcome.data.runs();
    let precision = outcome.error.map(|error| Precision { runs, error });
    let mean_change = evidence::mean_change(&outcome.data, policy.confidence(), seed);
    // In randomized blocks one side comes first only by chance, which the test accounts for.
    let one_after_the_other =
        case.apart || (policy.indicative && is_one_after_the_other(&case.pair));
    let mut notes = remarks(&case.pair, &outcome, policy, counts);
    if noise_depends_on_its_past(&case.pair, case.apart) {
        notes.extend(on_dependence(policy, one_after_the_other));
    }
    let [old, new] = &case.exposures;
    notes.extend(old.remark(new, names).filter(|_| !case.apart));
    let disturb_each_other = policy.matching == Matching::Pairs
        && evidence::sharing_matters(&outcome.data.pairs(), &case.alone);
    notes.extend(disturb_each_other.then(|| DISTURB_EACH_OTHER.to_owned()));
    let [baseline, candidate] = (case.sides).unwrap_or([case.pair.baseline, case.pair.candidate]);
    let (baseline, candidate) = (side(baseline, old), side(candidate, new));
    let comparison = CaseComparison {
        case: case.case,
        change: outcome.change,
        mean_change,
        shape_changed: has_shape_changed(outcome.change, mean_change),
        p: outcome.p,
        q: None,
        verdict: Verdict::Unclear,
        withheld: case.withheld,
        no_verdict: None,
        differs: false,
        is_exact: counts.is_exact(),
        indicative: policy.indicative,
        decided_at: (outcome.decided_at).map(|units| units * policy.unit.runs() as u32),
        detectable: None,
        more_runs: None,
        cliffs_delta: finite(cliffs_delta(
            &outcome.data.baseline,
            &outcome.data.candidate,
        )),
        machines: None,
        notes,
        baseline,
        candidate,
    };
    let sizes = [&outcome.data.baseline, &outcome.data.candidate].map(Vec::len);
    CaseRow {
        comparison,
        smallest_p: policy.smallest_p().of(sizes),
        runs,
        // There may be thousands of cases.
        outcome: Outcome {
            data: Data::default(),
            ..outcome
        },
        precision,
        one_after_the_other,
        disturb_each_other,
        counts,
    }
}

const DISTURB_EACH_OTHER: &str = "Paired and single runs disagree: the sides disturb each other's caches. --order blocks measures them apart.";

/// Compares the values as counts if the metric is a count.
fn counts_of(pair: &PairedRuns, policy: &Policy) -> Counts {
    if policy.counts {
        Counts::from_runs(&pair.baseline, &pair.candidate)
    } else {
        Counts::TooFew
    }
}

/// Intervals of noiseless values have no width; below this, differences are rounding of logarithms.
const ROUNDING: f64 = 1e-9;

/// Whether the change of the mean differs from that of the typical run by more than half of either
/// interval, in logarithms (docs/why/statistics.md, "Effect and interval").
fn has_shape_changed(typical: Option<Estimate>, mean: Option<Estimate>) -> bool {
    let log = |share: f64| share.ln_1p();
    let half = |estimate: &Estimate| 0.5 * (log(estimate.high) - log(estimate.low));
    match (typical, mean) {
        (Some(typical), Some(mean)) => {
            let apart = (log(mean.value) - log(typical.value)).abs();
            apart > half(&typical).max(half(&mean)).max(ROUNDING)
        }
        _ => false,
    }
}

fn side(runs: Vec<RunValue>, exposure: &Exposure) -> Side {
    let values: Vec<f64> = runs.iter().map(|run| run.value).collect();
    let median = median(&values);
    Side {
        location: median,
        median,
        mean: mean(&values),
        variation: finite(coefficient_of_variation(&values)),
        exposure: exposure.clone(),
        runs: runs.into(),
    }
}

/// Notes on one case of a comparison.
fn remarks(pair: &PairedRuns, outcome: &Outcome, policy: &Policy, counts: Counts) -> Vec<String> {
    let mut notes = Vec::new();
    if !counts.is_exact() {
        notes.extend(on_the_number_of_runs(pair, outcome, policy));
        if pair.incomplete > 0 {
            let blocks = counted(pair.incomplete, "block lacks", "blocks lack");
            notes.push(format!("{blocks} a run and cannot be compared."));
        }
        notes.extend(on_the_values(outcome, policy));
    }
    notes.extend(counts.remark(pair.baseline.len().min(pair.candidate.len())));
    notes
}

fn on_the_number_of_runs(pair: &PairedRuns, outcome: &Outcome, policy: &Policy) -> Option<String> {
    let runs = outcome.data.runs();
    let counted = |number: usize| policy.unit.counted(number);
    let shown = counted(runs);
    if outcome.is_contradictory {
        return Some(format!(
            "The intervals of the looks have nothing in common, so something changed while measuring; the figures are \
             those of the look at {shown} a side, where the change shows most clearly."
        ));
    }
    match outcome.end {
        End::TooFew if policy.looks.is_none() => None,
        End::TooFew => Some(format!(
            "Measuring ended before the first look; there are {shown} a side."
        )),
        End::Early => {
            let next = policy
                .looks
                .as_ref()
                .and_then(|looks| looks.design.next_after(runs));
            let planned = next.map_or(String::new(), |look| {
                format!(" at {} a side", counted(look.n))
            });
            Some(format!(
                "Measuring ended before the look{planned}; the figures are those of the look at {runs}."
            ))
        }
        End::Final if pair.runs() > runs && policy.looks.is_some() => Some(format!(
            "Decided at {shown} a side; the later ones take no part in the verdict."
        )),
        End::Final => None,
    }
}

fn on_the_values(outcome: &Outcome, policy: &Policy) -> Option<String> {
    let data = &outcome.data;
    if data.runs() == 0 {
        return None;
    }
    let varies = |values: &[f64]| values.iter().any(|&value| value != values[0]);
    if data.constant().is_some() {
        Some("All values of both sides are identical.".into())
    } else if outcome.change.is_none() && data.is_from_zero() {
        Some("A change from zero has no percentage.".into())
    } else if !data.is_never_negative() && outcome.change.is_none() {
        Some("Values below zero have no logarithm, so no change can be given.".into())
    } else if policy.method == Method::Welch && !varies(&data.baseline) && !varies(&data.candidate)
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

fn on_dependence(policy: &Policy, one_after_the_other: bool) -> Option<String> {
    let text = match policy.matching {
        // The test of randomized blocks stays valid.
        Matching::Blocks { .. } | Matching::Pairs if !policy.indicative => return None,
        _ if one_after_the_other => {
            "Runs depend on each other and the sides were measured one after the other, so the p \
             value is not valid."
        }
        _ => "Runs depend on each other, so the p value is not reliable.",
    };
    Some(text.into())
}
