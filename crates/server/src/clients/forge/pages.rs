//! Addresses of the pages of a repository on its forge.

use crate::clients::forge::{ForgeKind, PullRequestRef};

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
        let page = match self.forge {
            ForgeKind::GitLab => "-/commit",
            ForgeKind::GitHub | ForgeKind::Gitea => "commit",
        };
        is_id.then(|| format!("{}/{page}/{revision}", self.url))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
