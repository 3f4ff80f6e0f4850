//! Tables of single runs, from which nothing can be learnt about noise.

use super::cells::Cells;
use super::{Check, Finding, Level};

const REMEDY: &str = "Measure each side at least 8 times, in random order ('speedwell compare'); until then \
    take no difference for an effect.";

/// The finding, if several figures were published and each is one run.
pub(super) fn check(cells: &Cells<'_>) -> Option<Finding> {
    let mut runs = cells.cells.iter().flat_map(|cell| &cell.runs);
    // A bare figure does not even tell how long its run was.
    let is_bare =
        runs.all(|run| run.wall_ns == 0 && run.samples.iter().all(|s| s.iterations.is_none()));
    let is_single = cells.cells.len() > 1 && cells.cells.iter().all(|cell| cell.runs.len() == 1);
    if !cells.is_imported || !is_single || (cells.variants.len() < 2 && !is_bare) {
        return None;
    }
    let says = format!(
        "Each of the {} cells is a single run, in an order that nobody knows: nothing is known about noise, \
         and a difference may be chance.",
        cells.cells.len()
    );
    Some(Finding::new(Check::SingleRuns, Level::Amber, says, REMEDY))
}
