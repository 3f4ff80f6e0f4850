//! How every level stands to the best one, and the answer that follows.

use super::Level;
use super::noise::{Change, Noise, mean};
use crate::Interval;

/// Confidence of the intervals that are told.
const TOLD: f64 = 0.95;

/// How a level stands to the best one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It is the best: its mean is the highest.
    Best,
    /// Shown to be lower.
    Lower,
    /// Shown to be as good, or nearly.
    AsGood,
    /// Not distinguishable from the best, but not shown to be as good either.
    Unclear,
}

/// A level as it stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standing {
    /// Workers at once.
    pub concurrency: u32,
    /// Visits so far.
    pub visits: usize,
    /// Mean throughput.
    pub throughput: f64,
    /// Its 95 % interval, where the spread is known.
    pub interval: Option<Interval>,
    /// From the best of the levels below to this one, with a 95 % interval; none for the lowest.
    pub change: Option<Change>,
    /// How it stands to the best.
    pub status: Status,
}

/// What the levels say together.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The levels in ascending order, without those that are spoilt.
    pub standings: Vec<Standing>,
    /// Which of them is the knee: the lowest whose throughput cannot be distinguished from the best.
    pub knee: usize,
    /// Which of them has the highest mean.
    pub best: usize,
    /// No level above the knee was measured: throughput may go on growing.
    pub is_open: bool,
    /// How much a level differs from itself.
    pub noise: Noise,
}

impl Answer {
    /// The level at the knee.
    pub fn at_knee(&self) -> &Standing {
        &self.standings[self.knee]
    }

    /// The best level.
    pub fn at_best(&self) -> &Standing {
        &self.standings[self.best]
    }
}

/// What the levels say together; `None` if there is none that counts.
pub fn answer(levels: &[Level]) -> Option<Answer> {
    let standings = all(levels);
    let best = standings
        .iter()
        .position(|one| one.status == Status::Best)?;
    let knee = knee(&standings)?;
    Some(Answer {
        is_open: knee + 1 == standings.len(),
        noise: Noise::of(levels.iter()),
        standings,
        knee,
        best,
    })
}

/// The lowest level that is not shown to be lower than the best.
pub(super) fn knee(standings: &[Standing]) -> Option<usize> {
    standings.iter().position(|one| one.status != Status::Lower)
}

/// How the levels stand, in ascending order. Spoilt ones and those without a visit are left out.
pub(super) fn all(levels: &[Level]) -> Vec<Standing> {
    let noise = Noise::of(levels.iter());
    let counts = |level: &&Level| !level.is_spoilt && !level.throughputs.is_empty();
    let mut sorted: Vec<&Level> = levels.iter().filter(counts).collect();
    sorted.sort_by_key(|level| level.concurrency);
    let higher = |one: &&Level, other: &&Level| mean(one).total_cmp(&mean(other));
    let Some(best) = sorted.iter().copied().max_by(higher) else {
        return Vec::new();
    };
    let standing = |(at, level): (usize, &&Level)| {
        let before = sorted[..at].iter().copied().max_by(higher);
        Standing {
            concurrency: level.concurrency,
            visits: level.throughputs.len(),
            throughput: mean(level),
            interval: interval(level, &noise),
            change: before.map(|before| noise.change_at(before, level, TOLD)),
            status: status(level, best, &noise),
        }
    };
    sorted.iter().enumerate().map(standing).collect()
}

fn interval(level: &Level, noise: &Noise) -> Option<Interval> {
    let half = noise.half_width(level.throughputs.len(), TOLD)?;
    let mean = mean(level);
    Some(Interval {
        low: mean * (1.0 - half),
        high: mean * (1.0 + half),
    })
}

fn status(level: &Level, best: &Level, noise: &Noise) -> Status {
    let change = noise.change(best, level);
    match () {
        () if level.concurrency == best.concurrency => Status::Best,
        // Nothing was answered anywhere: all levels are alike.
        () if mean(best) <= 0.0 => Status::AsGood,
        () if change.is_decline() => Status::Lower,
        () if change.is_as_good() => Status::AsGood,
        () => Status::Unclear,
    }
}
