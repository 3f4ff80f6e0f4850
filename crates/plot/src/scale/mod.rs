//! From values to distances: which part of the numbers an axis shows, where its ticks are and how
//! they are written. Knows nothing of SVG. Start reading at `mapping`.

mod extent;
mod mapping;
mod numeral;
mod projection;
mod ticks;

pub(crate) use extent::Extent;
pub(crate) use mapping::Mapping;
pub(crate) use numeral::{figure, fixed};
pub(crate) use projection::{Projection, can_show};
pub(crate) use ticks::Tick;
