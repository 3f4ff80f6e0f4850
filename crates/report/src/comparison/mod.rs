//! Reports comparisons of a baseline with candidates. For each comparison, the answer in words
//! comes first, then a table.
//!
//! This module decides which comparisons share a table. Usually, a table shows one comparison, with
//! a row per case. If all comparisons have the same single case, one table shows them all, with a
//! row per comparison: per metric of a load test, or per candidate if several snippets of code are
//! compared. Sentences are in `text.rs`, rows and columns in `rows.rs`.

#[cfg(test)]
mod agreement_tests;
pub(crate) mod rows;
mod text;

pub use rows::{verdict_emphasis, verdict_symbol};
pub use text::{correction_words, method_words, size};

use crate::case_labels::{CaseLabels, LabelLine, distinct};
use crate::charts::{MAX_DRAWN_RUNS, threshold_band};
use crate::comparison::rows::CaseInComparison;
use crate::document::{Document, ReportBlock};
use crate::figure::{better_direction, format_change_interval, format_count};
use crate::output::{OutputOptions, Verbosity};
use crate::table::{
    ReportRow, ReportTable, RowName, TableFootnotes, json_number, take_common_text,
};
use serde_json::{Value, json};
use speedwell_analysis::{
    AnalysisFindings, CandidateComparison, CaseComparison, StatisticalMethod, TestingCorrection,
};
use speedwell_model::{IntervalEstimate, StepFailure, Verdict};
use std::sync::Arc;

/// The machine-readable name of the table.
pub const CHANGES_TABLE: &str = "changes";

/// Reports the comparisons, without the failures, warnings and charts that all reports share.
pub fn report_comparison(findings: &AnalysisFindings, output: &OutputOptions) -> Document {
    let mut document = Document::new("comparison");
    let sections = group_sections(&findings.comparisons);
    for section in &sections {
        if sections.len() > 1 {
            document.push_heading(2, section.section_title(&findings.comparisons));
        }
        for comparison in &section.comparisons {
            let subject = section.sentence_prefix(comparison);
            // The sentence names the metric, unless its subject already does.
            let change = match &*subject {
                "" => &*comparison.metric.name,
                _ => "change",
            };
            let (ended_after, failures) = (findings.ended_after, &findings.failures);
            let sentence = text::comparison_headline(comparison, change, ended_after, failures);
            document.push_headline(subject + &sentence);
        }
        add_section(section, &findings.failures, output, &mut document);
    }
    output.add_detail(&mut document, |output, document| {
        let notes = text::comparison_notes(&findings.comparisons, output.verbosity);
        document.extend(notes.into_iter().map(ReportBlock::Note));
    });
    document.attach_data("comparisons", comparisons_data(&findings.comparisons));
    document
}

/// The sort keys of the table.
pub fn sort_keys() -> Vec<&'static str> {
    rows::verdict_columns(["", "", ""], 0.0, Verbosity::Normal).sort_keys()
}

fn add_section(
    section: &ComparisonSection<'_>,
    failures: &[StepFailure],
    output: &OutputOptions,
    document: &mut Document,
) {
    output.add_detail(document, |_, document| {
        document.extend(highlight_blocks(section.first_comparison()));
    });
    if section.comparisons.iter().any(|comparison| !comparison.rows.is_empty()) {
        document.push_table(section_table(section, output));
        let shared = rows::shared_remarks(&section.named_rows().cases);
        document.extend(shared.into_iter().map(ReportBlock::Note));
        let machine_notes =
            section.comparisons.iter().flat_map(|comparison| rows::population_notes(comparison));
        document.extend(distinct(machine_notes).into_iter().map(ReportBlock::Note));
    }
    document.extend(unmatched_blocks(&section.comparisons, failures, output.verbosity));
}

fn section_table(section: &ComparisonSection<'_>, output: &OutputOptions) -> ReportTable {
    let mut footnotes = TableFootnotes::default();
    let named = section.named_rows();
    let mut lines = rows::prepare_lines(named.cases, output.unit, &mut footnotes);
    let unit = take_common_text(&mut lines, |line| &mut line.unit);
    let runs = take_common_text(&mut lines, |line| &mut line.runs);
    let headers = [section.names_header(), section.baseline_header(), section.candidate_header()];
    let mut columns =
        rows::verdict_columns(headers, section.first_comparison().confidence, output.verbosity);
    let mut section_rows = section.comparisons.iter().flat_map(|comparison| &comparison.rows);
    if section_rows.any(|row| row.baseline.exposure.known_share().is_some()) {
        rows::add_disturbance(&mut columns);
    }
    let section_rows: Vec<&CaseComparison> = lines.iter().map(|line| line.row).collect();
    rows::add_columns(&mut columns, &section_rows, output.verbosity);
    let count_runs = |row: &&CaseComparison| row.baseline.runs.len() + row.candidate.runs.len();
    if section_rows.iter().map(count_runs).sum::<usize>() > MAX_DRAWN_RUNS
        && let Some(audience) = output.only_audience()
    {
        columns.retain_audience(audience);
    }
    let mut rows = Vec::new();
    for label in named.lines {
        match label {
            LabelLine::Group(name) => rows.push(ReportRow::Group(name)),
            LabelLine::Case { index, name } => {
                lines[index].name = name;
                rows.push(columns.build_row(&lines[index]));
                rows.extend(lines[index].row_remark().map(ReportRow::Remark));
            }
        }
    }
    let caption = [Some(named.shared), text::comparison_caption(&section.comparisons, unit, runs)];
    ReportTable {
        caption: caption.into_iter().flatten().filter(|line| !line.is_empty()).collect(),
        footnotes: footnotes.into_texts(),
        band: threshold_band(section.first_comparison()),
        ..columns.table_of_rows(CHANGES_TABLE, rows)
    }
}

/// Comparisons that share a table; never empty.
#[derive(Debug)]
pub struct ComparisonSection<'a> {
    /// The kind of rows in the section's table.
    pub rows: SectionRows,
    /// The section's comparisons. All have the same baseline, unless the rows are pairs.
    pub comparisons: Vec<&'a CandidateComparison>,
}

/// The kind of rows in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectionRows {
    /// Cases of one comparison.
    Cases,
    /// Metrics of a single case.
    Metrics,
    /// Candidates in a single case.
    Candidates,
    /// Pairs, each with its own baseline, in a single case.
    Pairs,
}

/// The rows of a table with their names.
pub struct NamedRows<'a> {
    /// The case, or the benchmark, folder or parameters, that all rows share, as text for the
    /// caption; may be empty.
    pub shared: String,
    /// Headings and rows in the order of the table.
    pub lines: Vec<LabelLine>,
    /// The case for each index in `lines`.
    pub cases: Vec<CaseInComparison<'a>>,
}

/// Groups comparisons into tables, keeping their order.
pub fn group_sections(comparisons: &[CandidateComparison]) -> Vec<ComparisonSection<'_>> {
    let mut sections: Vec<ComparisonSection<'_>> = Vec::new();
    for comparison in comparisons {
        let joined = sections.last_mut().is_some_and(|section| section.try_join(comparison));
        if !joined {
            sections.push(ComparisonSection {
                rows: SectionRows::Cases,
                comparisons: vec![comparison],
            });
        }
    }
    sections
}

impl<'a> ComparisonSection<'a> {
    /// Returns the first comparison, for properties that all comparisons share.
    pub fn first_comparison(&self) -> &'a CandidateComparison {
        self.comparisons[0]
    }

    /// Adds `other` if it belongs to the same table. Returns whether it was added.
    fn try_join(&mut self, other: &'a CandidateComparison) -> bool {
        let first = self.first_comparison();
        if single_case(first).is_none() || single_case(first) != single_case(other) {
            return false;
        }
        let rows = match (
            first.baseline == other.baseline,
            first.candidate == other.candidate,
            first.metric == other.metric,
        ) {
            (true, true, false) => SectionRows::Metrics,
            (true, false, true) if self.rows != SectionRows::Pairs => SectionRows::Candidates,
            (_, _, true) => SectionRows::Pairs,
            _ => return false,
        };
        // Candidates of one baseline become pairs once there is another baseline.
        let widens = (self.rows, rows) == (SectionRows::Candidates, SectionRows::Pairs);
        if self.comparisons.len() > 1 && rows != self.rows && !widens {
            return false;
        }
        self.rows = rows;
        self.comparisons.push(other);
        true
    }

    /// Returns the section's title. `all` are the comparisons of all sections: the title names only
    /// what differs between them.
    pub fn section_title(&self, all: &[CandidateComparison]) -> String {
        let first = self.first_comparison();
        if self.rows == SectionRows::Pairs {
            return first.metric.name.clone();
        }
        let sides = match self.rows {
            SectionRows::Candidates => format!("all against {}", first.baseline),
            _ => format!("{} against {}", first.candidate, first.baseline),
        };
        let several_sides = all.iter().any(|other| other.candidate != first.candidate);
        let several_metrics = all.iter().any(|other| other.metric != first.metric);
        match (several_sides, several_metrics && self.rows != SectionRows::Metrics) {
            (true, true) => format!("{}: {sides}", first.metric.name),
            (false, true) => first.metric.name.clone(),
            _ => sides,
        }
    }

    /// Returns the prefix that distinguishes one comparison of this section in a sentence.
    pub fn sentence_prefix(&self, comparison: &CandidateComparison) -> String {
        match self.rows {
            SectionRows::Metrics => format!("{}: ", comparison.metric.name),
            SectionRows::Cases | SectionRows::Candidates | SectionRows::Pairs => String::new(),
        }
    }

    /// Heading of the column of names.
    pub fn names_header(&self) -> &'static str {
        match self.rows {
            SectionRows::Cases => "case",
            SectionRows::Metrics => "metric",
            SectionRows::Candidates => "candidate",
            SectionRows::Pairs => "candidate against baseline",
        }
    }

    /// Heading of the baseline's column.
    pub fn baseline_header(&self) -> &str {
        match self.rows {
            SectionRows::Pairs => "baseline",
            _ => &self.first_comparison().baseline,
        }
    }

    /// Heading of the candidates' column.
    pub fn candidate_header(&self) -> &str {
        match self.rows {
            SectionRows::Candidates | SectionRows::Pairs => "candidate",
            SectionRows::Cases | SectionRows::Metrics => &self.first_comparison().candidate,
        }
    }

    /// The rows and their names.
    pub fn named_rows(&self) -> NamedRows<'a> {
        let rows = |comparison: &&'a CandidateComparison| {
            let comparison = *comparison;
            comparison.rows.iter().map(move |row| (comparison, row))
        };
        let compared_cases: Vec<CaseInComparison<'a>> =
            self.comparisons.iter().flat_map(rows).collect();
        if self.rows == SectionRows::Cases {
            let cases: Vec<_> =
                compared_cases.iter().map(|(_, row)| Arc::clone(&row.case)).collect();
            let labels = CaseLabels::new(&cases);
            return NamedRows { shared: labels.shared, lines: labels.lines, cases: compared_cases };
        }
        let line = |(index, (comparison, _)): (usize, &CaseInComparison<'a>)| {
            let name = match self.rows {
                SectionRows::Metrics => metric_name(comparison),
                SectionRows::Cases | SectionRows::Candidates => {
                    RowName::plain(comparison.candidate.as_str())
                }
                SectionRows::Pairs => RowName {
                    full: format!("{} against {}", comparison.candidate, comparison.baseline),
                    short: format!("{} / {}", comparison.candidate, comparison.baseline),
                },
            };
            LabelLine::Case { index, name }
        };
        let lines = compared_cases.iter().enumerate().map(line).collect();
        NamedRows { shared: compared_cases[0].1.case.id(), lines, cases: compared_cases }
    }
}

fn single_case(comparison: &CandidateComparison) -> Option<String> {
    match &comparison.rows[..] {
        [only] => Some(only.case.id()),
        _ => None,
    }
}

fn metric_name(comparison: &CandidateComparison) -> RowName {
    let metric = &comparison.metric;
    RowName {
        full: format!("{} ({})", metric.name, better_direction(metric.better)),
        short: metric.name.clone(),
    }
}

/// Maximum number of rows of a table without a list of highlights above it.
const MAX_SHORT_TABLE: usize = 20;
/// Maximum number of cases named per verdict.
const MAX_NAMED_CHANGES: usize = 5;

/// Lists up to five of the worst and five of the best cases. Empty for a short table.
fn highlight_blocks(comparison: &CandidateComparison) -> Vec<ReportBlock> {
    if comparison.rows.len() <= MAX_SHORT_TABLE {
        return Vec::new();
    }
    let mut items = Vec::new();
    for verdict in [Verdict::Worse, Verdict::Better] {
        items.extend(
            largest_changes(comparison, verdict)
                .into_iter()
                .map(|row| highlight_text(row, verdict)),
        );
    }
    if items.is_empty() {
        return Vec::new();
    }
    vec![ReportBlock::Paragraph("Largest changes:".to_owned()), ReportBlock::List(items)]
}

fn largest_changes(comparison: &CandidateComparison, verdict: Verdict) -> Vec<&CaseComparison> {
    let size = |row: &CaseComparison| row.change.map_or(0.0, |change| change.value.abs());
    let mut rows: Vec<_> = comparison.rows_with_verdict(verdict).collect();
    rows.sort_by(|a, b| size(b).total_cmp(&size(a)));
    rows.truncate(MAX_NAMED_CHANGES);
    rows
}

fn highlight_text(row: &CaseComparison, verdict: Verdict) -> String {
    let change = row.change.as_ref().map(format_change_interval).unwrap_or_default();
    format!("{} {verdict} {change} {}", verdict_symbol(verdict), row.case.id())
}

/// Maximum number of unmatched cases that are named by default.
const MAX_NAMED_UNMATCHED: usize = 8;

/// Lists the cases that only one side has, for each side.
fn unmatched_blocks(
    comparisons: &[&CandidateComparison],
    failures: &[StepFailure],
    verbosity: Verbosity,
) -> Vec<ReportBlock> {
    let mut blocks = Vec::new();
    let sides = comparisons.iter().flat_map(|comparison| {
        [
            (&comparison.baseline, &comparison.only_baseline),
            (&comparison.candidate, &comparison.only_candidate),
        ]
    });
    for (variant, ids) in distinct(sides.filter(|(_, ids)| !ids.is_empty())) {
        let cases = format_count(ids.len(), "case", "cases");
        blocks.push(ReportBlock::Paragraph(format!("Not compared, only in {variant} ({cases}):")));
        let named = if verbosity == Verbosity::Verbose {
            ids.len()
        } else {
            MAX_NAMED_UNMATCHED.min(ids.len())
        };
        let mut items: Vec<String> = (ids[..named].iter())
            .map(|id| match failed_partner(id, variant, comparisons, failures) {
                Some(failed) => format!("{id}: {failed}"),
                None => id.clone(),
            })
            .collect();
        if named < ids.len() {
            items.push(format!("and {} more", ids.len() - named));
        }
        blocks.push(ReportBlock::List(items));
    }
    blocks
}

/// Describes how the other side of a case failed; `None` if it did not fail.
fn failed_partner(
    id: &str,
    variant: &str,
    comparisons: &[&CandidateComparison],
    failures: &[StepFailure],
) -> Option<String> {
    let is_partner = |name: &str| {
        comparisons.iter().any(|comparison| {
            [
                (&comparison.baseline, &comparison.candidate),
                (&comparison.candidate, &comparison.baseline),
            ]
            .iter()
            .any(|(one, other)| *one == variant && *other == name)
        })
    };
    let failure = failures.iter().find(|failure| {
        let is_case = failure.case.as_deref() == Some(id);
        is_case && failure.variant.as_deref().is_some_and(is_partner)
    })?;
    let partner = failure.variant.as_deref().unwrap_or_default();
    Some(format!("{partner} {}", failure.cause))
}

/// Returns one object per comparison.
fn comparisons_data(comparisons: &[CandidateComparison]) -> Value {
    comparisons.iter().map(comparison_data).collect()
}

fn comparison_data(comparison: &CandidateComparison) -> Value {
    let count = |verdict| comparison.rows_with_verdict(verdict).count();
    let withheld = comparison.rows.iter().filter(|row| row.withheld.is_some());
    let mut data = json!({
        "baseline": comparison.baseline,
        "candidate": comparison.candidate,
        "metric": comparison.metric,
        "method": method_name(comparison.method),
        "confidence": comparison.confidence,
        "delta": comparison.delta,
        "correction": correction_name(comparison.correction),
        "cases": comparison.rows.len(),
        "verdicts": {
            "better": count(Verdict::Better),
            "worse": count(Verdict::Worse),
            "same": count(Verdict::Same),
            "unclear": count(Verdict::Unclear),
        },
        "overall": comparison.typical().as_ref().map(estimate_data),
        "range": comparison.range().map(|ends| ends.map(|end| json_number(end.value))),
        "only_baseline": comparison.only_baseline,
        "only_candidate": comparison.only_candidate,
    });
    let withheld = withheld.count();
    if withheld > 0 {
        data["verdicts"]["withheld"] = json!(withheld);
    }
    data
}

/// Returns an estimate as data; bounds that are not finite become `null`.
fn estimate_data(estimate: &IntervalEstimate) -> Value {
    json!({
        "value": json_number(estimate.value),
        "low": json_number(estimate.low),
        "high": json_number(estimate.high),
    })
}

/// Returns a method's name in `--method`.
fn method_name(method: StatisticalMethod) -> &'static str {
    match method {
        StatisticalMethod::Rank => "rank",
        StatisticalMethod::SignedRank => "signed-rank",
        StatisticalMethod::Welch => "welch",
        StatisticalMethod::MannWhitney => "mann-whitney",
        StatisticalMethod::Bootstrap => "bootstrap",
    }
}

/// Returns a correction's name in `--correct`.
fn correction_name(correction: TestingCorrection) -> &'static str {
    match correction {
        TestingCorrection::BenjaminiHochberg => "bh",
        TestingCorrection::Holm => "holm",
        TestingCorrection::None => "none",
    }
}
