//! Writes the main table of a document as comma-separated values (RFC 4180), for spreadsheets and
//! R.
//!
//! The main table consists of the first table and all later tables of the same name. In a
//! comparison, these are the tables of all metrics and candidates, with one row per case. Numbers
//! have every digit and are in the stored unit. An unknown value is an empty field. Control
//! characters in names are written as `\x0a`.
//!
//! The columns of a comparison do not depend on the data, except that kernel figures and machines
//! have columns only if they were recorded. Lists (the values of single runs) are only in JSON. No
//! cell is executed by a spreadsheet: see [`neutralize_formula`].

use super::{RenderDocument, escape_line};
use crate::datum::Datum;
use crate::document::Document;
use crate::table::{ReportCell, ReportTable};
use std::borrow::Cow;
use std::io::{self, Write};

/// Comma-separated values.
#[derive(Debug, Clone, Copy, Default)]
pub struct Csv;

impl RenderDocument for Csv {
    fn render(&self, document: &Document, out: &mut dyn Write) -> io::Result<()> {
        let mut tables = document.tables().peekable();
        let Some(main) = tables.peek().map(|table| table.name) else {
            return Ok(());
        };
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

/// Puts a field in quotes if it contains a comma, a quote or a line break.
pub(crate) fn quote_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::ReportBlock;
    use crate::table::ColumnKind;
    use crate::table::ReportColumn;
    use crate::table::ReportRow;

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
