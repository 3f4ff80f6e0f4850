//! Why a database could not do something.

/// Why a database could not do something.
#[derive(Debug, thiserror::Error)]
pub(in crate::store) enum Error {
    /// SQLite says so.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
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

impl Error {
    /// What went wrong and what helps, where a user can do something about it.
    pub fn explain(self) -> anyhow::Error {
        match self {
            Error::Sqlite(error) => super::sqlite::explain(error),
            other => other.into(),
        }
    }
}
