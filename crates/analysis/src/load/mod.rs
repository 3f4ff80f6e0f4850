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
//! The generator records its own lateness for every request. The time from when a request was due
//! until its response ended is an upper bound on the true response time, because it includes the
//! lateness. The same time minus the lateness is a lower bound. If the distributions of both bounds
//! agree, one figure is reported; otherwise, a range is reported. If the range is too wide, the
//! time is refused.

pub mod gate;
mod remarks;
mod search;

pub use remarks::{DriftMetric, LoadHalves, LoadRemark, MachineLimit, RemarkSeverity};
pub use search::{
    ConcurrencySeries, LevelVisits, MissedReason, RateAnswer, RateAttempt, RateRules, RateSeries,
    group_by_level, group_by_rate, next_level, next_rate,
};
pub use speedwell_model::load::latency::TimeRefusal;

use remarks::{compare_halves, machine_remarks};
use serde::Serialize;
use speedwell_model::load::latency::{
    AB_PERCENTS, HistogramBin, LoadLatency, OpenTimes, OpenVerdict, ServiceTimes, TimeDistribution,
    TimeQuantile, bounds_agree, is_concurrency_short, is_range_too_wide,
};
use speedwell_model::load::measurement::{LoadPart, LoadRun, PaceFacts, ThreadReport};
use speedwell_model::load::outcomes::{CountImbalance, ErrorClass, OutcomeCounts};
use speedwell_model::name_variants;

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
    let latency = &measured.totals.latency;
    let trust = GeneratorTrust::new(latency, open);
    let bytes = measured.totals.outcomes.bytes;
    let seconds = measured.elapsed_ns as f64 / 1e9;
    let per_second = |bytes: u64| bytes as f64 / seconds;
    let mut findings = LoadFindings {
        run,
        throughput_per_s: measured.throughput(),
        bytes_per_s: (seconds > 0.0).then(|| (per_second(bytes.received), per_second(bytes.sent))),
        concurrency: requests_in_flight(run),
        open,
        times: QUANTITIES
            .iter()
            .filter_map(|requested| trust.quantity_findings(latency, *requested))
            .collect(),
        balance: measured.totals.outcomes.check_balance(),
        generator: generator_stats(run),
        per_connection: requests_per_connection(&measured.threads),
        halves: compare_halves(run),
        remarks: Vec::new(),
        trust,
    };
    findings.remarks = load_remarks(&findings);
    findings
}

impl LoadFindings<'_> {
    /// Quantity and group of requests by which the load is judged.
    pub fn principal_quantity(&self) -> RequestedTime {
        match self.open {
            Some(_) => (TimedQuantity::Response, RequestGroup::All),
            None => (TimedQuantity::Service, RequestGroup::Ok),
        }
    }

    /// Quantile of the principal quantity. `ppm` is the fraction of requests, in millionths.
    pub fn principal_quantile(&self, ppm: u32) -> Option<ReportedTime> {
        self.quantile(self.principal_quantity(), ppm)
    }

    /// Quantile of a quantity; `None` if nothing was timed. `ppm` is the fraction of requests, in
    /// millionths.
    pub fn quantile(&self, requested: RequestedTime, ppm: u32) -> Option<ReportedTime> {
        let listed = self.times_of(requested)?.percentile(ppm);
        listed.or_else(|| {
            let latency = &self.run.measured.totals.latency;
            let (values, low) = self.trust.values_of(latency, requested)?;
            self.trust.quantiles(requested.0, &[ppm], values, low).pop()
        })
    }

    /// Histogram of the principal quantity; empty if its times are refused.
    pub fn principal_bins(&self) -> Vec<HistogramBin> {
        let principal = self.principal_quantity();
        if self.times_of(principal).is_some_and(|times| times.refusal.is_some()) {
            return Vec::new();
        }
        let found = self.trust.values_of(&self.run.measured.totals.latency, principal);
        found.map_or(Vec::new(), |(values, _)| values.bins().collect())
    }

    /// Times of a quantity, if it was timed.
    pub fn times_of(&self, requested: RequestedTime) -> Option<&QuantityFindings> {
        self.times.iter().find(|times| (times.quantity, times.group) == requested)
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

/// The generator counts as disturbed if preemption affected more than this fraction of the
/// requests. If it affects one percent, these requests alone can determine the 99th percentile.
const DISTURBED_SHARE: f64 = 0.01;

/// All remarks, most severe first.
fn load_remarks<'a>(findings: &LoadFindings<'a>) -> Vec<LoadRemark<'a>> {
    let (run, generator) = (findings.run, &findings.generator);
    let measured = &run.measured;
    let (counts, responses) = (&measured.totals.outcomes, &measured.totals.responses);
    let unfinished = ["unsent", "in-flight", "cancelled"].map(|outcome| counts.count_of(outcome));
    let other_statuses = counts.codes.total() - counts.codes.class_count(2);
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
        (counts.retries > 0).then_some(LoadRemark::Retried),
        (counts.interim_codes.total() > 0).then_some(LoadRemark::Interim),
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

/// Verdict on the whole load. If the whole load seems punctual but some machine was late, returns
/// the verdict on the machine with the greatest lateness, so that punctual machines do not hide it.
fn combined_verdict(load_verdict: OpenVerdict, parts: &[LoadPart]) -> OpenVerdict {
    let verdict_of_part = |part: &LoadPart| {
        let (own_lag_p99_ns, own_lag_limit_ns) = part.own_lag_p99_ns?;
        Some(OpenVerdict { own_lag_p99_ns, own_lag_limit_ns, ..load_verdict })
    };
    let late = parts.iter().filter_map(verdict_of_part).filter(OpenVerdict::is_generator_limited);
    let latest = late.max_by_key(|verdict| verdict.own_lag_p99_ns);
    if load_verdict.is_generator_limited() { load_verdict } else { latest.unwrap_or(load_verdict) }
}

// The times of a load, and how far they can be trusted if the generator itself was late.

/// Reported percentiles in millionths: the percentiles of ab, and in addition 99.9% and 99.99%.
pub const PERCENTILES_PPM: [u32; AB_PERCENTS.len() + 2] = [
    500_000, 660_000, 750_000, 800_000, 900_000, 950_000, 980_000, 990_000, 999_000, 999_900,
    1_000_000,
];

/// A timed quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimedQuantity {
    /// Opening a connection.
    Connect,
    /// From sending to the first byte.
    FirstByte,
    /// From sending to the last byte.
    Service,
    /// From the intended start to the last byte.
    Response,
    /// From the intended start to sending.
    Lag,
}

name_variants!(TimedQuantity: Connect = "connect", FirstByte = "first-byte", Service = "service",
    Response = "response", Lag = "lag");

/// A group of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestGroup {
    /// Successful requests.
    Ok,
    /// All requests, with lower bounds for the times of unfinished requests.
    All,
}

name_variants!(RequestGroup: Ok = "ok", All = "all");

/// A quantity, and the requests whose times are requested.
pub type RequestedTime = (TimedQuantity, RequestGroup);

/// A time that is reported or refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportedTime {
    /// An exact value or a lower bound.
    Time(TimeQuantile),
    /// The time lies between two bounds. Only the upper bound includes the generator's own
    /// lateness.
    Range {
        /// The time with the generator's lateness subtracted for each request.
        low: TimeQuantile,
        /// The time from when each request was due until its response ended.
        high: TimeQuantile,
    },
    /// Measured, but untrustworthy.
    Refused(TimeRefusal),
}

impl ReportedTime {
    /// The time, or the upper end of its range, in nanoseconds; `None` if the time is refused.
    pub fn longest_ns(self) -> Option<u64> {
        match self {
            ReportedTime::Time(time) => Some(time.ns),
            ReportedTime::Range { high, .. } => Some(high.ns),
            ReportedTime::Refused(_) => None,
        }
    }

    /// The lower end of a range, in nanoseconds; `None` for other times.
    pub fn low_ns(self) -> Option<u64> {
        let ReportedTime::Range { low, .. } = self else { return None };
        Some(low.ns)
    }
}

/// Times of one quantity and group of requests, in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantityFindings {
    /// Quantity.
    pub quantity: TimedQuantity,
    /// Group of requests.
    pub group: RequestGroup,
    /// Number of values.
    pub count: u64,
    /// Number of values from requests still unfinished when the load ended. If there are any, mean
    /// and maximum are lower bounds.
    pub lower_bounds: u64,
    /// Minimum.
    pub least_ns: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Mean without the generator's own lateness, if it differs from `mean_ns`.
    pub low_mean_ns: Option<f64>,
    /// Sample standard deviation.
    pub deviation_ns: Option<f64>,
    /// Why figures that depend on all times, such as the mean, are not reported.
    pub refusal: Option<TimeRefusal>,
    /// One entry per [`PERCENTILES_PPM`].
    pub percentiles: Vec<ReportedTime>,
    /// Points of a chart line: percentages and times in nanoseconds, without refused times.
    pub curve: Vec<(f64, u64)>,
}

impl QuantityFindings {
    /// Returns a percentile. `ppm` is the fraction of requests, in millionths; `None` if it is not
    /// one of [`PERCENTILES_PPM`].
    pub fn percentile(&self, ppm: u32) -> Option<ReportedTime> {
        let index = PERCENTILES_PPM.iter().position(|listed| *listed == ppm)?;
        self.percentiles.get(index).copied()
    }
}

/// Number of points of a curve.
const CURVE_POINTS: u32 = 60;
/// Highest percentile of a curve, as a number of nines: five nines are 99.999%. A curve with few
/// values ends at fewer nines.
const MOST_NINES: f64 = 5.0;

/// Quantiles at the points of a curve, in millionths, evenly spaced on a scale of nines (90%, 99
/// %, 99.9%). The curve ends at the second largest value at the latest. Only the maximum lies
/// beyond this value, and the maximum is not a percentile.
fn curve_ppm(count: u64) -> Vec<u32> {
    let nines = (count as f64).log10().min(MOST_NINES);
    let nines_at = |point: u32| nines * f64::from(point) / f64::from(CURVE_POINTS);
    let ppm = |point| ((1.0 - 10f64.powf(-nines_at(point))) * 1e6).round() as u32;
    (0..=CURVE_POINTS).map(ppm).collect()
}

/// The times that may be reported, the principal times first. The principal times of an open load
/// are the times that users would have waited, whatever the outcome. The principal times of a closed
/// load are the service times of successful requests.
const QUANTITIES: [RequestedTime; 7] = [
    (TimedQuantity::Response, RequestGroup::All),
    (TimedQuantity::Response, RequestGroup::Ok),
    (TimedQuantity::Service, RequestGroup::Ok),
    (TimedQuantity::Service, RequestGroup::All),
    (TimedQuantity::FirstByte, RequestGroup::Ok),
    (TimedQuantity::Lag, RequestGroup::All),
    (TimedQuantity::Connect, RequestGroup::All),
];

/// Times, and the same times without the generator's own lateness, if recorded separately.
type BoundedValues<'a> = (&'a TimeDistribution, Option<&'a TimeDistribution>);

/// How far the generator's own lateness affects the times of a load.
#[derive(Debug, Clone)]
struct GeneratorTrust {
    /// Verdict on an open load, and the times of all its requests.
    open: Option<(OpenVerdict, OpenTimes)>,
    /// Times since sending of all requests, unless all of them succeeded.
    all_sent: Option<ServiceTimes>,
}

impl GeneratorTrust {
    fn new(latency: &LoadLatency, verdict: Option<OpenVerdict>) -> GeneratorTrust {
        let mut others = latency.by_outcome().into_iter().skip(1);
        let has_others = others.any(|(_, sent)| sent.service.count() > 0);
        GeneratorTrust {
            open: match latency {
                LoadLatency::Open(open) => {
                    verdict.map(|verdict| (verdict, open.requests.merge_all()))
                }
                LoadLatency::Closed(_) => None,
            },
            all_sent: has_others.then(|| latency.all_sent()),
        }
    }

    /// Returns the times of one quantity and group, if the load has them.
    fn values_of<'a>(
        &'a self,
        latency: &'a LoadLatency,
        requested: RequestedTime,
    ) -> Option<BoundedValues<'a>> {
        let all_response = self.open.as_ref().map(|(_, all)| all);
        let response = |times: &'a OpenTimes| (&times.response, times.lower_bounds());
        let values: &TimeDistribution = match (requested, latency) {
            ((TimedQuantity::Response, RequestGroup::All), _) => return all_response.map(response),
            ((TimedQuantity::Response, RequestGroup::Ok), LoadLatency::Open(open)) => {
                let ok = open.requests.ok();
                let is_part = all_response?.response.count() > ok.response.count();
                return is_part.then(|| response(ok));
            }
            ((TimedQuantity::Lag, RequestGroup::All), LoadLatency::Open(open)) => &open.lag,
            ((TimedQuantity::Service, RequestGroup::Ok), _) => latency.service_times(),
            ((TimedQuantity::Service, RequestGroup::All), _) => &self.all_sent.as_ref()?.service,
            ((TimedQuantity::FirstByte, RequestGroup::Ok), _) => {
                // The first outcome is success.
                &latency.by_outcome().first()?.1.first_byte
            }
            ((TimedQuantity::Connect, RequestGroup::All), _) => latency.connect_times(),
            _ => return None,
        };
        Some((values, None))
    }

    /// Returns the findings about one quantity and group; `None` if nothing was timed.
    fn quantity_findings(
        &self,
        latency: &LoadLatency,
        requested: RequestedTime,
    ) -> Option<QuantityFindings> {
        let (values, low) = self.values_of(latency, requested)?;
        let (quantity, group) = requested;
        let quantiles = |ppm: &[u32]| self.quantiles(quantity, ppm, values, low);
        let mean_ns = values.mean_ns()?;
        let low_mean_ns = low.and_then(TimeDistribution::mean_ns);
        let fractions = curve_ppm(values.count());
        let curve = fractions.iter().zip(quantiles(&fractions));
        Some(QuantityFindings {
            quantity,
            group,
            count: values.count(),
            lower_bounds: values.lower_bounds(),
            least_ns: values.min_ns()?,
            mean_ns,
            low_mean_ns: low_mean_ns.filter(|low_ns| !bounds_agree(*low_ns, mean_ns)),
            deviation_ns: values.standard_deviation_ns(),
            refusal: self.mean_refusal(quantity),
            percentiles: quantiles(&PERCENTILES_PPM),
            curve: curve
                .filter_map(|(ppm, time)| Some((f64::from(*ppm) / 1e4, time.longest_ns()?)))
                .collect(),
        })
    }

    /// Quantiles at the fractions `ppm`, which are given in millionths and in ascending order.
    /// Empty without values.
    pub fn quantiles(
        &self,
        quantity: TimedQuantity,
        ppm: &[u32],
        times: &TimeDistribution,
        low: Option<&TimeDistribution>,
    ) -> Vec<ReportedTime> {
        let lows = low.map_or(vec![None; ppm.len()], |low| low.quantiles(ppm));
        let highs = times.quantiles(ppm);
        let refusals_and_bounds =
            self.quantile_refusals(quantity, ppm).into_iter().zip(highs).zip(lows);
        refusals_and_bounds
            .filter_map(|((refusal, high), low)| {
                let time = bounded_time(high?, low);
                Some(refusal.map_or(time, ReportedTime::Refused))
            })
            .collect()
    }

    /// Returns, for each quantile in `ppm`, why the quantile is refused; `None` if it is reported.
    /// A late generator sent its requests at the wrong times, so service times are refused along
    /// with the response times that contain them.
    fn quantile_refusals(&self, quantity: TimedQuantity, ppm: &[u32]) -> Vec<Option<TimeRefusal>> {
        match &self.open {
            Some((verdict, times)) if !is_exempt(quantity) => times.quantile_refusals(verdict, ppm),
            _ => vec![None; ppm.len()],
        }
    }

    /// Why the mean of a quantity is not reported.
    pub fn mean_refusal(&self, quantity: TimedQuantity) -> Option<TimeRefusal> {
        let (verdict, times) = self.open.as_ref().filter(|_| !is_exempt(quantity))?;
        times.mean_refusal(verdict)
    }
}

/// Whether times of this quantity are never refused: lag is itself the evidence of lateness, and
/// connections are opened by the operating system.
fn is_exempt(quantity: TimedQuantity) -> bool {
    matches!(quantity, TimedQuantity::Lag | TimedQuantity::Connect)
}

fn bounded_time(high: TimeQuantile, low: Option<TimeQuantile>) -> ReportedTime {
    let Some(low) = low else { return ReportedTime::Time(high) };
    let (low_ns, high_ns) = (low.ns as f64, high.ns as f64);
    match () {
        () if bounds_agree(low_ns, high_ns) => ReportedTime::Time(high),
        () if is_range_too_wide(low_ns, high_ns) => {
            ReportedTime::Refused(TimeRefusal::GeneratorLimited)
        }
        // The true time may exceed both bounds, so only the lower bound is certain.
        () if high.is_lower_bound => {
            ReportedTime::Time(TimeQuantile { is_lower_bound: true, ..low })
        }
        () => ReportedTime::Range { low, high },
    }
}
