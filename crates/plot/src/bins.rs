//! Divides the values of a histogram into bins, which are the same for all series. Bins have equal
//! width on the screen, so they have equal ratios on a logarithmic axis.

use crate::scale::{AxisExtent, ScaleProjection};

/// Maximum number of bins. More bins would be too thin to see.
const MAX_BINS: f64 = 80.0;
/// Minimum number of bins. Fewer bins would hide the shape of the distribution.
const MIN_BINS: f64 = 5.0;

/// A value and its number of occurrences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CountedValue {
    pub value: f64,
    pub count: u64,
}

pub(crate) fn total_count(values: &[CountedValue]) -> u64 {
    values.iter().map(|counted| counted.count).sum()
}

/// The edges of the bins in projected space, in which a logarithmic axis has the logarithms of its
/// values.
pub(crate) struct HistogramBins {
    projection: ScaleProjection,
    first: f64,
    width: f64,
    count: usize,
}

impl HistogramBins {
    /// Chooses common bins for several series. The axis must be able to show every value. `None` if
    /// there are no values.
    pub fn of_series(projection: ScaleProjection, series: &[Vec<CountedValue>]) -> Option<Self> {
        let project = |values: &Vec<CountedValue>| -> Vec<CountedValue> {
            let project = |counted: &CountedValue| {
                projection.project(counted.value).map(|value| CountedValue { value, ..*counted })
            };
            let mut projected: Vec<CountedValue> = values.iter().filter_map(project).collect();
            projected.sort_by(|one, other| one.value.total_cmp(&other.value));
            projected
        };
        let series: Vec<Vec<CountedValue>> =
            series.iter().map(project).filter(|s| !s.is_empty()).collect();
        let low = series.iter().map(|values| values[0].value).min_by(f64::total_cmp)?;
        let high =
            series.iter().map(|values| values[values.len() - 1].value).max_by(f64::total_cmp)?;
        let span = high - low;
        if span <= low.abs().max(high.abs()) * 1e-11 || span < f64::MIN_POSITIVE * 1e6 {
            return Some(Self::single_bin(projection, low));
        }
        let widths = series.iter().filter_map(|values| freedman_diaconis(values));
        let width = widths.min_by(f64::total_cmp).unwrap_or(span / MIN_BINS);
        let width = round_width(width.clamp(span / MAX_BINS, span / MIN_BINS), projection);
        let first = (low / width + 1e-9).floor();
        let count = ((high / width - first).floor() as usize + 1).max(1);
        Some(Self { projection, first: first * width, width, count })
    }

    /// Creates one bin around a single value.
    fn single_bin(projection: ScaleProjection, value: f64) -> Self {
        let width = match projection {
            ScaleProjection::Linear if value == 0.0 => 1.0,
            ScaleProjection::Linear => value.abs() * 0.02,
            _ => 0.1,
        };
        Self { projection, first: value - width / 2.0, width, count: 1 }
    }

    /// Number of values in each bin.
    pub fn bin_counts(&self, values: &[CountedValue]) -> Vec<u64> {
        let mut counts = vec![0; self.count];
        for counted in values {
            let Some(value) = self.projection.project(counted.value) else {
                continue;
            };
            // The cast saturates at zero, as needed for a value on the first edge.
            let bin = ((value - self.first) / self.width).floor() as usize;
            counts[bin.min(self.count - 1)] += counted.count;
        }
        counts
    }

    pub fn bin_ends(&self, bin: usize) -> (f64, f64) {
        let edge = |index: usize| self.projection.unproject(self.first + index as f64 * self.width);
        (edge(bin), edge(bin + 1))
    }

    /// Extent of the axis that the bins cover, with some padding.
    pub fn extent(&self, scale: &crate::AxisScale) -> Option<AxisExtent> {
        let (low, high) = (self.bin_ends(0).0, self.bin_ends(self.count - 1).1);
        AxisExtent::of_values(scale, [low, high]).map(|extent| extent.padded_across(0.02))
    }
}

/// Bin width of D. Freedman and P. Diaconis, "On the histogram as a density estimator" (1981):
/// twice the interquartile range, divided by the cube root of the number of values. `None` if the
/// width is zero.
fn freedman_diaconis(sorted: &[CountedValue]) -> Option<f64> {
    let range = counted_quantile(sorted, 0.75)? - counted_quantile(sorted, 0.25)?;
    let width = 2.0 * range / (total_count(sorted) as f64).cbrt();
    (width > 0.0).then_some(width)
}

/// Interpolates linearly between order statistics, as in `box_mark`: type 7 of Hyndman and Fan (1996).
fn counted_quantile(sorted: &[CountedValue], p: f64) -> Option<f64> {
    let position = p * total_count(sorted).checked_sub(1)? as f64;
    let below = position.floor() as u64;
    let fraction = position - below as f64;
    let (low, high) = (value_at_rank(sorted, below)?, value_at_rank(sorted, below + 1));
    Some(low * (1.0 - fraction) + high.unwrap_or(low) * fraction)
}

/// Returns the value with `rank` values before it.
fn value_at_rank(sorted: &[CountedValue], rank: u64) -> Option<f64> {
    let mut preceding = 0;
    let is_at_rank = |counted: &&CountedValue| {
        preceding += counted.count;
        preceding > rank
    };
    sorted.iter().find(is_at_rank).map(|counted| counted.value)
}

/// Rounds the width to 1, 2 or 5 times a power of ten, so that the edges of the bins are round
/// values. Leaves the width on a logarithmic axis unchanged: no width gives round edges there.
fn round_width(width: f64, projection: ScaleProjection) -> f64 {
    if projection != ScaleProjection::Linear {
        return width;
    }
    let magnitude = 10.0_f64.powi(width.log10().floor() as i32);
    let nearest = [1.0, 2.0, 5.0, 10.0].map(|nice| nice * magnitude);
    let ratio = |nice: &f64| (nice / width).ln().abs();
    nearest.into_iter().min_by(|one, other| ratio(one).total_cmp(&ratio(other))).unwrap_or(width)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted_once(values: &[f64]) -> Vec<CountedValue> {
        let once = |value: &f64| CountedValue { value: *value, count: 1 };
        values.iter().map(once).collect()
    }

    fn linear(values: &[f64]) -> HistogramBins {
        HistogramBins::of_series(ScaleProjection::Linear, &[counted_once(values)]).unwrap()
    }

    #[test]
    fn every_value_is_in_exactly_one_bin() {
        let values: Vec<f64> = (0..1000).map(|at| f64::from(at * 37 % 1000) / 100.0).collect();
        let bins = linear(&values);
        let counts = bins.bin_counts(&counted_once(&values));
        assert_eq!(counts.iter().sum::<u64>(), 1000);
        for (bin, count) in counts.iter().enumerate() {
            let (low, high) = bins.bin_ends(bin);
            let inside = |value: &&f64| **value >= low - 1e-9 && **value < high - 1e-9;
            assert_eq!(values.iter().filter(inside).count() as u64, *count, "bin {bin}");
        }
    }

    #[test]
    fn the_width_is_the_round_one_next_to_that_of_the_rule() {
        // 0..=999: the interquartile range is 499.5, 2 * 499.5 / 10 = 99.9, which rounds to 100.
        let values: Vec<f64> = (0..1000).map(f64::from).collect();
        let bins = linear(&values);
        assert_eq!((bins.bin_ends(0), bins.count), ((0.0, 100.0), 10));
    }

    #[test]
    fn a_value_that_occurred_often_counts_as_often() {
        let each = [1.0, 1.0, 1.0, 2.0, 5.0, 5.0, 9.0];
        let counted = [(1.0, 3), (2.0, 1), (5.0, 2), (9.0, 1)];
        let counted: Vec<CountedValue> =
            counted.map(|(value, count)| CountedValue { value, count }).to_vec();
        let (one, other) = (
            linear(&each),
            HistogramBins::of_series(ScaleProjection::Linear, std::slice::from_ref(&counted))
                .unwrap(),
        );
        assert_eq!((one.first, one.width), (other.first, other.width));
        assert_eq!(one.bin_counts(&counted_once(&each)), other.bin_counts(&counted));
    }

    #[test]
    fn equal_values_and_wild_ones_have_bins_too() {
        assert_eq!(linear(&[5.0; 7]).bin_counts(&counted_once(&[5.0; 7])), [7]);
        assert_eq!(linear(&[0.0]).count, 1);
        let wild = [1.0, 1.1, 1.2, 1e12];
        assert!(linear(&wild).count <= 2 * MAX_BINS as usize);
        assert_eq!(linear(&wild).bin_counts(&counted_once(&wild)).iter().sum::<u64>(), 4);
    }

    #[test]
    fn bins_of_a_logarithmic_axis_have_equal_ratios() {
        let values: Vec<f64> = (0..100).map(|at| 1.1_f64.powi(at)).collect();
        let bins =
            HistogramBins::of_series(ScaleProjection::Log10, &[counted_once(&values)]).unwrap();
        let ratio = |bin| bins.bin_ends(bin).1 / bins.bin_ends(bin).0;
        assert!((ratio(0) - ratio(bins.count - 1)).abs() < 1e-9);
    }
}
