//! Reads files of this machine, mostly in `/proc` and `/sys`, or of a folder that simulates a
//! machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The files below a root folder. Every kernel shows different files, so a file that cannot be read
/// is treated as missing.
#[derive(Debug, Clone)]
pub(crate) struct FileTree {
    root: PathBuf,
}

impl FileTree {
    /// Creates a tree below `root`. The root `/` stands for this machine.
    pub fn with_root(root: &Path) -> FileTree {
        FileTree { root: root.to_owned() }
    }

    /// Maps an absolute path of the machine into the tree.
    pub fn resolve(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Returns the text of a file without surrounding whitespace.
    pub fn read_text(&self, path: impl AsRef<Path>) -> Option<String> {
        let bytes = fs::read(self.resolve(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// Parses a file that contains a single number or other value.
    pub fn read_value<T: FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.read_text(path)?.parse().ok()
    }

    /// Returns the names in a folder, sorted.
    pub fn list_names(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.resolve(folder)) else { return Vec::new() };
        let mut names: Vec<String> = entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Whether `path` exists.
    pub fn exists(&self, path: &str) -> bool {
        self.resolve(path).exists()
    }
}

/// Returns the value in the first line of the form `NAME<separator>VALUE` that has this name. Many
/// files in `/proc` consist of such lines.
pub(super) fn find_field<'a>(text: &'a str, name: &str, separator: char) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(separator))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}

/// A simulated machine for tests.
#[cfg(test)]
pub(super) mod fake {
    use super::FileTree;
    use std::fs;
    use std::ops::Deref;
    use std::path::Path;
    use tempfile::TempDir;

    /// A tree and its folder. The folder exists as long as this value.
    pub(crate) struct FakeMachine(pub TempDir, FileTree);

    impl Deref for FakeMachine {
        type Target = FileTree;
        fn deref(&self) -> &FileTree {
            &self.1
        }
    }

    /// Creates a machine with exactly these files.
    pub(crate) fn machine(files: &[(&str, &str)]) -> FakeMachine {
        // The files are kept in memory, like those of a real `/proc`. Syncing costs nothing there.
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() {
            tempfile::tempdir_in(memory).unwrap()
        } else {
            tempfile::tempdir().unwrap()
        };
        let tree = FileTree::with_root(folder.path());
        for (path, text) in files {
            let path = tree.resolve(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        FakeMachine(folder, tree)
    }
}
