//! Represents a table of a definition file and its position: the line in TOML, the path in JSON.
//! Every error message contains the position. Start at [`FilePart`].

use anyhow::{Context, Error, Result, anyhow};
use indexmap::IndexMap;
use speedwell_model::nearest_name;
use std::fmt::{Display, Formatter, Result as Written};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

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
        let is_item = matches!(self.0.last(), Some(PathStep::Item(_)));
        if is_item { format!("[[{keys}]]") } else { format!("[{keys}]") }
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
        let tables = outer.iter().flat_map(|outer| outer.node.as_table());
        let names = tables.flat_map(|table| table.keys());
        names.filter_map(|name| outer.as_ref()?.part(name)).collect()
    }

    /// Returns the items of the list at a key, `[[KEY]]`. A single value is treated as a list with
    /// one item.
    pub fn list_items(&self, key: &str) -> Vec<FilePart<'a>> {
        let Some(part) = self.part(key) else { return Vec::new() };
        let NodeContent::List(items) = &part.node.content else { return vec![part] };
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
    line.map_or_else(|| anyhow!("{message}"), |line| anyhow!("line {line}: {message}"))
}

/// Returns a hint with the nearest known name or, if no name is near, with all known names.
pub fn nearest_hint(word: &str, known: impl IntoIterator<Item = impl Into<String>>) -> String {
    let known: Vec<String> = known.into_iter().map(Into::into).collect();
    match nearest_name(word, &known) {
        Some(near) => format!("did you mean '{near}'?"),
        None if known.is_empty() => "none is defined".to_owned(),
        None => format!("use one of {}", known.join(", ")),
    }
}

// Represents the contents of a definition file as a tree, with the line of every key. TOML and
// JSON become the same tree, so all other code handles one form. JSON has no line numbers here:
// positions are given by path.

/// Keys of a table with their values, in order.
pub type NodeTable = IndexMap<String, TreeNode>;

/// A value and its position.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeNode {
    /// Line of the value's key or, in a list, of the value itself, counted from 1; `None` in JSON.
    pub line: Option<usize>,
    /// Value.
    pub content: NodeContent,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeContent {
    /// A string.
    Text(String),
    /// A whole number.
    Whole(i64),
    /// Any other number.
    Number(f64),
    /// `true` or `false`.
    Truth(bool),
    /// A list.
    List(Vec<TreeNode>),
    /// A table.
    Table(NodeTable),
    /// A date, a TOML integer out of range, or JSON's `null`. No key accepts them.
    Other,
}

impl TreeNode {
    /// Returns the table, if it is one.
    pub fn as_table(&self) -> Option<&NodeTable> {
        match &self.content {
            NodeContent::Table(table) => Some(table),
            _ => None,
        }
    }

    /// Returns the string, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match &self.content {
            NodeContent::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Calls `visitor` with every string in the tree, except keys of tables.
    pub fn visit_texts(&self, visitor: &mut impl FnMut(&str)) {
        match &self.content {
            NodeContent::Text(text) => visitor(text),
            NodeContent::List(items) => items.iter().for_each(|item| item.visit_texts(visitor)),
            NodeContent::Table(table) => table.values().for_each(|node| node.visit_texts(visitor)),
            _ => {}
        }
    }
}

/// Parses TOML.
///
/// # Errors
/// Fails if the text is not TOML; the message shows the position.
pub fn parse_toml(text: &str) -> Result<TreeNode> {
    let table = DeTable::parse(text).map_err(|mut error| {
        error.set_input(Some(text));
        anyhow::anyhow!("{}", error.to_string().trim_end())
    })?;
    let lines = LineStarts::new(text);
    Ok(TreeNode { line: Some(1), content: lines.convert_table(table.get_ref()) })
}

/// Parses JSON.
///
/// # Errors
/// Fails if the text is not JSON; the message has line and column.
pub fn parse_json(text: &str) -> Result<TreeNode> {
    let value: serde_json::Value = serde_json::from_str(text).context("it is not valid JSON")?;
    Ok(from_json(&value))
}

fn from_json(value: &serde_json::Value) -> TreeNode {
    let content = match value {
        serde_json::Value::Null => NodeContent::Other,
        serde_json::Value::Bool(truth) => NodeContent::Truth(*truth),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(whole) => NodeContent::Whole(whole),
            None => NodeContent::Number(number.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(text) => NodeContent::Text(text.clone()),
        serde_json::Value::Array(items) => NodeContent::List(items.iter().map(from_json).collect()),
        serde_json::Value::Object(entries) => NodeContent::Table(
            entries.iter().map(|(key, value)| (key.clone(), from_json(value))).collect(),
        ),
    };
    TreeNode { line: None, content }
}

/// Start of each line, in bytes.
struct LineStarts(Vec<usize>);

impl LineStarts {
    fn new(text: &str) -> LineStarts {
        let ends = text.match_indices('\n').map(|(index, _)| index + 1);
        LineStarts(std::iter::once(0).chain(ends).collect())
    }

    fn convert_node(&self, offset: usize, value: &DeValue<'_>) -> TreeNode {
        let content = match value {
            DeValue::String(text) => NodeContent::Text(text.to_string()),
            DeValue::Integer(number) => {
                let whole = i64::from_str_radix(number.as_str(), number.radix());
                whole.map_or(NodeContent::Other, NodeContent::Whole)
            }
            DeValue::Float(number) => {
                number.as_str().parse().map_or(NodeContent::Other, NodeContent::Number)
            }
            DeValue::Boolean(truth) => NodeContent::Truth(*truth),
            DeValue::Datetime(_) => NodeContent::Other,
            DeValue::Array(items) => {
                let node = |item: &Spanned<DeValue<'_>>| {
                    self.convert_node(item.span().start, item.get_ref())
                };
                NodeContent::List(items.iter().map(node).collect())
            }
            DeValue::Table(table) => self.convert_table(table),
        };
        TreeNode { line: Some(self.0.partition_point(|begin| *begin <= offset)), content }
    }

    fn convert_table(&self, table: &DeTable<'_>) -> NodeContent {
        let entries = table.iter().map(|(key, value)| {
            let node = self.convert_node(key.span().start, value.get_ref());
            (key.get_ref().to_string(), node)
        });
        NodeContent::Table(entries.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn without_lines(node: &TreeNode) -> TreeNode {
        let content = match &node.content {
            NodeContent::List(items) => {
                NodeContent::List(items.iter().map(without_lines).collect())
            }
            NodeContent::Table(table) => {
                let entries = table.iter();
                NodeContent::Table(entries.map(|(k, v)| (k.clone(), without_lines(v))).collect())
            }
            other => other.clone(),
        };
        TreeNode { line: None, content }
    }

    #[test]
    fn toml_and_json_become_the_same_tree() {
        let toml = "a = 1_000\nb = [0.5, 'x', true]\n[[c]]\nd.e = -0x0\n[[c]]\nd = {}\n";
        let json = r#"{"a": 1000, "b": [0.5, "x", true], "c": [{"d": {"e": 0}}, {"d": {}}]}"#;
        let (toml, json) =
            (parse_toml(&toml.replace("-0x0", "0x0")).unwrap(), parse_json(json).unwrap());
        assert_eq!(without_lines(&toml), json);
    }

    #[test]
    fn keys_and_list_items_know_their_lines() {
        let tree =
            parse_toml("a = 1\n\n[b]\nc = [\n 1,\n 2]\n[[d]]\n[[d]]\n  e.f = 'ä'\n").unwrap();
        let top = tree.as_table().unwrap();
        assert_eq!(top["a"].line, Some(1));
        assert_eq!(top["b"].line, Some(3));
        let c = &top["b"].as_table().unwrap()["c"];
        let NodeContent::List(items) = &c.content else { panic!("{c:?}") };
        assert_eq!((c.line, items[0].line, items[1].line), (Some(4), Some(5), Some(6)));
        let NodeContent::List(tables) = &top["d"].content else { panic!("{top:?}") };
        assert_eq!((tables[0].line, tables[1].line), (Some(7), Some(8)));
        assert_eq!(tables[1].as_table().unwrap()["e"].line, Some(9));
    }

    #[test]
    fn text_that_is_not_toml_is_reported_with_its_place() {
        let message = parse_toml("a = 1\nb = = 2\n").unwrap_err().to_string();
        assert!(message.contains("line 2"), "{message}");
    }
}
