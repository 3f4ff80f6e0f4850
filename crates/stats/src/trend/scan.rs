//! Finds the best border (the place of a change) in one stretch of points.
//!
//! The best border is the border with the largest evidence, by a rank test with machines as strata;
//! [`place_border`] places it by the sizes of the values. This module looks at one stretch only, and
//! does not decide which evidence is enough. Start at [`RankScan::best_border`].

use super::series::TrendSeries;
use crate::describe::{NORMAL_CONSISTENCY, mean, median};
use crate::distribution::normal;
use crate::effect::{RatioEstimate, ShiftEstimate, hodges_lehmann};
use crate::interval::Interval;
use crate::test::mann_whitney::lower_tails;
use std::ops::{Range, RangeInclusive};
use std::sync::OnceLock;

/// Minimum number of points on either side of a border.
pub(super) const MIN_SIDE: usize = 3;

/// Maximum distance from a border at which points are used.
pub(super) const MAX_DISTANCE: usize = 256;

/// The best border of a stretch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct BestBorder {
    /// The first point after the border.
    pub at: usize,
    /// Its evidence, before the correction for autocorrelation.
    pub z: f64,
}

/// Buffers for ranks, reused between stretches.
#[derive(Default)]
pub(super) struct RankScan {
    /// Machine, value and index of every point, in the order of the ranks.
    order: Vec<(u32, f64, u32)>,
    /// Rank of every point among its machine's points, minus their mean rank.
    deviations: Vec<f64>,
    /// Number of points of every machine.
    totals: Vec<f64>,
    /// Number of points of every machine left of the border.
    left_counts: Vec<f64>,
}

impl RankScan {
    /// The border of `stretch` with the largest evidence, among those `allowed`; `None` if there is
    /// none.
    ///
    /// Points are ranked within their machine, and the sum of the deviations left of the border is
    /// the statistic: the stratified rank test with machines as blocks (van Elteren, Bulletin of
    /// the International Statistical Institute 37, 1960). A machine with all its points on one side
    /// adds nothing. With one machine, the statistic is U, whose tail is counted exactly if a side
    /// is small.
    pub fn best_border(
        &mut self,
        series: &TrendSeries,
        stretch: Range<usize>,
        allowed: RangeInclusive<usize>,
    ) -> Option<BestBorder> {
        let (start, count) = (stretch.start, stretch.len());
        if count < 2 * MIN_SIDE {
            return None;
        }
        let machines = &series.machines[stretch.clone()];
        let is_one_machine = machines.iter().all(|&machine| machine == machines[0]);
        self.rank_points(series, stretch, is_one_machine);
        let (mut sum, mut twelfths) = (0.0f64, 0.0);
        let mut best: Option<BestBorder> = None;
        for k in 1..=count - MIN_SIDE {
            sum += self.deviations[k - 1];
            let (machine, l) = (machines[k - 1] as usize, count - k);
            let (total, left) = (self.totals[machine], self.left_counts[machine]);
            // The variance is the sum of k l (k + l + 1) / 12 over the machines, with k points left
            // and l points right of the border. `twelfths` is 12 times this variance. The amount
            // added here is the change when one point of `machine` moves to the left of the border.
            twelfths += (total + 1.0) * (total - 2.0 * left - 1.0);
            self.left_counts[machine] = left + 1.0;
            let at = start + k;
            if k < MIN_SIDE
                || !allowed.contains(&at)
                || twelfths <= 0.0
                || !series.may_start_level(at)
            {
                continue;
            }
            let largest = best.map_or(0.0, |best| best.z);
            let is_exact = is_one_machine && k.min(l) <= EXACT_SIDE;
            if !is_exact && 12.0 * sum * sum < twelfths * largest * largest {
                continue;
            }
            let z = if is_exact {
                exact_deviate(0.5 * (k * l) as f64 - sum.abs(), k, l)
            } else {
                (sum.abs() - 0.5) / (twelfths / 12.0).sqrt()
            };
            if best.is_none_or(|best| z > best.z) {
                best = Some(BestBorder { at, z });
            }
        }
        best
    }

    /// Computes ranks within machines, as deviations from their means.
    fn rank_points(&mut self, series: &TrendSeries, stretch: Range<usize>, is_one_machine: bool) {
        let points = series.machines[stretch.clone()].iter().zip(&series.logs[stretch]);
        let numbered = points.zip(0u32..);
        self.order.clear();
        self.order.extend(numbered.map(|((&machine, &log), index)| (machine, log, index)));
        if is_one_machine {
            self.order.sort_unstable_by(|a, b| a.1.total_cmp(&b.1));
        } else {
            self.order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        }
        self.deviations.resize(self.order.len(), 0.0);
        for counts in [&mut self.totals, &mut self.left_counts] {
            counts.clear();
            counts.resize(series.machine_count(), 0.0);
        }
        for machine in self.order.chunk_by(|a, b| a.0 == b.0) {
            let center = 0.5 * (machine.len() - 1) as f64;
            self.totals[machine[0].0 as usize] = machine.len() as f64;
            let mut lower_count = 0;
            for tied in machine.chunk_by(|a, b| a.1 == b.1) {
                let deviation = lower_count as f64 + 0.5 * (tied.len() - 1) as f64 - center;
                for &(_, _, index) in tied {
                    self.deviations[index as usize] = deviation;
                }
                lower_count += tied.len();
            }
        }
    }
}

// Converts a rank sum to evidence: the normal deviate with the same tail. Three points against
// ninety-seven reach a tail of 6e-6, for which the normal approximation gives z = 2.9 instead of
// 4.4.

/// Maximum size of the smaller group for which the tail is counted exactly.
const EXACT_SIDE: usize = 10;
/// Maximum size of the larger group for which there is a table. A stretch has at most twice 256
/// points.
const LARGEST_SIDE: usize = 512;

/// Deviates of u = 0, 1, ..., computed on first use. Single precision keeps them below 5 MiB and
/// the error below 1e-6.
type DeviateTable = OnceLock<Box<[f32]>>;

static TABLES: [[DeviateTable; LARGEST_SIDE + 1]; EXACT_SIDE + 1] =
    [const { [const { OnceLock::new() }; LARGEST_SIDE + 1] }; EXACT_SIDE + 1];

/// Returns the z whose upper normal tail equals P(U <= u) for two groups of `k` and `l`
/// exchangeable values (Mann and Whitney, Annals of Mathematical Statistics 18, 1947).
///
/// `u` is the smaller of the two U statistics; halves come from ties and are rounded up.
pub fn exact_deviate(u: f64, k: usize, l: usize) -> f64 {
    let (small, large) = (k.min(l), k.max(l));
    if (1..=EXACT_SIDE).contains(&small) && large <= LARGEST_SIDE {
        let table = TABLES[small][large].get_or_init(|| deviate_table(small, large));
        if let Some(&z) = table.get(u.ceil() as usize) {
            return f64::from(z);
        }
    }
    let pairs = (k * l) as f64;
    (0.5 * pairs - u - 0.5) / u_deviation(k, l)
}

/// Standard deviation of U.
fn u_deviation(k: usize, l: usize) -> f64 {
    ((k * l * (k + l + 1)) as f64 / 12.0).sqrt()
}

/// Computes the deviates of u = 0, 1, ... up to one standard deviation below the mean. Closer to
/// the mean, the normal approximation is good enough.
fn deviate_table(small: usize, large: usize) -> Box<[f32]> {
    let last = (0.5 * (small * large) as f64 - u_deviation(small, large)).max(0.0) as usize + 1;
    let tails = lower_tails(last, small, large).unwrap_or_default();
    let mut z = tails.first().map_or(0.0, |&tail| normal::upper_quantile(tail));
    let next = tails.iter().map(|&tail| {
        // z changes little from one u to the next, so Newton's method starts from the last z. Once
        // its relative step is below 1e-5, the remaining error is far below single precision.
        z = normal::upper_quantile_near(tail, z, 1e-5);
        z as f32
    });
    next.collect()
}

// Places a border by the sizes of the values. Ranks are right for evidence, but two levels that are
// far apart have no ranks between them, so ranks place a border by the noise within a level.

/// Residuals count by their squares up to this many deviations, and by their sizes beyond it, so that
/// single outliers move no border (Huber, Annals of Mathematical Statistics 35, 1964).
const HUBER_LIMIT: f64 = 1.345;

/// Returns the border among those `allowed` at which two levels, each with a median for every machine,
/// fit the stretch best; `at` if none is allowed. As for evidence, a machine must have points on both
/// sides. Deviations are in units of those at `at`.
pub(super) fn place_border(
    series: &TrendSeries,
    stretch: Range<usize>,
    at: usize,
    allowed: RangeInclusive<usize>,
) -> usize {
    let sizes = |border| {
        let centers = level_centers(series, stretch.clone(), border);
        distances(series, stretch.clone(), &centers)
    };
    let limit = HUBER_LIMIT * NORMAL_CONSISTENCY * median(&sizes(at));
    // Huber's loss, divided by half the limit: it stays finite if most points are at their centers.
    let loss = |size: f64| if size < limit { size * size / limit } else { 2.0 * size - limit };
    let total_loss = |border: usize| sizes(border).into_iter().map(loss).sum::<f64>();
    let possible = stretch.start + MIN_SIDE..=stretch.end.saturating_sub(MIN_SIDE);
    let machines = &series.machines;
    let shares_machine = |border: usize| {
        let after = &machines[border..stretch.end];
        machines[stretch.start..border].iter().any(|machine| after.contains(machine))
    };
    allowed
        .filter(|border| possible.contains(border) && series.may_start_level(*border))
        .filter(|border| shares_machine(*border))
        .map(|border| (total_loss(border), border))
        .min_by(|(a, left), (b, right)| {
            a.total_cmp(b).then(left.abs_diff(at).cmp(&right.abs_diff(at)))
        })
        .map_or(at, |(_, border)| border)
}

/// Returns the median of each point's machine on the point's side of `at`.
fn level_centers(series: &TrendSeries, levels: Range<usize>, at: usize) -> Vec<f64> {
    let center = |side: Range<usize>| {
        let medians: Vec<f64> =
            series.each_machine(side.clone()).map(|values| median(&values)).collect();
        side.map(move |index| medians[series.machines[index] as usize])
    };
    center(levels.start..at).chain(center(at..levels.end)).collect()
}

/// Returns the distance of each point from its center.
fn distances(series: &TrendSeries, levels: Range<usize>, centers: &[f64]) -> Vec<f64> {
    series.logs[levels].iter().zip(centers).map(|(log, center)| (log - center).abs()).collect()
}

// Describes a change: whether it is a step or a slope, how large it is, and whether it can be told
// apart from a change of machines. This module does not decide whether there is a change.

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
    if at - levels.start < MIN_LEVEL_POINTS || levels.end - at < MIN_LEVEL_POINTS {
        return ChangeShape::Step;
    }
    let centers = level_centers(series, levels.clone(), at);
    let sizes = distances(series, levels.clone(), &centers);
    let limit = CLIP * NORMAL_CONSISTENCY * median(&sizes);
    if limit <= 0.0 {
        return ChangeShape::Step;
    }
    let clipped = centers.iter().zip(&series.logs[levels.clone()]);
    let clipped: Vec<f64> =
        clipped.map(|(center, log)| center + (log - center).clamp(-limit, limit)).collect();
    let machines = &series.machines[levels.clone()];
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

/// Sizes are estimated from at most this many points on each side, those nearest to the change.
const SIZED_POINTS: usize = 64;
const CONFIDENCE: f64 = 0.95;

/// Estimates the size as a mean of the Hodges-Lehmann shifts of all machines with points on both
/// sides. The weight of a machine is the inverse squared width of its interval, so machines without
/// a bounded interval have no weight. If no machine has a bounded interval, all have the same
/// weight.
pub(super) fn estimate_size(
    series: &TrendSeries,
    levels: Range<usize>,
    at: usize,
) -> RatioEstimate {
    let left = series.each_machine(levels.start.max(at.saturating_sub(SIZED_POINTS))..at);
    let right = series.each_machine(at..levels.end.min(at + SIZED_POINTS));
    let shifts: Vec<ShiftEstimate> =
        left.zip(right).filter_map(|(old, new)| hodges_lehmann(&old, &new, CONFIDENCE)).collect();
    let bounded: Vec<&ShiftEstimate> =
        shifts.iter().filter(|shift| shift.interval.is_bounded()).collect();
    if bounded.is_empty() {
        let estimates: Vec<f64> = shifts.iter().map(|shift| shift.estimate).collect();
        let interval = Interval { low: 0.0, high: f64::INFINITY };
        return RatioEstimate { ratio: mean(&estimates).exp(), interval };
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
    RatioEstimate { ratio: estimate.exp(), interval: interval.map(f64::exp) }
}

/// Returns where the machine changed together with the code, so that the two effects cannot be
/// separated. At such a place, more than half of the points on each side are from machines without
/// points on the other side. The result is the first point after the latest such place. To separate
/// the effects, measure an older revision on the new machine.
///
/// The result is an index into the points given to [`TrendSeries::new`].
pub fn machine_swap(series: &TrendSeries) -> Option<usize> {
    let machines = &series.machines;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_separation_has_the_tail_of_one_arrangement() {
        // If 3 values lie below 97 others, the tail is 1 / C(100, 3) = 1 / 161 700.
        let tail = normal::upper_tail(exact_deviate(0.0, 3, 97));
        assert!((tail * 161_700.0 - 1.0).abs() < 1e-5, "{tail}");
        assert_eq!(exact_deviate(0.0, 97, 3), exact_deviate(0.0, 3, 97));
    }

    #[test]
    fn evidence_falls_with_growing_u_and_ties_never_raise_it() {
        for (k, l) in [(3, 40), (10, 10), (10, 400), (11, 200)] {
            let last = (0.5 * (k * l) as f64 - u_deviation(k, l)) as usize;
            let z: Vec<f64> = (0..=last).map(|u| exact_deviate(u as f64, k, l)).collect();
            assert!(z.windows(2).all(|pair| pair[0] > pair[1]), "{k} {l}");
            assert!(exact_deviate(0.5, k, l) < z[0] && exact_deviate(0.5, k, l) >= z[1]);
        }
    }

    #[test]
    fn exact_and_approximated_deviates_agree_where_they_meet() {
        for l in [11, 50, 240] {
            let u = (5 * l) as f64 - 3.0 * u_deviation(10, l);
            let approximated = (5 * l) as f64 - u.ceil() - 0.5;
            let z = exact_deviate(u, 10, l);
            assert!((z - approximated / u_deviation(10, l)).abs() < 0.2, "{z}");
        }
    }
}
