//! Builds the overview of an experiment: grids of variants that differ in two factors, combinations
//! that failed, and forest charts of the changes of a group.

use crate::case_labels::distinct;
use crate::charts::{ComparedSides, forest_row, label_cases, threshold_band};
use crate::columns::column_set;
use crate::document::ReportChart;
use crate::experiment::headline::is_control;
use crate::figure::{Uncertainty, format_count, name_in_unit};
use crate::table::{ReportCell, ReportColumn, ReportRow, ReportTable, TextEmphasis, json_number};
use crate::unit::FigureScale;
use speedwell_analysis::CandidateComparison;
use speedwell_analysis::experiment::{ExperimentFindings, GroupFindings, MetricFindings};
use speedwell_config::experiment::Experiment;
use speedwell_model::{IntervalEstimate, Metric, StepFailure};
use speedwell_plot as plot;
use std::sync::Arc;

/// The results in one case for every combination of two factors, in the main metric of the group.
struct FactorGrid<'a> {
    case: String,
    metric: &'a Metric,
    scale: FigureScale,
    across: String,
    down: String,
    columns: Vec<String>,
    rows: Vec<(String, Vec<Option<GridCell<'a>>>)>,
}

struct GridCell<'a> {
    variant: &'a str,
    center: IntervalEstimate,
}

/// Builds a table per case. There is none unless all variants declare the same two factors.
pub fn factor_tables(group: &GroupFindings, experiment: &Experiment) -> Vec<ReportTable> {
    factor_grids(group, experiment).iter().map(grid_table).collect()
}

/// Draws a chart per case. Its grouped bars show whether the two factors interact.
pub fn factor_charts(group: &GroupFindings, experiment: &Experiment) -> Vec<ReportChart> {
    factor_grids(group, experiment).iter().map(grid_chart).collect()
}

fn factor_grids<'a>(group: &'a GroupFindings, experiment: &'a Experiment) -> Vec<FactorGrid<'a>> {
    let Some((across, down)) = factor_names(experiment) else {
        return Vec::new();
    };
    let Some(metric) = group.metrics.first() else {
        return Vec::new();
    };
    let summaries = metric.findings.summaries.iter();
    distinct(summaries.map(|summary| summary.case.id()))
        .into_iter()
        .map(|case| case_grid(case, metric, experiment, &across, &down))
        .collect()
}

fn factor_names(experiment: &Experiment) -> Option<(String, String)> {
    let names = |factors: &[(String, String)]| -> Vec<String> {
        factors.iter().map(|(name, _)| name.clone()).collect()
    };
    let first = names(&experiment.variants.first()?.factors);
    let [across, down] = &first[..] else {
        return None;
    };
    let have_same_factors =
        experiment.variants.iter().all(|variant| names(&variant.factors) == first);
    have_same_factors.then(|| (across.clone(), down.clone()))
}

fn factor_values(experiment: &Experiment, factor: &str) -> Vec<String> {
    let factors = experiment.variants.iter().flat_map(|variant| &variant.factors);
    let values = factors.filter(|(name, _)| name == factor);
    distinct(values.map(|(_, value)| value.clone()))
}

/// Returns the variant with these values of its factors.
fn find_variant<'a>(experiment: &'a Experiment, wanted: &[(&str, &str)]) -> Option<&'a str> {
    let has = |factors: &[(String, String)]| {
        let is_in = |(name, value): &(&str, &str)| {
            factors.iter().any(|(other, level)| other == name && level == value)
        };
        wanted.iter().all(is_in)
    };
    let found = experiment.variants.iter().find(|variant| has(&variant.factors));
    found.map(|variant| variant.name.as_str())
}

fn case_grid<'a>(
    case: String,
    metric: &'a MetricFindings,
    experiment: &'a Experiment,
    across: &str,
    down: &str,
) -> FactorGrid<'a> {
    let summaries = &metric.findings.summaries;
    let of_case: Vec<_> = summaries.iter().filter(|summary| summary.case.id() == case).collect();
    let values: Vec<f64> = of_case.iter().map(|summary| summary.center.value).collect();
    let columns = factor_values(experiment, across);
    let compared = ComparedSides::new(&metric.findings.comparisons);
    let cell = |row: &str, column: &str| {
        let variant = find_variant(experiment, &[(across, column), (down, row)])?;
        let summary = of_case.iter().find(|summary| *summary.variant == *variant)?;
        Some(GridCell {
            variant,
            center: compared.side_estimate(summary).unwrap_or(summary.center),
        })
    };
    let row = |name: String| {
        let cells = columns.iter().map(|column| cell(&name, column)).collect();
        (name, cells)
    };
    FactorGrid {
        rows: factor_values(experiment, down).into_iter().map(row).collect(),
        scale: FigureScale::fit_scale(&metric.metric.unit, &values, None),
        metric: &metric.metric,
        across: across.to_owned(),
        down: down.to_owned(),
        columns,
        case,
    }
}

fn grid_table(grid: &FactorGrid<'_>) -> ReportTable {
    let scale = &grid.scale;
    let rows = grid.rows.iter().map(|(name, grid_cells)| {
        let data: serde_json::Map<String, serde_json::Value> = grid_cells
            .iter()
            .flatten()
            .filter_map(|cell| Some((cell.variant.to_owned(), json_number(cell.center.value)?)))
            .collect();
        let mut cells = vec![ReportCell::words(name), ReportCell::value(data)];
        cells.extend(grid_cells.iter().map(|cell| match cell {
            Some(GridCell { variant, center }) => {
                let digits = scale.rounding_place(center.value, Uncertainty::Unknown);
                ReportCell::text(format!("{} ({variant})", scale.format_bare(center.value, digits)))
            }
            None => ReportCell::text(""),
        }));
        ReportRow::Cells(cells)
    });
    let mut columns =
        vec![ReportColumn::label("factor", &grid.down), ReportColumn::machine("values")];
    columns.extend(grid.columns.iter().map(|column| {
        ReportColumn::figure("shown", format!("{}: {column}", grid.across)).for_people()
    }));
    ReportTable {
        caption: vec![grid.case.clone(), name_in_unit(&grid.metric.name, &scale.symbol)],
        columns,
        rows: rows.collect(),
        ..ReportTable::new("factors")
    }
}

fn grid_chart(grid: &FactorGrid<'_>) -> ReportChart {
    let bar = |(column, cell): (&String, &Option<GridCell<'_>>)| {
        let center = cell.as_ref()?.center;
        Some(plot::ChartBar {
            name: format!("{}: {column}", grid.across),
            value: grid.scale.to_shown(center.value),
            low: Some(grid.scale.to_shown(center.low)),
            high: Some(grid.scale.to_shown(center.high)),
        })
    };
    let category = |(name, cells): &(String, Vec<Option<GridCell<'_>>>)| plot::BarCategory {
        label: format!("{}: {name}", grid.down),
        bars: grid.columns.iter().zip(cells).filter_map(bar).collect(),
    };
    let title = format!("{} by {} and {}", grid.metric.name, grid.down, grid.across);
    ReportChart::new(
        title.clone(),
        plot::AnyChart::Bar(plot::BarChart {
            title: title.clone(),
            subtitle: Some(format!("{}; with the intervals of the changes", grid.case)),
            value_axis: plot::ChartAxis::linear(format!(
                "{} in {}",
                grid.metric.name, grid.scale.symbol
            )),
            categories: grid.rows.iter().map(category).collect(),
        }),
    )
}

/// Lists the combinations of case and variant that failed, with the reasons. Returns `None` if
/// nothing failed.
pub fn cells_table(found: &ExperimentFindings) -> Option<ReportTable> {
    let mut cells: Vec<FailedCell<'_>> = Vec::new();
    for failure in found.failures.iter().filter(|failure| !failure.cause.is_skip()) {
        let is_same = |cell: &&mut FailedCell<'_>| {
            cell.failure.case == failure.case
                && cell.failure.variant == failure.variant
                && cell.failure.cause == failure.cause
        };
        match cells.iter_mut().find(is_same) {
            Some(cell) => cell.times += 1,
            None => cells.push(FailedCell { failure, times: 1 }),
        }
    }
    if cells.is_empty() {
        return None;
    }
    let columns = column_set! { cell: FailedCell<'_>;
        label("case", "case") => cell.failure.case.as_deref().unwrap_or("all"),
        words("variant", "variant") => cell.failure.variant.as_deref().unwrap_or("all"),
        figure("runs", "failed") =>
            ReportCell::from(cell.times).with_text(format_count(cell.times, "run", "runs")),
        words("cause", "why") =>
            ReportCell::words(cell.failure.cause.to_string()).with_emphasis(TextEmphasis::Bad),
    };
    let mut rows = Vec::new();
    for cell in &cells {
        rows.push(columns.build_row(cell));
        let last = cell.failure.stderr_tail.lines().last().map(str::trim);
        let last = last.filter(|line| !line.is_empty());
        rows.extend(last.map(|line| ReportRow::Remark(format!("last line of stderr: {line}"))));
    }
    Some(ReportTable {
        caption: vec!["cases and variants without a result".to_owned()],
        ..columns.table_of_rows("cells", rows)
    })
}

/// The failures of one case and variant that have the same cause.
struct FailedCell<'a> {
    failure: &'a StepFailure,
    times: usize,
}

/// Draws a forest chart per metric, with a row for every case of every pair of variants. The shaded
/// band shows how much the control changed when compared with itself. Without a control, it shows
/// which changes count as the same.
pub fn metric_forests(group: &GroupFindings) -> Vec<ReportChart> {
    group.metrics.iter().filter_map(|metric| metric_forest(group, metric)).collect()
}

/// The forest chart of the group's main metric.
pub fn main_forest(group: &GroupFindings) -> Option<ReportChart> {
    metric_forest(group, group.metrics.first()?)
}

/// Returns the rows of one pair of variants, labelled by what distinguishes the cases.
fn pair_rows(comparison: &CandidateComparison) -> Vec<plot::ForestRow> {
    let pair = format!("{} against {}", comparison.candidate, comparison.baseline);
    let cases = comparison.rows.iter().map(|row| Arc::clone(&row.case));
    let (_, names) = label_cases(&cases.collect::<Vec<_>>());
    let rows = names.into_iter().filter_map(|(index, name)| {
        let label = match comparison.rows.len() {
            1 => pair.clone(),
            _ => format!("{name}, {pair}"),
        };
        forest_row(&comparison.rows[index], label)
    });
    rows.collect()
}

fn metric_forest(group: &GroupFindings, metric: &MetricFindings) -> Option<ReportChart> {
    let rows: Vec<plot::ForestRow> = metric
        .findings
        .comparisons
        .iter()
        .filter(|comparison| !is_control(comparison))
        .flat_map(pair_rows)
        .collect();
    let first = metric.findings.comparisons.first()?;
    let floor = metric
        .floor
        .map(|floor| (floor.low * 100.0, floor.high * 100.0))
        .filter(|(low, high)| low.is_finite() && high.is_finite());
    let subtitle = match floor {
        Some(_) => "shaded: the change of the control against itself",
        None => "shaded: changes that count as the same",
    };
    let title = format!("{}, {}: changes", group.name, metric.metric.name);
    (!rows.is_empty()).then(|| {
        ReportChart::new(
            title.clone(),
            plot::AnyChart::Forest(plot::ForestChart {
                title: title.clone(),
                subtitle: Some(subtitle.to_owned()),
                x_label: format!(
                    "change in % ({})",
                    crate::figure::better_direction(metric.metric.better)
                ),
                percent: true,
                reference: 0.0,
                band: floor.or_else(|| threshold_band(first)),
                rows,
            }),
        )
    })
}
