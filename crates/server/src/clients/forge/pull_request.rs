//! Identifies a pull request on a forge by a string such as `github:owner/name#12`, or by the
//! environment variables of a CI job.
//!
//! Start at [`PullRequestRef`].

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

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
    fn default_server(self) -> Option<&'static str> {
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
        if !is_secure(&server) {
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

/// Whether traffic to the server is encrypted or stays on this machine.
fn is_secure(server: &str) -> bool {
    let Some(host) = server.strip_prefix("http://") else {
        return server.starts_with("https://");
    };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_matches(['[', ']']).parse::<IpAddr>();
    name == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

impl fmt::Display for PullRequestRef {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.forge == ForgeKind::GitLab { '!' } else { '#' };
        write!(formatter, "{}{separator}{}", self.repository, self.number)
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
}
