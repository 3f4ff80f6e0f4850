//! Parses addresses: the query of a request (application/x-www-form-urlencoded), and the path of a
//! page.
//!
//! Addresses are percent-encoded. The path of a page is split into its parts, the project, and the
//! format of the response: every path may end in an extension such as `.json`, which requests the
//! same document in that format. A name may also end like that, so a path may have two readings
//! ([`PageAddress::readings`]); `dispatch.rs` finds the page of a reading. Unknown names in a query
//! are rejected, because a filter in a URL must never be ignored.

use self::PageFormat::{Document, JsonLines, Picture};
use crate::http::HttpError;
use speedwell_report::ReportFormat::{self, Csv, Html, Json, Markdown, Text};
use std::fmt::Write as _;

/// Maximum number of values; no page has so many parameters.
const MAX_VALUES: usize = 64;

/// Names and values in order; empty values are omitted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageQuery(Vec<(String, String)>);

impl PageQuery {
    /// Parses the text after the `?`.
    ///
    /// # Errors
    /// Fails if there are too many values, or a part does not decode to text.
    pub fn parse(text: &str) -> Result<PageQuery, HttpError> {
        let mut values = Vec::new();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let decode = |text: &str| decode_segment(&text.replace('+', " "));
            let (Some(name), Some(value)) = (decode(name), decode(value)) else {
                return Err(HttpError::bad_request(format!(
                    "cannot decode '{part}': expected percent-encoded UTF-8"
                )));
            };
            if !value.trim().is_empty() {
                values.push((name, value.trim().to_owned()));
            }
        }
        if values.len() > MAX_VALUES {
            return Err(HttpError::bad_request(format!(
                "the query has {} parameters: expected at most {MAX_VALUES}",
                values.len()
            )));
        }
        Ok(PageQuery(values))
    }

    /// Returns the last value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut matching = self.0.iter().rev().filter(|(key, _)| key == name);
        matching.next().map(|(_, value)| value.as_str())
    }

    pub fn get_all<'q>(&'q self, name: &'q str) -> impl Iterator<Item = &'q str> {
        let matching = self.0.iter().filter(move |(key, _)| key == name);
        matching.map(|(_, value)| value.as_str())
    }

    /// Returns the value of a name as a number.
    ///
    /// # Errors
    /// Fails if the value is not a number.
    pub fn get_number(&self, name: &str) -> Result<Option<i64>, HttpError> {
        let parsed = self.get(name).map(|text| {
            text.trim_start_matches('@').parse::<i64>().map_err(|_| {
                HttpError::bad_request(format!("invalid {name} '{text}': expected a number"))
            })
        });
        parsed.transpose()
    }

    /// Rejects parameters that the page does not have.
    ///
    /// # Errors
    /// Fails if there is an unknown name.
    pub fn check_names(&self, known: &[&str]) -> Result<(), HttpError> {
        let unknown = self.0.iter().find(|(name, _)| !known.contains(&name.as_str()));
        match unknown {
            None => Ok(()),
            Some((name, _)) if known.is_empty() => Err(HttpError::bad_request(format!(
                "unknown parameter '{name}': no parameters are accepted here"
            ))),
            Some((name, _)) => Err(HttpError::bad_request(format!("unknown parameter '{name}'"))
                .with_hint(format!("known parameters: {}", known.join(", ")))),
        }
    }

    /// Formats the query with `name` set to `value`, or without `name` if `value` is `None`.
    pub fn with_value(&self, name: &str, value: Option<&str>) -> String {
        let others = self.0.iter().filter(|(key, _)| key != name);
        let other_pairs = others.map(|(key, current)| (key.as_str(), current.as_str()));
        let pairs = other_pairs.chain(value.map(|value| (name, value)));
        let encode_pair =
            |(key, value)| format!("{}={}", encode_segment(key), encode_segment(value));
        let parts: Vec<String> = pairs.map(encode_pair).collect();
        if parts.is_empty() { String::new() } else { format!("?{}", parts.join("&")) }
    }

    /// Returns the query without a name.
    pub fn without_name(&self, name: &str) -> PageQuery {
        let remaining = self.0.iter().filter(|(key, _)| key != name);
        PageQuery(remaining.cloned().collect())
    }

    /// Formats the query string for a URL.
    pub fn to_query_string(&self) -> String {
        self.with_value("", None)
    }
}

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
fn decode_segment(text: &str) -> Option<String> {
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

/// Decodes the parts of a path that does not begin with a slash.
///
/// # Errors
/// Fails if a part does not decode to text.
pub fn decode_parts(path: &str) -> Result<Vec<String>, HttpError> {
    let parts: Option<Vec<String>> = path.split('/').map(decode_segment).collect();
    parts.ok_or_else(|| {
        HttpError::not_found("cannot decode the address: expected percent-encoded UTF-8")
    })
}

/// Whether a path is on this site.
pub fn is_site_path(path: &str) -> bool {
    path.starts_with('/')
        && !path.starts_with("//")
        && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

/// Media type of the lines of a session.
pub const SESSION_TYPE: &str = "application/jsonl";

/// Format of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageFormat {
    /// A page with its layout.
    Page,
    /// A document format.
    Document(ReportFormat),
    /// The sessions behind the page, one JSON object per line.
    JsonLines,
    /// The first chart of the page as SVG.
    Picture,
}

/// A format in which pages are available as files.
#[derive(Debug)]
pub struct FileFormat {
    pub extension: &'static str,
    pub format: PageFormat,
    /// Media type.
    pub mime: &'static str,
    /// Label of a link to the file; empty if pages have no such link in their list of formats.
    pub label: &'static str,
}

/// All formats except [`PageFormat::Page`].
pub static FILE_FORMATS: [FileFormat; 7] = [
    file("json", Document(Json), "application/json", ""),
    file("md", Document(Markdown), "text/markdown; charset=utf-8", "Markdown"),
    file("csv", Document(Csv), "text/csv; charset=utf-8", "CSV"),
    file("html", Document(Html), "text/html; charset=utf-8", "standalone HTML"),
    file("txt", Document(Text), "text/plain; charset=utf-8", "text"),
    file("jsonl", JsonLines, SESSION_TYPE, "JSON Lines with every sample"),
    file("svg", Picture, "image/svg+xml", ""),
];

const fn file(
    extension: &'static str,
    format: PageFormat,
    mime: &'static str,
    label: &'static str,
) -> FileFormat {
    FileFormat { extension, format, mime, label }
}

impl PageFormat {
    /// Returns the format as a file; `None` for a page with its layout.
    pub fn file_format(self) -> Option<&'static FileFormat> {
        FILE_FORMATS.iter().find(|file| file.format == self)
    }
}

/// An address, as the parts of its path.
#[derive(Debug)]
pub struct PageAddress(Vec<String>);

impl PageAddress {
    /// Parses a path.
    ///
    /// # Errors
    /// Fails if the path does not decode to text.
    pub fn parse(path: &str) -> Result<PageAddress, HttpError> {
        let relative = path.strip_prefix('/').unwrap_or(path);
        decode_parts(relative.strip_suffix('/').unwrap_or(relative)).map(PageAddress)
    }

    /// Returns the name of the project, or `None` for pages of the whole server.
    pub fn project(&self) -> Option<&str> {
        let first = self.0.first()?;
        let name = match self.0.len() {
            1 => first.split_once('.').map_or(first.as_str(), |(name, _)| name),
            _ => first,
        };
        (!["", "index", "settings"].contains(&name)).then_some(name)
    }

    /// Returns the possible readings of the address, most likely first: the parts of the path, and
    /// the format. The first reading takes the whole last part as a name. The second one takes the
    /// extension of the last part as a format.
    pub fn readings(&self) -> Vec<(Vec<String>, PageFormat)> {
        let mut readings = vec![(self.0.clone(), PageFormat::Page)];
        if let Some((last, before)) = self.0.split_last()
            && let Some((stem, extension)) = last.rsplit_once('.')
            && let Some(file) = FILE_FORMATS.iter().find(|file| file.extension == extension)
        {
            let mut parts = before.to_vec();
            // Pages without a name of their own are called `index`.
            match (stem, parts.len()) {
                ("index", 0) => parts.push(String::new()),
                ("index", 1) => {}
                _ => parts.push(stem.to_owned()),
            }
            readings.push((parts, file.format));
        }
        readings
    }
}

/// Returns the addresses and names of up to five known pages whose names are most similar to `name`.
pub fn nearest_links<'k>(
    name: &str,
    known: impl IntoIterator<Item = &'k str>,
    href: impl Fn(&str) -> String,
) -> Vec<(String, String)> {
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
    by_distance.into_iter().map(|(_, known)| (href(known), known.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_values_survive_a_round_trip() {
        let query = PageQuery::parse("case=a%2Fb+len%3D16&empty=&of=%401&of=%402").unwrap();
        assert_eq!(query.get("case"), Some("a/b len=16"));
        assert_eq!(query.get("empty"), None);
        assert_eq!(query.get_all("of").collect::<Vec<_>>(), ["@1", "@2"]);
        assert_eq!(PageQuery::parse(&query.to_query_string()[1..]).unwrap(), query);
        assert_eq!(query.with_value("of", None), "?case=a%2Fb%20len%3D16");
    }

    #[test]
    fn invalid_oversized_and_unknown_query_parameters_are_refused() {
        assert!(PageQuery::parse("a=%ff").is_err());
        assert!(PageQuery::parse("a=%4").is_err());
        assert!(PageQuery::parse(&"a=1&".repeat(65)).is_err());
        assert!(PageQuery::parse("brnch=x").unwrap().check_names(&["branch"]).is_err());
        assert!(PageQuery::parse("n=one").unwrap().get_number("n").is_err());
    }

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

    #[test]
    fn a_path_of_another_host_is_not_on_this_site() {
        for path in ["/", "/core/sessions?branch=a%2Fb"] {
            assert!(is_site_path(path), "{path}");
        }
        for path in ["//evil.example", "https://evil.example", "/\\evil.example", "/a\r\nb", ""] {
            assert!(!is_site_path(path), "{path}");
        }
    }
}
