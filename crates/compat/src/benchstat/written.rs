//! Writes tables as benchstat does, as text and as CSV. Start at [`text`] and [`csv`].

use crate::benchstat::keys::{Key, of};
use crate::benchstat::layout::{Align, Layout};
use crate::benchstat::tables::{Cell, Table, Tables};
use crate::benchstat::units::{Scale, is_binary, percentage, shortest};

/// Formats tables as text.
pub fn text(tables: &Tables) -> String {
    let mut out = String::new();
    for (at, table) in tables.tables.iter().enumerate() {
        for line in headings(tables, at) {
            out.push_str(&(line + "\n"));
        }
        out.push_str(&table_text(tables, table));
    }
    out
}

/// Returns the lines above a table: after another table, an empty line and only the fields that
/// differ from it.
fn headings(tables: &Tables, at: usize) -> Vec<String> {
    let projection = &tables.rules.table;
    let key = &tables.tables[at].key;
    let before = at.checked_sub(1).map(|at| &tables.tables[at].key);
    let mut lines: Vec<String> = before.iter().map(|_| String::new()).collect();
    for field in projection.order() {
        let value = of(key, field);
        let is_told = before.is_some_and(|before| of(before, field) == value);
        if Some(field) != projection.unit() && !is_told {
            lines.push(format!("{}: {value}", projection.name(field)));
        }
    }
    lines
}

/// Returns the start of column `at`, if the first takes `of_first` cells and further ones
/// `of_change` more.
fn begin(at: usize, of_first: usize, of_change: usize) -> usize {
    match at {
        0 => 1,
        at => 1 + of_first + (at - 1) * (of_first + of_change),
    }
}

/// Numbered remarks.
#[derive(Default)]
struct Remarks(Vec<String>);

impl Remarks {
    /// Returns the numbers of these remarks.
    fn marks(&mut self, texts: &[&Vec<String>]) -> String {
        let mut marks = Vec::new();
        for text in texts.iter().copied().flatten() {
            let known = self.0.iter().position(|known| known == text);
            let at = known.unwrap_or_else(|| {
                self.0.push(text.clone());
                self.0.len() - 1
            });
            marks.push(superscript(at + 1));
        }
        marks.join(" ")
    }
}

fn superscript(number: usize) -> String {
    let raised = |digit: char| match digit {
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        digit => char::from_u32(0x2070 + u32::from(digit) - u32::from('0')).unwrap_or(digit),
    };
    number.to_string().chars().map(raised).collect()
}

fn table_text(tables: &Tables, table: &Table) -> String {
    let mut layout = Layout::default();
    let mut remarks = Remarks::default();
    head(tables, table, &mut layout);
    let is_binary = is_binary(&table.unit);
    for (name, cells) in table.rows.iter().zip(&table.cells) {
        layout.row();
        layout.cell(name, Align::Left);
        let centres: Vec<f64> = cells
            .iter()
            .flatten()
            .map(|cell| cell.summary.centre)
            .collect();
        let scale = Scale::common(&centres, is_binary);
        for (at, cell) in cells.iter().enumerate() {
            let Some(cell) = cell else { continue };
            layout.column(begin(at, 3, 3));
            layout.cell(&scale.text(cell.summary.centre), Align::Right);
            layout.span(1, &cell.summary.reach(), Align::Right, " ± ");
            let marks = remarks.marks(&[&cell.warnings, &cell.summary.warnings]);
            layout.cell(&marks, Align::Left);
            if let Some((base, comparison)) = &cell.comparison {
                let change = comparison.change(*base, cell.summary.centre);
                layout.cell(&change, Align::Right);
                layout.cell(&format!("({})", comparison.text()), Align::Left);
                let marks = remarks.marks(&[&comparison.warnings]);
                layout.cell(&marks, Align::Left);
            }
        }
    }
    if table.rows.len() > 1 {
        geomeans(table, is_binary, &mut layout, &mut remarks);
    }
    let mut text = layout.text();
    for (at, remark) in remarks.0.iter().enumerate() {
        text.push_str(&format!("{} {remark}\n", superscript(at + 1)));
    }
    text
}

/// Adds the column names, level by level, and the units.
fn head(tables: &Tables, table: &Table, layout: &mut Layout) {
    let count = table.columns.len();
    let edge = begin(count, 3, 3);
    let fields = tables.rules.column.order();
    for level in 0..fields.len() {
        layout.row();
        let alike = |a: &Key, b: &Key| {
            fields[..=level]
                .iter()
                .all(|field| of(a, *field) == of(b, *field))
        };
        let mut first = 0;
        for group in table.columns.chunk_by(alike) {
            let (left, right) = (begin(first, 3, 3), begin(first + group.len(), 3, 3));
            layout.column(left);
            layout.span(
                right - left,
                of(&group[0], fields[level]),
                Align::Centre,
                " │ ",
            );
            first += group.len();
        }
        layout.column(edge);
        layout.span(1, "", Align::Left, " │");
    }
    layout.row();
    for at in 0..count {
        let left = begin(at, 3, 3);
        layout.column(left);
        layout.span(3, &table.unit, Align::Centre, " │ ");
        if at > 0 {
            layout.span(3, "vs base", Align::Left, "  ");
        }
        for column in left + 1..layout.next_column() {
            layout.keep_narrow(column);
        }
    }
    layout.column(edge);
    layout.span(1, "", Align::Left, " │");
}

fn geomeans(table: &Table, is_binary: bool, layout: &mut Layout, remarks: &mut Remarks) {
    layout.row();
    layout.cell("geomean", Align::Left);
    for (at, geomean) in table.geomeans.iter().enumerate() {
        if let Some(mean) = geomean.mean {
            layout.column(begin(at, 3, 3));
            layout.cell(&Scale::common(&[mean], is_binary).text(mean), Align::Right);
        }
        if at > 0 {
            layout.column(begin(at, 3, 3) + 3);
            match geomean.ratio {
                Some(ratio) => layout.cell(&percentage((ratio - 1.0) * 100.0), Align::Right),
                None => layout.cell("?", Align::Left),
            }
        }
        layout.column(begin(at + 1, 3, 3) - 1);
        let marks = remarks.marks(&[&geomean.warnings]);
        layout.cell(&marks, Align::Left);
    }
}

/// Formats tables as CSV. Also returns the remarks, each with the name of its cell.
pub fn csv(tables: &Tables) -> (String, String) {
    let mut sheet = Sheet::default();
    for (at, table) in tables.tables.iter().enumerate() {
        for line in headings(tables, at) {
            sheet.cell(line);
            sheet.end_row();
        }
        sheet.table(tables, table);
    }
    (sheet.text, sheet.remarks)
}

#[derive(Default)]
struct Sheet {
    text: String,
    remarks: String,
    row: Vec<String>,
    rows: usize,
}

impl Sheet {
    fn cell(&mut self, text: impl Into<String>) {
        self.row.push(text.into());
    }

    /// Adds empty cells up to a column.
    fn up_to(&mut self, column: usize) {
        let column = column.max(self.row.len());
        self.row.resize(column, String::new());
    }

    fn end_row(&mut self) {
        let cells: Vec<String> = self.row.drain(..).map(|cell| quoted(&cell)).collect();
        self.text.push_str(&(cells.join(",") + "\n"));
        self.rows += 1;
    }

    /// Adds remarks on the next cell, under the name that the original gives it.
    fn remark(&mut self, remarks: &[String]) {
        let mut name = String::new();
        let mut at = self.row.len();
        while at > 0 {
            name.insert(0, char::from(b'A' + (at % 26) as u8));
            at /= 26;
        }
        let name = if name.is_empty() { "A" } else { &name };
        for remark in remarks {
            let line = format!("{name}{}: {remark}\n", self.rows + 1);
            self.remarks.push_str(&line);
        }
    }

    fn table(&mut self, tables: &Tables, table: &Table) {
        let count = table.columns.len();
        for field in tables.rules.column.order() {
            for (at, key) in table.columns.iter().enumerate() {
                self.up_to(begin(at, 2, 2));
                self.cell(of(key, field));
            }
            self.up_to(begin(count, 2, 2));
            self.end_row();
        }
        for at in 0..count {
            self.up_to(begin(at, 2, 2));
            self.cell(&table.unit);
            self.cell("CI");
            if at > 0 {
                self.cell("vs base");
                self.cell("P");
            }
        }
        self.end_row();
        for (name, cells) in table.rows.iter().zip(&table.cells) {
            self.cell(name);
            for (at, cell) in cells.iter().enumerate() {
                if let Some(cell) = cell {
                    self.up_to(begin(at, 2, 2));
                    self.figures(cell);
                }
            }
            self.end_row();
        }
        self.cell("geomean");
        for (at, geomean) in table.geomeans.iter().enumerate() {
            self.up_to(begin(at, 2, 2));
            self.remark(&geomean.warnings);
            if let Some(mean) = geomean.mean {
                self.cell(shortest(mean));
            }
            if at > 0 {
                self.up_to(begin(at, 2, 2) + 2);
                let ratio = geomean.ratio.map(|ratio| percentage((ratio - 1.0) * 100.0));
                self.cell(ratio.unwrap_or_else(|| "?".to_owned()));
            }
        }
        self.up_to(begin(count, 2, 2));
        self.end_row();
    }

    fn figures(&mut self, cell: &Cell) {
        self.remark(&cell.warnings);
        self.remark(&cell.summary.warnings);
        self.cell(shortest(cell.summary.centre));
        self.cell(cell.summary.reach());
        if let Some((base, comparison)) = &cell.comparison {
            self.remark(&comparison.warnings);
            self.cell(comparison.change(*base, cell.summary.centre));
            self.cell(comparison.text());
        }
    }
}

/// Quotes a cell like Go's CSV package: also if it begins with a blank.
fn quoted(text: &str) -> String {
    let needs = text == "\\."
        || text.contains([',', '"', '\r', '\n'])
        || text.starts_with(char::is_whitespace);
    if needs {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
