//! The size of a picture in pixels.

/// Width and height of a picture in pixels (CSS pixels in SVG).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Width in pixels.
    pub width_px: u32,
    /// Height in pixels.
    pub height_px: u32,
}

impl Default for Size {
    /// 960 by 640: a 3:2 figure whose text stays readable when a page shows it at half that width.
    fn default() -> Self {
        Self {
            width_px: 960,
            height_px: 640,
        }
    }
}
