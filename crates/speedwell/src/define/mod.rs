//! From the words typed to benchmarks with cases: files, folders, groups.
//!
//! [`read`] is the door. [`target`] finds benchmark files and who performs them, [`selection`]
//! holds what the user wants of them, [`suite`] asks each file for its cases.

mod selection;
mod suite;
mod target;

pub use selection::Selection;
pub use suite::{Suite, describe, read};
pub use target::{core_source, sources};
