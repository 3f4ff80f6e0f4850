//! Where the boxes of a flame graph are: callers above what they call, side by side in the order given.

use crate::FlameFrame;
use crate::summary::count;

/// A narrower box shows nothing, and thousands of them make a file that no browser likes.
const NARROWEST_PX: f64 = 0.6;
/// Deeper rows are left out: a recursion of hundreds would be a picture of many screens.
const MOST_ROWS: usize = 90;

/// A box of the picture, relative to its upper left corner.
pub(crate) struct Placed<'a> {
    pub frame: &'a FlameFrame,
    pub left: f64,
    pub width: f64,
    /// From the top, beginning with 0.
    pub row: usize,
}

/// All boxes.
#[derive(Default)]
pub(crate) struct Rows<'a> {
    pub boxes: Vec<Placed<'a>>,
    /// How many rows there are.
    pub depth: usize,
    too_narrow: usize,
    too_deep: usize,
}

impl<'a> Rows<'a> {
    /// Places the boxes on a sheet of `width` pixels that stands for a weight of `full`.
    pub fn place(frames: &'a [FlameFrame], full: f64, width: f64) -> Self {
        let mut rows = Self::default();
        if full > 0.0 && full.is_finite() {
            rows.put(frames, 0.0, 0, width / full);
        }
        rows
    }

    fn put(&mut self, frames: &'a [FlameFrame], mut left: f64, row: usize, px_per_weight: f64) {
        for frame in frames {
            let width = frame.weight * px_per_weight;
            // Also a weight that is no number, which nothing can be drawn of.
            if width.is_nan() || width < NARROWEST_PX {
                self.too_narrow += usize::from(frame.weight > 0.0);
            } else if row >= MOST_ROWS {
                self.too_deep += 1;
            } else {
                self.boxes.push(Placed {
                    frame,
                    left,
                    width,
                    row,
                });
                self.depth = self.depth.max(row + 1);
                self.put(&frame.children, left, row + 1, px_per_weight);
            }
            left += width.max(0.0);
        }
    }

    /// What is not shown, as a sentence.
    pub fn left_out(&self) -> Option<String> {
        let narrow = count(self.too_narrow, "tower", "s");
        let deep = count(self.too_deep, "tower", "s");
        match (self.too_narrow, self.too_deep) {
            (0, 0) => None,
            (_, 0) => Some(format!("Not drawn, narrower than a pixel: {narrow}.")),
            (0, _) => Some(format!("Cut off below row {MOST_ROWS}: {deep}.")),
            _ => Some(format!(
                "Not drawn, narrower than a pixel: {narrow}; cut off below row {MOST_ROWS}: {deep}."
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(weight: f64, children: Vec<FlameFrame>) -> FlameFrame {
        FlameFrame {
            weight,
            children,
            ..FlameFrame::default()
        }
    }

    #[test]
    fn boxes_lie_below_their_callers_side_by_side() {
        let frames = [
            frame(60.0, vec![frame(20.0, vec![]), frame(30.0, vec![])]),
            frame(40.0, vec![]),
        ];
        let rows = Rows::place(&frames, 200.0, 400.0);
        let places: Vec<_> = rows
            .boxes
            .iter()
            .map(|b| (b.row, b.left, b.width))
            .collect();
        assert_eq!(
            places,
            [
                (0, 0.0, 120.0),
                (1, 0.0, 40.0),
                (1, 40.0, 60.0),
                (0, 120.0, 80.0)
            ]
        );
        assert_eq!((rows.depth, rows.left_out()), (2, None));
    }

    #[test]
    fn what_is_left_out_is_told() {
        let mut deep = frame(1.0, vec![]);
        for _ in 0..MOST_ROWS {
            deep = frame(1.0, vec![deep]);
        }
        let frames = [deep, frame(0.0001, vec![]), frame(f64::NAN, vec![])];
        let rows = Rows::place(&frames, 1.0, 100.0);
        assert_eq!(rows.depth, MOST_ROWS);
        assert_eq!(
            rows.left_out().unwrap(),
            "Not drawn, narrower than a pixel: 1 tower; cut off below row 90: 1 tower."
        );
    }
}
