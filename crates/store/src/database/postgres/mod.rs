//! Connects to a PostgreSQL server, and executes statements on it.
//!
//! Decides how to connect and reconnect, and serializes writers, as SQLite does. Addresses and
//! passwords are in `address.rs`.

mod address;

use super::errors::has_lost_connection;
use super::{Error, SqlParam, SqlStatement, TransactionPurpose};
use crate::schema::{DatabaseOwner, STEPS, SchemaStep, applied_steps, version_after};
use anyhow::Result;
use bytes::BytesMut;
use postgres::fallible_iterator::FallibleIterator;
use postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use postgres::{Client, Config, NoTls, Row};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long to try to reconnect to a lost server, unless a viewer is waiting for a page.
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

/// All schemas share one channel; the payload names the changed schema.
const LISTEN: &str = "LISTEN speedwell";

/// Commits a transaction that has written, and notifies listeners.
const COMMIT_AND_NOTIFY: &str = "SELECT pg_notify('speedwell', current_schema()::text); COMMIT";

/// Poll interval when notifications do not work.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// How long to wait for a notification that this connection sends to itself.
const ECHO_TIMEOUT: Duration = Duration::from_secs(2);

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
    pub fn open(address: &str) -> Result<PostgresConnection> {
        let server = PostgresConnection::connect(address)?;
        let owner = server.database_owner().map_err(Error::explain_error)?;
        if owner.usable_steps()? < STEPS.len() {
            server.migrate(STEPS).map_err(Error::explain_error)?;
        }
        Ok(server)
    }

    fn connect(address: &str) -> Result<PostgresConnection> {
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
        let end = if line.is_writing { COMMIT_AND_NOTIFY } else { "COMMIT" };
        line.client.batch_execute(end)?;
        line.is_in_transaction = false;
        Ok(())
    }

    /// Rolls back. If the connection is lost, the server has already rolled back.
    pub(super) fn roll_back(&self) -> Result<(), Error> {
        let mut line = self.line.borrow_mut();
        line.is_in_transaction = false;
        match line.client.batch_execute("ROLLBACK") {
            Err(error) if has_lost_connection(&error) => Ok(()),
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
                if !line.is_in_transaction && has_lost_connection(&error) =>
            {
                let is_read_only = self.is_read_only.get();
                let timeout =
                    if is_read_only { VIEWER_RECONNECT_TIMEOUT } else { RECONNECT_TIMEOUT };
                *line = reconnect(&self.config, timeout)?;
                if is_read_only {
                    line.client.batch_execute(SET_READ_ONLY)?;
                }
                if self.listens_to.borrow().is_some() {
                    // Notifications may have been missed in the meantime, so report a change.
                    line.client.batch_execute(LISTEN)?;
                    self.heard.set(self.heard.get() + 1);
                }
                work(&mut line)
            }
            result => result,
        }
    }
}

/// Manages the tables, and the database schemas of projects.
impl PostgresConnection {
    /// Determines the owner of the tables in the schema of the connection.
    ///
    /// # Errors
    /// Fails if the database does not use UTF-8, or on database errors.
    pub(in crate::database) fn database_owner(&self) -> Result<DatabaseOwner, Error> {
        self.with_client(read_owner)
    }

    /// Returns the name of the schema of a project: the name of the connection's schema (truncated,
    /// with special characters replaced), followed by the number of the project.
    pub(in crate::database) fn schema_name(&self, project: i64) -> Result<String, Error> {
        let sql = "SELECT left(current_schema()::text, 40)";
        let schema: String =
            self.with_client(|client| Ok(client.query_one(sql, &[])?.try_get(0)?))?;
        let characters = schema.chars().map(|character| {
            if character.is_ascii_lowercase() || character.is_ascii_digit() {
                character
            } else {
                '_'
            }
        });
        Ok(format!("{}_{project}", characters.collect::<String>()))
    }

    /// Creates the schema of a project unless it exists.
    pub(in crate::database) fn make_schema(&self, project: i64) -> Result<(), Error> {
        let schema = self.schema_name(project)?;
        // The name is safe to quote, because it consists of letters, digits and underscores only.
        let statement = format!("CREATE SCHEMA IF NOT EXISTS \"{schema}\"");
        self.with_client(|client| Ok(client.batch_execute(&statement)?))
    }

    /// Applies all missing schema steps in one transaction. If several programs start at once, only
    /// one applies them.
    pub(in crate::database) fn migrate(&self, steps: &[SchemaStep]) -> Result<(), Error> {
        self.with_client(|client| {
            let mut change = client.transaction()?;
            // A step may copy a table, which takes long.
            change.batch_execute("SET LOCAL statement_timeout = 0")?;
            change.batch_execute(LOCK_TABLES)?;
            change.batch_execute(
                "CREATE TABLE IF NOT EXISTS speedwell_schema (version BIGINT NOT NULL)",
            )?;
            let stored = change.query_opt("SELECT version FROM speedwell_schema", &[])?;
            let version = stored.map_or(0, |row| row.get(0));
            let missing = steps.iter().skip(applied_steps(version));
            if missing.len() > 0 {
                for step in missing {
                    change.batch_execute(step.postgres)?;
                }
                change.batch_execute("DELETE FROM speedwell_schema")?;
                change.execute(
                    "INSERT INTO speedwell_schema (version) VALUES ($1)",
                    &[&version_after(steps.len())],
                )?;
            }
            Ok(change.commit()?)
        })
    }
}

fn read_owner(client: &mut Client) -> Result<DatabaseOwner, Error> {
    let facts = client.query_one(
        "SELECT to_regclass('speedwell_schema') IS NOT NULL,
                EXISTS (SELECT 1 FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'm')
                        AND relnamespace = to_regnamespace(current_schema()::text)),
                current_setting('server_encoding')",
        &[],
    )?;
    let (is_ours, has_tables): (bool, bool) = (facts.get(0), facts.get(1));
    if !is_ours && has_tables {
        return Ok(DatabaseOwner::Foreign);
    }
    let encoding: String = facts.get(2);
    if encoding != "UTF8" {
        return Err(Error::Encoding(encoding));
    }
    if !is_ours {
        return Ok(DatabaseOwner::Ours(0));
    }
    let stored = client.query_opt("SELECT version FROM speedwell_schema", &[])?;
    Ok(DatabaseOwner::of_version(stored.map_or(0, |row| row.get(0))))
}

/// Change notifications (LISTEN and NOTIFY). A writer sends a notification when it commits, and the
/// server forwards it to all listeners.
///
/// Notifications do not work on a standby or behind some connection pools. There, the server's
/// transaction number is polled instead.
impl PostgresConnection {
    /// Subscribes to notifications, if the server delivers them.
    ///
    /// # Errors
    /// Fails if the server cannot be reached.
    pub(in crate::database) fn subscribe(&self) -> Result<(), Error> {
        let sql = "SELECT current_schema()::text";
        let schema: String =
            self.with_client(|client| Ok(client.query_one(sql, &[])?.try_get(0)?))?;
        let has_notifications = match self.with_client(receives_notifications) {
            // A standby rejects LISTEN.
            Err(Error::Postgres(error)) if error.code().is_some() => false,
            other => other?,
        };
        *self.listens_to.borrow_mut() = has_notifications.then_some(schema);
        Ok(())
    }

    /// Returns a number that changes whenever another connection changes these tables. Without
    /// notifications, changes of other tables on the server change the number as well.
    pub(in crate::database) fn data_version(&self) -> Result<i64, Error> {
        let Some(schema) = self.listens_to.borrow().clone() else {
            let sql = "SELECT txid_snapshot_xmax(txid_current_snapshot())";
            return self.with_client(|client| Ok(client.query_one(sql, &[])?.try_get(0)?));
        };
        let has_changes = self.with_client(|client| {
            // An empty request makes the server deliver pending notifications. The notifications of
            // earlier commits arrive before the reply.
            client.batch_execute("")?;
            let mut notifications = client.notifications();
            let mut messages = notifications.iter();
            let mut has_changes = false;
            while let Some(message) = messages.next()? {
                has_changes |= message.payload() == schema;
            }
            Ok(has_changes)
        })?;
        self.heard.set(self.heard.get() + i64::from(has_changes));
        Ok(self.heard.get())
    }

    /// Waits up to `timeout` for a change; without notifications, for one poll interval.
    pub(in crate::database) fn wait_for_change(&self, timeout: Duration) -> Result<(), Error> {
        let Some(schema) = self.listens_to.borrow().clone() else {
            std::thread::sleep(timeout.min(POLL_INTERVAL));
            return Ok(());
        };
        let end = Instant::now() + timeout;
        let has_changes = self.with_client(|client| {
            let left = end.saturating_duration_since(Instant::now());
            let mut notifications = client.notifications();
            let mut messages = notifications.timeout_iter(left);
            while let Some(message) = messages.next()? {
                if message.payload() == schema {
                    return Ok(true);
                }
                if Instant::now() >= end {
                    break;
                }
            }
            Ok(false)
        })?;
        self.heard.set(self.heard.get() + i64::from(has_changes));
        Ok(())
    }
}

/// Subscribes, and checks whether this connection receives a notification that it sends itself.
fn receives_notifications(client: &mut Client) -> Result<bool, Error> {
    client.batch_execute(LISTEN)?;
    let sql = "SELECT 'of ' || pg_backend_pid(), pg_notify('speedwell', 'of ' || pg_backend_pid())";
    let sent_payload: String = client.query_one(sql, &[])?.try_get(0)?;
    let mut notifications = client.notifications();
    let mut messages = notifications.timeout_iter(ECHO_TIMEOUT);
    while let Some(message) = messages.next()? {
        if message.payload() == sent_payload {
            return Ok(true);
        }
    }
    Ok(false)
}

fn sql_params<'a>(params: &'a [SqlParam<'a>]) -> Vec<&'a (dyn ToSql + Sync)> {
    params.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

fn connect(config: &Config) -> Result<ActiveConnection, Error> {
    let mut client = config.connect(NoTls)?;
    client.batch_execute(SESSION_SETTINGS)?;
    let prepared = HashMap::new();
    Ok(ActiveConnection { client, prepared, is_in_transaction: false, is_writing: false })
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
                if has_lost_connection(&error) && begun.elapsed() < timeout =>
            {
                std::thread::sleep(RECONNECT_PAUSE);
            }
            result => return result,
        }
    }
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
