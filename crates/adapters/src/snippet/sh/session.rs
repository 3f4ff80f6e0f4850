//! Reads the commands of the protocol and answers them one by one. During a run, also listens to
//! the workers.
//!
//! For `run`, workers execute a job's command repeatedly: during time windows, or a fixed number of
//! times. Start at [`serve_protocol`].

use super::{
    COMMAND_STDERR, ControlMessage, ExecutionTask, JobProgress, RecordedTimes, RunDivision,
    ShellCommand, ShellCost, WorkerPool, WorkerReport, WorkerSlot,
};
use crate::ProtocolMessage;
use speedwell_machine::process::{OutputTail, ProcessStopwatch};
use speedwell_model::Metric;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Paths for commands and events (docs/reference/protocol.md, "Transport").
const CHANNEL_PATHS: [&str; 2] = ["/proc/self/fd/3", "/proc/self/fd/4"];

/// A loaded job: a shell command and its workers.
struct LoadedJob {
    work: Arc<ExecutionTask>,
    workers: Vec<Arc<ProcessStopwatch>>,
    init_worker: Option<String>,
    done: Option<String>,
}

/// The event that answers a command, or a fault.
type CommandResult = Result<ProtocolMessage, CommandFault>;

/// Why a command was not carried out.
struct CommandFault {
    /// The job; empty if the fault concerns none.
    job: String,
    stage: &'static str,
    class: &'static str,
    message: String,
    is_fatal: bool,
}

impl CommandFault {
    /// The command itself is wrong.
    fn protocol(class: &'static str, message: impl Into<String>) -> CommandFault {
        let message = message.into();
        CommandFault { job: String::new(), stage: "protocol", class, message, is_fatal: false }
    }

    fn unknown_job(job: &str) -> CommandFault {
        CommandFault::protocol("UnknownJob", format!("no job '{job}'"))
    }

    /// A shell command of the job failed.
    fn of_job(job: &str, stage: &'static str, message: String) -> CommandFault {
        CommandFault { job: job.to_owned(), stage, class: "Command", message, is_fatal: false }
    }

    fn to_event(&self, command: &ProtocolMessage) -> ProtocolMessage {
        answer_event(command, "error")
            .with_some("job", (!self.job.is_empty()).then_some(&self.job))
            .with("stage", self.stage)
            .with("class", self.class)
            .with("msg", &self.message)
            .with("fatal", u8::from(self.is_fatal))
    }
}

struct ShellSession {
    events: File,
    messages: Receiver<ControlMessage>,
    message_sender: Sender<ControlMessage>,
    jobs: BTreeMap<String, LoadedJob>,
    /// Commands that arrived during a run.
    queued_commands: Vec<ProtocolMessage>,
    shell: String,
    force_shell: bool,
    is_over: bool,
}

/// Speaks the protocol until there are no more commands. `shell` executes the lines that need a
/// shell, or, if `force_shell` is set, all lines except `init_runner`.
///
/// # Errors
/// Fails if the descriptors are missing, or if an event cannot be sent.
pub fn serve_protocol(shell: &str, force_shell: bool) -> anyhow::Result<()> {
    let [commands, events] = CHANNEL_PATHS;
    let commands = File::open(commands)?;
    let events = File::options().write(true).open(events)?;
    if let Ok(tail) = OutputTail::start() {
        let _ = COMMAND_STDERR.set(tail);
    }
    let (message_sender, messages) = channel();
    let reader = message_sender.clone();
    std::thread::spawn(move || {
        for line in BufReader::new(commands).split(b'\n') {
            let message = line.ok().and_then(|line| ProtocolMessage::parse(&line));
            if let Some(message) = message
                && reader.send(ControlMessage::Command(message)).is_err()
            {
                return;
            }
        }
        // Sending fails once the session is over, because its receiver is gone.
        let _ = reader.send(ControlMessage::End);
    });
    let mut session = ShellSession {
        events,
        messages,
        message_sender,
        jobs: BTreeMap::new(),
        queued_commands: Vec::new(),
        shell: shell.to_owned(),
        force_shell,
        is_over: false,
    };
    while let Some(command) = session.next_command() {
        session.answer_command(&command)?;
    }
    let jobs: Vec<String> = session.jobs.keys().cloned().collect();
    let unload = |job| ProtocolMessage::new("unload").with("job", job);
    Ok(jobs.into_iter().try_for_each(|job| session.answer_command(&unload(job)))?)
}

impl ShellSession {
    fn next_command(&mut self) -> Option<ProtocolMessage> {
        if !self.queued_commands.is_empty() {
            return Some(self.queued_commands.remove(0)).filter(|command| command.verb != "quit");
        }
        if self.is_over {
            return None;
        }
        loop {
            match self.messages.recv() {
                Ok(ControlMessage::Command(command)) if command.verb == "quit" => return None,
                Ok(ControlMessage::Command(command)) => return Some(command),
                Ok(ControlMessage::Back(..) | ControlMessage::Point(..)) => {}
                Ok(ControlMessage::End) | Err(_) => return None,
            }
        }
    }

    fn answer_command(&mut self, command: &ProtocolMessage) -> std::io::Result<()> {
        let job = command.get("job").unwrap_or_default();
        let answer = match command.verb.as_str() {
            "hello" => self.answer_hello(command),
            "load" => self.load_job(command),
            "workers" => self.answer_workers(command, &job),
            // 0 disables the comparison with empty iterations. This comparison detects code that
            // was optimized away, but a process cannot be optimized away.
            "calibrate" => Ok(job_event(command, "calibrated", &job).with("empty_ps", 0)),
            "monitor" => Ok(answer_event(command, "gauge").with("t_ns", 0)),
            "run" => self.answer_run(command)?,
            "stop" => Ok(job_event(command, "stopped", &job)),
            "unload" => self.unload_job(command, &job),
            verb => Err(CommandFault::protocol("UnknownVerb", format!("unknown verb '{verb}'"))),
        };
        self.send_event(answer.unwrap_or_else(|fault| fault.to_event(command)))
    }

    fn send_event(&mut self, message: ProtocolMessage) -> std::io::Result<()> {
        self.events.write_all(message.to_string().as_bytes())
    }

    fn answer_hello(&mut self, command: &ProtocolMessage) -> CommandResult {
        if command.get("proto").as_deref() != Some("1") {
            self.is_over = true;
            let fault = CommandFault::protocol("Version", "only protocol version 1 is supported");
            return Err(CommandFault { is_fatal: true, ..fault });
        }
        let cpus = std::thread::available_parallelism().map_or(1, |count| count.get());
        Ok(answer_event(command, "ready")
            .with("proto", 1)
            .with("lang", "sh")
            .with("version", &self.shell)
            .with("flavor", "native")
            .with("build", "opt")
            .with("cpus", cpus)
            .with("clock", "CLOCK_MONOTONIC")
            .with("clock_res_ns", 1)
            .with("caps", "continuous,timed,series,workers,parallel,monitor")
            .with("gauges", ""))
    }

    fn load_job(&mut self, command: &ProtocolMessage) -> CommandResult {
        let (Some(job), Some(runner)) = (command.get("job"), command.get("runner")) else {
            return Err(CommandFault::protocol("MissingKey", "load needs 'job' and 'runner'"));
        };
        let fault = |stage, class| {
            let job = job.clone();
            move |message: String| CommandFault { job, stage, class, message, is_fatal: false }
        };
        let order =
            |line: &str, force_shell: bool| ShellCommand::new(line, &self.shell, force_shell);
        let prepare = command.get("prepare").map(|line| order(&line, self.force_shell));
        let is_set = |key| command.get(key).as_deref() == Some("1");
        let order = ShellCommand {
            is_shown: is_set("show"),
            ignores_failure: is_set("ignore_failure"),
            ..order(&runner, self.force_shell || is_set("in_shell"))
        };
        check_syntax(&runner, &self.shell).map_err(fault("parse", "Syntax"))?;
        let shell = if order.in_shell {
            let measured = ShellCost::measure_shell(&self.shell, is_set("rehearsal"));
            let cost = measured.map_err(|error| format!("'{}': {error}", self.shell));
            Some(cost.map_err(fault("compile", "Shell"))?)
        } else {
            None
        };
        if let Some(init) = command.get("init") {
            self.execute_line(&init).map_err(fault("init", "Command"))?;
        }
        let warmup = command.parse_number::<u32>("warmup").unwrap_or(0);
        warm_up(&order, prepare.as_ref(), warmup).map_err(fault("run", "Command"))?;
        let loaded = job_event(command, "loaded", &job)
            .with("form", "text")
            .with("source", &runner)
            .with("arity", 0);
        let loaded_job = LoadedJob {
            work: Arc::new(ExecutionTask { order, prepare, shell }),
            workers: Vec::new(),
            init_worker: command.get("init_runner"),
            done: command.get("done"),
        };
        self.jobs.insert(job, loaded_job);
        Ok(loaded)
    }

    fn execute_line(&self, line: &str) -> Result<(), String> {
        ShellCommand::new(line, &self.shell, self.force_shell)
            .execute_once(&ProcessStopwatch::default())
    }

    fn answer_workers(&mut self, command: &ProtocolMessage, job: &str) -> CommandResult {
        let wanted = command.parse_number::<usize>("n").unwrap_or(1);
        let begin = Instant::now();
        if !self.jobs.contains_key(job) {
            return Err(CommandFault::unknown_job(job));
        }
        self.set_workers(job, wanted)?;
        let ms = begin.elapsed().as_millis();
        Ok(job_event(command, "workers", job).with("n", wanted).with("ms", ms))
    }

    /// Sets the number of workers of a job.
    fn set_workers(&mut self, name: &str, wanted: usize) -> Result<(), CommandFault> {
        let Some(job) = self.jobs.get_mut(name) else { return Ok(()) };
        job.workers.truncate(wanted);
        while job.workers.len() < wanted {
            if let Some(line) = &job.init_worker {
                let order = ShellCommand::new(line, &self.shell, false);
                let executed = order.execute_once(&ProcessStopwatch::default());
                executed.map_err(|error| CommandFault::of_job(name, "init_runner", error))?;
            }
            job.workers.push(Arc::default());
        }
        Ok(())
    }

    fn unload_job(&mut self, command: &ProtocolMessage, name: &str) -> CommandResult {
        let Some(job) = self.jobs.remove(name) else {
            return Err(CommandFault::unknown_job(name));
        };
        if let Some(line) = &job.done {
            let executed = self.execute_line(line);
            executed.map_err(|error| CommandFault::of_job(name, "done", error))?;
        }
        Ok(job_event(command, "unloaded", name))
    }

    /// Answers `run`.
    fn answer_run(&mut self, command: &ProtocolMessage) -> std::io::Result<CommandResult> {
        let jobs = command.list("jobs");
        if let Some(unknown) = jobs.iter().find(|job| !self.jobs.contains_key(*job)) {
            return Ok(Err(CommandFault::unknown_job(unknown)));
        }
        for job in &jobs {
            if self.jobs[job].workers.is_empty()
                && let Err(fault) = self.set_workers(job, 1)
            {
                self.send_event(fault.to_event(command))?;
            }
        }
        let begin = Instant::now();
        let late_ns = match command.get("mode").as_deref() {
            Some("continuous") => self.run_continuous(command, &jobs)?,
            Some("timed" | "series") => self.run_timed(command, &jobs)?,
            mode => {
                let message = format!("unsupported mode '{}'", mode.unwrap_or_default());
                return Ok(Err(CommandFault::protocol("Mode", message)));
            }
        };
        let elapsed_ns = begin.elapsed().as_nanos();
        let end = answer_event(command, "end").with_list("jobs", &jobs);
        Ok(Ok(end.with("elapsed_ns", elapsed_ns).with("max_late_ns", late_ns)))
    }

    fn run_continuous(
        &mut self,
        command: &ProtocolMessage,
        jobs: &[String],
    ) -> std::io::Result<u64> {
        let number = |key, default| command.parse_number(key).unwrap_or(default);
        let division = RunDivision::Windows {
            interval_ns: number("interval_ns", 1_000_000_000).max(1),
            samples: number("samples", 1),
            warmup_ns: number("warmup_ns", 0),
        };
        let reports = self.run_workers(command, jobs, division)?;
        let mut late_ns = 0;
        for (job, reports) in jobs.iter().zip(reports) {
            for (index, report) in reports.iter().enumerate() {
                late_ns = late_ns.max(report.late_ns);
                let column = |field: fn(&(u64, u64)) -> u64| -> Vec<String> {
                    report.points.iter().map(|point| field(point).to_string()).collect()
                };
                let worker = job_event(command, "worker", job)
                    .with("w", index)
                    .with("epoch_ns", 0)
                    .with("batch", 1)
                    .with_list("t_ns", &column(|point| point.0))
                    .with_list("count", &column(|point| point.1))
                    .with_list("q_ps", &report.times.quantiles_ps())
                    .with("batches", report.times.count);
                self.send_event(worker)?;
            }
            self.report_costs(command, job, &reports)?;
        }
        Ok(late_ns)
    }

    fn run_timed(&mut self, command: &ProtocolMessage, jobs: &[String]) -> std::io::Result<u64> {
        let count = command.parse_number::<u64>("loop").unwrap_or(1).max(1);
        let samples = command.parse_number::<usize>("samples").unwrap_or(1);
        let warmup_ns = command.parse_number::<u64>("warmup_ns").unwrap_or(0);
        for job in jobs {
            let single_job = std::slice::from_ref(job);
            let begin = Instant::now();
            let mut sample_times: Vec<String> = Vec::new();
            let mut reports_so_far: Vec<WorkerReport> = Vec::new();
            while sample_times.len() < samples && !self.is_over {
                let is_warm = begin.elapsed() >= Duration::from_nanos(warmup_ns);
                let reports = self
                    .run_workers(command, single_job, RunDivision::Executions(count))?
                    .remove(0);
                let longest =
                    reports.iter().map(|report| report.points.last().map_or(0, |last| last.0));
                let failed = reports.iter().any(|report| report.failure.is_some());
                let stopped = reports.iter().any(|report| report.times.count < count);
                if is_warm && !failed && !stopped {
                    sample_times.push(longest.max().unwrap_or(0).to_string());
                }
                if is_warm || failed {
                    reports_so_far.extend(reports);
                }
                if failed || stopped {
                    break;
                }
            }
            let mut times = RecordedTimes::default();
            reports_so_far.iter().for_each(|report| times.merge(&report.times));
            let timed = job_event(command, "timed", job)
                .with_list("ns", &sample_times)
                .with("loop", count)
                .with("workers", self.jobs[job].workers.len())
                .with_list("q_ps", &times.quantiles_ps())
                .with("batches", times.count);
            if !sample_times.is_empty() {
                self.send_event(timed)?;
            }
            self.report_costs(command, job, &reports_so_far)?;
        }
        Ok(0)
    }

    /// Reports resource usage of executions, and the first failure.
    fn report_costs(
        &mut self,
        command: &ProtocolMessage,
        job: &str,
        reports: &[WorkerReport],
    ) -> std::io::Result<()> {
        let count: u64 = reports.iter().map(|report| report.times.count).sum();
        if count > 0 {
            let sum = |field: fn(&WorkerReport) -> u64| {
                reports.iter().map(field).sum::<u64>() as f64 / count as f64
            };
            let rss = reports.iter().map(|report| report.max_rss_bytes).max();
            let cpu_ns = sum(|report| report.user_ns + report.system_ns);
            let cost = self.jobs[job].work.shell;
            let shell = cost.map(|cost| (Metric::SHELL_TIME, "ns", cost.wall_ns as f64));
            let difference_ns = cost.map_or(Some(cpu_ns), |cost| cost.subtract_from(cpu_ns));
            let own_time = difference_ns.map(|ns| (Metric::OWN_CPU_TIME, "ns", ns));
            let metrics = [
                (Metric::CPU_TIME, "ns", cpu_ns),
                ("user_time", "ns", sum(|report| report.user_ns)),
                ("system_time", "ns", sum(|report| report.system_ns)),
                ("max_rss", "B", rss.unwrap_or(0) as f64),
            ];
            for (name, unit, value) in metrics.into_iter().chain(own_time).chain(shell) {
                let event = job_event(command, "metric", job).with("name", name).with("unit", unit);
                self.send_event(event.with("better", "lower").with("value", value))?;
            }
        }
        match reports.iter().find_map(|report| report.failure.clone()) {
            Some(error) => {
                self.send_event(CommandFault::of_job(job, "run", error).to_event(command))
            }
            None => Ok(()),
        }
    }

    /// Runs the workers of these jobs, and listens to them and to Speedwell until all workers have
    /// finished. Returns the reports of the workers by job.
    fn run_workers(
        &mut self,
        command: &ProtocolMessage,
        jobs: &[String],
        division: RunDivision,
    ) -> std::io::Result<Vec<Vec<WorkerReport>>> {
        let streams = command.get("stream").as_deref() == Some("1");
        let mut pool =
            WorkerPool::start(self.worker_slots(jobs), division, &self.message_sender, streams);
        while pool.finished_reports.iter().any(Option::is_none) {
            match self.messages.recv() {
                Ok(ControlMessage::Back(index, report)) => {
                    pool.finished_reports[index] = Some(*report);
                }
                Ok(ControlMessage::Point(index, point)) => {
                    if let Some(progress) = pool.record_point(index, point) {
                        self.send_event(sample_event(command, &jobs[progress.job], &progress))?;
                    }
                }
                Ok(ControlMessage::Command(next_command)) if next_command.verb == "stop" => {
                    pool.stop_all();
                    self.answer_command(&next_command)?;
                }
                Ok(ControlMessage::Command(other)) => self.queued_commands.push(other),
                Ok(ControlMessage::End) | Err(_) => {
                    self.is_over = true;
                    pool.stop_all();
                }
            }
        }
        Ok(pool.reports(jobs.len()))
    }

    fn worker_slots(&self, jobs: &[String]) -> Vec<WorkerSlot> {
        let loaded = jobs.iter().map(|name| &self.jobs[name]).enumerate();
        let slots = loaded.flat_map(|(job, LoadedJob { work, workers, .. })| {
            let slot_of = move |stopwatch: &Arc<ProcessStopwatch>| WorkerSlot {
                job,
                work: work.clone(),
                stopwatch: stopwatch.clone(),
            };
            workers.iter().map(slot_of)
        });
        slots.collect()
    }
}

/// Before measuring begins, executes a command `count` times, each time after its preparation.
fn warm_up(order: &ShellCommand, prepare: Option<&ShellCommand>, count: u32) -> Result<(), String> {
    let stopwatch = ProcessStopwatch::default();
    for _ in 0..count {
        if let Some(prepare) = prepare {
            let result = prepare.execute_once(&stopwatch);
            result.map_err(|error| format!("failed in prepare: {error}"))?;
        }
        let result = order.execute_once(&stopwatch);
        result.map_err(|error| format!("failed in the warm-up: {error}"))?;
    }
    Ok(())
}

/// Builds an event that answers a command.
fn answer_event(command: &ProtocolMessage, verb: &str) -> ProtocolMessage {
    ProtocolMessage::new(verb).with_some("id", command.get("id"))
}

/// Builds an event about a job that answers a command.
fn job_event(command: &ProtocolMessage, verb: &str, job: &str) -> ProtocolMessage {
    answer_event(command, verb).with("job", job)
}

/// Checks the syntax of a line; on error, returns the shell's message.
fn check_syntax(line: &str, shell: &str) -> Result<(), String> {
    let output = std::process::Command::new(shell)
        .args(["-n", "-c", line])
        .output()
        .map_err(|error| format!("'{shell}': {error}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(stderr.trim().to_owned()) }
}

fn sample_event(command: &ProtocolMessage, job: &str, progress: &JobProgress) -> ProtocolMessage {
    job_event(command, "sample", job)
        .with("k", progress.k)
        .with("t_ns", progress.t_ns)
        .with("count", progress.count)
        .with("workers", progress.workers)
        .with("late_ns", 0)
}
