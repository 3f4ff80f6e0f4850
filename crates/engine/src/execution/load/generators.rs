//! Sends one load from several generators, which start together, and adds up their results. A
//! generator is a process of this program, on this or another machine.
//!
//! A generator receives its [`WorkerAssignment`], sends [`GeneratorEvent::Ready`], and receives the
//! [`StartSignal`]. During the load it sends its progress, and at the end
//! [`GeneratorEvent::Measured`]. If a generator on this machine dies during the load, its part of
//! the load is lost, and the results of the others are kept. If a generator on another machine is
//! lost, all others are stopped. Start at [`follow_generators`]; [`run_generators`] also starts the
//! generators, on this machine.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use speedwell_adapters::own_program;
use speedwell_load::generator::ProgressReport;
use speedwell_machine::process::{self, ProcessEnd};
use speedwell_machine::worker::{ClockOffset, WorkerConnection, WorkerEnd, now_ns};
use speedwell_model::load::measurement::{LoadMeasurement, LoadPart, TimelineTick};
use speedwell_model::load::spec::LoadSpec;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Interval between checks for a reason to end a load.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A silent generator on another machine is considered lost after this time. Normally, a generator
/// reports its progress ten times per second.
const MAX_SILENCE: Duration = Duration::from_secs(15);

/// Time that a generator may take to end if the load is stopped before it begins.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Time that a generator may take to report after the load was stopped. It covers outstanding
/// responses.
const REPORT_GRACE: Duration = Duration::from_secs(60);

/// Lines of a dead generator's stderr that are shown.
const TAIL_LINES: usize = 5;

/// Subcommand of [`WORKER_COMMAND`](speedwell_machine::worker::WORKER_COMMAND) that runs a
/// generator.
pub const LOAD_SUBCOMMAND: &str = "load";

/// First message to a generator: the whole load, and the part of it to send.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkerAssignment {
    /// The load, with the URL to which redirects led.
    pub spec: LoadSpec,
    /// Seed of random choices.
    pub seed: u64,
    /// Index of the generator, from 0.
    pub index: u32,
    /// Total number of generators.
    pub of: u32,
    /// Number of consecutive generators, beginning with `index`, that the assignment covers. It is
    /// more than 1 only if the recipient starts several generators itself.
    pub count: u32,
    /// Whether the recipient runs on another machine. It then verifies the target and describes its
    /// machine before it is ready.
    pub is_remote: bool,
}

impl WorkerAssignment {
    /// Returns the assignment that covers a whole load.
    pub fn whole(spec: &LoadSpec, seed: u64, is_remote: bool) -> WorkerAssignment {
        let count = spec.clients.unwrap_or(1);
        WorkerAssignment { spec: spec.clone(), seed, index: 0, of: count, count, is_remote }
    }

    /// Divides the assignment into parts with the same number of generators.
    pub fn divide(&self, parts: u32) -> Vec<WorkerAssignment> {
        let count = self.count / parts.max(1);
        let assignment = |part: u32| WorkerAssignment {
            index: self.index + part * count,
            count,
            ..self.clone()
        };
        (0..parts).map(assignment).collect()
    }
}

/// A message from a generator.
#[derive(Debug, Serialize, Deserialize)]
pub enum GeneratorEvent {
    /// The generator waits for its [`StartSignal`].
    Ready(GeneratorReady),
    /// Progress of the load.
    Progress(LoadSnapshot),
    /// The load has ended.
    Measured(Box<GeneratorReport>),
}

/// Report of a generator on another machine before a load.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GeneratorReady {
    /// Identity of the machine.
    pub id: String,
    /// Shortest time to connect to the server, in nanoseconds.
    pub connect_ns: Option<u64>,
}

/// Report of one or several generators after a load.
#[derive(Debug, Serialize, Deserialize)]
pub struct GeneratorReport {
    /// Sum of the measurements of all generators.
    pub measured: LoadMeasurement,
    /// When each generator process started, by its machine's clock in nanoseconds since 1970.
    pub began_ns: Vec<i64>,
    /// One sentence per generator process that died.
    pub losses: Vec<String>,
    /// The machine's most utilized network device, and its utilization.
    pub link: Option<(String, f64)>,
    /// Result of each machine, if there were several.
    #[serde(skip)]
    pub parts: Vec<LoadPart>,
}

impl GeneratorReport {
    /// Creates the report of a generator about which nothing else is known.
    pub fn new(measured: LoadMeasurement) -> GeneratorReport {
        let (began_ns, losses, parts) = (Vec::new(), Vec::new(), Vec::new());
        GeneratorReport { measured, began_ns, losses, link: None, parts }
    }
}

/// State of a generator.
#[derive(Debug, Default)]
pub struct GeneratorState {
    /// What the generator reported when it was ready, and the offset of its clock.
    pub ready: Option<(GeneratorReady, ClockOffset)>,
    /// Latest progress.
    pub snapshot: Option<LoadSnapshot>,
    /// Results.
    pub report: Option<GeneratorReport>,
    /// Offset of the clock after the load.
    pub offset_after: Option<ClockOffset>,
    /// How the connection ended; `None` before its end.
    pub end: Option<WorkerEnd>,
    /// Time of the last message or, once the connection has ended, time of the end.
    pub last_heard: Option<Instant>,
}

/// Makes generators send their parts of a load, and returns when all connections have ended. Once
/// all generators are ready, calls `begin` with the offsets of their clocks; all generators get the
/// signal that `begin` returns. If one of them ends before the start, none starts.
pub fn follow_generators(
    connections: &[WorkerConnection],
    assignments: &[WorkerAssignment],
    begin: &dyn Fn(&[ClockOffset]) -> StartSignal,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&LoadSnapshot),
) -> Vec<GeneratorState> {
    let generators = connections.iter().map(|_| GeneratorState::default()).collect();
    let state = LoadState { generators, start: None, started_at: None, stopped_at: None };
    let table = LoadTable {
        connections,
        is_remote: assignments.iter().any(|assignment| assignment.is_remote),
        state: Mutex::new(state),
        changed: Condvar::new(),
    };
    thread::scope(|scope| {
        for (index, assignment) in assignments.iter().enumerate() {
            let table = &table;
            scope.spawn(move || {
                let result = table.exchange_messages(index, assignment);
                let end = connections[index].end(result.as_ref().err());
                table.update(index, |generator| generator.end = Some(end));
            });
        }
        table.supervise(begin, stop, watch);
    });
    table.state.into_inner().unwrap_or_else(PoisonError::into_inner).generators
}

/// A load that is being sent. One thread follows each generator, and another thread supervises them
/// all.
struct LoadTable<'a> {
    connections: &'a [WorkerConnection],
    /// Whether the generators run on other machines.
    is_remote: bool,
    state: Mutex<LoadState>,
    changed: Condvar,
}

struct LoadState {
    generators: Vec<GeneratorState>,
    /// The start by the clock of this machine; `None` until it is settled.
    start: Option<StartSignal>,
    started_at: Option<Instant>,
    stopped_at: Option<Instant>,
}

impl LoadTable<'_> {
    fn lock(&self) -> MutexGuard<'_, LoadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, index: usize, change: impl FnOnce(&mut GeneratorState)) {
        let mut state = self.lock();
        state.generators[index].last_heard = Some(Instant::now());
        change(&mut state.generators[index]);
        drop(state);
        self.changed.notify_all();
    }

    /// Follows a generator until it has reported its results, or until it is certain that the load
    /// will never start.
    fn exchange_messages(&self, index: usize, assignment: &WorkerAssignment) -> Result<()> {
        let connection = &self.connections[index];
        connection.send(assignment)?;
        loop {
            match connection.receive()? {
                GeneratorEvent::Ready(ready) => {
                    let mut offset = ClockOffset::default();
                    if self.is_remote {
                        offset = connection.query_clock()?;
                    }
                    self.update(index, |generator| generator.ready = Some((ready, offset)));
                    connection.send(&match self.await_start() {
                        StartSignal::Never => return Ok(()),
                        StartSignal::Now => StartSignal::Now,
                        StartSignal::At(ns) => StartSignal::At(offset.to_remote_ns(ns)),
                    })?;
                }
                GeneratorEvent::Progress(snapshot) => {
                    self.update(index, |generator| generator.snapshot = Some(snapshot));
                }
                GeneratorEvent::Measured(report) => {
                    // The clock may have drifted during the load. If the query fails, the
                    // measurement is still valid.
                    let offset_after =
                        if self.is_remote { connection.query_clock().ok() } else { None };
                    self.update(index, |generator| {
                        (generator.report, generator.offset_after) = (Some(*report), offset_after);
                    });
                    return Ok(());
                }
            }
        }
    }

    fn await_start(&self) -> StartSignal {
        let waited = self.changed.wait_while(self.lock(), |state| state.start.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).start.unwrap_or(StartSignal::Never)
    }

    /// Announces the start once all generators are ready, and reports the progress. Stops all
    /// generators if one is lost or `stop` is set, and kills those that do not answer.
    fn supervise(
        &self,
        begin: &dyn Fn(&[ClockOffset]) -> StartSignal,
        stop: &AtomicBool,
        watch: &mut dyn FnMut(&LoadSnapshot),
    ) {
        loop {
            let result = self.changed.wait_timeout(self.lock(), POLL_INTERVAL);
            let mut state = result.unwrap_or_else(PoisonError::into_inner).0;
            if state.generators.iter().all(|generator| generator.end.is_some()) {
                return;
            }
            if state.stopped_at.is_none()
                && (state.has_loss(self.is_remote) || stop.load(Ordering::Relaxed))
            {
                state.stopped_at = Some(Instant::now());
                state.start.get_or_insert(StartSignal::Never);
                drop(state);
                self.changed.notify_all();
                self.connections.iter().for_each(WorkerConnection::stop);
                continue;
            }
            if state.start.is_none()
                && let Some(offsets) = state.offsets()
            {
                drop(state);
                let start = begin(&offsets);
                let mut state = self.lock();
                (state.start, state.started_at) = (Some(start), Some(Instant::now()));
                drop(state);
                self.changed.notify_all();
                continue;
            }
            let snapshots: Vec<LoadSnapshot> =
                state.generators.iter().filter_map(|other| other.snapshot.clone()).collect();
            let is_overdue = |index: &usize| state.is_overdue(*index, self.is_remote);
            let overdue: Vec<usize> = (0..self.connections.len()).filter(is_overdue).collect();
            drop(state);
            overdue.into_iter().for_each(|index| self.connections[index].kill());
            if snapshots.len() == self.connections.len() {
                watch(&LoadSnapshot::combine(&snapshots));
            }
        }
    }
}

impl LoadState {
    /// Returns the offsets of all clocks, or `None` if a generator is not ready.
    fn offsets(&self) -> Option<Vec<ClockOffset>> {
        let ready = self.generators.iter().map(|generator| generator.ready.as_ref());
        ready.map(|ready| ready.map(|(_, offset)| *offset)).collect()
    }

    /// Whether the load must be stopped because a generator was lost.
    fn has_loss(&self, is_remote: bool) -> bool {
        let is_loss = |end: &WorkerEnd| self.start.is_none() || (is_remote && end.error.is_some());
        self.generators.iter().filter_map(|generator| generator.end.as_ref()).any(is_loss)
    }

    fn is_overdue(&self, index: usize, is_remote: bool) -> bool {
        let generator = &self.generators[index];
        let is_longer_ago = |moment: Option<Instant>, limit: Duration| {
            moment.is_some_and(|moment| moment.elapsed() > limit)
        };
        let grace = if self.started_at.is_some() { REPORT_GRACE } else { STOP_GRACE };
        let last_heard = generator.last_heard.max(self.started_at);
        let is_silent = is_remote && self.started_at.is_some();
        generator.end.is_none()
            && (is_longer_ago(self.stopped_at, grace)
                || (is_silent && is_longer_ago(last_heard, MAX_SILENCE)))
    }
}

/// Sends a part of a load from processes of this machine, one per generator that the assignment
/// covers. Calls `begin` once, as soon as all of them are ready.
///
/// # Errors
/// Fails if a generator could not be started, or none measured anything.
pub fn run_generators(
    assignment: &WorkerAssignment,
    begin: &dyn Fn() -> StartSignal,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&LoadSnapshot),
) -> Result<GeneratorReport> {
    let assignments = assignment.divide(assignment.count);
    let program = own_program();
    let connections: Result<Vec<WorkerConnection>> =
        assignments.iter().map(|_| WorkerConnection::start(&program, LOAD_SUBCOMMAND)).collect();
    combine_results(follow_generators(&connections?, &assignments, &|_| begin(), stop, watch))
}

fn combine_results(generators: Vec<GeneratorState>) -> Result<GeneratorReport> {
    let count = generators.len();
    let mut began_ns = Vec::new();
    let mut combined: Option<LoadMeasurement> = None;
    let mut deaths = Vec::new();
    for (index, generator) in generators.into_iter().enumerate() {
        let Some(report) = generator.report else {
            deaths.push(describe_death(index, count, &generator.end.unwrap_or_default()));
            continue;
        };
        began_ns.extend(report.began_ns);
        match &mut combined {
            Some(combined) => combined.merge(report.measured),
            None => combined = Some(report.measured),
        }
    }
    match combined {
        Some(measured) => {
            Ok(GeneratorReport { losses: deaths, began_ns, ..GeneratorReport::new(measured) })
        }
        None if process::is_interrupt_requested() => {
            bail!("interrupted before anything was measured")
        }
        None => Err(anyhow::anyhow!(deaths.join("\n")))
            .context("no generator process measured anything"),
    }
}

fn describe_death(index: usize, count: usize, end: &WorkerEnd) -> String {
    let failed_status = end.status.filter(|status| !status.success());
    let how =
        failed_status.map_or("ended".to_owned(), |status| ProcessEnd::from(status).to_string());
    let lines: Vec<&str> = end.stderr.trim_end().lines().collect();
    let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
    let separator = if tail.is_empty() { "" } else { "; it wrote: " };
    format!(
        "Generator process {} of {count} {how} without a result, so its part of the load is missing \
         from the results{separator}{tail}.",
        index + 1
    )
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
            combined.tick.merge(&part.tick);
        }
        combined
    }
}

/// A sleep may take up to this much longer than requested, so the last part of a wait spins instead
/// of sleeping.
const SPIN_NS: i64 = 2_000_000;

/// When generators begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartSignal {
    /// Immediately.
    Now,
    /// When this machine's clock shows this time, in nanoseconds since 1970.
    At(i64),
    /// Never, because a worker failed or the load was stopped.
    Never,
}

impl StartSignal {
    /// Waits for the start and returns its time, or `None` if the load will never start.
    pub fn wait(self) -> Option<i64> {
        match self {
            StartSignal::Now => Some(now_ns()),
            StartSignal::At(ns) => Some(wait_until(ns)),
            StartSignal::Never => None,
        }
    }
}

/// Waits until the clock shows `at_ns`, in nanoseconds since 1970; does not wait if that time has
/// passed. Returns the current time.
fn wait_until(at_ns: i64) -> i64 {
    loop {
        let now_ns = now_ns();
        let remaining_ns = at_ns.saturating_sub(now_ns);
        match u64::try_from(remaining_ns.saturating_sub(SPIN_NS)) {
            Ok(sleep_ns @ 1..) => std::thread::sleep(Duration::from_nanos(sleep_ns)),
            _ if remaining_ns <= 0 => {
                // Other generators may be waiting on the same processor. Let them notice that the
                // time has come before this generator occupies the processor.
                std::thread::yield_now();
                return now_ns;
            }
            // Let other threads run while this one spins.
            _ => std::thread::yield_now(),
        }
    }
}

#[cfg(test)]
mod start_tests {
    use super::{now_ns, wait_until};

    #[test]
    fn waits_until_the_agreed_time_and_not_at_all_if_it_has_passed() {
        let at_ns = now_ns() + 5_000_000;
        let began_ns = wait_until(at_ns);
        assert!(began_ns >= at_ns && now_ns() >= began_ns);
        assert!(wait_until(i64::MIN) > at_ns);
    }
}
