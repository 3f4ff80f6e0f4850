//! Remarks for readers of a load's figures, as plain data; `report` formats them.
//!
//! Also decides whether a load was steady. A server that warms up, fills a cache, leaks or
//! throttles performs differently in each half, and the overall figure then describes neither. This
//! is a hint, not a test: the intervals of one load are not independent.

use speedwell_load::latency::OpenVerdict;
use speedwell_load::measured::{Measured, Tick};
use speedwell_load::outcomes::{ErrorClass, Imbalance};

/// Severity of a remark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// A defect of the generator itself: no figure can be trusted.
    Wrong,
    /// The figures may be misleading.
    Warning,
    /// Worth knowing.
    Note,
}

/// Why a machine may have been the bottleneck.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MachineLimit {
    /// One of its threads was saturated: the share of the time that it was busy.
    Busy(f64),
    /// It sent late: its own 99th percentile and the limit, in nanoseconds.
    Late(u64, u64),
    /// A network device was saturated: the share of its speed.
    Link(f64),
}

/// A remark on a load.
#[derive(Debug, Clone, PartialEq)]
pub enum Remark {
    /// The counts of outcomes do not add up.
    Imbalance(Vec<Imbalance>),
    /// The counts of the machines do not add up to the total.
    PartsUnlike {
        /// The sum of their counts.
        parts: u64,
        /// The total.
        whole: u64,
    },
    /// A machine that sent part of the load was lost, and the others were stopped.
    MachineLost {
        /// Name of the machine.
        machine: String,
        /// How it ended.
        why: String,
        /// Requests attempted at its last report.
        attempted: u64,
        /// Time of that report, in nanoseconds from the start of the load.
        at_ns: u64,
    },
    /// A machine may have been the bottleneck.
    MachineLimited {
        /// Name of the machine.
        machine: String,
        /// Why.
        limit: MachineLimit,
    },
    /// Machines did not start together.
    StartsApart {
        /// From the first to the last start, in nanoseconds.
        ns: u64,
    },
    /// The clock of a machine was set during the load.
    ClockSet {
        /// Name of the machine.
        machine: String,
        /// Drift against the local clock, in nanoseconds.
        drift_ns: i64,
    },
    /// No request succeeded.
    NothingAnswered,
    /// The load was interrupted.
    Interrupted,
    /// Times are refused because the generator itself was late.
    GeneratorLimited(OpenVerdict),
    /// The tail is refused because too few of the due requests were sent.
    RateMissed(OpenVerdict),
    /// Fewer requests were in flight than requested.
    ConcurrencyShort {
        /// Requested number.
        requested: u32,
        /// Mean number in flight.
        effective: f64,
        /// Mean number of connections being opened.
        connecting: f64,
    },
    /// Threads of the generator may have been the bottleneck.
    GeneratorBound {
        /// Number of saturated threads.
        bottlenecks: usize,
        /// Number of threads.
        threads: usize,
        /// Share of the time that the busiest thread was busy.
        busiest: f64,
    },
    /// An open load needed more connections than allowed.
    ConnectionsCapped {
        /// The limit.
        most: u32,
    },
    /// Requests failed.
    Failed {
        /// Number of failed requests.
        count: u64,
        /// Number of requests.
        of: u64,
        /// Most frequent error.
        class: ErrorClass,
    },
    /// Responses with a status other than 2xx that count as successful, as requested.
    Accepted {
        /// Number of responses.
        count: u64,
    },
    /// Requests that were due but not sent, or sent but not answered at the end.
    Unfinished {
        /// Due, but never sent.
        unsent: u64,
        /// Sent, but not finished.
        in_flight: u64,
        /// Given up by the generator.
        cancelled: u64,
    },
    /// The two halves differ.
    Unsteady(Halves),
    /// Other programs disturbed the generator.
    Disturbed {
        /// Context switches per second, over all threads.
        switches_per_s: f64,
        /// Maximum share of requests that were in flight during a switch.
        share: f64,
    },
    /// Bodies of successful responses differ in length.
    LengthsVary {
        /// Shortest body in bytes.
        least: u64,
        /// Longest body in bytes.
        greatest: u64,
    },
    /// Responses that state their length in two ways.
    DoubtfulFraming {
        /// Number of responses.
        count: u64,
    },
    /// Connections closed because of unrequested bytes.
    StrayBytes {
        /// Number of connections.
        count: u64,
    },
    /// Requests were retried.
    Retried {
        /// Number of retries.
        count: u64,
    },
    /// Interim (1xx) responses.
    Interim {
        /// Number of responses.
        count: u64,
    },
    /// Connections that could have been reused were not.
    NotReusable {
        /// Successful responses after which the server closed the connection.
        count: u64,
        /// Successful responses.
        of: u64,
    },
}

impl Remark {
    /// Severity of the remark.
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

/// Minimum number of intervals per half, so that a single pause does not look like drift.
const FEWEST: usize = 10;

/// Halves that differ by less than this share count as equal.
const ALIKE: f64 = 0.05;

/// Minimum difference in standard errors. Three instead of the usual two, because successive
/// intervals are correlated.
const ERRORS: f64 = 3.0;

/// Quantity compared between halves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// Successful requests per second.
    Throughput,
    /// Median service time, in nanoseconds.
    Median,
}

/// Two halves that differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Halves {
    /// Quantity compared.
    pub course: Course,
    /// Mean over the first half.
    pub first: f64,
    /// Mean over the second half.
    pub second: f64,
}

/// Compares the halves of a load; returns them if they differ. The schedule of an open load
/// determines its throughput, so the median is compared instead; with a varying schedule, nothing
/// is.
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

/// Complete intervals after the warm-up.
pub(super) fn whole_ticks(measured: &Measured) -> &[Tick] {
    let timeline = &measured.timeline;
    let whole = measured.elapsed_ns.checked_div(timeline.interval_ns);
    let ticks = timeline.ticks.get(timeline.warmup..).unwrap_or_default();
    &ticks[..ticks.len().min(whole.unwrap_or(0) as usize)]
}

/// Mean and its standard error.
fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0) / count).sqrt())
}
