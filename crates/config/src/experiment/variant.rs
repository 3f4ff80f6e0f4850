//! Reads `[[variant]]`, or `[variant.NAME]` for short. A variant is a named set of
//! changes to the program under test.
//!
//! A variant changes only the target. If a variant changed the load generator or the counters, a
//! comparison would include their difference. A key without a built-in meaning defines a
//! placeholder, which the file must use.

use super::load::ProofKeys;
use super::parameters::check_name;
use super::target::{CommandArguments, CommandText, EnvironmentKeys};
use crate::file_part::{FilePart, NodeContent, NodePath, NodeTable, TreeNode, nearest_hint};
use crate::placeholders::PlaceholderMap;
use crate::value::{DeferredValue, OneOrMany, PlainValue, checked};
use anyhow::{Context, Result};
use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use speedwell_model::ParameterValue;
use speedwell_model::experiment::ExperimentVariant;

/// Keys that change the target.
const TARGET_PATCH_KEYS: [&str; 6] = ["args", "env", "command", "cwd", "program", "assert"];

/// Keys for reports.
const REPORT_KEYS: [&str; 4] = ["name", "label", "color", "factors"];

/// Keys that change a load in the short form, `[benchmark.NAME]`.
const LOAD_PATCH_KEYS: [&str; 2] = ["serve", "url"];

/// The texts of a variant, from which the runs under it are built.
#[derive(Debug, Clone)]
pub struct VariantSource {
    pub(super) name: String,
    pub(super) place: NodePath,
    /// Changes of the target, with placeholders.
    pub(super) patch: TreeNode,
    /// Changes to loads in the short form: `serve` and `url`, with placeholders.
    pub(super) load: NodeTable,
    /// Placeholders that the variant defines, with their lines.
    pub(super) own_values: Vec<(String, ParameterValue, Option<usize>)>,
}

/// Returns the variant that a file without declared variants has: the unchanged target.
fn implied_variant() -> (ExperimentVariant, VariantSource) {
    let name = "usual".to_owned();
    let variant = ExperimentVariant {
        name: name.clone(),
        label: None,
        color: None,
        factors: Vec::new(),
        is_declared: false,
    };
    let source = VariantSource {
        name,
        place: NodePath::default().child_key("variant"),
        patch: TreeNode { line: None, content: NodeContent::Table(NodeTable::default()) },
        load: NodeTable::default(),
        own_values: Vec::new(),
    };
    (variant, source)
}

impl VariantSource {
    /// Adds the placeholders of the variant to `defined`.
    pub(super) fn define_placeholders(&self, defined: &mut PlaceholderMap) -> Result<()> {
        for (name, value, line) in &self.own_values {
            let value = defined.fill_value(value, *line, &self.place.child_key(name))?;
            defined.define_value(name, value.plain());
        }
        Ok(())
    }
}

/// A named set of changes to the program under test. Unknown keys are placeholders: `{size}` for
/// `size`.
// Read twice: when the file is read, and then for each case, with its placeholders filled.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("additionalProperties" = { "type": ["string", "number", "boolean"] }))]
pub struct VariantKeys {
    /// Name of the variant. In [variant.NAME], the heading gives it.
    name: Option<String>,
    /// Name in reports. Default: its name.
    label: Option<String>,
    /// Color in charts: "#c0392b".
    color: Option<HexColor>,
    /// Properties in which variants differ: { http = "workers", cache = "none" }.
    factors: IndexMap<String, PlainValue>,
    /// Arguments appended to the target's command.
    pub args: Option<CommandArguments>,
    /// Environment variables of the target.
    pub env: EnvironmentKeys,
    /// Replaces the target's command.
    pub command: Option<CommandText>,
    /// Working directory of the target, below the folder of the file.
    pub cwd: Option<String>,
    /// Value of `{program}`; if the command does not contain that placeholder, replaces its first
    /// argument.
    pub program: Option<String>,
    /// Proof that the variant took effect: one table or a list of them.
    assert: Option<DeferredValue<OneOrMany<ProofKeys>>>,
    /// For [benchmark.NAME] only: replaces the benchmark's command that starts the server.
    serve: Option<String>,
    /// For [benchmark.NAME] only: replaces the benchmark's URL.
    url: Option<String>,
}

checked! {
    /// `#rgb` or `#rrggbb`, stored in the long form and lowercase.
    struct HexColor(String) from String as {
        "type": "string", "pattern": "^#([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})$"
    },
    |text| {
        let digits = text.strip_prefix('#').unwrap_or_default();
        let is_hexadecimal = digits.chars().all(|c| c.is_ascii_hexdigit());
        let six_digits: String = match digits.len() {
            3 => digits.chars().flat_map(|digit| [digit, digit]).collect(),
            6 => digits.to_owned(),
            _ => String::new(),
        };
        if six_digits.is_empty() || !is_hexadecimal {
            return Err(format!(": cannot parse color '{text}'\nhint: write a color as '#c0392b'"));
        }
        Ok(format!("#{}", six_digits.to_ascii_lowercase()))
    }
}

/// Returns the schema of the key `variant`: one variant, a list of variants, or a table of variants
/// by name.
pub fn variant_schema(generator: &mut SchemaGenerator) -> Schema {
    let variant = generator.subschema_for::<VariantKeys>();
    json_schema!({
        "description": "Variants to compare, in order. The first one is the baseline.",
        "anyOf": [
            variant,
            { "type": "array", "items": variant },
            { "type": "object", "additionalProperties": variant }
        ]
    })
}

/// Reads all variants of the file; `used` are the names of all placeholders in the file.
pub fn read_variants(
    top: &FilePart,
    used: &[String],
) -> Result<Vec<(ExperimentVariant, VariantSource)>> {
    let mut found: Vec<(ExperimentVariant, VariantSource)> = Vec::new();
    let has_loads = top.has("benchmark");
    let table = top.get("variant").and_then(TreeNode::as_table);
    let is_short = table.is_some_and(|table| table.values().all(|node| node.as_table().is_some()));
    let parts = if is_short { top.child_tables("variant") } else { top.list_items("variant") };
    for part in &parts {
        let (variant, source) = read_variant(part, is_short, has_loads, used)?;
        if found.iter().any(|(other, _)| other.name == variant.name) {
            let message = format!("two variants have the name '{}'", variant.name);
            return Err(part.error_at_key("name", message));
        }
        found.push((variant, source));
    }
    if found.is_empty() {
        found.push(implied_variant());
    }
    Ok(found)
}

fn read_variant(
    part: &FilePart,
    is_short: bool,
    has_loads: bool,
    used: &[String],
) -> Result<(ExperimentVariant, VariantSource)> {
    let own_values = own_placeholders(part, has_loads, used)?;
    let is_placeholder = |key: &String| own_values.iter().any(|(name, ..)| name == key);
    let mut table = part.entries();
    table.retain(|key, _| !is_placeholder(key));
    let node = TreeNode { line: part.node.line, content: NodeContent::Table(table) };
    let keys: VariantKeys = FilePart::new(&part.place, &node).read_part()?;
    let heading = is_short.then(|| part.place.last_key().to_owned());
    let name = match (keys.name, heading) {
        (Some(name), Some(heading)) if name != heading => {
            return Err(part.value_error("name", "differs from the name in its heading"));
        }
        (_, Some(heading)) => heading,
        (Some(name), None) => checked_name(name, part)?,
        (None, None) => return Err(part.missing_key("name", "name = \"with-module\"")),
    };
    let take = |keys: &[&str]| -> NodeTable {
        let nodes = keys.iter().filter_map(|key| {
            let node = part.get(key)?;
            Some(((*key).to_owned(), node.clone()))
        });
        nodes.collect()
    };
    let factors = keys.factors.into_iter();
    let source = VariantSource {
        name: name.clone(),
        place: part.place.clone(),
        patch: TreeNode {
            line: part.get("name").and_then(|node| node.line).or(part.node.line),
            content: NodeContent::Table(take(&TARGET_PATCH_KEYS)),
        },
        load: if has_loads { take(&LOAD_PATCH_KEYS) } else { NodeTable::default() },
        own_values,
    };
    let variant = ExperimentVariant {
        name,
        label: keys.label,
        color: keys.color.map(|color| color.0),
        factors: factors.map(|(name, value)| (name, value.program_text())).collect(),
        is_declared: true,
    };
    Ok((variant, source))
}

fn checked_name(name: String, part: &FilePart) -> Result<String> {
    if name.is_empty() || name.contains(|c: char| c.is_control() || ",()[]".contains(c)) {
        let message = format!(
            "cannot parse the name '{name}': expected a nonempty name without commas, brackets and \
             control characters"
        );
        return Err(part.error_at_key("name", message));
    }
    Ok(name)
}

/// Returns the keys whose only meaning is to define a placeholder.
fn own_placeholders(
    part: &FilePart,
    has_loads: bool,
    used: &[String],
) -> Result<Vec<(String, ParameterValue, Option<usize>)>> {
    let mut found = Vec::new();
    for (key, node) in part.entries() {
        let name = key.as_str();
        let changes_load = LOAD_PATCH_KEYS.contains(&name);
        if REPORT_KEYS.contains(&name)
            || TARGET_PATCH_KEYS.contains(&name)
            || (has_loads && changes_load)
        {
            continue;
        }
        if used.contains(&key) {
            check_name(part, name)?;
            let value = part.read_key::<PlainValue>(name)?;
            found.extend(value.map(|value| (key, value.0, node.line)));
        } else if changes_load {
            let message = format!(
                "'{key}' replaces a key of [benchmark.NAME], but the file has no such table"
            );
            return Err(part.error_at_key(name, message));
        }
    }
    Ok(found)
}

/// Returns the position of a variant.
///
/// # Errors
/// Fails if no variant has that name; the hint suggests the nearest one.
pub fn find_variant(variants: &[ExperimentVariant], name: &str) -> Result<usize> {
    let hint = || nearest_hint(name, variants.iter().map(|variant| &variant.name));
    let index = variants.iter().position(|variant| variant.name == name);
    index.with_context(|| format!("unknown variant '{name}'\nhint: {}", hint()))
}
