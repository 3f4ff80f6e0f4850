//! The text of a definition file, and the experiment that it means.
//!
//! The text is kept with every session, so that a report can be made again when the file has changed.

use super::{Experiment, of_tree};
use crate::definition::tree;
use crate::model::DefinitionFile;
use anyhow::{Context, Result};
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

impl Experiment {
    /// What a definition file means.
    ///
    /// # Errors
    /// It says something that has no meaning; messages name the line.
    pub fn of(written: &DefinitionFile) -> Result<Experiment> {
        let file = &written.file;
        let is_json = file.extension().is_some_and(|ending| ending == "json");
        let tree = match is_json {
            true => tree::of_json(&written.text),
            false => tree::of_toml(&written.text),
        };
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        let root = file.parent().unwrap_or(Path::new("/"));
        tree.and_then(|tree| of_tree(&tree, &stem, root, &written.set, written.cpus))
            .with_context(|| format!("in the definition file '{}'", file.display()))
    }
}
