//! What the store holds, one line per session.

use super::Store;
use super::read::{from_json, state_of};
use crate::model::{State, Variant};
use rusqlite::Row;

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

/// One pass over the narrow `run` table: samples are never touched.
const LIST: &str = r#"
SELECT number, session.id, started_unix_ms, state, command, variants,
       (SELECT json_group_array(name ORDER BY place) FROM tag WHERE session = number),
       coalesce(benchmarks, 0), coalesce(cases, 0), coalesce(runs, 0),
       (SELECT count(*) FROM failure WHERE session = number AND NOT skipped),
       (SELECT count(*) FROM failure WHERE session = number AND skipped),
       coalesce(ended_unix_ms, started_unix_ms) - started_unix_ms
FROM session LEFT JOIN (
    SELECT session, count(DISTINCT benchmark) AS benchmarks, count(DISTINCT id) AS cases,
           sum(runs) AS runs, max(ended_unix_ms) AS ended_unix_ms
    FROM (SELECT session, benchmark_case, count(*) AS runs,
                 max(started_unix_ms + wall_ns / 1000000) AS ended_unix_ms FROM run
          GROUP BY session, benchmark_case)
    JOIN benchmark_case AS known ON known.number = benchmark_case
    GROUP BY session
) ON session = session.number
ORDER BY number
"#;

impl Store {
    /// All sessions, the oldest first.
    ///
    /// # Errors
    /// The file fails or holds something that this program cannot read.
    pub fn list(&self) -> anyhow::Result<Vec<Overview>> {
        let mut statement = self
            .connection
            .prepare_cached(LIST)
            .map_err(|error| self.explain(error))?;
        let mut rows = statement.query([]).map_err(|error| self.explain(error))?;
        let mut all = Vec::new();
        while let Some(row) = rows.next().map_err(|error| self.explain(error))? {
            all.push(overview(row)?);
        }
        Ok(all)
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
