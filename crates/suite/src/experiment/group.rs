//! `[[group]]`: what is measured, in which cases, and what its overrides change for some of them.

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

/// Keys that say the same in different ways: one in an override takes the place of the other.
const ALTERNATIVES: [(&str, &str); 3] = [
    ("requests", "duration"),
    ("url", "path"),
    ("concurrency", "connections"),
];

/// Where the seed of a run comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "Plain")]
#[schemars(inline, extend("anyOf" = [{ "enum": ["per-block", "per-run"] }, { "type": "integer", "minimum": 0 }]))]
pub enum Seed {
    /// The same for all variants of a block, another one in the next block.
    #[default]
    PerBlock,
    /// Another one for every run.
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
    /// The seed of the run in a slot, where `of_block` is that of its block.
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
    /// Its name.
    pub name: String,
    /// What it does.
    pub kind: Kind,
    /// What varies between its cases. For benchmark files: values in the place of declared ones.
    pub parameters: Parameters,
    /// Its cases, in order; none are known of benchmark files.
    pub cases: Vec<Case>,
    /// Its metrics, the headline first. Empty: the harness of the files says.
    pub metrics: Vec<Metric>,
    /// Figures of the operating system that are wanted besides.
    pub also: Vec<String>,
    /// Seeds of its runs.
    pub seed: Seed,
    /// The benchmark files of a group of that kind.
    pub files: Vec<PathBuf>,
    /// Its file has the names of earlier files, in which `throughput` counted bytes.
    pub(super) is_old: bool,
    /// Names of the figures that its target gives.
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
    /// Which cases: each parameter has one of these values.
    matches: Parameters,
    /// What changes, by sections.
    pub(super) patch: Table,
}

/// What is measured, in which cases.
#[expect(dead_code, reason = "some keys are read later, for each case")]
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = sections_of_kinds)]
pub struct GroupKeys {
    /// Its name; cases are named `EXPERIMENT/NAME`.
    name: String,
    /// What it does with its target.
    kind: Kind,
    /// Values or lists of values: one case for every combination.
    #[serde(default)]
    parameters: ValueTable,
    /// A case that has all values of one of these tables is left out.
    #[serde(default)]
    exclude: Many<ValueTable>,
    /// Exceptions for some cases.
    #[serde(default, rename = "override")]
    overrides: Many<OverrideKeys>,
    /// What is reported, the headline first.
    metrics: Option<Many<String>>,
    /// Figures that cost something or that not every machine has: "instructions:u", "page-faults" ...
    #[serde(default)]
    also: Many<AlsoName>,
    /// The seed of its runs: "per-block" for the same in all variants of a block, "per-run", or a number.
    #[serde(default)]
    seed: Seed,
    /// Of a function: benchmark files, measured by their harness.
    files: Option<Many<String>>,
    /// The program under test.
    target: Option<Deferred<TargetKeys>>,
    /// What is sent to a server.
    load: Option<Deferred<LoadKeys>>,
    /// What answers of a server must be.
    verify: Option<Deferred<VerifyKeys>>,
    /// Figures that the target gives itself.
    metric: Option<Deferred<IndexMap<String, MetricKeys>>>,
}

/// What a group says otherwise for some cases. A key takes the place of the group's, with everything below it.
#[expect(dead_code, reason = "some keys are read later, for each case")]
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OverrideKeys {
    /// Which cases: parameters with a value or several.
    #[serde(rename = "match")]
    matches: ValueTable,
    /// Changes of the target.
    target: Option<Deferred<TargetKeys>>,
    /// Changes of the load.
    load: Option<Deferred<LoadKeys>>,
    /// Changes of what answers must be.
    verify: Option<Deferred<VerifyKeys>>,
    /// Changes of figures that the target gives itself.
    metric: Option<Deferred<IndexMap<String, MetricKeys>>>,
}

checked! {
    /// The name of a figure of the operating system.
    struct AlsoName(String) from String as {
        "enum": metric::ALSO.map(|(name, _)| name)
    },
    |name| {
        let known = metric::ALSO.map(|(known, _)| known.to_owned());
        let wrong = unknown_name(&name, &known);
        known.contains(&name).then_some(name).ok_or(wrong)
    }
}

/// For the schema: which sections a group must have, and which only servers have.
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

/// The file that a group belongs to, as far as it is read before the groups.
pub struct FileContext<'a> {
    /// The name of the experiment.
    pub experiment: &'a str,
    /// Its folder.
    pub root: &'a Path,
    /// Placeholders that mean the same in all cases.
    pub known: &'a Placeholders,
    /// What was set on the command line.
    pub settings: &'a Settings,
    /// It has the names of earlier files.
    pub is_old: bool,
}

/// The group of an experiment that stands at `part`.
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

/// The tables whose texts have placeholders. Those that the kind does not have are refused.
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
    /// A group with one case at most, of which nothing more is known than the table that it is in.
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

    /// The sections as they are for one case. A key of an override takes the place of the group's, with everything
    /// below it; a metric keeps the keys that the override does not name.
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

/// Puts the keys of one table into another one; `is_deep`: those of the tables in it as well.
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
