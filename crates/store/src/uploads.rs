//! Stores incoming uploads. Keeps the parts of a session until all have arrived, then stores the
//! session as a whole.
//!
//! A client that gets no response retries, so every operation is idempotent: existing data is
//! neither duplicated nor replaced. Each function is one transaction and returns after the commit.
//! The caller decides what a part may contain. Start at [`Store::begin_upload`]; small sessions
//! skip the parts and start at [`Store::accept_session`].

use super::database::{Database, Error, SqlRow, sql, sql_params};
use super::sessions::{find_number_by_id, insert_whole};
use super::{Store, comment_jobs};
use anyhow::Context;
use ring::digest::{self, SHA256};
use speedwell_formats::json_lines;
use speedwell_model::Session;
use std::fmt;

/// SHA-256 of all lines of a session as they were sent, including the line ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionDigest([u8; 32]);

impl SessionDigest {
    /// Hashes the lines.
    pub fn hash_lines(lines: &[u8]) -> SessionDigest {
        SessionDigest::hash_parts([lines])
    }

    /// Hashes lines given in several parts.
    pub fn hash_parts<P: AsRef<[u8]>>(parts: impl IntoIterator<Item = P>) -> SessionDigest {
        let mut context = digest::Context::new(&SHA256);
        for part in parts {
            context.update(part.as_ref());
        }
        let mut bytes = [0; 32];
        bytes.copy_from_slice(context.finish().as_ref());
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

    /// Returns the raw bytes.
    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn from_stored(bytes: &[u8]) -> Option<SessionDigest> {
        bytes.try_into().ok().map(SessionDigest)
    }
}

impl fmt::Display for SessionDigest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

/// Sender of an upload, and the time of the request.
#[derive(Debug, Clone, Copy)]
pub struct UploadSender<'a> {
    /// Id of the token that the sender used.
    pub token: Option<&'a str>,
    /// Current time in milliseconds since the Unix epoch.
    pub at_unix_ms: i64,
}

/// State of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UploadStatus {
    /// The upload is incomplete; this number of lines has arrived.
    Arriving(u64),
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

/// An incomplete upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncompleteUpload {
    /// Id of the session.
    pub id: String,
    /// Number of lines received.
    pub lines: u64,
    /// Number of bytes received.
    pub bytes: u64,
    /// Id of the sender's token.
    pub token: Option<String>,
    /// Time of the last part, in milliseconds since the Unix epoch.
    pub at_unix_ms: i64,
}

impl Store {
    /// Returns the state of an upload; `None` if the session is unknown.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn upload_status(&self, id: &str) -> anyhow::Result<Option<UploadStatus>> {
        let found = find_status(&self.database, id);
        found.map_err(|error| self.explain_error(error))
    }

    /// Returns the digest of a stored session: the digest of the uploaded lines or, if the session
    /// was not uploaded, the digest of its export.
    ///
    /// # Errors
    /// Fails if there is no such session, or on database errors.
    pub fn session_digest(&self, number: i64) -> anyhow::Result<SessionDigest> {
        let sent =
            sent_digest(&self.database, number).map_err(|error| self.explain_error(error))?;
        match sent {
            Some(digest) => Ok(digest),
            None => {
                let mut lines = Vec::new();
                json_lines::write(&self.load_session(number)?, &mut lines)?;
                Ok(SessionDigest::hash_lines(&lines))
            }
        }
    }

    /// Starts an upload with the header of a session. If the upload was started earlier with the
    /// same header, it continues; if it was started with another header, it starts over.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn begin_upload(
        &mut self,
        id: &str,
        header: &[u8],
        sender: &UploadSender<'_>,
    ) -> anyhow::Result<UploadStatus> {
        self.transact(|file| {
            match find_status(file, id)? {
                Some(UploadStatus::Arriving(lines)) => {
                    let first = find_part(file, id, 0)?;
                    if first.is_some_and(|(_, digest)| digest == SessionDigest::hash_lines(header))
                    {
                        return Ok(UploadStatus::Arriving(lines));
                    }
                    delete_incomplete(file, id)?;
                }
                Some(other) => return Ok(other),
                None => {}
            }
            file.execute(
                sql!(
                    "INSERT INTO upload (id, lines, bytes, token, begun_unix_ms, at_unix_ms)
                     VALUES ($1, 0, 0, $2, $3, $3)"
                ),
                sql_params![id, sender.token, sender.at_unix_ms],
            )?;
            add_part(file, id, 0, header, sender)?;
            Ok(UploadStatus::Arriving(1))
        })
    }

    /// Adds lines to an upload. `first_line` is the index of their first line in the session, where
    /// 0 is the header. If the upload expects other lines next, the given lines are ignored.
    ///
    /// Returns the state of the upload. The second value is false if the upload is incomplete and
    /// the lines are neither the ones that it expects next nor an exact repetition of an earlier
    /// part.
    ///
    /// # Errors
    /// Fails if the upload was not started, or on database errors.
    pub fn add_lines(
        &mut self,
        id: &str,
        first_line: u64,
        lines: &[u8],
        sender: &UploadSender<'_>,
    ) -> anyhow::Result<(UploadStatus, bool)> {
        self.transact(|file| {
            let so_far = match find_status(file, id)? {
                Some(UploadStatus::Arriving(lines)) => lines,
                Some(other) => return Ok((other, true)),
                None => anyhow::bail!("the upload of session '{id}' has not begun"),
            };
            if first_line == so_far {
                let lines = add_part(file, id, first_line, lines, sender)?;
                return Ok((UploadStatus::Arriving(lines), true));
            }
            let existing = find_part(file, id, first_line)?;
            let is_known =
                existing.is_some_and(|(_, digest)| digest == SessionDigest::hash_lines(lines));
            Ok((UploadStatus::Arriving(so_far), is_known))
        })
    }

    /// Returns all received lines of an incomplete upload.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn received_lines(&self, id: &str) -> anyhow::Result<Vec<u8>> {
        let sql = sql!(
            "SELECT text FROM upload_part JOIN upload ON upload.number = upload
             WHERE id = $1 ORDER BY line"
        );
        let parts: Vec<Vec<u8>> = self.query_rows(sql, sql_params![id], |row| row.get(0))?;
        Ok(parts.concat())
    }

    /// Discards an incomplete upload.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn discard_upload(&mut self, id: &str) -> anyhow::Result<()> {
        self.transact(|file| Ok(delete_incomplete(file, id)?))
    }

    /// Inserts a session after all its lines have arrived and have been parsed. If the store
    /// already has a session with the same id, only compares their digests; if the session was
    /// deleted earlier, stores nothing. `lines` and `bytes` are the number and the total size of
    /// the lines.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn accept_session(
        &mut self,
        session: &Session,
        digest: SessionDigest,
        (lines, bytes): (u64, u64),
        sender: &UploadSender<'_>,
    ) -> anyhow::Result<UploadStatus> {
        if let Some(number) = self.find_by_id(&session.id)? {
            // A complete session never changes, so it is safe to read it before the transaction.
            return self.compare_with_stored(number, digest);
        }
        let outcome = self.transact(|file| {
            match find_status(file, &session.id)? {
                Some(UploadStatus::Deleted) => return Ok(UploadStatus::Deleted),
                Some(UploadStatus::Known(number)) => return Ok(UploadStatus::Known(number)),
                _ => {}
            }
            delete_incomplete(file, &session.id)?;
            let number = insert_whole(file, session)?;
            file.execute(
                sql!(
                    "INSERT INTO upload (id, session, lines, bytes, digest, token, begun_unix_ms,
                         at_unix_ms) VALUES ($1, $2, $3, $4, $5, $6, $7, $7)"
                ),
                sql_params![
                    &session.id,
                    number,
                    lines.cast_signed(),
                    bytes.cast_signed(),
                    &digest.0.to_vec(),
                    sender.token,
                    sender.at_unix_ms,
                ],
            )?;
            comment_jobs::queue_comment(
                file,
                session.origin.as_ref(),
                Some(number),
                sender.at_unix_ms,
            )?;
            Ok(UploadStatus::Stored(number))
        })?;
        match outcome {
            // Another sender has stored the session since the check above.
            UploadStatus::Known(number) => self.compare_with_stored(number, digest),
            other => Ok(other),
        }
    }

    fn compare_with_stored(
        &self,
        number: i64,
        digest: SessionDigest,
    ) -> anyhow::Result<UploadStatus> {
        let stored = self.session_digest(number)?;
        Ok(if stored == digest {
            UploadStatus::Known(number)
        } else {
            UploadStatus::Differs { here: stored }
        })
    }

    /// Returns an incomplete upload by the id of its session.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn find_incomplete_upload(&self, id: &str) -> anyhow::Result<Option<IncompleteUpload>> {
        let sql = sql!(
            "SELECT id, lines, bytes, token, at_unix_ms FROM upload
             WHERE id = $1 AND session IS NULL"
        );
        self.query_first(sql, sql_params![id], read_incomplete_upload)
    }

    /// Returns the incomplete uploads, newest first.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn incomplete_uploads(&self) -> anyhow::Result<Vec<IncompleteUpload>> {
        let sql = sql!(
            "SELECT id, lines, bytes, token, at_unix_ms FROM upload WHERE session IS NULL
             ORDER BY at_unix_ms DESC, number DESC"
        );
        self.query_rows(sql, sql_params![], read_incomplete_upload)
    }

    /// Discards incomplete uploads whose last part arrived before this time, and returns their
    /// number.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn discard_uploads_before(&mut self, unix_ms: i64) -> anyhow::Result<usize> {
        self.transact(|file| {
            let sql = sql!("DELETE FROM upload WHERE session IS NULL AND at_unix_ms < $1");
            Ok(file.execute(sql, sql_params![unix_ms])?)
        })
    }
}

fn read_incomplete_upload(row: SqlRow<'_>) -> Result<IncompleteUpload, Error> {
    Ok(IncompleteUpload {
        id: row.get(0)?,
        lines: row.get::<i64>(1)?.cast_unsigned(),
        bytes: row.get::<i64>(2)?.cast_unsigned(),
        token: row.get(3)?,
        at_unix_ms: row.get(4)?,
    })
}

fn find_status(file: &Database, id: &str) -> Result<Option<UploadStatus>, Error> {
    if let Some(number) = find_number_by_id(file, id)? {
        return Ok(Some(UploadStatus::Known(number)));
    }
    let deleted = sql!("SELECT at_unix_ms FROM deleted_session WHERE id = $1");
    if file.query_first(deleted, sql_params![id], |row| row.get::<i64>(0))?.is_some() {
        return Ok(Some(UploadStatus::Deleted));
    }
    let so_far = sql!("SELECT lines FROM upload WHERE id = $1 AND session IS NULL");
    let lines = file.query_first(so_far, sql_params![id], |row| row.get::<i64>(0))?;
    Ok(lines.map(|lines| UploadStatus::Arriving(lines.cast_unsigned())))
}

fn sent_digest(file: &Database, number: i64) -> Result<Option<SessionDigest>, Error> {
    let sql = sql!("SELECT digest FROM upload WHERE session = $1");
    let bytes: Option<Vec<u8>> =
        file.query_first(sql, sql_params![number], |row| row.get(0))?.flatten();
    Ok(bytes.as_deref().and_then(SessionDigest::from_stored))
}

/// Returns the number of lines and the digest of the part that starts at this line.
fn find_part(file: &Database, id: &str, line: u64) -> Result<Option<(u64, SessionDigest)>, Error> {
    let sql = sql!(
        "SELECT upload_part.lines, upload_part.digest FROM upload_part
         JOIN upload ON upload.number = upload WHERE id = $1 AND line = $2"
    );
    let read = |row: SqlRow<'_>| {
        let bytes: Vec<u8> = row.get(1)?;
        Ok((row.get::<i64>(0)?.cast_unsigned(), bytes))
    };
    let found = file.query_first(sql, sql_params![id, line.cast_signed()], read)?;
    Ok(found.and_then(|(lines, bytes)| Some((lines, SessionDigest::from_stored(&bytes)?))))
}

/// Adds a part, and returns the number of lines that have arrived so far.
fn add_part(
    file: &Database,
    id: &str,
    first_line: u64,
    lines: &[u8],
    sender: &UploadSender<'_>,
) -> anyhow::Result<u64> {
    let count = count_lines(lines);
    let number: i64 = file
        .query_first(sql!("SELECT number FROM upload WHERE id = $1"), sql_params![id], |row| {
            row.get(0)
        })?
        .context("the upload has not begun")?;
    file.execute(
        sql!(
            "INSERT INTO upload_part (upload, line, lines, digest, text)
             VALUES ($1, $2, $3, $4, $5)"
        ),
        sql_params![
            number,
            first_line.cast_signed(),
            count.cast_signed(),
            &SessionDigest::hash_lines(lines).0.to_vec(),
            &lines.to_vec(),
        ],
    )?;
    file.execute(
        sql!(
            "UPDATE upload SET lines = lines + $1, bytes = bytes + $2, at_unix_ms = $3
             WHERE number = $4"
        ),
        sql_params![count.cast_signed(), lines.len() as i64, sender.at_unix_ms, number],
    )?;
    Ok(first_line + count)
}

fn delete_incomplete(file: &Database, id: &str) -> Result<(), Error> {
    let sql = sql!("DELETE FROM upload WHERE id = $1 AND session IS NULL");
    file.execute(sql, sql_params![id])?;
    Ok(())
}

/// Returns the number of lines in `text`, including an unterminated last line.
pub fn count_lines(text: &[u8]) -> u64 {
    let newlines = memchr::memchr_iter(b'\n', text).count() as u64;
    newlines + u64::from(text.last().is_some_and(|last| *last != b'\n'))
}
