//! Finds the number of workers at which throughput stops growing, despite noise.
//!
//! Each level of concurrency is visited several times, and each visit yields one throughput. The
//! noise of a level is the variation between its visits, not the variation within a visit. This
//! module decides which level to visit next, when to stop, and where the knee is: the level from
//! which throughput no longer grows. [`next_level`] and [`search_answer`] are pure functions of the
//! visits so far, so a stored session leads to the same decisions again. Start at [`next_level`];
//! [`VisitNoise`] compares two levels.

use crate::Interval;
use crate::describe;
use crate::distribution::student_t;

/// A level of concurrency, with the throughput of each visit.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ConcurrencyLevel {
    /// Number of concurrent workers.
    pub concurrency: u32,
    /// Throughput of every visit in order, in any unit; zero is valid.
    pub throughputs: Vec<f64>,
    /// Whether measuring failed at this level. Such a level cannot be the answer, and no higher
    /// level is visited.
    pub is_spoilt: bool,
}

/// Appends visits to the level of this concurrency, which is created if it is new. Returns the
/// level.
pub fn add_visits(
    levels: &mut Vec<ConcurrencyLevel>,
    concurrency: u32,
    throughputs: impl IntoIterator<Item = f64>,
) -> &ConcurrencyLevel {
    let known = levels.iter().position(|level| level.concurrency == concurrency);
    let index = known.unwrap_or_else(|| {
        levels.push(ConcurrencyLevel { concurrency, ..ConcurrencyLevel::default() });
        levels.len() - 1
    });
    levels[index].throughputs.extend(throughputs);
    &levels[index]
}

/// How levels are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SaturationRules {
    /// The lowest level.
    pub first: u32,
    /// Levels are successive multiples of this number. With `None`, each level is twice the
    /// previous one, and the search refines around the best level afterwards.
    pub step: Option<u32>,
    /// The highest level.
    pub limit: u32,
    /// Number of consecutive levels without growth after which the search ends.
    pub patience: u32,
    /// Visits per level.
    pub visits: u32,
    /// Maximum number of visits of a level. A level gets more than `visits` only if it decides the
    /// answer.
    pub most_visits: u32,
}

impl Default for SaturationRules {
    fn default() -> SaturationRules {
        SaturationRules {
            first: 1,
            step: None,
            limit: 1024,
            patience: 2,
            visits: 3,
            most_visits: 15,
        }
    }
}

/// Maximum ratio between the best level and its neighbors: a wider gap could hide a peak.
const MAX_RATIO_AT_BEST: f64 = 1.5;

/// The search locates the knee to an eighth of its concurrency. The throughputs of closer levels
/// can usually not be distinguished.
const RESOLUTION: u32 = 8;

/// Returns the level to visit next, once. `None` if no further visit is needed, or the rules allow
/// none.
///
/// 1. Search upwards: visit every level [`SaturationRules::visits`] times, until
///    [`SaturationRules::patience`] levels in a row show no growth beyond noise over the best level
///    before them.
/// 2. Refine around the best level, in case there is a peak between two levels.
/// 3. Revisit lower levels that may be as good as the best. Alternate with the best level, so that
///    slow drift affects both.
/// 4. Bisect the gap below the lowest level that is as good as the best.
///
/// New visits can overturn earlier decisions; the search then continues.
pub fn next_level(levels: &[ConcurrencyLevel], rules: &SaturationRules) -> Option<u32> {
    let mut sorted: Vec<&ConcurrencyLevel> = levels.iter().collect();
    sorted.sort_by_key(|level| level.concurrency);
    let needs_visits = |level: &&&ConcurrencyLevel| {
        !level.is_spoilt && level.throughputs.len() < rules.visits as usize
    };
    if let Some(level) = sorted.iter().find(needs_visits) {
        return Some(level.concurrency);
    }
    let noise = VisitNoise::between_visits(sorted.iter().copied());
    if let Some(higher) = next_higher_level(&sorted, &noise, rules) {
        return Some(higher);
    }
    let standings = level_states(levels);
    let best = standings.iter().position(|standing| standing.status == LevelStatus::Best);
    let beside = best.and_then(|best| {
        level_beside_best(&standings, best, rules)
            .or_else(|| unclear_level(&standings, best, rules))
    });
    beside.or_else(|| level_below_knee(&standings, rules))
}

/// Returns the next level of the upward search, unless it has ended.
fn next_higher_level(
    sorted: &[&ConcurrencyLevel],
    noise: &VisitNoise,
    rules: &SaturationRules,
) -> Option<u32> {
    let mut concurrency = rules.first.min(rules.limit);
    let mut best: Option<&ConcurrencyLevel> = None;
    let mut levels_without_growth = 0;
    loop {
        let Some(level) = sorted.iter().find(|level| level.concurrency == concurrency) else {
            return Some(concurrency);
        };
        if level.is_spoilt {
            return None;
        }
        let grew = best.is_none_or(|best| noise.change_at(best, level, CONFIDENCE).is_growth());
        levels_without_growth = if grew { 0 } else { levels_without_growth + 1 };
        if levels_without_growth >= rules.patience || concurrency >= rules.limit {
            return None;
        }
        if best.is_none_or(|best| mean_throughput(level) > mean_throughput(best)) {
            best = Some(level);
        }
        let following = match rules.step {
            Some(step) => concurrency.saturating_add(step) / step * step,
            None => concurrency.saturating_mul(2),
        };
        concurrency = following.min(rules.limit);
    }
}

/// Returns a level about midway between the best level and a distant neighbor.
fn level_beside_best(
    standings: &[LevelState],
    best: usize,
    rules: &SaturationRules,
) -> Option<u32> {
    let concurrency = standings[best].concurrency;
    let above = standings.get(best + 1).map(|standing| (concurrency, standing.concurrency));
    let below = best.checked_sub(1).map(|below| (standings[below].concurrency, concurrency));
    let is_wide = |(low, high): &(u32, u32)| f64::from(*high) > MAX_RATIO_AT_BEST * f64::from(*low);
    let sides = above.into_iter().chain(below);
    sides.filter(is_wide).find_map(|(low, high)| middle_level(low, high, rules))
}

/// Returns a level strictly between two others. If the rules have a step, the level is a multiple
/// of the step.
fn middle_level(low: u32, high: u32, rules: &SaturationRules) -> Option<u32> {
    let step = rules.step.unwrap_or(1);
    let middle = (low + (high - low) / 2) / step * step;
    (low < middle && middle < high).then_some(middle)
}

/// Finds the lowest level that may be as good as the best level. If its status is unclear, returns
/// the less visited of the two levels.
fn unclear_level(standings: &[LevelState], best: usize, rules: &SaturationRules) -> Option<u32> {
    let level = standings[..best].iter().find(|standing| standing.status != LevelStatus::Lower)?;
    let pair = [level, &standings[best]];
    let fewest = pair.iter().min_by_key(|standing| standing.visits)?;
    let may_decide =
        level.status == LevelStatus::Unclear && fewest.visits < rules.most_visits as usize;
    may_decide.then_some(fewest.concurrency)
}

/// Returns the middle of the gap below the lowest level that is as good as the best.
fn level_below_knee(standings: &[LevelState], rules: &SaturationRules) -> Option<u32> {
    let knee = find_knee(standings)?;
    let high = standings[knee].concurrency;
    let low = standings[knee.checked_sub(1)?].concurrency;
    let is_wide = high - low > (high / RESOLUTION).max(1);
    is_wide.then(|| middle_level(low, high, rules))?
}

// Comparison of every level with the best level, and the resulting answer.

const REPORTED_CONFIDENCE: f64 = 0.95;

/// How a level compares with the best level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LevelStatus {
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
pub struct LevelState {
    /// Number of concurrent workers.
    pub concurrency: u32,
    /// Visits so far.
    pub visits: usize,
    /// Mean throughput.
    pub throughput: f64,
    /// The 95% interval of the mean throughput, if the spread is known.
    pub interval: Option<Interval>,
    /// Change from the best of the lower levels, with a 95% interval; `None` for the lowest.
    pub change: Option<LevelChange>,
    /// Comparison with the best level.
    pub status: LevelStatus,
}

/// The answer from all levels.
#[derive(Debug, Clone, PartialEq)]
pub struct SaturationAnswer {
    /// The levels in ascending order, without failed ones.
    pub standings: Vec<LevelState>,
    /// Index of the knee: the lowest level whose throughput cannot be distinguished from the best.
    pub knee: usize,
    /// Index of the level with the highest mean.
    pub best: usize,
    /// Whether no level above the knee was measured, so that throughput may still grow.
    pub is_open: bool,
    /// Noise between visits of the same level.
    pub noise: VisitNoise,
}

impl SaturationAnswer {
    /// The level at the knee.
    pub fn at_knee(&self) -> &LevelState {
        &self.standings[self.knee]
    }

    /// The best level.
    pub fn at_best(&self) -> &LevelState {
        &self.standings[self.best]
    }
}

/// Returns the answer from all levels; `None` without a valid level.
pub fn search_answer(levels: &[ConcurrencyLevel]) -> Option<SaturationAnswer> {
    let standings = level_states(levels);
    let best = standings.iter().position(|standing| standing.status == LevelStatus::Best)?;
    let knee = find_knee(&standings)?;
    Some(SaturationAnswer {
        is_open: knee + 1 == standings.len(),
        noise: VisitNoise::between_visits(levels.iter()),
        standings,
        knee,
        best,
    })
}

/// Returns the lowest level that is not significantly lower than the best.
fn find_knee(standings: &[LevelState]) -> Option<usize> {
    standings.iter().position(|standing| standing.status != LevelStatus::Lower)
}

/// Returns the states of all levels in ascending order, without failed and unvisited ones.
fn level_states(levels: &[ConcurrencyLevel]) -> Vec<LevelState> {
    let noise = VisitNoise::between_visits(levels.iter());
    let is_valid = |level: &&ConcurrencyLevel| !level.is_spoilt && !level.throughputs.is_empty();
    let mut sorted: Vec<&ConcurrencyLevel> = levels.iter().filter(is_valid).collect();
    sorted.sort_by_key(|level| level.concurrency);
    let by_throughput = |one: &&ConcurrencyLevel, other: &&ConcurrencyLevel| {
        mean_throughput(one).total_cmp(&mean_throughput(other))
    };
    let Some(best) = sorted.iter().copied().max_by(by_throughput) else {
        return Vec::new();
    };
    let standing = |(index, level): (usize, &&ConcurrencyLevel)| {
        let best_before = sorted[..index].iter().copied().max_by(by_throughput);
        LevelState {
            concurrency: level.concurrency,
            visits: level.throughputs.len(),
            throughput: mean_throughput(level),
            interval: noise.mean_interval(level, REPORTED_CONFIDENCE),
            change: best_before
                .map(|best_before| noise.change_at(best_before, level, REPORTED_CONFIDENCE)),
            status: level_status(level, best, &noise),
        }
    };
    sorted.iter().enumerate().map(standing).collect()
}

fn level_status(
    level: &ConcurrencyLevel,
    best: &ConcurrencyLevel,
    noise: &VisitNoise,
) -> LevelStatus {
    let change = noise.change_at(best, level, CONFIDENCE);
    match () {
        () if level.concurrency == best.concurrency => LevelStatus::Best,
        // No level had any throughput: all are alike.
        () if mean_throughput(best) <= 0.0 => LevelStatus::AsGood,
        () if change.interval().high < 1.0 - MARGIN => LevelStatus::Lower,
        () if change.interval().low > 1.0 - TOLERANCE => LevelStatus::AsGood,
        () => LevelStatus::Unclear,
    }
}

// Noise between visits, and the comparison of two levels. Three visits are too few to estimate the
// spread of one level. Therefore the relative spread is pooled over all levels: a machine's noise
// is roughly proportional to the measured value.

/// Confidence of decisions. A search repeats about twenty comparisons several times, and nearly all
/// of them must be right.
const CONFIDENCE: f64 = 0.98;

/// Smaller relative changes are never regarded as growth or decline, however significant they are.
const MARGIN: f64 = 0.01;

/// Levels that differ by less than this fraction are equally good.
const TOLERANCE: f64 = 0.05;

/// Relative spread of the visits of a level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VisitNoise {
    /// Relative standard deviation of one visit; 0 if no level was visited twice.
    pub spread: f64,
    /// Degrees of freedom: number of visits minus number of levels.
    pub df: usize,
}

/// The change between two levels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LevelChange {
    /// Ratio of the second throughput to the first.
    pub ratio: f64,
    /// Half width of the interval of ln `ratio`, at the confidence given to
    /// [`VisitNoise::change_at`].
    pub half: f64,
}

/// Mean throughput of a level; 0 without visits.
fn mean_throughput(level: &ConcurrencyLevel) -> f64 {
    if level.throughputs.is_empty() { 0.0 } else { describe::mean(&level.throughputs) }
}

impl VisitNoise {
    /// The spread of all levels together.
    pub fn between_visits<'a>(levels: impl Iterator<Item = &'a ConcurrencyLevel>) -> VisitNoise {
        let (mut squares, mut df) = (0.0, 0);
        for level in levels {
            let mean = mean_throughput(level);
            if level.throughputs.len() < 2 || level.is_spoilt || mean <= 0.0 {
                continue;
            }
            let square = |value: &f64| (value / mean - 1.0).powi(2);
            squares += level.throughputs.iter().map(square).sum::<f64>();
            df += level.throughputs.len() - 1;
        }
        VisitNoise { spread: if df == 0 { 0.0 } else { (squares / df as f64).sqrt() }, df }
    }

    /// Interval of a level's mean throughput; `None` if nothing is known about the spread.
    fn mean_interval(&self, level: &ConcurrencyLevel, confidence: f64) -> Option<Interval> {
        let visits = level.throughputs.len() as f64;
        let half_width = self.interval_half_width(1.0 / visits, confidence)?;
        let mean = mean_throughput(level);
        Some(Interval { low: mean * (1.0 - half_width), high: mean * (1.0 + half_width) })
    }

    fn interval_half_width(&self, variance_factor: f64, confidence: f64) -> Option<f64> {
        let tail = 0.5 * (1.0 - confidence);
        (self.df > 0 && variance_factor.is_finite()).then(|| {
            student_t::upper_quantile(tail, self.df as f64) * self.spread * variance_factor.sqrt()
        })
    }

    /// The change from one level to another, with the interval of its logarithm at `confidence`.
    /// The interval has no width if nothing is known about the spread.
    pub fn change_at(
        &self,
        from: &ConcurrencyLevel,
        to: &ConcurrencyLevel,
        confidence: f64,
    ) -> LevelChange {
        let variance_factor = |level: &ConcurrencyLevel| 1.0 / level.throughputs.len() as f64;
        LevelChange {
            ratio: mean_throughput(to) / mean_throughput(from),
            half: self
                .interval_half_width(variance_factor(from) + variance_factor(to), confidence)
                .unwrap_or(0.0),
        }
    }
}

impl LevelChange {
    /// The ends of the interval of the ratio.
    pub fn interval(&self) -> crate::Interval {
        crate::Interval { low: self.ratio * (-self.half).exp(), high: self.ratio * self.half.exp() }
    }

    /// Whether throughput grows by more than the margin, and beyond noise. A change from 0 to any
    /// throughput is growth.
    fn is_growth(&self) -> bool {
        self.ratio > 1.0 + MARGIN && self.interval().low > 1.0
    }
}
