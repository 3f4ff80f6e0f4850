//! Fills placeholders, such as `{name}` in strings of a definition file, for every case and
//! variant.
//!
//! A placeholder is a name in braces. Braces around anything else are left unchanged, so JSON needs
//! no escapes. `${NAME}`, which belongs to the shell, and `\p{NAME}`, a character class in a
//! pattern, are left unchanged as well. `{{name}}` is an escaped `{name}`. A filled string that is
//! a simple calculation becomes its result: with 8 workers, `{workers}+1` becomes 9. Placeholders
//! whose values are known only when a run begins, such as `{port}`, are left unfilled. Start at
//! [`PlaceholderMap`].

use super::expression::evaluate_arithmetic;
use super::file_part::{NodeContent, NodePath, TreeNode, error_at_line, nearest_hint};
use anyhow::Result;
use indexmap::IndexSet;
use regex::{Captures, Regex};
use speedwell_model::ParameterValue;
use std::sync::LazyLock;

static PLACEHOLDER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let escaped = r"\{\{[A-Za-z_]\w*\}\}";
    Regex::new(&format!(r"({escaped})|(\$|\\[pP])?\{{([A-Za-z_]\w*)\}}")).ok()
});

/// Returns the names of the placeholders in a string, in order.
pub fn placeholder_names(text: &str) -> Vec<String> {
    let captures = PLACEHOLDER.iter().flat_map(|placeholder| placeholder.captures_iter(text));
    captures.filter_map(|captures| placeholder_name(&captures).map(str::to_owned)).collect()
}

/// Whether any string of a tree has the placeholder.
pub fn uses_placeholder(node: &TreeNode, name: &str) -> bool {
    let mut is_used = false;
    node.visit_texts(&mut |text| is_used |= placeholder_names(text).iter().any(|n| n == name));
    is_used
}

fn placeholder_name<'a>(captures: &'a Captures<'_>) -> Option<&'a str> {
    let is_literal = captures.get(1).is_some() || captures.get(2).is_some();
    captures.get(3).filter(|_| !is_literal).map(|name| name.as_str())
}

/// Fills the placeholders of a string; placeholders for which `value` returns `None` are left
/// unchanged.
pub fn fill_text(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let Some(placeholder) = &*PLACEHOLDER else { return text.to_owned() };
    let filled = placeholder.replace_all(text, |captures: &Captures<'_>| {
        if let Some(escaped) = captures.get(1).map(|captures| captures.as_str()) {
            return escaped[1..escaped.len() - 1].to_owned();
        }
        let value_text = placeholder_name(captures).and_then(&value);
        value_text.unwrap_or_else(|| captures[0].to_owned())
    });
    filled.into_owned()
}

/// Escapes the placeholders of a string. Filling the result restores the string.
pub fn escape_text(text: &str) -> String {
    let Some(placeholder) = &*PLACEHOLDER else { return text.to_owned() };
    let escaped = placeholder.replace_all(text, |captures: &Captures<'_>| {
        let is_placeholder = captures.get(1).is_some() || placeholder_name(captures).is_some();
        if is_placeholder { format!("{{{}}}", &captures[0]) } else { captures[0].to_owned() }
    });
    escaped.into_owned()
}

/// Values of placeholders.
#[derive(Debug, Clone, Default)]
pub struct PlaceholderMap {
    /// Names with their values. If a name occurs several times, its last value is used.
    values: Vec<(String, String)>,
    deferred: Vec<&'static str>,
    /// Case and variant to which the values belong, for messages.
    owner: String,
}

impl PlaceholderMap {
    /// Adds a name; its value hides an earlier value of the same name.
    pub fn define_value(&mut self, name: &str, value: impl Into<String>) {
        self.values.push((name.to_owned(), value.into()));
    }

    /// Adds a name whose placeholders are left unfilled until the run begins.
    pub fn defer_value(&mut self, name: &'static str) {
        self.deferred.push(name);
    }

    /// Sets the owner that messages name: `under the variant 'red'`.
    pub fn set_owner(&mut self, owner: String) {
        self.owner = owner;
    }

    fn value_of(&self, name: &str) -> Option<&str> {
        let found = self.values.iter().rev().find(|(defined, _)| defined == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Fills the placeholders of a string. If the filled string is a calculation, returns its
    /// result.
    ///
    /// # Errors
    /// Fails if a placeholder is unknown; `line` and `place` give the position.
    pub fn fill_placeholders(
        &self,
        text: &str,
        line: Option<usize>,
        place: &NodePath,
    ) -> Result<String> {
        let names = placeholder_names(text);
        let is_known = |name: &str| self.value_of(name).is_some() || self.deferred.contains(&name);
        if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
            return Err(self.unknown_placeholder_error(unknown, line, place));
        }
        let filled = fill_text(text, |name| self.value_of(name).map(str::to_owned));
        let result = (!names.is_empty()).then(|| evaluate_calculation(&filled)).flatten();
        Ok(result.unwrap_or(filled))
    }

    fn unknown_placeholder_error(
        &self,
        name: &str,
        line: Option<usize>,
        place: &NodePath,
    ) -> anyhow::Error {
        let defined = self.values.iter().map(|(name, _)| name.as_str());
        let names: IndexSet<&str> = defined.chain(self.deferred.iter().copied()).collect();
        let location = if line.is_some() { String::new() } else { format!(" in '{place}'") };
        let (owner, hint) = (&self.owner, nearest_hint(name, names));
        let escape_hint = format!("write literal braces as {{{{{name}}}}}");
        error_at_line(
            line,
            format!(
                "unknown placeholder '{{{name}}}'{location}{owner}\nhint: {hint}; {escape_hint}"
            ),
        )
    }

    /// Fills all strings of a tree.
    ///
    /// # Errors
    /// Fails if a placeholder is unknown.
    pub fn fill_node(&self, node: &TreeNode, place: &NodePath) -> Result<TreeNode> {
        let content = match &node.content {
            NodeContent::Text(text) => {
                NodeContent::Text(self.fill_placeholders(text, node.line, place)?)
            }
            NodeContent::List(items) => {
                let filled = items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| self.fill_node(item, &place.list_item(index)));
                NodeContent::List(filled.collect::<Result<_>>()?)
            }
            NodeContent::Table(table) => {
                let filled = table.iter().map(|(key, inner)| {
                    let inner = self.fill_node(inner, &place.child_key(key))?;
                    Ok((key.clone(), inner))
                });
                NodeContent::Table(filled.collect::<Result<_>>()?)
            }
            other => other.clone(),
        };
        Ok(TreeNode { line: node.line, content })
    }

    /// Fills the placeholders of a value. If the filled string is a number, so is the result.
    ///
    /// # Errors
    /// Fails if a placeholder is unknown.
    pub fn fill_value(
        &self,
        value: &ParameterValue,
        line: Option<usize>,
        place: &NodePath,
    ) -> Result<ParameterValue> {
        let ParameterValue::Text(text) = value else { return Ok(value.clone()) };
        let filled = self.fill_placeholders(text, line, place)?;
        Ok(match ParameterValue::infer_value(&filled) {
            number @ ParameterValue::Number(_) if filled != *text => number,
            _ => ParameterValue::Text(filled),
        })
    }
}

/// Returns the result of a calculation, or `None` if the text is not one. A hyphen or a slash is an
/// operator only between spaces, because names and paths also contain these characters.
fn evaluate_calculation(text: &str) -> Option<String> {
    let has_operator = text.contains(['+', '*']) || text.contains(" - ") || text.contains(" / ");
    let without_spaced_operators = text.replace(" - ", "").replace(" / ", "");
    if !has_operator || without_spaced_operators.contains(['-', '/', 'e', 'E']) {
        return None;
    }
    evaluate_arithmetic(text).map(|number| ParameterValue::Number(number).plain())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placeholders() -> PlaceholderMap {
        let mut known = PlaceholderMap::default();
        known.define_value("workers", "8");
        known.define_value("name", "a-1");
        known.defer_value("port");
        known
    }

    #[test]
    fn placeholders_are_filled_and_calculations_done() {
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
            assert_eq!(
                placeholders().fill_placeholders(text, None, &NodePath::default()).unwrap(),
                filled,
                "{text}"
            );
        }
    }

    #[test]
    fn an_unknown_placeholder_is_reported_with_its_line_and_a_suggestion() {
        let message = placeholders()
            .fill_placeholders("{wokers}", Some(7), &NodePath::default())
            .unwrap_err()
            .to_string();
        assert_eq!(
            message,
            "line 7: unknown placeholder '{wokers}'\nhint: did you mean 'workers'?; write literal \
             braces as {{wokers}}"
        );
        let message = placeholders()
            .fill_placeholders("{x}", None, &NodePath::default().child_key("group").list_item(0))
            .unwrap_err()
            .to_string();
        assert!(message.contains("in 'group[0]'") && message.contains("workers, name, port"));
    }

    #[test]
    fn names_in_braces_are_filled_and_other_braces_stay() {
        let text = r#"{"a": {n}, "b": "{n}{m}"} ${n} {} \p{n} {{n}} {"c":{"d":{n}}}"#;
        assert_eq!(placeholder_names(text), ["n", "n", "m", "n"]);
        let filled = fill_text(text, |name| (name == "n").then(|| "7".to_owned()));
        assert_eq!(filled, r#"{"a": 7, "b": "7{m}"} ${n} {} \p{n} {n} {"c":{"d":7}}"#);
    }

    #[test]
    fn escaped_text_is_filled_as_the_original_text() {
        for text in ["awk '{print}'", "{{print}}", "${a} \\p{L} {}", "{a}{b}", "{\"a\":{n}}"] {
            assert_eq!(fill_text(&escape_text(text), |_| Some("x".to_owned())), text, "{text}");
        }
    }
}
