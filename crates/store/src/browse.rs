//! Runs read-only queries for browsing: machines, calibrations, names, benchmarks, and the
//! neighbors of a session. `selection.rs` lists sessions.
//!
//! Except for the queries of benchmarks, all queries use only tables that are small compared with
//! the tables of runs and samples. Start at [`Store::open_to_view`].

use super::Store;
use super::database::{Error, SqlRow, SqlStatement, sql, sql_params};
use super::read::{parse_json, parse_state, read_calibration};
use super::selection::is_commit_prefix;
use anyhow::Result;
use speedwell_model::stored::{
    SessionArrival, StoredBenchmark, StoredCalibration, StoredCase, StoredMachine,
};
use speedwell_model::{CodeOrigin, Machine};
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

impl Store {
    /// Opens the results file at `path` for viewing: the connection rejects writes.
    ///
    /// # Errors
    /// Fails like [`Store::open_to_read`].
    pub fn open_to_view(path: &Path) -> Result<Store> {
        let store = Store::open_to_read(path)?;
        store.explain(store.database.set_read_only())?;
        Ok(store)
    }

    /// Opens the results like [`Store::open_to_view`], and also subscribes to changes. A database
    /// server announces them immediately.
    ///
    /// # Errors
    /// Fails like [`Store::open_to_read`].
    pub fn open_to_watch(path: &Path) -> Result<Store> {
        let store = Store::open_to_view(path)?;
        store.explain(store.database.subscribe())?;
        Ok(store)
    }

    /// Waits up to `timeout` for a change, or until [`Store::data_version`] should be polled again.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn wait_for_change(&self, timeout: Duration) -> Result<()> {
        self.explain(self.database.wait_for_change(timeout))
    }

    /// Returns a number that changes whenever another connection changes the database.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn data_version(&self) -> Result<i64> {
        self.explain(self.database.data_version())
    }

    /// Returns the numbers of the sessions that have a run of a wanted case. `is_wanted` decides by
    /// the id of the case.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn numbers_with_case(&self, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<i64>> {
        let all_cases = sql!("SELECT number, id FROM benchmark_case ORDER BY number");
        let read = |row: SqlRow<'_>| Ok((row.get(0)?, row.get(1)?));
        let cases: Vec<(i64, String)> = self.query_rows(all_cases, sql_params![], read)?;
        let case_numbers: Vec<i64> =
            cases.iter().filter(|(_, id)| is_wanted(id)).map(|(number, _)| *number).collect();
        let numbers = serde_json::to_string(&case_numbers)?;
        let sessions = sql!(
            "SELECT DISTINCT session FROM session_case
             WHERE benchmark_case IN {{numbers:1}} ORDER BY session"
        );
        self.query_rows(sessions, sql_params![&numbers], |row| row.get(0))
    }

    /// Returns the number and the revision id of each session with a known origin, oldest first.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn revisions_of_sessions(&self) -> Result<Vec<(i64, String)>> {
        let sql = sql!("SELECT session, revision FROM origin ORDER BY session");
        self.query_rows(sql, sql_params![], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Returns the previous and the next session that can be compared with a session: they have a
    /// case in common, and the same branch and machine. In each direction, searches at most a
    /// thousand sessions of the branch. If the session has no branch, searches at most a thousand
    /// sessions of the store for sessions without a branch.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn neighbor_sessions(&self, number: i64) -> Result<[Option<i64>; 2]> {
        let sql = sql!(
            "SELECT (SELECT branch FROM origin WHERE session = $1),
                    (SELECT machine FROM session_machine WHERE session = $1)"
        );
        let read = |row: SqlRow<'_>| Ok((row.get(0)?, row.get(1)?));
        let session: Option<(Option<String>, Option<i64>)> =
            self.query_first(sql, sql_params![number], read)?;
        let (branch, machine) = session.unwrap_or_default();
        let sql = sql!(
            "SELECT number FROM (
                 SELECT * FROM (SELECT session AS number FROM origin
                                WHERE branch = $1 AND session < $2
                                ORDER BY session DESC LIMIT 1000) AS earlier_on_branch
                 UNION ALL
                 SELECT * FROM (SELECT session FROM origin
                                WHERE branch = $1 AND session > $2
                                ORDER BY session LIMIT 1000) AS later_on_branch
                 UNION ALL
                 SELECT * FROM (SELECT number FROM session
                                WHERE CAST($1 AS TEXT) IS NULL AND number < $2
                                ORDER BY number DESC LIMIT 1000) AS earlier
                 UNION ALL
                 SELECT * FROM (SELECT number FROM session
                                WHERE CAST($1 AS TEXT) IS NULL AND number > $2
                                ORDER BY number LIMIT 1000) AS later) AS near
             WHERE (SELECT branch FROM origin WHERE session = near.number)
                 IS NOT DISTINCT FROM CAST($1 AS TEXT)
             AND (SELECT machine FROM session_machine WHERE session = near.number)
                 IS NOT DISTINCT FROM CAST($3 AS BIGINT)
             AND EXISTS (
                 SELECT 1 FROM session_case WHERE session = near.number AND benchmark_case IN (
                     SELECT benchmark_case FROM session_case WHERE session = $2))"
        );
        let near: Vec<i64> =
            self.query_rows(sql, sql_params![&branch, number, machine], |row| row.get(0))?;
        let earlier = near.iter().copied().filter(|near| *near < number).max();
        let later = near.iter().copied().filter(|near| *near > number).min();
        Ok([earlier, later])
    }

    /// Whether two sessions have a case in common.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn have_common_case(&self, one: i64, other: i64) -> Result<bool> {
        let sql = sql!(
            "SELECT session FROM session_case WHERE session = $1 AND benchmark_case IN (
                 SELECT benchmark_case FROM session_case WHERE session = $2) LIMIT 1"
        );
        let found: Option<i64> =
            self.query_first(sql, sql_params![one, other], |row| row.get(0))?;
        Ok(found.is_some())
    }

    /// Returns the number of the newest session; 0 if there is none.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn newest_number(&self) -> Result<i64> {
        let sql = sql!("SELECT coalesce(max(number), 0) FROM session");
        self.explain(self.database.query_value(sql, sql_params![]))
    }

    /// Returns the start times of the sessions that started at `unix_ms` or later. Times are in
    /// milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn start_times_since(&self, unix_ms: i64) -> Result<Vec<i64>> {
        let sql =
            sql!("SELECT started_unix_ms FROM session WHERE started_unix_ms >= $1 ORDER BY 1");
        self.query_rows(sql, sql_params![unix_ms], |row| row.get(0))
    }

    /// Returns the number and the title of each machine, in the order of [`Store::list_machines`].
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn machine_titles(&self) -> Result<Vec<(i64, String)>> {
        let sql = sql!(
            "SELECT number, id, name, label, class FROM machine ORDER BY last_unix_ms DESC, number"
        );
        let read = |row: SqlRow<'_>| Ok((row.get(0)?, read_machine(row, 1)?.title().to_owned()));
        self.query_rows(sql, sql_params![], read)
    }

    /// Returns all machines with points in the history, most recently used first.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn list_machines(&self) -> Result<Vec<StoredMachine>> {
        let sql = sql!(
            "SELECT number, id, name, label, class, first_unix_ms, last_unix_ms,
                    (SELECT count(*) FROM session_machine WHERE machine = known.number),
                    (SELECT max(session) FROM session_machine WHERE machine = known.number)
             FROM machine AS known ORDER BY last_unix_ms DESC, number"
        );
        self.query_rows(sql, sql_params![], |row| {
            Ok(StoredMachine {
                number: row.get(0)?,
                machine: read_machine(row, 1)?,
                first_unix_ms: row.get(5)?,
                last_unix_ms: row.get(6)?,
                sessions: row.get(7)?,
                newest: row.get(8)?,
            })
        })
    }

    /// Returns all calibrations, newest first.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn list_calibrations(&self) -> Result<Vec<StoredCalibration>> {
        let sql = sql!(
            "SELECT host, cpu, session, started_unix_ms, comparisons, false_alarms,
                    expected_low, expected_high FROM calibration ORDER BY session DESC"
        );
        self.query_rows(sql, sql_params![], |row| {
            Ok(StoredCalibration {
                host: row.get(0)?,
                cpu: row.get(1)?,
                found: read_calibration(row, 2)?,
            })
        })
    }

    /// Returns the names of branches and of tags: the 200 most recently measured of each.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn branches_and_tags(&self) -> Result<[Vec<String>; 2]> {
        // Each step of the recursion skips to the next name in the index, so the query takes one
        // step per name, not one per session.
        let branches = sql!(
            "WITH RECURSIVE known(name) AS (
                 SELECT (SELECT branch FROM origin WHERE branch IS NOT NULL
                         ORDER BY branch LIMIT 1)
                 UNION ALL
                 SELECT (SELECT branch FROM origin WHERE branch > known.name
                         ORDER BY branch LIMIT 1)
                 FROM known WHERE known.name IS NOT NULL)
             SELECT name FROM known WHERE name IS NOT NULL
             ORDER BY (SELECT max(session) FROM origin WHERE branch = name) DESC,
                      name COLLATE {{binary}} LIMIT 200"
        );
        let tags = sql!(
            "WITH RECURSIVE known(label) AS (
                 SELECT (SELECT name FROM tag ORDER BY name LIMIT 1)
                 UNION ALL
                 SELECT (SELECT name FROM tag WHERE name > known.label ORDER BY name LIMIT 1)
                 FROM known WHERE known.label IS NOT NULL)
             SELECT label FROM known WHERE label IS NOT NULL
             ORDER BY (SELECT max(session) FROM tag WHERE name = label) DESC,
                      label COLLATE {{binary}} LIMIT 200"
        );
        Ok([
            self.query_rows(branches, sql_params![], |row| row.get(0))?,
            self.query_rows(tags, sql_params![], |row| row.get(0))?,
        ])
    }

    /// Returns the main branch, if sessions of several branches are stored: `main`, else `master`,
    /// else the branch with the most sessions of CI jobs.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn main_branch(&self) -> Result<Option<String>> {
        let sql = sql!(
            "SELECT coalesce(
                 (SELECT min(branch) FROM origin WHERE branch IN ('main', 'master')),
                 (SELECT branch FROM origin
                  WHERE branch IS NOT NULL AND detail LIKE '%_source_:_ci_%'
                  GROUP BY branch ORDER BY count(*) DESC, max(session) DESC LIMIT 1))
             WHERE (SELECT min(branch) FROM origin) <> (SELECT max(branch) FROM origin)"
        );
        let name = self.query_first(sql, sql_params![], |row| row.get::<Option<String>>(0))?;
        Ok(name.flatten())
    }

    /// Returns the ids of the measured revisions that start with `beginning`, the most recently
    /// measured first, but at most `max_count` of them.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn revisions_with_prefix(&self, beginning: &str, max_count: usize) -> Result<Vec<String>> {
        let sql = if is_commit_prefix(beginning) {
            sql!(
                "SELECT revision FROM origin
                 WHERE revision >= $1 AND revision < CAST($1 AS TEXT) || 'g'
                 AND substr(revision, 1, length(CAST($1 AS TEXT))) = $1
                 GROUP BY revision ORDER BY max(session) DESC, revision COLLATE {{binary}} LIMIT $2"
            )
        } else {
            sql!(
                "SELECT revision FROM origin WHERE substr(revision, 1, length(CAST($1 AS TEXT))) = $1
                 GROUP BY revision ORDER BY max(session) DESC, revision COLLATE {{binary}} LIMIT $2"
            )
        };
        self.query_rows(sql, sql_params![beginning, max_count], |row| row.get(0))
    }
}

/// Reads a machine from the columns id, name, label and class, starting at `column`.
pub(super) fn read_machine(row: SqlRow<'_>, column: usize) -> Result<Machine, Error> {
    Ok(Machine {
        id: row.get(column)?,
        name: row.get(column + 1)?,
        label: row.get(column + 2)?,
        class: row.get(column + 3)?,
    })
}

/// Counting sessions stops at this number. A count that reaches this limit means "more than a
/// thousand".
const COUNT_LIMIT: usize = 1_001;

/// Lists of benchmarks and their cases. A list takes no longer with a hundred thousand sessions than
/// with a thousand, because counting stops at a limit.
impl Store {
    /// Returns all benchmarks that have a run, sorted by name.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn list_benchmarks(&self) -> Result<Vec<StoredBenchmark>> {
        self.query_rows(benchmarks_statement(), sql_params![COUNT_LIMIT], |row| {
            Ok(StoredBenchmark {
                name: row.get(0)?,
                cases: row.get(1)?,
                sessions: read_limited_count(row, 2)?,
                newest: row.get(3)?,
                ended_unix_ms: row.get::<i64>(4)?.max(row.get(5)?),
            })
        })
    }

    /// Returns the cases of a benchmark that have a run, most recently measured first.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn benchmark_cases(&self, benchmark: &str) -> Result<Vec<StoredCase>> {
        self.query_rows(cases_statement(), sql_params![COUNT_LIMIT, benchmark], |row| {
            Ok(StoredCase {
                id: row.get(0)?,
                sessions: read_limited_count(row, 1)?,
                newest: row.get(2)?,
                runs: row.get(3)?,
            })
        })
    }
}

/// Selects all benchmarks. Each subquery is one index lookup, or an index scan up to the limit.
fn benchmarks_statement() -> &'static SqlStatement {
    sql!(
        "SELECT name, measured,
                (SELECT count(*) FROM (SELECT 1 FROM benchmark_session
                 WHERE benchmark = name LIMIT $1) AS counted),
                newest,
                (SELECT max(ended_unix_ms) FROM session_case
                 JOIN benchmark_case AS own ON own.number = session_case.benchmark_case
                 WHERE own.benchmark = name AND session_case.session = newest),
                (SELECT started_unix_ms FROM session WHERE number = newest)
         FROM (SELECT benchmark AS name, count(DISTINCT id) AS measured,
                      (SELECT max(session) FROM benchmark_session
                       WHERE benchmark = known.benchmark) AS newest
               FROM benchmark_case AS known
               WHERE EXISTS (SELECT 1 FROM session_case WHERE benchmark_case = known.number)
               GROUP BY benchmark) AS listed
         WHERE newest IS NOT NULL ORDER BY name COLLATE {{binary}}"
    )
}

/// Selects all cases of a benchmark. Counting stops at the limit, as in [`benchmarks_statement`].
fn cases_statement() -> &'static SqlStatement {
    sql!(
        "SELECT id, CAST(sum(sessions) AS BIGINT), max(newest), CAST(sum(runs) AS BIGINT)
         FROM (SELECT id, number,
                      (SELECT max(session) FROM session_case
                       WHERE benchmark_case = known.number) AS newest,
                      (SELECT count(*) FROM (SELECT 1 FROM session_case
                       WHERE benchmark_case = known.number LIMIT $1) AS counted) AS sessions,
                      (SELECT sum(runs) FROM (SELECT runs FROM session_case
                       WHERE benchmark_case = known.number
                       ORDER BY session DESC LIMIT $1) AS newer) AS runs
               FROM benchmark_case AS known WHERE benchmark = $2) AS measured
         WHERE newest IS NOT NULL GROUP BY id ORDER BY max(newest) DESC, min(number)"
    )
}

/// Reads a number of sessions; `None` if counting stopped at the limit.
fn read_limited_count(row: SqlRow<'_>, column: usize) -> Result<Option<usize>, Error> {
    let count: usize = row.get(column)?;
    Ok((count < COUNT_LIMIT).then_some(count))
}

/// Queries for the home page of a project.
impl Store {
    /// Returns the sessions that started at `since_unix_ms` or later, newest first, but at most
    /// `max_count` of them.
    ///
    /// # Errors
    /// Fails on database errors, or if the database holds data that this version cannot read.
    pub fn list_arrivals(
        &self,
        since_unix_ms: i64,
        max_count: usize,
    ) -> Result<Vec<SessionArrival>> {
        let sql = sql!(
            "SELECT number, started_unix_ms, state, command,
                    (SELECT {{texts:name ORDER BY seq}} FROM tag WHERE session = number),
                    (SELECT branch FROM origin WHERE session = number),
                    (SELECT pull FROM origin WHERE session = number),
                    (SELECT machine FROM session_machine WHERE session = number),
                    (SELECT count(*) FROM failure WHERE session = number AND skipped = 0)
             FROM session WHERE started_unix_ms >= $1
             ORDER BY started_unix_ms DESC, number DESC LIMIT $2"
        );
        self.query_rows(sql, sql_params![since_unix_ms, max_count], |row| {
            Ok(SessionArrival {
                number: row.get(0)?,
                started_unix_ms: row.get(1)?,
                state: parse_state(row.get(2)?)?,
                command: parse_json(row.get(3)?)?,
                tags: parse_json(row.get(4)?)?,
                branch: row.get(5)?,
                pull: row.get(6)?,
                machine: row.get(7)?,
                failures: row.get(8)?,
            })
        })
    }

    /// Returns the authors of the revisions of these sessions, by revision, where they are known.
    ///
    /// # Errors
    /// Fails on database errors, or if the database holds data that this version cannot read.
    pub fn revision_authors(&self, sessions: &[i64]) -> Result<HashMap<String, String>> {
        let sql = sql!("SELECT detail FROM origin WHERE session IN {{numbers:1}} ORDER BY session");
        let sessions = serde_json::to_string(sessions)?;
        let origins: Vec<CodeOrigin> =
            self.query_rows(sql, sql_params![&sessions], |row| Ok(parse_json(row.get(0)?)?))?;
        let author = |origin: CodeOrigin| Some((origin.revision, origin.author?));
        Ok(origins.into_iter().filter_map(author).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SessionFilter;
    use crate::back_end_tests::{imported_session, test_backends};
    use speedwell_fixtures::FakeSession;
    use speedwell_model::{Session, SessionState};

    #[test]
    fn only_changes_of_the_same_project_are_noticed() {
        for backend in test_backends() {
            let mut writer = backend.open();
            let elsewhere = writer.add_project("other").unwrap();
            let mut elsewhere = Store::open(&writer.project_path(&elsewhere).unwrap()).unwrap();
            let watcher = Store::open_to_watch(&backend.path()).unwrap();
            let before = watcher.data_version().unwrap();
            elsewhere.insert_session(&imported_session("x")).unwrap();
            assert_eq!(watcher.data_version().unwrap(), before, "other tables");
            writer.insert_session(&imported_session("y")).unwrap();
            let after = watcher.data_version().unwrap();
            assert_ne!(after, before, "noticed at the next query");
            // A waiting connection is notified and returns early.
            let writing = std::thread::scope(|scope| {
                let wait = scope.spawn(|| {
                    let path = backend.path();
                    let waiter = Store::open_to_watch(&path).unwrap();
                    let before = waiter.data_version().unwrap();
                    for _ in 0..400 {
                        waiter.wait_for_change(Duration::from_secs(60)).unwrap();
                        if waiter.data_version().unwrap() != before {
                            return true;
                        }
                    }
                    false
                });
                // The other thread may start waiting at any time, so keep writing until it has been
                // notified.
                for number in 0.. {
                    writer.insert_session(&imported_session(&format!("z{number}"))).unwrap();
                    if wait.is_finished() {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
                wait.join().unwrap()
            });
            assert!(writing);
        }
    }

    #[test]
    fn viewers_cannot_write_to_the_store() {
        for backend in test_backends() {
            let mut writer = backend.open();
            let mut viewer = Store::open_to_view(&backend.path()).unwrap();
            let before = viewer.data_version().unwrap();
            let refused = viewer.insert_session(&imported_session("x")).unwrap_err();
            assert!(format!("{refused:#}").contains("is not writable"), "{refused:#}");
            writer.insert_session(&imported_session("y")).unwrap();
            assert_ne!(viewer.data_version().unwrap(), before);
            assert_eq!(viewer.select_sessions(&SessionFilter::default(), 9).unwrap().len(), 1);
        }
    }

    /// Returns the SQLite steps needed for the queries of the benchmark pages.
    fn page_steps(store: &Store) -> i32 {
        let file = store.database.sqlite().unwrap();
        let steps = file.count_vm_steps(benchmarks_statement(), sql_params![COUNT_LIMIT]);
        let cases = file.count_vm_steps(cases_statement(), sql_params![COUNT_LIMIT, "g/fill"]);
        steps.unwrap() + cases.unwrap()
    }

    #[test]
    fn listing_benchmarks_takes_no_longer_after_many_sessions_than_after_few() {
        let mut store = Store::in_memory().unwrap();
        let mut insert_up_to = |number: usize| {
            while store.newest_number().unwrap() < number as i64 {
                let id = format!("s{}", store.newest_number().unwrap());
                let story =
                    FakeSession::with_fixed_blocks(&["a"], 1).add_case("g/fill n=1", |_, _| 1.0);
                let session = Session { id, state: SessionState::Imported, ..story.build() };
                store.insert_session(&session).unwrap();
            }
            let found = store.list_benchmarks().unwrap();
            let cases = store.benchmark_cases("g/fill").unwrap();
            assert_eq!(found[0].newest, number as i64);
            assert_eq!(found[0].sessions, cases[0].sessions);
            (found[0].sessions, page_steps(&store))
        };
        assert_eq!(insert_up_to(300).0, Some(300));
        let (sessions, few) = insert_up_to(1_100);
        assert_eq!(sessions, None, "the count stops at a thousand");
        assert_eq!(insert_up_to(1_400), (None, few), "no additional steps");
    }

    #[test]
    fn a_benchmark_counts_the_sessions_that_have_its_runs() {
        for backend in test_backends() {
            let mut store = backend.open();
            for (id, case) in [("a", "g/fill n=1"), ("b", "g/fill n=2"), ("c", "g/copy n=1")] {
                let story = FakeSession::with_fixed_blocks(&["x"], 1).add_case(case, |_, _| 1.0);
                let session =
                    Session { id: id.into(), state: SessionState::Imported, ..story.build() };
                store.insert_session(&session).unwrap();
            }
            let listed = |store: &Store| -> Vec<(String, usize, Option<usize>, i64)> {
                let benchmarks = store.list_benchmarks().unwrap().into_iter();
                benchmarks
                    .map(|benchmark| {
                        (benchmark.name, benchmark.cases, benchmark.sessions, benchmark.newest)
                    })
                    .collect()
            };
            let fill =
                |cases, sessions, newest| ("g/fill".to_owned(), cases, Some(sessions), newest);
            let copy = ("g/copy".to_owned(), 1, Some(1), 3);
            assert_eq!(listed(&store), [copy.clone(), fill(2, 2, 2)]);
            let of_fill =
                SessionFilter { benchmark: Some("g/fill".into()), ..SessionFilter::default() };
            assert_eq!(store.selected_numbers(&of_fill, 9).unwrap(), [2, 1]);
            store.delete_untracked(2).unwrap();
            assert_eq!(listed(&store), [copy, fill(1, 1, 1)]);
        }
    }

    #[test]
    fn arrivals_are_the_sessions_since_a_time_with_their_origin() {
        for backend in test_backends() {
            let mut store = backend.open();
            for (index, id) in ["a", "b", "c"].into_iter().enumerate() {
                let mut session = imported_session(id);
                session.started_unix_ms = 1_000 * (index as i64 + 1);
                session.tags = vec![format!("tag-{id}")];
                session.origin = (id != "b").then(|| CodeOrigin {
                    revision: format!("{index}f"),
                    branch: Some("main".into()),
                    author: Some(format!("author of {id}")),
                    ..CodeOrigin::default()
                });
                store.insert_session(&session).unwrap();
            }
            let arrivals = store.list_arrivals(2_000, 9).unwrap();
            let found: Vec<(i64, &str, Option<&str>)> = arrivals
                .iter()
                .map(|each| (each.number, &*each.tags[0], each.branch.as_deref()))
                .collect();
            assert_eq!(found, [(3, "tag-c", Some("main")), (2, "tag-b", None)]);
            assert!(arrivals.iter().all(|each| each.state == SessionState::Imported));
            assert_eq!(store.list_arrivals(0, 1).unwrap().len(), 1);
            let authors = store.revision_authors(&[1, 2]).unwrap();
            assert_eq!(authors, HashMap::from([("0f".to_owned(), "author of a".to_owned())]));
        }
    }
}
