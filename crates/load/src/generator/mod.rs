//! Runs a load.
//!
//! Each thread has its own connections, requests, histograms and share of the schedule. While
//! measuring, threads share only the flags that end the load; results go to the monitoring thread
//! through mailboxes. Start at [`run`], which starts the threads and monitors them. Continue with
//! `worker`, the event loop of a thread, and `connection`.

mod channel;
mod clock;
mod connection;
mod core;
mod multiplex;
mod pacing;
mod probe;
mod progress;
mod protocol;
#[cfg(feature = "http3")]
mod quic;
mod recorder;
mod worker;

pub use core::TlsFacts;
pub use probe::{ProbeError, ProbeResponse, send_probe};
pub use progress::ProgressReport;

use crate::http2::UrlScheme;
use crate::load::{HttpVersion, KindsError, LoadConfig, LoadShare, ServerAddress, TlsError};
use channel::TlsParameters;
use clock::{LoadClock, NEVER, TICK_NS};
use core::{RequestSource, WorkerCore};
use pacing::{RequestPacing, first_connections};
use progress::{ProgressTracker, SteadyWatch, TotalsMailbox};
use recorder::RequestRecorder;
use rustix::thread::{CpuSet, sched_setaffinity, set_current_timer_slack};
use speedwell_model::load::measurement::LoadMeasurement;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use worker::{LoadWorker, ThreadResult};

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
    #[error("cannot {what}: {why}")]
    System {
        /// The attempted operation.
        what: &'static str,
        /// Error from the operating system.
        why: std::io::Error,
    },
    /// The load description is invalid.
    #[error("{0}")]
    Load(&'static str),
}

impl LoadStartError {
    fn from_wait_error(why: std::io::Error) -> LoadStartError {
        LoadStartError::System { what: "wait for sockets", why }
    }
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
    let tls = tls_parameters(load)?;
    let source = request_source(load)?;
    let threads = thread_count(load);
    let mailboxes: Vec<TotalsMailbox> =
        (0..threads).map(|_| TotalsMailbox::new(load.is_closed())).collect();
    let window_end_ns = RequestPacing::window_end_ns(load);
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
                    .map(|core| {
                        LoadWorker::new(core, RequestPacing::new(load, part), mailbox, stop, end_ns)
                    })
                    .and_then(|worker| worker.run(first_connections(load, part)));
                if result.is_err() {
                    // Without this thread, the load is incomplete, so end the other threads.
                    end_ns.store(0, Ordering::Relaxed);
                }
                // Sending cannot fail, because the receiver lives until all threads have ended.
                let _ = sender.send(result);
            });
        }
        drop(sender);
        let mut steady = SteadyWatch::new(load, &end_ns);
        let mut watch = |progress: &ProgressReport| {
            steady.observe(progress);
            watch(progress);
        };
        watch_threads(&receiver, &mailboxes, &mut tracker, load, clock, &mut watch)
    });
    let window_end_ns = window_end_ns.min(end_ns.load(Ordering::Relaxed));
    let results = results
        .into_iter()
        .collect::<std::io::Result<Vec<ThreadResult>>>()
        .map_err(LoadStartError::from_wait_error)?;
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
    let scheme = match load.target.tls {
        Some(_) => UrlScheme::Https,
        None => UrlScheme::Http,
    };
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
        crate::pace::PacingModel::Closed(closed) => load.threads.min(closed.concurrency).max(1),
        crate::pace::PacingModel::Open(_) => load.threads,
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

/// Gathers and reports intermediate results until all threads have ended.
fn watch_threads<'a>(
    receiver: &Receiver<std::io::Result<ThreadResult<'a>>>,
    mailboxes: &[TotalsMailbox],
    tracker: &mut ProgressTracker,
    load: &LoadConfig,
    clock: LoadClock,
    watch: &mut dyn FnMut(&ProgressReport),
) -> Vec<std::io::Result<ThreadResult<'a>>> {
    let mut results = Vec::new();
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
    let (totals, warmup, timeline) = tracker.into_parts();
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
