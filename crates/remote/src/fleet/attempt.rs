//! An attempt to measure a shard, which is a part of a session's plan. This module defines the
//! request that a coordinator sends to a worker (one line of JSON; the plan itself is in the
//! bundle) and the paths of an attempt's files, and reads the spool, which is the file with the
//! attempt's results. The lines of spools come from growing files in a directly accessible folder,
//! or from the output of a remote worker, which sends one spool after the other.
//!
//! [`StaleAttempts`] handles workers that the engine has reported dead and whose shards have been
//! given to new attempts. Such a worker may still be alive. It notices after its current block that
//! its attempt has been replaced. If the old and the new worker need the same machine lock, the new
//! worker waits until the old one has exited. The new worker then reuses the blocks of the old
//! attempt (see [`earlier_blocks`]). Otherwise, both workers may run at the same time, and blocks of
//! the old attempt are rejected and reported (see [`StaleAttempts::take_rejected`]). They can be
//! reported only if the old spool is in a directly accessible folder, because a broken connection
//! delivers nothing more.

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use speedwell_adapters::plan::{PlanShard, RelocationMap, SessionPlan};
use speedwell_analysis::AnalysisSettings;
use speedwell_formats::spool::{ShardSlots, SpoolBlock, SpoolItem, SpoolReader};
use speedwell_model::Run;
use speedwell_store::BlockOrigin;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::ChildStdout;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

/// Path of the plan in a bundle.
pub const PLAN_PATH: &str = "plan.json";
/// Path of the program in a bundle.
pub const PROGRAM_PATH: &str = "bin/speedwell";
/// Placeholder for the bundle's folder in the paths of the plan. The actual folder is unknown when
/// the bundle is made.
pub const BUNDLE_PLACEHOLDER: &str = "/speedwell-bundle";

/// A request for one attempt at one shard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShardRequest {
    /// ID of the session.
    pub session: String,
    /// Folder of the bundle on the machine.
    pub bundle: PathBuf,
    /// Index of the shard in the session.
    pub number: u32,
    /// Number of the attempt.
    pub attempt: u32,
    /// Name of the machine in the fleet.
    pub machine: String,
    /// Labels of the machine.
    pub labels: Vec<String>,
    /// The part of the plan to measure.
    pub shard: PlanShard,
    /// Slots (positions in the plan) that earlier attempts completed.
    pub done: BTreeSet<u32>,
    /// Completed slots that failed.
    pub failed: BTreeSet<u32>,
    /// Runs in the completed slots, as lines of a spool.
    pub earlier: Vec<String>,
    /// Settings that decide when a case needs no more runs.
    pub settings: AnalysisSettings,
}

impl ShardRequest {
    /// Loads the part of the session's plan to measure, with the paths of this machine.
    ///
    /// # Errors
    /// Fails if the bundle has no plan, or if this part is not in the plan.
    pub fn load_plan(&self) -> Result<SessionPlan> {
        let plan: SessionPlan = read_json(&self.bundle.join(PLAN_PATH))?;
        // Benchmarks get the real path of the bundle instead of the symlink.
        let bundle = fs::canonicalize(&self.bundle)?;
        let relocation = RelocationMap::new([(PathBuf::from(BUNDLE_PLACEHOLDER), bundle)]);
        plan.relocated(&relocation).extract_shard(&self.shard)
    }
}

/// Reads a file of JSON.
///
/// # Errors
/// Fails if the file cannot be read or has other content.
pub(super) fn read_json<T: DeserializeOwned>(file: &Path) -> Result<T> {
    let read = || -> Result<T> { Ok(serde_json::from_str(&fs::read_to_string(file)?)?) };
    read().with_context(|| format!("cannot read '{}'", file.display()))
}

/// Path of an attempt's spool, inside a session's folder.
pub fn attempt_spool_path(folder: &Path, shard: u32, attempt: u32) -> PathBuf {
    folder.join("spools").join(format!("{shard}.{attempt}.jsonl"))
}

/// Path of the marker file that tells an attempt's worker, if it is alive, that another attempt has
/// replaced this one.
pub fn replaced_marker(folder: &Path, shard: u32, attempt: u32) -> PathBuf {
    folder.join("spools").join(format!("{shard}.{attempt}.over"))
}

/// Path of a task's request, inside a session's folder.
pub fn request_path(folder: &Path, task: u32) -> PathBuf {
    folder.join("orders").join(format!("{task}.json"))
}

/// Path of the file that tells the workers of a session to stop after their current block.
pub fn stop_marker(folder: &Path) -> PathBuf {
    folder.join("stop")
}

/// Returns the slots that a spool may contain for this part of the plan.
pub(super) fn expected_slots(part: &SessionPlan) -> ShardSlots {
    let expected = part.slots().into_iter().map(|slot| {
        let variant = part.variants[slot.variant].name.clone();
        (slot.index, (part.index_in_whole(slot.job), slot.block, variant))
    });
    expected.collect()
}

/// Maximum number of bytes read at once. Longer lines arrive in several pieces.
const MAX_PIECE_BYTES: u64 = 1 << 20;

/// A spool in a directly accessible folder.
pub(super) struct SpoolFile {
    pub path: PathBuf,
    /// Offset up to which the file has been read.
    pub read: u64,
}

impl SpoolFile {
    /// Reads the bytes appended to the file since the last read.
    ///
    /// # Errors
    /// Fails if the file exists but cannot be read.
    pub fn read(&mut self) -> Result<Vec<u8>> {
        // The file appears when its attempt starts.
        let Ok(mut file) = File::open(&self.path) else {
            return Ok(Vec::new());
        };
        let mut bytes = Vec::new();
        let result =
            file.seek(SeekFrom::Start(self.read)).and_then(|_| file.read_to_end(&mut bytes));
        result.with_context(|| format!("cannot read the spool '{}'", self.path.display()))?;
        self.read += bytes.len() as u64;
        Ok(bytes)
    }
}

/// The output of a remote worker, with one spool after the other.
pub(super) struct SpoolStream {
    lines: Receiver<Vec<u8>>,
    /// Shard and attempt of the spool being received.
    current: Option<(u32, u32)>,
    /// Whether the worker has closed its output.
    pub has_ended: bool,
}

#[derive(Deserialize)]
struct SpoolId {
    shard: u32,
    attempt: u32,
}

impl SpoolStream {
    /// Reads lines in a thread that ends with the output.
    pub fn new(output: ChildStdout) -> SpoolStream {
        let (sender, lines) = channel();
        thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = Vec::new();
            let mut read = |line: &mut Vec<u8>| {
                let mut limited = output.by_ref().take(MAX_PIECE_BYTES);
                limited.read_until(b'\n', line).is_ok_and(|read| read > 0)
            };
            while read(&mut line) {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
        SpoolStream { lines, current: None, has_ended: false }
    }

    /// Returns the lines received since the last call, each with its shard and attempt.
    pub fn lines(&mut self) -> Vec<((u32, u32), Vec<u8>)> {
        let mut received = Vec::new();
        loop {
            let line = match self.lines.try_recv() {
                Ok(line) => line,
                Err(error) => {
                    self.has_ended |= error == TryRecvError::Disconnected;
                    return received;
                }
            };
            if line.starts_with(b"{\"spool\":")
                && let Ok(first_line) = serde_json::from_slice::<BTreeMap<String, SpoolId>>(&line)
            {
                self.current = first_line.get("spool").map(|id| (id.shard, id.attempt));
            }
            if let Some(spool_id) = self.current {
                received.push((spool_id, line));
            }
        }
    }
}

/// Reads the spools that earlier attempts at the shard left in the session's folder. Returns the
/// blocks that the request does not list as done, each with the index of its case in `plan`. `plan`
/// is the part of the session's plan that this attempt measures.
pub(super) fn earlier_blocks(
    folder: &Path,
    request: &ShardRequest,
    plan: &SessionPlan,
) -> Vec<(usize, SpoolBlock)> {
    let mut known_slots = request.done.clone();
    let mut blocks = Vec::new();
    for attempt in 0..request.attempt {
        // The file is missing if that attempt ran on another machine or never started.
        let Ok(bytes) = fs::read(attempt_spool_path(folder, request.number, attempt)) else {
            continue;
        };
        for item in SpoolReader::new(expected_slots(plan)).decode(&bytes) {
            let SpoolItem::Block(block) = item else {
                continue;
            };
            let index = (0..plan.jobs.len()).find(|job| plan.index_in_whole(*job) == block.job);
            let is_new = block.slots.iter().all(|slot| !known_slots.contains(slot));
            if let Some(index) = index.filter(|_| is_new) {
                known_slots.extend(&block.slots);
                blocks.push((index, block));
            }
        }
    }
    blocks
}

#[derive(Default)]
pub(super) struct StaleAttempts {
    /// Replaced attempts that may still be running.
    pub running: Vec<(BlockOrigin, SpoolReader, SpoolFile)>,
    /// Blocks of stale attempts that no other attempt has delivered yet.
    undelivered: Vec<(BlockOrigin, SpoolBlock)>,
}

impl StaleAttempts {
    /// Returns the rejected blocks, each once and with its origin. A block of a stale attempt is
    /// rejected when another attempt has delivered different runs. If a successor reused the block,
    /// the stored runs are the same. `stored_runs` returns the stored runs of slots (positions in
    /// the plan).
    ///
    /// # Errors
    /// Fails if `stored_runs` fails.
    pub fn take_rejected(
        &mut self,
        stored_runs: impl Fn(&BTreeSet<u32>) -> Result<Vec<Run>>,
    ) -> Result<Vec<(BlockOrigin, SpoolBlock)>> {
        let undelivered = &mut self.undelivered;
        self.running.retain_mut(|(origin, reader, file)| {
            // An unreadable spool yields nothing.
            let bytes = file.read().unwrap_or_default();
            let mut is_running = true;
            for item in reader.decode(&bytes) {
                match item {
                    SpoolItem::Block(block) => undelivered.push((*origin, block)),
                    SpoolItem::Ended(..) => is_running = false,
                    _ => {}
                }
            }
            is_running
        });
        let starts = |runs: &[Run]| -> BTreeSet<(u32, i64)> {
            runs.iter().map(|run| (run.slot, run.started_unix_ms)).collect()
        };
        let mut rejected = Vec::new();
        for (origin, block) in std::mem::take(&mut self.undelivered) {
            let stored = stored_runs(&block.slots.iter().copied().collect())?;
            if stored.is_empty() {
                self.undelivered.push((origin, block));
            } else if starts(&stored) != starts(&block.runs) {
                rejected.push((origin, block));
            }
        }
        Ok(rejected)
    }
}
