//! `[group.target]`: the program under test, with what a variant changes of it.

use super::cases::Parameters;
use super::environment;
use crate::keys::{Keys, nearest_of};
use crate::tree::Content;
use anyhow::Result;
use speedwell_model::assignment::Target;
use speedwell_model::{Case, Value, milliseconds};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a run is told besides the file's words.
pub struct Circumstances<'a> {
    /// The folder of the file.
    pub root: &'a Path,
    /// How long a run may take where the target does not say.
    pub limit: Duration,
    /// The case.
    pub case: &'a Case,
    /// The name of the variant.
    pub variant: &'a str,
    /// The command has a blank for the program, so its first word is another one.
    pub has_program: bool,
    /// All values that parameters of the group have.
    pub parameters: &'a Parameters,
}

/// Reads the target; `patch` are the keys of the variant. Blanks are filled.
pub fn read(keys: &Keys, patch: &Keys, around: &Circumstances) -> Result<Target> {
    let directory = match patch.text("cwd")? {
        Some(directory) => Some(directory),
        None => keys.text("cwd")?,
    };
    let mut environment = environment::read(keys, "env")?;
    environment.extend(environment::read(patch, "env")?);
    let limit = keys.time("timeout")?.unwrap_or(around.limit);
    Ok(Target {
        command: command(keys, patch, around)?,
        directory: match directory {
            Some(directory) => tidy(&around.root.join(directory)),
            None => around.root.to_owned(),
        },
        environment,
        expected_exit: expected_exit(keys, around)?,
        limit_ms: milliseconds(limit),
    })
}

/// Without parts that are `.`, which only puzzle readers.
fn tidy(path: &Path) -> PathBuf {
    path.components().collect()
}

/// The variant's command in the place of the target's, or its program in the place of the first
/// word unless a blank says where it belongs; its arguments come last.
fn command(keys: &Keys, patch: &Keys, around: &Circumstances) -> Result<Vec<String>> {
    let missing = || {
        let variant = around.variant;
        let hint = format!("command = [\"node\", \"app.js\"], there or in the variant '{variant}'");
        keys.missing("command", &hint)
    };
    let own = words(keys, "command")?;
    let mut command = match words(patch, "command")? {
        Some(command) => command,
        None => own.ok_or_else(missing)?,
    };
    if let Some(program) = patch.text("program")?
        && !around.has_program
        && let Some(first) = command.first_mut()
    {
        *first = program;
    }
    let arguments = patch.node("args").map(|_| arguments(patch)).transpose()?;
    command.extend(arguments.unwrap_or_default());
    Ok(command)
}

/// A list of words, which may be empty and may contain numbers.
pub fn arguments(patch: &Keys) -> Result<Vec<String>> {
    let is_empty = patch
        .node("args")
        .is_none_or(|node| matches!(&node.content, Content::List(items) if items.is_empty()));
    let values = if is_empty {
        None
    } else {
        patch.values("args")?
    };
    let values = values.unwrap_or_default();
    Ok(values.iter().map(|value| value.plain()).collect())
}

/// A list of words, or a line that is split as a shell would.
fn words(keys: &Keys, key: &str) -> Result<Option<Vec<String>>> {
    let Some(line) = keys.node(key).and_then(|node| node.text()) else {
        return keys.texts(key);
    };
    let words = shell_words::split(line)
        .ok()
        .filter(|words| !words.is_empty());
    let wrong = || {
        let message = format!(
            "the key '{key}' of {}: '{line}' is not a command",
            keys.place
        );
        keys.error(key, message)
    };
    words.map(Some).ok_or_else(wrong)
}

/// One status, or one for each value of a parameter.
fn expected_exit(keys: &Keys, around: &Circumstances) -> Result<i32> {
    let is_table = keys
        .node("expect_exit")
        .is_some_and(|node| node.table().is_some());
    if !is_table {
        return Ok(status(keys, "expect_exit")?.unwrap_or(0));
    }
    let Some(by_value) = keys.table("expect_exit")? else {
        return Ok(0);
    };
    let values = around.parameters.iter().flat_map(|(_, values)| values);
    let known: Vec<String> = values.map(Value::plain).collect();
    if let Some(lost) = by_value.names().iter().find(|name| !known.contains(name)) {
        let hint = nearest_of(lost, &known);
        let message = format!("no parameter of the group ever is '{lost}'\nhint: {hint}");
        return Err(by_value.error(lost, message));
    }
    for (_, value) in &around.case.values {
        if let Some(found) = status(&by_value, &value.plain())? {
            return Ok(found);
        }
    }
    let message = format!(
        "the key 'expect_exit' of {} has no entry for the case",
        keys.place
    );
    Err(keys.error("expect_exit", format!("{message} '{}'", around.case.id())))
}

fn status(keys: &Keys, key: &str) -> Result<Option<i32>> {
    let status = keys.whole(key, 0)?;
    // A process has eight bits for its exit status (POSIX, wait).
    if status.is_some_and(|status| status > 255) {
        return Err(keys.error(key, "an exit status is a number from 0 to 255"));
    }
    Ok(status.map(|status| status as i32))
}
