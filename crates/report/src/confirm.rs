//! Builds the report of a confirmation, in which suspected changes were measured again.

use super::output::OutputOptions;
use crate::columns::{ColumnSet, column_set};
use crate::comparison::{report_comparison, size};
use crate::document::{Document, ReportBlock};
use crate::failures::report_failures;
use crate::figure::{format_count, quality_words};
use crate::table::{ReportCell, TextEmphasis};
use crate::validity::report_validity;
use speedwell_analysis::AnalysisFindings;
use speedwell_analysis::confirm::{ConfirmationResult, IsMore, read_confirmations};
use speedwell_model::{Metric, MetricDirection};

struct ConfirmLine {
    case: String,
    metric: String,
    outcome: Option<ConfirmationResult>,
    /// Size of the change: `+4.8 % [+4.1, +5.5]`, or `0 -> 1` for a change from zero.
    size: String,
    /// A word for the direction of the change, such as `slower`.
    direction: &'static str,
    runs: usize,
}

/// Builds the report. `is_more` returns the suspected direction of a case's change in a metric.
pub fn report_confirmation(
    findings: &AnalysisFindings,
    is_more: IsMore<'_>,
    output: &OutputOptions,
) -> Document {
    let lines: Vec<ConfirmLine> = read_confirmations(findings, is_more)
        .into_iter()
        .map(|(comparison, row, outcome)| ConfirmLine {
            case: row.case.id(),
            metric: comparison.metric.name.clone(),
            direction: direction_word(&comparison.metric, outcome),
            size: outcome.and_then(|_| size(row, &comparison.metric)).unwrap_or_default(),
            outcome,
            runs: row.baseline.runs.len().min(row.candidate.runs.len()),
        })
        .collect();
    let mut document = Document::new("confirmation");
    document.push_warnings(&findings.warnings);
    document.append_document(report_validity(&findings.validity));
    document.push(ReportBlock::Headline(confirm_headline(&lines)));
    document.push(ReportBlock::Table(confirm_columns().build_table("confirmations", &lines)));
    let mut compared = report_comparison(findings, output);
    compared.blocks.retain(|block| matches!(block, ReportBlock::Table(_) | ReportBlock::Note(_)));
    document.push(ReportBlock::Appendix {
        title: "The comparison".into(),
        instead: None,
        blocks: std::mem::take(&mut compared.blocks),
    });
    document.append_document(report_failures(&findings.failures, output.verbosity));
    document
}

/// Returns a word for the direction of a metric's change.
fn direction_word(metric: &Metric, outcome: Option<ConfirmationResult>) -> &'static str {
    let (good, bad) = quality_words(metric);
    let is_more = outcome.is_some_and(|outcome| outcome.change().value > 0.0);
    if is_more == (metric.better == MetricDirection::Higher) { good } else { bad }
}

/// Builds the report for two sides that are the same program.
pub fn report_identical() -> Document {
    let mut document = Document::new("confirmation");
    document.push(ReportBlock::Headline(
        "refuted: both programs are the same file; check data, machine and environment".into(),
    ));
    document
}

fn confirm_headline(lines: &[ConfirmLine]) -> String {
    if let [only] = lines {
        return match &only.outcome {
            None => "neither confirmed nor refuted: measuring ended too soon".to_owned(),
            Some(ConfirmationResult::Confirmed(_)) => {
                format!("confirmed: {}, {}", only.size, only.direction)
            }
            Some(ConfirmationResult::Refuted(_)) => format!("refuted: {}", only.size),
        };
    }
    let confirmed =
        lines.iter().filter(|line| matches!(line.outcome, Some(ConfirmationResult::Confirmed(_))));
    format!("confirmed in {} of {}", confirmed.count(), format_count(lines.len(), "case", "cases"))
}

/// The sort keys of the table.
pub fn sort_keys() -> Vec<&'static str> {
    confirm_columns().sort_keys()
}

fn confirm_columns() -> ColumnSet<ConfirmLine> {
    column_set! { line: ConfirmLine;
        words("state", "state") => state_cell(line.outcome),
        label("case", "case") => &line.case,
        machine("metric") => &line.metric,
        figure("change", "change") =>
            ReportCell::from(line.outcome.map(|outcome| outcome.change().value))
                .with_text(&line.size),
        machine("change_low") => line.outcome.map(|outcome| outcome.change().low),
        machine("change_high") => line.outcome.map(|outcome| outcome.change().high),
        figure("runs", "runs per side") => line.runs,
    }
}

fn state_cell(outcome: Option<ConfirmationResult>) -> ReportCell {
    let (state, emphasis) = match outcome {
        None => ("open", TextEmphasis::Caution),
        Some(ConfirmationResult::Confirmed(_)) => ("confirmed", TextEmphasis::Strong),
        Some(ConfirmationResult::Refuted(_)) => ("refuted", TextEmphasis::Muted),
    };
    ReportCell::words(state).with_emphasis(emphasis)
}
