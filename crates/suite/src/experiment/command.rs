//! How a program is started: its command line and changes to its environment, as written in targets
//! and variants.

use crate::part::Part;
use crate::value::{Many, Plain, checked};
use anyhow::Result;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use speedwell_model::assignment::Change;

/// Arguments, or a line that is split into arguments like in a shell.
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
    /// Returns the arguments, the program first.
    pub fn argv(&self) -> Vec<String> {
        match self {
            Command::Words(words) => words.0.clone(),
            Command::Line(line) => line.0.clone(),
        }
    }
}

/// Arguments, possibly none.
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
    /// Returns the arguments as texts.
    pub fn texts(&self) -> Vec<String> {
        match self {
            Arguments::Several(values) => values.iter().map(Plain::text).collect(),
            Arguments::One(value) => vec![value.text()],
        }
    }
}

/// Changes to environment variables by name.
pub type Environment = IndexMap<String, Variable>;

/// Value of a variable, or a change to it.
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
    /// Sets the variable to this value.
    Set(Plain),
    /// Appends this, separated by a space, or `:` for names that end in PATH.
    Append(Plain),
    /// Prepends this, with the same separators.
    Prepend(Plain),
    /// Removes the variable.
    Unset(bool),
}

/// Returns the changes of `env` in a table, in order.
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
