//! Within which time which percentage of the requests was served, a variant a column, as ab prints it for one.

use super::answer::label;
use crate::digits::Uncertainty;
use crate::table::{Cell, Column, Kind, Row, Table, number};
use crate::unit::Scale;
use speedwell_analysis::experiment::{Curve, GroupFound, PERCENTS};
use speedwell_model::Case;
use speedwell_suite::experiment::{Experiment, control};
use std::sync::Arc;

/// A table for each case.
pub fn tables(group: &GroupFound, experiment: &Experiment) -> Vec<Table> {
    let cases = curves_by_case(group, experiment);
    let tables = cases
        .iter()
        .map(|(case, curves)| table(&case.id(), curves, experiment));
    tables.collect()
}

/// The curves of each case, in order of first appearance, their variants in the order of the file.
pub fn curves_by_case<'a>(
    group: &'a GroupFound,
    experiment: &Experiment,
) -> Vec<(Arc<Case>, Vec<&'a Curve>)> {
    let mut cases: Vec<(Arc<Case>, Vec<&Curve>)> = Vec::new();
    for curve in &group.curves {
        match cases.iter_mut().find(|(case, _)| *case == curve.case) {
            Some((_, curves)) => curves.push(curve),
            None => cases.push((Arc::clone(&curve.case), vec![curve])),
        }
    }
    for (_, curves) in &mut cases {
        curves.sort_by_key(|curve| place_of(experiment, &curve.variant));
    }
    cases
}

/// Where a variant stands in the file; the control stands behind its origin.
fn place_of(experiment: &Experiment, name: &str) -> (usize, bool) {
    let origin = control::origin(name);
    let at = experiment
        .variants
        .iter()
        .position(|variant| variant.name == origin);
    (at.unwrap_or(usize::MAX), control::is_again(name))
}

fn table(case: &str, curves: &[&Curve], experiment: &Experiment) -> Table {
    let all: Vec<f64> = curves
        .iter()
        .flat_map(|curve| PERCENTS.iter().filter_map(|percent| curve.at(*percent)))
        .collect();
    let scale = Scale::fitting("ns", &all, None);
    let mut columns = vec![
        Column::machine("case"),
        Column::new("percent", "%", Kind::Figure),
    ];
    columns.push(Column::machine("values"));
    columns.extend(
        curves
            .iter()
            .map(|curve| Column::new("shown", &*curve.variant, Kind::Figure).for_people()),
    );
    let mut rows: Vec<Row> = PERCENTS
        .iter()
        .map(|percent| {
            let time = |curve: &&Curve| {
                let ns = curve.at(*percent);
                Cell::text(ns.map_or("?".to_owned(), |ns| {
                    scale.bare(ns, scale.place(ns, Uncertainty::Unknown))
                }))
            };
            let values = curves.iter().filter_map(|curve| {
                Some((curve.variant.to_string(), number(curve.at(*percent)?)?))
            });
            let values: serde_json::Map<String, serde_json::Value> = values.collect();
            let mut cells = vec![
                Cell::value(case),
                Cell::figure(Some(f64::from(*percent))).shown(percent.to_string()),
            ];
            cells.push(Cell::value(values));
            cells.extend(curves.iter().map(time));
            Row::Cells(cells)
        })
        .collect();
    rows.push(Row::Remark(under_way(curves)));
    let labels: Vec<String> = curves
        .iter()
        .map(|curve| label(experiment, &curve.variant))
        .collect();
    let labels = labels.join(", ");
    Table {
        caption: vec![
            case.to_owned(),
            format!(
                "percentage of the requests served within, in {}, medians of the runs: {labels}",
                scale.symbol
            ),
        ],
        columns,
        rows,
        ..Table::new("percentiles")
    }
}

/// The figure that belongs beside every latency: times under different loads are no comparison.
fn under_way(curves: &[&Curve]) -> String {
    let each = curves.iter().filter_map(|curve| {
        Some(format!(
            "{} {:.1}",
            curve.variant, curve.effective_concurrency?
        ))
    });
    let each: Vec<String> = each.collect();
    let asked = curves.iter().find_map(|curve| curve.asked_concurrency);
    let asked = asked
        .map(|asked| format!(" of {asked}"))
        .unwrap_or_default();
    format!("requests in flight on average{asked}: {}", each.join(", "))
}
