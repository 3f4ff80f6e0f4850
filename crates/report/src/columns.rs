//! Declares the columns of a table, each in a line or two: key, heading, kind, audience, and the
//! expression of its cell.
//!
//! Start at [`column_set!`], which creates a [`ColumnSet`]. A cell expression may have any type that
//! converts to a [`ReportCell`].

use crate::table::{ColumnAudience, ReportCell, ReportColumn, ReportRow, ReportTable};

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
        let mut columns = $crate::columns::ColumnSet::<$Item>::new();
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
    pub fn build_table(self, name: &'static str, items: &[T]) -> ReportTable {
        let rows = items.iter().map(|item| self.build_row(item)).collect();
        self.table_of_rows(name, rows)
    }

    /// Returns the machine-readable names of the columns, which are the sort keys.
    pub fn sort_keys(&self) -> Vec<&'static str> {
        let columns = self.columns.iter().map(|(column, _)| column);
        let machines = columns.filter(|column| column.audience != ColumnAudience::People);
        machines.map(|column| column.key).collect()
    }
}
