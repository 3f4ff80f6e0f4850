//! Errors of pages: status, message and hints.

use axum::http::StatusCode;
use serde_json::json;
use speedwell_report::{Block, Document};
use speedwell_results::store::{Store, Trouble};
use std::path::Path;

/// Reason why a page cannot be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub status: StatusCode,
    /// What failed, and why.
    pub words: String,
    /// How to fix it.
    pub hints: Vec<String>,
    /// Similar pages: addresses and names.
    pub nearest: Vec<(String, String)>,
}

impl Refusal {
    fn new(status: StatusCode, words: impl Into<String>) -> Refusal {
        Refusal {
            status,
            words: words.into(),
            hints: Vec::new(),
            nearest: Vec::new(),
        }
    }

    /// The requested thing does not exist.
    pub fn missing(words: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, words)
    }

    /// The request is invalid.
    pub fn bad(words: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, words)
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Refusal {
        self.hints.push(hint.into());
        self
    }

    pub fn nearest(mut self, pages: Vec<(String, String)>) -> Refusal {
        self.nearest = pages;
        self
    }

    /// Converts an error, extracting the hints from its messages.
    pub fn of(status: StatusCode, error: &anyhow::Error) -> Refusal {
        let mut words = Vec::new();
        let mut hints = Vec::new();
        for part in error.chain().map(ToString::to_string) {
            match part.split_once("\nhint: ") {
                Some((before, hint)) => {
                    words.push(before.to_owned());
                    hints.push(hint.to_owned());
                }
                None => words.push(part),
            }
        }
        Refusal {
            hints,
            ..Refusal::new(status, words.join(": "))
        }
    }

    /// Converts a failure to open a store. A database server was reachable at startup, so its
    /// failure is temporary.
    pub fn unopened(path: &Path, error: anyhow::Error) -> Refusal {
        match Store::server(path) {
            Some(_) => Refusal::of(StatusCode::SERVICE_UNAVAILABLE, &error),
            None => Refusal::from(error),
        }
    }

    /// Returns when to retry, in seconds, if that helps.
    pub fn retry_after_s(&self) -> Option<u64> {
        (self.status == StatusCode::SERVICE_UNAVAILABLE).then_some(1)
    }

    /// Renders the error as a page.
    pub fn document(&self) -> Document {
        let mut document = Document::new("error");
        document.push(Block::Headline(self.words.clone()));
        document.extend(self.hints.iter().cloned().map(Block::Paragraph));
        document.attach("error", json!(self.words));
        document.attach("hint", json!(self.hints.join("; ")));
        document
    }
}

/// Converts an error of the server layer.
impl From<speedwell_serve::Refusal> for Refusal {
    fn from(refusal: speedwell_serve::Refusal) -> Refusal {
        Refusal {
            hints: refusal.hint.into_iter().collect(),
            ..Refusal::new(refusal.status, refusal.what)
        }
    }
}

/// Store failures, which are not the client's fault: 503 unreachable, 507 full; both temporary.
impl From<anyhow::Error> for Refusal {
    fn from(error: anyhow::Error) -> Refusal {
        let status = match Trouble::of(&error) {
            Trouble::Away => StatusCode::SERVICE_UNAVAILABLE,
            Trouble::Full => StatusCode::INSUFFICIENT_STORAGE,
            Trouble::Lasting => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Refusal::of(status, &error)
    }
}

/// Returns at most five known names that are most similar to an unknown one.
pub fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Vec<&'k str> {
    let wanted = name.to_lowercase();
    let mut all: Vec<(usize, &str)> = known
        .into_iter()
        .map(|known| {
            let lower = known.to_lowercase();
            let distance = if lower.contains(&wanted) {
                0
            } else {
                strsim::osa_distance(&lower, &wanted)
            };
            (distance, known)
        })
        .filter(|(distance, _)| *distance <= wanted.chars().count().max(3))
        .collect();
    all.sort();
    all.truncate(5);
    all.into_iter().map(|(_, known)| known).collect()
}
