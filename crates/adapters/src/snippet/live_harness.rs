//! Controls a harness whose process survives between runs: the results of one run can determine the
//! next run.
//!
//! The harness answers commands one by one. A thread listens to the process. When an answer is
//! complete, the thread waits for the next command. While a snippet is measured, Speedwell only
//! waits for output of the process. The commands are described in docs/reference/protocol.md,
//! "Measuring code". Start at [`LiveHarness::open`].

use crate::ProtocolMessage;
use crate::failure::HarnessFailure;
use crate::snippet::build_process;
use crate::snippet::timing::parse_timing;
use speedwell_machine::process::{
    ChildConversation, CpuSet, NextStep, ProcessOutcome, ProcessSpec, ServiceProcess, WaitClock,
};
use speedwell_model::{
    ErlangNodes, FailureCause, SampleDivision, SampleLength, Snippet, SnippetTiming, SteadyRule,
    Variant,
};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Timeout of a command: this factor times the expected duration, plus this time.
const COMMAND_TIMEOUT: (u32, Duration) = (3, Duration::from_secs(10));

/// Startup timeout, also used as the expected duration of all commands but `run`. Interpreters take
/// about a second to start on an idle machine.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a process may take to exit after the command to quit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(6);

/// Grace period of a run. The run is stopped after twice its planned duration plus this time, and
/// its results so far are used.
const RUN_SLACK: Duration = Duration::from_secs(2);

/// A running harness. Dropping it ends its process.
pub struct LiveHarness {
    commands: Option<Sender<ProtocolMessage>>,
    events: Receiver<ProtocolMessage>,
    service: Option<ServiceProcess>,
    clock: WaitClock,
}

/// Answer to one command.
#[derive(Debug, Clone, Default)]
pub struct CommandAnswer {
    /// All events in order.
    pub events: Vec<ProtocolMessage>,
}

impl CommandAnswer {
    /// Returns the fault of `job`, if any.
    pub fn find_fault(&self, job: &str) -> Option<FailureCause> {
        let concerns_job = |event: &&ProtocolMessage| {
            let reported = event.get("job");
            event.verb == "error"
                && reported.is_none_or(|reported| reported.is_empty() || reported == job)
        };
        self.events.iter().find(concerns_job).and_then(error_cause)
    }

    /// Returns the answer itself if it contains no fault of `job`.
    ///
    /// # Errors
    /// Fails with the fault of `job`.
    pub fn check_fault(self, job: &str) -> Result<CommandAnswer, HarnessFailure> {
        self.find_fault(job).map_or(Ok(self), |cause| Err(cause.into()))
    }

    /// Returns the timing of `job`. `samples` is the division into samples that was requested for
    /// the run.
    pub fn timing(&self, job: &str, samples: &SampleDivision) -> Option<SnippetTiming> {
        parse_timing(job, self.events.iter(), samples)
    }

    /// Returns the first event whose verb is `verb`.
    pub fn first(&self, verb: &str) -> Option<&ProtocolMessage> {
        self.events.iter().find(|event| event.verb == verb)
    }
}

impl LiveHarness {
    /// Maximum lifetime of a process: practically unlimited, because each command has a limit of
    /// its own.
    pub const MAX_LIFETIME: Duration = Duration::from_secs(366 * 24 * 3600);

    /// Starts a process that can load `snippet`, in `directory` and on the processors of `pin`.
    /// Also returns its self-description.
    ///
    /// # Errors
    /// Fails if the snippet does not compile, or if the process cannot be started or does not
    /// become ready.
    pub fn open(
        snippet: &Snippet,
        program: &Path,
        variant: &Variant,
        directory: &Path,
        pin: Option<&CpuSet>,
    ) -> Result<(LiveHarness, CommandAnswer), HarnessFailure> {
        let spec = ProcessSpec {
            directory: Some(directory.to_owned()),
            pin: pin.cloned(),
            limit: LiveHarness::MAX_LIFETIME,
            ..build_process(snippet, program, variant)?
        };
        let (command_sender, commands) = channel();
        let (messages, events) = channel();
        let conversation = CommandRelay {
            commands,
            messages,
            pending: Some("ready"),
            unfinished: None,
            stop_at: None,
            clock: spec.clock,
        };
        let clock = spec.clock;
        let service = ServiceProcess::start_with_conversation(spec.clone(), conversation)
            .map_err(|error| HarnessFailure::not_started(&spec, &error))?;
        let mut live =
            LiveHarness { commands: Some(command_sender), events, service: Some(service), clock };
        let ready = live.collect_answer("ready", START_TIMEOUT, &mut |_| {})?;
        Ok((live, ready))
    }

    /// Process id, or 0 once the process has ended.
    pub fn pid(&self) -> i32 {
        self.service.as_ref().map_or(0, ServiceProcess::pid)
    }

    /// Loads `snippet` as `job`.
    ///
    /// # Errors
    /// Fails if the process has ended or does not answer in time.
    pub fn load_snippet(
        &mut self,
        job: &str,
        snippet: &Snippet,
    ) -> Result<CommandAnswer, HarnessFailure> {
        self.send_command(load_command(job, snippet), START_TIMEOUT, &mut |_| {})
    }

    /// Measures the cost of an empty iteration in this process, in nanoseconds, if supported.
    ///
    /// # Errors
    /// Fails if the process has ended or does not answer in time.
    pub fn measure_empty(&mut self, job: &str) -> Result<Option<f64>, HarnessFailure> {
        let answer = self.send_command(calibrate_command(job), START_TIMEOUT, &mut |_| {})?;
        let calibrated = answer.first("calibrated");
        Ok(calibrated
            .and_then(|calibrated| Some(calibrated.parse_number::<f64>("empty_ps")? / 1000.0)))
    }

    /// Sets the number of workers of `job`.
    ///
    /// # Errors
    /// Fails if the process has ended or does not answer in time.
    pub fn set_workers(&mut self, job: &str, count: u32) -> Result<CommandAnswer, HarnessFailure> {
        self.send_command(workers_command(job, count), START_TIMEOUT, &mut |_| {})
    }

    /// Makes the language's runtime report its gauges at this interval. The answer contains the
    /// first values.
    ///
    /// # Errors
    /// Fails if the process has ended or does not answer in time.
    pub fn start_gauges(&mut self, interval: Duration) -> Result<CommandAnswer, HarnessFailure> {
        let message =
            ProtocolMessage::new("monitor").with("id", 6).with("interval_ns", interval.as_nanos());
        self.send_command(message, START_TIMEOUT, &mut |_| {})
    }

    /// Measures all `jobs` at the same time, in one run. `expected` is the expected duration of the
    /// run. `on_event` receives every event as it arrives.
    ///
    /// # Errors
    /// Fails if the process died, or took far longer than `expected`.
    pub fn run_jobs(
        &mut self,
        jobs: &[String],
        samples: &SampleDivision,
        stream: bool,
        expected: Duration,
        on_event: &mut dyn FnMut(&ProtocolMessage),
    ) -> Result<CommandAnswer, HarnessFailure> {
        let message = run_command(jobs, samples, false).with_some("stream", stream.then_some(1));
        self.send_command(message, expected, on_event)
    }

    /// Lets the process clean up, and waits for it to exit.
    ///
    /// # Errors
    /// Fails if the process did not end successfully. If only the snippet's cleanup code ('done')
    /// fails, the answer contains an error event instead.
    pub fn shut_down(mut self) -> Result<CommandAnswer, HarnessFailure> {
        self.commands = None;
        let deadline = self.clock.now() + EXIT_TIMEOUT;
        let mut answer = CommandAnswer::default();
        while let Ok(event) = self.receive_event(deadline) {
            answer.events.push(event);
        }
        self.failed_outcome().map_or(Ok(answer), Err)
    }

    fn send_command(
        &mut self,
        message: ProtocolMessage,
        expected: Duration,
        on_event: &mut dyn FnMut(&ProtocolMessage),
    ) -> Result<CommandAnswer, HarnessFailure> {
        let final_verb = final_event(&message.verb);
        // Sending fails if the process has ended. Waiting for the answer then reports that.
        let _ = self.commands.as_ref().map(|command_sender| command_sender.send(message));
        self.collect_answer(final_verb, expected * COMMAND_TIMEOUT.0 + COMMAND_TIMEOUT.1, on_event)
    }

    /// Waits for the next event until the deadline.
    fn receive_event(&self, deadline: Instant) -> Result<ProtocolMessage, RecvTimeoutError> {
        loop {
            let remaining = self.clock.time_until(deadline);
            match self.events.recv_timeout(self.clock.max_wait(remaining)) {
                Err(RecvTimeoutError::Timeout) if self.clock.now() < deadline => {}
                received => return received,
            }
        }
    }

    /// Collects events up to and including the event `final_verb`, or an error in its place.
    fn collect_answer(
        &mut self,
        final_verb: &str,
        timeout: Duration,
        on_event: &mut dyn FnMut(&ProtocolMessage),
    ) -> Result<CommandAnswer, HarnessFailure> {
        let mut answer = CommandAnswer::default();
        let deadline = self.clock.now() + timeout;
        loop {
            match self.receive_event(deadline) {
                Ok(event) => {
                    on_event(&event);
                    let is_complete = is_last(&event, final_verb);
                    answer.events.push(event);
                    if is_complete {
                        return Ok(answer);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let silent = || FailureCause::Silent.into();
                    return Err(self.failed_outcome().unwrap_or_else(silent));
                }
                Err(RecvTimeoutError::Timeout) => {
                    let cause = FailureCause::Timeout { limit_ms: timeout.as_millis() as u64 };
                    return Err(match self.stop_process() {
                        Some(outcome) => HarnessFailure::of_process(cause, &outcome),
                        None => cause.into(),
                    });
                }
            }
        }
    }

    /// Stops the process and returns how it failed, if it did.
    fn failed_outcome(&mut self) -> Option<HarnessFailure> {
        let outcome = self.stop_process()?;
        let cause = outcome.failure_cause(LiveHarness::MAX_LIFETIME)?;
        Some(HarnessFailure::of_process(cause, &outcome))
    }

    fn stop_process(&mut self) -> Option<ProcessOutcome> {
        self.commands = None;
        self.service.take()?.stop_and_wait().ok()
    }
}

/// Converts an error event to a cause.
pub fn error_cause(error: &ProtocolMessage) -> Option<FailureCause> {
    let message = error.get("msg").unwrap_or_default();
    let line = error
        .parse_number::<u32>("line")
        .filter(|_| message.lines().count() > 0)
        .map(|line| format!("line {line}: "));
    let reason = format!("{}{}", line.unwrap_or_default(), message.trim_end());
    let stage = error.get("stage").unwrap_or_default();
    Some(match stage.as_str() {
        "done" => FailureCause::CleanupFailed { reason },
        "parse" | "compile" => FailureCause::invalid(format!("does not compile: {reason}")),
        "init" => FailureCause::invalid(format!("failed in init: {reason}")),
        "init_runner" => FailureCause::invalid(format!("failed in init-worker: {reason}")),
        "protocol" => FailureCause::invalid(reason),
        // A shell command; the reason says how it failed.
        "run" if error.get("class").as_deref() == Some("Command") => FailureCause::invalid(reason),
        _ => FailureCause::invalid(format!("failed: {reason}")),
    })
}

/// Returns the event that completes the answer to a command.
fn final_event(verb: &str) -> &'static str {
    match verb {
        "load" => "loaded",
        "workers" => "workers",
        "calibrate" => "calibrated",
        "run" => "end",
        // Gauges arrive at any time; the first one confirms the command.
        "monitor" => "gauge",
        _ => "ready",
    }
}

/// Whether `event` completes the answer that ends with `final_verb`. Errors also complete an
/// answer, except errors of the stage `done`. During a run, other jobs may continue after an error,
/// so only a protocol error completes the answer: the run itself was rejected.
fn is_last(event: &ProtocolMessage, final_verb: &str) -> bool {
    let failed = event.verb == "error" && event.get("stage").as_deref() != Some("done");
    let refused = event.get("stage").as_deref() == Some("protocol");
    event.verb == final_verb || failed && (final_verb != "end" || refused)
}

/// State of the thread that listens to the process. The thread forwards events, and waits for a
/// command when an answer is complete.
struct CommandRelay {
    commands: Receiver<ProtocolMessage>,
    messages: Sender<ProtocolMessage>,
    pending: Option<&'static str>,
    unfinished: Option<ProtocolMessage>,
    /// When to stop the current run. Without a limit, a worker that completes nothing would block
    /// the run forever.
    stop_at: Option<Instant>,
    clock: WaitClock,
}

impl ChildConversation for CommandRelay {
    fn opening_bytes(&mut self) -> Vec<u8> {
        let hello = ProtocolMessage::new("hello").with("id", 1).with("proto", 1);
        hello.to_string().into_bytes()
    }

    fn handle_line(&mut self, line: &[u8]) -> NextStep {
        let Some(message) = ProtocolMessage::parse(line) else { return NextStep::Wait };
        let message = match self.unfinished.take() {
            Some(mut previous) if previous.is_continued_by(&message) => {
                previous.append(message);
                previous
            }
            _ => message,
        };
        if message.parse_number::<u8>("more") == Some(1) {
            self.unfinished = Some(message);
            return NextStep::Wait;
        }
        let complete = self.pending.is_some_and(|final_verb| is_last(&message, final_verb));
        // Sending fails if the receiver is gone. The process then gets no command but to quit.
        let _ = self.messages.send(message);
        if !complete {
            return NextStep::Wait;
        }
        match self.commands.recv() {
            Ok(command) => {
                self.pending = Some(final_event(&command.verb));
                self.stop_at = expected_length(&command)
                    .map(|expected| self.clock.now() + expected * 2 + RUN_SLACK);
                NextStep::Send(command.to_string().into_bytes())
            }
            Err(_) => {
                self.pending = None;
                NextStep::Send(ProtocolMessage::new("quit").with("id", 9).to_string().into_bytes())
            }
        }
    }

    fn overdue_bytes(&mut self) -> Option<Vec<u8>> {
        self.stop_at.take_if(|time| self.clock.now() >= *time)?;
        Some(stop_message())
    }

    fn stop_request(&mut self) -> Option<(Vec<u8>, Duration)> {
        Some((stop_message(), EXIT_TIMEOUT))
    }
}

fn stop_message() -> Vec<u8> {
    let stop = ProtocolMessage::new("stop").with("id", 8).with("job", "*");
    stop.to_string().into_bytes()
}

/// Returns how long a run is expected to take; `None` for other commands, and for runs without a
/// planned duration. If a single iteration takes longer than the planned duration of a sample, the
/// run takes longer than expected.
fn expected_length(command: &ProtocolMessage) -> Option<Duration> {
    let number = |key| command.parse_number::<u64>(key);
    let interval_ns = number("interval_ns").filter(|_| command.verb == "run")?;
    let samples = number("samples")?;
    // A watched run continues until the user ends it.
    let is_watched = number("stream") == Some(1);
    let ns = interval_ns.checked_mul(samples)?.checked_add(number("warmup_ns")?)?;
    (!is_watched).then(|| Duration::from_nanos(ns))
}

/// Time for measuring the cost of an empty iteration. It suffices for a few batches, and is short
/// compared with a run.
const CALIBRATION_NS: u64 = 5_000_000;

/// Builds the `load` command for `snippet`, under the name `job`.
pub fn load_command(job: &str, snippet: &Snippet) -> ProtocolMessage {
    let command = ProtocolMessage::new("load").with("id", 2).with("job", job);
    if snippet.language.is_compiled() {
        return command.with("form", "built");
    }
    let flag = |is_set: bool| is_set.then_some(1);
    let mut message = command
        .with("form", "text")
        .with("lang", snippet.language)
        .with("runner", &snippet.runner)
        .with_some("init", snippet.init.as_ref())
        .with_some("init_runner", snippet.init_worker.as_ref())
        .with_some("prepare", snippet.prepare.as_ref())
        .with_some("done", snippet.done.as_ref())
        .with_some("in_shell", flag(snippet.in_shell))
        .with_some("warmup", snippet.warmup)
        .with_some("show", flag(snippet.shows_output))
        .with_some("ignore_failure", flag(snippet.ignores_failure));
    match &snippet.nodes {
        None => {}
        Some(ErlangNodes::Local(count)) => message = message.with("nodes", count),
        Some(ErlangNodes::Remote { name, cookie }) => {
            message = message.with("node", name).with_some("cookie", cookie.as_ref());
        }
    }
    for (index, path) in snippet.paths.iter().enumerate() {
        message = message.with(format!("path{index}"), path.display());
    }
    message
}

/// Builds `workers`, which sets the number of workers of `job`.
pub fn workers_command(job: &str, count: u32) -> ProtocolMessage {
    ProtocolMessage::new("workers").with("id", 3).with("job", job).with("n", count)
}

/// Builds `calibrate`, which measures the cost of an empty iteration.
pub fn calibrate_command(job: &str) -> ProtocolMessage {
    ProtocolMessage::new("calibrate")
        .with("id", 4)
        .with("job", job)
        .with("target_ns", CALIBRATION_NS)
}

/// Builds the `run` command for `jobs`, split into samples as `samples` specifies.
pub fn run_command(jobs: &[String], samples: &SampleDivision, is_series: bool) -> ProtocolMessage {
    let run = ProtocolMessage::new("run").with("id", 5).with_list("jobs", jobs);
    let run = match samples.length {
        SampleLength::Iterations(count) if is_series => run
            .with("mode", "series")
            .with("reference", SteadyRule::REFERENCE_EVERY)
            .with("loop", count),
        SampleLength::TimeNs(ns) => run.with("mode", "continuous").with("interval_ns", ns),
        SampleLength::Iterations(count) => run.with("mode", "timed").with("loop", count),
    };
    run.with("samples", samples.count).with("warmup_ns", samples.warmup_ns)
}
