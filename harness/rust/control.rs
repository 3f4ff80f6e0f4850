//! The control part: commands in, events out, and what has to happen while workers run.

use crate::run::Run;
use crate::wire::{Command, Event, Events};
use crate::worker::{News, Worker, SHORT_BATCH_NS};
use crate::{guarded, note_panics, process, Code, Fault};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::FromRawFd;
use std::sync::atomic::Ordering::*;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Code that has not come back so long after the end of the commands is left as it is.
const PATIENCE: Duration = Duration::from_secs(1);

/// Speaks with Speedwell until it has nothing more to say.
pub fn serve(code: &'static dyn Code) {
    note_panics();
    let named = std::env::var("SPEEDWELL_FDS").unwrap_or_default();
    let ends = named
        .split_once(',')
        .map(|(a, b)| (a.parse::<i32>(), b.parse::<i32>()));
    let Some((Ok(commands), Ok(events))) = ends else {
        eprintln!("SPEEDWELL_FDS must name two descriptors, such as '3,4'");
        std::process::exit(2);
    };
    // SAFETY: no other thread exists yet. The descriptors were given to us.
    let (commands, events) = unsafe {
        std::env::remove_var("SPEEDWELL_FDS");
        process::close_on_exec(commands, events);
        (File::from_raw_fd(commands), Events::on(events))
    };
    let (tell, news) = channel();
    let told = tell.clone();
    std::thread::spawn(move || {
        for line in BufReader::new(commands).lines() {
            let Ok(line) = line else { break };
            let _ = told.send(News::Line(Some(line)));
        }
        let _ = told.send(News::Line(None));
    });
    let mut control = Control {
        code,
        events,
        news,
        tell,
        waiting: VecDeque::new(),
        ended: None,
        job: None,
        team: Vec::new(),
        begun: Vec::new(),
        gauge: None,
        run: None,
        streamed: 0,
    };
    control.converse();
    control.end_job(&Command::parse(""));
    std::process::exit(0);
}

struct Control {
    code: &'static dyn Code,
    events: Events,
    news: Receiver<News>,
    tell: Sender<News>,
    waiting: VecDeque<Command>,
    ended: Option<Instant>,
    job: Option<String>,
    team: Vec<Worker>,
    /// What became of the workers that were started last.
    begun: Vec<Result<(), Fault>>,
    /// The command that asked for gauges, the interval, and when the next is due.
    gauge: Option<(Command, Duration, Instant)>,
    run: Option<(Arc<Run>, Command)>,
    streamed: usize,
}

impl Control {
    fn converse(&mut self) {
        loop {
            match self.waiting.pop_front() {
                Some(command) if command.verb == "quit" => return,
                Some(command) if command.verb == "hello" => {
                    if !self.hello(&command) {
                        return;
                    }
                }
                Some(command) => self.answer(&command),
                None if self.ended.is_some() => return,
                None => self.attend(),
            }
        }
    }

    fn answer(&mut self, command: &Command) {
        let job = command.text("job").unwrap_or_default();
        let of_job = ["workers", "calibrate", "unload"].contains(&command.verb.as_str());
        if of_job && self.job.as_deref() != Some(&job) {
            return self.refuse(
                command,
                "UnknownJob",
                "'job' must name the job that is loaded",
            );
        }
        match command.verb.as_str() {
            "load" => self.load(command, job),
            "workers" => {
                let begin = Instant::now();
                let wanted = command.number("n", 1);
                if !(0..=100_000).contains(&wanted) {
                    self.refuse(command, "BadArgument", "'n' must be a number of workers");
                } else if self.set_workers(command, wanted as usize) {
                    let event = Event::of("workers", command).with("job", job);
                    let event = event
                        .with("n", self.team.len())
                        .with("ms", begin.elapsed().as_millis());
                    self.events.send(event);
                }
            }
            "run" => self.run(command),
            "calibrate" => self.calibrate(command),
            "monitor" => self.monitor(command),
            "stop" => self.stop(command),
            "unload" => {
                self.end_job(command);
                self.events
                    .send(Event::of("unloaded", command).with("job", job));
            }
            verb => self.refuse(command, "UnknownVerb", &format!("unknown verb '{verb}'")),
        }
    }

    fn refuse(&mut self, command: &Command, class: &str, message: &str) {
        let event = Event::of("error", command)
            .with("stage", "protocol")
            .with("class", class);
        self.events
            .send(event.with("msg", message).with("fatal", 0));
    }

    /// A panic in the user's code. Only places in his own text have a line that he knows.
    fn fail(&mut self, command: &Command, stage: &str, fault: &Fault) {
        let mut event = Event::of("error", command);
        if let Some(job) = &self.job {
            event = event.with("job", job);
        }
        event = event
            .with("stage", stage)
            .with("class", "panic")
            .with("msg", &fault.message);
        if let Some((file, line)) = &fault.place {
            let own = ["runner", "init", "init-worker", "done"];
            match own.iter().any(|name| file.rsplit('/').next() == Some(name)) {
                true => event = event.with("line", line),
                false => event = event.with("stack", format!("{file}:{line}")),
            }
        }
        self.events.send(event.with("fatal", 0));
    }

    fn hello(&mut self, command: &Command) -> bool {
        if !command.is("proto", "1") {
            let event = Event::of("error", command)
                .with("stage", "protocol")
                .with("class", "Version");
            let event = event.with("msg", "only protocol version 1 is spoken here");
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
            .with("caps", "continuous,timed,workers,monitor")
            .with("gauges", "threads:count,rss:bytes");
        if debug {
            event = event.with("warn0", "the code was compiled with debug assertions");
        }
        self.events.send(event);
        true
    }

    fn load(&mut self, command: &Command, job: String) {
        if job.is_empty() {
            return self.refuse(command, "MissingKey", "load needs 'job'");
        }
        if !command.is("form", "built") {
            return self.refuse(
                command,
                "Form",
                "only the form 'built' is offered: the code is compiled in",
            );
        }
        if self.job.is_some() {
            return self.refuse(
                command,
                "Form",
                "this program holds one piece of code, which is loaded",
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

    fn set_workers(&mut self, command: &Command, wanted: usize) -> bool {
        let before = self.team.len();
        for mut worker in self.team.drain(wanted.min(before)..).rev() {
            worker.end();
        }
        self.begun.clear();
        while self.team.len() < wanted {
            match Worker::start(self.code, self.tell.clone()) {
                Some(worker) => self.team.push(worker),
                None => {
                    self.refuse(command, "Threads", "no further thread can be started");
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

    fn end_job(&mut self, command: &Command) {
        if self.job.is_none() {
            return;
        }
        for mut worker in self.team.drain(..) {
            worker.end();
        }
        if let Err(fault) = guarded(|| self.code.done()) {
            self.fail(command, "done", &fault);
        }
        self.job = None;
    }

    fn calibrate(&mut self, command: &Command) {
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

    fn monitor(&mut self, command: &Command) {
        let interval_ns = command.number("interval_ns", 0);
        self.gauge = None;
        if interval_ns > 0 {
            let interval = Duration::from_nanos(interval_ns as u64);
            self.gauge = Some((command.clone(), interval, Instant::now()));
            self.send_gauge();
        }
    }

    fn send_gauge(&mut self) {
        let Some((command, interval, due)) = &mut self.gauge else {
            return;
        };
        *due += *interval;
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

    fn stop(&mut self, command: &Command) {
        let job = command.text("job").unwrap_or_default();
        self.events
            .send(Event::of("stopped", command).with("job", job));
        if let Some((run, _)) = &self.run {
            run.stop.store(true, Release);
        }
    }

    /// Waits until something happens, and sees to it.
    fn attend(&mut self) {
        let gauge = self
            .gauge
            .as_ref()
            .map(|(_, _, due)| due.saturating_duration_since(Instant::now()));
        let ended = self
            .ended
            .map(|since| (since + PATIENCE).saturating_duration_since(Instant::now()));
        let patience = gauge
            .into_iter()
            .chain(ended)
            .min()
            .unwrap_or(Duration::from_secs(3600));
        match self.news.recv_timeout(patience) {
            Ok(News::Begun(result)) => self.begun.push(result),
            Ok(News::Point | News::Ended) => self.send_samples(),
            Ok(News::Line(Some(line))) => {
                let command = Command::parse(&line);
                match command.verb.as_str() {
                    "stop" if self.job.is_some() => self.stop(&command),
                    _ => self.waiting.push_back(command),
                }
            }
            Ok(News::Line(None)) => {
                self.ended = Some(Instant::now());
                if let Some((run, _)) = &self.run {
                    run.stop.store(true, Release);
                }
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        if self.ended.is_some_and(|since| since.elapsed() >= PATIENCE) {
            // The workers cannot be waited for, because their code does not return.
            if self.job.is_some() {
                let _ = guarded(|| self.code.done());
            }
            std::process::exit(0);
        }
        if self
            .gauge
            .as_ref()
            .is_some_and(|(_, _, due)| *due <= Instant::now())
        {
            self.send_gauge();
        }
    }

    fn run(&mut self, command: &Command) {
        let named = command.text("jobs");
        if named.is_none() || named != self.job {
            return self.refuse(
                command,
                "UnknownJob",
                "'jobs' must name the job that is loaded",
            );
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
        while run.finished.load(Acquire) < run.workers {
            self.attend();
        }
        self.send_samples();
        self.run = None;
        self.report(command, &run, begin);
    }

    fn send_samples(&mut self) {
        let Some((run, command)) = &self.run else {
            return;
        };
        let job = self.job.as_deref().unwrap_or_default();
        while run.stream && self.streamed < run.taken() {
            self.events.send(run.sample(command, job, self.streamed));
            self.streamed += 1;
        }
    }

    fn report(&mut self, command: &Command, run: &Run, begin: Instant) {
        let job = self.job.clone().unwrap_or_default();
        let (events, late_ns) = run.report(command, &job);
        match run.fault() {
            Some(fault) => self.fail(command, "run", &fault),
            None => events.into_iter().for_each(|event| self.events.send(event)),
        }
        let event = Event::of("end", command).with("jobs", job);
        let event = event.with("elapsed_ns", begin.elapsed().as_nanos());
        self.events.send(event.with("max_late_ns", late_ns));
    }
}
