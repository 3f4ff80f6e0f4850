//! Finds the number of workers at which throughput stops growing, despite noise.
//!
//! Each level of concurrency is visited several times, and each visit yields one throughput: the variation
//! between visits, not within one, is the noise of a level. This module decides which level to visit next, when
//! to stop, and what the answer is. It knows nothing about the workers and never waits: [`next`] and [`answer`]
//! are pure functions of the visits so far, so that a stored session leads to the same decisions again.
//! Start at [`next`]; [`Noise`] compares two levels.

use crate::Interval;
use crate::describe;
use crate::distribution::student_t;

/// A level and its visits.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Level {
    /// Workers at once.
    pub concurrency: u32,
    /// Throughput of every visit in order, in any unit; zero is valid.
    pub throughputs: Vec<f64>,
    /// Whether measuring failed at this level: it cannot be the answer, and no higher level is visited.
    pub is_spoilt: bool,
}

/// How levels are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// The lowest level.
    pub first: u32,
    /// Levels are successive multiples of this number; `None` doubles them and refines around the best
    /// level afterwards.
    pub step: Option<u32>,
    /// The highest level.
    pub limit: u32,
    /// Number of consecutive levels without growth after which the search ends.
    pub patience: u32,
    /// Visits per level.
    pub visits: u32,
    /// Maximum number of visits of a level that decides the answer.
    pub most_visits: u32,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            first: 1,
            step: None,
            limit: 1024,
            patience: 2,
            visits: 3,
            most_visits: 15,
        }
    }
}

/// The next step of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Visit this level, once.
    Visit(u32),
    /// The rules allow nothing more to be learned.
    Stop,
}

/// Maximum ratio between the best level and its neighbors: a wider gap could hide a peak.
const WIDEST_AT_BEST: f64 = 1.5;

/// The answer is resolved to an eighth of itself, finer than throughput near a knee can usually be
/// distinguished.
const RESOLUTION: u32 = 8;

/// Returns the level to visit next.
///
/// 1. Search upwards: visit every level [`Rules::visits`] times, until [`Rules::patience`] levels in a row show no
///    growth beyond noise over the best level before them.
/// 2. Refine around the best level, in case there is a peak between two levels.
/// 3. Revisit lower levels that may be as good as the best, alternating with the best, so that slow drift affects
///    both.
/// 4. Bisect the gap below the lowest level that is as good.
///
/// New visits can overturn earlier decisions; the search then continues.
pub fn next(levels: &[Level], rules: &Rules) -> Next {
    let mut sorted: Vec<&Level> = levels.iter().collect();
    sorted.sort_by_key(|level| level.concurrency);
    let is_short =
        |level: &&&Level| !level.is_spoilt && level.throughputs.len() < rules.visits as usize;
    if let Some(level) = sorted.iter().find(is_short) {
        return Next::Visit(level.concurrency);
    }
    let noise = Noise::between_visits(sorted.iter().copied());
    if let Some(higher) = higher(&sorted, &noise, rules) {
        return Next::Visit(higher);
    }
    let standings = standings(levels);
    let Some(best) = standings.iter().position(|one| one.status == Status::Best) else {
        return Next::Stop;
    };
    let found = beside_best(&standings, best, rules)
        .or_else(|| unclear(&standings, best, rules))
        .or_else(|| below_knee(&standings, rules));
    found.map_or(Next::Stop, Next::Visit)
}

/// Returns the next level of the upward search, unless it has ended.
fn higher(sorted: &[&Level], noise: &Noise, rules: &Rules) -> Option<u32> {
    let mut at = rules.first.min(rules.limit);
    let mut best: Option<&Level> = None;
    let mut idle = 0;
    loop {
        let Some(level) = sorted.iter().find(|level| level.concurrency == at) else {
            return Some(at);
        };
        if level.is_spoilt {
            return None;
        }
        let grew = best.is_none_or(|best| noise.change(best, level).is_growth());
        idle = if grew { 0 } else { idle + 1 };
        if idle >= rules.patience || at >= rules.limit {
            return None;
        }
        if best.is_none_or(|best| mean(level) > mean(best)) {
            best = Some(level);
        }
        let following = match rules.step {
            Some(step) => at.saturating_add(step) / step * step,
            None => at.saturating_mul(2),
        };
        at = following.min(rules.limit);
    }
}

/// Returns the middle between the best level and a distant neighbor.
fn beside_best(standings: &[Standing], best: usize, rules: &Rules) -> Option<u32> {
    let at = standings[best].concurrency;
    let above = standings.get(best + 1).map(|one| (at, one.concurrency));
    let below = best
        .checked_sub(1)
        .map(|below| (standings[below].concurrency, at));
    let wide = |(low, high): &(u32, u32)| f64::from(*high) > WIDEST_AT_BEST * f64::from(*low);
    let sides = above.into_iter().chain(below);
    sides
        .filter(wide)
        .find_map(|(low, high)| middle(low, high, rules))
}

/// Returns a level strictly between two others, a multiple of the step if there is one.
fn middle(low: u32, high: u32, rules: &Rules) -> Option<u32> {
    let step = rules.step.unwrap_or(1);
    let middle = (low + (high - low) / 2) / step * step;
    (low < middle && middle < high).then_some(middle)
}

/// Of the lowest level that may be as good as the best, and the best, returns the one with fewer visits.
fn unclear(standings: &[Standing], best: usize, rules: &Rules) -> Option<u32> {
    let level = standings[..best]
        .iter()
        .find(|one| one.status != Status::Lower)?;
    let pair = [level, &standings[best]];
    let fewest = pair.iter().min_by_key(|one| one.visits)?;
    let may_go_on = level.status == Status::Unclear && fewest.visits < rules.most_visits as usize;
    may_go_on.then_some(fewest.concurrency)
}

/// Returns the middle of the gap below the lowest level that is as good as the best.
fn below_knee(standings: &[Standing], rules: &Rules) -> Option<u32> {
    let knee = knee(standings)?;
    let high = standings[knee].concurrency;
    let low = standings[knee.checked_sub(1)?].concurrency;
    let is_wide = high - low > (high / RESOLUTION).max(1);
    is_wide.then(|| middle(low, high, rules))?
}

// Comparison of every level with the best one, and the resulting answer.

/// Confidence of reported intervals.
const REPORTED_CONFIDENCE: f64 = 0.95;

/// A level compared with the best one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The level with the highest mean.
    Best,
    /// Significantly lower.
    Lower,
    /// Equivalent within the tolerance.
    AsGood,
    /// Neither significantly lower nor shown to be equivalent.
    Unclear,
}

/// The state of a level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standing {
    /// Workers at once.
    pub concurrency: u32,
    /// Visits so far.
    pub visits: usize,
    /// Mean throughput.
    pub throughput: f64,
    /// Its 95 % interval, if the spread is known.
    pub interval: Option<Interval>,
    /// Change from the best of the lower levels, with a 95 % interval; `None` for the lowest.
    pub change: Option<Change>,
    /// Comparison with the best level.
    pub status: Status,
}

/// The answer from all levels.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The levels in ascending order, without failed ones.
    pub standings: Vec<Standing>,
    /// Index of the knee: the lowest level whose throughput cannot be distinguished from the best.
    pub knee: usize,
    /// Index of the level with the highest mean.
    pub best: usize,
    /// Whether no level above the knee was measured, so that throughput may still grow.
    pub is_open: bool,
    /// Noise between visits of the same level.
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

/// Returns the answer from all levels; `None` without a valid level.
pub fn answer(levels: &[Level]) -> Option<Answer> {
    let standings = standings(levels);
    let best = standings
        .iter()
        .position(|one| one.status == Status::Best)?;
    let knee = knee(&standings)?;
    Some(Answer {
        is_open: knee + 1 == standings.len(),
        noise: Noise::between_visits(levels.iter()),
        standings,
        knee,
        best,
    })
}

/// Returns the lowest level that is not significantly lower than the best.
fn knee(standings: &[Standing]) -> Option<usize> {
    standings.iter().position(|one| one.status != Status::Lower)
}

/// Returns the states of all levels in ascending order, without failed and unvisited ones.
fn standings(levels: &[Level]) -> Vec<Standing> {
    let noise = Noise::between_visits(levels.iter());
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
            change: before.map(|before| noise.change_at(before, level, REPORTED_CONFIDENCE)),
            status: status(level, best, &noise),
        }
    };
    sorted.iter().enumerate().map(standing).collect()
}

fn interval(level: &Level, noise: &Noise) -> Option<Interval> {
    let half = noise.half_width(level.throughputs.len(), REPORTED_CONFIDENCE)?;
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
        // No level had any throughput: all are alike.
        () if mean(best) <= 0.0 => Status::AsGood,
        () if change.is_decline() => Status::Lower,
        () if change.is_as_good() => Status::AsGood,
        () => Status::Unclear,
    }
}

// Noise between visits, and the comparison of two levels. Three visits are too few to estimate the
// spread of one level. The pooled relative spread of all levels is known much better, and a machine's
// noise is roughly proportional to the measured value.

/// Confidence of decisions: a search makes about twenty comparisons, each repeated several times, and hardly
/// any may be wrong.
const CONFIDENCE: f64 = 0.98;

/// Smaller changes never count as growth or decline, however significant.
const MARGIN: f64 = 0.01;

/// Levels that differ by less are equally good.
const TOLERANCE: f64 = 0.05;

/// Relative spread of the visits of a level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Relative standard deviation of one visit; 0 if no level was visited twice.
    pub spread: f64,
    /// Degrees of freedom: number of visits minus number of levels.
    pub df: usize,
}

/// The change between two levels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Ratio of the second throughput to the first.
    pub ratio: f64,
    /// Half width of the interval of ln `ratio` at the confidence of decisions.
    pub half: f64,
}

/// Mean throughput of a level; 0 without visits.
fn mean(level: &Level) -> f64 {
    if level.throughputs.is_empty() {
        0.0
    } else {
        describe::mean(&level.throughputs)
    }
}

impl Noise {
    /// The spread of all levels together.
    pub fn between_visits<'a>(levels: impl Iterator<Item = &'a Level>) -> Noise {
        let (mut squares, mut df) = (0.0, 0);
        for level in levels {
            let centre = mean(level);
            if level.throughputs.len() < 2 || level.is_spoilt || centre <= 0.0 {
                continue;
            }
            let square = |value: &f64| (value / centre - 1.0).powi(2);
            squares += level.throughputs.iter().map(square).sum::<f64>();
            df += level.throughputs.len() - 1;
        }
        Noise {
            spread: match df {
                0 => 0.0,
                df => (squares / df as f64).sqrt(),
            },
            df,
        }
    }

    /// Half of the width of the interval of the mean of so many visits, as a share of it. `None` where
    /// nothing is known of the spread.
    pub fn half_width(&self, visits: usize, confidence: f64) -> Option<f64> {
        self.half(1.0 / visits as f64, confidence)
    }

    fn half(&self, of_variance: f64, confidence: f64) -> Option<f64> {
        let tail = 0.5 * (1.0 - confidence);
        (self.df > 0 && of_variance.is_finite()).then(|| {
            student_t::upper_quantile(tail, self.df as f64) * self.spread * of_variance.sqrt()
        })
    }

    /// From one level to another, with an interval at `confidence` in logarithms. It has no width where
    /// nothing is known of the spread.
    pub fn change_at(&self, from: &Level, to: &Level, confidence: f64) -> Change {
        let visits = |level: &Level| 1.0 / level.throughputs.len() as f64;
        Change {
            ratio: mean(to) / mean(from),
            half: self
                .half(visits(from) + visits(to), confidence)
                .unwrap_or(0.0),
        }
    }

    /// The same at the confidence of the decisions.
    fn change(&self, from: &Level, to: &Level) -> Change {
        self.change_at(from, to, CONFIDENCE)
    }
}

impl Change {
    /// The ends of the interval of the ratio.
    pub fn interval(&self) -> crate::Interval {
        crate::Interval {
            low: self.ratio * (-self.half).exp(),
            high: self.ratio * self.half.exp(),
        }
    }

    /// More than the margin, and beyond noise. From nothing to something is growth.
    fn is_growth(&self) -> bool {
        self.ratio > 1.0 + MARGIN && self.interval().low > 1.0
    }

    /// Shown to be lower by more than the margin.
    fn is_decline(&self) -> bool {
        self.interval().high < 1.0 - MARGIN
    }

    /// Shown not to be lower by more than the tolerance.
    fn is_as_good(&self) -> bool {
        self.interval().low > 1.0 - TOLERANCE
    }
}
