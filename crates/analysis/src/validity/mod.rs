//! Checks whether the figures of a session are plausible. The figures may have been measured by
//! Speedwell or published by others.
//!
//! The checks use the sizes of responses, Little's law, duplicate records and the environment. They
//! decide which problems are reported, with which advice. They change no figure and do not depend
//! on file formats. Related checks share a file; the cells that they all examine are in `cells.rs`.
//! Start at [`check_session`].

mod cells;
mod direction;
mod finding;
mod identical;
mod impossible;
mod load_conditions;
mod parts;
mod records;
mod rounding;
mod sizes;
#[cfg(test)]
mod tests;

pub use cells::KnownFacts;
pub(super) use direction::withdraw_latency_verdicts;
pub use finding::{FindingSeverity, ValidityCheck, ValidityFinding, join_names};
pub(super) use parts::{PartChecker, needs_all_cells};

use cells::CheckedCells;
use records::{RecordDigests, RecordGroups};
use speedwell_model::Session;

/// Checks the figures of a session; returns findings, most severe first.
pub fn check_session(session: &Session, facts: &KnownFacts<'_>) -> Vec<ValidityFinding> {
    let cells = CheckedCells::of_session(session, facts);
    let mut groups = check_cells(&cells);
    groups.push(cells::check_single_runs(&cells).into_iter().collect());
    groups.push(direction::check_better_than_possible(&cells, facts));
    groups.push(Vec::from_iter(facts.control.and_then(direction::check_control)));
    in_order(groups, &cells)
}

/// Checks a comparison between sessions. Each side is given by its label, its session and the name
/// of the compared variant.
pub(super) fn check_sides(sides: &[(&str, &Session, &str)]) -> Vec<ValidityFinding> {
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
    let restated_latency = identical::check_latency_restates_rate(cells);
    let in_flight = match restated_latency {
        None => load_conditions::check_in_flight(cells),
        Some(_) => Vec::new(),
    };
    vec![
        sizes::check_sizes(cells),
        impossible::check_impossible(cells),
        cells::check_failed_requests(cells),
        in_flight,
        Vec::from_iter(restated_latency),
        direction::check_latencies(cells),
        Vec::from_iter(direction::check_generators(&cells.known_generators())),
        cells::check_length_failures(cells),
        Vec::new(),
        identical::check_unnamed(cells),
        Vec::from_iter(identical::check_inherited_variables(cells)),
        load_conditions::check_machine(cells),
    ]
}
