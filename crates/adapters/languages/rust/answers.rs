//! Answers the commands that prepare a run, and `monitor`.

use crate::control::Control;
use crate::wire::{Command, Event};
use crate::worker::{Worker, SHORT_BATCH_NS};
use crate::{guarded, process};
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

impl Control {
    pub fn hello(&mut self, command: &Command) -> bool {
        if !command.is("proto", "1") {
            let event = Event::of("error", command)
                .with("stage", "protocol")
                .with("class", "Version");
            let event = event.with("msg", "only protocol version 1 is supported");
            self.events.send(event.with("fatal", 1));
            return false;
        }
        let debug = cfg!(debug_assertions);
        let mut event = Event::of("ready", command)
            .with("proto", 1)
            .with("lang", "rust")
            .with(
                "version",
                option_env!("SPEEDWELL_RUSTC").unwrap_or("unknown"),
            )
            .with("flavor", "native")
            .with("build", if debug { "debug" } else { "opt" })
            .with(
                "cpus",
                std::thread::available_parallelism().map_or(1, usize::from),
            )
            .with("clock", "Instant")
            .with("clock_res_ns", process::clock_step_ns())
            .with("caps", "continuous,timed,series,workers,monitor")
            .with("gauges", "threads:count,rss:bytes");
        if debug {
            event = event.with("warn0", "the code was compiled with debug assertions");
        }
        self.events.send(event);
        true
    }

    pub fn load(&mut self, command: &Command, job: String) {
        if job.is_empty() {
            return self.refuse(command, "MissingKey", "load needs 'job'");
        }
        if !command.is("form", "built") {
            return self.refuse(
                command,
                "Form",
                "'form' must be 'built': the code is compiled in",
            );
        }
        if self.job.is_some() {
            return self.refuse(
                command,
                "Form",
                "the code of this program is already loaded",
            );
        }
        self.job = Some(job.clone());
        match guarded(|| self.code.init()) {
            Ok(()) => {
                let event = Event::of("loaded", command).with("job", job);
                self.events
                    .send(event.with("form", "built").with("arity", 0));
            }
            Err(fault) => {
                self.fail(command, "init", &fault);
                self.job = None;
            }
        }
    }

    pub fn set_workers(&mut self, command: &Command, wanted: usize) -> bool {
        let before = self.team.len();
        for mut worker in self.team.drain(wanted.min(before)..).rev() {
            worker.end();
        }
        self.begun.clear();
        while self.team.len() < wanted {
            match Worker::start(self.code, self.tell.clone()) {
                Some(worker) => self.team.push(worker),
                None => {
                    self.refuse(command, "Threads", "cannot start another thread");
                    break;
                }
            }
        }
        while self.begun.len() < self.team.len() - before.min(wanted) {
            self.attend();
        }
        let fault = self.begun.drain(..).find_map(Result::err);
        if let Some(fault) = &fault {
            self.fail(command, "init_runner", fault);
        }
        if fault.is_some() || self.team.len() < wanted {
            for mut worker in self.team.drain(before..) {
                worker.end();
            }
            return false;
        }
        true
    }

    pub fn end_job(&mut self, command: &Command) {
        if self.job.is_none() {
            return;
        }
        for mut worker in self.team.drain(..) {
            worker.end();
        }
        let lost = self.lost;
        let done = guarded(|| {
            self.code.done();
            if !lost {
                // SAFETY: all workers have ended.
                unsafe { self.code.release() };
            }
        });
        if let Err(fault) = done {
            self.fail(command, "done", &fault);
        }
        self.job = None;
    }

    pub fn calibrate(&mut self, command: &Command) {
        let begin = Instant::now();
        let target = Duration::from_nanos(command.number("target_ns", 50_000_000).max(0) as u64);
        let (mut iterations, mut least_ps, mut before) = (1_u64, f64::INFINITY, begin);
        while before - begin < target {
            self.code.empty(iterations);
            let now = Instant::now();
            let took_ns = (now - before).as_nanos() as i64;
            least_ps = least_ps.min(took_ns as f64 * 1000.0 / iterations as f64);
            if took_ns < SHORT_BATCH_NS {
                iterations *= 2;
            }
            before = now;
        }
        let event =
            Event::of("calibrated", command).with("job", self.job.as_deref().unwrap_or_default());
        self.events
            .send(event.with("empty_ps", least_ps.round() as u64));
    }

    pub fn monitor(&mut self, command: &Command) {
        let interval_ns = command.number("interval_ns", 0);
        self.gauge = None;
        if interval_ns > 0 {
            let interval = Duration::from_nanos(interval_ns as u64);
            self.gauge = Some((command.clone(), interval, Instant::now()));
            self.send_gauge();
        }
    }

    pub fn send_gauge(&mut self) {
        let Some((command, interval, due)) = &mut self.gauge else {
            return;
        };
        // Missed intervals are not made up for.
        *due = Instant::now() + *interval;
        let (threads, rss) = process::gauges();
        let mut event = Event::of("gauge", command)
            .with("t_ns", process::now_ns())
            .with("threads", threads)
            .with("rss", rss);
        if let Some(job) = &self.job {
            let total: i64 = self
                .team
                .iter()
                .map(|worker| worker.figures.total.load(Relaxed))
                .sum();
            event = event.with(&format!("job.{job}"), total);
        }
        self.events.send(event);
    }
}
