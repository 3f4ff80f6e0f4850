//! Groups loads by their rate or by their level of concurrency. Decides which rates the server
//! sustained, summarizes each level, and chooses the next rate or level. Start at [`group_by_rate`]
//! and [`group_by_level`].

pub use rate_search::{RateSearchAnswer as RateAnswer, RateSearchRules as RateRules};

use crate::grid::distinct_items;
use crate::load::gate::{self, LoadCondition, UnknownReason};
use crate::load::remarks::complete_ticks;
use crate::load::{
    LoadFindings, LoadRemark, ReportedTime, RequestGroup, TimeRefusal, TimedQuantity,
};
use crate::scaling::{self, ConcurrencyLevel, SaturationRules, ScalingFindings};
use speedwell_model::load::latency::MIN_ACHIEVED_SHARE;
use speedwell_model::load::measurement::{LoadMeasurement, LoadRun, PaceFacts};
use speedwell_stats::rate_search::{self, RateTrial};

/// If the generator was late in this many attempts at one rate, the cause was not a passing
/// disturbance.
const MAX_LATE_ATTEMPTS: usize = 4;

/// Loads of one target at several rates.
#[derive(Debug, Clone)]
pub struct RateSeries {
    /// Label of the target.
    pub label: String,
    /// Attempts in ascending order of rate. Attempts at the same rate are in execution order.
    pub tries: Vec<RateAttempt>,
    /// Highest rate sustained and lowest rate missed, ignoring attempts with a late generator.
    pub answer: RateAnswer,
    /// Lowest rate at which the generator was repeatedly late. The server may sustain this rate and
    /// more, so the highest sustained rate is unknown.
    pub refused_at: Option<f64>,
    /// Whether other programs preempted the generator in every attempt at the two rates that bound
    /// the answer. A server on the same machine was affected too, and may sustain more without
    /// those programs.
    pub is_disturbed: bool,
}

/// One load at a rate.
#[derive(Debug, Clone, PartialEq)]
pub struct RateAttempt {
    /// Requests due per second.
    pub rate: f64,
    /// Fraction of the due requests that was sent.
    pub sent: f64,
    /// Fraction of the due requests that succeeded in time.
    pub answered: f64,
    /// Median response time in nanoseconds, if reported.
    pub p50_ns: Option<f64>,
    /// 99th percentile of response time in nanoseconds, if reported.
    pub p99_ns: Option<f64>,
    /// Why the rate counts as missed; `None` if it was sustained.
    pub missed: Option<MissedReason>,
    /// Whether other programs preempted the generator ([`LoadRemark::Disturbed`]).
    pub is_disturbed: bool,
}

/// Why a rate counts as missed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MissedReason {
    /// The generator itself was late, so it is unknown whether the server sustains the rate.
    Generator,
    /// Fewer than 98% of the due requests were sent.
    Unsent,
    /// Fewer than 98% of the due requests succeeded in time.
    Unanswered,
    /// The load failed a condition, or the condition could not be judged. Contains the text of the
    /// condition.
    Limit(String),
}

/// Groups the loads at constant rates by target and checks them against `conditions`.
pub fn group_by_rate(loads: &[LoadFindings<'_>], conditions: &[LoadCondition]) -> Vec<RateSeries> {
    let labels = distinct_items(loads.iter().map(|load| load.run.label.as_str()));
    let series_of_label = |label: &&str| {
        let loads_of_label = loads.iter().filter(|load| load.run.label == *label);
        let mut tries: Vec<RateAttempt> =
            loads_of_label.filter_map(|load| rate_attempt(load, conditions)).collect();
        tries.sort_by(|one, other| one.rate.total_cmp(&other.rate));
        let has_one_rate = tries.first()?.rate == tries.last()?.rate;
        let answer = rate_search::search_answer(&server_trials(&tries));
        let refused_at = rate_refused_at(&tries);
        (!has_one_rate || refused_at.is_some()).then(|| RateSeries {
            label: (*label).to_owned(),
            is_disturbed: is_disturbed(&tries, answer),
            tries,
            answer,
            refused_at,
        })
    };
    labels.iter().filter_map(series_of_label).collect()
}

/// Determines the next rate to try.
pub fn next_rate(
    loads: &[LoadFindings<'_>],
    conditions: &[LoadCondition],
    rules: &RateRules,
) -> Option<f64> {
    let tries = loads.iter().filter_map(|load| rate_attempt(load, conditions));
    let tries: Vec<RateAttempt> = tries.collect();
    match rate_refused_at(&tries) {
        Some(_) => None,
        None => rate_search::next_rate(&server_trials(&tries), rules),
    }
}

/// Attempts that test the server. Leaves out attempts in which the generator was late, because they
/// only show the limit of the generator.
fn server_trials(tries: &[RateAttempt]) -> Vec<RateTrial> {
    let trial =
        |attempt: &RateAttempt| RateTrial { rate: attempt.rate, is_kept: attempt.missed.is_none() };
    let in_time = tries.iter().filter(|attempt| !is_late(attempt));
    in_time.map(trial).collect()
}

fn is_late(attempt: &RateAttempt) -> bool {
    attempt.missed == Some(MissedReason::Generator)
}

/// Whether every attempt at the rates that bound an answer was disturbed. At a missed rate, any
/// preemption affects many requests, because many are in flight. At a sustained rate, only frequent
/// preemptions affect many.
fn is_disturbed(tries: &[RateAttempt], answer: RateAnswer) -> bool {
    let bounds = [answer.kept.or(answer.missed), answer.missed];
    bounds.iter().all(|bound| {
        bound.is_some_and(|rate| {
            let mut attempts_at_rate =
                tries.iter().filter(|attempt| attempt.rate == rate && !is_late(attempt));
            attempts_at_rate.all(|attempt| attempt.is_disturbed)
        })
    })
}

/// Lowest rate at which the generator was late often enough to rule out a passing disturbance.
fn rate_refused_at(tries: &[RateAttempt]) -> Option<f64> {
    let late_at = |rate: f64| {
        let attempts_at_rate = tries.iter().filter(|attempt| attempt.rate == rate);
        attempts_at_rate.filter(|attempt| is_late(attempt)).count()
    };
    let rates = tries.iter().map(|attempt| attempt.rate);
    rates.filter(|rate| late_at(*rate) >= MAX_LATE_ATTEMPTS).min_by(f64::total_cmp)
}

/// Rate of a load with a single constant rate.
fn constant_rate(run: &LoadRun) -> Option<f64> {
    let PaceFacts::Open { stages, .. } = &run.requested.pace else { return None };
    let [stage] = &stages[..] else { return None };
    (stage.from_per_s == stage.to_per_s).then_some(stage.to_per_s)
}

/// Converts an open load at a constant rate to an attempt; `None` for other loads and for loads
/// that ended early.
fn rate_attempt(load: &LoadFindings<'_>, conditions: &[LoadCondition]) -> Option<RateAttempt> {
    let rate = constant_rate(load.run)?;
    let verdict = load.open?;
    if load.run.is_partial || load.run.measured.is_interrupted {
        return None;
    }
    let answered = answered_share(load, rate);
    let time = |ppm: u32| load.principal_quantile(ppm)?.longest_ns().map(|ns| ns as f64);
    let tail = load.principal_quantile(990_000);
    let missed = match () {
        () if tail == Some(ReportedTime::Refused(TimeRefusal::GeneratorLimited)) => {
            Some(MissedReason::Generator)
        }
        () if verdict.is_rate_missed() => Some(MissedReason::Unsent),
        () if answered < MIN_ACHIEVED_SHARE => Some(MissedReason::Unanswered),
        () => missed_limit(load, conditions),
    };
    Some(RateAttempt {
        rate,
        sent: verdict.achieved,
        answered,
        p50_ns: time(500_000),
        p99_ns: time(990_000),
        missed,
        is_disturbed: load.remarks.iter().any(|remark| matches!(remark, LoadRemark::Disturbed(_))),
    })
}

/// Fraction of the due requests that succeeded in time. Some requests are in flight when a load
/// ends, even if the server keeps up: the last request, and those due so late that even the
/// shortest service time exceeds the remaining time. These requests count as answered.
fn answered_share(load: &LoadFindings<'_>, rate: f64) -> f64 {
    let service_times = load.times_of((TimedQuantity::Service, RequestGroup::Ok));
    let fastest_s = service_times.map_or(0.0, |times| times.least_ns as f64 / 1e9);
    let due = rate * load.run.measured.elapsed_ns as f64 / 1e9;
    let in_time = load.run.measured.ok_in_time as f64;
    if in_time > 0.0 && due > 0.0 {
        ((in_time + 1.0 + rate * fastest_s) / due).min(1.0)
    } else {
        0.0
    }
}

/// Names the first condition that the load fails or that cannot be judged; `None` if the load
/// passes all conditions.
fn missed_limit(load: &LoadFindings<'_>, conditions: &[LoadCondition]) -> Option<MissedReason> {
    let loads = std::slice::from_ref(load);
    let judged = gate::judge_conditions(conditions, loads);
    let failed = judged.iter().find(|row| row.answer != gate::ConditionAnswer::Passed)?;
    match failed.answer {
        // The outcome would depend on the generator, not on the server.
        gate::ConditionAnswer::Unknown(
            UnknownReason::Range | UnknownReason::Refused(TimeRefusal::GeneratorLimited),
        ) => Some(MissedReason::Generator),
        _ => Some(MissedReason::Limit(failed.condition.to_string())),
    }
}

/// A level is invalid if more than this fraction of its requests failed: its throughput then does
/// not measure the intended work.
const MAX_FAILED_SHARE: f64 = 0.01;

/// Number of time windows per load if each level was loaded only once. The windows then take the
/// place of repeated loads.
const WINDOW_COUNT: usize = 5;

/// Loads of one target at several levels of concurrency.
#[derive(Debug, Clone)]
pub struct ConcurrencySeries {
    /// Label of the target.
    pub label: String,
    /// Levels in ascending order, including levels with too many failed requests.
    pub passes: Vec<LevelVisits>,
    /// Joint result of all levels; `None` if no level is valid.
    pub scaling: Option<ScalingFindings>,
    /// Whether each level was loaded only once, so that time windows take the place of repeated
    /// loads.
    pub is_windowed: bool,
}

/// All loads ("visits") at one level.
#[derive(Debug, Clone, PartialEq)]
pub struct LevelVisits {
    /// Requested number of requests in flight.
    pub concurrency: u32,
    /// Number of loads at this level.
    pub visits: usize,
    /// Successful requests per second, averaged over these loads.
    pub throughput_per_s: f64,
    /// Median service time, in nanoseconds: the median over the loads at this level.
    pub p50_ns: Option<f64>,
    /// 99th percentile of service time, in nanoseconds: the median over the loads at this level.
    pub p99_ns: Option<f64>,
    /// Mean number of requests in flight.
    pub effective: Option<f64>,
    /// Number of failed requests and of all requests.
    pub failed: (u64, u64),
    /// Fraction of the time that the busiest thread of the generator was busy.
    pub busiest: f64,
    /// Whether, in most of these loads, threads of the generator were so busy that they may have
    /// limited the load.
    pub is_generator_bound: bool,
    /// Whether the level is invalid because of failed requests. The search then tried no higher
    /// level.
    pub is_spoilt: bool,
}

/// Groups the loads at several levels of concurrency by target.
pub fn group_by_level(loads: &[LoadFindings<'_>]) -> Vec<ConcurrencySeries> {
    let labels = distinct_items(loads.iter().map(|load| load.run.label.as_str()));
    let series_of_label = |label: &&str| {
        let is_counted =
            |load: &&LoadFindings<'_>| load.run.label == *label && is_complete(load.run);
        let loads: Vec<&LoadFindings<'_>> = loads.iter().filter(is_counted).collect();
        let numbers = concurrency_numbers(loads.iter().map(|load| load.run));
        if numbers.len() < 2 {
            return None;
        }
        let runs: Vec<&LoadRun> = loads.iter().map(|load| load.run).collect();
        let levels = throughputs_by_level(&runs);
        Some(ConcurrencySeries {
            label: (*label).to_owned(),
            passes: numbers.iter().map(|number| level_visits(*number, &loads)).collect(),
            scaling: scaling::evaluate_scaling(&levels),
            is_windowed: runs.len() == numbers.len(),
        })
    };
    labels.iter().filter_map(series_of_label).collect()
}

/// Determines the next level to load for a target.
pub fn next_level(runs: &[&LoadRun], rules: &SaturationRules) -> Option<u32> {
    scaling::next_level(&throughputs_by_level(runs), rules)
}

/// Whether a load ran to its end. If it did not, its throughput is not used.
fn is_complete(run: &LoadRun) -> bool {
    !run.is_partial && !run.measured.is_interrupted
}

fn concurrency_numbers<'a>(runs: impl Iterator<Item = &'a LoadRun>) -> Vec<u32> {
    let mut numbers: Vec<u32> = runs.filter_map(|run| run.requested.concurrency()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn throughputs_by_level(runs: &[&LoadRun]) -> Vec<ConcurrencyLevel> {
    let complete_runs: Vec<&LoadRun> =
        runs.iter().copied().filter(|run| is_complete(run)).collect();
    let numbers = concurrency_numbers(complete_runs.iter().copied());
    let is_windowed = complete_runs.len() == numbers.len();
    let level = |number: &u32| {
        let runs_of_level =
            complete_runs.iter().filter(|run| run.requested.concurrency() == Some(*number));
        let mut level = ConcurrencyLevel { concurrency: *number, ..ConcurrencyLevel::default() };
        for run in runs_of_level {
            level.is_spoilt |= is_spoilt(&run.measured);
            if is_windowed {
                level.throughputs.extend(window_throughputs(&run.measured))
            } else {
                level.throughputs.extend(run.measured.throughput())
            }
        }
        level
    };
    numbers.iter().map(level).collect()
}

fn is_spoilt(measured: &LoadMeasurement) -> bool {
    let counts = &measured.totals.outcomes;
    counts.all_errors() as f64 > MAX_FAILED_SHARE * counts.attempts() as f64
}

/// Successful requests per second in windows of equal length after the warm-up. A load that is too
/// short for windows counts as one window.
fn window_throughputs(measured: &LoadMeasurement) -> Vec<f64> {
    let ticks = complete_ticks(measured);
    let length = ticks.len() / WINDOW_COUNT;
    if length == 0 {
        return measured.throughput().into_iter().collect();
    }
    let seconds = length as f64 * measured.timeline.interval_ns as f64 / 1e9;
    let windows = ticks.chunks_exact(length).take(WINDOW_COUNT);
    windows.map(|window| window.iter().map(|tick| tick.ok).sum::<u64>() as f64 / seconds).collect()
}

fn level_visits(concurrency: u32, loads: &[&LoadFindings<'_>]) -> LevelVisits {
    let of_level =
        |load: &&&LoadFindings<'_>| load.run.requested.concurrency() == Some(concurrency);
    let loads: Vec<&LoadFindings<'_>> = loads.iter().filter(of_level).copied().collect();
    let mean = |value_of: &dyn Fn(&LoadFindings<'_>) -> Option<f64>| {
        let values: Vec<f64> = loads.iter().filter_map(|load| value_of(load)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let counts = loads.iter().map(|load| &load.run.measured.totals.outcomes);
    let failed = counts.fold((0, 0), |(failed, attempts), counts| {
        (failed + counts.all_errors(), attempts + counts.attempts())
    });
    let busiest = loads.iter().map(|load| load.generator.busiest);
    let bound = |load: &&&LoadFindings<'_>| load.generator.bottlenecks > 0;
    LevelVisits {
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

/// Median over these loads of the quantile `ppm`, which is given in millionths.
fn median_time(loads: &[&LoadFindings<'_>], ppm: u32) -> Option<f64> {
    let times = loads.iter().filter_map(|load| load.principal_quantile(ppm)?.longest_ns());
    let times: Vec<f64> = times.map(|ns| ns as f64).collect();
    (!times.is_empty()).then(|| speedwell_stats::describe::median(&times))
}
