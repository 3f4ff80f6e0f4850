//! Read access to `/proc` and `/sys`, or to a folder that looks like them.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A file system, named by its root folder. Whatever cannot be read is simply not there: the
/// kernel shows different files on every machine.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    root: PathBuf,
}

impl Tree {
    /// The tree below `root`; `/` is this machine.
    pub fn at(root: &Path) -> Tree {
        Tree {
            root: root.to_owned(),
        }
    }

    /// Where an absolute path of the machine is found.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// A file's text without the blanks around it.
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let bytes = fs::read(self.path(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// A file that holds one number (or another value that can be parsed).
    pub fn value<T: FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// The names in a folder, sorted.
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

    /// Whether there is something at `path`.
    pub fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }
}

/// The value of the first line `NAME<separator>VALUE` of a text, as `/proc` writes its lists.
pub(super) fn field<'a>(text: &'a str, name: &str, separator: char) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(separator))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}

/// A machine made of files, for tests.
#[cfg(test)]
pub(super) mod fake {
    use super::Tree;
    use std::fs;
    use std::ops::Deref;
    use std::path::Path;
    use tempfile::TempDir;

    /// Keeps the folder alive as long as the tree is in use.
    pub(crate) struct Machine(pub TempDir, Tree);

    impl Deref for Machine {
        type Target = Tree;
        fn deref(&self) -> &Tree {
            &self.1
        }
    }

    /// A machine that shows exactly these files.
    pub(crate) fn machine(files: &[(&str, &str)]) -> Machine {
        // Like the real ones, such files are in memory, where it costs nothing to wait until they are written.
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
