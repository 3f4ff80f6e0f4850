//! Computes statistics of levels: the variance between sessions, the mean of a level with its
//! interval, and whether the newest point lies beyond the points before it.
//!
//! The functions describe a given level and search for nothing; none of their results is an alarm.
//! Start at [`between_sessions`].

use super::series::TrendSeries;
use crate::describe::{NORMAL_CONSISTENCY, mad, mean, median};
use crate::distribution::normal;
use crate::effect::ShiftEstimate;
use crate::interval::Interval;

/// The logarithm of a point with the variance from its runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogMeasurement {
    /// Logarithm of the value.
    pub log: f64,
    /// Variance of that logarithm, from the runs of the session; 0 if there was only one run.
    pub variance: f64,
}

/// The variance between sessions, on the log scale: the part of the variance of a level's points
/// that their runs do not explain.
///
/// Each group holds the points of one level and machine. Method of moments: the sum of squares
/// about a group's mean has the expectation (k - 1) tau^2 + (1 - 1/k) times the sum of the
/// variances (Hedges and Olkin, Statistical Methods for Meta-Analysis, 1985, section 9.B). `None`
/// if no group has two points.
pub fn between_sessions(groups: &[Vec<LogMeasurement>]) -> Option<f64> {
    let (mut squares, mut explained, mut free) = (0.0, 0.0, 0.0);
    for group in groups.iter().filter(|group| group.len() > 1) {
        let logs: Vec<f64> = group.iter().map(|point| point.log).collect();
        let (centre, count) = (mean(&logs), group.len() as f64);
        squares += logs.iter().map(|log| (log - centre).powi(2)).sum::<f64>();
        explained += (1.0 - 1.0 / count) * group.iter().map(|point| point.variance).sum::<f64>();
        free += count - 1.0;
    }
    (free > 0.0).then(|| ((squares - explained) / free).max(0.0))
}

/// The weighted mean of a level on the log scale, with its interval. A point has the weight
/// 1 / (`between` + variance). `None` when there is no point, or when both `between` and the
/// variance of a point are 0.
pub fn weighted_level(
    points: &[LogMeasurement],
    between: f64,
    confidence: f64,
) -> Option<ShiftEstimate> {
    let weight = |point: &LogMeasurement| (between + point.variance).recip();
    let weights: f64 = points.iter().map(weight).sum();
    if points.is_empty() || !weights.is_finite() {
        return None;
    }
    let estimate = points.iter().map(|point| weight(point) * point.log).sum::<f64>() / weights;
    let half_width = normal::upper_quantile(0.5 * (1.0 - confidence)) / weights.sqrt();
    let interval = Interval { low: estimate - half_width, high: estimate + half_width };
    Some(ShiftEstimate { estimate, interval })
}

/// Number of earlier points with which the newest point is compared.
const RECENT_POINTS: usize = 40;
/// Minimum distance of the newest point from the median of these points, in robust deviations.
const FAR_DEVIATIONS: f64 = 4.0;

/// Compares the newest point with the last 40 points of its machine. If it lies beyond all of them
/// and more than 4 robust deviations from their median, returns the ratio of the newest point to
/// this median.
///
/// A hint to measure again, never an alarm: under heavy-tailed noise it occurs for 30 in 1000
/// points.
pub fn first_beyond(series: &TrendSeries) -> Option<f64> {
    let (&machine, earlier) = series.machines().split_last()?;
    let newest = series.logs()[earlier.len()];
    let same_machine =
        series.logs().iter().zip(earlier).rev().filter(|(_, other)| **other == machine);
    let recent: Vec<f64> = same_machine.take(RECENT_POINTS).map(|(&log, _)| log).collect();
    let is_beyond =
        recent.iter().all(|&log| log < newest) || recent.iter().all(|&log| log > newest);
    let distance = newest - median(&recent);
    let is_far = distance.abs() > FAR_DEVIATIONS * NORMAL_CONSISTENCY * mad(&recent);
    (recent.len() == RECENT_POINTS && is_beyond && is_far).then(|| distance.exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log_measurements(logs: &[f64], variance: f64) -> Vec<LogMeasurement> {
        logs.iter().map(|&log| LogMeasurement { log, variance }).collect()
    }

    #[test]
    fn variance_between_sessions_excludes_the_variance_of_runs() {
        // The sums of squares about the means are 2 and 8, with 1 and 2 degrees of freedom. The
        // runs explain a variance of 0.5.
        let groups = [log_measurements(&[1.0, 3.0], 0.5), log_measurements(&[9.0, 11.0, 7.0], 0.5)];
        let variance = between_sessions(&groups).unwrap();
        assert!((variance - (10.0 / 3.0 - 0.5)).abs() < 1e-12, "{variance}");
        assert_eq!(between_sessions(&[log_measurements(&[1.0, 1.1], 5.0)]), Some(0.0));
        assert_eq!(between_sessions(&[log_measurements(&[1.0], 0.0)]), None);
    }

    #[test]
    fn points_of_few_runs_weigh_less_in_a_level() {
        let points = [log_measurements(&[0.0], 3.0), log_measurements(&[1.0], 0.0)].concat();
        let level = weighted_level(&points, 1.0, 0.95).unwrap();
        assert!((level.estimate - 0.8).abs() < 1e-12);
        assert!((level.interval.half_width() - 1.959963984540054 / 1.25f64.sqrt()).abs() < 1e-12);
        assert_eq!(weighted_level(&points, 0.0, 0.95), None);
        assert_eq!(weighted_level(&[], 1.0, 0.95), None);
    }
}
