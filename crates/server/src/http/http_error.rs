//! Describes why a server does not start, and why a request is rejected.
//!
//! The request pipeline and handlers create refusals. The pipeline renders them: a client that
//! accepts JSON, but not HTML, gets `application/problem+json` in the form
//! `{"error": ..., "hint": ...}` (RFC 9457 allows other members). All others get plain text.

use axum::http::header::{ACCEPT, CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};
use speedwell_model::ErrorText;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Refusal of a request. A handler can return it as its response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpError {
    /// Status of the response.
    pub status: StatusCode,
    /// The problem, as a sentence fragment in lower case.
    pub message: String,
    /// How to fix it.
    pub hints: Vec<String>,
    /// Addresses and names of similar pages. The text and JSON built here omit them.
    pub nearest: Vec<(String, String)>,
    /// Further members of the JSON body: data that a program needs to continue.
    pub members: Vec<(&'static str, Value)>,
    /// When to retry, in seconds.
    pub retry_after_s: Option<u64>,
    /// Whether the connection is closed after the response.
    pub closes_connection: bool,
}

impl HttpError {
    /// Creates a refusal that has no hint and leaves the connection open.
    pub fn new(status: StatusCode, message: impl Into<String>) -> HttpError {
        HttpError { status, message: message.into(), ..HttpError::default() }
    }

    /// Creates the refusal of an invalid request.
    pub fn bad_request(message: impl Into<String>) -> HttpError {
        HttpError::new(StatusCode::BAD_REQUEST, message)
    }

    /// Creates the refusal for something that does not exist.
    pub fn not_found(message: impl Into<String>) -> HttpError {
        HttpError::new(StatusCode::NOT_FOUND, message)
    }

    /// Converts an error, extracting the hints from its messages. If `status` is 503 (service
    /// unavailable), the client may retry after a second.
    pub fn from_error(status: StatusCode, error: &anyhow::Error) -> HttpError {
        let text = ErrorText::from_error(error);
        HttpError {
            hints: text.hints,
            retry_after_s: (status == StatusCode::SERVICE_UNAVAILABLE).then_some(1),
            ..HttpError::new(status, text.message)
        }
    }

    /// Adds a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> HttpError {
        self.hints.push(hint.into());
        self
    }

    /// Sets the similar pages: addresses and names.
    #[must_use]
    pub fn with_nearest(mut self, pages: Vec<(String, String)>) -> HttpError {
        self.nearest = pages;
        self
    }

    /// Adds a member of the JSON body.
    #[must_use]
    pub fn with_member(mut self, key: &'static str, value: impl Into<Value>) -> HttpError {
        self.members.push((key, value.into()));
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
        if wants_json(request_headers) {
            return self.to_json_response();
        }
        let text = match self.hint() {
            Some(hint) => format!("{}\nhint: {hint}\n", self.message),
            None => format!("{}\n", self.message),
        };
        self.build_response("text/plain; charset=utf-8", text)
    }

    /// Builds the response to a client that always gets JSON.
    pub fn to_json_response(&self) -> Response {
        let members = self.members.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        let mut body: Map<String, Value> = members.collect();
        body.insert("error".to_owned(), self.message.clone().into());
        body.insert("hint".to_owned(), self.hint().into());
        self.build_response("application/problem+json", Value::Object(body).to_string() + "\n")
    }

    fn build_response(&self, content_type: &'static str, text: String) -> Response {
        let mut response = (self.status, [(CONTENT_TYPE, content_type)], text).into_response();
        self.set_headers(response.headers_mut());
        response
    }

    /// Sets the header fields of a refusal, which do not depend on its rendering.
    pub(crate) fn set_headers(&self, headers: &mut HeaderMap) {
        if let Some(seconds) = self.retry_after_s {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.closes_connection {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }

    fn hint(&self) -> Option<String> {
        (!self.hints.is_empty()).then(|| self.hints.join("; "))
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

/// Whether the client accepts a media type by its name.
pub(crate) fn accepts(request_headers: &HeaderMap, mime: &str) -> bool {
    let mut values = request_headers.get_all(ACCEPT).iter();
    values.any(|value| value.to_str().is_ok_and(|value| value.contains(mime)))
}

/// Whether the client accepts JSON, but not HTML.
fn wants_json(request_headers: &HeaderMap) -> bool {
    let accepts = |mime| accepts(request_headers, mime);
    (accepts("application/json") || accepts("application/problem+json")) && !accepts("text/html")
}

/// Reason why a server or a login cannot start.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each variant describes it")]
pub enum Error {
    #[error("no address to listen on")]
    Nowhere,
    #[error("{0}")]
    Exposed(String),
    #[error("cannot listen on '{0}': {1}")]
    Address(SocketAddr, #[source] io::Error),
    #[error("cannot listen on '{path}': {error}", path = .0.display(), error = .1)]
    Path(PathBuf, #[source] io::Error),
    #[error("cannot listen on 127.0.0.1: each of the ports from {0} to {1} is in use")]
    PortsInUse(u16, u16),
    #[error("invalid site address '{0}'\nhint: use an address such as https://perf.example")]
    PublicUrl(String),
    #[error("cannot read the file '{path}': {error}", path = .0.display(), error = .1)]
    File(PathBuf, #[source] io::Error),
    #[error("cannot use the certificate: {0}")]
    Tls(String),
    #[error("cannot open a socket: {0}")]
    Socket(#[source] io::Error),
    #[error("cannot start server threads: {0}")]
    Threads(#[source] io::Error),
    #[error("invalid cookie name '{0}'")]
    CookieName(String),
    #[error("the system provides no random bytes")]
    Random,
}
