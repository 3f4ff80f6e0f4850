//! Findings of a load, and how far its figures can be trusted.
//!
//! Decides which times are reported or refused, and what a reader must be warned about. Formats
//! nothing. Start at [`analyse`] and [`LoadFindings`]; [`gate`] checks figures against limits.
//!
//! Times since sending (service) and times since the request was due (response) are never mixed. A
//! closed load has no response time: its clients send late when the server is slow, and so omit the
//! waits that users would have had (coordinated omission, G. Tene 2013).

pub mod gate;
mod machines;
mod remark;
mod search;
mod times;

pub use remark::{Course, Halves, MachineLimit, Remark, Weight};
pub use search::{
    Levels, Missed, NextRate, Pass, RateAnswer, RateRules, RateTry, Rates, levels, next, next_rate,
    rates,
};
pub use times::{Group, PERCENTILES_PPM, Quantity, Refusal, ReportedTime, Served, Spread};

use remark::halves;
use speedwell_load::latency::{Bin, OpenVerdict, is_concurrency_short};
use speedwell_load::measured::ThreadReport;
use speedwell_load::outcomes::{ErrorClass, Imbalance};
use speedwell_model::load_run::{LoadRun, PaceFacts};
use times::Trust;

/// Findings of one load.
#[derive(Debug, Clone)]
pub struct LoadFindings<'a> {
    /// What was requested and measured.
    pub run: &'a LoadRun,
    /// Successful requests per second.
    pub throughput_per_s: Option<f64>,
    /// Bytes received and sent per second.
    pub bytes_per_s: Option<(f64, f64)>,
    /// Requests in flight.
    pub concurrency: Concurrency,
    /// Whether an open load matched the requested one.
    pub open: Option<OpenVerdict>,
    /// Percentiles, the principal quantity first.
    pub served: Vec<Served>,
    /// Spreads of the same quantities.
    pub spreads: Vec<Spread>,
    /// Whether every request is accounted for; an imbalance is a defect of the generator.
    pub balance: Result<(), Vec<Imbalance>>,
    /// The generator's report about itself.
    pub generator: Generator,
    /// Fewest and most requests on one connection.
    pub per_connection: Option<(u64, u64)>,
    /// The two halves, if they differ.
    pub halves: Option<Halves>,
    /// Remarks for the reader, most severe first.
    pub remarks: Vec<Remark>,
    trust: Trust,
}

/// Mean number of requests in flight, by Little's law.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Concurrency {
    /// Requested number; only a closed load without pauses has one.
    pub requested: Option<u32>,
    /// From sending to the last byte.
    pub effective: Option<f64>,
    /// Mean number of connections being opened.
    pub connecting: Option<f64>,
    /// Whether fewer were in flight than requested.
    pub is_short: bool,
}

/// The generator's report about itself.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Generator {
    /// Number of threads over all processes.
    pub threads: usize,
    /// Number of threads so busy that they may have limited the load.
    pub bottlenecks: usize,
    /// Share of the time that the busiest thread was busy.
    pub busiest: f64,
    /// Involuntary context switches per second: a thread lost its processor although it had work to
    /// do.
    pub switches_per_s: f64,
    /// Maximum delay of response timestamps, because responses were read in batches.
    pub late_by_ns: u64,
    /// System calls per request.
    pub system_calls_per_request: Option<f64>,
    /// Processor time per request, in nanoseconds.
    pub cpu_ns_per_request: Option<f64>,
}

/// Analyzes a load.
pub fn analyse(run: &LoadRun) -> LoadFindings<'_> {
    let measured = &run.measured;
    let open = measured.verdict();
    let open = open.map(|whole| machines::with_latest(whole, &run.parts));
    let trust = Trust::new(run, open);
    let bytes = measured.totals.outcomes.bytes;
    let seconds = measured.elapsed_ns as f64 / 1e9;
    let per_second = |bytes: u64| bytes as f64 / seconds;
    let mut findings = LoadFindings {
        run,
        throughput_per_s: measured.throughput(),
        bytes_per_s: (seconds > 0.0).then(|| (per_second(bytes.received), per_second(bytes.sent))),
        concurrency: concurrency(run),
        open,
        served: times::served(run, &trust),
        spreads: times::spreads(run, &trust),
        balance: measured.totals.outcomes.balance(),
        generator: generator(run),
        per_connection: per_connection(&measured.threads),
        halves: course(run).and_then(|course| halves(measured, course)),
        remarks: Vec::new(),
        trust,
    };
    findings.remarks = remarks(&findings);
    findings
}

impl LoadFindings<'_> {
    /// Quantity and group of requests by which the load is judged.
    pub fn principal(&self) -> (Quantity, Group) {
        match self.open {
            Some(_) => (Quantity::Response, Group::All),
            None => (Quantity::Service, Group::Ok),
        }
    }

    /// Quantile of the principal quantity, in millionths.
    pub fn principal_quantile(&self, ppm: u32) -> Option<ReportedTime> {
        let (quantity, group) = self.principal();
        self.quantile(quantity, group, ppm)
    }

    /// Quantile in millionths; `None` if nothing was timed.
    pub fn quantile(&self, quantity: Quantity, group: Group, ppm: u32) -> Option<ReportedTime> {
        let known = |served: &&Served| (served.quantity, served.group) == (quantity, group);
        let served = self.served.iter().find(known)?;
        match times::PERCENTILES_PPM
            .iter()
            .position(|listed| *listed == ppm)
        {
            Some(at) => served.percentiles.get(at).copied(),
            None => times::quantile_of(self.run, &self.trust, (quantity, group), ppm),
        }
    }

    /// Histogram of the principal quantity; empty if its times are refused.
    pub fn bins(&self) -> Vec<Bin> {
        let (quantity, group) = self.principal();
        let refused = self
            .spread(quantity, group)
            .is_some_and(|spread| spread.refusal.is_some());
        if refused {
            Vec::new()
        } else {
            times::bins(self.run, (quantity, group))
        }
    }

    /// Spread of a quantity, if it was timed.
    pub fn spread(&self, quantity: Quantity, group: Group) -> Option<&Spread> {
        self.spreads
            .iter()
            .find(|spread| (spread.quantity, spread.group) == (quantity, group))
    }
}

fn concurrency(run: &LoadRun) -> Concurrency {
    let measured = &run.measured;
    let latency = &measured.totals.latency;
    let requested = match run.requested.pace {
        // Clients that pause have nothing in flight between requests, by design.
        PaceFacts::Closed {
            concurrency,
            think_ns: 0,
            ..
        } => Some(concurrency),
        _ => None,
    };
    let effective = measured.effective_concurrency();
    let connecting = (measured.elapsed_ns > 0)
        .then(|| latency.connect().sum_ns() as f64 / measured.elapsed_ns as f64);
    Concurrency {
        requested,
        effective,
        connecting,
        is_short: effective
            .zip(requested)
            .is_some_and(|(effective, requested)| is_concurrency_short(effective, requested)),
    }
}

fn generator(run: &LoadRun) -> Generator {
    let threads = &run.measured.threads;
    let sum = |of: fn(&ThreadReport) -> u64| threads.iter().map(of).sum::<u64>() as f64;
    let measured = &run.measured;
    // Thread counters include the warm-up, so its requests count too.
    let requests = measured.totals.outcomes.attempts() + measured.warmup.outcomes.attempts();
    let for_each = |total: f64| (requests > 0 && total > 0.0).then(|| total / requests as f64);
    let elapsed_ns = threads.iter().map(|thread| thread.elapsed_ns).max();
    let seconds = elapsed_ns.unwrap_or(0) as f64 / 1e9;
    let switches = sum(|thread| thread.involuntary_switches);
    let longest = threads.iter().map(|thread| thread.longest_batch_ns).max();
    Generator {
        threads: threads.len(),
        bottlenecks: threads
            .iter()
            .filter(|thread| thread.is_bottleneck())
            .count(),
        busiest: threads.iter().map(ThreadReport::busy).fold(0.0, f64::max),
        switches_per_s: if seconds > 0.0 {
            switches / seconds
        } else {
            0.0
        },
        late_by_ns: longest.unwrap_or(0),
        system_calls_per_request: for_each(sum(|thread| thread.system_calls)),
        cpu_ns_per_request: for_each(sum(|thread| thread.cpu_ns)),
    }
}

/// Fewest and most requests on one connection. A thread whose connections were all cut off by the
/// end of the load has no minimum.
fn per_connection(threads: &[ThreadReport]) -> Option<(u64, u64)> {
    let most = threads.iter().map(|thread| thread.most_requests).max()?;
    let known = |thread: &&ThreadReport| (1..=most).contains(&thread.fewest_requests);
    let fewest = threads
        .iter()
        .filter(known)
        .map(|thread| thread.fewest_requests);
    (most > 0).then(|| (fewest.min().unwrap_or(most), most))
}

/// Quantity to compare between the halves of a load.
fn course(run: &LoadRun) -> Option<Course> {
    match &run.requested.pace {
        PaceFacts::Closed { .. } => Some(Course::Throughput),
        PaceFacts::Open { stages, .. } => {
            let first = stages.first()?.from_per_s;
            let is_steady = stages
                .iter()
                .all(|stage| stage.from_per_s == first && stage.to_per_s == first);
            is_steady.then_some(Course::Median)
        }
    }
}

/// Share of requests from which a preempted generator counts as disturbed: the affected requests
/// are then enough to determine the 99th percentile.
const DISTURBED_SHARE: f64 = 0.01;

/// All remarks, most severe first.
fn remarks(findings: &LoadFindings<'_>) -> Vec<Remark> {
    let mut remarks: Vec<Remark> = Vec::new();
    if let Err(wrong) = &findings.balance {
        remarks.push(Remark::Imbalance(wrong.clone()));
    }
    remarks.extend(machines::remarks(findings.run));
    remarks.extend(of_load(findings));
    remarks.extend(of_requests(findings));
    remarks.extend(of_generator(findings));
    remarks.extend(of_answers(findings));
    remarks.sort_by_key(Remark::weight);
    remarks
}

/// Remarks on whether the load was the requested one.
fn of_load(findings: &LoadFindings<'_>) -> Vec<Remark> {
    let measured = &findings.run.measured;
    let mut remarks = Vec::new();
    if measured.is_interrupted {
        remarks.push(Remark::Interrupted);
    }
    if let Some(open) = findings.open {
        if open.is_generator_limited() {
            remarks.push(Remark::GeneratorLimited(open));
        }
        if open.is_rate_missed() {
            remarks.push(Remark::RateMissed(open));
        }
    }
    if measured.reached_most_connections {
        remarks.push(Remark::ConnectionsCapped {
            most: measured.most_connections,
        });
    }
    let concurrency = &findings.concurrency;
    if let (true, Some(requested), Some(effective)) = (
        concurrency.is_short,
        concurrency.requested,
        concurrency.effective,
    ) {
        remarks.push(Remark::ConcurrencyShort {
            requested,
            effective,
            connecting: concurrency.connecting.unwrap_or(0.0),
        });
    }
    remarks.extend(findings.halves.map(Remark::Unsteady));
    remarks
}

/// Remarks on the outcome of the requests.
fn of_requests(findings: &LoadFindings<'_>) -> Vec<Remark> {
    let counts = &findings.run.measured.totals.outcomes;
    let mut remarks = Vec::new();
    if counts.succeeded() == 0 {
        remarks.push(Remark::NothingAnswered);
    }
    let worst =
        ErrorClass::every().max_by_key(|class| (counts.errors(*class), usize::MAX - class.index()));
    if let Some(class) = worst.filter(|class| counts.errors(*class) > 0) {
        remarks.push(Remark::Failed {
            count: counts.all_errors(),
            of: counts.attempts(),
            class,
        });
    }
    let count = |name: &str| {
        let row = counts.rows().find(|row| row.name == name);
        row.map_or(0, |row| row.count)
    };
    let [unsent, in_flight, cancelled] = ["unsent", "in-flight", "cancelled"].map(count);
    if unsent + in_flight + cancelled > 0 {
        remarks.push(Remark::Unfinished {
            unsent,
            in_flight,
            cancelled,
        });
    }
    let other = counts.codes().total() - counts.codes().of_hundred(2);
    let accepted = other.saturating_sub(counts.errors(ErrorClass::Status));
    if accepted > 0 && counts.errors(ErrorClass::Assertion) == 0 {
        remarks.push(Remark::Accepted { count: accepted });
    }
    remarks
}

/// Remarks on whether the generator measured itself.
fn of_generator(findings: &LoadFindings<'_>) -> Vec<Remark> {
    let generator = &findings.generator;
    let mut remarks = Vec::new();
    // A generator that polls is always busy, as requested.
    if generator.bottlenecks > 0 && !findings.run.requested.busy_polls {
        remarks.push(Remark::GeneratorBound {
            bottlenecks: generator.bottlenecks,
            threads: generator.threads,
            busiest: generator.busiest,
        });
    }
    let share = disturbed(findings);
    if share > DISTURBED_SHARE {
        remarks.push(Remark::Disturbed {
            switches_per_s: generator.switches_per_s,
            share,
        });
    }
    remarks
}

/// Share of the requests that context switches can have affected: each affects those in flight.
fn disturbed(findings: &LoadFindings<'_>) -> f64 {
    let rate = findings.throughput_per_s.unwrap_or(0.0);
    let under_way = findings.concurrency.effective.unwrap_or(0.0).max(1.0);
    if rate > 0.0 {
        (findings.generator.switches_per_s * under_way / rate).min(1.0)
    } else {
        0.0
    }
}

/// A count, and the remark to make if it is not 0.
type CountedRemark = (u64, fn(u64) -> Remark);

/// Remarks on the responses.
fn of_answers(findings: &LoadFindings<'_>) -> Vec<Remark> {
    let account = &findings.run.measured.totals;
    let (replies, counts) = (&account.replies, &account.outcomes);
    let mut remarks = Vec::new();
    if replies.lengths_vary() {
        remarks.push(Remark::LengthsVary {
            least: replies.least_body_bytes,
            greatest: replies.greatest_body_bytes,
        });
    }
    let closed = replies.count - replies.reusable.min(replies.count);
    if findings.run.requested.keeps_alive && closed > 0 {
        remarks.push(Remark::NotReusable {
            count: closed,
            of: replies.count,
        });
    }
    let interim = counts.interim_codes().total();
    let counted: [CountedRemark; 4] = [
        (replies.doubtful_framing, |count| Remark::DoubtfulFraming {
            count,
        }),
        (replies.stray_bytes, |count| Remark::StrayBytes { count }),
        (counts.retries(), |count| Remark::Retried { count }),
        (interim, |count| Remark::Interim { count }),
    ];
    let counted = counted.into_iter().filter(|(count, _)| *count > 0);
    remarks.extend(counted.map(|(count, remark)| remark(count)));
    remarks
}
