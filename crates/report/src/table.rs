//! Defines tables of numbers and words, for both people and programs.
//!
//! [`column_set!`] declares the columns of a table and creates a [`ColumnSet`].
//!
//! A column has an audience: people see `+8.2% [+6.9, +9.6]` in two columns where programs get
//! `change`, `change_low` and `change_high`. Only the formats in `format/` know the width of the
//! page.

pub use crate::cell::{CellForm, Datum, ReportCell, RowName, RunList, TextEmphasis, json_number};

use indexmap::{IndexMap, IndexSet};
use std::borrow::Borrow;
use std::cmp::Ordering;

/// The machine-readable name of the table of summaries.
pub(crate) const SUMMARIES_TABLE: &str = "summaries";
/// The machine-readable name of the table of findings on the validity of figures.
pub(crate) const VALIDITY_TABLE: &str = "validity";

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
    /// What the rows below are compared with, for people only. One cell per column.
    Reference(Vec<ReportCell>),
    /// A sentence about the row above.
    Remark(String),
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

    /// Keeps the column from people unless `is_verbose`. Programs always get it.
    pub fn detail(mut self, is_verbose: bool) -> ReportColumn {
        if !is_verbose {
            self.audience = ColumnAudience::Machines;
        }
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

    /// Returns the rows with cells for people and programs, without headings and remarks.
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
        let is_drawn = |column: usize| {
            let mut cells = self.cell_rows().map(|cells| &cells[column]);
            cells.any(|cell| cell.drawn().is_some() || cell.sparkline_drawing().is_some())
        };
        let people = self.for_people();
        let is_shown = |column: &usize| people.contains(column) || is_drawn(*column);
        (0..self.columns.len()).filter(is_shown).collect()
    }

    /// Returns the indexes of the machine-readable columns. Columns without any value are included,
    /// because the number of columns must not depend on the data.
    pub fn for_machines(&self) -> Vec<usize> {
        let is_shown = |column: &usize| self.columns[*column].audience != ColumnAudience::People;
        (0..self.columns.len()).filter(is_shown).collect()
    }

    /// Sorts the rows by a column, largest value first if `descending`. Rows stay in their group,
    /// below its reference, and remarks stay with their row. Unknown values come last in either order. Returns `false`
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

/// A group's heading and reference, and its rows, each with its remarks.
type RowGroup = (Vec<ReportRow>, Vec<Vec<ReportRow>>);

fn group_rows(rows: Vec<ReportRow>) -> Vec<RowGroup> {
    let mut groups: Vec<RowGroup> = vec![RowGroup::default()];
    for row in rows {
        let last = groups.len() - 1;
        match (&row, groups[last].1.last_mut()) {
            (ReportRow::Group(_), _) => groups.push((vec![row], Vec::new())),
            (ReportRow::Reference(_), _) => groups[last].0.push(row),
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

/// The footnotes of one table, in order of first mention. Notes that differ only in their numbers
/// state one fact and share a footnote.
#[derive(Debug, Default)]
pub struct TableFootnotes {
    /// The different texts of each fact. The fact is a text without its numbers.
    texts: IndexMap<String, IndexSet<String>>,
}

impl TableFootnotes {
    /// Returns the mark for `text`: `¹`, `²` ...
    pub fn footnote_mark(&mut self, text: &str) -> String {
        let fact: String = text.chars().filter(|character| !character.is_ascii_digit()).collect();
        let entry = self.texts.entry(fact);
        let index = entry.index();
        entry.or_default().insert(text.to_owned());
        superscript_number(index + 1)
    }

    /// Returns all footnotes. The first is number 1.
    pub fn into_texts(self) -> Vec<String> {
        let footnote = |texts: IndexSet<String>| {
            let others = texts.len() - 1;
            let first = texts.into_iter().next().unwrap_or_default();
            match others {
                0 => first,
                _ => format!("{first} (similar in {others} more)"),
            }
        };
        self.texts.into_values().map(footnote).collect()
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

// Declares the columns of a table, each in a line or two: key, heading, kind, audience, and the
// expression of its cell.
//
// Start at [`column_set!`], which creates a [`ColumnSet`]. A cell expression may have any type that
// converts to a [`ReportCell`].

/// Declares the columns of a table whose rows are made from items of one type.
///
/// A line has the form `KIND(KEY, HEADING).OPTION() if CONDITION => CELL`. `KIND` is a constructor
/// of [`ReportColumn`], and every `OPTION` is one of its methods. The condition is optional: a
/// column whose condition is false is left out. Headings and conditions are evaluated once. The
/// cell is evaluated for every item.
///
/// ```ignore
/// column_set! { session: SessionOverview;
///     figure("number", "session") => ReportCell::session(session.number),
///     machine("id") => &session.id,
///     words("tags", "tags").expendable(1) => session.tags.join(" "),
///     figure("blocks", "blocks").for_people() if is_verbose => session.blocks,
/// }
/// ```
macro_rules! column_set {
    ($item:ident: $Item:ty; $(
        $kind:ident($($name:expr),+) $(.$option:ident($($value:expr)?))* $(if $condition:expr)?
            => $cell:expr
    ),+ $(,)?) => {{
        let mut columns = $crate::table::ColumnSet::<$Item>::new();
        $(
            $(if $condition)? {
                columns.add_column(
                    $crate::table::ReportColumn::$kind($($name),+)$(.$option($($value)?))*,
                    // Some columns have the same value in every row.
                    move |#[allow(unused_variables)] $item| {
                        $crate::table::ReportCell::from($cell)
                    },
                );
            }
        )+
        columns
    }};
}
pub(crate) use column_set;

/// The columns of a table whose rows are made from values of type `T`. Each column comes with the
/// function that fills it.
pub struct ColumnSet<T> {
    columns: Vec<(ReportColumn, BuildCell<T>)>,
}

/// Builds a column's cell for one row.
type BuildCell<T> = Box<dyn Fn(&T) -> ReportCell>;

impl<T> ColumnSet<T> {
    /// Creates an empty list of columns.
    pub fn new() -> ColumnSet<T> {
        ColumnSet { columns: Vec::new() }
    }

    /// Adds a column with the function that fills it, for columns that depend on the data. Others
    /// are declared with [`column_set!`].
    pub fn add_column(&mut self, column: ReportColumn, cell: impl Fn(&T) -> ReportCell + 'static) {
        self.columns.push((column, Box::new(cell)));
    }

    /// Adds all columns of `other` at the end.
    pub fn append(&mut self, other: ColumnSet<T>) {
        self.columns.extend(other.columns);
    }

    /// Removes the columns that are only for other audiences.
    pub fn retain_audience(&mut self, audience: ColumnAudience) {
        let is_for_audience =
            |column: &ReportColumn| [ColumnAudience::All, audience].contains(&column.audience);
        self.columns.retain(|(column, _)| is_for_audience(column));
    }

    /// Builds the row of one item.
    pub fn build_row(&self, item: &T) -> ReportRow {
        let build_cell = |(column, cell): &(ReportColumn, BuildCell<T>)| match column.audience {
            // Large tables have a million cells, so they keep only text that is shown.
            ColumnAudience::Machines => cell(item).with_text(String::new()),
            ColumnAudience::All | ColumnAudience::People => cell(item),
        };
        ReportRow::Cells(self.columns.iter().map(build_cell).collect())
    }

    /// Builds a row for people, with what `cell` returns for the key of each column.
    pub fn build_reference(&self, cell: impl Fn(&str) -> ReportCell) -> ReportRow {
        ReportRow::Reference(self.columns.iter().map(|(column, _)| cell(column.key)).collect())
    }

    /// Builds a table of `rows` made by [`ColumnSet::build_row`]. Headings and remarks may be
    /// between them.
    pub fn table_of_rows(self, name: &'static str, rows: Vec<ReportRow>) -> ReportTable {
        ReportTable {
            columns: self.columns.into_iter().map(|(column, _)| column).collect(),
            rows,
            ..ReportTable::new(name)
        }
    }

    /// Builds a table with one row per item.
    pub fn build_table<I: Borrow<T>>(
        self,
        name: &'static str,
        items: impl IntoIterator<Item = I>,
    ) -> ReportTable {
        let rows = items.into_iter().map(|item| self.build_row(item.borrow())).collect();
        self.table_of_rows(name, rows)
    }

    /// Builds a table with one row per item, each above its remarks.
    pub fn build_with_remarks<R: IntoIterator<Item = String>>(
        self,
        name: &'static str,
        items: &[T],
        remarks: impl Fn(&T) -> R,
    ) -> ReportTable {
        let mut rows = Vec::new();
        for item in items {
            rows.push(self.build_row(item));
            rows.extend(remarks(item).into_iter().map(ReportRow::Remark));
        }
        self.table_of_rows(name, rows)
    }

    /// Returns the machine-readable names of the columns, which are the sort keys.
    pub fn sort_keys(&self) -> Vec<&'static str> {
        let columns = self.columns.iter().map(|(column, _)| column);
        let machines = columns.filter(|column| column.audience != ColumnAudience::People);
        machines.map(|column| column.key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, figure: Option<f64>) -> ReportRow {
        ReportRow::Cells(vec![ReportCell::words(name), ReportCell::figure(figure)])
    }

    fn names(table: &ReportTable) -> Vec<String> {
        let word = |row: &ReportRow| match row {
            ReportRow::Group(name) => name.full.clone(),
            ReportRow::Remark(text) => text.clone(),
            ReportRow::Cells(cells) | ReportRow::Reference(cells) => cells[0].text.clone(),
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
            ReportRow::Reference(vec![ReportCell::text("z"), ReportCell::text("9")]),
            row("d", Some(2.0)),
        ]);
        assert!(table.sort_by("x", true));
        assert_eq!(names(&table), ["g1", "c", "a", "about a", "b", "g2", "z", "d"]);
        assert!(table.sort_by("x", false));
        assert_eq!(names(&table), ["g1", "a", "about a", "c", "b", "g2", "z", "d"]);
        assert_eq!(table.cell_rows().count(), 4, "programs do not get the reference");
        assert!(!table.sort_by("nothing", false));
    }

    #[test]
    fn people_do_not_see_empty_columns_but_programs_do() {
        let table = table(vec![row("a", Some(1.0))]);
        assert_eq!(table.for_people(), [0]);
        assert_eq!(table.for_machines(), [0, 1]);
    }

    #[test]
    fn equal_footnotes_share_a_number() {
        let mut footnotes = TableFootnotes::default();
        let marks = ["a", "b", "a"].map(|text| footnotes.footnote_mark(text));
        assert_eq!(marks, ["¹", "²", "¹"]);
        let marks = ["3 of 8 runs", "5 of 8 runs"].map(|text| footnotes.footnote_mark(text));
        assert_eq!(marks[0], marks[1]);
        assert_eq!(footnotes.into_texts(), ["a", "b", "3 of 8 runs (similar in 1 more)"]);
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
}
