//! Lists benchmarks and their cases.
//!
//! A list takes no longer with a hundred thousand sessions than with a thousand, because counting
//! stops at a limit. Start at [`Store::list_benchmarks`].

use super::Store;
use super::browse::read_count;
use super::database::{Error, SqlRow, SqlStatement, sql, sql_params};
use speedwell_model::stored::{StoredBenchmark, StoredCase};

/// Counting sessions stops at this number. A count that reaches this limit means "more than a
/// thousand".
const COUNT_LIMIT: i64 = 1_001;

impl Store {
    /// Returns all benchmarks that have a run, sorted by name.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn list_benchmarks(&self) -> anyhow::Result<Vec<StoredBenchmark>> {
        self.query_rows(benchmarks_statement(), sql_params![COUNT_LIMIT], |row| {
            Ok(StoredBenchmark {
                name: row.get(0)?,
                cases: read_count(row, 1)?,
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
    pub fn benchmark_cases(&self, benchmark: &str) -> anyhow::Result<Vec<StoredCase>> {
        self.query_rows(cases_statement(), sql_params![COUNT_LIMIT, benchmark], |row| {
            Ok(StoredCase {
                id: row.get(0)?,
                sessions: read_limited_count(row, 1)?,
                newest: row.get(2)?,
                runs: read_count(row, 3)?,
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
    let count = read_count(row, column)?;
    Ok((count < COUNT_LIMIT as usize).then_some(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SessionFilter;
    use crate::back_end_tests::test_backends;
    use speedwell_fixtures::FakeSession;
    use speedwell_model::{Session, SessionState};

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
}
