//! What many cases take from the verdict of one.
//!
//! Decides the adjusted p values over all cases of a comparison, and withdraws verdicts that do not
//! survive them. It must not know how p values came about.

use super::planning::{Precision, distance};
use super::row::Row;
use super::rule::Rule;
use super::{CaseComparison, Correction};
use crate::model::Verdict;
use speedwell_stats::multiple::{benjamini_hochberg, holm};

/// Fills in the adjusted p values of one family of cases, and lets "better" and "worse" stand only
/// where they are below the error rate, too.
pub(super) fn correct(rows: &mut [Row], correction: Correction, rule: &Rule) {
    let p: Vec<f64> = rows
        .iter()
        .map(|row| row.comparison.p.unwrap_or(f64::NAN))
        .collect();
    let adjusted = match correction {
        Correction::BenjaminiHochberg => benjamini_hochberg(&p),
        Correction::Holm => holm(&p),
        Correction::None => return,
    };
    for (row, q) in rows.iter_mut().zip(adjusted) {
        let comparison = &mut row.comparison;
        comparison.q = comparison.p.map(|_| q);
        let is_change = matches!(comparison.verdict, Verdict::Better | Verdict::Worse);
        // The tolerance lets a p value that is exactly the limit of the last look stand.
        if is_change && q > rule.alpha * (1.0 + 1e-4) {
            withdraw(comparison, q, row.precision, rule);
        }
    }
}

fn withdraw(comparison: &mut CaseComparison, q: f64, known: Option<Precision>, rule: &Rule) {
    let Some((change, p)) = comparison.change.zip(comparison.p) else {
        return;
    };
    if change.lies_within(-rule.delta, rule.delta) {
        comparison.verdict = Verdict::Same;
    } else {
        comparison.verdict = Verdict::Unclear;
        // Among so many cases this one is held to the error rate that its place among them leaves.
        let stricter = known.map(|known| Precision {
            alpha: rule.alpha * p / q,
            ..known
        });
        let distance = distance(change.value, rule.threshold, rule.delta);
        comparison.more_runs =
            stricter.and_then(|known| known.more_runs(distance, rule.runs_per_block()));
    }
    comparison
        .notes
        .push("The change would stand alone, but not among so many cases (see q).".into());
}
