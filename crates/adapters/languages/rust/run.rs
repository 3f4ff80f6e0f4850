//! What the threads of a run share: the run itself, and the figures of each worker.

use crate::histogram::Histogram;
use crate::process::cpu_now_ns;
use crate::wire::Command;
use crate::Fault;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Continuous,
    Timed,
}

#[derive(Debug)]
pub struct Run {
    pub mode: Mode,
    pub interval_ns: i64,
    pub warmup_ns: i64,
    pub samples: usize,
    pub loop_count: u64,
    pub stream: bool,
    pub epoch: Instant,
    pub workers: usize,
    pub team: Vec<Arc<Figures>>,
    pub stop: AtomicBool,
    pub failed: AtomicBool,
    /// Workers that have all their points, and workers that have ended.
    pub complete: AtomicUsize,
    pub finished: AtomicUsize,
    /// For a timed run: whether the warm-up is over, and whether the run is.
    pub warm: AtomicBool,
    pub over: AtomicBool,
    /// Samples between runs of the reference loop; 0: never.
    pub reference: usize,
    turns: u64,
    pub reference_ns: Mutex<Vec<u64>>,
    /// Duration and processor time of each sample.
    pub sample_ns: Mutex<Vec<(u64, u64)>>,
    arrived: AtomicUsize,
    round: AtomicUsize,
}

impl Run {
    /// Parses the run that a command requests, or returns what is wrong with the command.
    pub fn of(command: &Command, team: Vec<Arc<Figures>>) -> Result<Run, &'static str> {
        let mode = match command.text("mode").as_deref() {
            Some("continuous") => Mode::Continuous,
            Some("timed" | "series") => Mode::Timed,
            _ => return Err("unsupported mode: expected 'continuous', 'timed' or 'series'"),
        };
        let reference = match command.is("mode", "series") {
            true => command.number("reference", 0).max(0) as usize,
            false => 0,
        };
        let (samples, warmup_ns) = (command.number("samples", 3), command.number("warmup_ns", 0));
        let (interval_ns, count) = (
            command.number("interval_ns", 1_000_000_000),
            command.number("loop", 1),
        );
        if !(1..=100_000_000).contains(&samples) || interval_ns < 1 || count < 1 || warmup_ns < 0 {
            return Err("a number in 'run' is out of range");
        }
        // Several threads start together, so they are given some time to wake up.
        let slack = Duration::from_micros(if team.len() > 1 { 200 } else { 0 });
        Ok(Run {
            mode,
            interval_ns,
            warmup_ns,
            samples: samples as usize,
            loop_count: count as u64,
            stream: command.is("stream", "1"),
            epoch: Instant::now() + slack,
            workers: team.len(),
            team,
            stop: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            complete: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
            warm: AtomicBool::new(warmup_ns == 0),
            over: AtomicBool::new(false),
            reference,
            turns: if reference > 0 { reference_turns() } else { 0 },
            reference_ns: Mutex::new(Vec::new()),
            sample_ns: Mutex::new(Vec::new()),
            arrived: AtomicUsize::new(0),
            round: AtomicUsize::new(0),
        })
    }

    pub fn ends(&self) -> bool {
        self.stop.load(Relaxed) || self.failed.load(Relaxed)
    }

    pub fn since_epoch_ns(&self, now: Instant) -> i64 {
        now.saturating_duration_since(self.epoch).as_nanos() as i64
    }

    /// Barrier: releases all workers at once, or none of them after a failure.
    pub fn gate(&self) {
        let round = self.round.load(Acquire);
        if self.arrived.fetch_add(1, AcqRel) + 1 == self.workers {
            self.arrived.store(0, Release);
            self.round.fetch_add(1, AcqRel);
            return;
        }
        while self.round.load(Acquire) == round && !self.failed.load(Acquire) {
            std::thread::yield_now();
        }
    }

    /// Done by the first worker while the others wait: records the ended sample and decides whether it was
    /// the last.
    pub fn end_sample(&self, counts: bool) {
        let begin_ns = self.team.iter().map(|one| one.begin_ns.load(Acquire)).min();
        let end_ns = self
            .team
            .iter()
            .map(|one| one.end_ns.load(Acquire))
            .max()
            .unwrap_or(0);
        let cpu_ns = self.team.iter().map(|one| one.cpu_ns.load(Acquire)).sum::<i64>();
        let mut samples = self
            .sample_ns
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if self.ends() {
            self.over.store(true, Release);
        } else if counts {
            let elapsed_ns = (end_ns - begin_ns.unwrap_or(0)).max(1);
            samples.push((elapsed_ns as u64, cpu_ns.max(0) as u64));
            if self.reference > 0 && samples.len() % self.reference == 0 {
                let mut known = self.reference_ns.lock().unwrap_or_else(PoisonError::into_inner);
                known.push(reference_loop_ns(self.turns));
            }
        }
        if samples.len() == self.samples {
            self.over.store(true, Release);
        }
        if end_ns >= self.warmup_ns {
            self.warm.store(true, Release);
        }
    }
}

/// Shared by the control thread and a worker.
#[derive(Debug, Default)]
pub struct Figures {
    /// Whether the worker is in a run.
    pub busy: AtomicBool,
    pub total: AtomicI64,
    pub taken: AtomicUsize,
    pub begin_ns: AtomicI64,
    pub end_ns: AtomicI64,
    /// Processor time of the sample, or from the first point to the last.
    pub cpu_ns: AtomicI64,
    pub own: Mutex<Own>,
}

/// The results of a worker at the end of a run, or at a streamed point.
#[derive(Debug, Default)]
pub struct Own {
    pub points: Vec<(i64, i64)>,
    pub late_ns: i64,
    pub batch: u64,
    pub times: Option<Histogram>,
    pub fault: Option<Fault>,
}

/// The reference loop: constant work, so that changes of its time are due to the machine.
fn reference_loop_ns(turns: u64) -> u64 {
    let begin_ns = cpu_now_ns();
    let mut state = 88_172_645_463_325_252_u64;
    for _ in 0..turns {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    std::hint::black_box(state);
    (cpu_now_ns() - begin_ns).max(0) as u64
}

/// Returns how many turns of the reference loop take about 200 µs.
fn reference_turns() -> u64 {
    let mut turns = 1000;
    while reference_loop_ns(turns) < 200_000 {
        turns *= 2;
    }
    turns
}
