//! Reads JSON written by other programs: detects formats, and reads values with their locations.
//!
//! Accepts non-finite numbers and raw control characters. The JSON standard forbids both, but C++
//! programs write them. This module knows nothing about particular formats. Start at
//! [`JsonContent`] to detect formats, or at [`parse`] and [`JsonNode`] to read.

use super::file_beginning;
use anyhow::{Context, Error, Result, anyhow, ensure};
use serde_json::Value;
use std::borrow::Cow;
use std::cell::OnceCell;

/// Returns the keys of objects near the beginning of a JSON document, each with the number of open
/// brackets around it: 1 for the outermost object, 3 for objects in its arrays.
fn find_keys(bytes: &[u8]) -> Vec<(u32, &[u8])> {
    let bytes = file_beginning(bytes);
    let mut found = Vec::new();
    let (mut index, mut depth) = (0, 0_u32);
    while let Some(&byte) = bytes.get(index) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let end = string_end(bytes, index);
                let text = bytes.get(index + 1..end).unwrap_or_default();
                let after = bytes.get(end + 1..).unwrap_or_default();
                if after.trim_ascii_start().starts_with(b":") {
                    found.push((depth, text));
                }
                index = end;
            }
            _ => {}
        }
        index += 1;
    }
    found
}

/// A file whose format is being detected. Caches the keys near its beginning, because several
/// detectors need them.
#[derive(Debug)]
pub struct JsonContent<'a> {
    /// Content of the file, or its beginning, unpacked and without byte order mark.
    pub bytes: &'a [u8],
    keys: OnceCell<Vec<(u32, &'a [u8])>>,
}

impl<'a> JsonContent<'a> {
    /// Wraps a file without inspecting it.
    pub fn new(bytes: &'a [u8]) -> JsonContent<'a> {
        let keys = OnceCell::new();
        JsonContent { bytes, keys }
    }

    /// Returns the beginning of the file as text.
    pub fn beginning(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(file_beginning(self.bytes))
    }

    /// Returns whether an object near the beginning has this key at this nesting depth.
    pub fn has_key(&self, depth: u32, key: &str) -> bool {
        self.keys().contains(&(depth, key.as_bytes()))
    }

    /// Returns whether the outermost object begins with this key.
    pub fn begins_with_key(&self, key: &str) -> bool {
        self.keys().first() == Some(&(1, key.as_bytes()))
    }

    /// Returns the keys near the beginning of the file, each with its nesting depth. There are none
    /// if the file does not start with JSON, because JSON after other text is not supported.
    pub fn keys(&self) -> &[(u32, &'a [u8])] {
        self.keys.get_or_init(|| match self.bytes.trim_ascii_start().first() {
            Some(b'{' | b'[') => find_keys(self.bytes),
            _ => Vec::new(),
        })
    }
}

/// Returns the index of the quote that closes the string opened at `start`, or the end of the text.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut index = start + 1;
    while let Some(&byte) = bytes.get(index) {
        match byte {
            b'"' => return index,
            b'\\' => index += 2,
            _ => index += 1,
        }
    }
    bytes.len()
}

/// Parses a whole document. A non-finite number becomes null.
///
/// # Errors
/// Fails if the text is not UTF-8 or not JSON; the message names line and column.
pub fn parse(bytes: &[u8]) -> Result<Value> {
    read_lenient(bytes, |text| serde_json::from_str(text))
}

/// A string that replaces a non-finite number where readers must distinguish the number from null.
pub const NOT_FINITE: &str = "\0not finite";

/// Parses a whole document. A non-finite number becomes the string [`NOT_FINITE`].
///
/// # Errors
/// See [`parse`].
pub fn parse_marking_not_finite(bytes: &[u8]) -> Result<Value> {
    let text = require_text(bytes)?;
    let marker = Value::from(NOT_FINITE).to_string();
    serde_json::from_str(text)
        .or_else(|_| serde_json::from_str(&to_strict_json(text, &marker)))
        .map_err(explain_error)
}

/// Passes the text of a file to `read`. If `read` fails, converts the text to strict JSON and calls
/// `read` again.
///
/// # Errors
/// Fails if the text is not UTF-8, or `read` fails on the strict text.
pub fn read_lenient<T>(
    bytes: &[u8],
    mut read: impl FnMut(&str) -> serde_json::Result<T>,
) -> Result<T> {
    let text = require_text(bytes)?;
    read(text).or_else(|_| read(&to_strict_json(text, "null"))).map_err(explain_error)
}

/// Returns the text without its byte order mark.
fn require_text(bytes: &[u8]) -> Result<&str> {
    let text = super::require_utf8(bytes)?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

pub(super) fn explain_error(error: serde_json::Error) -> Error {
    if error.is_eof() {
        anyhow!("{error}\nhint: is the file cut short?")
    } else if error.to_string().starts_with("trailing characters") {
        anyhow!(
            "{error}\nhint: does the file contain several JSON documents? save each to its own file; to combine several \
             files into one side of a comparison, pass them as A.json,B.json"
        )
    } else {
        error.into()
    }
}

/// Converts the text to strict JSON: replaces `NaN`, `Infinity` and the like with `not_finite`, and
/// escapes raw control characters. Line numbers are preserved up to the first line break inside a
/// string.
pub(super) fn to_strict_json(text: &str, not_finite: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => {
                let end = (string_end(rest.as_bytes(), 0) + 1).min(rest.len());
                out.extend(rest[..end].chars().map(escape_control));
                end
            }
            '-' | 'a'..='z' | 'A'..='Z' => {
                let end = rest[1..]
                    .find(|c: char| !c.is_ascii_alphabetic())
                    .map_or(rest.len(), |end| end + 1);
                out.push_str(if is_not_finite(&rest[..end]) { not_finite } else { &rest[..end] });
                end
            }
            other => {
                out.push(other);
                other.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    out
}

fn is_not_finite(word: &str) -> bool {
    let unsigned = word.trim_start_matches('-').to_ascii_lowercase();
    ["nan", "inf", "infinity"].contains(&unsigned.as_str())
}

fn escape_control(character: char) -> String {
    if character.is_ascii_control() {
        format!("\\u{:04x}", u32::from(character))
    } else {
        character.into()
    }
}

/// A value and its location in the file, for error messages.
#[derive(Debug, Clone)]
pub struct JsonNode<'a> {
    location: String,
    value: &'a Value,
}

impl<'a> JsonNode<'a> {
    /// Wraps the outermost value.
    pub fn from_root(value: &'a Value) -> JsonNode<'a> {
        JsonNode { location: String::new(), value }
    }

    /// Wraps a value that is at `location` in a larger value.
    pub fn at_location(location: String, value: &'a Value) -> JsonNode<'a> {
        JsonNode { location, value }
    }

    /// Returns a member of an object; `None` if the member is absent or null, or if this node is
    /// not an object.
    pub fn get(&self, key: &str) -> Option<JsonNode<'a>> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        Some(self.child(key, value))
    }

    /// Returns a required member.
    ///
    /// # Errors
    /// Fails if the member is absent or null; the message names the member.
    pub fn require(&self, key: &str) -> Result<JsonNode<'a>> {
        let location = match self.location.as_str() {
            "" => String::new(),
            location => format!(" in '{location}'"),
        };
        self.get(key).with_context(|| format!("the key '{key}' is missing{location}"))
    }

    /// Returns an optional string member.
    ///
    /// # Errors
    /// Fails if the member has another type.
    pub fn text_of(&self, key: &str) -> Result<Option<&'a str>> {
        self.get(key).map(|node| node.text()).transpose()
    }

    /// Returns an optional number member.
    ///
    /// # Errors
    /// Fails if the member has another type.
    pub fn number_of(&self, key: &str) -> Result<Option<f64>> {
        self.get(key).map(|node| node.number()).transpose()
    }

    /// Returns the members of an object in file order. A value of another type has no members.
    pub fn members(&self) -> impl Iterator<Item = (&'a str, &'a Value)> + use<'a> {
        let members = self.value.as_object().into_iter().flatten();
        members.map(|(key, value)| (key.as_str(), value))
    }

    /// Returns the elements of an array.
    ///
    /// # Errors
    /// Fails if the value is not an array.
    pub fn elements(&self) -> Result<Vec<JsonNode<'a>>> {
        let elements = self.value.as_array().ok_or_else(|| self.type_error("an array"))?;
        let node =
            |(index, value)| JsonNode { location: format!("{}[{index}]", self.location), value };
        Ok(elements.iter().enumerate().map(node).collect())
    }

    /// Returns the value as a string.
    ///
    /// # Errors
    /// Fails if the value is not a string.
    pub fn text(&self) -> Result<&'a str> {
        self.value.as_str().ok_or_else(|| self.type_error("a string"))
    }

    /// Returns the value as a number.
    ///
    /// # Errors
    /// Fails if the value is not a number.
    pub fn number(&self) -> Result<f64> {
        self.value.as_f64().ok_or_else(|| self.type_error("a number"))
    }

    /// Returns the elements of an optional array member.
    ///
    /// # Errors
    /// Fails if the member has another type.
    pub fn elements_of(&self, key: &str) -> Result<Vec<JsonNode<'a>>> {
        self.get(key).map_or(Ok(Vec::new()), |node| node.elements())
    }

    /// Returns the value as a number, multiplied by `factor`.
    ///
    /// # Errors
    /// Fails if the value is not a number, or the product is not finite.
    pub fn scaled_number(&self, factor: f64) -> Result<f64> {
        let scaled = self.number()? * factor;
        ensure!(scaled.is_finite(), "'{}' is too large", self.location);
        Ok(scaled)
    }

    /// Returns whether the value is `true`.
    pub fn is_true(&self) -> bool {
        self.value.as_bool() == Some(true)
    }

    /// Returns whether the value is null, which stands for a missing value or a non-finite number.
    pub fn is_null(&self) -> bool {
        self.value.is_null()
    }

    /// Returns whether the value is a non-finite number, as marked by [`parse_marking_not_finite`].
    pub fn is_not_finite(&self) -> bool {
        self.value == NOT_FINITE
    }

    /// Returns the value.
    pub fn value(&self) -> &'a Value {
        self.value
    }

    /// Returns the location, such as `benchmarks[3].real_time`.
    pub fn location(&self) -> &str {
        &self.location
    }

    fn child(&self, key: &str, value: &'a Value) -> JsonNode<'a> {
        let dot = if self.location.is_empty() { "" } else { "." };
        let location = format!("{}{dot}{key}", self.location);
        JsonNode { location, value }
    }

    fn type_error(&self, expected: &str) -> Error {
        let mut found = self.value.to_string();
        if let Some((end, _)) = found.char_indices().nth(40) {
            found.replace_range(end.., "...");
        }
        anyhow!("'{}' is {found}, not {expected}", self.location)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_with_their_depth_even_when_the_text_is_cut() {
        let found = find_keys(br#" {"a\"b" : ["x", {"c": "d:e"}], "f": {"g"#);
        let expected: [(u32, &[u8]); 3] = [(1, br#"a\"b"#), (3, b"c"), (1, b"f")];
        assert_eq!(found, expected);
    }

    #[test]
    fn tabs_in_strings_and_nan_and_infinity_are_accepted() {
        let text =
            "{\"a\": NaN, \"b\": [-Infinity, inf, true, -1.5e3],\n\"c\": \"x\ty NaN \\\" é\"}";
        let expected = serde_json::json!({
            "a": null, "b": [null, null, true, -1500.0], "c": "x\ty NaN \" é"
        });
        assert_eq!(parse(text.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn nonfinite_numbers_can_be_distinguished_from_null() {
        let parsed = parse_marking_not_finite(b"[null, NaN, 1]").unwrap();
        assert_eq!(parsed, serde_json::json!([null, NOT_FINITE, 1]));
    }

    #[test]
    fn errors_name_the_position_or_the_path() {
        let message = |bytes: &[u8]| parse(bytes).unwrap_err().to_string();
        assert_eq!(message(b"{\"a\": 1,\n oops}"), "key must be a string at line 2 column 2");
        assert!(message(b"{\"a\": [1").ends_with("is the file cut short?"));
        let value = serde_json::json!({"a": [{"b": "x".repeat(50)}]});
        let element = JsonNode::from_root(&value).require("a").unwrap().elements().unwrap();
        assert_eq!(
            element[0].require("c").unwrap_err().to_string(),
            "the key 'c' is missing in 'a[0]'"
        );
        let error = element[0].require("b").unwrap().number().unwrap_err();
        assert_eq!(error.to_string(), format!("'a[0].b' is \"{}..., not a number", "x".repeat(39)));
    }
}
