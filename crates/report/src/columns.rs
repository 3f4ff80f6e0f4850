//! Declares the columns of a table, each in a line or two: key, heading, kind, audience, and the
//! expression of its cell.
//!
//! Start at [`column_set!`], which creates a [`ColumnSet`]. A cell expression may have any type that
//! converts to a [`ReportCell`]. Cells that several tables share have constructors here, such as
//! [`ReportCell::share`].

use crate::figure::{
    Uncertainty, format_moment, format_number, format_quantity, format_share, uncertainty_of,
};
use crate::table::{
    ColumnAudience, ReportCell, ReportColumn, ReportRow, ReportTable, RunList, TextEmphasis,
};
use serde_json::Value;
use speedwell_model::IntervalEstimate;

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
            // Large tables have a million cells, so they keep no text that nobody reads.
            ColumnAudience::Machines => cell(item).with_text(String::new()),
            ColumnAudience::All | ColumnAudience::People => cell(item),
        };
        ReportRow::Cells(self.columns.iter().map(build_cell).collect())
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

/// Converts values to cells with the given functions.
macro_rules! convert_with {
    ($($Value:ty => $convert:expr),+ $(,)?) => {
        $(impl From<$Value> for ReportCell {
            fn from(value: $Value) -> ReportCell {
                $convert(value)
            }
        })+
    };
}
convert_with! {
    // The same words for people and programs.
    &str => ReportCell::words,
    &String => ReportCell::words,
    String => ReportCell::words,
    // Counts show every digit.
    i64 => count_cell,
    u32 => count_cell,
    u64 => count_cell,
    usize => count_cell,
    // Only for programs.
    bool => ReportCell::value,
    Value => ReportCell::value,
}

/// Creates a cell with a whole number, shown without separators.
fn count_cell<Count: Into<Value> + ToString>(count: Count) -> ReportCell {
    let text = count.to_string();
    ReportCell::value(count).with_text(text)
}

impl From<f64> for ReportCell {
    /// Converts to a figure for programs only. Infinities and NaN become "not known".
    fn from(figure: f64) -> ReportCell {
        ReportCell::figure(Some(figure))
    }
}

impl From<RunList> for ReportCell {
    /// Converts to one number per run for programs only.
    fn from(runs: RunList) -> ReportCell {
        let mut cell = ReportCell::default();
        cell.rare_mut().runs = Some(runs);
        cell
    }
}

impl<C: Into<ReportCell>> From<Option<C>> for ReportCell {
    /// Converts to an empty cell, which means "not known", if there is no value.
    fn from(cell: Option<C>) -> ReportCell {
        cell.map_or_else(ReportCell::default, C::into)
    }
}

impl ReportCell {
    /// Creates a cell with a fraction, shown in percent, if it is known.
    pub fn share(share: impl Into<Option<f64>>) -> ReportCell {
        ReportCell::shown_figure(share, format_share)
    }

    /// Creates a cell with a figure of unknown uncertainty in `unit`, if it is known.
    pub fn quantity(figure: impl Into<Option<f64>>, unit: &str) -> ReportCell {
        let format = |figure| format_quantity(figure, unit, Uncertainty::Unknown);
        ReportCell::shown_figure(figure, format)
    }

    /// Creates a cell with a time in nanoseconds, if it is known.
    pub fn time(ns: impl Into<Option<f64>>) -> ReportCell {
        ReportCell::quantity(ns, "ns")
    }

    /// Creates a cell with an estimate in `unit`, if it is known. The interval of the estimate
    /// decides how many digits are shown.
    pub fn estimate(estimate: impl Into<Option<IntervalEstimate>>, unit: &str) -> ReportCell {
        ReportCell::from(estimate.into().map(|estimate| {
            let text = format_quantity(estimate.value, unit, uncertainty_of(&estimate));
            ReportCell::from(estimate.value).with_text(text)
        }))
    }

    /// Creates a cell with a count that may be large, shown with thousands separators.
    pub fn large_count(count: usize) -> ReportCell {
        ReportCell::value(count).with_text(format_number(count as f64, 0))
    }

    /// Creates a cell with a moment in milliseconds since the Unix epoch, shown as date and time.
    pub fn moment(unix_ms: i64) -> ReportCell {
        ReportCell::value(unix_ms).with_text(format_moment(unix_ms))
    }

    /// Creates a cell with the number of a session, shown as `@12`.
    pub fn session(number: i64) -> ReportCell {
        ReportCell::value(number).with_text(format!("@{number}"))
    }

    /// Creates a cell with a word, shown after a symbol that distinguishes it without color.
    pub fn marked(word: impl Into<String>, symbol: char, emphasis: TextEmphasis) -> ReportCell {
        let word = word.into();
        let text = format!("{symbol} {word}");
        ReportCell::words(word).with_text(text).with_emphasis(emphasis)
    }

    /// Creates a cell with the state of a check, a setting or a machine, in one word.
    pub fn state(word: &str) -> ReportCell {
        let (symbol, emphasis) = match word {
            "ok" | "fit" | "free" | "set" | "already" => ('✓', TextEmphasis::Good),
            "warning" | "busy" => ('!', TextEmphasis::Caution),
            "problem" | "unfit" => ('✗', TextEmphasis::Bad),
            "cannot" => ('✗', TextEmphasis::Caution),
            "would set" => ('○', TextEmphasis::None),
            _ => ('-', TextEmphasis::Muted),
        };
        ReportCell::marked(word, symbol, emphasis)
    }

    /// Hides the text from people unless the condition is true. Programs get the value anyway.
    pub fn shown_if(self, condition: bool) -> ReportCell {
        if condition { self } else { self.with_text("") }
    }
}
