//! A harness that survives between runs, so that measurements can determine what is measured next.
//!
//! Commands are answered one by one. A thread listens to the process, and waits for the next
//! command once an answer is complete; nothing of ours runs while the code is measured. The
//! commands are those of docs/reference/protocol.md, "Measuring code". Start at [`Live::start`].

use crate::Message;
use crate::attempt::{invalid, start_reason};
use crate::compile::Failed;
use crate::snippet::timing::timing;
use speedwell_model::{Cause, Length, Nodes, Samples, Snippet, SnippetTiming, SteadyRule};
use speedwell_process::{Clock, Conversation, Next, Outcome, Service, Spec};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Timeout of a command: this factor times the expected duration, plus this time.
const PATIENCE: (u32, Duration) = (3, Duration::from_secs(10));

/// Startup timeout: interpreters take a second on an idle machine.
const START: Duration = Duration::from_secs(30);

/// Time a process may take to exit when told to.
const GOODBYE: Duration = Duration::from_secs(6);

/// Time a run may take beyond twice its windows before it is stopped with the results so far.
const SLACK: Duration = Duration::from_secs(2);

/// Lines of stderr kept with a failure.
const TAIL_LINES: usize = 20;

/// A running harness. Dropping it ends its process.
pub struct Live {
    orders: Option<Sender<Message>>,
    heard: Receiver<Message>,
    service: Option<Service>,
    limit: Duration,
    clock: Clock,
}

/// Why a harness gives no further answers.
#[derive(Debug, Clone)]
pub struct Gone {
    /// How it ended.
    pub cause: Cause,
    /// Last lines of its stderr.
    pub stderr_tail: String,
}

impl Gone {
    /// Wraps an error that the harness reported and survived.
    pub fn new(cause: Cause) -> Gone {
        Gone {
            cause,
            stderr_tail: String::new(),
        }
    }
}

/// A snippet that failed to compile or start.
impl From<Failed> for Gone {
    fn from(failed: Failed) -> Gone {
        Gone {
            cause: failed.cause,
            stderr_tail: failed.output,
        }
    }
}

/// Answer to one command.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// All events in order.
    pub events: Vec<Message>,
}

impl Answer {
    /// Returns the fault of `job`, if any.
    pub fn fault(&self, job: &str) -> Option<Cause> {
        let own = |event: &&Message| {
            let of = event.get("job");
            event.verb == "error" && of.is_none_or(|of| of.is_empty() || of == job)
        };
        self.events.iter().find(own).and_then(cause)
    }

    /// Returns the timing of `job` with these samples.
    pub fn timing(&self, job: &str, samples: &Samples) -> Option<SnippetTiming> {
        timing(job, self.events.iter(), samples)
    }

    /// Returns the first event of that verb.
    pub fn first(&self, verb: &str) -> Option<&Message> {
        self.events.iter().find(|event| event.verb == verb)
    }
}

impl Live {
    /// Starts the process of `spec` and reads its description of itself. The limit of `spec` is its
    /// maximum lifetime.
    ///
    /// # Errors
    /// It cannot be started, or ends before it is ready.
    pub fn start(spec: Spec) -> Result<(Live, Answer), Gone> {
        let (orders, next) = channel();
        let (messages, heard) = channel();
        let conversation = Obedient {
            next,
            messages,
            pending: Some("ready"),
            unfinished: None,
            stop_at: None,
            clock: spec.clock,
        };
        let (limit, clock) = (spec.limit, spec.clock);
        let service = Service::conversing(spec.clone(), conversation).map_err(|error| {
            let reason = start_reason(&spec, &error);
            Gone {
                cause: Cause::Start { reason },
                stderr_tail: String::new(),
            }
        })?;
        let mut live = Live {
            orders: Some(orders),
            heard,
            service: Some(service),
            limit,
            clock,
        };
        let ready = live.answer("ready", START, &mut |_| {})?;
        Ok((live, ready))
    }

    /// Process id; 0 once it has ended.
    pub fn pid(&self) -> i32 {
        self.service.as_ref().map_or(0, Service::pid)
    }

    /// Loads `snippet` as `job`.
    ///
    /// # Errors
    /// The process has ended.
    pub fn load(&mut self, job: &str, snippet: &Snippet) -> Result<Answer, Gone> {
        self.ask(load_command(job, snippet), START, &mut |_| {})
    }

    /// Measures the cost of an empty iteration in this process, in nanoseconds, if supported.
    ///
    /// # Errors
    /// The process has ended.
    pub fn empty_ns(&mut self, job: &str) -> Result<Option<f64>, Gone> {
        let answer = self.ask(calibrate_command(job), START, &mut |_| {})?;
        let told = answer.first("calibrated");
        Ok(told.and_then(|told| Some(told.number::<f64>("empty_ps")? / 1000.0)))
    }

    /// Sets the number of workers of `job`.
    ///
    /// # Errors
    /// The process has ended.
    pub fn workers(&mut self, job: &str, count: u32) -> Result<Answer, Gone> {
        self.ask(workers_command(job, count), START, &mut |_| {})
    }

    /// Starts reporting the language's gauges at this interval; the answer holds the first ones.
    ///
    /// # Errors
    /// The process has ended.
    pub fn monitor(&mut self, interval: Duration) -> Result<Answer, Gone> {
        let message = Message::new("monitor").with("id", 6);
        let message = message.with("interval_ns", interval.as_nanos());
        self.ask(message, START, &mut |_| {})
    }

    /// Measures `jobs` at the same time. `hear` receives every event as it arrives. `limit` is the
    /// expected duration; if `None`, it is the limit of the process.
    ///
    /// # Errors
    /// The process died, or took far longer than it should.
    pub fn run(
        &mut self,
        jobs: &[String],
        samples: &Samples,
        stream: bool,
        limit: Option<Duration>,
        hear: &mut dyn FnMut(&Message),
    ) -> Result<Answer, Gone> {
        let mut message = run_command(jobs, samples, false);
        if stream {
            message = message.with("stream", 1);
        }
        let expected = limit.unwrap_or(self.limit);
        self.ask(message, expected, hear)
    }

    /// Lets the process clean up, and waits for its end.
    ///
    /// # Errors
    /// It did not end successfully, or 'done' failed.
    pub fn end(mut self) -> Result<Answer, Gone> {
        self.orders = None;
        let deadline = self.clock.now() + GOODBYE;
        let mut answer = Answer::default();
        while let Ok(event) = self.hear(deadline) {
            answer.events.push(event);
        }
        match self.outcome() {
            Some(gone) => Err(gone),
            None => Ok(answer),
        }
    }

    fn ask(
        &mut self,
        message: Message,
        expected: Duration,
        hear: &mut dyn FnMut(&Message),
    ) -> Result<Answer, Gone> {
        let ends = ends(&message.verb);
        // If the process has ended, waiting for the answer reports it.
        let sent = self.orders.as_ref().map(|orders| orders.send(message));
        drop(sent);
        self.answer(ends, expected * PATIENCE.0 + PATIENCE.1, hear)
    }

    /// Waits for the next event until the deadline.
    fn hear(&self, deadline: Instant) -> Result<Message, RecvTimeoutError> {
        loop {
            let left = self.clock.until(deadline);
            match self.heard.recv_timeout(self.clock.turn(left)) {
                Err(RecvTimeoutError::Timeout) if self.clock.now() < deadline => {}
                heard => return heard,
            }
        }
    }

    /// Collects events up to `ends`, or an error in its place.
    fn answer(
        &mut self,
        ends: &str,
        patience: Duration,
        hear: &mut dyn FnMut(&Message),
    ) -> Result<Answer, Gone> {
        let mut answer = Answer::default();
        let deadline = self.clock.now() + patience;
        loop {
            match self.hear(deadline) {
                Ok(event) => {
                    hear(&event);
                    let over = is_last(&event, ends);
                    answer.events.push(event);
                    if over {
                        return Ok(answer);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let silent = || Gone {
                        cause: Cause::Silent,
                        stderr_tail: String::new(),
                    };
                    return Err(self.outcome().unwrap_or_else(silent));
                }
                Err(RecvTimeoutError::Timeout) => {
                    let limit_ms = patience.as_millis() as u64;
                    let outcome = self.stopped();
                    return Err(Gone {
                        cause: Cause::Timeout { limit_ms },
                        stderr_tail: tail(outcome.as_ref()),
                    });
                }
            }
        }
    }

    /// Stops the process and returns how it failed, if it did.
    fn outcome(&mut self) -> Option<Gone> {
        let limit = self.limit;
        let outcome = self.stopped()?;
        Some(Gone {
            cause: outcome.cause(limit)?,
            stderr_tail: tail(Some(&outcome)),
        })
    }

    fn stopped(&mut self) -> Option<Outcome> {
        self.orders = None;
        self.service.take()?.stop().ok()
    }
}

fn tail(outcome: Option<&Outcome>) -> String {
    outcome.map_or(String::new(), |outcome| {
        outcome.stderr.last_lines(TAIL_LINES)
    })
}

/// Converts an error event to a cause.
pub fn cause(error: &Message) -> Option<Cause> {
    let message = error.get("msg").unwrap_or_default();
    let line = error.number::<u32>("line");
    let line = line
        .filter(|_| message.lines().count() > 0)
        .map(|line| format!("line {line}: "));
    let reason = format!("{}{}", line.unwrap_or_default(), message.trim_end());
    let stage = error.get("stage").unwrap_or_default();
    Some(match stage.as_str() {
        "done" => Cause::Undone { reason },
        "parse" | "compile" => invalid(format!("does not compile: {reason}")),
        "init" => invalid(format!("failed in init: {reason}")),
        "init_runner" => invalid(format!("failed in init-worker: {reason}")),
        "protocol" => invalid(reason),
        _ => invalid(format!("failed: {reason}")),
    })
}

/// Returns the event that completes the answer to a command.
fn ends(verb: &str) -> &'static str {
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

/// Whether an answer is complete. An error completes every answer except that of a run, in which
/// other jobs may continue; a run that was rejected has a protocol error.
fn is_last(event: &Message, ends: &str) -> bool {
    let failed = event.verb == "error" && event.get("stage").as_deref() != Some("done");
    let refused = event.get("stage").as_deref() == Some("protocol");
    event.verb == ends || failed && (ends != "end" || refused)
}

/// The listening side: forwards events, and waits for a command when an answer is complete.
struct Obedient {
    next: Receiver<Message>,
    messages: Sender<Message>,
    pending: Option<&'static str>,
    unfinished: Option<Message>,
    /// When to stop the current run, because a worker that completes nothing would block it
    /// forever.
    stop_at: Option<Instant>,
    clock: Clock,
}

impl Conversation for Obedient {
    fn opening(&mut self) -> Vec<u8> {
        let hello = Message::new("hello").with("id", 1).with("proto", 1);
        hello.to_string().into_bytes()
    }

    fn received(&mut self, line: &[u8]) -> Next {
        let Some(message) = Message::parse(line) else {
            return Next::Wait;
        };
        let message = match self.unfinished.take() {
            Some(mut begun) if begun.is_continued_by(&message) => {
                begun.join(message);
                begun
            }
            _ => message,
        };
        if message.number::<u8>("more") == Some(1) {
            self.unfinished = Some(message);
            return Next::Wait;
        }
        let complete = self.pending.is_some_and(|ends| is_last(&message, ends));
        // If nobody receives, the order to quit follows at once.
        let _ = self.messages.send(message);
        if !complete {
            return Next::Wait;
        }
        match self.next.recv() {
            Ok(order) => {
                self.pending = Some(ends(&order.verb));
                self.stop_at =
                    usual_length(&order).map(|usual| self.clock.now() + usual * 2 + SLACK);
                Next::Send(order.to_string().into_bytes())
            }
            Err(_) => {
                self.pending = None;
                Next::Send(Message::new("quit").with("id", 9).to_string().into_bytes())
            }
        }
    }

    fn waiting(&mut self) -> Option<Vec<u8>> {
        self.stop_at.take_if(|at| self.clock.now() >= *at)?;
        Some(stop())
    }

    fn stopping(&mut self) -> Option<(Vec<u8>, Duration)> {
        Some((stop(), GOODBYE))
    }
}

fn stop() -> Vec<u8> {
    let stop = Message::new("stop").with("id", 8).with("job", "*");
    stop.to_string().into_bytes()
}

/// Duration of a run whose iterations are shorter than its windows.
fn usual_length(order: &Message) -> Option<Duration> {
    let number = |key| order.number::<u64>(key);
    let interval_ns = number("interval_ns").filter(|_| order.verb == "run")?;
    let samples = number("samples")?;
    // A watched run continues until the user ends it.
    let is_watched = number("stream") == Some(1);
    let ns = interval_ns
        .checked_mul(samples)?
        .checked_add(number("warmup_ns")?)?;
    (!is_watched).then(|| Duration::from_nanos(ns))
}

/// Time for measuring the empty runner: a few batches, a hundredth of an ordinary run.
const EMPTY_NS: u64 = 5_000_000;

/// Builds `load` of `snippet` as `job`.
pub fn load_command(job: &str, snippet: &Snippet) -> Message {
    let message = Message::new("load").with("id", 2).with("job", job);
    if snippet.language.is_compiled() {
        return message.with("form", "built");
    }
    let mut message = message
        .with("form", "text")
        .with("lang", snippet.language)
        .with("runner", &snippet.runner);
    let hooks = [
        ("init", &snippet.init),
        ("init_runner", &snippet.init_worker),
        ("prepare", &snippet.prepare),
        ("done", &snippet.done),
    ];
    for (key, hook) in hooks {
        if let Some(text) = hook {
            message = message.with(key, text);
        }
    }
    if snippet.in_shell {
        message = message.with("in_shell", 1);
    }
    if let Some(count) = snippet.warmup {
        message = message.with("warmup", count);
    }
    if snippet.shows_output {
        message = message.with("show", 1);
    }
    match &snippet.nodes {
        None => {}
        Some(Nodes::Local(count)) => message = message.with("nodes", count),
        Some(Nodes::Remote { name, cookie }) => {
            message = message.with("node", name);
            if let Some(cookie) = cookie {
                message = message.with("cookie", cookie);
            }
        }
    }
    for (at, path) in snippet.paths.iter().enumerate() {
        message = message.with(format!("path{at}"), path.display());
    }
    message
}

/// Builds `workers`, which sets the number of workers of `job`.
pub fn workers_command(job: &str, count: u32) -> Message {
    Message::new("workers")
        .with("id", 3)
        .with("job", job)
        .with("n", count)
}

/// Builds `calibrate`, which measures the cost of an empty iteration.
pub fn calibrate_command(job: &str) -> Message {
    Message::new("calibrate")
        .with("id", 4)
        .with("job", job)
        .with("target_ns", EMPTY_NS)
}

/// Builds `run` of `jobs`, divided by `samples`.
pub fn run_command(jobs: &[String], samples: &Samples, is_series: bool) -> Message {
    let run = Message::new("run").with("id", 5).with_list("jobs", jobs);
    let run = match samples.length {
        Length::Iterations(count) if is_series => run
            .with("mode", "series")
            .with("reference", SteadyRule::REFERENCE_EVERY)
            .with("loop", count),
        Length::TimeNs(ns) => run.with("mode", "continuous").with("interval_ns", ns),
        Length::Iterations(count) => run.with("mode", "timed").with("loop", count),
    };
    run.with("samples", samples.count)
        .with("warmup_ns", samples.warmup_ns)
}
