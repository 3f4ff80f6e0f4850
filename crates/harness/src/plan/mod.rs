//! What will be executed, in which order: decided before the first run, from a stored seed.
//!
//! [`Plan`] holds cases, variants and design; [`Slot`]s follow from it and its seed alone, so a
//! session can be resumed and its order explained years later.

mod order;
mod slot;

pub use order::Shuffle;
pub use slot::{Plan, Slot};
