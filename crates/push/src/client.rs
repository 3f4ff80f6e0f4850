//! Requests to the server: sends the token, and reports whether a retry may help.
//!
//! Rejects redirects, which would take the token along. Start at [`Client::send`].

use crate::lines::Lines;
use crate::place::Place;
use serde_json::{Value, json};
use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;
use ureq::http::{Method, Request, Response, StatusCode};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig};
use ureq::{Agent, Body};

const CONNECTING: Duration = Duration::from_secs(10);
/// Timeout of a whole request: 8 MiB take four minutes at 32 kB/s.
const LIMIT: Duration = Duration::from_secs(300);
/// Maximum size of a session that is sent in one request.
const AT_ONCE: usize = 8 << 20;
/// How often the server may ask for a line other than the next one.
const MOST_MOVES: u32 = 100;
/// Maximum size of a response.
const MOST_BYTES: u64 = 1 << 20;

/// A secret that is never printed.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Creates a token, trimming whitespace.
    pub fn new(text: impl AsRef<str>) -> Token {
        Token(text.as_ref().trim().to_owned())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(secret)")
    }
}

/// Outcome of sending a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// The server has stored it.
    Stored,
    /// The server already had it.
    Known,
}

/// Why a session was not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A retry may help.
    #[error("{reason}")]
    Passing {
        /// What went wrong.
        reason: String,
        /// The delay before a retry, if the server asks for one.
        after: Option<Duration>,
    },
    /// No retry will help.
    #[error("{reason}")]
    Refused {
        /// The server's message.
        reason: String,
    },
}

impl Failure {
    fn passing(reason: impl Into<String>) -> Failure {
        Failure::Passing {
            reason: reason.into(),
            after: None,
        }
    }
}

/// Sends sessions to servers.
#[derive(Debug)]
pub struct Client {
    agent: Agent,
    token: Option<Token>,
}

/// A response that is not a failure, or that says where to continue.
enum Answer {
    Done(StatusCode, Value),
    Elsewhere(u64),
    Missing,
}

impl Client {
    /// Creates a client that trusts the system's certificates and uses the proxy that the
    /// environment names.
    pub fn new(token: Option<Token>) -> Client {
        Client::trusting(token, Vec::new())
    }

    /// Like [`Client::new`], with additional certificate authorities.
    pub fn trusting(token: Option<Token>, authorities: Vec<Certificate<'static>>) -> Client {
        let certificates = rustls_native_certs::load_native_certs().certs;
        let roots = certificates
            .iter()
            .map(|one| Certificate::from_der(one).to_owned());
        let roots: Vec<_> = roots.chain(authorities).collect();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::from(roots))
            .unversioned_rustls_crypto_provider(provider)
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECTING))
            .timeout_global(Some(LIMIT))
            .user_agent("speedwell")
            .build();
        Client {
            agent: config.into(),
            token,
        }
    }

    /// Sends a session. The server may already have any part of it.
    ///
    /// # Errors
    /// Fails if the server is unreachable or rejects the session.
    pub fn send(&self, place: &Place, lines: &Lines<'_>) -> Result<Sent, Failure> {
        let address = place.session(lines.id);
        if let Some(text) = lines.text.at_once(AT_ONCE) {
            let whole = format!("{address}?sha256={}", lines.sha256);
            return match self.ask(Method::PUT, &whole, text)? {
                Answer::Done(status, _) => Ok(sent(status)),
                Answer::Elsewhere(_) | Answer::Missing => {
                    Err(Failure::passing("the session arrived damaged"))
                }
            };
        }
        self.send_parts(&address, lines)
    }

    fn send_parts(&self, address: &str, lines: &Lines<'_>) -> Result<Sent, Failure> {
        let unreadable = |error: io::Error| {
            Failure::passing(format!("the lines of the session cannot be read: {error}"))
        };
        let part = |from: u64| lines.text.part(from).map_err(unreadable);
        let count = lines.text.count();
        let mut next = match self.ask(Method::PUT, address, &part(0)?)? {
            Answer::Done(_, body) if body["state"] == "known" => {
                return known(&body, lines);
            }
            Answer::Done(_, body) => place_of(&body)?,
            Answer::Elsewhere(next) => next,
            Answer::Missing => return Err(Failure::passing("the server forgot the session")),
        };
        let mut moves = 0;
        loop {
            let answer = if next < count {
                self.ask(Method::PATCH, &format!("{address}?at={next}"), &part(next)?)?
            } else {
                let body = json!({"lines": count, "sha256": lines.sha256}).to_string();
                self.ask(Method::POST, &format!("{address}/finish"), body.as_bytes())?
            };
            match answer {
                Answer::Done(_, body) if body["state"] == "arriving" => {
                    let now = place_of(&body)?;
                    moves += u32::from(now <= next);
                    next = now;
                }
                Answer::Done(status, body) if body["state"] == "known" => {
                    known(&body, lines)?;
                    return Ok(sent(status));
                }
                Answer::Done(status, _) => return Ok(sent(status)),
                // Another process sends the same session, or the server dropped what it had.
                Answer::Elsewhere(0) | Answer::Missing => {
                    return Err(Failure::passing(
                        "the server wants the session again from its beginning",
                    ));
                }
                Answer::Elsewhere(now) => {
                    moves += 1;
                    next = now;
                }
            }
            if moves > MOST_MOVES {
                return Err(Failure::passing("the server gets no further"));
            }
        }
    }

    fn ask(&self, method: Method, address: &str, body: &[u8]) -> Result<Answer, Failure> {
        let (body, is_packed) = packed(body);
        let mut request = Request::builder()
            .method(method)
            .uri(address)
            .header("accept", "application/json")
            .header("content-type", "application/jsonl");
        if is_packed {
            request = request.header("content-encoding", "gzip");
        }
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {}", token.0));
        }
        let request = request.body(body).map_err(|error| Failure::Refused {
            reason: format!("the request cannot be made: {error}"),
        })?;
        let answer = self.agent.run(request);
        judged(answer.map_err(|error| Failure::passing(unreached(&error.to_string())))?)
    }
}

/// Parses the certificate authorities in a PEM file.
///
/// # Errors
/// Fails if there is none, or one cannot be parsed.
pub fn authorities(pem: &[u8]) -> Result<Vec<Certificate<'static>>, String> {
    let parts = ureq::tls::parse_pem(pem).map(|part| part.map_err(|error| error.to_string()));
    let mut found = Vec::new();
    for part in parts {
        if let PemItem::Certificate(certificate) = part? {
            found.push(certificate);
        }
    }
    if found.is_empty() {
        return Err("there is no certificate in PEM in it".to_owned());
    }
    Ok(found)
}

/// Explains why a server was not reached, with advice if its certificate is not trusted.
fn unreached(words: &str) -> String {
    const CERTIFICATE: &str = "invalid peer certificate: ";
    let Some((_, why)) = words.split_once(CERTIFICATE) else {
        return words.to_owned();
    };
    let known = [
        (
            "UnknownIssuer",
            "it is signed by an authority that this machine does not know; --ca FILE names the authority",
        ),
        (
            "CaUsedAsEndEntity",
            "it is that of an authority; a server needs one that is signed by it",
        ),
        ("NotValidYet", "it is not valid yet; is the clock right?"),
        ("NotValidForName", "it is not for this name"),
        ("Expired", "it has expired"),
    ];
    let found = known.iter().find(|(name, _)| why.contains(name));
    let why = found.map_or(why, |(_, words)| words);
    format!("the certificate of the server is refused: {why}")
}

fn sent(status: StatusCode) -> Sent {
    match status {
        StatusCode::CREATED => Sent::Stored,
        _ => Sent::Known,
    }
}

/// Accepts a session that the server already has, if it is the same.
fn known(body: &Value, lines: &Lines<'_>) -> Result<Sent, Failure> {
    if body["sha256"] == lines.sha256 {
        return Ok(Sent::Known);
    }
    Err(Failure::Refused {
        reason: format!("another session '{}' is there", lines.id),
    })
}

fn place_of(body: &Value) -> Result<u64, Failure> {
    let lines = body["lines"].as_u64();
    lines.ok_or_else(|| Failure::passing("the server does not say how far it is"))
}

fn judged(mut answer: Response<Body>) -> Result<Answer, Failure> {
    let status = answer.status();
    let after = answer.headers().get("retry-after");
    let after = after.and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let text = answer
        .body_mut()
        .with_config()
        .limit(MOST_BYTES)
        .read_to_string();
    let text = text.map_err(|error| Failure::passing(format!("the answer breaks off: {error}")))?;
    let body: Value = serde_json::from_str(&text).unwrap_or_default();
    if status.is_success() {
        // Any other response comes from an intermediary.
        return if body["state"].is_string() {
            Ok(Answer::Done(status, body))
        } else {
            Err(Failure::passing(
                "the answer is not that of a server of Speedwell",
            ))
        };
    }
    if let (StatusCode::CONFLICT, Some(lines)) = (status, body["lines"].as_u64()) {
        return Ok(Answer::Elsewhere(lines));
    }
    let said = said(status, &body);
    if status == StatusCode::NOT_FOUND && said.contains("was not begun") {
        return Ok(Answer::Missing);
    }
    let is_passing = status == StatusCode::REQUEST_TIMEOUT
        || status == StatusCode::TOO_MANY_REQUESTS
        || status.is_server_error();
    Err(if is_passing {
        Failure::Passing {
            reason: said,
            after: after.map(Duration::from_secs),
        }
    } else {
        Failure::Refused { reason: said }
    })
}

fn said(status: StatusCode, body: &Value) -> String {
    if status.is_redirection() {
        return format!(
            "status {}: it leads elsewhere, and the token stays here",
            status.as_u16()
        );
    }
    let shown = |text: &str| -> String {
        let visible = |c: char| if c.is_control() { ' ' } else { c };
        text.chars().take(300).map(visible).collect()
    };
    let mut words = format!("status {}", status.as_u16());
    for key in ["error", "hint"] {
        if let Some(text) = body[key].as_str() {
            words += if key == "error" { ": " } else { "; " };
            words += &shown(text);
        }
    }
    words
}

/// Compresses text with gzip and returns whether it did. Text that compresses too well would be
/// taken for a zip bomb, so it is sent as is.
pub(crate) fn packed(text: &[u8]) -> (Vec<u8>, bool) {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let written = packer.write_all(text).and_then(|()| packer.finish());
    match written {
        // The server's limit is a ratio of 100.
        Ok(packed) if packed.len() < text.len() && packed.len() * 80 > text.len() => (packed, true),
        _ => (text.to_vec(), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_is_refused_says_why_in_words() {
        for (error, words) in [
            (
                "io: invalid peer certificate: UnknownIssuer",
                "--ca FILE names the authority",
            ),
            ("io: invalid peer certificate: Expired", "has expired"),
            (
                "io: invalid peer certificate: certificate expired: verification time 2",
                "expired",
            ),
            (
                "io: invalid peer certificate: certificate not valid for name \"a\"",
                "not valid for name",
            ),
            ("io: Connection refused", "io: Connection refused"),
        ] {
            let said = unreached(error);
            assert!(said.contains(words), "{said}");
        }
        assert!(
            authorities(b"hello")
                .unwrap_err()
                .contains("no certificate")
        );
    }

    #[test]
    fn what_looks_like_a_bomb_is_not_packed() {
        assert!(!packed(&vec![b'0'; 1 << 20]).1);
        let text: Vec<u8> = (0..20_000_u32)
            .flat_map(|n| format!("{}\n", n * 7919).into_bytes())
            .collect();
        let (small, is_packed) = packed(&text);
        assert!(is_packed && small.len() < text.len() / 2);
    }
}
