//! Workers: threads that keep their state between runs, and their part of a run.

use crate::histogram::Histogram;
use crate::process::cpu_now_ns;
use crate::requests::{counted, is_counted};
use crate::run::{Figures, Mode, Run};
use crate::{guarded, Code, Fault};
use std::any::Any;
use std::sync::atomic::Ordering::*;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// A shorter batch is doubled, because the clock would dominate; a longer one is halved, because it would
/// overshoot the end of its window.
pub const SHORT_BATCH_NS: i64 = 50_000;
const LONG_BATCH_NS: i64 = 2_000_000;

/// Events for the control thread.
pub enum News {
    /// A worker has its state, or none because its hook failed.
    Begun(Result<(), Fault>),
    /// A worker has reached a point of a streamed run.
    Point,
    /// A worker has finished its part of a run.
    Ended,
    /// A command, or the end of the commands.
    Line(Option<String>),
}

/// The control thread's handle of a worker. The worker ends when its sender is dropped.
pub struct Worker {
    pub figures: Arc<Figures>,
    runs: Option<Sender<Arc<Run>>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub fn start(code: &'static dyn Code, news: Sender<News>) -> Option<Worker> {
        let figures = Arc::new(Figures::default());
        let (runs, orders) = channel();
        let inside = figures.clone();
        let builder = std::thread::Builder::new();
        let thread = builder
            .spawn(move || work(code, &inside, &orders, &news))
            .ok()?;
        Some(Worker {
            figures,
            runs: Some(runs),
            thread: Some(thread),
        })
    }

    pub fn perform(&self, run: &Arc<Run>) {
        self.figures.busy.store(true, Release);
        if let Some(runs) = &self.runs {
            let _ = runs.send(run.clone());
        }
    }

    /// Ends the worker, and waits for it unless it is still in a run: a thread cannot be ended from outside.
    pub fn end(&mut self) {
        self.runs = None;
        if let Some(thread) = self
            .thread
            .take()
            .filter(|_| !self.figures.busy.load(Acquire))
        {
            let _ = thread.join();
        }
    }
}

fn work(code: &dyn Code, figures: &Arc<Figures>, orders: &Receiver<Arc<Run>>, news: &Sender<News>) {
    let mut state = match guarded(|| code.begin()) {
        Ok(state) => {
            let _ = news.send(News::Begun(Ok(())));
            state
        }
        Err(fault) => {
            let _ = news.send(News::Begun(Err(fault)));
            return;
        }
    };
    let mut batch = 1;
    while let Ok(run) = orders.recv() {
        let mut part = Part {
            code,
            state: &mut *state,
            run: &run,
            figures,
            news,
            batch,
            times: Histogram::new(),
            late_ns: 0,
            begin_cpu_ns: 0,
        };
        let fault = match run.mode {
            Mode::Continuous => part.continuous(),
            Mode::Timed => part.timed(),
        };
        batch = part.batch;
        let mut own = figures.own.lock().unwrap_or_else(PoisonError::into_inner);
        own.fault = fault.err();
        own.late_ns = part.late_ns;
        own.batch = batch;
        own.times = Some(part.times);
        drop(own);
        figures.busy.store(false, Release);
        run.finished.fetch_add(1, AcqRel);
        let _ = news.send(News::Ended);
    }
}

/// One worker's part of one run.
struct Part<'a> {
    code: &'a dyn Code,
    state: &'a mut dyn Any,
    run: &'a Run,
    figures: &'a Arc<Figures>,
    news: &'a Sender<News>,
    batch: u64,
    times: Histogram,
    late_ns: i64,
    begin_cpu_ns: i64,
}

impl Part<'_> {
    /// Executes one batch and records its time in the histogram. Returns the time at its end.
    fn one_batch(
        &mut self,
        iterations: u64,
        begin: Instant,
        counts: bool,
    ) -> Result<Instant, Fault> {
        let done = guarded(|| counted(|| self.code.batch(self.state, iterations)));
        let end = Instant::now();
        if let Err(fault) = done {
            self.run.failed.store(true, Release);
            return Err(fault);
        }
        let took_ns = end.duration_since(begin).as_nanos() as i64;
        let total = self.figures.total.load(Relaxed);
        self.figures.total.store(total + iterations as i64, Relaxed);
        if counts {
            self.times
                .add((took_ns as f64 * 1000.0 / iterations as f64).round() as u64);
        }
        if iterations == self.batch {
            if took_ns < SHORT_BATCH_NS {
                self.batch *= 2;
            } else if took_ns > LONG_BATCH_NS && self.batch > 1 {
                self.batch /= 2;
            }
        }
        Ok(end)
    }

    fn take_point(&mut self, t_ns: i64, count: i64, due_ns: i64) -> usize {
        let mut own = self
            .figures
            .own
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        own.points.push((t_ns, count));
        let taken = own.points.len();
        drop(own);
        self.late_ns = self.late_ns.max(t_ns - due_ns);
        if taken == 1 {
            self.begin_cpu_ns = cpu_now_ns();
        }
        self.note_cpu();
        self.figures.taken.store(taken, Release);
        if taken == self.run.samples + 1 {
            self.run.complete.fetch_add(1, AcqRel);
        }
        if self.run.stream {
            let _ = self.news.send(News::Point);
        }
        taken
    }

    fn note_cpu(&self) {
        let cpu_ns = cpu_now_ns() - self.begin_cpu_ns;
        self.figures.cpu_ns.store(cpu_ns, Release);
    }

    fn continuous(&mut self) -> Result<(), Fault> {
        let run = self.run;
        let before = self.figures.total.load(Relaxed);
        let (mut taken, mut due_ns) = (0, run.warmup_ns);
        while Instant::now() < run.epoch {
            std::thread::yield_now();
        }
        let mut now = Instant::now();
        if run.warmup_ns == 0 {
            taken = self.take_point(0, 0, 0);
            due_ns += run.interval_ns;
        }
        while !run.ends() && run.complete.load(Acquire) < run.workers {
            let counts = taken > 0 && taken <= run.samples;
            now = self.one_batch(self.batch, now, counts)?;
            let t_ns = run.since_epoch_ns(now);
            if t_ns < due_ns || taken > run.samples {
                continue;
            }
            taken = self.take_point(t_ns, self.figures.total.load(Relaxed) - before, due_ns);
            let passed = (t_ns - run.warmup_ns) / run.interval_ns;
            due_ns = run.warmup_ns + (passed + 1) * run.interval_ns;
        }
        Ok(())
    }

    /// One worker's share of a sample: `loop` iterations, in batches of which the last may be shorter.
    fn take_share(&mut self, counts: bool) -> Result<(), Fault> {
        let run = self.run;
        let mut left = run.loop_count;
        self.begin_cpu_ns = cpu_now_ns();
        let mut now = Instant::now();
        self.figures
            .begin_ns
            .store(run.since_epoch_ns(now), Release);
        while left > 0 && !run.ends() {
            // Instructions are counted for a sample as a whole: its division into batches depends on time.
            let batch = if is_counted() { left } else { self.batch.min(left) };
            // A short final batch measures the clock more than the code.
            let whole = batch == self.batch || left == run.loop_count;
            now = self.one_batch(batch, now, counts && whole)?;
            left -= batch;
        }
        self.figures.end_ns.store(run.since_epoch_ns(now), Release);
        self.note_cpu();
        Ok(())
    }

    fn timed(&mut self) -> Result<(), Fault> {
        let run = self.run;
        let first = Arc::ptr_eq(self.figures, &run.team[0]);
        while !run.over.load(Acquire) {
            run.gate();
            let counts = run.warm.load(Acquire);
            self.take_share(counts)?;
            run.gate();
            if first {
                run.end_sample(counts);
            }
            run.gate();
            if run.failed.load(Acquire) {
                break;
            }
        }
        Ok(())
    }
}
