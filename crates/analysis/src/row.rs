//! One case of a comparison: from the runs of two sides to figures and remarks.
//!
//! The verdict, which depends on the other cases, is for [`super::correction`] to say. It must not know how runs were
//! gathered. Start at [`describe`].

use super::dependence::{is_one_after_the_other, noise_depends_on_its_past};
use super::evidence;
use super::pair::Pair;
use super::planning::Precision;
use super::remarks;
use super::replay::Outcome;
use super::rule::Rule;
use super::{CaseComparison, Side};
use speedwell_model::{Case, Estimate, RunValue, Verdict};
use speedwell_stats::describe::{coefficient_of_variation, mean, median};
use speedwell_stats::effect::cliffs_delta;
use std::sync::Arc;

/// A case that two sides have in common.
pub(super) struct Task {
    /// The case.
    pub case: Arc<Case>,
    /// Its id.
    pub id: String,
    /// Its runs.
    pub pair: Pair,
    /// Whether the sides come from different sessions.
    pub apart: bool,
}

/// A described case, with what its verdict needs.
pub(super) struct Row {
    /// The findings of the case.
    pub comparison: CaseComparison,
    /// What the tests say.
    pub outcome: Outcome,
    /// Standard error of the logarithm of the ratio, with the runs it rests on.
    pub precision: Option<Precision>,
    /// Whether the sides were measured one after the other.
    pub one_after_the_other: bool,
}

/// Describes one case, of which `outcome` is known, without a verdict yet.
pub(super) fn describe(task: Task, outcome: Outcome, rule: &Rule) -> Row {
    let seed = rule.seed_for(&task.id);
    let precision = outcome.error.map(|error| Precision {
        runs: outcome.data.runs(),
        error,
    });
    let mean_change = evidence::mean_change(&outcome.data, rule.confidence(), seed);
    // Inside randomised blocks chance alone may put one side first; the test allows for it.
    let unordered = rule.indicative && is_one_after_the_other(&task.pair);
    let one_after_the_other = task.apart || unordered;
    let order = remarks::Order {
        dependent: noise_depends_on_its_past(&task.pair, task.apart),
        one_after_the_other,
    };
    let notes = remarks::of_row(&task.pair, &outcome, rule, &order);
    let comparison = CaseComparison {
        case: task.case,
        change: outcome.change,
        mean_change,
        shape_changed: has_shape_changed(outcome.change, mean_change),
        p: outcome.p,
        q: None,
        verdict: Verdict::Unclear,
        indicative: rule.indicative,
        decided_at: outcome.decided_at,
        detectable: None,
        more_runs: None,
        cliffs_delta: finite(cliffs_delta(
            &outcome.data.baseline,
            &outcome.data.candidate,
        )),
        notes,
        baseline: side(task.pair.baseline),
        candidate: side(task.pair.candidate),
    };
    Row {
        comparison,
        outcome,
        precision,
        one_after_the_other,
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

fn side(runs: Vec<RunValue>) -> Side {
    let values: Vec<f64> = runs.iter().map(|run| run.value).collect();
    let median = median(&values);
    Side {
        location: median,
        median,
        mean: mean(&values),
        variation: finite(coefficient_of_variation(&values)),
        runs,
    }
}

/// The statistics crate says NaN where a figure is undefined.
pub fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}
