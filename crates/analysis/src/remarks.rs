//! Whole sentences that a reader of one figure should know.
//!
//! Decides what is worth a remark and words it; it takes no part in the verdict.

use super::dependence::is_marked;
use super::pair::{Matching, Pair};
use super::replay::{End, Outcome};
use super::rule::Rule;
use super::{CaseSummary, Method};
use speedwell_model::Order as ExecutionOrder;
use speedwell_stats::test::stratified::MINIMUM_PER_SIDE;

/// How the runs of a pair follow each other.
pub(super) struct Order {
    /// Whether the noise depends on its past.
    pub dependent: bool,
    /// Whether all runs of one side came before those of the other.
    pub one_after_the_other: bool,
}

/// Remarks on one case of a comparison.
pub(super) fn of_row(pair: &Pair, outcome: &Outcome, rule: &Rule, order: &Order) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(on_the_number_of_runs(pair, outcome, rule));
    if pair.incomplete > 0 {
        let blocks = count(pair.incomplete, "block lacks", "blocks lack");
        notes.push(format!("{blocks} a run and cannot be compared."));
    }
    notes.extend(on_the_values(outcome, rule));
    notes.extend(on_dependence(rule, order));
    notes
}

fn on_the_number_of_runs(pair: &Pair, outcome: &Outcome, rule: &Rule) -> Option<String> {
    let runs = outcome.data.runs();
    if outcome.is_contradictory {
        return Some(format!(
            "The intervals of the looks have nothing in common, so something changed while measuring; the figures are \
             those of the look at {runs} runs a side, where the change shows most clearly."
        ));
    }
    match outcome.end {
        End::TooFew if runs < MINIMUM_PER_SIDE => Some(format!(
            "Too few runs: {runs} a side, and below {MINIMUM_PER_SIDE} nothing is claimed."
        )),
        End::TooFew => Some(format!(
            "Measuring ended before the first look; there are {runs} runs a side."
        )),
        End::Early => {
            let next = rule
                .looks
                .as_ref()
                .and_then(|looks| looks.design.next_after(runs));
            let planned = next.map_or(String::new(), |look| format!(" at {} runs a side", look.n));
            Some(format!(
                "Measuring ended before the look{planned}; the figures are those of the look at {runs}."
            ))
        }
        End::Final if pair.runs() > runs && rule.looks.is_some() => Some(format!(
            "Decided at {runs} runs a side; the later ones take no part in the verdict."
        )),
        End::Final => None,
    }
}

fn on_the_values(outcome: &Outcome, rule: &Rule) -> Option<String> {
    let data = &outcome.data;
    if data.runs() == 0 {
        return None;
    }
    let varies = |values: &[f64]| values.iter().any(|&value| value != values[0]);
    if data.constant().is_some() {
        Some("All values of both sides are identical.".into())
    } else if !data.is_positive() && outcome.change.is_none() {
        Some("Values of zero or below have no logarithm, so no change can be given.".into())
    } else if rule.method == Method::Welch && !varies(&data.baseline) && !varies(&data.candidate) {
        Some("Neither side's values vary, so Welch's test is undefined.".into())
    } else if !outcome.is_same && outcome.change.is_none() {
        Some(
            "The baseline's mean is indistinguishable from zero, so no change can be given.".into(),
        )
    } else {
        None
    }
}

fn on_dependence(rule: &Rule, order: &Order) -> Option<String> {
    let text = match (order.dependent, rule.matching) {
        (false, _) => return None,
        // Randomised blocks protect the test: nothing is wrong.
        (true, Matching::Blocks { .. }) if !rule.indicative => return None,
        (true, _) if order.one_after_the_other => {
            "Runs depend on each other and the sides were measured one after the other, so the p \
             value is not valid."
        }
        (true, _) => "Runs depend on each other, so the p value is not reliable.",
    };
    Some(text.into())
}

/// Remarks on one series, to be called when its figures are known.
pub(super) fn of_summary(summary: &CaseSummary, lost: usize, order: ExecutionOrder) -> Vec<String> {
    let mut notes = Vec::new();
    let runs = summary.runs.len();
    if lost > 0 {
        notes.push(format!(
            "{} gave no finite value.",
            count(lost, "run", "runs")
        ));
    }
    if runs > 1
        && summary
            .runs
            .iter()
            .all(|run| run.value == summary.runs[0].value)
    {
        notes.push(format!("All {runs} values are identical."));
        return notes;
    }
    if !summary.outliers.is_empty() {
        let far = count(summary.outliers.len(), "value lies", "values lie");
        notes.push(format!("{far} far from the median; nothing was dropped."));
    }
    match summary.autocorrelation {
        Some(known) if is_marked(known, runs) => {
            let effect = match order {
                ExecutionOrder::Blocks => "comparisons are protected by the randomised blocks",
                _ => "the interval may be too narrow",
            };
            notes.push(format!(
                "Runs depend on each other (lag-1 correlation {known:.2}); {effect}."
            ));
        }
        _ => {}
    }
    notes
}

/// A number with the word for one or for many.
pub(super) fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
