//! Inserts, tags and deletes whole sessions. Also stores the spread between builds of the same
//! source, and calibrations of machines. A calibration identifies its machine by host name,
//! processor model and number of processors.

use crate::Store;
use crate::database::{Database, Error, SqlRow, sql, sql_params};
use crate::read::read_calibration;
use crate::session_writer::{SessionWriter, find_number_by_id, insert_calibration, insert_whole};
use anyhow::ensure;
use speedwell_machine::process::ProcessIdentity;
use speedwell_model::{Environment, NoiseCalibration, ProfileRecording, Session, validate_tag};

impl Store {
    /// Inserts a session that was measured elsewhere and returns its number in this store.
    ///
    /// If the store already has a session with the same id, returns the number of that session.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn insert_session(&mut self, session: &Session) -> anyhow::Result<i64> {
        self.transact(|file| match find_number_by_id(file, &session.id)? {
            Some(number) => Ok(number),
            None => insert_whole(file, session),
        })
    }

    /// Returns the number of the session with that id, if it exists.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn find_by_id(&self, id: &str) -> anyhow::Result<Option<i64>> {
        find_number_by_id(&self.database, id).map_err(|error| self.explain_error(error))
    }

    /// Adds a profile to a session, replacing an earlier one of the same case and variant.
    ///
    /// # Errors
    /// Fails if there is no such session, or on database errors.
    pub fn store_profile(
        &mut self,
        number: i64,
        recording: &ProfileRecording,
    ) -> anyhow::Result<()> {
        self.session_state(number)?;
        self.transact(|file| SessionWriter::open(file, number)?.upsert_profile(file, recording))
    }

    /// Adds a tag to the session. Several sessions may have the same tag; `@TAG` means the last of
    /// them.
    ///
    /// # Errors
    /// Fails if there is no such session, if the tag is empty, reserved (such as a number) or
    /// contains a blank, quote or separator, or on database errors.
    pub fn tag_session(&mut self, number: i64, name: &str) -> anyhow::Result<()> {
        validate_tag(name)?;
        self.session_state(number)?;
        self.execute(
            sql!(
                "INSERT INTO tag (session, seq, name)
                 SELECT CAST($1 AS BIGINT),
                        (SELECT coalesce(max(seq) + 1, 0) FROM tag WHERE session = $1),
                        CAST($2 AS TEXT)
                 WHERE NOT EXISTS (SELECT 1 FROM tag WHERE session = $1 AND name = $2)"
            ),
            sql_params![number, name],
        )
    }

    /// Deletes the session with all its measurements, and leaves no tombstone. The number of the
    /// session is not reused.
    ///
    /// The cases of the session stay in the store: they are small, other sessions share them, and a
    /// session that is being recorded relies on their numbers.
    ///
    /// # Errors
    /// Fails if there is no such session, or on database errors.
    pub fn delete_untracked(&mut self, number: i64) -> anyhow::Result<()> {
        self.transact(|file| delete_row(file, number))
    }
}

/// Deletes a session with all its rows.
pub(super) fn delete_row(file: &Database, number: i64) -> anyhow::Result<()> {
    let sql = sql!("DELETE FROM session WHERE number = $1");
    let deleted = file.count_changes(sql, sql_params![number])?;
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
    pub(super) fn recorder_has_ended(&self, number: i64) -> anyhow::Result<Option<bool>> {
        let recorder = self.recording_process(number)?;
        Ok(recorder.and_then(|process| process.has_ended()))
    }

    /// Returns the process that records or recorded a session; `None` if it was imported or
    /// recorded by an earlier version.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub fn recording_process(&self, number: i64) -> anyhow::Result<Option<ProcessIdentity>> {
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
    ) -> anyhow::Result<()> {
        self.transact(|file| Ok(insert_calibration(file, machine, calibration)?))
    }

    /// Returns the newest calibration of the machine; `None` if there is none, or if the host name
    /// of the machine is unknown.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn latest_calibration(
        &self,
        machine: &Environment,
    ) -> anyhow::Result<Option<NoiseCalibration>> {
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
    ) -> anyhow::Result<()> {
        let sql = sql!(
            "INSERT INTO layout_spread (session, case_id, metric, builds, sd)
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT (session, case_id, metric)
             DO UPDATE SET builds = excluded.builds, sd = excluded.sd"
        );
        self.execute(sql, sql_params![session, case, metric, builds as i64, sd])
    }

    /// Returns the number of the newest session with a stored spread between builds for this case
    /// and metric, and the standard deviation between those builds. Returns `None` if there is no
    /// such session.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn latest_layout_spread(
        &self,
        case: &str,
        metric: &str,
    ) -> anyhow::Result<Option<(i64, f64)>> {
        let sql = sql!(
            "SELECT session, sd FROM layout_spread WHERE case_id = $1 AND metric = $2
             ORDER BY session DESC LIMIT 1"
        );
        self.query_first(sql, sql_params![case, metric], |row| Ok((row.get(0)?, row.get(1)?)))
    }
}
