//! Loads at several rates or levels of concurrency: which belong together, which rates the server
//! sustained, what each level showed besides throughput, and what to load next. Start at [`rates`]
//! and [`levels`].

pub use rate_search::{Answer as RateAnswer, Next as NextRate, Rules as RateRules};

use crate::grid::distinct;
use crate::load::LoadFindings;
use crate::load::gate::{self, Condition, Unknown};
use crate::load::remark::{Remark, whole_ticks};
use crate::load::times::{Group, Quantity, Refusal, ReportedTime};
use crate::scaling::{self, Level, Next, Rules, Scaling};
use speedwell_load::latency::LEAST_ACHIEVED;
use speedwell_load::measured::Measured;
use speedwell_model::load_run::{LoadRun, PaceFacts};
use speedwell_stats::rate_search::{self, Trial};

/// Number of attempts at one rate with a late generator that rules out a passing disturbance.
const MOST_LATE: usize = 4;

/// Loads of one target at several rates.
#[derive(Debug, Clone)]
pub struct Rates {
    /// Label of the target.
    pub label: String,
    /// Attempts by rate, then in execution order.
    pub tries: Vec<RateTry>,
    /// Highest rate sustained and lowest rate missed, ignoring attempts with a late generator.
    pub answer: RateAnswer,
    /// Lowest rate that the generator repeatedly failed to send in time. The server may sustain it
    /// and more, so the highest sustained rate is unknown.
    pub refused_at: Option<f64>,
    /// Whether other programs preempted the generator in every attempt at the two rates that bound
    /// the answer. A server on the same machine was affected, too, and may sustain more without
    /// them.
    pub is_disturbed: bool,
}

/// One load at a rate.
#[derive(Debug, Clone, PartialEq)]
pub struct RateTry {
    /// Requests due per second.
    pub rate: f64,
    /// Share of the due requests that was sent.
    pub sent: f64,
    /// Share of the due requests that succeeded in time.
    pub answered: f64,
    /// 50th and 99th percentiles of response time in nanoseconds, if reported.
    pub p50_ns: Option<f64>,
    /// See [`RateTry::p50_ns`].
    pub p99_ns: Option<f64>,
    /// Why the rate counts as missed; `None` if it was sustained.
    pub missed: Option<Missed>,
    /// Whether other programs preempted the generator ([`Remark::Disturbed`]).
    pub is_disturbed: bool,
}

/// Why a rate counts as missed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missed {
    /// The generator itself was late, which says nothing about the server.
    Generator,
    /// Fewer than 98 % of the due requests were sent.
    Unsent,
    /// Fewer than 98 % of the due requests succeeded in time.
    Unanswered,
    /// A limit was not kept; holds the condition.
    Limit(String),
}

/// Groups the loads at constant rates by target and checks them against `conditions`.
pub fn rates(loads: &[LoadFindings<'_>], conditions: &[Condition]) -> Vec<Rates> {
    let labels = distinct(loads.iter().map(|load| load.run.label.as_str()));
    let of_label = |label: &&str| {
        let counted = loads.iter().filter(|load| load.run.label == *label);
        let mut tries: Vec<RateTry> = counted
            .filter_map(|load| one_try(load, conditions))
            .collect();
        tries.sort_by(|one, other| one.rate.total_cmp(&other.rate));
        let is_one = tries.first()?.rate == tries.last()?.rate;
        let answer = rate_search::answer(&trials(&tries));
        let refused_at = refused_at(&tries);
        (!is_one || refused_at.is_some()).then(|| Rates {
            label: (*label).to_owned(),
            is_disturbed: is_disturbed(&tries, answer),
            tries,
            answer,
            refused_at,
        })
    };
    labels.iter().filter_map(of_label).collect()
}

/// Determines the next rate to try.
pub fn next_rate(
    loads: &[LoadFindings<'_>],
    conditions: &[Condition],
    rules: &RateRules,
) -> NextRate {
    let tries = loads.iter().filter_map(|load| one_try(load, conditions));
    let tries: Vec<RateTry> = tries.collect();
    match refused_at(&tries) {
        Some(_) => NextRate::Stop,
        None => rate_search::next(&trials(&tries), rules),
    }
}

/// Trials that describe the server. Attempts with a late generator do not.
fn trials(tries: &[RateTry]) -> Vec<Trial> {
    let trial = |one: &RateTry| Trial {
        rate: one.rate,
        is_kept: one.missed.is_none(),
    };
    let in_time = tries.iter().filter(|one| !is_late(one));
    in_time.map(trial).collect()
}

fn is_late(one: &RateTry) -> bool {
    one.missed == Some(Missed::Generator)
}

/// Whether the rates that bound an answer were disturbed. At a missed rate so many requests are in
/// flight that any preemption affects many of them; at a sustained rate only frequent ones do.
fn is_disturbed(tries: &[RateTry], answer: RateAnswer) -> bool {
    let bounds = [answer.kept.or(answer.missed), answer.missed];
    bounds.iter().all(|bound| {
        bound.is_some_and(|rate| {
            let mut of_rate = tries.iter().filter(|one| one.rate == rate && !is_late(one));
            of_rate.all(|one| one.is_disturbed)
        })
    })
}

/// Lowest rate with enough late attempts of the generator to rule out a passing disturbance.
fn refused_at(tries: &[RateTry]) -> Option<f64> {
    let late_at = |rate: f64| {
        let of_rate = tries.iter().filter(|one| one.rate == rate);
        of_rate.filter(|one| is_late(one)).count()
    };
    let rates = tries.iter().map(|one| one.rate);
    rates
        .filter(|rate| late_at(*rate) >= MOST_LATE)
        .min_by(f64::total_cmp)
}

/// Rate of a load with a single constant rate.
fn rate(run: &LoadRun) -> Option<f64> {
    match &run.requested.pace {
        PaceFacts::Open { stages, .. } => match &stages[..] {
            [stage] if stage.from_per_s == stage.to_per_s => Some(stage.to_per_s),
            _ => None,
        },
        PaceFacts::Closed { .. } => None,
    }
}

/// Converts an open load at a constant rate to an attempt; `None` for other loads, and if it ended
/// early.
fn one_try(load: &LoadFindings<'_>, conditions: &[Condition]) -> Option<RateTry> {
    let rate = rate(load.run)?;
    let verdict = load.open?;
    if load.run.is_partial || load.run.measured.is_interrupted {
        return None;
    }
    let answered = answered(load, rate);
    let time = |ppm: u32| {
        load.principal_quantile(ppm)?
            .longest_ns()
            .map(|ns| ns as f64)
    };
    let tail = load.principal_quantile(990_000);
    let missed = match () {
        () if tail == Some(ReportedTime::Refused(Refusal::GeneratorLimited)) => {
            Some(Missed::Generator)
        }
        () if verdict.is_rate_missed() => Some(Missed::Unsent),
        () if answered < LEAST_ACHIEVED => Some(Missed::Unanswered),
        () => limit(load, conditions),
    };
    Some(RateTry {
        rate,
        sent: verdict.achieved,
        answered,
        p50_ns: time(500_000),
        p99_ns: time(990_000),
        missed,
        is_disturbed: load
            .remarks
            .iter()
            .any(|remark| matches!(remark, Remark::Disturbed { .. })),
    })
}

/// Share of the due requests that succeeded in time. Even if the server keeps up, some requests are
/// still in flight when a load ends: those due within the shortest service time, which a queue does
/// not lengthen, and the one due at the end.
fn answered(load: &LoadFindings<'_>, rate: f64) -> f64 {
    let least = load.spread(Quantity::Service, Group::Ok);
    let least_s = least.map_or(0.0, |spread| spread.least_ns as f64 / 1e9);
    let due = rate * load.run.measured.elapsed_ns as f64 / 1e9;
    let in_time = load.run.measured.ok_in_time as f64;
    if in_time > 0.0 && due > 0.0 {
        ((in_time + 1.0 + rate * least_s) / due).min(1.0)
    } else {
        0.0
    }
}

/// First limit that the load does not keep.
fn limit(load: &LoadFindings<'_>, conditions: &[Condition]) -> Option<Missed> {
    let loads = std::slice::from_ref(load);
    let judged = gate::judge(conditions, loads);
    let failed = judged
        .iter()
        .find(|row| row.answer != gate::Answer::Passed)?;
    match failed.answer {
        // Here the generator's own lateness would decide.
        gate::Answer::Unknown(Unknown::Range | Unknown::Refused(Refusal::GeneratorLimited)) => {
            Some(Missed::Generator)
        }
        _ => Some(Missed::Limit(failed.condition.to_string())),
    }
}

/// Share of failed requests above which the server no longer does the work being counted.
const MOST_FAILED: f64 = 0.01;

/// Number of windows that replace visits if each level was loaded only once.
const WINDOWS: usize = 5;

/// Loads of one target at several levels of concurrency.
#[derive(Debug, Clone)]
pub struct Levels {
    /// Label of the target.
    pub label: String,
    /// Levels in ascending order, including spoilt ones.
    pub passes: Vec<Pass>,
    /// Joint result; `None` if no level counts.
    pub scaling: Option<Scaling>,
    /// Whether each level was loaded only once, so that windows stand for visits.
    pub is_windowed: bool,
}

/// All visits at one level.
#[derive(Debug, Clone, PartialEq)]
pub struct Pass {
    /// Requested number of requests in flight.
    pub concurrency: u32,
    /// Number of loads at this level.
    pub visits: usize,
    /// Successful requests per second, averaged over visits.
    pub throughput_per_s: f64,
    /// Median over visits of the median and 99th percentile of service time, in nanoseconds.
    pub p50_ns: Option<f64>,
    /// See [`Pass::p50_ns`].
    pub p99_ns: Option<f64>,
    /// Mean number of requests in flight.
    pub effective: Option<f64>,
    /// Number of failed requests and of all requests.
    pub failed: (u64, u64),
    /// Share of the time that the busiest thread of the generator was busy.
    pub busiest: f64,
    /// Whether threads of the generator were so busy that they may have limited the load.
    pub is_generator_bound: bool,
    /// Whether so many requests failed that the level does not count; the search ended below it.
    pub is_spoilt: bool,
}

/// Groups the loads at several levels of concurrency by target.
pub fn levels(loads: &[LoadFindings<'_>]) -> Vec<Levels> {
    let labels = distinct(loads.iter().map(|load| load.run.label.as_str()));
    let of_label = |label: &&str| {
        let counted = |load: &&LoadFindings<'_>| load.run.label == *label && is_whole(load.run);
        let loads: Vec<&LoadFindings<'_>> = loads.iter().filter(counted).collect();
        let numbers = numbers(loads.iter().map(|load| load.run));
        if numbers.len() < 2 {
            return None;
        }
        let runs: Vec<&LoadRun> = loads.iter().map(|load| load.run).collect();
        let levels = throughputs(&runs);
        Some(Levels {
            label: (*label).to_owned(),
            passes: numbers.iter().map(|number| pass(*number, &loads)).collect(),
            scaling: scaling::scaling(&levels),
            is_windowed: runs.len() == numbers.len(),
        })
    };
    labels.iter().filter_map(of_label).collect()
}

/// Determines the next level to load for a target.
pub fn next(runs: &[&LoadRun], rules: &Rules) -> Next {
    scaling::next(&throughputs(runs), rules)
}

/// Whether a load ran to its end; otherwise it says nothing about its level.
fn is_whole(run: &LoadRun) -> bool {
    !run.is_partial && !run.measured.is_interrupted
}

fn numbers<'a>(runs: impl Iterator<Item = &'a LoadRun>) -> Vec<u32> {
    let mut numbers: Vec<u32> = runs.filter_map(|run| run.requested.concurrency()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn throughputs(runs: &[&LoadRun]) -> Vec<Level> {
    let whole: Vec<&LoadRun> = runs.iter().copied().filter(|run| is_whole(run)).collect();
    let numbers = numbers(whole.iter().copied());
    let is_windowed = whole.len() == numbers.len();
    let level = |number: &u32| {
        let of_level = whole
            .iter()
            .filter(|run| run.requested.concurrency() == Some(*number));
        let mut level = Level {
            concurrency: *number,
            ..Level::default()
        };
        for run in of_level {
            level.is_spoilt |= is_spoilt(&run.measured);
            if is_windowed {
                level.throughputs.extend(windows(&run.measured))
            } else {
                level.throughputs.extend(run.measured.throughput())
            }
        }
        level
    };
    numbers.iter().map(level).collect()
}

fn is_spoilt(measured: &Measured) -> bool {
    let counts = &measured.totals.outcomes;
    counts.all_errors() as f64 > MOST_FAILED * counts.attempts() as f64
}

/// Successful requests per second in windows of equal length after the warm-up; the whole load if
/// it is too short.
fn windows(measured: &Measured) -> Vec<f64> {
    let ticks = whole_ticks(measured);
    let length = ticks.len() / WINDOWS;
    if length == 0 {
        return measured.throughput().into_iter().collect();
    }
    let seconds = length as f64 * measured.timeline.interval_ns as f64 / 1e9;
    let windows = ticks.chunks_exact(length).take(WINDOWS);
    windows
        .map(|window| window.iter().map(|tick| tick.ok).sum::<u64>() as f64 / seconds)
        .collect()
}

fn pass(concurrency: u32, loads: &[&LoadFindings<'_>]) -> Pass {
    let of_level =
        |load: &&&LoadFindings<'_>| load.run.requested.concurrency() == Some(concurrency);
    let loads: Vec<&LoadFindings<'_>> = loads.iter().filter(of_level).copied().collect();
    let mean = |of: &dyn Fn(&LoadFindings<'_>) -> Option<f64>| {
        let values: Vec<f64> = loads.iter().filter_map(|load| of(load)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let counts = loads.iter().map(|load| &load.run.measured.totals.outcomes);
    let failed = counts.fold((0, 0), |(failed, all), counts| {
        (failed + counts.all_errors(), all + counts.attempts())
    });
    let busiest = loads.iter().map(|load| load.generator.busiest);
    let bound = |load: &&&LoadFindings<'_>| load.generator.bottlenecks > 0;
    Pass {
        concurrency,
        visits: loads.len(),
        throughput_per_s: mean(&|load| load.throughput_per_s).unwrap_or(0.0),
        p50_ns: median_time(&loads, 500_000),
        p99_ns: median_time(&loads, 990_000),
        effective: mean(&|load| load.concurrency.effective),
        failed,
        busiest: busiest.fold(0.0, f64::max),
        is_generator_bound: 2 * loads.iter().filter(bound).count() > loads.len(),
        is_spoilt: loads.iter().any(|load| is_spoilt(&load.run.measured)),
    }
}

/// Median over visits of a quantile, given in millionths.
fn median_time(loads: &[&LoadFindings<'_>], ppm: u32) -> Option<f64> {
    let times = loads
        .iter()
        .filter_map(|load| load.principal_quantile(ppm)?.longest_ns());
    let times: Vec<f64> = times.map(|ns| ns as f64).collect();
    (!times.is_empty()).then(|| speedwell_stats::describe::median(&times))
}
