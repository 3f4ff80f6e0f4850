//! Random order from a seed whose stream never changes between versions.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

/// Draws the order inside blocks.
#[derive(Debug)]
pub struct Shuffle(Xoshiro256PlusPlus);

impl Shuffle {
    /// The generator that belongs to `seed`.
    pub fn new(seed: u64) -> Shuffle {
        Shuffle(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Indexes of `variants` variants, each `repeats` times, in random order.
    pub fn block(&mut self, variants: usize, repeats: u32) -> Vec<usize> {
        let mut order: Vec<usize> = (0..repeats).flat_map(|_| 0..variants).collect();
        // Fisher and Yates, written out: a resumed session must find the order it was planned in,
        // whatever a library does to its own shuffle in the meantime.
        for last in (1..order.len()).rev() {
            order.swap(last, self.below(last as u64 + 1) as usize);
        }
        order
    }

    /// A number below `bound`, each with the same probability (rejection, Lemire 2019).
    fn below(&mut self, bound: u64) -> u64 {
        loop {
            let product = u128::from(self.0.next_u64()) * u128::from(bound);
            if product as u64 >= bound.wrapping_neg() % bound {
                return (product >> 64) as u64;
            }
        }
    }
}

/// How many blocks `runs` runs need.
pub(super) fn blocks_needed(runs: u32, runs_per_block: u32) -> u32 {
    runs.div_ceil(runs_per_block.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_order_for_ever() {
        let mut shuffle = Shuffle::new(7);
        let blocks: Vec<Vec<usize>> = (0..3).map(|_| shuffle.block(2, 2)).collect();
        assert_eq!(blocks, [[0, 1, 1, 0], [1, 0, 0, 1], [1, 1, 0, 0]]);
    }

    #[test]
    fn all_six_orders_of_a_block_are_equally_likely() {
        let mut shuffle = Shuffle::new(1);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            *counts.entry(shuffle.block(2, 2)).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        // 1000 expected; four standard deviations of the binomial are 115.
        assert!(
            counts.values().all(|&count| (885..=1115).contains(&count)),
            "{counts:?}"
        );
    }
}
