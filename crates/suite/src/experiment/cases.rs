//! Parameters of a group: every combination, without those that are excluded, and what overrides
//! change for some of them.

use super::params::{Settings, check_name};
use super::vocabulary::Vocabulary;
use crate::keys::{Keys, nearest_of};
use crate::tree::{Content, Node, Table};
use anyhow::Result;
use speedwell_model::{Case, Value};

/// Sections of a group that an override may change.
pub const SECTIONS: [&str; 4] = ["target", "load", "verify", "metric"];

/// Keys that say the same in different ways: one in an override takes the place of the other.
const ALTERNATIVES: [(&str, &str); 3] = [
    ("requests", "duration"),
    ("url", "path"),
    ("concurrency", "connections"),
];

/// Parameters with their values.
pub type Parameters = Vec<(String, Vec<Value>)>;

/// An exception for some cases.
#[derive(Debug, Clone)]
pub struct Override {
    /// Which cases: each parameter has one of these values.
    pub matches: Parameters,
    /// What changes.
    pub patch: Table,
}

/// Reads `[group.parameters]`, with the values that were set in the place of declared ones.
pub fn parameters(group: &Keys, words: &Vocabulary, settings: &Settings) -> Result<Parameters> {
    let Some(keys) = group.table("parameters")? else {
        return Ok(Vec::new());
    };
    let mut found: Parameters = Vec::new();
    for name in keys.names() {
        check_name(&keys, &name)?;
        let declared = keys.values(&name)?.unwrap_or_default();
        let line = keys.node(&name).and_then(|node| node.line);
        let path = format!("parameters.{name}");
        let declared = declared
            .iter()
            .map(|value| words.fill_value(value, line, &path));
        let declared = declared.collect::<Result<Vec<Value>>>()?;
        let values = chosen(&name, declared, settings);
        let twice = values
            .iter()
            .enumerate()
            .find(|(at, value)| values[..*at].contains(value));
        if let Some((_, value)) = twice {
            let message = format!("the parameter '{name}' has the value '{value}' twice");
            return Err(keys.error(&name, message));
        }
        found.push((name, values));
    }
    Ok(found)
}

/// The values that were set for a parameter, else those that the file declares.
pub fn chosen(name: &str, declared: Vec<Value>, settings: &Settings) -> Vec<Value> {
    let kind = declared.first().map(Value::kind);
    let set = settings.of(name).into_iter().map(|text| match kind {
        Some(kind) => Value::parse(text, kind).unwrap_or_else(|| Value::guess(text)),
        None => Value::guess(text),
    });
    let set: Vec<Value> = set.collect();
    if set.is_empty() { declared } else { set }
}

/// All combinations that no entry of `exclude` has, the last parameter changing fastest.
pub fn combine(
    group: &Keys,
    benchmark: &str,
    parameters: &Parameters,
    settings: &Settings,
) -> Result<Vec<Case>> {
    let rows = Case::combinations(parameters);
    let mut rows = rows.map_err(|error| group.error("parameters", error))?;
    let mut excluded = Vec::new();
    for keys in group.list("exclude")? {
        excluded.push(matches(&keys, parameters, settings)?);
    }
    rows.retain(|row| !excluded.iter().any(|entry| fits(entry, row)));
    if rows.is_empty() {
        return Err(group.error("exclude", "every case is excluded"));
    }
    Ok(rows
        .into_iter()
        .map(|row| Case::new(benchmark, row))
        .collect())
}

/// Reads the overrides.
pub fn overrides(
    group: &Keys,
    parameters: &Parameters,
    settings: &Settings,
) -> Result<Vec<Override>> {
    let mut found = Vec::new();
    for keys in group.list("override")? {
        let Some(inner) = keys.table("match")? else {
            return Err(keys.missing("match", "match = { server = \"express\" }"));
        };
        let mut patch = Table::default();
        for section in SECTIONS {
            if let Some(part) = keys.table(section)? {
                let node = part.names().into_iter().filter_map(|key| {
                    let node = part.node(&key)?.clone();
                    Some((key, node))
                });
                let content = Content::Table(node.collect());
                patch.insert(
                    section.to_owned(),
                    Node {
                        line: None,
                        content,
                    },
                );
            }
        }
        keys.finish()?;
        let matches = matches(&inner, parameters, settings)?;
        found.push(Override { matches, patch });
    }
    Ok(found)
}

/// Names of parameters with a value or several, each of which must exist.
fn matches(keys: &Keys, parameters: &Parameters, settings: &Settings) -> Result<Parameters> {
    let known: Vec<String> = parameters.iter().map(|(name, _)| name.clone()).collect();
    let mut found = Vec::new();
    for name in keys.names() {
        let wanted = keys.values(&name)?.unwrap_or_default();
        let Some((_, values)) = parameters.iter().find(|(known, _)| *known == name) else {
            let hint = nearest_of(&name, &known);
            let message = format!(
                "{} names the parameter '{name}', which the group has not",
                keys.place
            );
            return Err(keys.error(&name, format!("{message}\nhint: {hint}")));
        };
        let is_there = |value: &&Value| values.iter().any(|known| known.plain() == value.plain());
        let is_set = !settings.of(&name).is_empty();
        if let Some(lost) = wanted.iter().find(|value| !is_there(value) && !is_set) {
            let texts: Vec<String> = values.iter().map(Value::plain).collect();
            let hint = nearest_of(&lost.plain(), &texts);
            let message = format!("the parameter '{name}' never is '{}'", lost.plain());
            return Err(keys.error(&name, format!("{message}\nhint: {hint}")));
        }
        found.push((name, wanted));
    }
    if found.is_empty() {
        return Err(keys.wrong_table("names no parameter, so it would mean every case"));
    }
    Ok(found)
}

fn fits(entry: &Parameters, row: &[(String, Value)]) -> bool {
    entry.iter().all(|(name, wanted)| {
        let value = row.iter().find(|(known, _)| known == name);
        value.is_some_and(|(_, value)| wanted.iter().any(|one| one.plain() == value.plain()))
    })
}

/// The sections of a group as they are for one case. A key of an override takes the place of the
/// group's, with everything below it.
pub fn patched(group: &Table, overrides: &[Override], case: &Case) -> Table {
    let mut patched = group.clone();
    for exception in overrides
        .iter()
        .filter(|one| fits(&one.matches, &case.values))
    {
        for (section, patch) in &exception.patch {
            let content = Content::Table(Table::default());
            let node = patched.entry(section.clone()).or_insert(Node {
                line: patch.line,
                content,
            });
            if let (Content::Table(into), Some(from)) = (&mut node.content, patch.table()) {
                match section.as_str() {
                    "metric" => from
                        .iter()
                        .for_each(|(name, node)| merge_metric(into, name, node)),
                    _ => from.iter().for_each(|(key, node)| put(into, key, node)),
                }
            }
        }
    }
    patched
}

fn merge_metric(into: &mut Table, name: &str, patch: &Node) {
    match (
        into.get_mut(name).map(|node| &mut node.content),
        patch.table(),
    ) {
        (Some(Content::Table(known)), Some(patch)) => {
            patch.iter().for_each(|(key, node)| put(known, key, node));
        }
        _ => {
            into.insert(name.to_owned(), patch.clone());
        }
    }
}

fn put(into: &mut Table, key: &str, node: &Node) {
    for (one, other) in ALTERNATIVES {
        if key == one {
            into.shift_remove(other);
        } else if key == other {
            into.shift_remove(one);
        }
    }
    into.insert(key.to_owned(), node.clone());
}
