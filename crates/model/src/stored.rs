//! Defines what a store lists: summaries of sessions, benchmarks and machines, uploads, tokens, and
//! running loads.

use crate::{CodeOrigin, Machine, NoiseCalibration, SessionState};
use serde::{Deserialize, Serialize};

/// Summary of a session, without its data.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// epoch. Runs of an imported session have no times, so this is the start of the session.
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

impl UploadState {
    /// Returns the stored name.
    pub fn name(self) -> &'static str {
        match self {
            UploadState::Waiting => "waiting",
            UploadState::Refused => "refused",
            UploadState::Sent => "sent",
        }
    }

    /// Returns the state with this stored name; [`UploadState::Waiting`] if there is none.
    pub fn from_name(name: &str) -> UploadState {
        let states = [UploadState::Refused, UploadState::Sent];
        let named_state = states.into_iter().find(|state| state.name() == name);
        named_state.unwrap_or(UploadState::Waiting)
    }
}

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

impl TokenScope {
    /// All scopes with their names.
    pub const NAMES: [(&'static str, TokenScope); 4] = [
        ("read", TokenScope::Read),
        ("push", TokenScope::Push),
        ("triage", TokenScope::Triage),
        ("admin", TokenScope::Admin),
    ];

    /// Returns the name of the scope.
    pub fn name(self) -> &'static str {
        let named_scope = TokenScope::NAMES.iter().find(|(_, scope)| *scope == self);
        named_scope.map_or("", |(name, _)| name)
    }

    /// Returns the scope with this name. Tokens stored by earlier versions have `judge` instead of
    /// `triage`.
    pub fn from_name(name: &str) -> Option<TokenScope> {
        if name == "judge" {
            return Some(TokenScope::Triage);
        }
        let named_scope = TokenScope::NAMES.iter().find(|(scope_name, _)| *scope_name == name);
        named_scope.map(|(_, scope)| *scope)
    }
}

/// A stored token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredToken {
    /// Public id for lookups.
    pub id: String,
    /// SHA-256 of the token.
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
    /// What the action was applied to.
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
