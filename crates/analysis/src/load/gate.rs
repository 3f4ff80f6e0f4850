//! Limits that a load must keep: `p99>200ms` fails a load whose 99th percentile is above 200 ms.
//!
//! A condition names what is bad. A figure that is refused or unknown cannot be shown to be good, so it
//! does not pass. Start at [`judge`]; how conditions are written is decided in [`condition`].

mod condition;
mod reader;

pub use condition::{Condition, Figure, Operator, Statistic};
pub use reader::ConditionError;

use super::findings::LoadFindings;
use super::times::{Group, Quantity, Refusal, Told};
use speedwell_load::latency::Quantile;

/// What a condition says of a load.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged<'a> {
    /// The condition.
    pub condition: &'a Condition,
    /// What the load is called.
    pub load: &'a str,
    /// The quantity that was looked at, if it is a time.
    pub quantity: Option<Quantity>,
    /// The figure in the unit of the limit, if it is known.
    pub value: Option<f64>,
    /// Of a figure that is known to lie between two: the lower one.
    pub low: Option<f64>,
    /// The true figure may be larger.
    pub is_lower_bound: bool,
    /// The answer.
    pub answer: Answer,
}

/// Whether a load passes a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The bad thing is not so.
    Passed,
    /// The bad thing is so.
    Failed,
    /// It cannot be known.
    Unknown(Unknown),
}

/// Why a condition cannot be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// The figure is refused.
    Refused(Refusal),
    /// A closed load has no such time.
    ClosedLoad,
    /// There were no requests that have it.
    NoRequests,
    /// The figure is only known to be at least so long.
    LowerBound,
    /// The limit lies between the bounds of the figure: the generator's own lateness would decide.
    Range,
}

/// Holds every condition against every load.
pub fn judge<'a>(conditions: &'a [Condition], loads: &'a [LoadFindings<'a>]) -> Vec<Judged<'a>> {
    let each = |load: &'a LoadFindings<'a>| {
        conditions
            .iter()
            .map(move |condition| judge_one(condition, load))
    };
    loads.iter().flat_map(each).collect()
}

/// Whether every load passes every condition. What cannot be judged does not pass.
pub fn passes(judged: &[Judged<'_>]) -> bool {
    judged.iter().all(|row| row.answer == Answer::Passed)
}

/// A figure, or why there is none.
type Known = Result<Found, Unknown>;

/// A figure.
#[derive(Debug, Clone, Copy)]
struct Found {
    value: f64,
    /// The lower one of two between which it lies, if these are not one.
    low: Option<f64>,
    /// The true one may be larger.
    is_lower_bound: bool,
}

impl From<f64> for Found {
    fn from(value: f64) -> Found {
        Found {
            value,
            low: None,
            is_lower_bound: false,
        }
    }
}

fn judge_one<'a>(condition: &'a Condition, load: &'a LoadFindings<'a>) -> Judged<'a> {
    let (quantity, known) = figure(condition.figure, load);
    let answer = match known {
        Err(why) => Answer::Unknown(why),
        Ok(found) => answer(condition, found),
    };
    Judged {
        condition,
        load: &load.run.label,
        quantity,
        value: known.ok().map(|found| found.value),
        low: known.ok().and_then(|found| found.low),
        is_lower_bound: known.is_ok_and(|found| found.is_lower_bound),
        answer,
    }
}

/// A range answers where both of its ends, and a lower bound where every larger figure, would give the same answer.
fn answer(condition: &Condition, found: Found) -> Answer {
    let holds = |value: f64| condition.operator.holds(value, condition.limit);
    let is_bad = holds(found.value);
    match is_bad {
        _ if found.is_lower_bound && holds(f64::INFINITY) != is_bad => {
            Answer::Unknown(Unknown::LowerBound)
        }
        _ if found.low.is_some_and(|low| holds(low) != is_bad) => Answer::Unknown(Unknown::Range),
        true => Answer::Failed,
        false => Answer::Passed,
    }
}

fn figure(figure: Figure, load: &LoadFindings<'_>) -> (Option<Quantity>, Known) {
    let counts = &load.run.measured.totals.outcomes;
    let of_attempts = |count: u64| match counts.attempts() {
        0 => Err(Unknown::NoRequests),
        all => Ok(Found::from(count as f64 / all as f64)),
    };
    let known = match figure {
        Figure::Throughput => load
            .throughput_per_s
            .map(Found::from)
            .ok_or(Unknown::NoRequests),
        Figure::ErrorShare => of_attempts(counts.all_errors()),
        Figure::OkShare => of_attempts(counts.succeeded()),
        Figure::ErrorCount => Ok(Found::from(counts.all_errors() as f64)),
        Figure::OkCount => Ok(Found::from(counts.succeeded() as f64)),
        Figure::Time(quantity, statistic) => {
            let (quantity, group) = place(quantity, load);
            return (Some(quantity), time(quantity, group, statistic, load));
        }
    };
    (None, known)
}

/// Which quantity a condition means, and of which requests. Without a name it is the one by which the
/// load is judged.
fn place(quantity: Option<Quantity>, load: &LoadFindings<'_>) -> (Quantity, Group) {
    match quantity {
        None => load.principal(),
        Some(Quantity::Service) => (Quantity::Service, Group::Ok),
        Some(Quantity::FirstByte) => (Quantity::FirstByte, Group::Ok),
        Some(other) => (other, Group::All),
    }
}

fn time(quantity: Quantity, group: Group, statistic: Statistic, load: &LoadFindings<'_>) -> Known {
    let is_of_schedule = matches!(quantity, Quantity::Response | Quantity::Lag);
    if is_of_schedule && load.open.is_none() {
        return Err(Unknown::ClosedLoad);
    }
    let ppm = match statistic {
        Statistic::Mean => return mean(quantity, group, load),
        Statistic::Greatest => 1_000_000,
        Statistic::Quantile { ppm } => ppm,
    };
    match load.quantile(quantity, group, ppm) {
        None => Err(Unknown::NoRequests),
        Some(Told::Refused(why)) => Err(Unknown::Refused(why)),
        Some(Told::Time(Quantile { ns, is_lower_bound })) => Ok(Found {
            is_lower_bound,
            ..Found::from(ns as f64)
        }),
        Some(Told::Range { low, high }) => Ok(Found {
            low: Some(low.ns as f64),
            ..Found::from(high.ns as f64)
        }),
    }
}

fn mean(quantity: Quantity, group: Group, load: &LoadFindings<'_>) -> Known {
    let spread = load.spread(quantity, group).ok_or(Unknown::NoRequests)?;
    match spread.refusal {
        Some(why) => Err(Unknown::Refused(why)),
        None => Ok(Found {
            value: spread.mean_ns,
            low: spread.low_mean_ns,
            is_lower_bound: spread.lower_bounds > 0,
        }),
    }
}
