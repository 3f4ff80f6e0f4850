//! Defines tables of numbers and words, for both people and programs.
//!
//! A cell has text, rounded to what the data support, and a value with every digit. A column has an
//! audience: people see `+8.2 % [+6.9, +9.6]` in two columns where programs get `change`,
//! `change_low` and `change_high`. Only the formats in `format/` know the width of the page.

use indexmap::IndexSet;
use serde_json::{Number, Value};
use speedwell_model::RunValue;
use speedwell_plot::ForestRow;
use std::cmp::Ordering;
use std::sync::Arc;

/// A table.
#[derive(Debug, Clone, Default)]
pub struct ReportTable {
    /// A plural noun for the rows, as an identifier, such as `changes` or `summaries`. Tables of
    /// the same name have the same machine-readable columns.
    pub name: &'static str,
    /// Lines above the table, with the facts that apply to all rows, such as the metric.
    pub caption: Vec<String>,
    /// The columns.
    pub columns: Vec<ReportColumn>,
    /// The rows.
    pub rows: Vec<ReportRow>,
    /// Notes below the table, referenced by marks in cells. The first note is number 1.
    pub footnotes: Vec<String>,
    /// The shaded range behind drawn cells. Changes within this range count as no change.
    pub band: Option<(f64, f64)>,
}

/// A column.
#[derive(Debug, Clone)]
pub struct ReportColumn {
    /// A stable, machine-readable identifier.
    pub key: &'static str,
    /// The heading for people.
    pub header: String,
    /// The kind of contents.
    pub kind: ColumnKind,
    /// The audience.
    pub audience: ColumnAudience,
    /// The order in which a narrow page omits columns. Columns with the highest number are omitted
    /// first, and columns with 0 are never omitted.
    pub expendable: u8,
    /// Whether the column classifies the rows by a few distinct values, so that a page can filter
    /// by them.
    pub facet: bool,
}

/// The contents of a column, which decide its layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// The name of the row. A narrow page may shorten it in the middle.
    Label,
    /// A name that is useless when shortened.
    Identifier,
    /// Words, left-aligned.
    Words,
    /// Numbers, right-aligned.
    Figure,
    /// Drawings on one axis for the whole column, for formats that can place them. Other columns
    /// state the same in words.
    Drawn,
}

/// The audience of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnAudience {
    /// People and programs.
    All,
    /// Text, Markdown and HTML pages.
    People,
    /// CSV and JSON.
    Machines,
}

/// A row.
#[derive(Debug, Clone)]
pub enum ReportRow {
    /// A heading for the rows that follow.
    Group(RowName),
    /// One cell per column.
    Cells(Vec<ReportCell>),
    /// A sentence about the row above.
    Remark(String),
}

/// A full name, and a short form for pages too narrow for the full names of all rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowName {
    /// The full name. An empty heading is not shown.
    pub full: String,
    /// The short form.
    pub short: String,
}

impl RowName {
    /// Creates a name without a shorter form.
    pub fn plain(name: impl Into<String>) -> RowName {
        let full = name.into();
        RowName { short: full.clone(), full }
    }
}

/// The emphasis of text. The text must be understandable without it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TextEmphasis {
    /// Ordinary text.
    #[default]
    None,
    /// Important.
    Strong,
    /// Good news.
    Good,
    /// Bad news.
    Bad,
    /// Not known yet, or to be treated with care.
    Caution,
    /// Less important.
    Muted,
}

/// A cell of a table.
#[derive(Debug, Clone, Default)]
pub struct ReportCell {
    /// The text for people. A number is rounded, and its unit follows it unless a caption or
    /// another column states the unit.
    pub text: String,
    /// The value for programs. A number has every digit. `None` means "not known".
    pub value: Option<Datum>,
    /// The emphasis of the text.
    pub emphasis: TextEmphasis,
    /// Properties that few cells have. They are boxed, because large tables have a million cells.
    pub rare: Option<Box<RareCellData>>,
}

/// Properties that few cells have.
#[derive(Debug, Clone, Default)]
pub struct RareCellData {
    /// The text for a narrow page, or `None` if there is no shorter text.
    pub short: Option<String>,
    /// One number per run, for programs, instead of a value. There may be millions of runs.
    pub runs: Option<RunList>,
    /// The drawing of the cell.
    pub drawn: Option<ForestRow>,
    /// The address that the cell links to on a served page. Other pages have no such addresses.
    pub link: Option<String>,
}

/// One number per run, in execution order. The numbers are converted to a list only when written.
#[derive(Debug, Clone)]
pub enum RunList {
    /// The value of each run.
    Values(Arc<[RunValue]>),
    /// The position of each run in the execution order of its session.
    Slots(Arc<[RunValue]>),
}

impl RunList {
    /// Converts to a list.
    pub fn to_json(&self) -> Value {
        match self {
            RunList::Values(runs) => {
                runs.iter().map(|run| json_number(run.value).unwrap_or(Value::Null)).collect()
            }
            RunList::Slots(runs) => runs.iter().map(|run| Value::from(run.slot)).collect(),
        }
    }
}

impl ReportCell {
    /// Creates a cell with the same words for people and programs.
    pub fn words(text: impl Into<String>) -> ReportCell {
        let text = text.into();
        ReportCell { value: Some(Datum::Text(text.as_str().into())), text, ..ReportCell::default() }
    }

    /// Creates a cell for people only.
    pub fn text(text: impl Into<String>) -> ReportCell {
        ReportCell { text: text.into(), ..ReportCell::default() }
    }

    /// Creates a cell for programs only.
    pub fn value(value: impl Into<Value>) -> ReportCell {
        ReportCell { value: Some(value.into().into()), ..ReportCell::default() }
    }

    /// Creates a cell with a number for programs, if there is one. Infinities and NaN, which JSON
    /// cannot represent, become "not known".
    pub fn figure(figure: Option<f64>) -> ReportCell {
        ReportCell { value: figure.and_then(json_number).map(Datum::from), ..ReportCell::default() }
    }

    /// Creates a cell with a figure, if there is one. Programs get the figure. People get the text
    /// that `format` makes of it.
    pub fn shown_figure(
        figure: impl Into<Option<f64>>,
        format: impl FnOnce(f64) -> String,
    ) -> ReportCell {
        let figure = figure.into();
        ReportCell::figure(figure).with_text(figure.map(format).unwrap_or_default())
    }

    /// Creates a cell with a drawing, if there is one.
    pub fn drawing(drawn: Option<ForestRow>) -> ReportCell {
        let mut cell = ReportCell::default();
        if drawn.is_some() {
            cell.rare_mut().drawn = drawn;
        }
        cell
    }

    /// Replaces the text for people.
    pub fn with_text(mut self, text: impl Into<String>) -> ReportCell {
        self.text = text.into();
        self
    }

    /// Uses a name as the text for people.
    pub fn with_name(mut self, name: &RowName) -> ReportCell {
        self.text.clone_from(&name.full);
        self.rare_mut().short = Some(name.short.clone());
        self
    }

    /// Links the cell to an address of the server.
    pub fn with_link(mut self, href: impl Into<String>) -> ReportCell {
        self.rare_mut().link = Some(href.into());
        self
    }

    /// Returns the rare properties, creating them if needed.
    pub fn rare_mut(&mut self) -> &mut RareCellData {
        self.rare.get_or_insert_default()
    }

    /// Returns the text for a narrow page, if there is a shorter text.
    pub fn short(&self) -> Option<&str> {
        self.rare.as_ref()?.short.as_deref()
    }

    /// Returns the list with one number per run, which programs get instead of a value.
    pub fn runs(&self) -> Option<&RunList> {
        self.rare.as_ref()?.runs.as_ref()
    }

    /// Returns the drawing of the cell.
    pub fn drawn(&self) -> Option<&ForestRow> {
        self.rare.as_ref()?.drawn.as_ref()
    }

    /// Returns the address that the cell links to on a served page.
    pub fn link(&self) -> Option<&str> {
        self.rare.as_ref()?.link.as_deref()
    }

    /// Sets the emphasis.
    pub fn with_emphasis(mut self, emphasis: TextEmphasis) -> ReportCell {
        self.emphasis = emphasis;
        self
    }
}

/// Converts a figure to JSON. Whole numbers get no fraction. Infinities and NaN become `None`.
pub fn json_number(figure: f64) -> Option<Value> {
    // This is 2^53. Below it, an `f64` represents every whole number exactly.
    const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
    if figure.fract() == 0.0 && figure.abs() < MAX_EXACT_INTEGER {
        return Some(Value::from(figure as i64));
    }
    serde_json::Number::from_f64(figure).map(Value::Number)
}

impl ReportColumn {
    /// Creates a column that is always shown, for people and programs.
    pub fn new(key: &'static str, header: impl Into<String>, kind: ColumnKind) -> ReportColumn {
        ReportColumn {
            key,
            header: header.into(),
            kind,
            audience: ColumnAudience::All,
            expendable: 0,
            facet: false,
        }
    }

    /// Creates a column of figures.
    pub fn figure(key: &'static str, header: impl Into<String>) -> ReportColumn {
        ReportColumn::new(key, header, ColumnKind::Figure)
    }

    /// Creates a column of words.
    pub fn words(key: &'static str, header: impl Into<String>) -> ReportColumn {
        ReportColumn::new(key, header, ColumnKind::Words)
    }

    /// Creates a column of row names, which a narrow page may shorten.
    pub fn label(key: &'static str, header: impl Into<String>) -> ReportColumn {
        ReportColumn::new(key, header, ColumnKind::Label)
    }

    /// Creates a column of names that are useless when shortened.
    pub fn identifier(key: &'static str, header: impl Into<String>) -> ReportColumn {
        ReportColumn::new(key, header, ColumnKind::Identifier)
    }

    /// Creates a column for programs only.
    pub fn machine(key: &'static str) -> ReportColumn {
        ReportColumn {
            audience: ColumnAudience::Machines,
            ..ReportColumn::new(key, "", ColumnKind::Words)
        }
    }

    /// Restricts the column to people.
    pub fn for_people(mut self) -> ReportColumn {
        self.audience = ColumnAudience::People;
        self
    }

    /// Allows narrow pages to omit the column. The highest `order` is omitted first.
    pub fn expendable(mut self, order: u8) -> ReportColumn {
        self.expendable = order;
        self
    }

    /// Lets a page filter rows by the column's values.
    pub fn facet(mut self) -> ReportColumn {
        self.facet = true;
        self
    }
}

impl ReportTable {
    /// Creates a table without columns and rows.
    pub fn new(name: &'static str) -> ReportTable {
        ReportTable { name, ..ReportTable::default() }
    }

    /// Returns the rows with cells, without headings and remarks.
    pub fn cell_rows(&self) -> impl Iterator<Item = &Vec<ReportCell>> {
        self.rows.iter().filter_map(|row| match row {
            ReportRow::Cells(cells) => Some(cells),
            _ => None,
        })
    }

    /// Returns the emphasis of each row with cells, taken from the first facet column.
    pub fn row_emphases(&self) -> Vec<TextEmphasis> {
        let facet = self.columns.iter().position(|column| column.facet);
        let emphasis = |cells: &Vec<ReportCell>| {
            facet.map_or(TextEmphasis::None, |column| cells[column].emphasis)
        };
        self.cell_rows().map(emphasis).collect()
    }

    /// Returns the indexes of the columns that people see: the columns with text in some row.
    pub fn for_people(&self) -> Vec<usize> {
        let is_shown = |column: &usize| {
            self.columns[*column].audience != ColumnAudience::Machines
                && self.cell_rows().any(|cells| !cells[*column].text.is_empty())
        };
        (0..self.columns.len()).filter(is_shown).collect()
    }

    /// Returns the indexes of the columns that a page shows: the columns that people see, and the
    /// drawings.
    pub fn for_pages(&self) -> Vec<usize> {
        let is_drawn =
            |column: usize| self.cell_rows().any(|cells| cells[column].drawn().is_some());
        let people = self.for_people();
        let is_shown = |column: &usize| people.contains(column) || is_drawn(*column);
        (0..self.columns.len()).filter(is_shown).collect()
    }

    /// Returns the indexes of the machine-readable columns. Columns without any value are included,
    /// because the number of columns must not depend on the data.
    pub fn for_machines(&self) -> Vec<usize> {
        (0..self.columns.len())
            .filter(|&column| self.columns[column].audience != ColumnAudience::People)
            .collect()
    }

    /// Sorts the rows by a column, largest value first if `descending`. Rows stay in their group,
    /// and remarks stay with their row. Unknown values come last in either order. Returns `false`
    /// if there is no such column.
    pub fn sort_by(&mut self, key: &str, descending: bool) -> bool {
        let Some(column) = self.columns.iter().position(|column| column.key == key) else {
            return false;
        };
        let mut sorted = Vec::with_capacity(self.rows.len());
        for mut group in group_rows(std::mem::take(&mut self.rows)) {
            group.1.sort_by(|a, b| {
                compare_values(first_row_value(a, column), first_row_value(b, column), descending)
            });
            sorted.extend(group.0);
            sorted.extend(group.1.into_iter().flatten());
        }
        self.rows = sorted;
        true
    }
}

/// A group's heading and its rows, each with its remarks.
type RowGroup = (Option<ReportRow>, Vec<Vec<ReportRow>>);

fn group_rows(rows: Vec<ReportRow>) -> Vec<RowGroup> {
    let mut groups: Vec<RowGroup> = vec![(None, Vec::new())];
    for row in rows {
        let last = groups.len() - 1;
        match (&row, groups[last].1.last_mut()) {
            (ReportRow::Group(_), _) => groups.push((Some(row), Vec::new())),
            (ReportRow::Remark(_), Some(previous)) => previous.push(row),
            _ => groups[last].1.push(vec![row]),
        }
    }
    groups
}

fn first_row_value(rows: &[ReportRow], column: usize) -> Option<&Datum> {
    match rows.first() {
        Some(ReportRow::Cells(cells)) => cells[column].value.as_ref(),
        _ => None,
    }
}

fn compare_values(a: Option<&Datum>, b: Option<&Datum>, descending: bool) -> Ordering {
    let order = match (a, b) {
        (None, None) => return Ordering::Equal,
        (None, _) => return Ordering::Greater,
        (_, None) => return Ordering::Less,
        (Some(a), Some(b)) => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            _ => a.as_str().cmp(&b.as_str()),
        },
    };
    if descending { order.reverse() } else { order }
}

/// The footnotes of one table, in order of first mention.
#[derive(Debug, Default)]
pub struct TableFootnotes {
    texts: IndexSet<String>,
}

impl TableFootnotes {
    /// Returns the mark for `text`: `¹`, `²` ...
    pub fn footnote_mark(&mut self, text: &str) -> String {
        let (index, _) = self.texts.insert_full(text.to_owned());
        superscript_number(index + 1)
    }

    /// Returns all footnotes. The first is number 1.
    pub fn into_texts(self) -> Vec<String> {
        self.texts.into_iter().collect()
    }
}

/// Formats a number in superscript digits.
pub fn superscript_number(number: usize) -> String {
    const SUPERSCRIPT_DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    number.to_string().bytes().map(|digit| SUPERSCRIPT_DIGITS[usize::from(digit - b'0')]).collect()
}

/// If all `lines` have the same text in `field`, clears the field in every line and returns the
/// text, so that a caption can state it once.
pub fn take_common_text<T>(
    lines: &mut [T],
    field: for<'l> fn(&'l mut T) -> &'l mut String,
) -> Option<String> {
    let first = field(lines.first_mut()?).clone();
    if !lines.iter_mut().all(|line| *field(line) == first) {
        return None;
    }
    lines.iter_mut().for_each(|line| field(line).clear());
    Some(first)
}

// Defines the machine-readable value of a table cell, with every digit.
//
// A [`Datum`] is equivalent to a JSON value but needs less memory. A table of ten thousand rows
// has hundreds of thousands of cells.

/// A scalar or JSON value.
#[derive(Debug, Clone, PartialEq)]
pub enum Datum {
    /// A number.
    Number(Number),
    /// A string.
    Text(Box<str>),
    /// Any other JSON value.
    Other(Box<Value>),
}

impl Datum {
    /// Converts to JSON.
    pub fn to_json(&self) -> Value {
        match self {
            Datum::Number(number) => Value::Number(number.clone()),
            Datum::Text(text) => Value::String(text.to_string()),
            Datum::Other(value) => Value::clone(value),
        }
    }

    /// Returns the number, if this is a number.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Datum::Number(number) => number.as_f64(),
            _ => None,
        }
    }

    /// Returns the string, if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Datum::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Whether the value is an array or an object.
    pub fn is_nested(&self) -> bool {
        matches!(self, Datum::Other(value) if value.is_array() || value.is_object())
    }
}

impl From<Value> for Datum {
    fn from(value: Value) -> Datum {
        match value {
            Value::Number(number) => Datum::Number(number),
            Value::String(text) => Datum::Text(text.into()),
            other => Datum::Other(Box::new(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(name: &str, figure: Option<f64>) -> ReportRow {
        ReportRow::Cells(vec![ReportCell::words(name), ReportCell::figure(figure)])
    }

    fn names(table: &ReportTable) -> Vec<String> {
        let word = |row: &ReportRow| match row {
            ReportRow::Group(name) => name.full.clone(),
            ReportRow::Remark(text) => text.clone(),
            ReportRow::Cells(cells) => cells[0].text.clone(),
        };
        table.rows.iter().map(word).collect()
    }

    fn table(rows: Vec<ReportRow>) -> ReportTable {
        let columns = vec![
            ReportColumn::new("case", "case", ColumnKind::Label),
            ReportColumn::new("x", "x", ColumnKind::Figure),
        ];
        ReportTable { columns, rows, ..ReportTable::new("t") }
    }

    #[test]
    fn sorting_keeps_groups_and_remarks_together() {
        let mut table = table(vec![
            ReportRow::Group(RowName::plain("g1")),
            row("a", Some(1.0)),
            ReportRow::Remark("about a".into()),
            row("b", None),
            row("c", Some(3.0)),
            ReportRow::Group(RowName::plain("g2")),
            row("d", Some(2.0)),
        ]);
        assert!(table.sort_by("x", true));
        assert_eq!(names(&table), ["g1", "c", "a", "about a", "b", "g2", "d"]);
        assert!(table.sort_by("x", false));
        assert_eq!(names(&table), ["g1", "a", "about a", "c", "b", "g2", "d"]);
        assert!(!table.sort_by("nothing", false));
    }

    #[test]
    fn people_do_not_see_empty_columns_but_programs_do() {
        let table = table(vec![row("a", Some(1.0))]);
        assert_eq!(table.for_people(), [0]);
        assert_eq!(table.for_machines(), [0, 1]);
    }

    #[test]
    fn json_numbers_omit_zero_fractions_and_infinities_are_unknown() {
        assert_eq!(json_number(12.0).map(|v| v.to_string()).as_deref(), Some("12"));
        assert_eq!(json_number(0.1).map(|v| v.to_string()).as_deref(), Some("0.1"));
        assert_eq!(json_number(f64::INFINITY), None);
        assert_eq!(json_number(f64::NAN), None);
    }

    #[test]
    fn equal_footnotes_share_a_number() {
        let mut footnotes = TableFootnotes::default();
        let marks = ["a", "b", "a"].map(|text| footnotes.footnote_mark(text));
        assert_eq!(marks, ["¹", "²", "¹"]);
        assert_eq!(footnotes.into_texts(), ["a", "b"]);
        assert_eq!(superscript_number(12), "¹²");
    }

    #[test]
    fn text_shared_by_all_lines_is_taken_out_of_them() {
        let mut lines = [("k/s".to_owned(), 1), ("k/s".to_owned(), 2)];
        let unit = take_common_text(&mut lines, |line| &mut line.0);
        assert_eq!(unit.as_deref(), Some("k/s"));
        assert_eq!(lines, [(String::new(), 1), (String::new(), 2)]);
    }

    #[test]
    fn texts_that_differ_stay_where_they_are() {
        let before = [("k/s".to_owned(), 1), ("M/s".to_owned(), 2)];
        let mut lines = before.clone();
        assert_eq!(take_common_text(&mut lines, |line| &mut line.0), None);
        assert_eq!(lines, before);
    }

    #[test]
    fn a_datum_keeps_its_json_value() {
        for value in [json!(1), json!(0.25), json!("a"), json!(true), json!(null), json!([1, "b"])]
        {
            let datum = Datum::from(value.clone());
            assert_eq!(datum.to_json(), value);
            assert_eq!(datum.as_f64(), value.as_f64());
            assert_eq!(datum.as_str(), value.as_str());
            assert_eq!(datum.is_nested(), value.is_array());
        }
    }

    #[test]
    fn a_report_cell_takes_at_most_64_bytes() {
        assert!(size_of::<ReportCell>() <= 64, "{}", size_of::<ReportCell>());
    }
}
