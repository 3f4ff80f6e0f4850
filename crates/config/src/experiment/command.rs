//! Reads how a program is started: its command line, and changes to its environment. Both are keys
//! of targets and variants.

use crate::file_part::FilePart;
use crate::value::{OneOrMany, PlainValue, checked};
use anyhow::Result;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use speedwell_model::assignment::EnvVarChange;

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

/// Resolves the `env` table of `part` to a list of changes, in the order of the file.
pub fn environment_changes(
    environment: &EnvironmentKeys,
    part: &FilePart,
) -> Result<Vec<EnvVarChange>> {
    let resolve = |(name, variable): (&String, &VariableValue)| {
        let env = part.part("env").unwrap_or_else(|| part.clone());
        if name.is_empty() || name.contains(['=', '\0']) {
            let message = format!("'{name}' is not a valid variable name");
            return Err(env.error_at_key(name, message));
        }
        let name = name.clone();
        Ok(match variable {
            VariableValue::Value(value) | VariableValue::Change(VariableChange::Set(value)) => {
                EnvVarChange::Set(name, value.program_text())
            }
            VariableValue::Change(VariableChange::Append(value)) => {
                EnvVarChange::Append(name, value.program_text())
            }
            VariableValue::Change(VariableChange::Prepend(value)) => {
                EnvVarChange::Prepend(name, value.program_text())
            }
            VariableValue::Change(VariableChange::Unset(true)) => EnvVarChange::Unset(name),
            VariableValue::Change(VariableChange::Unset(false)) => {
                return Err(env.value_error(&name, "has 'unset = false', which changes nothing"));
            }
        })
    };
    environment.iter().map(resolve).collect()
}
