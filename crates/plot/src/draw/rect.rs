//! A rectangle of the sheet, in pixels, y growing downwards.

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rect {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Rect {
    /// A rectangle that has an inside even where a sheet is too small for what it should hold.
    pub fn new(left: f64, top: f64, right: f64, bottom: f64) -> Self {
        Self {
            left,
            top,
            right: right.max(left + 8.0),
            bottom: bottom.max(top + 8.0),
        }
    }

    pub fn width(&self) -> f64 {
        self.right - self.left
    }

    pub fn height(&self) -> f64 {
        self.bottom - self.top
    }

    pub fn middle_x(&self) -> f64 {
        (self.left + self.right) / 2.0
    }

    pub fn middle_y(&self) -> f64 {
        (self.top + self.bottom) / 2.0
    }
}
