//! Contents of a definition file as a tree, with the line of every key.
//!
//! TOML and JSON become the same tree, so all other code handles one form. JSON has no line numbers
//! here: positions are given by path. Start at [`parse_toml`].

use anyhow::{Context, Result};
use indexmap::IndexMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Keys of a table with their values, in order.
pub type Table = IndexMap<String, Node>;

/// A value and its position.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Line of its key, or of the value itself in a list, counted from 1; `None` in JSON.
    pub line: Option<usize>,
    /// Value.
    pub content: Content,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A text.
    Text(String),
    /// A whole number.
    Whole(i64),
    /// Any other number.
    Number(f64),
    /// `true` or `false`.
    Truth(bool),
    /// A list.
    List(Vec<Node>),
    /// A table.
    Table(Table),
    /// A date, or JSON's `null`: valid for no key.
    Other,
}

impl Node {
    /// Returns the table, if it is one.
    pub fn table(&self) -> Option<&Table> {
        match &self.content {
            Content::Table(table) => Some(table),
            _ => None,
        }
    }

    /// Returns the text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Calls `look` with every text in the tree, except keys of tables.
    pub fn visit_texts(&self, look: &mut impl FnMut(&str)) {
        match &self.content {
            Content::Text(text) => look(text),
            Content::List(items) => items.iter().for_each(|item| item.visit_texts(look)),
            Content::Table(table) => table.values().for_each(|node| node.visit_texts(look)),
            _ => {}
        }
    }
}

/// Parses TOML.
///
/// # Errors
/// The text is not TOML; the message shows the position.
pub fn parse_toml(text: &str) -> Result<Node> {
    let table = DeTable::parse(text).map_err(|mut error| {
        error.set_input(Some(text));
        anyhow::anyhow!("{}", error.to_string().trim_end())
    })?;
    let lines = Lines::new(text);
    Ok(Node {
        line: Some(1),
        content: lines.table(table.get_ref()),
    })
}

/// Parses JSON.
///
/// # Errors
/// The text is not JSON; the message has line and column.
pub fn parse_json(text: &str) -> Result<Node> {
    let value: serde_json::Value = serde_json::from_str(text).context("it is not JSON")?;
    Ok(from_json(&value))
}

fn from_json(value: &serde_json::Value) -> Node {
    let content = match value {
        serde_json::Value::Null => Content::Other,
        serde_json::Value::Bool(truth) => Content::Truth(*truth),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(whole) => Content::Whole(whole),
            None => Content::Number(number.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(text) => Content::Text(text.clone()),
        serde_json::Value::Array(items) => Content::List(items.iter().map(from_json).collect()),
        serde_json::Value::Object(entries) => {
            let entries = entries.iter();
            Content::Table(
                entries
                    .map(|(key, value)| (key.clone(), from_json(value)))
                    .collect(),
            )
        }
    };
    Node {
        line: None,
        content,
    }
}

/// Start of each line, in bytes.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Lines {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        Lines(std::iter::once(0).chain(ends).collect())
    }

    fn at(&self, place: usize) -> Option<usize> {
        Some(self.0.partition_point(|begin| *begin <= place))
    }

    fn node(&self, place: usize, value: &DeValue<'_>) -> Node {
        let content = match value {
            DeValue::String(text) => Content::Text(text.to_string()),
            DeValue::Integer(number) => {
                match i64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(whole) => Content::Whole(whole),
                    Err(_) => Content::Other,
                }
            }
            DeValue::Float(number) => match number.as_str().parse() {
                Ok(number) => Content::Number(number),
                Err(_) => Content::Other,
            },
            DeValue::Boolean(truth) => Content::Truth(*truth),
            DeValue::Datetime(_) => Content::Other,
            DeValue::Array(items) => {
                let items = items.iter();
                let node =
                    |item: &Spanned<DeValue<'_>>| self.node(item.span().start, item.get_ref());
                Content::List(items.map(node).collect())
            }
            DeValue::Table(table) => self.table(table),
        };
        Node {
            line: self.at(place),
            content,
        }
    }

    fn table(&self, table: &DeTable<'_>) -> Content {
        let entries = table.iter().map(|(key, value)| {
            let node = self.node(key.span().start, value.get_ref());
            (key.get_ref().to_string(), node)
        });
        Content::Table(entries.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_lines(node: &Node) -> Node {
        let content = match &node.content {
            Content::List(items) => Content::List(items.iter().map(without_lines).collect()),
            Content::Table(table) => {
                let entries = table.iter();
                Content::Table(
                    entries
                        .map(|(k, v)| (k.clone(), without_lines(v)))
                        .collect(),
                )
            }
            other => other.clone(),
        };
        Node {
            line: None,
            content,
        }
    }

    #[test]
    fn toml_and_json_become_the_same_tree() {
        let toml = "a = 1_000\nb = [0.5, 'x', true]\n[[c]]\nd.e = -0x0\n[[c]]\nd = {}\n";
        let json = r#"{"a": 1000, "b": [0.5, "x", true], "c": [{"d": {"e": 0}}, {"d": {}}]}"#;
        let (toml, json) = (
            parse_toml(&toml.replace("-0x0", "0x0")).unwrap(),
            parse_json(json).unwrap(),
        );
        assert_eq!(without_lines(&toml), json);
    }

    #[test]
    fn every_key_knows_its_line_and_every_item_its_own() {
        let tree =
            parse_toml("a = 1\n\n[b]\nc = [\n 1,\n 2]\n[[d]]\n[[d]]\n  e.f = 'ä'\n").unwrap();
        let top = tree.table().unwrap();
        assert_eq!(top["a"].line, Some(1));
        assert_eq!(top["b"].line, Some(3));
        let c = &top["b"].table().unwrap()["c"];
        let Content::List(items) = &c.content else {
            panic!("{c:?}")
        };
        assert_eq!(
            (c.line, items[0].line, items[1].line),
            (Some(4), Some(5), Some(6))
        );
        let Content::List(tables) = &top["d"].content else {
            panic!("{top:?}")
        };
        assert_eq!((tables[0].line, tables[1].line), (Some(7), Some(8)));
        assert_eq!(tables[1].table().unwrap()["e"].line, Some(9));
    }

    #[test]
    fn text_that_is_not_toml_is_reported_with_its_place() {
        let message = parse_toml("a = 1\nb = = 2\n").unwrap_err().to_string();
        assert!(message.contains("line 2"), "{message}");
    }
}
