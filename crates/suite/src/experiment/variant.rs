//! `[[variant]]`, or `[variant.NAME]` for short: a named difference of the program under test.
//!
//! A variant changes only the target, never load generator or counters: else the instrument would
//! be compared together with the object. Keys without a built-in meaning can be used as
//! placeholders, and must be.

use super::command::{Arguments, Command, Environment};
use super::parameters::check_name;
use super::verify::ProofKeys;
use crate::part::{Part, Place, nearest_of};
use crate::placeholders::Placeholders;
use crate::tree::{Content, Node, Table};
use crate::value::{Deferred, Many, Plain, checked};
use anyhow::{Result, bail};
use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use speedwell_model::Value;

/// Keys that change the target.
const PATCH: [&str; 6] = ["args", "env", "command", "cwd", "program", "assert"];

/// Keys for reports.
const SHOWN: [&str; 5] = ["name", "label", "color", "colour", "factors"];

/// Keys that change a load of the short form.
const OF_A_LOAD: [&str; 2] = ["serve", "url"];

/// A variant as described in the file.
#[derive(Debug, Clone)]
pub struct Variant {
    /// Name of the variant.
    pub name: String,
    /// Name in reports, if different.
    pub label: Option<String>,
    /// Color in charts, `#rrggbb`.
    pub color: Option<String>,
    /// Properties in which it differs, for a grid of variants.
    pub factors: Vec<(String, String)>,
    /// Changes of the target, with placeholders.
    pub(super) patch: Node,
    /// Changes of loads of the short form: `serve` and `url`, with placeholders.
    pub(super) load: Table,
    /// Whether it stands for the unchanged target, in a file without variants.
    is_implied: bool,
    pub(super) place: Place,
    /// Placeholders that it defines, with their lines.
    pub(super) own: Vec<(String, Value, Option<usize>)>,
}

impl Variant {
    /// Returns the variant of a file without variants.
    pub(super) fn plain() -> Variant {
        Variant {
            name: "usual".to_owned(),
            label: None,
            color: None,
            factors: Vec::new(),
            patch: Node {
                line: None,
                content: Content::Table(Default::default()),
            },
            load: Table::default(),
            is_implied: true,
            place: Place::default().key("variant"),
            own: Vec::new(),
        }
    }

    /// Whether the file declares it.
    pub fn is_declared(&self) -> bool {
        !self.is_implied
    }

    /// Adds its own placeholders.
    pub(super) fn define(&self, known: &mut Placeholders) -> Result<()> {
        for (name, value, line) in &self.own {
            let value = known.fill_value(value, *line, &self.place.key(name))?;
            known.define(name, value.plain());
        }
        Ok(())
    }
}

/// A named difference of the program under test. Unknown keys are placeholders: `{size}` for
/// `size`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("additionalProperties" = { "type": ["string", "number", "boolean"] }))]
pub struct VariantKeys {
    /// Name of the variant. [variant.NAME] has it in its heading.
    name: Option<String>,
    /// Name in reports. Default: its name.
    label: Option<String>,
    /// Color in charts: "#c0392b".
    #[serde(alias = "colour")]
    color: Option<Color>,
    /// Properties in which variants differ: { http = "workers", cache = "none" }.
    factors: IndexMap<String, Plain>,
    /// Arguments appended to the target's command.
    args: Option<Deferred<Arguments>>,
    /// Environment variables of the target.
    env: Option<Deferred<Environment>>,
    /// Replaces the target's command.
    command: Option<Deferred<Command>>,
    /// Working directory of the target, below the folder of the file.
    cwd: Option<Deferred<String>>,
    /// Value of `{program}`; without that placeholder in the command, its first argument.
    program: Option<Deferred<String>>,
    /// Proof that the variant took effect: one table or a list of them.
    assert: Option<Deferred<Many<ProofKeys>>>,
    /// Of loads of the short form: replaces the benchmark's command that starts the server.
    serve: Option<Deferred<String>>,
    /// Of loads of the short form: replaces the benchmark's URL.
    url: Option<Deferred<String>>,
}

/// Changes of a variant to the target, for one case.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PatchKeys {
    pub args: Option<Arguments>,
    pub env: Environment,
    pub command: Option<Command>,
    pub cwd: Option<String>,
    pub program: Option<String>,
    #[serde(rename = "assert")]
    pub proofs: Many<ProofKeys>,
}

checked! {
    /// `#rgb` or `#rrggbb`, stored in the long form and lowercase.
    struct Color(String) from String as {
        "type": "string", "pattern": "^#([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})$"
    },
    |text| {
        let digits = text.strip_prefix('#').unwrap_or_default();
        let is_hexadecimal = digits.chars().all(|c| c.is_ascii_hexdigit());
        let long: String = match digits.len() {
            3 => digits.chars().flat_map(|digit| [digit, digit]).collect(),
            6 => digits.to_owned(),
            _ => String::new(),
        };
        if long.is_empty() || !is_hexadecimal {
            return Err(format!(": '{text}' is not a colour\nhint: a colour is written '#c0392b'"));
        }
        Ok(format!("#{}", long.to_ascii_lowercase()))
    }
}

/// Schema: one variant, a list of them, or a table of them by name.
pub fn schema(generator: &mut SchemaGenerator) -> Schema {
    let one = generator.subschema_for::<VariantKeys>();
    json_schema!({
        "description": "What is compared, in order. The first one is the baseline.",
        "anyOf": [
            one,
            { "type": "array", "items": one },
            { "type": "object", "additionalProperties": one }
        ]
    })
}

/// Reads all variants of the file; `used` are the names of all its placeholders.
pub fn read(top: &Part, used: &[String]) -> Result<Vec<Variant>> {
    let mut found: Vec<Variant> = Vec::new();
    let has_loads = top.has("benchmark");
    let table = top.get("variant").and_then(Node::table);
    let is_short = table.is_some_and(|table| table.values().all(|node| node.table().is_some()));
    let parts = if is_short {
        top.tables("variant")
    } else {
        top.items("variant")
    };
    for part in &parts {
        let variant = read_one(part, is_short, has_loads, used)?;
        if found.iter().any(|known| known.name == variant.name) {
            let message = format!("there are two variants with the name '{}'", variant.name);
            return Err(part.error("name", message));
        }
        found.push(variant);
    }
    if found.is_empty() {
        found.push(Variant::plain());
    }
    Ok(found)
}

fn read_one(part: &Part, is_short: bool, has_loads: bool, used: &[String]) -> Result<Variant> {
    let own = own_placeholders(part, has_loads, used)?;
    let is_own = |key: &String| own.iter().any(|(name, ..)| name == key);
    let mut table = part.entries();
    table.retain(|key, _| !is_own(key));
    let known = Node {
        line: part.node.line,
        content: Content::Table(table),
    };
    let keys: VariantKeys = Part::new(&part.place, &known).read()?;
    let heading = is_short.then(|| part.place.name().to_owned());
    let name = match (keys.name, heading) {
        (Some(name), Some(heading)) if name != heading => {
            return Err(part.wrong("name", "is not the name in its heading"));
        }
        (_, Some(heading)) => heading,
        (Some(name), None) => checked_name(name, part)?,
        (None, None) => return Err(part.missing("name", "name = \"with-module\"")),
    };
    let take = |known: &[&str]| -> Table {
        let nodes = known.iter().filter_map(|key| {
            let node = part.get(key)?;
            Some(((*key).to_owned(), node.clone()))
        });
        nodes.collect()
    };
    let factors = keys.factors.into_iter();
    Ok(Variant {
        label: keys.label,
        color: keys.color.map(|color| color.0),
        factors: factors.map(|(name, value)| (name, value.text())).collect(),
        patch: Node {
            line: part
                .get("name")
                .and_then(|node| node.line)
                .or(part.node.line),
            content: Content::Table(take(&PATCH)),
        },
        load: if has_loads {
            take(&OF_A_LOAD)
        } else {
            Table::default()
        },
        is_implied: false,
        place: part.place.clone(),
        own,
        name,
    })
}

fn checked_name(name: String, part: &Part) -> Result<String> {
    if name.is_empty() || name.contains(|c: char| c.is_control() || ",()[]".contains(c)) {
        let message = format!("the name '{name}' is empty or has commas or brackets");
        return Err(part.error("name", message));
    }
    Ok(name)
}

/// Returns the keys that have a meaning only because a placeholder has their name.
fn own_placeholders(
    part: &Part,
    has_loads: bool,
    used: &[String],
) -> Result<Vec<(String, Value, Option<usize>)>> {
    let mut found = Vec::new();
    for (key, node) in part.entries() {
        let name = key.as_str();
        let is_of_a_load = OF_A_LOAD.contains(&name);
        if SHOWN.contains(&name) || PATCH.contains(&name) || (has_loads && is_of_a_load) {
            continue;
        }
        if used.contains(&key) {
            check_name(part, name)?;
            let value = part.read_key::<Plain>(name)?;
            found.extend(value.map(|value| (key, value.0, node.line)));
        } else if is_of_a_load {
            let message = format!("'{key}' replaces a key of [benchmark.NAME], and there is none");
            return Err(part.error(name, message));
        }
    }
    Ok(found)
}

/// Returns the position of a variant.
///
/// # Errors
/// No variant has that name; the hint suggests the nearest one.
pub fn find(variants: &[Variant], name: &str) -> Result<usize> {
    if let Some(at) = variants.iter().position(|variant| variant.name == name) {
        return Ok(at);
    }
    let known: Vec<String> = variants
        .iter()
        .map(|variant| variant.name.clone())
        .collect();
    let hint = nearest_of(name, &known);
    bail!("there is no variant '{name}'\nhint: {hint}")
}
