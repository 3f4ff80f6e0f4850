//! Inserts, tags, lists and deletes whole sessions. Also stores the spread between builds of the
//! same source, and calibrations of machines. A calibration identifies its machine by host name,
//! processor model and number of processors.

use crate::database::{Database, Error, SqlRow, sql, sql_params};
use crate::read::{parse_json, parse_state};
use crate::session_writer::SessionWriter;
use crate::{SessionFilter, Store};
use anyhow::ensure;
use speedwell_formats::json_lines::ParsedLine;
use speedwell_machine::process::ProcessIdentity;
use speedwell_model::stored::SessionOverview;
use speedwell_model::validate_tag;
use speedwell_model::{
    Environment, NoiseCalibration, ProfileRecording, Run, Session, SessionState, Variant,
};

/// Number of runs that are inserted at once. This batch is large enough to need few round trips to
/// a database server, and small enough to need much less memory than a whole session.
const RUN_BATCH_SIZE: usize = 256;

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
        self.transact(|file| {
            file.execute(
                sql!(
                    "INSERT INTO tag (session, seq, name)
                     SELECT CAST($1 AS BIGINT),
                            (SELECT coalesce(max(seq) + 1, 0) FROM tag WHERE session = $1),
                            CAST($2 AS TEXT)
                     WHERE NOT EXISTS (SELECT 1 FROM tag WHERE session = $1 AND name = $2)"
                ),
                sql_params![number, name],
            )?;
            Ok(())
        })
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
        self.transact(|file| {
            let deleted =
                file.execute(sql!("DELETE FROM session WHERE number = $1"), sql_params![number])?;
            ensure!(deleted == 1, "session @{number} does not exist");
            Ok(())
        })
    }
}

/// Returns the number of the session with that id, if it exists.
pub(super) fn find_number_by_id(file: &Database, id: &str) -> Result<Option<i64>, Error> {
    let sql = sql!("SELECT number FROM session WHERE id = $1");
    file.query_first(sql, sql_params![id], |row| row.get(0))
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

/// Inserts a new session with all its content; returns its number.
pub(super) fn insert_whole(file: &Database, session: &Session) -> anyhow::Result<i64> {
    let mut entering = SessionInserter::begin_insert(file, session)?;
    let runs: Vec<&Run> = session.runs.iter().collect();
    for runs in runs.chunks(RUN_BATCH_SIZE) {
        entering.writer.insert_runs(file, runs, true)?;
    }
    for failure in &session.failures {
        entering.writer.insert_failure(file, failure, true)?;
    }
    for recording in &session.profiles {
        entering.writer.upsert_profile(file, recording)?;
    }
    entering.finish_insert(file)
}

/// Inserts a session piece by piece, so that its runs need not all be in memory.
pub(super) struct SessionInserter {
    writer: SessionWriter,
    waiting: Vec<Run>,
}

impl SessionInserter {
    /// Inserts the header of a session: everything but runs, failures and profiles.
    pub fn begin_insert(file: &Database, header: &Session) -> anyhow::Result<SessionInserter> {
        let writer = SessionWriter::begin(file, header, header.state, None)?;
        if let Some(calibration) = header.calibration {
            let session_calibration = NoiseCalibration { session: writer.session(), ..calibration };
            insert_calibration(file, &header.environment, &session_calibration)?;
        }
        Ok(SessionInserter { writer, waiting: Vec::new() })
    }

    /// Inserts the content of one line of an exported session. Collects runs until there are enough
    /// for a batch.
    pub fn insert_item(&mut self, file: &Database, line: ParsedLine) -> anyhow::Result<()> {
        self.waiting.extend(line.run);
        if self.waiting.len() >= RUN_BATCH_SIZE {
            self.flush_runs(file)?;
        }
        if let Some(failure) = &line.failure {
            self.writer.insert_failure(file, failure, true)?;
        }
        if let Some(recording) = &line.profile {
            self.writer.upsert_profile(file, recording)?;
        }
        Ok(())
    }

    fn flush_runs(&mut self, file: &Database) -> anyhow::Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        let runs: Vec<&Run> = waiting.iter().collect();
        self.writer.insert_runs(file, &runs, true)
    }

    /// Inserts the runs that are not inserted yet, and returns the number of the session.
    pub fn finish_insert(mut self, file: &Database) -> anyhow::Result<i64> {
        if !self.waiting.is_empty() {
            self.flush_runs(file)?;
        }
        Ok(self.writer.session())
    }
}

/// Inserts a calibration; see [`Store::store_calibration`].
fn insert_calibration(
    file: &Database,
    machine: &Environment,
    calibration: &NoiseCalibration,
) -> Result<(), Error> {
    file.execute(
        sql!(
            "INSERT INTO calibration (session, host, cpu, cpus, started_unix_ms,
                 comparisons, false_alarms, expected_low, expected_high)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
             ON CONFLICT (session) DO UPDATE SET
                 host = excluded.host, cpu = excluded.cpu, cpus = excluded.cpus,
                 started_unix_ms = excluded.started_unix_ms,
                 comparisons = excluded.comparisons,
                 false_alarms = excluded.false_alarms,
                 expected_low = excluded.expected_low,
                 expected_high = excluded.expected_high"
        ),
        sql_params![
            calibration.session,
            &machine.host,
            &machine.cpu,
            machine.cpus,
            calibration.started_unix_ms,
            calibration.comparisons,
            calibration.false_alarms,
            calibration.expected_low,
            calibration.expected_high,
        ],
    )?;
    Ok(())
}

impl Store {
    /// Returns up to `max_count` sessions that match the filter, newest first.
    ///
    /// # Errors
    /// Fails on database errors, or if the database holds data that this version cannot read.
    pub fn select_sessions(
        &self,
        filter: &SessionFilter,
        max_count: usize,
    ) -> anyhow::Result<Vec<SessionOverview>> {
        self.overviews_newest_first(&self.selected_numbers(filter, max_count)?)
    }

    fn overviews_newest_first(&self, numbers: &[i64]) -> anyhow::Result<Vec<SessionOverview>> {
        let mut found = self.overviews(numbers)?;
        found.reverse();
        Ok(found)
    }

    /// Returns up to `max_count` sessions that are being measured or whose process was killed,
    /// newest first.
    ///
    /// # Errors
    /// Fails on database errors, or if the database holds data that this version cannot read.
    pub fn running_sessions(&self, max_count: usize) -> anyhow::Result<Vec<SessionOverview>> {
        let sql = sql!(
            "SELECT number FROM session WHERE state = 'running' ORDER BY number DESC LIMIT $1"
        );
        let max_count = i64::try_from(max_count).unwrap_or(i64::MAX);
        let numbers: Vec<i64> = self.query_rows(sql, sql_params![max_count], |row| row.get(0))?;
        self.overviews_newest_first(&numbers)
    }

    /// Returns all sessions that match the filter, oldest first.
    ///
    /// # Errors
    /// Fails on database errors, or if the database holds data that this version cannot read.
    pub fn list_sessions(&self, filter: &SessionFilter) -> anyhow::Result<Vec<SessionOverview>> {
        self.overviews(&self.selected_numbers(filter, usize::MAX)?)
    }

    /// Returns a page of the matching sessions, oldest first. Page 0 contains the `size` newest
    /// sessions.
    ///
    /// # Errors
    /// Fails on database errors, or if the database holds data that this version cannot read.
    pub fn session_page(
        &self,
        filter: &SessionFilter,
        size: u32,
        page: u32,
    ) -> anyhow::Result<Vec<SessionOverview>> {
        let [size, page] = [size, page].map(|count| count as usize);
        let offset = size.saturating_mul(page);
        let numbers = self.selected_numbers(filter, offset.saturating_add(size))?;
        self.overviews(numbers.get(offset..).unwrap_or_default())
    }

    /// Returns the number of matching sessions.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn count_sessions(&self, filter: &SessionFilter) -> anyhow::Result<usize> {
        Ok(self.selected_numbers(filter, usize::MAX)?.len())
    }

    /// Returns the overview of a session, if it exists.
    ///
    /// # Errors
    /// Fails on database errors, or if the database holds data that this version cannot read.
    pub fn find_overview(&self, number: i64) -> anyhow::Result<Option<SessionOverview>> {
        Ok(self.overviews(&[number])?.pop())
    }

    /// Returns the sessions with these numbers, in ascending order of number.
    pub(super) fn overviews(&self, numbers: &[i64]) -> anyhow::Result<Vec<SessionOverview>> {
        let numbers = serde_json::to_string(numbers)?;
        // The query sums the counts in `session_case` instead of counting runs, which would take
        // longer.
        let sql = sql!(
            "SELECT number, session.id, started_unix_ms, state, command, variants,
                    (SELECT count(DISTINCT benchmark) FROM session_case
                     JOIN benchmark_case AS known ON known.number = benchmark_case
                     WHERE session = session.number),
                    (SELECT count(DISTINCT id) FROM session_case
                     JOIN benchmark_case AS known ON known.number = benchmark_case
                     WHERE session = session.number),
                    (SELECT CAST(coalesce(sum(runs), 0) AS BIGINT) FROM session_case
                     WHERE session = session.number),
                    (SELECT count(*) FROM failure WHERE session = number AND skipped = 0),
                    (SELECT count(*) FROM failure WHERE session = number AND skipped <> 0),
                    coalesce((SELECT max(ended_unix_ms) FROM session_case
                              WHERE session = session.number), started_unix_ms) - started_unix_ms,
                    (SELECT detail FROM origin WHERE session = number),
                    (SELECT {{texts:name ORDER BY seq}} FROM tag WHERE session = number),
                    (SELECT {{texts:benchmark ORDER BY first}} FROM (
                         SELECT benchmark, min(known.number) AS first FROM session_case
                         JOIN benchmark_case AS known ON known.number = benchmark_case
                         WHERE session = session.number
                         AND EXISTS (SELECT 1 FROM load WHERE load.session = session.number)
                         GROUP BY benchmark) AS met)
             FROM session WHERE number IN {{numbers:1}} ORDER BY number"
        );
        let read_all = || -> anyhow::Result<Vec<SessionOverview>> {
            let mut statement = self.database.prepare(sql)?;
            let mut rows = statement.query(sql_params![&numbers])?;
            let mut overviews = Vec::new();
            while let Some(row) = rows.next()? {
                overviews.push(self.read_overview(row)?);
            }
            Ok(overviews)
        };
        read_all().map_err(|error| self.to_user_error(error))
    }

    /// Returns whether the recording process is known to have ended.
    fn has_dead_recorder(&self, number: i64) -> anyhow::Result<bool> {
        let recorder = self.recording_process(number)?;
        Ok(recorder.is_some_and(|process| process.has_ended() == Some(true)))
    }

    /// Returns whether the recording process is known to be still running on this machine.
    pub(super) fn has_live_recorder(&self, number: i64) -> anyhow::Result<bool> {
        let recorder = self.recording_process(number)?;
        Ok(recorder.is_some_and(|process| process.has_ended() == Some(false)))
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

    fn read_overview(&self, row: SqlRow<'_>) -> anyhow::Result<SessionOverview> {
        let count = |column| row.get::<i64>(column).map(|count| count.max(0) as usize);
        let number = row.get(0)?;
        let state = parse_state(row.text(3)?)?;
        let variants: Vec<Variant> = parse_json(row.text(5)?)?;
        Ok(SessionOverview {
            origin: row.text_or_null(12)?.map(parse_json).transpose()?,
            number,
            id: row.get(1)?,
            started_unix_ms: row.get(2)?,
            elapsed_ms: count(11)? as u64,
            state,
            is_killed: state == SessionState::Running && self.has_dead_recorder(number)?,
            command: parse_json(row.text(4)?)?,
            variants: variants.into_iter().map(|variant| variant.name).collect(),
            tags: parse_json(row.text(13)?)?,
            loads: parse_json(row.text(14)?)?,
            benchmarks: count(6)?,
            cases: count(7)?,
            runs: count(8)?,
            failures: count(9)?,
            skipped: count(10)?,
        })
    }
}

impl Store {
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
        self.query_first(sql, sql_params![&machine.host, &machine.cpu, machine.cpus], |row| {
            Ok(NoiseCalibration {
                session: row.get(0)?,
                started_unix_ms: row.get(1)?,
                comparisons: row.get(2)?,
                false_alarms: row.get(3)?,
                expected_low: row.get(4)?,
                expected_high: row.get(5)?,
            })
        })
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
        self.transact(|file| {
            let sql = sql!(
                "INSERT INTO layout_spread (session, case_id, metric, builds, sd)
                 VALUES ($1, $2, $3, $4, $5) ON CONFLICT (session, case_id, metric)
                 DO UPDATE SET builds = excluded.builds, sd = excluded.sd"
            );
            file.execute(sql, sql_params![session, case, metric, builds as i64, sd])?;
            Ok(())
        })
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
