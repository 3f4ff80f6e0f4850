//! Workers that an engine takes for dead, and whose work another attempt has: one that lives goes on until it sees that, side by side
//! with its successor.
//!
//! What it closes counts only if its successor takes it over; of all other blocks it is said that they are refused. Only spools in a
//! folder that is seen from here can be read on; of a line that is cut nothing comes. Start at [`Doubles::refused`].

use super::stream::Source;
use speedwell_model::Run;
use speedwell_results::spool::{Block, Delivered, SpoolReader};
use speedwell_results::store::BlockOrigin;
use std::collections::BTreeSet;

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
