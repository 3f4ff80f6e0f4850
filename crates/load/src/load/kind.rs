//! One kind of request, with blanks that texts may be filled into: `{{name}}`.

use crate::http1::{Connection, RequestParts, Version};

/// One kind of request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// What it is called in reports.
    pub name: String,
    /// How often it is sent, relative to the other kinds.
    pub weight: u32,
    /// The method.
    pub method: String,
    /// The request target: path and query, or what a proxy wants.
    pub target: String,
    /// The value of Host and `:authority`.
    pub host: String,
    /// Further header fields.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body.
    pub body: Option<Vec<u8>>,
    /// The version of HTTP/1.
    pub version: Version,
    /// Whether the connection shall stay.
    pub connection: Connection,
}

impl Kind {
    /// A plain GET.
    pub fn get(host: &str, target: &str) -> Kind {
        Kind {
            name: format!("GET {target}"),
            weight: 1,
            method: "GET".to_owned(),
            target: target.to_owned(),
            host: host.to_owned(),
            headers: Vec::new(),
            body: None,
            version: Version::Http11,
            connection: Connection::KeepAlive,
        }
    }

    /// Calls `with` with the borrowed parts.
    pub fn with_parts<T>(&self, with: impl FnOnce(&RequestParts) -> T) -> T {
        let headers: Vec<(&str, &[u8])> = self
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_slice()))
            .collect();
        with(&RequestParts {
            method: &self.method,
            target: &self.target,
            host: &self.host,
            headers: &headers,
            body: self.body.as_deref(),
            version: self.version,
            connection: self.connection,
        })
    }

    /// Whether a text is to be filled in anywhere: `{{name}}`.
    pub fn has_blanks(&self) -> bool {
        self.blanks().next().is_some()
    }

    /// The names between braces, in the target, the values of header fields, and the body.
    pub fn blanks(&self) -> impl Iterator<Item = &str> {
        let values = self.headers.iter().map(|(_, value)| value.as_slice());
        std::iter::once(self.target.as_bytes())
            .chain(values)
            .chain(self.body.as_deref())
            .flat_map(|text| Pieces { text })
            .filter_map(|piece| match piece {
                Piece::Blank(name) => Some(name),
                Piece::Text(_) => None,
            })
    }

    /// The same kind with its blanks filled from a row; an unknown name stays as it is.
    pub fn filled(&self, fill: impl Fn(&str) -> Option<String>) -> Kind {
        let bytes = |text: &[u8]| -> Vec<u8> {
            let mut out = Vec::with_capacity(text.len());
            for piece in (Pieces { text }) {
                match piece {
                    Piece::Text(text) => out.extend_from_slice(text),
                    Piece::Blank(name) => match fill(name) {
                        Some(value) => out.extend_from_slice(value.as_bytes()),
                        None => out.extend_from_slice(format!("{{{{{name}}}}}").as_bytes()),
                    },
                }
            }
            out
        };
        Kind {
            target: String::from_utf8_lossy(&bytes(self.target.as_bytes())).into_owned(),
            headers: self
                .headers
                .iter()
                .map(|(name, value)| (name.clone(), bytes(value)))
                .collect(),
            body: self.body.as_deref().map(bytes),
            ..self.clone()
        }
    }
}

/// A part of a text with blanks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    Text(&'a [u8]),
    Blank(&'a str),
}

/// Walks over the parts of a text. Braces that are not closed, or hold no name, are text.
pub(crate) struct Pieces<'a> {
    pub text: &'a [u8],
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let text = self.text;
        if text.is_empty() {
            return None;
        }
        let mut from = 0;
        while let Some(at) = find(&text[from..], b"{{").map(|at| at + from) {
            if let Some((name, length)) = blank_at(&text[at..]) {
                if at > 0 {
                    self.text = &text[at..];
                    return Some(Piece::Text(&text[..at]));
                }
                self.text = &text[length..];
                return Some(Piece::Blank(name));
            }
            from = at + 1;
        }
        self.text = &[];
        Some(Piece::Text(text))
    }
}

/// The name of the blank that begins here, and the length of all of it.
fn blank_at(text: &[u8]) -> Option<(&str, usize)> {
    let end = find(text, b"}}")?;
    let name = std::str::from_utf8(&text[2..end]).ok()?.trim();
    let is_name = !name.is_empty()
        && name
            .chars()
            .all(|letter| letter.is_alphanumeric() || "_-.".contains(letter));
    is_name.then_some((name, end + 2))
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}
