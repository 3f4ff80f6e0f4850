//! Infers how published figures were rounded: the step between printed values, and the interval in
//! which a figure lies.

use speedwell_model::Session;

/// A figure that may have been rounded, with the interval in which the exact value lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RoundedFigure {
    pub low: f64,
    pub value: f64,
    pub high: f64,
}

impl RoundedFigure {
    /// Creates a figure that was rounded to multiples of `step`.
    pub fn from_step(value: f64, step: f64) -> RoundedFigure {
        RoundedFigure { low: value - step / 2.0, value, high: value + step / 2.0 }
    }

    pub fn multiply(self, other: RoundedFigure, factor: f64) -> RoundedFigure {
        RoundedFigure {
            low: self.low * other.low * factor,
            value: self.value * other.value * factor,
            high: self.high * other.high * factor,
        }
    }

    pub fn divide(self, other: RoundedFigure) -> RoundedFigure {
        RoundedFigure {
            low: self.low / other.high,
            value: self.value / other.value,
            high: self.high / other.low,
        }
    }
}

/// Number of decimal digits that a 64-bit floating-point number always preserves (IEEE 754).
const SURE_DIGITS: usize = 15;

/// Units in which times may be printed, in nanoseconds. Seconds are left out, because a few round
/// numbers, such as 1000 ms and 2000 ms, would look as if they had been rounded to whole seconds.
const TIME_UNITS_NS: [f64; 3] = [1e6, 1e3, 1.0];

/// Units in which bytes are printed. Dividing by a power of two is exact and restores the printed
/// digits.
const BYTE_UNITS: [f64; 6] = [1.0, 1e3, 1e6, 1024.0, 1_048_576.0, 1_073_741_824.0];

/// Step between adjacent printed values of a metric, in the metric's unit.
pub(super) fn metric_step(sessions: &[&Session], metric: &str) -> f64 {
    let unit = sessions.iter().find_map(|session| session.metric(metric));
    let Some(unit) = unit.map(|metric| metric.unit.as_str()) else {
        return 0.0;
    };
    let runs = sessions.iter().flat_map(|session| &session.runs);
    let samples = runs.flat_map(|run| &run.samples);
    let values: Vec<f64> = samples
        .filter(|sample| &*sample.metric == metric)
        .map(|sample| sample.value)
        .filter(|value| *value != 0.0 && value.is_finite())
        .collect();
    printed_step(&values, unit)
}

fn printed_step(values: &[f64], unit: &str) -> f64 {
    let units: &[f64] = match unit {
        "ns" => &TIME_UNITS_NS,
        "B/s" | "B" => &BYTE_UNITS,
        _ => &[1.0],
    };
    // The figures may have been printed in any of these units. Assume the unit that gives the
    // largest step.
    let in_unit = |unit: f64| {
        let decimals = values.iter().map(|value| count_decimals(value / unit)).max();
        unit * 10f64.powi(-(decimals.unwrap_or(0) as i32))
    };
    units.iter().map(|unit| in_unit(*unit)).fold(0.0, f64::max)
}

/// Number of digits after the decimal point.
fn count_decimals(value: f64) -> usize {
    let text = format!("{value:.*e}", SURE_DIGITS - 1);
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let fraction_digits = digits
        .trim_end_matches('0')
        .split_once('.')
        .map_or(0, |(_, fraction)| fraction.len() as i32);
    (fraction_digits - exponent).max(0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_between_printed_values_is_inferred_in_any_unit() {
        assert_eq!(printed_step(&[54620.0, 28200.4, 11450.15], "1/s"), 0.01);
        assert_eq!(printed_step(&[1000.0, 20000.0], "1/s"), 1.0);
        // The lines check two decimals of a millisecond, whole milliseconds, and whole nanoseconds.
        assert_eq!(printed_step(&[1_750_000.0, 4_400_000.0], "ns"), 1e4);
        assert_eq!(printed_step(&[1129e6, 585e6], "ns"), 1e6);
        assert_eq!(printed_step(&[1_750_123.0, 4_400_001.0], "ns"), 1.0);
        // 8.54 and 131.47, first in MB/s and then in MiB/s.
        assert_eq!(printed_step(&[8.54e6, 131.47e6], "B/s"), 1e4);
        let mib = 1_048_576.0;
        assert_eq!(printed_step(&[8.54 * mib, 131.47 * mib], "B/s"), mib / 100.0);
        assert_eq!(printed_step(&[], "B/s"), 1_073_741_824.0);
    }
}
