//! What can be done with a session as a whole: take it in, name it, remove it.

use super::Store;
use super::ledger::Ledger;
use super::reference::check_tag;
use anyhow::ensure;
use rusqlite::{OptionalExtension, params};
use speedwell_model::{Recording, Session};

impl Store {
    /// Takes in a session that was measured elsewhere and returns its number here.
    ///
    /// Taking it in twice changes nothing: a session is recognised by its id.
    ///
    /// # Errors
    /// The file fails.
    pub fn insert(&mut self, session: &Session) -> anyhow::Result<i64> {
        self.change(|file| {
            let known = file
                .prepare_cached("SELECT number FROM session WHERE id = ?1")?
                .query_row([&session.id], |row| row.get(0))
                .optional()?;
            if let Some(number) = known {
                return Ok(number);
            }
            let mut ledger = Ledger::begin(file, session, session.state, None)?;
            for run in &session.runs {
                ledger.run(file, run, true)?;
            }
            for failure in &session.failures {
                ledger.failure(file, failure, true)?;
            }
            for recording in &session.profiles {
                ledger.profile(file, recording)?;
            }
            Ok(ledger.session())
        })
    }

    /// Adds a profile to a session, in the place of an earlier one of the same case and variant.
    ///
    /// # Errors
    /// No such session, or the file fails.
    pub fn keep_profile(&mut self, number: i64, recording: &Recording) -> anyhow::Result<()> {
        self.state(number)?;
        self.change(|file| Ledger::open(file, number)?.profile(file, recording))
    }

    /// Gives the session a name more. A tag may be on several sessions; `@TAG` means the last.
    ///
    /// # Errors
    /// No such session, a name that could not be told from a number, or the file fails.
    pub fn tag(&mut self, number: i64, name: &str) -> anyhow::Result<()> {
        check_tag(name)?;
        self.state(number)?;
        self.change(|file| {
            file.execute(
                "INSERT INTO tag (session, place, name)
                 SELECT ?1, (SELECT coalesce(max(place) + 1, 0) FROM tag WHERE session = ?1), ?2
                 WHERE NOT EXISTS (SELECT 1 FROM tag WHERE session = ?1 AND name = ?2)",
                params![number, name],
            )?;
            Ok(())
        })
    }

    /// Removes the session and everything it measured. Its number is not given again.
    ///
    /// Cases stay: they are small, other sessions share them, and a session that is being recorded
    /// at this moment relies on their numbers.
    ///
    /// # Errors
    /// No such session, or the file fails.
    pub fn delete(&mut self, number: i64) -> anyhow::Result<()> {
        self.change(|file| {
            let gone = file.execute("DELETE FROM session WHERE number = ?1", [number])?;
            ensure!(gone == 1, "there is no session @{number}");
            Ok(())
        })
    }
}
