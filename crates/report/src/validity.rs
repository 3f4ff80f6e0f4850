//! Figures that cannot be what they are said to be: what was found and what to do about it.
//!
//! Decides how findings look; what is found is decided in `analysis/validity/`. Start at [`validity`].

use crate::document::{Block, Document, Emphasis};
use crate::table::{Cell, Column, Field, Kind, Row, Table, row_of};
use serde_json::{Value, json};
use speedwell_analysis::validity::{Finding, Level, joined};

/// The name of the table, for machines.
const TABLE: &str = "validity";

/// One table with a row per finding, its sentence and what to do below; nothing without findings.
pub fn validity(findings: &[Finding]) -> Document {
    let mut document = Document::new(TABLE);
    if findings.is_empty() {
        return document;
    }
    let fields = fields();
    let mut rows = Vec::new();
    for (at, finding) in findings.iter().enumerate() {
        rows.push(row_of(&fields, finding));
        rows.push(Row::Remark(finding.says.clone()));
        let next = findings.get(at + 1).map(|next| &next.remedy);
        // One remedy serves all findings of a kind that follow each other.
        if next != Some(&finding.remedy) {
            rows.push(Row::Remark(format!("→ {}", finding.remedy)));
        }
    }
    document.push(Block::Table(Table {
        caption: vec!["validity of the figures".into()],
        columns: fields.into_iter().map(|field| field.column).collect(),
        rows,
        ..Table::new(TABLE)
    }));
    document
}

fn fields() -> Vec<Field<Finding>> {
    let list = |names: &[String]| Cell::value(Value::from(names.to_vec()));
    let level = Column::new("level", "level", Kind::Words);
    let check = Column::new("check", "check", Kind::Identifier);
    vec![
        Field::new(level, |finding: &Finding| {
            let (name, symbol, emphasis) = match finding.level {
                Level::Red => ("red", '✗', Emphasis::Bad),
                Level::Amber => ("amber", '!', Emphasis::Caution),
            };
            Cell::value(name)
                .shown(format!("{symbol} {name}"))
                .emphasised(emphasis)
        }),
        Field::new(check, |finding: &Finding| Cell::words(finding.check.name())),
        Field::people("place", "where", Kind::Label, place),
        Field::machine("cases", move |finding: &Finding| list(&finding.cases)),
        Field::machine("variants", move |finding: &Finding| list(&finding.variants)),
        Field::machine("runs", |finding: &Finding| {
            Cell::value(Value::from(finding.runs.clone()))
        }),
        Field::machine("pairs", |finding: &Finding| {
            Cell::value(json!(finding.pairs))
        }),
        Field::machine("says", |finding: &Finding| {
            Cell::value(finding.says.clone())
        }),
        Field::machine("remedy", |finding: &Finding| {
            Cell::value(finding.remedy.clone())
        }),
    ]
}

/// `hapi, green`; the number of cases where there are several.
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
