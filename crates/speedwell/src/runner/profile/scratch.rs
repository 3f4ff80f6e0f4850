//! A folder for the files of one recording, removed when it is dropped. Only its owner may look into it: stacks
//! can tell what a program works on.

use anyhow::{Context, Result};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Numbers the folders of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// The folder.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    /// Makes a new folder.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new() -> Result<Scratch> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("speedwell-profile-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let made = DirBuilder::new().mode(0o700).create(&folder);
        made.with_context(|| format!("cannot make the folder '{}'", folder.display()))?;
        Ok(Scratch { folder })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left behind then is found in the folder for such things, and is of no further use.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
