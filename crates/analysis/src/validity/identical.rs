//! Checks for three mistakes in imported results: runs that cannot be distinguished, latencies that
//! merely restate the throughput, and environment variables that every started process inherits.
//!
//! Defines how close figures must be to count as the same. Start at [`check_unnamed`],
//! [`check_latency_restates_rate`] and [`check_inherited_variables`].

use crate::validity::cells::{CheckedCell, CheckedCells, median_over_runs};
use crate::validity::finding::{
    FindingSeverity, ValidityCheck, ValidityFinding, format_span, join_names, quote_names,
};
use crate::validity::load_conditions::MIN_CONCURRENCY_SHARE;
use crate::validity::rounding::RoundedFigure;
use speedwell_model::Run;

/// Checks for unnamed runs of the same URL in one file, as in ab reports.
pub(super) fn check_unnamed(cells: &CheckedCells<'_>) -> Vec<ValidityFinding> {
    let is_load = |run: &&Run| run.value_of("http_errors").is_some();
    let is_unnamed = |cell: &&CheckedCell<'_>| {
        cells.is_one_file && cell.runs.len() > 1 && cell.runs.iter().all(is_load)
    };
    let found = cells.cells.iter().filter(is_unnamed);
    let finding = |cell: &CheckedCell<'_>| {
        let message = format!(
            "{} reports of one address have no names, so it is unknown whether they are \
             repetitions or different variants; they count as runs of one variant.",
            cell.runs.len()
        );
        let remedy = "If they are variants, put each into a separate file: 'speedwell compare \
                      red=red.txt green=green.txt'.";
        ValidityFinding::new(ValidityCheck::UnnamedRuns, FindingSeverity::Amber, message, remedy)
            .in_cell(cells, cell, Vec::new())
    };
    found.map(finding).collect()
}

/// Minimum number of cells for [`check_latency_restates_rate`]. With fewer cells, their numbers of
/// requests in flight may agree by chance.
const MIN_CELLS: usize = 4;

/// Numbers of requests in flight count as equal if the largest is at most this multiple of the
/// smallest.
const MAX_SAME_RATIO: f64 = 1.05;

/// The highest rate must be at least this multiple of the lowest. If all rates are equal, equal
/// numbers of requests in flight prove nothing.
const MIN_RATE_RANGE: f64 = 1.5;

const RESTATED_LATENCY_REMEDY: &str = "Do not use these latencies. Measure again with a generator that times each pipelined \
    request by itself, as autocannon does from version 7 on.";

const UNKNOWN_CONCURRENCY_REMEDY: &str = "Import the file with the requested numbers (--set \
    connections=N --set pipelining=N), so that this can be checked.";

/// Checks whether the latencies of all cells merely restate the rates. If they do, rate times mean
/// latency is equal in all cells. The product is also below the requested number of requests in
/// flight, if that number is known.
pub(super) fn check_latency_restates_rate(cells: &CheckedCells<'_>) -> Option<ValidityFinding> {
    let mut cell_figures: Vec<(&CheckedCell<'_>, RoundedFigure, f64)> = Vec::new();
    for cell in &cells.cells {
        let value = median_over_runs(&cell.runs, |run| Some(cells.in_flight(run)?.value));
        let rate = median_over_runs(&cell.runs, |run| Some(cells.response_rate(run)?.value));
        let rounded = cell.runs.iter().find_map(|run| cells.in_flight(run));
        if let Some(((value, rate), rounded)) = value.zip(rate).zip(rounded) {
            cell_figures.push((cell, RoundedFigure { value, ..rounded }, rate));
        }
    }
    let values: Vec<f64> = cell_figures.iter().map(|(_, figure, _)| figure.value).collect();
    let rates: Vec<f64> = cell_figures.iter().map(|(_, _, rate)| *rate).collect();
    if cell_figures.len() < MIN_CELLS
        || max_to_min_ratio(&values) > MAX_SAME_RATIO
        || max_to_min_ratio(&rates) < MIN_RATE_RANGE
    {
        return None;
    }
    let requested: Option<Vec<f64>> =
        cell_figures.iter().map(|(cell, ..)| cell.requested).collect();
    let is_met = |(requested, figure): (&f64, &RoundedFigure)| {
        figure.high >= requested * MIN_CONCURRENCY_SHARE
    };
    let mut figures = cell_figures.iter().map(|(_, figure, _)| figure);
    let (requested_clause, remedy) = match &requested {
        Some(requested)
            if requested
                .iter()
                .any(|requested| figures.next().is_some_and(|f| is_met((requested, f)))) =>
        {
            return None;
        }
        Some(requested) => (
            format!(", where {:.0} requests in flight were requested", requested[0]),
            RESTATED_LATENCY_REMEDY,
        ),
        None => (String::new(), UNKNOWN_CONCURRENCY_REMEDY),
    };
    let message = format!(
        "Rate times mean latency is {} in all {} measurements{requested_clause}: latency merely \
         restates the rate.{}",
        format_span(&values),
        cell_figures.len(),
        describe_known_generator(cells)
    );
    Some(ValidityFinding::new(
        ValidityCheck::LatencyIsThroughput,
        FindingSeverity::Amber,
        message,
        remedy,
    ))
}

/// A sentence about the load generator if it is known to report such latencies (autocannon before
/// version 7); otherwise empty.
fn describe_known_generator(cells: &CheckedCells<'_>) -> String {
    let mut names = cells.cells.iter().filter_map(|cell| cell.generator.as_deref());
    let is_old = |name: &&str| {
        let version = name
            .strip_prefix("autocannon")
            .map(|text| text.trim_start().trim_start_matches(['v', '@', '/']));
        let major = version.and_then(|text| text.split('.').next()?.parse::<u32>().ok());
        major.is_some_and(|major| major < 7)
    };
    let name = names.find(is_old);
    name.map_or(String::new(), |name| {
        format!(" {} is known to time pipelined requests this way.", quote_names([name]))
    })
}

fn max_to_min_ratio(values: &[f64]) -> f64 {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    high / low
}

/// Environment variables that make a language runtime or the dynamic loader load more code.
const CODE_LOADING_VARIABLES: [&str; 8] = [
    "NODE_OPTIONS",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "JAVA_TOOL_OPTIONS",
    "RUBYOPT",
    "PERL5OPT",
];

const INHERITED_REMEDY: &str = "Set the variable for the measured program only, for example in a \
    variant of a Speedwell session.";

/// Checks whether commands in an imported file set a variable that makes processes load more code.
pub(super) fn check_inherited_variables(cells: &CheckedCells<'_>) -> Option<ValidityFinding> {
    if !cells.is_imported {
        return None;
    }
    let sets = |case: &str, name: &str| {
        let mut words = case.split([' ', '"', '\'']);
        words.any(|word| word.strip_prefix(name).is_some_and(|value| value.starts_with('=')))
    };
    let mut cases: Vec<String> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for cell in &cells.cells {
        let found: Vec<&str> =
            CODE_LOADING_VARIABLES.into_iter().filter(|name| sets(&cell.case, name)).collect();
        if !found.is_empty() && !cases.contains(&cell.case) {
            cases.push(cell.case.clone());
        }
        for name in found {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let message = format!(
        "The command sets {}, which every process that it starts inherits. Those processes may include a load generator or a test driver, which would be slowed down as well.",
        match names.len() {
            1 => names.concat(),
            _ => join_names(&[quote_names(names.iter().copied())]),
        }
    );
    (!cases.is_empty()).then(|| ValidityFinding {
        cases,
        ..ValidityFinding::new(
            ValidityCheck::InheritedVariable,
            FindingSeverity::Amber,
            message,
            INHERITED_REMEDY,
        )
    })
}
