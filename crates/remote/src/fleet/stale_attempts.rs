//! Handles workers that the engine has reported dead and whose shards have been given to new
//! attempts. Such a worker may still be alive. It notices after its current block that its attempt
//! has been replaced.
//!
//! If the old and the new worker need the same machine lock, the new worker waits until the old one
//! has exited. The new worker then reuses the blocks of the old attempt (see [`earlier_blocks`]).
//! Otherwise, both workers may run at the same time, and blocks of the old attempt are rejected and
//! reported (see [`StaleAttempts::take_rejected`]). They can be reported only if the old spool is
//! in a directly accessible folder, because a broken connection delivers nothing more.

use super::shard_request::{ShardRequest, attempt_spool_path, expected_slots};
use super::spool_source::SpoolSource;
use speedwell_adapters::plan::SessionPlan;
use speedwell_formats::spool::{SpoolBlock, SpoolItem, SpoolReader};
use speedwell_model::Run;
use speedwell_store::BlockOrigin;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

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

/// A replaced attempt that may still be running.
pub(super) struct StaleAttempt {
    pub origin: BlockOrigin,
    pub reader: SpoolReader,
    pub source: SpoolSource,
}

impl StaleAttempt {
    /// Returns the blocks completed since the last call, and whether the attempt has ended. An
    /// unreadable spool yields nothing.
    fn read_blocks(&mut self) -> (Vec<SpoolBlock>, bool) {
        let bytes = self.source.read().unwrap_or_default();
        let mut has_ended = false;
        let items = self.reader.decode(&bytes).into_iter();
        let blocks = items.filter_map(|item| match item {
            SpoolItem::Block(block) => Some(block),
            SpoolItem::Ended(..) => {
                has_ended = true;
                None
            }
            _ => None,
        });
        (blocks.collect(), has_ended)
    }
}

#[derive(Default)]
pub(super) struct StaleAttempts {
    running: Vec<StaleAttempt>,
    /// Blocks of stale attempts that no other attempt has delivered yet.
    undelivered: Vec<(BlockOrigin, SpoolBlock)>,
}

impl StaleAttempts {
    pub fn add(&mut self, stale: StaleAttempt) {
        self.running.push(stale);
    }

    /// Returns the rejected blocks, each once and with its origin. A block of a stale attempt is
    /// rejected when another attempt has delivered different runs. If a successor reused the block,
    /// the stored runs are the same. `stored_runs` returns the stored runs of slots (positions in
    /// the plan).
    ///
    /// # Errors
    /// Fails if `stored_runs` fails.
    pub fn take_rejected(
        &mut self,
        stored_runs: impl Fn(&BTreeSet<u32>) -> anyhow::Result<Vec<Run>>,
    ) -> anyhow::Result<Vec<(BlockOrigin, SpoolBlock)>> {
        let undelivered = &mut self.undelivered;
        self.running.retain_mut(|stale| {
            let (blocks, has_ended) = stale.read_blocks();
            undelivered.extend(blocks.into_iter().map(|block| (stale.origin, block)));
            !has_ended
        });
        let mut rejected = Vec::new();
        for (origin, block) in std::mem::take(&mut self.undelivered) {
            let stored = stored_runs(&block.slots.iter().copied().collect())?;
            if stored.is_empty() {
                self.undelivered.push((origin, block));
            } else if !are_same_runs(&stored, &block.runs) {
                rejected.push((origin, block));
            }
        }
        Ok(rejected)
    }
}

fn are_same_runs(stored: &[Run], runs: &[Run]) -> bool {
    let starts = |runs: &[Run]| -> BTreeSet<(u32, i64)> {
        let starts = runs.iter().map(|run| (run.slot, run.started_unix_ms));
        starts.collect()
    };
    starts(stored) == starts(runs)
}
