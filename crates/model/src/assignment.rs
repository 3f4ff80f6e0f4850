//! Defines the instructions for one run of an experiment. Everything that is known before the run
//! is filled in.
//!
//! An assignment is plain data, sent as JSON to the process that performs the run. Only that
//! process knows its address and the port of the target, so `{port}` stays a placeholder. A
//! definition file describes many cases and variants; an assignment describes one case under one
//! variant. Start at [`RunAssignment`].

use super::load::spec::LoadSpec;
use super::{MachinePlacement, Metric};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Instructions for one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunAssignment {
    /// The program under test, which is what variants change.
    pub target: TargetProgram,
    /// The work that is measured.
    pub work: TargetWork,
    /// Evidence that the variant took effect. The run fails if any evidence is missing.
    pub proofs: Vec<VariantProof>,
    /// Metrics that the target itself reports.
    pub figures: Vec<TargetMetric>,
    /// Further metrics of the operating system, such as `instructions:u`. They are collected only
    /// on request, because collecting them has a cost.
    pub also: Vec<String>,
    /// How processors are divided; `None` lets all processes use all processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processors: Option<ProcessorShares>,
    /// If this is set, the run is profiled instead of timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfilingOptions>,
    /// Backing services of the target, in start order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<BackingService>,
    /// Where the run takes place.
    #[serde(flatten)]
    pub place: AssignedPlace,
}

/// Where the processes of a run, or services shared by several runs, are started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AssignedPlace {
    /// Addresses of services that were started earlier and have a longer lifetime.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<PlaceholderValue>,
    /// Inclusive range from which a free port is taken; `None` for any port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<(u16, u16)>,
    /// The machines of the run's roles, such as target and load; `None` if the roles are not
    /// assigned to machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Box<MachinePlacement>>,
}

/// The name and value of a placeholder, such as `db.port` and `20001`.
pub type PlaceholderValue = (String, String);

impl RunAssignment {
    /// Expands these placeholders in the target and, if the target is a server, in the load.
    #[must_use]
    pub fn fill_placeholders(mut self, blanks: &[PlaceholderValue]) -> RunAssignment {
        self.target = self.target.fill_placeholders(blanks);
        if let TargetWork::Server(service) = &mut self.work {
            let spec = std::mem::take(&mut service.load.spec);
            service.load.spec = spec.fill_placeholders(&|text| fill_text(text, blanks));
        }
        self
    }
}

/// Expands these placeholders in `text`.
pub fn fill_text(text: &str, blanks: &[PlaceholderValue]) -> String {
    let fill = |text: String, (name, value): &PlaceholderValue| {
        text.replace(&format!("{{{name}}}"), value)
    };
    blanks.iter().fold(text.to_owned(), fill)
}

/// How processors are divided between target and load generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessorShares {
    /// Processors of the target.
    pub target: u32,
    /// Processors of the load generator.
    pub load: u32,
}

/// How a run is profiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfilingOptions {
    /// The profiler.
    pub tool: ProfilingTool,
    /// Whether a server is recorded from the end of its warm-up instead of from its start.
    pub after_warmup: bool,
}

/// The profiler that records a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProfilingTool {
    /// Linux perf, or V8's own profiler where perf is missing.
    Auto,
    /// Linux perf.
    Perf,
    /// V8's own profiler.
    V8,
}

/// The program under test and how to start it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetProgram {
    /// Program and arguments, executed without a shell.
    pub command: Vec<String>,
    /// Its working directory.
    pub directory: PathBuf,
    /// Changes to the inherited environment, in order.
    pub environment: Vec<EnvVarChange>,
    /// For a command, the exit status that means success.
    pub expected_exit: i32,
    /// Time limit in milliseconds.
    pub limit_ms: u64,
}

impl TargetProgram {
    /// Expands these placeholders.
    #[must_use]
    pub fn fill_placeholders(mut self, blanks: &[PlaceholderValue]) -> TargetProgram {
        self.strings_mut().for_each(|text| *text = fill_text(text, blanks));
        self
    }

    /// The words of the command and the values of environment variables.
    pub fn strings_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let values = (self.environment.iter_mut()).filter_map(|change| match change {
            EnvVarChange::Unset(_) => None,
            EnvVarChange::Set(_, value)
            | EnvVarChange::Append(_, value)
            | EnvVarChange::Prepend(_, value) => Some(value),
        });
        self.command.iter_mut().chain(values)
    }

    /// The environment variables that are set for the target, for users to copy to a command line.
    /// An appended or prepended string is returned as if it were the whole value.
    pub fn plain_environment(&self) -> Vec<(String, String)> {
        let values = self.environment.iter().map(|change| change.apply(|_| None));
        values.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

/// A change to one environment variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EnvVarChange {
    /// Sets the variable to this value.
    Set(String, String),
    /// Removes the variable.
    Unset(String),
    /// Appends this string to the value. The separator is `:` for names that end in `PATH`,
    /// otherwise a space. There is no separator if the value is empty.
    Append(String, String),
    /// Prepends this string to the value, with the same separator.
    Prepend(String, String),
}

impl EnvVarChange {
    /// Returns the name of the variable and its value after the change; `None` if the change
    /// removes it. `current` returns the value before the change.
    pub fn apply(&self, current: impl FnOnce(&str) -> Option<String>) -> (&str, Option<String>) {
        let (name, added, is_prefix) = match self {
            EnvVarChange::Set(name, value) => return (name, Some(value.clone())),
            EnvVarChange::Unset(name) => return (name, None),
            EnvVarChange::Append(name, added) => (name, added, false),
            EnvVarChange::Prepend(name, added) => (name, added, true),
        };
        let separator = if name.ends_with("PATH") { ":" } else { " " };
        let value = match current(name).filter(|value| !value.is_empty()) {
            Some(value) if is_prefix => format!("{added}{separator}{value}"),
            Some(value) => format!("{value}{separator}{added}"),
            None => added.clone(),
        };
        (name, Some(value))
    }
}

/// The measured work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum TargetWork {
    /// Runs the target to completion.
    Command,
    /// Starts the target as a server and sends a load to it.
    Server(Box<ServerWork>),
    /// Sends a load, as the command `speedwell load` does. The load's shell command starts the
    /// server, or the server is already running.
    Load(Box<LoadSpec>),
}

/// A server and its load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerWork {
    /// The fixed port of the server. Either Speedwell passes it to the server, or the server always
    /// uses it. `None` picks a free port.
    pub port: Option<u16>,
    /// Whether the server runs in its own network namespace, so that a fixed port is always free.
    pub private_network: bool,
    /// The check that determines whether the server is ready.
    pub ready: ReadinessCheck,
    /// How to stop the server.
    pub stop: StopSignal,
    /// Number of child processes that must be alive when the server is ready, and at the end of the
    /// run.
    pub children: Option<u32>,
    /// The load to send.
    pub load: ServerLoad,
    /// Requirements that a response must meet.
    pub verify: ResponseCheck,
}

/// A program that the target needs, such as a database. The service starts before the target. It
/// stops after the target, or later if several runs share the service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BackingService {
    /// Its name.
    pub name: String,
    /// The program; `{port}` and `{host}` stay placeholders.
    pub program: TargetProgram,
    /// A command that succeeds once the service is ready; `None` waits until the service listens on
    /// its port.
    pub ready: Option<Vec<String>>,
    /// Time limit for becoming ready, in milliseconds.
    pub within_ms: u64,
    /// How to stop the service.
    pub stop: StopSignal,
    /// Its lifetime.
    #[serde(default)]
    pub scope: ServiceScope,
}

impl BackingService {
    /// Expands these placeholders.
    #[must_use]
    pub fn fill_placeholders(mut self, blanks: &[PlaceholderValue]) -> BackingService {
        self.program = self.program.fill_placeholders(blanks);
        self.ready.iter_mut().flatten().for_each(|word| *word = fill_text(word, blanks));
        self
    }
}

/// Lifetime of a service. Longer lifetimes compare greater.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServiceScope {
    /// One instance per run.
    #[default]
    Run,
    /// One instance per case and block.
    Block,
    /// One instance per session.
    Session,
}

/// Services shared by several runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScopedServices {
    /// The services, in start order.
    pub services: Vec<BackingService>,
    /// Where the services are started.
    #[serde(flatten)]
    pub place: AssignedPlace,
}

/// The check that a server is ready: the server listens and answers a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReadinessCheck {
    /// Path of the request. With `None`, no request is sent, and the server is ready once it
    /// listens.
    pub path: Option<String>,
    /// Expected status of the response.
    pub status: u16,
    /// Time limit in milliseconds.
    pub within_ms: u64,
}

/// How a server is stopped. Processes that remain afterwards are killed and reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopSignal {
    /// Signal number.
    pub signal: i32,
    /// Grace period in milliseconds.
    pub grace_ms: u64,
}

/// The load sent to a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerLoad {
    /// The load; `{port}` in its URL stays a placeholder.
    pub spec: LoadSpec,
    /// Warm-up before the load, not measured.
    pub warmup: LoadWarmup,
}

impl ServerLoad {
    /// Requests in flight over all connections.
    pub fn in_flight(&self) -> u32 {
        self.spec.concurrency.unwrap_or(1)
    }
}

/// Warm-up requests sent before the measured load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadWarmup {
    /// No warm-up.
    None,
    /// This many requests.
    Requests(u64),
    /// Requests for this many milliseconds.
    DurationMs(u64),
    /// Requests until throughput and median latency change little from one second to the next, at
    /// most for this many milliseconds.
    SteadyMs(u64),
}

/// Requirements that a response must meet. The responses to one request before the load and one
/// after it are checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResponseCheck {
    /// Path of the request; by default the path of the load.
    pub path: Option<String>,
    /// Inclusive ranges of accepted statuses, which also apply to the responses to the load.
    pub statuses: Vec<(u16, u16)>,
    /// Requirement on the body.
    pub body: Option<BodyRule>,
    /// Whether responses must have the same length under all variants.
    pub same_bytes: bool,
}

/// Requirement on a response body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BodyRule {
    /// Matches this pattern.
    Regex(String),
    /// Contains this string.
    Contains(String),
    /// Is JSON equal to this value, regardless of key order.
    Json(serde_json::Value),
    /// Is a JSON array or object with this many entries.
    JsonLength(u64),
    /// Has this many bytes.
    Bytes(u64),
}

/// Evidence that a variant took effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariantProof {
    /// Where to search for the pattern.
    pub place: ProofSource,
    /// Pattern that must match there.
    pub pattern: String,
    /// Whether to check after the target has exited instead of when it is ready.
    pub at_exit: bool,
}

/// Where to search for evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProofSource {
    /// Standard output of the target.
    Stdout,
    /// Standard error of the target.
    Stderr,
    /// A file; content from before the run is ignored.
    File(PathBuf),
    /// The response to a request for this path.
    Http(String),
}

/// A metric that the target reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetMetric {
    /// Name, unit and direction.
    pub metric: Metric,
    /// Where to read it.
    pub from: MetricSource,
    /// Factor that converts the output's value to the metric's unit.
    pub factor: f64,
}

/// Where a metric is read from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricSource {
    /// A pattern to search for on stdout. Every match yields a value: the text of the group
    /// `value`, or of the first group if there is no such group.
    Regex(String),
    /// A number in the JSON on stdout, by keys and indices: `results.0.time`.
    Json(String),
    /// The time between two marks. A mark is `start` (the process starts), `process-end`, or the
    /// first line on stdout or stderr that starts with `mark:NAME`.
    Marks(String, String),
}
