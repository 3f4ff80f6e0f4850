//! Checks whether figures are plausible: conservation, Little's law, duplicate records and
//! environment, for any session, measured by Speedwell or published by others.
//!
//! Decides what is found and what to do about it; changes no figure and knows no format. Related
//! checks share a file; the cells that they all examine are in `cells.rs`. Start at [`check`].

mod cells;
mod circumstances;
mod direction;
mod finding;
mod identical;
mod impossible;
mod parts;
mod records;
mod rounding;
mod sizes;
#[cfg(test)]
mod tests;

pub use cells::Known;
pub(super) use direction::refuse;
pub use finding::{Check, Finding, Level, joined};
pub(super) use parts::{Checked, needs_all_cells};

use cells::Cells;
use records::{Digests, Records};
use speedwell_model::Session;

/// Checks the figures of a session; returns findings, most severe first.
pub fn check(session: &Session, known: &Known<'_>) -> Vec<Finding> {
    let cells = Cells::of_session(session, known);
    let mut found = of_cells(&cells);
    found.push(cells::check_single_runs(&cells).into_iter().collect());
    found.push(direction::better_than_possible(&cells, known));
    found.push(Vec::from_iter(
        known.control.and_then(direction::control_differs),
    ));
    in_order(found, &cells)
}

/// Checks sides of a comparison that come from several sessions: label, session and name of the
/// compared variant.
pub(super) fn of_sides(sides: &[(&str, &Session, &str)]) -> Vec<Finding> {
    let cells = Cells::of_sides(sides);
    in_order(of_cells(&cells), &cells)
}

fn in_order(mut found: Vec<Vec<Finding>>, cells: &Cells<'_>) -> Vec<Finding> {
    let name = |id: &str| cells.name(id).to_owned();
    let (mut digests, mut records) = (Digests::default(), Records::default());
    digests.add(cells);
    records.add(cells, &digests.repeated());
    found[RECORDS] = records.findings(&name);
    finished(found, &name)
}

/// Sorts findings by severity and adds the names of their cases.
fn finished(found: Vec<Vec<Finding>>, name: &dyn Fn(&str) -> String) -> Vec<Finding> {
    let mut found: Vec<Finding> = found.into_iter().flatten().collect();
    for finding in &mut found {
        finding.names = finding.cases.iter().map(|id| name(id)).collect();
    }
    found.sort_by_key(|finding| finding.level);
    found
}

/// Indexes of two checks that accumulate over the parts of a session.
const GENERATORS: usize = 6;
const RECORDS: usize = 8;

/// Findings of each check, except for identical records, which are searched for across all cells.
fn of_cells(cells: &Cells<'_>) -> Vec<Vec<Finding>> {
    let disguise = identical::check_disguise(cells);
    let in_flight = match disguise {
        None => circumstances::check_in_flight(cells),
        Some(_) => Vec::new(),
    };
    vec![
        sizes::check_sizes(cells),
        impossible::check_impossible(cells),
        cells::failed(cells),
        in_flight,
        Vec::from_iter(disguise),
        direction::latencies(cells),
        Vec::from_iter(direction::generators(&cells.generators())),
        cells::lengths(cells),
        Vec::new(),
        identical::unnamed(cells),
        Vec::from_iter(identical::check_reach(cells)),
        circumstances::check_machine(cells),
    ]
}
