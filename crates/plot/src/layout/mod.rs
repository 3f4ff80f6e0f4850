//! Where things go: title and legend above, axes around, categories along. Measures text before it
//! places anything, so that nothing overlaps. Start reading at `banded` and `plane`.

mod axes;
mod banded;
mod category_labels;
mod header;
mod legend;
mod plane;
mod swatch;

pub(crate) use axes::{
    bottom_height, draw_base_line, draw_bottom_axis, draw_bottom_label, draw_left_label,
    small_ticks, top_strip,
};
pub(crate) use banded::Banded;
pub(crate) use category_labels::{CategoryLabels, LABEL_PX, wanted_height};
pub(crate) use header::{Header, omitted_note};
pub(crate) use legend::Key;
pub(crate) use plane::Plane;
pub(crate) use swatch::Swatch;
