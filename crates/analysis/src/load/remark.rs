//! What a reader of a load's figures must or should know, as figures; `report` finds the words.
//!
//! Also decides whether a load went on as it began. A server that warms up, fills a cache, leaks or throttles gives one
//! figure in the first half and another in the second; the figure for the whole is then of neither. This is a hint, no
//! test: the intervals of one load depend on each other.

use speedwell_load::latency::OpenVerdict;
use speedwell_load::measured::{Measured, Tick};
use speedwell_load::outcomes::{ErrorClass, Imbalance};

/// How much a remark weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// An error of the generator itself: no figure can be trusted.
    Wrong,
    /// The figures are not what they seem.
    Warning,
    /// Good to know.
    Note,
}

/// Why a machine may have been what was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MachineLimit {
    /// A thread of it had no time to spare: the share of the time that it was busy.
    Busy(f64),
    /// It was late itself, at the 99th percentile, and what that may be at most, in nanoseconds.
    Late(u64, u64),
    /// A network device was full: the share of its speed.
    Link(f64),
}

/// What there is to know.
#[derive(Debug, Clone, PartialEq)]
pub enum Remark {
    /// The counts of outcomes do not add up.
    Imbalance(Vec<Imbalance>),
    /// What the machines of a load counted is not what they counted together.
    PartsUnlike {
        /// The sum of their counts.
        parts: u64,
        /// The count of the whole.
        whole: u64,
    },
    /// A machine that sent a part of the load was lost, and the others were stopped.
    MachineLost {
        /// Its name.
        machine: String,
        /// How it ended.
        why: String,
        /// Requests that it had attempted at its last look.
        attempted: u64,
        /// When that was, in nanoseconds from the start of the load.
        at_ns: u64,
    },
    /// A machine may have been what was measured.
    MachineLimited {
        /// Its name.
        machine: String,
        /// Why.
        limit: MachineLimit,
    },
    /// Machines did not begin together.
    StartsApart {
        /// From the first to the last, in nanoseconds.
        ns: u64,
    },
    /// The clock of a machine was set in the course of the load.
    ClockSet {
        /// Its name.
        machine: String,
        /// By how much it moved against ours, in nanoseconds.
        drift_ns: i64,
    },
    /// No request was answered well.
    NothingAnswered,
    /// It was interrupted.
    Interrupted,
    /// Times are refused, because the generator was late by itself.
    GeneratorLimited(OpenVerdict),
    /// The tail is refused, because too few of the due requests were sent.
    RateMissed(OpenVerdict),
    /// Fewer requests were in flight than requested.
    ConcurrencyShort {
        /// Asked for.
        requested: u32,
        /// Under way on average.
        effective: f64,
        /// Connections being made, on average.
        connecting: f64,
    },
    /// Threads of the generator may have been what was measured.
    GeneratorBound {
        /// So many.
        bottlenecks: usize,
        /// Of so many.
        threads: usize,
        /// Share of the time that the busiest was busy.
        busiest: f64,
    },
    /// An open load needed more connections than it may have.
    ConnectionsCapped {
        /// So many it had.
        most: u32,
    },
    /// Requests that failed.
    Failed {
        /// How many.
        count: u64,
        /// Of how many.
        of: u64,
        /// The most frequent way.
        class: ErrorClass,
    },
    /// Answers with another status than 2xx that count as good, because it was requested.
    Accepted {
        /// How many.
        count: u64,
    },
    /// Requests that were due but not sent, or sent but not answered at the end.
    Unfinished {
        /// Due, but never sent.
        unsent: u64,
        /// Sent, without an end.
        in_flight: u64,
        /// Given up by the generator.
        cancelled: u64,
    },
    /// Two halves differ.
    Unsteady(Halves),
    /// Other programs disturbed the generator.
    Disturbed {
        /// Switches per second, over all threads.
        switches_per_s: f64,
        /// Share of the requests that were in flight at a switch, at most.
        share: f64,
    },
    /// Bodies of good answers differ in length.
    LengthsVary {
        /// The shortest body in bytes.
        least: u64,
        /// The longest body in bytes.
        greatest: u64,
    },
    /// Answers that state their length in two ways.
    DoubtfulFraming {
        /// How many.
        count: u64,
    },
    /// Connections given up because bytes came that nobody had requested.
    StrayBytes {
        /// How many.
        count: u64,
    },
    /// Requests that were sent again.
    Retried {
        /// How many.
        count: u64,
    },
    /// Answers before the answer.
    Interim {
        /// How many.
        count: u64,
    },
    /// Connections were not used again although they might have been.
    NotReusable {
        /// Good answers whose server closed the connection.
        count: u64,
        /// Good answers.
        of: u64,
    },
}

impl Remark {
    /// How much it weighs.
    pub fn weight(&self) -> Weight {
        match self {
            Remark::Imbalance(_) | Remark::PartsUnlike { .. } => Weight::Wrong,
            Remark::MachineLost { .. }
            | Remark::MachineLimited { .. }
            | Remark::StartsApart { .. }
            | Remark::NothingAnswered
            | Remark::Interrupted
            | Remark::GeneratorLimited(_)
            | Remark::RateMissed(_)
            | Remark::ConcurrencyShort { .. }
            | Remark::GeneratorBound { .. }
            | Remark::ConnectionsCapped { .. }
            | Remark::Failed { .. }
            | Remark::Unfinished { .. }
            | Remark::Unsteady(_)
            | Remark::Disturbed { .. }
            | Remark::DoubtfulFraming { .. }
            | Remark::StrayBytes { .. } => Weight::Warning,
            Remark::Accepted { .. }
            | Remark::ClockSet { .. }
            | Remark::LengthsVary { .. }
            | Remark::Retried { .. }
            | Remark::Interim { .. }
            | Remark::NotReusable { .. } => Weight::Note,
        }
    }
}

/// Intervals that each half must have, so that a single pause does not look like a course.
const FEWEST: usize = 10;

/// Halves that differ by less than this share count as alike.
const ALIKE: f64 = 0.05;

/// And by so many standard errors of their difference. Three instead of the usual two, because
/// intervals that follow each other are more alike than independent ones.
const ERRORS: f64 = 3.0;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// Good answers per second.
    Throughput,
    /// The median of the service time, in nanoseconds.
    Median,
}

/// Two halves that differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Halves {
    /// What was compared.
    pub course: Course,
    /// Its mean over the first half.
    pub first: f64,
    /// Its mean over the second half.
    pub second: f64,
}

/// The halves of a load, if they differ. Of an open load the throughput is given by its schedule, so
/// the median is compared; with a schedule that changes nothing is.
pub(super) fn halves(measured: &Measured, course: Course) -> Option<Halves> {
    let interval_ns = measured.timeline.interval_ns;
    let per_second = 1e9 / interval_ns as f64;
    let value = |tick: &Tick| match course {
        Course::Throughput => Some(tick.ok as f64 * per_second),
        Course::Median => tick.p50_ns.map(|ns| ns as f64),
    };
    let values: Vec<f64> = whole_ticks(measured).iter().filter_map(value).collect();
    let (first, second) = values.split_at(values.len() / 2);
    if first.len() < FEWEST {
        return None;
    }
    let ((mean, error), (later, later_error)) = (moments(first), moments(second));
    let difference = (later - mean).abs();
    let differs = difference > ALIKE * mean && difference > ERRORS * error.hypot(later_error);
    differs.then_some(Halves {
        course,
        first: mean,
        second: later,
    })
}

/// The intervals after the warm-up that were over when the load ended.
pub(super) fn whole_ticks(measured: &Measured) -> &[Tick] {
    let timeline = &measured.timeline;
    let whole = measured.elapsed_ns.checked_div(timeline.interval_ns);
    let ticks = timeline.ticks.get(timeline.warmup..).unwrap_or_default();
    &ticks[..ticks.len().min(whole.unwrap_or(0) as usize)]
}

/// Mean and standard error of the mean.
fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0) / count).sqrt())
}
