//! `[[group]]`: the measured work, its cases, and overrides for some of them.

use super::load::LoadKeys;
use super::metric::{self, MetricKeys};
use super::parameters::{self, Parameters, Settings, ValueTable, fits};
use super::target::{Kind, TargetKeys};
use super::verify::VerifyKeys;
use crate::part::{Part, Place};
use crate::placeholders::Placeholders;
use crate::reader::unknown_name;
use crate::tree::{Content, Node, Table};
use crate::value::{Deferred, Many, Plain, Whole, checked, name_of};
use anyhow::Result;
use indexmap::IndexMap;
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use speedwell_model::{Case, Metric, Value, seed_of_step};
use std::path::{Path, PathBuf};

/// Sections of a group that an override may change.
const SECTIONS: [&str; 4] = ["target", "load", "verify", "metric"];

/// Alternative keys: one in an override replaces the other.
const ALTERNATIVES: [(&str, &str); 3] = [
    ("requests", "duration"),
    ("url", "path"),
    ("concurrency", "connections"),
];

/// Source of the seed of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "Plain")]
#[schemars(inline, extend("anyOf" = [{ "enum": ["per-block", "per-run"] }, { "type": "integer", "minimum": 0 }]))]
pub enum Seed {
    /// The same for all variants of a block, different in the next block.
    #[default]
    PerBlock,
    /// Different for every run.
    PerRun,
    /// Always this one.
    Fixed(u64),
}

impl TryFrom<Plain> for Seed {
    type Error = String;

    fn try_from(value: Plain) -> Result<Seed, String> {
        match &value.0 {
            Value::Text(when) => match when.as_str() {
                "per-block" => Ok(Seed::PerBlock),
                "per-run" => Ok(Seed::PerRun),
                _ => Err(unknown_name(
                    when,
                    &["per-block", "per-run"].map(str::to_owned),
                )),
            },
            _ => Whole::<0>::try_from(value).map(|seed| Seed::Fixed(seed.0)),
        }
    }
}

impl Seed {
    /// Returns the seed of the run in a slot; `of_block` is that of its block.
    pub fn of_run(self, of_block: u64, slot: u32) -> u64 {
        match self {
            Seed::PerBlock => of_block,
            Seed::PerRun => seed_of_step(of_block, slot),
            Seed::Fixed(seed) => seed,
        }
    }
}

/// A group.
#[derive(Debug, Clone)]
pub struct Group {
    /// Name of the group.
    pub name: String,
    /// Kind of the group.
    pub kind: Kind,
    /// Parameters of its cases. For benchmark files: values that replace declared ones.
    pub parameters: Parameters,
    /// Cases in order; empty for benchmark files, whose cases are unknown.
    pub cases: Vec<Case>,
    /// Metrics, the headline first. If empty, the harness of the files decides.
    pub metrics: Vec<Metric>,
    /// Additional figures of the operating system.
    pub also: Vec<String>,
    /// Source of the seeds of its runs.
    pub seed: Seed,
    /// Benchmark files of a group of that kind.
    pub files: Vec<PathBuf>,
    /// Whether its file uses the names of earlier files, in which `throughput` counted bytes.
    pub(super) is_old: bool,
    /// Names of the metrics that its target reports itself.
    pub(super) own: Vec<String>,
    pub(super) place: Place,
    pub(super) wanted: Option<Vec<String>>,
    pub(super) sections: Table,
    pub(super) overrides: Vec<Override>,
    pub(super) line: Option<usize>,
}

/// An exception for some cases.
#[derive(Debug, Clone)]
pub struct Override {
    /// Selects the cases: each parameter has one of these values.
    matches: Parameters,
    /// Changes by section.
    pub(super) patch: Table,
}

/// A group: the measured work and its cases.
#[expect(dead_code, reason = "some keys are read later, for each case")]
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = sections_of_kinds)]
pub struct GroupKeys {
    /// Name of the group; cases are named `EXPERIMENT/NAME`.
    name: String,
    /// Kind of the group.
    kind: Kind,
    /// Values or lists of values: one case for every combination.
    #[serde(default)]
    parameters: ValueTable,
    /// Cases that have all values of one of these tables are omitted.
    #[serde(default)]
    exclude: Many<ValueTable>,
    /// Exceptions for some cases.
    #[serde(default, rename = "override")]
    overrides: Many<OverrideKeys>,
    /// Metrics to report, the headline first.
    metrics: Option<Many<String>>,
    /// Figures that are costly or that not every machine has: "instructions:u", "page-faults" ...
    #[serde(default)]
    also: Many<AlsoName>,
    /// Seed of its runs: "per-block" for the same in all variants of a block, "per-run", or a
    /// number.
    #[serde(default)]
    seed: Seed,
    /// Of a function: benchmark files, measured by their harness.
    files: Option<Many<String>>,
    /// Program under test.
    target: Option<Deferred<TargetKeys>>,
    /// Load on a server.
    load: Option<Deferred<LoadKeys>>,
    /// Expected responses of a server.
    verify: Option<Deferred<VerifyKeys>>,
    /// Metrics that the target reports itself.
    metric: Option<Deferred<IndexMap<String, MetricKeys>>>,
}

/// Exceptions of a group for some cases. A key replaces that of the group, including everything
/// below it.
#[expect(dead_code, reason = "some keys are read later, for each case")]
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OverrideKeys {
    /// Selects the cases: parameters with one or more values.
    #[serde(rename = "match")]
    matches: ValueTable,
    /// Changes of the target.
    target: Option<Deferred<TargetKeys>>,
    /// Changes of the load.
    load: Option<Deferred<LoadKeys>>,
    /// Changes of the expected responses.
    verify: Option<Deferred<VerifyKeys>>,
    /// Changes of the metrics that the target reports itself.
    metric: Option<Deferred<IndexMap<String, MetricKeys>>>,
}

checked! {
    /// Name of a figure of the operating system.
    struct AlsoName(String) from String as {
        "enum": metric::ALSO.map(|(name, _)| name)
    },
    |name| {
        let known = metric::ALSO.map(|(known, _)| known.to_owned());
        let wrong = unknown_name(&name, &known);
        known.contains(&name).then_some(name).ok_or(wrong)
    }
}

/// Adds to the schema which sections a group must have, and which only servers have.
fn sections_of_kinds(schema: &mut Schema) {
    let if_kind = |kind: &str, then: serde_json::Value| {
        let is_kind = serde_json::json!({ "properties": { "kind": { "const": kind } } });
        serde_json::json!({ "if": is_kind, "then": then })
    };
    let none_of = |keys: &[&str]| {
        let none = keys
            .iter()
            .map(|key| serde_json::json!({ "required": [key] }));
        serde_json::json!({ "anyOf": none.collect::<Vec<_>>() })
    };
    let conditions = [
        if_kind(
            "server",
            serde_json::json!({ "required": ["target", "load"], "not": none_of(&["files"]) }),
        ),
        if_kind(
            "command",
            serde_json::json!({ "required": ["target"], "not": none_of(&["files", "load", "verify"]) }),
        ),
        if_kind(
            "function",
            serde_json::json!({ "required": ["files"], "not": none_of(&SECTIONS) }),
        ),
    ];
    schema.insert("allOf".to_owned(), conditions.into());
}

/// Properties of the file that are known before its groups are read.
pub struct FileContext<'a> {
    /// Name of the experiment.
    pub experiment: &'a str,
    /// Folder of the experiment.
    pub root: &'a Path,
    /// Placeholders with the same value in all cases.
    pub known: &'a Placeholders,
    /// Values set on the command line.
    pub settings: &'a Settings,
    /// Whether the file uses the names of earlier files.
    pub is_old: bool,
}

/// Resolves the group at `part`.
pub fn resolve(keys: GroupKeys, part: &Part, file: &FileContext) -> Result<Group> {
    let (name, kind) = (keys.name.clone(), keys.kind);
    if name.is_empty() || name.contains(|c: char| c.is_whitespace() || ",=()[]/".contains(c)) {
        let message =
            format!("the name '{name}' is empty or has spaces, commas, slashes or brackets");
        return Err(part.error("name", message));
    }
    let (known, settings) = (file.known, file.settings);
    let parameters = parameters::of_group(&keys.parameters, part, known, settings)?;
    let benchmark = format!("{}/{name}", file.experiment);
    let cases = if kind == Kind::Function {
        Vec::new()
    } else {
        parameters::combine(&keys.exclude, part, &benchmark, &parameters, settings)?
    };
    Ok(Group {
        overrides: overrides(&keys.overrides, part, &parameters, settings)?,
        sections: sections(part, kind)?,
        files: files(keys.files, part, kind, file)?,
        wanted: keys.metrics.map(|names| names.0),
        also: keys.also.0.into_iter().map(|name| name.0).collect(),
        line: part.get("name").and_then(|node| node.line),
        is_old: file.is_old,
        parameters,
        cases,
        ..Group::new(&name, kind, keys.seed, part)
    })
}

/// Returns the tables whose texts have placeholders; rejects those that the kind does not support.
fn sections(part: &Part, kind: Kind) -> Result<Table> {
    let (allowed, needed): (&[&str], &[&str]) = match kind {
        Kind::Server => (&SECTIONS, &["target", "load"]),
        Kind::Command => (&["target", "metric"], &["target"]),
        Kind::Function | Kind::Load => (&[], &[]),
    };
    if let Some(section) = needed.iter().find(|section| !part.has(section)) {
        let hint = match *section {
            "load" => "[group.load] with requests or duration",
            _ => "[group.target] with command = [...]",
        };
        return Err(part.missing(section, hint));
    }
    let mut found = Table::default();
    for section in SECTIONS {
        let Some(node) = part.get(section) else {
            continue;
        };
        if !allowed.contains(&section) {
            let message = format!(
                "a group of the kind '{}' has no '{section}'",
                name_of(&kind)
            );
            return Err(part.error(section, message));
        }
        check_table(part, section, node)?;
        found.insert(section.to_owned(), node.clone());
    }
    Ok(found)
}

fn check_table(part: &Part, section: &str, node: &Node) -> Result<()> {
    match node.table() {
        Some(_) => Ok(()),
        None => Err(part.wrong(section, "is not a table")),
    }
}

fn files(
    files: Option<Many<String>>,
    part: &Part,
    kind: Kind,
    file: &FileContext,
) -> Result<Vec<PathBuf>> {
    match (files, kind) {
        (Some(files), Kind::Function) => {
            let line = part.get("files").and_then(|node| node.line);
            let place = part.place.key("files");
            let filled = files.iter().map(|path| file.known.fill(path, line, &place));
            filled
                .map(|path| path.map(|path| file.root.join(path)))
                .collect()
        }
        (None, Kind::Function) => Err(part.missing("files", "files = [\"bench/parse.js\"]")),
        (Some(_), kind) => {
            let message = format!("a group of the kind '{}' has no 'files'", name_of(&kind));
            Err(part.error("files", format!("{message}\nhint: kind = \"function\"")))
        }
        (None, _) => Ok(Vec::new()),
    }
}

fn overrides(
    overrides: &[OverrideKeys],
    group: &Part,
    parameters: &Parameters,
    settings: &Settings,
) -> Result<Vec<Override>> {
    let mut found = Vec::new();
    for (keys, part) in overrides.iter().zip(group.items("override")) {
        let inner = part.part("match").unwrap_or_else(|| part.clone());
        let mut patch = Table::default();
        for section in SECTIONS {
            if let Some(node) = part.get(section) {
                check_table(&part, section, node)?;
                patch.insert(section.to_owned(), node.clone());
            }
        }
        found.push(Override {
            matches: parameters::matching(&keys.matches, &inner, parameters, settings)?,
            patch,
        });
    }
    Ok(found)
}

impl Group {
    /// Creates a group with no information beyond the table that contains it.
    pub(super) fn new(name: &str, kind: Kind, seed: Seed, part: &Part) -> Group {
        Group {
            name: name.to_owned(),
            kind,
            parameters: Vec::new(),
            cases: Vec::new(),
            metrics: Vec::new(),
            also: Vec::new(),
            seed,
            files: Vec::new(),
            is_old: false,
            own: Vec::new(),
            place: part.place.clone(),
            wanted: None,
            sections: part.entries(),
            overrides: Vec::new(),
            line: part.node.line,
        }
    }

    /// Returns the sections for one case. A key of an override replaces that of the group,
    /// including everything below it; a metric keeps the keys that the override does not name.
    pub(super) fn sections_of(&self, case: &Case) -> Table {
        let mut patched = self.sections.clone();
        let overrides = self.overrides.iter();
        for exception in overrides.filter(|one| fits(&one.matches, &case.values)) {
            for (section, patch) in &exception.patch {
                match patched.get_mut(section) {
                    Some(node) => merge(node, patch, section == "metric"),
                    None => put(&mut patched, section, patch),
                }
            }
        }
        patched
    }
}

/// Merges the keys of one table into another one; `is_deep` also merges the tables in it.
fn merge(into: &mut Node, patch: &Node, is_deep: bool) {
    let (Content::Table(known), Some(keys)) = (&mut into.content, patch.table()) else {
        *into = patch.clone();
        return;
    };
    for (key, node) in keys {
        match known.get_mut(key) {
            Some(inner) if is_deep => merge(inner, node, false),
            _ => put(known, key, node),
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
