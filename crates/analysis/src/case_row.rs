//! One case of a comparison, described: its figures, and what a reader of them should know.
//!
//! Decides which remarks a row needs; the verdict comes from `correction.rs`. Start at [`describe`].

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
    /// The case.
    pub case: Arc<Case>,
    /// Its id.
    pub id: String,
    /// All runs of the baseline and of the candidate, where they are not what is compared.
    pub sides: Option<[Vec<RunValue>; 2]>,
    /// What is compared.
    pub pair: PairedRuns,
    /// Pairs of which each side had the processor for itself.
    pub alone: Vec<(f64, f64)>,
    /// Whether the sides come from different sessions.
    pub apart: bool,
    /// Why it has no answer, if so.
    pub withheld: Option<Withheld>,
    /// How often the baseline and the candidate were disturbed.
    pub exposures: [Exposure; 2],
}

/// A described case, with what its verdict needs.
pub(super) struct CaseRow {
    /// The findings of the case.
    pub comparison: CaseComparison,
    /// What the tests say, without the data they looked at: there may be thousands of cases.
    pub outcome: Outcome,
    /// Runs a side that they looked at.
    pub runs: usize,
    /// The smallest p value that so many runs can give in a test that looks once.
    pub smallest_p: f64,
    /// Standard error of the logarithm of the ratio, with the runs it rests on.
    pub precision: Option<Precision>,
    /// Whether the sides were measured one after the other.
    pub one_after_the_other: bool,
    /// Whether the sides changed each other's figures, so that their ratio is not that of either alone.
    pub disturb_each_other: bool,
    /// What counts say, where the figures are counts.
    pub counts: Counts,
}

/// Describes one case, of which `outcome` is known, without a verdict yet; `names` are those of baseline and candidate.
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
    // Inside randomised blocks chance alone may put one side first; the test allows for it.
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

/// What the figures say as counts; nothing where they are none.
fn counts_of(pair: &PairedRuns, policy: &Policy) -> Counts {
    if policy.counts {
        Counts::from_runs(&pair.baseline, &pair.candidate)
    } else {
        Counts::TooFew
    }
}

/// Figures without any noise have intervals without width; what then lies apart is the rounding of logarithms.
const ROUNDING: f64 = 1e-9;

/// Whether the mean moved otherwise than the typical run: by more than half of either interval, on
/// the scale of logarithms (docs/why/statistics.md, "Effect and interval").
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

/// Remarks on one case of a comparison.
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
        // Randomised blocks protect the test: nothing is wrong.
        Matching::Blocks { .. } | Matching::Pairs if !policy.indicative => return None,
        _ if one_after_the_other => {
            "Runs depend on each other and the sides were measured one after the other, so the p \
             value is not valid."
        }
        _ => "Runs depend on each other, so the p value is not reliable.",
    };
    Some(text.into())
}
