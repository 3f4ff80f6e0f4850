//! Defines what a reader must be told about a load besides its figures, and finds out what concerns
//! its halves and its machines.
//!
//! A server that warms up, fills a cache, leaks or throttles performs differently in each half, and
//! the overall figure then describes neither half. A difference between the halves is only a hint,
//! not a test result, because the intervals of one load are not independent. A bottleneck on one
//! machine limits the whole load, because no other machine sends the missing requests.

use speedwell_model::load::latency::OpenVerdict;
use speedwell_model::load::measurement::{
    LoadMeasurement, LoadPart, LoadRun, PaceFacts, TimelineTick,
};
use speedwell_model::load::outcomes::ErrorClass;

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

/// A remark on a load. Figures that are not given here are in the findings that contain the remark.
#[derive(Debug, Clone, PartialEq)]
pub enum LoadRemark<'a> {
    /// The counts of outcomes do not add up.
    Imbalance,
    /// The counts of the machines do not add up to the total.
    PartsUnlike {
        /// The sum over the machines.
        parts: u64,
        /// The total.
        whole: u64,
    },
    /// A machine that sent part of the load was lost, and the others were stopped.
    MachineLost(&'a LoadPart),
    /// A machine may have been the bottleneck.
    MachineLimited(&'a LoadPart, MachineLimit),
    /// Machines did not start together. Contains the time from the first to the last start, in
    /// nanoseconds.
    StartsApart(u64),
    /// The clock of a machine was set during the load. Contains its drift against the local clock,
    /// in nanoseconds.
    ClockSet(&'a LoadPart, i64),
    /// No request succeeded.
    NothingAnswered,
    /// The load was interrupted.
    Interrupted,
    /// Times are not reported because the generator itself was late.
    GeneratorLimited(OpenVerdict),
    /// The longest times are not reported because too few of the due requests were sent.
    RateMissed(OpenVerdict),
    /// Fewer requests were in flight than requested.
    ConcurrencyShort,
    /// Threads of the generator may have been the bottleneck.
    GeneratorBound,
    /// An open load needed more connections than allowed.
    ConnectionsCapped,
    /// Requests failed. Contains the most frequent error.
    Failed(ErrorClass),
    /// Responses with a status other than 2xx count as successful, as the user requested. Contains
    /// their number.
    Accepted(u64),
    /// Due requests were not sent or not answered when the load ended.
    Unfinished,
    /// The two halves differ.
    Unsteady(LoadHalves),
    /// Other programs disturbed the generator. Contains an upper bound of the fraction of all
    /// requests that were in flight during a context switch.
    Disturbed(f64),
    /// Bodies of successful responses differ in length.
    LengthsVary,
    /// Responses stated their length in two ways.
    DoubtfulFraming,
    /// Connections were closed because of unrequested bytes.
    StrayBytes,
    /// Requests were retried.
    Retried,
    /// There were interim (1xx) responses.
    Interim,
    /// The server closed connections that it was asked to keep open.
    NotReusable,
}

impl LoadRemark<'_> {
    /// Severity of the remark.
    pub fn severity(&self) -> RemarkSeverity {
        self.severity_and_name().0
    }

    /// Name for programs. Names never change, so programs can rely on them.
    pub fn name(&self) -> &'static str {
        self.severity_and_name().1
    }

    fn severity_and_name(&self) -> (RemarkSeverity, &'static str) {
        use RemarkSeverity::{Note, Warning, Wrong};
        match self {
            LoadRemark::Imbalance => (Wrong, "imbalance"),
            LoadRemark::PartsUnlike { .. } => (Wrong, "parts-unlike"),
            LoadRemark::MachineLost(_) => (Warning, "machine-lost"),
            LoadRemark::MachineLimited(..) => (Warning, "machine-limited"),
            LoadRemark::StartsApart(_) => (Warning, "starts-apart"),
            LoadRemark::ClockSet(..) => (Note, "clock-set"),
            LoadRemark::NothingAnswered => (Warning, "nothing-answered"),
            LoadRemark::Interrupted => (Warning, "interrupted"),
            LoadRemark::GeneratorLimited(_) => (Warning, "generator-limited"),
            LoadRemark::RateMissed(_) => (Warning, "rate-missed"),
            LoadRemark::ConcurrencyShort => (Warning, "concurrency-short"),
            LoadRemark::GeneratorBound => (Warning, "generator-bound"),
            LoadRemark::ConnectionsCapped => (Warning, "connections-capped"),
            LoadRemark::Failed(_) => (Warning, "failed"),
            LoadRemark::Accepted(_) => (Note, "accepted"),
            LoadRemark::Unfinished => (Warning, "unfinished"),
            LoadRemark::Unsteady(_) => (Warning, "unsteady"),
            LoadRemark::Disturbed(_) => (Warning, "disturbed"),
            LoadRemark::LengthsVary => (Note, "lengths-vary"),
            LoadRemark::DoubtfulFraming => (Warning, "doubtful-framing"),
            LoadRemark::StrayBytes => (Warning, "stray-bytes"),
            LoadRemark::Retried => (Note, "retried"),
            LoadRemark::Interim => (Note, "interim"),
            LoadRemark::NotReusable => (Note, "not-reusable"),
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

/// Compares the halves of a load; returns them if they differ.
pub(super) fn compare_halves(run: &LoadRun) -> Option<LoadHalves> {
    let (measured, course) = (&run.measured, drift_metric(run)?);
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

/// Quantity to compare between the halves of a load. For an open load, it is the median time, because
/// the schedule determines the throughput. Halves of a varying schedule are not compared.
fn drift_metric(run: &LoadRun) -> Option<DriftMetric> {
    let PaceFacts::Open { stages, .. } = &run.requested.pace else {
        return Some(DriftMetric::Throughput);
    };
    let first = stages.first()?.from_per_s;
    let is_steady = stages.iter().all(|stage| stage.from_per_s == first && stage.to_per_s == first);
    is_steady.then_some(DriftMetric::Median)
}

/// A network device may have limited the load if it used more than this fraction of its speed.
const LINK_FULL: f64 = 0.9;
/// If machines start further apart than this, or than a fraction of the load's length
/// (`MAX_START_GAP_SHARE`), the load differs from the requested load for a while.
const MAX_START_GAP_NS: u64 = 100_000_000;
const MAX_START_GAP_SHARE: f64 = 0.01;
/// If a clock drifted by more than this during the load, in nanoseconds, it must have been set.
const MAX_CLOCK_DRIFT_NS: u64 = 100_000_000;

/// Remarks by kind; the caller sorts them by severity.
pub(super) fn machine_remarks(run: &LoadRun) -> Vec<LoadRemark<'_>> {
    let parts = &run.parts;
    let lost_parts = parts.iter().filter(|part| part.lost.is_some());
    let mut remarks: Vec<LoadRemark<'_>> = lost_parts.map(LoadRemark::MachineLost).collect();
    remarks.extend(unequal_parts(run));
    remarks.extend(parts.iter().filter_map(limited_machine));
    remarks.extend(starts_apart(run));
    remarks.extend(parts.iter().filter_map(clock_set));
    remarks
}

/// Returns a remark if the machines' counts do not add up to the counts of the whole load, which
/// are stored separately.
fn unequal_parts(run: &LoadRun) -> Option<LoadRemark<'_>> {
    let remaining_parts = || run.parts.iter().filter(|part| part.lost.is_none());
    remaining_parts().next()?;
    let counts = &run.measured.totals.outcomes;
    let sum = |count_of: fn(&LoadPart) -> u64| remaining_parts().map(count_of).sum::<u64>();
    let pairs = [
        (sum(|part| part.attempted), counts.attempts()),
        (sum(|part| part.ok), counts.succeeded()),
        (sum(|part| part.errors), counts.all_errors()),
    ];
    let unequal = pairs.into_iter().find(|(parts, total)| parts != total)?;
    Some(LoadRemark::PartsUnlike { parts: unequal.0, whole: unequal.1 })
}

fn limited_machine(part: &LoadPart) -> Option<LoadRemark<'_>> {
    let excessive_lag = part.own_lag_p99_ns.filter(|(lag, limit)| lag > limit);
    let late = excessive_lag.map(|(lag, limit)| MachineLimit::Late(lag, limit));
    let busy = part.is_bottleneck.then_some(MachineLimit::Busy(part.busiest));
    let full_link = part.link.as_ref().filter(|(_, share)| *share > LINK_FULL);
    let link = full_link.map(|(_, share)| MachineLimit::Link(*share));
    Some(LoadRemark::MachineLimited(part, late.or(busy).or(link)?))
}

fn clock_set(part: &LoadPart) -> Option<LoadRemark<'_>> {
    let drift_ns = part.drift_ns.filter(|ns| ns.unsigned_abs() > MAX_CLOCK_DRIFT_NS)?;
    Some(LoadRemark::ClockSet(part, drift_ns))
}

fn starts_apart(run: &LoadRun) -> Option<LoadRemark<'_>> {
    let latest = run.parts.iter().filter_map(|part| part.began_ns).max()?;
    let latest_ns = u64::try_from(latest).ok()?;
    let share = MAX_START_GAP_SHARE * run.measured.elapsed_ns as f64;
    (latest_ns > MAX_START_GAP_NS || latest_ns as f64 > share)
        .then_some(LoadRemark::StartsApart(latest_ns))
}
