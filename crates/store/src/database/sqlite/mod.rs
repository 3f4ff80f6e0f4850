//! Opens SQLite databases, in a file or in memory, and executes statements in them.
//!
//! Decides how a file is opened, how its owner is recognized, and how its tables are migrated.

use super::errors::{explain_sqlite_error, sqlite_error_kind};
use super::{Error, SqlParam, SqlStatement, StoreErrorKind, TransactionPurpose};
use crate::schema::{DatabaseOwner, STEPS, SchemaStep, applied_steps, version_after};
use anyhow::{Result, bail};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, OpenFlags, ToSql, Transaction, TransactionBehavior};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// SQLite application id of our files: the letters `SPWL`.
const APPLICATION_ID: i32 = 0x5350_574c;

/// Page size of a new file, half of SQLite's default. Storing a run writes whole pages, so smaller
/// pages make small transactions cheaper. But a row larger than a quarter of a page spills into
/// overflow pages, and the file grows. Pages of 1024, 2048 and 4096 bytes were equally fast in
/// `cargo bench --bench store`. The file with 2048 bytes was the smallest: 2.6 MB for 1000 runs of
/// 100 samples (3.3 MB with 1024 bytes, 4.8 MB with 4096), and 3.5 MB for 10,000 runs of 10 samples
/// (12.1 MB with 1024 bytes, 3.6 MB with 4096).
const PAGE_BYTES: i64 = 2048;

/// Number of pages in the write-ahead log that triggers a checkpoint. Only a checkpoint waits for
/// the disk. The pages hold 4 MiB, as with SQLite's defaults, so about a thousand runs are stored
/// between two checkpoints.
const CHECKPOINT_PAGES: i64 = 2_000;

const STATEMENT_CACHE_SIZE: usize = 64;

/// How long to wait for another writer. Each of our transactions takes milliseconds, so a process
/// that holds the file longer is unlikely to release it soon.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// An open database.
pub(crate) struct SqliteConnection {
    connection: Connection,
}

/// A prepared statement.
pub(crate) struct SqliteStatement<'a>(CachedStatement<'a>);

impl SqliteConnection {
    /// Creates an in-memory database.
    ///
    /// # Errors
    /// Fails only if memory runs out.
    pub fn in_memory() -> Result<SqliteConnection, Error> {
        let file = SqliteConnection { connection: Connection::open_in_memory()? };
        file.connection.pragma_update(None, "foreign_keys", true)?;
        file.migrate(STEPS)?;
        Ok(file)
    }

    /// Opens the file, creating and migrating it as needed.
    ///
    /// # Errors
    /// Fails if the file is not a database, belongs to another program, was written by a newer or
    /// an unreleased version, cannot be written, or stays locked.
    pub fn open(path: &Path, timeout: Duration) -> Result<SqliteConnection> {
        if path.is_dir() {
            bail!(
                "it is a folder\nhint: name the file inside it, for example '{}/results.db'",
                path.display()
            );
        }
        let connection = Connection::open(path).map_err(explain_sqlite_error)?;
        let file = SqliteConnection { connection };
        file.connection.busy_timeout(timeout).map_err(explain_sqlite_error)?;
        let owner =
            retry_while_busy(timeout, || file.database_owner()).map_err(explain_sqlite_error)?;
        let steps = owner.usable_steps()?;
        file.configure(timeout).map_err(explain_sqlite_error)?;
        // A reader must not wait for a writer, so take the write lock only if a step is missing.
        if steps < STEPS.len() {
            retry_while_busy(timeout, || file.migrate(STEPS)).map_err(explain_sqlite_error)?;
        }
        Ok(file)
    }

    /// Opens a file for reading only. `form` holds URI parameters of SQLite
    /// (<https://sqlite.org/uri.html>).
    ///
    /// # Errors
    /// Fails if the file cannot be read with these parameters.
    pub fn open_read_only(path: &Path, form: &str) -> Result<SqliteConnection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let target = fs::canonicalize(path)?.to_string_lossy().replace('%', "%25");
        let escaped = target.replace('?', "%3f").replace('#', "%23");
        let connection = Connection::open_with_flags(format!("file:{escaped}?{form}"), flags)
            .map_err(explain_sqlite_error)?;
        connection.busy_timeout(LOCK_TIMEOUT).map_err(explain_sqlite_error)?;
        Ok(SqliteConnection { connection })
    }

    /// Configures the connection.
    ///
    /// Write-ahead logging lets readers and one writer work concurrently. Because `synchronous` is
    /// `NORMAL`, a commit does not wait for the disk: a killed process loses nothing, and a power
    /// cut may lose the last commits but never corrupts the file (<https://sqlite.org/wal.html>).
    fn configure(&self, timeout: Duration) -> rusqlite::Result<()> {
        let connection = &self.connection;
        connection.pragma_update(None, "page_size", PAGE_BYTES)?;
        retry_while_busy(timeout, || connection.pragma_update(None, "journal_mode", "WAL"))?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE_SIZE);
        Ok(())
    }

    /// Makes each commit wait for the disk, so that it survives a power cut.
    pub fn wait_for_disk(&self) -> Result<(), Error> {
        Ok(self.connection.pragma_update(None, "synchronous", "FULL")?)
    }

    /// Determines the owner of the file. This is the first read of the file, so a file that is not
    /// a database fails here.
    pub fn database_owner(&self) -> rusqlite::Result<DatabaseOwner> {
        // Read all three numbers in one transaction, because another program may be creating the
        // tables right now.
        let moment = self.connection.unchecked_transaction()?;
        let number = |sql: &str| moment.query_row(sql, [], |row| row.get::<_, i64>(0));
        let version = number("PRAGMA user_version")?;
        let application = number("PRAGMA application_id")?;
        let tables = number("SELECT count(*) FROM sqlite_schema")?;
        Ok(match (application == i64::from(APPLICATION_ID), tables) {
            (false, 0) => DatabaseOwner::Ours(0),
            (false, _) => DatabaseOwner::Foreign,
            (true, _) => DatabaseOwner::of_version(version),
        })
    }

    /// Applies all missing steps in one transaction.
    ///
    /// The version is read again under the write lock. So if two programs open a new file at once,
    /// only one creates the tables.
    fn migrate(&self, steps: &[SchemaStep]) -> rusqlite::Result<()> {
        let file = &self.connection;
        let change = Transaction::new_unchecked(file, TransactionBehavior::Immediate)?;
        let version: i64 = change.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        let missing = steps.iter().skip(applied_steps(version));
        if missing.len() > 0 {
            for step in missing {
                change.execute_batch(step.sqlite)?;
            }
            change.pragma_update(None, "application_id", APPLICATION_ID)?;
            change.pragma_update(None, "user_version", version_after(steps.len()))?;
        }
        change.commit()
    }

    pub(super) fn set_read_only(&self) -> Result<(), Error> {
        Ok(self.connection.pragma_update(None, "query_only", true)?)
    }

    pub(super) fn data_version(&self) -> Result<i64, Error> {
        let mut version = self.connection.prepare_cached("PRAGMA data_version")?;
        Ok(version.query_row([], |row| row.get(0))?)
    }

    pub(super) fn prepare(
        &self,
        statement: &'static SqlStatement,
    ) -> Result<SqliteStatement<'_>, Error> {
        Ok(SqliteStatement(self.connection.prepare_cached(statement.sqlite_text())?))
    }

    #[cfg(test)]
    pub fn execute_batch(&self, text: &str) -> Result<(), Error> {
        Ok(self.connection.execute_batch(text)?)
    }

    /// Returns the number of SQLite VM steps for all rows of a query.
    #[cfg(test)]
    pub fn count_vm_steps(
        &self,
        statement: &'static SqlStatement,
        params: &[SqlParam<'_>],
    ) -> Result<i32, Error> {
        let mut prepared = self.prepare(statement)?;
        prepared.0.reset_status(rusqlite::StatementStatus::VmStep);
        let mut rows = prepared.query(params)?;
        while rows.next()?.is_some() {}
        drop(rows);
        Ok(prepared.0.get_status(rusqlite::StatementStatus::VmStep))
    }

    /// Returns SQLite's plan for a statement, one line per table.
    #[cfg(test)]
    pub(super) fn explain_statement(&self, statement: &SqlStatement) -> Result<Vec<String>, Error> {
        let text = format!("EXPLAIN QUERY PLAN {}", statement.sqlite_text());
        let mut explain = self.connection.prepare(&text)?;
        let mut rows = explain.raw_query();
        let mut lines = Vec::new();
        while let Some(row) = rows.next()? {
            lines.push(row.get(3)?);
        }
        Ok(lines)
    }

    /// Begins a transaction. A writing transaction takes the write lock immediately. If it took the
    /// lock at its first write, SQLite could fail without waiting, because another program may have
    /// written since the first read.
    pub(super) fn begin_transaction(&self, purpose: TransactionPurpose) -> Result<(), Error> {
        self.run_command(match purpose {
            TransactionPurpose::Reading => "BEGIN",
            TransactionPurpose::Writing => "BEGIN IMMEDIATE",
        })
    }

    pub(super) fn commit_transaction(&self) -> Result<(), Error> {
        self.run_command("COMMIT")
    }

    /// Rolls back, unless SQLite has already done so because of an error.
    pub(super) fn roll_back(&self) -> Result<(), Error> {
        if self.connection.is_autocommit() {
            return Ok(());
        }
        self.run_command("ROLLBACK")
    }

    fn run_command(&self, word: &str) -> Result<(), Error> {
        self.connection.prepare_cached(word)?.execute([])?;
        Ok(())
    }
}

impl<'a> SqliteStatement<'a> {
    pub(super) fn execute(&mut self, params: &[SqlParam<'_>]) -> Result<usize, Error> {
        self.bind_params(params)?;
        Ok(self.0.raw_execute()?)
    }

    pub(super) fn query(&mut self, params: &[SqlParam<'_>]) -> Result<rusqlite::Rows<'_>, Error> {
        self.bind_params(params)?;
        Ok(self.0.raw_query())
    }

    /// Binds parameters by position: SQLite numbers placeholders in order of first use.
    fn bind_params(&mut self, params: &[SqlParam<'_>]) -> Result<(), Error> {
        let expected = self.0.parameter_count();
        if params.len() != expected {
            return Err(rusqlite::Error::InvalidParameterCount(params.len(), expected).into());
        }
        for (index, value) in (1..).zip(params) {
            self.0.raw_bind_parameter(index, value)?;
        }
        Ok(())
    }
}

impl ToSql for SqlParam<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            SqlParam::Null => ValueRef::Null,
            SqlParam::Integer(number) => ValueRef::Integer(number),
            SqlParam::Real(number) => ValueRef::Real(number),
            SqlParam::Text(text) => ValueRef::Text(text.as_bytes()),
            SqlParam::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// Retries `attempt` while the file is busy.
///
/// SQLite itself does not wait if two connections switch a new file to write-ahead logging at once:
/// it fails one of them immediately, because waiting could deadlock.
fn retry_while_busy<T>(
    timeout: Duration,
    mut attempt: impl FnMut() -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(error)
                if sqlite_error_kind(&error) == StoreErrorKind::Unavailable
                    && begun.elapsed() < timeout =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests;
