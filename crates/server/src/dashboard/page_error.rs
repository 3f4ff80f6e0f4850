//! Defines the errors of pages: status, message and hints.

use axum::http::StatusCode;
use serde_json::json;
use speedwell_model::ErrorText;
use speedwell_report::{Document, ReportBlock};
use speedwell_store::{Store, StoreErrorKind};
use std::path::Path;

/// Reason why a page cannot be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageError {
    pub status: StatusCode,
    /// What failed, and why.
    pub message: String,
    /// How to fix it.
    pub hints: Vec<String>,
    /// Similar pages: addresses and names.
    pub nearest: Vec<(String, String)>,
}

impl PageError {
    fn new(status: StatusCode, message: impl Into<String>) -> PageError {
        PageError { status, message: message.into(), hints: Vec::new(), nearest: Vec::new() }
    }

    /// Creates the error for something that does not exist.
    pub fn not_found(message: impl Into<String>) -> PageError {
        PageError::new(StatusCode::NOT_FOUND, message)
    }

    /// Creates the error for an invalid request.
    pub fn bad_request(message: impl Into<String>) -> PageError {
        PageError::new(StatusCode::BAD_REQUEST, message)
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> PageError {
        self.hints.push(hint.into());
        self
    }

    pub fn with_nearest(mut self, pages: Vec<(String, String)>) -> PageError {
        self.nearest = pages;
        self
    }

    /// Converts an error, extracting the hints from its messages.
    pub fn from_error(status: StatusCode, error: &anyhow::Error) -> PageError {
        let text = ErrorText::from_error(error);
        PageError { hints: text.hints, ..PageError::new(status, text.message) }
    }

    /// Converts a failure to open a store. If the store is on a database server, that server was
    /// reachable at startup, so the failure counts as temporary.
    pub fn store_open_error(path: &Path, error: anyhow::Error) -> PageError {
        match Store::server_address(path) {
            Some(_) => PageError::from_error(StatusCode::SERVICE_UNAVAILABLE, &error),
            None => PageError::from(error),
        }
    }

    /// Returns after how many seconds to retry, if retrying may help.
    pub fn retry_after_s(&self) -> Option<u64> {
        (self.status == StatusCode::SERVICE_UNAVAILABLE).then_some(1)
    }

    /// Renders the error as a page.
    pub fn to_document(&self) -> Document {
        let mut document = Document::new("error");
        document.push(ReportBlock::Headline(self.message.clone()));
        document.extend(self.hints.iter().cloned().map(ReportBlock::Paragraph));
        document.attach_data("error", json!(self.message));
        document.attach_data("hint", json!(self.hints.join("; ")));
        document
    }
}

/// Converts an error of the server layer.
impl From<crate::http::HttpError> for PageError {
    fn from(error: crate::http::HttpError) -> PageError {
        PageError {
            hints: error.hint.into_iter().collect(),
            ..PageError::new(error.status, error.message)
        }
    }
}

/// Converts a store error. The status is 503 if the store is unreachable, 507 if the disk is full,
/// and 500 otherwise.
impl From<anyhow::Error> for PageError {
    fn from(error: anyhow::Error) -> PageError {
        let status = match StoreErrorKind::from_error(&error) {
            StoreErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            StoreErrorKind::DiskFull => StatusCode::INSUFFICIENT_STORAGE,
            StoreErrorKind::Permanent => StatusCode::INTERNAL_SERVER_ERROR,
        };
        PageError::from_error(status, &error)
    }
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
