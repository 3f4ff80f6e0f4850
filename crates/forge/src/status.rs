//! The status of a commit: one line beside it that says whether it may be merged.

use crate::client::{Client, Error, cut};
use crate::comment::encoded;
use crate::place::Forge;
use serde_json::json;
use ureq::http::Method;

/// What a status says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Not known yet.
    Pending,
    /// It may be merged.
    Success,
    /// It should not be merged.
    Failure,
    /// Nothing can be said.
    Error,
}

/// The longest description that all forges take.
const LONGEST: usize = 140;

/// A status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The whole id of the commit.
    pub revision: String,
    /// What the status is of; a later one of the same name replaces it.
    pub context: String,
    /// What it says.
    pub state: State,
    /// Why, in a line; what is beyond 140 characters is cut.
    pub description: String,
    /// A page that says more.
    pub link: Option<String>,
}

impl Client {
    /// Sets the status of a commit.
    ///
    /// # Errors
    /// The forge refuses, or is not there.
    pub fn set_status(&self, status: &Status) -> Result<(), Error> {
        let what = "set the status";
        let is_id = status.revision.len() >= 40
            && status.revision.bytes().all(|one| one.is_ascii_hexdigit());
        if !is_id {
            return Err(Error::Unreachable {
                place: self.place.to_string(),
                what,
                reason: format!("'{}' is not the whole id of a commit", status.revision),
            });
        }
        let repository = &self.place.repository;
        let gitlab = self.place.forge == Forge::GitLab;
        let path = if gitlab {
            format!(
                "/projects/{}/statuses/{}",
                encoded(repository),
                status.revision
            )
        } else {
            format!("/repos/{repository}/statuses/{}", status.revision)
        };
        let state = match status.state {
            State::Pending => "pending",
            State::Success => "success",
            State::Failure if gitlab => "failed",
            State::Failure => "failure",
            // It knows none that is neither.
            State::Error if gitlab => "canceled",
            State::Error => "error",
        };
        let name = if gitlab { "name" } else { "context" };
        let mut body = json!({
            "state": state,
            name: status.context,
            "description": cut(&status.description, LONGEST),
        });
        if let Some(link) = &status.link {
            body["target_url"] = json!(link);
        }
        match self.ask(what, Method::POST, &path, Some(&body)) {
            // What has this state already is not set to it again.
            Err(Error::Refused {
                status: 400, said, ..
            }) if gitlab && said.contains("transition") => Ok(()),
            other => other.map(|_| ()),
        }
    }
}
