//! Rejects outputs that would destroy a file: an output that replaces an input, and two outputs to
//! one file.
//!
//! Compares files by identity (device and inode). This detects links and other spellings of a path,
//! even for files that do not exist yet. This module knows nothing about command lines: callers
//! pass the files that a command writes. Start at [`OutputFile`].

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Maximum number of symbolic links to follow to a file that does not exist yet. The kernel has the
/// same limit.
const MAX_LINKS: usize = 40;

/// Words with more bytes than this are not searched for file names.
const MAX_WORD_BYTES: usize = 4096;
/// In each part of a word, at most this many positions are tried as the start of a name. The same
/// limit applies to the end of a name.
const MAX_POSITIONS: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
enum FileIdentity {
    /// A file that exists, by device and inode.
    Existing(u64, u64),
    /// A file that does not exist: device and inode of its folder, and its name.
    Missing(u64, u64, PathBuf),
}

/// A file that a command writes.
#[derive(Debug, Clone)]
pub struct OutputFile {
    /// The option as typed: `-o x.svg`.
    option: String,
    path: PathBuf,
    identity: FileIdentity,
    /// Whether the command may write additional, numbered files: `a.svg`, `a-2.svg`.
    is_numbered: bool,
}

impl FileIdentity {
    /// Returns the identity of a regular file, or of a file that could be created; `None` for
    /// devices and pipes, where a write replaces nothing.
    fn of(path: &Path) -> Option<FileIdentity> {
        match fs::metadata(path) {
            Ok(data) => (data.is_file()).then(|| FileIdentity::Existing(data.dev(), data.ino())),
            Err(_) => FileIdentity::identify_missing(path.to_owned()),
        }
    }

    fn identify_missing(mut path: PathBuf) -> Option<FileIdentity> {
        for _ in 0..MAX_LINKS {
            let Ok(target) = fs::read_link(&path) else { break };
            path = folder_of(&path).join(target);
        }
        let folder = fs::metadata(folder_of(&path)).ok()?;
        let name = PathBuf::from(path.file_name()?);
        Some(FileIdentity::Missing(folder.dev(), folder.ino(), name))
    }
}

impl OutputFile {
    /// Creates the output at `path`, requested by `option`; `None` for devices and pipes, and if
    /// the folder does not exist.
    pub fn new(option: impl Into<String>, path: &Path) -> Option<OutputFile> {
        Some(OutputFile {
            option: option.into(),
            path: path.to_owned(),
            identity: FileIdentity::of(path)?,
            is_numbered: false,
        })
    }

    /// Marks this as the first of several files; the other names end in a number.
    pub fn numbered(self) -> OutputFile {
        OutputFile { is_numbered: true, ..self }
    }

    /// Returns the option as typed.
    pub fn words(&self) -> &str {
        &self.option
    }

    /// Returns whether this output would write the file at `other`.
    pub fn writes(&self, other: &Path) -> bool {
        let identity = FileIdentity::of(other);
        identity.is_some_and(|other| other == self.identity) || self.has_numbered(other)
    }

    /// Returns whether `other` has the name of a numbered file of this output: `a-2.svg` for
    /// `a.svg`.
    fn has_numbered(&self, other: &Path) -> bool {
        if !self.is_numbered {
            return false;
        }
        let stem = |path: &Path| path.file_stem().and_then(OsStr::to_str).map(str::to_owned);
        let (Some(own_stem), Some(name)) = (stem(&self.path), stem(other)) else { return false };
        let number = name.strip_prefix(&own_stem).and_then(|rest| rest.strip_prefix('-'));
        let is_number = number.is_some_and(|number| number.parse().is_ok_and(|n: u32| n > 1));
        let folder = |path: &Path| fs::canonicalize(folder_of(path)).ok();
        is_number
            && self.path.extension() == other.extension()
            && folder(&self.path).is_some_and(|own_folder| folder(other) == Some(own_folder))
    }
}

/// Returns the folder of a file, whether or not the file exists.
fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Rejects two outputs to the same file.
///
/// # Errors
/// Fails if two outputs are the same file; the message names both.
pub fn refuse_same(outputs: &[OutputFile]) -> Result<()> {
    for (index, output) in outputs.iter().enumerate() {
        let earlier = outputs[..index]
            .iter()
            .find(|earlier| earlier.writes(&output.path) || output.writes(&earlier.path));
        if let Some(earlier) = earlier {
            bail!(
                "'{}' and '{}' would be written to the same file\nhint: choose a different file for one of them",
                earlier.option,
                output.option
            );
        }
    }
    Ok(())
}

/// Rejects a word of a command line if it names an existing file that an output would replace.
/// Names in the word are relative to `folder`.
///
/// # Errors
/// Fails like [`refuse_file`].
pub fn refuse_word(outputs: &[OutputFile], word: &str, folder: &Path) -> Result<()> {
    refuse_names(outputs, names_in(word), folder)
}

fn refuse_names<'n>(
    outputs: &[OutputFile],
    names: impl IntoIterator<Item = &'n str>,
    folder: &Path,
) -> Result<()> {
    let mut files = names.into_iter().map(|name| folder.join(name)).filter(|path| path.is_file());
    files.try_for_each(|path| refuse_file(outputs, &path))
}

/// Rejects an input that an output would replace. If the input is a definition file (`.toml`), also
/// checks the files that it names, but no other definition files.
///
/// # Errors
/// Fails if an output would replace an input (the message names both), or the definition file
/// cannot be read.
pub fn refuse_file(outputs: &[OutputFile], input: &Path) -> Result<()> {
    if let Some(output) = outputs.iter().find(|output| output.writes(input)) {
        bail!(
            "'{}' would overwrite the input '{}'\nhint: name another file",
            output.option,
            input.display()
        );
    }
    if input.extension().is_some_and(|ending| ending == "toml") {
        let text = fs::read_to_string(input)
            .with_context(|| format!("cannot read '{}'", input.display()))?;
        for string in text.split(['"', '\'']).filter(|string| !string.contains('\n')) {
            let names = names_in(string).into_iter().filter(|name| !name.ends_with(".toml"));
            refuse_names(outputs, names, folder_of(input))?;
        }
    }
    Ok(())
}

/// Returns the parts of a word that may be file names: the word itself, and its items if it is a
/// command line or a comma-separated list. Each of these is also returned with a prefix (`NAME=`,
/// `@` or `SUITE:`) or a suffix (`[VARIANT]` or `::PART`) stripped, or both.
fn names_in(word: &str) -> Vec<&str> {
    if word.len() > MAX_WORD_BYTES {
        return Vec::new();
    }
    let mut names = vec![word];
    for part in word.split([' ', '\t', '\n', ';', '|', '<', '>', '&', '(', ')', '\'', '"', '`']) {
        let separators = part.char_indices().filter(|(_, char)| "=@:,".contains(*char));
        let prefix_ends = separators.map(|(index, char)| index + char.len_utf8());
        let suffix_starts =
            part.char_indices().filter(|(_, char)| "[:,".contains(*char)).map(|(index, _)| index);
        let starts: Vec<usize> = [0].into_iter().chain(prefix_ends).take(MAX_POSITIONS).collect();
        let ends: Vec<usize> =
            [part.len()].into_iter().chain(suffix_starts).take(MAX_POSITIONS).collect();
        for start in starts {
            names.extend(ends.iter().filter_map(|end| part.get(start..*end)));
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_paths_to_a_file_have_one_identity_even_before_it_exists() {
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
        assert!(same("new.json", "sub/link.json"), "a link to a file that does not exist yet");
        assert!(!same("new.json", "other.json"));
        assert_eq!(FileIdentity::of(Path::new("/dev/null")), None);
    }

    #[test]
    fn numbered_files_belong_only_to_a_numbered_output() {
        let alone = OutputFile::new("-o a.svg", Path::new("a.svg")).unwrap();
        assert!(!alone.writes(Path::new("a-2.svg")));
        let output = alone.numbered();
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
            assert!(names_in(word).contains(&name), "{word}: {:?}", names_in(word));
        }
    }
}
