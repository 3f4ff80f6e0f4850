//! Sends requests to a forge, with a token. Retries a request if a retry may help. Errors name the
//! missing permission.
//!
//! [`PullRequestRef`] identifies a pull request by a string such as `github:owner/name#12`, or by
//! the environment variables of a CI job. [`ForgeClient`] rejects redirects, because following one
//! would pass the token on to another server. [`RepositoryPages`] has the addresses of the pages of
//! a repository.

use crate::clients::{
    SecretToken, agent_config, is_temporary, is_this_machine, read_text, retry_after, truncate_text,
};
use serde_json::Value;
use speedwell_model::clock::WaitClock;
use std::fmt;
use std::str::FromStr;
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
    /// The request was not sent, because the forge would refuse it, or the response was not
    /// understood.
    #[error("{pull_request}: could not {action}: {reason}")]
    Invalid {
        /// The pull request.
        pull_request: String,
        /// The attempted action.
        action: &'static str,
        /// The defect.
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
            let path = format!("{path}?per_page=100&page={page}");
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
        let text = read_text(response, MAX_RESPONSE_BYTES)
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

    pub(crate) fn is_gitlab(&self) -> bool {
        self.pull_request.forge == ForgeKind::GitLab
    }

    pub(crate) fn unreadable_error(&self, action: &'static str, reason: &str) -> Error {
        self.invalid_error(action, format!("the response {reason}"))
    }

    pub(crate) fn invalid_error(&self, action: &'static str, reason: String) -> Error {
        Error::Invalid { pull_request: self.pull_request.to_string(), action, reason }
    }
}

/// Whether a retry may succeed. GitHub's secondary rate limit is a 403 with a Retry-After header.
fn is_retryable(status: StatusCode, retry_delay: Option<Duration>) -> bool {
    let is_rate_limit = status == StatusCode::FORBIDDEN && retry_delay.is_some();
    // Two jobs that edit at the same time conflict. The conflict is temporary.
    is_temporary(status) || status == StatusCode::CONFLICT || is_rate_limit
}

fn has_next_page(response: &Response<Body>) -> bool {
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let has_next_link = header("link").is_some_and(|links| links.contains("rel=\"next\""));
    has_next_link || header("x-next-page").is_some_and(|page| !page.trim().is_empty())
}

/// A kind of forge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForgeKind {
    /// github.com, or a GitHub Enterprise server.
    GitHub,
    /// gitlab.com, or a self-hosted server.
    GitLab,
    /// A Gitea or Forgejo server.
    Gitea,
}

impl ForgeKind {
    const NAMES: [(ForgeKind, &str); 3] =
        [(ForgeKind::GitHub, "github"), (ForgeKind::GitLab, "gitlab"), (ForgeKind::Gitea, "gitea")];

    /// Returns the default server. Gitea is self-hosted and has none.
    pub(super) fn default_server(self) -> Option<&'static str> {
        match self {
            ForgeKind::GitHub => Some("https://github.com"),
            ForgeKind::GitLab => Some("https://gitlab.com"),
            ForgeKind::Gitea => None,
        }
    }

    /// Returns the base URL of the API on a server.
    fn api_url(self, server: &str) -> String {
        match self {
            ForgeKind::GitHub if server == "https://github.com" => {
                "https://api.github.com".to_owned()
            }
            ForgeKind::GitHub => format!("{server}/api/v3"),
            ForgeKind::GitLab => format!("{server}/api/v4"),
            ForgeKind::Gitea => format!("{server}/api/v1"),
        }
    }

    /// Returns the environment variables that commonly hold a token, in order of precedence.
    pub fn token_variables(self) -> &'static [&'static str] {
        match self {
            ForgeKind::GitHub => &["GITHUB_TOKEN", "GH_TOKEN"],
            ForgeKind::GitLab => &["GITLAB_TOKEN"],
            ForgeKind::Gitea => &["GITEA_TOKEN", "FORGEJO_TOKEN", "GITHUB_TOKEN"],
        }
    }
}

impl fmt::Display for ForgeKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = ForgeKind::NAMES.iter().find(|(forge, _)| forge == self);
        formatter.write_str(name.map_or("", |(_, name)| name))
    }
}

/// A pull or merge request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequestRef {
    /// The kind of forge.
    pub forge: ForgeKind,
    /// Base URL of the API, without a trailing slash.
    pub api: String,
    /// Owner and name of the repository. On GitLab, all its groups and its name.
    pub repository: String,
    /// Number of the pull request.
    pub number: u64,
}

/// Returns the value of an environment variable, or `None` if it is unset or empty.
pub type EnvLookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Why a string does not identify a pull request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParsePullRequestError {
    /// The string does not have the expected form.
    #[error(
        "cannot parse pull request '{0}': expected 'github:OWNER/NAME#12', 'gitlab:GROUP/NAME!12' or 'gitea:https://HOST/OWNER/NAME#12'"
    )]
    InvalidForm(String),
    /// A token would be sent to this server unencrypted.
    #[error(
        "'{0}' is not encrypted, so the token could be intercepted: use https, or http only for this machine"
    )]
    Unencrypted(String),
}

impl PullRequestRef {
    /// Returns the pull request that the environment variables of a CI job identify, if any.
    pub fn from_job(variable: EnvLookup<'_>) -> Option<PullRequestRef> {
        let is_gitea =
            ["GITEA_ACTIONS", "FORGEJO_ACTIONS"].iter().any(|name| variable(name).is_some());
        if is_gitea || variable("GITHUB_ACTIONS").is_some() {
            let git_ref = variable("GITHUB_REF")?;
            let (number, _) = git_ref.strip_prefix("refs/pull/")?.split_once('/')?;
            let forge = if is_gitea { ForgeKind::Gitea } else { ForgeKind::GitHub };
            let default_api_url = || Some(forge.api_url(&variable("GITHUB_SERVER_URL")?));
            return Some(PullRequestRef {
                forge,
                api: variable("GITHUB_API_URL").or_else(default_api_url)?,
                repository: variable("GITHUB_REPOSITORY")?,
                number: number.parse().ok()?,
            });
        }
        variable("GITLAB_CI")?;
        Some(PullRequestRef {
            forge: ForgeKind::GitLab,
            api: variable("CI_API_V4_URL")?,
            // A merge request from a fork is measured in the fork, but belongs to the target
            // project.
            repository: variable("CI_MERGE_REQUEST_PROJECT_PATH")
                .or_else(|| variable("CI_PROJECT_PATH"))?,
            number: variable("CI_MERGE_REQUEST_IID")?.parse().ok()?,
        })
    }
}

impl FromStr for PullRequestRef {
    type Err = ParsePullRequestError;

    fn from_str(text: &str) -> Result<PullRequestRef, ParsePullRequestError> {
        let invalid_form = || ParsePullRequestError::InvalidForm(text.to_owned());
        let (name, rest) = text.split_once(':').ok_or_else(invalid_form)?;
        let kind = ForgeKind::NAMES.iter().find(|(_, kind)| *kind == name);
        let (forge, _) = kind.ok_or_else(invalid_form)?;
        let (path, number) = rest.rsplit_once(['#', '!']).ok_or_else(invalid_form)?;
        let number = number.parse().map_err(|_| invalid_form())?;
        let (server, repository) = match path.split_once("://") {
            Some((scheme, rest)) => {
                let (host, repository) = rest.split_once('/').ok_or_else(invalid_form)?;
                (format!("{scheme}://{host}"), repository)
            }
            None => (forge.default_server().ok_or_else(invalid_form)?.to_owned(), path),
        };
        let segments: Vec<&str> = repository.split('/').collect();
        let is_name = |segment: &&str| {
            let characters = segment.chars();
            !segment.starts_with('.')
                && !segment.is_empty()
                && characters
                    .clone()
                    .all(|character| character.is_alphanumeric() || "-_.".contains(character))
        };
        let segment_counts = if *forge == ForgeKind::GitLab { 2..=21 } else { 2..=2 };
        if !segment_counts.contains(&segments.len()) || !segments.iter().all(is_name) {
            return Err(invalid_form());
        }
        // Traffic must be encrypted, or stay on this machine.
        let plain_host = server.strip_prefix("http://");
        if !plain_host.map_or(server.starts_with("https://"), is_this_machine) {
            return Err(ParsePullRequestError::Unencrypted(server));
        }
        Ok(PullRequestRef {
            forge: *forge,
            api: forge.api_url(&server),
            repository: repository.to_owned(),
            number,
        })
    }
}

impl fmt::Display for PullRequestRef {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.forge == ForgeKind::GitLab { '!' } else { '#' };
        write!(formatter, "{}{separator}{}", self.repository, self.number)
    }
}

/// The pages of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositoryPages {
    forge: ForgeKind,
    url: String,
}

impl RepositoryPages {
    /// Parses a repository such as `gitea:https://forge.example/owner/name`. Returns `None` if it is
    /// not one that [`PullRequestRef`] accepts.
    pub fn parse(repository: &str) -> Option<RepositoryPages> {
        let PullRequestRef { forge, repository: path, .. } =
            format!("{repository}#1").parse().ok()?;
        let (_, address) = repository.split_once(':')?;
        let server = match address.strip_suffix(path.as_str())? {
            "" => forge.default_server()?.to_owned(),
            server => server.trim_end_matches('/').to_owned(),
        };
        Some(RepositoryPages { forge, url: format!("{server}/{path}") })
    }

    /// Returns the address of a pull request, or `None` if `number` is not a number.
    pub fn pull_url(&self, number: &str) -> Option<String> {
        let number: u64 = number.parse().ok()?;
        let page = match self.forge {
            ForgeKind::GitHub => "pull",
            ForgeKind::GitLab => "-/merge_requests",
            ForgeKind::Gitea => "pulls",
        };
        Some(format!("{}/{page}/{number}", self.url))
    }

    /// Returns the address of a commit, or `None` if `revision` is not the id of a commit.
    pub fn commit_url(&self, revision: &str) -> Option<String> {
        let is_id = (7..=64).contains(&revision.len())
            && revision.bytes().all(|byte| byte.is_ascii_hexdigit());
        let page = if self.forge == ForgeKind::GitLab { "-/commit" } else { "commit" };
        is_id.then(|| format!("{}/{page}/{revision}", self.url))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn pull_request_references_are_parsed() {
        for (text, api, repository) in [
            ("github:nodejs/node#12", "https://api.github.com", "nodejs/node"),
            ("github:https://ghe.example/a/b#12", "https://ghe.example/api/v3", "a/b"),
            ("gitlab:a/b/c!12", "https://gitlab.com/api/v4", "a/b/c"),
            ("gitlab:a/b#12", "https://gitlab.com/api/v4", "a/b"),
            ("gitea:https://codeberg.org/a/b#12", "https://codeberg.org/api/v1", "a/b"),
            ("gitea:http://127.0.0.1:3000/a/b#12", "http://127.0.0.1:3000/api/v1", "a/b"),
            ("gitea:http://[::1]:3000/a/b#12", "http://[::1]:3000/api/v1", "a/b"),
        ] {
            let pull_request: PullRequestRef = text.parse().unwrap();
            assert_eq!(
                (&*pull_request.api, &*pull_request.repository, pull_request.number),
                (api, repository, 12)
            );
        }
    }

    #[test]
    fn invalid_pull_request_references_are_refused() {
        for text in [
            "",
            "a/b#12",
            "github:a#12",
            "github:a/b",
            "github:a/b#",
            "github:a/b#x",
            "github:a/b/c#1",
            "github:a/..#1",
            "github:a/b?x#1",
            "gitea:a/b#1",
            "bitbucket:a/b#1",
            "github:a/b#-1",
        ] {
            assert_eq!(
                text.parse::<PullRequestRef>(),
                Err(ParsePullRequestError::InvalidForm(text.to_owned())),
                "{text}"
            );
        }
        for server in [
            "http://example.org",
            "http://127.0.0.1.example.org",
            "ftp://x",
            "http://localhost.example:80",
        ] {
            let text = format!("gitea:{server}/a/b#1");
            assert_eq!(
                text.parse::<PullRequestRef>(),
                Err(ParsePullRequestError::Unencrypted(server.to_owned()))
            );
        }
    }

    fn pull_request_of_job(variables: &[(&str, &str)]) -> Option<(ForgeKind, String, String)> {
        let variables: HashMap<&str, &str> = variables.iter().copied().collect();
        let variable = |name: &str| variables.get(name).map(|value| (*value).to_owned());
        let pull_request = PullRequestRef::from_job(&variable)?;
        Some((pull_request.forge, pull_request.api.clone(), pull_request.to_string()))
    }

    #[test]
    fn the_pull_request_is_found_in_the_job_environment_of_each_forge() {
        let actions = [
            ("GITHUB_ACTIONS", "true"),
            ("GITHUB_API_URL", "https://api.example"),
            ("GITHUB_REPOSITORY", "a/b"),
            ("GITHUB_REF", "refs/pull/7/merge"),
        ];
        let expected = (ForgeKind::GitHub, "https://api.example".to_owned(), "a/b#7".to_owned());
        assert_eq!(pull_request_of_job(&actions), Some(expected.clone()));
        let gitea = [&actions[..], &[("GITEA_ACTIONS", "true")]].concat();
        assert_eq!(pull_request_of_job(&gitea), Some((ForgeKind::Gitea, expected.1, expected.2)));
        let branch = [&actions[..3], &[("GITHUB_REF", "refs/heads/main")]].concat();
        assert_eq!(pull_request_of_job(&branch), None, "a push has no pull request");
        let gitlab = [
            ("GITLAB_CI", "true"),
            ("CI_API_V4_URL", "https://git.example/api/v4"),
            ("CI_PROJECT_PATH", "fork/b"),
            ("CI_MERGE_REQUEST_PROJECT_PATH", "a/b"),
            ("CI_MERGE_REQUEST_IID", "7"),
        ];
        let expected =
            (ForgeKind::GitLab, "https://git.example/api/v4".to_owned(), "a/b!7".to_owned());
        assert_eq!(pull_request_of_job(&gitlab), Some(expected));
    }

    #[test]
    fn pages_have_the_addresses_of_their_forge() {
        for (repository, pull, commit) in [
            (
                "github:o/n",
                "https://github.com/o/n/pull/12",
                "https://github.com/o/n/commit/4f1c2d0",
            ),
            (
                "gitlab:a/b/c",
                "https://gitlab.com/a/b/c/-/merge_requests/12",
                "https://gitlab.com/a/b/c/-/commit/4f1c2d0",
            ),
            (
                "gitea:https://forge.example/o/n",
                "https://forge.example/o/n/pulls/12",
                "https://forge.example/o/n/commit/4f1c2d0",
            ),
        ] {
            let pages = RepositoryPages::parse(repository).unwrap();
            assert_eq!(pages.pull_url("12").as_deref(), Some(pull));
            assert_eq!(pages.commit_url("4f1c2d0").as_deref(), Some(commit));
            assert_eq!(pages.pull_url("../12"), None);
            assert_eq!(pages.commit_url("v1.0/../x"), None);
        }
        for text in ["", "javascript:alert(1)", "gitea:http://forge.example/o/n", "github:o"] {
            assert_eq!(RepositoryPages::parse(text), None, "{text}");
        }
    }
}
