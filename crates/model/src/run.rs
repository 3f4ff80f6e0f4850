//! One fresh process executing one case under one variant: the unit of independence.

use super::{Case, Sample};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The samples of one process, with where it stood in the plan and what it cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// What was executed.
    pub case: Arc<Case>,
    /// Name of the variant it was executed under.
    pub variant: Arc<str>,
    /// Position in the order of execution of the session, from 0.
    pub slot: u32,
    /// The randomised block of its case that the run belongs to, from 0.
    pub block: u32,
    /// When the process was started, in milliseconds since the Unix epoch.
    pub started_unix_ms: i64,
    /// How long the process lived, start-up included.
    pub wall_ns: u64,
    /// What the operating system accounted to the process and its waited-for children.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Every value it reported, in order, warm-up excluded.
    pub samples: Vec<Sample>,
    /// Remarks a reader of the figures should know, as whole sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Everything that is known of the run if it was an HTTP load: the JSON of a
    /// [`LoadRun`](super::load_run::LoadRun). It is kept as text because its histograms take megabytes
    /// in memory, and only a report about that very run wants them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Arc<str>>,
}

impl Run {
    /// The remark on a load whose requests left when they were due instead of when an answer had come, so
    /// that connections were idle in between.
    pub const AT_FIXED_RATE: &str =
        "Requests were sent at a fixed rate, so connections were idle in between.";
}

/// Resource usage of a process tree (`getrusage`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time in user mode.
    pub user_ns: u64,
    /// CPU time in kernel mode.
    pub system_ns: u64,
    /// Largest resident set.
    pub max_rss_bytes: u64,
    /// Context switches forced by the scheduler: a sign of a busy machine.
    pub involuntary_switches: u64,
}
