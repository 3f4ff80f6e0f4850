//! Paints an SVG whose letters are outlines already, and packs the pixels as PNG.
//! Knows nothing of charts; no font and no file of the system is read.

use std::fmt;

use resvg::{tiny_skia, usvg};

use crate::Size;

/// Why a picture could not be painted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlotError {
    /// The picture would have no pixels, or more than 200 million.
    Size {
        /// Width asked for, in pixels, with the zoom.
        width_px: u64,
        /// Height asked for, in pixels, with the zoom.
        height_px: u64,
    },
    /// The painter refused the drawing; the text is its reason. Only a defect of this crate leads here.
    Paint(String),
    /// The pixels could not be packed as PNG; the text is the reason.
    Encode(String),
}

/// The most pixels a picture may have: 200 million are 800 MB while painting.
pub(crate) const MAX_PIXELS: u64 = 200_000_000;

impl fmt::Display for PlotError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size {
                width_px,
                height_px,
            } => {
                write!(
                    out,
                    "a picture of {width_px} x {height_px} pixels cannot be painted"
                )
            }
            Self::Paint(reason) => write!(out, "the drawing cannot be painted: {reason}"),
            Self::Encode(reason) => write!(out, "the picture cannot be packed as PNG: {reason}"),
        }
    }
}

impl std::error::Error for PlotError {}

/// Paints `svg`, laid out for `size`, `zoom` times as large.
pub(crate) fn encode(svg: &str, size: Size, zoom: u32) -> Result<Vec<u8>, PlotError> {
    let width_px = u64::from(size.width_px) * u64::from(zoom);
    let height_px = u64::from(size.height_px) * u64::from(zoom);
    let bad_size = PlotError::Size {
        width_px,
        height_px,
    };
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
    resvg::render(
        &tree,
        tiny_skia::Transform::from_scale(zoom, zoom),
        &mut pixels.as_mut(),
    );
    pixels
        .encode_png()
        .map_err(|error| PlotError::Encode(error.to_string()))
}
