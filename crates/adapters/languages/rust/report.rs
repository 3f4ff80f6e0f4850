//! Events about a run, while it lasts and at its end.

use crate::histogram::Histogram;
use crate::process;
use crate::run::{Mode, Own, Run};
use crate::wire::{Command, Event};
use crate::Fault;
use std::sync::atomic::Ordering::*;
use std::sync::PoisonError;

/// A line may be at most 1 MiB long; a point has at most two numbers of 20 digits.
const POINTS_OF_A_LINE: usize = 20_000;

impl Run {
    /// Points that all workers have reached.
    pub fn taken(&self) -> usize {
        let taken = self.team.iter().map(|figures| figures.taken.load(Acquire));
        taken.min().unwrap_or(0)
    }

    /// Returns the `sample` event of point `k`.
    pub fn sample(&self, command: &Command, job: &str, k: usize) -> Event {
        let (mut t_ns, mut count) = (0, 0);
        for figures in &self.team {
            let own = figures.own.lock().unwrap_or_else(PoisonError::into_inner);
            let point = own.points.get(k).copied().unwrap_or_default();
            t_ns = t_ns.max(point.0);
            count += point.1;
        }
        let due_ns = self.warmup_ns + k as i64 * self.interval_ns;
        Event::of("sample", command)
            .with("job", job)
            .with("k", k)
            .with("t_ns", t_ns)
            .with("count", count)
            .with("workers", self.workers)
            .with("late_ns", (t_ns - due_ns).max(0))
    }

    /// Returns the first panic of a worker.
    pub fn fault(&self) -> Option<Fault> {
        let mut team = self.team.iter();
        team.find_map(|figures| {
            figures
                .own
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .fault
                .clone()
        })
    }

    /// Returns the results of the run, and the maximum lateness of a point.
    pub fn report(&self, command: &Command, job: &str) -> (Vec<Event>, i64) {
        let mut events = Vec::new();
        let mut late_ns = 0;
        let mut all = Histogram::new();
        for (number, figures) in self.team.iter().enumerate() {
            let own = figures.own.lock().unwrap_or_else(PoisonError::into_inner);
            late_ns = late_ns.max(own.late_ns);
            if let Some(times) = &own.times {
                all.join(times);
            }
            if self.mode == Mode::Continuous {
                let cpu_ns = figures.cpu_ns.load(Acquire);
                self.tell_worker(command, job, (number, cpu_ns), &own, &mut events);
            }
        }
        if self.mode == Mode::Timed {
            self.tell_timed(command, job, &all, &mut events);
        }
        (events, late_ns)
    }

    fn tell_worker(
        &self,
        command: &Command,
        job: &str,
        (number, cpu_ns): (usize, i64),
        own: &Own,
        events: &mut Vec<Event>,
    ) {
        let mut parts = own.points.chunks(POINTS_OF_A_LINE).peekable();
        let mut first = true;
        while first || parts.peek().is_some() {
            let points = parts.next().unwrap_or_default();
            let mut event = Event::of("worker", command)
                .with("job", job)
                .with("w", number)
                .with("epoch_ns", process::clock_ns(self.epoch))
                .with("batch", own.batch);
            if let Some(times) = own.times.as_ref().filter(|_| first) {
                event = event
                    .with("batches", times.total)
                    .list("q_ps", times.summary().into_iter());
                if own.points.len() > 1 {
                    event = event.with("cpu_ns", cpu_ns);
                }
            }
            event = event.list("t_ns", points.iter().map(|point| point.0 as u64));
            event = event.list("count", points.iter().map(|point| point.1 as u64));
            if parts.peek().is_some() {
                event = event.with("more", 1);
            }
            events.push(event);
            first = false;
        }
    }

    fn tell_timed(&self, command: &Command, job: &str, all: &Histogram, events: &mut Vec<Event>) {
        let samples = self
            .sample_ns
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut parts = samples.chunks(POINTS_OF_A_LINE).peekable();
        let mut first = true;
        while first || parts.peek().is_some() {
            let mut event = Event::of("timed", command)
                .with("job", job)
                .with("workers", self.workers)
                .with("loop", self.loop_count);
            if first {
                event = event
                    .with("batches", all.total)
                    .list("q_ps", all.summary().into_iter());
                let reference = self.reference_ns.lock().unwrap_or_else(PoisonError::into_inner);
                if !reference.is_empty() {
                    event = event.list("reference_ns", reference.iter().copied());
                }
            }
            let samples = parts.next().unwrap_or_default();
            event = event.list("ns", samples.iter().map(|sample| sample.0));
            event = event.list("cpu_ns", samples.iter().map(|sample| sample.1));
            if parts.peek().is_some() {
                event = event.with("more", 1);
            }
            events.push(event);
            first = false;
        }
    }
}
