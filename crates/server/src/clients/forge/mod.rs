//! Keeps one comment and one status of a pull request up to date. Supports GitHub, GitLab, and
//! Gitea and its forks.
//!
//! [`PullRequestRef`] identifies the pull request; [`ForgeClient`] talks to the forge.
//! [`ForgeClient::post_comment`] finds our comment by a marker in the first line, edits it, and
//! leaves no duplicates. [`ForgeClient::set_status`] sets the status of the commit, and
//! [`ForgeClient::post_update`] does both. None of these methods replaces a newer result. If the
//! forge refuses a request, the error names the missing permission. This module is independent of
//! benchmarks.
//!
//! ```no_run
//! use speedwell_server::clients::forge::{ForgeClient, PullRequestRef, ResultStamp, CommentText};
//! use speedwell_server::clients::SecretToken;
//!
//! let place: PullRequestRef = "github:owner/name#12".parse()?;
//! let client = ForgeClient::new(place, SecretToken::new(std::env::var("GITHUB_TOKEN").unwrap_or_default()));
//! let stamp = ResultStamp { revision: "4f1c2d0".into(), at_unix_ms: 1_767_268_800_000 };
//! let text = CommentText { marker: "tool:check".into(), stamp, body: "**2 better.**".into() };
//! println!("{:?}", client.post_comment(&text, &|_, _| None)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod client;
mod comment;
mod pull_request;
mod status;

pub use client::{Error, ForgeClient};
pub use comment::{CommentOutcome, CommentText, ResultStamp, RevisionOrder};
pub use pull_request::{EnvLookup, ForgeKind, ParsePullRequestError, PullRequestRef};
pub use status::{CommitState, CommitStatus, StatusOutcome};

/// What a pull request should show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullUpdate {
    /// The comment. `None` leaves the existing comment unchanged.
    pub comment: Option<CommentText>,
    /// The status of the commit. `None` leaves the existing status unchanged.
    pub status: Option<CommitStatus>,
}

/// Outcome of each part of an update.
#[derive(Debug)]
pub struct UpdateOutcome {
    /// Outcome of the comment, if there was one to post.
    pub comment: Option<Result<CommentOutcome, Error>>,
    /// Outcome of the status, if there was one to set.
    pub status: Option<Result<StatusOutcome, Error>>,
}

impl UpdateOutcome {
    /// Returns the failures, retryable ones first.
    pub fn into_failures(self) -> Vec<Error> {
        let comment = self.comment.and_then(Result::err);
        let status = self.status.and_then(Result::err);
        let mut failures: Vec<Error> = comment.into_iter().chain(status).collect();
        failures.sort_by_key(|error| !matches!(error, Error::Unreachable { .. }));
        failures
    }
}

impl ForgeClient {
    /// Posts the comment and sets the status. Neither replaces a newer result, and a failure of one
    /// does not prevent the other.
    pub fn post_update(&self, update: &PullUpdate, order: RevisionOrder<'_>) -> UpdateOutcome {
        let comment = update.comment.as_ref();
        let (comment, newer) = match comment.map(|text| self.place_comment(text, order)) {
            None => (None, None),
            Some(Ok((posted, newer))) => (Some(Ok(posted)), newer),
            Some(Err(error)) => (Some(Err(error)), None),
        };
        let status = update.status.as_ref().map(|status| match &newer {
            // The comment reveals a newer result even if the forge does not let us read statuses.
            Some(newer) if newer.is_about(&status.revision) => Ok(StatusOutcome::Outdated),
            _ => self.set_status(status),
        });
        UpdateOutcome { comment, status }
    }
}
