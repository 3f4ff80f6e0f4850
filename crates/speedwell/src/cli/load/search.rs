//! Loads of several levels of concurrency or of several rates: `-c max`, `-c 1,2,4`, `--rate max`.
//!
//! It carries out one visit after the other, as the analysis says or as a list says, and tells what came of
//! each. Which level is next is decided in `analysis`. Start at [`run`].

use super::live::LiveView;
use super::order;
use super::{conclude, tell};
use crate::analysis;
use crate::analysis::load::{LoadFindings, NextRate, RateRules};
use crate::analysis::scaling::{Next, Rules};
use crate::cli::options::{Concurrency, LoadArgs, RateChoice};
use crate::cli::{Status, status};
use crate::model::load_spec::{Client, LoadSpec};
use crate::process;
use crate::report::{self, Uncertainty};
use crate::runner::load::{LoadRun, Notice, Url, carry_out, stop};
use anyhow::{bail, ensure};
use std::time::Duration;

/// How long a visit lasts, and its warm-up, when nothing else is said. Many short visits tell more than
/// few long ones: a visit's own spread does not show how much visits differ.
const CONCURRENCY_TIME: Duration = Duration::from_secs(1);
const RATE_TIME: Duration = Duration::from_secs(2);
const WARMUP: Duration = Duration::from_millis(500);

/// The first rate, the highest, and how exactly the answer is to be known.
const RATES: RateRules = RateRules {
    first: 100.0,
    limit: 10e6,
    resolution: 0.05,
};

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// Where throughput stops growing.
    Concurrency,
    /// The highest rate that is kept.
    Rate,
    /// Nothing: the levels are given.
    List,
}

/// What the words ask for, if it is more than one load of each address.
fn wish(args: &LoadArgs) -> Option<Wish> {
    match (&args.pace.concurrency, args.pace.rate) {
        (_, Some(RateChoice::Max)) => Some(Wish::Rate),
        _ if args.search.squeeze => Some(Wish::Concurrency),
        (Some(Concurrency::Max), _) => Some(Wish::Concurrency),
        (Some(Concurrency::Levels(levels)), _) if levels.len() > 1 => Some(Wish::List),
        _ => None,
    }
}

/// Whether several levels or rates are asked for.
pub fn is_asked_for(args: &LoadArgs) -> bool {
    wish(args).is_some()
}

/// The load of one visit, which has one level or rate.
fn visit_spec(args: &LoadArgs, at: usize, level: f64) -> LoadSpec {
    let spec = args.spec(at);
    let is_rate = args.pace.rate.is_some();
    let usual = if is_rate { RATE_TIME } else { CONCURRENCY_TIME };
    LoadSpec {
        rate: is_rate.then_some(level),
        concurrency: if is_rate {
            spec.concurrency
        } else {
            Some(level as u32)
        },
        time: spec.time.or(Some(usual)),
        warmup: spec.warmup.or(Some(WARMUP)),
        ..spec
    }
}

/// What contradicts a search.
///
/// # Errors
/// Options that do.
pub fn check(args: &LoadArgs) -> anyhow::Result<()> {
    let wish = wish(args);
    let options = &args.search;
    ensure!(
        wish == Some(Wish::Concurrency)
            || (options.step, options.patience, options.concurrency_limit) == (None, None, None),
        "--step, --patience and --concurrency-limit are for a search of the concurrency\nhint: -c max"
    );
    let Some(wish) = wish else {
        return Ok(());
    };
    let pace = &args.pace;
    let is_open = pace.rate.is_some() || !pace.ramp.is_empty();
    if wish != Wish::Rate && is_open {
        bail!(
            "with --rate and --ramp the server does not decide how many requests are under way, so there \
             are no levels of concurrency\nhint: -c with one number is then the connections at the \
             beginning"
        );
    }
    if wish == Wish::Rate {
        let is_single =
            !matches!(&pace.concurrency, Some(Concurrency::Levels(levels)) if levels.len() > 1);
        ensure!(
            is_single && pace.concurrency != Some(Concurrency::Max),
            "--rate max and several levels of concurrency cannot be looked for at once"
        );
        ensure!(
            pace.ramp.is_empty(),
            "--rate max tries constant rates, so --ramp has no place in it"
        );
        ensure!(
            args.runs.is_none(),
            "--rate max decides by itself how often a rate is tried, so --runs has no meaning"
        );
    }
    ensure!(
        pace.count.is_none(),
        "visits of several levels last equally long, so --count has no meaning\nhint: -t 2s"
    );
    ensure!(
        args.generator.client == Client::Builtin,
        "several levels or rates need the builtin client: what other tools print does not tell whether the \
         level was kept"
    );
    Ok(())
}

/// Searches or goes through a list, address by address, and tells what came of it.
///
/// # Errors
/// Nothing could be measured.
pub fn run(args: &LoadArgs, seed: u64) -> anyhow::Result<Status> {
    let Some(wish) = wish(args) else {
        bail!("there are no several levels to load");
    };
    let mut runs: Vec<LoadRun> = Vec::new();
    let ended = match wish {
        Wish::Concurrency => climb(args, seed, &mut runs),
        Wish::Rate => rates(args, seed, &mut runs),
        Wish::List => list(args, seed, &mut runs),
    };
    let interrupted = match process::interrupted() {
        true => Status::INTERRUPTED,
        false => Status::DONE,
    };
    let status = match ended {
        Ok(()) => interrupted,
        Err(error) if runs.is_empty() => return Err(error),
        Err(error) => {
            status::tell(&error);
            interrupted.or(Status::COULD_NOT)
        }
    };
    Ok(status.or(finish(args, wish, &runs, seed)?))
}

fn climb(args: &LoadArgs, seed: u64, runs: &mut Vec<LoadRun>) -> anyhow::Result<()> {
    let rules = rules(args);
    ensure!(
        rules.first <= rules.limit,
        "--concurrency-limit {} is less than the {} that threads, processes and streams need\n\
         hint: a greater --concurrency-limit",
        rules.limit,
        rules.first
    );
    for at in 0..args.urls.len() {
        let begin = runs.len();
        loop {
            let own: Vec<&LoadRun> = runs[begin..].iter().collect();
            let Next::Visit(level) = analysis::load::next(&own, &rules) else {
                break;
            };
            visit(args, at, f64::from(level), seed, runs)?;
            // What did not last to its end would be asked for again.
            if process::interrupted() || runs.last().is_some_and(|run| run.is_partial) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Every level must be divisible among threads and processes, and fill the streams of a connection.
fn rules(args: &LoadArgs) -> Rules {
    let usual = Rules::default();
    let lanes = args.connection.streams.or(args.connection.pipeline);
    let parts = [lanes, args.generator.threads, args.generator.clients];
    let visits = args.runs.unwrap_or(usual.visits);
    Rules {
        first: parts.iter().flatten().product(),
        step: args.search.step,
        limit: args.search.concurrency_limit.unwrap_or(usual.limit),
        patience: args.search.patience.unwrap_or(usual.patience),
        visits,
        most_visits: usual.most_visits.max(visits),
    }
}

fn rates(args: &LoadArgs, seed: u64, runs: &mut Vec<LoadRun>) -> anyhow::Result<()> {
    for at in 0..args.urls.len() {
        let begin = runs.len();
        loop {
            let own: Vec<_> = runs[begin..].iter().map(analysis::load::of).collect();
            let NextRate::Try(rate) = analysis::load::next_rate(&own, &args.fail_on, &RATES) else {
                break;
            };
            visit(args, at, rate, seed, runs)?;
            if process::interrupted() || runs.last().is_some_and(|run| run.is_partial) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The levels of a list, in rounds of shuffled order over levels and addresses.
fn list(args: &LoadArgs, seed: u64, runs: &mut Vec<LoadRun>) -> anyhow::Result<()> {
    let Some(Concurrency::Levels(levels)) = args.pace.concurrency.clone() else {
        return Ok(());
    };
    let rounds = args.runs.unwrap_or(Rules::default().visits);
    for turn in order::turns(args.urls.len() * levels.len(), rounds, seed) {
        let (at, level) = (turn.url / levels.len(), levels[turn.url % levels.len()]);
        visit(args, at, f64::from(level), seed, runs)?;
        if process::interrupted() {
            break;
        }
    }
    Ok(())
}

/// One load of a level or rate. Its round is the number of loads of the same before it.
fn visit(
    args: &LoadArgs,
    at: usize,
    level: f64,
    seed: u64,
    runs: &mut Vec<LoadRun>,
) -> anyhow::Result<()> {
    let mut spec = visit_spec(args, at, level);
    let label = Url::parse(&spec.url)?.to_string();
    let is_first = !runs.iter().any(|run| run.label == label);
    // The server was seen once, unless it is a new one each time.
    spec.no_verify |= !(is_first || spec.serve.is_some() || spec.location);
    let mut live = LiveView::new(args.output.progress(), stop(&spec));
    let mut run = carry_out(&spec, seed, &mut |notice| match notice {
        Notice::Seen(..) if !is_first => {}
        Notice::Standing(glimpse) => live.show(glimpse),
        notice => tell(args, &notice),
    })?;
    drop(live);
    // Redirects lead away; what was typed is what it is known by.
    run.label = label;
    let same = |other: &&LoadRun| other.label == run.label && other.asked.pace == run.asked.pace;
    (run.round, run.slot) = (runs.iter().filter(same).count() as u32, runs.len() as u32);
    tell_visit(args, level, &run);
    runs.push(run);
    Ok(())
}

fn tell_visit(args: &LoadArgs, level: f64, run: &LoadRun) {
    if args.output.progress() {
        let figure = |value: f64| report::quantity(value, "1/s", Uncertainty::Unknown);
        let given = run
            .measured
            .throughput()
            .map_or("nothing".to_owned(), figure);
        status::note(&match args.pace.rate {
            Some(_) => format!("rate {}: {given}", figure(level)),
            None => format!("concurrency {level}: {given}"),
        });
    }
}

/// Keeps and reports a search. Limits are held against its answer, not against levels that were tried to
/// find it.
fn finish(args: &LoadArgs, wish: Wish, runs: &[LoadRun], seed: u64) -> anyhow::Result<Status> {
    let decides =
        |all: &[LoadFindings], load: &LoadFindings| wish != Wish::Rate && decides(wish, all, load);
    let status = conclude(args, runs, seed, decides)?;
    let nothing = runs
        .iter()
        .all(|run| run.measured.account.books.succeeded() == 0);
    let partial = runs.iter().any(|run| run.is_partial);
    let refused = wish == Wish::Rate && is_refused(args, runs);
    Ok(match nothing || partial || refused {
        true => status.or(Status::COULD_NOT),
        false => status,
    })
}

/// Whether the generator was the limit, so that there is no answer.
fn is_refused(args: &LoadArgs, runs: &[LoadRun]) -> bool {
    let loads: Vec<LoadFindings> = runs.iter().map(analysis::load::of).collect();
    let rates = analysis::load::rates(&loads, &args.fail_on);
    rates.iter().any(|rates| rates.refused_at.is_some())
}

/// Whether a load is one of those that limits are held against.
fn decides(wish: Wish, all: &[LoadFindings<'_>], load: &LoadFindings<'_>) -> bool {
    if wish != Wish::Concurrency {
        return wish == Wish::List;
    }
    let levels = analysis::load::levels(all);
    let own = levels.iter().find(|levels| levels.label == load.run.label);
    let scaling = own.and_then(|levels| levels.scaling.as_ref());
    let knee = scaling.map(|scaling| scaling.answer.at_knee().concurrency);
    knee.is_none() || load.run.asked.concurrency() == knee
}
