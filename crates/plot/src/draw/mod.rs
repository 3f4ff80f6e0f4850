//! Marks on paper: the SVG writer, colours and their variables, marker shapes and hatchings.
//! Knows nothing of data or of charts. Start reading at `svg`.

mod hatching;
mod marker;
mod rect;
mod style;
mod svg;
mod theme;

pub(crate) use hatching::{define_hatchings, hatched, hatched_tint};
pub(crate) use marker::Marker;
pub(crate) use rect::Rect;
pub use style::Rgb;
pub(crate) use style::{AXIS, BAND, GRID, INK, MUTED, NEUTRAL, PAPER, Style};
pub(crate) use svg::{Anchor, Element, Medium, Svg, Text, decimal};
pub use theme::page_colours;
