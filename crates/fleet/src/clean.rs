//! Removes sessions from a fleet folder, either by name or after two weeks without a write, along
//! with the bundles that no other session uses. Removing the last session removes everything. Start
//! at [`clean`].

use crate::depot::BUNDLE;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Age since the last write after which a session is removed automatically.
pub const OLD: Duration = Duration::from_secs(14 * 24 * 60 * 60);
/// A younger bundle may belong to a session that is still being sent.
const YOUNG: Duration = Duration::from_secs(60 * 60);
/// Everything that we create in the fleet folder.
const ALL: [&str; 8] = [
    "sessions",
    "bundles",
    "objects",
    "programs",
    "bin",
    ".gitignore",
    "speedwell.lock",
    crate::lock::TURN,
];

/// Selects the sessions to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which<'a> {
    /// The session with this ID.
    Named(&'a str),
    /// Sessions without a write for longer than this.
    Older(Duration),
}

/// Summary of what was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cleaned {
    /// Number of sessions.
    pub sessions: u32,
    /// Disk space freed, in bytes.
    pub bytes: u64,
}

/// Removes sessions from a fleet folder. A missing session is not an error.
///
/// # Errors
/// Fails if the folder belongs to another user or a file cannot be removed.
pub fn clean(folder: &Path, which: Which<'_>) -> Result<Cleaned> {
    let Ok(facts) = fs::symlink_metadata(folder) else {
        return Ok(Cleaned::default());
    };
    ensure!(
        facts.is_dir() && facts.uid() == rustix::process::geteuid().as_raw(),
        "the folder '{}' belongs to another user",
        folder.display()
    );
    let mut cleaned = Cleaned::default();
    let mut freed: BTreeSet<OsString> = BTreeSet::new();
    let sessions = entries(&folder.join("sessions"));
    let (gone, left): (Vec<PathBuf>, Vec<PathBuf>) =
        sessions.into_iter().partition(|session| match which {
            Which::Named(name) => session.file_name().is_some_and(|own| own == name),
            Which::Older(age) => is_older(session, age),
        });
    for session in &gone {
        freed.extend(bundle_of(session));
        cleaned.bytes += remove(session)?;
        cleaned.sessions += 1;
    }
    let used: BTreeSet<OsString> = left.iter().filter_map(|one| bundle_of(one)).collect();
    if left.is_empty() && !gone.is_empty() {
        for own in ALL {
            cleaned.bytes += remove(&folder.join(own))?;
        }
        // Fails, as it should, if the folder holds other files.
        let _ = fs::remove_dir(folder);
        return Ok(cleaned);
    }
    for bundle in entries(&folder.join("bundles")) {
        let name = bundle.file_name().unwrap_or_default().to_owned();
        let is_free = freed.contains(&name) || is_older(&bundle, YOUNG);
        if !used.contains(&name) && is_free {
            cleaned.bytes += remove(&bundle)?;
        }
    }
    Ok(cleaned)
}

/// Entries of a folder; empty if it does not exist.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = fs::read_dir(folder).into_iter().flatten().flatten();
    read.map(|entry| entry.path()).collect()
}

/// Name of the bundle that a session uses.
fn bundle_of(session: &Path) -> Option<OsString> {
    let to = fs::read_link(session.join(BUNDLE)).ok()?;
    to.file_name().map(OsString::from)
}

/// Whether the folder, its entries and theirs have not been written to for longer than `age`.
fn is_older(folder: &Path, age: Duration) -> bool {
    let changed = |path: &Path| {
        fs::symlink_metadata(path)
            .and_then(|own| own.modified())
            .ok()
    };
    let mut last = changed(folder);
    for inner in entries(folder) {
        last = last.max(changed(&inner));
        if !inner.is_symlink() && inner.is_dir() {
            for path in entries(&inner) {
                last = last.max(changed(&path));
            }
        }
    }
    let since = last.and_then(|last| SystemTime::now().duration_since(last).ok());
    since.is_some_and(|since| since > age)
}

/// Removes a file or folder and returns the space freed. Files with other hard links free none.
fn remove(path: &Path) -> Result<u64> {
    let Ok(facts) = fs::symlink_metadata(path) else {
        return Ok(0);
    };
    let bytes = size_of(path);
    let removed = if facts.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    removed.with_context(|| format!("cannot remove '{}'", path.display()))?;
    Ok(bytes)
}

fn size_of(path: &Path) -> u64 {
    match fs::symlink_metadata(path) {
        Ok(facts) if facts.is_dir() => entries(path).iter().map(|inner| size_of(inner)).sum(),
        Ok(facts) if facts.is_file() && facts.nlink() == 1 => facts.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;
    use crate::bundle::{Bundle, Wanted};
    use crate::depot::lay_out_here;

    fn lay_out(folder: &Path, session: &str, text: &str) -> (PathBuf, PathBuf) {
        let wanted = Wanted::Text {
            text: text.into(),
            to: "a".into(),
        };
        let bundle = Bundle::gather(&[wanted]).unwrap();
        lay_out_here(&bundle, session, folder).unwrap()
    }

    fn named(name: &str) -> Which<'_> {
        Which::Named(name)
    }

    #[test]
    fn a_bundle_goes_with_the_last_session_that_uses_it() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("fleet");
        let (one, shared) = lay_out(&folder, "0-a", "text");
        let (other, _) = lay_out(&folder, "0-b", "text");
        let (_, own) = lay_out(&folder, "0-c", "longer text");
        assert!(
            one.join(BUNDLE).join("a").is_file(),
            "the session leads to it"
        );
        let cleaned = clean(&folder, named("0-a")).unwrap();
        assert_eq!(cleaned.sessions, 1);
        assert!(!one.exists() && shared.exists() && own.exists());
        clean(&folder, named("0-b")).unwrap();
        assert!(!other.exists() && !shared.exists() && own.exists());
        assert_eq!(clean(&folder, named("0-b")).unwrap(), Cleaned::default());
        fs::write(folder.join("of-somebody"), "").unwrap();
        let last = clean(&folder, named("0-c")).unwrap();
        assert!(last.bytes > 11, "{last:?}");
        let left: Vec<PathBuf> = entries(&folder);
        assert_eq!(left, [folder.join("of-somebody")]);
    }

    #[test]
    fn only_what_is_old_goes_by_itself() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("fleet");
        let (old, _) = lay_out(&folder, "0-a", "text");
        let (young, _) = lay_out(&folder, "0-b", "text");
        let long_ago = SystemTime::now() - 2 * OLD;
        for path in ["orders", "spools", "bin", "bundle"] {
            let _ = fs::remove_dir(old.join(path));
            let _ = fs::remove_file(old.join(path));
        }
        fs::File::open(&old)
            .unwrap()
            .set_modified(long_ago)
            .unwrap();
        let cleaned = clean(&folder, Which::Older(OLD)).unwrap();
        assert_eq!(cleaned.sessions, 1);
        assert!(!old.exists() && young.join(BUNDLE).join("a").exists());
        assert_eq!(
            clean(&folder.join("none"), named("0-a")).unwrap(),
            Cleaned::default()
        );
    }
}
