//! Sends and receives change notifications (LISTEN and NOTIFY). A writer sends a notification when
//! it commits, and the server forwards it to all listeners.
//!
//! Notifications do not work on a standby or behind some connection pools. There, the server's
//! transaction number is polled instead. Start at [`PostgresConnection::subscribe`].

use super::{Error, PostgresConnection};
use postgres::Client;
use postgres::fallible_iterator::FallibleIterator;
use std::time::{Duration, Instant};

/// All schemas share one channel; the payload names the changed schema.
pub(super) const LISTEN: &str = "LISTEN speedwell";

/// Commits a transaction that has written, and notifies listeners.
pub(super) const COMMIT_AND_NOTIFY: &str =
    "SELECT pg_notify('speedwell', current_schema()::text); COMMIT";

/// Poll interval when notifications do not work.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// How long to wait for a notification that this connection sends to itself.
const ECHO_TIMEOUT: Duration = Duration::from_secs(2);

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
