//! Represents the contents of a definition file as a tree, with the line of every key.
//!
//! TOML and JSON become the same tree, so all other code handles one form. JSON has no line numbers
//! here: positions are given by path. Start at [`parse_toml`].

use anyhow::{Context, Result};
use indexmap::IndexMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

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

    fn line_at(&self, offset: usize) -> Option<usize> {
        Some(self.0.partition_point(|begin| *begin <= offset))
    }

    fn convert_node(&self, offset: usize, value: &DeValue<'_>) -> TreeNode {
        let content = match value {
            DeValue::String(text) => NodeContent::Text(text.to_string()),
            DeValue::Integer(number) => {
                match i64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(whole) => NodeContent::Whole(whole),
                    Err(_) => NodeContent::Other,
                }
            }
            DeValue::Float(number) => match number.as_str().parse() {
                Ok(number) => NodeContent::Number(number),
                Err(_) => NodeContent::Other,
            },
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
        TreeNode { line: self.line_at(offset), content }
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
