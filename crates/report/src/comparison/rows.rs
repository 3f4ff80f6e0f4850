//! Builds the rows and columns of the verdict table, for people and for programs.
//!
//! Start at [`prepare_lines`] and [`verdict_columns`]. The first prepares what several cells of a
//! row depend on: the common unit of both sides, the digits shown, and the footnote marks. The
//! second decides what each column shows.

use crate::case_labels::{distinct, parameters_json};
use crate::charts::{forest_row, threshold_band};
use crate::columns::{ColumnSet, column_set};
use crate::document::ReportChart;
use crate::figure::{
    Uncertainty, better_direction, format_change, format_change_interval, format_count,
    format_interval, format_number, format_probability, format_setting, format_share,
    format_signed, uncertainty_of_median,
};
use crate::output::Verbosity;
use crate::table::{
    ColumnKind, ReportCell, ReportColumn, RowName, RunList, TableFootnotes, TextEmphasis,
};
use crate::unit::{FigureScale, UnitChoice};
use serde_json::{Value, json};
use speedwell_analysis::{
    AcrossMachines, CandidateComparison, CaseComparison, MachineEffect, MachinePopulation,
};
use speedwell_model::{DisturbanceFigure as Recorded, IntervalEstimate, MetricDirection, Verdict};
use speedwell_plot as plot;
use std::borrow::Cow;

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

    /// Returns the verdict with its symbol and footnote marks.
    pub fn verdict_text(&self) -> String {
        if let Some(withheld) = &self.row.withheld {
            return format!("- {withheld} {}", self.marks).trim_end().to_owned();
        }
        let verdict = self.row.verdict;
        let verdict_words = if self.has_no_direction() {
            "≠ differs".to_owned()
        } else {
            format!("{} {verdict}", verdict_symbol(verdict))
        };
        format!("{verdict_words} {}", self.marks).trim_end().to_owned()
    }

    /// Whether there is a change in a metric for which it is unknown whether higher or lower is
    /// better.
    fn has_no_direction(&self) -> bool {
        self.row.differs && self.comparison.metric.better == MetricDirection::Unknown
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
        let wording = match &self.row.withheld {
            Some(withheld) => withheld.to_string(),
            None => self.row.verdict.to_string(),
        };
        ReportCell::words(wording)
            .with_text(self.verdict_text())
            .with_emphasis(verdict_emphasis(self.row.verdict))
    }

    /// Builds the cell with the fraction of disturbed runs of each side. People see it if one of
    /// the fractions is large enough to matter.
    fn disturbance_cell(&self) -> ReportCell {
        let sides = [&self.row.baseline.exposure, &self.row.candidate.exposure];
        let shares = sides.map(|side| format_share(side.disturbed_share()));
        ReportCell::from(sides[1].disturbed_share())
            .with_text(shares.join(" | "))
            .shown_if(sides.iter().any(|side| side.is_notable()))
    }
}

/// Returns a symbol that distinguishes verdicts without color.
pub fn verdict_symbol(verdict: Verdict) -> char {
    match verdict {
        Verdict::Better => '▲',
        Verdict::Worse => '▼',
        Verdict::Same => '=',
        Verdict::Unclear => '?',
    }
}

/// Returns the emphasis of a verdict.
pub fn verdict_emphasis(verdict: Verdict) -> TextEmphasis {
    match verdict {
        Verdict::Better => TextEmphasis::Good,
        Verdict::Worse => TextEmphasis::Bad,
        Verdict::Same => TextEmphasis::None,
        Verdict::Unclear => TextEmphasis::Caution,
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
        VerdictLine {
            name: RowName::default(),
            last_places: last_places(row, &scale),
            unit: scale.symbol.clone(),
            runs: runs_text(row),
            marks: footnote_marks(row, &shared, footnotes),
            comparison,
            row,
            scale,
        }
    };
    cases.into_iter().map(line).collect()
}

/// Minimum number of significant digits of a figure next to a change. With fewer digits, dividing
/// the printed figures would give a different change.
const MIN_SIGNIFICANT_DIGITS: i32 = 3;
/// Maximum ratio of two sides that are rounded to the same decimal place.
const MAX_SIMILAR_RATIO: f64 = 10.0;

/// Returns the last decimal places of both sides. They follow from the interval of the change, so
/// that the printed figures agree with the printed change. The spread of one side is unsuitable for
/// this, because the figure of one side may be less certain than the ratio of both figures.
fn last_places(row: &CaseComparison, scale: &FigureScale) -> [i32; 2] {
    let last_place = |(location, uncertainty): (f64, Uncertainty)| {
        let last_place = scale.rounding_place(location, uncertainty);
        match (uncertainty, scale.first_place(location)) {
            (Uncertainty::Exact, _) | (_, None) => last_place,
            (_, Some(first)) => last_place.max(first + MIN_SIGNIFICANT_DIGITS - 1),
        }
    };
    let last_places = figures(row).map(last_place);
    let [baseline, candidate] = [&row.baseline, &row.candidate].map(|side| side.location.abs());
    if baseline.max(candidate) < MAX_SIMILAR_RATIO * baseline.min(candidate) {
        [last_places[0].max(last_places[1]); 2]
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
    let all_figures = cases.iter().flat_map(|(_, row)| figures(row));
    Some(scale.keeping_counts(&metric.unit, all_figures, choice))
}

fn runs_text(row: &CaseComparison) -> String {
    let (baseline, candidate) = (row.baseline.runs.len(), row.candidate.runs.len());
    if baseline == candidate {
        return format_number(baseline as f64, 0);
    }
    format!("{baseline}/{candidate}")
}

/// All notes on a row.
fn row_notes(row: &CaseComparison) -> impl Iterator<Item = Cow<'_, str>> {
    let indicative = row.is_indicative.then_some(Cow::Borrowed(INDICATIVE_NOTE));
    let by_machine = withdrawal_remark(row).map(Cow::Owned);
    let other_notes = row.notes.iter().map(|note| Cow::Borrowed(note.as_str()));
    indicative.into_iter().chain(by_machine).chain(other_notes)
}

/// Returns notes that hold for every row of a table with several rows. A footnote mark on every row
/// would carry no information.
pub fn shared_remarks(cases: &[CaseInComparison<'_>]) -> Vec<String> {
    let Some(((_, first), others @ [_, ..])) = cases.split_first() else {
        return Vec::new();
    };
    let is_shared = |text: &Cow<'_, str>| {
        others.iter().all(|(_, row)| row_notes(row).any(|other| other == *text))
    };
    row_notes(first).filter(is_shared).map(|text| capitalize_sentence(&text)).collect()
}

/// Capitalizes a note's first letter and ends the note with a period.
fn capitalize_sentence(note: &str) -> String {
    let mut characters = note.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string());
    let remainder = characters.as_str();
    let end = if note.ends_with('.') { "" } else { "." };
    format!("{}{remainder}{end}", first.unwrap_or_default())
}

fn footnote_marks(
    row: &CaseComparison,
    shared: &[String],
    footnotes: &mut TableFootnotes,
) -> String {
    row_notes(row)
        .filter(|text| !shared.contains(&capitalize_sentence(text)))
        .map(|text| footnotes.footnote_mark(&text))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns all columns of a table, given the headings of the names, the baseline and the candidate.
pub fn verdict_columns<'a>(
    [names, baseline, candidate]: [&str; 3],
    confidence: f64,
    verbosity: Verbosity,
) -> ColumnSet<VerdictLine<'a>> {
    let is_verbose = verbosity == Verbosity::Verbose;
    let interval = format!("{} interval", format_setting(confidence));
    let mut columns = column_set! { line: VerdictLine<'a>;
        label("case", names) => ReportCell::words(line.row.case.id()).with_name(&line.name),
        machine("benchmark") => &line.row.case.benchmark,
        machine("parameters") => parameters_json(&line.row.case),
        machine("metric") => &line.comparison.metric.name,
        machine("unit") => &line.comparison.metric.unit,
        machine("better") => json!(line.comparison.metric.better),
        machine("baseline") => &line.comparison.baseline,
        machine("candidate") => &line.comparison.candidate,
        figure("baseline_shown", baseline).for_people() =>
            ReportCell::from(line.row.baseline.location).with_text(&line.side_figures()[0]),
        figure("candidate_shown", candidate).for_people() =>
            ReportCell::from(line.row.candidate.location).with_text(&line.side_figures()[1]),
        words("unit_shown", "unit").for_people() => ReportCell::text(&line.unit),
        figure("change_shown", "change").for_people() =>
            ReportCell::from(line.row.change.map(|change| change.value))
                .with_text(line.change_text())
                .with_emphasis(verdict_emphasis(line.row.verdict)),
        figure("interval_shown", interval).for_people() =>
            line.row.change.map(|c| ReportCell::from(c.low).with_text(format_interval(&c))),
        new("change_drawn", "change in %", ColumnKind::Drawn).for_people() =>
            ReportCell::drawing(forest_row(line.row, String::new())),
        words("verdict", "verdict").facet() => line.verdict_cell(),
        figure("p", "p").expendable(5) => ReportCell::shown_figure(line.row.p, format_probability),
        figure("q", "q").expendable(2) => ReportCell::shown_figure(line.row.q, format_probability),
        figure("runs_shown", "runs").for_people().expendable(4) =>
            ReportCell::from(line.row.baseline.runs.len()).with_text(&line.runs),
        figure("more_runs", "more runs").expendable(3) =>
            line.row.more_runs.map(|runs| ReportCell::from(runs).with_text(format!("~{runs}"))),
        figure("detectable", "detectable").expendable(6) => ReportCell::share(line.row.detectable),
        figure("baseline_cv", format!("CV {baseline}")).for_people().expendable(7)
            if is_verbose => ReportCell::share(line.row.baseline.variation),
        figure("candidate_cv", format!("CV {candidate}")).for_people().expendable(7)
            if is_verbose => ReportCell::share(line.row.candidate.variation),
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

/// Adds columns on disturbed runs. People see which fraction of each side's runs was disturbed, if
/// the fraction is large enough to matter. Programs get the fraction and the kernel's figures for
/// all rows.
pub fn add_disturbance(columns: &mut ColumnSet<VerdictLine<'_>>) {
    columns.append(column_set! { line: VerdictLine<'_>;
        figure("disturbed_shown", "disturbed").for_people().expendable(6) =>
            line.disturbance_cell(),
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

// Reports on cases that were measured on several machines: which machine measured a case, how much
// the machines differ, and what to expect of other such machines. Start at [`withdrawal_remark`],
// [`add_columns`] and [`machines_forest`]; `analysis/machines.rs` computes the findings.

/// Says why a verdict was withdrawn. Names the two machines that differ most.
fn withdrawal_remark(row: &CaseComparison) -> Option<String> {
    let by_machine = row.machines.as_ref().filter(|effects| effects.depends)?;
    let p = by_machine.p_equal.map(format_probability)?;
    let range = range_text(by_machine)?;
    Some(format!(
        "The change depends on the machine: {range}. If it were the same on all machines, they would differ this much with a probability of {p}."
    ))
}

/// Formats the range of the changes, as in `-4.1 % on lab-3 … +1.2 % on lab-7`.
fn range_text(by_machine: &AcrossMachines) -> Option<String> {
    let [low, high] = by_machine.extreme_machines()?.map(|machine| {
        let value = machine.change.as_ref().map(format_change).unwrap_or_default();
        format!("{value} on {}", machine.name)
    });
    Some(format!("{low} … {high}"))
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
            line.row.machines.as_ref().and_then(range_text).unwrap_or_default(),
    });
    if !is_single && verbosity == Verbosity::Verbose {
        add_machine_columns(columns, &by_machine);
    }
    columns.append(column_set! { line: VerdictLine<'a>;
        machine("p_equal") => line.row.machines.as_ref().and_then(|machines| machines.p_equal),
        machine("machines") => line.row.machines.as_ref().map(machines_data),
    });
}

/// Returns the effects in a row of the table, one per machine.
fn line_machines<'l>(line: &'l VerdictLine<'_>) -> impl Iterator<Item = &'l MachineEffect> {
    line.row.machines.iter().flat_map(|by_machine| &by_machine.machines)
}

fn add_machine_columns<'a>(
    columns: &mut ColumnSet<VerdictLine<'a>>,
    by_machine: &[&AcrossMachines],
) {
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

/// Returns all per-machine figures, for programs.
fn machines_data(by_machine: &AcrossMachines) -> Value {
    let machine = |machine: &MachineEffect| {
        json!({
            "name": machine.name,
            "class": machine.class,
            "blocks": machine.blocks,
            "change": machine.change.map(|change| change.value),
            "low": machine.change.map(|change| change.low),
            "high": machine.change.map(|change| change.high),
        })
    };
    let population = |population: &MachinePopulation| {
        json!({
            "class": population.class,
            "machines": population.machines,
            "change": population.change.value,
            "low": population.change.low,
            "high": population.change.high,
            "machines_to_halve_interval": population.to_halve,
        })
    };
    json!({
        "verdict": by_machine.on_these.to_string(),
        "depends_on_machine": by_machine.depends,
        "machines": by_machine.machines.iter().map(machine).collect::<Vec<Value>>(),
        "populations": by_machine.populations.iter().map(population).collect::<Vec<Value>>(),
    })
}

/// Returns notes on what to expect of other machines. For a single case, they state the expected
/// change. For several cases, they say where to find it.
pub fn population_notes(comparison: &CandidateComparison) -> Vec<String> {
    let rows = || comparison.rows.iter().filter_map(|row| row.machines.as_ref());
    let several: Vec<&AcrossMachines> =
        rows().filter(|by_machine| by_machine.machines.len() > 1).collect();
    if several.is_empty() {
        return Vec::new();
    }
    if several.iter().all(|by_machine| by_machine.populations.is_empty()) {
        let machines = several.iter().map(|by_machine| by_machine.machines.len()).max();
        return vec![format!(
            "The verdicts hold on these {} only; to predict changes on other machines, measure on \
             at least 3 machines of a class.",
            format_count(machines.unwrap_or_default(), "machine", "machines")
        )];
    }
    match &several[..] {
        [only] => only
            .populations
            .iter()
            .map(|population| expectation_note(population, comparison))
            .collect(),
        _ => vec![
            "For each case, the HTML page and the exported data give the change to expect on other \
             machines of a class."
                .to_owned(),
        ],
    }
}

/// Says what to expect of other machines, as in `On other machines like these 4 (EPYC, ...): change
/// +3.1 % [+1.2, +5.0] (95 % interval over machines); 9 more would halve the interval.`
fn expectation_note(population: &MachinePopulation, comparison: &CandidateComparison) -> String {
    format!(
        "On other machines like these {} ({}): change {} ({} interval over machines); {} more would halve the interval.",
        population.machines,
        population.class,
        format_change_interval(&population.change),
        format_setting(comparison.confidence),
        population.to_halve,
    )
}

/// Draws the change of a case on each machine, on all these machines, and as expected on other such
/// machines. Returns `None` if the case was measured on one machine.
pub fn machines_forest(
    comparison: &CandidateComparison,
    row: &CaseComparison,
) -> Option<ReportChart> {
    let by_machine = row.machines.as_ref().filter(|by_machine| by_machine.machines.len() > 1)?;
    let better = comparison.metric.better;
    let line = |label: String, estimate: IntervalEstimate| plot::ForestRow {
        label,
        estimate: estimate.value * 100.0,
        low: estimate.low * 100.0,
        high: estimate.high * 100.0,
        mark: interval_mark(&estimate, better),
    };
    let mut rows: Vec<plot::ForestRow> = (by_machine.machines.iter())
        .filter_map(|machine| Some(line(machine.name.clone(), machine.change?)))
        .collect();
    rows.extend(forest_row(row, "on these machines".to_owned()));
    rows.extend(by_machine.populations.iter().map(|population| {
        line(format!("on others like them ({})", population.class), population.change)
    }));
    let title = format!("{}: {} by machine", comparison.metric.name, comparison.candidate);
    Some(ReportChart {
        picture: plot::AnyChart::Forest(plot::ForestChart {
            title: title.clone(),
            subtitle: Some(row.case.id()),
            x_label: format!(
                "change in % with {} interval ({})",
                format_setting(comparison.confidence),
                better_direction(comparison.metric.better)
            ),
            percent: true,
            reference: 0.0,
            band: threshold_band(comparison),
            rows,
        }),
        title,
        shown_elsewhere: true,
    })
}

/// Returns the mark for a change that has an interval but no verdict.
fn interval_mark(change: &IntervalEstimate, better: MetricDirection) -> plot::VerdictMark {
    match (change.low > 0.0, change.high < 0.0, better) {
        (true, _, MetricDirection::Higher) | (_, true, MetricDirection::Lower) => {
            plot::VerdictMark::Better
        }
        (true, _, MetricDirection::Lower) | (_, true, MetricDirection::Higher) => {
            plot::VerdictMark::Worse
        }
        _ => plot::VerdictMark::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::OutputOptions;
    use crate::{RenderDocument, TextFormat};
    use speedwell_analysis::{AnalysisFindings, AnalysisSettings};
    use speedwell_fixtures::FakeSession;

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

    const FOUR: [(&str, &str); 4] =
        [("m1", "zen4"), ("m2", "zen4"), ("m3", "zen4"), ("m4", "zen4")];

    /// Returns findings from four machines with four blocks each; `factors` scale the new variant.
    fn simulated_findings(factors: [f64; 4]) -> AnalysisFindings {
        let value = move |variant: &str, number: u32| {
            let factor = if variant == "new" { factors[(number / 8) as usize] } else { 1.0 };
            1000.0 * factor * (1.0 + f64::from(number * 7919 % 13) / 1000.0)
        };
        let story = FakeSession::with_fixed_blocks(&["old", "new"], 16)
            .add_case("g/b", value)
            .add_case("g/c", value);
        speedwell_analysis::analyze_session(
            &story.distribute_over_machines(&FOUR).build(),
            &AnalysisSettings::default(),
        )
    }

    fn text(findings: &AnalysisFindings, verbosity: Verbosity) -> String {
        let output = OutputOptions { verbosity, ..OutputOptions::default() };
        let document = crate::comparison::report_comparison(findings, &output);
        let mut text = Vec::new();
        TextFormat::default().render(&document, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_row_shows_how_machines_differ_and_why_its_verdict_was_withdrawn() {
        let findings = simulated_findings([0.9, 0.9, 0.9, 1.05]);
        let shown = text(&findings, Verbosity::Normal);
        assert!(shown.contains("over machines"), "{shown}");
        assert!(
            shown.contains("The change depends on the machine: -10") && shown.contains("on m4"),
            "{shown}"
        );
        let all = text(&findings, Verbosity::Verbose);
        for machine in ["m1", "m2", "m3", "m4"] {
            assert!(all.contains(machine), "{all}");
        }
        let row = &findings.comparisons[0].rows[0];
        let Some(plot::AnyChart::Forest(forest)) =
            machines_forest(&findings.comparisons[0], row).map(|chart| chart.picture)
        else {
            panic!("no chart");
        };
        let labels: Vec<&str> = forest.rows.iter().map(|row| row.label.as_str()).collect();
        assert_eq!(
            labels,
            ["m1", "m2", "m3", "m4", "on these machines", "on others like them (zen4)"]
        );
        assert_eq!(forest.rows[0].mark, plot::VerdictMark::Worse);
        assert_eq!(forest.rows[3].mark, plot::VerdictMark::Better);
    }

    #[test]
    fn two_machines_allow_no_prediction_for_other_machines() {
        let factor = |variant: &str| if variant == "new" { 1.1 } else { 1.0 };
        let story =
            FakeSession::with_fixed_blocks(&["old", "new"], 8).add_noisy_case("g/b", 0.01, factor);
        let two = story.clone().distribute_over_machines(&FOUR[..2]).build();
        let findings = speedwell_analysis::analyze_session(&two, &AnalysisSettings::default());
        let shown = text(&findings, Verbosity::Normal);
        assert!(
            shown.contains(
                "hold on these 2 machines only; to predict changes on other machines, measure on"
            ),
            "{shown}"
        );
        // With one machine, the row names it.
        let one = story.distribute_over_machines(&FOUR[2..3]).build();
        let findings = speedwell_analysis::analyze_session(&one, &AnalysisSettings::default());
        let shown = text(&findings, Verbosity::Normal);
        assert!(shown.contains("m3") && !shown.contains("over machines"), "{shown}");
        let effect = machines_forest(&findings.comparisons[0], &findings.comparisons[0].rows[0]);
        assert!(effect.is_none());
    }
}
