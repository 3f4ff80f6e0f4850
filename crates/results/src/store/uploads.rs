//! Incoming uploads: parts of a session until all have arrived, then the session as a whole.
//!
//! A client that gets no response retries, so every operation is idempotent: existing data is
//! neither duplicated nor replaced. Each function is one transaction and returns after the commit.
//! The receiver decides what a part may contain. Start at [`Store::begin_upload`]; small sessions
//! skip the parts and start at [`Store::take_in`].

use super::database::{Database, Error, Row, given, sql};
use super::sessions::{enter, number_of_id};
use super::{Store, comment_jobs};
use crate::formats::json_lines;
use anyhow::Context;
use ring::digest::{self, SHA256};
use speedwell_model::Session;
use std::fmt;

/// SHA-256 of all lines of a session, including line ends, as they were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Hashes the lines.
    pub fn of(lines: &[u8]) -> Digest {
        Digest::of_parts([lines])
    }

    /// Hashes lines given in several parts.
    pub fn of_parts<P: AsRef<[u8]>>(parts: impl IntoIterator<Item = P>) -> Digest {
        let mut context = digest::Context::new(&SHA256);
        for part in parts {
            context.update(part.as_ref());
        }
        let mut bytes = [0; 32];
        bytes.copy_from_slice(context.finish().as_ref());
        Digest(bytes)
    }

    /// Parses 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Digest> {
        let mut bytes = [0; 32];
        let is_hex = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        is_hex.then_some(Digest(bytes))
    }

    /// Returns the raw bytes.
    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn stored(bytes: &[u8]) -> Option<Digest> {
        bytes.try_into().ok().map(Digest)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

/// Sender of an upload, and the time.
#[derive(Debug, Clone, Copy)]
pub struct Sender<'a> {
    /// Id of the token.
    pub token: Option<&'a str>,
    /// Current time in milliseconds since the Unix epoch.
    pub at_unix_ms: i64,
}

/// State of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrival {
    /// Incomplete; this number of lines has arrived.
    Arriving(u64),
    /// Already present, with this number.
    Known(i64),
    /// Stored now, with this number.
    Stored(i64),
    /// Conflicts with a different session of the same id.
    Differs {
        /// Digest of the existing session.
        here: Digest,
    },
    /// Rejected because the session was deleted.
    Deleted,
}

/// An incomplete upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arriving {
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
    /// The database fails.
    pub fn arrival(&self, id: &str) -> anyhow::Result<Option<Arrival>> {
        let found = arrival(&self.database, id);
        found.map_err(|error| self.explain(error))
    }

    /// Returns the digest of a stored session: of the lines that were uploaded, or of its export.
    ///
    /// # Errors
    /// No such session, or the database fails.
    pub fn digest(&self, number: i64) -> anyhow::Result<Digest> {
        let sent = sent_digest(&self.database, number).map_err(|error| self.explain(error))?;
        match sent {
            Some(digest) => Ok(digest),
            None => {
                let mut lines = Vec::new();
                json_lines::write(&self.session(number)?, &mut lines)?;
                Ok(Digest::of(&lines))
            }
        }
    }

    /// Starts an upload with the header of a session. An upload that was started with the same
    /// header continues; with another header it starts over.
    ///
    /// # Errors
    /// The database fails.
    pub fn begin_upload(
        &mut self,
        id: &str,
        header: &[u8],
        sender: &Sender<'_>,
    ) -> anyhow::Result<Arrival> {
        self.change(|file| {
            match arrival(file, id)? {
                Some(Arrival::Arriving(lines)) => {
                    let first = part(file, id, 0)?;
                    if first.is_some_and(|(_, digest)| digest == Digest::of(header)) {
                        return Ok(Arrival::Arriving(lines));
                    }
                    forget(file, id)?;
                }
                Some(other) => return Ok(other),
                None => {}
            }
            file.execute(
                sql!(
                    "INSERT INTO upload (id, lines, bytes, token, begun_unix_ms, at_unix_ms)
                     VALUES ($1, 0, 0, $2, $3, $3)"
                ),
                given![id, sender.token, sender.at_unix_ms],
            )?;
            add(file, id, 0, header, sender)?;
            Ok(Arrival::Arriving(1))
        })
    }

    /// Adds lines from index `at` on, where 0 is the header. Lines at any other index than the next
    /// are ignored; returns the state, and false if ignored lines are not a known part.
    ///
    /// # Errors
    /// The upload was not started, or the database fails.
    pub fn add_lines(
        &mut self,
        id: &str,
        at: u64,
        lines: &[u8],
        sender: &Sender<'_>,
    ) -> anyhow::Result<(Arrival, bool)> {
        self.change(|file| {
            let so_far = match arrival(file, id)? {
                Some(Arrival::Arriving(lines)) => lines,
                Some(other) => return Ok((other, true)),
                None => anyhow::bail!("the session '{id}' was not begun"),
            };
            if at == so_far {
                let lines = add(file, id, at, lines, sender)?;
                return Ok((Arrival::Arriving(lines), true));
            }
            let known = part(file, id, at)?;
            let is_known = known.is_some_and(|(_, digest)| digest == Digest::of(lines));
            Ok((Arrival::Arriving(so_far), is_known))
        })
    }

    /// Returns all received lines of an incomplete upload.
    ///
    /// # Errors
    /// The database fails.
    pub fn lines_so_far(&self, id: &str) -> anyhow::Result<Vec<u8>> {
        let sql = sql!(
            "SELECT text FROM upload_part JOIN upload ON upload.number = upload
             WHERE id = $1 ORDER BY line"
        );
        let parts: Vec<Vec<u8>> = self.rows(sql, given![id], |row| row.get(0))?;
        Ok(parts.concat())
    }

    /// Discards an incomplete upload.
    ///
    /// # Errors
    /// The database fails.
    pub fn drop_upload(&mut self, id: &str) -> anyhow::Result<()> {
        self.change(|file| Ok(forget(file, id)?))
    }

    /// Inserts a session whose lines have all arrived and were parsed, given their number and their
    /// size in bytes.
    ///
    /// # Errors
    /// The database fails.
    pub fn take_in(
        &mut self,
        session: &Session,
        digest: Digest,
        (lines, bytes): (u64, u64),
        sender: &Sender<'_>,
    ) -> anyhow::Result<Arrival> {
        if let Some(number) = self.number_of_id(&session.id)? {
            // Complete sessions never change, so reading before the transaction is safe.
            return self.compared(number, digest);
        }
        let taken = self.change(|file| {
            match arrival(file, &session.id)? {
                Some(Arrival::Deleted) => return Ok(Arrival::Deleted),
                Some(Arrival::Known(number)) => return Ok(Arrival::Known(number)),
                _ => {}
            }
            forget(file, &session.id)?;
            let number = enter(file, session)?;
            file.execute(
                sql!(
                    "INSERT INTO upload (id, session, lines, bytes, digest, token, begun_unix_ms,
                         at_unix_ms) VALUES ($1, $2, $3, $4, $5, $6, $7, $7)"
                ),
                given![
                    &session.id,
                    number,
                    lines.cast_signed(),
                    bytes.cast_signed(),
                    &digest.0.to_vec(),
                    sender.token,
                    sender.at_unix_ms,
                ],
            )?;
            comment_jobs::owe(
                file,
                session.origin.as_ref(),
                Some(number),
                sender.at_unix_ms,
            )?;
            Ok(Arrival::Stored(number))
        })?;
        match taken {
            // Another sender was faster.
            Arrival::Known(number) => self.compared(number, digest),
            other => Ok(other),
        }
    }

    fn compared(&self, number: i64, digest: Digest) -> anyhow::Result<Arrival> {
        let here = self.digest(number)?;
        Ok(if here == digest {
            Arrival::Known(number)
        } else {
            Arrival::Differs { here }
        })
    }

    /// Returns an incomplete upload by the id of its session.
    ///
    /// # Errors
    /// The database fails.
    pub fn arriving_one(&self, id: &str) -> anyhow::Result<Option<Arriving>> {
        let sql = sql!(
            "SELECT id, lines, bytes, token, at_unix_ms FROM upload
             WHERE id = $1 AND session IS NULL"
        );
        self.first_row(sql, given![id], arriving_of)
    }

    /// Returns the incomplete uploads, newest first.
    ///
    /// # Errors
    /// The database fails.
    pub fn arriving(&self) -> anyhow::Result<Vec<Arriving>> {
        let sql = sql!(
            "SELECT id, lines, bytes, token, at_unix_ms FROM upload WHERE session IS NULL
             ORDER BY at_unix_ms DESC, number DESC"
        );
        self.rows(sql, given![], arriving_of)
    }

    /// Discards incomplete uploads without activity since this time; returns their number.
    ///
    /// # Errors
    /// The database fails.
    pub fn drop_uploads_before(&mut self, unix_ms: i64) -> anyhow::Result<usize> {
        self.change(|file| {
            let sql = sql!("DELETE FROM upload WHERE session IS NULL AND at_unix_ms < $1");
            Ok(file.execute(sql, given![unix_ms])?)
        })
    }
}

fn arriving_of(row: Row<'_>) -> Result<Arriving, Error> {
    Ok(Arriving {
        id: row.get(0)?,
        lines: row.get::<i64>(1)?.cast_unsigned(),
        bytes: row.get::<i64>(2)?.cast_unsigned(),
        token: row.get(3)?,
        at_unix_ms: row.get(4)?,
    })
}

fn arrival(file: &Database, id: &str) -> Result<Option<Arrival>, Error> {
    if let Some(number) = number_of_id(file, id)? {
        return Ok(Some(Arrival::Known(number)));
    }
    let deleted = sql!("SELECT at_unix_ms FROM deleted WHERE id = $1");
    if file
        .first(deleted, given![id], |row| row.get::<i64>(0))?
        .is_some()
    {
        return Ok(Some(Arrival::Deleted));
    }
    let so_far = sql!("SELECT lines FROM upload WHERE id = $1 AND session IS NULL");
    let lines = file.first(so_far, given![id], |row| row.get::<i64>(0))?;
    Ok(lines.map(|lines| Arrival::Arriving(lines.cast_unsigned())))
}

fn sent_digest(file: &Database, number: i64) -> Result<Option<Digest>, Error> {
    let sql = sql!("SELECT digest FROM upload WHERE session = $1");
    let bytes: Option<Vec<u8>> = file.first(sql, given![number], |row| row.get(0))?.flatten();
    Ok(bytes.as_deref().and_then(Digest::stored))
}

/// Returns the number of lines and the digest of the part that starts at a line.
fn part(file: &Database, id: &str, line: u64) -> Result<Option<(u64, Digest)>, Error> {
    let sql = sql!(
        "SELECT upload_part.lines, upload_part.digest FROM upload_part
         JOIN upload ON upload.number = upload WHERE id = $1 AND line = $2"
    );
    let read = |row: Row<'_>| {
        let bytes: Vec<u8> = row.get(1)?;
        Ok((row.get::<i64>(0)?.cast_unsigned(), bytes))
    };
    let found = file.first(sql, given![id, line.cast_signed()], read)?;
    Ok(found.and_then(|(lines, bytes)| Some((lines, Digest::stored(&bytes)?))))
}

/// Adds a part; returns the number of lines received so far.
fn add(
    file: &Database,
    id: &str,
    at: u64,
    lines: &[u8],
    sender: &Sender<'_>,
) -> anyhow::Result<u64> {
    let count = line_count(lines);
    let number: i64 = file
        .first(
            sql!("SELECT number FROM upload WHERE id = $1"),
            given![id],
            |row| row.get(0),
        )?
        .context("the session was not begun")?;
    file.execute(
        sql!(
            "INSERT INTO upload_part (upload, line, lines, digest, text)
             VALUES ($1, $2, $3, $4, $5)"
        ),
        given![
            number,
            at.cast_signed(),
            count.cast_signed(),
            &Digest::of(lines).0.to_vec(),
            &lines.to_vec(),
        ],
    )?;
    file.execute(
        sql!(
            "UPDATE upload SET lines = lines + $1, bytes = bytes + $2, at_unix_ms = $3
             WHERE number = $4"
        ),
        given![
            count.cast_signed(),
            lines.len() as i64,
            sender.at_unix_ms,
            number
        ],
    )?;
    Ok(at + count)
}

fn forget(file: &Database, id: &str) -> Result<(), Error> {
    let sql = sql!("DELETE FROM upload WHERE id = $1 AND session IS NULL");
    file.execute(sql, given![id])?;
    Ok(())
}

/// Returns the number of lines of a text, including an unterminated last line.
pub fn line_count(text: &[u8]) -> u64 {
    let ends = memchr::memchr_iter(b'\n', text).count() as u64;
    ends + u64::from(text.last().is_some_and(|last| *last != b'\n'))
}
