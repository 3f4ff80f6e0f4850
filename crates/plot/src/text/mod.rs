//! Letters: how wide they are, where a line of them breaks, what their outlines are.
//! Knows nothing of charts. Start reading at `font`.

mod font;
mod wrap;

pub use font::text_width;
pub(crate) use font::{CAP_HEIGHT, FAMILIES, outline, room_for};
pub(crate) use wrap::{Wrapped, elide, wrap};
