//! Sends sessions to a Speedwell server, exactly once even if responses are lost.
//!
//! [`UploadTarget`] is a project on a server; [`UploadClient::upload_session`] sends the lines of a
//! session there, in one request. An error tells whether a retry may help. The caller decides when
//! to retry, and what to keep until then. This module handles only the lines of a session and their
//! digest. A redirect counts as a rejection, because following one would pass the token on.
//!
//! ```no_run
//! use speedwell_server::clients::push::{UploadClient, UploadError, SessionLines, UploadTarget, UploadOutcome};
//! use std::fs::File;
//!
//! let target: UploadTarget = "https://perf.example/core".parse()?;
//! let client = UploadClient::new(None, Vec::new());
//! let (text, scratch) = (File::open("lines.jsonl")?, File::create_new("lines.jsonl.gz")?);
//! let lines = SessionLines { id: "0197", text: &text, scratch: &scratch, sha256: "ab..." };
//! match client.upload_session(&target, &lines) {
//!     Ok(UploadOutcome::Stored) => println!("it is there now"),
//!     Ok(UploadOutcome::Known) => println!("it was there"),
//!     Err(UploadError::Retryable { reason, .. }) => println!("later: {reason}"),
//!     Err(UploadError::Rejected { reason }) => println!("never: {reason}"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::clients::{
    SecretToken, agent_config, is_temporary, is_this_machine, read_text, retry_after, truncate_text,
};
use serde_json::Value;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::str::FromStr;
use std::time::Duration;
use ureq::http::{Request, Response, StatusCode};
use ureq::tls::{Certificate, PemItem};
use ureq::{Agent, Body};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of a whole request with an empty body.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(300);
/// Slowest transfer that does not time out.
const MIN_BYTES_PER_S: u64 = 32_000;
/// Maximum size of a response.
const MAX_RESPONSE_BYTES: u64 = 1 << 20;

/// The lines of a session.
#[derive(Debug, Clone, Copy)]
pub struct SessionLines<'a> {
    /// ID of the session.
    pub id: &'a str,
    /// File with all lines and their newlines, which is sent from its start. The first line is the
    /// header.
    pub text: &'a File,
    /// An empty file for the compressed text.
    pub scratch: &'a File,
    /// SHA-256 of the lines, in hexadecimal.
    pub sha256: &'a str,
}

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

impl UploadClient {
    /// Creates a client that trusts the system's certificates and `authorities`, and uses the proxy
    /// that the environment names.
    pub fn new(token: Option<SecretToken>, authorities: Vec<Certificate<'static>>) -> UploadClient {
        let config = agent_config(authorities).timeout_connect(Some(CONNECT_TIMEOUT));
        UploadClient { agent: config.build().into(), token }
    }

    /// Sends a session. The server may already have it.
    ///
    /// # Errors
    /// Fails if the server is unreachable or rejects the session.
    pub fn upload_session(
        &self,
        target: &UploadTarget,
        lines: &SessionLines<'_>,
    ) -> Result<UploadOutcome, UploadError> {
        let is_compressed = compress_file(lines.text, lines.scratch).map_err(read_error)?;
        let mut body = if is_compressed { lines.scratch } else { lines.text };
        body.rewind().map_err(read_error)?;
        let length = body.metadata().map_err(read_error)?.len();
        let url = format!("{}?sha256={}", target.session_url(lines.id), lines.sha256);
        let mut request = Request::put(url)
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
        let timeout = REQUEST_TIMEOUT + Duration::from_secs(length / MIN_BYTES_PER_S);
        let request = self.agent.configure_request(request).timeout_global(Some(timeout)).build();
        let response = self
            .agent
            .run(request)
            .map_err(|error| UploadError::retryable(explain_connect_error(&error.to_string())))?;
        interpret_response(response)
    }
}

fn read_error(error: io::Error) -> UploadError {
    UploadError::retryable(format!("cannot read the session: {error}"))
}

/// A project on a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UploadTarget {
    /// Base URL, without the project and without a trailing slash.
    server: String,
    project: String,
}

/// Why a string does not identify a project on a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseTargetError {
    /// The string is not the address of a project.
    #[error(
        "cannot parse '{0}': expected the URL of a project on a server\nhint: https://HOST/PROJECT"
    )]
    InvalidAddress(String),
    /// The token would be sent unencrypted.
    #[error(
        "connections to '{0}' are not encrypted, so the token could be intercepted\nhint: use https://; http:// is only allowed for this machine"
    )]
    Unencrypted(String),
    /// The string contains credentials.
    #[error(
        "the URL contains a user name or a password, which everyone who can list processes can see\nhint: pass a token in the variable SPEEDWELL_TOKEN"
    )]
    HasCredentials,
}

impl UploadTarget {
    /// Returns the address of one of the project's sessions in the server's API.
    fn session_url(&self, id: &str) -> String {
        format!("{}/api/v1/{}/sessions/{id}", self.server, self.project)
    }
}

impl FromStr for UploadTarget {
    type Err = ParseTargetError;

    fn from_str(text: &str) -> Result<UploadTarget, ParseTargetError> {
        let invalid_address = || ParseTargetError::InvalidAddress(text.to_owned());
        let (scheme, location) = text.split_once("://").ok_or_else(invalid_address)?;
        let location = location.strip_suffix('/').unwrap_or(location);
        let (host, path) = location.split_once('/').ok_or_else(invalid_address)?;
        if host.contains('@') {
            return Err(ParseTargetError::HasCredentials);
        }
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let project = path.rsplit('/').next().unwrap_or_default();
        let is_project = !project.is_empty() && project.bytes().all(is_name);
        let is_url_byte = |byte: u8| byte.is_ascii_graphic() && !b"?#\\\"<>".contains(&byte);
        if host.is_empty() || !is_project || !location.bytes().all(is_url_byte) {
            return Err(invalid_address());
        }
        match scheme {
            "https" => {}
            "http" if is_this_machine(host) => {}
            "http" => return Err(ParseTargetError::Unencrypted(text.to_owned())),
            _ => return Err(invalid_address()),
        }
        let server = location.strip_suffix(project).unwrap_or(location);
        Ok(UploadTarget {
            server: format!("{scheme}://{}", server.trim_end_matches('/')),
            project: project.to_owned(),
        })
    }
}

impl fmt::Display for UploadTarget {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.server, self.project)
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

fn interpret_response(mut response: Response<Body>) -> Result<UploadOutcome, UploadError> {
    let status = response.status();
    let text = read_text(&mut response, MAX_RESPONSE_BYTES)
        .map_err(|error| UploadError::retryable(format!("the response ended early: {error}")))?;
    let body: Value = serde_json::from_str(&text).unwrap_or_default();
    if status.is_success() {
        // A successful response without `state` comes from an intermediary, such as a proxy.
        return match status {
            _ if !body["state"].is_string() => {
                Err(UploadError::retryable("the response is not from a Speedwell server"))
            }
            StatusCode::CREATED => Ok(UploadOutcome::Stored),
            _ => Ok(UploadOutcome::Known),
        };
    }
    if status == StatusCode::CONFLICT && body["lines"] == 0 {
        return Err(UploadError::retryable("the session arrived damaged"));
    }
    let message = refusal_message(status, &body);
    Err(if is_temporary(status) {
        UploadError::Retryable { reason: message, retry_after: retry_after(&response) }
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
    let mut message = format!("status {}", status.as_u16());
    for key in ["error", "hint"] {
        if let Some(text) = body[key].as_str() {
            message += if key == "error" { ": " } else { "; " };
            message += &truncate_text(text, 300);
        }
    }
    message
}

/// Compresses `text` with gzip into the empty file `compressed`. Returns whether to send the
/// compressed file instead of the text.
fn compress_file(mut text: &File, compressed: &File) -> io::Result<bool> {
    text.rewind()?;
    let out = BufWriter::new(compressed);
    let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::fast());
    let length = io::copy(&mut text, &mut encoder)?;
    encoder.finish()?.flush()?;
    let compressed_length = compressed.metadata()?.len();
    // The server takes text that compresses too well for a zip bomb: it accepts a ratio of up to
    // 100. A limit of 80 leaves a margin.
    Ok(compressed_length < length && compressed_length * 80 > length)
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

    #[test]
    fn a_damaged_session_is_sent_again_and_a_conflicting_one_is_not() {
        let reply = |status: u16, body: &str| {
            let body = Body::builder().data(body.to_owned());
            interpret_response(Response::builder().status(status).body(body).unwrap())
        };
        let damaged = r#"{"lines":0,"error":"digest mismatch","hint":"send the lines again"}"#;
        assert!(matches!(reply(409, damaged), Err(UploadError::Retryable { .. })));
        assert!(matches!(reply(409, "{}"), Err(UploadError::Rejected { .. })));
        assert!(matches!(reply(404, "{}"), Err(UploadError::Rejected { .. })));
        assert_eq!(reply(201, r#"{"state":"stored"}"#), Ok(UploadOutcome::Stored));
        assert_eq!(reply(200, r#"{"state":"known"}"#), Ok(UploadOutcome::Known));
        assert!(matches!(reply(200, "{}"), Err(UploadError::Retryable { .. })));
    }

    #[test]
    fn text_that_compresses_too_well_is_sent_uncompressed() {
        let zeros = vec![b'0'; 1 << 20];
        let text: Vec<u8> =
            (0..20_000_u32).flat_map(|n| format!("{}\n", n * 7919).into_bytes()).collect();
        for (text, is_compressed) in [(zeros, false), (text, true)] {
            let (mut file, scratch) =
                (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
            file.write_all(&text).unwrap();
            assert_eq!(compress_file(&file, &scratch).unwrap(), is_compressed);
            let scratch_bytes = scratch.metadata().unwrap().len();
            assert!(!is_compressed || scratch_bytes < text.len() as u64 / 2);
        }
    }

    fn parse_session_url(text: &str) -> Result<String, ParseTargetError> {
        text.parse::<UploadTarget>().map(|target| target.session_url("x"))
    }

    #[test]
    fn the_last_part_of_an_address_is_the_project() {
        for (text, address) in [
            ("https://h/core", "https://h/api/v1/core/sessions/x"),
            ("https://h:8443/perf/core/", "https://h:8443/perf/api/v1/core/sessions/x"),
            ("http://127.0.0.1:7600/a-1", "http://127.0.0.1:7600/api/v1/a-1/sessions/x"),
            ("http://[::1]:7600/a", "http://[::1]:7600/api/v1/a/sessions/x"),
        ] {
            assert_eq!(parse_session_url(text).as_deref(), Ok(address));
        }
        let target: UploadTarget = "https://h/core/".parse().unwrap();
        assert_eq!(target.to_string(), "https://h/core");
    }

    #[test]
    fn unsafe_and_invalid_upload_addresses_are_refused() {
        assert!(matches!(
            parse_session_url("http://h/core"),
            Err(ParseTargetError::Unencrypted(_))
        ));
        assert!(matches!(
            parse_session_url("http://127.0.0.1.evil/core"),
            Err(ParseTargetError::Unencrypted(_))
        ));
        assert_eq!(
            parse_session_url("https://me:secret@h/core"),
            Err(ParseTargetError::HasCredentials)
        );
        for text in [
            "h/core",
            "https://h",
            "https:///core",
            "ftp://h/core",
            "https://h/Core",
            "https://h/core?x=1",
            "https://h/a b/core",
        ] {
            assert!(
                matches!(parse_session_url(text), Err(ParseTargetError::InvalidAddress(_))),
                "{text}"
            );
        }
    }
}
