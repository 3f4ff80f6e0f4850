//! Renders documents in the output formats. A new format needs a file here and a variant of
//! [`ReportFormat`].

pub mod html;
mod json;
mod markdown;
mod text;

pub use crate::document::RenderDocument;
pub use html::Html;
pub use json::{Csv, Json, quote_field};
pub use markdown::Markdown;
pub(crate) use text::is_bidi_control;
pub use text::{TextFormat, escape_controls, escape_line};

use std::str::FromStr;

/// An output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportFormat {
    /// For terminals.
    Text,
    /// For pull requests.
    Markdown,
    /// The main table, for spreadsheets.
    Csv,
    /// Everything, for programs.
    Json,
    /// One page with everything, for browsers.
    Html,
}

impl ReportFormat {
    /// Every format with the names that select it. The first name is also the extension of the
    /// format's files.
    pub const NAMES: &'static [(ReportFormat, &'static [&'static str])] = &[
        (ReportFormat::Text, &["txt", "text"]),
        (ReportFormat::Markdown, &["md", "markdown"]),
        (ReportFormat::Csv, &["csv"]),
        (ReportFormat::Json, &["json"]),
        (ReportFormat::Html, &["html", "htm"]),
    ];

    /// Returns the renderer for a file. Text in a file has no color and is as wide as needed.
    /// Markdown embeds the image files named in `pictures`, one per chart.
    pub fn file_renderer(self, pictures: Vec<String>) -> Box<dyn RenderDocument> {
        match self {
            ReportFormat::Text => Box::new(TextFormat::default()),
            ReportFormat::Markdown => Box::new(Markdown { pictures }),
            ReportFormat::Csv => Box::new(Csv),
            ReportFormat::Json => Box::new(Json),
            ReportFormat::Html => Box::new(Html),
        }
    }
}

/// An unknown format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown format '{0}': supported formats are text, md, csv, json and html")]
pub struct UnknownFormat(pub String);

impl FromStr for ReportFormat {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<ReportFormat, UnknownFormat> {
        let known_names = ReportFormat::NAMES.iter().find(|(_, names)| names.contains(&text));
        known_names.map(|(format, _)| *format).ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}
