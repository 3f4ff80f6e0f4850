//! Removes sessions from a fleet folder: a named session, or all sessions that have not been
//! written to for two weeks. Bundles that no remaining session uses are also removed. Removing the
//! last session removes everything that we created in the folder. Start at [`clean_folder`].

use crate::machines::content_store::BUNDLE_LINK;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A session is removed automatically if it has not been written to for this long.
const SESSION_MAX_AGE: Duration = Duration::from_secs(14 * 24 * 60 * 60);
/// A bundle younger than this may belong to a session that is still being sent.
const BUNDLE_MIN_AGE: Duration = Duration::from_secs(60 * 60);
/// Everything that we create in the fleet folder.
const OWNED_ENTRIES: [&str; 8] = [
    "sessions",
    "bundles",
    "objects",
    "programs",
    "bin",
    ".gitignore",
    "speedwell.lock",
    crate::machines::lock::TICKET_FILE_NAME,
];

/// Number of removed sessions, and disk space freed with them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleanSummary {
    /// Number of sessions.
    pub sessions: u32,
    /// Disk space freed, in bytes.
    pub bytes: u64,
}

/// Removes the session with this ID from a fleet folder or, without an ID, all old sessions. A
/// missing session is not an error.
///
/// # Errors
/// Fails if the folder belongs to another user or a file cannot be removed.
pub fn clean_folder(folder: &Path, session_id: Option<&str>) -> Result<CleanSummary> {
    let Ok(metadata) = fs::symlink_metadata(folder) else {
        return Ok(CleanSummary::default());
    };
    ensure!(
        metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw(),
        "the folder '{}' belongs to another user",
        folder.display()
    );
    let mut summary = CleanSummary::default();
    let mut freed_bundles: BTreeSet<OsString> = BTreeSet::new();
    let sessions = list_entries(&folder.join("sessions"));
    let (removed, remaining): (Vec<PathBuf>, Vec<PathBuf>) =
        sessions.into_iter().partition(|session| match session_id {
            Some(id) => session.file_name().is_some_and(|file_name| file_name == id),
            None => is_older(session, SESSION_MAX_AGE),
        });
    for session in &removed {
        freed_bundles.extend(session_bundle(session));
        summary.bytes += remove_entry(session)?;
        summary.sessions += 1;
    }
    let used_bundles: BTreeSet<OsString> =
        remaining.iter().filter_map(|session| session_bundle(session)).collect();
    if remaining.is_empty() && !removed.is_empty() {
        for entry in OWNED_ENTRIES {
            summary.bytes += remove_entry(&folder.join(entry))?;
        }
        // The removal fails, as it should, if the folder holds other files.
        let _ = fs::remove_dir(folder);
        return Ok(summary);
    }
    for bundle in list_entries(&folder.join("bundles")) {
        let name = bundle.file_name().unwrap_or_default().to_owned();
        let is_removable = freed_bundles.contains(&name) || is_older(&bundle, BUNDLE_MIN_AGE);
        if !used_bundles.contains(&name) && is_removable {
            summary.bytes += remove_entry(&bundle)?;
        }
    }
    Ok(summary)
}

/// Returns the entries of a folder. A missing folder has none.
fn list_entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn session_bundle(session: &Path) -> Option<OsString> {
    let target = fs::read_link(session.join(BUNDLE_LINK)).ok()?;
    target.file_name().map(OsString::from)
}

/// Whether neither the folder nor anything in the two levels below it has been written to for
/// longer than `age`.
fn is_older(folder: &Path, age: Duration) -> bool {
    let modified_at =
        |path: &Path| fs::symlink_metadata(path).and_then(|metadata| metadata.modified()).ok();
    let mut newest = modified_at(folder);
    for entry in list_entries(folder) {
        newest = newest.max(modified_at(&entry));
        if !entry.is_symlink() && entry.is_dir() {
            for path in list_entries(&entry) {
                newest = newest.max(modified_at(&path));
            }
        }
    }
    let age_of_newest = newest.and_then(|newest| SystemTime::now().duration_since(newest).ok());
    age_of_newest.is_some_and(|age_of_newest| age_of_newest > age)
}

/// Removes a file or folder and returns the space freed. A file that has other hard links frees no
/// space.
fn remove_entry(path: &Path) -> Result<u64> {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return Ok(0);
    };
    let bytes = disk_usage(path);
    let removed = if metadata.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.with_context(|| format!("cannot remove '{}'", path.display()))?;
    Ok(bytes)
}

fn disk_usage(path: &Path) -> u64 {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            list_entries(path).iter().map(|entry| disk_usage(entry)).sum()
        }
        Ok(metadata) if metadata.is_file() && metadata.nlink() == 1 => metadata.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;
    use crate::machines::bundle::{BundleSource, FileBundle};
    use crate::machines::content_store::lay_out_locally;

    fn lay_out(folder: &Path, session: &str, text: &str) -> (PathBuf, PathBuf) {
        let wanted = BundleSource::Text { text: text.into(), to: "a".into() };
        let bundle = FileBundle::gather(&[wanted]).unwrap();
        lay_out_locally(&bundle, session, folder).unwrap()
    }

    #[test]
    fn a_bundle_is_removed_with_the_last_session_that_uses_it() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("fleet");
        let (one, shared) = lay_out(&folder, "0-a", "text");
        let (other, _) = lay_out(&folder, "0-b", "text");
        let (_, own) = lay_out(&folder, "0-c", "longer text");
        assert!(one.join(BUNDLE_LINK).join("a").is_file(), "the link leads to the bundle");
        let cleaned = clean_folder(&folder, Some("0-a")).unwrap();
        assert_eq!(cleaned.sessions, 1);
        assert!(!one.exists() && shared.exists() && own.exists());
        clean_folder(&folder, Some("0-b")).unwrap();
        assert!(!other.exists() && !shared.exists() && own.exists());
        assert_eq!(clean_folder(&folder, Some("0-b")).unwrap(), CleanSummary::default());
        fs::write(folder.join("of-somebody"), "").unwrap();
        let last = clean_folder(&folder, Some("0-c")).unwrap();
        assert!(last.bytes > 11, "{last:?}");
        let left: Vec<PathBuf> = list_entries(&folder);
        assert_eq!(left, [folder.join("of-somebody")]);
    }

    #[test]
    fn only_old_sessions_are_cleaned_up_by_age() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("fleet");
        let (old, _) = lay_out(&folder, "0-a", "text");
        let (young, _) = lay_out(&folder, "0-b", "text");
        let long_ago = SystemTime::now() - 2 * SESSION_MAX_AGE;
        for path in ["orders", "spools", "bin", "bundle"] {
            let _ = fs::remove_dir(old.join(path));
            let _ = fs::remove_file(old.join(path));
        }
        fs::File::open(&old).unwrap().set_modified(long_ago).unwrap();
        let cleaned = clean_folder(&folder, None).unwrap();
        assert_eq!(cleaned.sessions, 1);
        assert!(!old.exists() && young.join(BUNDLE_LINK).join("a").exists());
        assert_eq!(
            clean_folder(&folder.join("none"), Some("0-a")).unwrap(),
            CleanSummary::default()
        );
    }
}
