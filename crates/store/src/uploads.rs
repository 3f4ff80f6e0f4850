//! Stores both ends of an upload: the outbox of the sender, and the sessions that a server accepts.
//!
//! A row of the outbox says which session to upload to which destination. It stays at least until
//! the server has confirmed that it received the session. Several processes may send at once; each
//! claims a row for a limited time, so that a killed process does not block the row for long. The
//! transfer itself is implemented elsewhere. Start at [`Store::queue_upload`].
//!
//! A client that gets no response retries, so storing is idempotent: existing data is neither
//! duplicated nor replaced. Start at [`Store::accept_session`], which returns only after the
//! session has been committed.

use super::database::{Database, Error, SqlRow, sql, sql_params};
use super::session_writer::{find_number_by_id, insert_whole};
use super::{Store, comment_jobs};
use anyhow::Result;
use ring::digest::{self, SHA256};
use speedwell_model::Session;
use speedwell_model::stored::{OutboxEntry, UploadState};
use std::fmt;
use std::io::{self, Read};

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
    pub fn queue_upload(&mut self, session: i64, url: &str, now_unix_ms: i64) -> Result<()> {
        self.session_state(session)?;
        let insert = sql!(
            "INSERT INTO outbox (session, url, added_unix_ms) VALUES ($1, $2, $3)
             ON CONFLICT (session, url) DO UPDATE SET
                 state = CASE outbox.state WHEN 'sent' THEN 'sent' ELSE 'waiting' END,
                 next_unix_ms = 0, claimed_until_unix_ms = 0"
        );
        self.execute(insert, sql_params![session, url, now_unix_ms])
    }

    /// Returns all uploads, oldest session first.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn list_uploads(&self) -> Result<Vec<OutboxEntry>> {
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
    pub fn retry_uploads_now(&mut self) -> Result<()> {
        let update = sql!("UPDATE outbox SET next_unix_ms = 0 WHERE state = 'waiting'");
        self.execute(update, sql_params![])
    }

    /// Delays all waiting uploads to the destination `url` until `until_unix_ms`.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn delay_uploads(&mut self, url: &str, until_unix_ms: i64) -> Result<()> {
        let update =
            sql!("UPDATE outbox SET next_unix_ms = $1 WHERE state = 'waiting' AND url = $2");
        self.execute(update, sql_params![until_unix_ms, url])
    }

    /// Claims the next upload that is due. The claim expires after a minute. A session that can be
    /// resumed is claimed only if it is listed in `selection.sessions`.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn claim_upload(&mut self, selection: &UploadSelection<'_>) -> Result<Option<OutboxEntry>> {
        let numbers = serde_json::to_string(selection.sessions)?;
        self.transact(|file| {
            // A time too far in the future was computed before the clock was set back. It is
            // ignored.
            let found = file.query_first(
                sql!(
                    "SELECT outbox.session, session.id, session.state, url, outbox.state, attempts,
                            next_unix_ms, reason, sent_unix_ms
                     FROM outbox JOIN session ON session.number = outbox.session
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
                read_entry,
            )?;
            if let Some(OutboxEntry { session, url, .. }) = &found {
                let update = sql!(
                    "UPDATE outbox SET claimed_until_unix_ms = $1
                     WHERE session = $2 AND url = $3"
                );
                file.execute(update, sql_params![selection.now_unix_ms + CLAIM_MS, *session, url])?;
            }
            Ok(found)
        })
    }

    /// Records the outcome of an attempt and releases the claim.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn finish_upload(&mut self, item: &OutboxEntry) -> Result<()> {
        self.execute(
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
        )
    }
}

fn read_entry(row: SqlRow<'_>) -> Result<OutboxEntry, Error> {
    Ok(OutboxEntry {
        session: row.get(0)?,
        id: row.get(1)?,
        ended: row.get(2)?,
        url: row.get(3)?,
        state: UploadState::from_name(row.get(4)?).unwrap_or(UploadState::Waiting),
        attempts: row.get(5)?,
        next_unix_ms: row.get(6)?,
        reason: row.get(7)?,
        sent_unix_ms: row.get(8)?,
    })
}

/// SHA-256 of all lines of a session as they were sent, including the line ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionDigest([u8; 32]);

impl SessionDigest {
    /// Hashes the lines.
    pub fn hash_lines(lines: &[u8]) -> SessionDigest {
        SessionDigest::from_ring(digest::digest(&SHA256, lines))
    }

    /// Hashes all lines that a reader returns.
    ///
    /// # Errors
    /// Fails if the reader fails.
    pub fn hash_reader(mut reader: impl Read) -> io::Result<SessionDigest> {
        let mut context = digest::Context::new(&SHA256);
        let mut chunk = vec![0; 1 << 16];
        loop {
            match reader.read(&mut chunk)? {
                0 => return Ok(SessionDigest::from_ring(context.finish())),
                count => context.update(&chunk[..count]),
            }
        }
    }

    fn from_ring(digest: digest::Digest) -> SessionDigest {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.as_ref());
        SessionDigest(bytes)
    }

    /// Parses 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<SessionDigest> {
        let mut bytes = [0; 32];
        let is_hex = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
        }
        is_hex.then_some(SessionDigest(bytes))
    }

    fn new(bytes: &[u8]) -> Option<SessionDigest> {
        bytes.try_into().ok().map(SessionDigest)
    }
}

impl fmt::Display for SessionDigest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

/// What is stored about an upload besides its session.
#[derive(Debug, Clone, Copy)]
pub struct UploadReceipt<'a> {
    /// Digest of all lines.
    pub digest: SessionDigest,
    /// Number of lines.
    pub lines: i64,
    /// Total size of the lines.
    pub bytes: i64,
    /// Id of the token that the sender used.
    pub token: Option<&'a str>,
    /// Time of the request in milliseconds since the Unix epoch.
    pub at_unix_ms: i64,
}

/// State of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UploadStatus {
    /// The store had the session already, with this number.
    Known(i64),
    /// The session has just been stored, with this number.
    Stored(i64),
    /// The store has a different session with the same id.
    Differs {
        /// Digest of the session in the store.
        here: SessionDigest,
    },
    /// The upload is rejected because the session was deleted.
    Deleted,
}

impl Store {
    /// Returns the state of an upload; `None` if the session is unknown.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn upload_status(&self, id: &str) -> Result<Option<UploadStatus>> {
        self.explain(find_status(&self.database, id))
    }

    /// Returns the digest of a stored session: the digest of the uploaded lines or, if the session
    /// was not uploaded, the digest of its export.
    ///
    /// # Errors
    /// Fails if there is no such session, or on database errors.
    pub fn session_digest(&self, number: i64) -> Result<SessionDigest> {
        let sql = sql!("SELECT digest FROM upload WHERE session = $1");
        let read = |row: SqlRow<'_>| Ok(row.get::<Option<&[u8]>>(0)?.and_then(SessionDigest::new));
        if let Some(digest) = self.query_first(sql, sql_params![number], read)?.flatten() {
            return Ok(digest);
        }
        let mut lines = Vec::new();
        self.write_lines(number, &mut lines)?;
        Ok(SessionDigest::hash_lines(&lines))
    }

    /// Inserts a session after all its lines have arrived and have been parsed. If the store
    /// already has a session with the same id, only compares their digests; if the session was
    /// deleted earlier, stores nothing.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn accept_session(
        &mut self,
        session: &Session,
        receipt: &UploadReceipt<'_>,
    ) -> Result<UploadStatus> {
        if let Some(number) = self.find_by_id(&session.id)? {
            // A complete session never changes, so it is safe to read it before the transaction.
            return self.compare_with_stored(number, receipt.digest);
        }
        let outcome = self.transact(|file| {
            if let Some(status) = find_status(file, &session.id)? {
                return Ok(status);
            }
            let number = insert_whole(file, session)?;
            insert_upload(file, (&session.id, number), receipt)?;
            let origin = session.origin.as_ref();
            comment_jobs::queue_comment(file, origin, Some(number), receipt.at_unix_ms)?;
            Ok(UploadStatus::Stored(number))
        })?;
        match outcome {
            // Another sender has stored the session since the check above.
            UploadStatus::Known(number) => self.compare_with_stored(number, receipt.digest),
            other => Ok(other),
        }
    }

    fn compare_with_stored(&self, number: i64, digest: SessionDigest) -> Result<UploadStatus> {
        let stored = self.session_digest(number)?;
        Ok(if stored == digest {
            UploadStatus::Known(number)
        } else {
            UploadStatus::Differs { here: stored }
        })
    }
}

/// Stores the receipt of a session.
pub(super) fn insert_upload(
    file: &Database,
    (id, number): (&str, i64),
    receipt: &UploadReceipt<'_>,
) -> Result<(), Error> {
    let UploadReceipt { digest, lines, bytes, token, at_unix_ms } = *receipt;
    let insert = sql!(
        "INSERT INTO upload (id, session, lines, bytes, digest, token, begun_unix_ms, at_unix_ms)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $7)"
    );
    let digest = digest.0.to_vec();
    file.execute(insert, sql_params![id, number, lines, bytes, &digest, token, at_unix_ms])
}

pub(super) fn find_status(file: &Database, id: &str) -> Result<Option<UploadStatus>, Error> {
    if let Some(number) = find_number_by_id(file, id)? {
        return Ok(Some(UploadStatus::Known(number)));
    }
    let deleted = sql!("SELECT at_unix_ms FROM deleted_session WHERE id = $1");
    let found = file.query_first(deleted, sql_params![id], |row| row.get::<i64>(0))?;
    Ok(found.map(|_| UploadStatus::Deleted))
}
