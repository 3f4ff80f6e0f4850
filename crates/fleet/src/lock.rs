//! One measuring worker a machine, whoever sent it: a lock that the kernel gives back when its holder ends, in whatever way.
//! Start at [`MachineLock::try_take`].

use anyhow::{Context, Result};
use rustix::fs::{Mode, OFlags};
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// Where the lock of a machine is. Everybody may open it.
const PLACE: &str = "/run/lock/speedwell.lock";
/// What it is called in our folder, on machines without a folder for locks.
const NAME: &str = "speedwell.lock";

/// The right to measure on this machine. It ends with this value, or with the process.
#[derive(Debug)]
pub struct MachineLock {
    _file: File,
}

impl MachineLock {
    /// Takes the lock; `None` while somebody else has it. `folder` is ours on this machine.
    ///
    /// # Errors
    /// There is no place for a lock.
    pub fn try_take(folder: &Path) -> Result<Option<MachineLock>> {
        MachineLock::take_one(&[PathBuf::from(PLACE), folder.join(NAME)], false)
    }

    /// The same for a part of an experiment: others of its kind may be there, but nobody who measures alone.
    ///
    /// # Errors
    /// There is no place for a lock.
    pub fn try_share(folder: &Path) -> Result<Option<MachineLock>> {
        MachineLock::take_one(&[PathBuf::from(PLACE), folder.join(NAME)], true)
    }

    /// Takes the lock at the first of the places that there can be one at.
    fn take_one(places: &[PathBuf], is_shared: bool) -> Result<Option<MachineLock>> {
        let mut last = None;
        for place in places {
            match open(place) {
                Ok(file) => {
                    let tried = if is_shared {
                        file.try_lock_shared()
                    } else {
                        file.try_lock()
                    };
                    return match tried {
                        Ok(()) => Ok(Some(MachineLock { _file: file })),
                        Err(TryLockError::WouldBlock) => Ok(None),
                        Err(TryLockError::Error(error)) => {
                            Err(error).with_context(|| format!("cannot lock '{}'", place.display()))
                        }
                    };
                }
                Err(error) => last = Some((place, error)),
            }
        }
        let (place, error) = last.context("no place for a lock is given")?;
        Err(error).with_context(|| format!("cannot open the lock '{}'", place.display()))
    }
}

/// Opens the file to be locked, making it if it is not there. Reading is enough for a lock, so that what one user made serves
/// all: where everybody may write, the kernel lets nobody open another's file for writing or with the wish to make it.
fn open(place: &Path) -> io::Result<File> {
    let only_read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let there = || rustix::fs::open(place, only_read, Mode::empty());
    let opened = there().or_else(|_| {
        let anew = only_read | OFlags::CREATE | OFlags::EXCL;
        let made = rustix::fs::open(place, anew, Mode::from_raw_mode(0o644));
        // Somebody may have been quicker.
        made.or_else(|_| there())
    });
    Ok(File::from(opened?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_has_the_machine() {
        let folder = tempfile::tempdir().unwrap();
        let places = [folder.path().join("none/lock"), folder.path().join("lock")];
        let take = || MachineLock::take_one(&places, false).unwrap();
        let first = take().unwrap();
        assert!(take().is_none());
        drop(first);
        let second = take();
        assert!(second.is_some(), "it is given back");
        // The file stays, and one that others may not write to serves as well.
        let (_, place) = (second, &places[1]);
        let mut permissions = place.metadata().unwrap().permissions();
        permissions.set_readonly(true);
        std::fs::set_permissions(place, permissions).unwrap();
        assert!(take().is_some());
    }

    #[test]
    fn parts_of_experiments_share_a_machine_with_each_other_and_with_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let places = [folder.path().join("lock")];
        let take = |is_shared| MachineLock::take_one(&places, is_shared).unwrap();
        let parts = [take(true), take(true)];
        assert!(parts.iter().all(Option::is_some));
        assert!(take(false).is_none());
        drop(parts);
        let alone = take(false);
        assert!(alone.is_some() && take(true).is_none());
    }

    #[test]
    fn what_cannot_be_locked_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("lock");
        // A link might lead to anybody's file.
        std::os::unix::fs::symlink("/etc/passwd", &place).unwrap();
        let error = MachineLock::take_one(std::slice::from_ref(&place), false).unwrap_err();
        assert!(
            format!("{error:#}").contains(&place.display().to_string()),
            "{error:#}"
        );
    }
}
