//! Sends one load from several generator processes. They start together, and their results are
//! summed at the end.
//!
//! Parent and worker exchange lines. The worker first receives its [`WorkerAssignment`] as JSON and
//! answers `ready`. Then it receives `go`, or `start NS`, where NS is the start time on its clock.
//! It answers `began NS` when it has started. During the load it sends `at SNAPSHOT` periodically,
//! and at the end `measured MEASURED`. The line `stop` ends the load early. If a worker dies during
//! the load, its part of the load is lost, and the results of the others are kept. Start at
//! [`run_workers`]; [`run_worker`] is the worker's side.

use super::{LoadJob, LoadPart, StartSignal, UNLIMITED, build, target};
use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use speedwell_adapters::own_program;
use speedwell_load::generator::{self, ProgressReport};
use speedwell_load::load::LoadShare;
use speedwell_machine::process::{
    self as process, ChannelKind, ChildConversation, NextStep, ProcessOutcome, ProcessSpec,
    RealTimeGuard, WORKER_COMMAND,
};
use speedwell_model::load::measurement::{LoadMeasurement, TimelineTick};
use speedwell_model::load::spec::LoadSpec;
use std::fs::{File, OpenOptions};
use std::io;
use std::io::{BufRead, BufReader, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Interval for combining snapshots; a generator sends its snapshots at the same interval.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Time a worker may take to report its results after the stop command.
const STOP_GRACE: Duration = Duration::from_secs(20);

/// Time a worker may take to exit after its last line.
const EXIT_GRACE: Duration = Duration::from_secs(5);

/// Subcommand of [`WORKER_COMMAND`] that calls [`super::run_worker`].
pub const GENERATOR_SUBCOMMAND: &str = "generator";

/// Assignment of a worker: the whole load, and the part of it that the worker sends.
#[derive(Debug, Serialize, Deserialize)]
pub struct WorkerAssignment {
    /// The load, with the URL to which redirects led.
    pub spec: LoadSpec,
    /// Seed of random choices.
    pub seed: u64,
    /// Index of the worker, from 0.
    pub index: u32,
    /// Total number of workers.
    pub of: u32,
    /// Number of consecutive workers, beginning with `index`, that the assignment covers. It is
    /// more than 1 only if the recipient is a machine that starts several generator processes.
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
    /// Fails if this part cannot be sent from this machine.
    pub fn job(&self) -> anyhow::Result<LoadJob> {
        let (index, count) = (self.index, self.of);
        let mut job = build::build_job(&self.spec, self.seed, LoadShare { index, count })?;
        // The parent process has already reported unreachable addresses.
        drop(target::drop_unreachable(&mut job.load));
        Ok(job)
    }
}

/// The generators that this process starts, out of all generators of a load.
pub struct GeneratorShare<'a> {
    /// Index of the first of these generators.
    pub first: u32,
    /// Number of generators to start.
    pub count: u32,
    /// Total number of generators of the load.
    pub total: u32,
    /// Called once, as soon as all generators of this share are ready. Returns the signal that they
    /// get.
    pub begin: &'a (dyn Fn() -> StartSignal + Sync),
}

/// Combined result of a load that several generators sent.
#[derive(Debug)]
pub struct CombinedResult {
    /// Sum of the measurements of all generators.
    pub measured: LoadMeasurement,
    /// Explanations, one sentence for each generator without results.
    pub losses: Vec<String>,
    /// Result of each machine, if there were several.
    pub parts: Vec<LoadPart>,
    /// Start time of each generator, in nanoseconds since 1970.
    pub began_ns: Vec<i64>,
}

#[derive(Debug, Default)]
struct WorkerState {
    is_ready: bool,
    has_ended: bool,
    began_ns: Option<i64>,
    snapshot: Option<LoadSnapshot>,
    measured: Option<LoadMeasurement>,
}

/// State that is shared by the threads of all workers; each thread talks to one worker.
struct WorkerTable<'a> {
    workers: Mutex<Vec<WorkerState>>,
    changed: Condvar,
    stop: &'a AtomicBool,
    begin: &'a (dyn Fn() -> StartSignal + Sync),
    /// Result of `begin`, once it has been called.
    start_signal: Mutex<Option<StartSignal>>,
}

/// Sends a share of a load from processes of this machine.
///
/// # Errors
/// Fails if no worker could be started, or no worker measured anything.
pub fn run_workers(
    job: &LoadJob,
    share: &GeneratorShare<'_>,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&LoadSnapshot),
) -> anyhow::Result<CombinedResult> {
    let count = share.count as usize;
    let table = WorkerTable {
        workers: Mutex::new((0..count).map(|_| WorkerState::default()).collect()),
        changed: Condvar::new(),
        stop,
        begin: share.begin,
        start_signal: Mutex::new(None),
    };
    let outcomes: Vec<io::Result<ProcessOutcome>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|index| {
                let table = &table;
                let assignment = worker_assignment(job, share, index);
                scope.spawn(move || {
                    let mut conversation = WorkerConversation { shared: table, index, assignment };
                    let outcome = process::run_child(&worker_spec(), &mut conversation);
                    table.update(|workers| workers[index].has_ended = true);
                    outcome
                })
            })
            .collect();
        table.watch(watch);
        let results = threads.into_iter().map(|thread| thread.join());
        results
            .map(|outcome| {
                outcome.unwrap_or_else(|_| Err(io::Error::other("its listener panicked")))
            })
            .collect()
    });
    let workers = table.workers.into_inner().unwrap_or_else(PoisonError::into_inner);
    combine_results(workers, outcomes)
}

fn worker_spec() -> ProcessSpec {
    ProcessSpec {
        limit: UNLIMITED,
        channel: ChannelKind::Harness,
        ..ProcessSpec::new(own_program()).args([WORKER_COMMAND, GENERATOR_SUBCOMMAND])
    }
}

fn worker_assignment(job: &LoadJob, share: &GeneratorShare<'_>, index: usize) -> WorkerAssignment {
    WorkerAssignment {
        spec: job.spec.clone(),
        seed: job.seed,
        index: share.first + index as u32,
        of: share.total,
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
            let result = self.changed.wait_timeout(workers, POLL_INTERVAL);
            workers = result.unwrap_or_else(PoisonError::into_inner).0;
            let parts: Vec<LoadSnapshot> =
                workers.iter().filter_map(|w| w.snapshot.clone()).collect();
            if parts.len() == workers.len() {
                watch(&LoadSnapshot::combine(&parts));
            }
        }
    }

    /// Returns the start signal, which is the same for all workers; calls `begin` only the first
    /// time.
    fn start_signal(&self) -> StartSignal {
        let mut signal = self.start_signal.lock().unwrap_or_else(PoisonError::into_inner);
        *signal.get_or_insert_with(self.begin)
    }

    /// Waits until all workers are ready. Returns `false` if one has ended or the load was stopped.
    fn wait_until_ready(&self) -> bool {
        let mut workers = self.lock();
        loop {
            if self.stop.load(Ordering::Relaxed) || workers.iter().any(|worker| worker.has_ended) {
                return false;
            }
            if workers.iter().all(|worker| worker.is_ready) {
                return true;
            }
            let result = self.changed.wait_timeout(workers, POLL_INTERVAL);
            workers = result.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

struct WorkerConversation<'a, 'b> {
    shared: &'a WorkerTable<'b>,
    index: usize,
    assignment: WorkerAssignment,
}

impl ChildConversation for WorkerConversation<'_, '_> {
    fn opening_bytes(&mut self) -> Vec<u8> {
        // Serializing strings and numbers cannot fail.
        let mut line = serde_json::to_vec(&self.assignment).unwrap_or_default();
        line.push(b'\n');
        line
    }

    fn handle_line(&mut self, line: &[u8]) -> NextStep {
        let (command, payload) = match line.iter().position(|byte| *byte == b' ') {
            Some(space) => (&line[..space], &line[space + 1..]),
            None => (line, &line[..0]),
        };
        let index = self.index;
        match command {
            b"ready" => {
                self.shared.update(|workers| workers[index].is_ready = true);
                // Workers become ready at different times, so all wait for one start signal.
                let signal = if self.shared.wait_until_ready() {
                    self.shared.start_signal()
                } else {
                    StartSignal::Never
                };
                NextStep::Send(signal.to_line())
            }
            b"began" => {
                let began_ns = serde_json::from_slice(payload).ok();
                self.shared.lock()[index].began_ns = began_ns;
                NextStep::Wait
            }
            b"at" => {
                if let Ok(snapshot) = serde_json::from_slice(payload) {
                    self.shared.lock()[index].snapshot = Some(snapshot);
                }
                if self.shared.stop.load(Ordering::Relaxed) {
                    NextStep::Send(b"stop\n".to_vec())
                } else {
                    NextStep::Wait
                }
            }
            b"measured" => {
                let measured = serde_json::from_slice(payload).ok();
                self.shared.update(|workers| workers[index].measured = measured);
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
    let began_ns = workers.iter().filter_map(|worker| worker.began_ns).collect();
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
        Some(measured) => {
            Ok(CombinedResult { measured, losses: deaths, parts: Vec::new(), began_ns })
        }
        None if process::is_interrupt_requested() => {
            bail!("interrupted before anything was measured")
        }
        None => Err(anyhow::anyhow!(deaths.join("\n")))
            .context("no generator process measured anything"),
    }
}

fn describe_death(index: usize, count: usize, outcome: io::Result<ProcessOutcome>) -> String {
    let process = format!("Generator process {} of {count}", index + 1);
    match outcome {
        Err(error) => format!("{process} could not be started or read: {error}."),
        Ok(outcome) => {
            let end = outcome
                .failure_cause(UNLIMITED)
                .map_or("ended".to_owned(), |cause| cause.to_string());
            let tail = outcome.stderr.last_lines(5);
            let separator = if tail.is_empty() { "" } else { "; it wrote: " };
            format!(
                "{process} {end} without a result, so its part of the load is missing \
                 from the results{separator}{tail}."
            )
        }
    }
}

/// Runs a worker: reads its assignment, reports that it is ready, waits for the start signal, sends
/// its part and reports the results.
///
/// # Errors
/// Fails if this process was not started as a worker, or the load could not begin.
pub fn run_worker() -> anyhow::Result<()> {
    let (input, mut output) = open_private_channel().context("this is not a generator process")?;
    let mut input = BufReader::new(input);
    let mut line = String::new();
    input.read_line(&mut line)?;
    let assignment: WorkerAssignment =
        serde_json::from_str(&line).context("cannot parse the request")?;
    let job = assignment.job()?;
    writeln!(output, "ready")?;
    let mut start_line = String::new();
    input.read_line(&mut start_line)?;
    let Some(began_ns) = StartSignal::from_line(start_line.trim()).wait() else {
        return Ok(());
    };
    writeln!(output, "began {began_ns}")?;
    let stop = Arc::new(AtomicBool::new(false));
    let stop_flag = stop.clone();
    std::thread::spawn(move || {
        // Another line, or the end of the parent, ends the load.
        let _ = input.read_line(&mut String::new());
        stop_flag.store(true, Ordering::Relaxed);
    });
    let measured = send_load(&job, &stop, &mut |snapshot| {
        // A lost snapshot is harmless, and without a parent the load is stopped anyway.
        if let Ok(json) = serde_json::to_string(snapshot) {
            let _ = writeln!(output, "at {json}");
        }
    })?;
    let json = serde_json::to_string(&measured)?;
    writeln!(output, "measured {json}").context("cannot send the results")?;
    Ok(())
}

/// Opens the two pipes that connect this process with its parent. `SPEEDWELL_FDS` names their file
/// descriptors. The function opens the pipes again by their paths in /proc, because this needs no
/// unsafe code.
///
/// # Errors
/// Fails if this process was started without a private channel.
pub fn open_private_channel() -> anyhow::Result<(File, File)> {
    let names = std::env::var("SPEEDWELL_FDS").context("SPEEDWELL_FDS is not set")?;
    let (input, output) =
        names.split_once(',').context("SPEEDWELL_FDS does not name two descriptors")?;
    let path = |number: &str| format!("/proc/self/fd/{number}");
    Ok((File::open(path(input))?, OpenOptions::new().write(true).open(path(output))?))
}

/// Progress of a running load.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LoadSnapshot {
    /// Nanoseconds since the start, including the warm-up.
    pub at_ns: u64,
    /// Whether the load is in its warm-up.
    pub is_warmup: bool,
    /// Number of requests that have begun since the end of the warm-up or, while the warm-up lasts,
    /// since the start of the load.
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

    /// Combines the progress of generators that send parts of the same load. Adds up their counts,
    /// and takes the maximum of their times and of each latency.
    pub fn combine(parts: &[LoadSnapshot]) -> LoadSnapshot {
        let mut combined = LoadSnapshot::default();
        for part in parts {
            combined.at_ns = combined.at_ns.max(part.at_ns);
            combined.is_warmup |= part.is_warmup;
            combined.attempted += part.attempted;
            combined.errors += part.errors;
            combined.interval_ns = combined.interval_ns.max(part.interval_ns);
            combined.tick.ok += part.tick.ok;
            combined.tick.errors += part.tick.errors;
            combined.tick.p50_ns = combined.tick.p50_ns.max(part.tick.p50_ns);
            combined.tick.p99_ns = combined.tick.p99_ns.max(part.tick.p99_ns);
            combined.tick.max_ns = combined.tick.max_ns.max(part.tick.max_ns);
        }
        combined
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
    let _priority = if job.spec.rt { Some(enter_real_time()?) } else { None };
    let measured = generator::run(&job.load, stop, &mut |progress| {
        watch(&LoadSnapshot::from_progress(progress));
    });
    measured.with_context(|| format!("cannot send the load to '{}'", job.url))
}

pub(super) fn enter_real_time() -> anyhow::Result<RealTimeGuard> {
    RealTimeGuard::raise_priority().context(
        "cannot get real-time priority (SCHED_FIFO)\nhint: it needs the capability CAP_SYS_NICE, or \
         a limit ('ulimit -r') of at least 10",
    )
}
