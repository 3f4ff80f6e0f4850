//! Defines the errors of all back ends, explains them and suggests remedies.

#[cfg(feature = "postgres")]
use postgres::error::SqlState;
use rusqlite::ErrorCode;
#[cfg(feature = "postgres")]
use std::error::Error as _;

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
    /// The content of a row cannot be interpreted.
    #[error(transparent)]
    Content(#[from] anyhow::Error),
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
            Error::Sqlite(error) => sqlite_error_kind(error),
            #[cfg(feature = "postgres")]
            Error::Postgres(error) => server_error_kind(error),
            _ => StoreErrorKind::Permanent,
        }
    }

    /// Converts into an error with a message and, where the user can act, a hint.
    pub fn explain_error(self) -> anyhow::Error {
        match self {
            Error::Sqlite(error) => explain_sqlite_error(error),
            #[cfg(feature = "postgres")]
            Error::Postgres(error) => explain_server_error(&error),
            other => other.into(),
        }
    }
}

/// Classifies the error by whether a retry may help.
pub(super) fn sqlite_error_kind(error: &rusqlite::Error) -> StoreErrorKind {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreErrorKind::DiskFull,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreErrorKind::Unavailable,
        _ => StoreErrorKind::Permanent,
    }
}

pub(super) fn explain_sqlite_error(error: rusqlite::Error) -> anyhow::Error {
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
            "it is not writable",
            "check the permissions of the file and its folder, or choose another file with --db FILE",
        ),
        Some(ErrorCode::DiskFull) => {
            ("the disk is full", "free some space, or choose another file with --db FILE")
        }
        Some(ErrorCode::SystemIoFailure) => {
            ("the disk reported an error", "check the kernel log with dmesg")
        }
        _ => return error.into(),
    };
    anyhow::anyhow!("{what} ({error})\nhint: {hint}")
}

/// Converts an error into a message, with a hint where the user can act. SQL states are listed in
/// <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
#[cfg(feature = "postgres")]
fn explain_server_error(error: &postgres::Error) -> anyhow::Error {
    let (message, hint) = match error.code() {
        Some(&SqlState::INVALID_PASSWORD) => {
            ("the server rejected the password", "set PGPASSWORD, or add a line to ~/.pgpass")
        }
        Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION) => (
            "the server rejected this user name",
            "use another user: postgres://USER@HOST/DATABASE",
        ),
        Some(&SqlState::UNDEFINED_DATABASE) => (
            "the database does not exist",
            "create it with createdb, or choose another one with --db",
        ),
        Some(&SqlState::INSUFFICIENT_PRIVILEGE | &SqlState::READ_ONLY_SQL_TRANSACTION) => {
            ("it is not writable", "request write access, or choose another database with --db")
        }
        Some(&SqlState::QUERY_CANCELED | &SqlState::LOCK_NOT_AVAILABLE) => {
            ("it did not respond within 10 seconds", "wait until other programs have released it")
        }
        Some(&SqlState::INVALID_SCHEMA_NAME) => {
            ("the schema does not exist", "create it with psql: CREATE SCHEMA NAME")
        }
        Some(&SqlState::DISK_FULL) => (
            "the server's disk is full",
            "free some space there, or choose another database with --db",
        ),
        Some(&SqlState::TOO_MANY_CONNECTIONS) => {
            ("the server has too many connections", "wait until other programs have ended")
        }
        Some(
            &SqlState::ADMIN_SHUTDOWN | &SqlState::CRASH_SHUTDOWN | &SqlState::CANNOT_CONNECT_NOW,
        ) => {
            ("the server is starting up or shutting down", "repeat the command when it is running")
        }
        Some(&SqlState::CHARACTER_NOT_IN_REPERTOIRE) => (
            "a name contains a character that PostgreSQL cannot store",
            "remove the character NUL from the name",
        ),
        None if is_io_error(error) => (
            "the server cannot be reached",
            "check host and port, and whether the server is running: pg_isready",
        ),
        None if error_message(error).contains("password missing") => {
            ("the server requires a password", "set PGPASSWORD, or add a line to ~/.pgpass")
        }
        None if error_message(error).contains("TLS") => (
            "the server requires TLS, which is not supported",
            "use a tunnel, for example ssh -L 5432:localhost:5432 HOST",
        ),
        None if error.is_closed() => (
            "the connection was lost",
            "repeat the command; pg_isready shows whether the server is running",
        ),
        _ => return anyhow::anyhow!("{}", error_message(error)),
    };
    anyhow::anyhow!("{message} ({})\nhint: {hint}", error_message(error))
}

/// Returns the message of the server or the operating system.
#[cfg(feature = "postgres")]
fn error_message(error: &postgres::Error) -> String {
    match error.as_db_error() {
        Some(server) => server.message().to_owned(),
        None => error.source().map_or_else(|| error.to_string(), ToString::to_string),
    }
}

#[cfg(feature = "postgres")]
fn is_io_error(error: &postgres::Error) -> bool {
    error.source().is_some_and(|cause| cause.is::<std::io::Error>())
        || error_message(error).contains("timed out")
}

/// Classifies the error by whether a retry may help.
#[cfg(feature = "postgres")]
fn server_error_kind(error: &postgres::Error) -> StoreErrorKind {
    let transient =
        [SqlState::QUERY_CANCELED, SqlState::LOCK_NOT_AVAILABLE, SqlState::TOO_MANY_CONNECTIONS];
    match error.code() {
        Some(&SqlState::DISK_FULL) => StoreErrorKind::DiskFull,
        Some(state) if transient.contains(state) => StoreErrorKind::Unavailable,
        _ if has_lost_connection(error) => StoreErrorKind::Unavailable,
        _ => StoreErrorKind::Permanent,
    }
}

/// Returns whether the connection is unusable.
#[cfg(feature = "postgres")]
pub(super) fn has_lost_connection(error: &postgres::Error) -> bool {
    let stopping =
        [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW];
    error.is_closed()
        || is_io_error(error)
        || error.code().is_some_and(|state| stopping.contains(state))
}
