//! Adds the targets and options of the project file (`[run]` in `speedwell.toml`) to the command
//! line of `run`, and of `compare` if it measures benchmarks.
//!
//! A typed option wins over the file, also one that excludes the file's option. Start at
//! [`add_defaults`].

use crate::help::visible_options;
use crate::operand_kind::quote_all;
use crate::options::is_setting;
use crate::{CommandLine, status};
use anyhow::{Context, anyhow, bail};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory};
use speedwell_config::project::{PROJECT_FILE_NAME, ProjectFile, project_root};
use speedwell_model::nearest_name;
use std::ffi::OsString;
use std::path::Path;

/// Options that make `compare` measure its targets.
const MEASURING_OPTIONS: [&str; 3] = ["old", "variant", "by"];

/// Returns the command line with the defaults of the project file after the command, and prints
/// which defaults they are. Returns any other command line unchanged, also an invalid one.
///
/// # Errors
/// Fails if the file is invalid, or has an option that the command does not accept.
pub fn add_defaults(arguments: Vec<OsString>) -> anyhow::Result<Vec<OsString>> {
    let name = arguments.get(1).and_then(|name| name.to_str()).unwrap_or_default();
    let Ok(directory) = std::env::current_dir() else { return Ok(arguments) };
    let has_file =
        || project_root(&directory).is_some_and(|root| root.join(PROJECT_FILE_NAME).is_file());
    if !["run", "compare"].contains(&name) || !has_file() {
        return Ok(arguments);
    }
    let mut grammar = CommandLine::command();
    let Ok(matches) = grammar.try_get_matches_from_mut(&arguments) else { return Ok(arguments) };
    let (Some(typed), Some(command)) =
        (matches.subcommand_matches(name), grammar.find_subcommand(name))
    else {
        return Ok(arguments);
    };
    let measures = name == "run" || MEASURING_OPTIONS.iter().any(|id| is_typed(typed, id));
    if !measures || is_typed(typed, "resume") {
        return Ok(arguments);
    }
    let project = ProjectFile::find_file(&directory)?.unwrap_or_default();
    let up =
        directory.strip_prefix(&project.folder).map_or(0, |inside| inside.components().count());
    let up = "../".repeat(up);
    let file = format!("{up}{PROJECT_FILE_NAME}");
    let mut targets = typed.get_many::<String>("targets").into_iter().flatten();
    let mut added: Vec<String> = Vec::new();
    if targets.all(|target| is_setting(target)) {
        let targets = project.run.targets.iter();
        added.extend(targets.map(|target| from_here(target, &up, &project.folder)));
    }
    for (key, values) in &project.run.options {
        let id = option_id(command, key).with_context(|| format!("in '{file}'"))?;
        if !is_typed(typed, id) {
            added = with_option(&arguments, added, (key, values))
                .with_context(|| format!("in '{file}': cannot use the key '{key}' of [run]"))?;
        }
    }
    if added.is_empty() {
        return Ok(arguments);
    }
    status::print_note(&format!("'{file}' adds: {}", quote_all(&added)));
    Ok(inserted(&arguments, &added))
}

/// Returns the words that are to be added, with those of an option, unless a typed option excludes
/// it.
///
/// # Errors
/// Fails if the command does not accept the option.
fn with_option(
    arguments: &[OsString],
    added: Vec<String>,
    (key, values): (&str, &[String]),
) -> anyhow::Result<Vec<String>> {
    let mut words: Vec<String> = values.iter().map(|value| format!("--{key}={value}")).collect();
    if values.is_empty() {
        words.push(format!("--{key}"));
    }
    let with_words = [&added[..], &words].concat();
    match CommandLine::command().try_get_matches_from(inserted(arguments, &with_words)) {
        Ok(_) => Ok(with_words),
        Err(error) if error.kind() == ErrorKind::ArgumentConflict => Ok(added),
        Err(error) => {
            let message = error.to_string();
            bail!("{}", message.lines().next().unwrap_or_default().trim_start_matches("error: "))
        }
    }
}

/// Whether the option was typed, rather than set by its default.
fn is_typed(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// Returns the identifier of the option with this long name.
fn option_id<'c>(command: &'c Command, key: &str) -> anyhow::Result<&'c str> {
    let mut options = command.get_arguments().filter(|option| !option.is_hide_set());
    let found = options.find(|option| option.get_long() == Some(key));
    found.map(|option| option.get_id().as_str()).ok_or_else(|| {
        let hint = match nearest_name(key, &visible_options(command)) {
            Some(name) => format!("did you mean '{name}'?"),
            None => "its keys are 'targets' and the long options of 'speedwell run'".to_owned(),
        };
        anyhow!("[run] has an unknown key '{key}'\nhint: {hint}")
    })
}

/// Inserts words after the name of the command.
fn inserted(arguments: &[OsString], words: &[String]) -> Vec<OsString> {
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    [&arguments[..2], &words, &arguments[2..]].concat()
}

/// Returns the target as it is typed in the current folder, which is `up` below the project's.
fn from_here(target: &str, up: &str, project: &Path) -> String {
    let is_path = project.join(target.trim_end_matches("...")).exists();
    if !is_path || Path::new(target).is_absolute() {
        return target.to_owned();
    }
    match target.strip_prefix("./") {
        Some(inside) if !up.is_empty() => format!("{up}{inside}"),
        _ => format!("{up}{target}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_relative_to_the_folder_of_the_file() {
        let project = tempfile::tempdir().unwrap();
        std::fs::create_dir(project.path().join("bench")).unwrap();
        for (target, up, expected) in [
            ("bench", "", "bench"),
            ("bench", "../", "../bench"),
            ("./...", "", "./..."),
            ("./...", "../../", "../../..."),
            ("mine:bench", "../", "mine:bench"),
            ("len=8", "../", "len=8"),
            ("/", "../", "/"),
        ] {
            assert_eq!(from_here(target, up, project.path()), expected, "{target} {up}");
        }
    }
}
