//! Little's law against what was asked for: connections that had nothing in flight lighten the load, and more requests
//! than were asked for cannot have been under way.
//!
//! Decides from which share on the load counts as lighter, or as too heavy. Rate times mean latency is the number of
//! requests in flight on average (Little 1961, "A proof for the queuing formula L = lambda W").

use super::cells::{Cell, Cells, requests_of};
use super::names::{of_runs, span};
use super::{Check, Finding, Level};
use speedwell_model::Run;

/// Below this share of the asked concurrency, latencies belong to a lighter load.
pub(super) const LEAST_SHARE: f64 = 0.95;

/// Above this share the figures contradict each other: a connection carries one request at a time, or as many as are
/// pipelined.
const MOST_SHARE: f64 = 1.05;

const CONTRADICTION: &str = "Look for a wrong unit, a shifted column, or latencies and rates of different runs; if \
    responses were timed from the moment when they were due, say at which rate requests were sent (--set rate=N).";

const REMEDY: &str = "Read its latencies as those of the lower concurrency; see whether connections waited \
    to be accepted (backlog), whether they were kept open, and whether the generator was busy.";

const TOO_FEW: &str = "Send many times more requests than there are connections.";

/// One finding per cell whose runs carried less than was asked for.
pub(super) fn check(cells: &Cells<'_>) -> Vec<Finding> {
    let found = cells.cells.iter();
    found
        .flat_map(|cell| {
            [
                too_few(cells, cell),
                beside(cells, cell, Side::Lighter),
                beside(cells, cell, Side::Heavier),
            ]
        })
        .flatten()
        .collect()
}

/// On which side of what was asked for a load lies.
#[derive(Debug, Clone, Copy)]
enum Side {
    Lighter,
    Heavier,
}

/// The runs of a cell that lie on this side.
fn beside(cells: &Cells<'_>, cell: &Cell<'_>, side: Side) -> Option<Finding> {
    let asked = cell.asked?;
    let found = |(run, number): (&&Run, usize)| {
        let figure = cells.in_flight(run)?;
        let lies_there = match side {
            Side::Lighter => figure.high < asked * LEAST_SHARE && !is_too_short(run, asked),
            Side::Heavier => figure.low > asked * MOST_SHARE,
        };
        lies_there.then_some((figure.value, number))
    };
    let numbered = cell.runs.iter().zip(1..);
    let (values, runs): (Vec<f64>, Vec<usize>) = numbered.filter_map(found).unzip();
    if runs.is_empty() {
        return None;
    }
    let (figures, which) = (span(&values), of_runs(&runs, cell.runs.len()));
    let (level, says, remedy) = match side {
        Side::Lighter => {
            let says = format!(
                "Only {figures} of {asked} requests were in flight{which} (rate times mean latency)."
            );
            (Level::Amber, says, REMEDY)
        }
        Side::Heavier => {
            let says = format!(
                "{figures} requests would have been in flight{which}, but {asked} were requested (rate times mean latency)."
            );
            (Level::Red, says, CONTRADICTION)
        }
    };
    Some(Finding {
        cases: vec![cell.case.clone()],
        variants: cells.variant_of(cell),
        runs,
        ..Finding::new(Check::InFlight, level, says, remedy)
    })
}

fn too_few(cells: &Cells<'_>, cell: &Cell<'_>) -> Option<Finding> {
    let asked = cell.asked?;
    let numbered = cell.runs.iter().zip(1..);
    let short: Vec<(f64, usize)> = numbered
        .filter(|(run, _)| is_too_short(run, asked))
        .filter_map(|(run, number)| Some((requests_of(run)?, number)))
        .collect();
    let (requests, _) = short.first()?;
    let runs: Vec<usize> = short.iter().map(|(_, number)| *number).collect();
    let which = of_runs(&runs, cell.runs.len());
    let says = format!("{requests} requests cannot keep {asked} connections busy{which}.");
    Some(Finding {
        cases: vec![cell.case.clone()],
        variants: cells.variant_of(cell),
        runs,
        ..Finding::new(Check::InFlight, Level::Amber, says, TOO_FEW)
    })
}

fn is_too_short(run: &Run, asked: f64) -> bool {
    run.value_of("latency_mean").is_some() && requests_of(run).is_some_and(|all| all < asked)
}
