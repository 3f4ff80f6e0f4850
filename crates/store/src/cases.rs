//! Reads a session case by case, because a session with ten million runs would take 15 GB of memory
//! as a whole.
//!
//! Keeps the runs of only a few cases in memory at a time. Cases are read completely, in the order
//! in which they first appear. Start at [`Store::with_session_by_cases`].

use super::Store;
use super::database::{Database, sql, sql_params};
use super::read::{RunReader, parse_json};
use anyhow::{Context, Result, bail};
use speedwell_formats::json_lines;
use speedwell_model::{Case, Run, Session, SessionState, StepFailure};
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::sync::Arc;

/// A session with more runs than this is not loaded as a whole: it would take more than 300 MB.
pub const LARGE_SESSION: usize = 200_000;

/// A part is the group of cases that is in memory at one time. Once a part holds this many runs, no
/// further case is added to it.
const MIN_RUNS_PER_PART: usize = 5_000;

/// A stored session whose runs are read a few cases at a time.
#[derive(Debug)]
pub struct SessionByCases<'s> {
    store: &'s Store,
    number: i64,
    header: Session,
    cases: Vec<StoredRuns>,
    has_loads: bool,
    min_runs_per_part: usize,
}

#[derive(Debug)]
struct StoredRuns {
    case: Case,
    /// Numbers of the case in the store; several if its parameters were reported in different
    /// orders.
    numbers: Vec<i64>,
    runs: usize,
}

impl Store {
    /// Returns the number of runs of a session, including superseded runs.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn count_runs(&self, number: i64) -> Result<usize> {
        let sql = sql!("SELECT runs FROM session_case WHERE session = $1");
        let counts: Vec<usize> = self.query_rows(sql, sql_params![number], |row| row.get(0))?;
        Ok(counts.into_iter().sum())
    }

    /// Calls `work` with a session whose runs are read a few cases at a time. All reads in `work`
    /// see the same state of the database.
    ///
    /// # Errors
    /// Fails if there is no such session, on database errors, or if `work` fails.
    pub fn with_session_by_cases<T>(
        &self,
        number: i64,
        work: impl FnOnce(&mut SessionByCases<'_>) -> Result<T>,
    ) -> Result<T> {
        self.read_snapshot(|_| work(&mut SessionByCases::new(self, number)?))
    }
}

impl<'s> SessionByCases<'s> {
    /// Reads the header and the cases, within an open transaction.
    pub(super) fn new(store: &'s Store, number: i64) -> Result<SessionByCases<'s>> {
        let load = sql!("SELECT seq FROM load WHERE session = $1 LIMIT 1");
        let load: Option<i64> =
            store.database.query_first(load, sql_params![number], |row| row.get(0))?;
        Ok(SessionByCases {
            store,
            number,
            header: store.load_header_and_failures(number)?,
            cases: load_cases(&store.database, number)?,
            has_loads: load.is_some(),
            min_runs_per_part: MIN_RUNS_PER_PART,
        })
    }

    /// If the session is still marked as running, because its process was killed, marks it as
    /// interrupted.
    pub(super) fn into_ended(mut self) -> SessionByCases<'s> {
        if self.header.state == SessionState::Running {
            self.header.state = SessionState::Interrupted;
        }
        self
    }

    /// Returns the session without its runs.
    pub fn header(&self) -> &Session {
        &self.header
    }

    /// Returns the number of runs of the retained cases.
    pub fn total_runs(&self) -> usize {
        self.cases.iter().map(|case| case.runs).sum()
    }

    /// Returns the cases in order of first appearance.
    pub fn cases(&self) -> impl Iterator<Item = &Case> {
        self.cases.iter().map(|stored| &stored.case)
    }

    /// Returns whether some runs of the session are HTTP loads. Such runs record more than samples.
    pub fn has_loads(&self) -> bool {
        self.has_loads
    }

    /// Keeps only the wanted cases and failures.
    pub fn retain_cases(
        &mut self,
        wants_case: impl Fn(&Case) -> bool,
        wants_failure: impl Fn(&StepFailure) -> bool,
    ) {
        self.cases.retain(|stored| wants_case(&stored.case));
        self.header.failures.retain(wants_failure);
    }

    /// Sets the number of runs at which a part is complete, 5,000 by default.
    pub fn set_part_size(&mut self, runs: usize) {
        self.min_runs_per_part = runs;
    }

    /// Returns whether the session is too large to load as a whole.
    pub fn is_large(&self) -> bool {
        self.total_runs() > LARGE_SESSION
    }

    /// Loads the session like [`Store::load_session`], restricted to the retained cases.
    ///
    /// # Errors
    /// Fails on database errors, or if the database holds data that this version cannot read.
    pub fn load_whole(&self) -> Result<Session> {
        let mut reader = RunReader::new(&self.store.database, &self.header);
        let mut runs = Vec::new();
        for stored in &self.cases {
            runs.extend(self.case_runs(stored, &mut reader)?);
        }
        runs.sort_by_key(|(index, _)| *index);
        Ok(Session { runs: runs.into_iter().map(|(_, run)| run).collect(), ..self.header.clone() })
    }

    /// Passes the runs of the retained cases to `visit` in order of execution, one at a time.
    ///
    /// # Errors
    /// Fails on database errors, if the database holds data that this version cannot read, or if
    /// `visit` fails.
    pub fn for_each_run(&self, visit: &mut dyn FnMut(&Run) -> Result<()>) -> Result<()> {
        let mut reader = RunReader::new(&self.store.database, &self.header);
        let case_ids: HashSet<String> = self.cases.iter().map(|stored| stored.case.id()).collect();
        // All runs of a case share one `Case`, so compare addresses.
        let mut is_included: HashMap<*const Case, bool> = HashMap::new();
        reader.for_each_run(self.number, &mut |run| {
            let is_wanted = is_included
                .entry(Arc::as_ptr(&run.case))
                .or_insert_with(|| case_ids.contains(&run.case.id()));
            if *is_wanted { visit(&run) } else { Ok(()) }
        })
    }

    /// Writes the session as JSON Lines, one run at a time.
    ///
    /// # Errors
    /// Fails if `out` cannot be written, or the stored data cannot be read or serialized.
    pub fn write_lines(&self, out: &mut dyn Write) -> Result<()> {
        let counted = (self.header(), self.total_runs());
        json_lines::write_streaming(counted, out, |each| self.for_each_run(each))
    }

    /// Returns the runs of a case, each with its index in the order of execution. The runs are
    /// grouped by the order in which they list the parameters, and sorted only within each group.
    fn case_runs(
        &self,
        stored: &StoredRuns,
        reader: &mut RunReader<'_>,
    ) -> Result<Vec<(i64, Run)>> {
        let mut runs = Vec::new();
        for &number in &stored.numbers {
            let case_runs = reader.case_runs(self.number, number);
            runs.extend(case_runs.with_context(|| {
                let case = stored.case.id();
                format!("cannot read the runs of '{case}' in session @{}", self.number)
            })?);
        }
        Ok(runs)
    }

    /// Rejects a run whose variant the header does not list, because all parts must have the same
    /// list of variants.
    fn check_variants(&self, runs: &[Run]) -> Result<()> {
        let is_known = |run: &Run| {
            let mut variants = self.header.variants.iter();
            variants.any(|variant| *variant.name == *run.variant)
        };
        match runs.iter().find(|run| !is_known(run)) {
            None => Ok(()),
            Some(run) => bail!(
                "session @{} does not list the variant '{}' of a run of '{}'",
                self.number,
                run.variant,
                run.case.id()
            ),
        }
    }

    /// Passes the session to `visit` repeatedly, each time with the runs of the next cases.
    ///
    /// # Errors
    /// Fails on database errors, or if the database holds data that this version cannot read.
    pub fn for_each_part(&self, visit: &mut dyn FnMut(&Session)) -> Result<()> {
        let mut reader = RunReader::new(&self.store.database, &self.header);
        let mut part = self.header.clone();
        for (index, stored) in self.cases.iter().enumerate() {
            let mut runs = self.case_runs(stored, &mut reader)?;
            if stored.numbers.len() > 1 {
                runs.sort_by_key(|(_, run)| run.slot);
            }
            let old_count = part.runs.len();
            part.runs.extend(runs.into_iter().map(|(_, run)| run));
            self.check_variants(&part.runs[old_count..])?;
            let is_last = index + 1 == self.cases.len();
            if part.runs.len() >= self.min_runs_per_part || is_last {
                visit(&part);
                part.runs.clear();
            }
        }
        Ok(())
    }
}

/// Returns the cases of a session in order of first appearance.
fn load_cases(file: &Database, session: i64) -> Result<Vec<StoredRuns>> {
    let mut statement = file.prepare(sql!(
        "SELECT benchmark_case.number, benchmark, parameters, runs
         FROM (SELECT benchmark_case AS own, count(*) AS runs, min(seq) AS first FROM run
               WHERE session = $1 AND superseded IS NULL GROUP BY benchmark_case) AS counted
         JOIN benchmark_case ON benchmark_case.number = own ORDER BY first"
    ))?;
    let mut rows = statement.query(sql_params![session])?;
    let mut found: Vec<StoredRuns> = Vec::new();
    let mut by_id: HashMap<String, usize> = HashMap::new();
    while let Some(row) = rows.next()? {
        let number = row.get(0)?;
        let case = Case::new(row.get::<String>(1)?, parse_json(row.get(2)?)?);
        let runs: usize = row.get(3)?;
        let index = *by_id.entry(case.id()).or_insert(found.len());
        match found.get_mut(index) {
            Some(stored) => {
                stored.numbers.push(number);
                stored.runs += runs;
            }
            None => found.push(StoredRuns { case, numbers: vec![number], runs }),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_fixtures::FakeSession;
    use std::collections::BTreeSet;

    /// Returns a stored session with two cases. The second case is stored with two orders of its
    /// parameters.
    fn stored_session() -> (Store, i64, Session) {
        let mut session = FakeSession::with_fixed_blocks(&["old", "new"], 3)
            .add_case("a n=1", |_, run| f64::from(run))
            .add_case("b k=2 n=1", |_, run| f64::from(run))
            .add_case("b n=1 k=2", |_, run| f64::from(run))
            .build();
        for (run, slot) in session.runs.iter_mut().zip(0..) {
            run.slot = slot;
        }
        let mut store = Store::in_memory().unwrap();
        let number = store.insert_session(&session).unwrap();
        (store, number, session)
    }

    #[test]
    fn parts_have_whole_cases_and_together_all_runs() {
        let (store, number, session) = stored_session();
        assert_eq!(store.count_runs(number).unwrap(), session.runs.len());
        let mut parts: Vec<Vec<Run>> = Vec::new();
        let read = store.with_session_by_cases(number, |stored| {
            assert_eq!(stored.total_runs(), session.runs.len());
            stored.set_part_size(1);
            stored.for_each_part(&mut |part| parts.push(part.runs.clone()))
        });
        read.unwrap();
        assert_eq!(parts.len(), 2, "two orders of parameters are one case");
        assert_eq!(parts.concat(), session.runs);
    }

    #[test]
    fn selected_cases_have_the_same_runs_as_in_the_whole_session() {
        let (store, number, session) = stored_session();
        for case_name in ["", "a", "b"] {
            let is_wanted = |case: &Case| case_name.is_empty() || case.benchmark == case_name;
            let read = store.with_session_by_cases(number, |stored| {
                stored.retain_cases(is_wanted, |_| true);
                let mut runs = Vec::new();
                stored.for_each_run(&mut |run| {
                    runs.push(run.clone());
                    Ok(())
                })?;
                Ok((stored.load_whole()?, runs))
            });
            let (whole, runs) = read.unwrap();
            let mut expected = store.load_session(number).unwrap();
            expected.runs.retain(|run| is_wanted(&run.case));
            assert_eq!(whole, expected);
            assert_eq!(runs, expected.runs);
            let (mut in_turn, mut together) = (Vec::new(), Vec::new());
            if case_name.is_empty() {
                store.write_lines(number, &mut in_turn).unwrap();
                json_lines::write(&expected, &mut together).unwrap();
            }
            assert_eq!(in_turn, together);
            assert!(!runs.is_empty() && runs.len() <= session.runs.len());
        }
    }

    #[test]
    fn loading_runs_by_slot_returns_exactly_the_requested_slots() {
        let (store, number, session) = stored_session();
        let slots = BTreeSet::from([2, 3, 20]);
        let found = store.load_slot_runs(number, &slots).unwrap();
        let mut wanted = session.runs;
        wanted.retain(|run| slots.contains(&run.slot));
        assert_eq!(found, wanted);
        let header = store.load_session_without_runs(number).unwrap();
        assert!(header.runs.is_empty() && header.metrics == session.metrics);
    }
}
