//! Describes a change: whether it is a step or a slope, how large it is, and whether it can be told
//! apart from a change of machines.
//!
//! This module does not decide whether there is a change. Start at [`estimate_size`].

use super::scan::{MAX_DISTANCE, MIN_SIDE};
use super::series::TrendSeries;
use crate::describe::{NORMAL_CONSISTENCY, mean, median};
use crate::effect::{ShiftEstimate, hodges_lehmann};
use crate::interval::Interval;
use std::ops::Range;

/// A step between two levels, or a gradual slope with no single change point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeShape {
    /// Two levels fit.
    Step,
    /// A straight line fits clearly better than two levels.
    Drift,
}

/// Levels with fewer points than this are not compared with a line.
const MIN_LEVEL_POINTS: usize = 8;
/// Residuals are clipped at this many robust deviations, so that no single point decides the shape.
const CLIP: f64 = 3.0;

/// Compares a step at `at` with a line through the points left and right of it. The change is a
/// drift if the line's residual sum of squares is smaller than the step's by more than two residual
/// variances. The step and the line are fitted with an offset for every machine.
pub(super) fn classify_shape(series: &TrendSeries, levels: Range<usize>, at: usize) -> ChangeShape {
    let sides = [levels.start..at, at..levels.end];
    if sides.iter().any(|side| side.len() < MIN_LEVEL_POINTS) {
        return ChangeShape::Step;
    }
    let (mut centers, mut sizes) = (Vec::new(), Vec::new());
    for side in sides {
        let medians: Vec<f64> =
            series.each_machine(side.clone()).map(|values| median(&values)).collect();
        for index in side {
            let center = medians[series.machines()[index] as usize];
            sizes.push((series.logs()[index] - center).abs());
            centers.push(center);
        }
    }
    let limit = CLIP * NORMAL_CONSISTENCY * median(&sizes);
    if limit <= 0.0 {
        return ChangeShape::Step;
    }
    let clipped = centers.iter().zip(&series.logs()[levels.clone()]);
    let clipped: Vec<f64> =
        clipped.map(|(center, log)| center + (log - center).clamp(-limit, limit)).collect();
    let machines = &series.machines()[levels.clone()];
    let step: Vec<f64> = levels.clone().map(|index| f64::from(u8::from(index >= at))).collect();
    let line: Vec<f64> = levels.clone().map(|index| index as f64).collect();
    let (step_residuals, line_residuals) =
        (residual_sum(&clipped, &step, machines), residual_sum(&clipped, &line, machines));
    let occupied = series.each_machine(levels.clone()).filter(|values| !values.is_empty()).count();
    let variance = step_residuals / (levels.len() - 1 - occupied) as f64;
    if line_residuals + 2.0 * variance < step_residuals {
        ChangeShape::Drift
    } else {
        ChangeShape::Step
    }
}

/// Residual sum of squares of a regression of `y` on `x` with an offset for every machine.
fn residual_sum(y: &[f64], x: &[f64], machines: &[u32]) -> f64 {
    let (y, x) = (without_offsets(y, machines), without_offsets(x, machines));
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    product(&y, &y) - product(&x, &y).powi(2) / product(&x, &x).max(f64::MIN_POSITIVE)
}

/// Subtracts the mean of each value's machine.
fn without_offsets(values: &[f64], machines: &[u32]) -> Vec<f64> {
    let count = machines.iter().max().map_or(0, |&last| last as usize + 1);
    let mut groups = vec![Vec::new(); count];
    for (&value, &machine) in values.iter().zip(machines) {
        groups[machine as usize].push(value);
    }
    let means: Vec<f64> = groups.iter().map(|group| mean(group)).collect();
    let paired = values.iter().zip(machines);
    paired.map(|(value, &machine)| value - means[machine as usize]).collect()
}

/// The new level divided by the old one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangeSize {
    /// 1.05 for a new level 5 % above the old one. NaN if no machine has points on both sides.
    pub ratio: f64,
    /// 95 % interval of the ratio; from 0 to infinity where there are too few points.
    pub interval: Interval,
}

/// Sizes are estimated from at most this many points on each side, those nearest to the change.
const SIZED_POINTS: usize = 64;
const CONFIDENCE: f64 = 0.95;

/// Estimates the size as a mean of the Hodges-Lehmann shifts of all machines with points on both
/// sides. The weight of a machine is the inverse squared width of its interval, so machines without
/// a bounded interval do not count. If no machine has a bounded interval, all count equally.
pub(super) fn estimate_size(series: &TrendSeries, levels: Range<usize>, at: usize) -> ChangeSize {
    let left = series.each_machine(levels.start.max(at.saturating_sub(SIZED_POINTS))..at);
    let right = series.each_machine(at..levels.end.min(at + SIZED_POINTS));
    let shifts: Vec<ShiftEstimate> =
        left.zip(right).filter_map(|(old, new)| hodges_lehmann(&old, &new, CONFIDENCE)).collect();
    let bounded: Vec<&ShiftEstimate> =
        shifts.iter().filter(|shift| shift.interval.is_bounded()).collect();
    if bounded.is_empty() {
        let estimates: Vec<f64> = shifts.iter().map(|shift| shift.estimate).collect();
        let interval = Interval { low: 0.0, high: f64::INFINITY };
        return ChangeSize { ratio: mean(&estimates).exp(), interval };
    }
    // Constant values give an interval of width zero; this minimum, below the precision of the
    // logarithms, avoids a division by zero.
    let weight = |shift: &ShiftEstimate| shift.interval.half_width().max(1e-12).powi(-2);
    let weights: f64 = bounded.iter().map(|shift| weight(shift)).sum();
    let estimate =
        bounded.iter().map(|shift| weight(shift) / weights * shift.estimate).sum::<f64>();
    // Distances from the estimate to one end are combined like standard deviations.
    let distance = |end: fn(&Interval) -> f64| {
        let square = |shift: &&ShiftEstimate| {
            (weight(shift) / weights * (end(&shift.interval) - shift.estimate)).powi(2)
        };
        bounded.iter().map(square).sum::<f64>().sqrt()
    };
    let interval = Interval {
        low: estimate - distance(|interval| interval.low),
        high: estimate + distance(|interval| interval.high),
    };
    ChangeSize { ratio: estimate.exp(), interval: interval.map(f64::exp) }
}

/// Returns where the machine changed together with the code, so that the two effects cannot be
/// separated. At such a place, more than half of the points on each side are from machines without
/// points on the other side. The result is the first point after the latest such place. To separate
/// the effects, measure an older revision on the new machine.
///
/// The result is an index into the points given to [`TrendSeries::new`].
pub fn machine_swap(series: &TrendSeries) -> Option<usize> {
    let machines = series.machines();
    let (mut old, mut new) = (vec![0; series.machine_count()], vec![0; series.machine_count()]);
    machines.iter().take(MAX_DISTANCE).for_each(|&machine| new[machine as usize] += 1);
    let is_foreign = |side: &[usize], other: &[usize]| {
        let counts = side.iter().zip(other).filter(|(_, other)| **other == 0);
        2 * counts.map(|(count, _)| count).sum::<usize>() > side.iter().sum()
    };
    let mut swap = None;
    for at in 1..(series.len() + 1).saturating_sub(MIN_SIDE) {
        // The point before `at` moves from the new side to the old one. Each side reaches at most
        // 256 points away from `at`.
        let moved = machines[at - 1] as usize;
        old[moved] += 1;
        new[moved] -= 1;
        if let Some(left) = (at - 1).checked_sub(MAX_DISTANCE) {
            old[machines[left] as usize] -= 1;
        }
        if let Some(&reached) = machines.get(at - 1 + MAX_DISTANCE) {
            new[reached as usize] += 1;
        }
        if at >= MIN_SIDE
            && series.may_start_level(at)
            && is_foreign(&old, &new)
            && is_foreign(&new, &old)
        {
            swap = Some(at);
        }
    }
    swap.map(|at| series.given_index(at))
}
