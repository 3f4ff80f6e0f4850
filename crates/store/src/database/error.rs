//! Defines the errors of both back ends, and classifies them by whether a retry may help.

/// A database error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Reported by SQLite.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// Reported by PostgreSQL.
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    /// The server's database does not use UTF-8.
    #[cfg(feature = "postgres")]
    #[error(
        "its encoding is {0}, but the names of benchmarks require UTF8\nhint: create a database with this encoding: createdb --encoding=UTF8 --template=template0"
    )]
    Encoding(String),
    /// A query that should return a row returned none.
    #[error("the query returned no row")]
    NoRow,
    /// A column holds a value of an unexpected type.
    #[error("column {column} holds {found}, not {expected}")]
    Column {
        /// Index of the column, counting from 0.
        column: usize,
        /// Actual type.
        found: &'static str,
        /// Expected type.
        expected: &'static str,
    },
}

/// Whether a retry may help after a database error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// The database is unreachable or busy at the moment.
    Unavailable,
    /// The disk is full.
    DiskFull,
    /// A retry does not help.
    Permanent,
}

impl Error {
    /// Classifies the error by whether a retry may help.
    pub fn kind(&self) -> StoreErrorKind {
        match self {
            Error::Sqlite(error) => super::sqlite::error_kind(error),
            #[cfg(feature = "postgres")]
            Error::Postgres(error) => super::postgres::error_kind(error),
            _ => StoreErrorKind::Permanent,
        }
    }

    /// Converts into an error with a message and, where the user can act, a hint.
    pub fn explain_error(self) -> anyhow::Error {
        match self {
            Error::Sqlite(error) => super::sqlite::explain_error(error),
            #[cfg(feature = "postgres")]
            Error::Postgres(error) => super::postgres::explain_error(&error),
            other => other.into(),
        }
    }
}
