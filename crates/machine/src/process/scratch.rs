//! Creates a folder for temporary files, and removes it when its [`ScratchFolder`] is dropped.
//!
//! All users share the parent folder. Each temporary folder is therefore newly created and
//! accessible only to its owner, so that no other user can have put a link or file into it
//! (CWE-377, CWE-59). A lock marks the folder as in use. If a process is killed, the kernel
//! releases the lock of its folder, and the next process that creates a temporary folder removes
//! the abandoned one.

use anyhow::{Context, Result};
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Common prefix of the folder names.
const FOLDER_PREFIX: &str = "speedwell-scratch-";

/// A folder younger than this is kept, because its process may not have locked it yet.
const MIN_ABANDONED_AGE: Duration = Duration::from_secs(60);

/// A temporary folder.
#[derive(Debug)]
pub struct ScratchFolder {
    folder: PathBuf,
    _lock: File,
}

impl ScratchFolder {
    /// Creates a new folder.
    ///
    /// # Errors
    /// Fails if the folder cannot be created.
    pub fn new() -> Result<ScratchFolder> {
        let parent = std::env::temp_dir();
        remove_abandoned(&parent, MIN_ABANDONED_AGE);
        ScratchFolder::create_in(&parent)
    }

    fn create_in(parent: &Path) -> Result<ScratchFolder> {
        let folder = parent.join(format!("{FOLDER_PREFIX}{}", uuid::Uuid::now_v7().simple()));
        let error_context = || format!("cannot create the folder '{}'", folder.display());
        // This fails if anything with that name exists, including a dangling link (mkdir(2)).
        DirBuilder::new().mode(0o700).create(&folder).with_context(error_context)?;
        let lock = File::open(&folder).with_context(error_context)?;
        // An error is ignored. Where locks are unsupported, other processes cannot lock the folder
        // either, and they remove only folders that they can lock.
        let _ = lock.try_lock();
        Ok(ScratchFolder { folder, _lock: lock })
    }

    /// Path of the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Path of a file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // An error is ignored, because a later process removes the remains.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns the id of the effective user, who owns the files that we create.
pub fn effective_user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Removes temporary folders of this user that are not locked and have not changed for `min_age`.
fn remove_abandoned(parent: &Path, min_age: Duration) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(FOLDER_PREFIX) {
            continue;
        }
        let is_own_folder =
            |metadata: &fs::Metadata| metadata.is_dir() && metadata.uid() == effective_user_id();
        // This is the metadata of the entry, not of the target of a link.
        let Some(metadata) = entry.metadata().ok().filter(is_own_folder) else { continue };
        let age = metadata.modified().ok().and_then(|time| time.elapsed().ok());
        if age.is_none_or(|age| age < min_age) {
            continue;
        }
        let lock = File::open(entry.path()).ok();
        if lock.is_some_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_scratch_folder_is_private_to_its_owner_and_removed_on_drop() {
        let scratch = ScratchFolder::new().unwrap();
        let folder = scratch.folder().to_owned();
        let mode = fs::metadata(&folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        fs::write(scratch.path("body"), "x").unwrap();
        drop(scratch);
        assert!(!folder.exists());
    }

    #[test]
    fn abandoned_scratch_folders_are_removed_and_used_ones_kept() {
        let parent = tempfile::tempdir().unwrap();
        let used = ScratchFolder::create_in(parent.path()).unwrap();
        let abandoned = parent.path().join(format!("{FOLDER_PREFIX}0"));
        fs::create_dir(&abandoned).unwrap();
        fs::write(abandoned.join("body"), "x").unwrap();
        let elsewhere = parent.path().join("mine");
        fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, parent.path().join(format!("{FOLDER_PREFIX}1")))
            .unwrap();
        remove_abandoned(parent.path(), MIN_ABANDONED_AGE);
        assert!(abandoned.exists(), "it may have just been created");
        remove_abandoned(parent.path(), Duration::ZERO);
        assert!(used.folder().exists() && !abandoned.exists() && elsewhere.exists());
    }
}
