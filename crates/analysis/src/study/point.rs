//! The figures of one point.
//!
//! Decides how cases and runs enter the mean and its interval. It must not know other points.

use super::cells::Point;
use crate::StudyPoint;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use speedwell_model::Estimate;
use speedwell_stats::describe::{mean, median, quantile, skewness};

/// Resamples: the ends of a 95 % interval then rest on 50 values each.
const DRAWS: usize = 2_000;
/// Skewness from which a mean is a doubtful summary, as in the scatter analysis of Node.js core.
const SKEWED: f64 = 1.0;

/// Mean over cases of the mean over runs, with a percentile interval that resamples the runs of
/// every case; without one (low = high = mean) where no case has two runs.
pub(super) fn draw(point: &Point<'_>, confidence: f64, seed: u64) -> StudyPoint {
    let pooled = point.pooled();
    let mean = interval(point, confidence, seed);
    let middle = median(&pooled);
    StudyPoint {
        x: point.x.clone(),
        line: point.line.clone(),
        cases: point.cells.len(),
        mean,
        median: middle,
        skewed: is_skewed(&pooled, mean.low, mean.high),
        runs: pooled,
    }
}

/// Whether the mean is a doubtful summary: the values are skewed, or their median lies outside the
/// interval of the mean.
pub fn is_skewed(values: &[f64], low: f64, high: f64) -> bool {
    let outside = low < high && !(low..=high).contains(&median(values));
    outside || skewness(values).abs() > SKEWED
}

fn interval(point: &Point<'_>, confidence: f64, seed: u64) -> Estimate {
    let means: Vec<f64> = point.cells.iter().map(|cell| mean(&cell.values)).collect();
    let value = mean(&means);
    if point.cells.iter().all(|cell| cell.values.len() < 2) {
        return Estimate {
            value,
            low: value,
            high: value,
        };
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut resampled_mean = |values: &[f64]| {
        let pick = |_| values[random.random_range(0..values.len())];
        (0..values.len()).map(pick).sum::<f64>() / values.len() as f64
    };
    let mut resample = || {
        let sum: f64 = point
            .cells
            .iter()
            .map(|cell| resampled_mean(&cell.values))
            .sum();
        sum / point.cells.len() as f64
    };
    let mut resamples: Vec<f64> = (0..DRAWS).map(|_| resample()).collect();
    resamples.sort_unstable_by(f64::total_cmp);
    let tail = 0.5 * (1.0 - confidence);
    Estimate {
        value,
        low: quantile(&resamples, tail),
        high: quantile(&resamples, 1.0 - tail),
    }
}
