//! The harnesses written in other languages: embedded in the program, unpacked on first use.

use super::cache::{self, cache_folder};
use super::fingerprint::Fingerprint;
use anyhow::Context;
use include_dir::{Dir, include_dir};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// One harness: its files, and where they lie once they have been unpacked.
pub struct Sources {
    files: Dir<'static>,
    name: &'static str,
    // Held while unpacking: files are described by several threads at once.
    unpacked: Mutex<Option<PathBuf>>,
}

/// The Node.js harness.
pub static NODE: Sources = Sources::new("node", include_dir!("$CARGO_MANIFEST_DIR/harness/node"));

/// The C++ header.
pub static CPP: Sources = Sources::new("cpp", include_dir!("$CARGO_MANIFEST_DIR/harness/cpp"));

/// What measures code in C; and in C++, with `code.hpp` of [`CPP`].
pub static C: Sources = Sources::new("c", include_dir!("$CARGO_MANIFEST_DIR/harness/c"));

/// What measures code in Rust: a crate of its own.
pub static RUST: Sources = Sources::new("rust", include_dir!("$CARGO_MANIFEST_DIR/harness/rust"));

/// What measures code in Go: a module.
pub static GO: Sources = Sources::new("go", include_dir!("$CARGO_MANIFEST_DIR/harness/go"));

/// What measures code in Java: a package.
pub static JAVA: Sources = Sources::new("java", include_dir!("$CARGO_MANIFEST_DIR/harness/java"));

/// The Python harness.
pub static PYTHON: Sources =
    Sources::new("python", include_dir!("$CARGO_MANIFEST_DIR/harness/python"));

/// The Erlang application, whose harness measures Elixir as well.
pub static ERLANG: Sources =
    Sources::new("erlang", include_dir!("$CARGO_MANIFEST_DIR/harness/erlang"));

impl Sources {
    const fn new(name: &'static str, files: Dir<'static>) -> Sources {
        Sources {
            files,
            name,
            unpacked: Mutex::new(None),
        }
    }

    /// The folder with the harness.
    ///
    /// # Errors
    /// The cache folder cannot be written.
    pub fn folder(&self) -> anyhow::Result<PathBuf> {
        let mut unpacked = self.unpacked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = &*unpacked {
            return Ok(folder.clone());
        }
        let folder = unpack(&self.files, self.name, &cache_folder())?;
        *unpacked = Some(folder.clone());
        Ok(folder)
    }
}

/// Unpacks `dir` below `cache`, under a name that changes with the content.
fn unpack(dir: &Dir<'_>, name: &str, cache: &Path) -> anyhow::Result<PathBuf> {
    let folder = cache.join(format!("harness-{name}-{:016x}", fingerprint(dir)));
    if folder.is_dir() {
        return Ok(folder);
    }
    let hint = "set XDG_CACHE_HOME to a folder that can be written";
    fs::create_dir_all(cache).with_context(|| {
        format!(
            "cannot create the cache folder '{}'; {hint}",
            cache.display()
        )
    })?;
    cache::remove_drafts(cache);
    // Written beside and moved into place in one step: two processes may unpack at once.
    let draft = cache.join(format!("draft-{name}-{}", std::process::id()));
    write(dir, &draft)
        .with_context(|| format!("cannot unpack the {name} harness to '{}'", draft.display()))?;
    if fs::rename(&draft, &folder).is_err() {
        let _ = fs::remove_dir_all(&draft);
    }
    anyhow::ensure!(
        folder.is_dir(),
        "cannot unpack the {name} harness to '{}'",
        folder.display()
    );
    Ok(folder)
}

fn write(dir: &Dir<'_>, target: &Path) -> std::io::Result<()> {
    for file in files(dir) {
        let path = target.join(file.path());
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, file.contents())?;
    }
    Ok(())
}

/// Every file that the harness needs to run; its own tests and what Python compiled stay behind.
fn files<'a>(dir: &'a Dir<'a>) -> Vec<&'a include_dir::File<'a>> {
    let mut found: Vec<_> = dir.files().collect();
    for inner in dir.dirs() {
        let first = inner.path().components().next();
        let left_out = first
            .is_some_and(|first| first.as_os_str() == "test" || first.as_os_str() == "scripts");
        if !left_out && !inner.path().ends_with("__pycache__") {
            found.extend(files(inner));
        }
    }
    found
}

/// Tells one version of the sources from another, by names and contents.
fn fingerprint(dir: &Dir<'_>) -> u64 {
    let mut fingerprint = Fingerprint::default();
    for file in files(dir) {
        fingerprint.add(file.path().to_string_lossy().as_bytes());
        fingerprint.add(file.contents());
    }
    fingerprint.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacking_twice_gives_the_same_complete_folder() {
        let cache = tempfile::tempdir().unwrap();
        let first = unpack(&NODE.files, "node", cache.path()).unwrap();
        let second = unpack(&NODE.files, "node", cache.path()).unwrap();
        assert_eq!(first, second);
        for needed in ["index.js", "harness.cjs", "probe.cjs", "package.json"] {
            assert!(first.join(needed).is_file(), "{needed}");
        }
        assert!(!first.join("test").exists());
    }
}
