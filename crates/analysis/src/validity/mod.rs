//! Whether figures can be what they are said to be: checks of conservation, of Little's law, of
//! records and of circumstances, on any session, measured here or published by others.
//!
//! Decides what is found and what to do about it; it changes no figure and knows no format. One file
//! per check; the cells that they all look at are in `cells.rs`. Start at [`of`].

mod alignment;
mod cells;
mod circumstances;
mod conservation;
mod direction;
mod disguise;
mod identical;
mod impossible;
mod in_flight;
mod names;
mod outcome;
mod patch;
mod ranking;
mod resolution;
mod single_runs;

#[cfg(test)]
mod tests;

pub use names::joined;

use self::cells::Cells;
pub(super) use self::ranking::refuse;
use super::Comparison;
use speedwell_model::Session;
use std::collections::HashMap;

/// What was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Check {
    /// Figures that contradict each other, or that nothing can have.
    Impossible,
    /// Requests in flight by Little's law, against those that were asked for.
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
    fn new(
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

/// What a session does not say of itself.
#[derive(Debug, Clone, Default)]
pub struct Known<'a> {
    /// Requests that were to be in flight at once (connections times pipelining), by the id of the
    /// case. Without an entry the parameters `concurrency`, or `connections` and `pipelining`, say so.
    pub asked: HashMap<String, f64>,
    /// Ids of cases whose answers may have another size under another variant.
    pub sizes_may_differ: Vec<String>,
    /// Variants that do more work than the baseline, so that they cannot be better.
    pub never_better: Vec<String>,
    /// The baseline against itself: what it finds is noise.
    pub control: Option<&'a Comparison>,
}

/// Everything that is wrong with the figures of a session, the worst first.
pub fn of(session: &Session, known: &Known<'_>) -> Vec<Finding> {
    let cells = Cells::of_session(session, known);
    let mut found = of_cells(&cells);
    found.extend(single_runs::check(&cells));
    found.extend(direction::better_than_possible(&cells, known));
    found.extend(known.control.and_then(direction::control_differs));
    finished(found, &cells)
}

/// The same for sides of a comparison that come from several sessions: label, session and name of the
/// variant that takes part.
pub(super) fn of_sides(sides: &[(&str, &Session, &str)]) -> Vec<Finding> {
    let cells = Cells::of_sides(sides);
    finished(of_cells(&cells), &cells)
}

fn finished(mut found: Vec<Finding>, cells: &Cells<'_>) -> Vec<Finding> {
    for finding in &mut found {
        finding.names = finding
            .cases
            .iter()
            .map(|id| cells.name(id).to_owned())
            .collect();
    }
    found.sort_by_key(|finding| finding.level);
    found
}

fn of_cells(cells: &Cells<'_>) -> Vec<Finding> {
    let mut found = conservation::check(cells);
    found.extend(impossible::check(cells));
    found.extend(outcome::failed(cells));
    let disguise = disguise::check(cells);
    if disguise.is_none() {
        found.extend(in_flight::check(cells));
    }
    found.extend(disguise);
    found.extend(ranking::latencies(cells));
    found.extend(ranking::generators(cells));
    found.extend(outcome::lengths(cells));
    found.extend(identical::records(cells));
    found.extend(identical::unnamed(cells));
    found.extend(patch::check(cells));
    found.extend(circumstances::check(cells));
    found
}
