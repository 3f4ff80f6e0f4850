//! Computes the figures of a load, and judges how far they can be trusted.
//!
//! Decides which times are reported, and what a reader must be warned about. Times that the
//! measurement does not support are refused, which means not reported. Formats nothing. Start at
//! [`analyze_load`] and [`LoadFindings`]; [`gate`] checks figures against limits.
//!
//! Times since sending (service) and times since the request was due (response) are never mixed. A
//! closed load has no response time: its clients send late when the server is slow, which omits the
//! waits that users would have had (coordinated omission, G. Tene 2013).

pub mod gate;
mod machines;
mod notes;
mod search;
mod times;

pub use notes::{DriftMetric, LoadHalves, LoadRemark, MachineLimit, RemarkSeverity};
pub use search::{
    ConcurrencySeries, LevelVisits, MissedReason, NextRate, RateAnswer, RateAttempt, RateRules,
    RateSeries, group_by_level, group_by_rate, next_level, next_rate,
};
pub use speedwell_model::load::latency::TimeRefusal;
pub use times::{PERCENTILES_PPM, QuantityFindings, ReportedTime, RequestGroup, TimedQuantity};

use notes::compare_halves;
use serde::Serialize;
use speedwell_model::load::latency::{HistogramBin, OpenVerdict, is_concurrency_short};
use speedwell_model::load::measurement::ThreadReport;
use speedwell_model::load::outcomes::{CountImbalance, ErrorClass, OutcomeCounts};
use speedwell_model::load::run::{LoadRun, PaceFacts};
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
    let open = (measured.verdict()).map(|verdict| machines::combined_verdict(verdict, &run.parts));
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

/// Fewest and most requests on one connection. A minimum of 0, from a connection that carried no
/// request, does not count.
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
    remarks.extend(machines::machine_remarks(run));
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
