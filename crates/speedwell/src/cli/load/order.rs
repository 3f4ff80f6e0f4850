//! The order in which several addresses are loaded.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

/// One load in the order of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Which address, from 0.
    pub url: usize,
    /// Which round, from 0: in a round every address has one turn.
    pub round: u32,
    /// Its place in the order, from 0.
    pub slot: u32,
}

/// `rounds` rounds over all addresses, each shuffled by itself, so that a slow drift of the machine
/// falls on all of them alike. A single round keeps the order typed.
pub fn turns(urls: usize, rounds: u32, seed: u64) -> Vec<Turn> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut turns = Vec::new();
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..urls).collect();
        if rounds > 1 {
            shuffle(&mut order, &mut random);
        }
        for url in order {
            turns.push(Turn {
                url,
                round,
                slot: turns.len() as u32,
            });
        }
    }
    turns
}

/// Fisher and Yates. The remainder of 64 random bits favours small numbers by less than 1 in 2^50
/// for any number of addresses that can be typed.
fn shuffle(order: &mut [usize], random: &mut Xoshiro256PlusPlus) {
    for last in (1..order.len()).rev() {
        let other = (random.next_u64() % (last as u64 + 1)) as usize;
        order.swap(last, other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_has_every_address_and_follows_from_the_seed() {
        let first = turns(3, 20, 7);
        assert_eq!(first, turns(3, 20, 7));
        assert_ne!(first, turns(3, 20, 8));
        for (round, turns) in first.chunks(3).enumerate() {
            let mut urls: Vec<usize> = turns.iter().map(|turn| turn.url).collect();
            urls.sort_unstable();
            assert_eq!(urls, [0, 1, 2]);
            assert!(turns.iter().all(|turn| turn.round == round as u32));
        }
        let firsts: Vec<usize> = first.chunks(3).map(|round| round[0].url).collect();
        assert!((0..3).all(|url| firsts.contains(&url)), "{firsts:?}");
    }

    #[test]
    fn one_round_keeps_the_order_typed() {
        let urls: Vec<usize> = turns(4, 1, 99).iter().map(|turn| turn.url).collect();
        assert_eq!(urls, [0, 1, 2, 3]);
    }
}
