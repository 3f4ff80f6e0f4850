//! What a machine of a fleet writes while it measures: the lines of its spool.
//!
//! A spool is written by one attempt at one parcel and read while it grows. Only whole blocks count: each ends with a line that
//! has the checksum of its lines and is on the disk before the next run begins. Whatever is torn, damaged or does not belong
//! to the parcel is left out and said. Start at [`Spool`], which writes, and [`SpoolReader`].

mod read;
mod write;

pub use read::{Delivered, Slots, SpoolReader};
pub use write::{Ending, Spool};

use crate::formats::json_lines::{RunLine, Shared, run_line};
use serde::{Deserialize, Serialize};
use speedwell_model::{Failure, Metric, Run, SessionMachine};
use std::borrow::Cow;

/// The version of the lines.
pub const VERSION: u32 = 1;

/// The first line of a spool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the lines that follow.
    pub version: u32,
    /// The session's identity.
    pub session: String,
    /// What was sent to measure with.
    pub bundle: String,
    /// The parcel.
    pub parcel: u32,
    /// Which attempt at it.
    pub attempt: u32,
    /// The machine as it is now.
    pub machine: SessionMachine,
    /// Tells one start of the machine from another.
    pub boot: String,
}

/// All runs of one case in one block.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Block {
    /// Place of the case in the plan.
    pub job: u32,
    /// The block.
    pub block: u32,
    /// The slots that are over.
    pub slots: Vec<u32>,
    /// The runs in order of execution.
    pub runs: Vec<Run>,
    /// What gave nothing.
    pub failures: Vec<Failure>,
    /// The metrics of the runs, each with where it was reported first: 65536 times the slot, and its place there.
    pub metrics: Vec<(i64, Metric)>,
}

/// The kinds of lines.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line<'a> {
    /// The first.
    Spool(Box<Header>),
    /// A metric that was reported for the first time.
    #[serde(borrow)]
    Metric(MetricLine<'a>),
    #[serde(borrow)]
    Run(Box<RunLine<'a>>),
    Failure(Cow<'a, Failure>),
    /// Slots that are over.
    Slots(Cow<'a, [u32]>),
    /// All of a block is there.
    BlockDone(BlockEnd),
    Decided(DecidedLine),
    /// A sentence for the user.
    Warning(Cow<'a, str>),
    /// The last.
    Ended(Ending),
}

#[derive(Serialize, Deserialize)]
struct MetricLine<'a> {
    first: i64,
    metric: Cow<'a, Metric>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct BlockEnd {
    job: u32,
    block: u32,
    runs: u32,
    crc: u32,
}

#[derive(PartialEq, Serialize, Deserialize)]
struct DecidedLine {
    job: u32,
    /// The last block of the case here; absent where it is decided by what earlier attempts brought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<u32>,
    saved: usize,
    /// Of the other fields: a decision that arrives damaged would end another case.
    crc: u32,
}

impl DecidedLine {
    fn new(job: u32, after: Option<u32>, saved: usize) -> DecidedLine {
        let crc = crc32fast::hash(format!("{job} {after:?} {saved}").as_bytes());
        DecidedLine {
            job,
            after,
            saved,
            crc,
        }
    }
}

/// Runs as lines, for those who go on with what others measured.
///
/// # Errors
/// What is known of a load is no JSON.
pub fn lines_of_runs(runs: &[Run]) -> anyhow::Result<Vec<String>> {
    let line = |run| -> anyhow::Result<String> { Ok(serde_json::to_string(&run_line(run)?)?) };
    runs.iter().map(line).collect()
}

/// The way back.
///
/// # Errors
/// A line is no run.
pub fn runs_of_lines(lines: &[String]) -> anyhow::Result<Vec<Run>> {
    let mut shared = Shared::default();
    let run = |line: &String| Ok(shared.run(serde_json::from_str(line)?));
    lines.iter().map(run).collect()
}
