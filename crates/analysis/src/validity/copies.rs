//! Checks for figures that are copies of others, and for mistakes in imported results: records that
//! agree in every digit, runs that cannot be distinguished, latencies that merely restate the
//! throughput, and environment variables that every started process inherits.
//!
//! Decides how close figures must be to be treated as equal, and how many equal digits rule out
//! coincidence. Start at [`check_unnamed`], [`check_latency_restates_rate`] and
//! [`check_inherited_variables`].
//!
//! A session may have more runs than fit in memory, so its cells are read twice to find equal
//! records. The first pass keeps a 64-bit digest of each record, and the second pass keeps only the
//! records whose digests repeat. Start at [`RecordDigests::add_cells`], then
//! [`RecordGroups::add_cells`].

use crate::grid::distinct_items;
use crate::validity::cells::{CheckedCell, CheckedCells, RoundedFigure, median_over_runs};
use crate::validity::finding::{
    ValidityCheck, ValidityFinding, format_span, join_names, quote_names,
};
use crate::validity::loads::MIN_CONCURRENCY_SHARE;
use indexmap::IndexMap;
use speedwell_model::Run;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

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
             repetitions or different variants; they are treated as runs of one variant.",
            cell.runs.len()
        );
        let remedy = "If they are variants, put each into a separate file: 'speedwell compare \
                      red=red.txt green=green.txt'.";
        let finding = ValidityFinding::amber(ValidityCheck::UnnamedRuns, message, remedy);
        finding.in_cell(cells, cell, Vec::new())
    };
    found.map(finding).collect()
}

/// Minimum number of cells for [`check_latency_restates_rate`]. With fewer cells, their numbers of
/// requests in flight may agree by chance.
const MIN_CELLS: usize = 4;

/// Numbers of requests in flight are treated as equal if the largest is at most this multiple of
/// the smallest.
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
        let rate = cells.median_rate(cell);
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
    let is_met = |requested: &Vec<f64>| {
        let mut figures = requested.iter().zip(&cell_figures);
        figures.any(|(requested, (_, figure, _))| figure.high >= requested * MIN_CONCURRENCY_SHARE)
    };
    let (requested_clause, remedy) = match &requested {
        Some(requested) if is_met(requested) => return None,
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
    Some(ValidityFinding::amber(ValidityCheck::LatencyIsThroughput, message, remedy))
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
        names.extend(found);
    }
    let names = distinct_items(names);
    let message = format!(
        "The command sets {}, which every process that it starts inherits. Those processes may include a load generator or a test driver, which would be slowed down as well.",
        match names.len() {
            1 => names.concat(),
            _ => join_names(&[quote_names(names.iter().copied())]),
        }
    );
    (!cases.is_empty()).then(|| ValidityFinding {
        cases,
        ..ValidityFinding::amber(ValidityCheck::InheritedVariable, message, INHERITED_REMEDY)
    })
}

/// Minimum number of digits in a record. Records with fewer digits may be equal by chance.
const MIN_EQUAL_DIGITS: usize = 12;

/// Minimum number of figures in a record. The figures of smaller records may be counts that never
/// change.
const MIN_RECORD_FIGURES: usize = 3;

/// A digest for each record with enough figures.
#[derive(Debug, Default)]
pub(super) struct RecordDigests(Vec<u64>);

impl RecordDigests {
    /// Adds the digests of some cells.
    pub fn add_cells(&mut self, cells: &CheckedCells<'_>) {
        let runs = cells.cells.iter().flat_map(|cell| &cell.runs);
        self.0.extend(runs.filter_map(|run| record_digest(run)));
    }

    /// Removes all digests, and returns the digests that several runs share.
    pub fn take_repeated(&mut self) -> HashSet<u64> {
        let mut digests = std::mem::take(&mut self.0);
        digests.sort_unstable();
        let groups = digests.chunk_by(|a, b| a == b);
        groups.filter(|group| group.len() > 1).map(|group| group[0]).collect()
    }
}

/// Runs grouped by their figures.
#[derive(Debug, Default)]
pub(super) struct RecordGroups {
    groups: IndexMap<Vec<(String, u64)>, Vec<GroupMember>>,
    cells: usize,
}

/// A run of a group.
#[derive(Debug)]
struct GroupMember {
    /// Index of its cell among all cells.
    cell: usize,
    case: String,
    /// Name of its variant, if there are several.
    variant: Vec<String>,
    /// Number among the runs of its cell, counting from 1.
    number: usize,
    /// Number of figures.
    figures: usize,
}

impl RecordGroups {
    /// Adds the records of some cells, leaving out records whose digest is not in `repeated`.
    pub fn add_cells(&mut self, cells: &CheckedCells<'_>, repeated: &HashSet<u64>) {
        for cell in &cells.cells {
            for (run, number) in cell.runs.iter().zip(1..) {
                if record_digest(run).is_some_and(|digest| repeated.contains(&digest)) {
                    let record = record_figures(run).into_iter();
                    let owned = record.map(|(metric, bits)| (metric.to_owned(), bits));
                    self.groups.entry(owned.collect()).or_default().push(GroupMember {
                        cell: self.cells,
                        case: cell.case.clone(),
                        variant: cells.variant_of(cell),
                        number,
                        figures: run.samples.len(),
                    });
                }
            }
            self.cells += 1;
        }
    }

    /// One finding per set of runs whose figures all agree to the last digit; `name` returns the
    /// distinguishing name of a case.
    pub fn group_findings(&self, name: &dyn Fn(&str) -> String) -> Vec<ValidityFinding> {
        let repeated = self.groups.values().filter(|group| group.len() > 1);
        repeated.map(|group| same_finding(group, name)).collect()
    }
}

fn same_finding(group: &[GroupMember], name: &dyn Fn(&str) -> String) -> ValidityFinding {
    let first = &group[0];
    let is_one_cell = group.iter().all(|member| member.cell == first.cell);
    let describe = |GroupMember { case, variant, number, .. }: &GroupMember| {
        if is_one_cell {
            return format!("run {number}");
        }
        format!("run {number} of '{}' {}", name(case), variant.concat()).trim_end().to_owned()
    };
    let names: Vec<String> = group.iter().map(describe).collect();
    let message = format!(
        "{} are equal to the last digit in all {} figures: the same record appears {} times.",
        capitalize(&join_names(&names)),
        first.figures,
        group.len()
    );
    let remedy =
        "Keep one of them: measurements do not repeat to the last digit, so one record was copied.";
    let mut finding = ValidityFinding::amber(ValidityCheck::IdenticalRecords, message, remedy);
    finding.cases = group.iter().map(|member| member.case.clone()).collect();
    finding.cases.dedup();
    if is_one_cell {
        finding.variants.clone_from(&first.variant);
        finding.runs = group.iter().map(|member| member.number).collect();
    }
    finding
}

/// Digest of a run's figures; `None` if there are too few to compare.
fn record_digest(run: &Run) -> Option<u64> {
    let digits: usize = run.samples.iter().map(|sample| count_digits(sample.value)).sum();
    if run.samples.len() < MIN_RECORD_FIGURES || digits < MIN_EQUAL_DIGITS {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    record_figures(run).hash(&mut hasher);
    Some(hasher.finish())
}

/// All figures of a run, in canonical order.
fn record_figures(run: &Run) -> Vec<(&str, u64)> {
    let mut record: Vec<(&str, u64)> =
        run.samples.iter().map(|sample| (&*sample.metric, sample.value.to_bits())).collect();
    record.sort_unstable();
    record
}

/// Number of significant digits.
fn count_digits(value: f64) -> usize {
    if value == 0.0 {
        return 0;
    }
    let text = format!("{value:e}");
    let mantissa = text.split('e').next().unwrap_or_default();
    mantissa.bytes().filter(u8::is_ascii_digit).count()
}

fn capitalize(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(characters).collect()
}
