//! Where throughput stops growing as workers are added, decided in spite of noise.
//!
//! A level of concurrency is visited several times, and every visit gives one throughput: visits, not
//! stretches of one visit, tell how much a level differs from itself. Decides which level is visited next, when
//! there is nothing left to learn, and what the answer is. It must not know what the workers do, nor wait for
//! anything: both [`next`] and [`answer`] follow from the visits so far alone, so that what ended the measuring
//! can be found again from what was stored. Start at [`next`]; how two levels are compared is in `noise.rs`.

mod noise;
mod standing;

pub use noise::{Change, Noise};
pub use standing::{Answer, Standing, Status, answer};

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
/// can usually be told apart.
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
    let noise = Noise::of(sorted.iter().copied());
    if let Some(higher) = higher(&sorted, &noise, rules) {
        return Next::Visit(higher);
    }
    let standings = standing::all(levels);
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
        if best.is_none_or(|best| noise::mean(level) > noise::mean(best)) {
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
    let knee = standing::knee(standings)?;
    let high = standings[knee].concurrency;
    let low = standings[knee.checked_sub(1)?].concurrency;
    let is_wide = high - low > (high / RESOLUTION).max(1);
    is_wide.then(|| middle(low, high, rules))?
}
