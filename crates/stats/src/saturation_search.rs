//! Where throughput stops growing as workers are added, decided in spite of noise.
//!
//! A level of concurrency is visited several times, and every visit gives one throughput: visits, not
//! parts of one visit, show how much a level differs from itself. Decides which level is visited next, when
//! there is nothing left to learn, and what the answer is. It must not know what the workers do, nor wait for
//! anything: both [`next`] and [`answer`] follow from the visits so far alone, so that what ended the measuring
//! can be found again from what was stored. Start at [`next`]; how two levels are compared is in [`Noise`].

use crate::Interval;
use crate::describe;
use crate::distribution::student_t;

/// A level and its visits.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Level {
    /// Workers at once.
    pub concurrency: u32,
    /// Throughput of every visit, in any unit, in order; zero is a valid one.
    pub throughputs: Vec<f64>,
    /// Something went wrong at this level, so that it cannot be the answer and nothing above it is visited.
    pub is_spoilt: bool,
}

/// How levels are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// The lowest level.
    pub first: u32,
    /// Levels are multiples of this number, one after the other; without it they double, and the places
    /// around the best are looked at afterwards.
    pub step: Option<u32>,
    /// The highest level.
    pub limit: u32,
    /// Levels one after the other that bring no growth before the search ends.
    pub patience: u32,
    /// Visits of every level.
    pub visits: u32,
    /// Visits of a level that decides.
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

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Visit this level, once.
    Visit(u32),
    /// Nothing is left to be learnt within the rules.
    Stop,
}

/// Around the best level, neighbours may be so much apart: a peak between them would be missed otherwise.
const WIDEST_AT_BEST: f64 = 1.5;

/// The answer is found to an eighth of itself: half an octave's third, finer than throughput near a knee
/// can usually be distinguished.
const RESOLUTION: u32 = 8;

/// Which level is visited next.
///
/// First the search upwards: every level is visited [`Rules::visits`] times, until [`Rules::patience`] levels in a row
/// brought no growth beyond noise over the best before them. Then the surroundings of the best level, in case
/// there is a peak between two levels. Then levels below the best of which it is unclear whether they are
/// as good, in turn with the best, so that a slow drift falls on both. Last the space below the
/// smallest level that is as good, by halves. New visits can change what was decided before: the search
/// then goes on.
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

/// The next level of the search, if it goes on.
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

/// The middle between the best level and a neighbour that is far from it.
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

/// A level strictly between two, a multiple of the step if there is one.
fn middle(low: u32, high: u32, rules: &Rules) -> Option<u32> {
    let step = rules.step.unwrap_or(1);
    let middle = (low + (high - low) / 2) / step * step;
    (low < middle && middle < high).then_some(middle)
}

/// The lowest level of which it is unclear whether it is as good as the best, or the best, whichever was
/// visited less.
fn unclear(standings: &[Standing], best: usize, rules: &Rules) -> Option<u32> {
    let level = standings[..best]
        .iter()
        .find(|one| one.status != Status::Lower)?;
    let pair = [level, &standings[best]];
    let fewest = pair.iter().min_by_key(|one| one.visits)?;
    let may_go_on = level.status == Status::Unclear && fewest.visits < rules.most_visits as usize;
    may_go_on.then_some(fewest.concurrency)
}

/// The middle of the space below the smallest level that is as good as the best.
fn below_knee(standings: &[Standing], rules: &Rules) -> Option<u32> {
    let knee = knee(standings)?;
    let high = standings[knee].concurrency;
    let low = standings[knee.checked_sub(1)?].concurrency;
    let is_wide = high - low > (high / RESOLUTION).max(1);
    is_wide.then(|| middle(low, high, rules))?
}

// How every level stands to the best one, and the answer that follows.

/// Confidence of the intervals that are reported.
const REPORTED_CONFIDENCE: f64 = 0.95;

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

/// The lowest level that is not shown to be lower than the best.
fn knee(standings: &[Standing]) -> Option<usize> {
    standings.iter().position(|one| one.status != Status::Lower)
}

/// How the levels stand, in ascending order. Spoilt ones and those without a visit are left out.
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
        // Nothing was answered anywhere: all levels are alike.
        () if mean(best) <= 0.0 => Status::AsGood,
        () if change.is_decline() => Status::Lower,
        () if change.is_as_good() => Status::AsGood,
        () => Status::Unclear,
    }
}

// How much a level differs from itself, and what that says of the difference of two levels. Three
// visits know little about their own spread. The spread of all levels together, relative to their
// throughputs, is known much better, and noise of a machine is about proportional to what is measured.

/// Confidence of the decisions: of about twenty comparisons in a search, each looked at several times, hardly
/// one may be wrong.
const CONFIDENCE: f64 = 0.98;

/// Less than this is never called growth or decline, however well it is known.
const MARGIN: f64 = 0.01;

/// Levels that differ by less are as good as each other.
const TOLERANCE: f64 = 0.05;

/// Relative spread of the visits of a level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Standard deviation of one visit, as a share of its level's throughput; 0 where no level was
    /// visited twice.
    pub spread: f64,
    /// Degrees of freedom: visits less levels.
    pub df: usize,
}

/// What two levels say of each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Throughput of the second as a multiple of that of the first.
    pub ratio: f64,
    /// Half of the width of the interval of ln `ratio` at the confidence of the decisions.
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
