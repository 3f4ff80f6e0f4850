//! A search path without HTTP tools.
//!
//! Node core's `common.js` runs `wrk -h`, `autocannon -h` and `h2load -h` whenever it is loaded,
//! in every measured process (up to 3.5 times the cost of the process itself). The folder's own
//! file stays untouched, so we hide the tools instead: a folder of `PATH` that holds one is
//! replaced by a folder of links to everything else in it.

use super::cache_folder;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The tools that are looked for when a script is loaded.
pub const TOOLS: [&str; 3] = ["wrk", "autocannon", "h2load"];

/// `path` without the [`TOOLS`], except `visible`. A folder that cannot be shadowed stays as it
/// is: a slower start is better than a program that is not found.
pub fn without_tools(path: &OsStr, visible: Option<&str>) -> OsString {
    let hidden: Vec<&str> = TOOLS
        .into_iter()
        .filter(|tool| visible != Some(tool))
        .collect();
    let folders = std::env::split_paths(path).map(|folder| {
        let holds_one = hidden.iter().any(|tool| folder.join(tool).exists());
        let shadow = if holds_one {
            shadow(&folder, &hidden, &cache_folder())
        } else {
            None
        };
        shadow.unwrap_or(folder)
    });
    let folders: Vec<PathBuf> = folders.collect();
    std::env::join_paths(folders).unwrap_or_else(|_| path.to_owned())
}

/// The folder of links for `folder`, made on first use and again when the folder changed.
fn shadow(folder: &Path, hidden: &[&str], cache: &Path) -> Option<PathBuf> {
    // Held while links are made: processes are started by several threads at once.
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let changed = fs::metadata(folder).ok()?;
    let mut hasher = DefaultHasher::new();
    (
        folder,
        hidden,
        changed.mtime(),
        changed.mtime_nsec(),
        changed.ino(),
    )
        .hash(&mut hasher);
    let target = cache.join(format!("path-{:016x}", hasher.finish()));
    if target.is_dir() {
        return Some(target);
    }
    let draft = cache.join(format!(
        "draft-path-{}-{:016x}",
        std::process::id(),
        hasher.finish()
    ));
    fs::create_dir_all(&draft).ok()?;
    for entry in fs::read_dir(folder).ok()?.flatten() {
        if !hidden
            .iter()
            .any(|tool| entry.file_name() == OsStr::new(tool))
        {
            symlink(entry.path(), draft.join(entry.file_name())).ok()?;
        }
    }
    if fs::rename(&draft, &target).is_err() {
        let _ = fs::remove_dir_all(&draft);
    }
    target.is_dir().then_some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_hidden_and_everything_else_stays() {
        let (bin, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for name in ["wrk", "h2load", "node", "sh"] {
            fs::write(bin.path().join(name), name).unwrap();
        }
        let shadow = shadow(bin.path(), &["wrk", "autocannon"], cache.path()).unwrap();
        let mut names: Vec<_> = fs::read_dir(&shadow)
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["h2load", "node", "sh"]);
        assert_eq!(fs::read_to_string(shadow.join("sh")).unwrap(), "sh");
    }
}
