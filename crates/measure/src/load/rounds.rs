//! What loads are requested, in which order they follow each other, and how one is carried out.

use super::super::SearchRequest;
use super::machines::Generators;
use crate::fleet::FleetRequest;
use speedwell_analysis::load::gate::Condition;
use speedwell_harness::plan::Shuffle;
use speedwell_load::pace::Stop;
use speedwell_model::load_run::LoadRun;
use speedwell_model::load_spec::LoadSpec;
use speedwell_process as process;
use speedwell_runner::load::{
    LoadJob, Notice, Snapshot, carry_out, carry_out_by, stop_with_warmup,
};
use std::sync::atomic::AtomicBool;

/// HTTP loads to be carried out.
#[derive(Debug, Clone)]
pub struct LoadRequest {
    /// The load of every address; a level or rate that is visited takes the place of its own.
    pub specs: Vec<LoadSpec>,
    /// What is looked for.
    pub wish: Wish,
    /// Loads of every address; of several levels, visits of each.
    pub runs: Option<u32>,
    /// What must not be so of a load. A rate that is searched for is held against it.
    pub conditions: Vec<Condition>,
    /// Seed of every random choice.
    pub seed: u64,
    /// The machines that send them; this one if not given.
    pub from: Option<FleetRequest>,
}

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// Nothing: addresses are loaded as they say.
    Loads,
    /// Nothing: the levels are given.
    Levels(Vec<u32>),
    /// Where throughput stops growing.
    Concurrency(SearchRequest),
    /// The highest rate that is kept.
    Rate,
}

/// What happens while loads are carried out.
#[derive(Debug)]
pub enum LoadEvent<'a> {
    /// A load begins, which ends so.
    Begins(Stop),
    /// News of it.
    Notice(Notice<'a>),
    /// The load is over.
    Ended,
    /// A level or rate was visited, and gave so many good answers a second.
    Visited(f64, Option<f64>),
}

/// Every address in turn, as often as requested.
///
/// # Errors
/// A load could not be begun.
pub fn rounds(
    request: &LoadRequest,
    from: &mut Option<Generators>,
    runs: &mut Vec<LoadRun>,
    tell: &mut dyn FnMut(LoadEvent<'_>),
) -> anyhow::Result<()> {
    for turn in turns(request.specs.len(), request.runs.unwrap_or(1), request.seed) {
        let spec = &request.specs[turn.url];
        let mut run = carry_out_one(spec, from, stop_with_warmup(spec), request.seed, tell)?;
        (run.round, run.slot) = (turn.round, turn.slot);
        runs.push(run);
        if process::interrupted() {
            break;
        }
    }
    Ok(())
}

/// One load.
pub fn carry_out_one(
    spec: &LoadSpec,
    from: &mut Option<Generators>,
    stop: Stop,
    seed: u64,
    tell: &mut dyn FnMut(LoadEvent<'_>),
) -> anyhow::Result<LoadRun> {
    tell(LoadEvent::Begins(stop));
    let mut notice = |notice: Notice<'_>| tell(LoadEvent::Notice(notice));
    let run = match from {
        None => carry_out(spec, seed, &mut notice),
        Some(from) => {
            let spec = from.whole(spec);
            let mut send = |job: &LoadJob, stop: &AtomicBool, watch: &mut dyn FnMut(&Snapshot)| {
                from.send(job, stop, watch)
            };
            carry_out_by(&spec, seed, &mut send, &mut notice)
        }
    };
    tell(LoadEvent::Ended);
    run
}

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
