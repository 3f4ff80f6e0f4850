//! `[group.target]`: the program under test, with what a variant changes of it.

use super::parameters::Parameters;
use super::server::{PortKey, ReadyKeys, StopKeys};
use super::variant::PatchKeys;
use crate::part::{Part, nearest_of};
use crate::value::{Many, Plain, Time, Whole, checked, or_placeholder};
use anyhow::Result;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use speedwell_model::assignment::{Change, Target};
use speedwell_model::{Case, Value, milliseconds};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The program under test.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TargetKeys {
    /// A list of words, or a line that is split into words; no shell reads it. It may be in the variant instead.
    command: Option<Command>,
    /// Its folder, below that of the file, which is also where it usually works.
    cwd: Option<String>,
    /// Variables.
    env: Environment,
    /// How long a run may take. Usually as [plan] says.
    timeout: Option<Time>,
    /// Of a command: the exit status that is its good end, or a table with one for each value of a parameter. Usually 0.
    expect_exit: Option<ExpectedExit>,
    /// Of a server: "auto", or the number that it is known to have.
    pub port: PortKey,
    /// Of a server: "private" gives every run a network of its own.
    pub network: Option<Network>,
    /// Of a server: when it is ready: { http = "/", status = 200, within = "10s" }, or the time that it may take.
    /// Without `http` it is enough that it listens.
    pub ready: ReadyKeys,
    /// Of a server: how it is ended: { signal = "SIGINT", grace = "2s" }.
    pub stop: StopKeys,
    /// Of a server: living children that it must have.
    pub expect_processes: Option<Whole<0>>,
}

/// Which network a server has.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = or_placeholder)]
pub enum Network {
    /// One of its own for every run.
    Private,
    /// That of the machine.
    Host,
}

/// Words, or a line that is split into words as a shell would split it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename = "$by-shape")]
#[schemars(untagged, inline)]
pub enum Command {
    #[serde(rename = "a list")]
    Words(Many<String>),
    #[serde(rename = "a text")]
    Line(Line),
}

checked! {
    pub struct Line(Vec<String>) from String as { "type": "string" },
    |line| {
        let words = shell_words::split(&line).unwrap_or_default();
        let wrong = || format!(": '{line}' is not a command");
        (!words.is_empty()).then_some(words).ok_or_else(wrong)
    }
}

impl Command {
    fn words(&self) -> Vec<String> {
        match self {
            Command::Words(words) => words.0.clone(),
            Command::Line(line) => line.0.clone(),
        }
    }
}

/// Arguments, of which there may be none.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename = "$by-shape")]
#[schemars(untagged, inline)]
pub enum Arguments {
    #[serde(rename = "a value")]
    One(Plain),
    #[serde(rename = "a list")]
    Several(Vec<Plain>),
}

impl Arguments {
    /// As the program gets them.
    pub fn texts(&self) -> Vec<String> {
        match self {
            Arguments::Several(values) => values.iter().map(Plain::text).collect(),
            Arguments::One(value) => vec![value.text()],
        }
    }
}

/// Changes of the environment by the names of variables.
pub type Environment = IndexMap<String, Variable>;

/// The value of a variable, or how it changes.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename = "$by-shape")]
#[schemars(untagged, inline)]
pub enum Variable {
    #[serde(rename = "a value")]
    Value(Plain),
    #[serde(rename = "a table")]
    Change(VariableChange),
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VariableChange {
    /// It has this value.
    Set(Plain),
    /// This is added behind what it has: behind a space, or `:` for names that end in PATH.
    Append(Plain),
    /// This is added before what it has.
    Prepend(Plain),
    /// It does not exist.
    Unset(bool),
}

/// The changes of `env` in a table, in order.
pub fn changes(environment: &Environment, part: &Part) -> Result<Vec<Change>> {
    let one = |(name, variable): (&String, &Variable)| {
        let env = part.part("env").unwrap_or_else(|| part.clone());
        if name.is_empty() || name.contains(['=', '\0']) {
            let message = format!("'{name}' cannot be the name of a variable");
            return Err(env.error(name, message));
        }
        let name = name.clone();
        Ok(match variable {
            Variable::Value(value) | Variable::Change(VariableChange::Set(value)) => {
                Change::Set(name, value.text())
            }
            Variable::Change(VariableChange::Append(value)) => Change::Append(name, value.text()),
            Variable::Change(VariableChange::Prepend(value)) => Change::Prepend(name, value.text()),
            Variable::Change(VariableChange::Unset(true)) => Change::Unset(name),
            Variable::Change(VariableChange::Unset(false)) => {
                return Err(env.wrong(&name, "has 'unset = false', which changes nothing"));
            }
        })
    };
    environment.iter().map(one).collect()
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
    /// A process has eight bits for its exit status (POSIX, wait).
    #[derive(Copy)]
    struct ExitStatus(u8) from Whole<0> as { "type": ["integer", "string"], "minimum": 0, "maximum": 255 },
    |status| {
        let wrong = |_| ": an exit status is a number from 0 to 255".to_owned();
        u8::try_from(status.0).map_err(wrong)
    }
}

/// What a target depends on besides its keys.
pub struct Context<'a> {
    /// The folder of the file.
    pub root: &'a Path,
    /// How long a run may take where the target does not say.
    pub limit: Duration,
    /// The case.
    pub case: &'a Case,
    /// The name of the variant.
    pub variant: &'a str,
    /// The command has a placeholder for the program, so its first word is another one.
    pub has_program: bool,
    /// All values that parameters of the group have.
    pub parameters: &'a Parameters,
}

/// The target with the changes of a variant. The placeholders of both are filled.
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

/// Without parts that are `.`, which only puzzle readers.
fn tidy(path: &Path) -> PathBuf {
    path.components().collect()
}

/// The variant's command in the place of the target's, or its program in the place of the first
/// word unless a placeholder says where it belongs; its arguments come last.
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
    let mut command = command.words();
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
