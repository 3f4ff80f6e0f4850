//! Tables of figures, for people and for machines at once.
//!
//! A cell has a text, rounded to what the data support, and a value with every digit. A column has
//! an audience: people see `+8.2 % [+6.9, +9.6]` in two columns where machines get `change`,
//! `change_low` and `change_high`. Page widths are unknown here; see `format/`.

use crate::datum::Datum;
use serde_json::Value;
use speedwell_model::RunValue;
use speedwell_plot::ForestRow;
use std::cmp::Ordering;
use std::sync::Arc;

/// A table.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// The plural noun for its rows, as an identifier: `changes`, `summaries`. Tables of the same
    /// name have the same machine-readable columns.
    pub name: &'static str,
    /// Lines above the table: what all rows share.
    pub caption: Vec<String>,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows.
    pub rows: Vec<Row>,
    /// Notes below the table, referenced by marks in cells; the first is number 1.
    pub footnotes: Vec<String>,
    /// The shaded range behind drawn cells: changes within it count as none.
    pub band: Option<(f64, f64)>,
}

/// A column.
#[derive(Debug, Clone)]
pub struct Column {
    /// Its stable, machine-readable identifier.
    pub key: &'static str,
    /// Its heading for people.
    pub header: String,
    /// The kind of its contents.
    pub kind: Kind,
    /// Its audience.
    pub audience: Audience,
    /// Whether a narrow page may omit it: 0 means never, the highest number is omitted first.
    pub expendable: u8,
    /// Whether its few distinct values classify the rows, so that a page can filter by them.
    pub facet: bool,
}

/// The contents of a column, which decide its layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The name of the row; may be shortened in the middle on a narrow page.
    Label,
    /// A name that is useless when shortened.
    Identifier,
    /// Words, left-aligned.
    Words,
    /// Figures, right-aligned.
    Figure,
    /// Drawings on a common axis for the column, for formats that can place them; other columns
    /// have the words.
    Drawn,
}

/// The audience of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Both.
    All,
    /// Text, Markdown, pages.
    People,
    /// CSV and JSON.
    Machines,
}

/// A row.
#[derive(Debug, Clone)]
pub enum Row {
    /// A heading for the rows that follow.
    Group(Name),
    /// One cell per column.
    Cells(Vec<Cell>),
    /// A sentence about the row above.
    Remark(String),
}

/// A name in full, and a short form for pages too narrow for the full names of all rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Name {
    /// The full name; an empty heading is not shown.
    pub full: String,
    /// The short form.
    pub short: String,
}

impl Name {
    /// Creates a name without a shorter form.
    pub fn plain(name: impl Into<String>) -> Name {
        let full = name.into();
        Name {
            short: full.clone(),
            full,
        }
    }
}

/// The emphasis of a text. Meaning never rests on emphasis alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Emphasis {
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
pub struct Cell {
    /// For people: rounded, with its unit.
    pub text: String,
    /// For machines: every digit; `None` means "not known".
    pub value: Option<Datum>,
    /// The emphasis of the text.
    pub emphasis: Emphasis,
    /// Properties that few cells have, boxed because large tables have a million cells.
    pub rare: Option<Box<Rare>>,
}

/// Properties that few cells have.
#[derive(Debug, Clone, Default)]
pub struct Rare {
    /// The text for a narrow page; `None` if there is nothing shorter.
    pub short: Option<String>,
    /// For machines, instead of a value: figures of runs, possibly millions.
    pub runs: Option<RunList>,
    /// The drawing of the cell.
    pub drawn: Option<ForestRow>,
    /// The address it links to on a served page; other pages have no such addresses.
    pub link: Option<String>,
}

/// Figures of runs in execution order, converted to a list of numbers only when written.
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
            RunList::Values(runs) => runs
                .iter()
                .map(|run| number(run.value).unwrap_or(Value::Null))
                .collect(),
            RunList::Slots(runs) => runs.iter().map(|run| Value::from(run.slot)).collect(),
        }
    }
}

impl Cell {
    /// Creates a cell with the same words for people and machines.
    pub fn words(text: impl Into<String>) -> Cell {
        let text = text.into();
        Cell {
            value: Some(Datum::Text(text.as_str().into())),
            text,
            ..Cell::default()
        }
    }

    /// Creates a cell for people only.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell {
            text: text.into(),
            ..Cell::default()
        }
    }

    /// Creates a cell for machines only.
    pub fn value(value: impl Into<Value>) -> Cell {
        Cell {
            value: Some(value.into().into()),
            ..Cell::default()
        }
    }

    /// Creates a cell with a figure for machines, if there is one. Numbers without a JSON form
    /// become "not known".
    pub fn figure(figure: Option<f64>) -> Cell {
        Cell {
            value: figure.and_then(number).map(Datum::from),
            ..Cell::default()
        }
    }

    /// Creates a cell with a figure, if there is one, and its `words` for people.
    pub fn shown_figure(figure: Option<f64>, words: impl FnOnce(f64) -> String) -> Cell {
        Cell::figure(figure).shown(figure.map(words).unwrap_or_default())
    }

    /// Creates a cell with a count.
    pub fn count(count: impl Into<u64>) -> Cell {
        let count = count.into();
        Cell::value(count).shown(count.to_string())
    }

    /// Creates a cell with a drawing, if there is one.
    pub fn drawing(drawn: Option<ForestRow>) -> Cell {
        Cell {
            rare: drawn.map(|drawn| {
                Box::new(Rare {
                    drawn: Some(drawn),
                    ..Rare::default()
                })
            }),
            ..Cell::default()
        }
    }

    /// Replaces the text for people.
    pub fn shown(mut self, text: impl Into<String>) -> Cell {
        self.text = text.into();
        self
    }

    /// Uses a name as the text for people.
    pub fn named(mut self, name: &Name) -> Cell {
        self.text.clone_from(&name.full);
        self.rare_mut().short = Some(name.short.clone());
        self
    }

    /// Links the cell to an address of the server.
    pub fn linked(mut self, href: impl Into<String>) -> Cell {
        self.rare_mut().link = Some(href.into());
        self
    }

    /// Returns the rare properties, creating them if needed.
    pub fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// The text for a narrow page, if there is a shorter one.
    pub fn short(&self) -> Option<&str> {
        self.rare.as_ref()?.short.as_deref()
    }

    /// The figures of runs for machines, instead of a value.
    pub fn runs(&self) -> Option<&RunList> {
        self.rare.as_ref()?.runs.as_ref()
    }

    /// The drawing of the cell.
    pub fn drawn(&self) -> Option<&ForestRow> {
        self.rare.as_ref()?.drawn.as_ref()
    }

    /// The address it links to on a served page.
    pub fn link(&self) -> Option<&str> {
        self.rare.as_ref()?.link.as_deref()
    }

    /// Sets the emphasis.
    pub fn emphasised(mut self, emphasis: Emphasis) -> Cell {
        self.emphasis = emphasis;
        self
    }
}

/// Converts a figure to JSON: integers without a fraction; `None` for infinities and NaN.
pub fn number(figure: f64) -> Option<Value> {
    // 2^53: below it, every integral f64 is exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if figure.fract() == 0.0 && figure.abs() < EXACT {
        return Some(Value::from(figure as i64));
    }
    serde_json::Number::from_f64(figure).map(Value::Number)
}

impl Column {
    /// Creates a column for people and machines that is always shown.
    pub fn new(key: &'static str, header: impl Into<String>, kind: Kind) -> Column {
        Column {
            key,
            header: header.into(),
            kind,
            audience: Audience::All,
            expendable: 0,
            facet: false,
        }
    }

    /// Creates a column of figures.
    pub fn figure(key: &'static str, header: impl Into<String>) -> Column {
        Column::new(key, header, Kind::Figure)
    }

    /// Creates a column of words.
    pub fn words(key: &'static str, header: impl Into<String>) -> Column {
        Column::new(key, header, Kind::Words)
    }

    /// Creates a column for machines only.
    pub fn machine(key: &'static str) -> Column {
        Column {
            audience: Audience::Machines,
            ..Column::new(key, "", Kind::Words)
        }
    }

    /// Restricts the column to people.
    pub fn for_people(mut self) -> Column {
        self.audience = Audience::People;
        self
    }

    /// Allows narrow pages to omit the column; the highest `order` is omitted first.
    pub fn expendable(mut self, order: u8) -> Column {
        self.expendable = order;
        self
    }

    /// Lets a page filter rows by the column's values.
    pub fn facet(mut self) -> Column {
        self.facet = true;
        self
    }
}

impl Table {
    /// Creates a table without columns and rows.
    pub fn new(name: &'static str) -> Table {
        Table {
            name,
            ..Table::default()
        }
    }

    /// The rows that hold cells.
    pub fn cells(&self) -> impl Iterator<Item = &Vec<Cell>> {
        self.rows.iter().filter_map(|row| match row {
            Row::Cells(cells) => Some(cells),
            _ => None,
        })
    }

    /// The emphasis of each row with cells: that of its facet.
    pub fn emphases(&self) -> Vec<Emphasis> {
        let facet = self.columns.iter().position(|column| column.facet);
        let emphasis = |cells: &Vec<Cell>| facet.map_or(Emphasis::None, |at| cells[at].emphasis);
        self.cells().map(emphasis).collect()
    }

    /// Indexes of the columns that people see: those with text in some row.
    pub fn for_people(&self) -> Vec<usize> {
        let is_filled = |at: usize| self.cells().any(|cells| !cells[at].text.is_empty());
        (0..self.columns.len())
            .filter(|&at| self.columns[at].audience != Audience::Machines && is_filled(at))
            .collect()
    }

    /// Indexes of the columns that a page shows: those for people, and drawings.
    pub fn for_pages(&self) -> Vec<usize> {
        let drawn = |at: usize| self.cells().any(|cells| cells[at].drawn().is_some());
        let mut shown = self.for_people();
        shown.extend((0..self.columns.len()).filter(|&at| drawn(at)));
        shown.sort_unstable();
        shown.dedup();
        shown
    }

    /// Indexes of the machine-readable columns, including empty ones: their number must not depend
    /// on the data.
    pub fn for_machines(&self) -> Vec<usize> {
        (0..self.columns.len())
            .filter(|&at| self.columns[at].audience != Audience::People)
            .collect()
    }

    /// Sorts the rows by a column, largest first if `descending`. Rows stay in their group, remarks
    /// with their row; unknown values come last. Returns `false` if there is no such column.
    pub fn sort_by(&mut self, key: &str, descending: bool) -> bool {
        let Some(at) = self.columns.iter().position(|column| column.key == key) else {
            return false;
        };
        let mut sorted = Vec::with_capacity(self.rows.len());
        for mut part in groups(std::mem::take(&mut self.rows)) {
            part.1
                .sort_by(|a, b| compare(value_of(a, at), value_of(b, at), descending));
            sorted.extend(part.0);
            sorted.extend(part.1.into_iter().flatten());
        }
        self.rows = sorted;
        true
    }
}

/// A group's heading and its rows, each with its remarks.
type Group = (Option<Row>, Vec<Vec<Row>>);

fn groups(rows: Vec<Row>) -> Vec<Group> {
    let mut groups: Vec<Group> = vec![(None, Vec::new())];
    for row in rows {
        let last = groups.len() - 1;
        match (&row, groups[last].1.last_mut()) {
            (Row::Group(_), _) => groups.push((Some(row), Vec::new())),
            (Row::Remark(_), Some(previous)) => previous.push(row),
            _ => groups[last].1.push(vec![row]),
        }
    }
    groups
}

fn value_of(rows: &[Row], at: usize) -> Option<&Datum> {
    match rows.first() {
        Some(Row::Cells(cells)) => cells[at].value.as_ref(),
        _ => None,
    }
}

fn compare(a: Option<&Datum>, b: Option<&Datum>, descending: bool) -> Ordering {
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

/// The columns of a table with rows made from `T`, each with the function that fills it, so that
/// the two cannot get out of sync.
pub struct Columns<T> {
    columns: Vec<(Column, CellOf<T>)>,
}

/// Builds a column's cell for one row.
type CellOf<T> = Box<dyn Fn(&T) -> Cell>;

impl<T> Columns<T> {
    /// Creates an empty list of columns.
    pub fn new() -> Columns<T> {
        Columns {
            columns: Vec::new(),
        }
    }

    /// Adds a column with the function that fills it.
    pub fn add(&mut self, column: Column, cell: impl Fn(&T) -> Cell + 'static) {
        self.columns.push((column, Box::new(cell)));
    }

    /// Adds a column of plain text, for people only.
    pub fn add_text(&mut self, column: Column, text: impl Fn(&T) -> String + 'static) {
        self.add(column.for_people(), move |item| Cell::text(text(item)));
    }

    /// Adds a value for machines only.
    pub fn add_value<V: Into<Value>>(
        &mut self,
        key: &'static str,
        value: impl Fn(&T) -> V + 'static,
    ) {
        self.add_known(key, move |item| Some(value(item).into()));
    }

    /// Adds figures of runs, for machines only.
    pub fn add_runs(&mut self, key: &'static str, runs: impl Fn(&T) -> RunList + 'static) {
        self.add(Column::machine(key), move |item| {
            let mut cell = Cell::default();
            cell.rare_mut().runs = Some(runs(item));
            cell
        });
    }

    /// Adds an optional value for machines only.
    pub fn add_known(&mut self, key: &'static str, value: impl Fn(&T) -> Option<Value> + 'static) {
        self.add(Column::machine(key), move |item| Cell {
            value: value(item).map(Datum::from),
            ..Cell::default()
        });
    }

    /// Adds an optional figure for machines only.
    pub fn add_figure(&mut self, key: &'static str, figure: impl Fn(&T) -> Option<f64> + 'static) {
        self.add_known(key, move |item| figure(item).and_then(number));
    }

    /// Removes the columns that are only for other audiences.
    pub fn keep_those_for(&mut self, audience: Audience) {
        let is_theirs = |column: &Column| [Audience::All, audience].contains(&column.audience);
        self.columns.retain(|(column, _)| is_theirs(column));
    }

    /// Builds the row of one item.
    pub fn row(&self, item: &T) -> Row {
        Row::Cells(self.columns.iter().map(|(_, cell)| cell(item)).collect())
    }

    /// Builds a table of `rows` made by [`Columns::row`], with headings and remarks between them.
    pub fn table_of_rows(self, name: &'static str, rows: Vec<Row>) -> Table {
        Table {
            columns: self.columns.into_iter().map(|(column, _)| column).collect(),
            rows,
            ..Table::new(name)
        }
    }

    /// Builds a table with one row per item.
    pub fn table(self, name: &'static str, items: &[T]) -> Table {
        let rows = items.iter().map(|item| self.row(item)).collect();
        self.table_of_rows(name, rows)
    }

    /// The machine-readable names of the columns, which are the sort keys.
    pub fn sort_keys(&self) -> Vec<&'static str> {
        let columns = self.columns.iter().map(|(column, _)| column);
        let machines = columns.filter(|column| column.audience != Audience::People);
        machines.map(|column| column.key).collect()
    }
}

/// The footnotes of one table, in order of first mention.
#[derive(Debug, Default)]
pub struct Footnotes {
    texts: Vec<String>,
}

impl Footnotes {
    /// Returns the mark for `text`: `¹`, `²` ...
    pub fn mark(&mut self, text: &str) -> String {
        let at = self
            .texts
            .iter()
            .position(|known| known == text)
            .unwrap_or_else(|| {
                self.texts.push(text.to_owned());
                self.texts.len() - 1
            });
        mark(at + 1)
    }

    /// All footnotes; the first is number 1.
    pub fn into_texts(self) -> Vec<String> {
        self.texts
    }
}

/// Formats a number in superscript digits.
pub fn mark(number: usize) -> String {
    const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    number
        .to_string()
        .bytes()
        .map(|digit| RAISED[usize::from(digit - b'0')])
        .collect()
}

/// Removes and returns the text of a field if all `lines` share it, so that they do not repeat it.
pub fn take_common<T>(
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

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, figure: Option<f64>) -> Row {
        Row::Cells(vec![Cell::words(name), Cell::figure(figure)])
    }

    fn names(table: &Table) -> Vec<String> {
        let word = |row: &Row| match row {
            Row::Group(name) => name.full.clone(),
            Row::Remark(text) => text.clone(),
            Row::Cells(cells) => cells[0].text.clone(),
        };
        table.rows.iter().map(word).collect()
    }

    fn table(rows: Vec<Row>) -> Table {
        let columns = vec![
            Column::new("case", "case", Kind::Label),
            Column::new("x", "x", Kind::Figure),
        ];
        Table {
            columns,
            rows,
            ..Table::new("t")
        }
    }

    #[test]
    fn sorting_keeps_groups_and_remarks_together() {
        let mut table = table(vec![
            Row::Group(Name::plain("g1")),
            row("a", Some(1.0)),
            Row::Remark("about a".into()),
            row("b", None),
            row("c", Some(3.0)),
            Row::Group(Name::plain("g2")),
            row("d", Some(2.0)),
        ]);
        assert!(table.sort_by("x", true));
        assert_eq!(names(&table), ["g1", "c", "a", "about a", "b", "g2", "d"]);
        assert!(table.sort_by("x", false));
        assert_eq!(names(&table), ["g1", "a", "about a", "c", "b", "g2", "d"]);
        assert!(!table.sort_by("nothing", false));
    }

    #[test]
    fn people_do_not_see_empty_columns_and_machines_always_get_theirs() {
        let table = table(vec![row("a", Some(1.0))]);
        assert_eq!(table.for_people(), [0]);
        assert_eq!(table.for_machines(), [0, 1]);
    }

    #[test]
    fn whole_numbers_have_no_fraction_and_infinities_are_unknown() {
        assert_eq!(number(12.0).map(|v| v.to_string()).as_deref(), Some("12"));
        assert_eq!(number(0.1).map(|v| v.to_string()).as_deref(), Some("0.1"));
        assert_eq!(number(f64::INFINITY), None);
        assert_eq!(number(f64::NAN), None);
    }

    #[test]
    fn a_remark_made_twice_has_one_number() {
        let mut footnotes = Footnotes::default();
        let marks = ["a", "b", "a"].map(|text| footnotes.mark(text));
        assert_eq!(marks, ["¹", "²", "¹"]);
        assert_eq!(footnotes.into_texts(), ["a", "b"]);
        assert_eq!(mark(12), "¹²");
    }

    #[test]
    fn a_text_that_all_lines_share_leaves_them() {
        let mut lines = [("k/s".to_owned(), 1), ("k/s".to_owned(), 2)];
        let unit = take_common(&mut lines, |line| &mut line.0);
        assert_eq!(unit.as_deref(), Some("k/s"));
        assert_eq!(lines, [(String::new(), 1), (String::new(), 2)]);
    }

    #[test]
    fn texts_that_differ_stay_where_they_are() {
        let before = [("k/s".to_owned(), 1), ("M/s".to_owned(), 2)];
        let mut lines = before.clone();
        assert_eq!(take_common(&mut lines, |line| &mut line.0), None);
        assert_eq!(lines, before);
    }
}
