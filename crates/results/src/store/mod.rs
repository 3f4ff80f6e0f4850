//! Keeps sessions in one SQLite file, while they are being measured and for ever after.
//!
//! Decides where the file is, what its tables look like and when something counts as kept: a slot
//! of the plan is kept, whole, from the moment its `SlotsDone` was observed, whatever happens to the
//! process afterwards. It must not know where runs come from nor what anybody reads out of them.
//! Start with [`Store`], then [`Recorder`]; the tables are in `schema.rs`.

use crate::store::schema::Kind;
use anyhow::{Context, anyhow, bail};
use rusqlite::{Connection, Error, ErrorCode};
use speedwell_process::Scratch;
use std::path::{Path, PathBuf, absolute};
use std::time::{Duration, Instant};
use std::{env, fs};

mod browse;
mod changes;
mod lines;
mod points;
mod read;
mod read_only;
mod recorder;
mod reference;
mod samples;
mod schema;
mod session_writer;
mod sessions;

pub use browse::{SessionFilter, StoredBenchmark, StoredCalibration, StoredCase, StoredMachine};
pub use changes::StoredChange;
pub use lines::PlacedRevision;
pub use points::{StoredPoint, StoredSeries};
pub use recorder::Recorder;
pub use reference::{Reference, ReferenceError};
pub use sessions::Overview;

/// The sessions of a project, or of a user.
///
/// Several programs may use one file at the same time: readers never wait, writers wait for each
/// other for at most 10 seconds.
///
/// ```
/// use speedwell_results::store::{Reference, Store};
/// let store = Store::in_memory()?;
/// assert!(store.find(&Reference::Latest).is_err(), "nothing measured yet");
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
    /// Holds the copy that is read in place of a file that cannot be written.
    _copy: Option<Scratch>,
}

impl Store {
    /// The file; `:memory:` where there is none.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The folder of a project's results, which also marks the project's root.
pub(super) const FOLDER: &str = ".speedwell";

/// Any of these in a folder makes it the root of a project.
const MARKS: [&str; 3] = [FOLDER, "speedwell.toml", ".git"];

impl Store {
    /// The results file for work done in the folder `from`.
    ///
    /// `explicit` (`--db`) wins; then `.speedwell/results.db` in the nearest folder upwards that
    /// holds `.speedwell`, `speedwell.toml` or `.git`; then the user's data folder
    /// (`$XDG_DATA_HOME/speedwell`, by default `~/.local/share/speedwell`). Nothing is created.
    pub fn locate(explicit: Option<&Path>, from: &Path) -> PathBuf {
        locate(explicit, from, data_home())
    }
}

fn locate(explicit: Option<&Path>, from: &Path, data_home: Option<PathBuf>) -> PathBuf {
    if let Some(path) = explicit {
        return path.to_owned();
    }
    // A relative folder has no ancestors to look at; without a current folder it stays as it is.
    let from = absolute(from).unwrap_or_else(|_| from.to_owned());
    let is_root = |folder: &&Path| MARKS.iter().any(|mark| folder.join(mark).exists());
    match (from.ancestors().find(is_root), data_home) {
        (Some(root), _) => root.join(FOLDER).join("results.db"),
        (None, Some(home)) => home.join("speedwell").join("results.db"),
        (None, None) => from.join(FOLDER).join("results.db"),
    }
}

/// The user's data folder by the XDG base directory specification, which says that relative paths
/// in the variable are to be ignored.
fn data_home() -> Option<PathBuf> {
    let folder = |name: &str| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    folder("XDG_DATA_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/share")))
}

/// How long to wait for another program that is writing. Every transaction of ours takes
/// milliseconds, so whoever holds the file longer is not going to let go soon.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Size of a page of a new file, half of what SQLite takes by itself. A stored run writes whole
/// pages, so smaller ones make small transactions cheaper; but a row that fills a quarter of a page
/// spills into pages of its own, and then the file grows. Of 1024, 2048 and 4096 bytes this one
/// gave the smallest file for 1000 runs of 100 samples (2.6 MB against 3.3 and 4.8) and for 10,000
/// runs of 10 (3.5 MB against 12.1 and 3.6), at the same cost in time (`cargo bench --bench store`).
const PAGE_BYTES: i64 = 2048;

/// Pages in the write-ahead log before it is copied into the file, which is the only moment that
/// waits for the disk. 4 MiB, as by default; that is once in about a thousand runs.
const CHECKPOINT_PAGES: i64 = 2_000;

impl Store {
    /// Opens the results file at `path`; creates it and its folders where they are missing.
    ///
    /// # Errors
    /// The folder cannot be made, or the file is no database, belongs to another program, was
    /// written by a newer version, cannot be written, or stays locked for 10 seconds.
    pub fn open(path: &Path) -> anyhow::Result<Store> {
        Store::open_waiting(path, PATIENCE)
    }

    /// A store that is gone with the process (`--no-save`).
    ///
    /// # Errors
    /// Only when memory runs out.
    pub fn in_memory() -> anyhow::Result<Store> {
        let mut connection = Connection::open_in_memory()?;
        connection.pragma_update(None, "foreign_keys", true)?;
        schema::migrate(&mut connection, schema::STEPS)?;
        Ok(Store {
            connection,
            path: PathBuf::from(":memory:"),
            _copy: None,
        })
    }

    pub(super) fn open_waiting(path: &Path, patience: Duration) -> anyhow::Result<Store> {
        make_folder(path)?;
        connect(path, patience)
            .map(|connection| Store {
                connection,
                path: path.to_owned(),
                _copy: None,
            })
            .with_context(|| format!("cannot open the results file '{}'", path.display()))
    }

    /// Puts an error of the database into words. For use in `map_err`.
    pub(super) fn explain(&self, error: Error) -> anyhow::Error {
        explain(error).context(format!(
            "cannot use the results file '{}'",
            self.path.display()
        ))
    }
}

/// Creates the folder of the file. Inside `.speedwell` a `.gitignore` keeps results out of the
/// project's history: they belong to a machine.
fn make_folder(path: &Path) -> anyhow::Result<()> {
    let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    else {
        return Ok(());
    };
    fs::create_dir_all(folder)
        .map_err(|error| anyhow!("{error}\nhint: choose another file with --db FILE"))
        .with_context(|| format!("cannot create the folder '{}'", folder.display()))?;
    let ignore = folder.join(".gitignore");
    if folder.ends_with(FOLDER) && !ignore.exists() {
        // Without it the results merely show up in `git status`: no reason not to measure.
        let _ = fs::write(ignore, "*\n");
    }
    Ok(())
}

pub(super) fn connect(path: &Path, patience: Duration) -> anyhow::Result<Connection> {
    if path.is_dir() {
        bail!(
            "it is a folder\nhint: name the file inside it, for example '{}/results.db'",
            path.display()
        );
    }
    let mut connection = Connection::open(path).map_err(explain)?;
    connection.busy_timeout(patience).map_err(explain)?;
    let version = match patiently(patience, || schema::kind(&connection)).map_err(explain)? {
        Kind::Ours(version) => version,
        Kind::Newer(version) => bail!(
            "it was written by a newer speedwell (format {version}, this one knows {})\n\
             hint: update speedwell, or choose another file with --db FILE",
            schema::STEPS.len()
        ),
        Kind::Foreign => {
            bail!("it is a database of another program\nhint: choose another file with --db FILE")
        }
    };
    prepare(&connection, patience).map_err(explain)?;
    // Whoever only reads must not wait for somebody who writes.
    if version < schema::STEPS.len() {
        patiently(patience, || schema::migrate(&mut connection, schema::STEPS)).map_err(explain)?;
    }
    Ok(connection)
}

/// Sets the connection up.
///
/// Write-ahead logging lets readers and one writer work at the same time, and with
/// `synchronous = NORMAL` a commit does not wait for the disk: a killed process loses nothing, a
/// power cut may lose the last commits but never the file (<https://sqlite.org/wal.html>).
fn prepare(connection: &Connection, patience: Duration) -> rusqlite::Result<()> {
    connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    patiently(patience, || {
        connection.pragma_update(None, "journal_mode", "WAL")
    })?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// Repeats `attempt` while the file is busy.
///
/// SQLite does not wait by itself where two connections switch a fresh file to write-ahead logging
/// at once: one of them is refused immediately, because waiting could be a deadlock.
fn patiently<T>(
    patience: Duration,
    mut attempt: impl FnMut() -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(error) if is_busy(&error) && begun.elapsed() < patience => {
                std::thread::sleep(Duration::from_millis(5));
            }
            result => return result,
        }
    }
}

fn is_busy(error: &Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

/// What went wrong and what helps, for the errors that a user can do something about.
pub(super) fn explain(error: Error) -> anyhow::Error {
    let (what, hint) = match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => {
            ("it is not a database", "choose another file with --db FILE")
        }
        Some(ErrorCode::DatabaseCorrupt) => (
            "it is damaged",
            "move it away and rebuild it from exported JSON lines with speedwell import",
        ),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
            "it is locked by another program",
            "wait until that program ends, or choose another file with --db FILE",
        ),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => (
            "it cannot be written here",
            "check the rights of the file and of its folder, or choose another file with --db FILE",
        ),
        Some(ErrorCode::DiskFull) => (
            "the disk is full",
            "free some space, or choose another file with --db FILE",
        ),
        Some(ErrorCode::SystemIoFailure) => (
            "the disk reports an error",
            "see the kernel's messages with dmesg",
        ),
        _ => return error.into(),
    };
    anyhow!("{what} ({error})\nhint: {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};

    #[test]
    fn an_explicit_file_wins_over_everything() {
        let path = Path::new("/elsewhere/x.db");
        assert_eq!(locate(Some(path), Path::new("/"), None), path);
    }

    #[test]
    fn every_mark_makes_a_folder_the_root_and_the_nearest_wins() {
        let outer = tempfile::tempdir().unwrap();
        let deep = outer.path().join("project/sub/deeper");
        create_dir_all(&deep).unwrap();
        create_dir_all(outer.path().join(".git")).unwrap();
        assert_eq!(
            locate(None, &deep, None),
            outer.path().join(".speedwell/results.db")
        );

        write(outer.path().join("project/speedwell.toml"), "").unwrap();
        let project = outer.path().join("project/.speedwell/results.db");
        assert_eq!(locate(None, &deep, Some("/data".into())), project);

        create_dir_all(deep.join(".speedwell")).unwrap();
        assert_eq!(
            locate(None, &deep, None),
            deep.join(".speedwell/results.db")
        );
    }

    #[test]
    fn outside_of_a_project_results_go_to_the_users_data_folder() {
        let nowhere = Path::new("/nonexistent/a/b");
        assert_eq!(
            locate(None, nowhere, Some("/home/u/.local/share".into())),
            Path::new("/home/u/.local/share/speedwell/results.db")
        );
        let here = Path::new("/nonexistent/a/b/.speedwell/results.db");
        assert_eq!(
            locate(None, nowhere, None),
            here,
            "a user without a home folder"
        );
    }

    fn words(result: anyhow::Result<Store>) -> String {
        format!("{:#}", result.map(|_| "opened").unwrap_err())
    }

    #[test]
    fn folders_are_created_and_results_stay_out_of_git() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("deep/.speedwell/results.db");
        Store::open(&path).unwrap();
        assert!(path.is_file());
        assert_eq!(
            fs::read_to_string(home.path().join("deep/.speedwell/.gitignore")).unwrap(),
            "*\n"
        );
        assert!(!home.path().join("deep/.gitignore").exists());
    }

    #[test]
    fn an_explicit_file_elsewhere_gets_no_gitignore() {
        let home = tempfile::tempdir().unwrap();
        Store::open(&home.path().join("own.db")).unwrap();
        assert!(!home.path().join(".gitignore").exists());
    }

    #[test]
    fn a_text_file_is_refused_and_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("notes.txt");
        let text = "These are my notes about benchmarks.\n".repeat(50);
        fs::write(&path, &text).unwrap();
        let words = words(Store::open(&path));
        assert!(words.contains(&path.display().to_string()), "{words}");
        assert!(
            words.contains("is not a database") && words.contains("hint: "),
            "{words}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn another_programs_database_is_refused_and_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("bookmarks.sqlite");
        let other = Connection::open(&path).unwrap();
        other.execute_batch("CREATE TABLE bookmarks (url)").unwrap();
        drop(other);
        let before = fs::read(&path).unwrap();
        assert!(words(Store::open(&path)).contains("database of another program"));
        assert_eq!(fs::read(&path).unwrap(), before);
    }

    #[test]
    fn a_file_of_a_newer_version_names_both_versions() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("results.db");
        let store = Store::open(&path).unwrap();
        store
            .connection
            .pragma_update(None, "user_version", 42)
            .unwrap();
        drop(store);
        let words = words(Store::open(&path));
        assert!(
            words.contains("format 42") && words.contains("update speedwell"),
            "{words}"
        );
    }

    #[test]
    fn a_folder_in_place_of_the_file_is_named() {
        let home = tempfile::tempdir().unwrap();
        assert!(words(Store::open(home.path())).contains("it is a folder"));
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let words = words(Store::open(Path::new("/proc/nowhere/results.db")));
        assert!(
            words.starts_with("cannot create the folder '/proc/nowhere'"),
            "{words}"
        );
        assert!(words.contains("--db FILE"), "{words}");
    }

    #[test]
    fn a_file_that_another_program_holds_is_waited_for_and_then_named() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("results.db");
        let holder = Connection::open(&path).unwrap();
        holder.execute_batch("BEGIN EXCLUSIVE").unwrap();
        let begun = Instant::now();
        let words = words(Store::open_waiting(&path, Duration::from_millis(60)));
        assert!(words.contains("is locked by another program"), "{words}");
        assert!(begun.elapsed() >= Duration::from_millis(60));

        holder.execute_batch("ROLLBACK").unwrap();
        Store::open_waiting(&path, Duration::from_millis(60)).unwrap();
    }

    #[test]
    fn errors_a_user_can_mend_carry_a_hint() {
        use rusqlite::ffi;
        for (code, expected) in [
            (ffi::SQLITE_READONLY, "cannot be written"),
            (ffi::SQLITE_CANTOPEN, "cannot be written"),
            (ffi::SQLITE_FULL, "disk is full"),
            (ffi::SQLITE_CORRUPT, "is damaged"),
            (ffi::SQLITE_IOERR, "disk reports an error"),
        ] {
            let words = explain(Error::SqliteFailure(ffi::Error::new(code), None)).to_string();
            assert!(
                words.contains(expected) && words.contains("hint: "),
                "{words}"
            );
        }
    }
}
