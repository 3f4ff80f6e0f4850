//! Lays out cells as text. Cells may span several columns, and each column is as wide as its widest
//! cell. Start at [`TextLayout`].

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

    /// Moves to a column.
    pub fn move_to_column(&mut self, column: usize) {
        self.column = column;
    }

    /// Returns the column of the next cell.
    pub fn next_column(&self) -> usize {
        self.column
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

    /// Keeps a column as narrow as its own cells allow.
    pub fn keep_narrow(&mut self, column: usize) {
        self.narrow.push(column);
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
        layout.move_to_column(1);
        layout.add_span(2, "wide text", CellAlignment::Centre, " | ");
        layout.move_to_column(3);
        layout.add_span(1, "", CellAlignment::Left, " |");
        layout.start_row();
        layout.add_cell("name", CellAlignment::Left);
        layout.add_cell("1", CellAlignment::Right);
        layout.add_cell("x", CellAlignment::Left);
        assert_eq!(layout.render_text(), "     | wide text |\nname     1 x\n");
    }
}
