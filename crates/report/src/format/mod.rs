//! Output formats. A new one needs a file here and a variant of [`Format`].

mod csv;
pub mod html;
mod json;
mod markdown;
mod markup;
mod text;

pub use csv::Csv;
pub(crate) use csv::quoted;
pub use html::Html;
pub use json::Json;
pub use markdown::Markdown;
pub use markup::{AsciiDoc, Org};
pub(crate) use text::turns;
pub use text::{Text, visible, visible_line};

use crate::document::Document;
use std::io::{self, Write};
use std::str::FromStr;

/// A format's renderer.
pub trait Render {
    /// Writes `document` to `out`.
    ///
    /// # Errors
    /// If `out` fails.
    fn render(&self, document: &Document, out: &mut dyn Write) -> io::Result<()>;
}

/// An output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For terminals.
    Text,
    /// For pull requests.
    Markdown,
    /// For manuals.
    AsciiDoc,
    /// For notes in Emacs.
    Org,
    /// For spreadsheets: the main table.
    Csv,
    /// For programs: everything.
    Json,
    /// For browsers: one page with everything.
    Html,
}

impl Format {
    /// Every format with the names that select it; the first one is also its file extension.
    pub const NAMES: &'static [(Format, &'static [&'static str])] = &[
        (Format::Text, &["txt", "text"]),
        (Format::Markdown, &["md", "markdown"]),
        (Format::AsciiDoc, &["adoc", "asciidoc"]),
        (Format::Org, &["org"]),
        (Format::Csv, &["csv"]),
        (Format::Json, &["json"]),
        (Format::Html, &["html", "htm"]),
    ];

    /// Returns the renderer for a file: without color, and as wide as needed.
    pub fn renderer(self, pictures: Vec<String>) -> Box<dyn Render> {
        match self {
            Format::Text => Box::new(Text::default()),
            Format::Markdown => Box::new(Markdown { pictures }),
            Format::AsciiDoc => Box::new(AsciiDoc),
            Format::Org => Box::new(Org),
            Format::Csv => Box::new(Csv),
            Format::Json => Box::new(Json),
            Format::Html => Box::new(Html),
        }
    }
}

/// An unknown format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown format '{0}' (known: text, md, adoc, org, csv, json, html)")]
pub struct UnknownFormat(pub String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Format, UnknownFormat> {
        let known = Format::NAMES
            .iter()
            .find(|(_, names)| names.contains(&text));
        known
            .map(|(format, _)| *format)
            .ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}
