//! Defines the remarks on a load as plain data, which `report` formats for readers.
//!
//! Also decides whether a load was steady. A server that warms up, fills a cache, leaks or
//! throttles performs differently in each half, and the overall figure then describes neither half.
//! A difference between the halves is only a hint, not a test result, because the intervals of one
//! load are not independent.

use speedwell_model::load::latency::OpenVerdict;
use speedwell_model::load::measurement::{LoadMeasurement, TimelineTick};
use speedwell_model::load::outcomes::{CountImbalance, ErrorClass};

/// Severity of a remark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RemarkSeverity {
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
    /// A thread of the machine was saturated. Contains the fraction of the time that the thread was
    /// busy.
    Busy(f64),
    /// The machine sent requests late. Contains the 99th percentile of its own lateness, and the
    /// limit of this lateness, in nanoseconds.
    Late(u64, u64),
    /// A network device was saturated. Contains the fraction of its speed that was used.
    Link(f64),
}

/// A remark on a load.
#[derive(Debug, Clone, PartialEq)]
pub enum LoadRemark {
    /// The counts of outcomes do not add up.
    Imbalance(Vec<CountImbalance>),
    /// The counts of the machines do not add up to the total.
    PartsUnlike {
        /// The sum over the machines.
        parts: u64,
        /// The total.
        whole: u64,
    },
    /// A machine that sent part of the load was lost, and the others were stopped.
    MachineLost {
        /// Name of the machine.
        machine: String,
        /// How the machine was lost.
        why: String,
        /// Number of requests attempted until its last report.
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
    /// Times are not reported because the generator itself was late.
    GeneratorLimited(OpenVerdict),
    /// The longest times are not reported because too few of the due requests were sent.
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
        /// Fraction of the time that the busiest thread was busy.
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
        total: u64,
        /// Most frequent error.
        class: ErrorClass,
    },
    /// Responses with a status other than 2xx. The user requested that they count as successful.
    Accepted {
        /// Number of responses.
        count: u64,
    },
    /// Due requests that were not sent or not answered when the load ended.
    Unfinished {
        /// Due, but never sent.
        unsent: u64,
        /// Sent, but not finished.
        in_flight: u64,
        /// Given up by the generator.
        cancelled: u64,
    },
    /// The two halves differ.
    Unsteady(LoadHalves),
    /// Other programs disturbed the generator.
    Disturbed {
        /// Context switches per second, over all threads.
        switches_per_s: f64,
        /// Upper bound of the fraction of all requests that were in flight during a context switch.
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
    /// The server closed connections that it was asked to keep open.
    NotReusable {
        /// Successful responses after which the server closed the connection.
        count: u64,
        /// Successful responses.
        total: u64,
    },
}

impl LoadRemark {
    /// Severity of the remark.
    pub fn severity(&self) -> RemarkSeverity {
        match self {
            LoadRemark::Imbalance(_) | LoadRemark::PartsUnlike { .. } => RemarkSeverity::Wrong,
            LoadRemark::MachineLost { .. }
            | LoadRemark::MachineLimited { .. }
            | LoadRemark::StartsApart { .. }
            | LoadRemark::NothingAnswered
            | LoadRemark::Interrupted
            | LoadRemark::GeneratorLimited(_)
            | LoadRemark::RateMissed(_)
            | LoadRemark::ConcurrencyShort { .. }
            | LoadRemark::GeneratorBound { .. }
            | LoadRemark::ConnectionsCapped { .. }
            | LoadRemark::Failed { .. }
            | LoadRemark::Unfinished { .. }
            | LoadRemark::Unsteady(_)
            | LoadRemark::Disturbed { .. }
            | LoadRemark::DoubtfulFraming { .. }
            | LoadRemark::StrayBytes { .. } => RemarkSeverity::Warning,
            LoadRemark::Accepted { .. }
            | LoadRemark::ClockSet { .. }
            | LoadRemark::LengthsVary { .. }
            | LoadRemark::Retried { .. }
            | LoadRemark::Interim { .. }
            | LoadRemark::NotReusable { .. } => RemarkSeverity::Note,
        }
    }
}

/// Minimum number of intervals per half, so that a single pause does not look like drift.
const MIN_HALF_INTERVALS: usize = 10;

/// Halves count as equal if they differ by less than this fraction of the first half.
const MAX_EQUAL_SHARE: f64 = 0.05;

/// Minimum difference between the halves, as a number of standard errors. It is three instead of
/// the usual two, because successive intervals are correlated.
const MIN_STANDARD_ERRORS: f64 = 3.0;

/// Quantity compared between halves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriftMetric {
    /// Successful requests per second.
    Throughput,
    /// Median service time, in nanoseconds.
    Median,
}

/// Two halves that differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadHalves {
    /// Quantity compared.
    pub course: DriftMetric,
    /// Mean over the first half.
    pub first: f64,
    /// Mean over the second half.
    pub second: f64,
}

/// Compares the halves of a load; returns them if they differ. `course` is the quantity to compare.
/// For an open load, the caller passes the median time, because the schedule determines the
/// throughput. For a load with a varying schedule, this is not called.
pub(super) fn compare_halves(
    measured: &LoadMeasurement,
    course: DriftMetric,
) -> Option<LoadHalves> {
    let interval_ns = measured.timeline.interval_ns;
    let per_second = 1e9 / interval_ns as f64;
    let value = |tick: &TimelineTick| match course {
        DriftMetric::Throughput => Some(tick.ok as f64 * per_second),
        DriftMetric::Median => tick.p50_ns.map(|ns| ns as f64),
    };
    let values: Vec<f64> = complete_ticks(measured).iter().filter_map(value).collect();
    let (first, second) = values.split_at(values.len() / 2);
    if first.len() < MIN_HALF_INTERVALS {
        return None;
    }
    let ((mean, error), (later, later_error)) = (mean_and_error(first), mean_and_error(second));
    let difference = (later - mean).abs();
    let differs = difference > MAX_EQUAL_SHARE * mean
        && difference > MIN_STANDARD_ERRORS * error.hypot(later_error);
    differs.then_some(LoadHalves { course, first: mean, second: later })
}

/// Complete intervals after the warm-up.
pub(super) fn complete_ticks(measured: &LoadMeasurement) -> &[TimelineTick] {
    let timeline = &measured.timeline;
    let complete_intervals = measured.elapsed_ns.checked_div(timeline.interval_ns);
    let ticks = timeline.ticks.get(timeline.warmup..).unwrap_or_default();
    &ticks[..ticks.len().min(complete_intervals.unwrap_or(0) as usize)]
}

/// Mean and its standard error.
fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0) / count).sqrt())
}
