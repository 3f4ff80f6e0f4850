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
//!
//! An existing comment is found by its marker and author. "Our comments" are those of the user that
//! the token belongs to or, if the name of that user is unknown, those of any bot. Two parallel jobs
//! may each create a comment before they see the other's. After creating a comment, a job therefore
//! lists our comments again and keeps only the comment with the lowest ID.
//!
//! The description of a status ends with the time of the measurement. An older result is therefore
//! recognized and does not replace a newer one, whichever job ends first.

mod client;

pub use client::{
    EnvLookup, Error, ForgeClient, ForgeKind, ParsePullRequestError, PullRequestRef,
    RepositoryPages,
};

use crate::clients::truncate_text;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::cmp::Ordering;
use ureq::http::Method;

/// New contents of a pull request: its comment, the status of its commit, or both.
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
        let comment = update.comment.as_ref().map(|text| self.post_comment(text, order));
        let status = update.status.as_ref().map(|status| match &comment {
            // The comment reveals a newer result even if the forge does not let us read statuses.
            Some(Ok(CommentOutcome::Outdated { newer, .. }))
                if newer.revision == sanitize_text(&status.revision) =>
            {
                Ok(StatusOutcome::Outdated)
            }
            _ => self.set_status(status),
        });
        UpdateOutcome { comment, status }
    }
}

/// The measured revision and the time of measurement. They keep an older result from replacing a
/// newer one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultStamp {
    /// The measured revision.
    pub revision: String,
    /// Start of the measurement, in milliseconds since the Unix epoch.
    pub at_unix_ms: u64,
}

/// A comment to post.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommentText {
    /// Identifies the comment, for example `tool:project:check`. Only its letters, digits, `:`,
    /// `.`, `_`, `/` and `-` are used.
    pub marker: String,
    /// Revision and time of the result.
    pub stamp: ResultStamp,
    /// Text of the comment, in Markdown.
    pub body: String,
}

/// Outcome of posting a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommentOutcome {
    /// A comment was created, with this ID.
    Created(u64),
    /// The comment with this ID was edited.
    Edited(u64),
    /// The comment with this ID was up to date.
    Unchanged(u64),
    /// The comment shows a newer result, so it was kept.
    Outdated {
        /// ID of the comment.
        id: u64,
        /// Stamp of the newer result.
        newer: ResultStamp,
    },
}

/// An existing comment.
#[derive(Debug, Clone)]
struct ForgeComment {
    id: u64,
    body: String,
    author: String,
    is_bot: bool,
}

/// Compares two revisions: `Less` if the first is older, `None` if their order is unknown.
pub type RevisionOrder<'a> = &'a dyn Fn(&str, &str) -> Option<Ordering>;

impl ForgeClient {
    /// Posts `text` as our only comment with its marker, and removes our other comments with that
    /// marker. If one of them shows a newer result, keeps that result instead. If `order` cannot
    /// tell which revision is newer, the start of the measurement decides.
    ///
    /// # Errors
    /// Fails if the forge refuses or is unreachable.
    pub fn post_comment(
        &self,
        text: &CommentText,
        order: RevisionOrder<'_>,
    ) -> Result<CommentOutcome, Error> {
        let user = self.query_user_name();
        let max_chars = if self.is_gitlab() { 1_000_000 } else { 65_536 };
        let body = text.full_body(max_chars);
        let comments = self.own_comments(&text.first_line(), user.as_deref())?;
        if !comments.is_empty() {
            return self.update_comments(&comments, text, &body, order);
        }
        let created = self.write_comment(Method::POST, &self.comments_path(), &body)?;
        let id = (created["id"].as_u64())
            .ok_or_else(|| self.unreadable_error(WRITE_COMMENT, "has no comment id"))?;
        // Another job may have created a comment at the same time.
        let comments = self.own_comments(&text.first_line(), user.as_deref())?;
        match comments.first() {
            Some(first) if first.id < id => self.update_comments(&comments, text, &body, order),
            _ => {
                self.remove_comments(comments.iter().filter(|comment| comment.id > id))?;
                Ok(CommentOutcome::Created(id))
            }
        }
    }

    /// Updates the first of our comments, and removes the others. If one of the comments shows a
    /// newer result, the first comment gets that result instead of `body`.
    fn update_comments(
        &self,
        comments: &[ForgeComment],
        text: &CommentText,
        body: &str,
        order: RevisionOrder<'_>,
    ) -> Result<CommentOutcome, Error> {
        let (first, others) = (&comments[0], &comments[1..]);
        let stamped = comments
            .iter()
            .filter_map(|comment| Some((comment, ResultStamp::parse(&comment.body)?)));
        let newer = stamped
            .filter(|(_, stamp)| text.stamp.is_older_than(stamp, order))
            .max_by_key(|(_, stamp)| stamp.at_unix_ms);
        let target_body = newer.as_ref().map_or(body, |(comment, _)| &*comment.body);
        let is_up_to_date = first.body.trim_end().replace("\r\n", "\n") == target_body.trim_end();
        if !is_up_to_date {
            let method = if self.is_gitlab() { Method::PUT } else { Method::PATCH };
            self.write_comment(method, &self.comment_path(first.id), target_body)?;
        }
        self.remove_comments(others.iter())?;
        Ok(match newer {
            Some((_, newer)) => CommentOutcome::Outdated { id: first.id, newer },
            None if is_up_to_date => CommentOutcome::Unchanged(first.id),
            None => CommentOutcome::Edited(first.id),
        })
    }

    fn remove_comments<'a>(
        &self,
        comments: impl Iterator<Item = &'a ForgeComment>,
    ) -> Result<(), Error> {
        for comment in comments {
            let path = self.comment_path(comment.id);
            match self.send_request("remove a comment", Method::DELETE, &path, None) {
                // Another job has already removed this comment.
                Err(Error::Refused { status: 404, .. }) => {}
                other => drop(other?),
            }
        }
        Ok(())
    }

    fn write_comment(&self, method: Method, path: &str, body: &str) -> Result<Value, Error> {
        let body = json!({ "body": body });
        Ok(self.send_request(WRITE_COMMENT, method, path, Some(&body))?.0)
    }

    /// Returns our comments that begin with `first_line`, oldest first.
    fn own_comments(
        &self,
        first_line: &str,
        user: Option<&str>,
    ) -> Result<Vec<ForgeComment>, Error> {
        let entries = self.list_entries("read the comments", &self.comments_path())?;
        let mut comments: Vec<ForgeComment> = entries.iter().filter_map(parse_comment).collect();
        comments.retain(|comment| {
            let is_marked = comment.body.lines().next().map(str::trim_end) == Some(first_line);
            let is_own = user.map_or_else(|| comment.is_bot, |user| comment.author == user);
            is_marked && is_own
        });
        comments.sort_by_key(|comment| comment.id);
        comments.dedup_by_key(|comment| comment.id);
        Ok(comments)
    }

    /// Returns the name of the token's user. On GitHub, a job's token may not query the name.
    fn query_user_name(&self) -> Option<String> {
        let response = self.send_request("query the user name", Method::GET, "/user", None).ok()?.0;
        let name = response["login"].as_str().or_else(|| response["username"].as_str());
        name.map(str::to_owned)
    }

    /// Returns the path of the repository in the API of the forge.
    fn repository_path(&self) -> String {
        let repository = &self.pull_request.repository;
        match self.pull_request.forge {
            ForgeKind::GitHub | ForgeKind::Gitea => format!("/repos/{repository}"),
            ForgeKind::GitLab => format!("/projects/{}", repository.replace('/', "%2F")),
        }
    }

    fn comments_path(&self) -> String {
        let (pulls, comments) =
            if self.is_gitlab() { ("merge_requests", "notes") } else { ("issues", "comments") };
        let number = self.pull_request.number;
        format!("{}/{pulls}/{number}/{comments}", self.repository_path())
    }

    fn comment_path(&self, id: u64) -> String {
        if self.is_gitlab() {
            format!("{}/{id}", self.comments_path())
        } else {
            format!("{}/issues/comments/{id}", self.repository_path())
        }
    }
}

const WRITE_COMMENT: &str = "write a comment";

/// Names of the users under which jobs post comments, on forges that do not mark bots.
const BOT_USERS: [&str; 2] = ["gitea-actions", "forgejo-actions"];

/// Parses a comment of any forge. Returns `None` for a comment by the forge itself.
fn parse_comment(entry: &Value) -> Option<ForgeComment> {
    if entry["system"].as_bool() == Some(true) {
        return None;
    }
    let user = if entry["user"].is_object() { &entry["user"] } else { &entry["author"] };
    let author = (user["login"].as_str())
        .or_else(|| user["username"].as_str())
        .unwrap_or_default()
        .to_owned();
    Some(ForgeComment {
        id: entry["id"].as_u64()?,
        body: entry["body"].as_str()?.to_owned(),
        is_bot: user["type"].as_str() == Some("Bot") || BOT_USERS.contains(&&*author),
        author,
    })
}

impl ResultStamp {
    fn to_line(&self) -> String {
        format!("<!-- measured {} at {} -->", sanitize_text(&self.revision), self.at_unix_ms)
    }

    /// Parses the stamp in the second line of a comment.
    fn parse(body: &str) -> Option<ResultStamp> {
        let line = body.lines().nth(1)?.trim();
        let fields = line.strip_prefix("<!-- measured ")?.strip_suffix(" -->")?;
        let (revision, time) = fields.split_once(" at ")?;
        Some(ResultStamp { revision: revision.to_owned(), at_unix_ms: time.parse().ok()? })
    }

    fn is_older_than(&self, other: &ResultStamp, order: RevisionOrder<'_>) -> bool {
        order(&sanitize_text(&self.revision), &other.revision)
            .filter(|order| order.is_ne())
            .unwrap_or_else(|| self.at_unix_ms.cmp(&other.at_unix_ms))
            .is_lt()
    }
}

/// Keeps only characters that are safe in an HTML comment.
fn sanitize_text(text: &str) -> String {
    let is_harmless =
        |character: &char| character.is_alphanumeric() || ":._/-".contains(*character);
    text.chars().filter(is_harmless).collect::<String>().replace("--", "-")
}

impl CommentText {
    fn first_line(&self) -> String {
        format!("<!-- {} -->", sanitize_text(&self.marker))
    }

    /// Returns the complete comment. A comment that is too long is truncated at the end of a line.
    fn full_body(&self, max_chars: usize) -> String {
        let head = format!("{}\n{}\n", self.first_line(), self.stamp.to_line());
        let available_chars =
            max_chars - head.chars().count() - TRUNCATION_NOTE.len() - CLOSING_RESERVE;
        if self.body.chars().count() <= available_chars {
            return format!("{head}{}", self.body);
        }
        let mut body = String::new();
        let mut used_chars = 0;
        for line in self.body.split_inclusive('\n') {
            used_chars += line.chars().count();
            if used_chars > available_chars {
                break;
            }
            body.push_str(line);
        }
        // Close open elements: otherwise, they would extend over the rest of the page.
        let open_elements =
            body.matches("<details").count().saturating_sub(body.matches("</details>").count());
        let fences = body.lines().filter(|line| line.starts_with("```")).count();
        let fence = if fences % 2 == 1 { "```\n" } else { "" };
        let closing = "</details>\n".repeat(open_elements.min(10));
        format!("{head}{body}{fence}\n{closing}{TRUNCATION_NOTE}")
    }
}

const TRUNCATION_NOTE: &str = "\n_Truncated: the rest is too long for a comment._\n";

/// Characters reserved for closing open elements.
const CLOSING_RESERVE: usize = 200;

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
            let reason = format!("'{}' is not a full commit id", status.revision);
            return Err(self.invalid_error(SET_STATUS, reason));
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
        let (repository, revision) = (self.repository_path(), &status.revision);
        let folder = if self.is_gitlab() { "/repository" } else { "" };
        let path = format!("{repository}{folder}/commits/{revision}/statuses");
        let entries = self.list_entries("read the statuses", &path).ok()?;
        let same_context = entries
            .iter()
            .filter_map(|entry| parse_status(entry, &status.revision))
            .filter(|existing| existing.context == status.context);
        let newest = same_context.max_by_key(|existing| existing.at_unix_ms)?;
        (newest.at_unix_ms > status.at_unix_ms).then_some(newest)
    }

    fn write_status(&self, status: &CommitStatus) -> Result<(), Error> {
        let is_gitlab = self.is_gitlab();
        let path = format!("{}/statuses/{}", self.repository_path(), status.revision);
        let name = if is_gitlab { "name" } else { "context" };
        let mut body = json!({
            "state": status.state.names()[usize::from(is_gitlab)],
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

    /// Returns the names on GitHub and Gitea, and on GitLab.
    fn names(self) -> [&'static str; 2] {
        match self {
            CommitState::Pending => ["pending"; 2],
            CommitState::Success => ["success"; 2],
            CommitState::Failure => ["failure", "failed"],
            // GitLab has no separate state for errors.
            CommitState::Error => ["error", "canceled"],
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
    let is_named = |candidate: &CommitState| candidate.names().contains(&state);
    Some(CommitStatus {
        revision: revision.to_owned(),
        context: field(&["context", "name"])?.to_owned(),
        state: CommitState::ALL.into_iter().find(is_named)?,
        description: description.to_owned(),
        at_unix_ms: Some(u64::try_from(time.as_millisecond()).ok()?),
        link: field(&["target_url"]).filter(|link| !link.is_empty()).map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(body: &str) -> CommentText {
        CommentText {
            marker: "speedwell:a/b:x --> <script>".into(),
            stamp: ResultStamp { revision: "abc -->".into(), at_unix_ms: 5 },
            body: body.into(),
        }
    }

    #[test]
    fn marker_and_stamp_are_hidden_lines_whatever_their_content() {
        let full_body = text("hello").full_body(65_536);
        assert_eq!(
            full_body,
            "<!-- speedwell:a/b:x-script -->\n<!-- measured abc- at 5 -->\nhello"
        );
        let stamp = ResultStamp::parse(&full_body).unwrap();
        assert_eq!((&*stamp.revision, stamp.at_unix_ms), ("abc-", 5));
    }

    #[test]
    fn long_text_is_cut_between_lines_and_its_open_elements_are_closed() {
        let body = format!(
            "<details><summary>s</summary>\n\n```text\n{}",
            "line of words\n".repeat(10_000)
        );
        let full_body = text(&body).full_body(65_536);
        assert!(full_body.chars().count() <= 65_536);
        assert!(full_body.chars().count() > 65_000, "most of the room is used");
        assert!(full_body.ends_with(
            "line of words\n```\n\n</details>\n\n_Truncated: the rest is too long for a comment._\n"
        ));
    }

    #[test]
    fn the_order_of_revisions_outranks_the_clock() {
        let stamp =
            |revision: &str, at_unix_ms| ResultStamp { revision: revision.into(), at_unix_ms };
        let order = |one: &str, other: &str| Some(one.cmp(other));
        assert!(stamp("a", 9).is_older_than(&stamp("b", 1), &order));
        assert!(!stamp("b", 1).is_older_than(&stamp("a", 9), &order));
        assert!(stamp("a", 1).is_older_than(&stamp("a", 2), &order));
        assert!(stamp("b", 1).is_older_than(&stamp("a", 2), &|_, _| None));
    }
}
