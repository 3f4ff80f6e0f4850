//! Reads the path of a page: its parts, the project, and the format of the response.
//!
//! Every path may end in an extension such as `.json`, which requests the same document in that
//! format. A name may also end like that, so a path may have two readings. Start with
//! [`PageAddress::readings`]; `routes.rs` finds the page of a reading.

use crate::dashboard::link::decode_segment;
use crate::http::HttpError;
use speedwell_report::ReportFormat;

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
