//! What the store holds, one line per session.

use super::Store;
use super::read::{from_json, state_of};
use rusqlite::{OptionalExtension, Row};
use speedwell_model::{State, Variant};
use speedwell_process::Identity;

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
    /// Names of the variants in the order given.
    pub variants: Vec<String>,
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
                started_unix_ms) - started_unix_ms
FROM (SELECT number, id, started_unix_ms, state, command, variants FROM session
      ORDER BY number DESC LIMIT ?1 OFFSET ?2) AS session
ORDER BY number
"#;

impl Store {
    /// All sessions, the oldest first.
    ///
    /// # Errors
    /// The file fails or holds something that this program cannot read.
    pub fn list(&self) -> anyhow::Result<Vec<Overview>> {
        // For SQLite, a negative number means no limit.
        self.listed(-1, 0)
    }

    /// A page of sessions, the oldest of them first; page 0 holds the `size` newest ones.
    ///
    /// # Errors
    /// The file fails or holds something that this program cannot read.
    pub fn page(&self, size: u32, page: u32) -> anyhow::Result<Vec<Overview>> {
        self.listed(size.into(), i64::from(size) * i64::from(page))
    }

    /// How many sessions there are.
    ///
    /// # Errors
    /// The file fails.
    pub fn count(&self) -> anyhow::Result<usize> {
        let counted = self
            .connection
            .query_row("SELECT count(*) FROM session", [], |row| {
                row.get::<_, i64>(0)
            });
        Ok(counted.map_err(|error| self.explain(error))?.max(0) as usize)
    }

    fn listed(&self, limit: i64, offset: i64) -> anyhow::Result<Vec<Overview>> {
        let mut statement = self
            .connection
            .prepare_cached(LIST)
            .map_err(|error| self.explain(error))?;
        let mut rows = statement
            .query([limit, offset])
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
        let found = self.connection.query_row(sql, [number], read).optional();
        found.map_err(|error| self.explain(error))
    }
}

fn overview(row: &Row<'_>) -> anyhow::Result<Overview> {
    let text = |at| row.get::<_, String>(at);
    let count = |at| row.get::<_, i64>(at).map(|count| count.max(0) as usize);
    let variants: Vec<Variant> = from_json(&text(5)?)?;
    Ok(Overview {
        number: row.get(0)?,
        id: text(1)?,
        started_unix_ms: row.get(2)?,
        elapsed_ms: count(12)? as u64,
        state: state_of(&text(3)?)?,
        is_killed: false,
        command: from_json(&text(4)?)?,
        variants: variants.into_iter().map(|variant| variant.name).collect(),
        tags: from_json(&text(6)?)?,
        benchmarks: count(7)?,
        cases: count(8)?,
        runs: count(9)?,
        failures: count(10)?,
        skipped: count(11)?,
    })
}
