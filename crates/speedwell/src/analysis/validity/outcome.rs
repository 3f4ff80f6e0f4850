//! What became of the requests: other statuses, failures, and failures that are none.
//!
//! Decides which counts a reader must not overlook. Start at [`failed`] and [`lengths`].

use super::cells::{Cell, Cells, failed_by_length, failed_requests, requests_of};
use super::names::of_runs;
use super::{Check, Finding, Level};
use crate::model::Run;

/// Requests that got no answer, or one that says that something is wrong.
pub(super) fn failed(cells: &Cells<'_>) -> Vec<Finding> {
    let remedy = "Find out what was answered and repair it before measuring: the rate is not that of a \
                  working server.";
    let bad = |run: &Run| failed_requests(run) + run.value_of("http_non2xx").unwrap_or(0.0);
    let of_cell = |cell| {
        let (runs, run) = runs_with(cell, |run| bad(run) > 0.0)?;
        let counts = [
            ("errors", failed_requests(run)),
            (
                "answers other than 2xx",
                run.value_of("http_non2xx").unwrap_or(0.0),
            ),
        ];
        let counts: Vec<String> = counts
            .iter()
            .filter(|(_, count)| *count > 0.0)
            .map(|(what, count)| format!("{count} {what}"))
            .collect();
        let says = format!(
            "{}{} requests failed ({}){}.",
            bad(run),
            of_all(run),
            counts.join(", "),
            of_runs(&runs, cell.runs.len())
        );
        Some(Finding {
            cases: vec![cell.case.clone()],
            variants: cells.variant_of(cell),
            runs,
            ..Finding::new(Check::FailedRequests, Level::Red, says, remedy)
        })
    };
    cells.cells.iter().filter_map(of_cell).collect()
}

/// Failures that ab counts because the length of a body is not that of the first one.
pub(super) fn lengths(cells: &Cells<'_>) -> Vec<Finding> {
    let remedy =
        "Measure with 'ab -l', which does not count them, and check the answers by their content.";
    let of_cell = |cell| {
        let (runs, run) = runs_with(cell, |run| failed_by_length(run).is_some())?;
        let says = format!(
            "{}{} requests failed by the length of the body alone, which ab compares with that of the \
             first answer{}: probably no failures.",
            failed_by_length(run)?,
            of_all(run),
            of_runs(&runs, cell.runs.len())
        );
        Some(Finding {
            cases: vec![cell.case.clone()],
            variants: cells.variant_of(cell),
            runs,
            ..Finding::new(Check::LengthFailures, Level::Amber, says, remedy)
        })
    };
    cells.cells.iter().filter_map(of_cell).collect()
}

/// The numbers of the runs for which something holds, and the first of them.
fn runs_with<'s>(cell: &Cell<'s>, holds: impl Fn(&Run) -> bool) -> Option<(Vec<usize>, &'s Run)> {
    let numbered = cell.runs.iter().zip(1..);
    let found: Vec<(usize, &Run)> = numbered
        .filter(|(run, _)| holds(run))
        .map(|(run, number)| (number, *run))
        .collect();
    let (_, first) = *found.first()?;
    Some((found.iter().map(|(number, _)| *number).collect(), first))
}

fn of_all(run: &Run) -> String {
    requests_of(run).map_or(String::new(), |all| format!(" of {all}"))
}
