//! Hearing of changes at once (LISTEN and NOTIFY): whoever writes says so when it commits, and the server passes it on.
//!
//! Where the server does not, as behind some pools of connections and on a standby, the number of its transactions is asked
//! for instead. Start at [`Postgres::listen`].

use super::{Error, Postgres};
use postgres::Client;
use postgres::fallible_iterator::FallibleIterator;
use std::time::{Duration, Instant};

/// All schemas share one channel; which one was changed is said with each message.
pub(super) const LISTEN: &str = "LISTEN speedwell";

/// Ends a transaction that has written, and says so to those who listen once it is done.
pub(super) const COMMIT_AND_NOTIFY: &str =
    "SELECT pg_notify('speedwell', current_schema()::text); COMMIT";

/// How often is asked where nothing can be heard.
const ASKED: Duration = Duration::from_millis(250);

/// How long a message to oneself may take.
const ECHO: Duration = Duration::from_secs(2);

impl Postgres {
    /// Listens from now on, if the server passes on what is said.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub(in crate::store::database) fn listen(&self) -> Result<(), Error> {
        let sql = "SELECT current_schema()::text";
        let schema: String =
            self.attempt(|client| Ok(client.query_one(sql, &[])?.try_get(0)?))?;
        let hears = match self.attempt(hears_itself) {
            // A standby refuses to listen.
            Err(Error::Postgres(error)) if error.code().is_some() => false,
            other => other?,
        };
        *self.listens_to.borrow_mut() = hears.then_some(schema);
        Ok(())
    }

    /// A number that is another one whenever another connection has changed these tables; where nothing can be heard, also
    /// when it changed others of the server.
    pub(in crate::store::database) fn data_version(&self) -> Result<i64, Error> {
        let Some(schema) = self.listens_to.borrow().clone() else {
            let sql = "SELECT txid_snapshot_xmax(txid_current_snapshot())";
            return self.attempt(|client| Ok(client.query_one(sql, &[])?.try_get(0)?));
        };
        let is_news = self.attempt(|client| {
            // What was committed before a request is passed on before its answer.
            client.batch_execute("")?;
            let mut said = client.notifications();
            let mut said = said.iter();
            let mut is_news = false;
            while let Some(message) = said.next()? {
                is_news |= message.payload() == schema;
            }
            Ok(is_news)
        })?;
        self.heard.set(self.heard.get() + i64::from(is_news));
        Ok(self.heard.get())
    }

    /// Waits for a change, at most for some time; where nothing can be heard, until it is worth asking.
    pub(in crate::store::database) fn await_change(&self, most: Duration) -> Result<(), Error> {
        let Some(schema) = self.listens_to.borrow().clone() else {
            std::thread::sleep(most.min(ASKED));
            return Ok(());
        };
        let end = Instant::now() + most;
        let is_news = self.attempt(|client| {
            let left = end.saturating_duration_since(Instant::now());
            let mut said = client.notifications();
            let mut said = said.timeout_iter(left);
            while let Some(message) = said.next()? {
                if message.payload() == schema {
                    return Ok(true);
                }
                if Instant::now() >= end {
                    break;
                }
            }
            Ok(false)
        })?;
        self.heard.set(self.heard.get() + i64::from(is_news));
        Ok(())
    }
}

/// Begins to listen, and finds out whether a message of one's own comes back.
fn hears_itself(client: &mut Client) -> Result<bool, Error> {
    client.batch_execute(LISTEN)?;
    let sql = "SELECT 'of ' || pg_backend_pid(), pg_notify('speedwell', 'of ' || pg_backend_pid())";
    let own: String = client.query_one(sql, &[])?.try_get(0)?;
    let mut said = client.notifications();
    let mut said = said.timeout_iter(ECHO);
    while let Some(message) = said.next()? {
        if message.payload() == own {
            return Ok(true);
        }
    }
    Ok(false)
}
