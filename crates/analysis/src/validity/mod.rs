//! Whether figures can be what they are said to be: checks of conservation, of Little's law, of
//! records and of circumstances, on any session, measured here or published by others.
//!
//! Decides what is found and what to do about it; it changes no figure and knows no format. Checks of one kind share a
//! file; the cells that they all look at are in `cells.rs`. Start at [`check`].

mod cells;
mod circumstances;
mod direction;
mod finding;
mod identical;
mod impossible;
mod rounding;
mod sizes;
#[cfg(test)]
mod tests;

pub use cells::Known;
pub(super) use direction::refuse;
pub use finding::{Check, Finding, Level, joined};

use cells::Cells;
use speedwell_model::Session;

/// Everything that is wrong with the figures of a session, the worst first.
pub fn check(session: &Session, known: &Known<'_>) -> Vec<Finding> {
    let cells = Cells::of_session(session, known);
    let mut found = of_cells(&cells);
    found.extend(cells::check_single_runs(&cells));
    found.extend(direction::better_than_possible(&cells, known));
    found.extend(known.control.and_then(direction::control_differs));
    finished(found, &cells)
}

/// The same for sides of a comparison that come from several sessions: label, session and name of the
/// variant that takes part.
pub(super) fn of_sides(sides: &[(&str, &Session, &str)]) -> Vec<Finding> {
    let cells = Cells::of_sides(sides);
    finished(of_cells(&cells), &cells)
}

fn finished(mut found: Vec<Finding>, cells: &Cells<'_>) -> Vec<Finding> {
    for finding in &mut found {
        let names = finding.cases.iter().map(|id| cells.name(id).to_owned());
        finding.names = names.collect();
    }
    found.sort_by_key(|finding| finding.level);
    found
}

fn of_cells(cells: &Cells<'_>) -> Vec<Finding> {
    let mut found = sizes::check_sizes(cells);
    found.extend(impossible::check_impossible(cells));
    found.extend(cells::failed(cells));
    let disguise = identical::check_disguise(cells);
    if disguise.is_none() {
        found.extend(circumstances::check_in_flight(cells));
    }
    found.extend(disguise);
    found.extend(direction::latencies(cells));
    found.extend(direction::generators(cells));
    found.extend(cells::lengths(cells));
    found.extend(identical::records(cells));
    found.extend(identical::unnamed(cells));
    found.extend(identical::check_reach(cells));
    found.extend(circumstances::check_machine(cells));
    found
}
