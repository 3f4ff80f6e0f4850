//! One load from several generator processes: started together, added up at the end.
//!
//! They exchange lines: a worker gets its [`WorkerOrder`] as JSON, says `ready`, is told `go`, or `start NS` by its clock,
//! says `began NS`, `at SNAPSHOT` now and then, and `measured MEASURED` at the end; `stop` ends it early. A worker that dies
//! takes its part with it, and what the others measured is kept. Start at [`run`]; [`work`] is the other half.

use super::{Begin, LoadJob, LoadPart, UNLIMITED, build, target};
use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use speedwell_harness::own_program;
use speedwell_load::generator::{self, Progress};
use speedwell_load::load::Part;
use speedwell_load::measured::{Measured, Tick};
use speedwell_model::load_spec::LoadSpec;
use speedwell_process::{self as process, Channel, Conversation, Next, Outcome, RealTime, Spec};
use std::fs::{File, OpenOptions};
use std::io;
use std::io::{BufRead, BufReader, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Between two looks at how all of them stand, as often as a generator tells.
const PULSE: Duration = Duration::from_millis(100);

/// How long a worker may take to say what it measured after the stop command.
const GRACE: Duration = Duration::from_secs(20);

/// How long a worker may take to end after it has said everything.
const FAREWELL: Duration = Duration::from_secs(5);

/// The hidden command of a worker, which leads to [`super::work`].
pub const WORKER_COMMAND: &str = "load-worker";

/// What a worker gets to do: the whole load, and which part of it is its own.
#[derive(Debug, Serialize, Deserialize)]
pub struct WorkerOrder {
    /// The load, redirects followed.
    pub spec: LoadSpec,
    /// Where random choices come from.
    pub seed: u64,
    /// The number of the worker, from 0.
    pub index: u32,
    /// How many workers there are.
    pub of: u32,
    /// How many of them it stands for, beginning with its own number.
    #[serde(default = "one")]
    pub count: u32,
}

fn one() -> u32 {
    1
}

impl WorkerOrder {
    /// The load, of which the worker sends its part.
    ///
    /// # Errors
    /// It cannot be sent from here.
    pub fn job(&self) -> anyhow::Result<LoadJob> {
        let (index, of) = (self.index, self.of);
        let mut job = build::job(&self.spec, self.seed, Part { index, of })?;
        // What is left out was told by the process that started this one.
        drop(target::keep_reachable(&mut job.load));
        Ok(job)
    }
}

/// The generators of a load that this process starts, out of all of them.
pub struct Share<'a> {
    /// The number of the first one.
    pub first: u32,
    /// How many.
    pub count: u32,
    /// How many there are in all.
    pub of: u32,
    /// Asked once, as soon as all of these are ready.
    pub begin: &'a (dyn Fn() -> Begin + Sync),
}

/// What came of a load that several generators sent.
#[derive(Debug)]
pub struct Sent {
    /// What they measured together.
    pub measured: Measured,
    /// A sentence for each generator whose part is missing.
    pub losses: Vec<String>,
    /// What each machine gave, where there were several.
    pub parts: Vec<LoadPart>,
    /// When each began, in nanoseconds after 1970.
    pub began_ns: Vec<i64>,
}

/// What is known of one worker.
#[derive(Debug, Default)]
struct Worker {
    is_ready: bool,
    has_ended: bool,
    began_ns: Option<i64>,
    snapshot: Option<Snapshot>,
    measured: Option<Measured>,
}

/// What the listeners share.
struct Shared<'a> {
    workers: Mutex<Vec<Worker>>,
    changed: Condvar,
    stop: &'a AtomicBool,
    begin: &'a (dyn Fn() -> Begin + Sync),
    /// The answer to that, once it was asked.
    begins: Mutex<Option<Begin>>,
}

/// Sends a share of a load from processes of this machine.
///
/// # Errors
/// None could be started, or none of them measured anything.
pub fn run(
    job: &LoadJob,
    share: &Share<'_>,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&Snapshot),
) -> anyhow::Result<Sent> {
    let count = share.count as usize;
    let shared = Shared {
        workers: Mutex::new((0..count).map(|_| Worker::default()).collect()),
        changed: Condvar::new(),
        stop,
        begin: share.begin,
        begins: Mutex::new(None),
    };
    let outcomes: Vec<io::Result<Outcome>> = std::thread::scope(|scope| {
        let listeners: Vec<_> = (0..count)
            .map(|index| {
                let shared = &shared;
                let order = order(job, share, index);
                scope.spawn(move || {
                    let mut talk = Talk {
                        shared,
                        index,
                        order,
                    };
                    let outcome = process::run(&spec(), &mut talk);
                    shared.change(|workers| workers[index].has_ended = true);
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
    add_up(workers, outcomes)
}

fn spec() -> Spec {
    Spec {
        limit: UNLIMITED,
        channel: Channel::Harness,
        ..Spec::new(own_program()).args([WORKER_COMMAND])
    }
}

fn order(job: &LoadJob, share: &Share<'_>, index: usize) -> WorkerOrder {
    WorkerOrder {
        spec: job.spec.clone(),
        seed: job.seed,
        index: share.first + index as u32,
        of: share.of,
        count: 1,
    }
}

impl Shared<'_> {
    fn lock(&self) -> MutexGuard<'_, Vec<Worker>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Worker>)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Tells how all of them stand until all have ended.
    fn watch(&self, watch: &mut dyn FnMut(&Snapshot)) {
        let mut workers = self.lock();
        while workers.iter().any(|worker| !worker.has_ended) {
            let waited = self.changed.wait_timeout(workers, PULSE);
            workers = waited.unwrap_or_else(PoisonError::into_inner).0;
            let parts: Vec<Snapshot> = workers.iter().filter_map(|w| w.snapshot.clone()).collect();
            if parts.len() == workers.len() {
                watch(&Snapshot::together(&parts));
            }
        }
    }

    /// When they begin, which is asked once for all of them.
    fn begins(&self) -> Begin {
        let mut begins = self.begins.lock().unwrap_or_else(PoisonError::into_inner);
        *begins.get_or_insert_with(self.begin)
    }

    /// Waits until all are ready; whether they are.
    fn all_ready(&self) -> bool {
        let mut workers = self.lock();
        loop {
            if self.stop.load(Ordering::Relaxed) || workers.iter().any(|worker| worker.has_ended) {
                return false;
            }
            if workers.iter().all(|worker| worker.is_ready) {
                return true;
            }
            let waited = self.changed.wait_timeout(workers, PULSE);
            workers = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The conversation with one worker.
struct Talk<'a, 'b> {
    shared: &'a Shared<'b>,
    index: usize,
    order: WorkerOrder,
}

impl Conversation for Talk<'_, '_> {
    fn opening(&mut self) -> Vec<u8> {
        // An order of texts and numbers can always be written.
        let mut line = serde_json::to_vec(&self.order).unwrap_or_default();
        line.push(b'\n');
        line
    }

    fn received(&mut self, line: &[u8]) -> Next {
        let (word, rest) = match line.iter().position(|byte| *byte == b' ') {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &line[..0]),
        };
        let index = self.index;
        match word {
            b"ready" => {
                self.shared.change(|workers| workers[index].is_ready = true);
                // A generator may be ready long before the last one is: all begin at one word.
                let begins = if self.shared.all_ready() {
                    self.shared.begins()
                } else {
                    Begin::Never
                };
                Next::Send(begins.line())
            }
            b"began" => {
                let began_ns = serde_json::from_slice(rest).ok();
                self.shared.lock()[index].began_ns = began_ns;
                Next::Wait
            }
            b"at" => {
                if let Ok(snapshot) = serde_json::from_slice(rest) {
                    self.shared.lock()[index].snapshot = Some(snapshot);
                }
                if self.shared.stop.load(Ordering::Relaxed) {
                    Next::Send(b"stop\n".to_vec())
                } else {
                    Next::Wait
                }
            }
            b"measured" => {
                let measured = serde_json::from_slice(rest).ok();
                self.shared
                    .change(|workers| workers[index].measured = measured);
                Next::Linger(FAREWELL)
            }
            _ => Next::Wait,
        }
    }

    fn stopping(&mut self) -> Option<(Vec<u8>, Duration)> {
        Some((b"stop\n".to_vec(), GRACE))
    }
}

fn add_up(workers: Vec<Worker>, outcomes: Vec<io::Result<Outcome>>) -> anyhow::Result<Sent> {
    let count = workers.len();
    let began_ns = workers.iter().filter_map(|worker| worker.began_ns);
    let began_ns = began_ns.collect();
    let mut all: Option<Measured> = None;
    let mut deaths = Vec::new();
    for (index, (worker, outcome)) in workers.into_iter().zip(outcomes).enumerate() {
        match (worker.measured, &mut all) {
            (Some(measured), Some(all)) => all.merge(measured),
            (Some(measured), all) => *all = Some(measured),
            (None, _) => deaths.push(death(index, count, outcome)),
        }
    }
    match all {
        Some(measured) => Ok(Sent {
            measured,
            losses: deaths,
            parts: Vec::new(),
            began_ns,
        }),
        None if process::interrupted() => bail!("interrupted before anything was measured"),
        None => Err(anyhow::anyhow!(deaths.join("\n")))
            .context("no generator process measured anything"),
    }
}

fn death(index: usize, count: usize, outcome: io::Result<Outcome>) -> String {
    let which = format!("generator process {} of {count}", index + 1);
    match outcome {
        Err(error) => format!("The {which} could not be started or heard: {error}."),
        Ok(outcome) => {
            let how = outcome
                .cause(UNLIMITED)
                .map_or("ended".to_owned(), |cause| cause.to_string());
            let tail = outcome.stderr.last_lines(5);
            let wrote = if tail.is_empty() { "" } else { "; it wrote: " };
            format!("The {which} {how} without a result, so its part is missing{wrote}{tail}.")
        }
    }
}

/// Takes its order, says that it is ready, waits for the word, sends its part, and says what it measured.
///
/// # Errors
/// Nobody started this process as a worker, or the load could not be begun.
pub fn work() -> anyhow::Result<()> {
    let (orders, mut answers) = private_line().context("this is no generator process")?;
    let mut orders = BufReader::new(orders);
    let mut line = String::new();
    orders.read_line(&mut line)?;
    let order: WorkerOrder = serde_json::from_str(&line).context("the order cannot be read")?;
    let job = order.job()?;
    writeln!(answers, "ready")?;
    let mut word = String::new();
    orders.read_line(&mut word)?;
    let Some(began_ns) = Begin::from_line(word.trim()).wait() else {
        return Ok(());
    };
    writeln!(answers, "began {began_ns}")?;
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    std::thread::spawn(move || {
        // Any further word, and the end of the one who gives them, ends the load.
        let _ = orders.read_line(&mut String::new());
        flag.store(true, Ordering::Relaxed);
    });
    let measured = generate(&job, &stop, &mut |snapshot| {
        // A lost look does no harm, and without anyone to look the load is stopped anyway.
        if let Ok(text) = serde_json::to_string(snapshot) {
            let _ = writeln!(answers, "at {text}");
        }
    })?;
    let text = serde_json::to_string(&measured)?;
    writeln!(answers, "measured {text}").context("cannot hand over what was measured")?;
    Ok(())
}

/// Where orders come from and answers go to, as the variable `SPEEDWELL_FDS` names them. They are
/// opened anew by their place in /proc, which needs no unsafe code and is the same pipe.
///
/// # Errors
/// Nobody started this process with a private line.
pub fn private_line() -> anyhow::Result<(File, File)> {
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

/// A look at a load in its course.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// Nanoseconds since the start, the warm-up included.
    pub at_ns: u64,
    /// The load is in its warm-up.
    pub is_warmup: bool,
    /// Requests begun since the end of the warm-up, or so far within it.
    pub attempted: u64,
    /// Requests that failed since then.
    pub errors: u64,
    /// Length of the last interval in nanoseconds.
    pub interval_ns: u64,
    /// What happened in the last interval.
    pub tick: Tick,
}

impl Snapshot {
    /// A look at one generator.
    pub fn from_progress(progress: &Progress) -> Snapshot {
        Snapshot {
            at_ns: progress.at_ns,
            is_warmup: progress.is_warmup,
            attempted: progress.so_far.outcomes.attempts(),
            errors: progress.so_far.outcomes.all_errors(),
            interval_ns: progress.interval_ns,
            tick: progress.tick.clone(),
        }
    }

    /// Several generators that send parts of the same load, as one.
    pub fn together(parts: &[Snapshot]) -> Snapshot {
        let mut all = Snapshot::default();
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
/// It could not be begun.
pub fn generate(
    job: &LoadJob,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&Snapshot),
) -> anyhow::Result<Measured> {
    let _priority = if job.spec.rt {
        Some(real_time()?)
    } else {
        None
    };
    let measured = generator::run(&job.load, stop, &mut |progress| {
        watch(&Snapshot::from_progress(progress));
    });
    measured.with_context(|| format!("cannot load '{}'", job.url))
}

pub(super) fn real_time() -> anyhow::Result<RealTime> {
    RealTime::enter().context(
        "cannot get real-time priority (SCHED_FIFO)\nhint: it needs the capability CAP_SYS_NICE or a \
         limit: 'ulimit -r' of at least 10",
    )
}
