//! Sends requests to the server, with the token, and reports whether a retry may help.
//!
//! A redirect counts as a rejection, because following one would pass the token on. Start at
//! [`UploadClient::upload_session`].

use crate::clients::agent::{SecretToken, agent_config};
use crate::clients::push::lines::SessionLines;
use crate::clients::push::target::UploadTarget;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::time::Duration;
use ureq::http::{Method, Request, Response, StatusCode};
use ureq::tls::{Certificate, PemItem};
use ureq::{Agent, Body};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of a whole request. Sending 8 MiB at 32 kB/s takes more than four minutes.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(300);
/// Maximum size of a session that is sent in one request.
const MAX_SINGLE_REQUEST_BYTES: usize = 8 << 20;
/// How many times the server may ask to continue at a line other than the next one.
const MAX_POSITION_CHANGES: u32 = 100;
/// Maximum size of a response.
const MAX_RESPONSE_BYTES: u64 = 1 << 20;

/// Outcome of sending a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadOutcome {
    /// The server has stored the session.
    Stored,
    /// The server already had the session.
    Known,
}

/// Why a session was not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UploadError {
    /// A retry may help.
    #[error("{reason}")]
    Retryable {
        /// What went wrong.
        reason: String,
        /// The delay before a retry, if the server asks for one.
        retry_after: Option<Duration>,
    },
    /// No retry will help.
    #[error("{reason}")]
    Rejected {
        /// The reason, usually the server's message.
        reason: String,
    },
}

impl UploadError {
    fn retryable(reason: impl Into<String>) -> UploadError {
        UploadError::Retryable { reason: reason.into(), retry_after: None }
    }
}

/// Sends sessions to servers.
#[derive(Debug)]
pub struct UploadClient {
    agent: Agent,
    token: Option<SecretToken>,
}

/// A response that reports no failure. The server has accepted the request, asks to continue at a
/// line, or does not know this upload.
enum ServerReply {
    Done(StatusCode, Value),
    ContinueAt(u64),
    NotStarted,
}

impl UploadClient {
    /// Creates a client that trusts the system's certificates and uses the proxy that the
    /// environment names.
    pub fn new(token: Option<SecretToken>) -> UploadClient {
        UploadClient::with_authorities(token, Vec::new())
    }

    /// Creates a client that also trusts additional certificate authorities.
    pub fn with_authorities(
        token: Option<SecretToken>,
        authorities: Vec<Certificate<'static>>,
    ) -> UploadClient {
        let config = agent_config(authorities)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_global(Some(REQUEST_TIMEOUT));
        UploadClient { agent: config.build().into(), token }
    }

    /// Sends a session. The server may already have any part of it.
    ///
    /// # Errors
    /// Fails if the server is unreachable or rejects the session.
    pub fn upload_session(
        &self,
        target: &UploadTarget,
        lines: &SessionLines<'_>,
    ) -> Result<UploadOutcome, UploadError> {
        let session_url = target.session_url(lines.id);
        if let Some(body) = lines.text.within_limit(MAX_SINGLE_REQUEST_BYTES) {
            let url = format!("{session_url}?sha256={}", lines.sha256);
            return match self.send_request(Method::PUT, &url, body)? {
                ServerReply::Done(status, _) => Ok(upload_outcome(status)),
                ServerReply::ContinueAt(_) | ServerReply::NotStarted => {
                    Err(UploadError::retryable("the session arrived damaged"))
                }
            };
        }
        self.send_parts(&session_url, lines)
    }

    fn send_parts(
        &self,
        url: &str,
        lines: &SessionLines<'_>,
    ) -> Result<UploadOutcome, UploadError> {
        let read_error =
            |error: io::Error| UploadError::retryable(format!("cannot read the session: {error}"));
        let read_part = |from: u64| lines.text.read_part(from).map_err(read_error);
        let count = lines.text.line_count();
        let mut next = match self.send_request(Method::PUT, url, &read_part(0)?)? {
            ServerReply::Done(_, body) if body["state"] == "known" => {
                return check_same_session(&body, lines);
            }
            ServerReply::Done(_, body) => received_lines(&body)?,
            ServerReply::ContinueAt(next) => next,
            ServerReply::NotStarted => {
                return Err(UploadError::retryable("the server dropped the partial upload"));
            }
        };
        let mut position_changes = 0;
        loop {
            let response = if next < count {
                self.send_request(Method::PATCH, &format!("{url}?at={next}"), &read_part(next)?)?
            } else {
                let body = json!({"lines": count, "sha256": lines.sha256}).to_string();
                self.send_request(Method::POST, &format!("{url}/finish"), body.as_bytes())?
            };
            match response {
                ServerReply::Done(_, body) if body["state"] == "arriving" => {
                    let received = received_lines(&body)?;
                    position_changes += u32::from(received <= next);
                    next = received;
                }
                ServerReply::Done(status, body) if body["state"] == "known" => {
                    check_same_session(&body, lines)?;
                    return Ok(upload_outcome(status));
                }
                ServerReply::Done(status, _) => return Ok(upload_outcome(status)),
                // Another process sends the same session, or the server dropped the partial upload.
                ServerReply::ContinueAt(0) | ServerReply::NotStarted => {
                    return Err(UploadError::retryable("the server asked to restart the upload"));
                }
                ServerReply::ContinueAt(received) => {
                    position_changes += 1;
                    next = received;
                }
            }
            if position_changes > MAX_POSITION_CHANGES {
                return Err(UploadError::retryable("the upload is making no progress"));
            }
        }
    }

    fn send_request(
        &self,
        method: Method,
        url: &str,
        body: &[u8],
    ) -> Result<ServerReply, UploadError> {
        let (body, is_compressed) = compress_text(body);
        let mut request = Request::builder()
            .method(method)
            .uri(url)
            .header("accept", "application/json")
            .header("content-type", "application/jsonl");
        if is_compressed {
            request = request.header("content-encoding", "gzip");
        }
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {}", token.secret()));
        }
        let request = request.body(body).map_err(|error| UploadError::Rejected {
            reason: format!("cannot build the request: {error}"),
        })?;
        let response = self
            .agent
            .run(request)
            .map_err(|error| UploadError::retryable(explain_connect_error(&error.to_string())))?;
        interpret_response(response)
    }
}

/// Parses the certificate authorities in a PEM file.
///
/// # Errors
/// Fails if the file contains no certificate, or one that cannot be parsed.
pub fn parse_authorities(pem: &[u8]) -> Result<Vec<Certificate<'static>>, String> {
    let items = ureq::tls::parse_pem(pem).map(|item| item.map_err(|error| error.to_string()));
    let mut certificates = Vec::new();
    for item in items {
        if let PemItem::Certificate(certificate) = item? {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() {
        return Err("it contains no certificate in PEM format".to_owned());
    }
    Ok(certificates)
}

/// Explains why a server was not reached, with advice if its certificate is not trusted.
fn explain_connect_error(message: &str) -> String {
    const CERTIFICATE: &str = "invalid peer certificate: ";
    let Some((_, cause)) = message.split_once(CERTIFICATE) else {
        return message.to_owned();
    };
    let explanations = [
        ("UnknownIssuer", "this machine does not trust its issuer; add the issuer with --ca FILE"),
        (
            "CaUsedAsEndEntity",
            "it is a CA certificate, but the server must use a certificate signed by that CA",
        ),
        ("NotValidYet", "it is not valid yet; check the clock"),
        ("NotValidForName", "it is not valid for this name"),
        ("Expired", "it has expired"),
    ];
    let explanation = explanations.iter().find(|(name, _)| cause.contains(name));
    let cause = explanation.map_or(cause, |(_, message)| message);
    format!("the server's certificate was rejected: {cause}")
}

fn upload_outcome(status: StatusCode) -> UploadOutcome {
    match status {
        StatusCode::CREATED => UploadOutcome::Stored,
        _ => UploadOutcome::Known,
    }
}

/// Checks that the session on the server is the same as ours.
fn check_same_session(
    body: &Value,
    lines: &SessionLines<'_>,
) -> Result<UploadOutcome, UploadError> {
    if body["sha256"] == lines.sha256 {
        return Ok(UploadOutcome::Known);
    }
    Err(UploadError::Rejected {
        reason: format!("the server has a different session '{}'", lines.id),
    })
}

fn received_lines(body: &Value) -> Result<u64, UploadError> {
    let lines = body["lines"].as_u64();
    lines.ok_or_else(|| UploadError::retryable("the server did not report how many lines it has"))
}

fn interpret_response(mut response: Response<Body>) -> Result<ServerReply, UploadError> {
    let status = response.status();
    let retry_after = (response.headers().get("retry-after"))
        .and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let text =
        response.body_mut().with_config().limit(MAX_RESPONSE_BYTES).read_to_string().map_err(
            |error| UploadError::retryable(format!("the response ended early: {error}")),
        )?;
    let body: Value = serde_json::from_str(&text).unwrap_or_default();
    if status.is_success() {
        // A successful response without `state` comes from an intermediary, such as a proxy.
        return if body["state"].is_string() {
            Ok(ServerReply::Done(status, body))
        } else {
            Err(UploadError::retryable("the response is not from a Speedwell server"))
        };
    }
    if let (StatusCode::CONFLICT, Some(lines)) = (status, body["lines"].as_u64()) {
        return Ok(ServerReply::ContinueAt(lines));
    }
    if status == StatusCode::NOT_FOUND && body["lines"] == 0 {
        return Ok(ServerReply::NotStarted);
    }
    let message = refusal_message(status, &body);
    let is_temporary = status == StatusCode::REQUEST_TIMEOUT
        || status == StatusCode::TOO_MANY_REQUESTS
        || status.is_server_error();
    Err(if is_temporary {
        UploadError::Retryable {
            reason: message,
            retry_after: retry_after.map(Duration::from_secs),
        }
    } else {
        UploadError::Rejected { reason: message }
    })
}

fn refusal_message(status: StatusCode, body: &Value) -> String {
    if status.is_redirection() {
        return format!(
            "status {}: redirects are not followed, to protect the token",
            status.as_u16()
        );
    }
    let printable = |text: &str| -> String {
        let blank_control = |c: char| if c.is_control() { ' ' } else { c };
        text.chars().take(300).map(blank_control).collect()
    };
    let mut message = format!("status {}", status.as_u16());
    for key in ["error", "hint"] {
        if let Some(text) = body[key].as_str() {
            message += if key == "error" { ": " } else { "; " };
            message += &printable(text);
        }
    }
    message
}

/// Returns text compressed with gzip, and `true`. Text that does not shrink, or that the server
/// would take for a zip bomb, is returned unchanged, with `false`.
pub(crate) fn compress_text(text: &[u8]) -> (Vec<u8>, bool) {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let result = encoder.write_all(text).and_then(|()| encoder.finish());
    match result {
        // The server accepts a compression ratio of up to 100. A limit of 80 leaves a margin.
        Ok(compressed) if compressed.len() < text.len() && compressed.len() * 80 > text.len() => {
            (compressed, true)
        }
        _ => (text.to_vec(), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_errors_are_explained_in_words() {
        for (error, words) in [
            ("io: invalid peer certificate: UnknownIssuer", "add the issuer with --ca FILE"),
            ("io: invalid peer certificate: Expired", "has expired"),
            ("io: invalid peer certificate: certificate expired: verification time 2", "expired"),
            (
                "io: invalid peer certificate: certificate not valid for name \"a\"",
                "not valid for name",
            ),
            ("io: Connection refused", "io: Connection refused"),
        ] {
            let explanation = explain_connect_error(error);
            assert!(explanation.contains(words), "{explanation}");
        }
        assert!(parse_authorities(b"hello").unwrap_err().contains("no certificate"));
    }

    /// A dropped upload has `"lines": 0`. The wording of the error does not matter.
    #[test]
    fn a_dropped_upload_is_recognized_by_the_line_count_in_the_reply() {
        let reply = |status: u16, body: &str| {
            let body = Body::builder().data(body.to_owned());
            interpret_response(Response::builder().status(status).body(body).unwrap())
        };
        let dropped = r#"{"error":"the upload has not started","hint":null,"lines":0}"#;
        assert!(matches!(reply(404, dropped), Ok(ServerReply::NotStarted)));
        assert!(matches!(reply(404, "{}"), Err(UploadError::Rejected { .. })));
        assert!(matches!(reply(409, r#"{"lines":3}"#), Ok(ServerReply::ContinueAt(3))));
    }

    #[test]
    fn text_that_compresses_too_well_is_sent_uncompressed() {
        assert!(!compress_text(&vec![b'0'; 1 << 20]).1);
        let text: Vec<u8> =
            (0..20_000_u32).flat_map(|n| format!("{}\n", n * 7919).into_bytes()).collect();
        let (small, is_packed) = compress_text(&text);
        assert!(is_packed && small.len() < text.len() / 2);
    }
}
