//! Runs a load.
//!
//! Each thread has its own connections, requests, histograms and share of the schedule; threads
//! share no mutable data while measuring. Start at [`run`], whose thread monitors the others, then
//! `worker`, the event loop of a thread, then `connection`.

mod batcher;
mod channel;
mod clock;
mod connection;
mod connection_facts;
mod core;
mod multiplex;
mod pacing;
mod pipeline;
mod poll;
mod probe;
mod progress;
mod protocol;
#[cfg(feature = "http3")]
mod quic;
mod recorder;
mod sent;
mod source;
mod worker;

pub use connection_facts::TlsFacts;
pub use probe::{Probe, ProbeError, probe};
pub use progress::Progress;

use crate::http2::Scheme;
use crate::load::{Address, Http, KindsError, Load, Part, TlsError};
use crate::measured::Measured;
use channel::Tls;
use clock::{Clock, NEVER, TICK_NS};
use core::Core;
use pacing::{Pacing, first_connections};
use progress::{Mailbox, ProgressTracker, SteadyWatch};
use recorder::Recorder;
use rustix::thread::{CpuSet, sched_setaffinity, set_current_timer_slack};
use source::Source;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use worker::{Finished, Worker};

/// Why a load could not start. Later failures are part of the result.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
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

impl StartError {
    fn waiting(why: std::io::Error) -> StartError {
        StartError::System {
            what: "wait for sockets",
            why,
        }
    }
}

/// Runs a load to its end. `stop` ends it early and cancels requests in flight.
///
/// # Errors
/// Fails if the load cannot start.
pub fn run(
    load: &Load,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&Progress),
) -> Result<Measured, StartError> {
    run_by(speedwell_clock::Clock::REAL, load, stop, watch)
}

/// Same as [`run`], with a clock that a test can move: it determines when requests are due, how
/// long to wait for responses, and when the load ends.
///
/// # Errors
/// See [`run`].
pub fn run_by(
    time: speedwell_clock::Clock,
    load: &Load,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&Progress),
) -> Result<Measured, StartError> {
    check(load)?;
    let tls = tls_of(load)?;
    let source = source_of(load)?;
    let threads = threads_of(load);
    let mailboxes: Vec<Mailbox> = (0..threads)
        .map(|_| Mailbox::new(load.is_closed()))
        .collect();
    let window_end_ns = Pacing::window_end_ns(load);
    let length_ns = (window_end_ns != NEVER).then_some(window_end_ns);
    let mut tracker = ProgressTracker::new(load.is_closed(), length_ns);
    let began = SystemTime::now();
    let clock = Clock::start(time);
    let end_ns = AtomicU64::new(NEVER);
    let finished = std::thread::scope(|scope| {
        let (ended, endings) = channel();
        for (thread, mailbox) in mailboxes.iter().enumerate() {
            let (ended, tls, source, end_ns) = (ended.clone(), tls.clone(), &source, &end_ns);
            let part = Part {
                index: load.part.index * threads + thread as u32,
                of: load.part.of * threads,
            };
            scope.spawn(move || {
                prepare_thread(load, thread);
                let recorder = Recorder::new(load, window_end_ns);
                let finished = Core::new(load, source, tls, recorder, clock, part)
                    .map(|core| Worker::new(core, Pacing::new(load, part), mailbox, stop, end_ns))
                    .and_then(|worker| worker.run(first_connections(load, part)));
                if finished.is_err() {
                    // Without this thread the load is incomplete, so end the others, too.
                    end_ns.store(0, Ordering::Relaxed);
                }
                // The receiver lives until all threads have ended.
                let _ = ended.send(finished);
            });
        }
        drop(ended);
        let mut steady = SteadyWatch::new(load, &end_ns);
        let mut watch = |progress: &Progress| {
            steady.see(progress);
            watch(progress);
        };
        watch_threads(&endings, &mailboxes, &mut tracker, load, clock, &mut watch)
    });
    let window_end_ns = window_end_ns.min(end_ns.into_inner());
    let finished: std::io::Result<Vec<Finished>> = finished.into_iter().collect();
    let finished = finished.map_err(StartError::waiting)?;
    tracker.gather(&mailboxes);
    let began = began.duration_since(UNIX_EPOCH).unwrap_or_default();
    let began_ms = began.as_millis() as u64;
    Ok(put_together(
        finished,
        tracker,
        load,
        window_end_ns,
        began_ms,
    ))
}

/// Protocol names offered by ALPN.
fn protocols(http: Http) -> &'static [&'static [u8]] {
    match http {
        Http::One => &[b"http/1.1"],
        Http::Two { .. } => &[b"h2"],
        Http::Three => &[b"h3"],
    }
}

fn tls_of(load: &Load) -> Result<Option<Tls>, StartError> {
    let Some(options) = &load.target.tls else {
        return Ok(None);
    };
    let refused = Arc::default();
    Ok(Some(Tls {
        config: options.config(protocols(load.http), &refused)?,
        name: options.name_for(&load.target.host)?,
        refused,
    }))
}

fn source_of(load: &Load) -> Result<Source<'_>, StartError> {
    let scheme = match load.target.tls {
        Some(_) => Scheme::Https,
        None => Scheme::Http,
    };
    Ok(Source::new(&load.kinds, load.http, scheme)?)
}

fn check(load: &Load) -> Result<(), StartError> {
    match load {
        _ if load.threads == 0 => Err(StartError::Load("a load needs at least one thread")),
        _ if load.streams_per_connection == 0 => Err(StartError::Load(
            "a connection carries at least one request",
        )),
        _ if load.part.index >= load.part.of => {
            Err(StartError::Load("there are not that many generators"))
        }
        _ if load.target.addresses.is_empty() => Err(StartError::Load("there is no address")),
        _ if load.http == Http::Three => check_http3(load),
        _ => Ok(()),
    }
}

fn check_http3(load: &Load) -> Result<(), StartError> {
    let is_unix = |address: &Address| matches!(address, Address::Unix(_));
    match load {
        _ if !cfg!(feature = "http3") => Err(StartError::Load(
            "HTTP/3 is not in this build: it was built without the feature 'http3'",
        )),
        _ if load.target.tls.is_none() => Err(StartError::Load(
            "HTTP/3 is always encrypted: its target needs TLS",
        )),
        _ if load.target.addresses.iter().any(is_unix) => Err(StartError::Load(
            "HTTP/3 goes over UDP: it cannot be spoken over a Unix socket",
        )),
        _ => Ok(()),
    }
}

/// Number of threads with work to do: at most the number of clients of a closed load.
fn threads_of(load: &Load) -> u32 {
    match &load.pace {
        crate::pace::Pace::Closed(closed) => load.threads.min(closed.concurrency).max(1),
        crate::pace::Pace::Open(_) => load.threads,
    }
}

fn prepare_thread(load: &Load, thread: usize) {
    // By default, timers of a thread fire up to 50 us late (prctl(2)). If this or pinning is not
    // permitted, the lag and the thread monitor reveal the effect.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    if !load.processors.is_empty() {
        let mut set = CpuSet::new();
        set.set(load.processors[thread % load.processors.len()]);
        let _ = sched_setaffinity(None, &set);
    }
}

type Endings = Receiver<std::io::Result<Finished>>;

/// Gathers and reports intermediate results until all threads have ended.
fn watch_threads(
    endings: &Endings,
    mailboxes: &[Mailbox],
    tracker: &mut ProgressTracker,
    load: &Load,
    clock: Clock,
    watch: &mut dyn FnMut(&Progress),
) -> Vec<std::io::Result<Finished>> {
    let mut finished = Vec::new();
    let mut last_ns = 0;
    // Offset by half an interval, to avoid contention with threads that hand over.
    let mut next_ns = TICK_NS + TICK_NS / 2;
    loop {
        let wait = Duration::from_nanos(next_ns.saturating_sub(clock.now_ns()));
        match endings.recv_timeout(clock.turn(wait)) {
            Ok(one) => finished.push(one),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if clock.now_ns() < next_ns => {}
            Err(RecvTimeoutError::Timeout) => {
                let at_ns = (clock.now_ns() / TICK_NS) * TICK_NS;
                next_ns = at_ns + TICK_NS + TICK_NS / 2;
                tracker.gather(mailboxes);
                let tick = tracker.tick(at_ns, load.warmup_ns);
                let is_warmup = at_ns < load.warmup_ns;
                watch(&Progress {
                    at_ns,
                    is_warmup,
                    so_far: if is_warmup {
                        &tracker.warmup
                    } else {
                        &tracker.totals
                    },
                    tick: &tick,
                    interval_ns: at_ns - last_ns,
                });
                last_ns = at_ns;
            }
        }
    }
    finished
}

fn put_together(
    all: Vec<Finished>,
    mut tracker: ProgressTracker,
    load: &Load,
    window_end_ns: u64,
    began_epoch_ms: u64,
) -> Measured {
    let last_end_ns = all.iter().map(|one| one.last_end_ns).max().unwrap_or(0);
    // An open load without a request limit lasts for its requested duration, although its last
    // request is due earlier.
    let lasts = !load.is_closed() && load.stop.after_requests.is_none() && window_end_ns != NEVER;
    let ended_by_time = lasts || all.iter().any(|one| one.ended_by_time);
    let is_interrupted = all.iter().any(|one| one.is_interrupted);
    let ran_ns = all
        .iter()
        .map(|one| one.report.elapsed_ns)
        .max()
        .unwrap_or(0);
    let end_ns = match (is_interrupted, ended_by_time) {
        (true, _) => ran_ns.min(window_end_ns),
        (false, true) => window_end_ns,
        (false, false) => last_end_ns,
    };
    let (mut ok_in_time, mut under_way_ns) = (0, 0);
    let mut rows = Vec::new();
    let mut threads = Vec::new();
    let (mut most_connections, mut reached_most_connections) = (0, false);
    for one in all {
        let end_ns = one.report.elapsed_ns;
        tracker.add(&one.totals, false, end_ns);
        tracker.add(&one.warmup, true, end_ns.min(load.warmup_ns));
        ok_in_time += one.ok_in_time;
        under_way_ns += one.under_way_ns;
        rows.extend(one.rows);
        threads.push(one.report);
        most_connections += one.most_open;
        reached_most_connections |= one.reached_most_connections;
    }
    tracker.tick(ran_ns, load.warmup_ns);
    rows.sort_by_key(|row| row.end_ns);
    let (totals, warmup, timeline) = tracker.into_parts();
    Measured {
        began_epoch_ms,
        elapsed_ns: end_ns.saturating_sub(load.warmup_ns),
        ok_in_time,
        under_way_ns: Some(under_way_ns.min(u128::from(u64::MAX)) as u64),
        totals,
        warmup,
        timeline,
        threads,
        most_connections,
        reached_most_connections,
        is_interrupted,
        rows,
    }
}
