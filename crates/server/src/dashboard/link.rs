//! Percent-encodes addresses, adds links to table cells, and finds similar names.

use serde_json::Value;
use speedwell_report::{Document, ReportRow};
use std::fmt::Write as _;

/// Encodes a string as one path segment or query value. Unreserved characters (RFC 3986, section
/// 2.3), `@` and `:` are not encoded.
pub fn encode_segment(text: &str) -> String {
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

/// Encodes each segment of a path, keeping the slashes.
pub fn encode_path(text: &str) -> String {
    let parts: Vec<String> = text.split('/').map(encode_segment).collect();
    parts.join("/")
}

/// Decodes a part of an address. Returns `None` if an escape is invalid, or if the result is not
/// valid UTF-8 or contains NUL.
pub fn decode_segment(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut encoded = text.bytes();
    while let Some(byte) = encoded.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [encoded.next()?, encoded.next()?];
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push((digit(digits[0])? * 16 + digit(digits[1])?) as u8);
    }
    let text = String::from_utf8(bytes).ok()?;
    (!text.contains('\0')).then_some(text)
}

/// Links a column of all tables named `table`. `href_for` maps a cell's raw value to its target.
pub fn link_column(
    document: &mut Document,
    table: &str,
    key: &str,
    href_for: impl Fn(&Value) -> Option<String>,
) {
    link_by(document, table, [key, key], href_for);
}

/// Links the column `shown`. `href_for` maps the same row's raw value in column `by` to the target.
pub fn link_by(
    document: &mut Document,
    table: &str,
    [shown, by]: [&str; 2],
    href_for: impl Fn(&Value) -> Option<String>,
) {
    document.for_each_table(&mut |candidate| {
        let position = |key: &str| candidate.columns.iter().position(|column| column.key == key);
        let (Some(shown), Some(by)) = (position(shown), position(by)) else {
            return;
        };
        if candidate.name != table {
            return;
        }
        for row in &mut candidate.rows {
            if let ReportRow::Cells(cells) = row {
                let value = cells[by].value.as_ref();
                let href = value.and_then(|value| href_for(&value.to_json()));
                cells[shown].rare_mut().link = href;
            }
        }
    });
}

/// Returns up to five known names that are most similar to `name`.
pub fn nearest_names<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Vec<&'k str> {
    let lowercase_name = name.to_lowercase();
    let mut by_distance: Vec<(usize, &str)> = known
        .into_iter()
        .map(|known| {
            let lower = known.to_lowercase();
            let distance = if lower.contains(&lowercase_name) {
                0
            } else {
                strsim::osa_distance(&lower, &lowercase_name)
            };
            (distance, known)
        })
        .filter(|(distance, _)| *distance <= lowercase_name.chars().count().max(3))
        .collect();
    by_distance.sort();
    by_distance.truncate(5);
    by_distance.into_iter().map(|(_, known)| known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_survives_encoding_into_an_address() {
        for text in ["", "a b/c?d=e&f#g", "\"<>'%41", "Größe\u{202e}語", "..", "@rev:1/2"] {
            assert_eq!(decode_segment(&encode_segment(text)).as_deref(), Some(text));
            assert_eq!(decode_segment(&encode_path(text)).as_deref(), Some(text));
            let letters = encode_segment(text);
            assert!(letters.bytes().all(|byte| byte.is_ascii_graphic()));
            assert!(!letters.contains(['<', '>', '"', '\'', '&', '/', '#', '?']));
        }
    }

    #[test]
    fn invalid_escapes_are_not_decoded() {
        for text in ["%", "%4", "%zz", "%ff", "a%00b"] {
            assert_eq!(decode_segment(text), None, "{text}");
        }
    }
}
