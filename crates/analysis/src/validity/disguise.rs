//! Latency that is throughput in disguise.
//!
//! Decides when the mean latencies of a table say nothing that its rates do not say. If rate times
//! latency is one number in every row, latency is that number divided by the rate. That is as it should
//! be where the number is the concurrency that was asked for, and a fault where it is not: autocannon
//! before version 7 timed pipelined requests so (its threads 15 and 315).

use super::cells::{Cell, Cells, Figure, typical};
use super::in_flight::LEAST_SHARE;
use super::names::{quoted, span};
use super::{Check, Finding, Level};

/// Fewer cells agree by chance.
const FEWEST_CELLS: usize = 4;

/// The largest number of requests in flight, by the smallest, that counts as one number.
const SAME: f64 = 1.05;

/// Rates that differ less do not show anything.
const LEAST_RANGE: f64 = 1.5;

const REMEDY: &str = "Do not use these latencies. Measure again with a generator that times each pipelined \
    request by itself, as autocannon does from version 7 on.";

const UNKNOWN: &str = "Say how many were requested, so that this can be checked: import the file with --set \
    connections=N --set pipelining=N.";

/// The finding, if the latencies of all cells repeat the rates.
pub(super) fn check(cells: &Cells<'_>) -> Option<Finding> {
    let mut known: Vec<(&Cell<'_>, Figure, f64)> = Vec::new();
    for cell in &cells.cells {
        let value = typical(&cell.runs, |run| Some(cells.in_flight(run)?.value));
        let rate = typical(&cell.runs, |run| Some(cells.rate(run)?.value));
        let rounded = cell.runs.iter().find_map(|run| cells.in_flight(run));
        if let Some(((value, rate), rounded)) = value.zip(rate).zip(rounded) {
            known.push((cell, Figure { value, ..rounded }, rate));
        }
    }
    let values: Vec<f64> = known.iter().map(|(_, figure, _)| figure.value).collect();
    let rates: Vec<f64> = known.iter().map(|(_, _, rate)| *rate).collect();
    if known.len() < FEWEST_CELLS || range(&values) > SAME || range(&rates) < LEAST_RANGE {
        return None;
    }
    let asked: Option<Vec<f64>> = known.iter().map(|(cell, ..)| cell.asked).collect();
    let is_met = |(asked, figure): (&f64, &Figure)| figure.high >= asked * LEAST_SHARE;
    let mut figures = known.iter().map(|(_, figure, _)| figure);
    let (of, remedy) = match &asked {
        Some(asked)
            if asked
                .iter()
                .any(|one| figures.next().is_some_and(|f| is_met((one, f)))) =>
        {
            return None;
        }
        Some(asked) => (format!(", where {:.0} were requested", asked[0]), REMEDY),
        None => (String::new(), UNKNOWN),
    };
    let says = format!(
        "Rate times mean latency is {} in all {} figures{of}: latency is the rate in disguise and says \
         nothing of its own.{}",
        span(&values),
        known.len(),
        culprit(cells)
    );
    Some(Finding::new(
        Check::LatencyIsThroughput,
        Level::Amber,
        says,
        remedy,
    ))
}

/// A generator that is known for it.
fn culprit(cells: &Cells<'_>) -> String {
    let mut names = cells
        .cells
        .iter()
        .filter_map(|cell| cell.generator.as_deref());
    let is_old = |name: &&str| {
        let version = name.strip_prefix("autocannon").map(str::trim_start);
        let version = version.map(|text| text.trim_start_matches(['v', '@', '/']));
        let major = version.and_then(|text| text.split('.').next()?.parse::<u32>().ok());
        major.is_some_and(|major| major < 7)
    };
    let name = names.find(is_old);
    name.map_or(String::new(), |name| {
        format!(
            " {} is known to time pipelined requests so.",
            quoted([name])
        )
    })
}

fn range(values: &[f64]) -> f64 {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    high / low
}
