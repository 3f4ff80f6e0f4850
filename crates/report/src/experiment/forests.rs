//! Changes of an experiment against the noise of its control.

use super::answer::is_control;
use crate::charts::{band, forest_row, labels};
use crate::document::Chart;
use speedwell_analysis::Comparison;
use speedwell_analysis::experiment::{GroupFound, MetricFound};
use speedwell_plot as plot;
use std::sync::Arc;

/// One forest a metric: every case of every pair, with the change of the control against itself as the band.
pub fn forests(group: &GroupFound) -> Vec<Chart> {
    group
        .metrics
        .iter()
        .filter_map(|metric| forest(group, metric))
        .collect()
}

/// The forest of what the group is about.
pub fn leading(group: &GroupFound) -> Option<Chart> {
    forest(group, group.metrics.first()?)
}

/// The rows of one pair of variants, with what sets each case apart from the others.
fn pair(comparison: &Comparison) -> Vec<plot::ForestRow> {
    let pair = format!("{} against {}", comparison.candidate, comparison.baseline);
    let cases = comparison.rows.iter().map(|row| Arc::clone(&row.case));
    let (_, names) = labels(&cases.collect::<Vec<_>>());
    let rows = names.into_iter().filter_map(|(index, name)| {
        let label = match comparison.rows.len() {
            1 => pair.clone(),
            _ => format!("{name}, {pair}"),
        };
        forest_row(&comparison.rows[index], label)
    });
    rows.collect()
}

fn forest(group: &GroupFound, metric: &MetricFound) -> Option<Chart> {
    let own = metric
        .findings
        .comparisons
        .iter()
        .filter(|comparison| !is_control(comparison));
    let rows: Vec<plot::ForestRow> = own.flat_map(pair).collect();
    let first = metric.findings.comparisons.first()?;
    let floor = metric
        .floor
        .map(|floor| (floor.low * 100.0, floor.high * 100.0));
    let floor = floor.filter(|(low, high)| low.is_finite() && high.is_finite());
    let subtitle = match floor {
        Some(_) => "shaded: the change of the control against itself",
        None => "shaded: changes that count as none",
    };
    let title = format!("{}, {}: changes", group.name, metric.metric.name);
    (!rows.is_empty()).then(|| Chart {
        picture: plot::Chart::Forest(plot::ForestChart {
            title: title.clone(),
            subtitle: Some(subtitle.to_owned()),
            x_label: format!(
                "change in % ({})",
                crate::metric_words::direction(metric.metric.better)
            ),
            percent: true,
            reference: 0.0,
            band: floor.or_else(|| band(first)),
            rows,
        }),
        title,
        shown_elsewhere: false,
    })
}
