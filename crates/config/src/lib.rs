//! Reads definition files, which define benchmarks, variants, claims and gates in TOML instead of
//! code.
//!
//! This crate decides what such a file may contain, and checks all of it before anything is
//! started. The error for an unknown key names its line and the nearest known key. Nothing here
//! depends on how benchmarks are executed. [`read_source`] reads the text;
//! [`experiment::Experiment::parse`] then resolves it (docs/reference/experiment-file.md),
//! including the short form `[benchmark.NAME]` (docs/guide/definition-files.md). In between,
//! `file_part.rs` finds the line number of each key, for error messages; `reader.rs` fills types that
//! derive serde's `Deserialize`; and `placeholders.rs` fills placeholders.

pub mod adapter;
pub mod experiment;
pub mod expression;
mod file_part;
pub mod fleet;
mod placeholders;
pub mod project;
mod reader;
mod value;

pub use experiment::{LazyDefinition, read_source};
pub use placeholders::{escape_text, fill_text};
