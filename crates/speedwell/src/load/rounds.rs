//! Plans the order of the requested loads and sends each of them.
//!
//! Loads are sent as given ([`run_rounds`]), or at several levels of concurrency or several rates
//! ([`run_visits`]). A visit is a load at one level or rate. The levels come from a list, or
//! `analysis` picks the next level or rate.

use anyhow::ensure;
use speedwell_adapters::plan::BlockShuffle;
use speedwell_analysis as analysis;
use speedwell_analysis::load::gate::LoadCondition;
use speedwell_analysis::load::{NextRate, RateRules};
use speedwell_analysis::scaling::{NextLevel, SaturationRules};
use speedwell_engine::SearchRequest;
use speedwell_engine::execution::load::{
    LoadJob, LoadNotice, LoadSnapshot, TargetUrl, run_load, run_load_with_sender, stop_condition,
    stop_condition_with_warmup,
};
use speedwell_load::pace::StopCondition;
use speedwell_machine::process;
use speedwell_model::load::run::LoadRun;
use speedwell_model::load::spec::LoadSpec;
use speedwell_remote::fleet::FleetRequest;
use speedwell_remote::load::LoadGenerators;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Options for HTTP loads.
#[derive(Debug, Clone)]
pub struct LoadRequest {
    /// One load per address. A search or a list of levels overrides the concurrency or the rate of
    /// every load.
    pub specs: Vec<LoadSpec>,
    /// How the loads are chosen: as given, at given levels, or by a search.
    pub mode: LoadMode,
    /// Number of loads per address or, with several levels, number of loads per level.
    pub runs: Option<u32>,
    /// Conditions under which a load is treated as failed. A search for a rate rejects each rate at
    /// which a load meets any of them.
    pub conditions: Vec<LoadCondition>,
    /// Seed of every random choice.
    pub seed: u64,
    /// Machines that send the loads; this machine by default.
    pub generators: Option<FleetRequest>,
}

/// How the loads are chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadMode {
    /// No search: send the given loads.
    AsSpecified,
    /// No search: send loads at the given levels of concurrency.
    Levels(Vec<u32>),
    /// Search for the concurrency at which throughput stops growing.
    Concurrency(SearchRequest),
    /// Search for the highest sustainable rate.
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
fn run_one_load(
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

/// Default duration of a visit to a concurrency level. Many short visits tell more than a few long
/// ones, because the spread within a visit does not show how much visits differ.
const CONCURRENCY_TIME: Duration = Duration::from_secs(1);
/// Default duration of a visit to a rate.
const RATE_TIME: Duration = Duration::from_secs(2);
/// Default duration of the warm-up before a visit.
const DEFAULT_WARMUP: Duration = Duration::from_millis(500);

/// Rules for the search for a rate. Rates are in requests per second; the resolution is relative.
const RATE_RULES: RateRules = RateRules { first: 100.0, limit: 10e6, resolution: 0.05 };

/// Searches for the best level or rate, or visits every level in a list.
///
/// # Errors
/// Fails if a load cannot be started.
pub fn run_visits(
    request: &LoadRequest,
    generators: &mut Option<LoadGenerators>,
    runs: &mut Vec<LoadRun>,
    emit: &mut dyn FnMut(LoadEvent<'_>),
) -> anyhow::Result<()> {
    let mut search = LoadSearch { request, generators, runs, emit };
    match &request.mode {
        LoadMode::AsSpecified => Ok(()),
        LoadMode::Levels(levels) => search.visit_levels(levels),
        LoadMode::Concurrency(rules) => search.search_concurrency(rules),
        LoadMode::Rate => search.search_rate(),
    }
}

fn visit_spec(spec: &LoadSpec, level: f64, is_rate: bool) -> LoadSpec {
    let default_time = if is_rate { RATE_TIME } else { CONCURRENCY_TIME };
    LoadSpec {
        rate: is_rate.then_some(level),
        concurrency: if is_rate { spec.concurrency } else { Some(level as u32) },
        time: spec.time.or(Some(default_time)),
        warmup: spec.warmup.or(Some(DEFAULT_WARMUP)),
        ..spec.clone()
    }
}

/// Returns the rules of the search. At the lowest level, every generator thread has one connection
/// with all its streams or pipelined requests in use.
fn concurrency_rules(request: &LoadRequest, search: &SearchRequest) -> SaturationRules {
    let parts = request.specs.first().map(|spec| {
        let streams = spec.streams.or(spec.pipeline);
        [streams, spec.threads, spec.clients]
    });
    let first = parts.iter().flatten().flatten().product();
    search.search_rules(first, SaturationRules::default().limit)
}

struct LoadSearch<'a, 't> {
    request: &'a LoadRequest,
    generators: &'a mut Option<LoadGenerators>,
    runs: &'a mut Vec<LoadRun>,
    emit: &'a mut (dyn FnMut(LoadEvent<'_>) + 't),
}

impl LoadSearch<'_, '_> {
    fn search_concurrency(&mut self, search: &SearchRequest) -> anyhow::Result<()> {
        let rules = concurrency_rules(self.request, search);
        ensure!(
            rules.first <= rules.limit,
            "--concurrency-limit {} is too low: the threads, processes and streams of this load need at \
             least {}\nhint: raise --concurrency-limit",
            rules.limit,
            rules.first
        );
        self.visit_while(|runs| {
            let runs: Vec<&LoadRun> = runs.iter().collect();
            match analysis::load::next_level(&runs, &rules) {
                NextLevel::Visit(level) => Some(f64::from(level)),
                _ => None,
            }
        })
    }

    fn search_rate(&mut self) -> anyhow::Result<()> {
        let conditions = &self.request.conditions;
        self.visit_while(|runs| {
            let runs: Vec<_> = runs.iter().map(analysis::load::analyze_load).collect();
            match analysis::load::next_rate(&runs, conditions, &RATE_RULES) {
                NextRate::Try(rate) => Some(rate),
                _ => None,
            }
        })
    }

    /// For each address, visits the concurrency levels or request rates that `next` returns, until
    /// `next` returns `None`. `next` gets the earlier loads of the address.
    fn visit_while(&mut self, next: impl Fn(&[LoadRun]) -> Option<f64>) -> anyhow::Result<()> {
        for index in 0..self.request.specs.len() {
            let begin = self.runs.len();
            while let Some(level) = next(&self.runs[begin..]) {
                self.run_visit(index, level)?;
                if self.must_stop() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Whether to end the search: after an interrupt, or after a partial load, because further
    /// loads would be partial, too.
    fn must_stop(&self) -> bool {
        process::is_interrupt_requested() || self.runs.last().is_some_and(|run| run.is_partial)
    }

    /// Visits every level of every address once per round. With several rounds, the order within a
    /// round is random.
    fn visit_levels(&mut self, levels: &[u32]) -> anyhow::Result<()> {
        let request = self.request;
        let rounds = request.runs.unwrap_or(SaturationRules::default().visits);
        for turn in plan_turns(request.specs.len() * levels.len(), rounds, request.seed) {
            let (index, level) = (turn.url / levels.len(), levels[turn.url % levels.len()]);
            self.run_visit(index, f64::from(level))?;
            if process::is_interrupt_requested() {
                break;
            }
        }
        Ok(())
    }

    /// Sends one load at a level or rate. Its round is the number of earlier loads at the same
    /// level.
    fn run_visit(&mut self, index: usize, level: f64) -> anyhow::Result<()> {
        let is_rate = self.request.mode == LoadMode::Rate;
        let mut spec = visit_spec(&self.request.specs[index], level, is_rate);
        let label = TargetUrl::parse(&spec.url)?.to_string();
        let is_first = !self.runs.iter().any(|run| run.label == label);
        // Verify a server once. Verify again if each visit starts a server, or follows redirects.
        spec.no_verify |= !(is_first || spec.serve.is_some() || spec.location);
        let emit = &mut *self.emit;
        let mut run = run_one_load(
            &spec,
            self.generators,
            stop_condition(&spec),
            self.request.seed,
            &mut |event| match event {
                LoadEvent::Notice(LoadNotice::Probed(..)) if !is_first => {}
                event => emit(event),
            },
        )?;
        // Redirects change the address, so label the load with the typed address.
        run.label = label;
        let is_same_level = |other: &&LoadRun| {
            other.label == run.label && other.requested.pace == run.requested.pace
        };
        run.round = self.runs.iter().filter(is_same_level).count() as u32;
        run.slot = self.runs.len() as u32;
        (self.emit)(LoadEvent::Visited(level, run.measured.throughput()));
        self.runs.push(run);
        Ok(())
    }
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
