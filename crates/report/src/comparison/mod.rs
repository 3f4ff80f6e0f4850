//! Reports comparisons of a baseline with a candidate. For each ([`report_comparison`]), the answer
//! in words comes first, then a table.
//!
//! [`prepare_lines`] prepares what several cells of a row depend on: the common unit of both sides,
//! the digits shown, and the footnote marks. `columns.rs` decides what each column shows, to people
//! and to programs. `sections.rs` decides which comparisons share a table, and what is special about
//! tables of commands; sentences are in `text.rs`.

#[cfg(test)]
mod agreement_tests;
mod columns;
mod effect;
pub(crate) mod machines;
mod sections;
mod text;

pub use sections::shows_commands;
pub use text::{correction_words, method_words, size};

use crate::case_labels::{LabelLine, distinct};
use crate::cell::{verdict_emphasis, verdict_symbol};
use crate::charts::{MAX_DRAWN_RUNS, threshold_band};
use crate::comparison::columns::{add_columns, add_counts, add_disturbance, verdict_columns};
use crate::comparison::text::HeadlineContext;
use crate::document::{Document, ReportBlock};
use crate::figure::{
    Uncertainty, capitalize_first, format_change, format_change_interval, format_share,
    format_whole, join_texts, uncertainty_of_median,
};
use crate::output::{OutputOptions, Verbosity};
use crate::table::{ReportCell, ReportRow, ReportTable, RowName, TableFootnotes, take_common_text};
use crate::unit::{FigureScale, UnitChoice};
use sections::{
    CaseInComparison, ColumnHeadings, ComparisonSection, SectionRows, baseline_row, group_sections,
};
use speedwell_analysis::{AnalysisFindings, CandidateComparison, CaseComparison};
use speedwell_model::{IntervalEstimate, MetricDirection, Verdict};
use std::borrow::Cow;

/// The machine-readable name of the table.
pub const CHANGES_TABLE: &str = "changes";

/// Maximum number of metrics of one case that each get a sentence above their table.
const MAX_METRIC_HEADLINES: usize = 4;

/// Returns the headline of the first comparison or of the only summary. Empty without either.
pub(crate) fn first_answer(findings: &AnalysisFindings) -> String {
    match (&findings.comparisons[..], &findings.summaries[..]) {
        ([first, others @ ..], _) => {
            let context = HeadlineContext {
                is_only: others.is_empty(),
                is_about_candidate: findings.is_about_candidate,
                ..HeadlineContext::default()
            };
            text::comparison_headline(first, &context, findings)
        }
        ([], [only]) => crate::summary::summary_sentence(only, None),
        _ => String::new(),
    }
}

/// Reports the comparisons, without the failures, warnings and charts that all reports share.
pub fn report_comparison(findings: &AnalysisFindings, output: &OutputOptions) -> Document {
    let mut document = Document::new("comparison");
    let sections = group_sections(&findings.comparisons);
    for section in &sections {
        if sections.len() > 1 {
            document.push_heading(2, section.section_title(&findings.comparisons));
        }
        // With a row for each of many metrics, the table says more than as many sentences.
        let has_many_metrics = section.rows == SectionRows::Metrics
            && section.comparisons.len() > MAX_METRIC_HEADLINES;
        let answered = if has_many_metrics { 1 } else { section.comparisons.len() };
        for comparison in &section.comparisons[..answered] {
            let context = HeadlineContext {
                prefix: match section.rows {
                    SectionRows::Metrics => format!("{}: ", comparison.metric.name),
                    _ => String::new(),
                },
                is_only: findings.comparisons.len() == 1,
                is_about_candidate: findings.is_about_candidate,
                unit: output.unit,
                has_resume_hint: output.has_resume_hint,
            };
            document.push_headline(text::comparison_headline(comparison, &context, findings));
        }
        add_section(section, findings, output, &mut document);
    }
    output.add_detail(&mut document, |output, document| {
        document.push_notes(text::comparison_notes(&findings.comparisons, output.verbosity));
    });
    let data = findings.comparisons.iter().map(text::comparison_data);
    document.attach_data("comparisons", data.collect());
    document
}

/// The sort keys of the table.
pub fn sort_keys() -> Vec<&'static str> {
    verdict_columns(&ColumnHeadings::default(), 0.0, Verbosity::Normal).sort_keys()
}

fn add_section(
    section: &ComparisonSection<'_>,
    findings: &AnalysisFindings,
    output: &OutputOptions,
    document: &mut Document,
) {
    output.add_detail(document, |_, document| {
        document.extend(text::highlight_blocks(section.first_comparison()));
    });
    if section.comparisons.iter().any(|comparison| !comparison.rows.is_empty()) {
        document.push_table(section_table(section, &findings.beside, output));
        if section.rows == SectionRows::Commands {
            output.add_detail(document, |_, document| {
                let sentence = text::runs_sentence(&section.comparisons, findings);
                document.extend(sentence.map(ReportBlock::Paragraph));
            });
        }
        document.push_notes(shared_remarks(&section.named_rows().cases));
        let compared = section.comparisons.iter();
        let machine_notes = compared.flat_map(|comparison| machines::population_notes(comparison));
        document.push_notes(distinct(machine_notes));
        document.push_notes(text::disturbance_note(&section.comparisons));
    }
    let failures = &findings.failures;
    document.extend(text::unmatched_blocks(&section.comparisons, failures, output.verbosity));
}

fn section_table(
    section: &ComparisonSection<'_>,
    beside: &[CandidateComparison],
    output: &OutputOptions,
) -> ReportTable {
    let mut footnotes = TableFootnotes::default();
    let named = section.named_rows();
    let mut lines = prepare_lines(named.cases, output.unit, &mut footnotes);
    let unit = take_common_text(&mut lines, |line| &mut line.unit);
    let runs = take_common_text(&mut lines, |line| &mut line.runs)
        .or_else(|| text::range_of_runs(lines.iter().map(|line| line.row)));
    let confidence = section.first_comparison().confidence;
    let mut columns = verdict_columns(&section.column_headings(), confidence, output.verbosity);
    let section_rows: Vec<&CaseComparison> = lines.iter().map(|line| line.row).collect();
    if section_rows.iter().any(|row| row.baseline.exposure.known_share().is_some()) {
        add_disturbance(&mut columns, output.verbosity);
    }
    add_columns(&mut columns, &section_rows, output.verbosity);
    add_counts(&mut columns, beside);
    let count_runs = |row: &&CaseComparison| row.baseline.runs.len() + row.candidate.runs.len();
    if section_rows.iter().map(count_runs).sum::<usize>() > MAX_DRAWN_RUNS
        && let Some(audience) = output.only_audience()
    {
        columns.retain_audience(audience);
    }
    let are_commands = section.rows == SectionRows::Commands;
    let starts_case = |lines: &[VerdictLine<'_>], index: usize| {
        index == 0 || lines[index].row.case.id() != lines[index - 1].row.case.id()
    };
    let mut rows = Vec::new();
    for label in named.lines {
        match label {
            LabelLine::Group(name) => rows.push(ReportRow::Group(name)),
            LabelLine::Case { index, name } => {
                lines[index].name = name;
                if are_commands && starts_case(&lines, index) {
                    rows.push(baseline_row(&columns, &lines[index]));
                }
                rows.push(columns.build_row(&lines[index]));
                rows.extend(lines[index].row_remark().map(ReportRow::Remark));
            }
        }
    }
    let mut caption = vec![named.shared];
    if !are_commands {
        caption.push(text::comparison_caption(&section.comparisons, unit, runs));
    }
    caption.retain(|line| !line.is_empty());
    ReportTable {
        caption,
        footnotes: footnotes.into_texts(),
        band: threshold_band(section.first_comparison()),
        ..columns.table_of_rows(CHANGES_TABLE, rows)
    }
}

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
fn capitalize_sentence(note: &str) -> String {
    let end = if note.ends_with('.') { "" } else { "." };
    capitalize_first(note) + end
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
