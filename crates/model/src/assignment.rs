//! What one run of an experiment has to do, with everything filled in that can be known before it begins.
//!
//! It is plain data that travels as JSON to the process that performs the run. What is known only there are a
//! port and its address: `{port}` stays a blank in texts until then. A definition file says all this for many
//! cases and variants at once; here it is said for one of each. Start at [`Assignment`].

use super::load_spec::LoadSpec;
use super::{Metric, Placement};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// The program under test. Only what is in here differs between variants.
    pub target: Target,
    /// What is done with it.
    pub work: Work,
    /// What must be seen, or the variant did not take effect.
    pub proofs: Vec<Proof>,
    /// Figures that the target itself gives.
    pub figures: Vec<Figure>,
    /// Figures of the operating system that are wanted although they cost something, such as
    /// `instructions:u`.
    pub also: Vec<String>,
    /// How processors are divided; all share all of them without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processors: Option<Shares>,
    /// The run is recorded instead of timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profiling>,
    /// What the target needs beside it, in the order of its start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<BackingService>,
    /// Where services are that were started before the run and outlive it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<Blank>,
    /// The first and the last port that a free one is taken from; any without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<(u16, u16)>,
    /// The machines of its parts, where they have machines of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Box<Placement>>,
}

/// A blank that is filled when its run begins, and its text: `db.port` and `20001`.
pub type Blank = (String, String);

impl Assignment {
    /// The same with these blanks of its target and its load filled.
    #[must_use]
    pub fn fill(mut self, blanks: &[Blank]) -> Assignment {
        self.target = self.target.fill(blanks);
        if let Work::Server(service) = &mut self.work {
            let spec = std::mem::take(&mut service.load.spec);
            service.load.spec = spec.fill(&|text| filled(text, blanks));
        }
        self
    }
}

/// The text with these blanks filled.
pub fn filled(text: &str, blanks: &[Blank]) -> String {
    let fill = |text: String, (name, value): &Blank| text.replace(&format!("{{{name}}}"), value);
    blanks.iter().fold(text.to_owned(), fill)
}

/// How many processors are whose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shares {
    /// Those of the target.
    pub target: u32,
    /// Those of what sends the load.
    pub load: u32,
}

/// How a run is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profiling {
    /// With what.
    pub tool: ProfilingTool,
    /// A server is recorded from the end of its warm-up on, not from its start.
    pub after_warmup: bool,
}

/// What records a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProfilingTool {
    /// perf, and V8's own profiler where there is no perf.
    Auto,
    /// perf of Linux.
    Perf,
    /// V8's own profiler.
    V8,
}

/// The program under test and the circumstances that it is started in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// Program and arguments; no shell reads them.
    pub command: Vec<String>,
    /// Its working directory.
    pub directory: PathBuf,
    /// Changes of our own environment, in order.
    pub environment: Vec<Change>,
    /// The exit status that is its good end, of a command.
    pub expected_exit: i32,
    /// Time after which it is ended, in milliseconds.
    pub limit_ms: u64,
}

impl Target {
    /// The same with these blanks filled.
    #[must_use]
    pub fn fill(mut self, blanks: &[Blank]) -> Target {
        for text in self.texts_mut() {
            *text = filled(text, blanks);
        }
        self
    }

    /// The words of the command, and the values of variables.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let values = (self.environment.iter_mut()).filter_map(|change| match change {
            Change::Unset(_) => None,
            Change::Set(_, value) | Change::Append(_, value) | Change::Prepend(_, value) => {
                Some(value)
            }
        });
        self.command.iter_mut().chain(values)
    }

    /// The variables that get a value of their own, for a line that a person could type.
    pub fn plain_environment(&self) -> Vec<(String, String)> {
        let values = self.environment.iter().filter_map(|change| match change {
            Change::Unset(_) => None,
            Change::Set(name, value)
            | Change::Append(name, value)
            | Change::Prepend(name, value) => Some((name.clone(), value.clone())),
        });
        values.collect()
    }
}

/// A change of one variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// It has this value.
    Set(String, String),
    /// It does not exist.
    Unset(String),
    /// This comes after what it has, behind a separator if there is something: `:` for names that end in
    /// `PATH`, else a blank.
    Append(String, String),
    /// This comes before what it has.
    Prepend(String, String),
}

/// What is done with the target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum Work {
    /// It runs to its end.
    Command,
    /// It serves, and gets a load.
    Server(Box<Service>),
    /// A load as `speedwell load` sends it, to a server that its line for a shell starts or that runs already.
    Load(Box<LoadSpec>),
}

/// A server and its load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Service {
    /// The port that it is told, or that it is known to have. `None`: a free one.
    pub port: Option<u16>,
    /// It gets a network of its own, so that a fixed port cannot be taken.
    pub private_network: bool,
    /// When it counts as ready.
    pub ready: Ready,
    /// How it is ended.
    pub stop: Stop,
    /// Living children that it must have, as soon as it is ready and still at the end.
    pub children: Option<u32>,
    /// What is sent.
    pub load: Traffic,
    /// What answers must be.
    pub verify: Verify,
}

/// A program that the target needs, such as a database: it is started before the target, and ended after it, or after later ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BackingService {
    /// Its name.
    pub name: String,
    /// The program; `{port}` and `{host}` stay blanks.
    pub program: Target,
    /// A command that succeeds when it is ready; without, it is enough that it listens at its port.
    pub ready: Option<Vec<String>>,
    /// How long that may take, in milliseconds.
    pub within_ms: u64,
    /// How it is ended.
    pub stop: Stop,
    /// How long it lives.
    #[serde(default)]
    pub scope: Scope,
}

impl BackingService {
    /// The same with these blanks filled.
    #[must_use]
    pub fn fill(mut self, blanks: &[Blank]) -> BackingService {
        self.program = self.program.fill(blanks);
        for word in self.ready.iter_mut().flatten() {
            *word = filled(word, blanks);
        }
        self
    }
}

/// How long a service lives. What lives longer is the greater one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Each run has a fresh one.
    #[default]
    Run,
    /// The runs of a case in a block share one.
    Block,
    /// All runs of a session share one.
    Session,
}

/// Services that are started once for several runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Keeping {
    /// They, in the order of their start.
    pub services: Vec<BackingService>,
    /// Where those are that were started before and live longer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<Blank>,
    /// As for [`Assignment`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<(u16, u16)>,
    /// As for [`Assignment`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Box<Placement>>,
}

/// When a server counts as ready: it listens itself, and a request is answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ready {
    /// The path of the request; `None`: it is enough that it listens.
    pub path: Option<String>,
    /// The status of the answer.
    pub status: u16,
    /// How long that may take, in milliseconds.
    pub within_ms: u64,
}

/// How a server is ended. Whatever is left of its processes afterwards is killed, and told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// The number of the signal.
    pub signal: i32,
    /// How long its end may take, in milliseconds.
    pub grace_ms: u64,
}

/// A load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// What is sent; `{port}` stays open in its address.
    pub spec: LoadSpec,
    /// What is sent before, and thrown away.
    pub warmup: Warmup,
}

impl Traffic {
    /// Requests in flight on all connections together.
    pub fn in_flight(&self) -> u32 {
        self.spec.concurrency.unwrap_or(1)
    }
}

/// What is sent before the load that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Warmup {
    /// Nothing.
    None,
    /// So many requests.
    Requests(u64),
    /// Requests for so many milliseconds.
    DurationMs(u64),
    /// Requests until a second is like the one before, at most for so many milliseconds.
    SteadyMs(u64),
}

/// What answers must be; checked with one request before the load and one after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verify {
    /// The path of the request, that of the load unless it is said.
    pub path: Option<String>,
    /// Statuses from and to that are good, in the load, too.
    pub statuses: Vec<(u16, u16)>,
    /// What the body must be.
    pub body: Option<BodyRule>,
    /// Answers must be equally long under all variants.
    pub same_bytes: bool,
}

/// What a body must be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BodyRule {
    /// It has a match of this pattern.
    Regex(String),
    /// It contains this text.
    Contains(String),
    /// It is JSON and equal to this, whatever the order of keys.
    Json(serde_json::Value),
    /// It is a JSON array or object of so many entries.
    JsonLength(u64),
    /// It has so many bytes.
    Bytes(u64),
}

/// What must be seen of a variant that took effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// Where.
    pub place: Place,
    /// A pattern that must be found there.
    pub pattern: String,
    /// Looked at when the target has ended, not when it is ready.
    pub at_exit: bool,
}

/// Where a proof is looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// What the target writes on stdout.
    Stdout,
    /// What the target writes on stderr.
    Stderr,
    /// A file, whose earlier content does not count.
    File(PathBuf),
    /// The answer to a request for this path.
    Http(String),
}

/// A figure that the target gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What it is called, its unit and its direction.
    pub metric: Metric,
    /// Where it comes from.
    pub from: Origin,
    /// The value in the output is multiplied by this to get the metric's unit.
    pub factor: f64,
}

/// Where a figure comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The group `value` of a pattern, or its first group; every match on stdout is a value.
    Regex(String),
    /// A number in the JSON on stdout: names and indices, `results.0.time`.
    Json(String),
    /// From a mark to a mark. A mark is `start` (the process begins), `process-end`, or the first line on stdout
    /// or stderr that begins with `mark:NAME`.
    Marks(String, String),
}
