//! Plans the order of the requested loads and sends each of them.

use speedwell_adapters::plan::BlockShuffle;
use speedwell_analysis::load::gate::LoadCondition;
use speedwell_engine::SearchRequest;
use speedwell_engine::execution::load::{
    LoadJob, LoadNotice, LoadSnapshot, run_load, run_load_with_sender, stop_condition_with_warmup,
};
use speedwell_load::pace::StopCondition;
use speedwell_machine::process;
use speedwell_model::load::run::LoadRun;
use speedwell_model::load::spec::LoadSpec;
use speedwell_remote::fleet::FleetRequest;
use speedwell_remote::load::LoadGenerators;
use std::sync::atomic::AtomicBool;

/// Options for HTTP loads.
#[derive(Debug, Clone)]
pub struct LoadRequest {
    /// One load per address. A search or a list of levels overrides the concurrency or the rate of
    /// every load.
    pub specs: Vec<LoadSpec>,
    /// What to search for.
    pub mode: LoadMode,
    /// Number of loads per address or, with several levels, number of loads per level.
    pub runs: Option<u32>,
    /// Conditions under which a load counts as failed. A search for a rate rejects rates that meet
    /// any condition.
    pub conditions: Vec<LoadCondition>,
    /// Seed of every random choice.
    pub seed: u64,
    /// Machines that send the loads; this machine by default.
    pub generators: Option<FleetRequest>,
}

/// What to search for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadMode {
    /// Nothing: send the given loads.
    AsSpecified,
    /// Nothing: visit the given levels.
    Levels(Vec<u32>),
    /// The concurrency at which throughput stops growing.
    Concurrency(SearchRequest),
    /// The highest sustainable rate.
    Rate,
}

/// Progress of the loads.
#[derive(Debug)]
pub enum LoadEvent<'a> {
    /// A load starts. The condition says when the load will end.
    Started(StopCondition),
    /// A message about the load.
    Notice(LoadNotice<'a>),
    /// The load has ended.
    Ended,
    /// A level or rate was visited. The first value is this level or rate. The second value is the
    /// number of successful responses per second; `None` if the load took no time.
    Visited(f64, Option<f64>),
}

/// Sends a load to every address in turn, as often as requested.
///
/// # Errors
/// Fails if a load cannot be started.
pub fn run_rounds(
    request: &LoadRequest,
    generators: &mut Option<LoadGenerators>,
    runs: &mut Vec<LoadRun>,
    emit: &mut dyn FnMut(LoadEvent<'_>),
) -> anyhow::Result<()> {
    for turn in plan_turns(request.specs.len(), request.runs.unwrap_or(1), request.seed) {
        let spec = &request.specs[turn.url];
        let mut run =
            run_one_load(spec, generators, stop_condition_with_warmup(spec), request.seed, emit)?;
        (run.round, run.slot) = (turn.round, turn.slot);
        runs.push(run);
        if process::is_interrupt_requested() {
            break;
        }
    }
    Ok(())
}

/// Sends one load.
pub fn run_one_load(
    spec: &LoadSpec,
    generators: &mut Option<LoadGenerators>,
    stop: StopCondition,
    seed: u64,
    emit: &mut dyn FnMut(LoadEvent<'_>),
) -> anyhow::Result<LoadRun> {
    emit(LoadEvent::Started(stop));
    let mut notice = |notice: LoadNotice<'_>| emit(LoadEvent::Notice(notice));
    let run = match generators {
        None => run_load(spec, seed, &mut notice),
        Some(generators) => {
            let spec = generators.combined_spec(spec);
            let mut send =
                |job: &LoadJob, stop: &AtomicBool, watch: &mut dyn FnMut(&LoadSnapshot)| {
                    generators.send_load(job, stop, watch)
                };
            run_load_with_sender(None, &spec, seed, &mut send, &mut notice)
        }
    };
    emit(LoadEvent::Ended);
    run
}

/// A load and its place in the order of all loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadTurn {
    /// Index of the address.
    pub url: usize,
    /// Index of the round. Every address has one turn per round.
    pub round: u32,
    /// Index in the order of all loads.
    pub slot: u32,
}

/// Plans `rounds` rounds over all addresses. Each round is shuffled, so that a slow drift of the
/// machine affects all addresses alike. A single round keeps the order that the user typed.
pub fn plan_turns(urls: usize, rounds: u32, seed: u64) -> Vec<LoadTurn> {
    let mut shuffle = BlockShuffle::new(seed);
    let mut turns = Vec::new();
    for round in 0..rounds {
        let order = match rounds {
            1 => (0..urls).collect(),
            _ => shuffle.shuffle_block(urls, 1),
        };
        for url in order {
            turns.push(LoadTurn { url, round, slot: turns.len() as u32 });
        }
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_has_every_address_in_an_order_set_by_the_seed() {
        let first = plan_turns(3, 20, 7);
        assert_eq!(first, plan_turns(3, 20, 7));
        assert_ne!(first, plan_turns(3, 20, 8));
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
    fn a_single_round_keeps_the_order_of_the_command_line() {
        let urls: Vec<usize> = plan_turns(4, 1, 99).iter().map(|turn| turn.url).collect();
        assert_eq!(urls, [0, 1, 2, 3]);
    }
}
