//! What is to be pushed from here: which sessions, where to, and what became of it.
//!
//! A row stays until its session was sent, whatever happens meanwhile: only an answer of the server makes it `sent`.
//! Several processes may send at the same time; each claims a row for a while, so that one that was killed holds up nobody
//! for long. How sessions are sent is decided elsewhere. Start at [`Store::owe`].

use super::Store;
use super::database::{Error, Row, given, sql};

/// What became of a session that is to be pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owed {
    /// It is to be sent.
    Waiting,
    /// The server will not have it, whenever it is asked.
    Refused,
    /// The server has it.
    Sent,
}

impl Owed {
    /// As it is written in the file.
    pub fn name(self) -> &'static str {
        match self {
            Owed::Waiting => "waiting",
            Owed::Refused => "refused",
            Owed::Sent => "sent",
        }
    }

    fn of(name: &str) -> Owed {
        let all = [Owed::Refused, Owed::Sent];
        let known = all.into_iter().find(|state| state.name() == name);
        known.unwrap_or(Owed::Waiting)
    }
}

/// A session in the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Its number here.
    pub session: i64,
    /// Its identity.
    pub id: String,
    /// How it ended, in the word of the file: one that is being measured, or can be resumed, is not sent by itself.
    pub ended: String,
    /// Where it is to be sent: the address of the project on the server.
    pub url: String,
    /// What became of it.
    pub state: Owed,
    /// How often it was tried.
    pub attempts: u32,
    /// Not tried again before, in milliseconds since the Unix epoch.
    pub next_unix_ms: i64,
    /// Why the last attempt failed.
    pub reason: Option<String>,
    /// When the server took it, in milliseconds since the Unix epoch.
    pub sent_unix_ms: Option<i64>,
}

/// How long a session is left to the process that sends it, in milliseconds.
const CLAIM_MS: i64 = 60_000;
/// How long a session may be held back at most, in milliseconds, whatever a server asks for. Beyond twice that, the clock was
/// another one.
pub const LONGEST_HOLD_MS: i64 = 3_600_000;

/// Which sessions are to be sent now.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Their numbers; none means all that are over.
    pub sessions: &'a [i64],
    /// The only place that they are sent to.
    pub url: Option<&'a str>,
    /// In milliseconds since the Unix epoch.
    pub now_unix_ms: i64,
}

impl Store {
    /// Notes that a session is to be pushed to a project of a server. One that was refused is tried again; one that was
    /// sent stays so.
    ///
    /// # Errors
    /// No such session, or the file fails.
    pub fn owe(&mut self, session: i64, url: &str, now_unix_ms: i64) -> anyhow::Result<()> {
        self.state(session)?;
        self.change(|file| {
            file.execute(
                sql!(
                    "INSERT INTO outbox (session, url, added_unix_ms) VALUES ($1, $2, $3)
                     ON CONFLICT (session, url) DO UPDATE SET
                         state = CASE outbox.state WHEN 'sent' THEN 'sent' ELSE 'waiting' END,
                         next_unix_ms = 0, claimed_until_unix_ms = 0"
                ),
                given![session, url, now_unix_ms],
            )?;
            Ok(())
        })
    }

    /// Everything in the outbox, the oldest session first.
    ///
    /// # Errors
    /// The file fails.
    pub fn outbox(&self) -> anyhow::Result<Vec<Item>> {
        let sql = sql!(
            "SELECT outbox.session, session.id, session.state, url, outbox.state, attempts,
                    next_unix_ms, reason, sent_unix_ms
             FROM outbox JOIN session ON session.number = outbox.session
             ORDER BY outbox.session, url COLLATE {{binary}}"
        );
        self.rows(sql, given![], item_of)
    }

    /// Lets everything that waits be tried at once, whatever was decided after earlier failures.
    ///
    /// # Errors
    /// The file fails.
    pub fn hurry_outbox(&mut self) -> anyhow::Result<()> {
        self.change(|file| {
            let sql = sql!("UPDATE outbox SET next_unix_ms = 0 WHERE state = 'waiting'");
            file.execute(sql, given![])?;
            Ok(())
        })
    }

    /// Lets nothing that waits for a place be tried before a time.
    ///
    /// # Errors
    /// The file fails.
    pub fn hold_outbox(&mut self, url: &str, until_unix_ms: i64) -> anyhow::Result<()> {
        self.change(|file| {
            let sql =
                sql!("UPDATE outbox SET next_unix_ms = $1 WHERE state = 'waiting' AND url = $2");
            file.execute(sql, given![until_unix_ms, url])?;
            Ok(())
        })
    }

    /// Claims the next of the sessions that wait, until the claim ends. One that can be resumed is claimed only where it is
    /// among `numbers`; of an empty list every session is.
    ///
    /// # Errors
    /// The file fails.
    pub fn claim(&mut self, wanted: &Wanted<'_>) -> anyhow::Result<Option<Item>> {
        let numbers = serde_json::to_string(wanted.sessions)?;
        self.change(|file| {
            // A time too far ahead was set before the clock was put back.
            let found: Option<(i64, String)> = file.first(
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
                given![
                    wanted.now_unix_ms,
                    wanted.now_unix_ms + 2 * LONGEST_HOLD_MS,
                    wanted.now_unix_ms + 2 * CLAIM_MS,
                    &numbers,
                    wanted.url
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
                given![wanted.now_unix_ms + CLAIM_MS, session, &url],
            )?;
            Ok(file.first(
                sql!(
                    "SELECT outbox.session, session.id, session.state, url, outbox.state, attempts,
                            next_unix_ms, reason, sent_unix_ms
                     FROM outbox JOIN session ON session.number = outbox.session
                     WHERE outbox.session = $1 AND url = $2"
                ),
                given![session, &url],
                item_of,
            )?)
        })
    }

    /// Keeps what became of an attempt, and ends the claim.
    ///
    /// # Errors
    /// The file fails.
    pub fn settle_owed(&mut self, item: &Item) -> anyhow::Result<()> {
        self.change(|file| {
            file.execute(
                sql!(
                    "UPDATE outbox SET state = $1, attempts = $2, next_unix_ms = $3, reason = $4,
                         sent_unix_ms = $5, claimed_until_unix_ms = 0
                     WHERE session = $6 AND url = $7"
                ),
                given![
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

fn item_of(row: Row<'_>) -> Result<Item, Error> {
    Ok(Item {
        session: row.get(0)?,
        id: row.get(1)?,
        ended: row.get(2)?,
        url: row.get(3)?,
        state: Owed::of(row.text(4)?),
        attempts: row.get(5)?,
        next_unix_ms: row.get(6)?,
        reason: row.get(7)?,
        sent_unix_ms: row.get(8)?,
    })
}
