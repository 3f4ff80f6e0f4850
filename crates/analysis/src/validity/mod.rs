//! Checks whether figures are plausible: conservation, Little's law, duplicate records and
//! environment, for any session, measured by Speedwell or published by others.
//!
//! Decides which problems are reported, with which advice; changes no figure, and is independent of
//! file formats. Related checks share a file; the cells that they all examine are in `cells.rs`.
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
pub fn check_session(session: &Session, known: &KnownFacts<'_>) -> Vec<ValidityFinding> {
    let cells = CheckedCells::of_session(session, known);
    let mut found = check_cells(&cells);
    found.push(cells::check_single_runs(&cells).into_iter().collect());
    found.push(direction::check_better_than_possible(&cells, known));
    found.push(Vec::from_iter(
        known.control.and_then(direction::check_control),
    ));
    in_order(found, &cells)
}

/// Checks sides of a comparison that come from several sessions: label, session and name of the
/// compared variant.
pub(super) fn check_sides(sides: &[(&str, &Session, &str)]) -> Vec<ValidityFinding> {
    let cells = CheckedCells::of_sides(sides);
    in_order(check_cells(&cells), &cells)
}

fn in_order(
    mut found: Vec<Vec<ValidityFinding>>,
    cells: &CheckedCells<'_>,
) -> Vec<ValidityFinding> {
    let name = |id: &str| cells.case_name(id).to_owned();
    let (mut digests, mut records) = (RecordDigests::default(), RecordGroups::default());
    digests.add_cells(cells);
    records.add_cells(cells, &digests.take_repeated());
    found[RECORDS_INDEX] = records.group_findings(&name);
    sort_findings(found, &name)
}

/// Sorts findings by severity and adds the names of their cases.
fn sort_findings(
    found: Vec<Vec<ValidityFinding>>,
    name: &dyn Fn(&str) -> String,
) -> Vec<ValidityFinding> {
    let mut found: Vec<ValidityFinding> = found.into_iter().flatten().collect();
    for finding in &mut found {
        finding.names = finding.cases.iter().map(|id| name(id)).collect();
    }
    found.sort_by_key(|finding| finding.level);
    found
}

/// Indexes of two checks that accumulate over the parts of a session.
const GENERATORS_INDEX: usize = 6;
const RECORDS_INDEX: usize = 8;

/// Findings of each check, except for identical records, which are searched for across all cells.
fn check_cells(cells: &CheckedCells<'_>) -> Vec<Vec<ValidityFinding>> {
    let disguise = identical::check_disguise(cells);
    let in_flight = match disguise {
        None => load_conditions::check_in_flight(cells),
        Some(_) => Vec::new(),
    };
    vec![
        sizes::check_sizes(cells),
        impossible::check_impossible(cells),
        cells::check_failed_requests(cells),
        in_flight,
        Vec::from_iter(disguise),
        direction::check_latencies(cells),
        Vec::from_iter(direction::check_generators(&cells.known_generators())),
        cells::check_length_failures(cells),
        Vec::new(),
        identical::check_unnamed(cells),
        Vec::from_iter(identical::check_reach(cells)),
        load_conditions::check_machine(cells),
    ]
}
