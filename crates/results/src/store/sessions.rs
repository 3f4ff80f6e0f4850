//! Operations on whole sessions: insert, tag, list, delete; and calibrations of a machine, which is
//! identified by host name, processor model and number of processors.

use crate::formats::json_lines::Said;
use crate::store::Store;
use crate::store::database::{Database, Error, Row, given, sql};
use crate::store::read::{from_json, state_of};
use crate::store::reference::check_tag;
use crate::store::session_writer::SessionWriter;
use anyhow::ensure;
use speedwell_model::{Calibration, Environment, Origin, Recording, Run, Session, State, Variant};
use speedwell_process::Identity;

/// Runs per batch insert: few round trips to a server, and little memory compared with the session.
const RUNS_AT_ONCE: usize = 256;

impl Store {
    /// Inserts a session that was measured elsewhere and returns its number here.
    ///
    /// Idempotent: a session is recognized by its id.
    ///
    /// # Errors
    /// The database fails.
    pub fn insert(&mut self, session: &Session) -> anyhow::Result<i64> {
        self.change(|file| match number_of_id(file, &session.id)? {
            Some(number) => Ok(number),
            None => enter(file, session),
        })
    }

    /// Returns the number of the session with that id, if it exists.
    ///
    /// # Errors
    /// The database fails.
    pub fn number_of_id(&self, id: &str) -> anyhow::Result<Option<i64>> {
        number_of_id(&self.database, id).map_err(|error| self.explain(error))
    }

    /// Adds a profile to a session, replacing an earlier one of the same case and variant.
    ///
    /// # Errors
    /// No such session, or the database fails.
    pub fn keep_profile(&mut self, number: i64, recording: &Recording) -> anyhow::Result<()> {
        self.state(number)?;
        self.change(|file| SessionWriter::open(file, number)?.profile(file, recording))
    }

    /// Adds a tag to the session. Several sessions may carry a tag; `@TAG` means the last.
    ///
    /// # Errors
    /// No such session, a tag that could be mistaken for a number, or the database fails.
    pub fn tag(&mut self, number: i64, name: &str) -> anyhow::Result<()> {
        check_tag(name)?;
        self.state(number)?;
        self.change(|file| {
            file.execute(
                sql!(
                    "INSERT INTO tag (session, place, name)
                     SELECT CAST($1 AS BIGINT),
                            (SELECT coalesce(max(place) + 1, 0) FROM tag WHERE session = $1),
                            CAST($2 AS TEXT)
                     WHERE NOT EXISTS (SELECT 1 FROM tag WHERE session = $1 AND name = $2)"
                ),
                given![number, name],
            )?;
            Ok(())
        })
    }

    /// Deletes the session with all its measurements. Its number is not reused.
    ///
    /// Cases stay: they are small, other sessions share them, and a session that is being recorded
    /// relies on their numbers.
    ///
    /// # Errors
    /// No such session, or the database fails.
    pub fn delete(&mut self, number: i64) -> anyhow::Result<()> {
        self.change(|file| {
            let gone = file.execute(
                sql!("DELETE FROM session WHERE number = $1"),
                given![number],
            )?;
            ensure!(gone == 1, "there is no session @{number}");
            Ok(())
        })
    }
}

/// Returns the number of the session with that id, if it exists.
pub(super) fn number_of_id(file: &Database, id: &str) -> Result<Option<i64>, Error> {
    let sql = sql!("SELECT number FROM session WHERE id = $1");
    file.first(sql, given![id], |row| row.get(0))
}

/// Inserts a new session with all its content; returns its number.
pub(super) fn enter(file: &Database, session: &Session) -> anyhow::Result<i64> {
    let mut entering = Entering::begin(file, session)?;
    let runs: Vec<&Run> = session.runs.iter().collect();
    for runs in runs.chunks(RUNS_AT_ONCE) {
        entering.writer.runs(file, runs, true)?;
    }
    for failure in &session.failures {
        entering.writer.failure(file, failure, true)?;
    }
    for recording in &session.profiles {
        entering.writer.profile(file, recording)?;
    }
    entering.end(file)
}

/// Incremental insertion of a session, so that its runs need not all be in memory.
pub(super) struct Entering {
    writer: SessionWriter,
    waiting: Vec<Run>,
}

impl Entering {
    /// Inserts the header of a session: everything but runs, failures and profiles.
    pub fn begin(file: &Database, header: &Session) -> anyhow::Result<Entering> {
        let writer = SessionWriter::begin(file, header, header.state, None)?;
        if let Some(found) = header.calibration {
            let own = Calibration {
                session: writer.session(),
                ..found
            };
            enter_calibration(file, &header.environment, &own)?;
        }
        Ok(Entering {
            writer,
            waiting: Vec::new(),
        })
    }

    /// Inserts the content of a line. Runs are buffered into batches.
    pub fn take(&mut self, file: &Database, said: Said) -> anyhow::Result<()> {
        self.waiting.extend(said.run);
        if self.waiting.len() >= RUNS_AT_ONCE {
            self.enter_waiting(file)?;
        }
        if let Some(failure) = &said.failure {
            self.writer.failure(file, failure, true)?;
        }
        if let Some(recording) = &said.profile {
            self.writer.profile(file, recording)?;
        }
        Ok(())
    }

    fn enter_waiting(&mut self, file: &Database) -> anyhow::Result<()> {
        let runs = std::mem::take(&mut self.waiting);
        let runs: Vec<&Run> = runs.iter().collect();
        self.writer.runs(file, &runs, true)
    }

    /// Inserts the rest; returns the number of the session.
    pub fn end(mut self, file: &Database) -> anyhow::Result<i64> {
        if !self.waiting.is_empty() {
            self.enter_waiting(file)?;
        }
        Ok(self.writer.session())
    }
}

/// Inserts a calibration, as in [`Store::keep_calibration`].
fn enter_calibration(
    file: &Database,
    machine: &Environment,
    found: &Calibration,
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
        given![
            found.session,
            &machine.host,
            &machine.cpu,
            machine.cpus,
            found.started_unix_ms,
            found.comparisons,
            found.false_alarms,
            found.expected_low,
            found.expected_high,
        ],
    )?;
    Ok(())
}

/// Summary of a session, without its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overview {
    /// Number, as in `@NUMBER`.
    pub number: i64,
    /// Id, the same in every copy.
    pub id: String,
    /// Start, in milliseconds since the Unix epoch.
    pub started_unix_ms: i64,
    /// Time from the start to the end of the last run.
    pub elapsed_ms: u64,
    /// State of the session.
    pub state: State,
    /// Whether the measuring process died without ending the session.
    pub is_killed: bool,
    /// Tags given by the user.
    pub tags: Vec<String>,
    /// The command line.
    pub command: Vec<String>,
    /// The measured code, if known.
    pub origin: Option<Origin>,
    /// Names of the variants in the given order.
    pub variants: Vec<String>,
    /// Names of the loads, if it is a load session.
    pub loads: Vec<String>,
    /// Number of benchmarks with a run.
    pub benchmarks: usize,
    /// Number of cases with a run.
    pub cases: usize,
    /// Number of finished runs.
    pub runs: usize,
    /// Number of failed steps.
    pub failures: usize,
    /// Number of benchmarks that reported that they cannot run here.
    pub skipped: usize,
}

impl Store {
    /// Returns the sessions with these numbers, oldest first.
    pub(super) fn numbered(&self, numbers: &[i64]) -> anyhow::Result<Vec<Overview>> {
        let numbers = serde_json::to_string(numbers)?;
        // Sum the counts in `session_case` instead of counting runs.
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
                    (SELECT {{texts:name ORDER BY place}} FROM tag WHERE session = number),
                    (SELECT {{texts:benchmark ORDER BY first}} FROM (
                         SELECT benchmark, min(known.number) AS first FROM session_case
                         JOIN benchmark_case AS known ON known.number = benchmark_case
                         WHERE session = session.number
                         AND EXISTS (SELECT 1 FROM load WHERE load.session = session.number)
                         GROUP BY benchmark) AS met)
             FROM session WHERE number IN {{numbers:1}} ORDER BY number"
        );
        let listed = || -> anyhow::Result<Vec<Overview>> {
            let mut statement = self.database.prepare(sql)?;
            let mut rows = statement.query(given![&numbers])?;
            let mut all = Vec::new();
            while let Some(row) = rows.next()? {
                all.push(self.overview_of(row)?);
            }
            Ok(all)
        };
        listed().map_err(|error| self.in_words(error))
    }

    /// Returns whether the recording process is known to have ended.
    fn is_killed(&self, number: i64) -> anyhow::Result<bool> {
        let recorder = self.recorder(number)?;
        Ok(recorder.is_some_and(|process| process.has_ended() == Some(true)))
    }

    /// Returns whether the recording process is known to run on this machine.
    pub(super) fn is_recorded_here(&self, number: i64) -> anyhow::Result<bool> {
        let recorder = self.recorder(number)?;
        Ok(recorder.is_some_and(|process| process.has_ended() == Some(false)))
    }

    /// Returns the process that records or recorded a session; `None` for imported sessions and
    /// those of earlier versions.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn recorder(&self, number: i64) -> anyhow::Result<Option<Identity>> {
        let sql = sql!(
            "SELECT machine, boot, numbering, pid, started_ticks FROM recorder WHERE session = $1"
        );
        let read = |row: Row<'_>| {
            Ok(Identity {
                machine: row.get(0)?,
                boot: row.get(1)?,
                numbering: row.get(2)?,
                pid: row.get(3)?,
                started_ticks: row.get(4)?,
            })
        };
        self.first_row(sql, given![number], read)
    }

    fn overview_of(&self, row: Row<'_>) -> anyhow::Result<Overview> {
        let count = |at| row.get::<i64>(at).map(|count| count.max(0) as usize);
        let number = row.get(0)?;
        let state = state_of(row.text(3)?)?;
        let variants: Vec<Variant> = from_json(row.text(5)?)?;
        Ok(Overview {
            origin: row.text_or_null(12)?.map(from_json).transpose()?,
            number,
            id: row.get(1)?,
            started_unix_ms: row.get(2)?,
            elapsed_ms: count(11)? as u64,
            state,
            is_killed: state == State::Running && self.is_killed(number)?,
            command: from_json(row.text(4)?)?,
            variants: variants.into_iter().map(|variant| variant.name).collect(),
            tags: from_json(row.text(13)?)?,
            loads: from_json(row.text(14)?)?,
            benchmarks: count(6)?,
            cases: count(7)?,
            runs: count(8)?,
            failures: count(9)?,
            skipped: count(10)?,
        })
    }
}

impl Store {
    /// Stores a session's calibration of its machine, replacing an earlier result of the session.
    ///
    /// # Errors
    /// No such session, or the database fails.
    pub fn keep_calibration(
        &mut self,
        machine: &Environment,
        found: &Calibration,
    ) -> anyhow::Result<()> {
        self.change(|file| Ok(enter_calibration(file, machine, found)?))
    }

    /// Returns the newest calibration of the machine; `None` if there is none or the machine has no
    /// name.
    ///
    /// # Errors
    /// The database fails.
    pub fn calibration_of(&self, machine: &Environment) -> anyhow::Result<Option<Calibration>> {
        if machine.host.is_none() {
            return Ok(None);
        }
        let sql = sql!(
            "SELECT session, started_unix_ms, comparisons, false_alarms, expected_low, expected_high
             FROM calibration WHERE host = $1 AND cpu IS NOT DISTINCT FROM $2
             AND cpus IS NOT DISTINCT FROM $3 ORDER BY session DESC LIMIT 1"
        );
        self.first_row(
            sql,
            given![&machine.host, &machine.cpu, machine.cpus],
            |row| {
                Ok(Calibration {
                    session: row.get(0)?,
                    started_unix_ms: row.get(1)?,
                    comparisons: row.get(2)?,
                    false_alarms: row.get(3)?,
                    expected_low: row.get(4)?,
                    expected_high: row.get(5)?,
                })
            },
        )
    }

    /// Stores the spread between builds of one source in a session: case, metric, number of builds,
    /// and the standard deviation of logarithms between them.
    ///
    /// # Errors
    /// No such session, or the database fails.
    pub fn keep_layout_spread(
        &mut self,
        session: i64,
        (case, metric): (&str, &str),
        (builds, sd): (usize, f64),
    ) -> anyhow::Result<()> {
        self.change(|file| {
            let sql = sql!(
                "INSERT INTO layout_spread (session, case_id, metric, builds, sd)
                 VALUES ($1, $2, $3, $4, $5) ON CONFLICT (session, case_id, metric)
                 DO UPDATE SET builds = excluded.builds, sd = excluded.sd"
            );
            file.execute(sql, given![session, case, metric, builds as i64, sd])?;
            Ok(())
        })
    }

    /// Returns the newest session that measured the spread between builds of this case, with the
    /// standard deviation; `None` if no session did.
    ///
    /// # Errors
    /// The database fails.
    pub fn layout_spread(&self, case: &str, metric: &str) -> anyhow::Result<Option<(i64, f64)>> {
        let sql = sql!(
            "SELECT session, sd FROM layout_spread WHERE case_id = $1 AND metric = $2
             ORDER BY session DESC LIMIT 1"
        );
        self.first_row(sql, given![case, metric], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
    }
}
