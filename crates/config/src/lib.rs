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
pub mod labels;
mod placeholders;
pub mod project;
mod reader;
mod value;

pub use placeholders::{escape_text, fill_text};

use anyhow::{Context, Result, anyhow};
use experiment::Experiment;
use speedwell_model::DefinitionFile;
use std::borrow::Cow;
use std::path::Path;
use std::sync::OnceLock;

/// A definition file that is parsed once, on first use. A session needs the parsed file for every
/// run.
#[derive(Debug)]
pub struct LazyDefinition {
    source: DefinitionFile,
    experiment: OnceLock<Result<Experiment, String>>,
}

impl LazyDefinition {
    /// Creates a definition without parsing it.
    pub fn new(source: DefinitionFile) -> LazyDefinition {
        LazyDefinition { source, experiment: OnceLock::new() }
    }

    /// Creates a definition from a file that has been parsed already.
    pub fn from_parsed(source: DefinitionFile, experiment: Experiment) -> LazyDefinition {
        LazyDefinition { source, experiment: OnceLock::from(Ok(experiment)) }
    }

    /// Returns its text and path.
    pub fn source(&self) -> &DefinitionFile {
        &self.source
    }

    /// Returns the parsed experiment.
    ///
    /// # Errors
    /// Fails if the file is invalid; messages name the line.
    pub fn experiment(&self) -> Result<&Experiment> {
        let parse = || Experiment::parse(&self.source).map_err(|error| format!("{error:#}"));
        let parsed = self.experiment.get_or_init(parse);
        parsed.as_ref().map_err(|message| anyhow!("{message}"))
    }

    /// Returns the experiment with the values in `set` instead of the values with which the file
    /// was read.
    ///
    /// # Errors
    /// Fails under the same conditions as [`LazyDefinition::experiment`], and if a name does not
    /// exist in the file.
    pub fn experiment_with(&self, set: Vec<(String, String)>) -> Result<Cow<'_, Experiment>> {
        if set == self.source.set {
            return self.experiment().map(Cow::Borrowed);
        }
        let source = self.source.clone();
        Experiment::parse(&DefinitionFile { set, ..source }).map(Cow::Owned)
    }
}

impl PartialEq for LazyDefinition {
    fn eq(&self, other: &LazyDefinition) -> bool {
        self.source == other.source
    }
}

/// Reads the text of a definition file. The pairs in `set` override `[params]` and the parameters
/// of groups; several pairs with the same name give several values.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn read_source(file: &Path, set: &[(String, String)]) -> Result<DefinitionFile> {
    let shown = file.display();
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the definition file '{shown}'"))?;
    let cpus = std::thread::available_parallelism().map_or(1, |count| count.get());
    Ok(DefinitionFile {
        file: std::path::absolute(file)?,
        text,
        set: set.to_vec(),
        cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
        placement: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_parsed_once_and_again_only_with_other_values() {
        let definition = LazyDefinition::new(DefinitionFile {
            file: "/x/a.toml".into(),
            text: "[benchmark.b]\nkind = \"load\"\nurl = \"http://x/\"\nparameters = { size = 1 }"
                .into(),
            set: Vec::new(),
            cpus: 2,
            placement: None,
        });
        let parsed = definition.experiment().unwrap();
        assert!(std::ptr::eq(parsed, definition.experiment().unwrap()));
        let same = definition.experiment_with(Vec::new()).unwrap();
        assert!(matches!(same, Cow::Borrowed(same) if std::ptr::eq(parsed, same)));
        let set = vec![("size".to_owned(), "7".to_owned())];
        let other = definition.experiment_with(set).unwrap();
        assert_eq!(other.groups[0].cases[0].id(), "a/b concurrency=10 size=7");
    }
}
