//! A data frame as R prints it.
//!
//! Decides alignment, the breaking of wide tables into blocks of columns, escapes and the number of
//! rows shown. The cells are texts already; how numbers become texts is in `r_number`. It must not
//! know what the table is about. Start at [`data_frame`].

use std::borrow::Cow;
use std::fmt::Write;
use unicode_width::UnicodeWidthChar;

/// R shows no more cells than this (`options("max.print")`).
const MOST_CELLS: usize = 99_999;

/// A column: its name and one text per row.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// The text above the column.
    pub name: String,
    /// The texts below it.
    pub cells: Vec<String>,
}

impl Column {
    /// A column.
    pub fn new(name: impl Into<String>, cells: Vec<String>) -> Column {
        Column {
            name: name.into(),
            cells,
        }
    }
}

/// How many rows of a table with this many columns R shows.
pub fn most_rows(columns: usize) -> usize {
    MOST_CELLS / columns.max(1)
}

/// The table, row names on the left and aligned left, all columns aligned right.
///
/// No line reaches `width` columns of the terminal if that can be avoided: further columns go into
/// blocks below, each with the row names. `names` may be empty for a table without row names.
pub fn data_frame(names: &[String], columns: &[Column], width: usize) -> String {
    let rows = columns.first().map_or(0, |column| column.cells.len());
    let shown = rows.min(most_rows(columns.len()));
    let names: Vec<Cow<'_, str>> = names.iter().take(shown).map(|name| escaped(name)).collect();
    let name_width = names
        .iter()
        .map(|name| display_width(name))
        .max()
        .unwrap_or(0);
    let columns: Vec<Printed<'_>> = columns
        .iter()
        .map(|column| Printed::of(column, shown))
        .collect();
    let mut out = String::new();
    let mut rest = columns.as_slice();
    while !rest.is_empty() {
        let (block, further) = rest.split_at(block_length(rest, name_width, width));
        print_block(&mut out, &names, name_width, block, shown);
        rest = further;
    }
    if shown < rows {
        let omitted = rows - shown;
        let _ = writeln!(
            out,
            " [ reached 'max' / getOption(\"max.print\") -- omitted {omitted} rows ]"
        );
    }
    out
}

/// A column ready to be printed.
struct Printed<'a> {
    name: Cow<'a, str>,
    cells: Vec<Cow<'a, str>>,
    /// Characters on the terminal, the blank in front included.
    width: usize,
}

impl<'a> Printed<'a> {
    fn of(column: &'a Column, shown: usize) -> Printed<'a> {
        let name = escaped(&column.name);
        let cells: Vec<_> = column
            .cells
            .iter()
            .take(shown)
            .map(|cell| escaped(cell))
            .collect();
        let widest = cells
            .iter()
            .map(|cell| display_width(cell))
            .max()
            .unwrap_or(0);
        let width = widest.max(display_width(&name)) + 1;
        Printed { name, cells, width }
    }
}

/// How many of the columns fit side by side; at least one.
fn block_length(columns: &[Printed<'_>], name_width: usize, width: usize) -> usize {
    let mut used = name_width;
    let fits = |column: &&Printed<'_>| {
        used += column.width;
        used < width
    };
    columns.iter().take_while(fits).count().max(1)
}

fn print_block(
    out: &mut String,
    names: &[Cow<'_, str>],
    name_width: usize,
    columns: &[Printed<'_>],
    rows: usize,
) {
    out.extend(std::iter::repeat_n(' ', name_width));
    for column in columns {
        pad_left(out, &column.name, column.width);
    }
    out.push('\n');
    for row in 0..rows {
        if let Some(name) = names.get(row) {
            out.push_str(name);
            out.extend(std::iter::repeat_n(' ', name_width - display_width(name)));
        }
        for column in columns {
            pad_left(out, &column.cells[row], column.width);
        }
        out.push('\n');
    }
}

fn pad_left(out: &mut String, text: &str, width: usize) {
    out.extend(std::iter::repeat_n(
        ' ',
        width.saturating_sub(display_width(text)),
    ));
    out.push_str(text);
}

fn display_width(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// R's `print` doubles backslashes and shows control characters, even without quotes.
fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(|c: char| c == '\\' || c.is_control()) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\0'..='\u{7f}' if c.is_control() => out.push_str(&format!("\\{:03o}", c as u32)),
            _ if c.is_control() => out.push_str(&format!("\\u{:04x}", c as u32)),
            _ => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn names_stand_left_and_figures_right() {
        let columns = [
            Column::new("x", strings(&["1.5", "10.0"])),
            Column::new("long", strings(&["", "NA"])),
        ];
        assert_eq!(
            data_frame(&strings(&["a", "bcd"]), &columns, 80),
            "       x long\na    1.5     \nbcd 10.0   NA\n"
        );
        assert_eq!(
            data_frame(&[], &columns, 80),
            "    x long\n  1.5     \n 10.0   NA\n"
        );
    }

    #[test]
    fn a_line_stays_below_the_width() {
        let columns = ["a", "b", "c"].map(|name| Column::new(name, strings(&["1234"])));
        // Name 1, columns 5 each: two columns take 11.
        let wide = "     a    b\nn 1234 1234\n     c\nn 1234\n";
        assert_eq!(data_frame(&strings(&["n"]), &columns, 12), wide);
        let narrow = data_frame(&strings(&["n"]), &columns, 11);
        assert_eq!(narrow, "     a\nn 1234\n     b\nn 1234\n     c\nn 1234\n");
        assert_eq!(
            data_frame(&strings(&["n"]), &columns, 1),
            narrow,
            "one column always fits"
        );
    }

    #[test]
    fn wide_letters_take_two_places_and_backslashes_are_doubled() {
        let columns = [Column::new("x", strings(&["1", "2", "3"]))];
        assert_eq!(
            data_frame(&strings(&["é😀", "a\\nb", "\u{1}日"]), &columns, 80),
            "       x\né😀    1\na\\\\nb  2\n\\001日 3\n"
        );
    }

    #[test]
    fn very_long_tables_end_as_in_r() {
        let rows = 20_003;
        let cells = vec!["1".to_owned(); rows];
        let columns: Vec<_> = (0..5).map(|_| Column::new("x", cells.clone())).collect();
        let table = data_frame(&cells, &columns, 80);
        assert_eq!(table.lines().count(), 1 + 19_999 + 1);
        let last = " [ reached 'max' / getOption(\"max.print\") -- omitted 4 rows ]\n";
        assert!(table.ends_with(last));
    }
}
