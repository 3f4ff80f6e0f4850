//! Why a database could not do something.

/// Why a database could not do something.
#[derive(Debug, thiserror::Error)]
pub(in crate::store) enum Error {
    /// SQLite says so.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// PostgreSQL says so.
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    /// The server's database holds texts that are not UTF-8.
    #[cfg(feature = "postgres")]
    #[error(
        "its texts are in {0}, and names of benchmarks need UTF8\nhint: createdb --encoding=UTF8 --template=template0"
    )]
    Encoding(String),
    /// A query that always has a row had none.
    #[error("there is no such row")]
    NoRow,
    /// A column holds something else than what is expected there.
    #[error("column {column} holds {found}, not {expected}")]
    Column {
        /// Its place, from 0.
        column: usize,
        /// What it holds.
        found: &'static str,
        /// What is expected there.
        expected: &'static str,
    },
}

/// Whether a second try may help when a database could not do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// It cannot be reached at this moment, or others keep it busy.
    Away,
    /// There is no room left on its disk.
    Full,
    /// Something that time does not mend.
    Lasting,
}

impl Error {
    /// Whether a second try may help.
    pub fn trouble(&self) -> Trouble {
        match self {
            Error::Sqlite(error) => super::sqlite::trouble(error),
            #[cfg(feature = "postgres")]
            Error::Postgres(error) => super::postgres::trouble(error),
            _ => Trouble::Lasting,
        }
    }

    /// What went wrong and what helps, where a user can do something about it.
    pub fn explain(self) -> anyhow::Error {
        match self {
            Error::Sqlite(error) => super::sqlite::explain(error),
            #[cfg(feature = "postgres")]
            Error::Postgres(error) => super::postgres::explain(&error),
            other => other.into(),
        }
    }
}
