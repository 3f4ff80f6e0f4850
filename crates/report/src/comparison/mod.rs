//! Reports comparisons of a baseline with a candidate. For each ([`report_comparison`]), the answer
//! in words comes first, then a table.
//!
//! `table.rs` decides what each cell of the table shows, to people and to programs. `sections.rs`
//! decides which comparisons share a table, and what is special about tables of commands; sentences
//! are in `text.rs`.

#[cfg(test)]
mod agreement_tests;
mod effect;
pub(crate) mod machines;
mod sections;
mod table;
mod text;

pub use sections::shows_commands;
pub use text::{correction_words, method_words, size};

use crate::case_labels::{LabelLine, distinct};
use crate::charts::{MAX_DRAWN_RUNS, threshold_band};
use crate::comparison::sections::{ComparisonSection, SectionRows, baseline_row, group_sections};
use crate::comparison::table::{
    ColumnHeadings, VerdictLine, add_columns, add_counts, add_disturbance, prepare_lines,
    shared_remarks, verdict_columns,
};
use crate::comparison::text::HeadlineContext;
use crate::document::{Document, ReportBlock};
use crate::output::{OutputOptions, Verbosity};
use crate::table::{ReportRow, ReportTable, TableFootnotes, take_common_text};
use speedwell_analysis::{AnalysisFindings, CandidateComparison, CaseComparison};

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
