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

    /// Two independent uniform indices from one draw, with a bias of at most count / 2^32 each.
    pub(crate) fn pair_below(&mut self, first: usize, second: usize) -> (usize, usize) {
        let bits = self.generator.next_u64();
        let reduce = |half: u64, count: usize| ((half * count as u64) >> 32) as usize;
        (
            reduce(bits >> 32, first),
            reduce(bits & 0xffff_ffff, second),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_is_drawn_about_equally_often() {
        let mut indices = Indices::new(7);
        let (mut single, mut pairs) = ([0u32; 6], [[0u32; 3]; 6]);
        for _ in 0..18_000 {
            single[indices.below(6)] += 1;
            let (a, b) = indices.pair_below(6, 3);
            pairs[a][b] += 1;
        }
        // Five standard deviations of a binomial count around 3000 and 1000.
        assert!(
            single.iter().all(|&count| count.abs_diff(3000) < 250),
            "{single:?}"
        );
        assert!(
            pairs
                .iter()
                .flatten()
                .all(|&count| count.abs_diff(1000) < 155),
            "{pairs:?}"
        );
    }

    #[test]
    fn a_seed_gives_the_same_indices_for_ever() {
        let mut indices = Indices::new(42);
        let drawn: Vec<usize> = (0..8).map(|_| indices.below(1000)).collect();
        assert_eq!(drawn, [814, 318, 983, 701, 793, 588, 125, 605]);
    }
}
