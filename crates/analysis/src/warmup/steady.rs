//! Classifies a series of times that starts with the first iteration, and finds its spikes and its
//! levels.
//!
//! Decides where levels change. This module knows nothing about processes, variants or metrics. The
//! method follows Barrett et al. (OOPSLA 2017) with other constants and three differences: times
//! are compared as ratios, single spikes are not levels, and oscillating series have their own
//! class. Start at [`classify_series`].
//!
//! [`classify_published`] reimplements the classification of `warmup_stats`
//! (softdevteam/warmup_stats, `mark_changepoints_in_json`), so that published Krun results get the
//! same classes as in their authors' publications. Unlike [`classify_series`], it never treats the
//! first 100 points as outliers, and compares times instead of their ratios. Two levels count as
//! equal if the ranges "mean plus or minus variance" overlap, although a mean is a time and a
//! variance is the square of a time.

use crate::summary::finite_or_none;
use speedwell_model::{SteadyRule, name_variants};
use speedwell_stats::changepoint::find_segments;
use speedwell_stats::describe::{NORMAL_CONSISTENCY, mad, median, quantile};
use std::ops::Range;

/// Class of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WarmupClass {
    /// One level.
    Flat,
    /// The last level is faster than the level before.
    WarmUp,
    /// The last level is slower than the level before.
    SlowDown,
    /// Oscillating between levels.
    Cyclic,
    /// The last change of level came so late that too few points follow.
    NoSteadyState,
    /// The times are too noisy from point to point, or the speed of the machine changed too
    /// often.
    Unclear,
}

impl WarmupClass {
    /// Whether series of this class have a steady part.
    pub fn is_steady(self) -> bool {
        matches!(self, WarmupClass::Flat | WarmupClass::WarmUp | WarmupClass::SlowDown)
    }
}

name_variants!(WarmupClass: Flat = "flat", WarmUp = "warm-up", SlowDown = "slow-down",
    Cyclic = "cyclic", NoSteadyState = "no steady state", Unclear = "unclear");

/// A part of a series between two changes.
#[derive(Debug, Clone, PartialEq)]
pub struct SteadyLevel {
    /// Indexes of its points.
    pub points: Range<usize>,
    /// Median of its times.
    pub time: f64,
}

/// Result of classifying a series.
#[derive(Debug, Clone, PartialEq)]
pub struct SteadySearch {
    /// Class of the series.
    pub class: WarmupClass,
    /// Its levels, in order; never empty.
    pub levels: Vec<SteadyLevel>,
    /// Single points far from their neighbors. They are included in totals, but not in levels.
    pub spikes: Vec<usize>,
    /// Standard deviation of the noise from point to point, as a fraction of the time. Spikes are
    /// excluded.
    pub noise: f64,
    /// Period of a cyclic series, in points.
    pub period: Option<f64>,
    /// Changes of level that coincide with a change of the machine, and so are not attributed to
    /// the program.
    pub machine_changes: Vec<usize>,
}

impl SteadySearch {
    /// Time of the last level.
    pub fn last_level_time(&self) -> f64 {
        self.levels.last().map_or(f64::NAN, |level| level.time)
    }

    /// First point of the steady part, if there is one.
    pub fn first_steady_point(&self) -> Option<usize> {
        let last = self.levels.last().filter(|_| self.class.is_steady())?;
        Some(last.points.start)
    }
}

/// A point is compared with the median of this many points on each side.
const NEIGHBORS: usize = 5;
/// Minimum distance of a spike from its neighbors, as a logarithm.
const MIN_SPIKE: f64 = 0.05;
/// Minimum distance of a spike from its neighbors, in standard deviations of the neighbors.
const SPIKE_DEVIATIONS: f64 = 6.0;
/// If the noise between points is above this, changes of a few percent cannot be detected.
const MAX_NOISE: f64 = 0.10;
/// Logarithms further than this from the median are clipped to this distance, so that one stalled
/// point does not form a level.
const MAX_LOG_DISTANCE: f64 = 5.0;
/// Penalty for a change, in multiples of the logarithm of the number of points.
const PENALTY: f64 = 15.0;
/// Minimum number of points per level.
const MIN_LEVEL_POINTS: usize = 5;
/// A series is cyclic if its levels cross the middle at least this many times.
const CYCLIC_CROSSINGS: usize = 4;
/// A change of level counts as a change of the machine if the time of the reference loop also
/// changes. The two changes may be at most this many executions of the loop apart.
const REFERENCE_DISTANCE: usize = 2;
/// A series with more changes of the machine than this is unclear.
const MAX_MACHINE_CHANGES: usize = 2;

/// Times of the reference loop, which always does the same work.
#[derive(Debug, Clone, Copy)]
pub struct ReferenceTimes<'a> {
    /// The times.
    pub times: &'a [f64],
    /// Number of points between executions of the loop.
    pub every: usize,
}

/// Classifies a series of times and locates its steady part.
pub fn classify_series(
    times: &[f64],
    rule: &SteadyRule,
    reference: Option<ReferenceTimes<'_>>,
) -> SteadySearch {
    let smooth = SmoothedSeries::new(times);
    let log_levels = smooth.log_levels(rule.delta);
    let changes = machine_changes(&log_levels, rule.delta, reference);
    let levels = smooth.without_joints(&log_levels, &changes);
    let crossings = middle_crossings(&levels, times.len());
    let class = if smooth.noise > MAX_NOISE || changes.len() > MAX_MACHINE_CHANGES {
        WarmupClass::Unclear
    } else {
        class_of(&levels, crossings.len(), times.len(), rule)
    };
    let level = |(points, log): LogLevel| SteadyLevel { points, time: log.exp() };
    SteadySearch {
        class,
        period: (class == WarmupClass::Cyclic).then(|| cycle_period(&crossings)),
        levels: levels.into_iter().map(level).collect(),
        spikes: smooth.spikes,
        noise: smooth.noise,
        machine_changes: changes,
    }
}

/// A level: its points, and the median of the logarithms of their times.
type LogLevel = (Range<usize>, f64);

fn class_of(levels: &[LogLevel], crossings: usize, count: usize, rule: &SteadyRule) -> WarmupClass {
    let [.., previous, last] = levels else { return WarmupClass::Flat };
    let steady_points = count - last.0.start;
    if crossings >= CYCLIC_CROSSINGS {
        WarmupClass::Cyclic
    } else if (steady_points as f64) < rule.min_share * count as f64 {
        WarmupClass::NoSteadyState
    } else if previous.1 > last.1 {
        WarmupClass::WarmUp
    } else {
        WarmupClass::SlowDown
    }
}

/// Points at which levels cross the middle between the highest and the lowest level. Levels that
/// end within the first quarter of the series are ignored.
fn middle_crossings(levels: &[LogLevel], count: usize) -> Vec<usize> {
    let late: Vec<&LogLevel> =
        levels.iter().filter(|level| level.0.end as f64 > 0.25 * count as f64).collect();
    let heights = || late.iter().map(|level| level.1);
    let middle = heights().fold(f64::NEG_INFINITY, f64::max) / 2.0
        + heights().fold(f64::INFINITY, f64::min) / 2.0;
    late.windows(2)
        .filter(|neighbors| (neighbors[0].1 > middle) != (neighbors[1].1 > middle))
        .map(|neighbors| neighbors[1].0.start)
        .collect()
}

/// Length of a cycle, which goes from one level to the other and back. It is twice the median
/// distance between neighboring crossings.
fn cycle_period(crossings: &[usize]) -> f64 {
    let distances = crossings.windows(2).map(|neighbors| (neighbors[1] - neighbors[0]) as f64);
    2.0 * median(&distances.collect::<Vec<f64>>())
}

/// Points at which a new level begins (joints) and the time of the reference loop changes as well.
fn machine_changes(
    levels: &[LogLevel],
    delta: f64,
    reference: Option<ReferenceTimes<'_>>,
) -> Vec<usize> {
    let Some(ReferenceTimes { times, every }) =
        reference.filter(|reference| !reference.times.is_empty())
    else {
        return Vec::new();
    };
    let reference_levels = SmoothedSeries::new(times).log_levels(delta);
    let machine_points: Vec<usize> =
        reference_levels.iter().skip(1).map(|level| level.0.start * every).collect();
    let is_near = |joint: &usize| {
        machine_points.iter().any(|change| change.abs_diff(*joint) <= REFERENCE_DISTANCE * every)
    };
    let joints = levels.iter().skip(1).map(|level| level.0.start);
    joints.filter(is_near).collect()
}

/// Logarithms of a series, with each spike replaced by the median of its neighborhood.
struct SmoothedSeries {
    logs: Vec<f64>,
    spikes: Vec<usize>,
    noise: f64,
}

impl SmoothedSeries {
    fn new(times: &[f64]) -> SmoothedSeries {
        let raw: Vec<f64> = times.iter().map(|time| time.max(1e-12).ln()).collect();
        let mut logs = raw.clone();
        let mut spikes = Vec::new();
        for (index, log) in logs.iter_mut().enumerate() {
            let end = (index + NEIGHBORS + 1).min(raw.len());
            let neighborhood = &raw[index.saturating_sub(NEIGHBORS)..end];
            let (middle, deviation) =
                (median(neighborhood), NORMAL_CONSISTENCY * mad(neighborhood));
            if (*log - middle).abs() > MIN_SPIKE.max(SPIKE_DEVIATIONS * deviation) {
                *log = middle;
                spikes.push(index);
            }
        }
        let steps: Vec<f64> = logs.windows(2).map(|two| (two[1] - two[0]).abs()).collect();
        let middle = median(&logs);
        for log in &mut logs {
            *log = log.clamp(middle - MAX_LOG_DISTANCE, middle + MAX_LOG_DISTANCE);
        }
        SmoothedSeries {
            logs,
            spikes,
            noise: finite_or_none(NORMAL_CONSISTENCY * median(&steps) / 2f64.sqrt()).unwrap_or(0.0),
        }
    }

    fn log_level(&self, points: Range<usize>) -> LogLevel {
        let log = median(&self.logs[points.clone()]);
        (points, log)
    }

    /// Splits the series into levels. Neighboring levels are joined if their ratio differs from 1
    /// by at most `delta`.
    fn log_levels(&self, delta: f64) -> Vec<LogLevel> {
        // Subtracting the middle avoids loss of digits in large sums of squares.
        let middle = median(&self.logs);
        let centered: Vec<f64> = self.logs.iter().map(|log| log - middle).collect();
        let penalty = PENALTY * (centered.len() as f64).ln();
        let segments = find_segments(&centered, penalty, MIN_LEVEL_POINTS);
        self.join_levels(segments, |last, next| (last.1 - next.1).abs() <= delta.ln_1p())
    }

    /// Joins each level that begins at one of the points in `joints` with the level before it.
    fn without_joints(&self, levels: &[LogLevel], joints: &[usize]) -> Vec<LogLevel> {
        let segments = levels.iter().map(|(points, _)| points.clone());
        self.join_levels(segments, |_, next| joints.contains(&next.0.start))
    }

    /// The levels of these segments. A level is joined with the one before it if `belongs` says so.
    fn join_levels(
        &self,
        segments: impl IntoIterator<Item = Range<usize>>,
        belongs: impl Fn(&LogLevel, &LogLevel) -> bool,
    ) -> Vec<LogLevel> {
        let mut levels: Vec<LogLevel> = Vec::new();
        for points in segments {
            let level = self.log_level(points);
            match levels.last_mut() {
                Some(last) if belongs(last, &level) => {
                    *last = self.log_level(last.0.start..level.0.end);
                }
                _ => levels.push(level),
            }
        }
        levels
    }
}

/// Size of the window of points with which a point is compared.
const OUTLIER_WINDOW: usize = 200;
/// Minimum number of points per segment.
const MIN_SEGMENT_POINTS: usize = 2;

/// Limits of the classification: how much levels must differ, and how long the last level must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassifierLimits {
    /// A level counts as equal to the last level if the two differ by less than this.
    pub delta: LevelDelta,
    /// Number of points at the end that must be steady.
    pub steady: usize,
}

/// Minimum difference of levels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LevelDelta {
    /// In seconds.
    Seconds(f64),
    /// As a fraction of the time of the fastest level.
    Share(f64),
}

impl Default for ClassifierLimits {
    /// The limits that Barrett et al. use (OOPSLA 2017): a millisecond, and the last 500
    /// iterations.
    fn default() -> ClassifierLimits {
        ClassifierLimits { delta: LevelDelta::Seconds(0.001), steady: 500 }
    }
}

/// Result of the classification.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassifiedSeries {
    /// Flat, warm-up, slow-down or no steady state.
    pub class: WarmupClass,
    /// Indexes of points far from their surroundings.
    pub outliers: Vec<usize>,
    /// Ends of all segments except the last, as indexes into the series without its outliers.
    pub change_points: Vec<usize>,
    /// First point of the steady part.
    pub steady_from: usize,
    /// Mean of the last segment, in seconds.
    pub level_s: f64,
}

/// Classifies a series of times in seconds.
pub fn classify_published(times_s: &[f64], limits: &ClassifierLimits) -> ClassifiedSeries {
    let outliers = find_outliers(times_s);
    let kept_indices: Vec<usize> =
        (0..times_s.len()).filter(|index| outliers.binary_search(index).is_err()).collect();
    let values: Vec<f64> = kept_indices.iter().map(|&index| times_s[index]).collect();
    let ranges = find_segments(&values, 15.0 * (values.len() as f64).ln(), MIN_SEGMENT_POINTS);
    let segments: Vec<SeriesSegment> =
        ranges.into_iter().map(|segment| SeriesSegment::new(segment, &values)).collect();
    let Some((last, earlier)) = segments.split_last() else {
        return ClassifiedSeries {
            class: WarmupClass::Flat,
            outliers,
            change_points: Vec::new(),
            steady_from: 0,
            level_s: f64::NAN,
        };
    };
    let delta = match limits.delta {
        LevelDelta::Seconds(seconds) => seconds,
        LevelDelta::Share(share) => {
            share * segments.iter().map(|segment| segment.mean).fold(f64::INFINITY, f64::min)
        }
    };
    let low = (last.mean - last.variance).min(last.mean - delta);
    let high = (last.mean + last.variance).max(last.mean + delta);
    let differs = |segment: &&SeriesSegment| {
        segment.mean + segment.variance < low || segment.mean - segment.variance > high
    };
    let differing = earlier.iter().rev().find(differs);
    let steady_from = differing.map_or(0, |segment| kept_indices[segment.points.end - 1] + 1);
    let class = match differing {
        None => WarmupClass::Flat,
        Some(_) if steady_from > times_s.len().saturating_sub(limits.steady) + 1 => {
            WarmupClass::NoSteadyState
        }
        Some(segment) if segment.mean - segment.variance < low => WarmupClass::SlowDown,
        Some(_) => WarmupClass::WarmUp,
    };
    ClassifiedSeries {
        class,
        steady_from,
        level_s: last.mean,
        change_points: earlier.iter().map(|segment| segment.points.end).collect(),
        outliers,
    }
}

struct SeriesSegment {
    points: Range<usize>,
    mean: f64,
    variance: f64,
}

impl SeriesSegment {
    fn new(points: Range<usize>, values: &[f64]) -> SeriesSegment {
        let segment = &values[points.clone()];
        let count = segment.len() as f64;
        let mean = segment.iter().sum::<f64>() / count;
        let squares = segment.iter().map(|value| (value - mean) * (value - mean));
        SeriesSegment { points, mean, variance: squares.sum::<f64>() / count }
    }
}

/// Indexes of the points whose distance from the median of their window is more than three times
/// the distance between the window's 10th and 90th percentiles.
fn find_outliers(times_s: &[f64]) -> Vec<usize> {
    let is_outlier = |index: &usize| {
        let begin = index.saturating_sub(OUTLIER_WINDOW / 2);
        let end = (index + OUTLIER_WINDOW / 2).min(times_s.len());
        if begin == 0 && end < OUTLIER_WINDOW {
            return false;
        }
        let mut window = times_s[begin..end].to_vec();
        window.sort_by(f64::total_cmp);
        let reach = 3.0 * (quantile(&window, 0.9) - quantile(&window, 0.1));
        (times_s[*index] - quantile(&window, 0.5)).abs() > reach
    };
    (0..times_s.len()).filter(is_outlier).collect()
}
