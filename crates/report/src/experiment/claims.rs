//! Reports the claims and gates of an experiment, with their outcomes.

use crate::columns::column_set;
use crate::document::{Document, ReportBlock};
use crate::figure::{
    Uncertainty, decimal_place, format_change_interval, format_number, format_quantity,
};
use crate::table::{ReportCell, ReportRow, ReportTable, TextEmphasis};
use serde_json::{Value, json};
use speedwell_analysis::experiment::{
    ClaimAnswer, ClaimComparison, ClaimFound, ExperimentFindings,
};

/// Builds a table with a row per claim. For each comparison of the claim, a remark below the row
/// gives the figures of both sides.
pub fn report_claims(found: &ExperimentFindings) -> Document {
    let mut document = Document::new("claims");
    if found.claims.is_empty() {
        return document;
    }
    let columns = column_set! { claim: ClaimFound;
        words("claim", "claim") => &claim.sentence,
        words("answer", "answer") => answer_cell(claim.holds),
        machine("expression") => &claim.text,
        machine("parts") => parts_data(claim),
    };
    let mut rows = Vec::new();
    for claim in &found.claims {
        rows.push(columns.build_row(claim));
        rows.extend(claim.parts.iter().map(comparison_remark).map(ReportRow::Remark));
    }
    document.push(ReportBlock::Table(ReportTable {
        caption: vec!["claims".to_owned()],
        ..columns.table_of_rows("claims", rows)
    }));
    document
}

/// Returns the machine-readable word, the displayed text and the emphasis of an answer.
fn answer_words(answer: ClaimAnswer) -> (&'static str, &'static str, TextEmphasis) {
    match answer {
        ClaimAnswer::Yes => ("holds", "✓ holds", TextEmphasis::Good),
        ClaimAnswer::No => ("fails", "✗ fails", TextEmphasis::Bad),
        ClaimAnswer::Undecided => ("undecided", "? undecided", TextEmphasis::Caution),
    }
}

fn answer_cell(answer: ClaimAnswer) -> ReportCell {
    let (word, shown, emphasis) = answer_words(answer);
    ReportCell::words(word).with_text(shown).with_emphasis(emphasis)
}

/// Describes one comparison of a claim, with its figures.
fn comparison_remark(part: &ClaimComparison) -> String {
    let case_prefix = part.about.as_ref().map(|case| format!("{case}: ")).unwrap_or_default();
    let (_, shown, _) = answer_words(part.holds);
    let sides = part.sides.map_or("not measured".to_owned(), |(left, right)| {
        let figure = |value: f64| match &part.unit {
            Some(unit) => format_quantity(value, unit, Uncertainty::Unknown),
            None => format_figure(value),
        };
        format!("{} against {}", figure(left), figure(right))
    });
    let ratio = part.ratio.map(|ratio| {
        let ends = [ratio.value, ratio.low, ratio.high]
            .map(|end| format_number(end, decimal_place(end, Uncertainty::Unknown)));
        format!(", {} times [{}, {}]", ends[0], ends[1], ends[2])
    });
    format!("{case_prefix}{}: {sides}{} {shown}", part.text, ratio.unwrap_or_default())
}

fn format_figure(value: f64) -> String {
    format_number(value, decimal_place(value, Uncertainty::Unknown))
}

fn parts_data(claim: &ClaimFound) -> Value {
    let data = |part: &ClaimComparison| {
        json!({
            "case": part.about,
            "expression": part.text,
            "answer": answer_words(part.holds).0,
            "left": part.sides.map(|(left, _)| left),
            "right": part.sides.map(|(_, right)| right),
            "ratio": part.ratio.map(|ratio| ratio.value),
            "ratio_low": part.ratio.map(|ratio| ratio.low),
            "ratio_high": part.ratio.map(|ratio| ratio.high),
        })
    };
    claim.parts.iter().map(data).collect()
}

/// Reports how many gates passed, failed or are undecided, with a sentence for each failed gate. A
/// gate is a condition that decides the exit status. Machine-readable output lists all gates.
pub fn report_gates(found: &ExperimentFindings) -> Document {
    let mut document = Document::new("gates");
    if found.gates.is_empty() {
        return document;
    }
    let broken: Vec<String> = found
        .gates
        .iter()
        .filter(|gate| gate.is_broken)
        .map(|gate| {
            let change = gate.change.as_ref().map(format_change_interval).unwrap_or_default();
            format!(
                "'{}' breaks the gate '{}' in {}: {change}",
                gate.candidate, gate.text, gate.case
            )
        })
        .collect();
    let passed_count = found.gates.iter().filter(|gate| gate.is_kept).count();
    let undecided_count = found.gates.len() - passed_count - broken.len();
    let sentence = format!(
        "Gates: {passed_count} of {} passed, {} failed, {undecided_count} undecided.",
        found.gates.len(),
        broken.len()
    );
    document.push(ReportBlock::Paragraph(sentence));
    if !broken.is_empty() {
        document.push(ReportBlock::List(broken));
    }
    let data: Vec<Value> = found
        .gates
        .iter()
        .map(|gate| {
            json!({
                "gate": gate.text,
                "group": gate.group,
                "case": gate.case,
                "candidate": gate.candidate,
                "change": gate.change.map(|change| change.value),
                "change_low": gate.change.map(|change| change.low),
                "change_high": gate.change.map(|change| change.high),
                "passed": gate.is_kept,
                "failed": gate.is_broken,
            })
        })
        .collect();
    document.attach_data("gates", Value::Array(data));
    document
}
