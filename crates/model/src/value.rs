//! One setting of a parameter, with the single text form that identifies it everywhere.
//!
//! Number text is JavaScript's shortest round-trip form, because the parameters of Node.js
//! benchmarks reach us as such numbers and their identity must not depend on the door they came by.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A parameter's value: `1024`, `utf8`, `true`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A truth value.
    Bool(bool),
    /// A number; integers are exact up to 2^53 as in JavaScript.
    Number(f64),
    /// Any text.
    Text(String),
}

/// The kind of a value, as a benchmark declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValueKind {
    /// `true` or `false`.
    Bool,
    /// A number.
    Number,
    /// Text.
    Text,
}

impl Value {
    /// The kind of this value.
    pub fn kind(&self) -> ValueKind {
        match self {
            Value::Bool(_) => ValueKind::Bool,
            Value::Number(_) => ValueKind::Number,
            Value::Text(_) => ValueKind::Text,
        }
    }

    /// Reads `text` as a value of `kind`; `None` if it is not one.
    ///
    /// Numbers accept `10k`, `10M` and `1e6` as everywhere on the command line.
    pub fn parse(text: &str, kind: ValueKind) -> Option<Value> {
        match kind {
            ValueKind::Bool => text.parse().ok().map(Value::Bool),
            ValueKind::Number => number(text).map(Value::Number),
            ValueKind::Text => Some(Value::Text(text.to_owned())),
        }
    }

    /// Reads a value of unknown kind: `true`/`false`, then a plain number, then text.
    pub fn guess(text: &str) -> Value {
        if let Ok(truth) = text.parse() {
            return Value::Bool(truth);
        }
        match text.parse::<f64>() {
            Ok(number) if looks_numeric(text) => Value::Number(number),
            _ => Value::Text(text.to_owned()),
        }
    }

    /// The value as a number, if it is one.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// The text handed to a program: no quotes, numbers in shortest form.
    pub fn plain(&self) -> String {
        match self {
            Value::Text(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

/// The canonical form: bare where that is unambiguous, else a JSON string.
impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(truth) => write!(out, "{truth}"),
            Value::Number(number) => out.write_str(ryu_js::Buffer::new().format(*number)),
            Value::Text(text) if is_bare(text) => out.write_str(text),
            Value::Text(text) => write!(out, "{}", serde_json::Value::String(text.clone())),
        }
    }
}

/// A number with an optional `k`, `M` or `G` suffix (powers of 1000).
fn number(text: &str) -> Option<f64> {
    let (digits, factor) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 1e3),
        (at, 'M') => (&text[..at], 1e6),
        (at, 'G') => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    looks_numeric(digits)
        .then(|| digits.parse::<f64>().ok())
        .flatten()
        .map(|n| n * factor)
}

/// Rust also parses `inf`, `nan` and `infinity`, which are words to everybody else.
fn looks_numeric(text: &str) -> bool {
    text.bytes()
        .next()
        .is_some_and(|b| b.is_ascii_digit() || b"+-.".contains(&b))
        && text.bytes().any(|b| b.is_ascii_digit())
        && !text
            .bytes()
            .any(|b| b.is_ascii_alphabetic() && !b"eE".contains(&b))
}

fn is_bare(text: &str) -> bool {
    !text.is_empty()
        && matches!(Value::guess(text), Value::Text(_))
        && !text
            .chars()
            .any(|c| c.is_whitespace() || c.is_control() || "\"'`=\\".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_as_javascript_prints_them() {
        for (number, text) in [
            (1024.0, "1024"),
            (0.05, "0.05"),
            (1e21, "1e+21"),
            (-0.5, "-0.5"),
        ] {
            assert_eq!(Value::Number(number).to_string(), text);
        }
    }

    #[test]
    fn text_that_could_be_misread_is_quoted() {
        for (text, printed) in [
            ("utf8", "utf8"),
            ("base64-utf8", "base64-utf8"),
            ("16", "\"16\""),
            ("true", "\"true\""),
            ("", "\"\""),
            ("x y", "\"x y\""),
            ("e'f", "\"e'f\""),
            ("g\nh", "\"g\\nh\""),
            ("NaN", "NaN"),
        ] {
            assert_eq!(Value::Text(text.into()).to_string(), printed);
        }
    }

    #[test]
    fn a_declared_number_refuses_words() {
        assert_eq!(
            Value::parse("1e6", ValueKind::Number),
            Some(Value::Number(1e6))
        );
        assert_eq!(
            Value::parse("10k", ValueKind::Number),
            Some(Value::Number(10_000.0))
        );
        for wrong in ["abc", "", "inf", "nan", "k", "0x10"] {
            assert_eq!(Value::parse(wrong, ValueKind::Number), None, "{wrong}");
        }
    }
}
