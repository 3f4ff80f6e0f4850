//! What blanks mean for one case and variant, and texts with their blanks filled.
//!
//! A text that is a small calculation once its blanks are filled becomes its result: `{workers}+1` is 9.
//! Names that are known only when a run begins, such as `{port}`, stay.

use crate::blanks;
use crate::expression::arithmetic;
use crate::keys::{at, nearest_of};
use crate::tree::{Content, Node};
use anyhow::Result;
use speedwell_model::Value;

/// Names of blanks with their texts.
#[derive(Debug, Clone, Default)]
pub struct Vocabulary {
    /// The last one of a name counts.
    words: Vec<(String, String)>,
    later: Vec<&'static str>,
    /// Of which case and variant, for messages.
    whose: String,
}

impl Vocabulary {
    /// Adds a name; it hides an earlier one.
    pub fn say(&mut self, name: &str, value: impl Into<String>) {
        self.words.push((name.to_owned(), value.into()));
    }

    /// Adds a name that stays a blank until the run begins.
    pub fn leave(&mut self, name: &'static str) {
        self.later.push(name);
    }

    /// Says in messages whose blanks these are: `under the variant 'red'`.
    pub fn belongs(&mut self, whose: String) {
        self.whose = whose;
    }

    fn word(&self, name: &str) -> Option<&str> {
        let found = self.words.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The text with its blanks filled, calculated where it is a calculation.
    ///
    /// # Errors
    /// Nothing fills a blank; `line` and `path` are where.
    pub fn fill(&self, text: &str, line: Option<usize>, path: &str) -> Result<String> {
        let names = blanks::names(text);
        let is_known = |name: &str| self.word(name).is_some() || self.later.contains(&name);
        if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
            return Err(self.unfilled(unknown, line, path));
        }
        let filled = blanks::fill(text, |name| self.word(name).map(str::to_owned));
        let result = (!names.is_empty()).then(|| calculated(&filled)).flatten();
        Ok(result.unwrap_or(filled))
    }

    fn unfilled(&self, name: &str, line: Option<usize>, path: &str) -> anyhow::Error {
        let mut known: Vec<String> = Vec::new();
        let words = self.words.iter().map(|(name, _)| name.as_str());
        for word in words.chain(self.later.iter().copied()) {
            if !known.iter().any(|known| known == word) {
                known.push(word.to_owned());
            }
        }
        let place = match line {
            Some(_) => String::new(),
            None => format!(" in '{path}'"),
        };
        let (whose, hint) = (&self.whose, nearest_of(name, &known));
        let stays = format!("braces that are no blank are written {{{{{name}}}}}");
        at(
            line,
            format!("nothing fills '{{{name}}}'{place}{whose}\nhint: {hint}; {stays}"),
        )
    }

    /// The tree with all its texts filled.
    ///
    /// # Errors
    /// Nothing fills a blank.
    pub fn fill_node(&self, node: &Node, path: &str) -> Result<Node> {
        let content = match &node.content {
            Content::Text(text) => Content::Text(self.fill(text, node.line, path)?),
            Content::List(items) => {
                let items = items.iter().enumerate();
                let filled = items.map(|(at, item)| self.fill_node(item, &format!("{path}[{at}]")));
                Content::List(filled.collect::<Result<_>>()?)
            }
            Content::Table(table) => {
                let filled = table.iter().map(|(key, inner)| {
                    let inner = self.fill_node(inner, &format!("{path}.{key}"))?;
                    Ok((key.clone(), inner))
                });
                Content::Table(filled.collect::<Result<_>>()?)
            }
            other => other.clone(),
        };
        Ok(Node {
            line: node.line,
            content,
        })
    }

    /// The value with its blanks filled; a calculation becomes a number.
    ///
    /// # Errors
    /// Nothing fills a blank.
    pub fn fill_value(&self, value: &Value, line: Option<usize>, path: &str) -> Result<Value> {
        let Value::Text(text) = value else {
            return Ok(value.clone());
        };
        let filled = self.fill(text, line, path)?;
        let is_number = filled != *text && matches!(Value::guess(&filled), Value::Number(_));
        Ok(if is_number {
            Value::guess(&filled)
        } else {
            Value::Text(filled)
        })
    }
}

/// The result of a calculation. A hyphen or a slash counts only between blanks, because names and
/// paths have them, too.
fn calculated(text: &str) -> Option<String> {
    let has_sign = text.contains(['+', '*']) || text.contains(" - ") || text.contains(" / ");
    let spaced = text.replace(" - ", "").replace(" / ", "");
    if !has_sign || spaced.contains(['-', '/', 'e', 'E']) {
        return None;
    }
    arithmetic(text).map(|number| Value::Number(number).plain())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Vocabulary {
        let mut words = Vocabulary::default();
        words.say("workers", "8");
        words.say("name", "a-1");
        words.leave("port");
        words
    }

    #[test]
    fn blanks_are_filled_and_calculations_done() {
        for (text, filled) in [
            ("{workers}+1", "9"),
            ("2*{workers}", "16"),
            ("{workers} / 2", "4"),
            ("{workers}/2", "8/2"),
            ("--http={workers}", "--http=8"),
            ("--n={workers}+1", "--n=8+1"),
            ("1+1", "1+1"),
            ("http://127.0.0.1:{port}/", "http://127.0.0.1:{port}/"),
            ("{name}", "a-1"),
            ("{{workers}} ${workers}", "{workers} ${workers}"),
        ] {
            assert_eq!(words().fill(text, None, "x").unwrap(), filled, "{text}");
        }
    }

    #[test]
    fn a_blank_that_nobody_fills_names_line_and_nearest() {
        let told = words()
            .fill("{wokers}", Some(7), "x")
            .unwrap_err()
            .to_string();
        assert_eq!(
            told,
            "line 7: nothing fills '{wokers}'\nhint: did you mean 'workers'?; braces that are no \
             blank are written {{wokers}}"
        );
        let told = words()
            .fill("{x}", None, "group[0].target")
            .unwrap_err()
            .to_string();
        assert!(told.contains("in 'group[0].target'") && told.contains("workers, name, port"));
    }
}
