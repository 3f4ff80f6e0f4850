//! Loads of several rates: which of them the server kept, and which rate is tried next. Start at [`rates`].

use super::findings::LoadFindings;
use super::gate::{self, Condition};
use super::times::Told;
use crate::model::load_run::{LoadRun, PaceFacts};
use speedwell_load::latency::LEAST_ACHIEVED;
use speedwell_stats::ladder::{self, Trial};

pub use ladder::{Answer as RateAnswer, Next as NextRate, Rules as RateRules};

/// Loads of one address at several rates.
#[derive(Debug, Clone)]
pub struct Rates {
    /// What was loaded.
    pub label: String,
    /// The trials, by rate and in the order of their execution.
    pub tries: Vec<RateTry>,
    /// The highest rate that was kept, and the lowest that was not.
    pub answer: RateAnswer,
}

/// One load of a rate.
#[derive(Debug, Clone, PartialEq)]
pub struct RateTry {
    /// Requests per second that were due.
    pub rate: f64,
    /// Share of them that was sent.
    pub sent: f64,
    /// Good answers per second as a share of the rate.
    pub answered: f64,
    /// 50th and 99th percentile of response time in nanoseconds, as far as they are told.
    pub p50_ns: Option<f64>,
    /// See [`RateTry::p50_ns`].
    pub p99_ns: Option<f64>,
    /// Why the rate counts as missed; `None` if it was kept.
    pub missed: Option<Missed>,
}

/// Why a rate counts as missed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missed {
    /// The generator was late by itself: this says nothing of the server.
    Generator,
    /// Fewer than 98 % of the due requests were sent.
    Unsent,
    /// Fewer than 98 % of the due requests were answered well in time.
    Unanswered,
    /// A limit was not kept: its words.
    Limit(String),
}

/// The loads that were carried out at several rates, address by address, held against `conditions`.
pub fn rates(loads: &[LoadFindings<'_>], conditions: &[Condition]) -> Vec<Rates> {
    let mut labels: Vec<&str> = Vec::new();
    for load in loads {
        if !labels.contains(&load.run.label.as_str()) {
            labels.push(&load.run.label);
        }
    }
    let of_label = |label: &&str| {
        let counted = loads.iter().filter(|load| load.run.label == *label);
        let mut tries: Vec<RateTry> = counted
            .filter_map(|load| one_try(load, conditions))
            .collect();
        tries.sort_by(|one, other| one.rate.total_cmp(&other.rate));
        let is_one = tries.first()?.rate == tries.last()?.rate;
        let answer = ladder::answer(&trials(&tries));
        (!is_one).then(|| Rates {
            label: (*label).to_owned(),
            tries,
            answer,
        })
    };
    labels.iter().filter_map(of_label).collect()
}

/// Which rate is tried next.
pub fn next_rate(
    loads: &[LoadFindings<'_>],
    conditions: &[Condition],
    rules: &RateRules,
) -> NextRate {
    let tries = loads.iter().filter_map(|load| one_try(load, conditions));
    ladder::next(&trials(&tries.collect::<Vec<_>>()), rules)
}

fn trials(tries: &[RateTry]) -> Vec<Trial> {
    let trial = |one: &RateTry| Trial {
        rate: one.rate,
        is_kept: one.missed.is_none(),
    };
    tries.iter().map(trial).collect()
}

/// The one constant rate of a load.
fn rate(run: &LoadRun) -> Option<f64> {
    match &run.asked.pace {
        PaceFacts::Open { stages, .. } => match &stages[..] {
            [stage] if stage.from_per_s == stage.to_per_s => Some(stage.to_per_s),
            _ => None,
        },
        PaceFacts::Closed { .. } => None,
    }
}

/// A load as a trial; one that was ended early is none.
fn one_try(load: &LoadFindings<'_>, conditions: &[Condition]) -> Option<RateTry> {
    let rate = rate(load.run)?;
    let verdict = load.open?;
    if load.run.is_partial || load.run.measured.is_interrupted {
        return None;
    }
    let answered = load.throughput_per_s.unwrap_or(0.0) / rate;
    let time = |ppm: u32| {
        let (quantity, group) = load.principal();
        match load.quantile(quantity, group, ppm)? {
            Told::Time(quantile) => Some(quantile.ns as f64),
            Told::Refused(_) => None,
        }
    };
    let missed = match () {
        () if verdict.is_generator_limited() => Some(Missed::Generator),
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
    })
}

/// The first limit that the load does not keep.
fn limit(load: &LoadFindings<'_>, conditions: &[Condition]) -> Option<Missed> {
    let loads = std::slice::from_ref(load);
    let judged = gate::judge(conditions, loads);
    let failed = judged
        .iter()
        .find(|row| row.answer != gate::Answer::Passed)?;
    Some(Missed::Limit(failed.condition.to_string()))
}
