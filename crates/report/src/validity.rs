//! Reports figures that are not what their names say, or that mean less than they seem to. Each
//! figure gets an explanation and a remedy.
//!
//! This module only presents findings; `analysis/validity/` computes them. Start at
//! [`report_validity`].

use crate::columns::{ColumnSet, column_set};
use crate::document::{Document, ReportBlock};
use crate::table::{ReportCell, ReportRow, ReportTable, TextEmphasis};
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
    column_set! { finding: ValidityFinding;
        words("level", "level") => match finding.level {
            FindingSeverity::Red => ReportCell::marked("red", '✗', TextEmphasis::Bad),
            FindingSeverity::Amber => ReportCell::marked("amber", '!', TextEmphasis::Caution),
        },
        identifier("check", "check") => finding.check.name(),
        label("location", "where").for_people() => ReportCell::text(finding_place(finding)),
        machine("cases") => json!(finding.cases),
        machine("variants") => json!(finding.variants),
        machine("runs") => json!(finding.runs),
        machine("pairs") => json!(finding.pairs),
        machine("message") => &finding.says,
        machine("remedy") => &finding.remedy,
    }
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
