//! Defines the findings of the checks: which check made a finding, how severe it is, which cases
//! and variants it concerns, and what to do.

use crate::grid::value_range;
use speedwell_model::name_variants;

/// The available checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ValidityCheck {
    /// Figures that contradict each other or are impossible.
    Impossible,
    /// The number of requests in flight, by Little's law, differs from the requested number.
    InFlight,
    /// Latencies of variants that carried different loads.
    LatencyRanking,
    /// Failures that are only differences in body length.
    LengthFailures,
    /// Records that agree to the last digit.
    IdenticalRecords,
    /// Indistinguishable runs of one URL.
    UnnamedRuns,
    /// Variants whose responses differ in size and are therefore different responses.
    BytesPerResponse,
    /// Values of a column that seem to belong to other rows.
    MisalignedRows,
    /// Responses with a status other than 2xx, and failed requests.
    FailedRequests,
    /// Latency that merely restates the throughput.
    LatencyIsThroughput,
    /// Latencies of different load generators.
    Generators,
    /// Environment variables that affect more than the measured program.
    InheritedVariable,
    /// Figures that each come from a single run.
    SingleRuns,
    /// A load generator without spare capacity.
    GeneratorBusy,
    /// Processes that waited for a processor.
    Pressure,
    /// Time taken by the hypervisor.
    Steal,
    /// A candidate that is better although that should be impossible.
    BetterThanPossible,
    /// The same program measured twice, with different results.
    ControlDiffers,
}

// Names in documents and machine-readable output.
name_variants!(ValidityCheck: Impossible = "impossible-figures", InFlight = "in-flight",
    LatencyRanking = "latency-ranking", LengthFailures = "length-failures",
    IdenticalRecords = "identical-records", UnnamedRuns = "unnamed-runs",
    BytesPerResponse = "bytes-per-response", MisalignedRows = "misaligned-rows",
    FailedRequests = "failed-requests", LatencyIsThroughput = "latency-is-throughput",
    Generators = "generators", InheritedVariable = "reach-of-patch", SingleRuns = "single-runs",
    GeneratorBusy = "generator-busy", Pressure = "pressure", Steal = "steal",
    BetterThanPossible = "better-than-possible", ControlDiffers = "control-differs");

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingSeverity {
    /// The figures do not measure what their names suggest.
    Red,
    /// The figures mean less than they seem to.
    Amber,
}

/// A finding.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidityFinding {
    /// The check that made this finding.
    pub check: ValidityCheck,
    /// Severity.
    pub level: FindingSeverity,
    /// Ids of the affected cases; empty if all cases are affected.
    pub cases: Vec<String>,
    /// Names of the same cases, without the parameters that all cases share.
    pub names: Vec<String>,
    /// Affected variants; empty if all variants are affected.
    pub variants: Vec<String>,
    /// Numbers of the affected runs, counting from 1, if the finding concerns one case under one
    /// variant. Empty if all runs are affected.
    pub runs: Vec<usize>,
    /// For latencies: two variants or runs that must not be ranked against each other. For
    /// misaligned rows: a row, and the row that it resembles.
    pub pairs: Vec<(String, String)>,
    /// Description, as whole sentences.
    pub says: String,
    /// What to do about it, as a whole sentence.
    pub remedy: String,
}

impl ValidityFinding {
    /// A finding about figures that do not measure what their names suggest.
    pub fn red(check: ValidityCheck, says: String, remedy: &str) -> ValidityFinding {
        let level = FindingSeverity::Red;
        ValidityFinding { level, ..ValidityFinding::amber(check, says, remedy) }
    }

    /// A finding about figures that mean less than they seem to.
    pub fn amber(check: ValidityCheck, says: String, remedy: &str) -> ValidityFinding {
        ValidityFinding {
            check,
            level: FindingSeverity::Amber,
            cases: Vec::new(),
            names: Vec::new(),
            variants: Vec::new(),
            runs: Vec::new(),
            pairs: Vec::new(),
            says,
            remedy: remedy.to_owned(),
        }
    }
}

/// Joins names as `'a'`, `'a' and 'b'`, `'a', 'b' and 'c'`.
pub(super) fn quote_names<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("'{name}'")).collect();
    join_names(&names)
}

/// Joins names as `a`, `a and b`, `a, b and c`.
pub fn join_names(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

/// Names runs by their numbers, which count from 1. The text is empty if there is only one run.
/// Examples: ` in all 8 runs`, ` in run 2 of 3`, ` in runs 1 and 3 of 3`.
pub(super) fn format_run_numbers(numbers: &[usize], total: usize) -> String {
    /// Maximum number of runs listed; more are only counted.
    const MAX_LISTED: usize = 4;
    match numbers.len() {
        _ if total == 1 => String::new(),
        2 if total == 2 => " in both runs".to_owned(),
        count if count == total => format!(" in all {total} runs"),
        1 => format!(" in run {} of {total}", numbers[0]),
        count if count > MAX_LISTED => format!(" in {count} of {total} runs"),
        _ => {
            let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
            format!(" in runs {} of {total}", join_names(&numbers))
        }
    }
}

/// Formats values as `186.1`, or as `95.6 to 98.6` if smallest and largest differ when printed.
pub(super) fn format_span(values: &[f64]) -> String {
    let (low, high) = value_range(values.iter().copied());
    let (low, high) = (format!("{low:.1}"), format!("{high:.1}"));
    if low == high { low } else { format!("{low} to {high}") }
}
