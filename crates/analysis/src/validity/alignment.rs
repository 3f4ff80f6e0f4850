//! Rows of a column that belong to other rows, told by the sizes of their answers.
//!
//! Decides when the sizes of a candidate are those of the baseline in another order, which row is which
//! then, and what the changes would be. Start at [`check`].

use super::cells::{Cells, typical};
use super::conservation::{Sizes, differ};
use super::names::joined;
use super::{Check, Finding, Level};

const REMEDY: &str = "Go back to the raw results and join the columns by name, never by position.";

/// Rows from which a column in falling order is no accident.
const FEWEST_SORTED: usize = 4;

/// The finding, if the rows that differ are a permutation of each other, and only one fits.
pub(super) fn check(
    cells: &Cells<'_>,
    sizes: &[Sizes<'_>],
    baseline: &str,
    candidate: &str,
) -> Option<Finding> {
    let moved: Vec<&Sizes<'_>> = sizes
        .iter()
        .filter(|row| differ(&row.baseline, &row.candidate))
        .collect();
    let order = only_matching(&moved)?;
    let pairs: Vec<(String, String)> = moved
        .iter()
        .zip(&order)
        .map(|(row, &like)| (row.case.to_owned(), moved[like].case.to_owned()))
        .collect();
    let looks: Vec<String> = pairs
        .iter()
        .map(|(row, like)| {
            format!(
                "row '{}' looks like '{}'",
                cells.name(row),
                cells.name(like)
            )
        })
        .collect();
    let says = format!(
        "The responses under '{candidate}' have the sizes of those under '{baseline}' in another order: \
         {}.{}{}",
        joined(&looks),
        rejoined(cells, &pairs, baseline, candidate),
        sorted(cells, baseline, candidate)
    );
    Some(Finding {
        cases: pairs.iter().map(|(row, _)| row.clone()).collect(),
        variants: vec![candidate.to_owned()],
        pairs,
        ..Finding::new(Check::MisalignedRows, Level::Red, says, REMEDY)
    })
}

/// For every row the row whose baseline it looks like. `None` if there is no way to pair all rows, or
/// more than one: where a pairing is the only one, some row has a single partner at every step.
fn only_matching(rows: &[&Sizes<'_>]) -> Option<Vec<usize>> {
    let fits = |row: &usize, like: &usize| !differ(&rows[*row].candidate, &rows[*like].baseline);
    let mut free: Vec<usize> = (0..rows.len()).collect();
    let mut open = free.clone();
    let mut order = vec![0; rows.len()];
    while !open.is_empty() {
        let partners = |row: &usize| free.iter().filter(|like| fits(row, like)).count();
        let at = open.iter().position(|row| partners(row) == 1)?;
        let row = open.remove(at);
        let at = free.iter().position(|like| fits(&row, like))?;
        order[row] = free.remove(at);
    }
    (rows.len() > 1).then_some(order)
}

/// What the changes of throughput would be with the rows where they belong.
fn rejoined(
    cells: &Cells<'_>,
    pairs: &[(String, String)],
    baseline: &str,
    candidate: &str,
) -> String {
    let mut changes = Vec::new();
    for (row, like) in pairs {
        let (Some(old), Some(new)) = (rate(cells, like, baseline), rate(cells, row, candidate))
        else {
            return String::new();
        };
        let percent = 100.0 * (new / old - 1.0);
        changes.push(format!("{percent:+.0} % for '{}'", cells.name(like)));
    }
    format!(" Joined so, throughput changes by {}.", joined(&changes))
}

fn rate(cells: &Cells<'_>, case: &str, variant: &str) -> Option<f64> {
    let is_it = |cell: &&super::cells::Cell<'_>| cell.case == case && *cell.variant == *variant;
    let cell = cells.cells.iter().find(is_it)?;
    typical(&cell.runs, |run| Some(cells.rate(run)?.value))
}

/// Whether both columns fall from row to row, as they do when each was sorted by itself.
fn sorted(cells: &Cells<'_>, baseline: &str, candidate: &str) -> String {
    let falls = |variant: &str| {
        let column: Vec<f64> = cells
            .cells
            .iter()
            .filter(|cell| *cell.variant == *variant)
            .filter_map(|cell| typical(&cell.runs, |run| Some(cells.rate(run)?.value)))
            .collect();
        let is_falling = column.is_sorted_by(|a, b| a > b);
        let is_rising = column.is_sorted_by(|a, b| a < b);
        column.len() >= FEWEST_SORTED && (is_falling || is_rising)
    };
    if falls(baseline) && falls(candidate) {
        " Either column is in the order of its own rates, as if each had been sorted by itself."
            .to_owned()
    } else {
        String::new()
    }
}
