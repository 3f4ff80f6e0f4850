//! Sends requests to a forge, with a token. Retries a request if a retry may help. Errors name the
//! missing permission.
//!
//! Rejects redirects, because following one would pass the token on to another server. Start at
//! [`ForgeClient`].

use crate::clients::forge::pull_request::{ForgeKind, PullRequestRef};
use crate::clients::{SecretToken, agent_config};
use serde_json::Value;
use speedwell_model::clock::WaitClock;
use std::time::Duration;
use ureq::http::{Method, Request, Response, StatusCode};
use ureq::{Agent, Body};

/// Attempts per request.
const MAX_ATTEMPTS: u32 = 4;

/// Maximum wait between two attempts, even if the forge asks for a longer one.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Timeout of one attempt.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of pages of a list, in case a forge's pages never end. No pull request has that
/// many comments.
const MAX_PAGES: u32 = 100;

/// Maximum size of a response.
const MAX_RESPONSE_BYTES: u64 = 16 << 20;

/// Why a request to the forge failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The forge answered with an error status that a retry would not change. Usually, the token
    /// lacks a permission, or the pull request is not visible to the token's user.
    #[error("{pull_request}: the forge refused to {action} (status {status}{message}): {remedy}")]
    Refused {
        /// The pull request.
        pull_request: String,
        /// The attempted action.
        action: &'static str,
        /// Status of the response.
        status: u16,
        /// The forge's message, after a comma.
        message: String,
        /// The missing permission, or what else may be wrong.
        remedy: &'static str,
    },
    /// The forge did not respond, or every attempt failed.
    #[error("{pull_request}: could not {action}: {reason}")]
    Unreachable {
        /// The pull request.
        pull_request: String,
        /// The attempted action.
        action: &'static str,
        /// The last failure.
        reason: String,
    },
    /// The request was not sent, because the forge would refuse it.
    #[error("{pull_request}: could not {action}: {reason}")]
    InvalidRequest {
        /// The pull request.
        pull_request: String,
        /// The attempted action.
        action: &'static str,
        /// The reason.
        reason: String,
    },
    /// The response was not understood.
    #[error("{pull_request}: could not {action}: the response {reason}")]
    InvalidResponse {
        /// The pull request.
        pull_request: String,
        /// The attempted action.
        action: &'static str,
        /// The defect of the response.
        reason: String,
    },
}

/// A client for the forge of one pull request.
pub struct ForgeClient {
    pub(crate) pull_request: PullRequestRef,
    token: SecretToken,
    agent: Agent,
    clock: WaitClock,
}

impl ForgeClient {
    /// Creates a client that trusts the system's certificates and uses the proxy that the
    /// environment names.
    pub fn new(pull_request: PullRequestRef, token: SecretToken) -> ForgeClient {
        let config = agent_config(Vec::new()).timeout_global(Some(ATTEMPT_TIMEOUT));
        ForgeClient { pull_request, token, agent: config.build().into(), clock: WaitClock::REAL }
    }

    /// Uses this clock for the pauses between attempts.
    pub fn with_clock(self, clock: WaitClock) -> ForgeClient {
        ForgeClient { clock, ..self }
    }

    /// Reads all entries of a list, page by page.
    pub(crate) fn list_entries(
        &self,
        action: &'static str,
        path: &str,
    ) -> Result<Vec<Value>, Error> {
        let mut entries = Vec::new();
        for page in 1..=MAX_PAGES {
            let separator = if path.contains('?') { '&' } else { '?' };
            let path = format!("{path}{separator}per_page=100&page={page}");
            let (value, has_more) = self.send_request(action, Method::GET, &path, None)?;
            let Value::Array(page_entries) = value else {
                return Err(self.unreadable_error(action, "is not a list"));
            };
            // A forge without pages returns the whole list at once, and would return the same list
            // as page 2.
            let is_last = page_entries.is_empty() || !has_more;
            entries.extend(page_entries);
            if is_last {
                break;
            }
        }
        Ok(entries)
    }

    /// Sends a request. Returns the response, and whether another page of a list follows.
    pub(crate) fn send_request(
        &self,
        action: &'static str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(Value, bool), Error> {
        let mut wait = Duration::from_secs(1);
        let mut reason = String::new();
        for attempt in 1..=MAX_ATTEMPTS {
            match self.send_once(&method, path, body) {
                Ok(mut response) => {
                    let retry_delay = retry_after(&response);
                    let status = response.status();
                    if !is_retryable(status, retry_delay) {
                        return self.interpret_response(action, &mut response);
                    }
                    reason = format!("status {}", status.as_u16());
                    wait = retry_delay.unwrap_or(wait);
                }
                Err(error) => reason = error.to_string(),
            }
            if attempt < MAX_ATTEMPTS {
                self.clock.pause(wait.min(MAX_WAIT));
                wait *= 2;
            }
        }
        Err(Error::Unreachable {
            pull_request: self.pull_request.to_string(),
            action,
            reason: format!("{reason}, after {MAX_ATTEMPTS} attempts"),
        })
    }

    fn send_once(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Response<Body>, ureq::Error> {
        let (name, value) = match self.pull_request.forge {
            ForgeKind::GitHub => ("authorization", format!("Bearer {}", self.token.secret())),
            ForgeKind::GitLab => ("private-token", self.token.secret().to_owned()),
            ForgeKind::Gitea => ("authorization", format!("token {}", self.token.secret())),
        };
        let request = Request::builder()
            .method(method.clone())
            .uri(format!("{}{path}", self.pull_request.api))
            .header(name, value)
            .header("accept", "application/json")
            .header("content-type", "application/json");
        match body {
            Some(body) => self.agent.run(request.body(body.to_string())?),
            None => self.agent.run(request.body(())?),
        }
    }

    /// Interprets a response that is not worth a retry.
    fn interpret_response(
        &self,
        action: &'static str,
        response: &mut Response<Body>,
    ) -> Result<(Value, bool), Error> {
        let status = response.status();
        let has_more = has_next_page(response);
        let text = response
            .body_mut()
            .with_config()
            .limit(MAX_RESPONSE_BYTES)
            .read_to_string()
            .map_err(|error| self.unreadable_error(action, &format!("ended early: {error}")))?;
        let json: Option<Value> = serde_json::from_str(&text).ok();
        if status.is_success() {
            let is_empty = text.trim().is_empty();
            let value = json
                .or(is_empty.then_some(Value::Null))
                .ok_or_else(|| self.unreadable_error(action, "is not JSON"))?;
            return Ok((value, has_more));
        }
        if status.is_redirection() {
            return Err(self.unreadable_error(
                action,
                "is a redirect, which is not followed, to protect the token",
            ));
        }
        let message = json.as_ref().and_then(|value| value["message"].as_str());
        Err(Error::Refused {
            pull_request: self.pull_request.to_string(),
            action,
            status: status.as_u16(),
            message: message
                .map(|message| format!(", '{}'", truncate_text(message, 200)))
                .unwrap_or_default(),
            remedy: self.missing_permission(status),
        })
    }

    /// Says which permission the token lacks, or what else may be wrong.
    fn missing_permission(&self, status: StatusCode) -> &'static str {
        match (self.pull_request.forge, status.as_u16()) {
            (_, 401) => "the token is wrong or has expired",
            (ForgeKind::GitHub, 403 | 404) => {
                "the token needs 'pull-requests: write' for comments and 'statuses: write' for the status; the token of a pull \
                 request from a fork has neither"
            }
            (ForgeKind::GitLab, 403 | 404) => {
                "the token needs the scope 'api' and the role Reporter (Developer for the status); the job token has neither"
            }
            (ForgeKind::Gitea, 403 | 404) => {
                "the token needs 'write:issue' for comments and 'write:repository' for the status"
            }
            _ => "see the forge's message",
        }
    }

    pub(crate) fn unreadable_error(&self, action: &'static str, reason: &str) -> Error {
        Error::InvalidResponse {
            pull_request: self.pull_request.to_string(),
            action,
            reason: reason.to_owned(),
        }
    }
}

/// Whether a retry may succeed. GitHub's secondary rate limit is a 403 with a Retry-After header.
fn is_retryable(status: StatusCode, retry_delay: Option<Duration>) -> bool {
    let is_rate_limit = status == StatusCode::FORBIDDEN && retry_delay.is_some();
    // Two jobs that edit at the same time conflict. The conflict is temporary.
    let temporary =
        [StatusCode::REQUEST_TIMEOUT, StatusCode::CONFLICT, StatusCode::TOO_MANY_REQUESTS];
    temporary.contains(&status) || is_rate_limit || status.is_server_error()
}

fn retry_after(response: &Response<Body>) -> Option<Duration> {
    let seconds = response.headers().get("retry-after")?.to_str().ok()?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}

fn has_next_page(response: &Response<Body>) -> bool {
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let has_next_link = header("link").is_some_and(|links| links.contains("rel=\"next\""));
    has_next_link || header("x-next-page").is_some_and(|page| !page.trim().is_empty())
}

/// Truncates a string and replaces its control characters with spaces.
pub(crate) fn truncate_text(text: &str, max_chars: usize) -> String {
    let printable = |character: char| {
        if character.is_control() { ' ' } else { character }
    };
    text.chars().take(max_chars).map(printable).collect()
}
