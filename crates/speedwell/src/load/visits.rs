//! Sends loads at several levels of concurrency or at several rates.
//!
//! A visit is a load at one level or rate. The levels come from a list, or `analysis` picks the
//! next level or rate. Start at [`run_visits`].

use super::rounds::{LoadEvent, LoadMode, LoadRequest, plan_turns, run_one_load};
use anyhow::ensure;
use speedwell_analysis as analysis;
use speedwell_analysis::load::{NextRate, RateRules};
use speedwell_analysis::scaling::{NextLevel, SaturationRules};
use speedwell_engine::SearchRequest;
use speedwell_engine::execution::load::{LoadNotice, LoadRun, TargetUrl, stop_condition};
use speedwell_machine::process;
use speedwell_model::load::spec::LoadSpec;
use speedwell_remote::load::LoadGenerators;
use std::time::Duration;

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
