//! Handles workers that the engine reports dead and whose shard has a new attempt. One that is
//! still alive finishes its current block before it notices.
//!
//! With a machine lock, the replacement starts after the presumed-dead worker exits and takes over
//! its blocks: [`earlier_blocks`]. Without a lock both may run; blocks of the old attempt are then
//! rejected and reported: [`StaleAttempts::take_rejected`]. Only spools in a directly accessible
//! folder can be read further; a broken connection delivers nothing more.

use super::order::{ShardRequest, attempt_spool_path, expected_slots};
use super::stream::SpoolSource;
use speedwell_harness::plan::SessionPlan;
use speedwell_model::Run;
use speedwell_results::spool::{SpoolBlock, SpoolItem, SpoolReader};
use speedwell_results::store::BlockOrigin;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Returns the blocks in spools of earlier attempts in the session's folder that are unknown to the
/// request, each with the index of its case in `plan`, which is this attempt's part.
pub(super) fn earlier_blocks(
    folder: &Path,
    order: &ShardRequest,
    plan: &SessionPlan,
) -> Vec<(usize, SpoolBlock)> {
    let mut known = order.done.clone();
    let mut found = Vec::new();
    for attempt in 0..order.attempt {
        // Missing if that attempt had another machine or never started.
        let Ok(bytes) = fs::read(attempt_spool_path(folder, order.place, attempt)) else {
            continue;
        };
        for delivered in SpoolReader::new(expected_slots(plan)).decode(&bytes) {
            let SpoolItem::Block(block) = delivered else {
                continue;
            };
            let place = (0..plan.jobs.len()).find(|at| plan.index_in_whole(*at) == block.job);
            let is_new = block.slots.iter().all(|slot| !known.contains(slot));
            if let Some(place) = place.filter(|_| is_new) {
                known.extend(&block.slots);
                found.push((place, block));
            }
        }
    }
    found
}

/// A replaced attempt whose end has not been observed.
pub(super) struct StaleAttempt {
    pub origin: BlockOrigin,
    pub reader: SpoolReader,
    pub source: SpoolSource,
}

impl StaleAttempt {
    /// Returns the blocks completed since the last call and whether the attempt has ended. An
    /// unreadable spool yields nothing.
    fn read_blocks(&mut self) -> (Vec<SpoolBlock>, bool) {
        let bytes = self.source.read().unwrap_or_default();
        let mut has_ended = false;
        let delivered = self.reader.decode(&bytes).into_iter();
        let blocks = delivered.filter_map(|one| match one {
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

/// All stale attempts of a session.
#[derive(Default)]
pub(super) struct StaleAttempts {
    running: Vec<StaleAttempt>,
    /// Their blocks that no other attempt has delivered yet.
    open: Vec<(BlockOrigin, SpoolBlock)>,
}

impl StaleAttempts {
    pub fn add(&mut self, double: StaleAttempt) {
        self.running.push(double);
    }

    /// Returns the blocks of stale attempts that others have delivered since the last call, each
    /// with its origin. `kept` returns the stored runs of slots. A block that a successor took over
    /// consists of the same runs and is not reported.
    ///
    /// # Errors
    /// Fails if `kept` fails.
    pub fn take_rejected(
        &mut self,
        kept: impl Fn(&BTreeSet<u32>) -> anyhow::Result<Vec<Run>>,
    ) -> anyhow::Result<Vec<(BlockOrigin, SpoolBlock)>> {
        let open = &mut self.open;
        self.running.retain_mut(|double| {
            let (blocks, has_ended) = double.read_blocks();
            open.extend(blocks.into_iter().map(|block| (double.origin, block)));
            !has_ended
        });
        let mut refused = Vec::new();
        for (origin, block) in std::mem::take(&mut self.open) {
            let stored = kept(&block.slots.iter().copied().collect())?;
            if stored.is_empty() {
                self.open.push((origin, block));
            } else if !are_same_runs(&stored, &block.runs) {
                refused.push((origin, block));
            }
        }
        Ok(refused)
    }
}

fn are_same_runs(stored: &[Run], runs: &[Run]) -> bool {
    let begun = |runs: &[Run]| -> BTreeSet<(u32, i64)> {
        let begun = runs.iter().map(|run| (run.slot, run.started_unix_ms));
        begun.collect()
    };
    begun(stored) == begun(runs)
}
