//! Seeded random indices.
//!
//! Decides how a stored seed becomes draws, in a way that never changes between versions: the
//! generator's stream is fixed by its authors and the reduction to a range is done here.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

/// A generator of indices (xoshiro256++, Blackman and Vigna, ACM TOMS 47, 2021).
pub(crate) struct Indices {
    generator: Xoshiro256PlusPlus,
}

impl Indices {
    pub(crate) fn new(seed: u64) -> Indices {
        Indices {
            generator: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    /// A uniform index below `count`, which must be positive.
    ///
    /// Multiply and shift without rejection (Lemire, ACM TOMACS 29, 2019): the bias is at most
    /// count / 2^64.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.generator.next_u64()) * count as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_is_drawn_about_equally_often() {
        let mut indices = Indices::new(7);
        let mut counts = [0u32; 6];
        for _ in 0..18_000 {
            counts[indices.below(6)] += 1;
        }
        // Five standard deviations of a binomial count around 3000.
        assert!(
            counts.iter().all(|&count| count.abs_diff(3000) < 250),
            "{counts:?}"
        );
    }

    #[test]
    fn a_seed_gives_the_same_indices_for_ever() {
        let mut indices = Indices::new(42);
        let drawn: Vec<usize> = (0..8).map(|_| indices.below(1000)).collect();
        assert_eq!(drawn, [814, 318, 983, 701, 793, 588, 125, 605]);
    }
}
