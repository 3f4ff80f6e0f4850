//! Values in the two text forms that the Node.js drivers put into their results.
//!
//! Decides nothing of its own: [`json`] gives what `JSON.stringify` gives, [`inspect`] what
//! `util.inspect` gives, so that rows equal those of the original to the byte. The form of a
//! result file is decided by its writer.

use super::number;
use speedwell_model::Value;

/// The value as `JSON.stringify` writes it.
pub fn json(value: &Value) -> String {
    match value {
        Value::Text(text) => serde_json::Value::from(text.as_str()).to_string(),
        // JSON has no other word for a number that is not finite.
        Value::Number(number) if !number.is_finite() => "null".to_owned(),
        Value::Number(number) => number::text(*number),
        Value::Bool(truth) => truth.to_string(),
    }
}

/// The value as `util.inspect` writes it.
pub fn inspect(value: &Value) -> String {
    match value {
        Value::Text(text) => inspect_text(text),
        Value::Number(number) if *number == 0.0 && number.is_sign_negative() => "-0".to_owned(),
        Value::Number(number) => number::text(*number),
        Value::Bool(truth) => truth.to_string(),
    }
}

/// `util.inspect` cuts texts here (its option `maxStringLength`), in UTF-16 units.
const LONGEST_TEXT: usize = 10_000;

/// `util.inspect` breaks texts with line ends that are longer than this: its option `breakLength`
/// of 80 less 4. Observed with Node.js 18.20, 20.20 and 26.10.
const LONGEST_LINE: usize = 76;

fn inspect_text(text: &str) -> String {
    let length = text.encode_utf16().count();
    if length > LONGEST_TEXT {
        let more = length - LONGEST_TEXT;
        let plural = if more == 1 { "" } else { "s" };
        let shown = first_units(text, LONGEST_TEXT);
        return format!(
            "{}... {more} more character{plural}",
            broken_lines(shown, LONGEST_TEXT)
        );
    }
    broken_lines(text, length)
}

/// The longest beginning of `text` that has at most `units` UTF-16 units.
fn first_units(text: &str, units: usize) -> &str {
    let mut length = 0;
    let end = text.char_indices().find(|(_, c)| {
        length += c.len_utf16();
        length > units
    });
    end.map_or(text, |(at, _)| &text[..at])
}

fn broken_lines(text: &str, length: usize) -> String {
    if length <= LONGEST_LINE {
        return quoted(text);
    }
    let lines: Vec<String> = text.split_inclusive('\n').map(quoted).collect();
    if lines.is_empty() {
        quoted(text)
    } else {
        lines.join(" +\n  ")
    }
}

/// The text in the first kind of quotes that it does not contain: single, double, back-ticks.
fn quoted(text: &str) -> String {
    let quote = if !text.contains('\'') {
        '\''
    } else if !text.contains('"') {
        '"'
    } else if !text.contains('`') && !text.contains("${") {
        '`'
    } else {
        '\''
    };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\\' => out.push_str("\\\\"),
            '\'' if quote == '\'' => out.push_str("\\'"),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => out.push_str(&format!("\\x{:02X}", c as u32)),
            other => out.push(other),
        }
    }
    out.push(quote);
    out
}

#[cfg(test)]
mod tests {
    use super::super::configuration;
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    /// Expected texts printed by `util.inspect` of Node.js 18.20, 20.20 and 26.10.
    #[test]
    fn inspected_texts_are_those_of_node() {
        for (value, printed) in [
            ("utf8", "'utf8'"),
            ("a\"b", "'a\"b'"),
            ("e'f", "\"e'f\""),
            ("a'b\"c", "`a'b\"c`"),
            ("a'b\"c`d", "'a\\'b\"c`d'"),
            ("x${y}'\"", "'x${y}\\'\"'"),
            (
                "\0\u{1b}\u{7f}\u{85}\u{a0}\u{b}\u{8}\u{c}\r\t\\",
                "'\\x00\\x1B\\x7F\\x85\u{a0}\\x0B\\b\\f\\r\\t\\\\'",
            ),
            ("é😀", "'é😀'"),
            ("", "''"),
            ("ab\nab\n", "'ab\\nab\\n'"),
        ] {
            assert_eq!(inspect(&text(value)), printed);
        }
    }

    #[test]
    fn long_texts_are_broken_behind_their_line_ends() {
        let short = format!("{}\nz", "y".repeat(74));
        let long = format!("{}\nz", "y".repeat(75));
        assert_eq!(inspect(&text(&short)), format!("'{}\\nz'", "y".repeat(74)));
        assert_eq!(
            inspect(&text(&long)),
            format!("'{}\\n' +\n  'z'", "y".repeat(75))
        );
        assert_eq!(
            inspect(&text(&"y".repeat(200))),
            format!("'{}'", "y".repeat(200))
        );
    }

    #[test]
    fn endless_texts_are_cut_where_node_cuts_them() {
        let printed = inspect(&text(&"z".repeat(10_005)));
        assert_eq!(
            printed,
            format!("'{}'... 5 more characters", "z".repeat(10_000))
        );
        assert!(inspect(&text(&"z".repeat(10_001))).ends_with("... 1 more character"));
    }

    #[test]
    fn numbers_differ_only_where_json_has_no_word_for_them() {
        for (number, as_json, inspected) in [
            (1e21, "1e+21", "1e+21"),
            (0.1 + 0.2, "0.30000000000000004", "0.30000000000000004"),
            (-0.0, "0", "-0"),
            (f64::NAN, "null", "NaN"),
            (f64::INFINITY, "null", "Infinity"),
        ] {
            assert_eq!(json(&Value::Number(number)), as_json);
            assert_eq!(inspect(&Value::Number(number)), inspected);
        }
        assert_eq!(json(&Value::Bool(true)), "true");
        assert_eq!(inspect(&Value::Bool(false)), "false");
    }

    #[test]
    fn whatever_is_written_reads_back() {
        for awkward in [
            "x y",
            "a\"b'c`${d",
            "g\r\nh",
            "\u{7f}\u{9f}\u{2028}",
            "=",
            "\\x41",
            "😀",
        ] {
            let long = format!("{awkward}\n").repeat(60);
            for value in [text(awkward), text(&long)] {
                for written in [json(&value), inspect(&value)] {
                    let parsed = configuration::parse(&format!("k={written} n=1")).unwrap();
                    assert_eq!(parsed[0].1, value, "{written}");
                    assert_eq!(parsed.len(), 2);
                }
            }
        }
    }
}
