//! Reading for those who browse: lists that are chosen by filters, a part at a time, and nothing that changes the file.
//!
//! Every list is read from tables that are small beside those of runs and samples. Start at [`Store::open_to_view`].

use super::database::{Error, Row, given, sql};
use super::{Overview, Store};
use speedwell_model::{Calibration, Machine};
use std::path::Path;

/// Which sessions are listed; a field that is `None` lets all pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Only those before this number.
    pub before: Option<i64>,
    /// Of this branch.
    pub branch: Option<String>,
    /// Of revisions whose ids begin so.
    pub revision: Option<String>,
    /// In this state, as it is called in lists.
    pub state: Option<String>,
    /// With this tag.
    pub tag: Option<String>,
    /// Of the machine with this number.
    pub machine: Option<i64>,
    /// With runs of this benchmark.
    pub benchmark: Option<String>,
    /// With this variant.
    pub variant: Option<String>,
}

/// A benchmark that has a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBenchmark {
    /// `group/name`.
    pub name: String,
    /// How many cases it has.
    pub cases: usize,
    /// How many sessions measured it.
    pub sessions: usize,
    /// The newest of them.
    pub newest: i64,
    /// When the last run of it ended, in milliseconds since the Unix epoch.
    pub ended_unix_ms: i64,
}

/// A case that has a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCase {
    /// Its id.
    pub id: String,
    /// How many sessions measured it.
    pub sessions: usize,
    /// The newest of them.
    pub newest: i64,
    /// How many runs it has in all of them.
    pub runs: usize,
}

/// A machine on which sessions were measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMachine {
    /// Its number in the file.
    pub number: i64,
    /// What it is.
    pub machine: Machine,
    /// When its first session began, in milliseconds since the Unix epoch.
    pub first_unix_ms: i64,
    /// When its last session began.
    pub last_unix_ms: i64,
    /// How many sessions it has.
    pub sessions: usize,
    /// The newest of them.
    pub newest: Option<i64>,
}

/// A calibration with the machine that it is of.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredCalibration {
    /// The name of the host.
    pub host: Option<String>,
    /// Its processor.
    pub cpu: Option<String>,
    /// What was found.
    pub found: Calibration,
}

impl Store {
    /// Opens the results file at `path` for looking only: the connection refuses to write.
    ///
    /// # Errors
    /// As for [`Store::open_to_read`].
    pub fn open_to_view(path: &Path) -> anyhow::Result<Store> {
        let store = Store::open_to_read(path)?;
        let refused = store.database.refuse_changes();
        refused.map_err(|error| store.explain(error))?;
        Ok(store)
    }

    /// A number that is another one whenever another connection has changed the file.
    ///
    /// # Errors
    /// The file fails.
    pub fn data_version(&self) -> anyhow::Result<i64> {
        let version = self.database.data_version();
        version.map_err(|error| self.explain(error))
    }

    /// The numbers of at most `most` sessions, the newest first.
    ///
    /// # Errors
    /// The file fails.
    pub fn selected_numbers(
        &self,
        filter: &SessionFilter,
        most: usize,
    ) -> anyhow::Result<Vec<i64>> {
        let sql = sql!(
            "SELECT number FROM session
             WHERE (CAST($1 AS BIGINT) IS NULL OR number < $1)
             AND (CAST($2 AS TEXT) IS NULL
                  OR number IN (SELECT session FROM origin WHERE branch = $2))
             AND (CAST($3 AS TEXT) IS NULL
                  OR number IN (SELECT session FROM origin
                                WHERE substr(revision, 1, length($3)) = $3))
             AND (CAST($4 AS TEXT) IS NULL OR state = $4)
             AND (CAST($5 AS TEXT) IS NULL OR number IN (SELECT session FROM tag WHERE name = $5))
             AND (CAST($6 AS BIGINT) IS NULL
                  OR number IN (SELECT session FROM session_machine WHERE machine = $6))
             AND (CAST($7 AS TEXT) IS NULL
                  OR number IN (SELECT session FROM session_case
                                JOIN benchmark_case AS known ON known.number = benchmark_case
                                WHERE benchmark = $7))
             AND (CAST($8 AS TEXT) IS NULL OR replace(variants, $8, '') <> variants)
             ORDER BY number DESC LIMIT $9"
        );
        // A variant is stored with its name in front.
        let variant = filter.variant.as_ref().map(serde_json::to_string);
        let variant = variant
            .transpose()?
            .map(|name| format!("{{\"name\":{name}"));
        let given = given![
            filter.before,
            &filter.branch,
            &filter.revision,
            &filter.state,
            &filter.tag,
            filter.machine,
            &filter.benchmark,
            &variant,
            most as i64,
        ];
        self.rows(sql, given, |row| row.get(0))
    }

    /// At most `most` sessions, the newest first.
    ///
    /// # Errors
    /// The file fails or holds something that this program cannot read.
    pub fn selected(&self, filter: &SessionFilter, most: usize) -> anyhow::Result<Vec<Overview>> {
        let mut found = self.numbered(&self.selected_numbers(filter, most)?)?;
        found.reverse();
        Ok(found)
    }

    /// One session without its data, if it is here.
    ///
    /// # Errors
    /// The file fails or holds something that this program cannot read.
    pub fn overview(&self, number: i64) -> anyhow::Result<Option<Overview>> {
        Ok(self.numbered(&[number])?.pop())
    }

    /// The sessions before and after this one of the same branch and machine.
    ///
    /// # Errors
    /// The file fails.
    pub fn neighbours(&self, number: i64) -> anyhow::Result<[Option<i64>; 2]> {
        let sql = sql!(
            "WITH own AS (SELECT (SELECT branch FROM origin WHERE session = $1) AS branch,
                                 (SELECT machine FROM session_machine WHERE session = $1) AS machine),
             alike AS (SELECT number FROM session, own
                       WHERE own.branch IS NOT DISTINCT FROM
                             (SELECT branch FROM origin WHERE session = number)
                       AND own.machine IS NOT DISTINCT FROM
                           (SELECT machine FROM session_machine WHERE session = number))
             SELECT (SELECT max(number) FROM alike WHERE number < $1),
                    (SELECT min(number) FROM alike WHERE number > $1)"
        );
        let found = self.first_row(sql, given![number], |row| Ok([row.get(0)?, row.get(1)?]))?;
        Ok(found.unwrap_or_default())
    }

    /// When the sessions since then began, in milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// The file fails.
    pub fn started_since(&self, unix_ms: i64) -> anyhow::Result<Vec<i64>> {
        let sql =
            sql!("SELECT started_unix_ms FROM session WHERE started_unix_ms >= $1 ORDER BY 1");
        self.rows(sql, given![unix_ms], |row| row.get(0))
    }

    /// All benchmarks with a run, by name.
    ///
    /// # Errors
    /// The file fails.
    pub fn benchmarks(&self) -> anyhow::Result<Vec<StoredBenchmark>> {
        let sql = sql!(
            "SELECT benchmark, count(DISTINCT id), count(DISTINCT session), max(session),
                    max(ended_unix_ms)
             FROM session_case JOIN benchmark_case AS known ON known.number = benchmark_case
             GROUP BY benchmark ORDER BY benchmark COLLATE {{binary}}"
        );
        self.rows(sql, given![], |row| {
            Ok(StoredBenchmark {
                name: row.get(0)?,
                cases: count(row, 1)?,
                sessions: count(row, 2)?,
                newest: row.get(3)?,
                ended_unix_ms: row.get(4)?,
            })
        })
    }

    /// The cases of a benchmark that have a run, the newest first.
    ///
    /// # Errors
    /// The file fails.
    pub fn cases_of(&self, benchmark: &str) -> anyhow::Result<Vec<StoredCase>> {
        let sql = sql!(
            "SELECT id, count(DISTINCT session), max(session), CAST(sum(runs) AS BIGINT)
             FROM session_case JOIN benchmark_case AS known ON known.number = benchmark_case
             WHERE benchmark = $1 GROUP BY id ORDER BY max(session) DESC, min(known.number)"
        );
        self.rows(sql, given![benchmark], |row| {
            Ok(StoredCase {
                id: row.get(0)?,
                sessions: count(row, 1)?,
                newest: row.get(2)?,
                runs: count(row, 3)?,
            })
        })
    }

    /// All machines of which the history has points, the one that measured last first.
    ///
    /// # Errors
    /// The file fails.
    pub fn machines(&self) -> anyhow::Result<Vec<StoredMachine>> {
        let sql = sql!(
            "SELECT number, id, name, label, class, first_unix_ms, last_unix_ms,
                    (SELECT count(*) FROM session_machine WHERE machine = known.number),
                    (SELECT max(session) FROM session_machine WHERE machine = known.number)
             FROM machine AS known ORDER BY last_unix_ms DESC, number"
        );
        self.rows(sql, given![], |row| {
            Ok(StoredMachine {
                number: row.get(0)?,
                machine: Machine {
                    id: row.get(1)?,
                    name: row.get(2)?,
                    label: row.get(3)?,
                    class: row.get(4)?,
                },
                first_unix_ms: row.get(5)?,
                last_unix_ms: row.get(6)?,
                sessions: count(row, 7)?,
                newest: row.get(8)?,
            })
        })
    }

    /// All calibrations, the newest first.
    ///
    /// # Errors
    /// The file fails.
    pub fn calibrations(&self) -> anyhow::Result<Vec<StoredCalibration>> {
        let sql = sql!(
            "SELECT host, cpu, session, started_unix_ms, comparisons, false_alarms,
                    expected_low, expected_high FROM calibration ORDER BY session DESC"
        );
        self.rows(sql, given![], |row| {
            Ok(StoredCalibration {
                host: row.get(0)?,
                cpu: row.get(1)?,
                found: Calibration {
                    session: row.get(2)?,
                    started_unix_ms: row.get(3)?,
                    comparisons: row.get(4)?,
                    false_alarms: row.get(5)?,
                    expected_low: row.get(6)?,
                    expected_high: row.get(7)?,
                },
            })
        })
    }

    /// Names of all branches of which sessions are known, and of all tags.
    ///
    /// # Errors
    /// The file fails.
    pub fn branches_and_tags(&self) -> anyhow::Result<[Vec<String>; 2]> {
        let branches = sql!(
            "SELECT branch FROM origin WHERE branch IS NOT NULL
             GROUP BY branch ORDER BY max(session) DESC, branch COLLATE {{binary}}"
        );
        let tags = sql!(
            "SELECT name FROM tag GROUP BY name ORDER BY max(session) DESC, name COLLATE {{binary}}"
        );
        Ok([
            self.rows(branches, given![], |row| row.get(0))?,
            self.rows(tags, given![], |row| row.get(0))?,
        ])
    }

    /// Ids of the measured revisions that begin so, the newest first.
    ///
    /// # Errors
    /// The file fails.
    pub fn revisions_beginning(&self, beginning: &str, most: usize) -> anyhow::Result<Vec<String>> {
        let sql = sql!(
            "SELECT revision FROM origin WHERE substr(revision, 1, length(CAST($1 AS TEXT))) = $1
             GROUP BY revision ORDER BY max(session) DESC, revision COLLATE {{binary}} LIMIT $2"
        );
        self.rows(sql, given![beginning, most as i64], |row| row.get(0))
    }

    /// Which cases, with how many runs, a session has so far, and how many slots of its plan are done.
    ///
    /// # Errors
    /// The file fails.
    pub fn runs_so_far(&self, number: i64) -> anyhow::Result<usize> {
        let sql = sql!(
            "SELECT CAST(coalesce(sum(runs), 0) AS BIGINT) FROM session_case WHERE session = $1"
        );
        let found = self.first_row(sql, given![number], |row| count(row, 0))?;
        Ok(found.unwrap_or(0))
    }
}

fn count(row: Row<'_>, at: usize) -> Result<usize, Error> {
    row.get::<i64>(at).map(|count| count.max(0) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::back_end_tests::places;
    use speedwell_fixtures::Story;
    use speedwell_model::{Session, State, Variant};

    fn session(id: &str) -> Session {
        Session {
            id: id.to_owned(),
            state: State::Imported,
            ..Story::fixed(&["a"], 1).session()
        }
    }

    #[test]
    fn sessions_are_listed_a_part_at_a_time_the_newest_first() {
        for place in places() {
            let mut store = place.open();
            for id in ["a", "b", "c", "d", "e"] {
                let mut session = session(id);
                if id == "c" {
                    session.variants = vec![Variant::plain("it's")];
                }
                store.insert(&session).unwrap();
            }
            store.tag(2, "kept").unwrap();
            let numbers =
                |filter: &SessionFilter, most| store.selected_numbers(filter, most).unwrap();
            let mut filter = SessionFilter::default();
            assert_eq!(numbers(&filter, 2), [5, 4]);
            filter.before = Some(4);
            assert_eq!(numbers(&filter, 2), [3, 2]);
            filter.tag = Some("kept".into());
            assert_eq!(numbers(&filter, 9), [2]);
            filter.branch = Some("main".into());
            assert_eq!(numbers(&filter, 9), [] as [i64; 0]);
            let variant = |name: &str| SessionFilter {
                variant: Some(name.into()),
                ..SessionFilter::default()
            };
            assert_eq!(numbers(&variant("it's"), 9), [3]);
            assert_eq!(numbers(&variant("it"), 9), [] as [i64; 0]);
            let shown = store.selected(&SessionFilter::default(), 2).unwrap();
            let ids: Vec<&str> = shown.iter().map(|session| session.id.as_str()).collect();
            assert_eq!(ids, ["e", "d"]);
            assert_eq!(store.neighbours(3).unwrap(), [Some(2), Some(4)]);
            assert_eq!(store.neighbours(5).unwrap(), [Some(4), None]);
        }
    }

    #[test]
    fn whoever_looks_cannot_change_the_file() {
        for place in places() {
            let mut writer = place.open();
            let mut viewer = Store::open_to_view(&place.path()).unwrap();
            let before = viewer.data_version().unwrap();
            let refused = viewer.insert(&session("x")).unwrap_err();
            assert!(
                format!("{refused:#}").contains("cannot be written"),
                "{refused:#}"
            );
            writer.insert(&session("y")).unwrap();
            assert_ne!(viewer.data_version().unwrap(), before);
            assert_eq!(
                viewer.selected(&SessionFilter::default(), 9).unwrap().len(),
                1
            );
        }
    }
}
