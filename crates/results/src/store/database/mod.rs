//! Access to the tables: statements, their parameters and the rows they return.
//!
//! Decides nothing about what is stored. A [`Statement`] is one text in the common SQL dialect of
//! the back ends (`statement.rs`); all differences between back ends are handled below this module.
//! Start at [`Database`].

// Circular modules: `error.rs` and `row.rs` are shared by the back ends and name each of them, and
// each back end returns them. Trait objects would break the cycle at the cost of an allocation per
// value read.
mod error;
#[cfg(test)]
mod plans;
#[cfg(feature = "postgres")]
mod postgres;
mod row;
mod sqlite;
mod statement;
mod value;

pub(super) use error::Error;
pub use error::Trouble;
#[cfg(feature = "postgres")]
pub(super) use postgres::Postgres;
pub(super) use row::{Column, Row};
pub(super) use sqlite::Sqlite;
pub(super) use statement::{Statement, sql};
pub(super) use value::{Given, given};

use row::Rows;
use std::fmt;
use std::time::Duration;

/// Purpose of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Reads a consistent snapshot.
    Reading,
    /// Excludes other writers.
    Writing,
}

/// An open database.
pub(super) enum Database {
    /// A file or in-memory database.
    Sqlite(Sqlite),
    /// A PostgreSQL server.
    #[cfg(feature = "postgres")]
    Postgres(Box<Postgres>),
}

impl fmt::Debug for Database {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Database::Sqlite(_) => out.write_str("Sqlite"),
            #[cfg(feature = "postgres")]
            Database::Postgres(_) => out.write_str("Postgres"),
        }
    }
}

impl Database {
    /// Prepares a statement. Its translation is cached.
    pub fn prepare(&self, statement: &'static Statement) -> Result<Prepared<'_>, Error> {
        match self {
            Database::Sqlite(file) => Ok(Prepared::Sqlite(file.prepare(statement)?)),
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => Ok(Prepared::Postgres(server, statement)),
        }
    }

    /// Executes a statement that returns no rows; returns the number of changed rows.
    pub fn execute(
        &self,
        statement: &'static Statement,
        given: &[Given<'_>],
    ) -> Result<usize, Error> {
        self.prepare(statement)?.execute(given)
    }

    /// Executes a statement with `{{rows:N}}` for rows of N values; returns the number of inserted
    /// rows.
    pub fn insert<const N: usize>(
        &self,
        statement: &'static Statement,
        rows: &[[Given<'_>; N]],
    ) -> Result<usize, Error> {
        match self {
            Database::Sqlite(file) => {
                let mut prepared = file.prepare(statement)?;
                let entered = rows.iter().map(|row| prepared.execute(row));
                entered.sum()
            }
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.insert(statement, rows),
        }
    }

    /// Returns the SQLite database, if it is one.
    #[cfg(test)]
    pub fn sqlite(&self) -> Option<&Sqlite> {
        match self {
            Database::Sqlite(file) => Some(file),
            #[cfg(feature = "postgres")]
            Database::Postgres(_) => None,
        }
    }

    /// Executes several statements without parameters, untranslated.
    #[cfg(test)]
    pub fn batch(&self, text: &str) -> Result<(), Error> {
        match self {
            Database::Sqlite(file) => file.batch(text),
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.batch(text),
        }
    }

    /// Returns the rows of a query.
    pub fn query<T, C: FromIterator<T>>(
        &self,
        statement: &'static Statement,
        given: &[Given<'_>],
        mut read: impl FnMut(Row<'_>) -> Result<T, Error>,
    ) -> Result<C, Error> {
        let mut prepared = self.prepare(statement)?;
        let mut rows = prepared.query(given)?;
        std::iter::from_fn(|| rows.next().transpose().map(|row| read(row?))).collect()
    }

    /// Returns the first row of a query, if any.
    pub fn first<T>(
        &self,
        statement: &'static Statement,
        given: &[Given<'_>],
        read: impl FnOnce(Row<'_>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let mut prepared = self.prepare(statement)?;
        let mut rows = prepared.query(given)?;
        rows.next()?.map(read).transpose()
    }

    /// Returns the first column of the first row.
    ///
    /// # Errors
    /// The query returns no row.
    pub fn one<T: Column>(
        &self,
        statement: &'static Statement,
        given: &[Given<'_>],
    ) -> Result<T, Error> {
        self.first(statement, given, |row| row.get(0))?
            .ok_or(Error::NoRow)
    }

    /// Makes each commit wait for the disk, as PostgreSQL does by default.
    pub fn wait_for_disk(&self) -> Result<(), Error> {
        match self {
            Database::Sqlite(file) => file.wait_for_disk(),
            #[cfg(feature = "postgres")]
            Database::Postgres(_) => Ok(()),
        }
    }

    /// Rejects all changes from now on.
    pub fn refuse_changes(&self) -> Result<(), Error> {
        match self {
            Database::Sqlite(file) => file.refuse_changes(),
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.refuse_changes(),
        }
    }

    /// Returns a number that changes whenever another connection changes the database.
    pub fn data_version(&self) -> Result<i64, Error> {
        match self {
            Database::Sqlite(file) => file.data_version(),
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.data_version(),
        }
    }

    /// Subscribes to change notifications, if the back end has them.
    pub fn listen(&self) -> Result<(), Error> {
        match self {
            Database::Sqlite(_) => Ok(()),
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.listen(),
        }
    }

    /// Waits up to `most` for a change, or until polling is worthwhile.
    pub fn await_change(&self, most: Duration) -> Result<(), Error> {
        match self {
            Database::Sqlite(_) => {
                // SQLite has no notifications. Polling uses a pragma that reads one page from
                // memory.
                std::thread::sleep(most.min(Duration::from_millis(250)));
                Ok(())
            }
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.await_change(most),
        }
    }

    /// Returns the schema that holds a project's tables on a server; not meaningful for a file.
    pub fn schema(&self, project: i64) -> Result<String, Error> {
        match self {
            Database::Sqlite(_) => Ok(format!("main_{project}")),
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.schema(project),
        }
    }

    /// Creates that schema; does nothing for a file.
    #[cfg_attr(not(feature = "postgres"), allow(unused_variables))]
    pub fn make_schema(&self, project: i64) -> Result<(), Error> {
        match self {
            Database::Sqlite(_) => {
                let _ = project;
                Ok(())
            }
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.make_schema(project),
        }
    }

    /// Runs `work` in one transaction, which commits only if `work` succeeds.
    pub fn transaction<T>(
        &self,
        purpose: Purpose,
        work: impl FnOnce(&Database) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        self.begin(purpose)?;
        let done = work(self).and_then(|result| {
            self.commit()?;
            Ok(result)
        });
        match done {
            Ok(result) => Ok(result),
            Err(error) => {
                self.roll_back()?;
                Err(error)
            }
        }
    }

    fn begin(&self, purpose: Purpose) -> Result<(), Error> {
        match self {
            Database::Sqlite(file) => file.begin(purpose),
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.begin(purpose),
        }
    }

    fn commit(&self) -> Result<(), Error> {
        match self {
            Database::Sqlite(file) => file.commit(),
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.commit(),
        }
    }

    fn roll_back(&self) -> Result<(), Error> {
        match self {
            Database::Sqlite(file) => file.roll_back(),
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.roll_back(),
        }
    }
}

/// A prepared statement.
pub(super) enum Prepared<'a> {
    /// Of SQLite.
    Sqlite(sqlite::Prepared<'a>),
    /// Of PostgreSQL, which parses it on first use.
    #[cfg(feature = "postgres")]
    Postgres(&'a Postgres, &'static Statement),
}

impl Prepared<'_> {
    /// Like [`Database::execute`].
    pub fn execute(&mut self, given: &[Given<'_>]) -> Result<usize, Error> {
        match self {
            Prepared::Sqlite(statement) => statement.execute(given),
            #[cfg(feature = "postgres")]
            Prepared::Postgres(server, statement) => server.execute(statement, given),
        }
    }

    /// Returns the rows of the query.
    pub fn query(&mut self, given: &[Given<'_>]) -> Result<Rows<'_>, Error> {
        match self {
            Prepared::Sqlite(statement) => Ok(Rows::Sqlite(statement.query(given)?)),
            #[cfg(feature = "postgres")]
            Prepared::Postgres(server, statement) => {
                Ok(Rows::Postgres(server.query(statement, given)?, 0))
            }
        }
    }
}
