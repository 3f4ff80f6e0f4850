//! Why the API does not do something: always `{"error", "hint"}` and what a program needs to go on, as
//! `application/problem+json` (RFC 9457 leaves the keys to us).

use crate::refusal::Refusal;
use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value};

/// A refusal.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// Of the answer.
    pub status: StatusCode,
    /// What is wrong.
    pub error: String,
    /// What helps.
    pub hint: Option<String>,
    /// When to try again, in seconds.
    pub retry_after_s: Option<u64>,
    /// What a program needs to go on.
    pub more: Box<Map<String, Value>>,
}

impl Problem {
    /// One without a hint.
    pub fn new(status: StatusCode, error: impl Into<String>) -> Problem {
        Problem {
            status,
            error: error.into(),
            hint: None,
            retry_after_s: None,
            more: Box::default(),
        }
    }

    /// The request makes no sense.
    pub fn bad(error: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, error)
    }

    /// There is no such thing.
    pub fn missing(error: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, error)
    }

    /// The same, because something is too large.
    pub fn too_large(mut self) -> Problem {
        self.status = StatusCode::PAYLOAD_TOO_LARGE;
        self
    }

    /// The same with something that helps.
    pub fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }

    /// The same with a key that a program reads.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Problem {
        self.more.insert(key.to_owned(), value.into());
        self
    }

    /// The answer.
    pub fn answer(self) -> Response<Body> {
        let mut body = *self.more;
        body.insert("error".to_owned(), self.error.into());
        body.insert("hint".to_owned(), self.hint.into());
        let mut response = Response::new(Body::from(Value::Object(body).to_string() + "\n"));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, kind);
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// A store that is away or full is no fault of the request: 503 or 507, and nothing of it is kept.
impl From<anyhow::Error> for Problem {
    fn from(error: anyhow::Error) -> Problem {
        Problem::from(Refusal::from(error))
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        let hints = refusal.hints.join("; ");
        Problem {
            hint: (!hints.is_empty()).then_some(hints),
            retry_after_s: refusal.retry_after_s(),
            ..Problem::new(refusal.status, refusal.words)
        }
    }
}

impl From<speedwell_serve::Refusal> for Problem {
    fn from(refusal: speedwell_serve::Refusal) -> Problem {
        Problem {
            hint: refusal.hint,
            retry_after_s: refusal.retry_after_s,
            ..Problem::new(refusal.status, refusal.what)
        }
    }
}
