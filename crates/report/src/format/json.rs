//! Writes documents for programs: as one JSON object, or the main table as CSV. Numbers have full
//! precision and are in the stored unit.
//!
//! `docs/reference/report.schema.json` describes the members of JSON: headlines, warnings and notes
//! as sentences; one list per table name, with one object per row, all with the same members in the
//! same order; and further data. Ratios (`change`, `variation`, `q` ...) are fractions (0.05), not
//! percentages (5). `null` means "not known". A version may gain members, but no member is removed
//! or changes its meaning.

use crate::document::{Document, RenderDocument, ReportBlock};
use crate::format::escape_line;
use crate::table::{Datum, ReportCell, ReportTable};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::io::{self, Write};

/// The schema version, incremented by changes that break readers.
pub const SCHEMA_VERSION: u32 = 1;

/// A single JSON object.
#[derive(Debug, Clone, Copy, Default)]
pub struct Json;

impl RenderDocument for Json {
    fn render(&self, document: &Document, out: &mut dyn Write) -> io::Result<()> {
        let members = members_of(document);
        writeln!(out, "{{")?;
        for (index, (name, member)) in members.iter().enumerate() {
            write!(out, "  {}: ", Value::from(*name))?;
            member.write(out)?;
            writeln!(out, "{}", if index + 1 < members.len() { "," } else { "" })?;
        }
        writeln!(out, "}}")
    }
}

/// The value of a member.
enum JsonMember<'a> {
    List(Vec<ListItem<'a>>),
    Other(Cow<'a, Value>),
}

/// An element of a list. Rows are converted to JSON one by one while writing: the converted rows of
/// a large table may not fit in memory together.
enum ListItem<'a> {
    Value(Cow<'a, Value>),
    Row(&'a ReportTable, &'a [ReportCell]),
}

impl JsonMember<'_> {
    /// Writes the value. A list takes one line per element. A diff then shows which rows changed,
    /// without a line for every value of a row.
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            JsonMember::List(items) if !items.is_empty() => {
                writeln!(out, "[")?;
                for (index, item) in items.iter().enumerate() {
                    let comma = if index + 1 < items.len() { "," } else { "" };
                    let value = match item {
                        ListItem::Value(value) => Cow::Borrowed(&**value),
                        ListItem::Row(table, cells) => Cow::Owned(row_value(table, cells)),
                    };
                    writeln!(out, "    {value}{comma}")?;
                }
                write!(out, "  ]")
            }
            JsonMember::List(_) => write!(out, "[]"),
            JsonMember::Other(other) => write!(out, "{other}"),
        }
    }
}

fn members_of(document: &Document) -> Vec<(&str, JsonMember<'_>)> {
    let report = json!({"report": document.report, "schema": SCHEMA_VERSION});
    let sentences_of = |is_of_kind: fn(&ReportBlock) -> bool| {
        let blocks = document.all_blocks().into_iter().filter(|block| is_of_kind(block));
        let sentences = blocks.filter_map(|block| block.sentence());
        JsonMember::List(sentences.map(|text| ListItem::Value(Cow::Owned(text.into()))).collect())
    };
    let mut members = vec![
        ("speedwell", JsonMember::Other(Cow::Owned(report))),
        ("headlines", sentences_of(ReportBlock::is_headline)),
        ("warnings", sentences_of(|block| matches!(block, ReportBlock::Warning(_)))),
        ("notes", sentences_of(|block| matches!(block, ReportBlock::Note(_)))),
    ];
    for table in document.tables().filter(has_machine_columns) {
        let rows = table.cell_rows().map(|cells| ListItem::Row(table, cells));
        add_member(&mut members, table.name, JsonMember::List(rows.collect()));
    }
    for (name, value) in &document.data {
        let item = |item| ListItem::Value(Cow::Borrowed(item));
        let member = match value {
            Value::Array(list) => JsonMember::List(list.iter().map(item).collect()),
            other => JsonMember::Other(Cow::Borrowed(other)),
        };
        add_member(&mut members, name, member);
    }
    members
}

/// Adds a member. Lists of the same name are joined: those of several tables, and those that a
/// document about several sessions attaches for each session.
fn add_member<'a>(
    members: &mut Vec<(&'a str, JsonMember<'a>)>,
    name: &'a str,
    member: JsonMember<'a>,
) {
    let Some((_, existing)) = members.iter_mut().find(|(other, _)| *other == name) else {
        members.push((name, member));
        return;
    };
    match (existing, member) {
        (JsonMember::List(list), JsonMember::List(more)) => list.extend(more),
        (existing, member) => *existing = member,
    }
}

/// Whether the table is for programs, too.
fn has_machine_columns(table: &&ReportTable) -> bool {
    !table.for_machines().is_empty()
}

fn row_value(table: &ReportTable, cells: &[ReportCell]) -> Value {
    let member = |column: usize| {
        let cell = &cells[column];
        let value = match cell.runs() {
            Some(runs) => runs.to_json(),
            None => cell.value.as_ref().map_or(Value::Null, Datum::to_json),
        };
        (table.columns[column].key.to_owned(), value)
    };
    Value::Object(table.for_machines().into_iter().map(member).collect())
}

// Writes the main table of a document as comma-separated values (RFC 4180), for spreadsheets and
// R.
//
// The main table consists of the first table and all later tables of the same name. In a
// comparison, these are the tables of all metrics and candidates, with one row per case. Numbers
// have every digit and are in the stored unit. An unknown value is an empty field. Control
// characters in names are written as `\x0a`.
//
// The columns of a comparison do not depend on the data, except that kernel figures and machines
// have columns only if they were recorded. Lists (the values of single runs) are only in JSON. No
// cell is executed by a spreadsheet: see [`neutralize_formula`].

/// Comma-separated values.
#[derive(Debug, Clone, Copy, Default)]
pub struct Csv;

impl RenderDocument for Csv {
    fn render(&self, document: &Document, out: &mut dyn Write) -> io::Result<()> {
        let mut tables = document.tables().filter(has_machine_columns).peekable();
        let Some(main) = tables.peek().map(|table| table.name) else { return Ok(()) };
        let tables: Vec<&ReportTable> = tables.filter(|table| table.name == main).collect();
        let shown = flat_columns(&tables);
        let header = shown.iter().map(|&column| quote_field(tables[0].columns[column].key));
        writeln!(out, "{}", header.collect::<Vec<_>>().join(","))?;
        for cells in tables.iter().flat_map(|table| table.cell_rows()) {
            let fields = shown.iter().map(|&column| format_field(&cells[column]));
            writeln!(out, "{}", fields.collect::<Vec<_>>().join(","))?;
        }
        Ok(())
    }
}

/// Returns the indexes of the machine-readable columns without lists and objects.
fn flat_columns(tables: &[&ReportTable]) -> Vec<usize> {
    let has_nested = |column: usize| {
        let mut cells = tables.iter().flat_map(|table| table.cell_rows());
        cells.any(|cells| {
            let is_nested = cells[column].value.as_ref().is_some_and(Datum::is_nested);
            is_nested || cells[column].runs().is_some()
        })
    };
    tables[0].for_machines().into_iter().filter(|&column| !has_nested(column)).collect()
}

fn format_field(cell: &ReportCell) -> String {
    match &cell.value {
        None => String::new(),
        // `escape_line` keeps each name on one line, for line-based tools and terminals.
        Some(Datum::Text(text)) => quote_field(&neutralize_formula(&escape_line(text))),
        Some(Datum::Number(number)) => quote_field(&number.to_string()),
        Some(Datum::Other(value)) if value.is_null() => String::new(),
        Some(Datum::Other(value)) => quote_field(&escape_line(&value.to_string())),
    }
}

/// Neutralizes text that a spreadsheet would execute as a formula: an apostrophe in front makes it
/// plain text (OWASP, "CSV injection"). Text that already has apostrophes in front of a formula
/// gets one more, so that removing one apostrophe always restores the stored text. Numbers are
/// unchanged.
fn neutralize_formula(text: &str) -> Cow<'_, str> {
    let first = text.trim_start_matches('\'');
    let is_formula = first.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if is_formula && text.parse::<f64>().is_err() {
        Cow::Owned(format!("'{text}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Puts a field in quotes if it contains a comma, a quote or a line break (RFC 4180).
pub fn quote_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{ColumnKind, ReportColumn, ReportRow};

    #[test]
    fn every_json_row_has_every_member_without_the_display_text() {
        let columns = vec![
            ReportColumn::new("case", "", ColumnKind::Label),
            ReportColumn::new("pretty", "", ColumnKind::Figure).for_people(),
            ReportColumn::machine("p"),
        ];
        let row = |p| {
            ReportRow::Cells(vec![
                ReportCell::words("a"),
                ReportCell::text("x"),
                ReportCell::figure(p),
            ])
        };
        let table = ReportTable {
            columns,
            rows: vec![row(Some(0.25)), row(None)],
            ..ReportTable::new("changes")
        };
        let mut document = Document::new("comparison");
        document.push_headline("new is faster");
        document.push_table(table);
        document.attach_data("environments", json!([{"cpus": 4}]));
        document.attach_data("environments", json!([{"cpus": 8}]));
        let mut written = Vec::new();
        Json.render(&document, &mut written).unwrap();
        assert_eq!(
            serde_json::from_slice::<Value>(&written).unwrap(),
            json!({
                "speedwell": {"report": "comparison", "schema": 1},
                "headlines": ["new is faster"],
                "warnings": [],
                "notes": [],
                "changes": [{"case": "a", "p": 0.25}, {"case": "a", "p": null}],
                "environments": [{"cpus": 4}, {"cpus": 8}],
            })
        );
        assert!(
            String::from_utf8(written).unwrap().contains("\n    {\"case\":\"a\",\"p\":0.25},\n")
        );
    }

    fn table(name: &'static str, case: &str, figure: Option<f64>) -> ReportBlock {
        let columns = vec![
            ReportColumn::new("case", "", ColumnKind::Label),
            ReportColumn::new("pretty", "", ColumnKind::Figure).for_people(),
            ReportColumn::machine("x"),
            ReportColumn::machine("values"),
        ];
        let list = ReportCell::value(vec![1, 2]);
        let row = ReportRow::Cells(vec![
            ReportCell::words(case),
            ReportCell::text("1.2 M/s"),
            ReportCell::figure(figure),
            list,
        ]);
        ReportBlock::Table(ReportTable { columns, rows: vec![row], ..ReportTable::new(name) })
    }

    #[test]
    fn tables_of_the_same_name_are_merged_and_special_characters_quoted() {
        let mut document = Document::new("t");
        let columns = vec![ReportColumn::new("shown", "", ColumnKind::Label).for_people()];
        document.push_table(ReportTable { columns, ..ReportTable::new("people") });
        document.push(table("changes", "a s=\"x,y\"", Some(1_234_567.891)));
        document.push(table("other", "no", None));
        document.push(table("changes", "b", None));
        let mut out = Vec::new();
        Csv.render(&document, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "case,x\n\"a s=\"\"x,y\"\"\",1234567.891\nb,\n");
    }

    #[test]
    fn formulas_are_neutralized_by_a_leading_apostrophe() {
        for (text, written) in [
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("@SUM(1+1)", "'@SUM(1+1)"),
            ("+x", "'+x"),
            ("-x", "'-x"),
            ("\t=1", "'\t=1"),
            ("'=1", "''=1"),
            ("-1.5e3", "-1.5e3"),
            ("+7", "+7"),
            ("a=1 -b", "a=1 -b"),
            ("'quoted'", "'quoted'"),
        ] {
            assert_eq!(neutralize_formula(text), written);
        }
        let cell = ReportCell::words("a\nb\u{1b}[2J\u{202e}");
        assert_eq!(format_field(&cell), "a\\x0ab\\x1b[2J\\u{202e}");
        let cell = ReportCell::words("=HYPERLINK(\"http://a\",1)");
        assert_eq!(format_field(&cell), "\"'=HYPERLINK(\"\"http://a\"\",1)\"");
        assert_eq!(format_field(&ReportCell::figure(Some(-2.5))), "-2.5");
    }
}
