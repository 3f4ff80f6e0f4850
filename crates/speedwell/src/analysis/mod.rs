//! Series in, findings out: pure functions, no input or output, nothing formatted.

mod findings;

pub use findings::*;
