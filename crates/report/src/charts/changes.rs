//! Forest charts: the change of every case with its interval, against the band that counts as none.

use super::gather::labels;
use crate::document::Chart;
use crate::metric_words::direction;
use crate::quantity::setting;
use speedwell_analysis::{CaseComparison, Comparison};
use speedwell_model::Verdict;
use speedwell_plot as plot;
use std::sync::Arc;

/// One forest chart per comparison that has a change to show.
pub fn forests(comparisons: &[Comparison]) -> Vec<Chart> {
    let shows = |comparison: &&Comparison| comparison.rows.iter().any(|row| row.change.is_some());
    comparisons.iter().filter(shows).map(forest).collect()
}

fn forest(comparison: &Comparison) -> Chart {
    let cases: Vec<_> = comparison
        .rows
        .iter()
        .map(|row| Arc::clone(&row.case))
        .collect();
    let (shared, names) = labels(&cases);
    let rows = names
        .into_iter()
        .filter_map(|(index, label)| forest_row(&comparison.rows[index], label));
    let metric = &comparison.metric;
    let title = format!(
        "{}: {} against {}",
        metric.name, comparison.candidate, comparison.baseline
    );
    let confidence = setting(comparison.confidence);
    Chart {
        picture: plot::Chart::Forest(plot::ForestChart {
            title: title.clone(),
            subtitle: Some(shared).filter(|shared| !shared.is_empty()),
            x_label: format!(
                "change in % with {confidence} interval ({})",
                direction(metric.better)
            ),
            percent: true,
            reference: 0.0,
            band: band(comparison),
            rows: rows.collect(),
        }),
        title,
        shown_elsewhere: true,
    }
}

/// The changes that count as none, in percent.
pub fn band(comparison: &Comparison) -> Option<(f64, f64)> {
    let delta = comparison.delta * 100.0;
    (delta > 0.0).then_some((-delta, delta))
}

/// One case of a forest chart, in percent; `None` where the change is not known.
pub fn forest_row(row: &CaseComparison, label: String) -> Option<plot::ForestRow> {
    let change = row.change?;
    Some(plot::ForestRow {
        label,
        estimate: change.value * 100.0,
        low: change.low * 100.0,
        high: change.high * 100.0,
        mark: match row.verdict {
            Verdict::Better => plot::Mark::Better,
            Verdict::Worse => plot::Mark::Worse,
            Verdict::Same => plot::Mark::Same,
            Verdict::Unclear => plot::Mark::Unclear,
        },
    })
}
