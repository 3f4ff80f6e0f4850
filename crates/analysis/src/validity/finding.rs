//! What a check finds: which check it was, how bad it is, which cases and variants it concerns, and what to do.

/// What was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Check {
    /// Figures that contradict each other, or that nothing can have.
    Impossible,
    /// Requests in flight by Little's law, against those that were requested.
    InFlight,
    /// Latencies of variants that carried different loads.
    LatencyRanking,
    /// Failures that are only bodies of another length.
    LengthFailures,
    /// Records that are equal to the last digit.
    IdenticalRecords,
    /// Runs of one address that nobody can tell apart.
    UnnamedRuns,
    /// Bytes per response as a fingerprint of what was served.
    BytesPerResponse,
    /// Rows of a column that belong to other rows.
    MisalignedRows,
    /// Answers with another status than 2xx, and failed requests.
    FailedRequests,
    /// Latency that repeats the throughput.
    LatencyIsThroughput,
    /// Latencies of different load generators.
    Generators,
    /// Variables that reach more than the measured program.
    ReachOfPatch,
    /// One run per figure.
    SingleRuns,
    /// A load generator without reserve.
    GeneratorBusy,
    /// Processes that waited for a processor.
    Pressure,
    /// Time that the hypervisor took away.
    Steal,
    /// A candidate that is better though it cannot be.
    BetterThanPossible,
    /// The same thing measured twice, with different results.
    ControlDiffers,
}

impl Check {
    /// Its name for machines and in documents.
    pub fn name(self) -> &'static str {
        match self {
            Check::Impossible => "impossible-figures",
            Check::InFlight => "in-flight",
            Check::LatencyRanking => "latency-ranking",
            Check::LengthFailures => "length-failures",
            Check::IdenticalRecords => "identical-records",
            Check::UnnamedRuns => "unnamed-runs",
            Check::BytesPerResponse => "bytes-per-response",
            Check::MisalignedRows => "misaligned-rows",
            Check::FailedRequests => "failed-requests",
            Check::LatencyIsThroughput => "latency-is-throughput",
            Check::Generators => "generators",
            Check::ReachOfPatch => "reach-of-patch",
            Check::SingleRuns => "single-runs",
            Check::GeneratorBusy => "generator-busy",
            Check::Pressure => "pressure",
            Check::Steal => "steal",
            Check::BetterThanPossible => "better-than-possible",
            Check::ControlDiffers => "control-differs",
        }
    }
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The figures are not those of what they are named after.
    Red,
    /// The figures mean less than they seem to.
    Amber,
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The check that found it.
    pub check: Check,
    /// How bad it is.
    pub level: Level,
    /// Ids of the cases concerned; empty for all.
    pub cases: Vec<String>,
    /// The same cases by what sets them apart from all others.
    pub names: Vec<String>,
    /// The variants concerned; empty for all.
    pub variants: Vec<String>,
    /// Which runs of that case and variant, counted from 1; empty for all.
    pub runs: Vec<usize>,
    /// Names that must not be ranked against each other, or a row and the row that it looks like.
    pub pairs: Vec<(String, String)>,
    /// What was found, as whole sentences.
    pub says: String,
    /// What to do about it, as a whole sentence.
    pub remedy: String,
}

impl Finding {
    pub(super) fn new(
        check: Check,
        level: Level,
        says: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding {
            check,
            level,
            cases: Vec::new(),
            names: Vec::new(),
            variants: Vec::new(),
            runs: Vec::new(),
            pairs: Vec::new(),
            says: says.into(),
            remedy: remedy.into(),
        }
    }
}

/// `'a'`, `'a' and 'b'`, `'a', 'b' and 'c'`.
pub(super) fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("'{name}'")).collect();
    joined(&names)
}

/// `a`, `a and b`, `a, b and c`.
pub fn joined(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// Which of several runs, counted from 1: nothing if there is one run, ` in all 8 runs`,
/// ` in run 2 of 3`, ` in runs 1 and 3 of 3`.
pub(super) fn of_runs(numbers: &[usize], all: usize) -> String {
    /// So many numbers are listed; more are counted.
    const LISTED: usize = 4;
    match numbers.len() {
        _ if all == 1 => String::new(),
        2 if all == 2 => " in both runs".to_owned(),
        count if count == all => format!(" in all {all} runs"),
        1 => format!(" in run {} of {all}", numbers[0]),
        count if count > LISTED => format!(" in {count} of {all} runs"),
        _ => {
            let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
            format!(" in runs {} of {all}", joined(&numbers))
        }
    }
}

/// `186.1`, or `95.6 to 98.6` if there are several that differ when printed.
pub(super) fn span(values: &[f64]) -> String {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (low, high) = (format!("{low:.1}"), format!("{high:.1}"));
    if low == high {
        low
    } else {
        format!("{low} to {high}")
    }
}
