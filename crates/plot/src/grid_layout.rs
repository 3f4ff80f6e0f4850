//! Where the panels of a grid are: two to four columns by their number, and fewer where the sheet is narrow.

use crate::draw::Rect;

/// A panel narrower or lower than this cannot be read.
const LEAST_WIDTH_PX: f64 = 150.0;
const LEAST_HEIGHT_PX: f64 = 96.0;
const NATURAL_HEIGHT_PX: f64 = 204.0;
/// Empty pixels between panels.
const BETWEEN_PX: f64 = 22.0;

/// The places of panels on a sheet.
pub(crate) struct GridLayout {
    columns: usize,
    rows: usize,
    sheet: Rect,
}

impl GridLayout {
    /// Places as many of `panels` as can be read in `sheet`.
    pub fn of(panels: usize, sheet: Rect) -> Self {
        let columns = columns(panels, sheet.width());
        let fitting = (sheet.height() / LEAST_HEIGHT_PX).max(1.0) as usize;
        Self {
            columns,
            rows: panels.div_ceil(columns).clamp(1, fitting),
            sheet,
        }
    }

    /// How many panels have a place.
    pub fn places(&self) -> usize {
        self.columns * self.rows
    }

    /// The place of the panel at this position, in reading order.
    pub fn place(&self, at: usize) -> Rect {
        let (row, column) = (at / self.columns, at % self.columns);
        let wide = (self.sheet.width() + BETWEEN_PX) / self.columns as f64;
        let high = self.sheet.height() / self.rows as f64;
        let left = self.sheet.left + column as f64 * wide;
        let top = self.sheet.top + row as f64 * high;
        let gap = BETWEEN_PX.min(high / 4.0);
        Rect::new(left, top, left + wide - BETWEEN_PX, top + high - gap)
    }

    /// The height that so many panels want on a sheet of `width` pixels.
    pub fn natural_height(panels: usize, width: f64) -> f64 {
        panels.div_ceil(columns(panels, width)) as f64 * NATURAL_HEIGHT_PX
    }
}

/// Few panels are large, many are small, and all of a sheet are equal.
fn columns(panels: usize, width: f64) -> usize {
    let wanted = match panels {
        0 | 1 => 1,
        2..=4 => 2,
        5..=9 => 3,
        _ => 4,
    };
    wanted.min((width / LEAST_WIDTH_PX) as usize).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(panels: usize, width: f64, height: f64) -> (usize, usize) {
        let layout = GridLayout::of(panels, Rect::new(0.0, 0.0, width, height));
        (layout.columns, layout.rows)
    }

    #[test]
    fn columns_follow_the_number_of_panels_and_the_width() {
        let natural = |panels| grid(panels, 1200.0, GridLayout::natural_height(panels, 1200.0));
        assert_eq!(
            [1, 2, 4, 5, 9, 10, 14, 24].map(natural),
            [
                (1, 1),
                (2, 1),
                (2, 2),
                (3, 2),
                (3, 3),
                (4, 3),
                (4, 4),
                (4, 6)
            ]
        );
        assert_eq!(grid(14, 320.0, 4000.0), (2, 7));
    }

    #[test]
    fn panels_lie_inside_of_the_sheet_and_apart() {
        let sheet = Rect::new(10.0, 20.0, 910.0, 620.0);
        let layout = GridLayout::of(6, sheet);
        let places: Vec<Rect> = (0..6).map(|at| layout.place(at)).collect();
        assert!(places[0].right < places[1].left && places[0].bottom < places[3].top);
        assert!((places[2].right - sheet.right).abs() < 1e-9);
        assert!(places[5].bottom <= sheet.bottom);
    }

    #[test]
    fn a_low_sheet_has_places_for_the_first_panels_only() {
        let layout = GridLayout::of(24, Rect::new(0.0, 0.0, 800.0, 200.0));
        assert_eq!(layout.places(), 8);
    }
}
