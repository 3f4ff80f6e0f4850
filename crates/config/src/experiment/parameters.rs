//! Reads the parameters in `[params]` and `[group.parameters]`, applies `--set` to them, and builds
//! the cases.

use crate::file_part::{FilePart, error_at_line, nearest_hint};
use crate::placeholders::PlaceholderMap;
use crate::value::{OneOrMany, PlainValue};
use anyhow::{Error, Result, bail};
use indexmap::IndexMap;
use speedwell_model::experiment::GroupParameters;
use speedwell_model::{Case, ParameterValue};
use std::path::Path;

/// Reserved names, which a file cannot define.
pub const RESERVED_NAMES: [&str; 5] = ["port", "seed", "root", "program", "cpus"];

/// Value that stands for the number of processors available to the target.
const CPUS_TEXT: &str = "cpus";

/// Parameters, each with one or more values.
pub type ValueTable = IndexMap<String, OneOrMany<PlainValue>>;

/// Properties of the file that are known before its groups are read.
pub struct FileContext<'a> {
    /// Name of the experiment.
    pub experiment: &'a str,
    /// Folder of the experiment.
    pub root: &'a Path,
    /// Placeholders with the same value in all cases.
    pub known: &'a PlaceholderMap,
    /// Names and values set on the command line. A repeated name has several values.
    pub settings: &'a [(String, String)],
}

/// Returns the values that are set for a name.
fn set_values<'a>(settings: &'a [(String, String)], name: &str) -> Vec<&'a str> {
    let set = settings.iter().filter(|(known, _)| known == name);
    set.map(|(_, value)| value.as_str()).collect()
}

/// Rejects settings of unknown names.
pub fn check_set_names(settings: &[(String, String)], known: &[String]) -> Result<()> {
    let Some((unknown, _)) = settings.iter().find(|(name, _)| !known.contains(name)) else {
        return Ok(());
    };
    let hint = nearest_hint(unknown, known);
    bail!("cannot set '{unknown}': the file does not define it\nhint: {hint}")
}

/// Resolves the parameters of the file; each parameter may refer to earlier ones. `cpus` is the
/// number of processors that the target may use.
pub fn file_parameters(
    params: &IndexMap<String, PlainValue>,
    top: &FilePart,
    settings: &[(String, String)],
    cpus: u32,
) -> Result<Vec<(String, ParameterValue)>> {
    let mut found: Vec<(String, ParameterValue)> = Vec::new();
    let mut defined = PlaceholderMap::default();
    defined.define_value(CPUS_TEXT, cpus.to_string());
    let Some(part) = top.part("params") else { return Ok(found) };
    for (name, declared) in params {
        check_name(&part, name)?;
        let line = part.get(name).and_then(|node| node.line);
        let declared = defined.fill_value(&declared.0, line, &part.place.child_key(name))?;
        let declared = match declared {
            ParameterValue::Text(text) if text == CPUS_TEXT => {
                ParameterValue::Number(f64::from(cpus))
            }
            value => value,
        };
        let value = match set_values(settings, name)[..] {
            [] => declared,
            [CPUS_TEXT] => ParameterValue::Number(f64::from(cpus)),
            [text] => match ParameterValue::parse(text, declared.kind()) {
                Some(value) => value,
                None => bail!(
                    "cannot set '{name}' to '{text}': the file's value, {declared}, is of another kind"
                ),
            },
            [..] => {
                let message = "is set to several values: expected one, because a parameter in \
                               [params] has the same value in all cases";
                return Err(error_at_line(line, format!("'{name}' {message}")));
            }
        };
        defined.define_value(name, value.plain());
        found.push((name.clone(), value));
    }
    Ok(found)
}

/// Rejects a name that cannot be a placeholder.
pub fn check_name(part: &FilePart, name: &str) -> Result<()> {
    if RESERVED_NAMES.contains(&name) {
        return Err(reserved_name_error(part, name));
    }
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !begins || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        let message = format!("'{name}' in {} cannot be a placeholder", part.heading());
        let hint = "names consist of letters, digits and '_', and do not begin with a digit";
        return Err(part.error_at_key(name, format!("{message}\nhint: {hint}")));
    }
    Ok(())
}

/// Creates the error about a name that the file cannot define in this table.
pub fn reserved_name_error(part: &FilePart, name: &str) -> Error {
    let message = format!("{} cannot have '{name}': that name is reserved", part.heading());
    part.error_at_key(name, message)
}

/// Resolves the parameters of a group. Values of `--set` replace declared values.
pub fn group_parameters(
    declared: &ValueTable,
    group: &FilePart,
    file: &FileContext,
) -> Result<GroupParameters> {
    let mut found: GroupParameters = Vec::new();
    let part = group.part("parameters").unwrap_or_else(|| group.clone());
    for (name, values) in declared {
        check_name(&part, name)?;
        let line = part.get(name).and_then(|node| node.line);
        let place = part.place.child_key(name);
        let filled = values
            .iter()
            .map(|value| file.known.fill_value(&value.0, line, &place))
            .collect::<Result<Vec<ParameterValue>>>()?;
        let kind = filled.first().map(ParameterValue::kind);
        let set = set_values(file.settings, name).into_iter().map(|text| {
            let parsed = kind.and_then(|kind| ParameterValue::parse(text, kind));
            parsed.unwrap_or_else(|| ParameterValue::infer_value(text))
        });
        let set: Vec<ParameterValue> = set.collect();
        let values = if set.is_empty() { filled } else { set };
        let mut earlier = values.iter().enumerate();
        if let Some((_, value)) = earlier.find(|(index, value)| values[..*index].contains(value)) {
            let message = format!("the parameter '{name}' has the value '{value}' twice");
            return Err(part.error_at_key(name, message));
        }
        found.push((name.clone(), values));
    }
    Ok(found)
}

/// Returns a case for every combination of values, except those that `exclude` matches. The last
/// parameter changes fastest.
pub fn combine_cases(
    exclude: &[ValueTable],
    group: &FilePart,
    name: &str,
    parameters: &GroupParameters,
    file: &FileContext,
) -> Result<Vec<Case>> {
    let mut rows = Case::cartesian_product(parameters)
        .map_err(|error| group.error_at_key("parameters", error))?;
    let excluded = exclude.iter().zip(group.list_items("exclude"));
    let excluded: Vec<GroupParameters> = excluded
        .map(|(entry, part)| resolve_matching(entry, &part, parameters, file.settings))
        .collect::<Result<_>>()?;
    rows.retain(|row| !excluded.iter().any(|entry| matches_case(entry, row)));
    if rows.is_empty() {
        return Err(group.error_at_key("exclude", "every case is excluded"));
    }
    let benchmark = format!("{}/{name}", file.experiment);
    let cases = rows.into_iter().map(|row| Case::new(&benchmark, row));
    Ok(cases.collect())
}

/// Resolves an `exclude` or `match` table, which gives one or more values for each parameter that
/// it names. Every name must exist. Every value must be declared, unless the parameter is set on
/// the command line.
pub fn resolve_matching(
    entry: &ValueTable,
    part: &FilePart,
    parameters: &GroupParameters,
    settings: &[(String, String)],
) -> Result<GroupParameters> {
    let mut found = Vec::new();
    for (name, wanted) in entry {
        let wanted: Vec<ParameterValue> = wanted.iter().map(|value| value.0.clone()).collect();
        let Some((_, values)) = parameters.iter().find(|(known, _)| known == name) else {
            let hint = nearest_hint(name, parameters.iter().map(|(known, _)| known));
            let message = format!("{} has the unknown parameter '{name}'", part.heading());
            return Err(part.error_at_key(name, format!("{message}\nhint: {hint}")));
        };
        let is_declared =
            |value: &&ParameterValue| values.iter().any(|known| known.plain() == value.plain());
        let is_set = settings.iter().any(|(known, _)| known == name);
        if let Some(missing) = wanted.iter().find(|value| !is_declared(value) && !is_set) {
            let hint = nearest_hint(&missing.plain(), values.iter().map(ParameterValue::plain));
            let message = format!("the parameter '{name}' has no value '{}'", missing.plain());
            return Err(part.error_at_key(name, format!("{message}\nhint: {hint}")));
        }
        found.push((name.clone(), wanted));
    }
    if found.is_empty() {
        return Err(part.wrong_table("has no parameters, so it would match every case"));
    }
    Ok(found)
}

/// Whether a case has, for each parameter in `entry`, one of the values given there. `row` contains
/// the values of the case.
pub fn matches_case(entry: &GroupParameters, row: &[(String, ParameterValue)]) -> bool {
    entry.iter().all(|(name, wanted)| {
        let value = row.iter().find(|(known, _)| known == name);
        value.is_some_and(|(_, value)| {
            wanted.iter().any(|candidate| candidate.plain() == value.plain())
        })
    })
}
