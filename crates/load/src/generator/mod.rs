//! Runs a load.
//!
//! Each thread has its own connections, requests, histograms and share of the schedule. While
//! measuring, threads share only the flags that end the load; results go to the monitoring thread
//! through mailboxes. Start at [`run`], which encodes the requests, starts the threads, monitors them
//! and adds up their results. Continue with `worker`, the event loop of a thread, and `connection`.
//!
//! [`send_probe`] sends the single request before a load, with the same event loop.

mod clock;
mod connection;
mod multiplex;
#[cfg(feature = "http3")]
mod quic;
mod recorder;
mod worker;
mod worker_core;

use crate::http2::UrlScheme;
use crate::load::{
    CertificateRefusal, HttpVersion, KindsError, LoadConfig, LoadShare, RequestSource,
    ServerAddress, TlsError,
};
use crate::pace::{ClosedPace, PacingModel, StopCondition, ThinkTime};
use clock::{LoadClock, NEVER, TICK_NS};
use recorder::{HandedTotals, RequestRecorder, TotalsMailbox};
use rustix::thread::{CpuSet, sched_setaffinity, set_current_timer_slack};
use speedwell_model::load::latency::{RequestOutcome, RequestTotals, TimeDistribution};
use speedwell_model::load::measurement::{
    LoadMeasurement, LoadTimeline, ProbeFacts, RequestRecord, TimelineTick,
};
use speedwell_model::load::outcomes::ErrorClass;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use worker::{LoadWorker, ThreadResult};
use worker_core::{ConnectionFacts, TlsParameters, WorkerCore};

/// Why a load has no result. Failures of connections and requests are not listed here: they are
/// part of a result.
#[derive(Debug, thiserror::Error)]
pub enum LoadStartError {
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A request cannot be encoded.
    #[error(transparent)]
    Kinds(#[from] KindsError),
    /// The operating system refused an essential resource.
    #[error("cannot wait for sockets: {0}")]
    System(std::io::Error),
    /// The load description is invalid.
    #[error("{0}")]
    Load(&'static str),
}

/// Runs a load to its end, and passes intermediate results to `watch`. If `stop` is set, ends the
/// load early and cancels requests in flight.
///
/// # Errors
/// Fails if the load cannot start, or if the operating system cannot wait for sockets.
pub fn run(
    load: &LoadConfig,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&ProgressReport),
) -> Result<LoadMeasurement, LoadStartError> {
    run_with_clock(speedwell_model::clock::WaitClock::REAL, load, stop, watch)
}

/// Same as [`run`], with a clock that a test can move. The clock determines when requests are due,
/// how long to wait for responses, and when the load ends.
///
/// # Errors
/// See [`run`].
pub fn run_with_clock(
    time: speedwell_model::clock::WaitClock,
    load: &LoadConfig,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&ProgressReport),
) -> Result<LoadMeasurement, LoadStartError> {
    validate_load(load)?;
    let (tls, source) = (tls_parameters(load)?, request_source(load)?);
    let threads = thread_count(load);
    let mailboxes: Vec<TotalsMailbox> =
        (0..threads).map(|_| TotalsMailbox::new(load.is_closed())).collect();
    let window_end_ns = load.pace.window_end_ns(load.stop, load.warmup_ns);
    let length_ns = (window_end_ns != NEVER).then_some(window_end_ns);
    let mut tracker = ProgressTracker::new(load.is_closed(), length_ns);
    let started_at = SystemTime::now();
    let clock = LoadClock::start(time);
    let end_ns = AtomicU64::new(NEVER);
    let results = std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        for (thread, mailbox) in mailboxes.iter().enumerate() {
            let (sender, tls, source, end_ns) = (sender.clone(), tls.clone(), &source, &end_ns);
            let part = LoadShare {
                index: load.part.index * threads + thread as u32,
                count: load.part.count * threads,
            };
            scope.spawn(move || {
                prepare_thread(load, thread);
                let recorder = RequestRecorder::new(load, window_end_ns);
                let result = WorkerCore::new(load, source, tls, recorder, clock, part)
                    .and_then(|core| LoadWorker::new(core, mailbox, stop, end_ns).run());
                if result.is_err() {
                    // Without this thread, the load is incomplete, so end the other threads.
                    end_ns.store(0, Ordering::Relaxed);
                }
                // Sending cannot fail, because the receiver lives until all threads have ended.
                let _ = sender.send(result);
            });
        }
        drop(sender);
        watch_threads(&receiver, &mailboxes, &mut tracker, load, (clock, &end_ns), watch)
    });
    let window_end_ns = window_end_ns.min(end_ns.load(Ordering::Relaxed));
    let results = results
        .into_iter()
        .collect::<std::io::Result<Vec<ThreadResult>>>()
        .map_err(LoadStartError::System)?;
    tracker.gather_totals(&mailboxes);
    let since_epoch = started_at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let began_ms = since_epoch.as_millis() as u64;
    Ok(merge_results(results, tracker, load, window_end_ns, began_ms))
}

fn tls_parameters(load: &LoadConfig) -> Result<Option<TlsParameters>, LoadStartError> {
    let Some(options) = &load.target.tls else {
        return Ok(None);
    };
    let alpn_protocol: &[u8] = match load.http {
        HttpVersion::One => b"http/1.1",
        HttpVersion::Two { .. } => b"h2",
        HttpVersion::Three => b"h3",
    };
    let last_refusal = Arc::default();
    Ok(Some(TlsParameters {
        config: options.client_config(&[alpn_protocol], &last_refusal)?,
        name: options.name_for(&load.target.host)?,
        last_refusal,
    }))
}

fn request_source(load: &LoadConfig) -> Result<RequestSource<'_>, LoadStartError> {
    let scheme = if load.target.tls.is_some() { UrlScheme::Https } else { UrlScheme::Http };
    Ok(RequestSource::new(&load.kinds, load.http, scheme)?)
}

fn validate_load(load: &LoadConfig) -> Result<(), LoadStartError> {
    let is_unix = |address: &ServerAddress| matches!(address, ServerAddress::Unix(_));
    let problem = match load {
        _ if load.threads == 0 => "the number of threads is 0: expected 1 or more",
        _ if load.streams_per_connection == 0 => {
            "the limit of concurrent requests per connection is 0: expected 1 or more"
        }
        _ if load.part.index >= load.part.count => {
            "the index of the generator is too high: expected less than the number of generators"
        }
        _ if load.target.addresses.is_empty() => "the target has no address",
        _ if load.http != HttpVersion::Three => return Ok(()),
        _ if !cfg!(feature = "http3") => {
            "this build does not support HTTP/3, because it was built without the feature 'http3'"
        }
        _ if load.target.tls.is_none() => {
            "HTTP/3 is always encrypted, but the target does not use TLS"
        }
        _ if load.target.addresses.iter().any(is_unix) => {
            "HTTP/3 runs over UDP, so it cannot use a Unix socket"
        }
        _ => return Ok(()),
    };
    Err(LoadStartError::Load(problem))
}

/// Number of threads to start. A closed load has at most one thread per client.
fn thread_count(load: &LoadConfig) -> u32 {
    match &load.pace {
        PacingModel::Closed(closed) => load.threads.min(closed.concurrency).max(1),
        PacingModel::Open(_) => load.threads,
    }
}

fn prepare_thread(load: &LoadConfig, thread: usize) {
    // By default, the timers of a thread fire up to 50 us late (prctl(2)), so reduce this slack. If
    // reducing it or pinning the thread is not permitted, the recorded lag and the thread monitor
    // reveal the effect.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    if !load.processors.is_empty() {
        let mut set = CpuSet::new();
        set.set(load.processors[thread % load.processors.len()]);
        let _ = sched_setaffinity(None, &set);
    }
}

/// Gathers and reports intermediate results until all threads have ended. Ends the load early, by
/// `end_ns`, once it is steady.
fn watch_threads<'a>(
    receiver: &Receiver<std::io::Result<ThreadResult<'a>>>,
    mailboxes: &[TotalsMailbox],
    tracker: &mut ProgressTracker,
    load: &LoadConfig,
    (clock, end_ns): (LoadClock, &AtomicU64),
    watch: &mut dyn FnMut(&ProgressReport),
) -> Vec<std::io::Result<ThreadResult<'a>>> {
    let mut results = Vec::new();
    let (mut steady, mut ticks) = (load.steady, Vec::new());
    let mut last_ns = 0;
    // Gather totals half an interval after each tick: at the tick itself, threads hand over their
    // counts.
    let mut next_ns = TICK_NS + TICK_NS / 2;
    loop {
        let wait = Duration::from_nanos(next_ns.saturating_sub(clock.now_ns()));
        match receiver.recv_timeout(clock.max_wait(wait)) {
            Ok(result) => results.push(result),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if clock.now_ns() < next_ns => {}
            Err(RecvTimeoutError::Timeout) => {
                let at_ns = (clock.now_ns() / TICK_NS) * TICK_NS;
                next_ns = at_ns + TICK_NS + TICK_NS / 2;
                tracker.gather_totals(mailboxes);
                let tick = tracker.close_interval(at_ns, load.warmup_ns);
                let is_warmup = at_ns < load.warmup_ns;
                if let Some(rule) = steady.filter(|_| !is_warmup) {
                    ticks.push(tick.clone());
                    if rule.is_met(&ticks) {
                        // Threads read `end_ns` at every tick, so all threads have read it before
                        // two ticks have passed.
                        end_ns.store(at_ns + 2 * TICK_NS, Ordering::Relaxed);
                        steady = None;
                    }
                }
                watch(&ProgressReport {
                    at_ns,
                    is_warmup,
                    so_far: if is_warmup { &tracker.warmup } else { &tracker.totals },
                    tick: &tick,
                    interval_ns: at_ns - last_ns,
                });
                last_ns = at_ns;
            }
        }
    }
    results
}

fn merge_results(
    results: Vec<ThreadResult>,
    mut tracker: ProgressTracker,
    load: &LoadConfig,
    window_end_ns: u64,
    began_epoch_ms: u64,
) -> LoadMeasurement {
    let end_times = results.iter().map(|result| result.recorder.last_end_ns);
    let last_end_ns = end_times.max().unwrap_or(0);
    // An open load without a request limit lasts for its full duration, although its last request
    // is due earlier.
    let runs_full_duration =
        !load.is_closed() && load.stop.after_requests.is_none() && window_end_ns != NEVER;
    let ended_by_time = runs_full_duration || results.iter().any(|result| result.end.by_time);
    let is_interrupted = results.iter().any(|result| result.end.is_interrupted);
    let ran_ns = results.iter().map(|result| result.report.elapsed_ns).max().unwrap_or(0);
    let end_ns = match (is_interrupted, ended_by_time) {
        (true, _) => ran_ns.min(window_end_ns),
        (false, true) => window_end_ns,
        (false, false) => last_end_ns,
    };
    let (mut ok_in_time, mut in_flight_ns) = (0, 0);
    let mut rows = Vec::new();
    let mut threads = Vec::new();
    let (mut max_connections, mut reached_max_connections) = (0, false);
    for result in results {
        let end_ns = result.report.elapsed_ns;
        let recorder = result.recorder;
        tracker.add(&recorder.totals, false, end_ns);
        tracker.add(&recorder.warmup, true, end_ns.min(load.warmup_ns));
        ok_in_time += recorder.ok_in_time;
        in_flight_ns += recorder.in_flight_ns;
        rows.extend(recorder.rows);
        threads.push(result.report);
        max_connections += result.max_open;
        reached_max_connections |= result.reached_max_connections;
    }
    tracker.close_interval(ran_ns, load.warmup_ns);
    rows.sort_by_key(|row| row.end_ns);
    let ProgressTracker { totals, warmup, timeline, .. } = tracker;
    LoadMeasurement {
        began_epoch_ms,
        elapsed_ns: end_ns.saturating_sub(load.warmup_ns),
        ok_in_time,
        in_flight_ns: Some(in_flight_ns.min(u128::from(u64::MAX)) as u64),
        totals,
        warmup,
        timeline,
        threads,
        max_connections,
        reached_max_connections,
        is_interrupted,
        rows,
    }
}

// The code below gathers the intermediate results that the threads of a running load hand over.

/// Target number of intervals in a timeline. When a timeline has more than twice as many, its
/// intervals are merged in pairs.
const MAX_INTERVALS: usize = 600;

/// Progress of a load, reported about ten times per second.
#[derive(Debug)]
pub struct ProgressReport<'a> {
    /// Nanoseconds since the start of the load, including the warm-up.
    pub at_ns: u64,
    /// Whether the load is in its warm-up.
    pub is_warmup: bool,
    /// Totals since the end of the warm-up; during the warm-up, totals since the start.
    pub so_far: &'a RequestTotals,
    /// Events since the last report.
    pub tick: &'a TimelineTick,
    /// Time since the last report, in nanoseconds.
    pub interval_ns: u64,
}

/// Results gathered so far.
struct ProgressTracker {
    /// Totals after the warm-up.
    pub totals: RequestTotals,
    /// Totals of the warm-up.
    pub warmup: RequestTotals,
    timeline: LoadTimeline,
    /// Counts gathered since the last tick, each with the index of its interval in the timeline.
    /// The index must be kept, because requests may be counted long before their counts are
    /// gathered.
    unplaced: Vec<(usize, IntervalCounts)>,
}

/// Requests that ended in an interval.
#[derive(Default)]
struct IntervalCounts {
    ok: u64,
    errors: u64,
    service: TimeDistribution,
}

impl IntervalCounts {
    fn add(&mut self, totals: &RequestTotals) {
        self.ok += totals.outcomes.succeeded();
        self.errors += totals.outcomes.all_errors();
        self.service.merge(totals.latency.service_times());
    }

    fn merge(&mut self, other: &IntervalCounts) {
        self.ok += other.ok;
        self.errors += other.errors;
        self.service.merge(&other.service);
    }

    fn to_tick(&self) -> TimelineTick {
        TimelineTick::new(self.ok, self.errors, &self.service)
    }
}

impl ProgressTracker {
    /// Creates an empty tracker. The length of the load, if known, determines the length of the
    /// intervals.
    pub fn new(is_closed: bool, length_ns: Option<u64>) -> ProgressTracker {
        let mut interval_ns = TICK_NS;
        while length_ns.is_some_and(|length| length / interval_ns > MAX_INTERVALS as u64) {
            interval_ns *= 2;
        }
        ProgressTracker {
            totals: RequestTotals::new(is_closed),
            warmup: RequestTotals::new(is_closed),
            timeline: LoadTimeline { interval_ns, warmup: 0, ticks: Vec::new() },
            unplaced: Vec::new(),
        }
    }

    /// Adds the totals that the threads have handed over since the last call.
    pub fn gather_totals(&mut self, mailboxes: &[TotalsMailbox]) {
        for mailbox in mailboxes {
            if let Some(HandedTotals { totals, is_warmup, until_ns }) = mailbox.take() {
                self.add(&totals, is_warmup, until_ns);
                mailbox.give_back(totals);
            }
        }
    }

    /// Adds the counts of the interval that ends at `until_ns`.
    pub fn add(&mut self, totals: &RequestTotals, is_warmup: bool, until_ns: u64) {
        let interval = self.interval_index(until_ns);
        let position = self.unplaced.iter().position(|(position, _)| *position == interval);
        let index = position.unwrap_or_else(|| {
            self.unplaced.push((interval, IntervalCounts::default()));
            self.unplaced.len() - 1
        });
        self.unplaced[index].1.add(totals);
        if is_warmup { self.warmup.merge(totals) } else { self.totals.merge(totals) }
    }

    /// Index of the timeline interval that contains `until_ns`. A boundary belongs to the interval
    /// that it ends.
    fn interval_index(&self, until_ns: u64) -> usize {
        (until_ns.saturating_sub(1) / self.timeline.interval_ns) as usize
    }

    /// Closes the interval that ends at `at_ns` and returns the events since the last call.
    pub fn close_interval(&mut self, at_ns: u64, warmup_ns: u64) -> TimelineTick {
        let last = self.interval_index(at_ns);
        let indexes = self.unplaced.iter().map(|(index, _)| *index).chain([last]);
        let length = indexes.max().unwrap_or(last) + 1;
        let ticks = &mut self.timeline.ticks;
        ticks.resize_with(length.max(ticks.len()), TimelineTick::default);
        let mut recent = IntervalCounts::default();
        for (index, interval) in self.unplaced.drain(..) {
            ticks[index].merge(&interval.to_tick());
            recent.merge(&interval);
        }
        self.timeline.warmup = warmup_ns.div_ceil(self.timeline.interval_ns) as usize;
        if self.timeline.ticks.len() > 2 * MAX_INTERVALS {
            self.timeline.merge_pairs();
        }
        recent.to_tick()
    }
}

// The code below sends a probe, the single request before a load. It returns the complete response
// and facts about the connection.

/// A complete response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeResponse {
    /// The response and its connection. With HTTP/3, the cipher is unknown and therefore empty, and
    /// only the length of the body is known, which is also the number of bytes of the response.
    pub facts: ProbeFacts,
    /// Value of the `Location` header.
    pub location: Option<String>,
    /// Beginning of the body.
    pub body: Vec<u8>,
    /// Whether the response counts as success.
    pub is_success: bool,
}

/// Why there is no complete response.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// Nothing could be sent.
    #[error(transparent)]
    Start(#[from] LoadStartError),
    /// The request failed.
    #[error("{}", .0.description())]
    Failed(ErrorClass),
    /// The server's certificate was rejected.
    #[error("the server's certificate was rejected: {0}")]
    Certificate(CertificateRefusal),
    /// The probe was interrupted.
    #[error("interrupted")]
    Interrupted,
}

/// Sends the first request of a load once, on its own connection.
///
/// # Errors
/// Fails if there is no complete response.
pub fn send_probe(load: &LoadConfig, stop: &AtomicBool) -> Result<ProbeResponse, ProbeError> {
    validate_load(load)?;
    let load = single_request(load);
    let (tls, source) = (tls_parameters(&load)?, request_source(&load)?);
    let (mailbox, end_ns) = (TotalsMailbox::new(true), AtomicU64::new(NEVER));
    let recorder = RequestRecorder::new(&load, NEVER);
    let clock = LoadClock::start(speedwell_model::clock::WaitClock::REAL);
    let mut core = WorkerCore::new(&load, &source, tls, recorder, clock, LoadShare::ONLY)
        .map_err(LoadStartError::System)?;
    core.facts = Some(ConnectionFacts::default());
    let mut worker = LoadWorker::new(core, &mailbox, stop, &end_ns);
    let end = worker.send_all().map_err(LoadStartError::System)?;
    #[cfg(feature = "http3")]
    worker.close_quic();
    let row = worker.core.recorder.rows.first().copied();
    let Some(row) = row.filter(|_| !end.is_interrupted) else {
        return Err(ProbeError::Interrupted);
    };
    match row.outcome {
        RequestOutcome::Ok | RequestOutcome::Failed(ErrorClass::Status | ErrorClass::Assertion) => {
            Ok(build_response(&worker, &row))
        }
        RequestOutcome::Failed(class) => Err(explain_failure(class, &worker)),
        _ => Err(ProbeError::Interrupted),
    }
}

/// Explains why the request failed: by the error class or, if the certificate was rejected, by the
/// reason for the rejection.
fn explain_failure(class: ErrorClass, worker: &LoadWorker) -> ProbeError {
    let tls = worker.core.tls.as_ref().filter(|_| class == ErrorClass::TlsVerify);
    let refusal = tls.and_then(|tls| tls.last_refusal.take());
    refusal.map_or(ProbeError::Failed(class), ProbeError::Certificate)
}

/// Reduces a load to one request on one connection.
fn single_request(load: &LoadConfig) -> LoadConfig {
    LoadConfig {
        pace: PacingModel::Closed(ClosedPace { concurrency: 1, think: ThinkTime::None }),
        stop: StopCondition { after_requests: Some(1), after_ns: None },
        steady: None,
        streams_per_connection: 1,
        warmup_ns: 0,
        drain_ns: NEVER,
        threads: 1,
        part: LoadShare::ONLY,
        keeps_rows: true,
        ..load.clone()
    }
}

fn build_response(worker: &LoadWorker, row: &RequestRecord) -> ProbeResponse {
    let connection = worker.connections.first();
    let watch = connection.and_then(|connection| connection.protocol.response_watch());
    let field = |name: &str| {
        let value = watch.and_then(|watch| watch.value(name))?;
        Some(String::from_utf8_lossy(value).into_owned())
    };
    let core = &worker.core;
    let facts = core.facts.clone().unwrap_or_default();
    let [server, content_type, location] = ConnectionFacts::FIELDS;
    ProbeResponse {
        facts: ProbeFacts {
            address: core.load.target.addresses[0].to_string(),
            tls: facts.tls,
            status: row.status,
            server: field(server),
            content_type: field(content_type),
            body_bytes: row.body_bytes,
            wire_bytes: row.wire_bytes,
            is_reusable: core.recorder.last.reusable,
            connect_ns: facts.connect_ns,
            service_ns: row.end_ns - row.sent_ns.unwrap_or(row.end_ns),
            redirected_from: Vec::new(),
        },
        location: field(location),
        body: watch.map_or(Vec::new(), |watch| watch.body().to_vec()),
        is_success: row.outcome == RequestOutcome::Ok,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tracks a load without a known length. Each pair is the end of an interval and the number of
    /// successful responses in it.
    fn track_progress(counted: &[(u64, u64)]) -> ProgressTracker {
        let mut tracker = ProgressTracker::new(true, None);
        for (until_ns, ok) in counted {
            let mut totals = RequestTotals::new(true);
            (0..*ok).for_each(|_| totals.outcomes.count_ok(200));
            tracker.add(&totals, false, *until_ns);
        }
        tracker
    }

    fn good_counts(tracker: ProgressTracker) -> Vec<u64> {
        let ticks = tracker.timeline.ticks;
        ticks.iter().map(|tick| tick.ok).collect()
    }

    #[test]
    fn counts_gathered_late_belong_to_the_interval_they_were_counted_in() {
        // Two threads handed over at 100 ms and ended before the totals were gathered.
        let counts = [(TICK_NS, 30), (TICK_NS, 20), (TICK_NS + 1, 4), (TICK_NS + 9, 1)];
        let mut tracker = track_progress(&counts);
        let all = tracker.close_interval(TICK_NS + 9, 0);
        assert_eq!((all.ok, good_counts(tracker)), (55, vec![50, 5]));
    }

    #[test]
    fn an_interval_without_responses_is_in_the_timeline() {
        let mut tracker = track_progress(&[(TICK_NS, 7)]);
        tracker.close_interval(3 * TICK_NS, 0);
        assert_eq!(good_counts(tracker), [7, 0, 0]);
    }
}
