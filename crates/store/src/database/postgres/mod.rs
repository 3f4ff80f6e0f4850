//! Connects to a PostgreSQL server, and executes statements on it.
//!
//! Decides how to connect and reconnect, and serializes writers, as SQLite does. Addresses and
//! passwords are in `address.rs`, the tables in `tables.rs`, errors in `errors.rs`.

mod address;
mod errors;
mod listen;
mod tables;

use super::row::SqlValue;
use super::{Error, SqlParam, SqlStatement, StoreErrorKind, TransactionPurpose};
use crate::schema::STEPS;
use bytes::BytesMut;
use postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use postgres::{Client, Config, NoTls, Row};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long to try to reconnect to a lost server when waiting does no harm.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The same limit for a page request: the viewer is waiting, and can reload.
const VIEWER_RECONNECT_TIMEOUT: Duration = Duration::from_millis(500);
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// Maximum rows per insert: a statement may have up to 65,535 parameters.
const MAX_ROWS_PER_INSERT: usize = 64;

/// Makes the server abort statements that take longer than 10 seconds.
const SESSION_SETTINGS: &str = "SET statement_timeout = '10s'; SET client_min_messages = 'warning'";

const SET_READ_ONLY: &str = "SET default_transaction_read_only = on";

/// Locks the tables against other writers until the end of the transaction. The first key spells
/// `SPWL`; the second identifies the schema.
const LOCK_TABLES: &str =
    "SELECT pg_advisory_xact_lock(1397774156, hashtext(current_schema()::text))";
const BEGIN_WRITING: &str =
    "BEGIN; SELECT pg_advisory_xact_lock(1397774156, hashtext(current_schema()::text))";

/// A connected server.
pub(crate) struct PostgresConnection {
    config: Config,
    line: RefCell<ActiveConnection>,
    is_read_only: Cell<bool>,
    /// Schema whose change notifications are received; `None` if none are received.
    listens_to: RefCell<Option<String>>,
    /// Number of times that a change was noticed, by a notification or after a reconnection.
    heard: Cell<i64>,
}

/// The current connection.
struct ActiveConnection {
    client: Client,
    /// Prepared statements by text and number of rows.
    prepared: HashMap<(&'static str, usize), postgres::Statement>,
    is_in_transaction: bool,
    /// Whether the commit notifies listeners.
    is_writing: bool,
}

impl PostgresConnection {
    /// Connects to the server, and creates or migrates the tables.
    ///
    /// # Errors
    /// Fails if the server cannot be reached or rejects the login, or the tables belong to another
    /// program or to a newer or an unreleased version.
    pub fn open(address: &str) -> anyhow::Result<PostgresConnection> {
        let server = PostgresConnection::connect(address)?;
        let owner = server.database_owner().map_err(Error::explain_error)?;
        if owner.usable_steps()? < STEPS.len() {
            server.migrate(STEPS).map_err(Error::explain_error)?;
        }
        Ok(server)
    }

    fn connect(address: &str) -> anyhow::Result<PostgresConnection> {
        let config = address::parse_config(address)?;
        Ok(PostgresConnection {
            line: RefCell::new(connect(&config).map_err(Error::explain_error)?),
            is_read_only: Cell::new(false),
            listens_to: RefCell::default(),
            heard: Cell::new(0),
            config,
        })
    }

    pub(super) fn execute(
        &self,
        statement: &'static SqlStatement,
        params: &[SqlParam<'_>],
    ) -> Result<usize, Error> {
        self.with_prepared(statement, 1, |client, prepared| {
            Ok(client.execute(prepared, &sql_params(params))? as usize)
        })
    }

    /// Inserts rows in batches whose sizes are powers of two up to 64, so that few statements need
    /// to be prepared.
    pub(super) fn insert<const N: usize>(
        &self,
        statement: &'static SqlStatement,
        mut rows: &[[SqlParam<'_>; N]],
    ) -> Result<usize, Error> {
        let mut inserted = 0;
        while !rows.is_empty() {
            let size = (1 << rows.len().ilog2()).min(MAX_ROWS_PER_INSERT);
            let (batch, remaining) = rows.split_at(size);
            inserted += self.with_prepared(statement, size, |client, prepared| {
                Ok(client.execute(prepared, &sql_params(batch.as_flattened()))? as usize)
            })?;
            rows = remaining;
        }
        Ok(inserted)
    }

    pub(super) fn query(
        &self,
        statement: &'static SqlStatement,
        params: &[SqlParam<'_>],
    ) -> Result<Vec<Row>, Error> {
        self.with_prepared(statement, 1, |client, prepared| {
            Ok(client.query(prepared, &sql_params(params))?)
        })
    }

    /// Calls `work` with the prepared statement. Each connection caches its prepared statements.
    fn with_prepared<T>(
        &self,
        statement: &'static SqlStatement,
        rows: usize,
        work: impl Fn(&mut Client, &postgres::Statement) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let key = (statement.postgres_text(), rows);
        self.with_connection(|line| {
            let prepared = match line.prepared.get(&key) {
                Some(prepared) => prepared,
                None => {
                    let prepared = line.client.prepare(&statement.postgres_text_for_rows(rows))?;
                    line.prepared.entry(key).or_insert(prepared)
                }
            };
            work(&mut line.client, prepared)
        })
    }

    /// Rejects all changes from now on, even after a reconnection.
    pub(super) fn set_read_only(&self) -> Result<(), Error> {
        self.is_read_only.set(true);
        self.with_client(|client| Ok(client.batch_execute(SET_READ_ONLY)?))
    }

    #[cfg(test)]
    pub fn batch(&self, text: &str) -> Result<(), Error> {
        self.with_client(|client| Ok(client.batch_execute(text)?))
    }

    /// Returns the server's plan for a statement.
    #[cfg(test)]
    pub(super) fn explain_statement(&self, statement: &SqlStatement) -> Result<Vec<String>, Error> {
        self.with_client(|client| {
            let count = client.prepare(statement.postgres_text())?.params().len();
            let nulls = vec!["NULL"; count].join(", ");
            let params = if count > 0 { format!("({nulls})") } else { nulls };
            client.batch_execute("DEALLOCATE ALL")?;
            client.batch_execute(&format!("PREPARE planned AS {}", statement.postgres_text()))?;
            let rows = client.query(&format!("EXPLAIN EXECUTE planned{params}"), &[])?;
            Ok(rows.iter().map(|row| row.get(0)).collect())
        })
    }

    pub(super) fn begin_transaction(&self, purpose: TransactionPurpose) -> Result<(), Error> {
        self.with_client(|client| {
            client.batch_execute(match purpose {
                TransactionPurpose::Reading => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
                TransactionPurpose::Writing => BEGIN_WRITING,
            })?;
            Ok(())
        })
        .inspect(|()| {
            let mut line = self.line.borrow_mut();
            line.is_in_transaction = true;
            line.is_writing = purpose == TransactionPurpose::Writing;
        })
        .or_else(|error| {
            // The error may have occurred during the wait for the lock, when the transaction was
            // already open.
            self.roll_back()?;
            Err(error)
        })
    }

    pub(super) fn commit_transaction(&self) -> Result<(), Error> {
        let mut line = self.line.borrow_mut();
        let end = if line.is_writing { listen::COMMIT_AND_NOTIFY } else { "COMMIT" };
        line.client.batch_execute(end)?;
        line.is_in_transaction = false;
        Ok(())
    }

    /// Rolls back. If the connection is lost, the server has already rolled back.
    pub(super) fn roll_back(&self) -> Result<(), Error> {
        let mut line = self.line.borrow_mut();
        line.is_in_transaction = false;
        match line.client.batch_execute("ROLLBACK") {
            Err(error) if errors::has_lost_connection(&error) => Ok(()),
            other => Ok(other?),
        }
    }

    /// Calls `work` with the client; retries like [`PostgresConnection::with_connection`].
    fn with_client<T>(&self, work: impl Fn(&mut Client) -> Result<T, Error>) -> Result<T, Error> {
        self.with_connection(|line| work(&mut line.client))
    }

    /// Calls `work` with the connection. If the connection turns out to be lost, reconnects and
    /// retries. There is no retry within a transaction, because the earlier part of the transaction
    /// is lost.
    fn with_connection<T>(
        &self,
        work: impl Fn(&mut ActiveConnection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut line = self.line.borrow_mut();
        match work(&mut line) {
            Err(Error::Postgres(error))
                if !line.is_in_transaction && errors::has_lost_connection(&error) =>
            {
                let timeout = if self.is_read_only.get() {
                    VIEWER_RECONNECT_TIMEOUT
                } else {
                    RECONNECT_TIMEOUT
                };
                *line = reconnect(&self.config, timeout)?;
                if self.is_read_only.get() {
                    line.client.batch_execute(SET_READ_ONLY)?;
                }
                if self.listens_to.borrow().is_some() {
                    // Notifications may have been missed in the meantime, so report a change.
                    line.client.batch_execute(listen::LISTEN)?;
                    self.heard.set(self.heard.get() + 1);
                }
                work(&mut line)
            }
            result => result,
        }
    }
}

fn sql_params<'a>(params: &'a [SqlParam<'a>]) -> Vec<&'a (dyn ToSql + Sync)> {
    params.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

fn connect(config: &Config) -> Result<ActiveConnection, Error> {
    let mut client = config.connect(NoTls)?;
    client.batch_execute(SESSION_SETTINGS)?;
    Ok(ActiveConnection {
        client,
        prepared: HashMap::new(),
        is_in_transaction: false,
        is_writing: false,
    })
}

/// Connects again. Retries until `timeout` has passed, because a restarting server needs time.
fn reconnect(config: &Config, timeout: Duration) -> Result<ActiveConnection, Error> {
    let mut config = config.clone();
    if config.get_connect_timeout().is_none_or(|known| *known > timeout) {
        config.connect_timeout(timeout);
    }
    let begun = Instant::now();
    loop {
        match connect(&config) {
            Err(Error::Postgres(error))
                if errors::has_lost_connection(&error) && begun.elapsed() < timeout =>
            {
                std::thread::sleep(RECONNECT_PAUSE);
            }
            result => return result,
        }
    }
}

/// Converts a column into a raw value.
pub(super) fn raw_value(row: &Row, column: usize) -> Result<SqlValue<'_>, postgres::Error> {
    Ok(match *row.columns()[column].type_() {
        Type::BOOL => {
            let value: Option<bool> = row.try_get(column)?;
            value.map_or(SqlValue::Null, |yes| SqlValue::Integer(i64::from(yes)))
        }
        Type::FLOAT8 => {
            row.try_get::<_, Option<f64>>(column)?.map_or(SqlValue::Null, SqlValue::Real)
        }
        Type::TEXT => {
            row.try_get::<_, Option<&str>>(column)?.map_or(SqlValue::Null, SqlValue::Text)
        }
        Type::BYTEA => {
            row.try_get::<_, Option<&[u8]>>(column)?.map_or(SqlValue::Null, SqlValue::Bytes)
        }
        _ => row.try_get::<_, Option<i64>>(column)?.map_or(SqlValue::Null, SqlValue::Integer),
    })
}

/// Classifies the error by whether a retry may help.
pub(super) fn error_kind(error: &postgres::Error) -> StoreErrorKind {
    errors::error_kind(error)
}

pub(super) fn explain_error(error: &postgres::Error) -> anyhow::Error {
    errors::explain_error(error)
}

impl ToSql for SqlParam<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match (*self, kind) {
            (SqlParam::Null, _) => Ok(IsNull::Yes),
            // As in SQLite, NaN is stored as null, and zero has no sign.
            (SqlParam::Real(number), &Type::FLOAT8) if number.is_nan() => Ok(IsNull::Yes),
            (SqlParam::Integer(number), &Type::INT8) => number.to_sql(kind, out),
            (SqlParam::Real(number), &Type::FLOAT8) => (number + 0.0).to_sql(kind, out),
            (SqlParam::Integer(number), &Type::FLOAT8) => (number as f64).to_sql(kind, out),
            (SqlParam::Text(text), &Type::TEXT) => text.to_sql(kind, out),
            (SqlParam::Bytes(bytes), &Type::BYTEA) => bytes.to_sql(kind, out),
            (value, kind) => Err(format!("cannot pass {value:?} as {kind}").into()),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

#[cfg(test)]
mod tests;
