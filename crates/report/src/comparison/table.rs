//! Defines the rows and columns of the table of changes. [`prepare_lines`] prepares what several
//! cells of a row depend on: the common unit of both sides, digits, and footnote marks.
//! [`verdict_columns`] declares the columns for people, for verbose output, and for programs.

use crate::case_labels::{distinct, parameters_json};
use crate::cell::{verdict_emphasis, verdict_symbol};
use crate::charts::forest_row;
use crate::comparison::machines;
use crate::figure::{
    Uncertainty, capitalize_first, format_change, format_change_interval, format_interval,
    format_probability, format_quantity, format_setting, format_share, format_signed, format_whole,
    join_texts, uncertainty_of_median,
};
use crate::output::Verbosity;
use crate::table::{
    ColumnKind, ColumnSet, ReportCell, ReportColumn, RowName, RunList, TableFootnotes, column_set,
};
use crate::unit::{FigureScale, UnitChoice};
use serde_json::json;
use speedwell_analysis::{AcrossMachines, CandidateComparison, CaseComparison, MachineEffect};
use speedwell_model::{DisturbanceFigure as Recorded, IntervalEstimate, MetricDirection, Verdict};
use std::borrow::Cow;
use std::collections::HashMap;

/// A case in its comparison.
pub type CaseInComparison<'a> = (&'a CandidateComparison, &'a CaseComparison);

/// The footnote for verdicts that are based on runs in fixed or unknown order.
const INDICATIVE_NOTE: &str = "only a hint: the order of these runs is fixed or unknown, so \
    machine drift may look like a change";

/// A row of the table.
pub struct VerdictLine<'a> {
    /// The row's comparison.
    pub comparison: &'a CandidateComparison,
    /// The row's findings.
    pub row: &'a CaseComparison,
    /// The row's name in the table.
    pub name: RowName,
    /// How the figures of both sides are shown.
    pub scale: FigureScale,
    /// The last decimal places of the baseline and the candidate.
    pub last_places: [i32; 2],
    /// The unit; empty if it is in the caption.
    pub unit: String,
    /// The runs per side; empty if they are in the caption.
    pub runs: String,
    /// Marks of the footnotes.
    pub marks: String,
}

impl VerdictLine<'_> {
    /// Returns the remark below the row.
    pub fn row_remark(&self) -> Option<String> {
        let mean = self.row.mean_change.filter(|_| self.row.is_shape_changed)?;
        let mean = format_change_interval(&mean);
        Some(format!("mean {mean} (sensitive to outliers): the shape or the tail changed"))
    }

    /// Returns the figures of the baseline and the candidate as printed in the table.
    pub fn side_figures(&self) -> [String; 2] {
        let sides = [&self.row.baseline, &self.row.candidate];
        [0, 1].map(|side| self.scale.format_bare(sides[side].location, self.last_places[side]))
    }

    /// Returns the figures of the baseline and the candidate with their unit.
    pub fn figures_with_unit(&self) -> [String; 2] {
        let sides = [&self.row.baseline, &self.row.candidate];
        [0, 1].map(|side| self.scale.format_full(sides[side].location, self.last_places[side]))
    }

    /// Returns the verdict with its symbol and footnote marks.
    pub fn verdict_text(&self) -> String {
        let verdict = self.row.verdict;
        let has_direction = self.comparison.metric.better != MetricDirection::Unknown;
        let words = match &self.row.withheld {
            Some(withheld) => format!("- {withheld}"),
            None if self.row.differs && !has_direction => "≠ differs".to_owned(),
            None => format!("{} {verdict}", verdict_symbol(verdict)),
        };
        format!("{words} {}", self.marks).trim_end().to_owned()
    }

    /// Formats the change in percent. A change from zero shows both figures.
    fn change_text(&self) -> String {
        match self.row.change {
            Some(change) => format_change(&change),
            None if self.row.is_from_zero() => self.side_figures().join(" -> "),
            None => "?".to_owned(),
        }
    }

    fn verdict_cell(&self) -> ReportCell {
        let withheld = self.row.withheld.as_ref().map(ToString::to_string);
        ReportCell::words(withheld.unwrap_or_else(|| self.row.verdict.to_string()))
            .with_text(self.verdict_text())
            .with_emphasis(verdict_emphasis(self.row.verdict))
    }

    /// Builds the cell with the fraction of disturbed runs of each side. People see it if one of
    /// the fractions is large enough to matter.
    fn disturbance_cell(&self) -> ReportCell {
        let sides = [&self.row.baseline.exposure, &self.row.candidate.exposure];
        ReportCell::from(sides[1].disturbed_share())
            .with_text(sides.map(|side| format_share(side.disturbed_share())).join(" | "))
            .shown_if(sides.iter().any(|side| side.is_notable()))
    }
}

/// Prepares the rows of one table, in the order given. Names are filled in later.
pub fn prepare_lines<'a>(
    cases: Vec<CaseInComparison<'a>>,
    choice: Option<UnitChoice>,
    footnotes: &mut TableFootnotes,
) -> Vec<VerdictLine<'a>> {
    let common = common_scale(&cases, choice);
    let shared = shared_remarks(&cases);
    let line = |(comparison, row): CaseInComparison<'a>| {
        let sides = [row.baseline.location, row.candidate.location];
        let unit = &comparison.metric.unit;
        let fit_scale = || {
            FigureScale::fit_scale(unit, &sides, choice).keeping_counts(unit, figures(row), choice)
        };
        let scale = common.clone().unwrap_or_else(fit_scale);
        let notes = row_notes(row).filter(|text| !shared.contains(&capitalize_sentence(text)));
        VerdictLine {
            name: RowName::default(),
            last_places: last_places(row, &scale),
            unit: scale.symbol.clone(),
            runs: runs_text(row),
            marks: join_texts(" ", notes.map(|text| footnotes.footnote_mark(&text))),
            comparison,
            row,
            scale,
        }
    };
    cases.into_iter().map(line).collect()
}

/// Maximum ratio of two sides that are rounded to the same decimal place.
const MAX_SIMILAR_RATIO: f64 = 10.0;

/// Returns the last decimal places of both sides. Similar sides have the same place, and enough
/// digits to look different if they are.
fn last_places(row: &CaseComparison, scale: &FigureScale) -> [i32; 2] {
    let last_places =
        figures(row).map(|(location, uncertainty)| scale.rounding_place(location, uncertainty));
    let sides = [row.baseline.location, row.candidate.location];
    let [baseline, candidate] = sides.map(f64::abs);
    if baseline.max(candidate) < MAX_SIMILAR_RATIO * baseline.min(candidate) {
        let place = last_places[0].max(last_places[1]);
        let are_different = matches!(row.verdict, Verdict::Better | Verdict::Worse);
        [if are_different { scale.distinct_place(sides, place) } else { place }; 2]
    } else {
        last_places
    }
}

/// Returns the figure of each side with its uncertainty. The uncertainty follows from the interval
/// of the change or, without one, from the runs of that side.
fn figures(row: &CaseComparison) -> [(f64, Uncertainty); 2] {
    let half_width = row.change.and_then(|change| log_half_width(&change));
    [&row.baseline, &row.candidate].map(|side| {
        let uncertainty = match half_width {
            Some(share) => Uncertainty::Half(share * side.location.abs()),
            None => uncertainty_of_median(side.location, side.variation, side.runs.len()),
        };
        (side.location, uncertainty)
    })
}

/// Returns half the width of an interval on the log scale, used as the relative uncertainty of both
/// sides. Returns `None` if the interval is empty or unbounded.
fn log_half_width(change: &IntervalEstimate) -> Option<f64> {
    let half = 0.5 * (change.high.ln_1p() - change.low.ln_1p());
    (half > 0.0 && half.is_finite()).then_some(half)
}

/// Returns one scale for all rows if their figures share a metric and are of similar size.
fn common_scale(cases: &[CaseInComparison<'_>], choice: Option<UnitChoice>) -> Option<FigureScale> {
    let metric = &cases.first()?.0.metric;
    if cases.iter().any(|(comparison, _)| comparison.metric != *metric) {
        return None;
    }
    let sides = cases.iter().flat_map(|(_, row)| [row.baseline.location, row.candidate.location]);
    let scale = FigureScale::common_scale(&metric.unit, sides, choice)?;
    Some(scale.keeping_counts(&metric.unit, cases.iter().flat_map(|(_, row)| figures(row)), choice))
}

fn runs_text(row: &CaseComparison) -> String {
    let (old, new) = (row.baseline.runs.len(), row.candidate.runs.len());
    if old == new { format_whole(old) } else { format!("{old}/{new}") }
}

/// All notes on a row.
fn row_notes(row: &CaseComparison) -> impl Iterator<Item = Cow<'_, str>> {
    let indicative = row.is_indicative.then_some(Cow::Borrowed(INDICATIVE_NOTE));
    let by_machine = machines::withdrawal_remark(row).map(Cow::Owned);
    let other_notes = row.notes.iter().map(|note| Cow::Borrowed(note.as_str()));
    indicative.into_iter().chain(by_machine).chain(other_notes)
}

/// Returns notes that hold for every row of a table with several rows. A footnote mark on every row
/// would carry no information.
pub fn shared_remarks(cases: &[CaseInComparison<'_>]) -> Vec<String> {
    let Some(((_, first), others @ [_, ..])) = cases.split_first() else { return Vec::new() };
    let is_shared = |text: &Cow<'_, str>| {
        others.iter().all(|(_, row)| row_notes(row).any(|other| other == *text))
    };
    row_notes(first).filter(is_shared).map(|text| capitalize_sentence(&text)).collect()
}

/// Capitalizes a note's first letter and ends the note with a period.
pub fn capitalize_sentence(note: &str) -> String {
    let end = if note.ends_with('.') { "" } else { "." };
    capitalize_first(note) + end
}

/// The headings that depend on the section of a table.
#[derive(Debug, Default)]
pub struct ColumnHeadings {
    /// Above the names of the rows.
    pub names: &'static str,
    /// Above the figures of the baseline. `None` if the baseline has a row instead of a column.
    pub baseline: Option<String>,
    /// Above the figures of the candidates.
    pub candidate: String,
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_analysis::AnalysisSettings;

    #[test]
    fn each_side_of_a_row_is_rounded_by_its_own_size() {
        let session = speedwell_formats::read(
            "f.csv",
            b"\"binary\",\"filename\",\"configuration\",\"rate\",\"time\"\n\
              \"old\",\"g/a.js\",\"\",1000,1\n\"old\",\"g/a.js\",\"\",1600,1\n\
              \"new\",\"g/a.js\",\"\",15,1\n\"new\",\"g/a.js\",\"\",17,1\n",
        )
        .unwrap()
        .remove(0);
        let findings = speedwell_analysis::analyze_session(&session, &AnalysisSettings::default());
        let found = &findings.comparisons[0];
        let lines =
            prepare_lines(vec![(found, &found.rows[0])], None, &mut TableFootnotes::default());
        assert_eq!(lines[0].side_figures(), ["1,270", "16.0"]);
    }
}
