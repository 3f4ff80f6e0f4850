//! JSON of google/benchmark programs, `json_schema_version` 1 of the library's JSON reporter.
//!
//! Decides what the members of a row and of the context mean. It must not know whether a file is
//! imported or a program is measured. Start at [`File`].

pub mod context;
pub mod counter;
mod file;
mod row;

pub use file::File;
pub use row::{Kind, Row};
