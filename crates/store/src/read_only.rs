//! Reads a results file that cannot be written, for instance because it belongs to another user.
//!
//! SQLite needs auxiliary files even to read a database with write-ahead logging, and a database of
//! an earlier version must be migrated. If these files or the database cannot be written, the
//! database is read as immutable or from a temporary copy. Start at [`Store::open_to_read`].

use super::Store;
use super::schema::STEPS;
use crate::LOCK_TIMEOUT;
use crate::database::{Database, SqliteConnection};
use anyhow::{Context, bail};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use speedwell_machine::process::ScratchFolder;
use std::fs;
use std::path::{Path, PathBuf};

/// How many times to try to copy a file that changes during the copy.
const COPY_ATTEMPTS: usize = 5;

impl Store {
    /// Opens the results file at `path` for reading. A read-only file is read in place or from a
    /// copy; any other file is opened with [`Store::open`].
    ///
    /// # Errors
    /// Fails like [`Store::open`], or if the file cannot be read.
    pub fn open_to_read(path: &Path) -> anyhow::Result<Store> {
        if Store::server_address(path).is_some() || is_writable(path) {
            return Store::open(path);
        }
        open_read_only(path)
            .with_context(|| format!("cannot read the results file '{}'", path.display()))
    }

    /// Opens the results like [`Store::open_to_read`], for callers that also store derived data. If
    /// the file is read-only, these data are stored in a temporary copy.
    ///
    /// # Errors
    /// Fails like [`Store::open_to_read`].
    pub fn open_to_derive(path: &Path) -> anyhow::Result<Store> {
        if Store::server_address(path).is_some() || is_writable(path) {
            return Store::open(path);
        }
        Store::open_copy_to_derive(path)
    }

    /// Opens a temporary copy even if the file is writable. This helps if the disk of the file is
    /// full.
    ///
    /// # Errors
    /// Fails like [`Store::open_to_read`], or if `path` is not a file.
    pub fn open_copy_to_derive(path: &Path) -> anyhow::Result<Store> {
        let copy = || {
            let copy = copy_consistently(path)?;
            let file = SqliteConnection::open(&copy.path("results.db"), LOCK_TIMEOUT)?;
            anyhow::Ok(Store {
                database: Database::Sqlite(file),
                path: path.to_owned(),
                _copy: Some(copy),
            })
        };
        copy().with_context(|| format!("cannot read the results file '{}'", path.display()))
    }
}

/// Returns whether this process may write the file and its folder. Returns true if there is no such
/// file.
fn is_writable(path: &Path) -> bool {
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    !path.is_file() || (can_write(path) && can_write(folder))
}

/// Returns whether this process may write to `path` (faccessat(2)).
fn can_write(path: &Path) -> bool {
    accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

fn open_read_only(path: &Path) -> anyhow::Result<Store> {
    let store =
        |file, copy| Store { database: Database::Sqlite(file), path: path.to_owned(), _copy: copy };
    // SQLite can read the database if a writer has left its auxiliary files next to it. If the log
    // contains no pending changes, the database can also be read as immutable
    // (<https://sqlite.org/wal.html#read_only_databases>).
    let has_changes = fs::metadata(sibling_path(path, "-wal")).is_ok_and(|data| data.len() > 0);
    let uri_parameters: &[&str] =
        if has_changes { &["mode=ro"] } else { &["mode=ro", "immutable=1"] };
    for form in uri_parameters {
        if let Ok(file) = SqliteConnection::open_read_only(path, form)
            && let Ok(owner) = file.database_owner()
        {
            if owner.usable_steps()? == STEPS.len() {
                return Ok(store(file, None));
            }
            break;
        }
    }
    let copy = copy_consistently(path)?;
    let file = SqliteConnection::open(&copy.path("results.db"), LOCK_TIMEOUT)?;
    Ok(store(file, Some(copy)))
}

/// Copies the database, so that the copy can be migrated. Starts over if the database changes
/// during the copy.
fn copy_consistently(path: &Path) -> anyhow::Result<ScratchFolder> {
    let files = [(path.to_owned(), "results.db"), (sibling_path(path, "-wal"), "results.db-wal")];
    let state = || {
        files
            .each_ref()
            .map(|(file, _)| fs::metadata(file).ok().map(|data| (data.len(), data.modified().ok())))
    };
    for _ in 0..COPY_ATTEMPTS {
        let old_state = state();
        let scratch = ScratchFolder::new()?;
        for (file, name) in &files {
            if file.exists() {
                let copied = fs::copy(file, scratch.path(name));
                copied.with_context(|| format!("cannot copy '{}'", file.display()))?;
                let mut rights = fs::metadata(scratch.path(name))?.permissions();
                std::os::unix::fs::PermissionsExt::set_mode(&mut rights, 0o600);
                fs::set_permissions(scratch.path(name), rights)?;
            }
        }
        if state() == old_state {
            return Ok(scratch);
        }
    }
    bail!("another program keeps writing to it\nhint: wait until that program has ended")
}

/// Returns the path of SQLite's auxiliary file with this suffix.
fn sibling_path(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SessionFilter;
    use speedwell_model::SessionReference;

    /// Creates a store with one session, and closes it.
    fn create_results(folder: &Path) -> PathBuf {
        let path = folder.join("50% #1?.db");
        let file = SqliteConnection::open(&path, LOCK_TIMEOUT).unwrap();
        let session = "INSERT INTO session (id, started_unix_ms, state, command, design, variants, environment)
                       VALUES ('a', 5, 'complete', '[]', '{}', '[]', '{}')";
        file.execute_batch(session).unwrap();
        path
    }

    #[test]
    fn a_file_without_a_log_is_read_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = create_results(folder.path());
        let store = open_read_only(&path).unwrap();
        assert_eq!(store.resolve_reference(&SessionReference::Latest).unwrap(), 1);
        assert_eq!(store.list_sessions(&SessionFilter::default()).unwrap().len(), 1);
        assert!(store._copy.is_none());
        let written = store.database.batch("DELETE FROM session");
        assert!(written.is_err(), "writes are rejected");
    }

    /// An empty file lacks all steps.
    #[test]
    fn a_file_that_lacks_steps_is_read_from_a_copy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("empty.db");
        fs::write(&path, "").unwrap();
        let store = open_read_only(&path).unwrap();
        assert!(store.list_sessions(&SessionFilter::default()).unwrap().is_empty());
        let copy = store._copy.as_ref().map(|copy| copy.folder().to_owned());
        drop(store);
        assert!(copy.is_some_and(|copy| !copy.exists()));
        assert!(fs::read(&path).unwrap().is_empty());
    }

    #[test]
    fn changes_that_are_only_in_the_log_are_read_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = create_results(folder.path());
        // Simulate a killed writer: its log exists, but the index of the log does not.
        let writer = SqliteConnection::open(&path, LOCK_TIMEOUT).unwrap();
        let later = "INSERT INTO session (number, id, started_unix_ms, state, command, design, variants, environment)
                     VALUES (7, 'b', 6, 'complete', '[]', '{}', '[]', '{}')";
        writer.execute_batch(later).unwrap();
        let crashed = tempfile::tempdir().unwrap();
        let copy = crashed.path().join("results.db");
        fs::copy(&path, &copy).unwrap();
        fs::copy(sibling_path(&path, "-wal"), sibling_path(&copy, "-wal")).unwrap();
        let store = open_read_only(&copy).unwrap();
        assert_eq!(store.resolve_reference(&SessionReference::Latest).unwrap(), 7);
    }
}
