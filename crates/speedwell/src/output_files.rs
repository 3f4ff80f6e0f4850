//! Rejects command lines that would destroy a file: an output that replaces an input, or two
//! outputs to one file.
//!
//! Compares files by identity (device and inode), which covers links and different spellings of a
//! path, including those of files that do not exist yet. It does not know what the commands do:
//! every argument that names an existing file counts as an input. Start at [`check`]; inputs known
//! only after parsing are checked by [`check_inputs`].

use super::options::variable;
use anyhow::{Context, bail};
use clap::ArgMatches;
use clap::parser::ValueSource;
use speedwell_results::store::Store;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Options whose value is a file that the command writes. Charts of one report and loads of one
/// command are numbered: `a.svg`, `a-2.svg`.
const OUTPUTS: [&str; 4] = ["output", "hdr", "log_requests", "spool"];

/// The option that names the database, which is read and written.
const DATABASE: &str = "db";

/// Placeholders in help texts of values that cannot be files.
const NOT_FILES: [&str; 13] = [
    "NAME", "RE", "N", "DUR", "PCT", "WHEN", "FORMAT", "KIND", "U", "COLUMN", "RULE", "URL", "REV",
];

/// Maximum number of symbolic links followed to a file that does not exist yet, the same as in the
/// kernel.
const MOST_LINKS: usize = 40;

/// Maximum length of an argument that is searched for file names, and of places where a name may
/// start or end in it.
const LONGEST_WORD: usize = 4096;
const MOST_PLACES: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
enum FileIdentity {
    /// A file that exists, by device and inode.
    Existing(u64, u64),
    /// A file that does not exist: device and inode of its folder, and its name.
    Missing(u64, u64, PathBuf),
}

#[derive(Debug, Clone)]
struct OutputFile {
    /// The option as typed: `-o x.svg`.
    words: String,
    path: PathBuf,
    identity: FileIdentity,
}

impl FileIdentity {
    /// Returns the identity of a regular file, or of one that could be created. Devices and pipes
    /// have none, because writing to them replaces nothing.
    fn of(path: &Path) -> Option<FileIdentity> {
        match fs::metadata(path) {
            Ok(data) => (data.is_file()).then(|| FileIdentity::Existing(data.dev(), data.ino())),
            Err(_) => FileIdentity::of_missing(path.to_owned()),
        }
    }

    fn of_missing(mut path: PathBuf) -> Option<FileIdentity> {
        for _ in 0..MOST_LINKS {
            let Ok(target) = fs::read_link(&path) else {
                break;
            };
            path = folder_of(&path).join(target);
        }
        let folder = fs::metadata(folder_of(&path)).ok()?;
        let name = PathBuf::from(path.file_name()?);
        Some(FileIdentity::Missing(folder.dev(), folder.ino(), name))
    }
}

impl OutputFile {
    fn new(option: &str, path: &Path) -> Option<OutputFile> {
        Some(OutputFile {
            words: format!("{option} {}", path.display()),
            path: path.to_owned(),
            identity: FileIdentity::of(path)?,
        })
    }

    /// Returns whether writing this output would overwrite the file at `other`.
    fn writes(&self, other: &Path) -> bool {
        let identity = FileIdentity::of(other);
        identity.is_some_and(|other| other == self.identity) || self.has_numbered(other)
    }

    /// Returns whether `other` is named like a later chart or load of this output: `a-2.svg` for
    /// `a.svg`.
    fn has_numbered(&self, other: &Path) -> bool {
        let stem = |path: &Path| path.file_stem().and_then(OsStr::to_str).map(str::to_owned);
        let (Some(own), Some(name)) = (stem(&self.path), stem(other)) else {
            return false;
        };
        let number = name
            .strip_prefix(&own)
            .and_then(|rest| rest.strip_prefix('-'));
        let is_number = number.is_some_and(|number| number.parse().is_ok_and(|n: u32| n > 1));
        let folder = |path: &Path| fs::canonicalize(folder_of(path)).ok();
        is_number
            && self.path.extension() == other.extension()
            && folder(&self.path).is_some_and(|own| folder(other) == Some(own))
    }
}

/// Returns the folder of a file, which need not exist.
fn folder_of(path: &Path) -> &Path {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Rejects arguments whose outputs would replace an input or another output.
///
/// # Errors
/// Fails if there are such files, and names both.
pub fn check(command: &clap::Command, matches: &ArgMatches) -> anyhow::Result<()> {
    let (mut command, mut matches) = (command, matches);
    while let Some((name, inner)) = matches.subcommand() {
        let Some(found) = command.find_subcommand(name) else {
            break;
        };
        (command, matches) = (found, inner);
    }
    let outputs = outputs(command, matches);
    if outputs.is_empty() {
        return Ok(());
    }
    let database = database(command, matches);
    for (at, output) in outputs.iter().enumerate() {
        let earlier = outputs[..at]
            .iter()
            .find(|earlier| earlier.writes(&output.path) || output.writes(&earlier.path));
        if let Some(earlier) = earlier {
            bail!(
                "'{}' and '{}' would be written to one file\nhint: name two files",
                earlier.words,
                output.words
            );
        }
        if let Some(database) = &database
            && parts_of_database(database).any(|part| output.writes(&part))
        {
            bail!(
                "'{}' would replace the database '{}'\nhint: name another file",
                output.words,
                database.display()
            );
        }
    }
    for word in input_words(command, matches) {
        refuse_word(&outputs, &word, Path::new(""))?;
    }
    Ok(())
}

/// Rejects inputs that a file of `-o` would replace, including the files that definition files
/// name.
///
/// # Errors
/// Fails if there is one, and names both files.
pub fn check_inputs<'p>(
    files: &[PathBuf],
    inputs: impl IntoIterator<Item = &'p Path>,
) -> anyhow::Result<()> {
    let outputs: Vec<OutputFile> = files
        .iter()
        .filter_map(|file| OutputFile::new("-o", file))
        .collect();
    if outputs.is_empty() {
        return Ok(());
    }
    for input in inputs {
        refuse_file(&outputs, input)?;
    }
    Ok(())
}

/// Lists the files to be written, in the order of options; includes standard output if it is
/// redirected to a file.
fn outputs(command: &clap::Command, matches: &ArgMatches) -> Vec<OutputFile> {
    let mut outputs = Vec::new();
    for argument in command.get_arguments() {
        let id = argument.get_id().as_str();
        if !OUTPUTS.contains(&id) {
            continue;
        }
        let option = match (argument.get_short(), argument.get_long()) {
            (Some(short), _) => format!("-{short}"),
            (_, Some(long)) => format!("--{long}"),
            _ => continue,
        };
        let values = values(matches, id);
        outputs.extend(
            values
                .iter()
                .filter_map(|value| OutputFile::new(&option, Path::new(value))),
        );
    }
    if !outputs.is_empty() {
        let stdout = FileIdentity::of(Path::new("/dev/stdout"));
        outputs.extend(stdout.map(|identity| OutputFile {
            words: "standard output".to_owned(),
            path: PathBuf::from("/dev/stdout"),
            identity,
        }));
    }
    outputs
}

/// Returns the database that the command uses, if it is a file.
fn database(command: &clap::Command, matches: &ArgMatches) -> Option<PathBuf> {
    let mut arguments = command.get_arguments();
    arguments.find(|argument| argument.get_id() == DATABASE)?;
    let typed = values(matches, DATABASE).into_iter().next();
    let explicit = typed
        .map(PathBuf::from)
        .or_else(|| variable("SPEEDWELL_DB").map(PathBuf::from));
    let here = std::env::current_dir().ok()?;
    Some(Store::locate(explicit.as_deref(), &here))
}

/// Returns the file of a database and those that SQLite keeps beside it.
fn parts_of_database(path: &Path) -> impl Iterator<Item = PathBuf> {
    ["", "-wal", "-shm", "-journal"]
        .into_iter()
        .map(move |end| {
            let mut name = path.as_os_str().to_owned();
            name.push(end);
            PathBuf::from(name)
        })
}

/// Returns the arguments that may name files to read.
fn input_words(command: &clap::Command, matches: &ArgMatches) -> Vec<String> {
    let arguments = command.get_arguments().filter(|argument| {
        let id = argument.get_id().as_str();
        let placeholders = argument.get_value_names().unwrap_or_default();
        let is_file = !placeholders
            .iter()
            .all(|name| NOT_FILES.contains(&name.as_str()));
        is_file && id != DATABASE && !OUTPUTS.contains(&id)
    });
    arguments
        .flat_map(|argument| values(matches, argument.get_id().as_str()))
        .collect()
}

/// Returns the typed values of an option, without its default.
fn values(matches: &ArgMatches, id: &str) -> Vec<String> {
    let is_typed = matches
        .value_source(id)
        .is_some_and(|source| source != ValueSource::DefaultValue);
    let raw = matches.try_get_raw(id).ok().flatten().filter(|_| is_typed);
    raw.into_iter()
        .flatten()
        .map(|value| value.to_string_lossy().into_owned())
        .collect()
}

/// Rejects an argument that names an existing file, relative to `folder`, which an output would
/// replace.
fn refuse_word(outputs: &[OutputFile], word: &str, folder: &Path) -> anyhow::Result<()> {
    for name in names_in(word) {
        let path = folder.join(name);
        if path.is_file() {
            refuse_file(outputs, &path)?;
        }
    }
    Ok(())
}

/// Rejects a file that an output would replace; for a definition file, also the files that it
/// names.
fn refuse_file(outputs: &[OutputFile], input: &Path) -> anyhow::Result<()> {
    if let Some(output) = outputs.iter().find(|output| output.writes(input)) {
        bail!(
            "'{}' would replace '{}', which is read\nhint: name another file",
            output.words,
            input.display()
        );
    }
    if input.extension().is_some_and(|ending| ending == "toml") {
        let text = fs::read_to_string(input)
            .with_context(|| format!("cannot read '{}'", input.display()))?;
        for string in text
            .split(['"', '\''])
            .filter(|string| !string.contains('\n'))
        {
            for name in names_in(string)
                .into_iter()
                .filter(|name| !name.ends_with(".toml"))
            {
                let path = folder_of(input).join(name);
                if path.is_file() {
                    refuse_file(outputs, &path)?;
                }
            }
        }
    }
    Ok(())
}

/// Returns the substrings that may be file names: the argument itself, the words of a command line,
/// and what remains of each without `NAME=`, `@`, `SUITE:`, `[VARIANT]` and `::PART`, split at
/// commas.
fn names_in(word: &str) -> Vec<&str> {
    if word.len() > LONGEST_WORD {
        return Vec::new();
    }
    let mut names = vec![word];
    for part in word.split([
        ' ', '\t', '\n', ';', '|', '<', '>', '&', '(', ')', '\'', '"', '`',
    ]) {
        let begins = part
            .char_indices()
            .filter(|(_, char)| "=@:,".contains(*char))
            .map(|(at, char)| at + char.len_utf8());
        let ends = part
            .char_indices()
            .filter(|(_, char)| "[:,".contains(*char))
            .map(|(at, _)| at);
        let begins: Vec<usize> = [0].into_iter().chain(begins).take(MOST_PLACES).collect();
        let ends: Vec<usize> = [part.len()]
            .into_iter()
            .chain(ends)
            .take(MOST_PLACES)
            .collect();
        for begin in begins {
            names.extend(ends.iter().filter_map(|end| part.get(begin..*end)));
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_one_however_it_is_spelled_and_before_it_exists() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a.json"), "{}").unwrap();
        fs::hard_link(path("a.json"), path("b.json")).unwrap();
        fs::create_dir(path("sub")).unwrap();
        std::os::unix::fs::symlink(path("new.json"), path("sub/link.json")).unwrap();
        let same = |one: &str, other: &str| {
            let identity = FileIdentity::of(&path(one));
            identity.is_some() && identity == FileIdentity::of(&path(other))
        };
        assert!(same("a.json", "b.json"), "a hard link");
        assert!(same("a.json", "sub/../a.json"), "another spelling");
        assert!(
            same("new.json", "sub/link.json"),
            "a link to what is not there yet"
        );
        assert!(!same("new.json", "other.json"));
        assert_eq!(FileIdentity::of(Path::new("/dev/null")), None);
    }

    #[test]
    fn later_charts_and_loads_belong_to_an_output() {
        let output = OutputFile::new("-o", Path::new("a.svg")).unwrap();
        for (name, expected) in [("a-2.svg", true), ("./a-13.svg", true), ("a-1.svg", false)] {
            assert_eq!(output.writes(Path::new(name)), expected, "{name}");
        }
        assert!(!output.writes(Path::new("a-2.png")) && !output.writes(Path::new("a-b.svg")));
    }

    #[test]
    fn names_of_files_are_found_in_what_is_typed() {
        for (word, name) in [
            ("old=a1.json,b1.json", "b1.json"),
            ("@body.js", "body.js"),
            ("x.json[new]::copy", "x.json"),
            ("pytest:bench.py", "bench.py"),
            ("a=OPTS=1 ./node server.js", "server.js"),
            ("sort < data.csv > /dev/null", "data.csv"),
            ("name with blanks.json", "name with blanks.json"),
        ] {
            assert!(
                names_in(word).contains(&name),
                "{word}: {:?}",
                names_in(word)
            );
        }
    }
}
