//! Puts the answer of an experiment into words. Sentences give the result of each comparison and of
//! the control, which is a variant measured twice. Tables and charts give an overview.

use crate::case_labels::distinct;
use crate::charts::{ComparedSides, forest_row, label_cases, threshold_band};
use crate::document::{ReportBlock, ReportChart};
use crate::figure::{
    Uncertainty, decimal_place, format_change, format_change_interval, format_count, format_number,
    format_setting, format_signed, join_texts, name_in_unit, quality_words,
};
use crate::table::{
    ReportCell, ReportColumn, ReportRow, ReportTable, TextEmphasis, column_set, json_number,
};
use crate::unit::FigureScale;
use speedwell_analysis::experiment::{ExperimentFindings, GroupFindings, MetricFindings};
use speedwell_analysis::{CandidateComparison, CaseComparison};
use speedwell_model::experiment::{ExperimentDesign, ExperimentVariant, is_repetition};
use speedwell_model::{IntervalEstimate, Metric, StepFailure, Verdict};
use speedwell_plot as plot;
use std::collections::HashSet;
use std::sync::Arc;

/// A change of at least this size is given as a factor: "by a factor of 3.5" is easier to grasp
/// than "+250%".
const MIN_CHANGE_AS_FACTOR: f64 = 1.0;

/// Returns one sentence per comparison of a group, then the result of the control.
pub fn answer_blocks(
    found: &ExperimentFindings,
    experiment: &ExperimentDesign,
) -> Vec<ReportBlock> {
    let mut blocks = Vec::new();
    // The first mention of a variant includes its label.
    let mut named = HashSet::new();
    let mut name_variant = |name: &str| {
        let is_first = named.insert(name.to_owned());
        if is_first { variant_label(experiment, name) } else { name.to_owned() }
    };
    for group in &found.groups {
        let Some(first) = group.metrics.first() else { continue };
        let subject = match found.groups.len() {
            1 => first.metric.name.clone(),
            _ => format!("{}, {}", group.name, first.metric.name),
        };
        let pairs = first.findings.comparisons.iter().filter(|comparison| !is_control(comparison));
        blocks.extend(pairs.map(|comparison| {
            let candidate = name_variant(&comparison.candidate);
            let baseline = name_variant(&comparison.baseline);
            let verdicts = verdict_summary(comparison);
            let counts = instructions_note(group, comparison).unwrap_or_default();
            let sentence =
                format!("{subject}: {candidate} against {baseline}: {verdicts}{counts}.");
            ReportBlock::Headline(sentence)
        }));
        blocks.extend(noise_floor_note(group, first).map(ReportBlock::Note));
    }
    blocks
}

/// Summarizes a comparison: verdicts with the number of cases and the size of the change.
fn verdict_summary(comparison: &CandidateComparison) -> String {
    let total = comparison.rows.len();
    let rows: Vec<&CaseComparison> = comparison.rows.iter().collect();
    let clauses = verdict_clauses(comparison, &rows, total);
    let typical = comparison.typical().filter(|_| total > 1);
    let overall_change = match (typical, comparison.range()) {
        (Some(typical), _) => Some(format!("; typically {}", format_change_interval(&typical))),
        (None, Some(ends)) => {
            let [smallest, largest] = ends.each_ref().map(format_change);
            Some(format!("; from {smallest} to {largest}"))
        }
        (None, None) => None,
    };
    if clauses.is_empty() {
        "nothing to compare".to_owned()
    } else {
        clauses + &overall_change.unwrap_or_default()
    }
}

/// Says what instruction counts show about cases that the metric leaves unclear. On a busy machine,
/// counts are often decisive when times are not.
fn instructions_note(group: &GroupFindings, comparison: &CandidateComparison) -> Option<String> {
    let instructions =
        group.metrics.iter().skip(1).find(|found| found.metric.name.starts_with("instructions"))?;
    let counts = instructions.findings.comparisons.iter().find(|counts| {
        (&counts.baseline, &counts.candidate) == (&comparison.baseline, &comparison.candidate)
    })?;
    let is_unclear = |row: &&CaseComparison| {
        let mut unclear = comparison.rows_with_verdict(Verdict::Unclear);
        row.verdict != Verdict::Unclear && unclear.any(|unclear_row| unclear_row.case == row.case)
    };
    let rows: Vec<&CaseComparison> = counts.rows.iter().filter(is_unclear).collect();
    let clauses = verdict_clauses(counts, &rows, comparison.rows.len());
    (!clauses.is_empty()).then(|| {
        let name = counts.metric.name.replace('_', " ");
        format!("; where the verdict is unclear, the counts of {name} show: {clauses}")
    })
}

/// Returns a clause for each verdict among these rows of a comparison with `total` cases.
fn verdict_clauses(
    comparison: &CandidateComparison,
    rows: &[&CaseComparison],
    total: usize,
) -> String {
    let (good, bad) = quality_words(&comparison.metric);
    let order = [Verdict::Worse, Verdict::Better, Verdict::Same, Verdict::Unclear];
    let parts = order.into_iter().filter_map(|verdict| {
        let matching = rows.iter().filter(|row| row.verdict == verdict);
        let rows: Vec<&CaseComparison> = matching.copied().collect();
        if rows.is_empty() {
            return None;
        }
        let in_cases = match (rows.len(), total) {
            (_, 1) => String::new(),
            (2, 2) => " in both cases".to_owned(),
            (number, _) if number == total => {
                format!(" in all {}", format_count(total, "case", "cases"))
            }
            (number, _) => format!(" in {number} of {total}"),
        };
        Some(match verdict {
            Verdict::Worse => format!("{bad}{in_cases}{}", size_text(&rows)),
            Verdict::Better => format!("{good}{in_cases}{}", size_text(&rows)),
            Verdict::Same => {
                format!("the same within {}{in_cases}", format_setting(comparison.delta))
            }
            Verdict::Unclear => format!("unclear{in_cases}{}", possible_changes(&rows)),
        })
    });
    join_texts(", ", parts)
}

/// Formats the change, or the range of changes over several cases.
fn size_text(rows: &[&CaseComparison]) -> String {
    let mut changes: Vec<IntervalEstimate> = rows.iter().filter_map(|row| row.change).collect();
    changes.sort_by(|one, other| one.value.total_cmp(&other.value));
    match &changes[..] {
        [] => String::new(),
        [only] if only.value < MIN_CHANGE_AS_FACTOR => {
            format!(", {}", format_change_interval(only))
        }
        [only] => {
            let [value, low, high] = [only.value, only.low, only.high].map(format_factor);
            format!(", by a factor of {value} [{low}, {high}]")
        }
        [first, .., last] if last.value < MIN_CHANGE_AS_FACTOR => {
            format!(", {} to {}", format_change(first), format_change(last))
        }
        [first, .., last] => format!(
            ", by factors of {} to {}",
            format_factor(first.value),
            format_factor(last.value)
        ),
    }
}

/// Formats the range of changes that the data cannot exclude.
fn possible_changes(rows: &[&CaseComparison]) -> String {
    let changes = rows.iter().filter_map(|row| row.change);
    let low = changes.clone().map(|change| change.low).fold(f64::INFINITY, f64::min);
    let high = changes.map(|change| change.high).fold(f64::NEG_INFINITY, f64::max);
    if !low.is_finite() || !high.is_finite() {
        return String::new();
    }
    let [low, high] = [low, high].map(|share| format_signed(share * 100.0, 0));
    format!(", {low}% to {high}% is possible")
}

fn format_factor(change: f64) -> String {
    let factor = 1.0 + change;
    format_number(factor, decimal_place(factor, Uncertainty::Unknown).max(1))
}

/// Whether this comparison compares the control with itself.
pub fn is_control(comparison: &CandidateComparison) -> bool {
    is_repetition(&comparison.candidate)
}

/// Returns a variant's name, with its label if it has one.
pub fn variant_label(experiment: &ExperimentDesign, name: &str) -> String {
    let variant = experiment.variants.iter().find(|variant| variant.name == name);
    match variant.and_then(|variant| variant.label.as_ref()) {
        Some(label) => format!("{name} ({label})"),
        None => name.to_owned(),
    }
}

/// Returns a note on how large differences get without a cause, according to the control.
fn noise_floor_note(group: &GroupFindings, metric: &MetricFindings) -> Option<String> {
    let control = metric.findings.comparisons.iter().find(|comparison| is_control(comparison))?;
    Some(format!(
        "{}: '{}' measured against itself changed by {} ({}). This experiment cannot detect \
         smaller differences.",
        group.name,
        control.baseline,
        format_change_interval(&metric.floor?),
        metric.metric.name
    ))
}

// The overview of an experiment: grids of variants that differ in two factors, combinations
// that failed, and forest charts of the changes of a group.

/// The results in one case for every combination of two factors, in the main metric of the group.
pub struct FactorGrid<'a> {
    case: String,
    metric: &'a Metric,
    scale: FigureScale,
    across: String,
    down: String,
    columns: Vec<String>,
    rows: Vec<(String, Vec<Option<GridCell<'a>>>)>,
}

/// A variant with its figure.
type GridCell<'a> = (&'a str, IntervalEstimate);

/// Returns a grid per case. Returns no grids unless all variants declare the same two factors.
pub fn factor_grids<'a>(
    group: &'a GroupFindings,
    experiment: &'a ExperimentDesign,
) -> Vec<FactorGrid<'a>> {
    let Some((across, down)) = factor_names(experiment) else { return Vec::new() };
    let Some(metric) = group.metrics.first() else { return Vec::new() };
    let summaries = metric.findings.summaries.iter();
    let cases = distinct(summaries.map(|summary| summary.case.id())).into_iter();
    cases.map(|case| case_grid(case, metric, experiment, &across, &down)).collect()
}

fn factor_names(experiment: &ExperimentDesign) -> Option<(String, String)> {
    let names = |factors: &[(String, String)]| -> Vec<String> {
        factors.iter().map(|(name, _)| name.clone()).collect()
    };
    let first = names(&experiment.variants.first()?.factors);
    let [across, down] = &first[..] else { return None };
    let have_same_factors =
        experiment.variants.iter().all(|variant| names(&variant.factors) == first);
    have_same_factors.then(|| (across.clone(), down.clone()))
}

fn factor_values(experiment: &ExperimentDesign, factor: &str) -> Vec<String> {
    let factors = experiment.variants.iter().flat_map(|variant| &variant.factors);
    distinct(factors.filter(|(name, _)| name == factor).map(|(_, value)| value.clone()))
}

fn case_grid<'a>(
    case: String,
    metric: &'a MetricFindings,
    experiment: &'a ExperimentDesign,
    across: &str,
    down: &str,
) -> FactorGrid<'a> {
    let summaries = &metric.findings.summaries;
    let of_case: Vec<_> = summaries.iter().filter(|summary| summary.case.id() == case).collect();
    let values: Vec<f64> = of_case.iter().map(|summary| summary.center.value).collect();
    let columns = factor_values(experiment, across);
    let compared = ComparedSides::new(&metric.findings.comparisons);
    let cell = |row: &str, column: &str| {
        let has = |variant: &ExperimentVariant, factor: &str, level: &str| {
            variant.factors.iter().any(|(name, value)| name == factor && value == level)
        };
        let is_wanted =
            |variant: &&ExperimentVariant| has(variant, across, column) && has(variant, down, row);
        let variant = experiment.variants.iter().find(is_wanted)?.name.as_str();
        let summary = of_case.iter().find(|summary| *summary.variant == *variant)?;
        Some((variant, compared.side_estimate(summary).unwrap_or(summary.center)))
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

/// Builds a table with a row and a column per value of the factors.
pub fn grid_table(grid: &FactorGrid<'_>) -> ReportTable {
    let scale = &grid.scale;
    let rows = grid.rows.iter().map(|(name, grid_cells)| {
        let data = grid_cells.iter().flatten();
        let data =
            data.filter_map(|(variant, center)| Some((*variant, json_number(center.value)?)));
        let data: serde_json::Value = data.collect();
        let mut cells = vec![ReportCell::words(name), ReportCell::value(data)];
        cells.extend(grid_cells.iter().map(|cell| match cell {
            Some((variant, center)) => {
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

/// Draws grouped bars, which show whether the two factors interact.
pub fn grid_chart(grid: &FactorGrid<'_>) -> ReportChart {
    let bar = |(column, cell): (&String, &Option<GridCell<'_>>)| {
        let (_, center) = cell.as_ref()?;
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
    let axis = format!("{} in {}", grid.metric.name, grid.scale.symbol);
    ReportChart::from_picture(plot::AnyChart::Bar(plot::BarChart {
        title: format!("{} by {} and {}", grid.metric.name, grid.down, grid.across),
        subtitle: Some(format!("{}; with the intervals of the changes", grid.case)),
        value_axis: plot::ChartAxis::linear(axis),
        categories: grid.rows.iter().map(category).collect(),
    }))
}

/// Lists the combinations of case and variant that failed, with the reasons. Returns `None` if
/// nothing failed.
pub fn cells_table(found: &ExperimentFindings) -> Option<ReportTable> {
    let mut cells: Vec<FailedCell<'_>> = Vec::new();
    for failure in found.failures.iter().filter(|failure| !failure.cause.is_skip()) {
        let is_same = |(other, _): &&mut FailedCell<'_>| {
            (&other.case, &other.variant, &other.cause)
                == (&failure.case, &failure.variant, &failure.cause)
        };
        match cells.iter_mut().find(is_same) {
            Some((_, times)) => *times += 1,
            None => cells.push((failure, 1)),
        }
    }
    if cells.is_empty() {
        return None;
    }
    let columns = column_set! { cell: FailedCell<'_>;
        label("case", "case") => cell.0.case.as_deref().unwrap_or("all"),
        words("variant", "variant") => cell.0.variant.as_deref().unwrap_or("all"),
        figure("runs", "failed") =>
            ReportCell::from(cell.1).with_text(format_count(cell.1, "run", "runs")),
        words("cause", "why") =>
            ReportCell::words(cell.0.cause.to_string()).with_emphasis(TextEmphasis::Bad),
    };
    let last_line = |cell: &FailedCell<'_>| {
        let last = cell.0.stderr_tail.lines().last().map(str::trim);
        last.filter(|line| !line.is_empty()).map(|line| format!("last line of stderr: {line}"))
    };
    Some(ReportTable {
        caption: vec!["cases and variants without a result".to_owned()],
        ..columns.build_with_remarks("cells", &cells, last_line)
    })
}

/// A failure, with the number of failures of the same case and variant that have the same cause.
type FailedCell<'a> = (&'a StepFailure, usize);

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

/// Draws a forest chart with a row for every case of every pair of variants. The shaded band shows
/// how much the control changed when compared with itself. Without a control, it shows which changes
/// count as the same.
pub fn metric_forest(group: &GroupFindings, metric: &MetricFindings) -> Option<ReportChart> {
    let comparisons = &metric.findings.comparisons;
    let first = comparisons.first()?;
    let pairs = comparisons.iter().filter(|comparison| !is_control(comparison));
    let rows: Vec<plot::ForestRow> = pairs.flat_map(pair_rows).collect();
    let floor = metric
        .floor
        .map(|floor| (floor.low * 100.0, floor.high * 100.0))
        .filter(|(low, high)| low.is_finite() && high.is_finite());
    let subtitle = match floor {
        Some(_) => "shaded: the change of the control against itself",
        None => "shaded: changes that count as the same",
    };
    if rows.is_empty() {
        return None;
    }
    let better = crate::figure::better_direction(metric.metric.better);
    Some(ReportChart::from_picture(plot::AnyChart::Forest(plot::ForestChart {
        title: format!("{}, {}: changes", group.name, metric.metric.name),
        subtitle: Some(subtitle.to_owned()),
        x_label: format!("change in % ({better})"),
        percent: true,
        reference: 0.0,
        band: floor.or_else(|| threshold_band(first)),
        rows,
    })))
}
