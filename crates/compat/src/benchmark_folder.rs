//! Finds the benchmark folder of a drop-in, its groups and scripts.
//!
//! Decides which folder is meant and which files in it are scripts, as the originals do; the
//! originals simply take the folder that they lie in. It must not know what is done with the
//! scripts. Start at [`BenchmarkFolder::find`] and [`BenchmarkFolder::select`].

use super::console::Console;
use super::node_cli::{Refusal, Words};
use speedwell_measure::Script;
use std::io;
use std::path::{Path, PathBuf};

/// The environment variable that names the folder when `--dir` does not.
pub const VARIABLE: &str = "SPEEDWELL_BENCHMARK_DIR";

/// A folder of groups of benchmark scripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BenchmarkFolder {
    /// The folder.
    pub path: PathBuf,
}

impl BenchmarkFolder {
    /// The folder that `--dir` names, else the variable `SPEEDWELL_BENCHMARK_DIR`, else the working
    /// directory or `benchmark` below it, whichever holds a `common.js`.
    ///
    /// # Errors
    /// None of them is such a folder.
    pub fn find(words: &Words, console: &Console<'_>) -> Result<BenchmarkFolder, Refusal> {
        let named = words
            .value("dir")
            .map(str::to_owned)
            .or_else(|| (console.variable)(VARIABLE));
        if let Some(named) = named {
            let path = console.directory.join(&named);
            let refusal = || Refusal::line(format!("'{named}' is not a directory"));
            return if path.is_dir() {
                Ok(BenchmarkFolder { path })
            } else {
                Err(refusal())
            };
        }
        let here = &console.directory;
        [here.clone(), here.join("benchmark")]
            .into_iter()
            .find(|path| path.join("common.js").is_file())
            .map(|path| BenchmarkFolder { path })
            .ok_or_else(|| {
                Refusal::line(format!(
                    "there is no benchmark folder with a 'common.js' in '{}'\n\
                     hint: name one with '--dir' or {VARIABLE}",
                    here.display()
                ))
            })
    }

    /// The scripts of the groups asked for that pass the filters, in the order of the request.
    ///
    /// # Errors
    /// A group does not exist, or nothing is left.
    pub fn select(&self, words: &Words) -> Result<Vec<Script>, Refusal> {
        let unreadable = |error: io::Error| {
            Refusal::line(format!("cannot read '{}': {error}", self.path.display()))
        };
        let every = self.groups().map_err(unreadable)?;
        let all = words.items.iter().any(|item| item == "all");
        let asked = if all { &every } else { &words.items };
        let mut scripts = Vec::new();
        for group in asked {
            if !every.contains(group) {
                return Err(Refusal::line(format!(
                    "The \"{group}\" category does not exist."
                )));
            }
            let files = self.scripts(group).map_err(unreadable)?;
            scripts.extend(
                files
                    .into_iter()
                    .filter(|file| passes(words, file))
                    .map(|file| Script {
                        path: self.path.join(group).join(&file),
                        name: format!("{group}/{file}"),
                    }),
            );
        }
        if scripts.is_empty() {
            return Err(Refusal::line("No benchmarks found"));
        }
        Ok(scripts)
    }

    /// All groups in order: every directory but the one for files that benchmarks read.
    fn groups(&self) -> io::Result<Vec<String>> {
        let mut groups = entries(&self.path)?;
        groups.retain(|name| name != "fixtures" && self.path.join(name).is_dir());
        Ok(groups)
    }

    /// All scripts of a group in order. A directory among them is a script with an `index.js`.
    fn scripts(&self, group: &str) -> io::Result<Vec<String>> {
        let mut scripts = entries(&self.path.join(group))?;
        scripts.retain(|name| !name.starts_with(['.', '_']));
        Ok(scripts)
    }
}

/// Any filter lets a file pass, then any exclusion keeps it out. Only the file's name is looked at.
fn passes(words: &Words, file: &str) -> bool {
    let mut filters = words.values("filter").peekable();
    let kept = filters.peek().is_none() || filters.any(|filter| file.contains(filter));
    kept && !words
        .values("exclude")
        .any(|exclude| file.contains(exclude))
}

fn entries(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path)? {
        // A name that is no text cannot be asked for.
        names.extend(entry?.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

/// The script that a path names, and the benchmark folder above it, if there is one.
///
/// # Errors
/// The path does not exist.
pub fn script_at(path: &str, console: &Console<'_>) -> Result<(Script, Option<PathBuf>), Refusal> {
    let absolute = console
        .directory
        .join(path)
        .canonicalize()
        .map_err(|error| Refusal::line(format!("cannot read '{path}': {error}")))?;
    let folder = absolute
        .ancestors()
        .skip(1)
        .find(|above| above.join("common.js").is_file());
    let below_folder = folder.and_then(|folder| absolute.strip_prefix(folder).ok());
    // Outside of a benchmark folder the name is that of the file with its group.
    let parts = absolute.iter().count();
    let last_two: PathBuf = absolute.iter().skip(parts.saturating_sub(2)).collect();
    let name = below_folder
        .unwrap_or(&last_two)
        .to_string_lossy()
        .into_owned();
    let folder = folder.map(Path::to_owned);
    Ok((
        Script {
            name,
            path: absolute,
        },
        folder,
    ))
}
