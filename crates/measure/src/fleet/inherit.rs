//! What earlier attempts at a parcel closed that nobody has read: an engine may take a worker for dead that lives, and that closes
//! its open block. Its successor has the machine when the other has ended, and takes over what it left there. Start at [`blocks`].

use super::order::{Order, spool_of};
use speedwell_harness::plan::Plan;
use speedwell_results::spool::{Block, Delivered, Slots, SpoolReader};
use std::fs;
use std::path::Path;

/// The blocks that are in spools of earlier attempts in the folder of the session and not among those that the order knows, each
/// with the place of its case in `plan`, which is the part of this attempt.
pub(super) fn blocks(folder: &Path, order: &Order, plan: &Plan) -> Vec<(usize, Block)> {
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

/// What may come of a part of a plan.
pub(super) fn slots_of(part: &Plan) -> Slots {
    let expected = part.slots().into_iter().map(|slot| {
        let variant = part.variants[slot.variant].name.clone();
        (
            slot.index,
            (part.place_in_whole(slot.job), slot.block, variant),
        )
    });
    expected.collect()
}
