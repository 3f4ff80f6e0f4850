//! Chooses the ticks of an axis. On a linear axis, the step between ticks is 1, 2 or 5 times a
//! power of ten. A logarithmic axis has ticks at powers of its base. With base ten, there are also
//! ticks at 2 and 5 times these powers if there is room. An axis that spans very few powers has
//! ticks like a linear axis.

use crate::axis::{AxisExtent, AxisMapping, ScaleProjection};
use crate::format::{even_labels, format_figure, log2_labels, log10_labels};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AxisTick {
    /// Position, as a data value.
    pub value: f64,
    /// Label; empty for a minor tick.
    pub label: String,
}

/// Returns about `target_count` labeled ticks. If these are whole decades, unlabeled minor ticks
/// may follow them in the list.
pub(crate) fn extent_ticks(
    extent: AxisExtent,
    target_count: usize,
    whole_numbers: bool,
) -> Vec<AxisTick> {
    let target_count = target_count.clamp(1, 50);
    match extent.projection() {
        ScaleProjection::Linear => even_ticks(extent.low, extent.high, target_count, whole_numbers),
        ScaleProjection::Log2 => log2_ticks(extent, target_count),
        ScaleProjection::Log10 => log10_ticks(extent, target_count),
        ScaleProjection::Nines => nines_ticks(extent, target_count),
        ScaleProjection::Change => change_ticks(extent, target_count),
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
    let octaves = extent.high - extent.low;
    if octaves < 2.0 {
        return even_ticks(extent.low.exp2(), extent.high.exp2(), target_count, false);
    }
    let exponents = whole_exponents(extent, target_count);
    let values: Vec<f64> = exponents.iter().map(|exponent| f64::from(*exponent).exp2()).collect();
    label_ticks(&values, log2_labels(&exponents))
}

fn log10_ticks(extent: AxisExtent, target_count: usize) -> Vec<AxisTick> {
    let span = extent.high - extent.low;
    let unproject = |projected: f64| ScaleProjection::Log10.unproject(projected);
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
        ticks
            .extend(minor_values.into_iter().map(|value| AxisTick { value, label: String::new() }));
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
    let inside = |value: &f64| {
        let projected = ScaleProjection::Nines.project(*value);
        projected.is_some_and(|projected| {
            projected >= extent.low - 1e-9 && projected <= extent.high + 1e-9
        })
    };
    values.retain(inside);
    values.sort_by(f64::total_cmp);
    let stride = values.len().div_ceil(target_count.max(1)).max(1);
    let shown: Vec<f64> = values.into_iter().rev().step_by(stride).collect();
    let label = |value: &f64| {
        let decimals = (-(100.0 - value).log10() - 1e-9).ceil().max(0.0) as usize;
        format!("{value:.decimals$}")
    };
    let ascending: Vec<f64> = shown.into_iter().rev().collect();
    label_ticks(&ascending, ascending.iter().map(label).collect())
}

/// Ticks at 0 and at round changes on both sides, as many as fit.
fn change_ticks(extent: AxisExtent, target_count: usize) -> Vec<AxisTick> {
    const FALLS: [f64; 8] = [-20.0, -50.0, -75.0, -90.0, -95.0, -99.0, -99.9, -99.99];
    let growths = (0..9).flat_map(|exponent| {
        let unit = power_of_ten(exponent + 1);
        [2.0, 5.0, 10.0].map(|mantissa| mantissa * unit)
    });
    let project = |value: f64| ScaleProjection::Change.project(value).unwrap_or(f64::NEG_INFINITY);
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
    let inside = |value: &f64| {
        let exponent = value.log10();
        exponent >= extent.low - 1e-9 && exponent <= extent.high + 1e-9
    };
    decades
        .flat_map(|exponent| mantissas.iter().map(move |m| m * power_of_ten(exponent)))
        .filter(inside)
        .collect()
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

impl AxisMapping {
    /// Returns about `target_count` ticks. A category axis has a tick for every name.
    pub fn ticks(&self, target_count: usize) -> Vec<AxisTick> {
        match self.names() {
            Some(names) => names
                .iter()
                .enumerate()
                .map(|(index, name)| AxisTick { value: index as f64, label: name.clone() })
                .collect(),
            None => extent_ticks(self.extent, target_count, self.whole_numbers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AxisScale;

    fn labels(scale: &AxisScale, values: &[f64], about: usize) -> Vec<String> {
        let extent = AxisExtent::of_values(scale, values.iter().copied()).unwrap();
        let ticks = extent_ticks(extent, about, false);
        ticks.into_iter().map(|tick| tick.label).filter(|label| !label.is_empty()).collect()
    }

    #[test]
    fn linear_ticks_are_round_and_inside() {
        assert_eq!(labels(&AxisScale::Linear, &[0.0, 10.0], 5), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(labels(&AxisScale::Linear, &[0.3, 0.9], 3), ["0.4", "0.6", "0.8"]);
        assert_eq!(labels(&AxisScale::Linear, &[-7.0, 7.0], 4), ["−5", "0", "5"]);
    }

    #[test]
    fn ticks_of_a_change_axis_are_round_and_well_separated() {
        assert_eq!(labels(&AxisScale::Change, &[-60.0, 1618.0], 6), ["−50", "0", "100", "500"]);
    }

    #[test]
    fn a_binary_axis_has_powers_of_two() {
        assert_eq!(
            labels(&AxisScale::Log2, &[1.0, 64.0], 10),
            ["1", "2", "4", "8", "16", "32", "64"]
        );
        assert_eq!(
            labels(&AxisScale::Log2, &[1.0, 1048576.0], 5),
            ["1", "16", "256", "4Ki", "64Ki", "1Mi"]
        );
    }

    #[test]
    fn a_decimal_axis_has_decades_or_round_steps_between_them() {
        assert_eq!(
            labels(&AxisScale::Log10, &[1.0, 1e6], 7),
            ["1", "10", "100", "1k", "10k", "100k", "1M"]
        );
        assert_eq!(labels(&AxisScale::Log10, &[1.0, 20.0], 5), ["1", "2", "5", "10", "20"]);
        assert_eq!(
            labels(&AxisScale::Log10, &[100.0, 120.0], 4),
            ["100", "105", "110", "115", "120"]
        );
        assert_eq!(labels(&AxisScale::Log10, &[1e-300, 1e300], 2), ["10⁻³⁰⁰", "10⁰", "10³⁰⁰"]);
    }

    #[test]
    fn a_percentile_axis_counts_nines() {
        assert_eq!(
            labels(&AxisScale::Nines, &[0.0, 99.99], 6),
            ["0", "50", "90", "99", "99.9", "99.99"]
        );
        assert_eq!(
            labels(&AxisScale::Nines, &[0.0, 99.0], 9),
            ["0", "25", "50", "75", "90", "95", "99"]
        );
        assert_eq!(labels(&AxisScale::Nines, &[0.0, 99.9999], 4), ["50", "99", "99.99", "99.9999"]);
    }

    #[test]
    fn whole_number_axes_have_no_fractions() {
        let extent = AxisExtent::of_values(&AxisScale::Linear, [0.0, 2.0]).unwrap();
        let labels: Vec<_> =
            extent_ticks(extent, 8, true).into_iter().map(|tick| tick.label).collect();
        assert_eq!(labels, ["0", "1", "2"]);
    }

    #[test]
    fn every_range_has_few_and_ascending_ticks() {
        for (low, high) in [(1e-300, 3e-300), (-4e307, 4e307), (1e15, 1e15 + 64.0), (-1e-9, 1.0)] {
            let extent =
                AxisExtent::of_values(&AxisScale::Linear, [low, high]).unwrap().with_padding(0.05);
            let ticks = extent_ticks(extent, 6, false);
            assert!((2..=14).contains(&ticks.len()), "{low} {high} {ticks:?}");
            assert!(ticks.windows(2).all(|pair| pair[0].value < pair[1].value));
        }
    }
}
