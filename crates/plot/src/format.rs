//! Formats numbers (tick labels such as `1.2M` and `10⁻⁶`, values such as `1,234.5`), and the phrases
//! of tooltips and accessible summaries.

/// Decimal suffixes, largest first.
const SUFFIXES: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];

/// Numbers from this magnitude on are written as powers of ten.
const MAX_PLAIN: f64 = 1e15;
/// Numbers below this magnitude are written as powers of ten.
const MIN_PLAIN: f64 = 1e-4;

/// Formats a single number: six significant digits with thousands separators.
pub(crate) fn format_figure(value: f64) -> String {
    match value {
        0.0 => return "0".into(),
        f64::INFINITY => return "∞".into(),
        f64::NEG_INFINITY => return "−∞".into(),
        _ if value.is_nan() => return "not a number".into(),
        _ => {}
    }
    let magnitude = value.abs();
    if !(MIN_PLAIN..MAX_PLAIN).contains(&magnitude) {
        let (mantissa, exponent) = split_exponent(value);
        return format_power(&trim_zeros(format!("{mantissa:.5}")), exponent);
    }
    let decimals = (5 - exponent_of(magnitude)).clamp(0, 9) as usize;
    group_thousands(&trim_zeros(format!("{value:.decimals$}")))
}

/// Formats both ends of a range: `1,234.5 to 2,000`.
pub(crate) fn format_range(low: f64, high: f64) -> String {
    format!("{} to {}", format_figure(low), format_figure(high))
}

/// Formats a number with a fixed number of decimals and thousands separators.
pub(crate) fn format_fixed(value: f64, decimals: usize) -> String {
    if !value.is_finite() || value.abs() >= MAX_PLAIN {
        return format_figure(value);
    }
    group_thousands(&format!("{value:.decimals$}"))
}

/// Labels for evenly spaced ticks `step` apart, with the same suffix and number of decimals.
pub(crate) fn even_labels(values: &[f64], step: f64) -> Vec<String> {
    let largest = values.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    if largest == 0.0 {
        return values.iter().map(|_| "0".into()).collect();
    }
    if !(1e-3..MAX_PLAIN).contains(&largest) {
        // A common power of ten: `2×10⁻⁶`, `4×10⁻⁶`.
        let exponent = exponent_of(largest);
        let decimals = decimals_of(scaled_down(step, exponent)).min(6);
        return label_values(values, step, |value| {
            let mantissa = format!("{:.decimals$}", scaled_down(value, exponent));
            format_power(&with_minus_sign(mantissa), exponent)
        });
    }
    let (mut unit, mut suffix) = SUFFIXES
        .into_iter()
        .find(|(unit, _)| largest >= *unit && largest >= 10_000.0)
        .unwrap_or((1.0, ""));
    // "1.000002M" is less readable than "1,000,002".
    if decimals_of(step / unit) > 3 {
        (unit, suffix) = (1.0, "");
    }
    let decimals = decimals_of(step / unit);
    label_values(values, step, |value| {
        format!("{}{suffix}", group_thousands(&format!("{:.decimals$}", value / unit)))
    })
}

/// Labels of values a `step` apart. A value that is only nearly zero, due to rounding, is `0`.
fn label_values(values: &[f64], step: f64, format: impl Fn(f64) -> String) -> Vec<String> {
    let label = |value: &f64| match value.abs() {
        magnitude if magnitude < step * 1e-6 => "0".into(),
        _ => format(*value),
    };
    values.iter().map(label).collect()
}

/// Labels for ticks of a decimal logarithmic axis: `1`, `10`, `2k`. If one label has no short form,
/// all labels are powers of ten such as `10⁻⁶`.
pub(crate) fn log10_labels(values: &[f64]) -> Vec<String> {
    let are_plain = values.iter().all(|value| (0.00099..MAX_PLAIN).contains(value));
    let label = if are_plain { format_short } else { log10_power };
    values.iter().copied().map(label).collect()
}

fn log10_power(value: f64) -> String {
    let (mantissa, exponent) = split_exponent(value);
    match trim_zeros(format!("{mantissa:.2}")).as_str() {
        "1" => format!("10{}", superscript(exponent)),
        mantissa => format_power(mantissa, exponent),
    }
}

fn format_short(value: f64) -> String {
    let (unit, suffix) =
        SUFFIXES.into_iter().find(|(unit, _)| value >= unit * 0.999).unwrap_or((1.0, ""));
    format!("{}{suffix}", trim_zeros(format!("{:.3}", value / unit)))
}

/// Labels for powers of two, given by their exponents: `64`, `1,024`. If the largest power is 16Ki
/// or more, all labels from 1Ki on have binary suffixes.
pub(crate) fn log2_labels(exponents: &[i32]) -> Vec<String> {
    let largest = exponents.iter().copied().max().unwrap_or(0);
    exponents.iter().map(|exponent| log2_label(*exponent, largest >= 14)).collect()
}

fn log2_label(exponent: i32, has_suffix: bool) -> String {
    const BINARY: [&str; 5] = ["", "Ki", "Mi", "Gi", "Ti"];
    match exponent {
        0..10 => format!("{}", 1_u64 << exponent),
        10..14 if !has_suffix => group_thousands(&format!("{}", 1_u64 << exponent)),
        10..50 => format!("{}{}", 1_u64 << (exponent % 10), BINARY[(exponent / 10) as usize]),
        -6..0 => trim_zeros(format!("{:.6}", 2.0_f64.powi(exponent))),
        _ => format!("2{}", superscript(exponent)),
    }
}

/// Splits a finite, nonzero number into a mantissa in [1, 10) and an exponent.
fn split_exponent(value: f64) -> (f64, i32) {
    let exponent = exponent_of(value.abs());
    (scaled_down(value, exponent), exponent)
}

/// Computes `value / 10^exponent` in two steps, because `10^-310` is not a normal number.
fn scaled_down(value: f64, exponent: i32) -> f64 {
    let half = exponent / 2;
    value / 10.0_f64.powi(half) / 10.0_f64.powi(exponent - half)
}

/// Exponent of the leading digit. At a power of ten, the computed logarithm can be slightly below
/// the whole number (`log10(1000)` on some machines); this function corrects that.
fn exponent_of(magnitude: f64) -> i32 {
    let exponent = magnitude.log10().floor() as i32;
    if scaled_down(magnitude, exponent) >= 9.999_999_999_9 { exponent + 1 } else { exponent }
}

/// Minimum number of decimals that represent `step` exactly (to a millionth).
fn decimals_of(step: f64) -> usize {
    let is_exact = |decimals: &usize| {
        let scaled = step.abs() * 10.0_f64.powi(*decimals as i32);
        scaled >= 0.5 && (scaled - scaled.round()).abs() < 1e-6 * scaled.max(1.0)
    };
    (0..=15).find(is_exact).unwrap_or(15)
}

fn format_power(mantissa: &str, exponent: i32) -> String {
    format!("{mantissa}×10{}", superscript(exponent))
}

fn superscript(exponent: i32) -> String {
    let digits = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let raise =
        |character: char| character.to_digit(10).map_or('⁻', |digit| digits[digit as usize]);
    exponent.to_string().chars().map(raise).collect()
}

/// Removes trailing zeros from the decimals and uses a minus sign instead of a hyphen.
fn trim_zeros(text: String) -> String {
    let has_decimals = text.contains('.');
    let text = if has_decimals { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    with_minus_sign(text.to_owned())
}

fn with_minus_sign(text: String) -> String {
    match text.strip_prefix(['-', '−']) {
        Some(digits) if digits.chars().all(|character| "0.".contains(character)) => {
            digits.to_owned()
        }
        Some(digits) => format!("−{digits}"),
        None => text,
    }
}

/// Inserts commas as thousands separators: `−12,345.6`.
fn group_thousands(text: &str) -> String {
    let text = with_minus_sign(text.to_owned());
    let (sign, digits) = text.strip_prefix('−').map_or(("", text.as_str()), |digits| ("−", digits));
    let (integer, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let groups: Vec<_> = integer.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    format!("{sign}{}{fraction}", groups.join(","))
}

// Phrases.

/// Formats the names of a mark's category and series as a prefix: `ascii, old: `. Blank names are
/// omitted.
pub(crate) fn format_owner(names: &[&str]) -> String {
    let named: Vec<&str> = names.iter().copied().filter(|name| !name.trim().is_empty()).collect();
    if named.is_empty() { String::new() } else { format!("{}: ", named.join(", ")) }
}

/// Formats a name as the first line of a tooltip; empty for a blank name.
pub(crate) fn format_heading(name: &str) -> String {
    if name.trim().is_empty() { String::new() } else { format!("{}\n", name.trim()) }
}

/// Formats a number with its noun and plural ending: `1 box`, `2 boxes`.
pub(crate) fn format_count(number: usize, noun: &str, plural_ending: &str) -> String {
    let ending = if number == 1 { "" } else { plural_ending };
    format!("{number} {noun}{ending}")
}

/// Summarizes a chart of series. `marks` states the kind of chart and its number of marks.
pub(crate) fn summarize_series(marks: &str, names: &[&str]) -> String {
    format!("{marks} in {} series: {}.", names.len(), join_names(names))
}

/// Joins at most six names by commas.
pub(crate) fn join_names(names: &[&str]) -> String {
    const MAX_NAMES: usize = 6;
    let shown = names.iter().take(MAX_NAMES).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_six_digits_and_thousands_separators() {
        let written = [0.0, 1.0, -2.5, 1_234_567.0, 1234.5678, 0.001_234_567, 1e-9, -3.2e20]
            .map(format_figure);
        let wanted =
            ["0", "1", "−2.5", "1,234,567", "1,234.57", "0.00123457", "1×10⁻⁹", "−3.2×10²⁰"];
        assert_eq!(written, wanted);
        assert_eq!(format_figure(f64::INFINITY), "∞");
        assert_eq!(format_figure(f64::NAN), "not a number");
        assert_eq!(format_figure(5e-324), "4.94066×10⁻³²⁴");
    }

    #[test]
    fn even_ticks_share_suffix_and_decimals() {
        assert_eq!(even_labels(&[0.0, 5e5, 1e6, 1.5e6], 5e5), ["0", "0.5M", "1.0M", "1.5M"]);
        assert_eq!(even_labels(&[0.0, 2e3, 4e3], 2e3), ["0", "2,000", "4,000"]);
        assert_eq!(even_labels(&[-20.0, 0.0, 20.0], 20.0), ["−20", "0", "20"]);
        assert_eq!(even_labels(&[0.1, 0.2, 0.30000000000000004], 0.1), ["0.1", "0.2", "0.3"]);
        assert_eq!(even_labels(&[2e4, 4e4], 2e4), ["20k", "40k"]);
    }

    #[test]
    fn ticks_in_a_narrow_range_far_from_zero_are_not_abbreviated() {
        assert_eq!(even_labels(&[1_000_000.0, 1_000_002.0], 2.0), ["1,000,000", "1,000,002"]);
    }

    #[test]
    fn tiny_and_huge_ticks_use_powers_of_ten() {
        assert_eq!(even_labels(&[0.0, 2e-6, 4e-6], 2e-6), ["0", "2×10⁻⁶", "4×10⁻⁶"]);
        assert_eq!(even_labels(&[5e299, 1e300], 5e299), ["0.5×10³⁰⁰", "1.0×10³⁰⁰"]);
    }

    #[test]
    fn decimal_logarithmic_ticks_use_suffixes_or_powers_of_ten() {
        assert_eq!(log10_labels(&[0.01, 1.0, 20.0, 1000.0, 5e6]), ["0.01", "1", "20", "1k", "5M"]);
        assert_eq!(log10_labels(&[1e-6, 1.0, 2e3]), ["10⁻⁶", "10⁰", "2×10³"]);
    }

    #[test]
    fn binary_logarithmic_ticks_use_suffixes_or_powers_of_two() {
        assert_eq!(log2_labels(&[-2, 0, 4, 10]), ["0.25", "1", "16", "1,024"]);
        assert_eq!(log2_labels(&[8, 12, 16, 20]), ["256", "4Ki", "64Ki", "1Mi"]);
        assert_eq!(log2_labels(&[-40, 60]), ["2⁻⁴⁰", "2⁶⁰"]);
    }

    #[test]
    fn fixed_decimals_keep_their_zeros() {
        assert_eq!(format_fixed(1234.5, 2), "1,234.50");
        assert_eq!(format_fixed(-0.001, 1), "0.0");
    }

    #[test]
    fn nouns_agree_with_their_count_and_long_lists_are_shortened() {
        assert_eq!(format_count(1, "box", "es"), "1 box");
        assert_eq!(format_count(0, "value", "s"), "0 values");
        assert_eq!(join_names(&["a", "b"]), "a, b");
        assert_eq!(join_names(&["a"; 8]), "a, a, a, a, a, a and 2 more");
    }
}
