//! Reads `[[group]]` tables. A group defines the work to measure, its parameters and cases, and
//! overrides for some of the cases.

use super::load::{LoadKeys, VerifyKeys};
use super::parameters::{
    FileContext, ValueTable, combine_cases, group_parameters, resolve_matching,
};
use super::target::{MetricKeys, TargetKeys};
use crate::file_part::{FilePart, NodeTable, TreeNode, nearest_hint};
use crate::reader::unknown_name;
use crate::value::{DeferredValue, OneOrMany, PlainValue, WholeNumber, checked, choice_name};
use anyhow::Result;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use speedwell_model::experiment::{
    ALSO_METRICS, BenchmarkGroup, GroupKind, GroupParameters, SeedSource,
};
use speedwell_model::{Metric, ParameterValue};
use std::path::PathBuf;

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
    let parameters = group_parameters(&keys.parameters, part, file)?;
    let cases = if kind == GroupKind::Function {
        Vec::new()
    } else {
        combine_cases(&keys.exclude, part, &name, &parameters, file)?
    };
    let overrides = resolve_overrides(&keys.overrides, part, &parameters, file.settings)?;
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
