//! Draws the intervals of a table's rows in characters, on one axis for the whole column.

use crate::table::ReportTable;
use speedwell_plot::ForestRow;

/// Minimum width of a screen that shows drawn intervals.
pub const MIN_DRAWN_SCREEN: usize = 100;
/// Width of a drawn interval.
pub const DRAWN_WIDTH: usize = 21;

/// The axis that all rows of a column share. It includes zero, which means no change.
pub struct IntervalAxis {
    low: f64,
    high: f64,
}

impl IntervalAxis {
    /// Returns the axis of a column, or `None` if all changes are zero or unknown.
    pub fn of_column(table: &ReportTable, column: usize) -> Option<IntervalAxis> {
        let rows = table.cell_rows().filter_map(|cells| cells[column].drawn());
        let ends = rows.flat_map(|row| [row.low, row.estimate, row.high]);
        let (low, high) = ends
            .filter(|end| end.is_finite())
            .fold((0.0_f64, 0.0_f64), |(low, high), end| (low.min(end), high.max(end)));
        (low < high).then_some(IntervalAxis { low, high })
    }

    /// Draws an interval, such as `  ──●──    │`.
    pub fn draw_interval(&self, row: &ForestRow) -> String {
        let mut characters = [' '; DRAWN_WIDTH];
        if !row.low.is_nan() && !row.high.is_nan() {
            characters[self.position(row.low)..=self.position(row.high)].fill('─');
        }
        let zero = &mut characters[self.position(0.0)];
        *zero = if *zero == ' ' { '│' } else { '┼' };
        if row.estimate.is_finite() {
            characters[self.position(row.estimate)] = '●';
        }
        characters.iter().collect()
    }

    fn position(&self, value: f64) -> usize {
        let share = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        (share * (DRAWN_WIDTH - 1) as f64).round() as usize
    }
}
