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
//!
//! [`FleetCoordinator::settle_attempts`] settles attempts whose worker has ended. Each shard is
//! done, retried, moved to another machine or given up.

use super::coordinator::{FleetCoordinator, ShardAttempt, is_settled, to_shard};
use crate::machines::JobId;
use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use speedwell_adapters::plan::{PlanShard, PlanSlot, RelocationMap, SessionPlan};
use speedwell_analysis::AnalysisSettings;
use speedwell_formats::spool::{ShardSlots, SpoolBlock, SpoolItem, SpoolReader};
use speedwell_model::{FailureCause, Run, SessionEvent, SessionStep, StepFailure};
use speedwell_store::{BlockOrigin, ShardState};
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

/// Number of failed attempts on one machine after which a shard is given up.
const MAX_ATTEMPTS: u32 = 3;
/// Number of consecutive attempts without a completed block after which a machine gets no more
/// work.
const MAX_MACHINE_FAILURES: u32 = 2;

impl FleetCoordinator<'_, '_, '_> {
    /// Settles the attempts that have ended.
    pub fn settle_attempts(&mut self) -> Result<()> {
        let (ended, open) = std::mem::take(&mut self.attempts)
            .into_iter()
            .partition(|attempt: &ShardAttempt| attempt.end.is_some());
        self.attempts = open;
        // All attempts of one worker end together and are counted as one failure.
        let mut counted: BTreeSet<JobId> = BTreeSet::new();
        for attempt in ended {
            let shard = attempt.origin.shard;
            let was_useless = attempt.blocks == 0
                && !attempt.is_resumed
                && matches!(attempt.end, Some(Err(_)))
                && counted.insert(attempt.job.clone());
            if was_useless {
                self.machines[attempt.origin.machine as usize].failures += 1;
            }
            match attempt.end {
                Some(Ok(())) => self.set_state(shard, ShardState::Done)?,
                Some(Err(reason)) => {
                    self.notify_replaced(attempt.origin);
                    if let (Some(file), false) = (attempt.file, attempt.has_ended) {
                        self.stale.running.push((attempt.origin, attempt.reader, file));
                    }
                    self.retry_shard(shard, &reason)?;
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Moves shards away from a machine that cannot store their requests, for example because its
    /// disk is full.
    pub fn abandon_machine(&mut self, machine: usize, shards: &[u32], reason: &str) -> Result<()> {
        let name = &self.machines[machine].fleet_machine.name;
        ensure!(self.other_machine(machine).is_some(), "{name}: {reason}");
        self.machines[machine].failures = MAX_MACHINE_FAILURES;
        shards.iter().try_for_each(|shard| self.retry_shard(*shard, reason))
    }

    /// Tells an attempt's worker to stop after its current block. The engine may have reported a
    /// live worker dead. Such a worker's results are no longer used, but it still occupies the
    /// machine.
    pub fn notify_replaced(&self, origin: BlockOrigin) {
        let machine = &self.machines[origin.machine as usize];
        if machine.is_shared {
            // If this fails, the worker stops once the next attempt's spool exists.
            let _ = fs::write(replaced_marker(&machine.folder, origin.shard, origin.attempt), "");
        }
    }

    /// Prepares a new attempt at a shard, on another machine if the current machine keeps failing.
    /// Gives up the shard after too many failed attempts.
    fn retry_shard(&mut self, shard: u32, reason: &str) -> Result<()> {
        let stored = self.shards[shard as usize].clone();
        let machine = stored.machine as usize;
        let name = self.machines[machine].fleet_machine.name.clone();
        self.failed_attempts[shard as usize] += 1;
        if self.failed_attempts[shard as usize] >= MAX_ATTEMPTS {
            return self.give_up_shard(shard, &format!("{name}: {reason}"));
        }
        let replacement = self.other_machine(machine);
        let keeps_failing = self.machines[machine].failures >= MAX_MACHINE_FAILURES;
        self.shards[shard as usize].attempt += 1;
        self.shards[shard as usize].state = ShardState::Waiting;
        match replacement {
            Some(replacement) if keeps_failing => {
                self.failed_attempts[shard as usize] = 0;
                self.move_shard(shard, replacement, &name, reason)?;
            }
            _ => {
                let attempt = stored.attempt + 1;
                self.warn(&format!(
                    "{name}: {reason}; its remaining work is restarted (attempt {attempt})"
                ))?;
            }
        }
        let stored = &self.shards[shard as usize];
        self.merger.set_shard(shard, stored)
    }

    /// The least loaded of the other usable machines.
    fn other_machine(&self, excluded: usize) -> Option<u32> {
        let load = |machine: usize| {
            let shards = self.shards.iter().filter(|stored| stored.machine as usize == machine);
            shards.filter(|stored| !is_settled(stored.state)).count()
        };
        let candidates = (0..self.machines.len()).filter(|&index| {
            index != excluded && self.machines[index].failures < MAX_MACHINE_FAILURES
        });
        candidates.min_by_key(|&index| load(index)).map(|index| index as u32)
    }

    /// Restarts the unfinished cases of a shard on another machine, with new slots (positions in
    /// the plan). Marks the existing runs of these cases as superseded.
    fn move_shard(&mut self, shard: u32, to: u32, from: &str, reason: &str) -> Result<()> {
        let stored = self.shards[shard as usize].clone();
        let part = self.plan.extract_shard(&to_shard(&stored))?;
        let number = self.merger.number();
        let decided = self.merger.store().decided_cases(number)?;
        let finished = self.merger.store().finished_slots(number)?;
        let is_open = |job: &u32| {
            let index = stored.jobs.iter().position(|shard_job| shard_job == job);
            let label = &self.plan.jobs[*job as usize].label;
            let mut slots = part.slots().into_iter().filter(|slot| Some(slot.job) == index);
            !decided.contains_key(label) && slots.any(|slot| !finished.contains(&slot.index))
        };
        let open: Vec<u32> = stored.jobs.iter().copied().filter(is_open).collect();
        let is_restarted = |slot: &PlanSlot| open.contains(&stored.jobs[slot.job]);
        let restarted_slots = part.slots().into_iter().filter(is_restarted).map(|slot| slot.index);
        self.merger.supersede_runs(&restarted_slots.collect::<Vec<u32>>())?;
        let strata = self.shards.iter().map(|stored| stored.stratum + 1);
        let stratum = strata.max().unwrap_or(0).max(self.plan.strata);
        let name = self.machines[to as usize].fleet_machine.name.clone();
        self.warn(&format!(
            "{from}: {reason}; {} of its cases are restarted on {name}",
            open.len()
        ))?;
        let moved = &mut self.shards[shard as usize];
        moved.machine = to;
        moved.stratum = stratum;
        moved.jobs = open;
        if moved.jobs.is_empty() {
            moved.state = ShardState::Done;
        }
        Ok(())
    }

    /// Gives up a shard. Each of its cases becomes a failure, unless it was decided early.
    fn give_up_shard(&mut self, shard: u32, reason: &str) -> Result<()> {
        self.set_state(shard, ShardState::Lost)?;
        let decided = self.merger.store().decided_cases(self.merger.number())?;
        for &job in &self.shards[shard as usize].jobs {
            let job = &self.plan.jobs[job as usize];
            if decided.contains_key(&job.label) {
                continue;
            }
            let failure = StepFailure {
                step: SessionStep::Run,
                benchmark: job.source.name.clone(),
                case: Some(job.label.clone()),
                variant: None,
                slot: None,
                cause: FailureCause::Start {
                    reason: format!("given up after {MAX_ATTEMPTS} attempts: {reason}"),
                },
                stderr_tail: String::new(),
                replay: String::new(),
            };
            self.merger.add_failure(&failure)?;
            self.listener.observe(&SessionEvent::Failed(&failure))?;
        }
        Ok(())
    }
}
