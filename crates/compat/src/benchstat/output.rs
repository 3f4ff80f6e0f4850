//! Writes tables as benchstat does, as text and as CSV. [`TextLayout`] lays out cells as text: they
//! may span several columns, and each column is as wide as its widest cell. Start at
//! [`format_text`] and [`format_csv`].

use crate::benchstat::samples::{UnitScale, format_shortest, is_binary};
use crate::benchstat::tables::{
    BenchstatTable, BenchstatTables, KeyValues, TableCell, field_value,
};
use indexmap::IndexSet;
use speedwell_report::superscript_number;

/// Formats tables as text.
pub fn format_text(tables: &BenchstatTables) -> String {
    let mut out = String::new();
    for (index, table) in tables.tables.iter().enumerate() {
        for line in table_headings(tables, index) {
            out.push_str(&(line + "\n"));
        }
        out.push_str(&table_text(tables, table));
    }
    out
}

/// Returns the lines above a table. For a later table, these are an empty line and the fields whose
/// values differ from the table before.
fn table_headings(tables: &BenchstatTables, index: usize) -> Vec<String> {
    let projection = &tables.rules.table;
    let key = &tables.tables[index].key;
    let previous_key = index.checked_sub(1).map(|index| &tables.tables[index].key);
    let mut lines: Vec<String> = previous_key.iter().map(|_| String::new()).collect();
    for field in projection.field_order() {
        let value = field_value(key, field);
        let is_repeated =
            previous_key.is_some_and(|previous_key| field_value(previous_key, field) == value);
        if Some(field) != projection.unit_field() && !is_repeated {
            lines.push(format!("{}: {value}", projection.field_name(field)));
        }
    }
    lines
}

/// Returns the position of the first cell of column `index`. The first column has `cells` cells.
/// Each further column has twice as many, because it also contains a comparison with the first.
fn column_start(index: usize, cells: usize) -> usize {
    if index == 0 { 1 } else { 1 + (2 * index - 1) * cells }
}

/// Returns the marks of these remarks, which are listed below the table.
fn remark_marks(footnotes: &mut IndexSet<String>, remarks: &[String]) -> String {
    let marks = remarks.iter().map(|remark| {
        let (index, _) = footnotes.insert_full(remark.clone());
        superscript_number(index + 1)
    });
    marks.collect::<Vec<_>>().join(" ")
}

fn table_text(tables: &BenchstatTables, table: &BenchstatTable) -> String {
    let mut layout = TextLayout::default();
    let mut footnotes = IndexSet::new();
    add_column_names(tables, table, &mut layout);
    let has_binary_unit = is_binary(&table.unit);
    for (name, cells) in table.rows.iter().zip(&table.cells) {
        layout.start_row();
        layout.add_cell(name, CellAlignment::Left);
        let centres: Vec<f64> = cells.iter().flatten().map(|cell| cell.summary.centre).collect();
        let scale = UnitScale::for_values(&centres, has_binary_unit);
        for (index, cell) in cells.iter().enumerate() {
            let Some(cell) = cell else { continue };
            layout.column = column_start(index, 3);
            layout.add_cell(&scale.format_value(cell.summary.centre), CellAlignment::Right);
            layout.add_span(1, &cell.summary.relative_reach(), CellAlignment::Right, " ± ");
            let marks = remark_marks(&mut footnotes, &cell.summary.warnings);
            layout.add_cell(&marks, CellAlignment::Left);
            if let Some((base, comparison)) = &cell.comparison {
                let change = comparison.format_change(*base, cell.summary.centre);
                layout.add_cell(&change, CellAlignment::Right);
                layout.add_cell(&format!("({})", comparison.format_p()), CellAlignment::Left);
                let marks = remark_marks(&mut footnotes, &comparison.warnings);
                layout.add_cell(&marks, CellAlignment::Left);
            }
        }
    }
    if table.rows.len() > 1 {
        add_geomeans(table, has_binary_unit, &mut layout, &mut footnotes);
    }
    let mut text = layout.render_text();
    for (index, remark) in footnotes.iter().enumerate() {
        text.push_str(&format!("{} {remark}\n", superscript_number(index + 1)));
    }
    text
}

/// Adds the column names, with a row for each field of the column projection, and then a row of
/// units.
fn add_column_names(tables: &BenchstatTables, table: &BenchstatTable, layout: &mut TextLayout) {
    let count = table.columns.len();
    let edge = column_start(count, 3);
    let fields = tables.rules.column.field_order();
    for level in 0..fields.len() {
        layout.start_row();
        let alike = |a: &KeyValues, b: &KeyValues| {
            fields[..=level].iter().all(|field| field_value(a, *field) == field_value(b, *field))
        };
        let mut first = 0;
        for group in table.columns.chunk_by(alike) {
            let (left, right) = (column_start(first, 3), column_start(first + group.len(), 3));
            let value = field_value(&group[0], fields[level]);
            layout.column = left;
            layout.add_span(right - left, value, CellAlignment::Centre, " │ ");
            first += group.len();
        }
        layout.column = edge;
        layout.add_span(1, "", CellAlignment::Left, " │");
    }
    layout.start_row();
    for column in 0..count {
        let left = column_start(column, 3);
        layout.column = left;
        layout.add_span(3, &table.unit, CellAlignment::Centre, " │ ");
        if column > 0 {
            layout.add_span(3, "vs base", CellAlignment::Left, "  ");
        }
        layout.narrow.extend(left + 1..layout.column);
    }
    layout.column = edge;
    layout.add_span(1, "", CellAlignment::Left, " │");
}

fn add_geomeans(
    table: &BenchstatTable,
    is_binary: bool,
    layout: &mut TextLayout,
    footnotes: &mut IndexSet<String>,
) {
    layout.start_row();
    layout.add_cell("geomean", CellAlignment::Left);
    for (column, geomean) in table.geomeans.iter().enumerate() {
        if let Some(mean) = geomean.mean {
            layout.column = column_start(column, 3);
            let scale = UnitScale::for_values(&[mean], is_binary);
            layout.add_cell(&scale.format_value(mean), CellAlignment::Right);
        }
        if column > 0 {
            layout.column = column_start(column, 3) + 3;
            match geomean.format_change() {
                Some(change) => layout.add_cell(&change, CellAlignment::Right),
                None => layout.add_cell("?", CellAlignment::Left),
            }
        }
        layout.column = column_start(column + 1, 3) - 1;
        let marks = remark_marks(footnotes, &geomean.warnings);
        layout.add_cell(&marks, CellAlignment::Left);
    }
}

/// Formats tables as CSV. Also returns the remarks, each with the name of its cell.
pub fn format_csv(tables: &BenchstatTables) -> (String, String) {
    let mut sheet = CsvSheet::default();
    for (index, table) in tables.tables.iter().enumerate() {
        for line in table_headings(tables, index) {
            sheet.add_cell(line);
            sheet.end_row();
        }
        sheet.add_table(tables, table);
    }
    (sheet.text, sheet.remarks)
}

#[derive(Default)]
struct CsvSheet {
    text: String,
    remarks: String,
    row: Vec<String>,
    rows: usize,
}

impl CsvSheet {
    fn add_cell(&mut self, text: impl Into<String>) {
        self.row.push(text.into());
    }

    /// Adds empty cells up to a column.
    fn pad_to(&mut self, column: usize) {
        self.row.resize(column.max(self.row.len()), String::new());
    }

    fn end_row(&mut self) {
        let cells: Vec<String> = self.row.drain(..).map(|cell| quote_csv(&cell)).collect();
        self.text.push_str(&(cells.join(",") + "\n"));
        self.rows += 1;
    }

    /// Adds remarks on the next cell, under the name that Go's benchstat gives this cell.
    fn add_remarks(&mut self, remarks: &[String]) {
        let mut name = String::new();
        let mut column = self.row.len();
        while column > 0 {
            name.insert(0, char::from(b'A' + (column % 26) as u8));
            column /= 26;
        }
        let name = if name.is_empty() { "A" } else { &name };
        for remark in remarks {
            self.remarks += &format!("{name}{}: {remark}\n", self.rows + 1);
        }
    }

    fn add_table(&mut self, tables: &BenchstatTables, table: &BenchstatTable) {
        let count = table.columns.len();
        for field in tables.rules.column.field_order() {
            for (column, key) in table.columns.iter().enumerate() {
                self.pad_to(column_start(column, 2));
                self.add_cell(field_value(key, field));
            }
            self.pad_to(column_start(count, 2));
            self.end_row();
        }
        for column in 0..count {
            self.pad_to(column_start(column, 2));
            self.row.extend([table.unit.as_str(), "CI"].map(str::to_owned));
            if column > 0 {
                self.row.extend(["vs base", "P"].map(str::to_owned));
            }
        }
        self.end_row();
        for (name, cells) in table.rows.iter().zip(&table.cells) {
            self.add_cell(name);
            for (column, cell) in cells.iter().enumerate() {
                if let Some(cell) = cell {
                    self.pad_to(column_start(column, 2));
                    self.add_figures(cell);
                }
            }
            self.end_row();
        }
        self.add_cell("geomean");
        for (column, geomean) in table.geomeans.iter().enumerate() {
            self.pad_to(column_start(column, 2));
            self.add_remarks(&geomean.warnings);
            if let Some(mean) = geomean.mean {
                self.add_cell(format_shortest(mean));
            }
            if column > 0 {
                self.pad_to(column_start(column, 2) + 2);
                self.add_cell(geomean.format_change().unwrap_or_else(|| "?".to_owned()));
            }
        }
        self.pad_to(column_start(count, 2));
        self.end_row();
    }

    fn add_figures(&mut self, cell: &TableCell) {
        self.add_remarks(&cell.summary.warnings);
        self.row.extend([format_shortest(cell.summary.centre), cell.summary.relative_reach()]);
        if let Some((base, comparison)) = &cell.comparison {
            self.add_remarks(&comparison.warnings);
            let change = comparison.format_change(*base, cell.summary.centre);
            self.row.extend([change, comparison.format_p()]);
        }
    }
}

/// Quotes a cell as Go's CSV package does. Even a cell that begins with a space is quoted.
fn quote_csv(text: &str) -> String {
    let needs_quotes = text == "\\."
        || text.contains([',', '"', '\r', '\n'])
        || text.starts_with(char::is_whitespace);
    if needs_quotes { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// Alignment of text within a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellAlignment {
    Left,
    Centre,
    Right,
}

#[derive(Debug, Clone)]
struct LayoutCell {
    row: usize,
    column: usize,
    span: usize,
    text: String,
    margin: String,
    align: CellAlignment,
}

/// Grid of cells, filled from left to right and from top to bottom.
#[derive(Debug, Default)]
pub struct TextLayout {
    cells: Vec<LayoutCell>,
    columns: usize,
    /// Columns that are not widened for cells that span several columns.
    narrow: Vec<usize>,
    row: usize,
    column: usize,
}

impl TextLayout {
    pub fn start_row(&mut self) {
        if !self.cells.is_empty() {
            self.row += 1;
        }
        self.column = 0;
    }

    /// Adds a cell. A space precedes it, unless the cell is empty or in the first column.
    pub fn add_cell(&mut self, text: &str, align: CellAlignment) {
        let has_margin = self.column > 0 && !text.is_empty();
        self.add_span(1, text, align, if has_margin { " " } else { "" });
    }

    /// Adds a cell that spans several columns, with `margin` before it.
    pub fn add_span(&mut self, span: usize, text: &str, align: CellAlignment, margin: &str) {
        self.cells.push(LayoutCell {
            row: self.row,
            column: self.column,
            span,
            text: text.to_owned(),
            margin: margin.to_owned(),
            align,
        });
        self.column += span;
        self.columns = self.columns.max(self.column);
    }

    /// Returns the laid-out text.
    pub fn render_text(mut self) -> String {
        let mut margins = vec![0; self.columns];
        for cell in &self.cells {
            margins[cell.column] = char_count(&cell.margin).max(margins[cell.column]);
        }
        self.cells.sort_by_key(|cell| cell.span);
        let widths = self.column_widths(&margins);
        let mut begins = vec![0];
        begins.extend(widths.iter().scan(0, |end, width| {
            *end += width;
            Some(*end)
        }));
        self.cells.sort_by_key(|cell| (cell.row, cell.column));
        let (mut text, mut row, mut end_column) = (String::new(), 0, 0i64);
        for cell in &self.cells {
            if cell.text.trim().is_empty() && cell.margin.trim().is_empty() {
                continue;
            }
            while cell.row > row {
                text.push('\n');
                row += 1;
                end_column = 0;
            }
            let margin = margins[cell.column];
            let begin = begins[cell.column];
            // After a cell that is too wide, `blanks` is negative. Go's benchstat then moves
            // forward by as many columns as it would have to move back.
            let blanks = begin as i64 - end_column;
            text.push_str(&repeat_blank(blanks));
            text.push_str(&format!("{:>margin$}", cell.margin));
            let space = begins[cell.column + cell.span] as i64 - (begin + margin) as i64;
            let padded = cell.align.pad_text(&cell.text, space);
            end_column += blanks + (margin + char_count(&padded)) as i64;
            text.push_str(&padded);
        }
        if !self.cells.is_empty() {
            text.push('\n');
        }
        text
    }

    /// Computes the width of each column. A column is as wide as its widest cell. If a cell spans
    /// several columns and needs more width than these have, the missing width is distributed
    /// evenly.
    fn column_widths(&self, margins: &[usize]) -> Vec<usize> {
        let mut widths = vec![0; self.columns];
        for cell in &self.cells {
            let mut missing_width = char_count(&cell.text) + margins[cell.column];
            if cell.span == 1 {
                widths[cell.column] = missing_width.max(widths[cell.column]);
                continue;
            }
            let columns = cell.column..cell.column + cell.span;
            if widths[columns.clone()].iter().sum::<usize>() >= missing_width {
                continue;
            }
            let (fixed, mut growing): (Vec<usize>, Vec<usize>) =
                columns.partition(|column| self.narrow.contains(column));
            let fixed_width: usize = fixed.iter().map(|column| widths[*column]).sum();
            missing_width = missing_width.saturating_sub(fixed_width);
            growing.sort_by_key(|column| std::cmp::Reverse(widths[*column]));
            for (index, column) in growing.iter().enumerate() {
                let equal_share = missing_width.div_ceil(growing.len() - index);
                widths[*column] = widths[*column].max(equal_share);
                missing_width = missing_width.saturating_sub(widths[*column]);
            }
        }
        widths
    }
}

impl CellAlignment {
    /// Pads a string on the left.
    fn pad_text(self, text: &str, space: i64) -> String {
        let padding = space - char_count(text) as i64;
        match self {
            CellAlignment::Left => text.to_owned(),
            CellAlignment::Centre => repeat_blank(padding / 2) + text,
            CellAlignment::Right => repeat_blank(padding.max(0)) + text,
        }
    }
}

/// Returns as many spaces as the absolute value of `count`.
fn repeat_blank(count: i64) -> String {
    " ".repeat(count.unsigned_abs() as usize)
}

fn char_count(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_text_over_several_columns_makes_them_wider() {
        let mut layout = TextLayout::default();
        layout.start_row();
        layout.column = 1;
        layout.add_span(2, "wide text", CellAlignment::Centre, " | ");
        layout.column = 3;
        layout.add_span(1, "", CellAlignment::Left, " |");
        layout.start_row();
        layout.add_cell("name", CellAlignment::Left);
        layout.add_cell("1", CellAlignment::Right);
        layout.add_cell("x", CellAlignment::Left);
        assert_eq!(layout.render_text(), "     | wide text |\nname     1 x\n");
    }
}
