//! Represents a table of a definition file and its position, which every message gives: the line in
//! TOML, the path in JSON. Start at [`FilePart`].

use super::tree::{NodeContent, NodeTable, TreeNode};
use anyhow::{Error, anyhow};
use speedwell_model::nearest_name;
use std::fmt::{Display, Formatter, Result as Written};

/// Path of an item in a file, from the top.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodePath(Vec<PathStep>);

#[derive(Debug, Clone, PartialEq)]
enum PathStep {
    Key(String),
    Item(usize),
}

impl NodePath {
    /// Returns the path of a key in the table at this path.
    pub fn child_key(&self, key: &str) -> NodePath {
        self.child_path(PathStep::Key(key.to_owned()))
    }

    /// Returns the path of an item of the list at this path.
    pub fn list_item(&self, index: usize) -> NodePath {
        self.child_path(PathStep::Item(index))
    }

    fn child_path(&self, step: PathStep) -> NodePath {
        let mut steps = self.0.clone();
        steps.push(step);
        NodePath(steps)
    }

    /// Returns the last key, for example the name of a table below `[variant]`.
    pub fn last_key(&self) -> &str {
        let mut keys = self.0.iter().rev().filter_map(|step| match step {
            PathStep::Key(key) => Some(key.as_str()),
            PathStep::Item(_) => None,
        });
        keys.next().unwrap_or_default()
    }

    /// Returns the heading of the table, such as `[group.load]` or `[[group]]`. In a file without
    /// line numbers, returns the path.
    fn heading(&self, has_lines: bool) -> String {
        if self.0.is_empty() {
            return "the file".to_owned();
        }
        if !has_lines {
            return format!("'{self}'");
        }
        let keys = self.0.iter().filter(|step| matches!(step, PathStep::Key(_)));
        let keys = NodePath(keys.cloned().collect());
        if matches!(self.0.last(), Some(PathStep::Item(_))) {
            format!("[[{keys}]]")
        } else {
            format!("[{keys}]")
        }
    }
}

impl Display for NodePath {
    /// Formats a path like `group[1].target`; keys are quoted where TOML requires it.
    fn fmt(&self, out: &mut Formatter<'_>) -> Written {
        for (index, step) in self.0.iter().enumerate() {
            let dot = if index == 0 { "" } else { "." };
            match step {
                PathStep::Item(index) => write!(out, "[{index}]")?,
                PathStep::Key(key) if is_bare(key) => write!(out, "{dot}{key}")?,
                PathStep::Key(key) => write!(out, "{dot}{key:?}")?,
            }
        }
        Ok(())
    }
}

fn is_bare(key: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    !key.is_empty() && key.chars().all(is_plain)
}

/// A table, or anything that should be one.
#[derive(Debug, Clone)]
pub struct FilePart<'a> {
    /// Path of the item.
    pub place: NodePath,
    /// The item.
    pub node: &'a TreeNode,
}

impl<'a> FilePart<'a> {
    /// Returns the whole file.
    pub fn top(node: &'a TreeNode) -> FilePart<'a> {
        FilePart::new(&NodePath::default(), node)
    }

    /// Creates the part at a path.
    pub fn new(place: &NodePath, node: &'a TreeNode) -> FilePart<'a> {
        FilePart { place: place.clone(), node }
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&'a TreeNode> {
        self.node.as_table()?.get(key)
    }

    /// Whether the table has the key.
    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Returns all keys with their values.
    pub fn entries(&self) -> NodeTable {
        self.node.as_table().cloned().unwrap_or_default()
    }

    /// Returns the part at a key.
    pub fn part(&self, key: &str) -> Option<FilePart<'a>> {
        Some(FilePart::new(&self.place.child_key(key), self.get(key)?))
    }

    /// Returns all entries of the table at a key: `[KEY.NAME]` for every name.
    pub fn child_tables(&self, key: &str) -> Vec<FilePart<'a>> {
        let outer = self.part(key);
        outer
            .iter()
            .flat_map(|outer| outer.node.as_table())
            .flat_map(|table| table.keys())
            .filter_map(|name| outer.as_ref()?.part(name))
            .collect()
    }

    /// Returns the items of the list at a key, `[[KEY]]`. A single value counts as a list of one.
    pub fn list_items(&self, key: &str) -> Vec<FilePart<'a>> {
        let Some(part) = self.part(key) else {
            return Vec::new();
        };
        let NodeContent::List(items) = &part.node.content else {
            return vec![part];
        };
        let item = |(index, node)| FilePart::new(&part.place.list_item(index), node);
        items.iter().enumerate().map(item).collect()
    }

    /// Returns the heading of the table: `[benchmark.hello]`, in JSON `'benchmark.hello'`.
    pub fn heading(&self) -> String {
        self.place.heading(self.node.line.is_some())
    }

    /// Creates an error about a key, with its line.
    pub fn error_at_key(&self, key: &str, message: impl Display) -> Error {
        let line = self.get(key).and_then(|node| node.line);
        error_at_line(line.or(self.node.line), message)
    }

    /// Creates an error about the value of a key: `the key 'x' of [plan] cannot be ...`.
    pub fn value_error(&self, key: &str, message: impl Display) -> Error {
        let heading = self.heading();
        self.error_at_key(key, format!("the key '{key}' of {heading} {message}"))
    }

    /// Creates an error about the table, with its first line.
    pub fn wrong_table(&self, message: impl Display) -> Error {
        error_at_line(self.node.line, format!("{} {message}", self.heading()))
    }

    /// Creates the error that a key is missing.
    pub fn missing_key(&self, key: &str, hint: &str) -> Error {
        self.wrong_table(format!("has no key '{key}'\nhint: {hint}"))
    }
}

/// Creates an error with its line, if known.
pub fn error_at_line(line: Option<usize>, message: impl Display) -> Error {
    match line {
        Some(line) => anyhow!("line {line}: {message}"),
        None => anyhow!("{message}"),
    }
}

/// Returns a hint with the nearest known name or, if no name is near, with all known names.
pub fn nearest_hint(word: &str, known: &[String]) -> String {
    match nearest_name(word, known) {
        Some(near) => format!("did you mean '{near}'?"),
        None if known.is_empty() => "none is defined".to_owned(),
        None => format!("use one of {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::parse_toml;

    #[test]
    fn a_key_in_quotes_keeps_its_whole_name() {
        let tree = parse_toml("[variant.\"v1.2\"]\n[[variant.a.b]]\n").unwrap();
        let variants = FilePart::top(&tree).child_tables("variant");
        assert_eq!(variants[0].place.last_key(), "v1.2");
        assert_eq!(variants[0].heading(), "[variant.\"v1.2\"]");
        let items = variants[1].list_items("b");
        assert_eq!(items[0].heading(), "[[variant.a.b]]");
        assert_eq!(items[0].place.to_string(), "variant.a.b[0]");
    }
}
