//! What can be done with a session as a whole: take it in, name it, list it, remove it; and what a session showed of its machine,
//! which is host name, processor model and number of processors together.

use crate::formats::json_lines::Said;
use crate::store::Store;
use crate::store::database::{Database, Error, Row, given, sql};
use crate::store::read::{from_json, state_of};
use crate::store::reference::check_tag;
use crate::store::session_writer::SessionWriter;
use anyhow::ensure;
use speedwell_model::{Calibration, Environment, Origin, Recording, Run, Session, State, Variant};
use speedwell_process::Identity;

/// Runs that are handed to the database together: few round trips to a server, and little beside the session in memory.
const RUNS_AT_ONCE: usize = 256;

impl Store {
    /// Takes in a session that was measured elsewhere and returns its number here.
    ///
    /// Taking it in twice changes nothing: a session is recognised by its id.
    ///
    /// # Errors
    /// The file fails.
    pub fn insert(&mut self, session: &Session) -> anyhow::Result<i64> {
        self.change(|file| match number_of_id(file, &session.id)? {
            Some(number) => Ok(number),
            None => enter(file, session),
        })
    }

    /// The number of the session with that identity, if it is here.
    ///
    /// # Errors
    /// The file fails.
    pub fn number_of_id(&self, id: &str) -> anyhow::Result<Option<i64>> {
        number_of_id(&self.database, id).map_err(|error| self.explain(error))
    }

    /// Adds a profile to a session, in the place of an earlier one of the same case and variant.
    ///
    /// # Errors
    /// No such session, or the file fails.
    pub fn keep_profile(&mut self, number: i64, recording: &Recording) -> anyhow::Result<()> {
        self.state(number)?;
        self.change(|file| SessionWriter::open(file, number)?.profile(file, recording))
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

    /// Removes the session and everything it measured. Its number is not given again.
    ///
    /// Cases stay: they are small, other sessions share them, and a session that is being recorded
    /// at this moment relies on their numbers.
    ///
    /// # Errors
    /// No such session, or the file fails.
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

/// The number of the session with that identity, if it is here.
pub(super) fn number_of_id(file: &Database, id: &str) -> Result<Option<i64>, Error> {
    let sql = sql!("SELECT number FROM session WHERE id = $1");
    file.first(sql, given![id], |row| row.get(0))
}

/// Enters a session that is not here, with everything that it holds; returns its number.
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

/// A session that is entered bit by bit, so that its runs need not be in memory together.
pub(super) struct Entering {
    writer: SessionWriter,
    waiting: Vec<Run>,
}

impl Entering {
    /// Begins with what is known of a session beside its runs, failures and profiles.
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

    /// Enters what a line says, or keeps it until more have come.
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

    /// Enters the rest; gives the number of the session.
    pub fn end(mut self, file: &Database) -> anyhow::Result<i64> {
        if !self.waiting.is_empty() {
            self.enter_waiting(file)?;
        }
        Ok(self.writer.session())
    }
}

/// As [`Store::keep_calibration`].
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

/// A session without its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overview {
    /// What `@NUMBER` means.
    pub number: i64,
    /// Its identity in every copy.
    pub id: String,
    /// Start, in milliseconds since the Unix epoch.
    pub started_unix_ms: i64,
    /// From the start to the end of the last run.
    pub elapsed_ms: u64,
    /// How it ended.
    pub state: State,
    /// Whether the process that measured it ended without saying so.
    pub is_killed: bool,
    /// Names given by the user.
    pub tags: Vec<String>,
    /// The words typed.
    pub command: Vec<String>,
    /// The code that was measured, where that is known.
    pub origin: Option<Origin>,
    /// Names of the variants in the order given.
    pub variants: Vec<String>,
    /// The names of its loads, where it is one of loads.
    pub loads: Vec<String>,
    /// How many benchmarks have a run.
    pub benchmarks: usize,
    /// How many cases have a run.
    pub cases: usize,
    /// How many runs finished.
    pub runs: usize,
    /// How many steps failed.
    pub failures: usize,
    /// How many benchmarks said that they cannot run here.
    pub skipped: usize,
}

impl Store {
    /// Those of these numbers, the oldest first.
    pub(super) fn numbered(&self, numbers: &[i64]) -> anyhow::Result<Vec<Overview>> {
        let numbers = serde_json::to_string(numbers)?;
        // Runs are counted in `session_case`, never one by one.
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

    /// Whether the process that records a session is known to have ended.
    fn is_killed(&self, number: i64) -> anyhow::Result<bool> {
        let recorder = self.recorder(number)?;
        Ok(recorder.is_some_and(|process| process.has_ended() == Some(true)))
    }

    /// Whether the process that records a session is known to run on this machine.
    pub(super) fn is_recorded_here(&self, number: i64) -> anyhow::Result<bool> {
        let recorder = self.recorder(number)?;
        Ok(recorder.is_some_and(|process| process.has_ended() == Some(false)))
    }

    /// The process that records a session, or did; `None` for imported ones and those of earlier versions.
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
    /// Keeps what a session showed of the machine it was measured on. A second result for the same
    /// session takes the place of the first.
    ///
    /// # Errors
    /// No such session, or the file fails.
    pub fn keep_calibration(
        &mut self,
        machine: &Environment,
        found: &Calibration,
    ) -> anyhow::Result<()> {
        self.change(|file| Ok(enter_calibration(file, machine, found)?))
    }

    /// The newest calibration of the machine; `None` if there is none, or the machine has no name.
    ///
    /// # Errors
    /// The file fails.
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

    /// Keeps by how much builds of one source differed in a session: case, metric, builds, and the standard deviation
    /// between them, of logarithms.
    ///
    /// # Errors
    /// No such session, or the file fails.
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

    /// The number of the newest session that showed how much builds of this case differ, with their standard deviation;
    /// `None` if no session did.
    ///
    /// # Errors
    /// The file fails.
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
