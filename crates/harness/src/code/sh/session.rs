//! The conversation: reads a command, answers it, reads the next; while workers work, it listens to both.

use super::super::super::Message;
use super::order::{self, Order};
use super::worker::{Told, Work};
use speedwell_process::Stopwatch;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

/// Where commands come from and events go to (docs/reference/protocol.md, "Transport").
const FDS: [&str; 2] = ["/proc/self/fd/3", "/proc/self/fd/4"];

/// What the control part waits for.
pub enum News {
    /// Speedwell says something.
    Command(Message),
    /// Speedwell has gone.
    End,
    /// A worker of the run has passed a deadline: time and count.
    Point(usize, (u64, u64)),
    /// A worker of the run has come back.
    Back(usize, Box<Told>),
}

/// A command that was loaded.
pub(super) struct Job {
    pub work: Arc<Work>,
    pub workers: Vec<Arc<Stopwatch>>,
    shell: String,
    init_worker: Option<String>,
    done: Option<String>,
}

/// One conversation.
pub struct Session {
    events: File,
    pub(super) news: Receiver<News>,
    pub(super) teller: Sender<News>,
    pub(super) jobs: BTreeMap<String, Job>,
    /// Commands that came while a run was under way.
    pub(super) waiting: Vec<Message>,
    shell: String,
    is_chosen: bool,
    pub(super) over: bool,
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
        if self.over {
            return None;
        }
        loop {
            match self.news.recv() {
                Ok(News::Command(command)) if command.verb == "quit" => return None,
                Ok(News::Command(command)) => return Some(command),
                Ok(News::Back(..) | News::Point(..)) => {}
                Ok(News::End) | Err(_) => return None,
            }
        }
    }

    pub(super) fn answer(&mut self, command: &Message) -> std::io::Result<()> {
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

    pub(super) fn tell(&mut self, message: Message) -> std::io::Result<()> {
        self.events.write_all(message.to_string().as_bytes())
    }

    pub(super) fn fail(
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
        let order = |line: &str, chosen: bool| Order::new(line, &self.shell, chosen);
        let prepare = command.get("prepare");
        let prepare = prepare.map(|line| order(&line, self.is_chosen));
        let is_asked_for = command.get("in_shell").as_deref() == Some("1");
        let order = order(&runner, self.is_chosen || is_asked_for);
        if let Err(why) = syntax(&runner, &self.shell) {
            return self.fail(command, &job, "parse", "Syntax", &why);
        }
        let shell_ns = if order.in_shell {
            match order::shell_ns(&self.shell) {
                Ok(ns) => Some(ns),
                Err(error) => {
                    let words = format!("'{}': {error}", self.shell);
                    return self.fail(command, &job, "compile", "Shell", &words);
                }
            }
        } else {
            None
        };
        if let Some(init) = command.get("init")
            && let Err(why) = self.execute(&init)
        {
            return self.fail(command, &job, "init", "Command", &why);
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
    pub(super) fn employ(&mut self, name: &str, wanted: usize) -> Result<(), String> {
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

    pub(super) fn unknown(&mut self, command: &Message, job: &str) -> std::io::Result<()> {
        let words = format!("no job '{job}'");
        self.fail(command, "", "protocol", "UnknownJob", &words)
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

/// An event that answers a command.
pub(super) fn event(command: &Message, verb: &str) -> Message {
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
    if output.status.success() {
        Ok(())
    } else {
        Err(said.trim().to_owned())
    }
}
