//! SQLite back end: a connection to a file or an in-memory database.
//!
//! Decides how a file is opened, how its owner is recognized, and how its tables are migrated.

use super::{Error, Given, Purpose, Statement, Trouble};
use crate::store::PATIENCE;
use crate::store::schema::{self, Kind, Step};
use anyhow::{anyhow, bail};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{
    CachedStatement, Connection, ErrorCode, OpenFlags, ToSql, Transaction, TransactionBehavior,
};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// SQLite application id of our files: the letters `SPWL`.
const APPLICATION_ID: i32 = 0x5350_574c;

/// Page size of a new file, half of SQLite's default. A stored run writes whole pages, so smaller
/// pages make small transactions cheaper; but a row larger than a quarter of a page spills into
/// overflow pages, and the file grows. Of 1024, 2048 and 4096 bytes, 2048 gave the smallest file
/// for 1000 runs of 100 samples (2.6 MB against 3.3 and 4.8) and for 10,000 runs of 10 (3.5 MB
/// against 12.1 and 3.6), at the same speed (`cargo bench --bench store`).
const PAGE_BYTES: i64 = 2048;

/// Pages in the write-ahead log before a checkpoint, the only operation that waits for the disk. 4
/// MiB, as by default: once in about a thousand runs.
const CHECKPOINT_PAGES: i64 = 2_000;

/// Capacity of the cache of prepared statements.
const PREPARED: usize = 64;

/// An open database.
pub(in crate::store) struct Sqlite {
    connection: Connection,
}

/// A prepared statement.
pub(in crate::store) struct Prepared<'a>(CachedStatement<'a>);

impl Sqlite {
    /// Creates an in-memory database.
    ///
    /// # Errors
    /// Only if memory runs out.
    pub fn in_memory() -> Result<Sqlite, Error> {
        let file = Sqlite::over(Connection::open_in_memory()?);
        file.connection.pragma_update(None, "foreign_keys", true)?;
        file.migrate(schema::STEPS)?;
        Ok(file)
    }

    /// Opens the file, creating and migrating it as needed.
    ///
    /// # Errors
    /// The file is not a database, belongs to another program, was written by a newer version,
    /// cannot be written, or stays locked.
    pub fn open(path: &Path, patience: Duration) -> anyhow::Result<Sqlite> {
        if path.is_dir() {
            bail!(
                "it is a folder\nhint: name the file inside it, for example '{}/results.db'",
                path.display()
            );
        }
        let file = Sqlite::over(Connection::open(path).map_err(explain)?);
        file.connection.busy_timeout(patience).map_err(explain)?;
        let kind = patiently(patience, || file.kind()).map_err(explain)?;
        let version = schema::known_version(kind)?;
        file.set_up(patience).map_err(explain)?;
        // A reader must not wait for a writer, so take the write lock only if needed.
        if version < schema::STEPS.len() {
            patiently(patience, || file.migrate(schema::STEPS)).map_err(explain)?;
        }
        Ok(file)
    }

    /// Opens a read-only file, with SQLite's URI parameters `form` (<https://sqlite.org/uri.html>).
    ///
    /// # Errors
    /// The file cannot be read with these parameters.
    pub fn open_read_only(path: &Path, form: &str) -> anyhow::Result<Sqlite> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let path = fs::canonicalize(path)?;
        let escaped = path.to_string_lossy().replace('%', "%25");
        let escaped = escaped.replace('?', "%3f").replace('#', "%23");
        let connection = Connection::open_with_flags(format!("file:{escaped}?{form}"), flags);
        let connection = connection.map_err(explain)?;
        connection.busy_timeout(PATIENCE).map_err(explain)?;
        Ok(Sqlite::over(connection))
    }

    /// Creates a file with the tables of an earlier version.
    #[cfg(test)]
    pub fn of_steps(path: &Path, steps: usize) -> Result<Sqlite, Error> {
        let file = Sqlite::over(Connection::open(path)?);
        file.set_up(PATIENCE)?;
        file.migrate(&schema::STEPS[..steps])?;
        Ok(file)
    }

    fn over(connection: Connection) -> Sqlite {
        Sqlite { connection }
    }

    /// Configures the connection.
    ///
    /// Write-ahead logging lets readers and one writer work concurrently, and with
    /// `synchronous = NORMAL` a commit does not wait for the disk: a killed process loses nothing,
    /// and a power cut may lose the last commits but never corrupts the file
    /// (<https://sqlite.org/wal.html>).
    fn set_up(&self, patience: Duration) -> rusqlite::Result<()> {
        let connection = &self.connection;
        connection.pragma_update(None, "page_size", PAGE_BYTES)?;
        patiently(patience, || {
            connection.pragma_update(None, "journal_mode", "WAL")
        })?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.set_prepared_statement_cache_capacity(PREPARED);
        Ok(())
    }

    /// Makes each commit wait for the disk, so that it survives a power cut.
    pub fn wait_for_disk(&self) -> Result<(), Error> {
        Ok(self.connection.pragma_update(None, "synchronous", "FULL")?)
    }

    /// Determines the owner of the file. This is the first read of the file, so a file that is not
    /// a database fails here.
    pub fn kind(&self) -> rusqlite::Result<Kind> {
        // One transaction: another program may be creating the tables right now.
        let moment = self.connection.unchecked_transaction()?;
        let number = |sql: &str| moment.query_row(sql, [], |row| row.get::<_, i64>(0));
        let version = number("PRAGMA user_version")?.max(0) as usize;
        let application = number("PRAGMA application_id")?;
        let tables = number("SELECT count(*) FROM sqlite_schema")?;
        Ok(match (application == i64::from(APPLICATION_ID), tables) {
            (false, 0) => Kind::Ours(0),
            (false, _) => Kind::Foreign,
            (true, _) if version > schema::STEPS.len() => Kind::Newer(version),
            (true, _) => Kind::Ours(version),
        })
    }

    /// Applies all missing migrations in one transaction.
    ///
    /// The version is read again under the write lock: of two programs that open a new file at
    /// once, only one creates the tables.
    fn migrate(&self, steps: &[Step]) -> rusqlite::Result<()> {
        let file = &self.connection;
        let change = Transaction::new_unchecked(file, TransactionBehavior::Immediate)?;
        let version: i64 = change.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        let missing = steps.iter().skip(version.max(0) as usize);
        if missing.len() > 0 {
            for step in missing {
                change.execute_batch(step.text)?;
            }
            change.pragma_update(None, "application_id", APPLICATION_ID)?;
            change.pragma_update(None, "user_version", steps.len() as i64)?;
        }
        change.commit()
    }

    pub(super) fn refuse_changes(&self) -> Result<(), Error> {
        Ok(self.connection.pragma_update(None, "query_only", true)?)
    }

    pub(super) fn data_version(&self) -> Result<i64, Error> {
        let mut version = self.connection.prepare_cached("PRAGMA data_version")?;
        Ok(version.query_row([], |row| row.get(0))?)
    }

    pub(super) fn prepare(&self, statement: &'static Statement) -> Result<Prepared<'_>, Error> {
        Ok(Prepared(
            self.connection.prepare_cached(statement.sqlite())?,
        ))
    }

    #[cfg(test)]
    pub fn batch(&self, text: &str) -> Result<(), Error> {
        Ok(self.connection.execute_batch(text)?)
    }

    /// Returns the number of SQLite VM steps for all rows of a query.
    #[cfg(test)]
    pub fn steps(&self, statement: &'static Statement, given: &[Given<'_>]) -> Result<i32, Error> {
        let mut prepared = self.prepare(statement)?;
        prepared.0.reset_status(rusqlite::StatementStatus::VmStep);
        let mut rows = prepared.query(given)?;
        while rows.next()?.is_some() {}
        drop(rows);
        Ok(prepared.0.get_status(rusqlite::StatementStatus::VmStep))
    }

    /// Returns SQLite's plan for a statement, one line per table.
    #[cfg(test)]
    pub(super) fn plan(&self, statement: &Statement) -> Result<Vec<String>, Error> {
        let text = format!("EXPLAIN QUERY PLAN {}", statement.sqlite());
        let mut explain = self.connection.prepare(&text)?;
        let mut rows = explain.raw_query();
        let mut lines = Vec::new();
        while let Some(row) = rows.next()? {
            lines.push(row.get(3)?);
        }
        Ok(lines)
    }

    /// Begins a transaction, taking the write lock immediately. A later upgrade could fail without
    /// waiting, because another program may have written in between.
    pub(super) fn begin(&self, purpose: Purpose) -> Result<(), Error> {
        self.order(match purpose {
            Purpose::Reading => "BEGIN",
            Purpose::Writing => "BEGIN IMMEDIATE",
        })
    }

    pub(super) fn commit(&self) -> Result<(), Error> {
        self.order("COMMIT")
    }

    /// Rolls back, unless an error has done so already.
    pub(super) fn roll_back(&self) -> Result<(), Error> {
        if self.connection.is_autocommit() {
            return Ok(());
        }
        self.order("ROLLBACK")
    }

    fn order(&self, word: &str) -> Result<(), Error> {
        self.connection.prepare_cached(word)?.execute([])?;
        Ok(())
    }
}

impl<'a> Prepared<'a> {
    pub(super) fn execute(&mut self, given: &[Given<'_>]) -> Result<usize, Error> {
        self.bind(given)?;
        Ok(self.0.raw_execute()?)
    }

    pub(super) fn query(&mut self, given: &[Given<'_>]) -> Result<rusqlite::Rows<'_>, Error> {
        self.bind(given)?;
        Ok(self.0.raw_query())
    }

    /// Binds parameters by position: SQLite numbers placeholders in order of first use.
    fn bind(&mut self, given: &[Given<'_>]) -> Result<(), Error> {
        let wanted = self.0.parameter_count();
        if given.len() != wanted {
            return Err(rusqlite::Error::InvalidParameterCount(given.len(), wanted).into());
        }
        for (place, value) in (1..).zip(given) {
            self.0.raw_bind_parameter(place, value)?;
        }
        Ok(())
    }
}

impl ToSql for Given<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            Given::Null => ValueRef::Null,
            Given::Integer(number) => ValueRef::Integer(number),
            Given::Real(number) => ValueRef::Real(number),
            Given::Text(text) => ValueRef::Text(text.as_bytes()),
            Given::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// Retries `attempt` while the file is busy.
///
/// SQLite itself does not wait if two connections switch a new file to write-ahead logging at once:
/// it fails one of them immediately, because waiting could deadlock.
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

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

/// Classifies the error by whether a retry may help.
pub(super) fn trouble(error: &rusqlite::Error) -> Trouble {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Trouble::Full,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Trouble::Away,
        _ => Trouble::Lasting,
    }
}

pub(super) fn explain(error: rusqlite::Error) -> anyhow::Error {
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
mod tests;
