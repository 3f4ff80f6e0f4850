//! Sets the status of a commit: one line next to the commit that says whether it may be merged.
//!
//! The description ends with the time of the measurement. An older result is therefore recognized
//! and does not replace a newer one, whichever job ends first. Start at
//! [`ForgeClient::set_status`].

use crate::clients::forge::client::{Error, ForgeClient, truncate_text};
use crate::clients::forge::comment::encode_segment;
use crate::clients::forge::pull_request::ForgeKind;
use jiff::Timestamp;
use serde_json::{Value, json};
use ureq::http::Method;

/// Value of a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitState {
    /// The result is not known yet.
    Pending,
    /// The commit may be merged.
    Success,
    /// The commit should not be merged.
    Failure,
    /// No result is available.
    Error,
}

/// Maximum length of a description on all forges.
const MAX_DESCRIPTION: usize = 140;

/// A commit status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitStatus {
    /// Full ID of the commit.
    pub revision: String,
    /// Name of the status. A later status of the same name replaces this one.
    pub context: String,
    /// Value of the status.
    pub state: CommitState,
    /// The reason, in one line. The text is truncated so that reason and time fit into 140
    /// characters.
    pub description: String,
    /// Start of the measurement, in milliseconds since the Unix epoch. `None` for a status without
    /// a result, which is set only if the commit has no status with a result.
    pub at_unix_ms: Option<u64>,
    /// URL of a page with details.
    pub link: Option<String>,
}

/// Outcome of setting a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusOutcome {
    /// The status was set.
    Set,
    /// The commit has a status from a newer result. That status was kept.
    Outdated,
}

const SET_STATUS: &str = "set the status";

impl ForgeClient {
    /// Sets the status of a commit. Keeps a status from a newer result.
    ///
    /// # Errors
    /// Fails if the forge refuses or is unreachable, or if the revision is not a full ID.
    pub fn set_status(&self, status: &CommitStatus) -> Result<StatusOutcome, Error> {
        let is_id = status.revision.len() >= 40
            && status.revision.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_id {
            return Err(Error::InvalidRequest {
                pull_request: self.pull_request.to_string(),
                action: SET_STATUS,
                reason: format!("'{}' is not a full commit id", status.revision),
            });
        }
        if self.newer_status(status).is_some() {
            return Ok(StatusOutcome::Outdated);
        }
        self.write_status(status)?;
        // Another job may have set a status at the same time. The newer result must be written
        // last.
        match self.newer_status(status) {
            None => Ok(StatusOutcome::Set),
            Some(newer) => {
                self.write_status(&newer)?;
                Ok(StatusOutcome::Outdated)
            }
        }
    }

    /// Returns the commit's newest status if its result is newer than the result of `status`.
    /// Otherwise, or if the forge does not let us read statuses, returns `None`.
    fn newer_status(&self, status: &CommitStatus) -> Option<CommitStatus> {
        let repository = &self.pull_request.repository;
        let path = if self.pull_request.forge == ForgeKind::GitLab {
            format!(
                "/projects/{}/repository/commits/{}/statuses",
                encode_segment(repository),
                status.revision
            )
        } else {
            format!("/repos/{repository}/commits/{}/statuses", status.revision)
        };
        let entries = self.list_entries("read the statuses", &path).ok()?;
        let same_context = entries
            .iter()
            .filter_map(|entry| parse_status(entry, &status.revision))
            .filter(|existing| existing.context == status.context);
        let newest = same_context.max_by_key(|existing| existing.at_unix_ms)?;
        (newest.at_unix_ms > status.at_unix_ms).then_some(newest)
    }

    fn write_status(&self, status: &CommitStatus) -> Result<(), Error> {
        let repository = &self.pull_request.repository;
        let is_gitlab = self.pull_request.forge == ForgeKind::GitLab;
        let path = if is_gitlab {
            format!("/projects/{}/statuses/{}", encode_segment(repository), status.revision)
        } else {
            format!("/repos/{repository}/statuses/{}", status.revision)
        };
        let name = if is_gitlab { "name" } else { "context" };
        let mut body = json!({
            "state": status.state.name(self.pull_request.forge),
            name: status.context,
            "description": status.description_with_time(),
        });
        if let Some(link) = &status.link {
            body["target_url"] = json!(link);
        }
        match self.send_request(SET_STATUS, Method::POST, &path, Some(&body)) {
            // GitLab refuses to set the state that a status already has.
            Err(Error::Refused { status: 400, message, .. })
                if is_gitlab && message.contains("transition") =>
            {
                Ok(())
            }
            other => other.map(|_| ()),
        }
    }
}

impl CommitState {
    const ALL: [CommitState; 4] =
        [CommitState::Pending, CommitState::Success, CommitState::Failure, CommitState::Error];

    fn name(self, forge: ForgeKind) -> &'static str {
        let is_gitlab = forge == ForgeKind::GitLab;
        match self {
            CommitState::Pending => "pending",
            CommitState::Success => "success",
            CommitState::Failure if is_gitlab => "failed",
            CommitState::Failure => "failure",
            // GitLab has no separate state for errors.
            CommitState::Error if is_gitlab => "canceled",
            CommitState::Error => "error",
        }
    }
}

/// Text that precedes the time of the measurement in a description.
const MEASURED_PREFIX: &str = " (measured ";

impl CommitStatus {
    fn description_with_time(&self) -> String {
        let unix_ms = self.at_unix_ms.and_then(|unix_ms| i64::try_from(unix_ms).ok());
        let time = unix_ms.and_then(|unix_ms| Timestamp::from_millisecond(unix_ms).ok());
        let suffix = time.map_or_else(String::new, |time| format!("{MEASURED_PREFIX}{time})"));
        truncate_text(&self.description, MAX_DESCRIPTION - suffix.len()) + &suffix
    }
}

/// Parses a status of any forge. Returns `None` unless the status has a result with the time of its
/// measurement.
fn parse_status(entry: &Value, revision: &str) -> Option<CommitStatus> {
    let field = |names: &[&str]| names.iter().find_map(|name| entry[*name].as_str());
    let (description, time) = field(&["description"])?.rsplit_once(MEASURED_PREFIX)?;
    let time: Timestamp = time.strip_suffix(')')?.parse().ok()?;
    // GitHub calls this field `state`. Other forges call it `status`.
    let state = field(&["state", "status"])?;
    let is_named = |candidate: &CommitState| {
        [ForgeKind::GitHub, ForgeKind::GitLab].map(|forge| candidate.name(forge)).contains(&state)
    };
    Some(CommitStatus {
        revision: revision.to_owned(),
        context: field(&["context", "name"])?.to_owned(),
        state: CommitState::ALL.into_iter().find(is_named)?,
        description: description.to_owned(),
        at_unix_ms: Some(u64::try_from(time.as_millisecond()).ok()?),
        link: field(&["target_url"]).filter(|link| !link.is_empty()).map(str::to_owned),
    })
}
