//! The one way to the tables: statements, what is given to them, and the rows that come back.
//!
//! Decides nothing about what is stored. A [`Statement`] is one text for every back end, in what they have in
//! common (`statement.rs`); whatever differs between back ends is below this module. Start at [`Database`].

// A circle of files: an error and a row are those of any back end, so `error.rs` and `row.rs` name each back end, and each back
// end returns them. Trait objects would end it, and would cost a box for each value that is read.
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

/// What a transaction is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Everything read is of one moment.
    Reading,
    /// One writer at a time.
    Writing,
}

/// An open database.
pub(super) enum Database {
    /// A file, or the memory of this process.
    Sqlite(Sqlite),
    /// A server.
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
    /// Makes a statement ready. It is translated once and remembered.
    pub fn prepare(&self, statement: &'static Statement) -> Result<Prepared<'_>, Error> {
        match self {
            Database::Sqlite(file) => Ok(Prepared::Sqlite(file.prepare(statement)?)),
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => Ok(Prepared::Postgres(server, statement)),
        }
    }

    /// Performs a statement that gives no rows; returns how many rows it changed.
    pub fn execute(
        &self,
        statement: &'static Statement,
        given: &[Given<'_>],
    ) -> Result<usize, Error> {
        self.prepare(statement)?.execute(given)
    }

    /// Performs a statement with `{{rows:N}}` for rows of N values; returns how many rows it entered.
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

    /// The file, if it is one.
    #[cfg(test)]
    pub fn sqlite(&self) -> Option<&Sqlite> {
        match self {
            Database::Sqlite(file) => Some(file),
            #[cfg(feature = "postgres")]
            Database::Postgres(_) => None,
        }
    }

    /// Performs several statements that take nothing, as they stand.
    #[cfg(test)]
    pub fn batch(&self, text: &str) -> Result<(), Error> {
        match self {
            Database::Sqlite(file) => file.batch(text),
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.batch(text),
        }
    }

    /// The rows of a query.
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

    /// The first row of a query, if it has one.
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

    /// The first column of the first row.
    ///
    /// # Errors
    /// There is no row.
    pub fn one<T: Column>(
        &self,
        statement: &'static Statement,
        given: &[Given<'_>],
    ) -> Result<T, Error> {
        self.first(statement, given, |row| row.get(0))?
            .ok_or(Error::NoRow)
    }

    /// Has each commit wait for the disk, as those of a server do by themselves.
    pub fn wait_for_disk(&self) -> Result<(), Error> {
        match self {
            Database::Sqlite(file) => file.wait_for_disk(),
            #[cfg(feature = "postgres")]
            Database::Postgres(_) => Ok(()),
        }
    }

    /// Refuses all changes from now on.
    pub fn refuse_changes(&self) -> Result<(), Error> {
        match self {
            Database::Sqlite(file) => file.refuse_changes(),
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.refuse_changes(),
        }
    }

    /// A number that is another one whenever another connection has changed something.
    pub fn data_version(&self) -> Result<i64, Error> {
        match self {
            Database::Sqlite(file) => file.data_version(),
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.data_version(),
        }
    }

    /// Hears of changes at once from now on, where that can be.
    pub fn listen(&self) -> Result<(), Error> {
        match self {
            Database::Sqlite(_) => Ok(()),
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.listen(),
        }
    }

    /// Waits for a change, or until it is worth asking for one; at most for some time.
    pub fn await_change(&self, most: Duration) -> Result<(), Error> {
        match self {
            Database::Sqlite(_) => {
                // A file tells nobody; it is asked by a pragma that reads one page of memory.
                std::thread::sleep(most.min(Duration::from_millis(250)));
                Ok(())
            }
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.await_change(most),
        }
    }

    /// What the tables of the project of that number are in, on a server; in a file it says nothing.
    pub fn schema(&self, project: i64) -> Result<String, Error> {
        match self {
            Database::Sqlite(_) => Ok(format!("main_{project}")),
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.schema(project),
        }
    }

    /// Makes that place; a file needs none.
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

    /// Does `work` in one transaction: all of it is kept, or nothing.
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

/// A statement that is ready.
pub(super) enum Prepared<'a> {
    /// Of a file.
    Sqlite(sqlite::Prepared<'a>),
    /// Of a server, which reads it when it is first used.
    #[cfg(feature = "postgres")]
    Postgres(&'a Postgres, &'static Statement),
}

impl Prepared<'_> {
    /// As [`Database::execute`].
    pub fn execute(&mut self, given: &[Given<'_>]) -> Result<usize, Error> {
        match self {
            Prepared::Sqlite(statement) => statement.execute(given),
            #[cfg(feature = "postgres")]
            Prepared::Postgres(server, statement) => server.execute(statement, given),
        }
    }

    /// Its rows, one after the other.
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
