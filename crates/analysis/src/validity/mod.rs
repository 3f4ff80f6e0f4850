//! Checks whether the figures of a session are plausible. The figures may have been measured by
//! Speedwell or published by others.
//!
//! The checks use the sizes of responses, Little's law, duplicate records and the environment. They
//! decide which problems are reported, with which advice. They change no figure and do not depend
//! on file formats. Related checks share a file; the cells that they all examine are in `cells.rs`.
//! Start at [`check_session`].
//!
//! A session may be read in parts, each with all runs of its cases. HTTP loads and imported files
//! cannot, because some of their checks compare cases with each other. Start at
//! [`needs_all_cells`], then [`PartChecker::add_part`].

mod cells;
mod copies;
mod finding;
mod impossible;
mod loads;
#[cfg(test)]
mod tests;

pub use cells::KnownFacts;
pub use finding::{FindingSeverity, ValidityCheck, ValidityFinding, join_names};
pub(super) use loads::withdraw_latency_verdicts;

use crate::grid::SourceSide;
use crate::warnings::add_distinct;
use cells::{CheckedCells, LOADS, check_single_runs, short_names};
use copies::{RecordDigests, RecordGroups};
use speedwell_model::{Case, Session, SessionState};
use std::collections::HashSet;
use std::sync::Arc;

/// Checks the figures of a session; returns findings, most severe first.
pub fn check_session(session: &Session, facts: &KnownFacts<'_>) -> Vec<ValidityFinding> {
    let cells = CheckedCells::of_session(session, facts);
    let mut groups = check_cells(&cells);
    groups.push(check_single_runs(&cells).into_iter().collect());
    groups.push(loads::check_better_than_possible(&cells, facts));
    groups.push(Vec::from_iter(facts.control.and_then(loads::check_control)));
    in_order(groups, &cells)
}

/// Checks a comparison between sessions. Each side is given by its label, its session and the name
/// of the compared variant.
pub(super) fn check_sides(sides: &[SourceSide<'_, '_>]) -> Vec<ValidityFinding> {
    let cells = CheckedCells::of_sides(sides);
    in_order(check_cells(&cells), &cells)
}

fn in_order(
    mut groups: Vec<Vec<ValidityFinding>>,
    cells: &CheckedCells<'_>,
) -> Vec<ValidityFinding> {
    let name = |id: &str| cells.case_name(id).to_owned();
    let (mut digests, mut records) = (RecordDigests::default(), RecordGroups::default());
    digests.add_cells(cells);
    records.add_cells(cells, &digests.take_repeated());
    groups[RECORDS_INDEX] = records.group_findings(&name);
    sort_findings(groups, &name)
}

/// Sorts findings by severity and adds the names of their cases.
fn sort_findings(
    groups: Vec<Vec<ValidityFinding>>,
    name: &dyn Fn(&str) -> String,
) -> Vec<ValidityFinding> {
    let mut findings: Vec<ValidityFinding> = groups.into_iter().flatten().collect();
    for finding in &mut findings {
        finding.names = finding.cases.iter().map(|id| name(id)).collect();
    }
    findings.sort_by_key(|finding| finding.level);
    findings
}

/// Index of the findings about generators in the result of [`check_cells`]. The check of generators
/// needs all parts of a session.
const GENERATORS_INDEX: usize = 6;
/// Index of the findings about identical records in the result of [`check_cells`].
const RECORDS_INDEX: usize = 8;

/// Findings of the checks that apply to single sessions and to sides of a comparison, one list per
/// check, in a fixed order. The list of findings about identical records is left empty, because the
/// callers search for identical records across all cells.
fn check_cells(cells: &CheckedCells<'_>) -> Vec<Vec<ValidityFinding>> {
    let restated_latency = copies::check_latency_restates_rate(cells);
    let is_restated = restated_latency.is_some();
    let in_flight = if is_restated { Vec::new() } else { loads::check_in_flight(cells) };
    vec![
        impossible::check_sizes(cells),
        cells.cells.iter().flat_map(|cell| impossible::check_impossible(cells, cell)).collect(),
        cells::check_failed_requests(cells),
        in_flight,
        Vec::from_iter(restated_latency),
        cells.cells_by_case().filter_map(|case| loads::check_latencies(cells, case)).collect(),
        Vec::from_iter(loads::check_generators(&cells.known_generators())),
        cells::check_length_failures(cells),
        Vec::new(),
        copies::check_unnamed(cells),
        Vec::from_iter(copies::check_inherited_variables(cells)),
        loads::check_machine(cells),
    ]
}

/// Whether some check compares the cases of this session with each other. If so, the session must
/// be read as a whole. Does not look at runs.
pub(crate) fn needs_all_cells(session: &Session) -> bool {
    let loads = LOADS.iter().copied().chain(loads::limited_metrics());
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
        add_distinct(&mut self.generators, cells.known_generators());
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
            self.found[GENERATORS_INDEX] =
                Vec::from_iter(loads::check_generators(&self.generators));
        }
        sort_findings(self.found, &name)
    }
}
