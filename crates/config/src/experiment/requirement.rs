//! Reads `[requires]`, which lists what must be installed before anything starts.

use crate::file_part::FilePart;
use crate::placeholders::PlaceholderMap;
use crate::value::{OneOrMany, RegexPattern, checked};
use anyhow::Result;
use indexmap::IndexMap;
use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Default pattern for the output of a command: the first number, up to the next space.
const VERSION_PATTERN: &str = r"(?P<version>\d+(?:\.\d+)*\S*)";

/// A requirement of an experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExperimentRequirement {
    /// Name that is shown to users, such as `node`.
    pub name: String,
    /// How it is checked.
    pub need: RequirementKind,
    /// Advice if it is missing.
    pub hint: Option<String>,
}

/// How a requirement is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequirementKind {
    /// A program that prints its version.
    Program {
        /// Command that prints the version.
        command: Vec<String>,
        /// Pattern whose group `version` is the version.
        pattern: String,
        /// Lowest accepted version.
        at_least: Option<String>,
    },
    /// npm packages, which are installed if they are missing.
    Packages {
        /// Folder of `package.json`.
        directory: PathBuf,
        /// Whether there must be a lockfile. If there is one, its versions are installed.
        lockfile: bool,
    },
}

/// What must be installed: a program, or npm packages in the folder `dir`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequirementKeys {
    /// Program and arguments that print a version. Default: the name and "--version".
    command: Option<OneOrMany<String>>,
    /// Pattern with a group (?P<version>...). Default: the first number.
    #[serde(rename = "match")]
    pattern: Option<RegexPattern>,
    /// Lowest accepted version: "18", "3.10".
    at_least: Option<VersionText>,
    /// Folder of a package.json.
    dir: Option<String>,
    /// Whether there must be a package-lock.json. Default: true.
    lockfile: Option<bool>,
    /// Advice if it is missing.
    hint: Option<String>,
}

checked! {
    /// A version: begins with a digit.
    struct VersionText(String) from String as {
        "type": "string", "pattern": r"^([0-9]|\{[A-Za-z_])"
    },
    |version| {
        let error = format!(": cannot parse version '{version}'\nhint: at_least = \"18.2\"");
        let is_version = version.starts_with(|c: char| c.is_ascii_digit());
        is_version.then_some(version).ok_or(error)
    }
}

/// Resolves `[requires]`.
pub fn resolve_requirements(
    top: &FilePart,
    root: &Path,
    placeholders: &PlaceholderMap,
) -> Result<Vec<ExperimentRequirement>> {
    let Some(part) = top.part("requires") else {
        return Ok(Vec::new());
    };
    let node = placeholders.fill_node(part.node, &part.place)?;
    let filled = FilePart::new(&part.place, &node);
    let requirements: IndexMap<String, RequirementKeys> = filled.read_part()?;
    let resolve = |(name, keys): (String, RequirementKeys)| {
        let hint = keys.hint.clone();
        let part = filled.part(&name).unwrap_or_else(|| filled.clone());
        let need = resolve_need(keys, &name, &part, root)?;
        Ok(ExperimentRequirement { name, need, hint })
    };
    requirements.into_iter().map(resolve).collect()
}

fn resolve_need(
    keys: RequirementKeys,
    name: &str,
    part: &FilePart,
    root: &Path,
) -> Result<RequirementKind> {
    let inapplicable_keys: &[&str] = match keys.dir {
        Some(_) => &["command", "match", "at_least"],
        None => &["lockfile"],
    };
    if let Some(key) = inapplicable_keys.iter().find(|key| part.has(key)) {
        let message = "does not apply here\n\
                       hint: 'dir' and 'lockfile' are for packages; 'command', 'match' and \
                       'at_least' are for a program";
        return Err(part.value_error(key, message));
    }
    if let Some(directory) = keys.dir {
        return Ok(RequirementKind::Packages {
            directory: root.join(directory),
            lockfile: keys.lockfile.unwrap_or(true),
        });
    }
    let pattern = keys.pattern.map_or_else(|| VERSION_PATTERN.to_owned(), |pattern| pattern.0);
    let has_version = Regex::new(&pattern).is_ok_and(|pattern| {
        let mut names = pattern.capture_names().flatten();
        names.any(|name| name == "version")
    });
    if !has_version {
        let message = format!("the pattern '{pattern}' has no group for the version");
        let hint = r"v(?P<version>\d+\S*)";
        return Err(part.error_at_key("match", format!("{message}\nhint: {hint}")));
    }
    let default_command = || vec![name.to_owned(), "--version".to_owned()];
    Ok(RequirementKind::Program {
        command: keys.command.map_or_else(default_command, |command| command.0),
        pattern,
        at_least: keys.at_least.map(|version| version.0),
    })
}
