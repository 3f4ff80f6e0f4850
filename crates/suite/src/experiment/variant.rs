//! `[[variant]]`, or `[variant.NAME]` for short: a named difference of the program under test.
//!
//! A variant changes the target and nothing else: what sends a load or counts is the same for all,
//! or the instrument would be compared together with its object. Keys without a meaning of their own
//! can be used as blanks, and must be.

use super::params::check_name;
use super::vocabulary::Vocabulary;
use crate::keys::Keys;
use crate::tree::{Content, Node, Table};
use anyhow::{Result, bail};
use speedwell_model::Value;

/// Keys that change the target.
const PATCH: [&str; 6] = ["args", "env", "command", "cwd", "program", "assert"];

/// Keys that change a load of the short form.
const OF_A_LOAD: [&str; 2] = ["serve", "url"];

/// A variant as the file describes it.
#[derive(Debug, Clone)]
pub struct Variant {
    /// What it is called everywhere.
    pub name: String,
    /// What reports call it, if not by its name.
    pub label: Option<String>,
    /// Its colour in charts, `#rrggbb`.
    pub color: Option<String>,
    /// In which respects it differs, for a grid of variants.
    pub factors: Vec<(String, String)>,
    /// What it changes, with blanks.
    pub(super) patch: Node,
    /// What it changes of loads of the short form: `serve` and `url`, with blanks.
    pub(super) load: Table,
    /// It stands for the target as it is, in a file without variants.
    is_implied: bool,
    pub(super) path: String,
    /// Its own blanks with their lines.
    pub(super) blanks: Vec<(String, Value, Option<usize>)>,
}

impl Variant {
    /// The variant of a file that has none.
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
            path: "variant".to_owned(),
            blanks: Vec::new(),
        }
    }

    /// Whether the file says it.
    pub fn is_declared(&self) -> bool {
        !self.is_implied
    }

    /// Adds its own blanks to the words.
    pub(super) fn tell(&self, words: &mut Vocabulary) -> Result<()> {
        for (name, value, line) in &self.blanks {
            let path = format!("{}.{name}", self.path);
            let value = words.fill_value(value, *line, &path)?;
            words.say(name, value.plain());
        }
        Ok(())
    }
}

/// Reads all variants; `used` are the names of all blanks of the file.
pub fn read(top: &Keys, used: &[String]) -> Result<Vec<Variant>> {
    let mut found: Vec<Variant> = Vec::new();
    let of_a_load: &[&str] = if top.has("benchmark") {
        &OF_A_LOAD
    } else {
        &[]
    };
    let is_short = top.node("variant").and_then(Node::table);
    let is_short = is_short.is_some_and(|table| table.values().all(|node| node.table().is_some()));
    let variants = if is_short {
        top.tables("variant")?
    } else {
        top.list("variant")?
    };
    for keys in &variants {
        let name = if is_short {
            keys.name.clone()
        } else {
            name(keys)?
        };
        let variant = one(keys, name, of_a_load, used)?;
        if found.iter().any(|known| known.name == variant.name) {
            let message = format!("there are two variants with the name '{}'", variant.name);
            return Err(keys.error("name", message));
        }
        found.push(variant);
    }
    if found.is_empty() {
        found.push(Variant::plain());
    }
    Ok(found)
}

fn name(keys: &Keys) -> Result<String> {
    let name = keys.text("name")?;
    let name = name.ok_or_else(|| keys.missing("name", "name = \"with-module\""))?;
    if name.is_empty() || name.contains(|c: char| c.is_control() || ",()[]".contains(c)) {
        let message = format!("the name '{name}' is empty or has commas or brackets");
        return Err(keys.error("name", message));
    }
    Ok(name)
}

fn one(keys: &Keys, name: String, of_a_load: &[&str], used: &[String]) -> Result<Variant> {
    let color = match keys.text("colour")? {
        Some(colour) => Some(colour),
        None => keys.text("color")?,
    };
    let color = color.map(|color| checked_color(keys, &color)).transpose()?;
    let mut factors = Vec::new();
    if let Some(inner) = keys.table("factors")? {
        for name in inner.names() {
            let value = inner.value(&name)?.map(|value| value.plain());
            factors.push((name, value.unwrap_or_default()));
        }
    }
    let label = keys.text("label")?;
    let take = |known: &[&str]| -> Table {
        let nodes = known.iter().filter_map(|key| {
            let node = keys.node(key)?;
            Some(((*key).to_owned(), node.clone()))
        });
        nodes.collect()
    };
    let (patch, load) = (take(&PATCH), take(of_a_load));
    let line = keys.node("name").and_then(|node| node.line);
    Ok(Variant {
        name,
        label,
        color,
        factors,
        patch: Node {
            line,
            content: Content::Table(patch),
        },
        load,
        is_implied: false,
        path: keys.path().to_owned(),
        blanks: blanks(keys, used)?,
    })
}

/// The keys that have a meaning only because a blank has their name.
fn blanks(keys: &Keys, used: &[String]) -> Result<Vec<(String, Value, Option<usize>)>> {
    let mut found = Vec::new();
    for key in keys.untaken() {
        if !used.contains(&key) {
            return Err(keys.unknown_key(&key));
        }
        check_name(keys, &key)?;
        if let Some(value) = keys.value(&key)? {
            let line = keys.node(&key).and_then(|node| node.line);
            found.push((key, value, line));
        }
    }
    Ok(found)
}

/// `#rgb` or `#rrggbb`, in the long form and small letters.
fn checked_color(keys: &Keys, text: &str) -> Result<String> {
    let digits = text.strip_prefix('#').unwrap_or_default();
    let is_hexadecimal = digits.chars().all(|c| c.is_ascii_hexdigit());
    let long = match digits.len() {
        3 => digits.chars().flat_map(|digit| [digit, digit]).collect(),
        6 => digits.to_owned(),
        _ => String::new(),
    };
    if long.is_empty() || !is_hexadecimal {
        let key = if keys.has("colour") {
            "colour"
        } else {
            "color"
        };
        let message = format!("'{text}' is not a colour\nhint: a colour is written '#c0392b'");
        return Err(keys.error(key, message));
    }
    Ok(format!("#{}", long.to_ascii_lowercase()))
}

/// The position of a variant.
///
/// # Errors
/// There is none of that name; the hint is the nearest.
pub fn find(variants: &[Variant], name: &str) -> Result<usize> {
    match variants.iter().position(|variant| variant.name == name) {
        Some(at) => Ok(at),
        None => bail!("{}", unknown(variants, name)),
    }
}

/// The message that there is no such variant.
pub fn unknown(variants: &[Variant], name: &str) -> String {
    let known: Vec<String> = variants
        .iter()
        .map(|variant| variant.name.clone())
        .collect();
    let hint = crate::keys::nearest_of(name, &known);
    format!("there is no variant '{name}'\nhint: {hint}")
}
