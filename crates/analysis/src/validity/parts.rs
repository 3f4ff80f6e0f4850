//! Checks for sessions that are read in parts, each with all runs of its cases.
//!
//! Decides for which sessions that is possible: some checks, for HTTP loads and imported files,
//! compare cases with each other. Start at [`needs_all_cells`], then [`Checked::add`].

use super::cells::{Cells, Known, LOADS, check_single_runs, short_names};
use super::direction::generators;
use super::records::{Digests, Records};
use super::{Finding, GENERATORS, RECORDS, circumstances, finished, of_cells};
use speedwell_model::{Case, Session, State};
use std::collections::HashSet;
use std::sync::Arc;

/// Whether checks would compare the cases of this session with each other; does not look at runs.
pub(crate) fn needs_all_cells(session: &Session) -> bool {
    let loads = LOADS.iter().copied().chain(circumstances::limited());
    let mut names = loads.chain(["http_errors"]);
    session.state == State::Imported || names.any(|name| session.metric(name).is_some())
}

/// Findings so far.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    found: Vec<Vec<Finding>>,
    cases: Vec<Arc<Case>>,
    generators: Vec<String>,
    digests: Digests,
    records: Records,
}

impl Checked {
    /// Checks a part.
    pub fn add(&mut self, part: &Session) {
        let cells = Cells::of_session(part, &Known::default());
        let mut found = of_cells(&cells);
        // Applies to imported files, which come in one part.
        found.push(Vec::from_iter(check_single_runs(&cells)));
        self.found.resize_with(found.len(), Vec::new);
        for (all, found) in self.found.iter_mut().zip(found) {
            all.extend(found);
        }
        for name in cells.generators() {
            if !self.generators.contains(&name) {
                self.generators.push(name);
            }
        }
        self.cases.extend(cells.first_cases());
        self.digests.add(&cells);
    }

    /// Digests that several runs share; if there are any, all parts must be read again.
    pub fn repeated(&mut self) -> HashSet<u64> {
        self.digests.repeated()
    }

    /// Checks a part for the second time, for repeated records only.
    pub fn look_again(&mut self, part: &Session, repeated: &HashSet<u64>) {
        let cells = Cells::of_session(part, &Known::default());
        self.records.add(&cells, repeated);
    }

    /// All findings, most severe first.
    pub fn findings(mut self) -> Vec<Finding> {
        let names = short_names(&self.cases);
        let name = |id: &str| names.get(id).map_or(id, String::as_str).to_owned();
        if !self.found.is_empty() {
            self.found[RECORDS] = self.records.findings(&name);
            self.found[GENERATORS] = Vec::from_iter(generators(&self.generators));
        }
        finished(self.found, &name)
    }
}
