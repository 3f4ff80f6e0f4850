//! Detects changes along a series sequentially: after every point, the points so far are examined
//! (a look), and every look can lead to a suspicion or a finding.
//!
//! This module decides when a border (the place of a change) is suspected, found or withdrawn, and
//! where it finally lies; `scan` computes the evidence. When points are added, a detector can
//! continue from its state, even in another process, with the same result as if it had started
//! over. Start at [`ChangeDetector::process_series`].

use super::autocorrelation::variance_inflation;
use super::scan::{BestBorder, MAX_DISTANCE, MIN_SIDE, RankScan};
use super::series::TrendSeries;
use super::shape::{ChangeShape, ChangeSize, classify_shape, estimate_size};
use super::stretch_cache::WalkCache;
use crate::describe::{NORMAL_CONSISTENCY, median};
use crate::distribution::normal;
use std::ops::RangeInclusive;

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
    /// Approximate size; biased upwards, because the border was searched for.
    pub size: ChangeSize,
}

/// State of a border; indices count the points of the series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LevelBorder {
    pub at: usize,
    pub seen: usize,
    pub found: Option<usize>,
    pub z: f64,
}

/// State of the detection along a series.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeDetector {
    /// Number of points at the next look. The number decreases when a border is added: the
    /// detection then returns to the points just after this border.
    pub(super) next: usize,
    /// Largest number of points at any look so far.
    pub(super) front: usize,
    pub(super) raised: usize,
    pub(super) borders: Vec<LevelBorder>,
    pub(super) known: WalkCache,
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

    /// Number of suspicions raised so far, including withdrawn ones.
    pub fn suspicion_count(&self) -> usize {
        self.raised
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
        let placed = scan.best_border(series, stretch, allowed);
        Some(LevelBorder {
            at: placed.map_or(at, |placed| placed.at),
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
        let Some(best) =
            scan.best_border(series, stretch, range_around(newest.at, MAX_REVIEW_MOVE))
        else {
            return;
        };
        let z = best.z / self.dependence_cost(series, None);
        if z >= FINDING_LIMIT {
            let (at, seen) = (best.at, newest.seen);
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

    /// Moves each border to the place with the largest evidence between its neighbors. All borders
    /// are moved twice, because their neighbors move as well.
    fn place_borders(&mut self, series: &TrendSeries) -> Vec<usize> {
        let mut positions: Vec<usize> = self.borders.iter().map(|border| border.at).collect();
        let mut scan = RankScan::default();
        let cache = &mut self.known.places;
        cache.start_pass();
        for index in (0..positions.len()).chain(0..positions.len()) {
            let at = positions[index];
            let level = if index > 0 { positions[index - 1] } else { 0 };
            let end = positions.get(index + 1).copied().unwrap_or(series.len());
            let stretch = level.max(at.saturating_sub(MAX_DISTANCE))..end.min(at + MAX_DISTANCE);
            positions[index] = cache.get_or_compute(stretch.clone(), at, || {
                let best = scan.best_border(series, stretch, range_around(at, MAX_PLACING_MOVE));
                best.map_or(at, |best| best.at)
            });
        }
        positions
    }
}

fn range_around(at: usize, distance: usize) -> RangeInclusive<usize> {
    at.saturating_sub(distance)..=at + distance
}
