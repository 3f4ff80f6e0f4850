//! Describes a chart axis: its label and scale, the extent that it shows, the positions of its
//! values in pixels, and its ticks. `axes` draws them. Start at [`ChartAxis`] and [`AxisMapping`].

use crate::format::{even_labels, format_figure, log2_labels, log10_labels};

/// An axis of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChartAxis {
    /// Axis label with the unit; may be empty.
    pub label: String,
    /// Scale that maps values to distances.
    pub scale: AxisScale,
    /// Names of the categories; empty on other scales.
    pub names: Vec<String>,
}

impl ChartAxis {
    /// A linear axis.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    /// A base-2 logarithmic axis.
    pub fn log2(label: impl Into<String>) -> Self {
        Self { scale: AxisScale::Log2, ..Self::linear(label) }
    }

    /// A base-10 logarithmic axis.
    pub fn log10(label: impl Into<String>) -> Self {
        Self { scale: AxisScale::Log10, ..Self::linear(label) }
    }

    /// An axis of percentages on which each additional nine is the same distance: 90, 99, 99.9.
    pub fn nines(label: impl Into<String>) -> Self {
        Self { scale: AxisScale::Nines, ..Self::linear(label) }
    }

    /// A category axis: value 0 is the first name, 1 the second, and so on.
    pub fn category(label: impl Into<String>, names: Vec<String>) -> Self {
        Self { label: label.into(), scale: AxisScale::Category(names.len()), names }
    }

    /// The label, with a note if the axis is logarithmic, because the ticks do not make that
    /// obvious. Changes that are placed by their ratio are on such an axis.
    pub(crate) fn full_label(&self) -> String {
        match self.scale {
            AxisScale::Log2 | AxisScale::Log10 | AxisScale::Change
                if !self.label.trim().is_empty() =>
            {
                format!("{} (logarithmic)", self.label)
            }
            _ => self.label.clone(),
        }
    }

    /// Scale of a value axis. A category scale makes no sense here and is treated as linear.
    pub(crate) fn value_scale(&self) -> AxisScale {
        self.scale.of_values()
    }

    /// A copy of this axis with the scale of a value axis; see [`ChartAxis::value_scale`].
    pub(crate) fn to_value_axis(&self) -> Self {
        Self { scale: self.value_scale(), ..self.clone() }
    }

    /// This axis without its label, which is written elsewhere.
    pub(crate) fn without_label(&self) -> Self {
        Self { label: String::new(), ..self.clone() }
    }
}

/// How the values of an axis map to distances.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum AxisScale {
    /// Equal differences are equal distances.
    #[default]
    Linear,
    /// Logarithmic with ticks at powers of two. Cannot show values that are not positive.
    Log2,
    /// Logarithmic with ticks at powers of ten. Cannot show values that are not positive.
    Log10,
    /// Percentages from 0 to below 100. The distance from 90 to 99 equals the distance from 99 to
    /// 99.9, so the tail of a distribution is readable. Popularized by HdrHistogram's plots (G.
    /// Tene). Cannot show values of 100 or more.
    Nines,
    /// Relative changes in percent, placed by the logarithm of the ratio. The distance from 0 to
    /// +100% equals the distance from 0 to -50%. Cannot show changes of -100% or less.
    Change,
    /// This number of named categories; a value is an index into the names. Cannot show other values.
    Category(usize),
}

// The extent of an axis. Its ends are in projected space (logarithms on a logarithmic scale), so
// that padding looks even on the screen.

/// Low and high end of an axis in projected space. After [`AxisExtent::with_padding`], low < high.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AxisExtent {
    pub low: f64,
    pub high: f64,
    pub projection: AxisScale,
}

/// An axis with the extent to show.
pub(crate) type ShownAxis<'a> = (&'a ChartAxis, AxisExtent);

impl AxisExtent {
    /// Spans all values that the scale can show; `None` if there are none.
    pub fn of_values(scale: AxisScale, values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let projection = scale.of_values();
        let mut shown = values.into_iter().filter_map(|value| projection.project(value));
        let first = shown.next()?;
        let start = Self { low: first, high: first, projection };
        Some(shown.fold(start, Self::extended_to_projected))
    }

    /// Spans the positions of a category axis, with half a position of padding at both ends.
    pub fn of_names(count: usize) -> Self {
        Self { low: -0.5, high: count.max(1) as f64 - 0.5, projection: AxisScale::Linear }
    }

    /// Spans the data of an axis: the names of a category axis, or all values that the axis can
    /// show. Values get some padding, and zero is included if it is near. `None` without values.
    pub fn of_data(
        scale: AxisScale,
        values: impl IntoIterator<Item = f64>,
        padding: f64,
    ) -> Option<Self> {
        if let AxisScale::Category(count) = scale {
            return Some(Self::of_names(count));
        }
        Some(Self::of_values(scale, values)?.including_near_zero().with_padding(padding))
    }

    /// Extends to `value`, if the scale can show it.
    pub fn extended_to(self, value: f64) -> Self {
        self.projection.project(value).map_or(self, |value| self.extended_to_projected(value))
    }

    /// Extends to a position in projected space.
    pub fn extended_to_projected(self, projected: f64) -> Self {
        Self { low: self.low.min(projected), high: self.high.max(projected), ..self }
    }

    /// Extends to zero if this takes at most a third of the axis. An axis that starts at zero shows
    /// true proportions, but a distant zero would squeeze the data.
    pub fn including_near_zero(self) -> Self {
        let (low, high) = (self.low.abs(), self.high.abs());
        let is_linear = self.projection == AxisScale::Linear;
        let is_near = low.min(high) <= low.max(high) / 3.0 && self.low * self.high > 0.0;
        if is_linear && is_near { self.extended_to(0.0) } else { self }
    }

    /// Pads both ends by a fraction of the span. On linear and nines scales, the padding does not
    /// cross zero, because that would suggest values of the other sign. Equal values get a default
    /// span instead.
    pub fn with_padding(self, share: f64) -> Self {
        let largest = self.low.abs().max(self.high.abs());
        let span = self.high - self.low;
        let is_linear = self.projection == AxisScale::Linear;
        // Ticks in a span near the resolution of a double would be indistinguishable.
        if span <= largest * 1e-11 || span < f64::MIN_POSITIVE * 1e6 || (!is_linear && span < 1e-9)
        {
            return self.default_span();
        }
        let mut padded =
            Self { low: self.low - span * share, high: self.high + span * share, ..self };
        // Beyond these powers, ticks have no representable values.
        let (min_power, max_power) = match self.projection {
            AxisScale::Log2 => (-1022.0, 1023.0),
            AxisScale::Log10 => (-307.0, 308.0),
            _ => (f64::NEG_INFINITY, f64::INFINITY),
        };
        padded.low = padded.low.max(self.low.min(min_power));
        padded.high = padded.high.min(self.high.max(max_power));
        // An axis of nines has no values below 0% either.
        if (is_linear || self.projection == AxisScale::Nines) && self.low >= 0.0 {
            padded.low = padded.low.max(0.0);
        }
        if is_linear && self.high <= 0.0 {
            padded.high = padded.high.min(0.0);
        }
        padded
    }

    /// Pads both ends by a fraction of the span, possibly across zero.
    pub fn padded_across(self, share: f64) -> Self {
        let padded = self.with_padding(0.0);
        let padding = (padded.high - padded.low) * share;
        Self { low: padded.low - padding, high: padded.high + padding, ..self }
    }

    /// Creates a span around a single value.
    fn default_span(self) -> Self {
        let middle = self.low / 2.0 + self.high / 2.0;
        let half_span = match self.projection {
            AxisScale::Linear if middle.abs() < f64::MIN_POSITIVE * 1e6 => 1.0,
            AxisScale::Linear => middle.abs() * 0.05,
            AxisScale::Log2 => 1.0,
            _ => 0.5,
        };
        Self { low: middle - half_span, high: middle + half_span, ..self }
    }
}

// The projection of a scale maps values into a space in which equal distances have equal lengths on
// the screen. It also maps positions in this space back to values.

/// Maximum magnitude of a value on a linear axis. Padding a longer axis would overflow. Larger
/// values are drawn at the edge.
const LINEAR_LIMIT: f64 = 4e307;

impl AxisScale {
    /// The scale of an axis of values: a category scale is treated as linear.
    pub(crate) fn of_values(self) -> Self {
        if matches!(self, Self::Category(_)) { Self::Linear } else { self }
    }

    /// Projects a value; `None` if a scale of values cannot show it.
    pub(crate) fn project(self, value: f64) -> Option<f64> {
        let projected = match self {
            Self::Linear if value.is_finite() => value.clamp(-LINEAR_LIMIT, LINEAR_LIMIT),
            Self::Log2 => value.log2(),
            Self::Log10 => value.log10(),
            Self::Nines if value < 0.0 => f64::NAN,
            // The position is the number of nines: 0 at 0%, 1 at 90%, 2 at 99%. This number is
            // the negative decimal logarithm of the remaining fraction.
            Self::Nines => -(1.0 - value / 100.0).log10(),
            Self::Change => (value / 100.0).ln_1p(),
            Self::Linear | Self::Category(_) => value,
        };
        // The logarithm of zero is infinite, and the logarithm of a negative number is NaN.
        projected.is_finite().then_some(projected)
    }

    pub(crate) fn unproject(self, projected: f64) -> f64 {
        match self {
            Self::Linear | Self::Category(_) => projected,
            Self::Log2 => projected.exp2(),
            Self::Log10 => 10.0_f64.powf(projected),
            Self::Nines => 100.0 * (1.0 - 10.0_f64.powf(-projected)),
            Self::Change => 100.0 * projected.exp_m1(),
        }
    }
}

/// Whether `scale` can show `value`.
pub(crate) fn can_show(scale: AxisScale, value: f64) -> bool {
    match scale {
        AxisScale::Category(count) => value >= -0.5 && value <= count as f64 - 0.5,
        other => other.project(value).is_some(),
    }
}

// The mapping of values to pixels along an axis. No other code computes such pixels.

/// An axis laid out along a range of pixels.
#[derive(Clone, Debug)]
pub(crate) struct AxisMapping {
    /// Names of a category axis.
    names: Option<Vec<String>>,
    pub extent: AxisExtent,
    /// Pixel of the low end.
    pub start_px: f64,
    /// Pixel of the high end.
    pub to_px: f64,
    /// Whether ticks are restricted to whole numbers, for counts.
    pub whole_numbers: bool,
}

impl AxisMapping {
    /// Maps `extent` to the pixels `start_px..to_px`. `start_px` is the pixel of the low end, and
    /// may be larger than `to_px`.
    pub fn new(axis: &ChartAxis, extent: AxisExtent, start_px: f64, to_px: f64) -> Self {
        let has_names = matches!(axis.scale, AxisScale::Category(_));
        let names = has_names.then(|| axis.names.clone());
        Self { names, extent, start_px, to_px, whole_numbers: false }
    }

    /// Pixel of a value. Values outside the extent, and values that the scale cannot show, are
    /// drawn at the edge.
    pub fn pixel_at(&self, value: f64) -> f64 {
        let edge = if value == f64::INFINITY { self.extent.high } else { self.extent.low };
        let projected = self.extent.projection.project(value).unwrap_or(edge);
        let AxisExtent { low, high, .. } = self.extent;
        let share = ((projected - low) / (high - low)).clamp(0.0, 1.0);
        self.start_px + share * (self.to_px - self.start_px)
    }

    /// Whether the axis extends to `value`.
    pub fn contains_value(&self, value: f64) -> bool {
        let projected = self.extent.projection.project(value);
        let tolerance = (self.extent.high - self.extent.low) * 1e-9;
        projected.is_some_and(|projected| {
            projected >= self.extent.low - tolerance && projected <= self.extent.high + tolerance
        })
    }

    pub fn length_px(&self) -> f64 {
        (self.to_px - self.start_px).abs()
    }

    /// Returns about `target_count` ticks. A category axis has a tick for every name.
    pub fn ticks(&self, target_count: usize) -> Vec<AxisTick> {
        let Some(names) = self.names() else {
            return extent_ticks(self.extent, target_count, self.whole_numbers);
        };
        let values: Vec<f64> = (0..names.len()).map(|index| index as f64).collect();
        label_ticks(&values, names.to_vec())
    }

    /// Names of a category axis.
    pub fn names(&self) -> Option<&[String]> {
        self.names.as_deref()
    }
}

// Chooses the ticks of an axis. On a linear axis, the step between ticks is 1, 2 or 5 times a
// power of ten. A logarithmic axis has ticks at powers of its base. With base ten, there are also
// ticks at 2 and 5 times these powers if there is room. An axis that spans very few powers has
// ticks like a linear axis.

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AxisTick {
    /// Position, as a data value.
    pub value: f64,
    /// Label; empty for a minor tick.
    pub label: String,
}

/// Returns about `target_count` labeled ticks. If these are whole decades, unlabeled minor ticks
/// may follow them in the list.
fn extent_ticks(extent: AxisExtent, target_count: usize, whole_numbers: bool) -> Vec<AxisTick> {
    let target_count = target_count.clamp(1, 50);
    match extent.projection {
        AxisScale::Log2 => log2_ticks(extent, target_count),
        AxisScale::Log10 => log10_ticks(extent, target_count),
        AxisScale::Nines => nines_ticks(extent, target_count),
        AxisScale::Change => change_ticks(extent, target_count),
        _ => even_ticks(extent.low, extent.high, target_count, whole_numbers),
    }
}

/// Ticks at equal steps of the value.
fn even_ticks(low: f64, high: f64, target_count: usize, whole_numbers: bool) -> Vec<AxisTick> {
    let mut step = nice_step((high - low) / target_count as f64);
    if whole_numbers {
        step = step.max(1.0);
    }
    // The tolerance keeps a tick at an end of the axis that is a multiple of the step.
    let first = (low / step - 1e-9).ceil();
    let last = (high / step + 1e-9).floor();
    let count = (last - first).clamp(-1.0, 200.0) as i32 + 1;
    let values: Vec<f64> = (0..count).map(|index| (first + f64::from(index)) * step).collect();
    label_ticks(&values, even_labels(&values, step))
}

/// Rounds up to 1, 2 or 5 times a power of ten.
fn nice_step(rough: f64) -> f64 {
    // Compute the power of ten as a product of two powers. Near the end of the range of a double, a
    // single power may not be a normal number.
    let exponent = rough.log10().floor() as i32;
    let magnitude = 10.0_f64.powi(exponent / 2) * 10.0_f64.powi(exponent - exponent / 2);
    let share = rough / magnitude;
    let nice = [1.0, 2.0, 5.0].into_iter().find(|nice| share <= nice * 1.000_001).unwrap_or(10.0);
    nice * magnitude
}

fn log2_ticks(extent: AxisExtent, target_count: usize) -> Vec<AxisTick> {
    if extent.high - extent.low < 2.0 {
        return even_ticks(extent.low.exp2(), extent.high.exp2(), target_count, false);
    }
    let exponents = whole_exponents(extent, target_count);
    let values: Vec<f64> = exponents.iter().map(|exponent| f64::from(*exponent).exp2()).collect();
    label_ticks(&values, log2_labels(&exponents))
}

fn log10_ticks(extent: AxisExtent, target_count: usize) -> Vec<AxisTick> {
    let span = extent.high - extent.low;
    let unproject = |projected: f64| AxisScale::Log10.unproject(projected);
    if span < 0.9 {
        return even_ticks(unproject(extent.low), unproject(extent.high), target_count, false);
    }
    if span < 2.0 || span * 3.0 <= target_count as f64 * 1.3 {
        let values = scaled_mantissas(extent, &[1.0, 2.0, 5.0]);
        return label_ticks(&values, log10_labels(&values));
    }
    let exponents = whole_exponents(extent, target_count);
    let values: Vec<f64> = exponents.iter().map(|exponent| power_of_ten(*exponent)).collect();
    let mut ticks = label_ticks(&values, log10_labels(&values));
    if span.ceil() <= target_count as f64 {
        let minor_values = scaled_mantissas(extent, &[2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        ticks.extend(label_ticks(&minor_values, vec![String::new(); minor_values.len()]));
    }
    ticks
}

/// Ticks at 0, 50, 90, 99, 99.9 ... and, if there is room, at 25, 75 and 95.
fn nines_ticks(extent: AxisExtent, target_count: usize) -> Vec<AxisTick> {
    let max_nines = (extent.high + 1e-9).min(12.0).floor() as i32;
    let nines_only = (1..=max_nines).map(|nines| 100.0 - power_of_ten(2 - nines));
    let mut values: Vec<f64> = [0.0, 50.0].into_iter().chain(nines_only).collect();
    if values.len() + 3 <= target_count {
        values.extend([25.0, 75.0, 95.0]);
    }
    let shown = extent.low - 1e-9..=extent.high + 1e-9;
    let project = |value: f64| AxisScale::Nines.project(value);
    values.retain(|value| project(*value).is_some_and(|projected| shown.contains(&projected)));
    values.sort_by(f64::total_cmp);
    let stride = values.len().div_ceil(target_count.max(1)).max(1);
    let mut values: Vec<f64> = values.into_iter().rev().step_by(stride).collect();
    values.reverse();
    let label = |value: &f64| {
        let decimals = (-(100.0 - value).log10() - 1e-9).ceil().max(0.0) as usize;
        format!("{value:.decimals$}")
    };
    label_ticks(&values, values.iter().map(label).collect())
}

/// Ticks at 0 and at round changes on both sides, as many as fit.
fn change_ticks(extent: AxisExtent, target_count: usize) -> Vec<AxisTick> {
    const FALLS: [f64; 8] = [-20.0, -50.0, -75.0, -90.0, -95.0, -99.0, -99.9, -99.99];
    let growths = (0..9).flat_map(|exponent| {
        let unit = power_of_ten(exponent + 1);
        [2.0, 5.0, 10.0].map(|mantissa| mantissa * unit)
    });
    let project = |value: f64| AxisScale::Change.project(value).unwrap_or(f64::NEG_INFINITY);
    let min_distance = (extent.high - extent.low) / target_count as f64;
    let mut values = vec![0.0];
    for side in [growths.collect::<Vec<f64>>(), FALLS.to_vec()] {
        let mut last = 0.0;
        for value in side {
            if (project(value) - project(last)).abs() >= min_distance {
                values.push(value);
                last = value;
            }
        }
    }
    values.retain(|value| (extent.low - 1e-9..=extent.high + 1e-9).contains(&project(*value)));
    values.sort_by(f64::total_cmp);
    let labels = values.iter().map(|value| format_figure(*value));
    label_ticks(&values, labels.collect())
}

/// Whole exponents within the extent, reduced to about `target_count`.
fn whole_exponents(extent: AxisExtent, target_count: usize) -> Vec<i32> {
    let first = (extent.low - 1e-9).ceil() as i32;
    let last = (extent.high + 1e-9).floor() as i32;
    let stride = (f64::from(last - first) / target_count as f64).ceil().max(1.0) as i32;
    (first..=last).filter(|exponent| exponent.rem_euclid(stride) == 0).collect()
}

/// The values `mantissa * 10^n` within the extent, ascending.
fn scaled_mantissas(extent: AxisExtent, mantissas: &[f64]) -> Vec<f64> {
    let decades = extent.low.floor() as i32..=extent.high.ceil() as i32;
    let values =
        decades.flat_map(|exponent| mantissas.iter().map(move |m| m * power_of_ten(exponent)));
    let shown = extent.low - 1e-9..=extent.high + 1e-9;
    values.filter(|value| shown.contains(&value.log10())).collect()
}

/// Computes a power of ten. Unlike `powf`, this is exact if a double can represent the power.
fn power_of_ten(exponent: i32) -> f64 {
    match exponent {
        // For such exponents, the denominator in the next arm could overflow to infinity.
        ..-300 => 10.0_f64.powf(f64::from(exponent)),
        -300..0 => 1.0 / 10.0_f64.powi(-exponent),
        _ => 10.0_f64.powi(exponent),
    }
}

fn label_ticks(values: &[f64], labels: Vec<String>) -> Vec<AxisTick> {
    values.iter().zip(labels).map(|(value, label)| AxisTick { value: *value, label }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linear(values: &[f64]) -> AxisExtent {
        AxisExtent::of_values(AxisScale::Linear, values.iter().copied()).unwrap()
    }

    #[test]
    fn values_that_cannot_be_shown_do_not_extend_the_axis() {
        let extent = linear(&[f64::NAN, 3.0, f64::INFINITY, 7.0]);
        assert_eq!((extent.low, extent.high), (3.0, 7.0));
        assert_eq!(AxisExtent::of_values(AxisScale::Log10, [0.0, -1.0]), None);
    }

    #[test]
    fn zero_is_included_only_when_it_is_near() {
        assert_eq!(linear(&[1.0, 10.0]).including_near_zero().low, 0.0);
        assert_eq!(linear(&[9.0, 10.0]).including_near_zero().low, 9.0);
        assert_eq!(linear(&[-10.0, -1.0]).including_near_zero().high, 0.0);
    }

    #[test]
    fn padding_does_not_cross_zero() {
        let extent = linear(&[0.0, 10.0]).with_padding(0.1);
        assert_eq!((extent.low, extent.high), (0.0, 11.0));
    }

    #[test]
    fn equal_and_extreme_values_get_a_finite_span() {
        for values in [&[5.0, 5.0][..], &[0.0], &[-3.0], &[f64::MAX, f64::MIN], &[5e-324, 1e-320]] {
            let extent = linear(values).with_padding(0.05);
            assert!(extent.low < extent.high, "{values:?}");
            assert!((extent.high - extent.low).is_finite(), "{values:?}");
        }
        let log = AxisExtent::of_values(AxisScale::Log2, [8.0]).unwrap().with_padding(0.05);
        assert_eq!((log.low, log.high), (2.0, 4.0));
    }

    #[test]
    fn each_scale_accepts_only_values_that_it_can_show() {
        let names = AxisScale::Category(2);
        assert!(can_show(names, 1.0) && !can_show(names, 2.0) && !can_show(names, f64::NAN));
        assert!(can_show(AxisScale::Linear, -1.0) && !can_show(AxisScale::Linear, f64::INFINITY));
        assert!(can_show(AxisScale::Log2, 0.5) && !can_show(AxisScale::Log2, 0.0));
        assert!(!can_show(AxisScale::Log10, -1.0) && !can_show(AxisScale::Log10, f64::NAN));
    }

    #[test]
    fn each_further_nine_is_the_same_distance() {
        let at = |value| AxisScale::Nines.project(value);
        assert_eq!((at(0.0), at(100.0), at(-1.0)), (Some(0.0), None, None));
        for (percent, nines) in [(90.0, 1.0), (99.0, 2.0), (99.99, 4.0)] {
            assert!((at(percent).unwrap() - nines).abs() < 1e-9);
            assert!((AxisScale::Nines.unproject(nines) - percent).abs() < 1e-9);
        }
    }

    #[test]
    fn a_doubling_and_a_halving_are_the_same_distance() {
        let at = |percent| AxisScale::Change.project(percent);
        assert_eq!((at(0.0), at(-100.0), at(-101.0)), (Some(0.0), None, None));
        assert!((at(100.0).unwrap() + at(-50.0).unwrap()).abs() < 1e-12);
        assert!((AxisScale::Change.unproject(at(300.0).unwrap()) - 300.0).abs() < 1e-9);
    }

    #[test]
    fn unproject_reverses_project() {
        for projection in [AxisScale::Linear, AxisScale::Log2, AxisScale::Log10] {
            for value in [1e-12, 1.0, 3.5, 1e12] {
                let there = projection.project(value).unwrap();
                assert!((projection.unproject(there) / value - 1.0).abs() < 1e-12);
            }
        }
    }

    fn mapping(axis: &ChartAxis, values: [f64; 2]) -> AxisMapping {
        let extent = AxisExtent::of_values(axis.scale, values).unwrap();
        AxisMapping::new(axis, extent, 0.0, 100.0)
    }

    #[test]
    fn linear_and_logarithmic_axes_map_values_to_pixels() {
        let linear = mapping(&ChartAxis::linear(""), [0.0, 10.0]);
        assert_eq!(
            (linear.pixel_at(0.0), linear.pixel_at(5.0), linear.pixel_at(10.0)),
            (0.0, 50.0, 100.0)
        );
        let log = mapping(&ChartAxis::log10(""), [1.0, 100.0]);
        assert!((log.pixel_at(10.0) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn values_outside_the_axis_are_placed_at_its_edge() {
        let log = mapping(&ChartAxis::log2(""), [1.0, 4.0]);
        assert_eq!((log.pixel_at(0.0), log.pixel_at(-5.0), log.pixel_at(1e9)), (0.0, 0.0, 100.0));
        assert_eq!((log.pixel_at(f64::INFINITY), log.pixel_at(f64::NEG_INFINITY)), (100.0, 0.0));
        assert!(log.contains_value(4.0) && !log.contains_value(4.1) && !log.contains_value(0.0));
    }

    #[test]
    fn categories_are_placed_in_the_middle_of_their_bands() {
        let axis = ChartAxis::category("", vec!["a".into(), "b".into()]);
        let mapping = AxisMapping::new(&axis, AxisExtent::of_names(2), 0.0, 100.0);
        assert_eq!((mapping.pixel_at(0.0), mapping.pixel_at(1.0)), (25.0, 75.0));
        assert_eq!(mapping.ticks(1).len(), 2);
    }

    fn labels(scale: AxisScale, values: &[f64], about: usize) -> Vec<String> {
        let extent = AxisExtent::of_values(scale, values.iter().copied()).unwrap();
        let ticks = extent_ticks(extent, about, false);
        ticks.into_iter().map(|tick| tick.label).filter(|label| !label.is_empty()).collect()
    }

    #[test]
    fn linear_ticks_are_round_and_inside() {
        assert_eq!(labels(AxisScale::Linear, &[0.0, 10.0], 5), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(labels(AxisScale::Linear, &[0.3, 0.9], 3), ["0.4", "0.6", "0.8"]);
        assert_eq!(labels(AxisScale::Linear, &[-7.0, 7.0], 4), ["−5", "0", "5"]);
    }

    #[test]
    fn ticks_of_a_change_axis_are_round_and_well_separated() {
        assert_eq!(labels(AxisScale::Change, &[-60.0, 1618.0], 6), ["−50", "0", "100", "500"]);
    }

    #[test]
    fn a_binary_axis_has_powers_of_two() {
        assert_eq!(
            labels(AxisScale::Log2, &[1.0, 64.0], 10),
            ["1", "2", "4", "8", "16", "32", "64"]
        );
        assert_eq!(
            labels(AxisScale::Log2, &[1.0, 1048576.0], 5),
            ["1", "16", "256", "4Ki", "64Ki", "1Mi"]
        );
    }

    #[test]
    fn a_decimal_axis_has_decades_or_round_steps_between_them() {
        assert_eq!(
            labels(AxisScale::Log10, &[1.0, 1e6], 7),
            ["1", "10", "100", "1k", "10k", "100k", "1M"]
        );
        assert_eq!(labels(AxisScale::Log10, &[1.0, 20.0], 5), ["1", "2", "5", "10", "20"]);
        assert_eq!(
            labels(AxisScale::Log10, &[100.0, 120.0], 4),
            ["100", "105", "110", "115", "120"]
        );
        assert_eq!(labels(AxisScale::Log10, &[1e-300, 1e300], 2), ["10⁻³⁰⁰", "10⁰", "10³⁰⁰"]);
    }

    #[test]
    fn a_percentile_axis_counts_nines() {
        assert_eq!(
            labels(AxisScale::Nines, &[0.0, 99.99], 6),
            ["0", "50", "90", "99", "99.9", "99.99"]
        );
        assert_eq!(
            labels(AxisScale::Nines, &[0.0, 99.0], 9),
            ["0", "25", "50", "75", "90", "95", "99"]
        );
        assert_eq!(labels(AxisScale::Nines, &[0.0, 99.9999], 4), ["50", "99", "99.99", "99.9999"]);
    }

    #[test]
    fn whole_number_axes_have_no_fractions() {
        let extent = AxisExtent::of_values(AxisScale::Linear, [0.0, 2.0]).unwrap();
        let labels: Vec<_> =
            extent_ticks(extent, 8, true).into_iter().map(|tick| tick.label).collect();
        assert_eq!(labels, ["0", "1", "2"]);
    }

    #[test]
    fn every_range_has_few_and_ascending_ticks() {
        for (low, high) in [(1e-300, 3e-300), (-4e307, 4e307), (1e15, 1e15 + 64.0), (-1e-9, 1.0)] {
            let extent =
                AxisExtent::of_values(AxisScale::Linear, [low, high]).unwrap().with_padding(0.05);
            let ticks = extent_ticks(extent, 6, false);
            assert!((2..=14).contains(&ticks.len()), "{low} {high} {ticks:?}");
            assert!(ticks.windows(2).all(|pair| pair[0].value < pair[1].value));
        }
    }
}
