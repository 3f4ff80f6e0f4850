//! Defines the errors of the API. The body of an error is `{"error", "hint"}`, plus data that a
//! program needs to continue. Its type is `application/problem+json` (RFC 9457 allows other
//! members).

use crate::dashboard::page_error::PageError;
use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value};

#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    pub status: StatusCode,
    /// The error message.
    pub error: String,
    /// How to fix it.
    pub hint: Option<String>,
    /// When to retry, in seconds.
    pub retry_after_s: Option<u64>,
    /// Data that a program needs to continue.
    pub members: Box<Map<String, Value>>,
}

impl ApiError {
    /// Creates an error without a hint.
    pub fn new(status: StatusCode, error: impl Into<String>) -> ApiError {
        ApiError {
            status,
            error: error.into(),
            hint: None,
            retry_after_s: None,
            members: Box::default(),
        }
    }

    /// Creates the error for an invalid request.
    pub fn bad_request(error: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, error)
    }

    /// Creates the error for something that does not exist.
    pub fn not_found(error: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, error)
    }

    /// Changes the status to 413 (content too large).
    pub fn too_large(mut self) -> ApiError {
        self.status = StatusCode::PAYLOAD_TOO_LARGE;
        self
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> ApiError {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a member for programs.
    pub fn with_member(mut self, key: &str, value: impl Into<Value>) -> ApiError {
        self.members.insert(key.to_owned(), value.into());
        self
    }

    pub fn into_response(self) -> Response<Body> {
        let mut body = *self.members;
        body.insert("error".to_owned(), self.error.into());
        body.insert("hint".to_owned(), self.hint.into());
        let mut response = Response::new(Body::from(Value::Object(body).to_string() + "\n"));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        let content_type = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, content_type);
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// A store that is unreachable or full is not the client's fault. The status is then 503 or 507,
/// and nothing is stored.
impl From<anyhow::Error> for ApiError {
    fn from(error: anyhow::Error) -> ApiError {
        ApiError::from(PageError::from(error))
    }
}

impl From<PageError> for ApiError {
    fn from(error: PageError) -> ApiError {
        let hints = error.hints.join("; ");
        ApiError {
            hint: (!hints.is_empty()).then_some(hints),
            retry_after_s: error.retry_after_s(),
            ..ApiError::new(error.status, error.message)
        }
    }
}

impl From<crate::http::HttpError> for ApiError {
    fn from(error: crate::http::HttpError) -> ApiError {
        ApiError {
            hint: error.hint,
            retry_after_s: error.retry_after_s,
            ..ApiError::new(error.status, error.message)
        }
    }
}
