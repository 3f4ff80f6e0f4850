//! Inserts, tags, deletes and restores whole sessions. Also stores the spread between builds of the
//! same source, and calibrations of machines. A calibration identifies its machine by host name,
//! processor model and number of processors.
//!
//! A tombstone of a deleted session remains, so that a later upload of the session is rejected. For
//! some days, the tombstone keeps the session as compressed JSON Lines, so that the deletion can be
//! undone.

use crate::Store;
use crate::database::{Database, Error, SqlRow, sql, sql_params};
use crate::read::read_calibration;
use crate::session_writer::{SessionWriter, find_number_by_id, insert_calibration, insert_whole};
use anyhow::{Context, Result, ensure};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use speedwell_formats::json_lines;
use speedwell_machine::process::ProcessIdentity;
use speedwell_model::stored::SessionOverview;
use speedwell_model::{
    Environment, NoiseCalibration, ProfileRecording, Session, SessionState, validate_tag,
};
use std::io::Read;

impl Store {
    /// Inserts a session that was measured elsewhere and returns its number in this store.
    ///
    /// If the store already has a session with the same id, returns the number of that session.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn insert_session(&mut self, session: &Session) -> Result<i64> {
        self.transact(|file| match find_number_by_id(file, &session.id)? {
            Some(number) => Ok(number),
            None => insert_whole(file, session),
        })
    }

    /// Returns the number of the session with that id, if it exists.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn find_by_id(&self, id: &str) -> Result<Option<i64>> {
        self.explain(find_number_by_id(&self.database, id))
    }

    /// Adds a profile to a session, replacing an earlier one of the same case and variant.
    ///
    /// # Errors
    /// Fails if there is no such session, or on database errors.
    pub fn store_profile(&mut self, number: i64, recording: &ProfileRecording) -> Result<()> {
        self.session_state(number)?;
        self.transact(|file| SessionWriter::open(file, number)?.upsert_profile(file, recording))
    }

    /// Adds a tag to the session. Several sessions may have the same tag; `@TAG` means the last of
    /// them.
    ///
    /// # Errors
    /// Fails if there is no such session, if the tag is empty, reserved (such as a number) or
    /// contains a blank, quote or separator, or on database errors.
    pub fn tag_session(&mut self, number: i64, name: &str) -> Result<()> {
        validate_tag(name)?;
        self.session_state(number)?;
        let insert = sql!(
            "INSERT INTO tag (session, seq, name)
             SELECT CAST($1 AS BIGINT),
                    (SELECT coalesce(max(seq) + 1, 0) FROM tag WHERE session = $1),
                    CAST($2 AS TEXT)
             WHERE NOT EXISTS (SELECT 1 FROM tag WHERE session = $1 AND name = $2)"
        );
        self.execute(insert, sql_params![number, name])
    }

    /// Deletes the session with all its measurements, and leaves no tombstone. The number of the
    /// session is not reused.
    ///
    /// The cases of the session stay in the store: they are small, other sessions share them, and a
    /// session that is being recorded relies on their numbers.
    ///
    /// # Errors
    /// Fails if there is no such session, or on database errors.
    pub fn delete_untracked(&mut self, number: i64) -> Result<()> {
        self.transact(|file| delete_row(file, number))
    }
}

/// Deletes a session with all its rows.
fn delete_row(file: &Database, number: i64) -> Result<()> {
    let delete = sql!("DELETE FROM session WHERE number = $1");
    let deleted = file.count_changes(delete, sql_params![number])?;
    ensure!(deleted == 1, "session @{number} does not exist");
    Ok(())
}

/// Reads a process from the first five columns: machine_id, boot_id, pid_namespace, pid and
/// started_ticks.
pub(super) fn read_process(row: SqlRow<'_>) -> Result<ProcessIdentity, Error> {
    Ok(ProcessIdentity {
        machine_id: row.get(0)?,
        boot_id: row.get(1)?,
        pid_namespace: row.get(2)?,
        pid: row.get(3)?,
        started_ticks: row.get(4)?,
    })
}

impl Store {
    /// Returns whether the recording process has ended; `None` if this is not known.
    pub(super) fn recorder_has_ended(&self, number: i64) -> Result<Option<bool>> {
        let recorder = self.recording_process(number)?;
        Ok(recorder.and_then(|process| process.has_ended()))
    }

    /// Returns the process that records or recorded a session; `None` if it was imported or
    /// recorded by an earlier version.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub fn recording_process(&self, number: i64) -> Result<Option<ProcessIdentity>> {
        let sql = sql!(
            "SELECT machine_id, boot_id, pid_namespace, pid, started_ticks
             FROM recorder WHERE session = $1"
        );
        self.query_first(sql, sql_params![number], read_process)
    }

    /// Stores the calibration that a session measured on a machine. Replaces an earlier calibration
    /// from the same session.
    ///
    /// # Errors
    /// Fails if there is no such session, or on database errors.
    pub fn store_calibration(
        &mut self,
        machine: &Environment,
        calibration: &NoiseCalibration,
    ) -> Result<()> {
        self.transact(|file| Ok(insert_calibration(file, machine, calibration)?))
    }

    /// Returns the newest calibration of the machine; `None` if there is none, or if the host name
    /// of the machine is unknown.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn latest_calibration(&self, machine: &Environment) -> Result<Option<NoiseCalibration>> {
        if machine.host.is_none() {
            return Ok(None);
        }
        let sql = sql!(
            "SELECT session, started_unix_ms, comparisons, false_alarms, expected_low, expected_high
             FROM calibration WHERE host = $1 AND cpu IS NOT DISTINCT FROM $2
             AND cpus IS NOT DISTINCT FROM $3 ORDER BY session DESC LIMIT 1"
        );
        let params = sql_params![&machine.host, &machine.cpu, machine.cpus];
        self.query_first(sql, params, |row| read_calibration(row, 0))
    }

    /// Stores how much builds of the same source differed in a session, for one case and metric.
    /// `builds` is the number of builds, and `sd` is the standard deviation between builds on a
    /// logarithmic scale.
    ///
    /// # Errors
    /// Fails if there is no such session, or on database errors.
    pub fn store_layout_spread(
        &mut self,
        session: i64,
        (case, metric): (&str, &str),
        (builds, sd): (usize, f64),
    ) -> Result<()> {
        let insert = sql!(
            "INSERT INTO layout_spread (session, case_id, metric, builds, sd)
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT (session, case_id, metric)
             DO UPDATE SET builds = excluded.builds, sd = excluded.sd"
        );
        self.execute(insert, sql_params![session, case, metric, builds, sd])
    }

    /// Returns the number of the newest session with a stored spread between builds for this case
    /// and metric, and the standard deviation between those builds. Returns `None` if there is no
    /// such session.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn latest_layout_spread(&self, case: &str, metric: &str) -> Result<Option<(i64, f64)>> {
        let sql = sql!(
            "SELECT session, sd FROM layout_spread WHERE case_id = $1 AND metric = $2
             ORDER BY session DESC LIMIT 1"
        );
        self.query_first(sql, sql_params![case, metric], |row| Ok((row.get(0)?, row.get(1)?)))
    }
}

impl Store {
    /// Deletes a session, but keeps a tombstone with its content.
    ///
    /// # Errors
    /// Fails if there is no such session, or on database errors.
    pub fn delete_session(
        &mut self,
        number: i64,
        actor: &str,
        reason: &str,
        at_unix_ms: i64,
    ) -> Result<()> {
        let session = self.load_session_without_runs(number)?;
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        self.write_lines(number, &mut encoder)?;
        let packed = encoder.finish()?;
        self.transact(|file| {
            delete_row(file, number)?;
            Ok(file.execute(
                sql!(
                    "INSERT INTO deleted_session (id, number, actor, reason, at_unix_ms, lines)
                     VALUES ($1, $2, $3, $4, $5, $6)
                     ON CONFLICT (id) DO UPDATE SET number = excluded.number,
                         actor = excluded.actor, reason = excluded.reason,
                         at_unix_ms = excluded.at_unix_ms, lines = excluded.lines"
                ),
                sql_params![&session.id, number, actor, reason, at_unix_ms, &packed],
            )?)
        })
    }

    /// Restores a deleted session and returns its new number.
    ///
    /// # Errors
    /// Fails if the session was not deleted, if its content was dropped, or on database errors.
    pub fn restore_deleted(&mut self, id: &str) -> Result<i64> {
        let sql = sql!("SELECT lines FROM deleted_session WHERE id = $1");
        let read = |row: SqlRow<'_>| row.get::<Option<Vec<u8>>>(0);
        let lines = self.query_first(sql, sql_params![id], read)?;
        let packed =
            lines.with_context(|| format!("no session '{id}' was deleted"))?.with_context(
                || format!("the content of the deleted session '{id}' is no longer stored"),
            )?;
        let mut text = String::new();
        GzDecoder::new(&packed[..]).read_to_string(&mut text)?;
        let session = json_lines::read(&text)?.pop().context("its lines contain no session")?;
        self.transact(|file| {
            file.execute(sql!("DELETE FROM deleted_session WHERE id = $1"), sql_params![id])?;
            insert_whole(file, &session)
        })
    }

    /// Drops the stored content of sessions that were deleted before `unix_ms`. The tombstones
    /// stay. Returns the number of sessions whose content was dropped.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn purge_deleted_before(&mut self, unix_ms: i64) -> Result<usize> {
        self.transact(|file| {
            let update = sql!(
                "UPDATE deleted_session SET lines = NULL
                     WHERE lines IS NOT NULL AND at_unix_ms < $1"
            );
            Ok(file.count_changes(update, sql_params![unix_ms])?)
        })
    }
}

/// Retention rules. A session is always kept if it is running or tagged, belongs to a main branch,
/// confirms a change, or has a pending or rejected upload.
#[derive(Debug, Clone, Copy)]
pub struct RetentionRules<'a> {
    /// A session that was interrupted or has no runs expires if it started before this time, in
    /// milliseconds since the Unix epoch. `None` disables this rule.
    pub failed_since: Option<i64>,
    /// A session of a branch that is not in `main` expires if it started before this time. `None`
    /// disables this rule.
    pub branches_since: Option<i64>,
    /// Branches whose sessions are always kept.
    pub main: &'a [String],
}

impl Store {
    /// Returns the sessions that may be deleted, oldest first, with the reason.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn expired_sessions(
        &self,
        keep: &RetentionRules<'_>,
    ) -> Result<Vec<(SessionOverview, &'static str)>> {
        let sql = sql!(
            "SELECT number FROM session
             WHERE state <> 'running' AND started_unix_ms < $1
             AND number NOT IN (SELECT session FROM tag)
             AND number NOT IN (SELECT confirmed_by FROM change WHERE confirmed_by IS NOT NULL)
             AND number NOT IN (SELECT session FROM outbox WHERE state <> 'sent')
             ORDER BY number"
        );
        let newest = keep.failed_since.max(keep.branches_since);
        let numbers: Vec<i64> =
            self.query_rows(sql, sql_params![newest.unwrap_or(0)], |row| row.get(0))?;
        let old = |since: Option<i64>, session: &SessionOverview| {
            since.is_some_and(|since| session.started_unix_ms < since)
        };
        let mut found = Vec::new();
        for session in self.overviews(&numbers)? {
            let branch = session.origin.as_ref().and_then(|origin| origin.branch.as_ref());
            if branch.is_some_and(|branch| keep.main.contains(branch)) {
                continue;
            }
            let has_failed = session.state == SessionState::Interrupted || session.runs == 0;
            if has_failed && old(keep.failed_since, &session) {
                found.push((session, "failed"));
            } else if branch.is_some() && old(keep.branches_since, &session) {
                found.push((session, "not on a main branch"));
            }
        }
        Ok(found)
    }
}
