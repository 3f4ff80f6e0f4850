//! The experiment that the text of a definition file means.
//!
//! The text is kept with every session, so that a report can be made again when the file has changed.

use super::{Experiment, of_tree};
use crate::tree;
use anyhow::{Context, Result};
use speedwell_model::DefinitionFile;
use std::path::Path;

impl Experiment {
    /// What a definition file means.
    ///
    /// # Errors
    /// It says something that has no meaning; messages name the line.
    pub fn of(written: &DefinitionFile) -> Result<Experiment> {
        let file = &written.file;
        let is_json = file.extension().is_some_and(|ending| ending == "json");
        let tree = if is_json {
            tree::of_json(&written.text)
        } else {
            tree::of_toml(&written.text)
        };
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        let root = file.parent().unwrap_or(Path::new("/"));
        tree.and_then(|tree| of_tree(&tree, &stem, root, &written.set, written.cpus))
            .with_context(|| format!("in the definition file '{}'", file.display()))
    }
}
