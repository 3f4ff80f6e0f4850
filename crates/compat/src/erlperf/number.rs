//! How erlperf writes numbers, durations and sizes.
//!
//! Units change late: up to 100000 of the smaller one are written. What is below 100 and not whole has three
//! significant digits, where the original cuts to a whole number and so cannot tell 54.4 ns from 54.6 ns.

/// Powers of 1000, in spite of their names.
const COUNTS: [(f64, &str); 4] = [(1e12, "Ti"), (1e9, "Gi"), (1e6, "Mi"), (1e3, "Ki")];

/// Units of durations in nanoseconds.
const DURATIONS: [(f64, &str); 4] = [(60e9, "m"), (1e9, "s"), (1e6, "ms"), (1e3, "us")];

/// Units of sizes in bytes.
const SIZES: [(f64, &str); 4] = [
    (1_099_511_627_776.0, "Tb"),
    (1_073_741_824.0, "Gb"),
    (1_048_576.0, "Mb"),
    (1_024.0, "Kb"),
];

/// So many of a unit are needed for it to be used.
const LEAST_OF_A_UNIT: f64 = 100.0;

/// `38`, `1242 Ki`.
pub fn number(value: f64) -> String {
    scaled(value, &COUNTS, "")
}

/// `805 ns`, `2609 us`, `17266 s`; `inf` for what never ends.
pub fn duration(ns: f64) -> String {
    if ns.is_infinite() {
        return "inf".to_owned();
    }
    scaled(ns, &DURATIONS, " ns")
}

/// `17861 Kb`.
pub fn size(bytes: f64) -> String {
    scaled(bytes, &SIZES, "")
}

fn scaled(value: f64, units: &[(f64, &str)], smallest: &str) -> String {
    let fits = |(factor, _): &&(f64, &str)| value > factor * LEAST_OF_A_UNIT;
    match units.iter().find(fits) {
        Some((factor, unit)) => format!("{} {unit}", digits(value / factor)),
        None => format!("{}{smallest}", digits(value)),
    }
}

fn digits(value: f64) -> String {
    let whole = value.round();
    let is_whole = (value - whole).abs() <= 1e-9 * value.abs();
    // From 99.95 on three digits leave none behind the point.
    if is_whole || value.abs() >= 99.95 {
        return format!("{whole:.0}");
    }
    let exponent = format!("{value:.2e}");
    let exponent = exponent.split_once('e').map(|(_, exponent)| exponent);
    let exponent: i32 = exponent.and_then(|text| text.parse().ok()).unwrap_or(0);
    let behind = usize::try_from(2 - exponent).unwrap_or(0);
    format!("{value:.behind$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures of the original's recorded tables, and the limits of its source.
    #[test]
    fn units_change_where_the_original_changes_them() {
        let numbers = [
            (38.0, "38"),
            (73_519.0, "73519"),
            (100_000.0, "100000"),
            (100_001.0, "100 Ki"),
            (3_732_499.0, "3732 Ki"),
            (100_000_001.0, "100 Mi"),
            (1.5e11, "150 Gi"),
            (1.5e14, "150 Ti"),
            (0.0, "0"),
        ];
        for (value, text) in numbers {
            assert_eq!(number(value), text);
        }
        let durations = [
            (805.0, "805 ns"),
            (13_624.0, "13624 ns"),
            (100_001.0, "100 us"),
            (2_609_000.0, "2609 us"),
            (451_000_000.0, "451 ms"),
            (1.000_01e11, "100 s"),
            (6.000_01e12, "100 m"),
            (f64::INFINITY, "inf"),
        ];
        for (ns, text) in durations {
            assert_eq!(duration(ns), text);
        }
        let kilobyte = 1024.0;
        assert_eq!(size(17_861.0 * kilobyte), "17861 Kb");
        assert_eq!(size(100.0 * kilobyte), "102400");
        assert_eq!(size(101.0 * kilobyte * kilobyte), "101 Mb");
    }

    #[test]
    fn small_figures_that_are_not_whole_have_three_digits() {
        assert_eq!(duration(1.284), "1.28 ns");
        assert_eq!(duration(54.44), "54.4 ns");
        assert_eq!(duration(0.3), "0.300 ns");
        assert_eq!(number(9.996), "10.0");
        assert_eq!(number(99.96), "100");
        assert_eq!(number(0.4286), "0.429");
        assert_eq!(number(38.0), "38");
    }
}
