//! Reads and writes addresses: percent-encodes them, and splits the path of a page into its parts,
//! the project, and the format of the response. Adds links to table cells, and finds similar names.
//!
//! Every path may end in an extension such as `.json`, which requests the same document in that
//! format. A name may also end like that, so a path may have two readings. Start with
//! [`PageAddress::readings`]; `routes.rs` finds the page of a reading.

use crate::http::HttpError;
use serde_json::Value;
use speedwell_report::{Document, ReportFormat, ReportRow};
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

/// Adds links to a column of all tables named `table`. `href_for` maps a cell's raw value to the
/// address of its link.
pub fn link_column(
    document: &mut Document,
    table: &str,
    key: &str,
    href_for: impl Fn(&Value) -> Option<String>,
) {
    link_by(document, table, [key, key], href_for);
}

/// Adds links to the column `shown`. `href_for` maps the same row's raw value in column `by` to the
/// address of the link.
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

/// Format of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageFormat {
    /// A page with its layout.
    Page,
    /// A document format.
    Document(ReportFormat),
    /// The sessions behind the page, one JSON object per line.
    JsonLines,
}

impl PageFormat {
    /// Formats in which every page is available as a file, by file extension.
    pub const DOCUMENTS: [(&'static str, ReportFormat); 5] = [
        ("json", ReportFormat::Json),
        ("md", ReportFormat::Markdown),
        ("csv", ReportFormat::Csv),
        ("html", ReportFormat::Html),
        ("txt", ReportFormat::Text),
    ];

    fn by_ending(ending: &str) -> Option<PageFormat> {
        if ending == "jsonl" {
            return Some(PageFormat::JsonLines);
        }
        let known = PageFormat::DOCUMENTS.iter().find(|(name, _)| *name == ending);
        known.map(|(_, format)| PageFormat::Document(*format))
    }
}

/// An address, as the parts of its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageAddress {
    parts: Vec<String>,
}

impl PageAddress {
    /// Parses a path.
    ///
    /// # Errors
    /// Fails if the path does not decode to text.
    pub fn parse(path: &str) -> Result<PageAddress, HttpError> {
        let relative = path.strip_prefix('/').unwrap_or(path);
        let segments = relative.strip_suffix('/').unwrap_or(relative).split('/');
        match segments.map(decode_segment).collect::<Option<Vec<String>>>() {
            Some(parts) => Ok(PageAddress { parts }),
            None => Err(HttpError::not_found(
                "cannot decode the address: expected percent-encoded UTF-8",
            )),
        }
    }

    /// Returns the name of the project, or `None` for pages of the whole server.
    pub fn project(&self) -> Option<&str> {
        let first = self.parts.first()?;
        let name = match self.parts.len() {
            1 => first.split_once('.').map_or(first.as_str(), |(name, _)| name),
            _ => first,
        };
        (!["", "index", "settings"].contains(&name)).then_some(name)
    }

    /// Returns the possible readings of the address, most likely first: the parts of the path, and
    /// the format. The first reading takes the whole last part as a name. The second one takes the
    /// extension of the last part as a format.
    pub fn readings(&self) -> Vec<(Vec<String>, PageFormat)> {
        let mut readings = vec![(self.parts.clone(), PageFormat::Page)];
        if let Some((last, before)) = self.parts.split_last()
            && let Some((stem, extension)) = last.rsplit_once('.')
            && let Some(format) = PageFormat::by_ending(extension)
        {
            let mut parts = before.to_vec();
            // Pages without a name of their own are called `index`.
            match (stem, parts.len()) {
                ("index", 0) => parts.push(String::new()),
                ("index", 1) => {}
                _ => parts.push(stem.to_owned()),
            }
            readings.push((parts, format));
        }
        readings
    }
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
