//! What could not be shown, and what helps: a status, words, a hint.

use axum::http::StatusCode;
use serde_json::json;
use speedwell_report::{Block, Document};
use speedwell_results::store::{Store, Trouble};
use std::path::Path;

/// Why there is no page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status of the answer.
    pub status: StatusCode,
    /// What could not be done, and why.
    pub words: String,
    /// What helps.
    pub hints: Vec<String>,
    /// Other pages that may be meant: addresses and names.
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

    /// What was asked for does not exist.
    pub fn missing(words: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, words)
    }

    /// The question makes no sense.
    pub fn bad(words: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, words)
    }

    /// The same with something that helps.
    pub fn hint(mut self, hint: impl Into<String>) -> Refusal {
        self.hints.push(hint.into());
        self
    }

    /// The same with pages that may be meant.
    pub fn nearest(mut self, pages: Vec<(String, String)>) -> Refusal {
        self.nearest = pages;
        self
    }

    /// An error with its hints taken out of its message.
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

    /// That a store could not be opened. A database that could be entered when the server began is there again later.
    pub fn unopened(path: &Path, error: anyhow::Error) -> Refusal {
        match Store::server(path) {
            Some(_) => Refusal::of(StatusCode::SERVICE_UNAVAILABLE, &error),
            None => Refusal::from(error),
        }
    }

    /// When to try again, in seconds, where that helps.
    pub fn retry_after_s(&self) -> Option<u64> {
        (self.status == StatusCode::SERVICE_UNAVAILABLE).then_some(1)
    }

    /// The refusal as a page.
    pub fn document(&self) -> Document {
        let mut document = Document::new("error");
        document.push(Block::Headline(self.words.clone()));
        document.extend(self.hints.iter().cloned().map(Block::Paragraph));
        document.attach("error", json!(self.words));
        document.attach("hint", json!(self.hints.join("; ")));
        document
    }
}

/// What the door says.
impl From<speedwell_serve::Refusal> for Refusal {
    fn from(refusal: speedwell_serve::Refusal) -> Refusal {
        Refusal {
            hints: refusal.hint.into_iter().collect(),
            ..Refusal::new(refusal.status, refusal.what)
        }
    }
}

/// What fails without the visitor's doing: the store. One that is away (503) or full (507) is there again later.
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

/// The known names that are most like one that is not known; at most five.
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
