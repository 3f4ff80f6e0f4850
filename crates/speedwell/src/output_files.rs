//! Rejects command lines in which an output would replace an input or another output.
//!
//! The module lists the options that name outputs. Any other argument that names an existing file
//! counts as an input. Start at [`check_outputs`]. [`check_inputs`] checks inputs that are known
//! only once definition files have been read.

use super::options::env_variable;
use anyhow::bail;
use clap::ArgMatches;
use clap::parser::ValueSource;
use speedwell_formats::output_files::{OutputFile, refuse_file, refuse_same, refuse_word};
use speedwell_store::Store;
use std::path::{Path, PathBuf};

/// Options that name a file to write. With several charts or HTTP loads, further files get numbers:
/// `a.svg`, `a-2.svg`.
const OUTPUT_OPTIONS: [&str; 4] = ["output", "hdr", "log_requests", "spool"];

/// The option that names the database, which commands read and write.
const DATABASE: &str = "db";

/// Placeholders in help texts for values that are not files.
const NOT_FILES: [&str; 13] = [
    "NAME", "RE", "N", "DUR", "PCT", "WHEN", "FORMAT", "KIND", "U", "COLUMN", "RULE", "URL", "REV",
];

/// Rejects a command line in which an output would replace an input, or another output.
///
/// # Errors
/// Fails if there are such files.
pub fn check_outputs(command: &clap::Command, matches: &ArgMatches) -> anyhow::Result<()> {
    let (mut command, mut matches) = (command, matches);
    while let Some((name, inner_matches)) = matches.subcommand() {
        let Some(subcommand) = command.find_subcommand(name) else {
            break;
        };
        (command, matches) = (subcommand, inner_matches);
    }
    let outputs = outputs(command, matches);
    if outputs.is_empty() {
        return Ok(());
    }
    let database = database_path(command, matches);
    refuse_same(&outputs)?;
    for output in &outputs {
        if let Some(database) = &database
            && database_files(database).any(|file| output.writes(&file))
        {
            bail!(
                "'{}' would replace the database '{}'\nhint: name another file",
                output.words(),
                database.display()
            );
        }
    }
    for argument in input_arguments(command, matches) {
        refuse_word(&outputs, &argument, Path::new(""))?;
    }
    Ok(())
}

/// Rejects inputs that a file given with `-o` would replace.
///
/// # Errors
/// Fails if there is such an input.
pub fn check_inputs<'p>(
    files: &[PathBuf],
    inputs: impl IntoIterator<Item = &'p Path>,
) -> anyhow::Result<()> {
    let outputs: Vec<OutputFile> = files
        .iter()
        .filter_map(|file| OutputFile::new(format!("-o {}", file.display()), file))
        .map(OutputFile::numbered)
        .collect();
    if outputs.is_empty() {
        return Ok(());
    }
    for input in inputs {
        refuse_file(&outputs, input)?;
    }
    Ok(())
}

/// Lists the files to write, in the order of the options. If there are any, adds standard output,
/// which may be redirected to a file.
fn outputs(command: &clap::Command, matches: &ArgMatches) -> Vec<OutputFile> {
    let mut outputs = Vec::new();
    for argument in command.get_arguments() {
        let id = argument.get_id().as_str();
        if !OUTPUT_OPTIONS.contains(&id) {
            continue;
        }
        let option = match (argument.get_short(), argument.get_long()) {
            (Some(short), _) => format!("-{short}"),
            (_, Some(long)) => format!("--{long}"),
            _ => continue,
        };
        let values = typed_values(matches, id);
        outputs.extend(
            values
                .iter()
                .filter_map(|value| OutputFile::new(format!("{option} {value}"), Path::new(value)))
                .map(OutputFile::numbered),
        );
    }
    if !outputs.is_empty() {
        outputs.extend(OutputFile::new("standard output", Path::new("/dev/stdout")));
    }
    outputs
}

/// Returns the location of the database, or `None` if the command uses no database.
fn database_path(command: &clap::Command, matches: &ArgMatches) -> Option<PathBuf> {
    let mut arguments = command.get_arguments();
    arguments.find(|argument| argument.get_id() == DATABASE)?;
    let typed = typed_values(matches, DATABASE).into_iter().next();
    let explicit =
        typed.map(PathBuf::from).or_else(|| env_variable("SPEEDWELL_DB").map(PathBuf::from));
    let current_folder = std::env::current_dir().ok()?;
    Some(Store::locate(explicit.as_deref(), &current_folder))
}

/// Returns the database file and SQLite's auxiliary files.
fn database_files(path: &Path) -> impl Iterator<Item = PathBuf> {
    ["", "-wal", "-shm", "-journal"].into_iter().map(move |suffix| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    })
}

/// Returns the arguments that may name files to read.
fn input_arguments(command: &clap::Command, matches: &ArgMatches) -> Vec<String> {
    let arguments = command.get_arguments().filter(|argument| {
        let id = argument.get_id().as_str();
        let placeholders = argument.get_value_names().unwrap_or_default();
        let is_file = !placeholders.iter().all(|name| NOT_FILES.contains(&name.as_str()));
        is_file && id != DATABASE && !OUTPUT_OPTIONS.contains(&id)
    });
    arguments.flat_map(|argument| typed_values(matches, argument.get_id().as_str())).collect()
}

/// Returns the typed values of an option. Ignores the default value.
fn typed_values(matches: &ArgMatches, id: &str) -> Vec<String> {
    let is_typed =
        matches.value_source(id).is_some_and(|source| source != ValueSource::DefaultValue);
    let raw = matches.try_get_raw(id).ok().flatten().filter(|_| is_typed);
    raw.into_iter().flatten().map(|value| value.to_string_lossy().into_owned()).collect()
}
