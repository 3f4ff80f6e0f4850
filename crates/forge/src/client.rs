//! Requests to a forge: with the token, again where a second try may help, and with an error that says what is missing.
//!
//! Redirections are refused, since the token would go with them. Start at [`Client`].

use crate::place::{Forge, Place};
use serde_json::Value;
use speedwell_clock::Clock;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use ureq::http::{Method, Request, Response, StatusCode};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body};

/// Tries of one request.
const TRIES: u32 = 4;

/// No wait between two tries is longer, whatever the forge asks for.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// How long one try may take.
const LIMIT: Duration = Duration::from_secs(30);

/// More pages of comments than any request has; a forge whose pages never end is left.
const MOST_PAGES: u32 = 100;

/// So much of an answer is read.
const MOST_BYTES: u64 = 16 << 20;

/// A secret that nothing prints.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Of a text, whose blanks at both ends are not part of it.
    pub fn new(text: impl AsRef<str>) -> Token {
        Token(text.as_ref().trim().to_owned())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(secret)")
    }
}

/// Why the forge did not do it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The token lacks a right, or the request does not exist for it.
    #[error("{place}: the forge refused to {what} (status {status}{said}): {remedy}")]
    Refused {
        /// The pull request.
        place: String,
        /// What was asked for.
        what: &'static str,
        /// Of the answer.
        status: u16,
        /// Its words, after a comma.
        said: String,
        /// The right that is missing.
        remedy: &'static str,
    },
    /// It did not answer, or only with failures, however often it was asked.
    #[error("{place}: could not {what}: {reason}")]
    Unreachable {
        /// The pull request.
        place: String,
        /// What was asked for.
        what: &'static str,
        /// The last failure.
        reason: String,
    },
    /// It was not asked, because it would refuse.
    #[error("{place}: could not {what}: {reason}")]
    Unfit {
        /// The pull request.
        place: String,
        /// What was asked for.
        what: &'static str,
        /// Why.
        reason: String,
    },
    /// It answered with something else.
    #[error("{place}: could not {what}: the answer {reason}")]
    Unreadable {
        /// The pull request.
        place: String,
        /// What was asked for.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

/// Talks to the forge of one pull request.
pub struct Client {
    pub(crate) place: Place,
    token: Token,
    agent: Agent,
    clock: Clock,
}

impl Client {
    /// With the certificates that the system trusts, and a proxy if the environment names one.
    pub fn new(place: Place, token: Token) -> Client {
        let certificates = rustls_native_certs::load_native_certs().certs;
        let roots = certificates
            .iter()
            .map(|one| Certificate::from_der(one).to_owned());
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
            .timeout_global(Some(LIMIT))
            .user_agent("speedwell")
            .build();
        Client {
            place,
            token,
            agent: config.into(),
            clock: Clock::REAL,
        }
    }

    /// The same by another clock, which pauses between tries move.
    pub fn with_clock(self, clock: Clock) -> Client {
        Client { clock, ..self }
    }

    /// All entries of a list, page by page.
    pub(crate) fn list(&self, what: &'static str, path: &str) -> Result<Vec<Value>, Error> {
        let mut entries = Vec::new();
        for page in 1..=MOST_PAGES {
            let separator = if path.contains('?') { '&' } else { '?' };
            let path = format!("{path}{separator}per_page=100&page={page}");
            let (answer, has_more) = self.ask(what, Method::GET, &path, None)?;
            let Value::Array(found) = answer else {
                return Err(self.unreadable(what, "is no list"));
            };
            // One that knows no pages gives all at once, and the same again for the second.
            let is_last = found.is_empty() || !has_more;
            entries.extend(found);
            if is_last {
                break;
            }
        }
        Ok(entries)
    }

    /// The answer to a request, and whether a list goes on.
    pub(crate) fn ask(
        &self,
        what: &'static str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(Value, bool), Error> {
        let mut wait = Duration::from_secs(1);
        let mut reason = String::new();
        for attempt in 1..=TRIES {
            match self.send(&method, path, body) {
                Ok(mut answer) => {
                    let asked = retry_after(&answer);
                    let status = answer.status();
                    if !is_passing(status, asked) {
                        return self.judge(what, &mut answer);
                    }
                    reason = format!("status {}", status.as_u16());
                    wait = asked.unwrap_or(wait);
                }
                Err(error) => reason = error.to_string(),
            }
            if attempt < TRIES {
                self.clock.pause(wait.min(LONGEST_WAIT));
                wait *= 2;
            }
        }
        Err(Error::Unreachable {
            place: self.place.to_string(),
            what,
            reason: format!("{reason}, in {TRIES} tries"),
        })
    }

    fn send(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Response<Body>, ureq::Error> {
        let (name, value) = match self.place.forge {
            Forge::GitHub => ("authorization", format!("Bearer {}", self.token.0)),
            Forge::GitLab => ("private-token", self.token.0.clone()),
            Forge::Gitea => ("authorization", format!("token {}", self.token.0)),
        };
        let request = Request::builder()
            .method(method.clone())
            .uri(format!("{}{path}", self.place.api))
            .header(name, value)
            .header("accept", "application/json")
            .header("content-type", "application/json");
        match body {
            Some(body) => self.agent.run(request.body(body.to_string())?),
            None => self.agent.run(request.body(())?),
        }
    }

    /// What an answer says that is not worth a second try.
    fn judge(
        &self,
        what: &'static str,
        answer: &mut Response<Body>,
    ) -> Result<(Value, bool), Error> {
        let status = answer.status();
        let has_more = goes_on(answer);
        let text = answer
            .body_mut()
            .with_config()
            .limit(MOST_BYTES)
            .read_to_string();
        let text = text.map_err(|error| self.unreadable(what, &format!("breaks off: {error}")))?;
        let read: Option<Value> = serde_json::from_str(&text).ok();
        if status.is_success() {
            let is_empty = text.trim().is_empty();
            let value = read.or(is_empty.then_some(Value::Null));
            let value = value.ok_or_else(|| self.unreadable(what, "is no JSON"))?;
            return Ok((value, has_more));
        }
        if status.is_redirection() {
            return Err(self.unreadable(what, "leads elsewhere, and the token stays here"));
        }
        let said = read.as_ref().and_then(|value| value["message"].as_str());
        Err(Error::Refused {
            place: self.place.to_string(),
            what,
            status: status.as_u16(),
            said: said
                .map(|said| format!(", '{}'", cut(said, 200)))
                .unwrap_or_default(),
            remedy: self.remedy(status),
        })
    }

    /// The right that is missing.
    fn remedy(&self, status: StatusCode) -> &'static str {
        match (self.place.forge, status.as_u16()) {
            (_, 401) => "the token is wrong or has expired",
            (Forge::GitHub, 403 | 404) => {
                "the token needs 'pull-requests: write' for comments and 'statuses: write' for the status, which that of a pull \
                 request from a fork never has"
            }
            (Forge::GitLab, 403 | 404) => {
                "the token needs the scope 'api' and the role of a reporter (of a developer for the status); that of the job has neither"
            }
            (Forge::Gitea, 403 | 404) => {
                "the token needs 'write:issue' for comments and 'write:repository' for the status"
            }
            _ => "see the words of the forge",
        }
    }

    pub(crate) fn unreadable(&self, what: &'static str, reason: &str) -> Error {
        Error::Unreadable {
            place: self.place.to_string(),
            what,
            reason: reason.to_owned(),
        }
    }
}

/// Whether a second try may succeed. GitHub's limit for bursts is a refusal that says how long to wait.
fn is_passing(status: StatusCode, asked: Option<Duration>) -> bool {
    let is_limit = status == StatusCode::FORBIDDEN && asked.is_some();
    // Two jobs that edit at once get in each other's way, which passes.
    let passing = [
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::CONFLICT,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    passing.contains(&status) || is_limit || status.is_server_error()
}

/// For how long the forge asks to be left alone.
fn retry_after(answer: &Response<Body>) -> Option<Duration> {
    let seconds = answer.headers().get("retry-after")?.to_str().ok()?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}

/// Whether another page of a list follows.
fn goes_on(answer: &Response<Body>) -> bool {
    let field = |name: &str| {
        answer
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    let by_link = field("link").is_some_and(|links| links.contains("rel=\"next\""));
    by_link || field("x-next-page").is_some_and(|page| !page.trim().is_empty())
}

/// The beginning of a text, without control characters.
pub(crate) fn cut(text: &str, characters: usize) -> String {
    let shown = |letter: char| if letter.is_control() { ' ' } else { letter };
    text.chars().take(characters).map(shown).collect()
}
