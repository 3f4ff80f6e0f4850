//! Checks whether other activity disturbed the machine during the measurement and, by Little's law,
//! whether the requested load was really in flight.
//!
//! Sets two kinds of limits. Limits on the machine say when figures may reflect the machine instead
//! of the server, for instance because the generator was too busy to send on time. The limit on
//! pressure is so low that `top` may not show the problem. Limits on the load say when it counts as
//! lighter or heavier than requested.
//!
//! Rate times mean latency is the mean number of requests in flight (Little 1961, "A proof for the
//! queuing formula L = lambda W"). Start at [`check_machine`] and [`check_in_flight`].

use crate::grid::distinct_items;
use crate::validity::cells::{CheckedCell, CheckedCells, requests_of};
use crate::validity::finding::{
    FindingSeverity, ValidityCheck, ValidityFinding, format_run_numbers, format_span,
};
use speedwell_model::Run;

/// A metric in percent, and the limit above which it is reported.
struct PercentLimit {
    check: ValidityCheck,
    metric: &'static str,
    percent: f64,
    message: &'static str,
    remedy: &'static str,
}

const LIMITS: [PercentLimit; 3] = [
    PercentLimit {
        check: ValidityCheck::GeneratorBusy,
        metric: "generator_busy",
        percent: 90.0,
        message: "The load generator used {} % of its core{}, so it may have been the bottleneck.",
        remedy: "Give it more threads or processors of its own, or a lighter load.",
    },
    PercentLimit {
        check: ValidityCheck::Pressure,
        metric: "pressure",
        percent: 10.0,
        message: "Tasks waited for a processor {} % of the time{}.",
        remedy: "Stop other programs, or pin server and generator to separate processors.",
    },
    PercentLimit {
        check: ValidityCheck::Steal,
        metric: "steal",
        percent: 1.0,
        message: "The hypervisor gave {} % of the time to other guests{}.",
        remedy: "Measure on a machine that is not shared.",
    },
];

/// Metrics that have limits.
pub(super) fn limited_metrics() -> impl Iterator<Item = &'static str> {
    LIMITS.iter().map(|limit| limit.metric)
}

/// Runs of a cell that exceed a limit.
struct LimitExcess<'a, 's> {
    cell: &'a CheckedCell<'s>,
    /// Run numbers, counting from 1.
    runs: Vec<usize>,
    max_percent: f64,
}

/// One finding per limit, for all affected cells, because other activity on the machine rarely
/// affects only one cell.
pub(super) fn check_machine(cells: &CheckedCells<'_>) -> Vec<ValidityFinding> {
    LIMITS.iter().filter_map(|limit| limit_finding(cells, limit)).collect()
}

fn limit_finding(cells: &CheckedCells<'_>, limit: &PercentLimit) -> Option<ValidityFinding> {
    let excesses = cells.cells.iter().filter_map(|cell| limit_excess(cell, limit));
    let excesses: Vec<LimitExcess<'_, '_>> = excesses.collect();
    let worst =
        excesses.iter().max_by(|one, other| one.max_percent.total_cmp(&other.max_percent))?;
    let hits: usize = excesses.iter().map(|excess| excess.runs.len()).sum();
    let up_to = if hits == 1 { "" } else { "up to " };
    let percent = format!("{up_to}{:.0}", worst.max_percent);
    let cases = distinct_items(excesses.iter().map(|excess| excess.cell.case.clone()));
    let (runs, location) = match &excesses[..] {
        [only] => (only.runs.clone(), format_run_numbers(&only.runs, only.cell.runs.len())),
        _ => {
            let total: usize = cells.cells.iter().map(|cell| cell.runs.len()).sum();
            let numbers: Vec<usize> = (1..=hits).collect();
            let count = if hits == total {
                format_run_numbers(&numbers, total)
            } else {
                format!(" in {hits} of {total} runs")
            };
            (Vec::new(), count + &most_with(cells, worst.cell, cases.len()))
        }
    };
    let message = limit.message.replacen("{}", &percent, 1);
    Some(ValidityFinding {
        cases,
        variants: distinct_items(excesses.iter().flat_map(|excess| cells.variant_of(excess.cell))),
        runs,
        ..ValidityFinding::new(
            limit.check,
            FindingSeverity::Amber,
            message.replacen("{}", &location, 1),
            limit.remedy,
        )
    })
}

fn limit_excess<'a, 's>(
    cell: &'a CheckedCell<'s>,
    limit: &PercentLimit,
) -> Option<LimitExcess<'a, 's>> {
    let values = cell.runs.iter().zip(1..).filter_map(|(run, number)| {
        let value = run.value_of(limit.metric)?;
        (value > limit.percent).then_some((number, value))
    });
    let (runs, values): (Vec<usize>, Vec<f64>) = values.unzip();
    let max_percent = values.into_iter().reduce(f64::max)?;
    Some(LimitExcess { cell, runs, max_percent })
}

/// Names the cell with the highest value, such as `, most with 'cyan' in 'http server=koa'`. The
/// case is left out if `cases`, the number of cases, is 1.
fn most_with(cells: &CheckedCells<'_>, worst: &CheckedCell<'_>, cases: usize) -> String {
    let case = (cases > 1).then(|| worst.case.clone());
    let names = cells.variant_of(worst).into_iter().chain(case);
    let names: Vec<String> = names.map(|name| format!("'{name}'")).collect();
    format!(", most with {}", names.join(" in "))
}

/// If less than this fraction of the requested concurrency was in flight, latencies belong to a
/// lighter load than requested.
pub(super) const MIN_CONCURRENCY_SHARE: f64 = 0.95;

/// If more than this multiple of the requested concurrency was in flight, the figures contradict
/// each other, because a connection carries one request at a time, or as many as are pipelined.
const MAX_CONCURRENCY_SHARE: f64 = 1.05;

const CONTRADICTION: &str = "Look for a wrong unit, a shifted column, or latencies and rates of \
    different runs; if latencies are measured from the scheduled send time, give the request rate (--set \
    rate=N).";

const REMEDY: &str = "The measured latencies belong to the lower concurrency; check whether connections \
    waited to be accepted (backlog), whether they were kept open, and whether the \
    generator was busy.";

const TOO_FEW: &str = "Send many times more requests than there are connections.";

/// Findings about cells with runs that did not carry the requested load.
pub(super) fn check_in_flight(cells: &CheckedCells<'_>) -> Vec<ValidityFinding> {
    cells
        .cells
        .iter()
        .flat_map(|cell| {
            [
                too_few(cells, cell),
                check_deviation(cells, cell, LoadDeviation::Lighter),
                check_deviation(cells, cell, LoadDeviation::Heavier),
            ]
        })
        .flatten()
        .collect()
}

/// How a load deviates from the requested load.
#[derive(Debug, Clone, Copy)]
enum LoadDeviation {
    Lighter,
    Heavier,
}

/// Checks for runs whose load deviates from the requested load in the direction `side`.
fn check_deviation(
    cells: &CheckedCells<'_>,
    cell: &CheckedCell<'_>,
    side: LoadDeviation,
) -> Option<ValidityFinding> {
    let requested = cell.requested?;
    let deviating = |(run, number): (&&Run, usize)| {
        let figure = cells.in_flight(run)?;
        let is_deviating = match side {
            LoadDeviation::Lighter => {
                figure.high < requested * MIN_CONCURRENCY_SHARE && !is_too_short(run, requested)
            }
            LoadDeviation::Heavier => figure.low > requested * MAX_CONCURRENCY_SHARE,
        };
        is_deviating.then_some((figure.value, number))
    };
    let numbered = cell.runs.iter().zip(1..);
    let (values, runs): (Vec<f64>, Vec<usize>) = numbered.filter_map(deviating).unzip();
    if runs.is_empty() {
        return None;
    }
    let (figures, runs_clause) = (format_span(&values), format_run_numbers(&runs, cell.runs.len()));
    let (level, message, remedy) = match side {
        LoadDeviation::Lighter => {
            let message = format!(
                "Only {figures} of {requested} requests were in flight{runs_clause} (rate times mean latency)."
            );
            (FindingSeverity::Amber, message, REMEDY)
        }
        LoadDeviation::Heavier => {
            let message = format!(
                "Rate times mean latency gives {figures} requests in flight{runs_clause}, more than the {requested} that were configured."
            );
            (FindingSeverity::Red, message, CONTRADICTION)
        }
    };
    Some(
        ValidityFinding::new(ValidityCheck::InFlight, level, message, remedy)
            .in_cell(cells, cell, runs),
    )
}

fn too_few(cells: &CheckedCells<'_>, cell: &CheckedCell<'_>) -> Option<ValidityFinding> {
    let requested = cell.requested?;
    let numbered = cell.runs.iter().zip(1..);
    let short: Vec<(f64, usize)> = numbered
        .filter(|(run, _)| is_too_short(run, requested))
        .filter_map(|(run, number)| Some((requests_of(run)?, number)))
        .collect();
    let (requests, _) = short.first()?;
    let runs: Vec<usize> = short.iter().map(|(_, number)| *number).collect();
    let runs_clause = format_run_numbers(&runs, cell.runs.len());
    let message = format!("{requests} requests cannot keep {requested} in flight{runs_clause}.");
    Some(
        ValidityFinding::new(ValidityCheck::InFlight, FindingSeverity::Amber, message, TOO_FEW)
            .in_cell(cells, cell, runs),
    )
}

fn is_too_short(run: &Run, requested: f64) -> bool {
    run.value_of("latency_mean").is_some()
        && requests_of(run).is_some_and(|requests| requests < requested)
}
