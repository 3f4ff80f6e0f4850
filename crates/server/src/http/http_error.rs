//! Describes why a request is rejected.
//!
//! The request pipeline and handlers create refusals. A client that accepts JSON, but not HTML,
//! gets `application/problem+json` in the form `{"error": ..., "hint": ...}`. All others get plain
//! text.

use axum::body::Body;
use axum::http::header::{ACCEPT, CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// Renders a refusal, for example in the application's page layout.
pub type ErrorRenderer = Arc<dyn Fn(&HttpError, &HeaderMap) -> Response + Send + Sync>;

/// Refusal of a request. A handler can return it as its response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpError {
    /// Status of the response.
    pub status: StatusCode,
    /// The problem, as a sentence fragment in lower case.
    pub message: String,
    /// How to fix it.
    pub hint: Option<String>,
    /// When to retry, in seconds.
    pub retry_after_s: Option<u64>,
    /// Whether the connection is closed after the response.
    pub closes_connection: bool,
}

impl HttpError {
    /// Creates a refusal without a hint that leaves the connection open.
    pub fn new(status: StatusCode, message: impl Into<String>) -> HttpError {
        HttpError {
            status,
            message: message.into(),
            hint: None,
            retry_after_s: None,
            closes_connection: false,
        }
    }

    /// Adds a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> HttpError {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the time after which to retry.
    #[must_use]
    pub fn with_retry_after(mut self, seconds: u64) -> HttpError {
        self.retry_after_s = Some(seconds);
        self
    }

    pub(crate) fn close_connection(mut self) -> HttpError {
        self.closes_connection = true;
        self
    }

    /// Builds the response to a client that sent these header fields.
    pub fn to_response(&self, request_headers: &HeaderMap) -> Response {
        let (content_type, text) = if wants_json(request_headers) {
            ("application/problem+json", self.json_body())
        } else {
            ("text/plain; charset=utf-8", self.text_body())
        };
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        self.set_headers(headers);
        response
    }

    /// Sets the header fields of a refusal. They do not depend on the renderer.
    pub(crate) fn set_headers(&self, headers: &mut HeaderMap) {
        if let Some(seconds) = self.retry_after_s {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.closes_connection {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }

    fn text_body(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}\nhint: {hint}\n", self.message),
            None => format!("{}\n", self.message),
        }
    }

    fn json_body(&self) -> String {
        let mut text = serde_json::json!({"error": self.message, "hint": self.hint}).to_string();
        text.push('\n');
        text
    }
}

impl IntoResponse for HttpError {
    /// Returns plain text. The request pipeline turns it into JSON for clients that accept JSON.
    fn into_response(self) -> Response {
        let mut response = self.to_response(&HeaderMap::new());
        response.extensions_mut().insert(self);
        response
    }
}

/// Whether the client accepts JSON, but not HTML.
fn wants_json(request_headers: &HeaderMap) -> bool {
    let accepts = |mime: &str| {
        request_headers
            .get_all(ACCEPT)
            .iter()
            .any(|value| value.to_str().is_ok_and(|value| value.contains(mime)))
    };
    (accepts("application/json") || accepts("application/problem+json")) && !accepts("text/html")
}
