//! The largest changes of a long table, so that nobody has to search for them.

use super::line::symbol;
use crate::document::Block;
use crate::quantity::change_with_interval;
use speedwell_analysis::{CaseComparison, Comparison};
use speedwell_model::Verdict;

/// A table up to this long shows its largest changes by itself.
const SHORT_TABLE: usize = 20;
/// Cases named on each side.
const NAMED: usize = 5;

/// Up to five of the worst and five of the best cases; nothing for a short table.
pub fn highlights(comparison: &Comparison) -> Vec<Block> {
    if comparison.rows.len() <= SHORT_TABLE {
        return Vec::new();
    }
    let mut items = Vec::new();
    for verdict in [Verdict::Worse, Verdict::Better] {
        items.extend(
            largest(comparison, verdict)
                .into_iter()
                .map(|row| item(row, verdict)),
        );
    }
    if items.is_empty() {
        return Vec::new();
    }
    vec![
        Block::Paragraph("Largest changes:".to_owned()),
        Block::List(items),
    ]
}

fn largest(comparison: &Comparison, verdict: Verdict) -> Vec<&CaseComparison> {
    let size = |row: &CaseComparison| row.change.map_or(0.0, |change| change.value.abs());
    let mut rows: Vec<_> = comparison.rows_that_are(verdict).collect();
    rows.sort_by(|a, b| size(b).total_cmp(&size(a)));
    rows.truncate(NAMED);
    rows
}

fn item(row: &CaseComparison, verdict: Verdict) -> String {
    let change = row
        .change
        .as_ref()
        .map(change_with_interval)
        .unwrap_or_default();
    format!("{} {verdict} {change} {}", symbol(verdict), row.case.id())
}
