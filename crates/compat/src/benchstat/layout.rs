//! Lays out cells as text: some span several columns, and each column is as wide as its widest
//! cell. Start at [`Layout`].

/// Alignment of text within a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Centre,
    Right,
}

#[derive(Debug, Clone)]
struct Cell {
    row: usize,
    column: usize,
    span: usize,
    text: String,
    margin: String,
    align: Align,
}

/// Grid of cells, filled from left to right and from top to bottom.
#[derive(Debug, Default)]
pub struct Layout {
    cells: Vec<Cell>,
    columns: usize,
    /// Columns that are not widened for a text that spans several columns.
    narrow: Vec<usize>,
    row: usize,
    column: usize,
}

impl Layout {
    pub fn row(&mut self) {
        if !self.cells.is_empty() {
            self.row += 1;
        }
        self.column = 0;
    }

    /// Moves to a column.
    pub fn column(&mut self, column: usize) {
        self.column = column;
    }

    /// Returns the next column.
    pub fn next_column(&self) -> usize {
        self.column
    }

    /// Adds a cell with a blank before it.
    pub fn cell(&mut self, text: &str, align: Align) {
        let has_margin = self.column > 0 && !text.is_empty();
        self.span(1, text, align, if has_margin { " " } else { "" });
    }

    /// Adds a cell that spans several columns, with `margin` before it.
    pub fn span(&mut self, span: usize, text: &str, align: Align, margin: &str) {
        self.cells.push(Cell {
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

    /// Keeps a column as narrow as its own cells allow.
    pub fn keep_narrow(&mut self, column: usize) {
        self.narrow.push(column);
    }

    /// Returns the laid-out text.
    pub fn text(mut self) -> String {
        let mut margins = vec![0; self.columns];
        for cell in &self.cells {
            margins[cell.column] = width(&cell.margin).max(margins[cell.column]);
        }
        self.cells.sort_by_key(|cell| cell.span);
        let widths = self.widths(&margins);
        let mut begins = vec![0];
        begins.extend(widths.iter().scan(0, |end, width| {
            *end += width;
            Some(*end)
        }));
        self.cells.sort_by_key(|cell| (cell.row, cell.column));
        let (mut text, mut row, mut at) = (String::new(), 0, 0i64);
        for cell in &self.cells {
            if cell.text.trim().is_empty() && cell.margin.trim().is_empty() {
                continue;
            }
            while cell.row > row {
                text.push('\n');
                row += 1;
                at = 0;
            }
            let margin = margins[cell.column];
            let begin = begins[cell.column];
            // After a text that is too wide, the original moves forward where it should move back.
            let blanks = begin as i64 - at;
            text.push_str(&blank(blanks));
            text.push_str(&format!("{:>margin$}", cell.margin));
            let space = begins[cell.column + cell.span] as i64 - (begin + margin) as i64;
            let shown = cell.align.padded(&cell.text, space);
            at += blanks + (margin + width(&shown)) as i64;
            text.push_str(&shown);
        }
        if !self.cells.is_empty() {
            text.push('\n');
        }
        text
    }

    /// Computes the width of each column: that of its widest single cell, then wide enough for
    /// spanning cells, whose extra width is distributed evenly.
    fn widths(&self, margins: &[usize]) -> Vec<usize> {
        let mut widths = vec![0; self.columns];
        for cell in &self.cells {
            let mut needed = width(&cell.text) + margins[cell.column];
            if cell.span == 1 {
                widths[cell.column] = needed.max(widths[cell.column]);
                continue;
            }
            let own = cell.column..cell.column + cell.span;
            if widths[own.clone()].iter().sum::<usize>() >= needed {
                continue;
            }
            let (fixed, mut growing): (Vec<usize>, Vec<usize>) =
                own.partition(|column| self.narrow.contains(column));
            let taken: usize = fixed.iter().map(|column| widths[*column]).sum();
            needed = needed.saturating_sub(taken);
            growing.sort_by_key(|column| std::cmp::Reverse(widths[*column]));
            for (at, column) in growing.iter().enumerate() {
                let even = needed.div_ceil(growing.len() - at);
                widths[*column] = widths[*column].max(even);
                needed = needed.saturating_sub(widths[*column]);
            }
        }
        widths
    }
}

impl Align {
    /// Pads a text on the left.
    fn padded(self, text: &str, space: i64) -> String {
        let free = space - width(text) as i64;
        match self {
            Align::Left => text.to_owned(),
            Align::Centre => blank(free / 2) + text,
            Align::Right => blank(free.max(0)) + text,
        }
    }
}

/// Returns `count` blanks, ignoring the sign.
fn blank(count: i64) -> String {
    " ".repeat(count.unsigned_abs() as usize)
}

fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_text_over_several_columns_makes_them_wider() {
        let mut layout = Layout::default();
        layout.row();
        layout.column(1);
        layout.span(2, "wide text", Align::Centre, " | ");
        layout.column(3);
        layout.span(1, "", Align::Left, " |");
        layout.row();
        layout.cell("name", Align::Left);
        layout.cell("1", Align::Right);
        layout.cell("x", Align::Left);
        assert_eq!(layout.text(), "     | wide text |\nname     1 x\n");
    }
}
