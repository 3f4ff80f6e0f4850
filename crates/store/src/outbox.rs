//! Stores the outbox: which sessions to upload, to which destinations, and the state of each
//! upload.
//!
//! A row stays at least until the server has confirmed that it received the session. Several
//! processes may send at once; each claims a row for a limited time, so that a killed process does
//! not block the row for long. The transfer itself is implemented elsewhere. Start at
//! [`Store::queue_upload`].

use super::Store;
use super::database::{Error, SqlRow, sql, sql_params};
use speedwell_model::stored::{OutboxEntry, UploadState};

/// Duration of a process's claim on an upload, in milliseconds.
const CLAIM_MS: i64 = 60_000;
/// Maximum delay of an upload in milliseconds, whatever the server asks for. A delay of more than
/// twice this time means that the clock was changed.
pub const MAX_DELAY_MS: i64 = 3_600_000;

/// Selects the uploads to claim.
#[derive(Debug, Clone, Copy)]
pub struct UploadSelection<'a> {
    /// Numbers of the sessions. If the list is empty, all complete and imported sessions are
    /// selected.
    pub sessions: &'a [i64],
    /// Limits the selection to one destination.
    pub url: Option<&'a str>,
    /// Current time in milliseconds since the Unix epoch.
    pub now_unix_ms: i64,
}

impl Store {
    /// Queues a session for upload to a project of a server. A rejected upload is retried; a sent
    /// upload stays sent.
    ///
    /// # Errors
    /// Fails if there is no such session, or on database errors.
    pub fn queue_upload(
        &mut self,
        session: i64,
        url: &str,
        now_unix_ms: i64,
    ) -> anyhow::Result<()> {
        self.session_state(session)?;
        self.transact(|file| {
            file.execute(
                sql!(
                    "INSERT INTO outbox (session, url, added_unix_ms) VALUES ($1, $2, $3)
                     ON CONFLICT (session, url) DO UPDATE SET
                         state = CASE outbox.state WHEN 'sent' THEN 'sent' ELSE 'waiting' END,
                         next_unix_ms = 0, claimed_until_unix_ms = 0"
                ),
                sql_params![session, url, now_unix_ms],
            )?;
            Ok(())
        })
    }

    /// Returns all uploads, oldest session first.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn list_uploads(&self) -> anyhow::Result<Vec<OutboxEntry>> {
        let sql = sql!(
            "SELECT outbox.session, session.id, session.state, url, outbox.state, attempts,
                    next_unix_ms, reason, sent_unix_ms
             FROM outbox JOIN session ON session.number = outbox.session
             ORDER BY outbox.session, url COLLATE {{binary}}"
        );
        self.query_rows(sql, sql_params![], read_entry)
    }

    /// Makes all waiting uploads due immediately, even if their next attempt was delayed.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn retry_uploads_now(&mut self) -> anyhow::Result<()> {
        self.transact(|file| {
            let sql = sql!("UPDATE outbox SET next_unix_ms = 0 WHERE state = 'waiting'");
            file.execute(sql, sql_params![])?;
            Ok(())
        })
    }

    /// Delays all waiting uploads to the destination `url` until `until_unix_ms`.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn delay_uploads(&mut self, url: &str, until_unix_ms: i64) -> anyhow::Result<()> {
        self.transact(|file| {
            let sql =
                sql!("UPDATE outbox SET next_unix_ms = $1 WHERE state = 'waiting' AND url = $2");
            file.execute(sql, sql_params![until_unix_ms, url])?;
            Ok(())
        })
    }

    /// Claims the next upload that is due. The claim expires after a minute. A session that can be
    /// resumed is claimed only if it is listed in `selection.sessions`.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn claim_upload(
        &mut self,
        selection: &UploadSelection<'_>,
    ) -> anyhow::Result<Option<OutboxEntry>> {
        let numbers = serde_json::to_string(selection.sessions)?;
        self.transact(|file| {
            // A time too far in the future was computed before the clock was set back. It is
            // ignored.
            let found: Option<(i64, String)> = file.query_first(
                sql!(
                    "SELECT outbox.session, url FROM outbox
                     JOIN session ON session.number = outbox.session
                     WHERE outbox.state = 'waiting'
                     AND (next_unix_ms <= $1 OR next_unix_ms > $2)
                     AND (claimed_until_unix_ms <= $1 OR claimed_until_unix_ms > $3)
                     AND ((CAST($4 AS TEXT) = '[]'
                           AND session.state IN ('complete', 'imported'))
                          OR (session.state <> 'running' AND outbox.session IN {{numbers:4}}))
                     AND (CAST($5 AS TEXT) IS NULL OR url = $5)
                     ORDER BY attempts, outbox.session, url COLLATE {{binary}} LIMIT 1"
                ),
                sql_params![
                    selection.now_unix_ms,
                    selection.now_unix_ms + 2 * MAX_DELAY_MS,
                    selection.now_unix_ms + 2 * CLAIM_MS,
                    &numbers,
                    selection.url
                ],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
            let Some((session, url)) = found else {
                return Ok(None);
            };
            file.execute(
                sql!(
                    "UPDATE outbox SET claimed_until_unix_ms = $1 WHERE session = $2 AND url = $3"
                ),
                sql_params![selection.now_unix_ms + CLAIM_MS, session, &url],
            )?;
            Ok(file.query_first(
                sql!(
                    "SELECT outbox.session, session.id, session.state, url, outbox.state, attempts,
                            next_unix_ms, reason, sent_unix_ms
                     FROM outbox JOIN session ON session.number = outbox.session
                     WHERE outbox.session = $1 AND url = $2"
                ),
                sql_params![session, &url],
                read_entry,
            )?)
        })
    }

    /// Records the outcome of an attempt and releases the claim.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn finish_upload(&mut self, item: &OutboxEntry) -> anyhow::Result<()> {
        self.transact(|file| {
            file.execute(
                sql!(
                    "UPDATE outbox SET state = $1, attempts = $2, next_unix_ms = $3, reason = $4,
                         sent_unix_ms = $5, claimed_until_unix_ms = 0
                     WHERE session = $6 AND url = $7"
                ),
                sql_params![
                    item.state.name(),
                    item.attempts,
                    item.next_unix_ms,
                    &item.reason,
                    item.sent_unix_ms,
                    item.session,
                    &item.url,
                ],
            )?;
            Ok(())
        })
    }
}

fn read_entry(row: SqlRow<'_>) -> Result<OutboxEntry, Error> {
    Ok(OutboxEntry {
        session: row.get(0)?,
        id: row.get(1)?,
        ended: row.get(2)?,
        url: row.get(3)?,
        state: UploadState::from_name(row.text(4)?).unwrap_or(UploadState::Waiting),
        attempts: row.get(5)?,
        next_unix_ms: row.get(6)?,
        reason: row.get(7)?,
        sent_unix_ms: row.get(8)?,
    })
}
