//! `[requires]`: what must be there before anything starts.

use super::vocabulary::Vocabulary;
use crate::keys::Keys;
use anyhow::Result;
use regex::Regex;
use std::path::{Path, PathBuf};

/// What is looked for in the output of a command where nothing is said: the first number with dots.
const VERSION: &str = r"(?P<version>\d+(?:\.\d+)*\S*)";

/// What an experiment needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// What people call it: `node`.
    pub name: String,
    /// How it is looked for.
    pub need: Need,
    /// What helps where it is missing.
    pub hint: Option<String>,
}

/// How a requirement is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// A program that tells its version.
    Program {
        /// Program and arguments that print it.
        command: Vec<String>,
        /// A pattern whose group `version` is the version.
        pattern: String,
        /// The lowest version that will do.
        at_least: Option<String>,
    },
    /// Packages of npm.
    Packages {
        /// The folder with `package.json`.
        directory: PathBuf,
        /// They are installed as the lockfile says, or not at all.
        lockfile: bool,
    },
}

/// Reads all requirements.
pub fn read(top: &Keys, root: &Path, words: &Vocabulary) -> Result<Vec<Requirement>> {
    let Some(node) = top.node("requires") else {
        return Ok(Vec::new());
    };
    let filled = words.fill_node(node, "requires")?;
    let keys = Keys::below("requires", &filled)?;
    let mut found = Vec::new();
    for name in keys.names() {
        let Some(inner) = keys.table(&name)? else {
            continue;
        };
        let need = if inner.has("dir") {
            packages(&inner, root)?
        } else {
            program(&inner, &name)?
        };
        found.push(Requirement {
            name,
            need,
            hint: inner.text("hint")?,
        });
        inner.finish()?;
    }
    Ok(found)
}

fn packages(keys: &Keys, root: &Path) -> Result<Need> {
    let directory = keys.text("dir")?.unwrap_or_default();
    Ok(Need::Packages {
        directory: root.join(directory),
        lockfile: keys.truth("lockfile")?.unwrap_or(true),
    })
}

fn program(keys: &Keys, name: &str) -> Result<Need> {
    let usual = || vec![name.to_owned(), "--version".to_owned()];
    let pattern = keys.text("match")?.unwrap_or_else(|| VERSION.to_owned());
    check_pattern(keys, "match", &pattern)?;
    let has_version = Regex::new(&pattern).is_ok_and(|pattern| {
        let mut names = pattern.capture_names().flatten();
        names.any(|name| name == "version")
    });
    if !has_version {
        let message = format!("the pattern '{pattern}' has no group for the version");
        let hint = r"v(?P<version>\d+\S*)";
        return Err(keys.error("match", format!("{message}\nhint: {hint}")));
    }
    let at_least = keys.text("at_least")?;
    if let Some(version) = &at_least
        && !version.starts_with(|c: char| c.is_ascii_digit())
    {
        let message = format!(
            "the key 'at_least' of {}: '{version}' is no version",
            keys.place
        );
        return Err(keys.error("at_least", format!("{message}\nhint: at_least = \"18.2\"")));
    }
    Ok(Need::Program {
        command: keys.texts("command")?.unwrap_or_else(usual),
        pattern,
        at_least,
    })
}

/// Refuses a pattern that cannot be read.
pub fn check_pattern(keys: &Keys, key: &str, pattern: &str) -> Result<()> {
    let Err(error) = Regex::new(pattern) else {
        return Ok(());
    };
    let why = error.to_string();
    let why = why
        .lines()
        .last()
        .unwrap_or_default()
        .trim_start_matches("error: ");
    let place = &keys.place;
    let message = format!("the key '{key}' of {place}: '{pattern}' is not a pattern: {why}");
    Err(keys.error(key, message))
}
