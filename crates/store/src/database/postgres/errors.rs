//! Explains errors of a server and suggests remedies.

use crate::database::StoreErrorKind;
use postgres::Error;
use postgres::error::SqlState;
use std::error::Error as _;

/// Converts an error into a message, with a hint where the user can act.
pub(in crate::database) fn explain_error(error: &Error) -> anyhow::Error {
    let (message, hint) = match error.code() {
        Some(state) => match explain_state(state) {
            Some(explanation) => explanation,
            None => return anyhow::anyhow!("{}", error_message(error)),
        },
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
        None => return anyhow::anyhow!("{}", error_message(error)),
    };
    anyhow::anyhow!("{message} ({})\nhint: {hint}", error_message(error))
}

/// SQL states (<https://www.postgresql.org/docs/current/errcodes-appendix.html>), their messages
/// and hints.
const EXPLANATIONS: &[(&[SqlState], &str, &str)] = &[
    (
        &[SqlState::INVALID_PASSWORD],
        "the server rejected the password",
        "set PGPASSWORD, or add a line to ~/.pgpass",
    ),
    (
        &[SqlState::INVALID_AUTHORIZATION_SPECIFICATION],
        "the server rejected this user name",
        "use another user: postgres://USER@HOST/DATABASE",
    ),
    (
        &[SqlState::UNDEFINED_DATABASE],
        "the database does not exist",
        "create it with createdb, or choose another one with --db",
    ),
    (
        &[SqlState::INSUFFICIENT_PRIVILEGE, SqlState::READ_ONLY_SQL_TRANSACTION],
        "it is not writable",
        "request write access, or choose another database with --db",
    ),
    (
        &[SqlState::QUERY_CANCELED, SqlState::LOCK_NOT_AVAILABLE],
        "it did not respond within 10 seconds",
        "wait until other programs have released it",
    ),
    (
        &[SqlState::INVALID_SCHEMA_NAME],
        "the schema does not exist",
        "create it with psql: CREATE SCHEMA NAME",
    ),
    (
        &[SqlState::DISK_FULL],
        "the server's disk is full",
        "free some space there, or choose another database with --db",
    ),
    (
        &[SqlState::TOO_MANY_CONNECTIONS],
        "the server has too many connections",
        "wait until other programs have ended",
    ),
    (
        &[SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW],
        "the server is starting up or shutting down",
        "repeat the command when it is running",
    ),
    (
        &[SqlState::CHARACTER_NOT_IN_REPERTOIRE],
        "a name contains a character that PostgreSQL cannot store",
        "remove the character NUL from the name",
    ),
];

fn explain_state(state: &SqlState) -> Option<(&'static str, &'static str)> {
    let explanation = EXPLANATIONS.iter().find(|(states, ..)| states.contains(state));
    explanation.map(|(_, message, hint)| (*message, *hint))
}

/// Returns the message of the server or the operating system.
fn error_message(error: &Error) -> String {
    match error.as_db_error() {
        Some(server) => server.message().to_owned(),
        None => match error.source() {
            Some(cause) => cause.to_string(),
            None => error.to_string(),
        },
    }
}

fn is_io_error(error: &Error) -> bool {
    error.source().is_some_and(|cause| cause.is::<std::io::Error>())
        || error_message(error).contains("timed out")
}

/// Classifies the error by whether a retry may help.
pub(in crate::database) fn error_kind(error: &Error) -> StoreErrorKind {
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
pub(super) fn has_lost_connection(error: &Error) -> bool {
    let stopping =
        [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW];
    error.is_closed()
        || is_io_error(error)
        || error.code().is_some_and(|state| stopping.contains(state))
}
