//! Keeps the results that lists of sessions show, so that each session is analyzed once.
//!
//! The result of a session depends only on its runs, not on other sessions. A list analyzes a
//! limited number of runs; the results of the other sessions appear when the list is opened again.

use crate::http::{HttpError, lock};
use speedwell_analysis::AnalysisSettings;
use speedwell_model::stored::SessionOverview;
use speedwell_report::{SessionResult, session_result};
use speedwell_store::Store;
use std::collections::HashMap;
use std::sync::Mutex;

/// Maximum number of runs of a session whose result is shown.
const MAX_SESSION_RUNS: usize = 2_000;
/// Maximum number of runs that one request analyzes.
const MAX_REQUEST_RUNS: usize = 20_000;
/// Maximum number of results kept.
const MAX_RESULTS: usize = 4_096;

/// The results of sessions.
#[derive(Debug, Default)]
pub struct ResultCache {
    /// The results by session id.
    results: Mutex<HashMap<String, CountedResult>>,
}

/// The numbers of runs and failures of a session, and the result that was computed from them.
type CountedResult = ((usize, usize), SessionResult);

impl ResultCache {
    /// Returns the known results of these sessions, by number. Analyzes sessions that have ended
    /// and whose result is not known yet.
    ///
    /// # Errors
    /// Fails if `settings` fails. A session that cannot be loaded has no result.
    pub fn find_results(
        &self,
        store: &Store,
        sessions: &[SessionOverview],
        settings: &dyn Fn() -> anyhow::Result<AnalysisSettings>,
    ) -> Result<HashMap<i64, SessionResult>, HttpError> {
        let mut found = HashMap::new();
        let mut remaining_runs = MAX_REQUEST_RUNS;
        let mut known_settings = None;
        for session in sessions {
            if session.is_running() || session.runs > MAX_SESSION_RUNS {
                continue;
            }
            // A session may be resumed.
            let counts = (session.runs, session.failures);
            let known = lock(&self.results).get(&session.id).cloned();
            if let Some((_, result)) = known.filter(|(known_counts, _)| *known_counts == counts) {
                found.insert(session.number, result);
                continue;
            }
            // Even a session without runs takes some time.
            let Some(rest) = remaining_runs.checked_sub(session.runs.max(20)) else {
                continue;
            };
            remaining_runs = rest;
            if known_settings.is_none() {
                known_settings = Some(settings()?);
            }
            let stored = store.load_session(session.number).ok();
            let (Some(stored), Some(settings)) = (stored, &known_settings) else {
                continue;
            };
            let result = session_result(&stored, settings);
            let mut results = lock(&self.results);
            if results.len() >= MAX_RESULTS {
                results.clear();
            }
            results.insert(session.id.clone(), (counts, result.clone()));
            found.insert(session.number, result);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::SessionState;
    use std::cell::Cell;

    #[test]
    fn a_session_is_analyzed_once_until_it_has_more_runs() {
        let lines = include_str!("../../../speedwell/tests/golden/json-lines/timeit.jsonl");
        let session = speedwell_formats::json_lines::read(lines).unwrap().remove(0);
        let mut store = Store::in_memory().unwrap();
        let number = store.insert_session(&session).unwrap();
        let mut overview = store.find_overview(number).unwrap().unwrap();
        let analyzed = Cell::new(0);
        let settings = || -> anyhow::Result<AnalysisSettings> {
            analyzed.set(analyzed.get() + 1);
            Ok(AnalysisSettings::default())
        };
        let cache = ResultCache::default();
        let find = |overview: &SessionOverview| {
            let found = cache.find_results(&store, std::slice::from_ref(overview), &settings);
            found.unwrap().remove(&number)
        };
        let first = find(&overview).unwrap();
        assert!(!first.text.is_empty());
        assert_eq!(find(&overview), Some(first));
        assert_eq!(analyzed.get(), 1);
        overview.runs += 1;
        find(&overview).unwrap();
        assert_eq!(analyzed.get(), 2);
        overview.state = SessionState::Running;
        assert_eq!(find(&overview), None, "it is being measured");
    }
}
