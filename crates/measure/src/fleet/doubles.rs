//! Workers that an engine takes for dead, and whose work another attempt has: one that lives goes on until it sees that, side by side
//! with its successor.
//!
//! Nothing of it counts any more, whether its successor has brought the same already or not, and each block that it closes is said.
//! Only spools in a folder that is seen from here can be read on; of a line that is cut nothing comes. Start at [`Double`].

use super::stream::Source;
use speedwell_results::spool::{Block, Delivered, SpoolReader};
use speedwell_results::store::BlockOrigin;

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

/// The blocks that these closed since they were looked at last, each with where it comes from. Those that have ended are left out
/// from now on.
pub(super) fn closed_by(doubles: &mut Vec<Double>) -> Vec<(BlockOrigin, Block)> {
    let mut closed = Vec::new();
    doubles.retain_mut(|double| {
        let (blocks, has_ended) = double.look();
        closed.extend(blocks.into_iter().map(|block| (double.origin, block)));
        !has_ended
    });
    closed
}
