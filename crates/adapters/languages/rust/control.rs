//! The control thread: reads commands, sends events, and does periodic work while
//! workers run.

use crate::run::Run;
use crate::wire::{Command, Event, Events};
use crate::worker::{News, Worker};
use crate::{guarded, note_panics, process, Code, Fault};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::FromRawFd;
use std::sync::atomic::Ordering::*;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long code may take to return after the end of the commands before it is
/// abandoned.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// Serves Speedwell until the end of the commands.
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
    // SAFETY: no other thread exists yet. Speedwell passed the descriptors to this
    // process.
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
        stopped: None,
        job: None,
        team: Vec::new(),
        lost: false,
        begun: Vec::new(),
        gauge: None,
        run: None,
        streamed: 0,
    };
    control.converse();
    control.end_job(&Command::parse(""));
    std::process::exit(0);
}

pub struct Control {
    pub code: &'static dyn Code,
    pub events: Events,
    pub news: Receiver<News>,
    pub tell: Sender<News>,
    pub waiting: VecDeque<Command>,
    pub ended: Option<Instant>,
    pub stopped: Option<Instant>,
    pub job: Option<String>,
    pub team: Vec<Worker>,
    /// Whether some worker did not return.
    pub lost: bool,
    /// The outcomes of the workers that were started last.
    pub begun: Vec<Result<(), Fault>>,
    /// The command that requested gauges, the interval, and when the next is due.
    pub gauge: Option<(Command, Duration, Instant)>,
    pub run: Option<(Arc<Run>, Command)>,
    pub streamed: usize,
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

    pub fn answer(&mut self, command: &Command) {
        let job = command.text("job").unwrap_or_default();
        let of_job = ["workers", "calibrate", "unload"].contains(&command.verb.as_str());
        if of_job && self.job.as_deref() != Some(&job) {
            return self.refuse(command, "UnknownJob", "'job' must name the loaded job");
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

    pub fn refuse(&mut self, command: &Command, class: &str, message: &str) {
        let event = Event::of("error", command)
            .with("stage", "protocol")
            .with("class", class);
        self.events
            .send(event.with("msg", message).with("fatal", 0));
    }

    pub fn fail(&mut self, command: &Command, stage: &str, fault: &Fault) {
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

    pub fn stop(&mut self, command: &Command) {
        let job = command.text("job").unwrap_or_default();
        self.events
            .send(Event::of("stopped", command).with("job", job));
        if let Some((run, _)) = &self.run {
            run.stop.store(true, Release);
            self.stopped = self.stopped.or(Some(Instant::now()));
        }
    }

    pub fn attend(&mut self) {
        let gauge = self
            .gauge
            .as_ref()
            .map(|(_, _, due)| due.saturating_duration_since(Instant::now()));
        let ended = self
            .ended
            .or(self.stopped)
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
            // The workers cannot be awaited, because their code does not return.
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

    pub fn send_samples(&mut self) {
        let Some((run, command)) = &self.run else {
            return;
        };
        let job = self.job.as_deref().unwrap_or_default();
        while run.stream && self.streamed < run.taken() {
            self.events.send(run.sample(command, job, self.streamed));
            self.streamed += 1;
        }
    }
}
