//! The conversation: reads a command, answers it, reads the next; while workers work, it listens to both.

use super::super::super::Message;
use super::order::{self, Order};
use super::worker::{Course, Division, Told, Work, take_part};
use crate::process::Stopwatch;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Where commands come from and events go to (docs/protocol.md, "Transport").
const FDS: [&str; 2] = ["/proc/self/fd/3", "/proc/self/fd/4"];

/// What the control part waits for.
enum News {
    Command(Message),
    /// Speedwell has gone.
    End,
    /// A worker of the run has come back.
    Back(usize, Box<Told>),
}

struct Job {
    work: Arc<Work>,
    workers: Vec<Arc<Stopwatch>>,
    shell: String,
    init_worker: Option<String>,
    done: Option<String>,
}

struct Session {
    events: File,
    news: Receiver<News>,
    teller: Sender<News>,
    jobs: BTreeMap<String, Job>,
    /// Commands that came while a run was under way.
    waiting: Vec<Message>,
    shell: String,
    is_chosen: bool,
    over: bool,
}

/// Speaks the protocol until the commands end. `shell` executes lines that need one; one that was `chosen` executes
/// every line.
///
/// # Errors
/// The descriptors are not there.
pub fn serve(shell: &str, chosen: bool) -> anyhow::Result<()> {
    let [commands, events] = FDS;
    let commands = File::open(commands)?;
    let events = File::options().write(true).open(events)?;
    let (teller, news) = channel();
    let reader = teller.clone();
    std::thread::spawn(move || {
        for line in BufReader::new(commands).split(b'\n') {
            let message = line.ok().and_then(|line| Message::parse(&line));
            if let Some(message) = message
                && reader.send(News::Command(message)).is_err()
            {
                return;
            }
        }
        // Nobody listens if the session is over.
        let _ = reader.send(News::End);
    });
    let mut session = Session {
        events,
        news,
        teller,
        jobs: BTreeMap::new(),
        waiting: Vec::new(),
        shell: shell.to_owned(),
        is_chosen: chosen,
        over: false,
    };
    while let Some(command) = session.next() {
        session.answer(&command)?;
    }
    let jobs: Vec<String> = session.jobs.keys().cloned().collect();
    for job in jobs {
        session.unload(&Message::new("unload").with("job", job))?;
    }
    Ok(())
}

impl Session {
    fn next(&mut self) -> Option<Message> {
        if !self.waiting.is_empty() {
            return Some(self.waiting.remove(0)).filter(|command| command.verb != "quit");
        }
        while !self.over {
            match self.news.recv() {
                Ok(News::Command(command)) if command.verb == "quit" => return None,
                Ok(News::Command(command)) => return Some(command),
                Ok(News::Back(..)) => {}
                Ok(News::End) | Err(_) => return None,
            }
        }
        None
    }

    fn answer(&mut self, command: &Message) -> std::io::Result<()> {
        match command.verb.as_str() {
            "hello" => self.hello(command),
            "load" => self.load(command),
            "workers" => self.workers(command),
            "calibrate" => {
                let job = command.get("job").unwrap_or_default();
                // A process cannot be folded away.
                self.tell(
                    event(command, "calibrated")
                        .with("job", job)
                        .with("empty_ps", 0),
                )
            }
            "monitor" => self.tell(event(command, "gauge").with("t_ns", 0)),
            "run" => self.run(command),
            "stop" => {
                let job = command.get("job").unwrap_or_default();
                self.tell(event(command, "stopped").with("job", job))
            }
            "unload" => self.unload(command),
            verb => {
                let words = format!("unknown verb '{verb}'");
                self.fail(command, "", "protocol", "UnknownVerb", &words)
            }
        }
    }

    fn tell(&mut self, message: Message) -> std::io::Result<()> {
        self.events.write_all(message.to_string().as_bytes())
    }

    fn fail(
        &mut self,
        command: &Message,
        job: &str,
        stage: &str,
        class: &str,
        words: &str,
    ) -> std::io::Result<()> {
        let mut error = event(command, "error");
        if !job.is_empty() {
            error = error.with("job", job);
        }
        let error = error.with("stage", stage).with("class", class);
        self.tell(error.with("msg", words).with("fatal", 0))
    }

    fn hello(&mut self, command: &Message) -> std::io::Result<()> {
        if command.get("proto").as_deref() != Some("1") {
            self.over = true;
            let words = "only protocol version 1 is spoken here";
            let error = event(command, "error").with("stage", "protocol");
            let error = error.with("class", "Version").with("msg", words);
            return self.tell(error.with("fatal", 1));
        }
        let cpus = std::thread::available_parallelism().map_or(1, |count| count.get());
        let ready = event(command, "ready")
            .with("proto", 1)
            .with("lang", "sh")
            .with("version", &self.shell)
            .with("flavor", "native")
            .with("build", "opt")
            .with("cpus", cpus)
            .with("clock", "CLOCK_MONOTONIC")
            .with("clock_res_ns", 1)
            .with("caps", "continuous,timed,workers,parallel,monitor")
            .with("gauges", "");
        self.tell(ready)
    }

    fn load(&mut self, command: &Message) -> std::io::Result<()> {
        let (Some(job), Some(runner)) = (command.get("job"), command.get("runner")) else {
            let words = "load needs 'job' and 'runner'";
            return self.fail(command, "", "protocol", "MissingKey", words);
        };
        let order = |line: String| Order::new(&line, &self.shell, self.is_chosen);
        let prepare = command.get("prepare").map(order);
        let order = order(runner.clone());
        if let Err(why) = syntax(&runner, &self.shell) {
            return self.fail(command, &job, "parse", "Syntax", &why);
        }
        let shell_ns = match order.needs_shell {
            false => 0,
            true => match order::shell_ns(&self.shell) {
                Ok(ns) => ns,
                Err(error) => {
                    let words = format!("'{}': {error}", self.shell);
                    return self.fail(command, &job, "compile", "Shell", &words);
                }
            },
        };
        if let Some(init) = command.get("init")
            && let Err(why) = self.execute(&init)
        {
            return self.fail(command, &job, "init", "Command", &why);
        }
        if shell_ns > 0 {
            let us = shell_ns / 1000;
            let words =
                format!("The shell itself takes {us} us, which were taken out of every execution.");
            self.tell(
                event(command, "log")
                    .with("level", "info")
                    .with("text", words),
            )?;
        }
        let loaded = event(command, "loaded").with("job", &job);
        let loaded = loaded
            .with("form", "text")
            .with("source", &runner)
            .with("arity", 0);
        let own = Job {
            work: Arc::new(Work {
                order,
                prepare,
                shell_ns,
            }),
            workers: Vec::new(),
            shell: self.shell.clone(),
            init_worker: command.get("init_runner"),
            done: command.get("done"),
        };
        self.jobs.insert(job, own);
        self.tell(loaded)
    }

    fn execute(&self, line: &str) -> Result<(), String> {
        Order::new(line, &self.shell, self.is_chosen).execute(&Stopwatch::default())
    }

    fn workers(&mut self, command: &Message) -> std::io::Result<()> {
        let job = command.get("job").unwrap_or_default();
        let wanted = command.number::<usize>("n").unwrap_or(1);
        let begin = Instant::now();
        if !self.jobs.contains_key(&job) {
            return self.unknown(command, &job);
        }
        if let Err(why) = self.employ(&job, wanted) {
            return self.fail(command, &job, "init_runner", "Command", &why);
        }
        let ms = begin.elapsed().as_millis();
        self.tell(
            event(command, "workers")
                .with("job", job)
                .with("n", wanted)
                .with("ms", ms),
        )
    }

    /// Gives a job so many workers.
    fn employ(&mut self, name: &str, wanted: usize) -> Result<(), String> {
        let Some(job) = self.jobs.get_mut(name) else {
            return Ok(());
        };
        job.workers.truncate(wanted);
        while job.workers.len() < wanted {
            if let Some(line) = &job.init_worker {
                let order = Order::new(line, &job.shell, false);
                order.execute(&Stopwatch::default())?;
            }
            job.workers.push(Arc::default());
        }
        Ok(())
    }

    fn unknown(&mut self, command: &Message, job: &str) -> std::io::Result<()> {
        let words = format!("no job '{job}'");
        self.fail(command, "", "protocol", "UnknownJob", &words)
    }

    fn run(&mut self, command: &Message) -> std::io::Result<()> {
        let jobs = command.list("jobs");
        if let Some(unknown) = jobs.iter().find(|job| !self.jobs.contains_key(*job)) {
            return self.unknown(command, &unknown.clone());
        }
        for job in &jobs {
            if self.jobs[job].workers.is_empty()
                && let Err(why) = self.employ(job, 1)
            {
                self.fail(command, job, "init_runner", "Command", &why)?;
            }
        }
        let begin = Instant::now();
        let late_ns = match command.get("mode").as_deref() {
            Some("continuous") => self.continuous(command, &jobs)?,
            Some("timed") => self.timed(command, &jobs)?,
            mode => {
                let words = format!("mode '{}' is not offered", mode.unwrap_or_default());
                return self.fail(command, "", "protocol", "Mode", &words);
            }
        };
        let elapsed_ns = begin.elapsed().as_nanos();
        let end = event(command, "end").with_list("jobs", &jobs);
        self.tell(
            end.with("elapsed_ns", elapsed_ns)
                .with("max_late_ns", late_ns),
        )
    }

    fn continuous(&mut self, command: &Message, jobs: &[String]) -> std::io::Result<u64> {
        let number = |key, usual| command.number(key).unwrap_or(usual);
        let division = Division::Windows {
            interval_ns: number("interval_ns", 1_000_000_000).max(1),
            samples: number("samples", 1),
            warmup_ns: number("warmup_ns", 0),
        };
        let told = self.work(jobs, division);
        let mut late_ns = 0;
        for (job, told) in jobs.iter().zip(told) {
            for (at, told) in told.iter().enumerate() {
                late_ns = late_ns.max(told.late_ns);
                let column = |of: fn(&(u64, u64)) -> u64| -> Vec<String> {
                    told.points
                        .iter()
                        .map(|point| of(point).to_string())
                        .collect()
                };
                let worker = event(command, "worker")
                    .with("job", job)
                    .with("w", at)
                    .with("epoch_ns", 0)
                    .with("batch", 1)
                    .with_list("t_ns", &column(|point| point.0))
                    .with_list("count", &column(|point| point.1))
                    .with_list("q_ps", &told.times.quantiles_ps())
                    .with("batches", told.times.count());
                self.tell(worker)?;
            }
            self.costs(command, job, &told)?;
        }
        Ok(late_ns)
    }

    fn timed(&mut self, command: &Message, jobs: &[String]) -> std::io::Result<u64> {
        let count = command.number::<u64>("loop").unwrap_or(1).max(1);
        let samples = command.number::<usize>("samples").unwrap_or(1);
        let warmup_ns = command.number::<u64>("warmup_ns").unwrap_or(0);
        for job in jobs {
            let own = std::slice::from_ref(job);
            let begin = Instant::now();
            let mut taken: Vec<String> = Vec::new();
            let mut all: Vec<Told> = Vec::new();
            while taken.len() < samples && !self.over {
                let is_warm = begin.elapsed() >= Duration::from_nanos(warmup_ns);
                let told = self.work(own, Division::Executions(count)).remove(0);
                let longest = told
                    .iter()
                    .map(|told| told.points.last().map_or(0, |last| last.0));
                let failed = told.iter().any(|told| told.failed.is_some());
                let stopped = told.iter().any(|told| told.times.count() < count);
                if is_warm && !failed && !stopped {
                    taken.push(longest.max().unwrap_or(0).to_string());
                }
                if is_warm || failed {
                    all.extend(told);
                }
                if failed || stopped {
                    break;
                }
            }
            let mut together = all.iter().map(|told| &told.times);
            let median = together
                .next()
                .map(|times| times.quantiles_ps())
                .unwrap_or_default();
            let batches: u64 = all.iter().map(|told| told.times.count()).sum();
            let timed = event(command, "timed")
                .with("job", job)
                .with_list("ns", &taken)
                .with("loop", count)
                .with("workers", self.jobs[job].workers.len())
                .with_list("q_ps", &median)
                .with("batches", batches);
            if !taken.is_empty() {
                self.tell(timed)?;
            }
            self.costs(command, job, &all)?;
        }
        Ok(0)
    }

    /// What executions cost beside time, and how one failed.
    fn costs(&mut self, command: &Message, job: &str, told: &[Told]) -> std::io::Result<()> {
        let count: u64 = told.iter().map(|told| told.times.count()).sum();
        if count > 0 {
            let sum = |of: fn(&Told) -> u64| told.iter().map(of).sum::<u64>() as f64 / count as f64;
            let rss = told.iter().map(|told| told.max_rss_bytes).max();
            let metrics = [
                ("user_time", "ns", sum(|told| told.user_ns)),
                ("system_time", "ns", sum(|told| told.system_ns)),
                ("max_rss", "B", rss.unwrap_or(0) as f64),
            ];
            for (name, unit, value) in metrics {
                let metric = event(command, "metric").with("job", job).with("name", name);
                self.tell(
                    metric
                        .with("unit", unit)
                        .with("better", "lower")
                        .with("value", value),
                )?;
            }
        }
        match told.iter().find_map(|told| told.failed.clone()) {
            Some(why) => self.fail(command, job, "run", "Command", &why),
            None => Ok(()),
        }
    }

    /// Has the workers of these jobs work, and listens meanwhile: what each told, job by job.
    fn work(&mut self, jobs: &[String], division: Division) -> Vec<Vec<Told>> {
        let places: Vec<(usize, Arc<Work>, Arc<Stopwatch>)> = jobs
            .iter()
            .enumerate()
            .flat_map(|(at, job)| {
                let own = &self.jobs[job];
                let work = &own.work;
                own.workers
                    .iter()
                    .map(move |watch| (at, work.clone(), watch.clone()))
            })
            .collect();
        let course = Arc::new(Course {
            epoch: Instant::now(),
            division,
            needing: AtomicUsize::new(places.len()),
            over: AtomicBool::new(false),
        });
        for (at, (_, work, watch)) in places.iter().enumerate() {
            watch.go_on();
            let (work, watch, course) = (work.clone(), watch.clone(), course.clone());
            let teller = self.teller.clone();
            std::thread::spawn(move || {
                let told = take_part(&work, &course, &watch);
                // Without a listener the process is about to end.
                let _ = teller.send(News::Back(at, Box::new(told)));
            });
        }
        let mut back: Vec<Option<Told>> = places.iter().map(|_| None).collect();
        while back.iter().any(Option::is_none) {
            match self.news.recv() {
                Ok(News::Back(at, told)) => back[at] = Some(*told),
                Ok(News::Command(command)) if command.verb == "stop" => {
                    halt(&course, &places);
                    // An answer that cannot be written finds its reader gone, which ends everything.
                    let _ = self.answer(&command);
                }
                Ok(News::Command(command)) => self.waiting.push(command),
                Ok(News::End) | Err(_) => {
                    self.over = true;
                    halt(&course, &places);
                }
            }
        }
        let mut told: Vec<Vec<Told>> = jobs.iter().map(|_| Vec::new()).collect();
        for ((job, _, _), own) in places.iter().zip(back) {
            told[*job].push(own.unwrap_or_default());
        }
        told
    }

    fn unload(&mut self, command: &Message) -> std::io::Result<()> {
        let name = command.get("job").unwrap_or_default();
        let Some(job) = self.jobs.remove(&name) else {
            return self.unknown(command, &name);
        };
        if let Some(line) = &job.done
            && let Err(why) = self.execute(line)
        {
            return self.fail(command, &name, "done", "Command", &why);
        }
        self.tell(event(command, "unloaded").with("job", name))
    }
}

/// Ends what is under way.
fn halt(course: &Course, places: &[(usize, Arc<Work>, Arc<Stopwatch>)]) {
    course.over.store(true, Ordering::SeqCst);
    places.iter().for_each(|(_, _, watch)| watch.stop());
}

/// An event that answers a command.
fn event(command: &Message, verb: &str) -> Message {
    let event = Message::new(verb);
    match command.get("id") {
        Some(id) => event.with("id", id),
        None => event,
    }
}

/// Whether the shell understands the line, in its own words if not.
fn syntax(line: &str, shell: &str) -> Result<(), String> {
    let output = std::process::Command::new(shell)
        .args(["-n", "-c", line])
        .output()
        .map_err(|error| format!("'{shell}': {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false => Err(said.trim().to_owned()),
    }
}
