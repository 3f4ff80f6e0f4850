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
pub use times::{
    PERCENTILES_PPM, QuantityPercentiles, QuantitySpread, ReportedTime, RequestGroup, TimeRefusal,
    TimedQuantity,
};

use notes::compare_halves;
use speedwell_model::load::latency::{HistogramBin, OpenVerdict, is_concurrency_short};
use speedwell_model::load::measurement::ThreadReport;
use speedwell_model::load::outcomes::{CountImbalance, ErrorClass};
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
    /// Percentiles of each quantity. The principal quantity comes first.
    pub served: Vec<QuantityPercentiles>,
    /// Spreads of the same quantities.
    pub spreads: Vec<QuantitySpread>,
    /// Whether every request is accounted for; an imbalance is a defect of the generator.
    pub balance: Result<(), Vec<CountImbalance>>,
    /// The generator's report about itself.
    pub generator: GeneratorStats,
    /// Fewest and most requests on one connection.
    pub per_connection: Option<(u64, u64)>,
    /// The two halves, if they differ.
    pub halves: Option<LoadHalves>,
    /// Remarks for the reader, most severe first.
    pub remarks: Vec<LoadRemark>,
    trust: GeneratorTrust,
}

/// Mean number of requests in flight, by Little's law.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
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
#[derive(Debug, Clone, Copy, PartialEq, Default)]
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
        served: times::load_percentiles(run, &trust),
        spreads: times::load_spreads(run, &trust),
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
        let is_requested =
            |served: &&QuantityPercentiles| (served.quantity, served.group) == (quantity, group);
        let served = self.served.iter().find(is_requested)?;
        match times::PERCENTILES_PPM.iter().position(|listed| *listed == ppm) {
            Some(index) => served.percentiles.get(index).copied(),
            None => times::quantile_of_group(self.run, &self.trust, (quantity, group), ppm),
        }
    }

    /// Histogram of the principal quantity; empty if its times are refused.
    pub fn principal_bins(&self) -> Vec<HistogramBin> {
        let (quantity, group) = self.principal_quantity();
        let refused =
            self.spread_of(quantity, group).is_some_and(|spread| spread.refusal.is_some());
        if refused { Vec::new() } else { times::quantity_bins(self.run, (quantity, group)) }
    }

    /// Spread of a quantity, if it was timed.
    pub fn spread_of(
        &self,
        quantity: TimedQuantity,
        group: RequestGroup,
    ) -> Option<&QuantitySpread> {
        self.spreads.iter().find(|spread| (spread.quantity, spread.group) == (quantity, group))
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
fn load_remarks(findings: &LoadFindings<'_>) -> Vec<LoadRemark> {
    let mut remarks: Vec<LoadRemark> = Vec::new();
    if let Err(imbalances) = &findings.balance {
        remarks.push(LoadRemark::Imbalance(imbalances.clone()));
    }
    remarks.extend(machines::machine_remarks(findings.run));
    remarks.extend(remarks_on_load(findings));
    remarks.extend(remarks_on_requests(findings));
    remarks.extend(remarks_on_generator(findings));
    remarks.extend(remarks_on_responses(findings));
    remarks.sort_by_key(LoadRemark::severity);
    remarks
}

/// Remarks on whether the load was as requested.
fn remarks_on_load(findings: &LoadFindings<'_>) -> Vec<LoadRemark> {
    let measured = &findings.run.measured;
    let mut remarks = Vec::new();
    if measured.is_interrupted {
        remarks.push(LoadRemark::Interrupted);
    }
    if let Some(open) = findings.open {
        if open.is_generator_limited() {
            remarks.push(LoadRemark::GeneratorLimited(open));
        }
        if open.is_rate_missed() {
            remarks.push(LoadRemark::RateMissed(open));
        }
    }
    if measured.reached_max_connections {
        remarks.push(LoadRemark::ConnectionsCapped { most: measured.max_connections });
    }
    let concurrency = &findings.concurrency;
    if let (true, Some(requested), Some(effective)) =
        (concurrency.is_short, concurrency.requested, concurrency.effective)
    {
        remarks.push(LoadRemark::ConcurrencyShort {
            requested,
            effective,
            connecting: concurrency.connecting.unwrap_or(0.0),
        });
    }
    remarks.extend(findings.halves.map(LoadRemark::Unsteady));
    remarks
}

/// Remarks on the outcome of the requests.
fn remarks_on_requests(findings: &LoadFindings<'_>) -> Vec<LoadRemark> {
    let counts = &findings.run.measured.totals.outcomes;
    let mut remarks = Vec::new();
    if counts.succeeded() == 0 {
        remarks.push(LoadRemark::NothingAnswered);
    }
    let worst = ErrorClass::all_classes()
        .max_by_key(|class| (counts.errors(*class), usize::MAX - class.index()));
    if let Some(class) = worst.filter(|class| counts.errors(*class) > 0) {
        remarks.push(LoadRemark::Failed {
            count: counts.all_errors(),
            total: counts.attempts(),
            class,
        });
    }
    let count = |name: &str| {
        let row = counts.rows().find(|row| row.name == name);
        row.map_or(0, |row| row.count)
    };
    let [unsent, in_flight, cancelled] = ["unsent", "in-flight", "cancelled"].map(count);
    if unsent + in_flight + cancelled > 0 {
        remarks.push(LoadRemark::Unfinished { unsent, in_flight, cancelled });
    }
    let other_statuses = counts.codes().total() - counts.codes().class_count(2);
    let accepted = other_statuses.saturating_sub(counts.errors(ErrorClass::Status));
    if accepted > 0 && counts.errors(ErrorClass::Assertion) == 0 {
        remarks.push(LoadRemark::Accepted { count: accepted });
    }
    remarks
}

/// Remarks on whether the generator measured itself instead of the server.
fn remarks_on_generator(findings: &LoadFindings<'_>) -> Vec<LoadRemark> {
    let generator = &findings.generator;
    let mut remarks = Vec::new();
    // If the user requested busy polling, the generator is always busy.
    if generator.bottlenecks > 0 && !findings.run.requested.busy_polls {
        remarks.push(LoadRemark::GeneratorBound {
            bottlenecks: generator.bottlenecks,
            threads: generator.threads,
            busiest: generator.busiest,
        });
    }
    let share = disturbed_share(findings);
    if share > DISTURBED_SHARE {
        remarks.push(LoadRemark::Disturbed { switches_per_s: generator.switches_per_s, share });
    }
    remarks
}

/// Fraction of the requests that context switches can have affected. Each switch affects the
/// requests that are in flight.
fn disturbed_share(findings: &LoadFindings<'_>) -> f64 {
    let rate = findings.throughput_per_s.unwrap_or(0.0);
    let in_flight = findings.concurrency.effective.unwrap_or(0.0).max(1.0);
    if rate > 0.0 { (findings.generator.switches_per_s * in_flight / rate).min(1.0) } else { 0.0 }
}

/// A count, and the remark to make if it is not 0.
type CountedRemark = (u64, fn(u64) -> LoadRemark);

/// Remarks on the responses.
fn remarks_on_responses(findings: &LoadFindings<'_>) -> Vec<LoadRemark> {
    let totals = &findings.run.measured.totals;
    let (replies, counts) = (&totals.responses, &totals.outcomes);
    let mut remarks = Vec::new();
    if replies.lengths_vary() {
        remarks.push(LoadRemark::LengthsVary {
            least: replies.min_body_bytes,
            greatest: replies.max_body_bytes,
        });
    }
    let not_reusable = replies.count - replies.reusable.min(replies.count);
    if findings.run.requested.keeps_alive && not_reusable > 0 {
        remarks.push(LoadRemark::NotReusable { count: not_reusable, total: replies.count });
    }
    let interim = counts.interim_codes().total();
    let counted: [CountedRemark; 4] = [
        (replies.doubtful_framing, |count| LoadRemark::DoubtfulFraming { count }),
        (replies.stray_bytes, |count| LoadRemark::StrayBytes { count }),
        (counts.retries(), |count| LoadRemark::Retried { count }),
        (interim, |count| LoadRemark::Interim { count }),
    ];
    let nonzero = counted.into_iter().filter(|(count, _)| *count > 0);
    remarks.extend(nonzero.map(|(count, remark)| remark(count)));
    remarks
}
