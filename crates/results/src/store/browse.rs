//! Reading for those who browse: lists that are chosen by filters, a part at a time, and nothing that changes the file.
//!
//! Every list is read from tables that are small beside those of runs and samples. Start at [`Store::open_to_view`].

use super::database::{Error, Given, Row, given, sql};
use super::selection::{end_of_commits, is_of_a_commit};
use super::{Overview, SessionFilter, Store};
use speedwell_model::{Calibration, Machine};
use std::path::Path;
use std::time::Duration;

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

    /// As [`Store::open_to_view`], for those who want to know when something was changed: a server tells them at once.
    ///
    /// # Errors
    /// As for [`Store::open_to_read`].
    pub fn open_to_watch(path: &Path) -> anyhow::Result<Store> {
        let store = Store::open_to_view(path)?;
        let listening = store.database.listen();
        listening.map_err(|error| store.explain(error))?;
        Ok(store)
    }

    /// Waits for a change, or until it is worth asking for [`Store::data_version`]; at most for some time.
    ///
    /// # Errors
    /// The file fails.
    pub fn await_change(&self, most: Duration) -> anyhow::Result<()> {
        let waited = self.database.await_change(most);
        waited.map_err(|error| self.explain(error))
    }

    /// A number that is another one whenever another connection has changed the file.
    ///
    /// # Errors
    /// The file fails.
    pub fn data_version(&self) -> anyhow::Result<i64> {
        let version = self.database.data_version();
        version.map_err(|error| self.explain(error))
    }

    /// At most `most` sessions, the newest first.
    ///
    /// # Errors
    /// The file fails or holds something that this program cannot read.
    pub fn selected(&self, filter: &SessionFilter, most: usize) -> anyhow::Result<Vec<Overview>> {
        self.newest_first(&self.selected_numbers(filter, most)?)
    }

    fn newest_first(&self, numbers: &[i64]) -> anyhow::Result<Vec<Overview>> {
        let mut found = self.numbered(numbers)?;
        found.reverse();
        Ok(found)
    }

    /// At most `most` of the sessions that are being measured, or were when something killed them, the newest first.
    ///
    /// # Errors
    /// The file fails or holds something that this program cannot read.
    pub fn running(&self, most: usize) -> anyhow::Result<Vec<Overview>> {
        let sql = sql!(
            "SELECT number FROM session WHERE state = 'running' ORDER BY number DESC LIMIT $1"
        );
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let numbers: Vec<i64> = self.rows(sql, given![most], |row| row.get(0))?;
        self.newest_first(&numbers)
    }

    /// All sessions that the filter lets pass, the oldest first.
    ///
    /// # Errors
    /// The file fails or holds something that this program cannot read.
    pub fn list(&self, filter: &SessionFilter) -> anyhow::Result<Vec<Overview>> {
        self.numbered(&self.selected_numbers(filter, usize::MAX)?)
    }

    /// A page of them, the oldest first; page 0 holds the `size` newest ones.
    ///
    /// # Errors
    /// The file fails or holds something that this program cannot read.
    pub fn page(
        &self,
        filter: &SessionFilter,
        size: u32,
        page: u32,
    ) -> anyhow::Result<Vec<Overview>> {
        let [size, page] = [size, page].map(|count| count as usize);
        let before = size.saturating_mul(page);
        let numbers = self.selected_numbers(filter, before.saturating_add(size))?;
        self.numbered(numbers.get(before..).unwrap_or_default())
    }

    /// How many there are.
    ///
    /// # Errors
    /// The file fails.
    pub fn count(&self, filter: &SessionFilter) -> anyhow::Result<usize> {
        Ok(self.selected_numbers(filter, usize::MAX)?.len())
    }

    /// The numbers of the sessions with a run of a case whose id is wanted.
    ///
    /// # Errors
    /// The file fails.
    pub fn numbers_with_case(&self, is_wanted: impl Fn(&str) -> bool) -> anyhow::Result<Vec<i64>> {
        let cases = sql!("SELECT number, id FROM benchmark_case ORDER BY number");
        let cases: Vec<(i64, String)> = self.rows(cases, given![], |row| {
            Ok((row.get::<i64>(0)?, row.get::<String>(1)?))
        })?;
        let wanted = cases.iter().filter(|(_, id)| is_wanted(id));
        let wanted: Vec<i64> = wanted.map(|(number, _)| *number).collect();
        let wanted = serde_json::to_string(&wanted)?;
        let sessions = sql!(
            "SELECT DISTINCT session FROM session_case
             WHERE benchmark_case IN {{numbers:1}} ORDER BY session"
        );
        self.rows(sessions, given![&wanted], |row| row.get(0))
    }

    /// The sessions of which is known what they measured, with the ids of their revisions, the oldest first.
    ///
    /// # Errors
    /// The file fails.
    pub fn revisions_of_sessions(&self) -> anyhow::Result<Vec<(i64, String)>> {
        let sql = sql!("SELECT session, revision FROM origin ORDER BY session");
        self.rows(sql, given![], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// One session without its data, if it is here.
    ///
    /// # Errors
    /// The file fails or holds something that this program cannot read.
    pub fn overview(&self, number: i64) -> anyhow::Result<Option<Overview>> {
        Ok(self.numbered(&[number])?.pop())
    }

    /// The sessions before and after this one of the same branch and machine, among the next thousand of the branch, or of the
    /// machine where there is no branch.
    ///
    /// # Errors
    /// The file fails.
    pub fn neighbours(&self, number: i64) -> anyhow::Result<[Option<i64>; 2]> {
        let sql = sql!(
            "SELECT (SELECT branch FROM origin WHERE session = $1),
                    (SELECT machine FROM session_machine WHERE session = $1)"
        );
        let read = |row: Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let own: Option<(Option<String>, Option<i64>)> =
            self.first_row(sql, given![number], read)?;
        let (branch, machine) = own.unwrap_or_default();
        let [before, after] = match (&branch, machine) {
            (Some(_), _) => [
                sql!(
                    "SELECT number FROM (
                         SELECT session AS number FROM origin WHERE branch = $1 AND session < $2
                         ORDER BY session DESC LIMIT 1000) AS near
                     WHERE (SELECT machine FROM session_machine WHERE session = number)
                         IS NOT DISTINCT FROM CAST($3 AS BIGINT)
                     ORDER BY number DESC LIMIT 1"
                ),
                sql!(
                    "SELECT number FROM (
                         SELECT session AS number FROM origin WHERE branch = $1 AND session > $2
                         ORDER BY session LIMIT 1000) AS near
                     WHERE (SELECT machine FROM session_machine WHERE session = number)
                         IS NOT DISTINCT FROM CAST($3 AS BIGINT)
                     ORDER BY number LIMIT 1"
                ),
            ],
            (None, _) => [
                sql!(
                    "SELECT number FROM (
                         SELECT number FROM session WHERE number < $1
                         ORDER BY number DESC LIMIT 1000) AS near
                     WHERE (SELECT branch FROM origin WHERE session = number) IS NULL
                     AND (SELECT machine FROM session_machine WHERE session = number)
                         IS NOT DISTINCT FROM CAST($2 AS BIGINT)
                     ORDER BY number DESC LIMIT 1"
                ),
                sql!(
                    "SELECT number FROM (
                         SELECT number FROM session WHERE number > $1
                         ORDER BY number LIMIT 1000) AS near
                     WHERE (SELECT branch FROM origin WHERE session = number) IS NULL
                     AND (SELECT machine FROM session_machine WHERE session = number)
                         IS NOT DISTINCT FROM CAST($2 AS BIGINT)
                     ORDER BY number LIMIT 1"
                ),
            ],
        };
        let given: &[Given<'_>] = match &branch {
            Some(branch) => given![branch, number, machine],
            None => given![number, machine],
        };
        Ok([
            self.first_row(before, given, |row| row.get(0))?,
            self.first_row(after, given, |row| row.get(0))?,
        ])
    }

    /// The number of the newest session; 0 where there is none.
    ///
    /// # Errors
    /// The file fails.
    pub fn newest_number(&self) -> anyhow::Result<i64> {
        let sql = sql!("SELECT coalesce(max(number), 0) FROM session");
        let found = self.first_row(sql, given![], |row| row.get(0))?;
        Ok(found.unwrap_or(0))
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

    /// What the machines of [`Store::machines`] are called, by their numbers, in the same order.
    ///
    /// # Errors
    /// The file fails.
    pub fn machine_titles(&self) -> anyhow::Result<Vec<(i64, String)>> {
        let sql = sql!(
            "SELECT number, id, name, label, class FROM machine ORDER BY last_unix_ms DESC, number"
        );
        self.rows(sql, given![], |row| {
            Ok((row.get(0)?, machine_at(row, 1)?.title().to_owned()))
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
                machine: machine_at(row, 1)?,
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

    /// Names of branches of which sessions are known, and of tags: of each the 200 that were measured last.
    ///
    /// # Errors
    /// The file fails.
    pub fn branches_and_tags(&self) -> anyhow::Result<[Vec<String>; 2]> {
        // From one name to the next by the index, in as many steps as there are names, not sessions.
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
            self.rows(branches, given![], |row| row.get(0))?,
            self.rows(tags, given![], |row| row.get(0))?,
        ])
    }

    /// Ids of the measured revisions that begin so, the newest first.
    ///
    /// # Errors
    /// The file fails.
    pub fn revisions_beginning(&self, beginning: &str, most: usize) -> anyhow::Result<Vec<String>> {
        if is_of_a_commit(beginning) {
            let sql = sql!(
                "SELECT revision FROM origin WHERE revision >= $1 AND revision < $2
                 AND substr(revision, 1, length(CAST($1 AS TEXT))) = $1
                 GROUP BY revision ORDER BY max(session) DESC, revision COLLATE {{binary}} LIMIT $3"
            );
            let end = end_of_commits(beginning);
            return self.rows(sql, given![beginning, &end, most as i64], |row| row.get(0));
        }
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

/// A machine whose id, name, label and class stand from this column on.
pub(super) fn machine_at(row: Row<'_>, at: usize) -> Result<Machine, Error> {
    Ok(Machine {
        id: row.get(at)?,
        name: row.get(at + 1)?,
        label: row.get(at + 2)?,
        class: row.get(at + 3)?,
    })
}

pub(super) fn count(row: Row<'_>, at: usize) -> Result<usize, Error> {
    row.get::<i64>(at).map(|count| count.max(0) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::back_end_tests::{places, session};

    #[test]
    fn a_change_is_noticed_and_one_elsewhere_is_none() {
        for place in places() {
            let mut writer = place.open();
            let elsewhere = writer.add_project("other").unwrap();
            let mut elsewhere = Store::open(&writer.path_of(&elsewhere).unwrap()).unwrap();
            let watcher = Store::open_to_watch(&place.path()).unwrap();
            let before = watcher.data_version().unwrap();
            elsewhere.insert(&session("x")).unwrap();
            assert_eq!(watcher.data_version().unwrap(), before, "other tables");
            writer.insert(&session("y")).unwrap();
            let after = watcher.data_version().unwrap();
            assert_ne!(after, before, "known at the next question");
            // Whoever waits hears of it, and does not wait to the end.
            let writing = std::thread::scope(|scope| {
                let wait = scope.spawn(|| {
                    let path = place.path();
                    let waiter = Store::open_to_watch(&path).unwrap();
                    let before = waiter.data_version().unwrap();
                    for _ in 0..400 {
                        waiter.await_change(Duration::from_secs(60)).unwrap();
                        if waiter.data_version().unwrap() != before {
                            return true;
                        }
                    }
                    false
                });
                // It may begin to wait at any time, so it is told until it has heard.
                for number in 0.. {
                    writer.insert(&session(&format!("z{number}"))).unwrap();
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
