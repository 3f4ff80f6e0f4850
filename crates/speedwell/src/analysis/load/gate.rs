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
type Known = Result<(f64, bool), Unknown>;

fn judge_one<'a>(condition: &'a Condition, load: &'a LoadFindings<'a>) -> Judged<'a> {
    let (quantity, known) = figure(condition.figure, load);
    let answer = match known {
        Err(why) => Answer::Unknown(why),
        Ok((value, is_lower_bound)) => answer(condition, value, is_lower_bound),
    };
    Judged {
        condition,
        load: &load.run.label,
        quantity,
        value: known.ok().map(|(value, _)| value),
        is_lower_bound: known.is_ok_and(|(_, is_lower_bound)| is_lower_bound),
        answer,
    }
}

/// A lower bound answers where every larger figure would give the same answer.
fn answer(condition: &Condition, value: f64, is_lower_bound: bool) -> Answer {
    let is_bad = condition.operator.holds(value, condition.limit);
    let stays = match condition.operator {
        Operator::Above | Operator::AtLeast => is_bad,
        Operator::Below | Operator::AtMost => !is_bad,
    };
    match is_bad {
        _ if is_lower_bound && !stays => Answer::Unknown(Unknown::LowerBound),
        true => Answer::Failed,
        false => Answer::Passed,
    }
}

fn figure(figure: Figure, load: &LoadFindings<'_>) -> (Option<Quantity>, Known) {
    let books = &load.run.measured.account.books;
    let of_attempts = |count: u64| match books.attempts() {
        0 => Err(Unknown::NoRequests),
        all => Ok((count as f64 / all as f64, false)),
    };
    let known = match figure {
        Figure::Throughput => load
            .throughput_per_s
            .map(|rate| (rate, false))
            .ok_or(Unknown::NoRequests),
        Figure::ErrorShare => of_attempts(books.all_errors()),
        Figure::OkShare => of_attempts(books.succeeded()),
        Figure::ErrorCount => Ok((books.all_errors() as f64, false)),
        Figure::OkCount => Ok((books.succeeded() as f64, false)),
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
        Some(Told::Time(Quantile { ns, is_lower_bound })) => Ok((ns as f64, is_lower_bound)),
    }
}

fn mean(quantity: Quantity, group: Group, load: &LoadFindings<'_>) -> Known {
    let spread = load.spread(quantity, group).ok_or(Unknown::NoRequests)?;
    match spread.refusal {
        Some(why) => Err(Unknown::Refused(why)),
        None => Ok((spread.mean_ns, spread.lower_bounds > 0)),
    }
}
