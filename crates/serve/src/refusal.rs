//! A request that is refused: which status, what was wrong, and how to mend it.
//!
//! The gate gives refusals, and so may handlers. Whoever asks for JSON gets
//! `{"error": ..., "hint": ...}` as `application/problem+json`, everybody else plain text.

use axum::body::Body;
use axum::http::header::{ACCEPT, CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// Makes the answer of a refusal, so that an application can give its pages a frame.
pub type Render = Arc<dyn Fn(&Refusal, &HeaderMap) -> Response + Send + Sync>;

/// Why a request is not answered. As the answer of a handler it is plain text, or JSON where that is
/// what the client accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status of the answer.
    pub status: StatusCode,
    /// What was wrong: a fragment in lower case.
    pub what: String,
    /// How to mend it.
    pub hint: Option<String>,
    /// When to try again, in seconds.
    pub retry_after_s: Option<u64>,
    /// Whether nothing more is read from this connection.
    pub closes: bool,
}

impl Refusal {
    /// A refusal without a hint, after which the connection stays open.
    pub fn new(status: StatusCode, what: impl Into<String>) -> Refusal {
        Refusal {
            status,
            what: what.into(),
            hint: None,
            retry_after_s: None,
            closes: false,
        }
    }

    /// Adds how to mend it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Refusal {
        self.hint = Some(hint.into());
        self
    }

    /// Adds when to try again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Refusal {
        self.retry_after_s = Some(seconds);
        self
    }

    pub(crate) fn closing(mut self) -> Refusal {
        self.closes = true;
        self
    }

    /// The answer to a client that sent these header fields.
    pub fn answer(&self, asked: &HeaderMap) -> Response {
        let (kind, text) = if wants_json(asked) {
            ("application/problem+json", self.json())
        } else {
            ("text/plain; charset=utf-8", self.text())
        };
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        self.mark(headers);
        response
    }

    /// The header fields that belong to a refusal, however it is rendered.
    pub(crate) fn mark(&self, headers: &mut HeaderMap) {
        if let Some(seconds) = self.retry_after_s {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.closes {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }

    fn text(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}\nhint: {hint}\n", self.what),
            None => format!("{}\n", self.what),
        }
    }

    fn json(&self) -> String {
        let mut text = serde_json::json!({"error": self.what, "hint": self.hint}).to_string();
        text.push('\n');
        text
    }
}

impl IntoResponse for Refusal {
    /// Plain text; the gate makes it JSON where the client asked for that.
    fn into_response(self) -> Response {
        let mut response = self.answer(&HeaderMap::new());
        response.extensions_mut().insert(self);
        response
    }
}

/// Whether JSON is named among what the client accepts, and HTML is not.
fn wants_json(asked: &HeaderMap) -> bool {
    let named = |what: &str| {
        asked
            .get_all(ACCEPT)
            .iter()
            .any(|value| value.to_str().is_ok_and(|value| value.contains(what)))
    };
    (named("application/json") || named("application/problem+json")) && !named("text/html")
}
