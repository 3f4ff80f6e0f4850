//! Executes SQL statements in SQLite or PostgreSQL, and returns rows.
//!
//! This module knows nothing about the stored data. A [`SqlStatement`] is one string in the common
//! SQL dialect of the back ends (`statement.rs`); all differences between back ends are handled
//! below this module. Start at [`Database`].

mod errors;
#[cfg(test)]
mod plans;
#[cfg(feature = "postgres")]
mod postgres;
mod sqlite;
mod statement;

pub(super) use errors::Error;
pub use errors::StoreErrorKind;
#[cfg(feature = "postgres")]
pub(super) use postgres::PostgresConnection;
pub(super) use sqlite::{LOCK_TIMEOUT, SqliteConnection};
pub(super) use statement::{SqlParam, SqlStatement, TransactionPurpose, sql, sql_params};

use anyhow::Result;
use rusqlite::types::ValueRef;
use std::time::Duration;

/// An open database.
pub(super) enum Database {
    /// A file or in-memory database.
    Sqlite(SqliteConnection),
    /// A PostgreSQL server.
    #[cfg(feature = "postgres")]
    Postgres(Box<PostgresConnection>),
}

/// Evaluates an expression with the connection, whichever the back end is.
macro_rules! on_either {
    ($database:expr, $connection:ident => $value:expr) => {
        match $database {
            Database::Sqlite($connection) => $value,
            #[cfg(feature = "postgres")]
            Database::Postgres($connection) => $value,
        }
    };
}

impl Database {
    /// Prepares a statement. Its translation is cached.
    pub fn prepare(
        &self,
        statement: &'static SqlStatement,
    ) -> Result<PreparedStatement<'_>, Error> {
        match self {
            Database::Sqlite(file) => Ok(PreparedStatement::Sqlite(file.prepare(statement)?)),
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => Ok(PreparedStatement::Postgres(server, statement)),
        }
    }

    /// Executes a statement that returns no rows.
    pub fn execute(
        &self,
        statement: &'static SqlStatement,
        params: &[SqlParam<'_>],
    ) -> Result<(), Error> {
        self.count_changes(statement, params).map(drop)
    }

    /// Executes a statement that returns no rows; returns the number of changed rows.
    pub fn count_changes(
        &self,
        statement: &'static SqlStatement,
        params: &[SqlParam<'_>],
    ) -> Result<usize, Error> {
        match self {
            Database::Sqlite(file) => file.prepare(statement)?.execute(params),
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.execute(statement, params),
        }
    }

    /// Executes a statement that contains `{{rows:N}}`, for rows of N values each; returns the
    /// number of inserted rows.
    pub fn insert<const N: usize>(
        &self,
        statement: &'static SqlStatement,
        rows: &[[SqlParam<'_>; N]],
    ) -> Result<usize, Error> {
        match self {
            Database::Sqlite(file) => {
                let mut prepared = file.prepare(statement)?;
                let inserted = rows.iter().map(|row| prepared.execute(row));
                inserted.sum()
            }
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.insert(statement, rows),
        }
    }

    /// Returns the SQLite connection; `None` for a server.
    #[cfg(test)]
    pub fn sqlite(&self) -> Option<&SqliteConnection> {
        match self {
            Database::Sqlite(file) => Some(file),
            #[cfg(feature = "postgres")]
            Database::Postgres(_) => None,
        }
    }

    /// Executes several statements without parameters. They are not translated.
    #[cfg(test)]
    pub fn batch(&self, text: &str) -> Result<(), Error> {
        match self {
            Database::Sqlite(file) => file.execute_batch(text),
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.batch(text),
        }
    }

    /// Returns the rows of a query.
    pub fn query<T, C: FromIterator<T>>(
        &self,
        statement: &'static SqlStatement,
        params: &[SqlParam<'_>],
        mut read: impl FnMut(SqlRow<'_>) -> Result<T, Error>,
    ) -> Result<C, Error> {
        let mut prepared = self.prepare(statement)?;
        let mut rows = prepared.query(params)?;
        std::iter::from_fn(|| rows.next().transpose().map(|row| read(row?))).collect()
    }

    /// Returns the first row of a query, if any.
    pub fn query_first<T>(
        &self,
        statement: &'static SqlStatement,
        params: &[SqlParam<'_>],
        read: impl FnOnce(SqlRow<'_>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let mut prepared = self.prepare(statement)?;
        let mut rows = prepared.query(params)?;
        rows.next()?.map(read).transpose()
    }

    /// Returns the first column of the first row.
    ///
    /// # Errors
    /// Fails if the query returns no row.
    pub fn query_value<T: for<'a> FromColumn<'a>>(
        &self,
        statement: &'static SqlStatement,
        params: &[SqlParam<'_>],
    ) -> Result<T, Error> {
        self.query_first(statement, params, |row| row.get(0))?.ok_or(Error::NoRow)
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
    pub fn set_read_only(&self) -> Result<(), Error> {
        on_either!(self, connection => connection.set_read_only())
    }

    /// Returns a number that changes whenever another connection changes the database.
    pub fn data_version(&self) -> Result<i64, Error> {
        on_either!(self, connection => connection.data_version())
    }

    /// Subscribes to change notifications, if the back end has them.
    pub fn subscribe(&self) -> Result<(), Error> {
        match self {
            Database::Sqlite(_) => Ok(()),
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.subscribe(),
        }
    }

    /// Waits up to `timeout` for a change. Without notifications, returns after a short time, so
    /// that the caller can poll [`Database::data_version`].
    pub fn wait_for_change(&self, timeout: Duration) -> Result<(), Error> {
        match self {
            Database::Sqlite(_) => {
                // SQLite has no notifications, so the caller polls. Polling is cheap, because its
                // pragma reads one page from memory.
                std::thread::sleep(timeout.min(Duration::from_millis(250)));
                Ok(())
            }
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.wait_for_change(timeout),
        }
    }

    /// Returns the name of the schema that holds a project's tables on a server. For a file, the
    /// result has no meaning.
    pub fn schema_name(&self, project: i64) -> Result<String, Error> {
        match self {
            Database::Sqlite(_) => Ok(format!("main_{project}")),
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.schema_name(project),
        }
    }

    /// Creates the schema of a project; does nothing for a file.
    #[cfg_attr(not(feature = "postgres"), allow(unused_variables))]
    pub fn make_schema(&self, project: i64) -> Result<(), Error> {
        match self {
            Database::Sqlite(_) => Ok(()),
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.make_schema(project),
        }
    }

    /// Runs `work` in one transaction, which commits only if `work` succeeds.
    pub fn transaction<T>(
        &self,
        purpose: TransactionPurpose,
        work: impl FnOnce(&Database) -> Result<T>,
    ) -> Result<T> {
        on_either!(self, connection => connection.begin_transaction(purpose))?;
        let result = work(self).and_then(|result| {
            on_either!(self, connection => connection.commit_transaction())?;
            Ok(result)
        });
        if result.is_err() {
            on_either!(self, connection => connection.roll_back())?;
        }
        result
    }
}

/// A prepared statement.
pub(super) enum PreparedStatement<'a> {
    Sqlite(sqlite::SqliteStatement<'a>),
    /// A statement of PostgreSQL. The server parses it on first use.
    #[cfg(feature = "postgres")]
    Postgres(&'a PostgresConnection, &'static SqlStatement),
}

impl PreparedStatement<'_> {
    /// Returns the rows of the query.
    pub fn query(&mut self, params: &[SqlParam<'_>]) -> Result<SqlRows<'_>, Error> {
        match self {
            PreparedStatement::Sqlite(statement) => Ok(SqlRows::Sqlite(statement.query(params)?)),
            #[cfg(feature = "postgres")]
            PreparedStatement::Postgres(server, statement) => {
                Ok(SqlRows::Postgres(server.query(statement, params)?, 0))
            }
        }
    }
}

/// Iterator over the rows of a query.
pub(super) enum SqlRows<'a> {
    /// Rows fetched from SQLite one by one.
    Sqlite(rusqlite::Rows<'a>),
    /// All rows of a PostgreSQL query, and the number of rows consumed so far.
    #[cfg(feature = "postgres")]
    Postgres(Vec<::postgres::Row>, usize),
}

impl SqlRows<'_> {
    /// Returns the next row; `None` after the last.
    pub fn next(&mut self) -> Result<Option<SqlRow<'_>>, Error> {
        match self {
            SqlRows::Sqlite(rows) => Ok(rows.next()?.map(SqlRow::Sqlite)),
            #[cfg(feature = "postgres")]
            SqlRows::Postgres(rows, consumed) => {
                *consumed += 1;
                Ok(rows.get(*consumed - 1).map(SqlRow::Postgres))
            }
        }
    }
}

/// A row of a query.
#[derive(Clone, Copy)]
pub(crate) enum SqlRow<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    #[cfg(feature = "postgres")]
    Postgres(&'a ::postgres::Row),
}

/// Raw value of a column.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SqlValue<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

impl<'a> SqlRow<'a> {
    /// Returns the value of a column.
    ///
    /// # Errors
    /// Fails if the column has another type or is out of range for `T`.
    pub fn get<T: FromColumn<'a>>(&self, column: usize) -> Result<T, Error> {
        let value = self.raw_value(column)?;
        T::from_value(value).ok_or_else(|| value.type_mismatch(column, T::KIND))
    }

    fn raw_value(&self, column: usize) -> Result<SqlValue<'a>, Error> {
        match self {
            SqlRow::Sqlite(row) => Ok(match row.get_ref(column)? {
                ValueRef::Null => SqlValue::Null,
                ValueRef::Integer(number) => SqlValue::Integer(number),
                ValueRef::Real(number) => SqlValue::Real(number),
                ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                    Ok(text) => SqlValue::Text(text),
                    Err(_) => SqlValue::Bytes(bytes),
                },
                ValueRef::Blob(bytes) => SqlValue::Bytes(bytes),
            }),
            #[cfg(feature = "postgres")]
            SqlRow::Postgres(row) => Ok(server_value(row, column)?),
        }
    }
}

/// Converts a column into a raw value.
#[cfg(feature = "postgres")]
fn server_value(row: &::postgres::Row, column: usize) -> Result<SqlValue<'_>, ::postgres::Error> {
    use ::postgres::types::Type;

    let value = match *row.columns()[column].type_() {
        Type::BOOL => row.try_get::<_, Option<bool>>(column)?.map(i64::from).map(SqlValue::Integer),
        Type::FLOAT8 => row.try_get::<_, Option<f64>>(column)?.map(SqlValue::Real),
        Type::TEXT => row.try_get::<_, Option<&str>>(column)?.map(SqlValue::Text),
        Type::BYTEA => row.try_get::<_, Option<&[u8]>>(column)?.map(SqlValue::Bytes),
        _ => row.try_get::<_, Option<i64>>(column)?.map(SqlValue::Integer),
    };
    Ok(value.unwrap_or(SqlValue::Null))
}

impl SqlValue<'_> {
    fn type_mismatch(self, column: usize, expected: &'static str) -> Error {
        let found = match self {
            SqlValue::Null => "null",
            SqlValue::Integer(_) => "an integer",
            SqlValue::Real(_) => "a number",
            SqlValue::Text(_) => "text",
            SqlValue::Bytes(_) => "bytes",
        };
        Error::Column { column, found, expected }
    }
}

/// Type that can be read from a column. Strings and bytes may be borrowed from the row. A `u64` is
/// stored as the signed integer with the same bits.
pub(crate) trait FromColumn<'a>: Sized {
    /// Name of the expected type, for errors.
    const KIND: &'static str;

    /// Converts the value; `None` if it has another type.
    fn from_value(value: SqlValue<'a>) -> Option<Self>;
}

macro_rules! column_types {
    ($row:lifetime: $($kind:ty, $name:literal, $($value:pat => $converted:expr),+;)*) => {
        $(impl<$row> FromColumn<$row> for $kind {
            const KIND: &'static str = $name;

            fn from_value(value: SqlValue<$row>) -> Option<$kind> {
                match value {
                    $($value => $converted,)+
                    _ => None,
                }
            }
        })*
    };
}
column_types! {
    'a:
    i64, "an integer", SqlValue::Integer(number) => Some(number);
    i32, "an integer in range", SqlValue::Integer(number) => i32::try_from(number).ok();
    u32, "an integer in range", SqlValue::Integer(number) => u32::try_from(number).ok();
    usize, "an integer in range", SqlValue::Integer(number) => usize::try_from(number).ok();
    u64, "an integer", SqlValue::Integer(number) => Some(number.cast_unsigned());
    bool, "a boolean", SqlValue::Integer(number) => Some(number != 0);
    f64, "a number", SqlValue::Real(number) => Some(number),
        SqlValue::Integer(number) => Some(number as f64);
    &'a str, "text", SqlValue::Text(text) => Some(text);
    &'a [u8], "bytes", SqlValue::Bytes(bytes) => Some(bytes);
    String, "text", SqlValue::Text(text) => Some(text.to_owned());
    Vec<u8>, "bytes", SqlValue::Bytes(bytes) => Some(bytes.to_vec());
}

impl<'a, T: FromColumn<'a>> FromColumn<'a> for Option<T> {
    const KIND: &'static str = T::KIND;

    fn from_value(value: SqlValue<'a>) -> Option<Option<T>> {
        match value {
            SqlValue::Null => Some(None),
            other => T::from_value(other).map(Some),
        }
    }
}
