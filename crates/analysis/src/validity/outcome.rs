//! What became of the requests: other statuses, failures, and failures that are none.
//!
//! Decides which counts a reader must not overlook. Start at [`failed`] and [`lengths`].

use super::cells::{Cell, Cells, failed_by_length, failed_requests, requests_of};
use super::names::of_runs;
use super::{Check, Finding, Level};
use speedwell_model::Run;

/// Requests that got no answer, or one that says that something is wrong.
pub(super) fn failed(cells: &Cells<'_>) -> Vec<Finding> {
    let remedy = "Find out what was answered and repair it before measuring: the rate is not that of a \
                  working server.";
    let of_cell = |cell| {
        let bad = |run: &Run| failed_requests(run) + other_statuses(run);
        let runs = Affected::of(cell, |run| bad(run) > 0.0)?;
        let counts = [
            (runs.sum(failed_requests), "errors"),
            (runs.sum(other_statuses), "answers other than 2xx"),
        ];
        let counts: Vec<String> = counts
            .iter()
            .filter(|(count, _)| *count > 0.0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        let (count, of, which) = (runs.sum(bad), runs.of_all(), runs.which());
        let says = format!(
            "{count}{of} requests failed ({}){which}.",
            counts.join(", ")
        );
        Some(runs.finding(
            cells,
            Finding::new(Check::FailedRequests, Level::Red, says, remedy),
        ))
    };
    cells.cells.iter().filter_map(of_cell).collect()
}

/// Failures that ab counts because the length of a body is not that of the first one.
pub(super) fn lengths(cells: &Cells<'_>) -> Vec<Finding> {
    let remedy =
        "Measure with 'ab -l', which does not count them, and check the answers by their content.";
    let of_cell = |cell| {
        let count = |run: &Run| failed_by_length(run).unwrap_or(0.0);
        let runs = Affected::of(cell, |run| count(run) > 0.0)?;
        let says = format!(
            "{}{} requests failed by the length of the body alone{}: probably no failures, as ab compares \
             it with that of the first answer.",
            runs.sum(count),
            runs.of_all(),
            runs.which()
        );
        Some(runs.finding(
            cells,
            Finding::new(Check::LengthFailures, Level::Amber, says, remedy),
        ))
    };
    cells.cells.iter().filter_map(of_cell).collect()
}

fn other_statuses(run: &Run) -> f64 {
    run.value_of("http_non2xx").unwrap_or(0.0)
}

/// The runs of a cell for which something holds, with their numbers; never none.
struct Affected<'a, 's> {
    cell: &'a Cell<'s>,
    runs: Vec<(usize, &'s Run)>,
}

impl<'a, 's> Affected<'a, 's> {
    fn of(cell: &'a Cell<'s>, holds: impl Fn(&Run) -> bool) -> Option<Affected<'a, 's>> {
        let numbered = cell.runs.iter().zip(1..);
        let runs: Vec<(usize, &Run)> = numbered
            .filter(|(run, _)| holds(run))
            .map(|(run, number)| (number, *run))
            .collect();
        (!runs.is_empty()).then_some(Affected { cell, runs })
    }

    fn numbers(&self) -> Vec<usize> {
        self.runs.iter().map(|(number, _)| *number).collect()
    }

    fn sum(&self, count: impl Fn(&Run) -> f64) -> f64 {
        self.runs.iter().map(|(_, run)| count(run)).sum()
    }

    /// ` of 8000`, if all of them tell how many requests there were.
    fn of_all(&self) -> String {
        let known = self.runs.iter().map(|(_, run)| requests_of(run));
        let all: Option<f64> = known.sum();
        all.map_or(String::new(), |all| format!(" of {all}"))
    }

    fn which(&self) -> String {
        of_runs(&self.numbers(), self.cell.runs.len())
    }

    fn finding(&self, cells: &Cells<'_>, finding: Finding) -> Finding {
        Finding {
            cases: vec![self.cell.case.clone()],
            variants: cells.variant_of(self.cell),
            runs: self.numbers(),
            ..finding
        }
    }
}
