//! `[group.target]`: the program under test, and what a variant changes about it. A server also has
//! a port, a readiness check and a way to stop it.

use super::command::{Arguments, Command, Environment, changes};
use super::load::LoadKeys;
use super::parameters::Parameters;
use super::variant::PatchKeys;
use super::verify::{self, VerifyKeys};
use crate::part::{Part, nearest_of};
use crate::reader::unknown_name;
use crate::value::{Plain, Time, UrlPath, Whole, checked, or_placeholder};
use anyhow::Result;
use indexmap::IndexMap;
use rustix::process;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use speedwell_model::assignment::{Ready, Service, Stop, Target};
use speedwell_model::{Case, Value, milliseconds};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default time limit for a server to be ready, as for `speedwell load --serve`.
pub const READY: Duration = Duration::from_secs(30);

/// Default time limit for a server to stop.
const GRACE: Duration = Duration::from_secs(3);

/// Signals that can stop a server, by their names without `SIG`.
const SIGNALS: [(&str, i32); 7] = [
    ("TERM", process::Signal::TERM.as_raw()),
    ("INT", process::Signal::INT.as_raw()),
    ("QUIT", process::Signal::QUIT.as_raw()),
    ("HUP", process::Signal::HUP.as_raw()),
    ("USR1", process::Signal::USR1.as_raw()),
    ("USR2", process::Signal::USR2.as_raw()),
    ("KILL", process::Signal::KILL.as_raw()),
];

/// What a group does with its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A server, which receives a load.
    Server,
    /// A program that runs to completion.
    Command,
    /// Benchmark files, measured by their harness.
    Function,
    /// The short form, `[benchmark.NAME]`: a server receives a load as from `speedwell load`.
    #[serde(skip_deserializing)]
    Load,
}

/// The program under test.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TargetKeys {
    /// A list of arguments, or a line that is split into arguments; no shell is involved. A variant
    /// may have it instead.
    command: Option<Command>,
    /// Working directory, below the folder of the file. Default: that folder.
    cwd: Option<String>,
    /// Environment variables.
    env: Environment,
    /// Time limit of a run. Default: that of [plan].
    timeout: Option<Time>,
    /// Of a command: the expected exit status, or a table with one for each value of a parameter.
    /// Default: 0.
    expect_exit: Option<ExpectedExit>,
    /// Of a server: "auto", or its fixed port number.
    port: PortKey,
    /// Of a server: "private" gives every run its own network.
    network: Option<Network>,
    /// Of a server: when it is ready: { http = "/", status = 200, within = "10s" }, or the time
    /// limit. Without `http`, listening suffices.
    ready: ReadyKeys,
    /// Of a server: how it is stopped: { signal = "SIGINT", grace = "2s" }.
    stop: StopKeys,
    /// Of a server: expected number of live child processes.
    expect_processes: Option<Whole<0>>,
}

/// Network of a server.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = or_placeholder)]
pub enum Network {
    /// A separate one for every run.
    Private,
    /// The machine's network.
    Host,
}

/// One status, or one for each value of a parameter.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "$by-shape")]
#[schemars(untagged, inline)]
enum ExpectedExit {
    #[serde(rename = "a number")]
    Always(ExitStatus),
    #[serde(rename = "a table")]
    ByValue(IndexMap<String, ExitStatus>),
}

checked! {
    /// An exit status has eight bits (POSIX, wait).
    #[derive(Copy)]
    struct ExitStatus(u8) from Whole<0> as { "type": ["integer", "string"], "minimum": 0, "maximum": 255 },
    |status| {
        let wrong = |_| ": an exit status is a number from 0 to 255".to_owned();
        u8::try_from(status.0).map_err(wrong)
    }
}

/// What a target depends on besides its keys.
pub struct Context<'a> {
    /// Folder of the file.
    pub root: &'a Path,
    /// Default time limit of a run.
    pub limit: Duration,
    /// Case.
    pub case: &'a Case,
    /// Name of the variant.
    pub variant: &'a str,
    /// Whether the command has a placeholder for the program, so its first argument is something
    /// else.
    pub has_program: bool,
    /// All parameters of the group with their values.
    pub parameters: &'a Parameters,
}

/// Resolves the target with the changes of a variant. The placeholders of both are filled.
pub fn resolve(
    (keys, part): (&TargetKeys, &Part),
    (patch, patch_part): (&PatchKeys, &Part),
    context: &Context,
) -> Result<Target> {
    let mut environment = changes(&keys.env, part)?;
    environment.extend(changes(&patch.env, patch_part)?);
    let limit = keys.timeout.map_or(context.limit, |limit| limit.0);
    Ok(Target {
        command: command(keys, part, patch, context)?,
        directory: match patch.cwd.as_ref().or(keys.cwd.as_ref()) {
            Some(directory) => tidy(&context.root.join(directory)),
            None => context.root.to_owned(),
        },
        environment,
        expected_exit: expected_exit(keys, part, context)?,
        limit_ms: milliseconds(limit),
    })
}

/// Removes `.` components, which would only confuse readers.
pub fn tidy(path: &Path) -> PathBuf {
    path.components().collect()
}

/// Returns the variant's command, or that of the target with the variant's program as the first
/// argument, unless a placeholder marks the program's position; the variant's arguments come last.
fn command(
    keys: &TargetKeys,
    part: &Part,
    patch: &PatchKeys,
    context: &Context,
) -> Result<Vec<String>> {
    let Some(command) = patch.command.as_ref().or(keys.command.as_ref()) else {
        let variant = context.variant;
        let hint = format!("command = [\"node\", \"app.js\"], there or in the variant '{variant}'");
        return Err(part.missing("command", &hint));
    };
    let mut command = command.argv();
    if let Some(program) = &patch.program
        && !context.has_program
        && let Some(first) = command.first_mut()
    {
        first.clone_from(program);
    }
    command.extend(patch.args.iter().flat_map(Arguments::texts));
    Ok(command)
}

fn expected_exit(keys: &TargetKeys, part: &Part, context: &Context) -> Result<i32> {
    let statuses = match &keys.expect_exit {
        None => return Ok(0),
        Some(ExpectedExit::Always(status)) => return Ok(status.0.into()),
        Some(ExpectedExit::ByValue(statuses)) => statuses,
    };
    let values = context.parameters.iter().flat_map(|(_, values)| values);
    let known: Vec<String> = values.map(Value::plain).collect();
    if let Some(lost) = statuses.keys().find(|name| !known.contains(name)) {
        let hint = nearest_of(lost, &known);
        let message = format!("has the value '{lost}', which no parameter of the group has");
        return Err(part.wrong("expect_exit", format!("{message}\nhint: {hint}")));
    }
    let mut of_case = context.case.values.iter();
    let found = of_case.find_map(|(_, value)| statuses.get(&value.plain()));
    let id = context.case.id();
    found
        .map(|status| status.0.into())
        .ok_or_else(|| part.wrong("expect_exit", format!("has no entry for the case '{id}'")))
}

checked! {
    /// `"auto"`, or a port number.
    #[derive(Copy, Default)]
    struct PortKey(Option<u16>) from Plain as {
        "type": ["integer", "string"], "minimum": 1, "maximum": 65535
    },
    |value| {
        if value.text() == "auto" {
            return Ok(None);
        }
        let port = value.whole(1).and_then(|port| u16::try_from(port).ok());
        port.map(Some).ok_or(": a port is a number from 1 to 65535, or \"auto\"".to_owned())
    }
}

/// A time limit, or a request that is repeated until it is answered.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "$by-shape")]
#[schemars(untagged, inline)]
enum ReadyKeys {
    #[serde(rename = "a text")]
    Within(Time),
    #[serde(rename = "a table")]
    Answer(AnswerKeys),
}

impl Default for ReadyKeys {
    fn default() -> ReadyKeys {
        ReadyKeys::Within(Time(READY))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AnswerKeys {
    /// Path of the request. Without one, listening suffices.
    http: Option<UrlPath>,
    /// Status of the response. Default: 200.
    status: Option<HttpStatus>,
    /// Time limit. Default: "30s".
    within: Option<Time>,
}

checked! {
    #[derive(Copy)]
    struct HttpStatus(u16) from Whole<0> as {
        "type": ["integer", "string"], "minimum": 100, "maximum": 599
    },
    |status| {
        let status = u16::try_from(status.0).ok();
        let status = status.filter(|status| (100..600).contains(status));
        status.ok_or(": a status of HTTP is a number from 100 to 599".to_owned())
    }
}

/// How a server is stopped.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopKeys {
    /// Signal. Default: "SIGTERM".
    signal: Option<Signal>,
    /// Time limit of the shutdown. Default: "3s".
    grace: Option<Time>,
}

impl StopKeys {
    /// Resolves the keys, with defaults for missing ones.
    pub fn resolve(&self) -> Stop {
        let signal = self.signal.map(|signal| signal.0);
        Stop {
            signal: signal.unwrap_or(process::Signal::TERM.as_raw()),
            grace_ms: milliseconds(self.grace.map_or(GRACE, |grace| grace.0)),
        }
    }
}

checked! {
    #[derive(Copy)]
    struct Signal(i32) from String as {
        "type": "string", "pattern": r"^(SIG)?(TERM|INT|QUIT|HUP|USR1|USR2|KILL)$|\{[A-Za-z_]"
    },
    |name| {
        let short = name.strip_prefix("SIG").unwrap_or(&name);
        let found = SIGNALS.iter().find(|(known, _)| *known == short);
        let names = SIGNALS.map(|(known, _)| format!("SIG{known}"));
        found.map(|(_, signal)| *signal).ok_or_else(|| unknown_name(&name, &names))
    }
}

/// Resolves the server, with files relative to `root`. The placeholders of the group are filled.
pub fn service(target: &TargetKeys, group: &Part, root: &Path) -> Result<Service> {
    let Some(load) = group.part("load") else {
        return Err(group.missing("load", "[group.load] with requests or duration"));
    };
    let keys: LoadKeys = load.read()?;
    let verify: Option<VerifyKeys> = group.part("verify").map(|part| part.read()).transpose()?;
    Ok(Service {
        port: target.port.0,
        private_network: target.network == Some(Network::Private),
        ready: ready(&target.ready),
        stop: target.stop.resolve(),
        children: (target.expect_processes).map(|count| u32::try_from(count.0).unwrap_or(u32::MAX)),
        load: keys.resolve(&load, root)?,
        verify: verify::resolve(verify),
    })
}

fn ready(keys: &ReadyKeys) -> Ready {
    match keys {
        ReadyKeys::Within(time) => Ready {
            path: None,
            status: 200,
            within_ms: milliseconds(time.0),
        },
        ReadyKeys::Answer(answer) => Ready {
            path: answer.http.as_ref().map(|path| path.0.clone()),
            status: answer.status.map_or(200, |status| status.0),
            within_ms: milliseconds(answer.within.map_or(READY, |time| time.0)),
        },
    }
}
