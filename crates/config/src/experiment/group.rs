//! Reads `[[group]]` tables. A group defines the work to measure, its parameters and cases, and
//! overrides for some of the cases.

use super::load::{LoadKeys, VerifyKeys};
use super::target::{MetricKeys, TargetKeys};
use crate::file_part::{FilePart, NodeTable, TreeNode, error_at_line, nearest_hint};
use crate::placeholders::PlaceholderMap;
use crate::reader::unknown_name;
use crate::value::{DeferredValue, OneOrMany, PlainValue, WholeNumber, checked, choice_name};
use anyhow::{Error, Result, bail};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use speedwell_model::experiment::{
    ALSO_METRICS, BenchmarkGroup, GroupKind, GroupParameters, SeedSource,
};
use speedwell_model::{Case, Metric, ParameterValue};
use std::path::{Path, PathBuf};

/// Sections of a group whose strings may have placeholders. An override may change them.
pub(super) const OVERRIDABLE_SECTIONS: [&str; 4] = ["target", "load", "verify", "metric"];

/// An exception for some cases.
#[derive(Debug, Clone)]
pub struct GroupOverride {
    /// Selects the cases to which the exception applies: those in which each of these parameters
    /// has one of its listed values.
    pub(super) matches: GroupParameters,
    /// Changes by section.
    pub(super) patch: NodeTable,
}

/// What a group does with its target.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "GroupKind")]
enum KindKey {
    /// A server, which receives a load.
    Server,
    /// A program that runs to completion.
    Command,
    /// Benchmark files, measured by their harness.
    Function,
}

checked! {
    #[derive(Default)]
    struct SeedKey(SeedSource) from PlainValue as {
        "type": ["string", "number", "boolean"],
        "anyOf": [{ "enum": ["per-block", "per-run"] }, { "type": "integer", "minimum": 0 }]
    },
    |value| match &value.0 {
        ParameterValue::Text(when) => match when.as_str() {
            "per-block" => Ok(SeedSource::PerBlock),
            "per-run" => Ok(SeedSource::PerRun),
            _ => Err(unknown_name(when, ["per-block", "per-run"])),
        },
        _ => WholeNumber::<0>::try_from(value).map(|seed| SeedSource::Fixed(seed.0)),
    }
}

/// A group: the measured work and its cases.
#[expect(dead_code, reason = "some keys are read later, for each case")]
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("allOf" = [
    { "if": { "properties": { "kind": { "const": "server" } } }, "then": {
        "required": ["target", "load"], "not": { "anyOf": [{ "required": ["files"] }] }
    } },
    { "if": { "properties": { "kind": { "const": "command" } } }, "then": {
        "required": ["target"], "not": { "anyOf": [
            { "required": ["files"] }, { "required": ["load"] }, { "required": ["verify"] }
        ] }
    } },
    { "if": { "properties": { "kind": { "const": "function" } } }, "then": {
        "required": ["files"], "not": { "anyOf": [
            { "required": ["target"] }, { "required": ["load"] }, { "required": ["verify"] },
            { "required": ["metric"] }
        ] }
    } }
]))]
pub struct GroupKeys {
    /// Name of the group; cases are named `EXPERIMENT/NAME`.
    name: String,
    /// Kind of the group.
    kind: KindKey,
    /// Values or lists of values: one case for every combination.
    #[serde(default)]
    parameters: ValueTable,
    /// Cases that have all values of one of these tables are omitted.
    #[serde(default)]
    exclude: OneOrMany<ValueTable>,
    /// Exceptions for some cases.
    #[serde(default, rename = "override")]
    overrides: OneOrMany<OverrideKeys>,
    /// Metrics to report, the headline first.
    metrics: Option<OneOrMany<String>>,
    /// Counters that are costly or that not every machine has: "instructions:u", "page-faults" ...
    #[serde(default)]
    also: OneOrMany<AlsoName>,
    /// Seed of its runs: "per-block" (the same for all variants of a block), "per-run", or a
    /// number.
    #[serde(default)]
    seed: SeedKey,
    /// Functions only: benchmark files, measured by their harness.
    files: Option<OneOrMany<String>>,
    /// Program under test.
    target: Option<DeferredValue<TargetKeys>>,
    /// Load on a server.
    load: Option<DeferredValue<LoadKeys>>,
    /// Expected responses of a server.
    verify: Option<DeferredValue<VerifyKeys>>,
    /// Metrics that the target reports itself.
    metric: Option<DeferredValue<IndexMap<String, MetricKeys>>>,
}

/// Exceptions of a group for some cases. A key replaces the same key of the group, including
/// everything below it; a metric keeps the keys that the exception does not name.
#[expect(dead_code, reason = "some keys are read later, for each case")]
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OverrideKeys {
    /// Selects the cases: parameters with one or more values.
    #[serde(rename = "match")]
    matches: ValueTable,
    /// Changes of the target.
    target: Option<DeferredValue<TargetKeys>>,
    /// Changes of the load.
    load: Option<DeferredValue<LoadKeys>>,
    /// Changes of the expected responses.
    verify: Option<DeferredValue<VerifyKeys>>,
    /// Changes of the metrics that the target reports itself.
    metric: Option<DeferredValue<IndexMap<String, MetricKeys>>>,
}

checked! {
    /// Name of a counter of the operating system.
    struct AlsoName(String) from String as {
        "enum": ALSO_METRICS.map(|(name, _)| name)
    },
    |name| {
        let names = ALSO_METRICS.map(|(name, _)| name);
        let error = unknown_name(&name, names);
        names.contains(&name.as_str()).then_some(name).ok_or(error)
    }
}

/// Resolves the group at `part`, with its exceptions for some cases.
pub fn resolve_group(
    keys: GroupKeys,
    part: &FilePart,
    file: &FileContext,
) -> Result<(BenchmarkGroup, Vec<GroupOverride>)> {
    let name = keys.name;
    let kind = match keys.kind {
        KindKey::Server => GroupKind::Server,
        KindKey::Command => GroupKind::Command,
        KindKey::Function => GroupKind::Function,
    };
    if name.is_empty() || name.contains(|c: char| c.is_whitespace() || ",=()[]/".contains(c)) {
        let message =
            format!("the name '{name}' is empty or contains white space or one of ,=/()[]");
        return Err(part.error_at_key("name", message));
    }
    let (placeholders, settings) = (file.known, file.settings);
    let parameters = group_parameters(&keys.parameters, part, placeholders, settings)?;
    let benchmark = format!("{}/{name}", file.experiment);
    let cases = if kind == GroupKind::Function {
        Vec::new()
    } else {
        combine_cases(&keys.exclude, part, &benchmark, &parameters, settings)?
    };
    let overrides = resolve_overrides(&keys.overrides, part, &parameters, settings)?;
    check_sections(part, kind)?;
    let group = BenchmarkGroup {
        name,
        kind,
        files: resolve_files(keys.files, part, kind, file)?,
        parameters,
        cases,
        expected_loads: Vec::new(),
        metrics: Vec::new(),
        target_metrics: Vec::new(),
        also: keys.also.0.into_iter().map(|name| name.0).collect(),
        seed: keys.seed.0,
    };
    Ok((group, overrides))
}

/// Rejects sections that the kind of the group does not support, and a group without a section that
/// its kind needs.
fn check_sections(part: &FilePart, kind: GroupKind) -> Result<()> {
    let (allowed, needed): (&[&str], &[&str]) = match kind {
        GroupKind::Server => (&OVERRIDABLE_SECTIONS, &["target", "load"]),
        GroupKind::Command => (&["target", "metric"], &["target"]),
        GroupKind::Function | GroupKind::Load => (&[], &[]),
    };
    if let Some(section) = needed.iter().find(|section| !part.has(section)) {
        let hint = match *section {
            "load" => "[group.load] with requests or duration",
            _ => "[group.target] with command = [...]",
        };
        return Err(part.missing_key(section, hint));
    }
    for section in OVERRIDABLE_SECTIONS {
        let Some(node) = part.get(section) else { continue };
        if !allowed.contains(&section) {
            let message =
                format!("a group of kind '{}' cannot have '{section}'", choice_name(&kind));
            return Err(part.error_at_key(section, message));
        }
        check_table(part, section, node)?;
    }
    Ok(())
}

fn check_table(part: &FilePart, section: &str, node: &TreeNode) -> Result<()> {
    let error = || part.value_error(section, "must be a table");
    node.as_table().map(|_| ()).ok_or_else(error)
}

fn resolve_files(
    files: Option<OneOrMany<String>>,
    part: &FilePart,
    kind: GroupKind,
    file: &FileContext,
) -> Result<Vec<PathBuf>> {
    match (files, kind) {
        (Some(files), GroupKind::Function) => {
            let line = part.get("files").and_then(|node| node.line);
            let place = part.place.child_key("files");
            let filled = files.iter().map(|path| file.known.fill_placeholders(path, line, &place));
            filled.map(|path| path.map(|path| file.root.join(path))).collect()
        }
        (None, GroupKind::Function) => {
            Err(part.missing_key("files", "files = [\"bench/parse.js\"]"))
        }
        (Some(_), kind) => {
            let message = format!("a group of kind '{}' cannot have 'files'", choice_name(&kind));
            Err(part.error_at_key("files", format!("{message}\nhint: kind = \"function\"")))
        }
        (None, _) => Ok(Vec::new()),
    }
}

fn resolve_overrides(
    overrides: &[OverrideKeys],
    group: &FilePart,
    parameters: &GroupParameters,
    settings: &[(String, String)],
) -> Result<Vec<GroupOverride>> {
    let mut found = Vec::new();
    for (keys, part) in overrides.iter().zip(group.list_items("override")) {
        let inner = part.part("match").unwrap_or_else(|| part.clone());
        let mut patch = NodeTable::default();
        for section in OVERRIDABLE_SECTIONS {
            if let Some(node) = part.get(section) {
                check_table(&part, section, node)?;
                patch.insert(section.to_owned(), node.clone());
            }
        }
        found.push(GroupOverride {
            matches: resolve_matching(&keys.matches, &inner, parameters, settings)?,
            patch,
        });
    }
    Ok(found)
}

/// Decides the metrics of a group. `target` holds the metrics that the target reports itself.
pub fn decide_metrics(
    group: &mut BenchmarkGroup,
    target: &[Metric],
    part: &FilePart,
) -> Result<()> {
    group.target_metrics = target.iter().map(|metric| metric.name.clone()).collect();
    // The target's own metrics and the metrics in `also` are always reported, whether or not the
    // key `metrics` lists them, too.
    let declared: Vec<Metric> = target.iter().cloned().chain(group.also_metrics()).collect();
    let default_names = || -> Vec<String> {
        let first: &[&str] = match group.kind {
            GroupKind::Server | GroupKind::Load => {
                &["throughput", "latency_p50", "latency_p99", "cpu_per_request"]
            }
            GroupKind::Command if declared.is_empty() => &["wall_time"],
            _ => &[],
        };
        first.iter().map(|name| (*name).to_owned()).collect()
    };
    let wanted: Option<OneOrMany<String>> = part.read_key("metrics")?;
    let mut found: Vec<Metric> = Vec::new();
    for name in &wanted.map_or_else(default_names, |names| names.0) {
        let metric = declared.iter().find(|metric| metric.name == *name).cloned();
        match metric.or_else(|| group.find_metric(name)) {
            Some(metric) => found.push(metric),
            None if group.kind == GroupKind::Function => {}
            None => {
                let hint = nearest_hint(name, group.known_metrics(target));
                let message = format!("the group '{}' has no metric '{name}'", group.name);
                return Err(part.error_at_key("metrics", format!("{message}\nhint: {hint}")));
            }
        }
    }
    for metric in declared {
        if !found.iter().any(|other| other.name == metric.name) {
            found.push(metric);
        }
    }
    group.metrics = found;
    Ok(())
}

// Reads the parameters in `[params]` and `[group.parameters]`, applies `--set` to them, and builds the
// cases.

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
    known: &PlaceholderMap,
    settings: &[(String, String)],
) -> Result<GroupParameters> {
    let mut found: GroupParameters = Vec::new();
    let part = group.part("parameters").unwrap_or_else(|| group.clone());
    for (name, values) in declared {
        check_name(&part, name)?;
        let line = part.get(name).and_then(|node| node.line);
        let place = part.place.child_key(name);
        let filled = values
            .iter()
            .map(|value| known.fill_value(&value.0, line, &place))
            .collect::<Result<Vec<ParameterValue>>>()?;
        let kind = filled.first().map(ParameterValue::kind);
        let set = set_values(settings, name).into_iter().map(|text| {
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
    benchmark: &str,
    parameters: &GroupParameters,
    settings: &[(String, String)],
) -> Result<Vec<Case>> {
    let mut rows = Case::cartesian_product(parameters)
        .map_err(|error| group.error_at_key("parameters", error))?;
    let excluded = exclude.iter().zip(group.list_items("exclude"));
    let excluded: Vec<GroupParameters> = excluded
        .map(|(entry, part)| resolve_matching(entry, &part, parameters, settings))
        .collect::<Result<_>>()?;
    rows.retain(|row| !excluded.iter().any(|entry| matches_case(entry, row)));
    if rows.is_empty() {
        return Err(group.error_at_key("exclude", "every case is excluded"));
    }
    let cases = rows.into_iter().map(|row| Case::new(benchmark, row));
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
