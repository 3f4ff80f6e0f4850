//! The main table of a document as comma-separated values (RFC 4180), for spreadsheets and R.
//!
//! The main table is the first one together with all later tables of the same name: every metric
//! and candidate of a comparison, one row per case. Values have every digit and the stored unit;
//! unknown ones are empty. Columns are the same whatever the data; lists (values of single runs) are
//! only in JSON.

use super::Render;
use crate::report::document::Document;
use crate::report::table::{Cell, Table};
use serde_json::Value;
use std::io::{self, Write};

/// Comma-separated values.
#[derive(Debug, Clone, Copy, Default)]
pub struct Csv;

impl Render for Csv {
    fn render(&self, document: &Document, out: &mut dyn Write) -> io::Result<()> {
        let mut tables = document.tables().peekable();
        let Some(main) = tables.peek().map(|table| table.name) else {
            return Ok(());
        };
        let tables: Vec<&Table> = tables.filter(|table| table.name == main).collect();
        let shown = columns(&tables);
        let header = shown.iter().map(|&at| quoted(tables[0].columns[at].key));
        writeln!(out, "{}", header.collect::<Vec<_>>().join(","))?;
        for cells in tables.iter().flat_map(|table| table.cells()) {
            let fields = shown.iter().map(|&at| field(&cells[at]));
            writeln!(out, "{}", fields.collect::<Vec<_>>().join(","))?;
        }
        Ok(())
    }
}

/// The columns for machines that hold no list and no object in any row.
fn columns(tables: &[&Table]) -> Vec<usize> {
    let nested = |at: usize| {
        let mut cells = tables.iter().flat_map(|table| table.cells());
        cells.any(|cells| matches!(cells[at].value, Some(Value::Array(_) | Value::Object(_))))
    };
    tables[0]
        .for_machines()
        .into_iter()
        .filter(|&at| !nested(at))
        .collect()
}

fn field(cell: &Cell) -> String {
    match &cell.value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => quoted(text),
        Some(other) => quoted(&other.to_string()),
    }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::document::Block;
    use crate::report::table::{Column, Kind, Row};

    fn table(name: &'static str, case: &str, figure: Option<f64>) -> Block {
        let columns = vec![
            Column::new("case", "", Kind::Label),
            Column::new("pretty", "", Kind::Figure).for_people(),
            Column::machine("x"),
            Column::machine("values"),
        ];
        let list = Cell::value(vec![1, 2]);
        let row = Row::Cells(vec![
            Cell::words(case),
            Cell::text("1.2 M/s"),
            Cell::figure(figure),
            list,
        ]);
        Block::Table(Table {
            columns,
            rows: vec![row],
            ..Table::new(name)
        })
    }

    #[test]
    fn tables_of_the_same_name_are_one_and_awkward_names_are_quoted() {
        let mut document = Document::new("t");
        document.push(table("changes", "a s=\"x,y\"", Some(1_234_567.891)));
        document.push(table("other", "no", None));
        document.push(table("changes", "b", None));
        let mut out = Vec::new();
        Csv.render(&document, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "case,x\n\"a s=\"\"x,y\"\"\",1234567.891\nb,\n");
    }
}
