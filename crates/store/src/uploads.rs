//! Stores uploaded sessions.
//!
//! A client that gets no response retries, so storing is idempotent: existing data is neither
//! duplicated nor replaced. Start at [`Store::accept_session`], which returns only after the
//! session has been committed.

use super::database::{Database, Error, sql, sql_params};
use super::sessions::{find_number_by_id, insert_whole};
use super::{Store, comment_jobs};
use ring::digest::{self, SHA256};
use speedwell_formats::json_lines;
use speedwell_model::Session;
use std::fmt;
use std::io::{self, Read};

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
            if let Some(status) = find_status(file, &session.id)? {
                return Ok(status);
            }
            let number = insert_whole(file, session)?;
            let size = (lines.cast_signed(), bytes.cast_signed());
            insert_upload(file, (&session.id, number), digest, size, sender)?;
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
}

/// Stores who uploaded a session, and the number and the total size of its lines.
pub(super) fn insert_upload(
    file: &Database,
    (id, number): (&str, i64),
    digest: SessionDigest,
    (lines, bytes): (i64, i64),
    sender: &UploadSender<'_>,
) -> Result<(), Error> {
    let sql = sql!(
        "INSERT INTO upload (id, session, lines, bytes, digest, token, begun_unix_ms, at_unix_ms)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $7)"
    );
    let digest = digest.0.to_vec();
    let (token, at_unix_ms) = (sender.token, sender.at_unix_ms);
    file.execute(sql, sql_params![id, number, lines, bytes, &digest, token, at_unix_ms])?;
    Ok(())
}

fn find_status(file: &Database, id: &str) -> Result<Option<UploadStatus>, Error> {
    if let Some(number) = find_number_by_id(file, id)? {
        return Ok(Some(UploadStatus::Known(number)));
    }
    let deleted = sql!("SELECT at_unix_ms FROM deleted_session WHERE id = $1");
    let found = file.query_first(deleted, sql_params![id], |row| row.get::<i64>(0))?;
    Ok(found.map(|_| UploadStatus::Deleted))
}

fn sent_digest(file: &Database, number: i64) -> Result<Option<SessionDigest>, Error> {
    let sql = sql!("SELECT digest FROM upload WHERE session = $1");
    let bytes: Option<Vec<u8>> =
        file.query_first(sql, sql_params![number], |row| row.get(0))?.flatten();
    Ok(bytes.as_deref().and_then(SessionDigest::from_stored))
}
