//! What stands on the command line for a side: results, or a program that gives some.
//!
//! Decides which by the content: machine code is a program, what begins like JSON is a result file,
//! and of the rest what may be executed is a program. It must not know how programs are executed.
//! Start at [`Input::open`].

use super::super::console::Console;
use anyhow::{Context, Result, bail};
use speedwell_results::foreign::google_benchmark::ResultFile;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The first bytes of a program in the format of Linux and others.
const ELF: &[u8] = b"\x7fELF";

/// One side before anything was executed.
#[derive(Debug)]
pub struct Input {
    /// What the user calls it; standard input is `<stdin>`, as in Python.
    pub label: String,
    /// What it is.
    pub kind: Kind,
}

/// What an input is.
#[derive(Debug)]
pub enum Kind {
    /// A result file.
    Results(ResultFile),
    /// A program, by a path that contains a slash.
    Program(PathBuf),
}

impl Input {
    /// Looks at what `word` names: a path, a program in `PATH`, or `-`.
    ///
    /// # Errors
    /// There is nothing of that name, or it is neither results nor a program.
    pub fn open(word: &str, console: &mut Console<'_>) -> Result<Input> {
        if word == "-" {
            let mut bytes = Vec::new();
            console.stdin.read_to_end(&mut bytes)?;
            return Input::results("<stdin>", bytes);
        }
        let path = console.directory.join(word);
        let Ok(facts) = fs::metadata(&path) else {
            return match in_search_path(word, console) {
                Some(program) => Ok(Input::program(word, program)),
                None => fs::File::open(&path)
                    .with_context(|| format!("cannot open '{word}'"))
                    .and_then(|_| bail!("cannot open '{word}'")),
            };
        };
        if facts.is_dir() {
            bail!("'{word}' is a folder, neither a result file nor a program");
        }
        let bytes = read(&path).with_context(|| format!("cannot read '{word}'"))?;
        if bytes == ELF || (!ResultFile::recognises(&bytes) && is_executable(&facts)) {
            let own = if word.contains('/') {
                PathBuf::from(word)
            } else {
                Path::new(".").join(word)
            };
            return Ok(Input::program(word, own));
        }
        Input::results(word, bytes)
    }

    fn program(word: &str, path: PathBuf) -> Input {
        Input {
            label: word.to_owned(),
            kind: Kind::Program(path),
        }
    }

    fn results(label: &str, bytes: Vec<u8>) -> Result<Input> {
        if bytes.trim_ascii().is_empty() {
            bail!("'{label}' is empty");
        }
        if !ResultFile::recognises(&bytes) {
            bail!("'{label}' is neither a result file in JSON nor a program that may be executed");
        }
        let file = ResultFile::new(bytes).with_context(|| format!("cannot read '{label}'"))?;
        Ok(Input {
            label: label.to_owned(),
            kind: Kind::Results(file),
        })
    }

    /// Whether it is a program.
    pub fn is_program(&self) -> bool {
        matches!(self.kind, Kind::Program(_))
    }
}

/// The content of a file; of machine code only the beginning.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = fs::File::open(path)?;
    let mut bytes = Vec::new();
    (&mut file).take(ELF.len() as u64).read_to_end(&mut bytes)?;
    if bytes != ELF {
        bytes.reserve(file.metadata().map_or(0, |facts| facts.len() as usize));
        file.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// A program that is named without a slash and does not lie in the working directory.
fn in_search_path(word: &str, console: &Console<'_>) -> Option<PathBuf> {
    if word.contains('/') || word.is_empty() {
        return None;
    }
    let path = (console.variable)("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(word))
        .find(|file| fs::metadata(file).is_ok_and(|facts| facts.is_file() && is_executable(&facts)))
}

fn is_executable(facts: &fs::Metadata) -> bool {
    facts.permissions().mode() & 0o111 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(word: &str, folder: &Path, stdin: &[u8]) -> Result<Input> {
        let mut console = Console {
            stdin: &mut &*stdin,
            stdout: &mut Vec::new(),
            stderr: &mut Vec::new(),
            stdout_is_terminal: false,
            progress: None,
            directory: folder.to_owned(),
            variable: &|_| Some("/nowhere:/bin".to_owned()),
            measure: &|_, _| Ok(()),
        };
        Input::open(word, &mut console)
    }

    #[test]
    fn the_content_decides_and_then_the_permission() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8], mode: u32| {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        write("elf", b"\x7fELF...", 0o644);
        write("script", b"#!/bin/sh\n", 0o755);
        write("shared.json", b" {}", 0o755);
        write("notes", b"hello", 0o644);
        write("empty", b" \n", 0o644);
        let program = |word: &str| match open(word, folder.path(), b"").unwrap().kind {
            Kind::Program(path) => path.display().to_string(),
            Kind::Results(_) => panic!("{word}"),
        };
        assert_eq!(program("elf"), "./elf");
        assert_eq!(program("./script"), "./script");
        assert_eq!(program("ls"), "/bin/ls");
        assert!(
            !open("shared.json", folder.path(), b"")
                .unwrap()
                .is_program()
        );
        let stdin = open("-", folder.path(), b"{}").unwrap();
        assert_eq!(
            (stdin.label.as_str(), stdin.is_program()),
            ("<stdin>", false)
        );
        for (word, reason) in [
            ("notes", "is neither a result file in JSON nor a program"),
            ("empty", "'empty' is empty"),
            (".", "is a folder"),
            ("gone", "cannot open 'gone': No such file"),
            ("-", "'<stdin>' is empty"),
        ] {
            let error = format!("{:#}", open(word, folder.path(), b"").unwrap_err());
            assert!(error.contains(reason), "{error}");
        }
    }
}
