//! Declares the columns of the table of changes: for people, for people with verbose output, and
//! for programs. Start at [`verdict_columns`].

use crate::case_labels::{distinct, parameters_json};
use crate::cell::verdict_emphasis;
use crate::charts::forest_row;
use crate::comparison::sections::ColumnHeadings;
use crate::comparison::{VerdictLine, machines};
use crate::figure::{
    Uncertainty, format_change, format_interval, format_probability, format_quantity,
    format_setting, format_signed,
};
use crate::output::Verbosity;
use crate::table::{ColumnKind, ColumnSet, ReportCell, ReportColumn, RunList, column_set};
use serde_json::json;
use speedwell_analysis::{AcrossMachines, CandidateComparison, CaseComparison, MachineEffect};
use speedwell_model::DisturbanceFigure as Recorded;
use std::collections::HashMap;

/// Returns all columns of a table.
pub fn verdict_columns<'a>(
    headings: &ColumnHeadings,
    confidence: f64,
    verbosity: Verbosity,
) -> ColumnSet<VerdictLine<'a>> {
    let is_verbose = verbosity == Verbosity::Verbose;
    let ColumnHeadings { names, baseline, candidate } = headings;
    // Without a column of the baseline, each row has one figure, with its unit.
    let has_sides = baseline.is_some();
    let baseline = baseline.as_deref().unwrap_or_default();
    let candidate_cv = if has_sides { format!("CV {candidate}") } else { "CV".to_owned() };
    let interval = format!("{} interval", format_setting(confidence));
    let mut columns = column_set! { line: VerdictLine<'a>;
        label("case", *names) => ReportCell::words(line.row.case.id()).with_name(&line.name),
        machine("benchmark") => &line.row.case.benchmark,
        machine("parameters") => parameters_json(&line.row.case),
        machine("metric") => &line.comparison.metric.name,
        machine("unit") => &line.comparison.metric.unit,
        machine("better") => json!(line.comparison.metric.better),
        machine("baseline") => &line.comparison.baseline,
        machine("candidate") => &line.comparison.candidate,
        figure("baseline_shown", baseline).for_people() if has_sides =>
            ReportCell::from(line.row.baseline.location).with_text(&line.side_figures()[0]),
        figure("candidate_shown", candidate).for_people() => {
            let shown = if has_sides { line.side_figures() } else { line.figures_with_unit() };
            ReportCell::from(line.row.candidate.location).with_text(&shown[1])
        },
        words("unit_shown", "unit").for_people() if has_sides => ReportCell::text(&line.unit),
        figure("change_shown", "change").for_people() =>
            ReportCell::from(line.row.change.map(|change| change.value))
                .with_text(line.change_text())
                .with_emphasis(verdict_emphasis(line.row.verdict)),
        figure("interval_shown", interval).for_people().expendable(1) =>
            line.row.change.map(|c| ReportCell::from(c.low).with_text(format_interval(&c))),
        new("change_drawn", "change in %", ColumnKind::Drawn).for_people() =>
            ReportCell::drawing(forest_row(line.row, String::new())),
        words("verdict", "verdict").facet() => line.verdict_cell(),
        figure("p", "p").expendable(5).detail(is_verbose) =>
            ReportCell::shown_figure(line.row.p, format_probability),
        figure("q", "q").expendable(2).detail(is_verbose) =>
            ReportCell::shown_figure(line.row.q, format_probability),
        figure("runs_shown", "runs").for_people().expendable(4) if is_verbose =>
            ReportCell::from(line.row.baseline.runs.len()).with_text(&line.runs),
        figure("more_runs", "more runs").expendable(3).detail(is_verbose) =>
            line.row.more_runs.map(|runs| ReportCell::from(runs).with_text(format!("~{runs}"))),
        figure("detectable", "detectable").expendable(6).detail(is_verbose) =>
            ReportCell::share(line.row.detectable),
        figure("baseline_cv", format!("CV {baseline}")).for_people().expendable(7)
            if is_verbose && has_sides => ReportCell::share(line.row.baseline.variation),
        figure("candidate_cv", candidate_cv).for_people().expendable(7) if is_verbose =>
            ReportCell::share(line.row.candidate.variation),
        figure("cliffs", "Cliff's delta").for_people().expendable(8) if is_verbose =>
            ReportCell::shown_figure(line.row.cliffs_delta, |delta| format_signed(delta, 2)),
    };
    columns.append(figure_columns());
    columns
}

/// Returns the columns with every figure and all runs, for programs.
fn figure_columns<'a>() -> ColumnSet<VerdictLine<'a>> {
    column_set! { line: VerdictLine<'a>;
        machine("baseline_location") => line.row.baseline.location,
        machine("candidate_location") => line.row.candidate.location,
        machine("baseline_median") => line.row.baseline.median,
        machine("candidate_median") => line.row.candidate.median,
        machine("baseline_mean") => line.row.baseline.mean,
        machine("candidate_mean") => line.row.candidate.mean,
        machine("baseline_variation") => line.row.baseline.variation,
        machine("candidate_variation") => line.row.candidate.variation,
        machine("baseline_runs") => line.row.baseline.runs.len(),
        machine("candidate_runs") => line.row.candidate.runs.len(),
        machine("change") => line.row.change.map(|change| change.value),
        machine("change_low") => line.row.change.map(|change| change.low),
        machine("change_high") => line.row.change.map(|change| change.high),
        machine("mean_change") => line.row.mean_change.map(|change| change.value),
        machine("mean_change_low") => line.row.mean_change.map(|change| change.low),
        machine("mean_change_high") => line.row.mean_change.map(|change| change.high),
        machine("cliffs_delta") => line.row.cliffs_delta,
        machine("decided_at") => line.row.decided_at,
        machine("indicative") => line.row.is_indicative,
        machine("shape_changed") => line.row.is_shape_changed,
        machine("notes") => line.row.notes.join(" "),
        machine("baseline_values") => RunList::Values(line.row.baseline.runs.clone()),
        machine("candidate_values") => RunList::Values(line.row.candidate.runs.clone()),
        machine("baseline_slots") => RunList::Slots(line.row.baseline.runs.clone()),
        machine("candidate_slots") => RunList::Slots(line.row.candidate.runs.clone()),
    }
}

/// For each figure that the kernel reports: the keys of the columns with the medians of both sides,
/// and the figure.
const KERNEL_COLUMNS: [(&str, &str, Recorded); 12] = [
    ("baseline_steal", "candidate_steal", Recorded::Steal),
    ("baseline_pressure", "candidate_pressure", Recorded::Pressure),
    ("baseline_wait", "candidate_wait", Recorded::Wait),
    ("baseline_involuntary", "candidate_involuntary", Recorded::Involuntary),
    ("baseline_voluntary", "candidate_voluntary", Recorded::Voluntary),
    ("baseline_migrations", "candidate_migrations", Recorded::Migrations),
    ("baseline_minor_faults", "candidate_minor_faults", Recorded::MinorFaults),
    ("baseline_major_faults", "candidate_major_faults", Recorded::MajorFaults),
    ("baseline_frequency", "candidate_frequency", Recorded::Frequency),
    ("baseline_throttled", "candidate_throttled", Recorded::Throttled),
    ("baseline_load", "candidate_load", Recorded::Load),
    ("baseline_temperature", "candidate_temperature", Recorded::Temperature),
];

/// Adds columns on disturbed runs. In verbose output, people see which fraction of each side's runs
/// was disturbed, if the fraction is large enough to matter. Programs get the fraction and the
/// kernel's figures for all rows.
pub fn add_disturbance(columns: &mut ColumnSet<VerdictLine<'_>>, verbosity: Verbosity) {
    columns.append(column_set! { line: VerdictLine<'_>;
        figure("disturbed_shown", "disturbed").for_people().expendable(6)
            if verbosity == Verbosity::Verbose => line.disturbance_cell(),
        machine("baseline_disturbed") => line.row.baseline.exposure.known_share(),
        machine("candidate_disturbed") => line.row.candidate.exposure.known_share(),
    });
    for (baseline, candidate, figure) in KERNEL_COLUMNS {
        columns.add_column(ReportColumn::machine(baseline), move |line| {
            line.row.baseline.exposure.median_figure(figure).into()
        });
        columns.add_column(ReportColumn::machine(candidate), move |line| {
            line.row.candidate.exposure.median_figure(figure).into()
        });
    }
}

/// Adds a column with the machine of each case if no case has several machines, otherwise with the
/// range of changes across machines. In verbose output, a column per machine follows the range.
pub fn add_columns<'a>(
    columns: &mut ColumnSet<VerdictLine<'a>>,
    rows: &[&CaseComparison],
    verbosity: Verbosity,
) {
    let by_machine: Vec<&AcrossMachines> =
        rows.iter().filter_map(|row| row.machines.as_ref()).collect();
    if by_machine.is_empty() {
        return;
    }
    let is_single = by_machine.iter().all(|effects| effects.machines.len() < 2);
    columns.append(column_set! { line: VerdictLine<'a>;
        words("machine", "machine") if is_single =>
            line_machines(line).map(|machine| machine.name.as_str()).collect::<String>(),
        words("machines_shown", "over machines").for_people().expendable(4) if !is_single =>
            line.row.machines.as_ref().and_then(machines::range_text).unwrap_or_default(),
    });
    if !is_single && verbosity == Verbosity::Verbose {
        let machines = by_machine.iter().flat_map(|by_machine| &by_machine.machines);
        for name in distinct(machines.map(|machine| machine.name.clone())) {
            let column = ReportColumn::figure("change_on_machine", name.clone()).for_people();
            columns.add_column(column.expendable(7), move |line| {
                let effect = line_machines(line).find(|machine| machine.name == name);
                let change = effect.and_then(|machine| machine.change);
                change.map(|c| ReportCell::from(c.value).with_text(format_change(&c))).into()
            });
        }
    }
    columns.append(column_set! { line: VerdictLine<'a>;
        machine("p_equal") => line.row.machines.as_ref().and_then(|machines| machines.p_equal),
        machine("machines") => line.row.machines.as_ref().map(machines::machines_data),
    });
}

/// Adds a column for each exact count next to the compared metric, such as `2 -> 1` allocations.
pub fn add_counts(columns: &mut ColumnSet<VerdictLine<'_>>, beside: &[CandidateComparison]) {
    for metric in distinct(beside.iter().map(|comparison| comparison.metric.name.as_str())) {
        let mut texts = HashMap::new();
        for comparison in beside.iter().filter(|comparison| comparison.metric.name == metric) {
            for row in &comparison.rows {
                let unit = &comparison.metric.unit;
                let [old, new] = [&row.baseline, &row.candidate]
                    .map(|side| format_quantity(side.location, unit, Uncertainty::Exact));
                let text = if old == new { new } else { format!("{old} -> {new}") };
                texts.insert((comparison.candidate.clone(), row.case.id()), text);
            }
        }
        let column = ReportColumn::figure("count_shown", metric.replace('_', " ")).for_people();
        columns.add_column(column.expendable(2), move |line| {
            let key = (line.comparison.candidate.clone(), line.row.case.id());
            texts.get(&key).map(|text| ReportCell::text(text.as_str())).into()
        });
    }
}

/// Returns the effects in a row of the table, one per machine.
fn line_machines<'l>(line: &'l VerdictLine<'_>) -> impl Iterator<Item = &'l MachineEffect> {
    line.row.machines.iter().flat_map(|by_machine| &by_machine.machines)
}
