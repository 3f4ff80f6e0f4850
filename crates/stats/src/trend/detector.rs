//! Detects changes along a series sequentially: after every point, the points so far are examined
//! (a look), and every look can lead to a suspicion or a finding.
//!
//! This module decides when a border (the place of a change) is suspected, found or withdrawn, and
//! where it finally lies; `scan` computes the evidence. When points are added, a detector can
//! continue from its state, even in another process, with the same result as if it had started
//! over. Start at [`ChangeDetector::process_series`].

use super::scan::{
    BestBorder, ChangeShape, MAX_DISTANCE, MIN_SIDE, RankScan, classify_shape, estimate_size,
    place_border,
};
use super::series::TrendSeries;
use crate::describe::{NORMAL_CONSISTENCY, mean, median};
use crate::distribution::normal;
use crate::effect::RatioEstimate;
use crate::interval::Interval;
use std::ops::{Range, RangeInclusive};

// These limits were chosen by simulation, see `crates/stats/benches/trend.md`.

/// Minimum evidence for a suspicion.
const SUSPICION_LIMIT: f64 = 3.3;
/// Minimum evidence for a finding.
const FINDING_LIMIT: f64 = 4.5;
/// A suspicion is withdrawn if its evidence falls below this.
const WITHDRAWAL_LIMIT: f64 = 2.5;
/// Lengths of the stretches that end at the newest point: round(6 x 2^(j/2)), at most
/// [`MAX_DISTANCE`]. A stretch of length L is examined whenever the number of points is divisible
/// by L / [`DUE_FRACTION`].
const STRETCH_LENGTHS: [usize; 11] = [6, 8, 12, 17, 24, 34, 48, 68, 96, 136, 192];
const DUE_FRACTION: usize = 8;
/// Maximum move of a border when it is placed.
const MAX_PLACING_MOVE: usize = 12;
/// Maximum move of a border when its evidence is reviewed.
const MAX_REVIEW_MOVE: usize = 6;
/// Maximum number of points in the new level for a review of a suspicion. After that, the suspicion
/// can neither become a finding nor be withdrawn.
const LAST_REVIEW: usize = 64;
/// Minimum number of points in the new level for withdrawing a suspicion.
const FIRST_WITHDRAWAL: usize = 8;

/// Minimum number of points for a suspicion: 17 points are the shortest stretch whose evidence can
/// reach 3.3, and this stretch is first examined when the series has 18 points.
pub const FIRST_SUSPICION: usize = 18;
/// Minimum number of points for a finding: with 20 points, the C(20, 10) arrangements are too few
/// for evidence of 4.5.
pub const FIRST_FINDING: usize = 21;

/// Strength of the evidence for a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeEvidence {
    /// The evidence is enough to measure again, but not for an alarm: without a change, this occurs
    /// about seven times in 1000 points.
    Suspected,
    /// The evidence is enough for an alarm, even though each of the many looks could cause a false
    /// alarm.
    Found {
        /// Number of points of the series at the look that found the change.
        seen: usize,
    },
}

/// Two levels and the border between them. A point is searchable unless it is negative or not
/// finite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DetectedChange {
    /// Index of the last searchable point before the border.
    pub before: usize,
    /// Index of the first searchable point after the border.
    pub after: usize,
    /// Number of searchable points when the change was first suspected.
    pub seen: usize,
    /// Strength of the evidence.
    pub evidence: ChangeEvidence,
    /// Evidence at the deciding look: a normal deviate, reduced to allow for autocorrelation.
    pub z: f64,
    /// Whether the series changes in a step or along a slope.
    pub shape: ChangeShape,
    /// The new level divided by the old one, with a 95% interval from 0 to infinity where there are
    /// too few points. Biased upwards, because the border was searched for. The ratio is NaN if no
    /// machine has points on both sides.
    pub size: RatioEstimate,
}

/// State of a border. `at` is the index of the first point after the border; `seen` and `found` are
/// numbers of points.
#[derive(Debug, Clone, Copy, PartialEq)]
struct LevelBorder {
    at: usize,
    seen: usize,
    found: Option<usize>,
    z: f64,
}

/// State of the detection along a series.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeDetector {
    /// Number of points at the next look. The number decreases when a border is added: the
    /// detection then returns to the points just after this border.
    next: usize,
    /// Largest number of points at any look so far.
    front: usize,
    /// Number of suspicions raised so far, including withdrawn ones.
    pub raised: usize,
    borders: Vec<LevelBorder>,
    known: WalkCache,
}

impl Default for ChangeDetector {
    fn default() -> ChangeDetector {
        ChangeDetector {
            next: 2 * MIN_SIDE,
            front: 0,
            raised: 0,
            borders: Vec::new(),
            known: WalkCache::default(),
        }
    }
}

impl ChangeDetector {
    /// Takes a look after every new point of `series`, which must start with all points seen
    /// before.
    pub fn process_series(&mut self, series: &TrendSeries) {
        let mut scan = RankScan::default();
        while self.next <= series.len() {
            self.front = self.front.max(self.next);
            self.next = match self.find_suspicion(series, &mut scan) {
                Some(border) => {
                    self.borders.push(border);
                    self.raised += 1;
                    border.at + 2 * MIN_SIDE
                }
                None => {
                    self.review_newest(series, &mut scan);
                    self.next + 1
                }
            };
        }
    }

    /// Returns a new border in the newest level if its evidence is enough for a suspicion.
    fn find_suspicion(&self, series: &TrendSeries, scan: &mut RankScan) -> Option<LevelBorder> {
        let (end, level) = (self.next, self.borders.last().map_or(0, |last| last.at));
        let is_due = |length: &usize| end.is_multiple_of((length / DUE_FRACTION).max(1));
        let lengths = STRETCH_LENGTHS.iter().take_while(|&&length| length <= end - level);
        let mut best: Option<(BestBorder, usize)> = None;
        for &length in lengths.filter(|length| is_due(length)) {
            let start = end - length;
            if let Some(border) = scan.best_border(series, start..end, start..=end)
                && best.is_none_or(|(best, _)| border.z > best.z)
            {
                best = Some((border, start));
            }
        }
        let (BestBorder { at, z }, start) = best.filter(|(best, _)| best.z >= SUSPICION_LIMIT)?;
        let z = z / self.dependence_cost(series, Some(at));
        if z < SUSPICION_LIMIT {
            return None;
        }
        let allowed = (start + MIN_SIDE).max(at.saturating_sub(MAX_PLACING_MOVE))
            ..=(at + MAX_PLACING_MOVE).min(end - MIN_SIDE);
        let stretch = level.max(end.saturating_sub(MAX_DISTANCE))..end;
        Some(LevelBorder {
            at: place_border(series, stretch, at, allowed),
            seen: self.front,
            found: (z >= FINDING_LIMIT).then_some(self.front),
            z,
        })
    }

    /// Reviews the newest border, whose evidence changes with the points after it.
    fn review_newest(&mut self, series: &TrendSeries, scan: &mut RankScan) {
        let end = self.next;
        let Some((newest, earlier)) = self.borders.split_last() else {
            return;
        };
        let points_after = end - newest.at;
        let is_due = points_after <= LAST_REVIEW
            && points_after.is_multiple_of((points_after / DUE_FRACTION).max(1));
        if newest.found.is_some() || !is_due || end < self.front {
            return;
        }
        let level = earlier.last().map_or(0, |border| border.at);
        let stretch = level.max(newest.at.saturating_sub(MAX_DISTANCE))..end;
        let allowed = range_around(newest.at, MAX_REVIEW_MOVE);
        let Some(best) = scan.best_border(series, stretch.clone(), allowed.clone()) else {
            return;
        };
        let z = best.z / self.dependence_cost(series, None);
        if z >= FINDING_LIMIT {
            let (at, seen) = (place_border(series, stretch, best.at, allowed), newest.seen);
            self.borders.pop();
            self.borders.push(LevelBorder { at, seen, found: Some(end), z });
        } else if z < WITHDRAWAL_LIMIT && points_after >= FIRST_WITHDRAWAL {
            self.borders.pop();
        }
    }

    /// The divisor that corrects evidence for the autocorrelation of the points. Levels are
    /// separated by the borders so far and by `candidate`, the border being examined.
    fn dependence_cost(&self, series: &TrendSeries, candidate: Option<usize>) -> f64 {
        let borders: Vec<usize> =
            self.borders.iter().map(|border| border.at).chain(candidate).collect();
        variance_inflation(series, &borders, self.next.min(series.len())).sqrt()
    }

    /// The smallest change, as a ratio above 1, that becomes visible once `after` points follow it:
    /// in about four of five cases, a change of this size is suspected near its place. Depends on
    /// the scatter of the newest level about the medians of its machines, and on the
    /// autocorrelation of the points. `None` if the newest level has fewer than eight points, or
    /// has zeros among other values.
    ///
    /// Follows from the normal approximation of the rank test, whose efficiency is .955 under
    /// normal noise. The evidence is large enough in nine of ten cases; in one of those nine, the
    /// border is elsewhere (simulated in `crates/stats/benches/trend.md`).
    pub fn smallest_visible(&self, series: &TrendSeries, after: usize) -> Option<f64> {
        const POWER: f64 = 0.9;
        const EFFICIENCY: f64 = 0.955;
        let level = self.borders.last().map_or(0, |last| last.at);
        let newest = level.max(series.len().saturating_sub(MAX_DISTANCE))..series.len();
        let (before, after) = (newest.len() as f64, after as f64);
        if newest.len() < FIRST_WITHDRAWAL {
            return None;
        }
        let sizes = series.each_machine(newest).flat_map(|values| {
            let center = median(&values);
            values.into_iter().map(move |value| (value - center).abs())
        });
        let scatter = NORMAL_CONSISTENCY * median(&sizes.collect::<Vec<f64>>());
        let required =
            (SUSPICION_LIMIT - normal::quantile(1.0 - POWER)) * self.dependence_cost(series, None);
        let runs = EFFICIENCY * before * after / (before + after);
        Some((required * scatter / runs.sqrt()).exp()).filter(|ratio| ratio.is_finite())
    }

    /// The changes in all points seen, each at its final place, with shape and size.
    pub fn describe_changes(&mut self, series: &TrendSeries) -> Vec<DetectedChange> {
        let positions = self.place_borders(series);
        let ends: Vec<usize> = [0].into_iter().chain(positions).chain([series.len()]).collect();
        let looks = &mut self.known.looks;
        looks.start_pass();
        let borders = ends.windows(3).zip(&self.borders);
        borders
            .map(|(ends, border)| {
                let at = ends[1];
                let neighborhood =
                    ends[0].max(at.saturating_sub(MAX_DISTANCE))..ends[2].min(at + MAX_DISTANCE);
                let (shape, size) = looks.get_or_compute(neighborhood.clone(), at, || {
                    (
                        classify_shape(series, neighborhood.clone(), at),
                        estimate_size(series, neighborhood, at),
                    )
                });
                DetectedChange {
                    before: series.given_index(at - 1),
                    after: series.given_index(at),
                    seen: border.seen,
                    evidence: border
                        .found
                        .map_or(ChangeEvidence::Suspected, |seen| ChangeEvidence::Found { seen }),
                    z: border.z,
                    shape,
                    size,
                }
            })
            .collect()
    }

    /// Moves each border to the place where the levels beside it fit best. All borders are moved
    /// twice, because their neighbors move as well.
    fn place_borders(&mut self, series: &TrendSeries) -> Vec<usize> {
        let mut positions: Vec<usize> = self.borders.iter().map(|border| border.at).collect();
        let cache = &mut self.known.places;
        cache.start_pass();
        for index in (0..positions.len()).chain(0..positions.len()) {
            let at = positions[index];
            let level = if index > 0 { positions[index - 1] } else { 0 };
            let end = positions.get(index + 1).copied().unwrap_or(series.len());
            let stretch = level.max(at.saturating_sub(MAX_DISTANCE))..end.min(at + MAX_DISTANCE);
            positions[index] = cache.get_or_compute(stretch.clone(), at, || {
                place_border(series, stretch, at, range_around(at, MAX_PLACING_MOVE))
            });
        }
        positions
    }
}

fn range_around(at: usize, distance: usize) -> RangeInclusive<usize> {
    at.saturating_sub(distance)..=at + distance
}

// Caches what the change detector computes about stretches of a series, so that it is not computed
// again when points are added.

/// Results about stretches of a series. They stay valid when points are added, because a stretch
/// keeps its points.
#[derive(Debug, Clone, Default, PartialEq)]
struct WalkCache {
    /// Place to which a border in a stretch is moved.
    places: StretchCache<usize>,
    /// Shape and size of the change at a border.
    looks: StretchCache<(ChangeShape, RatioEstimate)>,
}

/// Results, each for a stretch of points and a border in that stretch.
#[derive(Debug, Clone, PartialEq)]
struct StretchCache<T> {
    earlier: Vec<(Range<usize>, usize, T)>,
    now: Vec<(Range<usize>, usize, T)>,
}

impl<T> Default for StretchCache<T> {
    fn default() -> StretchCache<T> {
        StretchCache { earlier: Vec::new(), now: Vec::new() }
    }
}

impl<T: Copy> StretchCache<T> {
    /// Starts another pass, and drops the entries that were not requested in the previous pass.
    fn start_pass(&mut self) {
        self.earlier = std::mem::take(&mut self.now);
    }

    /// Returns the cached result for a border in a stretch, or computes it with `find`.
    fn get_or_compute(&mut self, stretch: Range<usize>, at: usize, find: impl FnOnce() -> T) -> T {
        let found = self
            .earlier
            .iter()
            .chain(&self.now)
            .find(|(range, border, _)| *range == stretch && *border == at)
            .map_or_else(find, |(_, _, found)| *found);
        self.now.push((stretch, at, found));
        found
    }
}

// Serializes a walk (a detection along a series), so that another process can continue it. The
// bytes contain the state of the walk, the final places of its borders, and the shapes and sizes of
// the changes there. The code below also decides whether a stored walk is still valid.

/// Incremented whenever the search changes: a walk cached by another version is recomputed.
const VERSION: u64 = 2;

impl ChangeDetector {
    /// Serializes the walk, so that it can continue after the points of `series`. The walk must
    /// have seen all these points. The result consists of little-endian words of eight bytes: a
    /// version, the number of points, their digest, the state of the walk, and three lists, each
    /// preceded by its length. The lists contain the borders, the places found for them, and the
    /// shapes and sizes of the changes there.
    pub fn to_bytes(&self, series: &TrendSeries) -> Vec<u8> {
        let seen = series.len();
        let mut words = vec![VERSION, seen as u64, series.digest(seen)];
        words.extend([self.next, self.front, self.raised].map(|n| n as u64));
        push_list(&mut words, &self.borders, |LevelBorder { at, seen, found, z }| {
            // `found` is a number of points and therefore never 0, so that 0 can mean "not found".
            [*at as u64, *seen as u64, found.unwrap_or(0) as u64, z.to_bits()]
        });
        push_list(&mut words, &self.known.places.now, |(stretch, at, place)| {
            [stretch.start, stretch.end, *at, *place].map(|n| n as u64)
        });
        push_list(&mut words, &self.known.looks.now, |(stretch, at, (shape, size))| {
            let [start, end, at] = [stretch.start, stretch.end, *at].map(|n| n as u64);
            let is_drift = u64::from(*shape == ChangeShape::Drift);
            let Interval { low, high } = size.interval;
            let [ratio, low, high] = [size.ratio, low, high].map(f64::to_bits);
            [start, end, at, is_drift, ratio, low, high]
        });
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// Restores a walk, if `bytes` have this version and `series` starts with the points that the
    /// walk has seen.
    pub fn from_bytes(bytes: &[u8], series: &TrendSeries) -> Option<ChangeDetector> {
        let (words, []) = bytes.as_chunks() else {
            return None;
        };
        let mut words = WordReader(words);
        let [version, seen, digest] = words.take()?;
        let [next, front, raised] = words.take()?.map(|n| n as usize);
        let seen = seen as usize;
        if version != VERSION || seen > series.len() || digest != series.digest(seen) {
            return None;
        }
        let borders = words.take_list::<4>()?.into_iter().map(|[at, seen, found, z]| LevelBorder {
            at: at as usize,
            seen: seen as usize,
            found: Some(found as usize).filter(|seen| *seen > 0),
            z: f64::from_bits(z),
        });
        let mut walk = ChangeDetector {
            next,
            front,
            raised,
            borders: borders.collect(),
            known: WalkCache::default(),
        };
        for record in words.take_list::<4>()? {
            let [start, end, at, place] = record.map(|n| n as usize);
            walk.known.places.now.push((start..end, at, place));
        }
        for [start, end, at, is_drift, ratio, low, high] in words.take_list::<7>()? {
            let [start, end, at] = [start, end, at].map(|n| n as usize);
            let shape = if is_drift == 1 { ChangeShape::Drift } else { ChangeShape::Step };
            let [ratio, low, high] = [ratio, low, high].map(f64::from_bits);
            let size = RatioEstimate { ratio, interval: Interval { low, high } };
            walk.known.looks.now.push((start..end, at, (shape, size)));
        }
        Some(walk)
    }
}

/// Appends a list: its length, then a record of words for each item.
fn push_list<T, const N: usize>(
    words: &mut Vec<u64>,
    items: &[T],
    record: impl Fn(&T) -> [u64; N],
) {
    words.push(items.len() as u64);
    words.extend(items.iter().flat_map(record));
}

/// Reads words one record after another.
struct WordReader<'a>(&'a [[u8; 8]]);

impl WordReader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u64; N]> {
        let (record, remaining) = self.0.split_first_chunk::<N>()?;
        self.0 = remaining;
        Some(record.map(u64::from_le_bytes))
    }

    fn take_list<const N: usize>(&mut self) -> Option<Vec<[u64; N]>> {
        let [count] = self.take()?;
        (0..count).map(|_| self.take()).collect()
    }
}

// Computes by how much the evidence for a change must be reduced because adjacent points depend on
// each other. The code below estimates the factor by which the dependence increases the variance of
// a level's mean. It uses the smaller of two estimates of the correlation: many steps (changes of
// the level) bias the estimate from differences, and undetected steps bias the estimate from
// residuals.

/// Number of past points used.
const WINDOW: usize = 256;
/// Differences and residuals are clipped at this many robust deviations.
const CLIP: f64 = 2.5;
/// Maximum correlation that is corrected for: above it, steps and noise are indistinguishable.
const MAX_CORRELATION: f64 = 0.8;
/// Estimates are multiplied by n / (n + `SHRINK`), where n is the number of pairs of differences or
/// of residuals.
const SHRINK: f64 = 20.0;
/// Minimum number of points that a machine must have for the estimate from differences.
const MIN_POINTS: usize = 12;
/// Minimum number of points that a machine must have in a level for the estimate from residuals.
const MIN_LEVEL_POINTS: usize = 4;
/// Minimum number of pairs of differences for an estimate.
const MIN_PAIRS: usize = 10;
/// Minimum number of residuals for an estimate.
const MIN_RESIDUALS: usize = 16;

/// The factor by which dependence multiplies the variance of a level's mean: (1 + phi) / (1 - phi),
/// where phi is the correlation of adjacent points within the last 256 points before `end`.
/// `borders` are the places of the changes so far, including the change that is being examined.
fn variance_inflation(series: &TrendSeries, borders: &[usize], end: usize) -> f64 {
    let phi =
        correlation_of_differences(series, end).min(correlation_of_residuals(series, borders, end));
    (1.0 + phi) / (1.0 - phi)
}

/// Estimates the correlation from clipped differences, which steps hardly affect. The estimate is
/// `1 + 2 sum d d' / sum d^2`, where d' is the difference after d (idea: Tecuapetla-Gomez and Munk,
/// Scandinavian Journal of Statistics 44, 2017).
fn correlation_of_differences(series: &TrendSeries, end: usize) -> f64 {
    let (mut products, mut squares, mut pairs) = (0.0, 0.0, 0);
    for values in series.each_machine(end.saturating_sub(WINDOW)..end) {
        if values.len() < MIN_POINTS {
            continue;
        }
        let differences: Vec<f64> = values.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let Some(clipped) = clip_outliers(&differences) else {
            continue;
        };
        for pair in clipped.windows(2) {
            products += pair[0] * pair[1];
            squares += 0.5 * (pair[0] * pair[0] + pair[1] * pair[1]);
        }
        pairs += clipped.len() - 1;
    }
    if pairs < MIN_PAIRS {
        return 0.0;
    }
    shrink_estimate(1.0 + 2.0 * products / squares, pairs)
}

/// Estimates the correlation from residuals about the median of each level and machine, corrected
/// for Kendall's bias (Biometrika 41, 1954).
fn correlation_of_residuals(series: &TrendSeries, borders: &[usize], end: usize) -> f64 {
    let start = end.saturating_sub(WINDOW);
    let inner_borders = borders.iter().copied().filter(|&border| start < border && border < end);
    let ends: Vec<usize> = [start].into_iter().chain(inner_borders).chain([end]).collect();
    let mut groups = Vec::new();
    for level in ends.windows(2) {
        let machines = series.each_machine(level[0]..level[1]);
        groups.extend(machines.filter(|values| values.len() >= MIN_LEVEL_POINTS));
    }
    for group in &mut groups {
        let center = median(group);
        group.iter_mut().for_each(|value| *value -= center);
    }
    let residuals = groups.concat();
    let Some(clipped) = clip_outliers(&residuals).filter(|_| residuals.len() >= MIN_RESIDUALS)
    else {
        return 0.0;
    };
    let (mut products, mut squares, mut remainder) = (0.0, 0.0, clipped.as_slice());
    for group in &groups {
        let (values, next) = remainder.split_at(group.len());
        let center = mean(values);
        products +=
            values.windows(2).map(|pair| (pair[0] - center) * (pair[1] - center)).sum::<f64>();
        squares += values.iter().map(|value| (value - center).powi(2)).sum::<f64>();
        remainder = next;
    }
    let (phi, count) = (products / squares, residuals.len());
    shrink_estimate(phi + groups.len() as f64 * (1.0 + 3.0 * phi) / count as f64, count)
}

/// Clips values at 2.5 robust deviations from zero; `None` when more than half of the values are
/// zero.
fn clip_outliers(values: &[f64]) -> Option<Vec<f64>> {
    let sizes: Vec<f64> = values.iter().map(|value| value.abs()).collect();
    let limit = CLIP * NORMAL_CONSISTENCY * median(&sizes);
    (limit > 0.0).then(|| values.iter().map(|value| value.clamp(-limit, limit)).collect())
}

fn shrink_estimate(phi: f64, count: usize) -> f64 {
    let count = count as f64;
    (phi * count / (count + SHRINK)).clamp(0.0, MAX_CORRELATION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trend::series::MeasuredPoint;

    /// Autoregressive sums of uniform numbers, with a step at 100. If `machines` is 2, two machines
    /// take turns.
    fn autoregressive_series(seed: u64, correlation: f64, step: f64, machines: u32) -> TrendSeries {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut uniform = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / (1u64 << 31) as f64 - 0.5
        };
        let mut levels = [0.0; 2];
        let points: Vec<MeasuredPoint> = (0..200)
            .map(|position| {
                let machine = position % machines;
                let level = &mut levels[machine as usize];
                *level = correlation * *level + 0.02 * (uniform() + uniform() + uniform());
                let log =
                    *level + 0.2 * f64::from(machine) + if position < 100 { 0.0 } else { step };
                MeasuredPoint { value: log.exp(), machine, position }
            })
            .collect();
        TrendSeries::new(&points).unwrap_or_default()
    }

    /// Mean inflation over twenty series.
    fn mean_inflation(correlation: f64, step: f64, machines: u32, borders: &[usize]) -> f64 {
        let of = |seed| {
            variance_inflation(
                &autoregressive_series(seed, correlation, step, machines),
                borders,
                200,
            )
        };
        (1..=20).map(of).sum::<f64>() / 20.0
    }

    #[test]
    fn only_dependent_points_inflate_the_variance_considerably() {
        let independent = mean_inflation(0.0, 0.0, 1, &[]);
        assert!(independent < 1.15, "{independent}");
        // (1 + .6) / (1 - .6) = 4, less the effect of shrinking and of taking the smaller estimate.
        let dependent = mean_inflation(0.6, 0.0, 1, &[]);
        assert!((2.4..4.0).contains(&dependent), "{dependent}");
        assert_eq!(variance_inflation(&autoregressive_series(1, 0.6, 0.0, 1), &[], 11), 1.0);
    }

    #[test]
    fn a_step_is_not_mistaken_for_dependence() {
        for borders in [&[][..], &[100]] {
            let cost = mean_inflation(0.0, 0.3, 1, borders);
            assert!(cost < 1.3, "{cost}");
        }
    }

    #[test]
    fn alternating_machines_are_not_mistaken_for_dependence() {
        let (independent, dependent) =
            (mean_inflation(0.0, 0.0, 2, &[]), mean_inflation(0.7, 0.0, 2, &[]));
        assert!(independent < 1.15 && dependent > 2.4, "{independent} {dependent}");
    }
}
