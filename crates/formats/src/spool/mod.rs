//! The spool: the line-oriented log that a fleet machine writes while it measures.
//!
//! A shard is the unit of work that is sent to a machine. Each attempt at a shard writes a spool of
//! its own, which is read while it grows. Only complete blocks count. The last line of a block
//! carries the checksum of the block's lines, and the whole block is synced to disk before the next
//! run starts. Lines that are torn or damaged, or that do not belong to the shard, are dropped and
//! reported. Start at [`SpoolWriter`] and [`SpoolReader`].

mod read;
mod write;

pub use read::{ShardSlots, SpoolItem, SpoolReader};
pub use write::{AttemptEnd, SpoolWriter};

use crate::json_lines::{InternedNames, RunLine, run_line};
use serde::{Deserialize, Serialize};
use speedwell_model::{Metric, Run, SessionMachine, StepFailure};
use std::borrow::Cow;

/// Version of the line format.
pub const VERSION: u32 = 1;

/// First line of a spool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpoolHeader {
    /// Version of the lines that follow.
    pub version: u32,
    /// Id of the session.
    pub session: String,
    /// Id of the bundle, which holds all files that the machine needs to measure.
    pub bundle: String,
    /// Number of the shard.
    pub shard: u32,
    /// Number of the attempt at the shard.
    pub attempt: u32,
    /// The machine at the start of the attempt.
    pub machine: SessionMachine,
    /// Boot id, which changes when the machine restarts.
    pub boot: String,
}

/// The section of a spool that holds the runs of one case in one block of the plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpoolBlock {
    /// Index of the case in the plan.
    pub job: u32,
    /// Number of the block.
    pub block: u32,
    /// Completed slots (positions of runs in the plan).
    pub slots: Vec<u32>,
    /// The runs in order of execution.
    pub runs: Vec<Run>,
    /// Failures of the block.
    pub failures: Vec<StepFailure>,
    /// The metrics of the runs. The number before each metric is 65536 times the slot in which the
    /// metric was first reported, plus the metric's index among the metrics first reported in that
    /// slot.
    pub metrics: Vec<(i64, Metric)>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SpoolLine<'a> {
    /// First line.
    Spool(Box<SpoolHeader>),
    /// A metric that is reported for the first time.
    #[serde(borrow)]
    Metric(SpoolMetric<'a>),
    #[serde(borrow)]
    Run(Box<RunLine<'a>>),
    Failure(Cow<'a, StepFailure>),
    /// Completed slots.
    Slots(Cow<'a, [u32]>),
    /// End of a complete block.
    BlockDone(BlockTrailer),
    Decided(DecisionLine),
    Warning(Cow<'a, str>),
    /// Last line.
    Ended(AttemptEnd),
}

#[derive(Serialize, Deserialize)]
struct SpoolMetric<'a> {
    first: i64,
    metric: Cow<'a, Metric>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct BlockTrailer {
    job: u32,
    block: u32,
    runs: u32,
    crc: u32,
}

#[derive(PartialEq, Serialize, Deserialize)]
struct DecisionLine {
    job: u32,
    /// Last block of the case in this spool; absent if earlier attempts settled the case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<u32>,
    saved: usize,
    /// Checksum of the other fields, because a damaged decision could end the wrong case.
    crc: u32,
}

impl DecisionLine {
    fn new(job: u32, after: Option<u32>, saved: usize) -> DecisionLine {
        let crc = crc32fast::hash(format!("{job} {after:?} {saved}").as_bytes());
        DecisionLine { job, after, saved, crc }
    }
}

/// Serializes runs as lines, for an attempt that continues the work of earlier attempts.
///
/// # Errors
/// Fails if the measurements of a load cannot be serialized.
pub fn serialize_runs(runs: &[Run]) -> anyhow::Result<Vec<String>> {
    let line = |run| -> anyhow::Result<String> { Ok(serde_json::to_string(&run_line(run)?)?) };
    runs.iter().map(line).collect()
}

/// Parses the lines of [`serialize_runs`].
///
/// # Errors
/// Fails if a line is not a run.
pub fn parse_runs(lines: &[String]) -> anyhow::Result<Vec<Run>> {
    let mut shared = InternedNames::default();
    let run = |line: &String| Ok(shared.convert_run(serde_json::from_str(line)?));
    lines.iter().map(run).collect()
}
