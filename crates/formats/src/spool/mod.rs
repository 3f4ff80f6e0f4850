//! The spool: the line-oriented log that a fleet machine writes while it measures.
//!
//! A shard is the unit of work that is sent to a machine. Each attempt at a shard writes a spool of
//! its own, which is read while it grows. Only complete blocks are used. The last line of a block
//! carries the checksum of the block's lines, and the whole block is synced to disk before the next
//! run starts. Lines that are torn or damaged, or that do not belong to the shard, are dropped and
//! reported. Start at [`SpoolWriter`] and [`SpoolReader`].

mod read;

pub use read::{ShardSlots, SpoolItem, SpoolReader};

use crate::json_lines::{InternedNames, RunLine, run_line};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use speedwell_model::{Metric, Run, SessionEvent, SessionMachine, SessionObserver, StepFailure};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

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
    Metric {
        first: i64,
        metric: Cow<'a, Metric>,
    },
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
    /// Last block of the case in this spool; absent if the spool contains no block of the case.
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
pub fn serialize_runs(runs: &[Run]) -> Result<Vec<String>> {
    let line = |run| -> Result<String> { Ok(serde_json::to_string(&run_line(run)?)?) };
    runs.iter().map(line).collect()
}

/// Parses the lines of [`serialize_runs`].
///
/// # Errors
/// Fails if a line is not a run.
pub fn parse_runs(lines: &[String]) -> Result<Vec<Run>> {
    let mut shared = InternedNames::default();
    let run = |line: &String| Ok(shared.convert_run(serde_json::from_str(line)?));
    lines.iter().map(run).collect()
}

/// How an attempt at a shard ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptEnd {
    /// Number of blocks that the attempt closed.
    pub blocks: u32,
    /// Number of cases for which the attempt decided that no more runs are needed; absent in spools
    /// of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decisions: Option<u32>,
    /// Reason why part of the shard was not measured; `None` if the whole shard was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Writer of a spool.
pub struct SpoolWriter {
    file: File,
    path: PathBuf,
    /// Second destination, for a reader that follows the measurement.
    copy: Option<Box<dyn Write + Send>>,
    /// For each case of this attempt's plan: its index in the whole plan, and its label.
    jobs: Vec<(u32, String)>,
    /// Lines not written yet.
    lines: Vec<u8>,
    crc: crc32fast::Hasher,
    runs: u32,
    blocks: u32,
    decisions: u32,
    /// The last block of each case, by label.
    last_blocks: HashMap<String, u32>,
    /// Highest slot (position of a run in the plan) that has started.
    slot: u32,
    /// Number of metrics first reported in that slot.
    reported_metrics: i64,
}

impl SpoolWriter {
    /// Creates a spool at `path`, mirrored to `copy`. For each case of the attempt's plan, `jobs`
    /// gives its index in the whole plan and its label.
    ///
    /// # Errors
    /// Fails if the file exists already or cannot be written.
    pub fn create(
        path: &Path,
        header: SpoolHeader,
        jobs: Vec<(u32, String)>,
        copy: Option<Box<dyn Write + Send>>,
    ) -> Result<SpoolWriter> {
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let file =
            opened.with_context(|| format!("cannot create the spool '{}'", path.display()))?;
        let mut spool = SpoolWriter {
            file,
            path: path.to_owned(),
            copy,
            jobs,
            lines: Vec::new(),
            crc: crc32fast::Hasher::new(),
            runs: 0,
            blocks: 0,
            decisions: 0,
            last_blocks: HashMap::new(),
            slot: 0,
            reported_metrics: 0,
        };
        spool.buffer_line(&SpoolLine::Spool(Box::new(header)))?;
        spool.flush_lines()?;
        // Restart the checksum: the checksum of a block covers only the lines of the block, not the
        // header of the spool.
        spool.crc = crc32fast::Hasher::new();
        Ok(spool)
    }

    /// Writes a message for the user.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn write_warning(&mut self, sentence: &str) -> Result<()> {
        self.write_line(&SpoolLine::Warning(Cow::Borrowed(sentence)))
    }

    /// Ends the spool. `reason` is the reason why part of the shard was not measured; `None` if the
    /// whole shard was measured. An `.ended` file, created atomically next to the spool, marks the
    /// spool as complete.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn end_spool(mut self, reason: Option<String>) -> Result<()> {
        let ending = AttemptEnd { blocks: self.blocks, decisions: Some(self.decisions), reason };
        let text = serde_json::to_string(&ending)?;
        self.write_line(&SpoolLine::Ended(ending))?;
        self.sync_to_disk()?;
        let temporary = self.path.with_extension("jsonl.ending");
        let target = self.path.with_extension("jsonl.ended");
        fs::write(&temporary, text)
            .and_then(|()| fs::rename(&temporary, &target))
            .with_context(|| format!("cannot write '{}'", target.display()))
    }

    /// Copies a block that an earlier attempt closed. `job` is the index of the block's case in
    /// this attempt's plan.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn copy_block(&mut self, job: usize, block: &SpoolBlock) -> Result<()> {
        for (first, metric) in &block.metrics {
            let metric = Cow::Borrowed(metric);
            self.buffer_line(&SpoolLine::Metric { first: *first, metric })?;
        }
        for run in &block.runs {
            self.buffer_line(&SpoolLine::Run(Box::new(run_line(run)?)))?;
            self.runs += 1;
        }
        for failure in &block.failures {
            self.buffer_line(&SpoolLine::Failure(Cow::Borrowed(failure)))?;
        }
        self.buffer_line(&SpoolLine::Slots(Cow::Borrowed(&block.slots)))?;
        self.close_block(job, block.block)
    }

    /// Buffers a line of the open block and adds it to the checksum.
    fn buffer_line(&mut self, line: &SpoolLine<'_>) -> Result<()> {
        let begin = self.lines.len();
        serde_json::to_writer(&mut self.lines, line)?;
        self.lines.push(b'\n');
        self.crc.update(&self.lines[begin..]);
        Ok(())
    }

    /// Writes a line that no block checksum covers.
    fn write_line(&mut self, line: &SpoolLine<'_>) -> Result<()> {
        serde_json::to_writer(&mut self.lines, line)?;
        self.lines.push(b'\n');
        self.flush_lines()
    }

    fn flush_lines(&mut self) -> Result<()> {
        let path = &self.path;
        self.file
            .write_all(&self.lines)
            .with_context(|| format!("cannot write the spool '{}'", path.display()))?;
        if let Some(copy) = &mut self.copy {
            copy.write_all(&self.lines).context("cannot send the spool to its reader")?;
        }
        self.lines.clear();
        Ok(())
    }

    fn sync_to_disk(&mut self) -> Result<()> {
        self.flush_lines()?;
        if let Some(copy) = &mut self.copy {
            copy.flush().context("cannot send the spool to its reader")?;
        }
        let path = &self.path;
        let synced = self.file.sync_data();
        synced.with_context(|| format!("cannot sync the spool '{}' to disk", path.display()))
    }

    fn close_block(&mut self, job: usize, block: u32) -> Result<()> {
        let (plan_index, label) = &self.jobs[job];
        let crc = std::mem::take(&mut self.crc).finalize();
        let end = BlockTrailer { job: *plan_index, block, runs: self.runs, crc };
        self.last_blocks.insert(label.clone(), block);
        self.write_line(&SpoolLine::BlockDone(end))?;
        self.runs = 0;
        self.blocks += 1;
        self.sync_to_disk()
    }
}

impl SessionObserver for SpoolWriter {
    fn observe(&mut self, event: &SessionEvent<'_>) -> Result<()> {
        match event {
            // A slot may start again after later slots of its block have started. Only a new
            // highest slot resets the number of metrics.
            SessionEvent::RunStarted { slot, .. } if *slot > self.slot => {
                self.slot = *slot;
                self.reported_metrics = 0;
            }
            SessionEvent::Declared(metric) => {
                let first = (i64::from(self.slot) << 16) | self.reported_metrics;
                self.reported_metrics += 1;
                self.buffer_line(&SpoolLine::Metric { first, metric: Cow::Borrowed(metric) })?;
            }
            SessionEvent::RunFinished(run) => {
                self.buffer_line(&SpoolLine::Run(Box::new(run_line(run)?)))?;
                self.runs += 1;
            }
            SessionEvent::Failed(failure) => {
                self.buffer_line(&SpoolLine::Failure(Cow::Borrowed(failure)))?
            }
            SessionEvent::SlotsDone(slots) => {
                self.buffer_line(&SpoolLine::Slots(Cow::Borrowed(slots)))?;
                self.flush_lines()?;
            }
            SessionEvent::BlockDone { job, block } => self.close_block(*job, *block)?,
            SessionEvent::CaseDecided { label, saved } => {
                if let Some((job, _)) =
                    self.jobs.iter().find(|(_, known_label)| known_label == label)
                {
                    let after = self.last_blocks.get(*label).copied();
                    self.write_line(&SpoolLine::Decided(DecisionLine::new(*job, after, *saved)))?;
                    self.decisions += 1;
                }
            }
            SessionEvent::Warning(sentence) | SessionEvent::Busy(sentence) => {
                self.write_warning(sentence)?
            }
            _ => {}
        }
        Ok(())
    }
}
