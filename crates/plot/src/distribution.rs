//! Summarizes the values of a series: quartiles and whiskers, offsets that spread points, and the
//! bins of a histogram.

use crate::AxisScale;
use crate::axis::AxisExtent;
use crate::format::{format_figure, format_range};

// The statistics of a box plot (J. W. Tukey, "Exploratory Data Analysis", 1977).

/// Quartiles and whiskers of a set of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TukeyStats {
    /// Lowest value within 1.5 interquartile ranges of the box.
    pub low_whisker: f64,
    pub low_quartile: f64,
    pub median: f64,
    /// Position of the line across the box: the median, or the estimate that is compared instead of
    /// the median.
    pub center: f64,
    pub high_quartile: f64,
    /// Highest value within 1.5 interquartile ranges of the box.
    pub high_whisker: f64,
}

impl TukeyStats {
    /// Computes the statistics of finite values in ascending order; `None` if there are none.
    pub fn of_sorted(sorted: &[f64]) -> Option<Self> {
        let (first, last) = (*sorted.first()?, *sorted.last()?);
        let [low_quartile, median, high_quartile] =
            [0.25, 0.5, 0.75].map(|p| quantile(sorted.len(), p, |rank| sorted[rank]));
        let fence_distance = 1.5 * (high_quartile - low_quartile);
        let low_fence = low_quartile - fence_distance;
        let high_fence = high_quartile + fence_distance;
        let low_end = sorted.iter().copied().find(|value| *value >= low_fence).unwrap_or(first);
        let high_end = sorted.iter().rev().copied().find(|value| *value <= high_fence);
        // A quartile may lie between two values. If the outer value is beyond the fence, the
        // whisker would end inside the box, so it ends at the quartile instead.
        let low_whisker = low_end.min(low_quartile);
        let high_whisker = high_end.unwrap_or(last).max(high_quartile);
        let center = median;
        Some(Self { low_whisker, low_quartile, median, center, high_quartile, high_whisker })
    }

    /// Moves the line across the box to `center`, if given.
    pub fn with_center(self, center: Option<f64>) -> Self {
        Self { center: center.unwrap_or(self.median), ..self }
    }

    /// Tooltip text for the line, such as `median 5`. If the compared estimate differs from the
    /// median, the estimate comes first.
    pub fn describe_center(&self) -> String {
        let median = format!("median {}", format_figure(self.median));
        if self.center == self.median {
            median
        } else {
            format!("compared estimate {}\n{median} of all runs", format_figure(self.center))
        }
    }

    /// Tooltip text for the box: the line and the quartiles.
    pub fn describe_box(&self) -> String {
        let quartiles = format_range(self.low_quartile, self.high_quartile);
        format!("{}\nquartiles {quartiles}", self.describe_center())
    }
}

/// Median of values in any order; not a number if there are none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    if values.is_empty() { f64::NAN } else { quantile(values.len(), 0.5, |rank| values[rank]) }
}

/// Interpolates linearly between order statistics: type 7 of R. J. Hyndman and Y. Fan, "Sample
/// Quantiles in Statistical Packages" (1996), the default of R and NumPy. `value_at(rank)`
/// returns the value with `rank` values before it. `count` is at least 1.
fn quantile(count: usize, p: f64, value_at: impl Fn(usize) -> f64) -> f64 {
    let position = p * (count - 1) as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(count - 1);
    let share = position - below as f64;
    // Unlike the sum of a value and a difference, a weighted sum cannot overflow.
    value_at(below) * (1.0 - share) + value_at(above) * share
}

// Spreads the points of a box sideways, so that similar values are distinguishable. Uses no random
// numbers, so the result is deterministic.

/// Returns offsets in [-0.5, 0.5] for values in ascending order. Points spread wider where many
/// values are close together, so the outline of the cloud shows the distribution (a sina plot; N.
/// Sidiropoulos et al., 2018).
pub(crate) fn point_offsets(sorted: &[f64]) -> Vec<f64> {
    let densities = densities(sorted);
    // Fewer points than this hardly touch, and need less than the full width.
    const MIN_CROWD: f64 = 6.0;
    let densest = densities.iter().copied().fold(MIN_CROWD, f64::max);
    let spread =
        |(index, density): (usize, &f64)| (van_der_corput(index + 1) - 0.5) * density / densest;
    densities.iter().enumerate().map(spread).collect()
}

/// Returns, for each value, how many values differ from it by at most a tenth of the range,
/// including the value itself.
fn densities(sorted: &[f64]) -> Vec<f64> {
    let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else { return Vec::new() };
    // Halve both ends before the subtraction, because the range of finite numbers may overflow.
    let distance = (last / 2.0 - first / 2.0) * 0.2;
    let (mut from, mut to) = (0, 0);
    let count = |value: &f64| {
        while sorted[from] < value - distance {
            from += 1;
        }
        while to < sorted.len() && sorted[to] <= value + distance {
            to += 1;
        }
        (to - from) as f64
    };
    sorted.iter().map(count).collect()
}

/// The van der Corput sequence in base 2. Consecutive elements fill the unit interval evenly, and
/// two successive elements are far apart, so neighboring points hardly overlap.
fn van_der_corput(mut index: usize) -> f64 {
    let (mut value, mut share) = (0.0, 0.5);
    while index > 0 {
        value += share * (index % 2) as f64;
        index /= 2;
        share /= 2.0;
    }
    value
}

// The bins of a histogram are the same for all series. They have equal width on the screen, so they
// have equal ratios on a logarithmic axis.

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
    projection: AxisScale,
    first: f64,
    width: f64,
    count: usize,
}

impl HistogramBins {
    /// Chooses common bins for several series. The axis must be able to show every value. `None` if
    /// there are no values.
    pub fn of_series<'v>(
        projection: AxisScale,
        series: impl IntoIterator<Item = &'v Vec<CountedValue>>,
    ) -> Option<Self> {
        let project = |values: &Vec<CountedValue>| -> Vec<CountedValue> {
            let project = |counted: &CountedValue| {
                projection.project(counted.value).map(|value| CountedValue { value, ..*counted })
            };
            let mut projected: Vec<CountedValue> = values.iter().filter_map(project).collect();
            projected.sort_by(|one, other| one.value.total_cmp(&other.value));
            projected
        };
        let series: Vec<_> = series.into_iter().map(project).filter(|s| !s.is_empty()).collect();
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
    fn single_bin(projection: AxisScale, value: f64) -> Self {
        let width = match projection {
            AxisScale::Linear if value == 0.0 => 1.0,
            AxisScale::Linear => value.abs() * 0.02,
            _ => 0.1,
        };
        Self { projection, first: value - width / 2.0, width, count: 1 }
    }

    /// Number of values in each bin.
    pub fn bin_counts(&self, values: &[CountedValue]) -> Vec<u64> {
        let mut counts = vec![0; self.count];
        for counted in values {
            let Some(value) = self.projection.project(counted.value) else { continue };
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
    pub fn extent(&self) -> Option<AxisExtent> {
        let (low, high) = (self.bin_ends(0).0, self.bin_ends(self.count - 1).1);
        AxisExtent::of_values(self.projection, [low, high]).map(|extent| extent.padded_across(0.02))
    }
}

/// Bin width of D. Freedman and P. Diaconis, "On the histogram as a density estimator" (1981):
/// twice the interquartile range, divided by the cube root of the number of values. `None` if the
/// width is zero.
fn freedman_diaconis(sorted: &[CountedValue]) -> Option<f64> {
    let total = total_count(sorted);
    // The value with `rank` values before it.
    let value_at = |rank: usize| {
        let mut preceding = 0;
        let is_at_rank = |counted: &&CountedValue| {
            preceding += counted.count;
            preceding > rank as u64
        };
        sorted.iter().find(is_at_rank).map_or(f64::NAN, |counted| counted.value)
    };
    let quartile = |p: f64| quantile(total.max(1) as usize, p, value_at);
    let width = 2.0 * (quartile(0.75) - quartile(0.25)) / (total as f64).cbrt();
    (width > 0.0).then_some(width)
}

/// Rounds the width to 1, 2 or 5 times a power of ten, so that the edges of the bins are round
/// values. Leaves the width on a logarithmic axis unchanged: no width gives round edges there.
fn round_width(width: f64, projection: AxisScale) -> f64 {
    if projection != AxisScale::Linear {
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

    fn assert_close(got: TukeyStats, wanted: [f64; 5]) {
        let got =
            [got.low_whisker, got.low_quartile, got.median, got.high_quartile, got.high_whisker];
        for (got, wanted) in got.iter().zip(wanted) {
            assert!((got - wanted).abs() < 1e-12, "{got} is not {wanted}");
        }
    }

    #[test]
    fn box_plot_statistics_match_r() {
        // R 4.2: x <- sort(c(12.1, 11.8, 12.4, 15.9, 12.0, 11.9, 12.6, 9.7, 12.2, 12.3))
        // quantile(x, c(.25, .5, .75)); range(x[x >= q1 - 1.5 * iqr & x <= q3 + 1.5 * iqr])
        let mut values = vec![12.1, 11.8, 12.4, 15.9, 12.0, 11.9, 12.6, 9.7, 12.2, 12.3];
        values.sort_by(f64::total_cmp);
        assert_close(TukeyStats::of_sorted(&values).unwrap(), [11.8, 11.925, 12.15, 12.375, 12.6]);
    }

    #[test]
    fn one_value_and_equal_values_are_a_line() {
        assert_close(TukeyStats::of_sorted(&[3.0]).unwrap(), [3.0; 5]);
        assert_close(TukeyStats::of_sorted(&[3.0, 3.0, 3.0]).unwrap(), [3.0; 5]);
        assert_eq!(TukeyStats::of_sorted(&[]), None);
    }

    #[test]
    fn points_of_equal_values_do_not_overlap() {
        let mut offsets = point_offsets(&[1.0; 16]);
        offsets.sort_by(f64::total_cmp);
        assert!(offsets.windows(2).all(|pair| pair[1] - pair[0] > 0.01));
        assert!(offsets.iter().all(|offset| offset.abs() <= 0.5));
    }

    #[test]
    fn a_lonely_value_stays_near_the_middle() {
        let mut values = vec![1.0; 50];
        values.push(100.0);
        let offsets = point_offsets(&values);
        assert!(offsets[50].abs() < 0.02);
        assert!(offsets.iter().any(|offset| offset.abs() > 0.4));
    }

    #[test]
    fn van_der_corput_returns_the_known_sequence() {
        assert_eq!([1, 2, 3, 4].map(van_der_corput), [0.5, 0.25, 0.75, 0.125]);
    }

    #[test]
    fn point_offsets_accept_extreme_and_missing_values() {
        assert_eq!(point_offsets(&[f64::MIN, f64::MAX]).len(), 2);
        assert!(point_offsets(&[]).is_empty());
    }

    fn counted_once(values: &[f64]) -> Vec<CountedValue> {
        let once = |value: &f64| CountedValue { value: *value, count: 1 };
        values.iter().map(once).collect()
    }

    fn linear(values: &[f64]) -> HistogramBins {
        HistogramBins::of_series(AxisScale::Linear, &[counted_once(values)]).unwrap()
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
    fn the_bin_width_is_rounded_from_the_freedman_diaconis_rule() {
        // 0..=999: the interquartile range is 499.5, 2 * 499.5 / 10 = 99.9, which rounds to 100.
        let values: Vec<f64> = (0..1000).map(f64::from).collect();
        let bins = linear(&values);
        assert_eq!((bins.bin_ends(0), bins.count), ((0.0, 100.0), 10));
    }

    #[test]
    fn counted_values_get_the_same_bins_as_repeated_values() {
        let each = [1.0, 1.0, 1.0, 2.0, 5.0, 5.0, 9.0];
        let counted = [(1.0, 3), (2.0, 1), (5.0, 2), (9.0, 1)];
        let counted: Vec<CountedValue> =
            counted.map(|(value, count)| CountedValue { value, count }).to_vec();
        let (one, other) = (
            linear(&each),
            HistogramBins::of_series(AxisScale::Linear, std::slice::from_ref(&counted)).unwrap(),
        );
        assert_eq!((one.first, one.width), (other.first, other.width));
        assert_eq!(one.bin_counts(&counted_once(&each)), other.bin_counts(&counted));
    }

    #[test]
    fn equal_values_and_outliers_have_bins_too() {
        assert_eq!(linear(&[5.0; 7]).bin_counts(&counted_once(&[5.0; 7])), [7]);
        assert_eq!(linear(&[0.0]).count, 1);
        let wild = [1.0, 1.1, 1.2, 1e12];
        assert!(linear(&wild).count <= 2 * MAX_BINS as usize);
        assert_eq!(linear(&wild).bin_counts(&counted_once(&wild)).iter().sum::<u64>(), 4);
    }

    #[test]
    fn bins_of_a_logarithmic_axis_have_equal_ratios() {
        let values: Vec<f64> = (0..100).map(|at| 1.1_f64.powi(at)).collect();
        let bins = HistogramBins::of_series(AxisScale::Log10, &[counted_once(&values)]).unwrap();
        let ratio = |bin| bins.bin_ends(bin).1 / bins.bin_ends(bin).0;
        assert!((ratio(0) - ratio(bins.count - 1)).abs() < 1e-9);
    }
}
