//! The grid of variants that differ in two respects: what each respect does, at one glance.

use crate::analysis::experiment::{GroupFound, MetricFound};
use crate::definition::experiment::Experiment;
use crate::report::digits::Uncertainty;
use crate::report::table::{Cell, Column, Kind, Row, Table, number};
use crate::report::unit::Scale;

/// A grid for each case, of the headline metric; none unless all variants say two respects.
pub fn tables(group: &GroupFound, experiment: &Experiment) -> Vec<Table> {
    let Some((across, down)) = respects(experiment) else {
        return Vec::new();
    };
    let Some(metric) = group.metrics.first() else {
        return Vec::new();
    };
    let mut cases: Vec<String> = Vec::new();
    for summary in &metric.findings.summaries {
        let id = summary.case.id();
        if !cases.contains(&id) {
            cases.push(id);
        }
    }
    cases
        .iter()
        .map(|case| grid(case, metric, experiment, &across, &down))
        .collect()
}

/// The names of the two respects.
fn respects(experiment: &Experiment) -> Option<(String, String)> {
    let names = |factors: &[(String, String)]| -> Vec<String> {
        factors.iter().map(|(name, _)| name.clone()).collect()
    };
    let first = names(&experiment.variants.first()?.factors);
    let [across, down] = &first[..] else {
        return None;
    };
    let all = experiment
        .variants
        .iter()
        .all(|variant| names(&variant.factors) == first);
    all.then(|| (across.clone(), down.clone()))
}

fn values(experiment: &Experiment, respect: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (name, value) in experiment
        .variants
        .iter()
        .flat_map(|variant| &variant.factors)
    {
        if name == respect && !found.contains(value) {
            found.push(value.clone());
        }
    }
    found
}

/// The variant that has these values of its respects.
fn variant_of<'a>(experiment: &'a Experiment, wanted: &[(&str, &str)]) -> Option<&'a str> {
    let has = |factors: &[(String, String)]| {
        let is_in = |(name, value): &(&str, &str)| {
            factors
                .iter()
                .any(|(known, own)| known == name && own == value)
        };
        wanted.iter().all(is_in)
    };
    let found = experiment
        .variants
        .iter()
        .find(|variant| has(&variant.factors));
    found.map(|variant| variant.name.as_str())
}

fn grid(
    case: &str,
    metric: &MetricFound,
    experiment: &Experiment,
    across: &str,
    down: &str,
) -> Table {
    let of_case = metric
        .findings
        .summaries
        .iter()
        .filter(|summary| summary.case.id() == case);
    let of_case: Vec<_> = of_case.collect();
    let all: Vec<f64> = of_case.iter().map(|summary| summary.center.value).collect();
    let scale = Scale::fitting(&metric.metric.unit, &all, None);
    let columns = values(experiment, across);
    let cell = |row: &str, column: &str| {
        let variant = variant_of(experiment, &[(across, column), (down, row)])?;
        let summary = of_case
            .iter()
            .find(|summary| *summary.variant == *variant)?;
        Some((variant.to_owned(), summary.center.value))
    };
    let rows = values(experiment, down).into_iter().map(|row| {
        let found: Vec<Option<(String, f64)>> =
            columns.iter().map(|column| cell(&row, column)).collect();
        let data = found
            .iter()
            .flatten()
            .filter_map(|(name, value)| Some((name.clone(), number(*value)?)));
        let data: serde_json::Map<String, serde_json::Value> = data.collect();
        let mut cells = vec![Cell::words(&row), Cell::value(data)];
        cells.extend(found.iter().map(|found| match found {
            Some((name, value)) => {
                let figure = scale.bare(*value, scale.place(*value, Uncertainty::Unknown));
                Cell::text(format!("{figure} ({name})"))
            }
            None => Cell::text(""),
        }));
        Row::Cells(cells)
    });
    let rows = rows.collect();
    let mut heads = vec![
        Column::new("factor", down, Kind::Label),
        Column::machine("values"),
    ];
    heads.extend(columns.iter().map(|column| {
        Column::new("shown", format!("{across}: {column}"), Kind::Figure).for_people()
    }));
    Table {
        caption: vec![
            case.to_owned(),
            format!("{} in {}, medians", metric.metric.name, scale.symbol),
        ],
        columns: heads,
        rows,
        ..Table::new("factors")
    }
}
