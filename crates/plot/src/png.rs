//! Rasterizes an SVG with outlined text, and encodes it as PNG. Reads no fonts or other files of
//! the system.

use std::fmt;

use resvg::{tiny_skia, usvg};

use crate::ImageSize;

/// Why an image could not be rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlotError {
    /// The image would have no pixels, or more than 200 million.
    Size {
        /// Requested width in pixels, including the zoom.
        width_px: u64,
        /// Requested height in pixels, including the zoom.
        height_px: u64,
    },
    /// The rasterizer rejected the drawing for this reason, which indicates a bug in this crate.
    Paint(String),
    /// The pixels could not be encoded as PNG for this reason.
    Encode(String),
}

/// Maximum number of pixels. 200 million pixels take 800 MB while rendering.
const MAX_PIXELS: u64 = 200_000_000;

impl fmt::Display for PlotError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size { width_px, height_px } => {
                write!(
                    out,
                    "cannot rasterize a picture of {width_px} x {height_px} pixels: \
                     expected 1 to 200,000,000 pixels"
                )
            }
            Self::Paint(reason) => write!(out, "cannot rasterize the drawing: {reason}"),
            Self::Encode(reason) => write!(out, "cannot encode the picture as PNG: {reason}"),
        }
    }
}

impl std::error::Error for PlotError {}

/// Rasterizes `svg`, which was laid out for `size`, and enlarges it by the factor `zoom`.
pub(crate) fn encode_png(svg: &str, size: ImageSize, zoom: u32) -> Result<Vec<u8>, PlotError> {
    let width_px = u64::from(size.width_px) * u64::from(zoom);
    let height_px = u64::from(size.height_px) * u64::from(zoom);
    let bad_size = PlotError::Size { width_px, height_px };
    if width_px.saturating_mul(height_px) > MAX_PIXELS {
        return Err(bad_size);
    }
    let (Ok(width), Ok(height)) = (u32::try_from(width_px), u32::try_from(height_px)) else {
        return Err(bad_size);
    };
    let mut pixels = tiny_skia::Pixmap::new(width, height).ok_or(bad_size)?;
    let tree = usvg::Tree::from_str(svg, &usvg::Options::default())
        .map_err(|error| PlotError::Paint(error.to_string()))?;
    let zoom = zoom as f32;
    resvg::render(&tree, tiny_skia::Transform::from_scale(zoom, zoom), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| PlotError::Encode(error.to_string()))
}
