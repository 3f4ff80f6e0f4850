//! One run: starts the workers together, handles events while it lasts, and
//! reports it.

use crate::control::{Control, PATIENCE};
use crate::run::Run;
use crate::wire::{Command, Event};
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

impl Control {
    pub fn run(&mut self, command: &Command) {
        let named = command.text("jobs");
        if named.is_none() || named != self.job {
            return self.refuse(command, "UnknownJob", "'jobs' must name the loaded job");
        }
        if self.team.is_empty() && !self.set_workers(command, 1) {
            return;
        }
        let begin = Instant::now();
        let figures = self
            .team
            .iter()
            .map(|worker| worker.figures.clone())
            .collect();
        let run = match Run::of(command, figures) {
            Ok(run) => Arc::new(run),
            Err(message) => return self.refuse(command, "BadArgument", message),
        };
        for figures in &run.team {
            let mut own = figures.own.lock().unwrap_or_else(PoisonError::into_inner);
            own.points = Vec::with_capacity(run.samples + 1);
            figures.taken.store(0, Release);
        }
        self.streamed = 0;
        self.run = Some((run.clone(), command.clone()));
        run.stop.store(self.ended.is_some(), Release);
        for worker in &self.team {
            worker.perform(&run);
        }
        self.stopped = None;
        let given_up = |since: Instant| since.elapsed() >= PATIENCE;
        while run.finished.load(Acquire) < run.workers && !self.stopped.is_some_and(given_up) {
            self.attend();
        }
        self.send_samples();
        self.run = None;
        self.stopped = None;
        self.report(command, &run, begin);
    }

    pub fn report(&mut self, command: &Command, run: &Run, begin: Instant) {
        let job = self.job.clone().unwrap_or_default();
        let (events, late_ns) = run.report(command, &job);
        let came_back = run.finished.load(Acquire) == run.workers;
        match run.fault() {
            _ if !came_back => self.give_up(command),
            Some(fault) => self.fail(command, "run", &fault),
            None => events.into_iter().for_each(|event| self.events.send(event)),
        }
        let event = Event::of("end", command).with("jobs", job);
        let event = event.with("elapsed_ns", begin.elapsed().as_nanos());
        self.events.send(event.with("max_late_ns", late_ns));
    }

    /// Ends all workers; abandons those whose code does not return.
    fn give_up(&mut self, command: &Command) {
        let event = Event::of("error", command)
            .with("job", self.job.as_deref().unwrap_or_default())
            .with("stage", "timeout")
            .with("class", "Timeout")
            .with("msg", "the code did not return within a second of 'stop'");
        self.events.send(event.with("fatal", 0));
        self.lost = true;
        for mut worker in self.team.drain(..) {
            worker.end();
        }
    }
}
