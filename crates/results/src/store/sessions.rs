//! What can be done with a session as a whole: take it in, name it, list it, remove it; and what a session showed of its machine,
//! which is host name, processor model and number of processors together.

use crate::store::Store;
use crate::store::read::{from_json, state_of};
use crate::store::reference::check_tag;
use crate::store::session_writer::SessionWriter;
use anyhow::ensure;
use rusqlite::{OptionalExtension, Row, params};
use speedwell_model::{Calibration, Environment, Origin, Recording, Session, State, Variant};
use speedwell_process::Identity;

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
            let mut writer = SessionWriter::begin(file, session, session.state, None)?;
            for run in &session.runs {
                writer.run(file, run, true)?;
            }
            for failure in &session.failures {
                writer.failure(file, failure, true)?;
            }
            for recording in &session.profiles {
                writer.profile(file, recording)?;
            }
            Ok(writer.session())
        })
    }

    /// The number of the session with that identity, if it is here.
    ///
    /// # Errors
    /// The file fails.
    pub fn number_of_id(&self, id: &str) -> anyhow::Result<Option<i64>> {
        let sql = "SELECT number FROM session WHERE id = ?1";
        self.first_row(sql, [id], |row| row.get(0))
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

/// The sessions of a page, the oldest first. Runs are counted in `session_case`, never one by one.
const LIST: &str = r#"
SELECT number, session.id, started_unix_ms, state, command, variants,
       (SELECT json_group_array(name ORDER BY place) FROM tag WHERE session = number),
       (SELECT count(DISTINCT benchmark) FROM session_case
        JOIN benchmark_case AS known ON known.number = benchmark_case
        WHERE session = session.number),
       (SELECT count(DISTINCT id) FROM session_case
        JOIN benchmark_case AS known ON known.number = benchmark_case
        WHERE session = session.number),
       (SELECT coalesce(sum(runs), 0) FROM session_case WHERE session = session.number),
       (SELECT count(*) FROM failure WHERE session = number AND NOT skipped),
       (SELECT count(*) FROM failure WHERE session = number AND skipped),
       coalesce((SELECT max(ended_unix_ms) FROM session_case WHERE session = session.number),
                started_unix_ms) - started_unix_ms,
       (SELECT json_group_array(DISTINCT benchmark) FROM session_case
        JOIN benchmark_case AS known ON known.number = benchmark_case
        WHERE session = session.number AND session IN (SELECT session FROM load)),
       (SELECT detail FROM origin WHERE session = number)
FROM (SELECT number, id, started_unix_ms, state, command, variants FROM session
      WHERE (?3 IS NULL OR number IN (SELECT session FROM origin WHERE branch = ?3))
      AND (?4 IS NULL OR number IN (SELECT value FROM json_each(?4)))
      ORDER BY number DESC LIMIT ?1 OFFSET ?2) AS session
ORDER BY number
"#;

impl Store {
    /// All sessions, or those of a branch, the oldest first.
    ///
    /// # Errors
    /// The file fails or holds something that this program cannot read.
    pub fn list(&self, branch: Option<&str>) -> anyhow::Result<Vec<Overview>> {
        // For SQLite, a negative number means no limit.
        self.listed(branch, None, (-1, 0))
    }

    /// A page of them, the oldest first; page 0 holds the `size` newest ones.
    ///
    /// # Errors
    /// The file fails or holds something that this program cannot read.
    pub fn page(
        &self,
        branch: Option<&str>,
        size: u32,
        page: u32,
    ) -> anyhow::Result<Vec<Overview>> {
        let offset = i64::from(size) * i64::from(page);
        self.listed(branch, None, (size.into(), offset))
    }

    /// Those of these numbers, the oldest first.
    pub(super) fn numbered(&self, numbers: &[i64]) -> anyhow::Result<Vec<Overview>> {
        let numbers = serde_json::to_string(numbers)?;
        self.listed(None, Some(&numbers), (-1, 0))
    }

    /// How many there are.
    ///
    /// # Errors
    /// The file fails.
    pub fn count(&self, branch: Option<&str>) -> anyhow::Result<usize> {
        let sql = "SELECT count(*) FROM session
                   WHERE ?1 IS NULL OR number IN (SELECT session FROM origin WHERE branch = ?1)";
        let counted = self.first_row(sql, [branch], |row| row.get::<_, i64>(0))?;
        Ok(counted.unwrap_or(0).max(0) as usize)
    }

    fn listed(
        &self,
        branch: Option<&str>,
        numbers: Option<&str>,
        (limit, offset): (i64, i64),
    ) -> anyhow::Result<Vec<Overview>> {
        let mut statement = self
            .connection
            .prepare_cached(LIST)
            .map_err(|error| self.explain(error))?;
        let mut rows = statement
            .query(params![limit, offset, branch, numbers])
            .map_err(|error| self.explain(error))?;
        let mut all = Vec::new();
        while let Some(row) = rows.next().map_err(|error| self.explain(error))? {
            let mut session = overview(row)?;
            session.is_killed =
                session.state == State::Running && self.is_killed(session.number)?;
            all.push(session);
        }
        Ok(all)
    }

    /// Whether the process that records a session is known to have ended.
    fn is_killed(&self, number: i64) -> anyhow::Result<bool> {
        let recorder = self.recorder(number)?;
        Ok(recorder.is_some_and(|process| process.has_ended() == Some(true)))
    }

    /// The process that records a session, or did; `None` for imported ones and those of earlier versions.
    pub(super) fn recorder(&self, number: i64) -> anyhow::Result<Option<Identity>> {
        let sql =
            "SELECT machine, boot, numbering, pid, started_ticks FROM recorder WHERE session = ?1";
        let read = |row: &Row<'_>| {
            Ok(Identity {
                machine: row.get(0)?,
                boot: row.get(1)?,
                numbering: row.get(2)?,
                pid: row.get(3)?,
                started_ticks: row.get(4)?,
            })
        };
        self.first_row(sql, [number], read)
    }
}

fn overview(row: &Row<'_>) -> anyhow::Result<Overview> {
    let text = |at| row.get::<_, String>(at);
    let count = |at| row.get::<_, i64>(at).map(|count| count.max(0) as usize);
    let variants: Vec<Variant> = from_json(&text(5)?)?;
    let origin: Option<String> = row.get(14)?;
    Ok(Overview {
        origin: origin.as_deref().map(from_json).transpose()?,
        number: row.get(0)?,
        id: text(1)?,
        started_unix_ms: row.get(2)?,
        elapsed_ms: count(12)? as u64,
        state: state_of(&text(3)?)?,
        is_killed: false,
        command: from_json(&text(4)?)?,
        variants: variants.into_iter().map(|variant| variant.name).collect(),
        tags: from_json(&text(6)?)?,
        loads: from_json(&text(13)?)?,
        benchmarks: count(7)?,
        cases: count(8)?,
        runs: count(9)?,
        failures: count(10)?,
        skipped: count(11)?,
    })
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
        self.change(|file| {
            file.execute(
                "INSERT OR REPLACE INTO calibration (session, host, cpu, cpus, started_unix_ms,
                     comparisons, false_alarms, expected_low, expected_high)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                params![
                    found.session,
                    machine.host,
                    machine.cpu,
                    machine.cpus,
                    found.started_unix_ms,
                    found.comparisons,
                    found.false_alarms,
                    found.expected_low,
                    found.expected_high,
                ],
            )?;
            Ok(())
        })
    }

    /// The newest calibration of the machine; `None` if there is none, or the machine has no name.
    ///
    /// # Errors
    /// The file fails.
    pub fn calibration_of(&self, machine: &Environment) -> anyhow::Result<Option<Calibration>> {
        if machine.host.is_none() {
            return Ok(None);
        }
        let sql = "SELECT session, started_unix_ms, comparisons, false_alarms, expected_low, expected_high
                   FROM calibration WHERE host = ?1 AND cpu IS ?2 AND cpus IS ?3
                   ORDER BY session DESC LIMIT 1";
        self.first_row(
            sql,
            params![machine.host, machine.cpu, machine.cpus],
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
            let sql = "INSERT OR REPLACE INTO layout_spread (session, case_id, metric, builds, sd)
                       VALUES (?1, ?2, ?3, ?4, ?5)";
            file.execute(sql, params![session, case, metric, builds as i64, sd])?;
            Ok(())
        })
    }

    /// The number of the newest session that showed how much builds of this case differ, with their standard deviation;
    /// `None` if no session did.
    ///
    /// # Errors
    /// The file fails.
    pub fn layout_spread(&self, case: &str, metric: &str) -> anyhow::Result<Option<(i64, f64)>> {
        let sql = "SELECT session, sd FROM layout_spread WHERE case_id = ?1 AND metric = ?2
                   ORDER BY session DESC LIMIT 1";
        self.first_row(sql, params![case, metric], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
    }
}
