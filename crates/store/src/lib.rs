//! Stores sessions in a SQLite file or a PostgreSQL database, during and after measurement.
//!
//! Decides where the file is, what its tables look like and when data is considered stored. The
//! results of a slot (one planned run) are stored together when the `SlotsDone` event of the slot
//! is observed. From then on, the results survive whatever happens to the process. Start with
//! [`Store`], then [`SessionRecorder`]; the tables are in `schema.rs`.

use anyhow::{Context, Result, anyhow, bail};
use database::{Database, Error, LOCK_TIMEOUT, SqliteConnection};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use schema::STEPS;
use speedwell_machine::process::ScratchFolder;
use std::path::{Path, PathBuf, absolute};
use std::time::Duration;
use std::{env, fmt, fs};

#[cfg(test)]
mod back_end_tests;
mod backup;
mod browse;
mod cases;
mod changes;
mod comment_jobs;
mod database;
mod lines;
mod merge;
mod points;
mod projects;
mod read;
mod recorder;
mod schema;
mod selection;
mod session_writer;
mod sessions;
mod tokens;
mod uploads;

pub use backup::{BackupLines, RestoreSummary, end_backup, write_backup_header};
pub use cases::{LARGE_SESSION, SessionByCases};
pub use changes::StoredChange;
pub use comment_jobs::{CommentJob, CommentState, ForgeSetting, PostedComment};
pub use database::StoreErrorKind;
pub use lines::PlacedRevision;
pub use merge::{BlockOrigin, MergeOutcome, ShardState, StoredShard};
pub use points::{LineFailures, SharedFacts, StoredPoint, StoredSeries, credible_start};
pub use projects::{StoredProject, project_name_problem};
pub use read::SessionProgress;
pub use recorder::SessionRecorder;
pub use selection::SessionFilter;
pub use sessions::RetentionRules;
pub use uploads::{MAX_DELAY_MS, SessionDigest, UploadReceipt, UploadSelection, UploadStatus};

/// A results file or a results database: it contains the sessions of a project or, outside of
/// projects, of a user.
///
/// Several processes may use one file at the same time: readers never wait, and a writer waits up
/// to 10 seconds for another writer.
///
/// ```
/// use speedwell_model::SessionReference;
/// use speedwell_store::Store;
/// let store = Store::in_memory()?;
/// assert!(store.resolve_reference(&SessionReference::Latest).is_err(), "nothing measured yet");
/// # Ok::<(), anyhow::Error>(())
/// ```
pub struct Store {
    database: Database,
    path: PathBuf,
    /// Keeps alive the temporary copy that is read instead of a read-only file.
    _copy: Option<ScratchFolder>,
}

impl fmt::Debug for Store {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Store").field(&self.path).finish()
    }
}

impl Store {
    /// Returns the path of the file, the address of the server, or `:memory:`.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Folder of a project's results, which also marks the project's root.
pub(crate) const FOLDER: &str = ".speedwell";

/// Names of files and folders. A folder that contains one of them is the root of a project.
const ROOT_MARKERS: [&str; 3] = [FOLDER, "speedwell.toml", ".git"];

impl Store {
    /// Returns the results file for work done in the folder `from`.
    ///
    /// If `explicit` (`--db`) is given, that is the file. Otherwise, searches upwards from `from`
    /// for a folder that contains `.speedwell`, `speedwell.toml` or `.git`. The file is
    /// `.speedwell/results.db` in that folder. If there is no such folder, the file is in the
    /// user's data folder (`$XDG_DATA_HOME/speedwell`, by default `~/.local/share/speedwell`).
    /// Nothing is created.
    pub fn locate(explicit: Option<&Path>, from: &Path) -> PathBuf {
        locate(explicit, from, data_home())
    }

    /// Returns the location of the user's results file, which serves outside of projects. `None` if
    /// the user has no data folder.
    pub fn locate_for_user() -> Option<PathBuf> {
        data_home().map(|home| user_file(&home))
    }
}

fn locate(explicit: Option<&Path>, from: &Path, data_home: Option<PathBuf>) -> PathBuf {
    if let Some(path) = explicit {
        return path.to_owned();
    }
    // The path must be absolute, so that its ancestors can be searched. If there is no current
    // folder, it stays relative.
    let from = absolute(from).unwrap_or_else(|_| from.to_owned());
    let is_root = |folder: &&Path| ROOT_MARKERS.iter().any(|marker| folder.join(marker).exists());
    match (from.ancestors().find(is_root), data_home) {
        (Some(root), _) => root.join(FOLDER).join("results.db"),
        (None, Some(home)) => user_file(&home),
        (None, None) => from.join(FOLDER).join("results.db"),
    }
}

fn user_file(data_home: &Path) -> PathBuf {
    data_home.join("speedwell").join("results.db")
}

/// Returns the user's data folder. Relative paths in environment variables are ignored, as the XDG
/// base directory specification demands.
fn data_home() -> Option<PathBuf> {
    let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    folder("XDG_DATA_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/share")))
}

/// URL schemes of a database server.
const SERVER_SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

impl Store {
    /// Opens the results file at `path`, or the database at that address. Creates missing files,
    /// folders and tables.
    ///
    /// # Errors
    /// Fails if the folder cannot be created, or the file is not a database, belongs to another
    /// program, was written by a newer or an unreleased version, cannot be written, or stays locked
    /// for 10 seconds.
    /// Fails if a database server cannot be reached or rejects the login.
    pub fn open(path: &Path) -> Result<Store> {
        match Store::server_address(path) {
            Some(address) => Store::open_server(address),
            None => Store::open_with_timeout(path, LOCK_TIMEOUT),
        }
    }

    /// Returns `path` as a server address, if it is one.
    pub fn server_address(path: &Path) -> Option<&str> {
        let is_server = |text: &&str| SERVER_SCHEMES.iter().any(|kind| text.starts_with(kind));
        path.to_str().filter(is_server)
    }

    /// Whether there is a database at `path`. A server address counts as one.
    pub fn exists(path: &Path) -> bool {
        path.is_file() || Store::server_address(path).is_some()
    }

    fn new(database: Database, path: &Path, copy: Option<ScratchFolder>) -> Store {
        Store { database, path: path.to_owned(), _copy: copy }
    }

    #[cfg(feature = "postgres")]
    fn open_server(address: &str) -> Result<Store> {
        let server = database::PostgresConnection::open(address).with_context(|| {
            format!("cannot open the results database '{}'", redact_address(address))
        })?;
        Ok(Store::new(Database::Postgres(Box::new(server)), Path::new(address), None))
    }

    #[cfg(not(feature = "postgres"))]
    fn open_server(address: &str) -> Result<Store> {
        bail!(
            "cannot open the results database '{}': this speedwell was built without PostgreSQL\n\
             hint: cargo install --locked --path crates/speedwell --features postgres (in a \
             checkout)",
            redact_address(address)
        )
    }

    /// Makes every later transaction wait for the disk. A server needs this, because its clients
    /// may discard their data once the server has acknowledged it.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn wait_for_disk(&self) -> Result<()> {
        self.explain(self.database.wait_for_disk())
    }

    /// Creates a store in memory (`--no-save`). It is lost when the process exits.
    ///
    /// # Errors
    /// Fails only if memory runs out.
    pub fn in_memory() -> Result<Store> {
        let file = SqliteConnection::in_memory()?;
        Ok(Store::new(Database::Sqlite(file), Path::new(":memory:"), None))
    }

    pub(crate) fn open_with_timeout(path: &Path, timeout: Duration) -> Result<Store> {
        create_parent(path)?;
        SqliteConnection::open(path, timeout)
            .map(|file| Store::new(Database::Sqlite(file), path, None))
            .with_context(|| format!("cannot open the results file '{}'", path.display()))
    }

    /// Explains `error` if it comes from the database.
    pub(crate) fn to_user_error(&self, error: anyhow::Error) -> anyhow::Error {
        match error.downcast::<Error>() {
            Ok(error) => self.explain_error(error),
            Err(other) => other,
        }
    }

    /// Converts a database error into an error with a message for the user.
    pub(crate) fn explain<T>(&self, result: Result<T, Error>) -> Result<T> {
        result.map_err(|error| self.explain_error(error))
    }

    fn explain_error(&self, error: Error) -> anyhow::Error {
        if let Error::Content(error) = error {
            return self.to_user_error(error);
        }
        let kind = error.kind();
        error.explain_error().context(StoreError {
            kind,
            message: match Store::server_address(&self.path) {
                Some(address) => {
                    format!("cannot use the results database '{}'", redact_address(address))
                }
                None => format!("cannot use the results file '{}'", self.path.display()),
            },
        })
    }
}

/// States that the store could not be used. [`StoreErrorKind::from_error`] finds this error in a
/// chain of errors.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct StoreError {
    kind: StoreErrorKind,
    message: String,
}

impl StoreErrorKind {
    /// Classifies an error by whether a retry may help. An error that does not come from a store is
    /// permanent.
    pub fn from_error(error: &anyhow::Error) -> StoreErrorKind {
        let unusable = error.downcast_ref::<StoreError>();
        unusable.map_or(StoreErrorKind::Permanent, |unusable| unusable.kind)
    }
}

/// Returns an address without its password and options, for messages.
fn redact_address(address: &str) -> String {
    let address = address.split_once('?').map_or(address, |(target, _)| target);
    let parts = address.split_once("://").and_then(|(kind, remainder)| {
        let (login, target) = remainder.rsplit_once('@')?;
        Some((kind, login.split(':').next()?, target))
    });
    match parts {
        Some((kind, user, target)) => format!("{kind}://{user}@{target}"),
        None => address.to_owned(),
    }
}

/// Creates the folder of the file. In `.speedwell`, a `.gitignore` keeps results out of the
/// project's history, because they belong to one machine.
fn create_parent(path: &Path) -> Result<()> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    fs::create_dir_all(folder)
        .map_err(|error| anyhow!("{error}\nhint: choose another file with --db FILE"))
        .with_context(|| format!("cannot create the folder '{}'", folder.display()))?;
    let ignore = folder.join(".gitignore");
    if folder.ends_with(FOLDER) && !ignore.exists() {
        // Without a `.gitignore`, the results merely show up in `git status`, which is no reason to
        // fail.
        let _ = fs::write(ignore, "*\n");
    }
    Ok(())
}

/// How many times to try to copy a file that changes during the copy.
const COPY_ATTEMPTS: usize = 5;

/// Reads a results file that cannot be written, for instance because it belongs to another user.
///
/// SQLite needs auxiliary files even to read a database with write-ahead logging, and a database of
/// an earlier version must be migrated. If these files or the database cannot be written, the
/// database is read as immutable or from a temporary copy.
impl Store {
    /// Opens the results file at `path` for reading. A read-only file is read in place or from a
    /// copy; any other file is opened with [`Store::open`].
    ///
    /// # Errors
    /// Fails like [`Store::open`], or if the file cannot be read.
    pub fn open_to_read(path: &Path) -> Result<Store> {
        if is_writable(path) {
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
    pub fn open_to_derive(path: &Path) -> Result<Store> {
        if is_writable(path) { Store::open(path) } else { Store::open_copy_to_derive(path) }
    }

    /// Opens a temporary copy even if the file is writable. This helps if the disk of the file is
    /// full.
    ///
    /// # Errors
    /// Fails like [`Store::open_to_read`], or if `path` is not a file.
    pub fn open_copy_to_derive(path: &Path) -> Result<Store> {
        open_copy(path)
            .with_context(|| format!("cannot read the results file '{}'", path.display()))
    }
}

/// Returns whether this process may write the file and its folder. Returns true if there is no such
/// file, as for the address of a server.
fn is_writable(path: &Path) -> bool {
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    !path.is_file() || (can_write(path) && can_write(folder))
}

/// Returns whether this process may write to `path` (faccessat(2)).
fn can_write(path: &Path) -> bool {
    accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

fn open_read_only(path: &Path) -> Result<Store> {
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
                return Ok(Store::new(Database::Sqlite(file), path, None));
            }
            break;
        }
    }
    open_copy(path)
}

fn open_copy(path: &Path) -> Result<Store> {
    let copy = copy_consistently(path)?;
    let file = SqliteConnection::open(&copy.path("results.db"), LOCK_TIMEOUT)?;
    Ok(Store::new(Database::Sqlite(file), path, Some(copy)))
}

/// Copies the database, so that the copy can be migrated. Starts over if the database changes
/// during the copy.
fn copy_consistently(path: &Path) -> Result<ScratchFolder> {
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
pub fn sibling_path(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::SessionReference;
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
        assert_eq!(locate(None, &deep, None), outer.path().join(".speedwell/results.db"));

        write(outer.path().join("project/speedwell.toml"), "").unwrap();
        let project = outer.path().join("project/.speedwell/results.db");
        assert_eq!(locate(None, &deep, Some("/data".into())), project);

        create_dir_all(deep.join(".speedwell")).unwrap();
        assert_eq!(locate(None, &deep, None), deep.join(".speedwell/results.db"));
    }

    #[test]
    fn outside_of_a_project_results_go_to_the_users_data_folder() {
        let nowhere = Path::new("/nonexistent/a/b");
        assert_eq!(
            locate(None, nowhere, Some("/home/u/.local/share".into())),
            Path::new("/home/u/.local/share/speedwell/results.db")
        );
        let here = Path::new("/nonexistent/a/b/.speedwell/results.db");
        assert_eq!(locate(None, nowhere, None), here, "a user without a home folder");
    }

    fn error_text(result: Result<Store>) -> String {
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
        let message = error_text(Store::open(&path));
        assert!(message.contains(&path.display().to_string()), "{message}");
        assert!(message.contains("is not a database") && message.contains("hint: "), "{message}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn a_folder_in_place_of_the_file_is_reported() {
        let home = tempfile::tempdir().unwrap();
        assert!(error_text(Store::open(home.path())).contains("it is a folder"));
    }

    #[test]
    fn a_folder_that_cannot_be_created_is_reported() {
        let message = error_text(Store::open(Path::new("/proc/nowhere/results.db")));
        assert!(message.starts_with("cannot create the folder '/proc/nowhere'"), "{message}");
        assert!(message.contains("--db FILE"), "{message}");
    }

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
