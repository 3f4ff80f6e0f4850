//! `speedwell init`: writes a project file that names the benchmarks of the folder. Measures and
//! executes nothing. Start at [`run`].
//!
//! Also adds the targets and options of the project file (`[run]` in `speedwell.toml`) to the
//! command line of `run`, and of `compare` if it measures benchmarks ([`add_defaults`]). A typed
//! option wins over the file, also one that excludes the file's option.

use crate::operand::{is_setting, quote_all};
use crate::options::visible_options;
use crate::status::{self, CommandStatus};
use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command};
use speedwell_adapters::discover::find_sources;
use speedwell_adapters::{KnownAdapters, SourceKind};
use speedwell_config::project::{PROJECT_FILE_NAME, ProjectFile, project_root};
use speedwell_machine::environment::GitRepository;
use speedwell_machine::process::resolve_program;
use speedwell_model::nearest_name;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Write a project file that names the benchmarks found here
///
/// The file, 'speedwell.toml', is written to the root of the repository, or to the current folder outside of a
/// repository. 'speedwell run' without targets measures what it names. An existing file stays as it is.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  speedwell init
  speedwell init packages/parser")]
pub struct InitArgs {
    /// Folder of the project [default: the root of the repository]
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Time limit for asking git which files it ignores.
const GIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Folders of packages and build products, which have other people's benchmarks.
const FOREIGN_FOLDERS: [&str; 6] = ["node_modules", "vendor", "target", "build", "dist", "venv"];

/// The project file. A test reads it with every commented key as well.
const TEMPLATE: &str = include_str!("new/templates/project-file.txt");

/// Writes the project file and prints its path.
///
/// # Errors
/// Fails if the project has a file already, has no benchmarks, or cannot be written to.
pub fn run(args: &InitArgs) -> Result<CommandStatus> {
    let directory = std::env::current_dir()?;
    let folder = match &args.folder {
        Some(folder) => {
            let context = || format!("cannot find the folder '{}'", folder.display());
            fs::canonicalize(folder).with_context(context)?
        }
        None => {
            let root = directory.ancestors().find(|folder| folder.join(".git").exists());
            root.unwrap_or(&directory).to_owned()
        }
    };
    let file = folder.join(PROJECT_FILE_NAME);
    let shown = file.strip_prefix(&directory).unwrap_or(&file).display();
    ensure!(
        !file.exists(),
        "'{shown}' exists already, and stays as it is\nhint: its key 'targets' of [run] names what 'speedwell run' measures"
    );
    let targets = find_targets(&folder)?;
    if targets.is_empty() {
        bail!(
            "no benchmarks found in '{}'\nhint: 'speedwell new suite' writes one in each language; 'speedwell time' \
             measures commands",
            folder.display()
        );
    }
    let mut created =
        File::create_new(&file).with_context(|| format!("cannot create '{shown}'"))?;
    created
        .write_all(project_text(&targets).as_bytes())
        .with_context(|| format!("cannot write '{shown}'"))?;
    status::write_stdout(format!("{shown}\n"))?;
    status::print_note(&format!("next: speedwell run   # measures {}", targets.join(" ")));
    Ok(CommandStatus::DONE)
}

fn project_text(targets: &[String]) -> String {
    // A list of strings has the same form in JSON as in TOML.
    TEMPLATE.replace("TARGETS", &serde_json::json!(targets).to_string())
}

/// Returns the targets that complete a command line of `run`: those found here, none if the project
/// file names some, or the current folder.
pub fn suggest_targets() -> Vec<String> {
    let Ok(directory) = std::env::current_dir() else { return Vec::new() };
    let project = ProjectFile::find_file(&directory).ok().flatten().unwrap_or_default();
    if !project.run.targets.is_empty() {
        return Vec::new();
    }
    let found = find_targets(&directory).unwrap_or_default();
    if found.is_empty() { vec![".".to_owned()] } else { found }
}

/// Explains that the command line has no targets, and completes it with those found here.
pub fn explain_no_targets() -> String {
    let found = find_targets(&std::env::current_dir().unwrap_or_default()).unwrap_or_default();
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    if found.is_empty() || words.is_empty() {
        return "no targets, and no benchmarks found here\nhint: 'speedwell new suite bench' writes \
                one in each language; 'speedwell time' measures commands"
            .to_owned();
    }
    words.splice(1..1, found);
    format!(
        "no targets\nhint: speedwell {}\nhint: to store them in a project file: speedwell init",
        quote_all(&words)
    )
}

/// Returns the folders and files directly in `folder` that have benchmarks and that git does not
/// ignore. All packages of a Go module are one target, and so is a package that `folder` is itself.
///
/// # Errors
/// Fails if the folder cannot be read, or an enclosing project file is invalid.
fn find_targets(folder: &Path) -> Result<Vec<String>> {
    // An enclosing file may define adapters.
    let adapters = KnownAdapters::new(&[], folder)?;
    ProjectFile::find_file(folder)?;
    let sources = |target: &str| find_sources(target, folder, &adapters).unwrap_or_default();
    let mut targets = Vec::new();
    if folder.join("go.mod").is_file() && !sources("./...").is_empty() {
        targets.push("./...".to_owned());
    } else if adapters.recognize(folder).is_some() {
        targets.push(".".to_owned());
    }
    let entries = fs::read_dir(folder)
        .with_context(|| format!("cannot read the folder '{}'", folder.display()))?;
    let mut names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    let git = GitRepository::for_folder(folder, GIT_TIMEOUT);
    let query: Vec<&str> =
        ["check-ignore", "--"].into_iter().chain(names.iter().map(String::as_str)).collect();
    // Git fails if it ignores none of them.
    let ignored = git.try_git_output(&query).unwrap_or_default();
    for name in &names {
        let is_left_out = name.starts_with(['.', '_'])
            || FOREIGN_FOLDERS.contains(&name.as_str())
            || ignored.lines().any(|line| line == name)
            || resolve_program(&folder.join(name)).is_ok();
        // A definition file is measured alone.
        let has_benchmarks = !is_left_out
            && sources(name).iter().any(|source| {
                let suite = source.suite.as_ref().map(|suite| suite.name.as_str());
                let is_covered = suite == Some("go-package")
                    && targets.first().is_some_and(|first| first == "./...");
                !is_covered && !matches!(source.kind, SourceKind::Experiment | SourceKind::Load)
            });
        if has_benchmarks {
            targets.push(name.clone());
        }
    }
    Ok(targets)
}

/// Options that make `compare` measure its targets.
const MEASURING_OPTIONS: [&str; 3] = ["old", "variant", "by"];

/// Returns the command line of `program` with the defaults of the project file after the command,
/// and prints which defaults they are. Returns any other command line unchanged, also an invalid
/// one.
///
/// # Errors
/// Fails if the file is invalid, or has an option that the command does not accept.
pub fn add_defaults(arguments: Vec<OsString>, program: &Command) -> Result<Vec<OsString>> {
    let name = arguments.get(1).and_then(|name| name.to_str()).unwrap_or_default();
    let Ok(directory) = std::env::current_dir() else { return Ok(arguments) };
    let has_file =
        || project_root(&directory).is_some_and(|root| root.join(PROJECT_FILE_NAME).is_file());
    if !["run", "compare"].contains(&name) || !has_file() {
        return Ok(arguments);
    }
    let mut built = program.clone();
    let Ok(matches) = built.try_get_matches_from_mut(&arguments) else { return Ok(arguments) };
    let (Some(typed), Some(command)) =
        (matches.subcommand_matches(name), built.find_subcommand(name))
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
            added = with_option(&arguments, added, (key, values), program)
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
/// Fails if the command of `program` does not accept the option.
fn with_option(
    arguments: &[OsString],
    added: Vec<String>,
    (key, values): (&str, &[String]),
    program: &Command,
) -> Result<Vec<String>> {
    let mut words: Vec<String> = values.iter().map(|value| format!("--{key}={value}")).collect();
    if values.is_empty() {
        words.push(format!("--{key}"));
    }
    let with_words = [&added[..], &words].concat();
    match program.clone().try_get_matches_from(inserted(arguments, &with_words)) {
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
fn option_id<'c>(command: &'c Command, key: &str) -> Result<&'c str> {
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
    fn the_project_file_is_valid_with_and_without_its_comments() {
        let text = project_text(&["bench".to_owned(), "./...".to_owned()]);
        let keys = text.lines().map(|line| match line.strip_prefix("# ") {
            Some(key) if key.contains(" = ") => key,
            _ => line,
        });
        let all_keys = keys.collect::<Vec<_>>().join("\n");
        for (text, options) in [(&text, 0), (&all_keys, 1)] {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join(PROJECT_FILE_NAME), text).unwrap();
            let project = ProjectFile::find_file(folder.path()).unwrap().unwrap();
            assert_eq!(project.run.targets, ["bench", "./..."]);
            assert_eq!(project.run.options.len(), options, "{text}");
            assert_eq!(project.order.is_some(), options == 1, "{text}");
        }
    }

    #[test]
    fn targets_are_relative_to_the_folder_of_the_file() {
        let project = tempfile::tempdir().unwrap();
        fs::create_dir(project.path().join("bench")).unwrap();
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
