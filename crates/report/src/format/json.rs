//! Documents as one JSON object, for programs. Figures have every digit and the stored unit.
//!
//! # Schema, version 1
//!
//! | member | content |
//! |---|---|
//! | `speedwell` | `{"report": KIND, "schema": 1}`; KIND is `comparison`, `summary`, `study`, `sessions` ... |
//! | `headlines` | the answers in words |
//! | `warnings` | threats to the figures, in words |
//! | `notes` | explanations |
//! | one member per table name | a list with one object per row, all with the same members in the same order |
//! | further members | lists that are no table: `comparisons`, `failures`, `sources`, `environments`, `exponents` |
//!
//! The tables are `changes` (one row per case, candidate and metric), `summaries` (one per case,
//! variant and metric), `validity` (one per finding), `points` of a study, `sessions`, `checks` and `cases`. Shares
//! (`change`, `variation`, `q` ...) are fractions of 1, not percentages. `null` is "not known".
//! Members may be added within a version; none changes its meaning or goes away.

use super::Render;
use crate::document::{Block, Document};
use crate::table::{Cell, Table};
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// The version of the schema; a change that breaks readers counts it up.
pub const SCHEMA: u32 = 1;

/// One JSON object.
#[derive(Debug, Clone, Copy, Default)]
pub struct Json;

impl Render for Json {
    fn render(&self, document: &Document, out: &mut dyn Write) -> io::Result<()> {
        let Value::Object(members) = value_of(document) else {
            return Ok(());
        };
        let last = members.len().saturating_sub(1);
        writeln!(out, "{{")?;
        for (at, (name, value)) in members.iter().enumerate() {
            write!(out, "  {}: ", Value::from(name.as_str()))?;
            member(value, out)?;
            writeln!(out, "{}", if at < last { "," } else { "" })?;
        }
        writeln!(out, "}}")
    }
}

/// Writes a member with one element of a list per line: rows can be distinguished in a difference of two
/// files, and thousands of values do not take as many lines.
fn member(value: &Value, out: &mut dyn Write) -> io::Result<()> {
    match value {
        Value::Array(items) if !items.is_empty() => {
            writeln!(out, "[")?;
            for (at, item) in items.iter().enumerate() {
                let comma = if at + 1 < items.len() { "," } else { "" };
                writeln!(out, "    {item}{comma}")?;
            }
            write!(out, "  ]")
        }
        other => write!(out, "{other}"),
    }
}

fn value_of(document: &Document) -> Value {
    let mut object = Map::new();
    object.insert(
        "speedwell".into(),
        json!({"report": document.report, "schema": SCHEMA}),
    );
    let picks: [(&str, Pick); 3] = [
        ("headlines", |block| match block {
            Block::Headline(text) => Some(text),
            _ => None,
        }),
        ("warnings", |block| match block {
            Block::Warning(text) => Some(text),
            _ => None,
        }),
        ("notes", |block| match block {
            Block::Note(text) => Some(text),
            _ => None,
        }),
    ];
    for (name, pick) in picks {
        object.insert(name.into(), sentences(document, pick));
    }
    for table in document.tables() {
        let rows = object
            .entry(table.name)
            .or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(rows) = rows {
            rows.extend(table.cells().map(|cells| row(table, cells)));
        }
    }
    for (name, value) in &document.data {
        // A document about several sessions has the same list several times.
        match (object.get_mut(*name), value) {
            (Some(Value::Array(known)), Value::Array(more)) => known.extend(more.iter().cloned()),
            _ => drop(object.insert((*name).to_owned(), value.clone())),
        }
    }
    Value::Object(object)
}

fn row(table: &Table, cells: &[Cell]) -> Value {
    let member = |at: usize| {
        let value = cells[at].value.clone().unwrap_or(Value::Null);
        (table.columns[at].key.to_owned(), value)
    };
    Value::Object(table.for_machines().into_iter().map(member).collect())
}

/// The sentence of a block, if it is of the kind that is looked for.
type Pick = fn(&Block) -> Option<&String>;

/// The sentences of all blocks of one kind.
fn sentences(document: &Document, pick: Pick) -> Value {
    let blocks = document.walk().into_iter();
    blocks
        .filter_map(pick)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Column;
    use crate::table::Kind;
    use crate::table::Row;

    #[test]
    fn every_row_has_every_member_and_pretty_text_stays_outside() {
        let columns = vec![
            Column::new("case", "", Kind::Label),
            Column::new("pretty", "", Kind::Figure).for_people(),
            Column::machine("p"),
        ];
        let row = |p| Row::Cells(vec![Cell::words("a"), Cell::text("x"), Cell::figure(p)]);
        let table = Table {
            columns,
            rows: vec![row(Some(0.25)), row(None)],
            ..Table::new("changes")
        };
        let mut document = Document::new("comparison");
        document.push(Block::Headline("new is faster".into()));
        document.push(Block::Table(table));
        document.attach("environments", json!([{"cpus": 4}]));
        document.attach("environments", json!([{"cpus": 8}]));
        assert_eq!(
            value_of(&document),
            json!({
                "speedwell": {"report": "comparison", "schema": 1},
                "headlines": ["new is faster"],
                "warnings": [],
                "notes": [],
                "changes": [{"case": "a", "p": 0.25}, {"case": "a", "p": null}],
                "environments": [{"cpus": 4}, {"cpus": 8}],
            })
        );
        let mut written = Vec::new();
        Json.render(&document, &mut written).unwrap();
        assert_eq!(
            serde_json::from_slice::<Value>(&written).unwrap(),
            value_of(&document)
        );
        assert!(
            String::from_utf8(written)
                .unwrap()
                .contains("\n    {\"case\":\"a\",\"p\":0.25},\n")
        );
    }
}
