//! Random order from a seed whose stream never changes between versions.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Draws the order inside blocks.
pub(super) struct Shuffle(Xoshiro256PlusPlus);

impl Shuffle {
    /// The generator that belongs to `seed`.
    pub fn new(seed: u64) -> Shuffle {
        Shuffle(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Indexes of `variants` variants, each `repeats` times, in random order.
    pub fn block(&mut self, variants: usize, repeats: u32) -> Vec<usize> {
        let mut order: Vec<usize> = (0..repeats).flat_map(|_| 0..variants).collect();
        order.shuffle(&mut self.0);
        order
    }
}

/// How many blocks `runs` runs need.
pub(super) fn blocks_needed(runs: u32, runs_per_block: u32) -> u32 {
    runs.div_ceil(runs_per_block.max(1))
}
