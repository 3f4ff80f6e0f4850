//! Defines what a store lists: summaries of sessions, benchmarks and machines, uploads, tokens, and
//! running loads. Also defines references to stored sessions, as users type them.

use crate::{CodeOrigin, Machine, NoiseCalibration, SessionState};
use anyhow::bail;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Summary of a session, without its data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionOverview {
    /// Number, as in `@NUMBER`.
    pub number: i64,
    /// Id, which is the same in every copy of the session.
    pub id: String,
    /// Start, in milliseconds since the Unix epoch.
    pub started_unix_ms: i64,
    /// Time from the start to the end of the last run.
    pub elapsed_ms: u64,
    /// State of the session.
    pub state: SessionState,
    /// Whether the measuring process died without ending the session.
    pub is_killed: bool,
    /// Tags given by the user.
    pub tags: Vec<String>,
    /// The command line.
    pub command: Vec<String>,
    /// The measured code, if known.
    pub origin: Option<CodeOrigin>,
    /// Names of the variants, in the order in which the user gave them.
    pub variants: Vec<String>,
    /// Names of the loads, if the session measured loads.
    pub loads: Vec<String>,
    /// Number of benchmarks with a run.
    pub benchmarks: usize,
    /// Number of cases with a run.
    pub cases: usize,
    /// Number of finished runs.
    pub runs: usize,
    /// Number of failed steps.
    pub failures: usize,
    /// Number of benchmarks that reported that they cannot run here.
    pub skipped: usize,
}

impl SessionOverview {
    /// Whether the session is being measured: it has not ended, and its process is alive.
    pub fn is_running(&self) -> bool {
        self.state == SessionState::Running && !self.is_killed
    }
}

/// When, where and how a session was started, and how it ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionArrival {
    /// Number of the session.
    pub number: i64,
    /// Start, in milliseconds since the Unix epoch.
    pub started_unix_ms: i64,
    /// State of the session.
    pub state: SessionState,
    /// Tags given by the user.
    pub tags: Vec<String>,
    /// The command line.
    pub command: Vec<String>,
    /// The measured branch, if known.
    pub branch: Option<String>,
    /// Number of the pull request, if the session measured one.
    pub pull: Option<String>,
    /// Number of the machine in the store, if known.
    pub machine: Option<i64>,
    /// Number of failed steps.
    pub failures: usize,
}

/// A benchmark with at least one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBenchmark {
    /// `group/name`.
    pub name: String,
    /// Number of its cases.
    pub cases: usize,
    /// Number of sessions that measured the benchmark; `None` for more than a thousand.
    pub sessions: Option<usize>,
    /// The newest of these sessions.
    pub newest: i64,
    /// End of the benchmark's last run in the session `newest`, in milliseconds since the Unix
    /// epoch. Runs of an imported session have no times; for such a session, this is its start.
    pub ended_unix_ms: i64,
}

/// A case with at least one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCase {
    /// Id of the case.
    pub id: String,
    /// Number of sessions that measured the case; `None` for more than a thousand.
    pub sessions: Option<usize>,
    /// The newest of these sessions.
    pub newest: i64,
    /// Number of runs of the case in the newest thousand sessions that measured it.
    pub runs: usize,
}

/// A machine that measured sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMachine {
    /// Number of the machine in the store.
    pub number: i64,
    /// The machine.
    pub machine: Machine,
    /// Start of the machine's first session, in milliseconds since the Unix epoch.
    pub first_unix_ms: i64,
    /// Start of the machine's last session.
    pub last_unix_ms: i64,
    /// Number of the machine's sessions.
    pub sessions: usize,
    /// Newest of the machine's sessions.
    pub newest: Option<i64>,
}

/// A calibration and the machine that it belongs to.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredCalibration {
    /// Host name.
    pub host: Option<String>,
    /// Processor model.
    pub cpu: Option<String>,
    /// The calibration.
    pub found: NoiseCalibration,
}

/// State of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadState {
    /// Not sent yet.
    Waiting,
    /// Rejected by the server permanently.
    Refused,
    /// Confirmed by the server.
    Sent,
}

name_variants!(UploadState: Waiting = "waiting", Refused = "refused", Sent = "sent");

/// An upload in the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxEntry {
    /// Number of the session in this store.
    pub session: i64,
    /// Id of the session.
    pub id: String,
    /// Stored name of the session's state. A session that is running or can be resumed is not sent
    /// automatically.
    pub ended: String,
    /// Destination: address of the project on the server.
    pub url: String,
    /// State of the upload.
    pub state: UploadState,
    /// Number of attempts so far.
    pub attempts: u32,
    /// Time of the next attempt, in milliseconds since the Unix epoch.
    pub next_unix_ms: i64,
    /// Why the last attempt failed.
    pub reason: Option<String>,
    /// Time of the server's confirmation, in milliseconds since the Unix epoch.
    pub sent_unix_ms: Option<i64>,
}

/// Permission of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenScope {
    /// Read.
    Read,
    /// Upload sessions, and read them.
    Push,
    /// Triage changes, and read.
    Triage,
    /// All operations.
    Admin,
}

name_variants!(TokenScope: Read = "read", Push = "push", Triage = "triage", Admin = "admin");

/// A stored token. Its JSON leaves out the digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoredToken {
    /// Public id for lookups.
    pub id: String,
    /// SHA-256 of the token.
    #[serde(skip)]
    pub digest: Vec<u8>,
    /// Display name.
    pub name: String,
    /// Permissions.
    pub scopes: Vec<TokenScope>,
    /// Project to which the token is limited; `None` for all.
    pub project: Option<String>,
    /// Branches whose sessions may be uploaded with this token; `None` for all.
    pub branches: Option<Vec<String>>,
    /// Machines whose sessions may be uploaded with this token; `None` for all.
    pub machines: Option<Vec<String>>,
    /// Creation time in milliseconds since the Unix epoch, like all times of a token.
    pub created_unix_ms: i64,
    /// Expiry time.
    pub expires_unix_ms: Option<i64>,
    /// Last use, rounded down to the hour.
    pub used_unix_ms: Option<i64>,
    /// Revocation time.
    pub revoked_unix_ms: Option<i64>,
}

impl StoredToken {
    /// Returns whether the token is valid at this time.
    pub fn is_valid(&self, unix_ms: i64) -> bool {
        self.revoked_unix_ms.is_none() && self.expires_unix_ms.is_none_or(|end| unix_ms < end)
    }
}

/// An entry of the audit log: an action that was performed or denied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct AuditEntry {
    /// Time, in milliseconds since the Unix epoch.
    pub at_unix_ms: i64,
    /// Name of the token. For an action without a token, who acted, such as `command line`.
    pub actor: String,
    /// The id of the token.
    pub token: Option<String>,
    /// Address of the client.
    pub address: Option<String>,
    /// The project.
    pub project: Option<String>,
    /// The action.
    pub action: String,
    /// The object of the action, such as a session or a token.
    pub subject: Option<String>,
    /// `done`, or the reason why the action was denied.
    pub result: String,
}

/// Progress of a load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadProgress {
    /// The command line.
    pub command: Vec<String>,
    /// Index of the load in the command, counting from 1.
    pub load: usize,
    /// Milliseconds since the start of the load, including warm-up.
    pub elapsed_ms: u64,
    /// Planned duration including warm-up; `None` if the load has no time limit.
    pub planned_ms: Option<u64>,
    /// Planned number of requests; `None` if the number is not limited.
    pub planned_requests: Option<u64>,
    /// Whether the load is warming up.
    pub is_warmup: bool,
    /// Number of requests started since the end of the warm-up or, during the warm-up, since the
    /// start.
    pub attempted: u64,
    /// Number of failed requests among `attempted`.
    pub errors: u64,
    /// The most recent rates of successful responses, in 1/s, oldest first.
    pub rates: Vec<f64>,
    /// Median latency of the last successful responses, in nanoseconds.
    pub p50_ns: Option<u64>,
    /// 99th percentile of the latency of the same responses, in nanoseconds.
    pub p99_ns: Option<u64>,
}

/// A running load.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveLoad {
    /// Number that identifies the load in the store.
    pub number: i64,
    /// Start of the load's command, in milliseconds since the Unix epoch.
    pub begun_unix_ms: i64,
    /// Time of the last update of its progress.
    pub at_unix_ms: i64,
    /// Its progress.
    pub progress: LoadProgress,
}

// References to stored sessions.

/// Reference to one session of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionReference {
    /// `@latest`: the session that was started or imported last.
    Latest,
    /// `@prev`: the session before `@latest`.
    Previous,
    /// `@12`: the session with that number.
    Number(i64),
    /// `@TAG`: the last session that carries the tag.
    Tag(String),
    /// `@rev:REVISION`: the last session that measured this revision without uncommitted changes.
    /// REVISION is an id or the beginning of an id.
    Revision(String),
    /// `@branch:NAME`: the last session that measured this branch without uncommitted changes.
    Branch(String),
    /// `@base` or `@base:BRANCH`: the session of the newest measured revision that is in the
    /// history of both the checkout and the branch.
    Base(Option<String>),
}

/// Why a string is not a session reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// The `@` is missing.
    #[error("'{0}' does not begin with '@'")]
    NoAt(String),
    /// The text after the `@` is not a valid reference.
    #[error(
        "invalid session reference '@{0}': {1}\nhint: use @latest, @prev, @NUMBER, @TAG, @rev:REVISION, @branch:NAME or \
             @base"
    )]
    BadName(String, &'static str),
}

impl FromStr for SessionReference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<SessionReference, ReferenceError> {
        let name = text.strip_prefix('@').ok_or_else(|| ReferenceError::NoAt(text.to_owned()))?;
        let bad_name = |reason| Err(ReferenceError::BadName(name.to_owned(), reason));
        Ok(match (name, name.split_once(':')) {
            ("latest", _) => SessionReference::Latest,
            ("prev", _) => SessionReference::Previous,
            ("base", _) => SessionReference::Base(None),
            (_, Some(("rev" | "branch" | "base", ""))) => {
                return bad_name("nothing follows the colon");
            }
            (_, Some(("rev", revision))) => SessionReference::Revision(revision.to_owned()),
            (_, Some(("branch", branch))) => SessionReference::Branch(branch.to_owned()),
            (_, Some(("base", branch))) => SessionReference::Base(Some(branch.to_owned())),
            _ if is_number(name) => match name.parse() {
                Ok(number) => SessionReference::Number(number),
                Err(_) => return bad_name("the number is too large"),
            },
            _ => match tag_problem(name) {
                Some(reason) => return bad_name(reason),
                None => SessionReference::Tag(name.to_owned()),
            },
        })
    }
}

impl fmt::Display for SessionReference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionReference::Latest => out.write_str("@latest"),
            SessionReference::Previous => out.write_str("@prev"),
            SessionReference::Number(number) => write!(out, "@{number}"),
            SessionReference::Tag(name) => write!(out, "@{name}"),
            SessionReference::Revision(revision) => write!(out, "@rev:{revision}"),
            SessionReference::Branch(name) => write!(out, "@branch:{name}"),
            SessionReference::Base(None) => out.write_str("@base"),
            SessionReference::Base(Some(branch)) => write!(out, "@base:{branch}"),
        }
    }
}

fn is_number(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns why `name` cannot be a tag; `None` if it can. A tag must not contain characters that the
/// command line uses as separators, such as `[`, `]` and `:`. It must not look like a number or a
/// reserved word.
fn tag_problem(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("the name is empty");
    }
    if is_number(name) || ["latest", "prev", "base"].contains(&name) {
        return Some("the name is reserved");
    }
    let is_separator = |c: char| c.is_whitespace() || c.is_control() || "@[]:,'\"".contains(c);
    name.contains(is_separator).then_some("a tag must not contain blanks, quotes or @ [ ] : ,")
}

/// Rejects a name that is not a valid tag, because no [`SessionReference`] could refer to it.
///
/// # Errors
/// Fails with the reason why the name is rejected.
pub fn validate_tag(name: &str) -> anyhow::Result<()> {
    tag_problem(name).map_or(Ok(()), |reason| bail!("invalid tag '{name}': {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_of_a_session_reference_are_parsed_and_printed() {
        for (text, meant) in [
            ("@latest", SessionReference::Latest),
            ("@prev", SessionReference::Previous),
            ("@12", SessionReference::Number(12)),
            ("@nightly-7", SessionReference::Tag("nightly-7".into())),
            ("@v1.2/x", SessionReference::Tag("v1.2/x".into())),
            ("@rev:main~2", SessionReference::Revision("main~2".into())),
            ("@branch:fix/a", SessionReference::Branch("fix/a".into())),
            ("@base", SessionReference::Base(None)),
            ("@base:release", SessionReference::Base(Some("release".into()))),
        ] {
            assert_eq!(text.parse(), Ok(meant.clone()));
            assert_eq!(meant.to_string(), text);
        }
    }

    #[test]
    fn invalid_session_references_are_refused_with_a_reason() {
        assert_eq!(
            "latest".parse::<SessionReference>(),
            Err(ReferenceError::NoAt("latest".into()))
        );
        for wrong in ["@", "@a b", "@99999999999999999999", "@a[b]", "@a::b", "@rev:", "@base:"] {
            let error = wrong.parse::<SessionReference>().unwrap_err().to_string();
            assert!(error.contains(wrong) && error.contains("hint: use @latest"), "{error}");
        }
    }

    #[test]
    fn tags_that_could_not_be_used_in_a_reference_are_refused() {
        for wrong in ["", "12", "latest", "prev", "base", "rev:1", "a b", "x@y"] {
            assert!(validate_tag(wrong).is_err(), "{wrong}");
        }
        assert!(validate_tag("12a").is_ok());
    }
}
