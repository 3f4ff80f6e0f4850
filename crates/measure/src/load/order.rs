//! The order in which several addresses are loaded.

use speedwell_harness::plan::Shuffle;

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
    let mut shuffle = Shuffle::new(seed);
    let mut turns = Vec::new();
    for round in 0..rounds {
        let order = match rounds {
            1 => (0..urls).collect(),
            _ => shuffle.block(urls, 1),
        };
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
