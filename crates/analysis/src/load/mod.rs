//! Computes the figures of a load, and judges how far they can be trusted.
//!
//! Decides which times are reported, and what a reader must be warned about. Times that the
//! measurement does not support are refused, which means not reported. Formats nothing. Start at
//! [`analyze_load`] and [`LoadFindings`]; [`gate`] checks figures against limits.
//!
//! Times since sending (service) and times since the request was due (response) are never mixed. A
//! closed load has no response time: its clients send late when the server is slow, which omits the
//! waits that users would have had (coordinated omission, G. Tene 2013).
//!
//! A server that warms up, fills a cache, leaks or throttles performs differently in each half, and
//! the overall figure then describes neither half. A difference between the halves is only a hint,
//! not a test result, because the intervals of one load are not independent. A bottleneck on one
//! machine limits the whole load, because no other machine sends the missing requests.

pub mod gate;
mod search;
mod times;

pub use search::{
    ConcurrencySeries, LevelVisits, MissedReason, NextRate, RateAnswer, RateAttempt, RateRules,
    RateSeries, group_by_level, group_by_rate, next_level, next_rate,
};
pub use speedwell_model::load::latency::TimeRefusal;
pub use times::{PERCENTILES_PPM, QuantityFindings, ReportedTime, RequestGroup, TimedQuantity};

use serde::Serialize;
use speedwell_model::load::latency::{HistogramBin, OpenVerdict, is_concurrency_short};
use speedwell_model::load::measurement::{
    LoadMeasurement, LoadPart, LoadRun, PaceFacts, ThreadReport, TimelineTick,
};
use speedwell_model::load::outcomes::{CountImbalance, ErrorClass, OutcomeCounts};
use times::GeneratorTrust;

/// Findings of one load.
#[derive(Debug, Clone)]
pub struct LoadFindings<'a> {
    /// The load, as requested and measured.
    pub run: &'a LoadRun,
    /// Successful requests per second.
    pub throughput_per_s: Option<f64>,
    /// Bytes received and sent per second.
    pub bytes_per_s: Option<(f64, f64)>,
    /// Requests in flight.
    pub concurrency: RequestsInFlight,
    /// Whether an open load was as requested.
    pub open: Option<OpenVerdict>,
    /// Times of each quantity. The principal quantity comes first.
    pub times: Vec<QuantityFindings>,
    /// Whether every request is accounted for; an imbalance is a defect of the generator.
    pub balance: Result<(), Vec<CountImbalance>>,
    /// The generator's report about itself.
    pub generator: GeneratorStats,
    /// Fewest and most requests on one connection.
    pub per_connection: Option<(u64, u64)>,
    /// The two halves, if they differ.
    pub halves: Option<LoadHalves>,
    /// Remarks for the reader, most severe first.
    pub remarks: Vec<LoadRemark<'a>>,
    trust: GeneratorTrust,
}

/// Mean number of requests in flight, by Little's law.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct RequestsInFlight {
    /// Requested number; only a closed load without pauses has one.
    pub requested: Option<u32>,
    /// Mean number of requests between sending and the last byte.
    pub effective: Option<f64>,
    /// Mean number of connections being opened.
    pub connecting: Option<f64>,
    /// Whether fewer were in flight than requested.
    pub is_short: bool,
}

/// The generator's report about itself.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct GeneratorStats {
    /// Number of threads over all processes.
    pub threads: usize,
    /// Number of threads so busy that they may have limited the load.
    pub bottlenecks: usize,
    /// Fraction of the time that the busiest thread was busy.
    pub busiest: f64,
    /// Involuntary context switches per second. At such a switch, a thread loses its processor
    /// although it still has work to do.
    pub switches_per_s: f64,
    /// Maximum delay of response timestamps, caused by reading responses in batches.
    pub late_by_ns: u64,
    /// System calls per request.
    pub system_calls_per_request: Option<f64>,
    /// Processor time per request, in nanoseconds.
    pub cpu_ns_per_request: Option<f64>,
}

/// Analyzes a load.
pub fn analyze_load(run: &LoadRun) -> LoadFindings<'_> {
    let measured = &run.measured;
    let open = (measured.verdict()).map(|verdict| combined_verdict(verdict, &run.parts));
    let trust = GeneratorTrust::new(run, open);
    let bytes = measured.totals.outcomes.bytes;
    let seconds = measured.elapsed_ns as f64 / 1e9;
    let per_second = |bytes: u64| bytes as f64 / seconds;
    let mut findings = LoadFindings {
        run,
        throughput_per_s: measured.throughput(),
        bytes_per_s: (seconds > 0.0).then(|| (per_second(bytes.received), per_second(bytes.sent))),
        concurrency: requests_in_flight(run),
        open,
        times: times::load_times(run, &trust),
        balance: measured.totals.outcomes.check_balance(),
        generator: generator_stats(run),
        per_connection: requests_per_connection(&measured.threads),
        halves: drift_metric(run).and_then(|course| compare_halves(measured, course)),
        remarks: Vec::new(),
        trust,
    };
    findings.remarks = load_remarks(&findings);
    findings
}

impl LoadFindings<'_> {
    /// Quantity and group of requests by which the load is judged.
    pub fn principal_quantity(&self) -> (TimedQuantity, RequestGroup) {
        match self.open {
            Some(_) => (TimedQuantity::Response, RequestGroup::All),
            None => (TimedQuantity::Service, RequestGroup::Ok),
        }
    }

    /// Quantile of the principal quantity. `ppm` is the fraction of requests, in millionths.
    pub fn principal_quantile(&self, ppm: u32) -> Option<ReportedTime> {
        let (quantity, group) = self.principal_quantity();
        self.quantile(quantity, group, ppm)
    }

    /// Quantile of a quantity; `None` if nothing was timed. `ppm` is the fraction of requests, in
    /// millionths.
    pub fn quantile(
        &self,
        quantity: TimedQuantity,
        group: RequestGroup,
        ppm: u32,
    ) -> Option<ReportedTime> {
        self.times_of(quantity, group)?
            .percentile(ppm)
            .or_else(|| times::quantile_of_group(self.run, &self.trust, (quantity, group), ppm))
    }

    /// Histogram of the principal quantity; empty if its times are refused.
    pub fn principal_bins(&self) -> Vec<HistogramBin> {
        let (quantity, group) = self.principal_quantity();
        let refused = self.times_of(quantity, group).is_some_and(|times| times.refusal.is_some());
        if refused { Vec::new() } else { times::quantity_bins(self.run, (quantity, group)) }
    }

    /// Times of a quantity, if it was timed.
    pub fn times_of(
        &self,
        quantity: TimedQuantity,
        group: RequestGroup,
    ) -> Option<&QuantityFindings> {
        self.times.iter().find(|times| (times.quantity, times.group) == (quantity, group))
    }
}

fn requests_in_flight(run: &LoadRun) -> RequestsInFlight {
    let measured = &run.measured;
    let latency = &measured.totals.latency;
    let requested = match run.requested.pace {
        // Clients that pause have nothing in flight between requests, so no number is expected for
        // them.
        PaceFacts::Closed { concurrency, think_ns: 0, .. } => Some(concurrency),
        _ => None,
    };
    let effective = measured.effective_concurrency();
    let connecting = (measured.elapsed_ns > 0)
        .then(|| latency.connect_times().sum_ns() as f64 / measured.elapsed_ns as f64);
    RequestsInFlight {
        requested,
        effective,
        connecting,
        is_short: effective
            .zip(requested)
            .is_some_and(|(effective, requested)| is_concurrency_short(effective, requested)),
    }
}

fn generator_stats(run: &LoadRun) -> GeneratorStats {
    let threads = &run.measured.threads;
    let sum =
        |counter_of: fn(&ThreadReport) -> u64| threads.iter().map(counter_of).sum::<u64>() as f64;
    let measured = &run.measured;
    // Thread counters include the warm-up, so this number includes the requests of the warm-up.
    let requests = measured.totals.outcomes.attempts() + measured.warmup.outcomes.attempts();
    let per_request = |total: f64| (requests > 0 && total > 0.0).then(|| total / requests as f64);
    let elapsed_ns = threads.iter().map(|thread| thread.elapsed_ns).max();
    let seconds = elapsed_ns.unwrap_or(0) as f64 / 1e9;
    let switches = sum(|thread| thread.involuntary_switches);
    let longest = threads.iter().map(|thread| thread.longest_batch_ns).max();
    GeneratorStats {
        threads: threads.len(),
        bottlenecks: threads.iter().filter(|thread| thread.is_bottleneck()).count(),
        busiest: threads.iter().map(ThreadReport::busy_share).fold(0.0, f64::max),
        switches_per_s: if seconds > 0.0 { switches / seconds } else { 0.0 },
        late_by_ns: longest.unwrap_or(0),
        system_calls_per_request: per_request(sum(|thread| thread.system_calls)),
        cpu_ns_per_request: per_request(sum(|thread| thread.cpu_ns)),
    }
}

/// Fewest and most requests on one connection. A thread's minimum of 0 comes from a connection that
/// carried no request, and is ignored.
fn requests_per_connection(threads: &[ThreadReport]) -> Option<(u64, u64)> {
    let max_requests = threads.iter().map(|thread| thread.most_requests).max()?;
    let has_minimum = |thread: &&ThreadReport| (1..=max_requests).contains(&thread.fewest_requests);
    let fewest = threads.iter().filter(has_minimum).map(|thread| thread.fewest_requests);
    (max_requests > 0).then(|| (fewest.min().unwrap_or(max_requests), max_requests))
}

/// Quantity to compare between the halves of a load.
fn drift_metric(run: &LoadRun) -> Option<DriftMetric> {
    match &run.requested.pace {
        PaceFacts::Closed { .. } => Some(DriftMetric::Throughput),
        PaceFacts::Open { stages, .. } => {
            let first = stages.first()?.from_per_s;
            let is_steady =
                stages.iter().all(|stage| stage.from_per_s == first && stage.to_per_s == first);
            is_steady.then_some(DriftMetric::Median)
        }
    }
}

/// The generator counts as disturbed if preemption affected more than this fraction of the
/// requests. If it affects one percent, these requests alone can determine the 99th percentile.
const DISTURBED_SHARE: f64 = 0.01;

/// All remarks, most severe first.
fn load_remarks<'a>(findings: &LoadFindings<'a>) -> Vec<LoadRemark<'a>> {
    let (run, generator) = (findings.run, &findings.generator);
    let measured = &run.measured;
    let (counts, responses) = (&measured.totals.outcomes, &measured.totals.responses);
    let unfinished = ["unsent", "in-flight", "cancelled"].map(|outcome| counts.count_of(outcome));
    let other_statuses = counts.codes().total() - counts.codes().class_count(2);
    let accepted = other_statuses.saturating_sub(counts.errors(ErrorClass::Status));
    let has_accepted = accepted > 0 && counts.errors(ErrorClass::Assertion) == 0;
    // If the user requested busy polling, the generator is always busy.
    let is_bound = generator.bottlenecks > 0 && !run.requested.busy_polls;
    let disturbed = disturbed_share(findings);
    let is_closing = run.requested.keeps_alive && responses.closing() > 0;
    let others = [
        measured.is_interrupted.then_some(LoadRemark::Interrupted),
        findings.open.filter(OpenVerdict::is_generator_limited).map(LoadRemark::GeneratorLimited),
        findings.open.filter(OpenVerdict::is_rate_missed).map(LoadRemark::RateMissed),
        measured.reached_max_connections.then_some(LoadRemark::ConnectionsCapped),
        findings.concurrency.is_short.then_some(LoadRemark::ConcurrencyShort),
        findings.halves.map(LoadRemark::Unsteady),
        (counts.succeeded() == 0).then_some(LoadRemark::NothingAnswered),
        most_frequent_error(counts).map(LoadRemark::Failed),
        (unfinished != [0, 0, 0]).then_some(LoadRemark::Unfinished),
        has_accepted.then_some(LoadRemark::Accepted(accepted)),
        is_bound.then_some(LoadRemark::GeneratorBound),
        (disturbed > DISTURBED_SHARE).then_some(LoadRemark::Disturbed(disturbed)),
        responses.lengths_vary().then_some(LoadRemark::LengthsVary),
        is_closing.then_some(LoadRemark::NotReusable),
        (responses.doubtful_framing > 0).then_some(LoadRemark::DoubtfulFraming),
        (responses.stray_bytes > 0).then_some(LoadRemark::StrayBytes),
        (counts.retries() > 0).then_some(LoadRemark::Retried),
        (counts.interim_codes().total() > 0).then_some(LoadRemark::Interim),
    ];
    let imbalance = findings.balance.is_err().then_some(LoadRemark::Imbalance);
    let mut remarks: Vec<LoadRemark<'a>> = imbalance.into_iter().collect();
    remarks.extend(machine_remarks(run));
    remarks.extend(others.into_iter().flatten());
    remarks.sort_by_key(LoadRemark::severity);
    remarks
}

/// The most frequent error, or the first of several equally frequent ones. `None` if no request
/// failed.
fn most_frequent_error(counts: &OutcomeCounts) -> Option<ErrorClass> {
    ErrorClass::all_classes()
        .filter(|class| counts.errors(*class) > 0)
        .max_by_key(|class| (counts.errors(*class), usize::MAX - class.index()))
}

/// Fraction of the requests that context switches can have affected. Each switch affects the
/// requests that are in flight.
fn disturbed_share(findings: &LoadFindings<'_>) -> f64 {
    let rate = findings.throughput_per_s.unwrap_or(0.0);
    let in_flight = findings.concurrency.effective.unwrap_or(0.0).max(1.0);
    if rate > 0.0 { (findings.generator.switches_per_s * in_flight / rate).min(1.0) } else { 0.0 }
}

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

/// A remark on a load. Figures that are not given here are in the [`LoadFindings`] that contain the
/// remark.
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

/// Compares the halves of a load; returns them if they differ. `course` is the quantity to compare.
/// For an open load, the caller passes the median time, because the schedule determines the
/// throughput. The caller does not compare the halves of a load with a varying schedule.
fn compare_halves(measured: &LoadMeasurement, course: DriftMetric) -> Option<LoadHalves> {
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
fn complete_ticks(measured: &LoadMeasurement) -> &[TimelineTick] {
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

/// A network device may have limited the load if it used more than this fraction of its speed.
const LINK_FULL: f64 = 0.9;
/// If machines start further apart than this, or than a fraction of the load's length
/// (`MAX_START_GAP_SHARE`), the load differs from the requested load for a while.
const MAX_START_GAP_NS: u64 = 100_000_000;
const MAX_START_GAP_SHARE: f64 = 0.01;
/// If a clock drifted by more than this during the load, in nanoseconds, it must have been set.
const MAX_CLOCK_DRIFT_NS: u64 = 100_000_000;

/// Remarks by kind; the caller sorts them by severity.
fn machine_remarks(run: &LoadRun) -> Vec<LoadRemark<'_>> {
    let parts = &run.parts;
    let lost_parts = parts.iter().filter(|part| part.lost.is_some());
    let mut remarks: Vec<LoadRemark<'_>> = lost_parts.map(LoadRemark::MachineLost).collect();
    remarks.extend(unequal_parts(run));
    remarks.extend(parts.iter().filter_map(limited_machine));
    remarks.extend(starts_apart(run));
    remarks.extend(parts.iter().filter_map(clock_set));
    remarks
}

/// Verdict on the whole load. If the whole load seems punctual but some machine was late, returns
/// the verdict on the machine with the greatest lateness, so that punctual machines do not hide it.
fn combined_verdict(load_verdict: OpenVerdict, parts: &[LoadPart]) -> OpenVerdict {
    let verdict_of_part = |part: &LoadPart| {
        let (own_lag_p99_ns, own_lag_limit_ns) = part.own_lag_p99_ns?;
        Some(OpenVerdict { own_lag_p99_ns, own_lag_limit_ns, ..load_verdict })
    };
    let late = parts.iter().filter_map(verdict_of_part).filter(OpenVerdict::is_generator_limited);
    let latest = late.max_by_key(|verdict| verdict.own_lag_p99_ns);
    if load_verdict.is_generator_limited() {
        return load_verdict;
    }
    latest.unwrap_or(load_verdict)
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
    let late = part
        .own_lag_p99_ns
        .filter(|(lag, limit)| lag > limit)
        .map(|(lag, limit)| MachineLimit::Late(lag, limit));
    let busy = part.is_bottleneck.then_some(MachineLimit::Busy(part.busiest));
    let link = part
        .link
        .as_ref()
        .filter(|(_, share)| *share > LINK_FULL)
        .map(|(_, share)| MachineLimit::Link(*share));
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
