//! Workers that an engine takes for dead, and whose work another attempt has: one that lives closes its open block before it sees that.
//!
//! Where the machine has a lock, its successor begins after it, and takes over what it left: [`left_by_earlier`]. Otherwise they are
//! side by side; then what it closes is refused, and that is said: [`Doubles::refused`]. Only spools in a folder that is seen from
//! here can be read on; of a line that is cut nothing comes.

use super::order::{Order, slots_of, spool_of};
use super::stream::Source;
use speedwell_harness::plan::Plan;
use speedwell_model::Run;
use speedwell_results::spool::{Block, Delivered, SpoolReader};
use speedwell_results::store::BlockOrigin;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The blocks that are in spools of earlier attempts in the folder of the session and not among those that the order knows, each
/// with the place of its case in `plan`, which is the part of this attempt.
pub(super) fn left_by_earlier(folder: &Path, order: &Order, plan: &Plan) -> Vec<(usize, Block)> {
    let mut known = order.done.clone();
    let mut found = Vec::new();
    for attempt in 0..order.attempt {
        // One that is not there had another machine, or has not begun.
        let Ok(bytes) = fs::read(spool_of(folder, order.place, attempt)) else {
            continue;
        };
        for delivered in SpoolReader::new(slots_of(plan)).feed(&bytes) {
            let Delivered::Block(block) = delivered else {
                continue;
            };
            let place = (0..plan.jobs.len()).find(|at| plan.place_in_whole(*at) == block.job);
            let is_new = block.slots.iter().all(|slot| !known.contains(slot));
            if let Some(place) = place.filter(|_| is_new) {
                known.extend(&block.slots);
                found.push((place, block));
            }
        }
    }
    found
}

/// An attempt that was replaced although nobody saw its end.
pub(super) struct Double {
    pub origin: BlockOrigin,
    pub reader: SpoolReader,
    pub source: Source,
}

impl Double {
    /// What it closed since it was looked at last, and whether it has ended. A spool that cannot be read any more has nothing to say.
    fn look(&mut self) -> (Vec<Block>, bool) {
        let bytes = self.source.read().unwrap_or_default();
        let mut has_ended = false;
        let delivered = self.reader.feed(&bytes).into_iter();
        let blocks = delivered.filter_map(|one| match one {
            Delivered::Block(block) => Some(block),
            Delivered::Ended(..) => {
                has_ended = true;
                None
            }
            _ => None,
        });
        (blocks.collect(), has_ended)
    }
}

/// All of a session.
#[derive(Default)]
pub(super) struct Doubles {
    living: Vec<Double>,
    /// What they closed and nobody has brought yet.
    open: Vec<(BlockOrigin, Block)>,
}

impl Doubles {
    pub fn add(&mut self, double: Double) {
        self.living.push(double);
    }

    /// The blocks of theirs that others have brought since this was asked last, each with where it comes from. `kept` gives the runs
    /// of slots that are stored. What a successor took over is no double.
    ///
    /// # Errors
    /// Those of `kept`.
    pub fn refused(
        &mut self,
        kept: impl Fn(&BTreeSet<u32>) -> anyhow::Result<Vec<Run>>,
    ) -> anyhow::Result<Vec<(BlockOrigin, Block)>> {
        let open = &mut self.open;
        self.living.retain_mut(|double| {
            let (blocks, has_ended) = double.look();
            open.extend(blocks.into_iter().map(|block| (double.origin, block)));
            !has_ended
        });
        let mut refused = Vec::new();
        for (origin, block) in std::mem::take(&mut self.open) {
            let stored = kept(&block.slots.iter().copied().collect())?;
            if stored.is_empty() {
                self.open.push((origin, block));
            } else if !is_same(&stored, &block.runs) {
                refused.push((origin, block));
            }
        }
        Ok(refused)
    }
}

/// Whether these are the same executions.
fn is_same(stored: &[Run], runs: &[Run]) -> bool {
    let begun = |runs: &[Run]| -> BTreeSet<(u32, i64)> {
        let begun = runs.iter().map(|run| (run.slot, run.started_unix_ms));
        begun.collect()
    };
    begun(stored) == begun(runs)
}
