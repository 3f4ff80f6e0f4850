//! Posts a result on a pull request, as a comment and as the status of its commit.
//!
//! Each of the two is posted even if the other fails. Neither replaces a newer result. Start at
//! [`ForgeClient::post_update`].

use crate::clients::forge::client::{Error, ForgeClient};
use crate::clients::forge::comment::{CommentOutcome, CommentText, RevisionOrder};
use crate::clients::forge::status::{CommitStatus, StatusOutcome};

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
