//! Explains errors of a server and suggests remedies.

use crate::store::database::Trouble;
use postgres::Error;
use postgres::error::SqlState;
use std::error::Error as _;

/// Converts an error into a message, with a hint where the user can act.
pub(super) fn explain(error: &Error) -> anyhow::Error {
    let (what, hint) = match error.code() {
        Some(state) => match by_state(state) {
            Some(known) => known,
            None => return anyhow::anyhow!("{}", said(error)),
        },
        None if is_input_output(error) => (
            "the server cannot be reached",
            "check host and port, and whether the server runs: pg_isready says so",
        ),
        None if said(error).contains("password missing") => (
            "the server asks for a password",
            "set PGPASSWORD, or write a line into ~/.pgpass",
        ),
        None if said(error).contains("TLS") => (
            "the server wants TLS, which this program does not speak to it",
            "go through a tunnel, for example ssh -L 5432:localhost:5432 HOST",
        ),
        None if error.is_closed() => (
            "the connection was lost",
            "repeat the command; pg_isready says whether the server runs",
        ),
        None => return anyhow::anyhow!("{}", said(error)),
    };
    anyhow::anyhow!("{what} ({})\nhint: {hint}", said(error))
}

/// SQL states (<https://www.postgresql.org/docs/current/errcodes-appendix.html>), their messages
/// and hints.
const KNOWN: &[(&[SqlState], &str, &str)] = &[
    (
        &[SqlState::INVALID_PASSWORD],
        "the password is not accepted",
        "set PGPASSWORD, or write a line into ~/.pgpass",
    ),
    (
        &[SqlState::INVALID_AUTHORIZATION_SPECIFICATION],
        "the server lets nobody in under this name",
        "name another user: postgres://USER@HOST/DATABASE",
    ),
    (
        &[SqlState::UNDEFINED_DATABASE],
        "there is no such database",
        "create it with createdb, or name another one with --db",
    ),
    (
        &[
            SqlState::INSUFFICIENT_PRIVILEGE,
            SqlState::READ_ONLY_SQL_TRANSACTION,
        ],
        "it cannot be written here",
        "ask for the rights, or name another database with --db",
    ),
    (
        &[SqlState::QUERY_CANCELED, SqlState::LOCK_NOT_AVAILABLE],
        "it did not answer within 10 seconds",
        "wait until other programs have finished with it",
    ),
    (
        &[SqlState::INVALID_SCHEMA_NAME],
        "there is no such schema",
        "create it with psql: CREATE SCHEMA NAME",
    ),
    (
        &[SqlState::DISK_FULL],
        "the server's disk is full",
        "free some space there, or name another database with --db",
    ),
    (
        &[SqlState::TOO_MANY_CONNECTIONS],
        "the server has too many connections",
        "wait until other programs have ended",
    ),
    (
        &[
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
            SqlState::CANNOT_CONNECT_NOW,
        ],
        "the server is being stopped or started",
        "repeat the command when it runs",
    ),
    (
        &[SqlState::CHARACTER_NOT_IN_REPERTOIRE],
        "a name holds a character that PostgreSQL cannot keep",
        "a name must not hold the character NUL",
    ),
];

fn by_state(state: &SqlState) -> Option<(&'static str, &'static str)> {
    let known = KNOWN.iter().find(|(states, ..)| states.contains(state));
    known.map(|(_, what, hint)| (*what, *hint))
}

/// Returns the message of the server or the operating system.
fn said(error: &Error) -> String {
    match error.as_db_error() {
        Some(server) => server.message().to_owned(),
        None => match error.source() {
            Some(cause) => cause.to_string(),
            None => error.to_string(),
        },
    }
}

fn is_input_output(error: &Error) -> bool {
    error
        .source()
        .is_some_and(|cause| cause.is::<std::io::Error>())
        || said(error).contains("timed out")
}

/// Classifies the error by whether a retry may help.
pub(in crate::store::database) fn trouble(error: &Error) -> Trouble {
    let passing = [
        SqlState::QUERY_CANCELED,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::TOO_MANY_CONNECTIONS,
    ];
    match error.code() {
        Some(&SqlState::DISK_FULL) => Trouble::Full,
        Some(state) if passing.contains(state) => Trouble::Away,
        _ if has_lost_connection(error) => Trouble::Away,
        _ => Trouble::Lasting,
    }
}

/// Returns whether the connection is unusable.
pub(super) fn has_lost_connection(error: &Error) -> bool {
    let stopping = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
    ];
    error.is_closed()
        || is_input_output(error)
        || error.code().is_some_and(|state| stopping.contains(state))
}
