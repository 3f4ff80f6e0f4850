//! A result on a pull request: its comment and the status of its commit, each posted whatever happens to the other.
//!
//! Decides which of them a newer result keeps from being posted. Start at [`Client::post`].

use crate::client::{Client, Error};
use crate::comment::{Order, Posted, Text};
use crate::status::{Status, StatusOutcome};

/// What a pull request is to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullUpdate {
    /// The comment; `None` leaves it as it is.
    pub comment: Option<Text>,
    /// The status of the commit; `None` leaves it as it is.
    pub status: Option<Status>,
}

/// What happened to each part of an update.
#[derive(Debug)]
pub struct UpdateOutcome {
    /// Of the comment, where there was one to post.
    pub comment: Option<Result<Posted, Error>>,
    /// Of the status, where there was one to set.
    pub status: Option<Result<StatusOutcome, Error>>,
}

impl UpdateOutcome {
    /// What failed, first what may succeed when it is tried again.
    pub fn into_failures(self) -> Vec<Error> {
        let comment = self.comment.and_then(Result::err);
        let status = self.status.and_then(Result::err);
        let mut failures: Vec<Error> = comment.into_iter().chain(status).collect();
        failures.sort_by_key(|error| !matches!(error, Error::Unreachable { .. }));
        failures
    }
}

impl Client {
    /// Posts the comment and sets the status. Neither replaces that of a newer result, and a failure of one does not keep the
    /// other from being posted.
    pub fn post(&self, update: &PullUpdate, order: Order<'_>) -> UpdateOutcome {
        let comment = update.comment.as_ref();
        let (comment, newer) = match comment.map(|text| self.place_comment(text, order)) {
            None => (None, None),
            Some(Ok((posted, newer))) => (Some(Ok(posted)), newer),
            Some(Err(error)) => (Some(Err(error)), None),
        };
        let status = update.status.as_ref().map(|status| match &newer {
            // A forge that does not show statuses to us shows the comment.
            Some(newer) if newer.is_of(&status.revision) => Ok(StatusOutcome::Outdated),
            _ => self.set_status(status),
        });
        UpdateOutcome { comment, status }
    }
}
