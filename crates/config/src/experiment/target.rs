//! Defines the keys of `[group.target]`, the program under test. A server also has a port, a
//! readiness check and a way to stop it. The metrics that a target reports itself, the types of
//! commands, and the keys that change the environment are at the end. `assignment.rs` applies the
//! changes of a variant.

use super::load::{self, LoadKeys, VerifyKeys};
use crate::file_part::{FilePart, nearest_hint};
use crate::reader::unknown_name;
use crate::value::{
    DurationValue, OneOrMany, PlainValue, RegexPattern, TextOrTable, UrlPath, WholeNumber, checked,
    or_placeholder,
};
use anyhow::Result;
use indexmap::IndexMap;
use regex::Regex;
use rustix::process;
use schemars::JsonSchema;
use serde::Deserialize;
use speedwell_model::assignment::{
    MetricSource, ReadinessCheck, ServerWork, StopSignal, TargetMetric,
};
use speedwell_model::experiment::GroupParameters;
use speedwell_model::expression::QuantityUnit;
use speedwell_model::{Case, Metric, MetricDirection, ParameterValue, as_milliseconds};
use std::path::Path;
use std::time::Duration;

/// Default time for a server to become ready, as in `speedwell load --serve`.
const DEFAULT_READY_LIMIT: Duration = Duration::from_secs(30);

/// Default time limit for a server to stop.
const DEFAULT_STOP_GRACE: Duration = Duration::from_secs(3);

/// Signals that can stop a server, by their names without `SIG`.
const STOP_SIGNALS: [(&str, i32); 7] = [
    ("TERM", process::Signal::TERM.as_raw()),
    ("INT", process::Signal::INT.as_raw()),
    ("QUIT", process::Signal::QUIT.as_raw()),
    ("HUP", process::Signal::HUP.as_raw()),
    ("USR1", process::Signal::USR1.as_raw()),
    ("USR2", process::Signal::USR2.as_raw()),
    ("KILL", process::Signal::KILL.as_raw()),
];

/// The program under test.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TargetKeys {
    /// A list of arguments, or a line that is split into arguments; no shell is involved. A variant
    /// may set it instead.
    pub command: Option<CommandText>,
    /// Working directory, below the folder of the file. Default: that folder.
    pub cwd: Option<String>,
    /// Environment variables.
    pub env: EnvironmentKeys,
    /// Time limit of a run. Default: the time limit in [plan].
    pub timeout: Option<DurationValue>,
    /// Commands only: the expected exit status, or a table with one for each value of a parameter.
    /// Default: 0.
    expect_exit: Option<ExpectedExit>,
    /// Servers only: "auto", or a fixed port number.
    port: PortKey,
    /// Servers only: "private" gives every run its own network.
    network: Option<ServerNetwork>,
    /// Servers only: when the server is ready: { http = "/", status = 200, within = "10s" }, or the
    /// time limit. Without `http`, listening suffices.
    ready: Option<TextOrTable<DurationValue, AnswerKeys>>,
    /// Servers only: how the server is stopped: { signal = "SIGINT", grace = "2s" }.
    stop: StopKeys,
    /// Servers only: expected number of live child processes.
    expect_processes: Option<WholeNumber<0>>,
}

/// Network of a server.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = or_placeholder)]
pub enum ServerNetwork {
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
    struct ExitStatus(u8) from WholeNumber<0> as { "type": ["integer", "string"], "minimum": 0, "maximum": 255 },
    |status| {
        let to_error = |_| ": an exit status is a number from 0 to 255".to_owned();
        u8::try_from(status.0).map_err(to_error)
    }
}

/// Returns the exit status that means success in a case. `parameters` are all parameters of the
/// group with their values.
pub fn expected_exit(
    keys: &TargetKeys,
    part: &FilePart,
    case: &Case,
    parameters: &GroupParameters,
) -> Result<i32> {
    let statuses = match &keys.expect_exit {
        None => return Ok(0),
        Some(ExpectedExit::Always(status)) => return Ok(status.0.into()),
        Some(ExpectedExit::ByValue(statuses)) => statuses,
    };
    let values = parameters.iter().flat_map(|(_, values)| values);
    let value_strings: Vec<String> = values.map(ParameterValue::plain).collect();
    if let Some(unknown) = statuses.keys().find(|name| !value_strings.contains(name)) {
        let hint = nearest_hint(unknown, &value_strings);
        let message = format!("has the value '{unknown}', which no parameter of the group has");
        return Err(part.value_error("expect_exit", format!("{message}\nhint: {hint}")));
    }
    let mut case_values = case.values.iter();
    let status = case_values.find_map(|(_, value)| statuses.get(&value.plain()));
    let id = case.id();
    status
        .map(|status| status.0.into())
        .ok_or_else(|| part.value_error("expect_exit", format!("has no entry for the case '{id}'")))
}

checked! {
    /// `"auto"`, or a port number.
    #[derive(Copy, Default)]
    struct PortKey(Option<u16>) from PlainValue as {
        "type": ["integer", "string"], "minimum": 1, "maximum": 65535
    },
    |value| {
        if value.program_text() == "auto" {
            return Ok(None);
        }
        let port = value.as_whole(1).and_then(|port| u16::try_from(port).ok());
        port.map(Some).ok_or(": a port is a number from 1 to 65535, or \"auto\"".to_owned())
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
    within: Option<DurationValue>,
}

checked! {
    #[derive(Copy)]
    struct HttpStatus(u16) from WholeNumber<0> as {
        "type": ["integer", "string"], "minimum": 100, "maximum": 599
    },
    |status| {
        u16::try_from(status.0)
            .ok()
            .filter(|status| (100..600).contains(status))
            .ok_or(": an HTTP status is a number from 100 to 599".to_owned())
    }
}

/// How a server is stopped.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopKeys {
    /// Signal. Default: "SIGTERM".
    signal: Option<StopSignalKey>,
    /// Time limit of the shutdown. Default: "3s".
    grace: Option<DurationValue>,
}

impl StopKeys {
    /// Resolves the keys, with defaults for missing ones.
    pub fn resolve_stop(&self) -> StopSignal {
        let signal = self.signal.map(|signal| signal.0);
        StopSignal {
            signal: signal.unwrap_or(process::Signal::TERM.as_raw()),
            grace_ms: as_milliseconds(self.grace.map_or(DEFAULT_STOP_GRACE, |grace| grace.0)),
        }
    }
}

checked! {
    #[derive(Copy)]
    struct StopSignalKey(i32) from String as {
        "type": "string", "pattern": r"^(SIG)?(TERM|INT|QUIT|HUP|USR1|USR2|KILL)$|\{[A-Za-z_]"
    },
    |name| {
        let short = name.strip_prefix("SIG").unwrap_or(&name);
        let found = STOP_SIGNALS.iter().find(|(known, _)| *known == short);
        let names = STOP_SIGNALS.map(|(known, _)| format!("SIG{known}"));
        found.map(|(_, signal)| *signal).ok_or_else(|| unknown_name(&name, names))
    }
}

/// Resolves the server, with files relative to `root`. The placeholders of the group must already
/// be filled.
pub fn resolve_service(target: &TargetKeys, group: &FilePart, root: &Path) -> Result<ServerWork> {
    let Some(load) = group.part("load") else {
        return Err(group.missing_key("load", "[group.load] with requests or duration"));
    };
    let keys: LoadKeys = load.read_part()?;
    let verify: Option<VerifyKeys> =
        group.part("verify").map(|part| part.read_part()).transpose()?;
    Ok(ServerWork {
        port: target.port.0,
        private_network: target.network == Some(ServerNetwork::Private),
        ready: resolve_ready(&target.ready),
        stop: target.stop.resolve_stop(),
        children: (target.expect_processes).map(|count| u32::try_from(count.0).unwrap_or(u32::MAX)),
        load: keys.resolve_load(&load, root)?,
        verify: load::resolve_verify(verify),
    })
}

fn resolve_ready(keys: &Option<TextOrTable<DurationValue, AnswerKeys>>) -> ReadinessCheck {
    let (answer, within) = match keys {
        None => (None, None),
        Some(TextOrTable::Text(time)) => (None, Some(*time)),
        Some(TextOrTable::Table(answer)) => (Some(answer), answer.within),
    };
    ReadinessCheck {
        path: answer.and_then(|answer| answer.http.as_ref()).map(|path| path.0.clone()),
        status: answer.and_then(|answer| answer.status).map_or(200, |status| status.0),
        within_ms: ready_limit_ms(within),
    }
}

/// Returns the time limit for becoming ready, in milliseconds.
pub fn ready_limit_ms(within: Option<DurationValue>) -> u64 {
    as_milliseconds(within.map_or(DEFAULT_READY_LIMIT, |time| time.0))
}

// Reads the metrics that a target reports itself (`[group.metric.NAME]`).

/// A metric that the target reports itself, from one of `regex`, `json`, or `from` and `to`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricKeys {
    /// Pattern for stdout; the value is its group (?P<value>...), else its first group.
    regex: Option<RegexPattern>,
    /// A number in the JSON on stdout: "results.0.time".
    json: Option<String>,
    /// Mark at which a time begins: "start", "process-end" or "mark:NAME". Default: "start".
    from: Option<TimeMark>,
    /// Mark at which a time ends. Default: "process-end".
    to: Option<TimeMark>,
    /// "ns", "us", "ms", "s", "B", "KiB", "MiB" ..., or any other string.
    unit: Option<String>,
    /// Whether lower or higher is better; required unless the unit is a time, a size, or ends in
    /// "/s".
    better: Option<BetterDirection>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = or_placeholder)]
enum BetterDirection {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
}

checked! {
    /// Start or end of a time: `start`, `process-end`, or `mark:NAME` for the first output line
    /// with that prefix.
    struct TimeMark(String) from String as {
        "type": "string", "pattern": r"^(start|process-end|mark:.+)$|\{[A-Za-z_]"
    },
    |mark| {
        let name = mark.strip_prefix("mark:");
        if name.is_some_and(|name| !name.is_empty()) || mark == "start" || mark == "process-end" {
            return Ok(mark);
        }
        Err(unknown_name(&mark, ["start", "process-end", "mark:NAME"]))
    }
}

/// Returns the metrics that the target of a group reports itself, in order. The placeholders of
/// `group` must already be filled.
pub fn target_figures(group: &FilePart) -> Result<Vec<TargetMetric>> {
    let keys: Option<IndexMap<String, MetricKeys>> = group.read_key("metric")?;
    let parts = group.child_tables("metric");
    let tables = keys.into_iter().flatten().map(|(_, keys)| keys);
    tables.zip(&parts).map(|(keys, part)| resolve_figure(keys, part)).collect()
}

/// Resolves a metric that the target reports itself. Times are stored in nanoseconds, and sizes in
/// bytes, whatever unit the target reports. By default, less time and memory are better, and more per
/// second is better; for anything else, the file must specify the direction.
fn resolve_figure(keys: MetricKeys, part: &FilePart) -> Result<TargetMetric> {
    let unit = keys.unit.clone().unwrap_or_else(|| "1".to_owned());
    let known_unit = QuantityUnit::find_unit(&unit);
    let (mut stored, mut factor) =
        known_unit.map_or((unit.as_str(), 1.0), |unit| (unit.stored, unit.factor));
    let (better, has_unit) = (keys.better, keys.unit.is_some());
    let from = figure_origin(keys, part)?;
    if let MetricSource::Marks(..) = from {
        // A time between marks is measured by Speedwell, in nanoseconds.
        if has_unit && stored != "ns" {
            let message = format!("a time between marks cannot have the unit '{unit}'");
            return Err(part.error_at_key("unit", format!("{message}\nhint: unit = \"ms\"")));
        }
        (stored, factor) = ("ns", 1.0);
    }
    let better = match better {
        Some(BetterDirection::Lower) => MetricDirection::Lower,
        Some(BetterDirection::Higher) => MetricDirection::Higher,
        None => match MetricDirection::of_unit(stored) {
            MetricDirection::Unknown => {
                return Err(part.missing_key("better", "better = \"lower\", or \"higher\""));
            }
            known => known,
        },
    };
    Ok(TargetMetric { metric: Metric::new(part.place.last_key(), stored, better), from, factor })
}

fn figure_origin(keys: MetricKeys, part: &FilePart) -> Result<MetricSource> {
    let mut found = Vec::new();
    if let Some(RegexPattern(pattern)) = keys.regex {
        let groups = Regex::new(&pattern).map_or(0, |pattern| pattern.captures_len());
        if groups < 2 {
            let message = format!("the pattern '{pattern}' has no group for the value");
            let hint = r"time: (?P<value>[\d.]+) ms";
            return Err(part.error_at_key("regex", format!("{message}\nhint: {hint}")));
        }
        found.push(MetricSource::Regex(pattern));
    }
    found.extend(keys.json.map(MetricSource::Json));
    if keys.from.is_some() || keys.to.is_some() {
        let mark_or = |mark: Option<TimeMark>, default: &str| {
            mark.map_or_else(|| default.to_owned(), |mark| mark.0)
        };
        let (from, to) = (mark_or(keys.from, "start"), mark_or(keys.to, "process-end"));
        found.push(MetricSource::Marks(from, to));
    }
    match (found.pop(), found.is_empty()) {
        (Some(origin), true) => Ok(origin),
        _ => Err(part.wrong_table(
            "must have exactly one source of values\n\
             hint: regex = '(?P<value>...)', json = \"results.0.time\", or from = \"mark:NAME\" \
             and to",
        )),
    }
}

// How a program is started: its command line, and changes to its environment. Both are keys of
// targets, variants and services; `assignment.rs` resolves the changes.

/// Arguments, or a line that is split into arguments as in a shell.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename = "$by-shape")]
#[schemars(untagged, inline)]
pub enum CommandText {
    #[serde(rename = "a list")]
    Words(OneOrMany<String>),
    #[serde(rename = "a string")]
    Line(SplitLine),
}

checked! {
    pub struct SplitLine(Vec<String>) from String as { "type": "string" },
    |line| {
        let words = shell_words::split(&line).unwrap_or_default();
        let error = || format!(": cannot parse command '{line}'");
        (!words.is_empty()).then_some(words).ok_or_else(error)
    }
}

impl CommandText {
    /// Returns the arguments, the program first.
    pub fn argv(&self) -> Vec<String> {
        match self {
            CommandText::Words(words) => words.0.clone(),
            CommandText::Line(line) => line.0.clone(),
        }
    }
}

/// Arguments, possibly none.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename = "$by-shape")]
#[schemars(untagged, inline)]
pub enum CommandArguments {
    #[serde(rename = "a value")]
    One(PlainValue),
    #[serde(rename = "a list")]
    Several(Vec<PlainValue>),
}

impl CommandArguments {
    /// Returns the arguments as strings.
    pub fn to_strings(&self) -> Vec<String> {
        match self {
            CommandArguments::Several(values) => {
                values.iter().map(PlainValue::program_text).collect()
            }
            CommandArguments::One(value) => vec![value.program_text()],
        }
    }
}

/// Changes to environment variables by name.
pub type EnvironmentKeys = IndexMap<String, VariableValue>;

/// Value of a variable, or a change to it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename = "$by-shape")]
#[schemars(untagged, inline)]
pub enum VariableValue {
    #[serde(rename = "a value")]
    Value(PlainValue),
    #[serde(rename = "a table")]
    Change(VariableChange),
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VariableChange {
    /// Sets the variable to this value.
    Set(PlainValue),
    /// Appends this, separated by a space, or by `:` if the variable's name ends in PATH.
    Append(PlainValue),
    /// Prepends this, with the same separators.
    Prepend(PlainValue),
    /// Removes the variable.
    Unset(bool),
}
