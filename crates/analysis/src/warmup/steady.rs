//! One series of times from the first iteration on: its spikes, its levels, and what that makes of it.
//!
//! Decides where levels change and which class a series has. It must not know processes, variants or metrics. The method is
//! that of Barrett et al. (OOPSLA 2017) with other constants: times are compared as ratios, single spikes are no levels, and
//! what goes back and forth has a class of its own. Start at [`classify`].

use crate::summary::finite;
use speedwell_model::SteadyRule;
use speedwell_stats::changepoint::segments;
use speedwell_stats::describe::{mad, median};
use std::fmt;
use std::ops::Range;

/// What a series is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// One level.
    Flat,
    /// Faster at the end than before.
    WarmUp,
    /// Slower at the end than before.
    SlowDown,
    /// Back and forth between two levels.
    Cyclic,
    /// The last change of level came too late.
    NoSteadyState,
    /// One iteration varies too much, or the machine changed too often, to say.
    Unclear,
}

impl Class {
    /// Every class.
    pub const ALL: [Class; 6] = [
        Class::Flat,
        Class::WarmUp,
        Class::SlowDown,
        Class::Cyclic,
        Class::NoSteadyState,
        Class::Unclear,
    ];

    /// Whether such a series has a steady part.
    pub fn is_steady(self) -> bool {
        matches!(self, Class::Flat | Class::WarmUp | Class::SlowDown)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Class::Flat => "flat",
            Class::WarmUp => "warm-up",
            Class::SlowDown => "slow-down",
            Class::Cyclic => "cyclic",
            Class::NoSteadyState => "no steady state",
            Class::Unclear => "unclear",
        })
    }
}

/// A part of a series between two changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    /// Its points.
    pub points: Range<usize>,
    /// The median of its times.
    pub time: f64,
}

/// What was found in a series.
#[derive(Debug, Clone, PartialEq)]
pub struct SteadySearch {
    /// What it is.
    pub class: Class,
    /// Its levels, in order; never empty.
    pub levels: Vec<Level>,
    /// Single points far from their neighbours. They count in totals, and not in levels.
    pub spikes: Vec<usize>,
    /// By how much a point differs from the next, spikes apart: a standard deviation, as a share.
    pub noise: f64,
    /// The points after which a cyclic series begins again.
    pub period: Option<f64>,
    /// Changes of level at which the machine changed as well, so that they are none of the program's.
    pub machine_changes: Vec<usize>,
}

impl SteadySearch {
    /// The time of the last level.
    pub fn typical(&self) -> f64 {
        self.levels.last().map_or(f64::NAN, |level| level.time)
    }

    /// Where the steady part begins, if there is one.
    pub fn first(&self) -> Option<usize> {
        let last = self.levels.last().filter(|_| self.class.is_steady())?;
        Some(last.points.start)
    }
}

/// Points before and after a point with whose median it is compared.
const NEIGHBOURS: usize = 5;
/// A spike differs from its neighbours by more than this, as a logarithm.
const LEAST_SPIKE: f64 = 0.05;
/// And by more than so many of their standard deviations.
const SPIKE_DEVIATIONS: f64 = 6.0;
/// From a median of absolute deviations of normal values to their standard deviation.
const OF_MAD: f64 = 1.4826;
/// With more noise than this from point to point, changes of some percent cannot be seen.
const MOST_NOISE: f64 = 0.10;
/// Logarithms further from the median count as so far: one stalled point is no level.
const FARTHEST: f64 = 5.0;
/// The penalty for a change is so many times the logarithm of the number of points.
const PENALTY: f64 = 15.0;
/// The fewest points of a level.
const SHORTEST_LEVEL: usize = 5;
/// So many crossings of the middle make a series cyclic.
const CROSSINGS: usize = 4;
/// The machine changed where the reference changed within so many of its own points.
const NEAR: usize = 2;
/// More changes of the machine than this, and nothing can be said.
const MOST_MACHINE_CHANGES: usize = 2;

/// Times of the reference loop, which does the same work whenever it is performed.
#[derive(Debug, Clone, Copy)]
pub struct Reference<'a> {
    /// The times.
    pub times: &'a [f64],
    /// One after every so many points.
    pub every: usize,
}

/// Looks for the steady part of these times.
pub fn classify(
    times: &[f64],
    rule: &SteadyRule,
    reference: Option<Reference<'_>>,
) -> SteadySearch {
    let smooth = Smooth::new(times);
    let found = smooth.levels(rule.delta);
    let changes = machine_changes(&found, rule.delta, reference);
    let levels = smooth.without_joints(&found, &changes);
    let crossings = crossings(&levels, times.len());
    let class = if smooth.noise > MOST_NOISE || changes.len() > MOST_MACHINE_CHANGES {
        Class::Unclear
    } else {
        class_of(&levels, crossings.len(), times.len(), rule)
    };
    let level = |(points, log): LogLevel| Level {
        points,
        time: log.exp(),
    };
    SteadySearch {
        class,
        period: (class == Class::Cyclic).then(|| period(&crossings)),
        levels: levels.into_iter().map(level).collect(),
        spikes: smooth.spikes,
        noise: smooth.noise,
        machine_changes: changes,
    }
}

/// Points with the medians of their logarithms.
type LogLevel = (Range<usize>, f64);

fn class_of(levels: &[LogLevel], crossings: usize, count: usize, rule: &SteadyRule) -> Class {
    let [.., before, last] = levels else {
        return Class::Flat;
    };
    let steady = count - last.0.start;
    if crossings >= CROSSINGS {
        Class::Cyclic
    } else if (steady as f64) < rule.least_share * count as f64 {
        Class::NoSteadyState
    } else if before.1 > last.1 {
        Class::WarmUp
    } else {
        Class::SlowDown
    }
}

/// Where the levels after the first quarter cross the middle between their highest and their lowest.
fn crossings(levels: &[LogLevel], count: usize) -> Vec<usize> {
    let late: Vec<&LogLevel> = levels
        .iter()
        .filter(|level| level.0.end as f64 > 0.25 * count as f64)
        .collect();
    let heights = || late.iter().map(|level| level.1);
    let middle = heights().fold(f64::NEG_INFINITY, f64::max) / 2.0
        + heights().fold(f64::INFINITY, f64::min) / 2.0;
    late.windows(2)
        .filter(|two| (two[0].1 > middle) != (two[1].1 > middle))
        .map(|two| two[1].0.start)
        .collect()
}

/// There and back.
fn period(crossings: &[usize]) -> f64 {
    let distances = crossings.windows(2).map(|two| (two[1] - two[0]) as f64);
    2.0 * median(&distances.collect::<Vec<f64>>())
}

/// The joints between levels where the reference changed as well.
fn machine_changes(
    levels: &[LogLevel],
    delta: f64,
    reference: Option<Reference<'_>>,
) -> Vec<usize> {
    let Some(Reference { times, every }) = reference.filter(|own| !own.times.is_empty()) else {
        return Vec::new();
    };
    let own = Smooth::new(times).levels(delta);
    let of_machine: Vec<usize> = own
        .iter()
        .skip(1)
        .map(|level| level.0.start * every)
        .collect();
    let is_near = |joint: &usize| {
        of_machine
            .iter()
            .any(|at| at.abs_diff(*joint) <= NEAR * every)
    };
    let joints = levels.iter().skip(1).map(|level| level.0.start);
    joints.filter(is_near).collect()
}

/// The logarithms of a series without its spikes.
struct Smooth {
    logs: Vec<f64>,
    spikes: Vec<usize>,
    noise: f64,
}

impl Smooth {
    fn new(times: &[f64]) -> Smooth {
        let raw: Vec<f64> = times.iter().map(|time| time.max(1e-12).ln()).collect();
        let mut logs = raw.clone();
        let mut spikes = Vec::new();
        for (at, log) in logs.iter_mut().enumerate() {
            let end = (at + NEIGHBOURS + 1).min(raw.len());
            let near = &raw[at.saturating_sub(NEIGHBOURS)..end];
            let (middle, deviation) = (median(near), OF_MAD * mad(near));
            if (*log - middle).abs() > LEAST_SPIKE.max(SPIKE_DEVIATIONS * deviation) {
                *log = middle;
                spikes.push(at);
            }
        }
        let steps: Vec<f64> = logs.windows(2).map(|two| (two[1] - two[0]).abs()).collect();
        let middle = median(&logs);
        for log in &mut logs {
            *log = log.clamp(middle - FARTHEST, middle + FARTHEST);
        }
        Smooth {
            logs,
            spikes,
            noise: finite(OF_MAD * median(&steps) / 2f64.sqrt()).unwrap_or(0.0),
        }
    }

    fn level(&self, points: Range<usize>) -> LogLevel {
        let log = median(&self.logs[points.clone()]);
        (points, log)
    }

    /// The parts between changes that are larger than `delta`.
    fn levels(&self, delta: f64) -> Vec<LogLevel> {
        // Differences from the middle keep the digits that large sums of squares would lose.
        let middle = median(&self.logs);
        let centred: Vec<f64> = self.logs.iter().map(|log| log - middle).collect();
        let penalty = PENALTY * (centred.len() as f64).ln();
        let mut levels: Vec<LogLevel> = Vec::new();
        for points in segments(&centred, penalty, SHORTEST_LEVEL) {
            let own = self.level(points.clone());
            match levels.last_mut() {
                Some(last) if (last.1 - own.1).abs() <= delta.ln_1p() => {
                    *last = self.level(last.0.start..points.end);
                }
                _ => levels.push(own),
            }
        }
        levels
    }

    /// The levels, with those joined that begin at one of these points.
    fn without_joints(&self, levels: &[LogLevel], joints: &[usize]) -> Vec<LogLevel> {
        let mut kept: Vec<LogLevel> = Vec::new();
        for (points, log) in levels {
            match kept.last_mut() {
                Some(last) if joints.contains(&points.start) => {
                    *last = self.level(last.0.start..points.end);
                }
                _ => kept.push((points.clone(), *log)),
            }
        }
        kept
    }
}
