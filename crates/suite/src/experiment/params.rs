//! `[params]`: numbers and words that a whole experiment uses, and what `--set` puts in their place.

use super::vocabulary::Vocabulary;
use crate::keys::{Keys, at, nearest_of};
use anyhow::{Result, bail};
use speedwell_model::Value;

/// Names with a meaning of their own.
pub const RESERVED: [&str; 5] = ["port", "seed", "root", "program", "cpus"];

/// The text that stands for the number of usable processors.
const CPUS: &str = "cpus";

/// What was set on the command line: names with one value or several.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    words: Vec<(String, String)>,
}

impl Settings {
    /// From pairs of name and value; several pairs of one name are several values.
    pub fn new(words: &[(String, String)]) -> Settings {
        Settings {
            words: words.to_vec(),
        }
    }

    /// The values of a name.
    pub fn of(&self, name: &str) -> Vec<&str> {
        let own = self.words.iter().filter(|(known, _)| known == name);
        own.map(|(_, value)| value.as_str()).collect()
    }

    /// Refuses names that are not among the known ones.
    pub fn check(&self, known: &[String]) -> Result<()> {
        let Some((unknown, _)) = self.words.iter().find(|(name, _)| !known.contains(name)) else {
            return Ok(());
        };
        let hint = nearest_of(unknown, known);
        bail!("nothing in the file is called '{unknown}', which is to be set\nhint: {hint}")
    }
}

/// Reads the parameters, each of which may use those before it. `cpus` processors are usable.
pub fn read(top: &Keys, settings: &Settings, cpus: u32) -> Result<Vec<(String, Value)>> {
    let mut found: Vec<(String, Value)> = Vec::new();
    let mut words = Vocabulary::default();
    words.say(CPUS, cpus.to_string());
    let Some(keys) = top.table("params")? else {
        return Ok(found);
    };
    for name in keys.names() {
        check_name(&keys, &name)?;
        let declared = keys.value(&name)?.unwrap_or(Value::Bool(false));
        let line = keys.node(&name).and_then(|node| node.line);
        let path = format!("params.{name}");
        let declared = in_processors(words.fill_value(&declared, line, &path)?, cpus);
        let value = match settings.of(&name)[..] {
            [] => declared,
            [CPUS] => Value::Number(f64::from(cpus)),
            [text] => match Value::parse(text, declared.kind()) {
                Some(value) => value,
                None => bail!("'{name}' cannot be '{text}', since it is {declared} in the file"),
            },
            [..] => {
                return Err(at(
                    line,
                    format!("'{name}' is one value for all cases and cannot be set to several"),
                ));
            }
        };
        words.say(&name, value.plain());
        found.push((name, value));
    }
    Ok(found)
}

/// Refuses a name that could not be a blank.
pub fn check_name(keys: &Keys, name: &str) -> Result<()> {
    let place = &keys.place;
    if RESERVED.contains(&name) {
        let message = format!("{place} cannot have '{name}': that name has a meaning of its own");
        return Err(keys.error(name, message));
    }
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !begins || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        let message = format!("'{name}' in {place} cannot be a blank");
        let hint = "names have letters, digits and '_', and begin with a letter";
        return Err(keys.error(name, format!("{message}\nhint: {hint}")));
    }
    Ok(())
}

fn in_processors(value: Value, cpus: u32) -> Value {
    match value {
        Value::Text(text) if text == CPUS => Value::Number(f64::from(cpus)),
        value => value,
    }
}
