//! Collects the data for the checks: the requested concurrency, and the runs of every case under
//! every variant. The runs of one case under one variant are a cell. Also contains the checks of
//! single cells, which look for failed requests and for figures from a single run.
//!
//! Decides where the requested concurrency is found, infers how published figures were rounded, and
//! computes the number of requests in flight from such figures. Start at [`CheckedCells`].

use crate::CandidateComparison;
use crate::grid::{RunGrid, SourceSide, distinct_items};
use crate::validity::finding::{ValidityCheck, ValidityFinding, format_run_numbers};
use speedwell_model::{Case, IntervalEstimate, ParameterValue, Run, Session, SessionState, median};
use std::collections::HashMap;
use std::sync::Arc;

/// Names of metrics that are responses per second.
const RATES: [&str; 2] = ["throughput", "requests_per_second"];

/// Mean time from a request to its response.
const MEAN_LATENCY: &str = "latency_mean";

/// Bytes received per second.
const BANDWIDTH: &str = "bytes_per_second";

/// Bytes per response, if a generator counted them.
const RESPONSE_BYTES: &str = "bytes_per_response";

/// HTTP load metrics that are compared between cases.
pub(super) const LOADS: [&str; 3] = [MEAN_LATENCY, BANDWIDTH, RESPONSE_BYTES];

/// If startup and wind-down take more than this fraction of a run, the run says nothing about the
/// number of connections in use.
const MAX_EDGE_SHARE: f64 = 0.1;

/// Facts that a session does not contain.
#[derive(Debug, Clone, Default)]
pub struct KnownFacts<'a> {
    /// Requested number of requests in flight (connections times pipelining), by case id. For a
    /// case without an entry, the number is computed from the case's parameters: `concurrency` or
    /// `connections`, times `pipelining`.
    pub requested: HashMap<String, f64>,
    /// Ids of cases whose responses may differ in size between variants.
    pub sizes_may_differ: Vec<String>,
    /// Variants that do more work than the baseline and so cannot be better.
    pub never_better: Vec<String>,
    /// A comparison of the baseline with itself, in which every difference is noise.
    pub control: Option<&'a CandidateComparison>,
}

/// The runs of one case under one variant.
pub(super) struct CheckedCell<'s> {
    /// Case id.
    pub case: String,
    /// Name of the variant.
    pub variant: Arc<str>,
    /// Whether responses of this case must have the same size under every variant.
    pub has_fixed_size: bool,
    /// Requested number of requests in flight, if known.
    pub requested: Option<f64>,
    /// Load generator with its version, if known.
    pub generator: Option<String>,
    /// Runs in execution order.
    pub runs: Vec<&'s Run>,
}

impl CheckedCell<'_> {
    /// The known values of a figure, and the numbers of the runs that they come from, counting from
    /// 1.
    pub fn known_figures<T>(&self, figure: impl Fn(&Run) -> Option<T>) -> (Vec<T>, Vec<usize>) {
        let numbered = self.runs.iter().zip(1..);
        numbered.filter_map(|(run, number)| Some((figure(run)?, number))).unzip()
    }
}

/// All cells, case by case.
pub(super) struct CheckedCells<'s> {
    pub cells: Vec<CheckedCell<'s>>,
    /// Variants in order; the first is the baseline.
    pub variants: Vec<Arc<str>>,
    /// Whether all figures were imported.
    pub is_imported: bool,
    /// Whether the figures were imported from one file. The runs in such a file are not necessarily
    /// repetitions.
    pub is_one_file: bool,
    steps: HashMap<String, f64>,
    /// Distinguishing name of each case, by id.
    names: HashMap<String, String>,
}

impl<'s> CheckedCells<'s> {
    /// Cells of one session. Within each case, the cell of the baseline comes first.
    pub fn of_session(session: &'s Session, facts: &KnownFacts<'_>) -> CheckedCells<'s> {
        let grid = RunGrid::new(session);
        let mut order: Vec<usize> = (0..grid.variants.len()).collect();
        order.sort_by_key(|&index| *grid.variants[index] != *session.design.baseline);
        let mut cells = CheckedCells::empty(&[session]);
        cells.variants = order.iter().map(|&index| grid.variants[index].clone()).collect();
        for case in &grid.cases {
            for &index in &order {
                let runs = case.by_variant[index].clone();
                let name = grid.variants[index].clone();
                cells.add_cell(session, &case.case, name, runs, facts);
            }
        }
        cells.names = short_names(&cells.first_cases());
        cells
    }

    /// Cells of a comparison between sessions. Each side is given by its label, its session and the
    /// name of the compared variant.
    pub fn of_sides(sides: &[SourceSide<'_, 's>]) -> CheckedCells<'s> {
        let sessions: Vec<&Session> = sides.iter().map(|side| side.session).collect();
        let mut cells = CheckedCells::empty(&sessions);
        for side in sides {
            let name: Arc<str> = Arc::from(side.name);
            cells.variants.push(name.clone());
            for case in &side.grid.cases {
                let runs = case.by_variant[side.variant].clone();
                let facts = KnownFacts::default();
                cells.add_cell(side.session, &case.case, name.clone(), runs, &facts);
            }
        }
        let mut case_order: HashMap<String, usize> = HashMap::new();
        for cell in &cells.cells {
            let next = case_order.len();
            case_order.entry(cell.case.clone()).or_insert(next);
        }
        cells.cells.sort_by_key(|cell| case_order[&cell.case]);
        cells.names = short_names(&cells.first_cases());
        cells
    }

    fn empty(sessions: &[&Session]) -> CheckedCells<'s> {
        let figures = RATES.iter().chain(&[MEAN_LATENCY, BANDWIDTH]).copied();
        let is_imported = sessions.iter().all(|session| session.state == SessionState::Imported);
        // Other latencies may be rounded to a step in imported results, but never in those
        // measured by Speedwell.
        let metrics = sessions.iter().filter(|_| is_imported).flat_map(|session| &session.metrics);
        let times =
            metrics.map(|metric| metric.name.as_str()).filter(|name| name.starts_with("latency_"));
        let is_measured =
            |name: &str| sessions.iter().any(|session| session.metric(name).is_some());
        // The steps are needed only if rates can be checked against latencies or bandwidths.
        // Otherwise they are not computed, because a session may hold a million rates.
        let is_needed = is_measured(MEAN_LATENCY) || is_measured(BANDWIDTH);
        CheckedCells {
            cells: Vec::new(),
            variants: Vec::new(),
            is_imported,
            is_one_file: matches!(
                sessions,
                [session] if session.command.first().is_some_and(|word| word == "import")
            ),
            steps: figures
                .chain(times)
                .filter(|_| is_needed)
                .map(|name| (name.to_owned(), metric_step(sessions, name)))
                .collect(),
            names: HashMap::new(),
        }
    }

    fn add_cell(
        &mut self,
        session: &Session,
        case: &Arc<Case>,
        variant: Arc<str>,
        runs: Vec<&'s Run>,
        facts: &KnownFacts<'_>,
    ) {
        if runs.is_empty() {
            return;
        }
        let id = case.id();
        let generator = match case.value("generator") {
            Some(ParameterValue::Text(text)) => Some(text.clone()),
            _ => session.environment.facts.get("generator").cloned(),
        };
        self.cells.push(CheckedCell {
            has_fixed_size: !facts.sizes_may_differ.contains(&id),
            requested: facts.requested.get(&id).copied().or_else(|| requested_concurrency(case)),
            case: id,
            variant,
            generator,
            runs,
        });
    }

    /// The load generators of all cells, without duplicates.
    pub fn known_generators(&self) -> Vec<String> {
        distinct_items((self.cells.iter()).filter_map(|cell| cell.generator.clone()))
    }

    /// Case of each cell, from its first run.
    pub fn first_cases(&self) -> Vec<Arc<Case>> {
        let first_runs = self.cells.iter().filter_map(|cell| cell.runs.first());
        first_runs.map(|run| run.case.clone()).collect()
    }

    /// Distinguishing name of the case with this id.
    pub fn case_name<'a>(&'a self, id: &'a str) -> &'a str {
        self.names.get(id).map_or(id, String::as_str)
    }

    /// Groups the cells by case.
    pub fn cells_by_case(&self) -> impl Iterator<Item = &[CheckedCell<'s>]> {
        self.cells.chunk_by(|a, b| a.case == b.case)
    }

    /// Name of a cell's variant for findings; empty if there is only one variant.
    pub fn variant_of(&self, cell: &CheckedCell<'_>) -> Vec<String> {
        if self.variants.len() < 2 { Vec::new() } else { vec![cell.variant.to_string()] }
    }

    /// Mean number of requests in flight, by Little's law: rate times mean time in the system
    /// (Little 1961). `None` if a figure is missing, if connections were idle between requests, or
    /// if the run was too short. Also `None` if some requests failed, because generators disagree
    /// on whether the mean time includes failed requests.
    pub fn in_flight(&self, run: &Run) -> Option<RoundedFigure> {
        let is_idle = run.has_idle_connections() || run.case.value("rate").is_some();
        if is_idle || failed_requests(run) > 0.0 {
            return None;
        }
        let rate = self.response_rate(run)?;
        let mean = self.rounded_figure(run, MEAN_LATENCY)?;
        let edge_share = edge_share(run);
        let is_too_short = edge_share > MAX_EDGE_SHARE;
        (rate.low > 0.0 && mean.high > 0.0 && !is_too_short).then(|| RoundedFigure {
            low: rate.low * mean.low * 1e-9,
            value: rate.value * mean.value * 1e-9,
            high: rate.high * mean.high * 1e-9 / (1.0 - edge_share),
        })
    }

    /// Responses per second.
    pub fn response_rate(&self, run: &Run) -> Option<RoundedFigure> {
        RATES.iter().find_map(|name| self.rounded_figure(run, name))
    }

    fn rounded_figure(&self, run: &Run, metric: &str) -> Option<RoundedFigure> {
        let (value, half_step) = (run.value_of(metric)?, self.rounding_step(metric) / 2.0);
        Some(RoundedFigure { low: value - half_step, value, high: value + half_step })
    }

    /// Median of the responses per second over the runs of a cell.
    pub fn median_rate(&self, cell: &CheckedCell<'_>) -> Option<f64> {
        median_over_runs(&cell.runs, |run| Some(self.response_rate(run)?.value))
    }

    /// Bytes per response, including headers.
    pub fn bytes_per_response(&self, run: &Run) -> Option<RoundedFigure> {
        // Reported sizes are not rounded.
        if let Some(bytes) = self.rounded_figure(run, RESPONSE_BYTES) {
            return Some(bytes);
        }
        let rate = self.response_rate(run).filter(|rate| rate.low > 0.0)?;
        let bandwidth = self.rounded_figure(run, BANDWIDTH)?;
        Some(RoundedFigure {
            low: bandwidth.low / rate.high,
            value: bandwidth.value / rate.value,
            high: bandwidth.high / rate.low,
        })
    }

    /// Rounding step of a metric's printed figures.
    pub fn rounding_step(&self, metric: &str) -> f64 {
        self.steps.get(metric).copied().unwrap_or(0.0)
    }
}

impl ValidityFinding {
    /// Assigns the finding to these runs of a cell.
    pub(super) fn in_cell(
        self,
        cells: &CheckedCells<'_>,
        cell: &CheckedCell<'_>,
        runs: Vec<usize>,
    ) -> ValidityFinding {
        ValidityFinding {
            cases: vec![cell.case.clone()],
            variants: cells.variant_of(cell),
            runs,
            ..self
        }
    }
}

/// Distinguishing name of each case by id, without the parameters that all cases share.
pub(super) fn short_names(cases: &[Arc<Case>]) -> HashMap<String, String> {
    let first_values = cases.first().into_iter().flat_map(|first| &first.values);
    let shared: Vec<&(String, ParameterValue)> =
        first_values.filter(|pair| cases.iter().all(|case| case.values.contains(pair))).collect();
    let short_name = |case: &Case| {
        let values = case.values.iter().filter(|pair| !shared.contains(pair));
        Case::new(&case.benchmark, values.cloned().collect()).id()
    };
    cases.iter().map(|case| (case.id(), short_name(case))).collect()
}

/// Fraction of a run's time in which connections start up or wind down. Together, these phases take
/// about the time of one request.
fn edge_share(run: &Run) -> f64 {
    let elapsed = run.samples.iter().find_map(|sample| sample.elapsed_ns);
    let mean = run.value_of(MEAN_LATENCY);
    let share = elapsed.zip(mean).map(|(elapsed_ns, mean)| mean / elapsed_ns as f64);
    share.filter(|share| share.is_finite()).unwrap_or(0.0)
}

/// Number of failed requests; 0 if all failures are only differences in body length.
pub(super) fn failed_requests(run: &Run) -> f64 {
    if failed_by_length(run).is_some() { 0.0 } else { run.value_of("http_errors").unwrap_or(0.0) }
}

/// Number of failures, if all of them are only differences in body length. ab counts a response as
/// failed if its body is not as long as the body of the first response.
pub(super) fn failed_by_length(run: &Run) -> Option<f64> {
    let errors = run.value_of("http_errors").filter(|count| *count > 0.0)?;
    (run.value_of("http_failed_length") == Some(errors)).then_some(errors)
}

/// Number of requests that a run completed.
pub(super) fn requests_of(run: &Run) -> Option<f64> {
    run.samples.iter().find_map(|sample| sample.iterations)
}

/// Median over the runs for which the figure is known.
pub(super) fn median_over_runs(runs: &[&Run], figure: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
    let mut values: Vec<f64> = runs.iter().filter_map(|run| figure(run)).collect();
    median(&mut values)
}

fn requested_concurrency(case: &Case) -> Option<f64> {
    let number = |name: &str| match case.value(name) {
        Some(ParameterValue::Number(number)) if *number > 0.0 => Some(*number),
        _ => None,
    };
    let connections = number("concurrency").or_else(|| number("connections"))?;
    Some(connections * number("pipelining").unwrap_or(1.0))
}

const REMEDY: &str = "Measure each side at least 8 times, in random order ('speedwell compare'); \
    until then treat no difference as real.";

/// Checks whether several figures were imported, each from a single run.
pub(super) fn check_single_runs(cells: &CheckedCells<'_>) -> Option<ValidityFinding> {
    let mut runs = cells.cells.iter().flat_map(|cell| &cell.runs);
    // A bare figure comes without a duration and without a number of iterations.
    let is_bare = runs.all(|run| {
        run.wall_ns == 0 && run.samples.iter().all(|sample| sample.iterations.is_none())
    });
    let is_single = cells.cells.len() > 1 && cells.cells.iter().all(|cell| cell.runs.len() == 1);
    if !cells.is_imported || !is_single || (cells.variants.len() < 2 && !is_bare) {
        return None;
    }
    let message = format!(
        "Each of the {} combinations of case and variant was measured only once, in an unknown \
         order, so the noise is unknown and any difference may be due to chance.",
        cells.cells.len()
    );
    Some(ValidityFinding::amber(ValidityCheck::SingleRuns, message, REMEDY))
}

/// Checks for requests without a response or with an error response.
pub(super) fn check_failed_requests(cells: &CheckedCells<'_>) -> Vec<ValidityFinding> {
    let remedy = "Check the responses and fix the server before measuring: the rate does not \
                  represent a working server.";
    let finding_of_cell = |cell: &CheckedCell<'_>| {
        let failed_count = |run: &Run| failed_requests(run) + other_statuses(run);
        let (count, runs) = count_affected(cell, failed_count)?;
        let sum = |count: fn(&Run) -> f64| -> f64 {
            runs.iter().map(|number| count(cell.runs[number - 1])).sum()
        };
        let counts =
            [(sum(failed_requests), "errors"), (sum(other_statuses), "responses other than 2xx")];
        let counts: Vec<String> = counts
            .iter()
            .filter(|(count, _)| *count > 0.0)
            .map(|(count, kind)| format!("{count} {kind}"))
            .collect();
        let runs_clause = format_run_numbers(&runs, cell.runs.len());
        let message = format!("{count} requests failed ({}){runs_clause}.", counts.join(", "));
        let finding = ValidityFinding::red(ValidityCheck::FailedRequests, message, remedy);
        Some(finding.in_cell(cells, cell, runs))
    };
    cells.cells.iter().filter_map(finding_of_cell).collect()
}

/// Checks for responses that ab counts as failed only because of their body length.
pub(super) fn check_length_failures(cells: &CheckedCells<'_>) -> Vec<ValidityFinding> {
    let remedy = "Measure with 'ab -l', which accepts bodies of different lengths, and check the \
        content of the responses.";
    let finding_of_cell = |cell: &CheckedCell<'_>| {
        let (count, runs) = count_affected(cell, |run| failed_by_length(run).unwrap_or(0.0))?;
        let message = format!(
            "{count} requests failed only because of their body length{}: these are probably not real \
             failures, as ab compares each length with the length of the first response.",
            format_run_numbers(&runs, cell.runs.len())
        );
        let finding = ValidityFinding::amber(ValidityCheck::LengthFailures, message, remedy);
        Some(finding.in_cell(cells, cell, runs))
    };
    cells.cells.iter().filter_map(finding_of_cell).collect()
}

/// Counts events in the runs of a cell. Returns the count as in `3 of 8000`, or `3` if the number of
/// requests of an affected run is unknown, with the numbers of the affected runs. `None` without
/// events.
fn count_affected(
    cell: &CheckedCell<'_>,
    count: impl Fn(&Run) -> f64,
) -> Option<(String, Vec<usize>)> {
    let (counts, numbers) = cell.known_figures(|run| {
        Some((count(run), requests_of(run))).filter(|(count, _)| *count > 0.0)
    });
    let events: f64 = counts.iter().map(|(count, _)| count).sum();
    let requests: Option<f64> = counts.iter().map(|(_, requests)| *requests).sum();
    let text = requests.map_or(events.to_string(), |requests| format!("{events} of {requests}"));
    (!numbers.is_empty()).then_some((text, numbers))
}

fn other_statuses(run: &Run) -> f64 {
    run.value_of("http_non2xx").unwrap_or(0.0)
}

/// A figure that may have been rounded, with the interval in which the exact value lies.
pub(super) type RoundedFigure = IntervalEstimate;

/// Number of decimal digits that a 64-bit floating-point number always preserves (IEEE 754).
const SURE_DIGITS: usize = 15;

/// Units in which times may be printed, in nanoseconds. Seconds are left out, because a few round
/// numbers, such as 1000 ms and 2000 ms, would look as if they had been rounded to whole seconds.
const TIME_UNITS_NS: [f64; 3] = [1e6, 1e3, 1.0];

/// Units in which bytes are printed. Dividing by a power of two is exact and restores the printed
/// digits.
const BYTE_UNITS: [f64; 6] = [1.0, 1e3, 1e6, 1024.0, 1_048_576.0, 1_073_741_824.0];

/// Step between adjacent printed values of a metric, in the metric's unit.
pub(super) fn metric_step(sessions: &[&Session], metric: &str) -> f64 {
    let unit = sessions.iter().find_map(|session| session.metric(metric));
    let Some(unit) = unit.map(|metric| metric.unit.as_str()) else { return 0.0 };
    let runs = sessions.iter().flat_map(|session| &session.runs);
    let samples = runs.flat_map(|run| &run.samples);
    let values: Vec<f64> = samples
        .filter(|sample| &*sample.metric == metric)
        .map(|sample| sample.value)
        .filter(|value| *value != 0.0 && value.is_finite())
        .collect();
    printed_step(&values, unit)
}

fn printed_step(values: &[f64], unit: &str) -> f64 {
    let units: &[f64] = match unit {
        "ns" => &TIME_UNITS_NS,
        "B/s" | "B" => &BYTE_UNITS,
        _ => &[1.0],
    };
    // The figures may have been printed in any of these units. Assume the unit that gives the
    // largest step.
    let in_unit = |unit: f64| {
        let decimals = values.iter().map(|value| count_decimals(value / unit)).max();
        unit * 10f64.powi(-(decimals.unwrap_or(0) as i32))
    };
    units.iter().map(|unit| in_unit(*unit)).fold(0.0, f64::max)
}

/// Number of digits after the decimal point.
fn count_decimals(value: f64) -> usize {
    let text = format!("{value:.*e}", SURE_DIGITS - 1);
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let fraction_digits = digits
        .trim_end_matches('0')
        .split_once('.')
        .map_or(0, |(_, fraction)| fraction.len() as i32);
    (fraction_digits - exponent).max(0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_between_printed_values_is_inferred_in_any_unit() {
        assert_eq!(printed_step(&[54620.0, 28200.4, 11450.15], "1/s"), 0.01);
        assert_eq!(printed_step(&[1000.0, 20000.0], "1/s"), 1.0);
        // The lines check two decimals of a millisecond, whole milliseconds, and whole nanoseconds.
        assert_eq!(printed_step(&[1_750_000.0, 4_400_000.0], "ns"), 1e4);
        assert_eq!(printed_step(&[1129e6, 585e6], "ns"), 1e6);
        assert_eq!(printed_step(&[1_750_123.0, 4_400_001.0], "ns"), 1.0);
        // 8.54 and 131.47, first in MB/s and then in MiB/s.
        assert_eq!(printed_step(&[8.54e6, 131.47e6], "B/s"), 1e4);
        let mib = 1_048_576.0;
        assert_eq!(printed_step(&[8.54 * mib, 131.47 * mib], "B/s"), mib / 100.0);
        assert_eq!(printed_step(&[], "B/s"), 1_073_741_824.0);
    }
}
