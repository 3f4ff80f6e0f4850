//! Figures that cannot be what they claim: the findings, and what to do about them.
//!
//! Decides on presentation; `analysis/validity/` computes the findings. Start at [`validity`].

use crate::document::{Block, Document};
use crate::table::{Cell, Column, Columns, Emphasis, Kind, Row, Table};
use serde_json::json;
use speedwell_analysis::validity::{Finding, Level, joined};

/// The machine-readable name of the table.
const TABLE: &str = "validity";

/// Builds a table with a row per finding, its explanation and its remedy; empty without findings.
pub fn validity(findings: &[Finding]) -> Document {
    let mut document = Document::new(TABLE);
    if findings.is_empty() {
        return document;
    }
    let columns = columns();
    let mut rows = Vec::new();
    for (at, finding) in findings.iter().enumerate() {
        rows.push(columns.row(finding));
        rows.push(Row::Remark(finding.says.clone()));
        let next = findings.get(at + 1).map(|next| &next.remedy);
        // One remedy serves consecutive findings of the same kind.
        if next != Some(&finding.remedy) {
            rows.push(Row::Remark(format!("→ {}", finding.remedy)));
        }
    }
    document.push(Block::Table(Table {
        caption: vec!["validity of the figures".into()],
        ..columns.table_of_rows(TABLE, rows)
    }));
    document
}

fn columns() -> Columns<Finding> {
    let mut columns = Columns::new();
    columns.add(Column::words("level", "level"), |finding: &Finding| {
        let (name, symbol, emphasis) = match finding.level {
            Level::Red => ("red", '✗', Emphasis::Bad),
            Level::Amber => ("amber", '!', Emphasis::Caution),
        };
        Cell::value(name)
            .shown(format!("{symbol} {name}"))
            .emphasised(emphasis)
    });
    columns.add(Column::new("check", "check", Kind::Identifier), |finding| {
        Cell::words(finding.check.name())
    });
    columns.add_text(Column::new("place", "where", Kind::Label), place);
    columns.add_value("cases", |finding| finding.cases.clone());
    columns.add_value("variants", |finding| finding.variants.clone());
    columns.add_value("runs", |finding| finding.runs.clone());
    columns.add_value("pairs", |finding| json!(finding.pairs));
    columns.add_value("says", |finding| finding.says.clone());
    columns.add_value("remedy", |finding| finding.remedy.clone());
    columns
}

/// `hapi, green`; the number of cases if there are several.
fn place(finding: &Finding) -> String {
    let cases = match finding.names.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        several => Some(format!("{} cases", several.len())),
    };
    let variants = joined(&finding.variants);
    let variants = Some(variants).filter(|names| !names.is_empty());
    let parts: Vec<String> = cases.into_iter().chain(variants).collect();
    if parts.is_empty() {
        "everything".into()
    } else {
        parts.join(", ")
    }
}
