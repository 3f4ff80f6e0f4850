//! The overview of an experiment: the grid of variants that differ in two factors, cells without a
//! figure, and the changes of a group as forest charts.

use crate::case_labels::distinct;
use crate::charts::{Compared, band, forest_row, labels};
use crate::document::Chart;
use crate::experiment::headline::is_control;
use crate::figure::{Uncertainty, count, in_unit};
use crate::table::{Cell, Column, Emphasis, Kind, Row, Table, number};
use crate::unit::Scale;
use speedwell_analysis::Comparison;
use speedwell_analysis::experiment::{Found, GroupFound, MetricFound};
use speedwell_model::{Estimate, Failure, Metric};
use speedwell_plot as plot;
use speedwell_suite::experiment::Experiment;
use std::sync::Arc;

/// The results of every combination of two factors in a case, by the headline metric.
struct Grid<'a> {
    case: String,
    metric: &'a Metric,
    scale: Scale,
    across: String,
    down: String,
    columns: Vec<String>,
    rows: Vec<(String, Vec<Option<Place<'a>>>)>,
}

/// One variant in the grid.
struct Place<'a> {
    variant: &'a str,
    center: Estimate,
}

/// A table per case; empty unless all variants declare two factors.
pub fn tables(group: &GroupFound, experiment: &Experiment) -> Vec<Table> {
    grids(group, experiment).iter().map(table).collect()
}

/// A chart per case: grouped bars, which show whether the two factors interact.
pub fn charts(group: &GroupFound, experiment: &Experiment) -> Vec<Chart> {
    grids(group, experiment).iter().map(chart).collect()
}

fn grids<'a>(group: &'a GroupFound, experiment: &'a Experiment) -> Vec<Grid<'a>> {
    let Some((across, down)) = respects(experiment) else {
        return Vec::new();
    };
    let Some(metric) = group.metrics.first() else {
        return Vec::new();
    };
    let summaries = metric.findings.summaries.iter();
    distinct(summaries.map(|summary| summary.case.id()))
        .into_iter()
        .map(|case| grid(case, metric, experiment, &across, &down))
        .collect()
}

/// The names of the two factors.
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
    let factors = experiment
        .variants
        .iter()
        .flat_map(|variant| &variant.factors);
    let of_respect = factors.filter(|(name, _)| name == respect);
    distinct(of_respect.map(|(_, value)| value.clone()))
}

/// The variant with these values of its factors.
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

fn grid<'a>(
    case: String,
    metric: &'a MetricFound,
    experiment: &'a Experiment,
    across: &str,
    down: &str,
) -> Grid<'a> {
    let summaries = &metric.findings.summaries;
    let of_case: Vec<_> = summaries
        .iter()
        .filter(|summary| summary.case.id() == case)
        .collect();
    let all: Vec<f64> = of_case.iter().map(|summary| summary.center.value).collect();
    let columns = values(experiment, across);
    let compared = Compared::new(&metric.findings.comparisons);
    let place = |row: &str, column: &str| {
        let variant = variant_of(experiment, &[(across, column), (down, row)])?;
        let mut own = of_case.iter();
        let summary = own.find(|summary| *summary.variant == *variant)?;
        Some(Place {
            variant,
            center: compared.side(summary).unwrap_or(summary.center),
        })
    };
    let row = |name: String| {
        let places = columns.iter().map(|column| place(&name, column)).collect();
        (name, places)
    };
    Grid {
        rows: values(experiment, down).into_iter().map(row).collect(),
        scale: Scale::fitting(&metric.metric.unit, &all, None),
        metric: &metric.metric,
        across: across.to_owned(),
        down: down.to_owned(),
        columns,
        case,
    }
}

fn table(grid: &Grid<'_>) -> Table {
    let scale = &grid.scale;
    let rows = grid.rows.iter().map(|(name, places)| {
        let known = places.iter().flatten();
        let data =
            known.filter_map(|place| Some((place.variant.to_owned(), number(place.center.value)?)));
        let data: serde_json::Map<String, serde_json::Value> = data.collect();
        let mut cells = vec![Cell::words(name), Cell::value(data)];
        cells.extend(places.iter().map(|place| match place {
            Some(Place { variant, center }) => {
                let digits = scale.place(center.value, Uncertainty::Unknown);
                Cell::text(format!("{} ({variant})", scale.bare(center.value, digits)))
            }
            None => Cell::text(""),
        }));
        Row::Cells(cells)
    });
    let rows = rows.collect();
    let mut heads = vec![
        Column::new("factor", &grid.down, Kind::Label),
        Column::machine("values"),
    ];
    heads.extend(grid.columns.iter().map(|column| {
        Column::new("shown", format!("{}: {column}", grid.across), Kind::Figure).for_people()
    }));
    Table {
        caption: vec![grid.case.clone(), in_unit(&grid.metric.name, &scale.symbol)],
        columns: heads,
        rows,
        ..Table::new("factors")
    }
}

fn chart(grid: &Grid<'_>) -> Chart {
    let bar = |(column, place): (&String, &Option<Place<'_>>)| {
        let center = place.as_ref()?.center;
        Some(plot::Bar {
            name: format!("{}: {column}", grid.across),
            value: grid.scale.shown(center.value),
            low: Some(grid.scale.shown(center.low)),
            high: Some(grid.scale.shown(center.high)),
        })
    };
    let category = |(name, places): &(String, Vec<Option<Place<'_>>>)| plot::BarCategory {
        label: format!("{}: {name}", grid.down),
        bars: grid.columns.iter().zip(places).filter_map(bar).collect(),
    };
    let title = format!("{} by {} and {}", grid.metric.name, grid.down, grid.across);
    Chart::new(
        title.clone(),
        plot::Chart::Bar(plot::BarChart {
            title: title.clone(),
            subtitle: Some(format!("{}; with the intervals of the changes", grid.case)),
            value_axis: plot::Axis::linear(format!(
                "{} in {}",
                grid.metric.name, grid.scale.symbol
            )),
            categories: grid.rows.iter().map(category).collect(),
        }),
    )
}

/// A row for every case and variant that failed, with the reason; `None` if nothing failed.
pub fn cells_table(found: &Found) -> Option<Table> {
    let mut cells: Vec<(&Failure, usize)> = Vec::new();
    for failure in found
        .failures
        .iter()
        .filter(|failure| !failure.cause.is_skip())
    {
        let is_same = |(known, _): &&mut (&Failure, usize)| {
            known.case == failure.case
                && known.variant == failure.variant
                && known.cause == failure.cause
        };
        match cells.iter_mut().find(is_same) {
            Some((_, times)) => *times += 1,
            None => cells.push((failure, 1)),
        }
    }
    (!cells.is_empty()).then(|| Table {
        caption: vec!["cells without a figure".to_owned()],
        columns: vec![
            Column::new("case", "case", Kind::Label),
            Column::new("variant", "variant", Kind::Words),
            Column::new("runs", "failed", Kind::Figure),
            Column::new("cause", "why", Kind::Words),
        ],
        rows: cells
            .iter()
            .flat_map(|(failure, times)| rows(failure, *times))
            .collect(),
        ..Table::new("cells")
    })
}

fn rows(failure: &Failure, times: usize) -> Vec<Row> {
    let words = |text: &Option<String>| Cell::words(text.as_deref().unwrap_or("all"));
    let cells = vec![
        words(&failure.case),
        words(&failure.variant),
        Cell {
            value: number(times as f64).map(Into::into),
            ..Cell::text(count(times, "run", "runs"))
        },
        Cell::words(failure.cause.to_string()).emphasised(Emphasis::Bad),
    ];
    let last = failure
        .stderr_tail
        .lines()
        .last()
        .filter(|line| !line.trim().is_empty());
    let remark = last.map(|line| Row::Remark(format!("last words: {}", line.trim())));
    [Row::Cells(cells)].into_iter().chain(remark).collect()
}

/// A forest chart per metric: every case of every pair; the band is the control against itself.
pub fn forests(group: &GroupFound) -> Vec<Chart> {
    group
        .metrics
        .iter()
        .filter_map(|metric| forest(group, metric))
        .collect()
}

/// The forest chart of the group's main metric.
pub fn leading(group: &GroupFound) -> Option<Chart> {
    forest(group, group.metrics.first()?)
}

/// The rows of one pair of variants, labelled by what distinguishes the cases.
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
    (!rows.is_empty()).then(|| {
        Chart::new(
            title.clone(),
            plot::Chart::Forest(plot::ForestChart {
                title: title.clone(),
                subtitle: Some(subtitle.to_owned()),
                x_label: format!(
                    "change in % ({})",
                    crate::figure::direction(metric.metric.better)
                ),
                percent: true,
                reference: 0.0,
                band: floor.or_else(|| band(first)),
                rows,
            }),
        )
    })
}
