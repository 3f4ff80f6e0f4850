//! Sends one load from several generator processes, started together and summed at the end.
//!
//! The protocol is line-based. A worker receives its [`WorkerAssignment`] as JSON and answers
//! `ready`; it receives `go`, or `start NS` by its clock, and answers `began NS`, then
//! `at SNAPSHOT` periodically, and `measured MEASURED` at the end; `stop` ends it early. If a
//! worker dies, its part is lost and the others' results are kept. Start at [`run_workers`];
//! [`run_worker`] is the worker's side.

use super::{LoadJob, LoadPart, StartSignal, UNLIMITED, build, target};
use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use speedwell_harness::own_program;
use speedwell_load::generator::{self, ProgressReport};
use speedwell_load::load::LoadShare;
use speedwell_load::measured::{LoadMeasurement, TimelineTick};
use speedwell_model::load_spec::LoadSpec;
use speedwell_process::{
    self as process, ChannelKind, ChildConversation, NextStep, ProcessOutcome, ProcessSpec,
    RealTimeGuard,
};
use std::fs::{File, OpenOptions};
use std::io;
use std::io::{BufRead, BufReader, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Interval for combining snapshots, equal to the interval of a generator's reports.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Time a worker may take to report its results after the stop command.
const STOP_GRACE: Duration = Duration::from_secs(20);

/// Time a worker may take to exit after its last line.
const EXIT_GRACE: Duration = Duration::from_secs(5);

/// Hidden command of a worker, which calls [`super::run_worker`].
pub const WORKER_COMMAND: &str = "load-worker";

/// Assignment of a worker: the whole load, and which part of it is the worker's.
#[derive(Debug, Serialize, Deserialize)]
pub struct WorkerAssignment {
    /// The load, with redirects followed.
    pub spec: LoadSpec,
    /// Seed of random choices.
    pub seed: u64,
    /// Index of the worker, from 0.
    pub index: u32,
    /// Total number of workers.
    pub of: u32,
    /// Number of workers that it represents, beginning with its own index.
    #[serde(default = "one")]
    pub count: u32,
}

fn one() -> u32 {
    1
}

impl WorkerAssignment {
    /// Builds the worker's part of the load.
    ///
    /// # Errors
    /// Fails if it cannot be sent from this machine.
    pub fn job(&self) -> anyhow::Result<LoadJob> {
        let (index, of) = (self.index, self.of);
        let mut job = build::build_job(&self.spec, self.seed, LoadShare { index, count: of })?;
        // The parent process has already reported unreachable addresses.
        drop(target::drop_unreachable(&mut job.load));
        Ok(job)
    }
}

/// The generators that this process starts, out of all generators of a load.
pub struct GeneratorShare<'a> {
    /// Index of the first one.
    pub first: u32,
    /// Number of generators to start.
    pub count: u32,
    /// Total number of generators of the load.
    pub of: u32,
    /// Called once, as soon as all of these generators are ready.
    pub begin: &'a (dyn Fn() -> StartSignal + Sync),
}

/// Combined result of a load that several generators sent.
#[derive(Debug)]
pub struct CombinedResult {
    /// Sum of their measurements.
    pub measured: LoadMeasurement,
    /// One sentence for each generator whose part is missing.
    pub losses: Vec<String>,
    /// Result of each machine, if there were several.
    pub parts: Vec<LoadPart>,
    /// Start time of each generator, in nanoseconds since 1970.
    pub began_ns: Vec<i64>,
}

/// State of one worker.
#[derive(Debug, Default)]
struct WorkerState {
    is_ready: bool,
    has_ended: bool,
    began_ns: Option<i64>,
    snapshot: Option<LoadSnapshot>,
    measured: Option<LoadMeasurement>,
}

/// State shared by the listener threads.
struct WorkerTable<'a> {
    workers: Mutex<Vec<WorkerState>>,
    changed: Condvar,
    stop: &'a AtomicBool,
    begin: &'a (dyn Fn() -> StartSignal + Sync),
    /// Result of `begin`, once it has been called.
    begins: Mutex<Option<StartSignal>>,
}

/// Sends a share of a load from processes of this machine.
///
/// # Errors
/// Fails if none could be started, or none measured anything.
pub fn run_workers(
    job: &LoadJob,
    share: &GeneratorShare<'_>,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&LoadSnapshot),
) -> anyhow::Result<CombinedResult> {
    let count = share.count as usize;
    let shared = WorkerTable {
        workers: Mutex::new((0..count).map(|_| WorkerState::default()).collect()),
        changed: Condvar::new(),
        stop,
        begin: share.begin,
        begins: Mutex::new(None),
    };
    let outcomes: Vec<io::Result<ProcessOutcome>> = std::thread::scope(|scope| {
        let listeners: Vec<_> = (0..count)
            .map(|index| {
                let shared = &shared;
                let order = worker_assignment(job, share, index);
                scope.spawn(move || {
                    let mut talk = WorkerConversation {
                        shared,
                        index,
                        order,
                    };
                    let outcome = process::run_child(&worker_spec(), &mut talk);
                    shared.update(|workers| workers[index].has_ended = true);
                    outcome
                })
            })
            .collect();
        shared.watch(watch);
        let joined = listeners.into_iter().map(|listener| listener.join());
        joined
            .map(|outcome| {
                outcome.unwrap_or_else(|_| Err(io::Error::other("its listener panicked")))
            })
            .collect()
    });
    let workers = shared
        .workers
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    combine_results(workers, outcomes)
}

fn worker_spec() -> ProcessSpec {
    ProcessSpec {
        limit: UNLIMITED,
        channel: ChannelKind::Harness,
        ..ProcessSpec::new(own_program()).args([WORKER_COMMAND])
    }
}

fn worker_assignment(job: &LoadJob, share: &GeneratorShare<'_>, index: usize) -> WorkerAssignment {
    WorkerAssignment {
        spec: job.spec.clone(),
        seed: job.seed,
        index: share.first + index as u32,
        of: share.of,
        count: 1,
    }
}

impl WorkerTable<'_> {
    fn lock(&self) -> MutexGuard<'_, Vec<WorkerState>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, change: impl FnOnce(&mut Vec<WorkerState>)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Reports combined snapshots until all workers have ended.
    fn watch(&self, watch: &mut dyn FnMut(&LoadSnapshot)) {
        let mut workers = self.lock();
        while workers.iter().any(|worker| !worker.has_ended) {
            let waited = self.changed.wait_timeout(workers, POLL_INTERVAL);
            workers = waited.unwrap_or_else(PoisonError::into_inner).0;
            let parts: Vec<LoadSnapshot> =
                workers.iter().filter_map(|w| w.snapshot.clone()).collect();
            if parts.len() == workers.len() {
                watch(&LoadSnapshot::combine(&parts));
            }
        }
    }

    /// Returns when the workers begin; calls `begin` once for all of them.
    fn start_signal(&self) -> StartSignal {
        let mut begins = self.begins.lock().unwrap_or_else(PoisonError::into_inner);
        *begins.get_or_insert_with(self.begin)
    }

    /// Waits until all are ready. Returns `false` if one ended or the load was stopped.
    fn wait_until_ready(&self) -> bool {
        let mut workers = self.lock();
        loop {
            if self.stop.load(Ordering::Relaxed) || workers.iter().any(|worker| worker.has_ended) {
                return false;
            }
            if workers.iter().all(|worker| worker.is_ready) {
                return true;
            }
            let waited = self.changed.wait_timeout(workers, POLL_INTERVAL);
            workers = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Conversation with one worker.
struct WorkerConversation<'a, 'b> {
    shared: &'a WorkerTable<'b>,
    index: usize,
    order: WorkerAssignment,
}

impl ChildConversation for WorkerConversation<'_, '_> {
    fn opening_bytes(&mut self) -> Vec<u8> {
        // Serializing strings and numbers cannot fail.
        let mut line = serde_json::to_vec(&self.order).unwrap_or_default();
        line.push(b'\n');
        line
    }

    fn handle_line(&mut self, line: &[u8]) -> NextStep {
        let (word, rest) = match line.iter().position(|byte| *byte == b' ') {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &line[..0]),
        };
        let index = self.index;
        match word {
            b"ready" => {
                self.shared.update(|workers| workers[index].is_ready = true);
                // Workers become ready at different times, so all wait for one start signal.
                let begins = if self.shared.wait_until_ready() {
                    self.shared.start_signal()
                } else {
                    StartSignal::Never
                };
                NextStep::Send(begins.to_line())
            }
            b"began" => {
                let began_ns = serde_json::from_slice(rest).ok();
                self.shared.lock()[index].began_ns = began_ns;
                NextStep::Wait
            }
            b"at" => {
                if let Ok(snapshot) = serde_json::from_slice(rest) {
                    self.shared.lock()[index].snapshot = Some(snapshot);
                }
                if self.shared.stop.load(Ordering::Relaxed) {
                    NextStep::Send(b"stop\n".to_vec())
                } else {
                    NextStep::Wait
                }
            }
            b"measured" => {
                let measured = serde_json::from_slice(rest).ok();
                self.shared
                    .update(|workers| workers[index].measured = measured);
                NextStep::Linger(EXIT_GRACE)
            }
            _ => NextStep::Wait,
        }
    }

    fn stop_request(&mut self) -> Option<(Vec<u8>, Duration)> {
        Some((b"stop\n".to_vec(), STOP_GRACE))
    }
}

fn combine_results(
    workers: Vec<WorkerState>,
    outcomes: Vec<io::Result<ProcessOutcome>>,
) -> anyhow::Result<CombinedResult> {
    let count = workers.len();
    let began_ns = workers
        .iter()
        .filter_map(|worker| worker.began_ns)
        .collect();
    let mut combined: Option<LoadMeasurement> = None;
    let mut deaths = Vec::new();
    for (index, (worker, outcome)) in workers.into_iter().zip(outcomes).enumerate() {
        match (worker.measured, &mut combined) {
            (Some(measured), Some(combined)) => combined.merge(measured),
            (Some(measured), combined) => *combined = Some(measured),
            (None, _) => deaths.push(describe_death(index, count, outcome)),
        }
    }
    match combined {
        Some(measured) => Ok(CombinedResult {
            measured,
            losses: deaths,
            parts: Vec::new(),
            began_ns,
        }),
        None if process::is_interrupt_requested() => {
            bail!("interrupted before anything was measured")
        }
        None => Err(anyhow::anyhow!(deaths.join("\n")))
            .context("no generator process measured anything"),
    }
}

fn describe_death(index: usize, count: usize, outcome: io::Result<ProcessOutcome>) -> String {
    let which = format!("generator process {} of {count}", index + 1);
    match outcome {
        Err(error) => format!("The {which} could not be started or read: {error}."),
        Ok(outcome) => {
            let how = outcome
                .failure_cause(UNLIMITED)
                .map_or("ended".to_owned(), |cause| cause.to_string());
            let tail = outcome.stderr.last_lines(5);
            let wrote = if tail.is_empty() { "" } else { "; it wrote: " };
            format!("The {which} {how} without a result, so its part is missing{wrote}{tail}.")
        }
    }
}

/// Runs a worker: reads its order, reports ready, waits for the start signal, sends its part and
/// reports the results.
///
/// # Errors
/// Fails if this process was not started as a worker, or the load could not begin.
pub fn run_worker() -> anyhow::Result<()> {
    let (orders, mut answers) =
        open_private_channel().context("this is not a generator process")?;
    let mut orders = BufReader::new(orders);
    let mut line = String::new();
    orders.read_line(&mut line)?;
    let order: WorkerAssignment =
        serde_json::from_str(&line).context("cannot parse the request")?;
    let job = order.job()?;
    writeln!(answers, "ready")?;
    let mut word = String::new();
    orders.read_line(&mut word)?;
    let Some(began_ns) = StartSignal::from_line(word.trim()).wait() else {
        return Ok(());
    };
    writeln!(answers, "began {began_ns}")?;
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    std::thread::spawn(move || {
        // Any further line, or the end of the parent, ends the load.
        let _ = orders.read_line(&mut String::new());
        flag.store(true, Ordering::Relaxed);
    });
    let measured = send_load(&job, &stop, &mut |snapshot| {
        // A lost snapshot is harmless, and without a parent the load is stopped anyway.
        if let Ok(text) = serde_json::to_string(snapshot) {
            let _ = writeln!(answers, "at {text}");
        }
    })?;
    let text = serde_json::to_string(&measured)?;
    writeln!(answers, "measured {text}").context("cannot send the results")?;
    Ok(())
}

/// Opens the pipes to and from the parent that `SPEEDWELL_FDS` names. Reopening them by their /proc
/// path needs no unsafe code.
///
/// # Errors
/// Fails if this process was started without a private channel.
pub fn open_private_channel() -> anyhow::Result<(File, File)> {
    let names = std::env::var("SPEEDWELL_FDS").context("SPEEDWELL_FDS is not set")?;
    let (orders, answers) = names
        .split_once(',')
        .context("SPEEDWELL_FDS does not name two descriptors")?;
    let at = |number: &str| format!("/proc/self/fd/{number}");
    Ok((
        File::open(at(orders))?,
        OpenOptions::new().write(true).open(at(answers))?,
    ))
}

/// Progress of a running load.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LoadSnapshot {
    /// Nanoseconds since the start, including the warm-up.
    pub at_ns: u64,
    /// Whether the load is in its warm-up.
    pub is_warmup: bool,
    /// Requests begun since the end of the warm-up, or so far within it.
    pub attempted: u64,
    /// Failed requests in the same period.
    pub errors: u64,
    /// Length of the last interval in nanoseconds.
    pub interval_ns: u64,
    /// Results of the last interval.
    pub tick: TimelineTick,
}

impl LoadSnapshot {
    /// Converts the progress of one generator.
    pub fn from_progress(progress: &ProgressReport) -> LoadSnapshot {
        LoadSnapshot {
            at_ns: progress.at_ns,
            is_warmup: progress.is_warmup,
            attempted: progress.so_far.outcomes.attempts(),
            errors: progress.so_far.outcomes.all_errors(),
            interval_ns: progress.interval_ns,
            tick: progress.tick.clone(),
        }
    }

    /// Combines the progress of generators that send parts of the same load.
    pub fn combine(parts: &[LoadSnapshot]) -> LoadSnapshot {
        let mut all = LoadSnapshot::default();
        for part in parts {
            all.at_ns = all.at_ns.max(part.at_ns);
            all.is_warmup |= part.is_warmup;
            all.attempted += part.attempted;
            all.errors += part.errors;
            all.interval_ns = all.interval_ns.max(part.interval_ns);
            all.tick.ok += part.tick.ok;
            all.tick.errors += part.tick.errors;
            all.tick.p50_ns = all.tick.p50_ns.max(part.tick.p50_ns);
            all.tick.p99_ns = all.tick.p99_ns.max(part.tick.p99_ns);
            all.tick.most_ns = all.tick.most_ns.max(part.tick.most_ns);
        }
        all
    }
}

/// Sends the load, or this generator's part of it, from this process.
///
/// # Errors
/// Fails if the load could not begin.
pub fn send_load(
    job: &LoadJob,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&LoadSnapshot),
) -> anyhow::Result<LoadMeasurement> {
    let _priority = if job.spec.rt {
        Some(enter_real_time()?)
    } else {
        None
    };
    let measured = generator::run(&job.load, stop, &mut |progress| {
        watch(&LoadSnapshot::from_progress(progress));
    });
    measured.with_context(|| format!("cannot load '{}'", job.url))
}

pub(super) fn enter_real_time() -> anyhow::Result<RealTimeGuard> {
    RealTimeGuard::raise_priority().context(
        "cannot get real-time priority (SCHED_FIFO)\nhint: it needs the capability CAP_SYS_NICE or a \
         limit: 'ulimit -r' of at least 10",
    )
}
