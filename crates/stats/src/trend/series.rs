//! Converts the points of a series to the form that the search for changes needs: logarithms in the
//! order of the revisions.
//!
//! This module decides which points can be searched, and numbers the machines. Start at
//! [`TrendSeries`].

use crate::describe::{NORMAL_CONSISTENCY, mad, mean, median};
use crate::distribution::normal;
use crate::effect::ShiftEstimate;
use crate::interval::Interval;
use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;

/// The value of one session for one case, variant and metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredPoint {
    /// The value, in the unit of the metric.
    pub value: f64,
    /// Number that identifies the machine that measured the value.
    pub machine: u32,
    /// Index of the measured revision in the history. No change is placed between points with the
    /// same index.
    pub position: u32,
}

/// Too many values are negative or not finite, so no value is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{left_out} of {points} values are negative or not finite; a trend search allows at most one in ten"
)]
pub struct TooManyUnusableValues {
    /// Number of values that are negative, infinite, or NaN.
    pub left_out: usize,
    /// Number of all values.
    pub points: usize,
}

/// The number that is used as the logarithm of zero. It is below the logarithm of every positive
/// number (at least -745), so zero has the lowest rank. It is finite, so differences of logarithms
/// are numbers. A change from zero then has an infinite ratio, and a change to zero the ratio 0.
const LOG_OF_ZERO: f64 = -10_000.0;

/// Points in the order of the revisions, as logarithms. Points whose value is negative or not
/// finite are left out.
#[derive(Debug, Clone, Default)]
pub struct TrendSeries {
    pub(super) logs: Vec<f64>,
    /// The machine of each point. Machines are numbered from 0 in the order of their first points.
    pub(super) machines: Vec<u32>,
    positions: Vec<u32>,
    /// Index of each point among the points given to [`TrendSeries::new`].
    given_indexes: Vec<usize>,
    /// The caller's machine numbers, indexed by the numbers used here, which count from 0.
    callers_machines: Vec<u32>,
}

impl TrendSeries {
    /// Creates a series of the points whose value is zero or has a logarithm. `points` must be in
    /// the order of the revisions.
    ///
    /// # Errors
    ///
    /// Fails if more than one value in ten is negative or not finite.
    pub fn new(points: &[MeasuredPoint]) -> Result<TrendSeries, TooManyUnusableValues> {
        let mut series = TrendSeries::default();
        for (given_index, point) in points.iter().enumerate() {
            if point.value >= 0.0 && point.value.is_finite() {
                series.logs.push(point.value.ln().max(LOG_OF_ZERO));
                series.positions.push(point.position);
                series.given_indexes.push(given_index);
                let machine = series.machine_number(point.machine);
                series.machines.push(machine);
            }
        }
        let left_out = points.len() - series.len();
        if 10 * left_out > points.len() {
            return Err(TooManyUnusableValues { left_out, points: points.len() });
        }
        Ok(series)
    }

    fn machine_number(&mut self, machine: u32) -> u32 {
        let number = self.callers_machines.iter().position(|&other| other == machine);
        number.unwrap_or_else(|| {
            self.callers_machines.push(machine);
            self.callers_machines.len() - 1
        }) as u32
    }

    /// Number of points that can be searched.
    pub fn len(&self) -> usize {
        self.logs.len()
    }

    /// Whether no point can be searched.
    pub fn is_empty(&self) -> bool {
        self.logs.is_empty()
    }

    /// A hash of the searched data of the first `count` points.
    pub(super) fn digest(&self, count: usize) -> u64 {
        let mut hasher = DefaultHasher::new();
        let points = self.logs.iter().zip(&self.machines).zip(&self.positions);
        for ((log, machine), position) in points.take(count) {
            hasher.write_u64(log.to_bits());
            hasher.write_u64(u64::from(*machine) << 32 | u64::from(*position));
        }
        hasher.finish()
    }

    pub(super) fn machine_count(&self) -> usize {
        self.callers_machines.len()
    }

    /// Index of a point among the points given to [`TrendSeries::new`].
    pub(super) fn given_index(&self, index: usize) -> usize {
        self.given_indexes[index]
    }

    /// Whether a change may be placed before this point; never between points of one revision.
    pub(super) fn may_start_level(&self, index: usize) -> bool {
        self.positions[index - 1] != self.positions[index]
    }

    /// The logarithms of a stretch, machine by machine; empty for machines without a point in the
    /// stretch.
    pub(super) fn each_machine(&self, stretch: Range<usize>) -> impl Iterator<Item = Vec<f64>> {
        let (logs, machines) = (&self.logs[stretch.clone()], &self.machines[stretch]);
        (0..self.callers_machines.len() as u32).map(move |wanted| {
            let points = logs.iter().zip(machines);
            points.filter(|(_, machine)| **machine == wanted).map(|(&log, _)| log).collect()
        })
    }
}

// Computes statistics of levels: the variance between sessions, the mean of a level with its
// interval, and whether the newest point lies beyond the points before it. The functions describe
// a given level and search for nothing; none of their results is an alarm.

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
/// The result is a hint to measure again, never an alarm: under heavy-tailed noise, it occurs for
/// 30 in 1000 points.
pub fn first_beyond(series: &TrendSeries) -> Option<f64> {
    let (&machine, earlier) = series.machines.split_last()?;
    let newest = series.logs[earlier.len()];
    let same_machine =
        series.logs.iter().zip(earlier).rev().filter(|(_, other)| **other == machine);
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
