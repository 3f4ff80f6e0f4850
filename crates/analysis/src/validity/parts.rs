//! Checks a session that is read in parts. Each part has all runs of its cases.
//!
//! Decides which sessions cannot be read in parts. These are HTTP loads and imported files, because
//! some of their checks compare cases with each other. Start at [`needs_all_cells`], then
//! [`PartChecker::add_part`].

use super::cells::{CheckedCells, KnownFacts, LOADS, check_single_runs, short_names};
use super::direction::check_generators;
use super::records::{RecordDigests, RecordGroups};
use super::{
    GENERATORS_INDEX, RECORDS_INDEX, ValidityFinding, check_cells, load_conditions, sort_findings,
};
use speedwell_model::{Case, Session, SessionState};
use std::collections::HashSet;
use std::sync::Arc;

/// Whether some check compares the cases of this session with each other. If so, the session must
/// be read as a whole. Does not look at runs.
pub(crate) fn needs_all_cells(session: &Session) -> bool {
    let loads = LOADS.iter().copied().chain(load_conditions::limited_metrics());
    let mut names = loads.chain(["http_errors"]);
    session.state == SessionState::Imported || names.any(|name| session.metric(name).is_some())
}

/// What the checks found in the parts that were added so far.
#[derive(Debug, Default)]
pub(crate) struct PartChecker {
    found: Vec<Vec<ValidityFinding>>,
    cases: Vec<Arc<Case>>,
    generators: Vec<String>,
    digests: RecordDigests,
    records: RecordGroups,
}

impl PartChecker {
    /// Checks a part.
    pub fn add_part(&mut self, part: &Session) {
        let cells = CheckedCells::of_session(part, &KnownFacts::default());
        let mut found = check_cells(&cells);
        // This check applies only to imported files, which always come in one part.
        found.push(Vec::from_iter(check_single_runs(&cells)));
        self.found.resize_with(found.len(), Vec::new);
        for (all, found) in self.found.iter_mut().zip(found) {
            all.extend(found);
        }
        for name in cells.known_generators() {
            if !self.generators.contains(&name) {
                self.generators.push(name);
            }
        }
        self.cases.extend(cells.first_cases());
        self.digests.add_cells(&cells);
    }

    /// Digests that several runs share. If there are such digests, all parts must be read again and
    /// passed to [`PartChecker::add_records`].
    pub fn repeated_digests(&mut self) -> HashSet<u64> {
        self.digests.take_repeated()
    }

    /// Checks a part for the second time, for repeated records only.
    pub fn add_records(&mut self, part: &Session, repeated: &HashSet<u64>) {
        let cells = CheckedCells::of_session(part, &KnownFacts::default());
        self.records.add_cells(&cells, repeated);
    }

    /// All findings, most severe first.
    pub fn into_findings(mut self) -> Vec<ValidityFinding> {
        let names = short_names(&self.cases);
        let name = |id: &str| names.get(id).map_or(id, String::as_str).to_owned();
        if !self.found.is_empty() {
            self.found[RECORDS_INDEX] = self.records.group_findings(&name);
            self.found[GENERATORS_INDEX] = Vec::from_iter(check_generators(&self.generators));
        }
        sort_findings(self.found, &name)
    }
}
