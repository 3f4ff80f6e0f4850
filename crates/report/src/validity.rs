//! Reports figures that are not what their names say, or that mean less than they seem to. Each
//! figure gets an explanation and a remedy.
//!
//! This module only presents findings; `analysis/validity/` computes them. Start at
//! [`report_validity`].

use crate::document::{Document, ReportBlock};
use crate::table::{
    ColumnKind, ColumnSet, ReportCell, ReportColumn, ReportRow, ReportTable, TextEmphasis,
};
use serde_json::json;
use speedwell_analysis::validity::{FindingSeverity, ValidityFinding, join_names};

/// The machine-readable name of the table.
const VALIDITY_TABLE: &str = "validity";

/// Builds a table with a row, an explanation and a remedy for each finding. Without findings, the
/// document is empty.
pub fn report_validity(findings: &[ValidityFinding]) -> Document {
    let mut document = Document::new(VALIDITY_TABLE);
    if findings.is_empty() {
        return document;
    }
    let columns = validity_columns();
    let mut rows = Vec::new();
    for (index, finding) in findings.iter().enumerate() {
        rows.push(columns.build_row(finding));
        rows.push(ReportRow::Remark(finding.says.clone()));
        let next = findings.get(index + 1).map(|next| &next.remedy);
        // Consecutive findings may share a remedy. Print the remedy after the last one.
        if next != Some(&finding.remedy) {
            rows.push(ReportRow::Remark(format!("→ {}", finding.remedy)));
        }
    }
    document.push(ReportBlock::Table(ReportTable {
        caption: vec!["validity of the figures".into()],
        ..columns.table_of_rows(VALIDITY_TABLE, rows)
    }));
    document
}

fn validity_columns() -> ColumnSet<ValidityFinding> {
    let mut columns = ColumnSet::new();
    columns.add_column(ReportColumn::words("level", "level"), |finding: &ValidityFinding| {
        let (name, symbol, emphasis) = match finding.level {
            FindingSeverity::Red => ("red", '✗', TextEmphasis::Bad),
            FindingSeverity::Amber => ("amber", '!', TextEmphasis::Caution),
        };
        ReportCell::value(name).with_text(format!("{symbol} {name}")).with_emphasis(emphasis)
    });
    columns.add_column(ReportColumn::new("check", "check", ColumnKind::Identifier), |finding| {
        ReportCell::words(finding.check.name())
    });
    columns.add_text(ReportColumn::new("location", "where", ColumnKind::Label), finding_place);
    columns.add_value("cases", |finding| finding.cases.clone());
    columns.add_value("variants", |finding| finding.variants.clone());
    columns.add_value("runs", |finding| finding.runs.clone());
    columns.add_value("pairs", |finding| json!(finding.pairs));
    columns.add_value("message", |finding| finding.says.clone());
    columns.add_value("remedy", |finding| finding.remedy.clone());
    columns
}

/// Names the case and the variants of a finding, as in `hapi, green`. Several cases are counted
/// instead, as in `3 cases, green`. A finding without cases and variants is about `everything`.
fn finding_place(finding: &ValidityFinding) -> String {
    let cases = match finding.names.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        several => Some(format!("{} cases", several.len())),
    };
    let variants = Some(join_names(&finding.variants)).filter(|names| !names.is_empty());
    let parts: Vec<String> = cases.into_iter().chain(variants).collect();
    if parts.is_empty() { "everything".into() } else { parts.join(", ") }
}
