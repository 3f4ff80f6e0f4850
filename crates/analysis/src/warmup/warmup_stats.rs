//! Reimplements the classification of `warmup_stats` (softdevteam/warmup_stats,
//! `mark_changepoints_in_json`), so that published Krun results get the same classes as in their
//! authors' publications.
//!
//! Unlike `steady.rs`, this classification never treats the first 100 points as outliers, and
//! compares times instead of their ratios. Two levels count as equal if the ranges "mean plus or
//! minus variance" overlap, although a mean is a time and a variance is the square of a time. Start
//! at [`classify_published`].

use super::steady::WarmupClass;
use speedwell_stats::changepoint::find_segments;
use speedwell_stats::describe::quantile;
use std::ops::Range;

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
    let Some(last) = segments.last() else {
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
    let differing = segments.iter().rev().skip(1).find(differs);
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
        change_points: segments[..segments.len() - 1]
            .iter()
            .map(|segment| segment.points.end)
            .collect(),
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
