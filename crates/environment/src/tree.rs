//! Read access to `/proc` and `/sys`, or to a folder that simulates them.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A file system below a root folder. Unreadable files count as missing: the kernel shows different
/// files on every machine.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Creates a tree below `root`; `/` is this machine.
    pub fn at(root: &Path) -> Tree {
        Tree {
            root: root.to_owned(),
        }
    }

    /// Maps an absolute path of the machine into the tree.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Returns the text of a file without surrounding blanks.
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let bytes = fs::read(self.path(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// Parses a file that contains a single number or other value.
    pub fn value<T: FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// Returns the names in a folder, sorted.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(folder)) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Whether `path` exists.
    pub fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }
}

/// Returns the value of the first line `NAME<separator>VALUE` of a text, as in `/proc`.
pub(super) fn field<'a>(text: &'a str, name: &str, separator: char) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(separator))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}

/// A simulated machine for tests.
#[cfg(test)]
pub(super) mod fake {
    use super::Tree;
    use std::fs;
    use std::ops::Deref;
    use std::path::Path;
    use tempfile::TempDir;

    /// Keeps the folder alive while the tree is in use.
    pub(crate) struct Machine(pub TempDir, Tree);

    impl Deref for Machine {
        type Target = Tree;
        fn deref(&self) -> &Tree {
            &self.1
        }
    }

    /// Creates a machine with exactly these files.
    pub(crate) fn machine(files: &[(&str, &str)]) -> Machine {
        // Like the real ones, these files are in memory, where syncing is free.
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() {
            tempfile::tempdir_in(memory)
        } else {
            tempfile::tempdir()
        };
        let folder = folder.unwrap();
        let tree = Tree::at(folder.path());
        for (path, text) in files {
            let path = tree.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Machine(folder, tree)
    }
}
