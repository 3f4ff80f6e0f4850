//! Converts the points of a series to the form that the search for changes needs: logarithms in the
//! order of the revisions.
//!
//! This module decides which points can be searched, and numbers the machines. Start at
//! [`TrendSeries`].

use std::fmt;
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyNonPositive {
    /// Number of values that are negative, infinite, or NaN.
    pub left_out: usize,
    /// Number of all values.
    pub points: usize,
}

impl fmt::Display for TooManyNonPositive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooManyNonPositive { left_out, points } = self;
        write!(
            f,
            "{left_out} of {points} values are negative or not finite; a trend search allows at \
             most one in ten"
        )
    }
}

impl std::error::Error for TooManyNonPositive {}

/// The logarithm that stands for zero. It is below the logarithm of every positive number (at least
/// -745), so zero has the lowest rank. It is finite, so differences of logarithms are numbers. A
/// change from zero then has an infinite ratio, and a change to zero the ratio 0.
const LOG_OF_ZERO: f64 = -10_000.0;

/// Points in the order of the revisions, as logarithms. Points whose value is negative or not
/// finite are left out.
#[derive(Debug, Clone, Default)]
pub struct TrendSeries {
    logs: Vec<f64>,
    machines: Vec<u32>,
    positions: Vec<u32>,
    /// Index of each point among the points given to [`TrendSeries::new`].
    given_indexes: Vec<usize>,
    /// The caller's machine numbers, indexed by the numbers used here, which count from 0.
    callers_machines: Vec<u32>,
}

impl TrendSeries {
    /// Takes the points whose value is zero or has a logarithm. `points` must be in the order of
    /// the revisions.
    ///
    /// # Errors
    ///
    /// Fails if more than one value in ten is negative or not finite.
    pub fn new(points: &[MeasuredPoint]) -> Result<TrendSeries, TooManyNonPositive> {
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
            return Err(TooManyNonPositive { left_out, points: points.len() });
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

    /// The first `count` points only.
    #[must_use]
    pub fn prefix(&self, count: usize) -> TrendSeries {
        TrendSeries {
            logs: self.logs[..count].to_vec(),
            machines: self.machines[..count].to_vec(),
            positions: self.positions[..count].to_vec(),
            given_indexes: self.given_indexes[..count].to_vec(),
            callers_machines: self.callers_machines.clone(),
        }
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

    pub(super) fn logs(&self) -> &[f64] {
        &self.logs
    }

    /// The machine of each point. Machines are numbered from 0 in the order of their first points.
    pub(super) fn machines(&self) -> &[u32] {
        &self.machines
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
