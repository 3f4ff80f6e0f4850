//! The status of a commit: one line next to it that says whether it may be merged.
//!
//! The description ends with the time of the measurement, so that an older result is recognized and
//! does not replace a newer one, whatever the order in which jobs end. Start at
//! [`Client::set_status`].

use crate::client::{Client, Error, cut};
use crate::comment::encoded;
use crate::place::Forge;
use jiff::Timestamp;
use serde_json::{Value, json};
use ureq::http::Method;

/// Value of a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Not known yet.
    Pending,
    /// It may be merged.
    Success,
    /// It should not be merged.
    Failure,
    /// No result is available.
    Error,
}

/// Maximum length of a description on all forges.
const LONGEST: usize = 140;

/// A commit status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Full ID of the commit.
    pub revision: String,
    /// Name of the status; a later status of the same name replaces it.
    pub context: String,
    /// Its value.
    pub state: State,
    /// The reason, in one line; truncated so that it fits into 140 characters together with the
    /// time.
    pub description: String,
    /// Start of the measurement, in milliseconds since the Unix epoch. `None` for a status that
    /// reports no result yet: it is set only if no result is known.
    pub at_unix_ms: Option<u64>,
    /// URL of a page with details.
    pub link: Option<String>,
}

/// Outcome of setting a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusOutcome {
    /// The status was set.
    Set,
    /// The commit has the status of a newer result, which stays.
    Outdated,
}

const SET: &str = "set the status";

impl Client {
    /// Sets the status of a commit, unless it has that of a newer result.
    ///
    /// # Errors
    /// Fails if the forge refuses or is unreachable, or the revision is not a full ID.
    pub fn set_status(&self, status: &Status) -> Result<StatusOutcome, Error> {
        let is_id = status.revision.len() >= 40
            && status.revision.bytes().all(|one| one.is_ascii_hexdigit());
        if !is_id {
            return Err(Error::Unfit {
                place: self.place.to_string(),
                what: SET,
                reason: format!("'{}' is not the whole id of a commit", status.revision),
            });
        }
        if self.newer_status(status).is_some() {
            return Ok(StatusOutcome::Outdated);
        }
        self.write_status(status)?;
        // Another job may have set one at the same time: the newer result has to be written last.
        match self.newer_status(status) {
            None => Ok(StatusOutcome::Set),
            Some(newer) => {
                self.write_status(&newer)?;
                Ok(StatusOutcome::Outdated)
            }
        }
    }

    /// The status of the newest result, if it is newer than `status`. `None` if the forge does not
    /// let us read statuses.
    fn newer_status(&self, status: &Status) -> Option<Status> {
        let repository = &self.place.repository;
        let path = if self.place.forge == Forge::GitLab {
            format!(
                "/projects/{}/repository/commits/{}/statuses",
                encoded(repository),
                status.revision
            )
        } else {
            format!("/repos/{repository}/commits/{}/statuses", status.revision)
        };
        let listed = self.list("read the statuses", &path).ok()?;
        let same = listed
            .iter()
            .filter_map(|entry| read(entry, &status.revision))
            .filter(|one| one.context == status.context);
        let newest = same.max_by_key(|one| one.at_unix_ms)?;
        (newest.at_unix_ms > status.at_unix_ms).then_some(newest)
    }

    fn write_status(&self, status: &Status) -> Result<(), Error> {
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
        let name = if gitlab { "name" } else { "context" };
        let mut body = json!({
            "state": status.state.name(self.place.forge),
            name: status.context,
            "description": status.described(),
        });
        if let Some(link) = &status.link {
            body["target_url"] = json!(link);
        }
        match self.ask(SET, Method::POST, &path, Some(&body)) {
            // GitLab refuses to set the state that a status already has.
            Err(Error::Refused {
                status: 400, said, ..
            }) if gitlab && said.contains("transition") => Ok(()),
            other => other.map(|_| ()),
        }
    }
}

impl State {
    const ALL: [State; 4] = [State::Pending, State::Success, State::Failure, State::Error];

    fn name(self, forge: Forge) -> &'static str {
        let gitlab = forge == Forge::GitLab;
        match self {
            State::Pending => "pending",
            State::Success => "success",
            State::Failure if gitlab => "failed",
            State::Failure => "failure",
            // GitLab has no separate state for errors.
            State::Error if gitlab => "canceled",
            State::Error => "error",
        }
    }
}

/// Text before the time of a measurement.
const MEASURED: &str = " (measured ";

impl Status {
    fn described(&self) -> String {
        let at = self.at_unix_ms.and_then(|at| i64::try_from(at).ok());
        let time = at.and_then(|at| Timestamp::from_millisecond(at).ok());
        let ending = time.map_or_else(String::new, |time| format!("{MEASURED}{time})"));
        cut(&self.description, LONGEST - ending.len()) + &ending
    }
}

/// Parses a status of any forge, if it reports a result with the time of its measurement.
fn read(entry: &Value, revision: &str) -> Option<Status> {
    let text = |names: &[&str]| names.iter().find_map(|name| entry[*name].as_str());
    let (description, time) = text(&["description"])?.rsplit_once(MEASURED)?;
    let time: Timestamp = time.strip_suffix(')')?.parse().ok()?;
    // GitHub names it `state`, the others `status`.
    let state = text(&["state", "status"])?;
    let is_named = |known: &State| {
        [Forge::GitHub, Forge::GitLab]
            .map(|forge| known.name(forge))
            .contains(&state)
    };
    Some(Status {
        revision: revision.to_owned(),
        context: text(&["context", "name"])?.to_owned(),
        state: State::ALL.into_iter().find(is_named)?,
        description: description.to_owned(),
        at_unix_ms: Some(u64::try_from(time.as_millisecond()).ok()?),
        link: text(&["target_url"])
            .filter(|link| !link.is_empty())
            .map(str::to_owned),
    })
}
