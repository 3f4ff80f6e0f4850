//! Sends loads at several levels of concurrency or several rates, and judges them together.
//!
//! A visit is a load at one level or rate. The levels come from a list, or `analysis` picks the next
//! level or rate. This module also decides which options conflict with a search, and which of its
//! loads must meet the limits of `--fail-on`.

use crate::load::live::{LoadSender, print_level};
use crate::options::{Concurrency, LoadArgs, LoadMode, LoadRequest, load_mode, plan_turns};
use crate::status::CommandStatus;
use anyhow::{bail, ensure};
use speedwell_analysis as analysis;
use speedwell_analysis::load::{LoadFindings, RateRules};
use speedwell_analysis::scaling::SaturationRules;
use speedwell_engine::SearchRequest;
use speedwell_engine::execution::load::{LoadRun, TargetUrl, stop_condition};
use speedwell_machine::process;
use speedwell_model::load::spec::{LoadClient, LoadSpec};
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
fn concurrency_rules(request: &LoadRequest<'_>, search: &SearchRequest) -> SaturationRules {
    let parts = request.specs.first().map(|spec| {
        let streams = spec.streams.or(spec.pipeline);
        [streams, spec.threads, spec.clients]
    });
    let first = parts.iter().flatten().flatten().product();
    search.search_rules(first, SaturationRules::default().limit)
}

/// Searches for the best level or rate, or visits every level in a list. Adds the loads to `runs`.
///
/// # Errors
/// Fails if a load cannot be started.
pub fn run_visits(
    request: &LoadRequest<'_>,
    runs: &mut Vec<LoadRun>,
    sender: &mut LoadSender<'_, '_>,
) -> anyhow::Result<()> {
    let mut search = LoadSearch { request, runs, sender };
    match &request.mode {
        LoadMode::AsSpecified => Ok(()),
        LoadMode::Levels(levels) => search.visit_levels(levels),
        LoadMode::Concurrency(rules) => search.search_concurrency(rules),
        LoadMode::Rate => search.search_rate(),
    }
}

struct LoadSearch<'a, 's, 'r> {
    request: &'a LoadRequest<'a>,
    runs: &'a mut Vec<LoadRun>,
    sender: &'a mut LoadSender<'s, 'r>,
}

impl LoadSearch<'_, '_, '_> {
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
            analysis::load::next_level(&runs, &rules).map(f64::from)
        })
    }

    fn search_rate(&mut self) -> anyhow::Result<()> {
        let conditions = &self.request.args.fail_on;
        self.visit_while(|runs| {
            let runs: Vec<_> = runs.iter().map(analysis::load::analyze_load).collect();
            analysis::load::next_rate(&runs, conditions, &RATE_RULES)
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
        let rounds = request.args.runs.unwrap_or(SaturationRules::default().visits);
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
        let mut run = self.sender.send_load(&spec, stop_condition(&spec), is_first)?;
        print_level(self.request.args, level, run.measured.throughput());
        // Redirects change the address, so label the load with the typed address.
        run.label = label;
        let is_same_level = |other: &&LoadRun| {
            other.label == run.label && other.requested.pace == run.requested.pace
        };
        run.round = self.runs.iter().filter(is_same_level).count() as u32;
        run.slot = self.runs.len() as u32;
        self.runs.push(run);
        Ok(())
    }
}

/// Rejects options that conflict with a search, or with several levels of concurrency.
///
/// # Errors
/// Fails if there are such options.
pub fn check_search(args: &LoadArgs) -> anyhow::Result<()> {
    let mode = load_mode(args);
    let options = &args.search;
    ensure!(
        matches!(mode, LoadMode::Concurrency(_))
            || (options.step, options.patience, options.concurrency_limit) == (None, None, None),
        "--step, --patience and --concurrency-limit apply only to a search for the best \
         concurrency\nhint: add -c max"
    );
    if mode == LoadMode::AsSpecified {
        return Ok(());
    }
    if mode != LoadMode::Rate && (args.rate.is_some() || !args.spec.ramp.is_empty()) {
        bail!(
            "--rate and --ramp send requests on a schedule, so they cannot be combined with -c max \
             or several levels of concurrency\nhint: with a single number, -c sets the initial \
             connections"
        );
    }
    if mode == LoadMode::Rate {
        let is_single =
            !matches!(&args.concurrency, Some(Concurrency::Levels(levels)) if levels.len() > 1);
        ensure!(
            is_single && args.concurrency != Some(Concurrency::Max),
            "--rate max cannot be combined with several levels of concurrency"
        );
        ensure!(
            args.spec.ramp.is_empty(),
            "--rate max tries constant rates and cannot be combined with --ramp"
        );
        ensure!(
            args.runs.is_none(),
            "--rate max determines how often each rate is tried, so --runs has no effect"
        );
    }
    ensure!(
        args.spec.count.is_none(),
        "every level or rate is measured for the same time, so --count has no effect\nhint: -t 2s sets this time"
    );
    ensure!(
        args.spec.client == LoadClient::Builtin,
        "several levels or rates can be measured only with the builtin client: other tools do \
         not report whether they reached the level"
    );
    Ok(())
}

/// Returns the exit status of a search, or of loads at several levels.
pub fn search_status(request: &LoadRequest<'_>, runs: &[LoadRun]) -> CommandStatus {
    let has_no_success = runs.iter().all(|run| run.measured.totals.outcomes.succeeded() == 0);
    let is_any_partial = runs.iter().any(|run| run.is_partial);
    // A search for a rate has no answer if the load generator was the bottleneck.
    let is_generator_limited = || {
        let loads: Vec<LoadFindings> = runs.iter().map(analysis::load::analyze_load).collect();
        let rates = analysis::load::group_by_rate(&loads, &request.args.fail_on);
        rates.iter().any(|rates| rates.refused_at.is_some())
    };
    let is_limited = request.mode == LoadMode::Rate && is_generator_limited();
    let has_failed = has_no_success || is_any_partial || is_limited;
    if has_failed { CommandStatus::FAILED } else { CommandStatus::DONE }
}

/// Whether the limits of `--fail-on` apply to this load. Without a search, they apply to all loads.
/// A search for the highest rate uses them itself, so they apply to none of its loads. In a search
/// for the best concurrency, they apply to the loads at the best concurrency, or to all loads if
/// the search found none.
pub fn limits_apply(
    mode: &LoadMode,
    findings: &[LoadFindings<'_>],
    load: &LoadFindings<'_>,
) -> bool {
    if !matches!(mode, LoadMode::Concurrency(_)) {
        return *mode != LoadMode::Rate;
    }
    let levels = analysis::load::group_by_level(findings);
    let matching = levels.iter().find(|levels| levels.label == load.run.label);
    let scaling = matching.and_then(|levels| levels.scaling.as_ref());
    let knee = scaling.map(|scaling| scaling.answer.at_knee().concurrency);
    knee.is_none() || load.run.requested.concurrency() == knee
}
