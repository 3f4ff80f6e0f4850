//! Definition files: benchmarks, variants, claims and gates that are described in TOML instead of code.
//!
//! It decides what such a file may say and checks it whole before anything is started: an unknown key
//! is an error with its line and the nearest known one. It must not know how benchmarks are performed.
//! [`source`] reads the text, [`experiment::Experiment::of`] tells what it means (docs/guide/experiments.md), the short form
//! `[benchmark.NAME]` included (docs/guide/definition-files.md).

mod blanks;
pub mod experiment;
pub mod expression;
mod keys;
mod tree;
mod unit;

pub use blanks::escape;

use anyhow::{Context, Result};
use speedwell_model::DefinitionFile;
use std::path::Path;

/// The text of a definition file. `set` are names with values that take the place of what the file says of
/// `[params]` and of parameters of groups; several pairs of one name are several values.
///
/// # Errors
/// It cannot be read.
pub fn source(file: &Path, set: &[(String, String)]) -> Result<DefinitionFile> {
    let shown = file.display();
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the definition file '{shown}'"))?;
    let cpus = std::thread::available_parallelism().map_or(1, |count| count.get());
    Ok(DefinitionFile {
        file: std::path::absolute(file)?,
        text,
        set: set.to_vec(),
        cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
    })
}
