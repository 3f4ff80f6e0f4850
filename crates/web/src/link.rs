//! Addresses as text: which letters stand for themselves, and links put into the tables of a document.

use serde_json::Value;
use speedwell_report::{Document, Row};
use std::fmt::Write as _;

/// A text as one part of an address (RFC 3986, section 2.3: unreserved letters stand for themselves).
pub fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~@:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Parts of a path, with the slashes between them as they are.
pub fn encoded_path(text: &str) -> String {
    let parts: Vec<String> = text.split('/').map(encoded).collect();
    parts.join("/")
}

/// The text that a part of an address stands for; `None` if it is none.
pub fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push((digit(digits[0])? * 16 + digit(digits[1])?) as u8);
    }
    let text = String::from_utf8(bytes).ok()?;
    (!text.contains('\0')).then_some(text)
}

/// Makes links of a column of all tables of that name. What a cell leads to follows from its value for machines.
pub fn link_column(
    document: &mut Document,
    table: &str,
    key: &str,
    to: impl Fn(&Value) -> Option<String>,
) {
    link_by(document, table, [key, key], to);
}

/// Makes links of the column `shown`; what a cell leads to follows from the value in the column `by` of its row.
pub fn link_by(
    document: &mut Document,
    table: &str,
    [shown, by]: [&str; 2],
    to: impl Fn(&Value) -> Option<String>,
) {
    document.for_each_table(&mut |known| {
        let position = |key: &str| known.columns.iter().position(|column| column.key == key);
        let (Some(shown), Some(by)) = (position(shown), position(by)) else {
            return;
        };
        if known.name != table {
            return;
        }
        for row in &mut known.rows {
            if let Row::Cells(cells) = row {
                let value = cells[by].value.as_ref();
                let href = value.and_then(|value| to(&value.to_json()));
                cells[shown].rare_mut().link = href;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_survives_being_an_address() {
        for text in [
            "",
            "a b/c?d=e&f#g",
            "\"<>'%41",
            "Größe\u{202e}語",
            "..",
            "@rev:1/2",
        ] {
            assert_eq!(decoded(&encoded(text)).as_deref(), Some(text));
            assert_eq!(decoded(&encoded_path(text)).as_deref(), Some(text));
            let letters = encoded(text);
            assert!(letters.bytes().all(|byte| byte.is_ascii_graphic()));
            assert!(!letters.contains(['<', '>', '"', '\'', '&', '/', '#', '?']));
        }
    }

    #[test]
    fn what_is_no_text_is_none() {
        for text in ["%", "%4", "%zz", "%ff", "a%00b"] {
            assert_eq!(decoded(text), None, "{text}");
        }
    }
}
