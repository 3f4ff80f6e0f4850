//! Computes benchstat's statistics of samples: the median with its interval, the test of two
//! samples, and remarks on the median and the test. Arithmetic operations have the same order as in
//! Go's benchstat, because CSV output shows all digits, and thus any difference in rounding. Start
//! at [`ValueAssumption`].
//!
//! Also chooses units: the unit in which a figure is stored ([`tidy_unit`]), and the prefix and
//! number of digits with which it is written ([`UnitScale`]).

use crate::r::print::{split_exponent, to_c_exponent};
use speedwell_stats::distribution::normal;
use speedwell_stats::test::mann_whitney::{
    PValueMethod, lower_tail_with_ties, mann_whitney, smallest_p,
};
use speedwell_stats::test::tie_term;

/// Maximum sample sizes for the exact distribution of the test: first without ties, then with ties.
const MAX_EXACT_SIZES: (usize, usize) = (50, 25);

/// Maximum sample size for which a median's interval comes from the exact binomial distribution.
const MAX_EXACT_INTERVAL_SIZE: usize = 30;

/// Largest sample sizes that are tried when a remark states how many samples are needed: the first
/// for an interval, the second for a test.
const MAX_NAMED_SIZES: (usize, usize) = (50, 9);

/// Assumption about the values of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueAssumption {
    /// No assumption: medians and ranks are used.
    Nothing,
    /// All values are equal.
    Exact,
}

/// Summary of a sample.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleSummary {
    /// Typical value of the sample: the median, or the mode with [`ValueAssumption::Exact`].
    pub centre: f64,
    /// Lower end of the interval of the typical value.
    pub low: f64,
    /// Upper end of this interval.
    pub high: f64,
    pub warnings: Vec<String>,
}

/// Comparison of two samples.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleComparison {
    p: f64,
    sizes: (usize, usize),
    alpha: f64,
    pub warnings: Vec<String>,
}

impl ValueAssumption {
    /// Summarizes the values, which must be in ascending order. There must be at least one.
    pub fn summarize(self, values: &[f64], confidence: f64) -> SampleSummary {
        match self {
            ValueAssumption::Nothing => summarize_median(values, confidence),
            ValueAssumption::Exact => summarize_mode(values),
        }
    }

    /// Compares two samples. `base` is the sample of the baseline.
    pub fn compare_samples(self, base: &[f64], other: &[f64], alpha: f64) -> SampleComparison {
        let sizes = (base.len(), other.len());
        if self == ValueAssumption::Exact {
            return SampleComparison { p: 0.0, sizes, alpha: 0.0, warnings: Vec::new() };
        }
        let (p, mut warnings) = match p_value(base, other) {
            Some(p) => (p, Vec::new()),
            None => (1.0, vec!["all samples are equal".to_owned()]),
        };
        if warnings.is_empty() && p > alpha {
            let needed_size = (1..=MAX_NAMED_SIZES.1).find(|&n| smallest_p(n, n) <= alpha);
            let (comparison, needed_size) =
                needed_size.map_or((">", MAX_NAMED_SIZES.1 + 1), |needed_size| (">=", needed_size));
            if sizes.0 < needed_size && sizes.1 < needed_size {
                let alpha = format_shortest(alpha);
                warnings.push(format!(
                    "need {comparison} {needed_size} samples to detect a difference at alpha level \
                     {alpha}"
                ));
            }
        }
        SampleComparison { p, sizes, alpha, warnings }
    }
}

fn summarize_median(values: &[f64], confidence: f64) -> SampleSummary {
    let (low_order, high_order) = interval_orders(values.len(), confidence);
    let low = low_order.checked_sub(1).map_or(f64::NEG_INFINITY, |index| values[index]);
    let high = values.get(high_order - 1).copied().unwrap_or(f64::INFINITY);
    let mut warnings = Vec::new();
    if low.is_infinite() || high.is_infinite() {
        let is_enough = |&n: &usize| {
            let (low, high) = interval_orders(n, confidence);
            low > 0 && high <= n
        };
        let needed_size = (2..=MAX_NAMED_SIZES.0).find(is_enough);
        let (comparison, needed_size) =
            needed_size.map_or((">", MAX_NAMED_SIZES.0), |needed_size| (">=", needed_size));
        let level = format_shortest(confidence);
        warnings.push(format!(
            "need {comparison} {needed_size} samples for confidence interval at level {level}"
        ));
    }
    SampleSummary { centre: median(values), low, high, warnings }
}

/// Summarizes ascending values by the most frequent value. If several values are equally frequent,
/// the smallest of them is used, as in Go's benchstat.
fn summarize_mode(values: &[f64]) -> SampleSummary {
    // The last of several maxima counts, so the values are passed through from the end.
    let runs = values.chunk_by(|a, b| a == b).rev();
    let mode = runs.max_by_key(|run| run.len()).unwrap_or(values);
    let (low, high) = (values[0], values[values.len() - 1]);
    let differ = mode.len() != values.len();
    let range = [low, high].map(format_shortest).join(" to ");
    let warning = format!("exact distribution expected, but values range from {range}");
    SampleSummary {
        centre: mode[0],
        low,
        high,
        warnings: differ.then_some(warning).into_iter().collect(),
    }
}

/// Returns the median of ascending values with the estimator that is approximately unbiased for any
/// distribution: type 8 of Hyndman and Fan (American Statistician 50, 1996).
fn median(values: &[f64]) -> f64 {
    let count = values.len();
    let position = 1.0 / 3.0 + 0.5 * (count as f64 + 1.0 / 3.0);
    let (rank, fraction) = (position.trunc() as usize, position.fract());
    match rank {
        0 => values[0],
        rank if rank >= count => values[count - 1],
        rank => values[rank - 1] + fraction * (values[rank] - values[rank - 1]),
    }
}

/// Returns the order statistics, counted from 1, that bound the median's interval. A missing lower
/// bound is 0; a missing upper bound is `count` + 1.
fn interval_orders(count: usize, confidence: f64) -> (usize, usize) {
    if confidence >= 1.0 {
        return (0, count + 1);
    }
    let is_exact = count <= MAX_EXACT_INTERVAL_SIZE;
    let orders = if is_exact { exact_orders } else { approximate_orders };
    let (low, high) = orders(count, confidence);
    (low.max(0) as usize, high.min(count as i64 + 1) as usize)
}

/// Grows an interval of order statistics from the middle, toward the likelier side, until it
/// contains the median with at least this confidence.
fn exact_orders(count: usize, confidence: f64) -> (i64, i64) {
    let probability = |successes: i64| {
        let is_possible = (0..=count as i64).contains(&successes);
        let ways = || binomial_coefficient(count as u64, successes as u64);
        if is_possible { ways() * 0.5f64.powi(count as i32) } else { 0.0 }
    };
    let middle = ((count + 1) as f64 * 0.5).ceil() as i64 - 1;
    let (mut low, mut high) = (middle, middle + 1);
    let mut total = probability(middle);
    while total < confidence {
        let (below, above) = (probability(low - 1), probability(high));
        if below <= 0.0 && above <= 0.0 {
            break;
        }
        if below >= above {
            total += below;
            low -= 1;
        } else {
            total += above;
            high += 1;
        }
    }
    (low, high)
}

/// Returns a binomial coefficient. From a count of 21 on, it is computed from logarithms, as in
/// Go's benchstat. If both sides of an interval are equally likely, the rounding of these
/// logarithms decides toward which side the interval grows.
fn binomial_coefficient(count: u64, chosen: u64) -> f64 {
    if chosen == 0 || chosen == count {
        return 1.0;
    }
    if count <= 20 {
        let product = |product, factor| product * (count - chosen + factor) as f64 / factor as f64;
        return (1..=chosen).fold(1.0, product);
    }
    let log_factorial = |chosen: u64| libm::lgamma((chosen + 1) as f64);
    libm::exp(log_factorial(count) - log_factorial(chosen) - log_factorial(count - chosen))
}

fn approximate_orders(count: usize, confidence: f64) -> (i64, i64) {
    let (mean, deviation) = (count as f64 / 2.0, (count as f64 / 4.0).sqrt());
    let low_bound = mean + deviation * normal::quantile((1.0 - confidence) / 2.0);
    let high_bound = 2.0 * mean - low_bound;
    let low = ((low_bound - 0.5).floor() + 0.5).floor() as i64 + 1;
    let high = ((high_bound - 0.5).ceil() + 0.5).floor() as i64 + 1;
    let cumulative = |order: i64| normal::cdf((order as f64 - 0.5 - mean) / deviation);
    let coverage = |high: i64| cumulative(high) - cumulative(low);
    let is_narrower = coverage(high - 1) >= confidence && coverage(high - 1) < coverage(high);
    (low, if is_narrower { high - 1 } else { high })
}

/// Returns the p value of the Mann-Whitney test as Go's benchstat computes it: twice the lower tail
/// of the smaller U. `None` if all values are equal.
fn p_value(base: &[f64], other: &[f64]) -> Option<f64> {
    let mut pooled = [base, other].concat();
    pooled.sort_by(f64::total_cmp);
    if pooled.first() == pooled.last() {
        return None;
    }
    let has_ties = pooled.windows(2).any(|neighbors| neighbors[0] == neighbors[1]);
    let limit = if has_ties { MAX_EXACT_SIZES.1 } else { MAX_EXACT_SIZES.0 };
    let (n1, n2) = (base.len() as f64, other.len() as f64);
    let u1 = || mann_whitney(base, other, PValueMethod::Asymptotic).u1;
    if base.len() > limit || other.len() > limit {
        let count = n1 + n2;
        let variance =
            n1 * n2 * ((count + 1.0) - tie_term(&pooled) / (count * (count - 1.0))) / 12.0;
        let distance = u1() - n1 * n2 / 2.0;
        let sign = if distance == 0.0 { 0.0 } else { distance.signum() };
        let lower_tail = normal::cdf((distance - sign * 0.5) / variance.sqrt());
        // If the values of the base sample are far larger, the upper tail rounds to 0. The output
        // then has no p value.
        return Some(2.0 * lower_tail.min(1.0 - lower_tail));
    }
    if !has_ties {
        return Some(mann_whitney(base, other, PValueMethod::Exact).p);
    }
    let u1 = u1();
    let u2 = n1 * n2 - u1;
    if u1 == u2 {
        return Some(1.0);
    }
    let p = 2.0 * lower_tail_with_ties(base, other, u1.min(u2));
    // With ties and samples of different sizes, the distribution of U is not symmetric. If the
    // other sample has the smaller U, this U may be below any U that the base sample can have. The
    // tail is then 0. Twice the tail may also be above 1.
    match p {
        0.0 => Some(mann_whitney(base, other, PValueMethod::ExactTies).p),
        p => Some(p.min(1.0)),
    }
}

impl SampleSummary {
    /// Returns how far the interval extends from the typical value, in percent.
    pub fn relative_reach(&self) -> String {
        if self.low.is_infinite() || self.high.is_infinite() {
            return "∞".to_owned();
        }
        let sign = |value: f64| if value == 0.0 { 0.0 } else { value.signum() };
        if sign(self.centre) != sign(self.low) || sign(self.centre) != sign(self.high) {
            return "?".to_owned();
        }
        if self.centre == 0.0 {
            return "0%".to_owned();
        }
        let share = (self.high / self.centre - 1.0).max(1.0 - self.low / self.centre);
        format!("{:.0}%", 100.0 * share)
    }
}

impl SampleComparison {
    /// Formats the p value and the sample sizes.
    pub fn format_p(&self) -> String {
        let p = if self.p == 0.0 { String::new() } else { format!("p={:.3} ", self.p) };
        let (base, other) = self.sizes;
        if base == other { format!("{p}n={base}") } else { format!("{p}n={base}+{other}") }
    }

    /// Formats the change if it is significant; otherwise returns `~`.
    pub fn format_change(&self, old: f64, new: f64) -> String {
        if self.p > self.alpha {
            return "~".to_owned();
        }
        match (old, new) {
            (old, new) if old == new => "0.00%".to_owned(),
            (0.0, _) => "?".to_owned(),
            (old, new) => format_percentage((new / old - 1.0) * 100.0),
        }
    }
}

/// Returns the geometric mean; `None` without values, or if any value is not above 0.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() || values.iter().any(|value| *value <= 0.0) {
        return None;
    }
    let mut mean_of_logs = 0.0;
    for (index, value) in values.iter().enumerate() {
        mean_of_logs += (libm::log(*value) - mean_of_logs) / (index + 1) as f64;
    }
    Some(libm::exp(mean_of_logs))
}

/// From each of these values on, rounding to four digits gives at least the next power of ten (100,
/// 10 and 1).
const DIGIT_EDGES: [&str; 3] = ["99.995", "9.9995", "0.99995"];

/// Prefixes of decimal units with their powers of ten.
const DECIMAL_PREFIXES: &[(&str, i32)] =
    &[("T", 12), ("G", 9), ("M", 6), ("k", 3), ("", 0), ("m", -3), ("µ", -6), ("n", -9)];

/// Prefixes of binary units with their powers of two.
const BINARY_PREFIXES: &[(&str, i32)] = &[("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10), ("", 0)];

/// Returns a decimal number times a power of ten. The result is parsed, because products would be
/// rounded twice.
fn decimal(digits: &str, power: i32) -> f64 {
    format!("{digits}e{power}").parse().unwrap_or(f64::NAN)
}

/// Returns the words of a unit, each with its position and whether it is in the denominator.
fn unit_words(unit: &str) -> Vec<(usize, &str, bool)> {
    let is_separator = |c: char| matches!(c, '*' | '/' | '-') || c.is_whitespace();
    let mut words = Vec::new();
    let (mut begin, mut is_denominator) = (0, false);
    for piece in unit.split_inclusive(is_separator) {
        let word = piece.trim_end_matches(is_separator);
        if !word.is_empty() {
            words.push((begin, word, is_denominator));
        }
        begin += piece.len();
        is_denominator = piece.ends_with('/') || is_denominator && !piece.ends_with('*');
    }
    words
}

/// Replaces nanoseconds and megabytes in the numerator of a unit with seconds and bytes. Also
/// returns the factor that converts values to the new unit.
pub fn tidy_unit(unit: &str) -> (String, f64) {
    match unit {
        "ns/op" => return ("sec/op".to_owned(), 1e-9),
        "MB/s" => return ("B/s".to_owned(), 1e6),
        _ => {}
    }
    // Factors are applied in the order of the words, so that rounding is the same as in Go's
    // benchstat.
    let (mut tidied, mut factor, mut copied) = (String::new(), 1.0, 0);
    for (position, word, is_denominator) in unit_words(unit) {
        let replacement = match word {
            "ns" if !is_denominator => "sec",
            "MB" if !is_denominator => "B",
            _ => continue,
        };
        factor = if word == "ns" { factor / 1e9 } else { factor * 1e6 };
        tidied += &unit[copied..position];
        tidied += replacement;
        copied = position + word.len();
    }
    (tidied + &unit[copied..], factor)
}

/// Whether values in this unit are written with binary prefixes, such as `Ki`.
pub fn is_binary(unit: &str) -> bool {
    let is_bytes = |&(_, word, is_denominator): &(usize, &str, bool)| {
        !is_denominator && matches!(word, "B" | "MB" | "bytes")
    };
    unit_words(unit).iter().any(is_bytes)
}

/// Scale of the values of one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UnitScale {
    decimals: usize,
    factor: f64,
    prefix: &'static str,
}

impl UnitScale {
    /// Returns the scale in which the smallest value has four digits.
    pub fn for_values(values: &[f64], is_binary: bool) -> UnitScale {
        let sizes = values.iter().map(|value| value.abs()).filter(|size| *size != 0.0);
        let smaller = |smallest: f64, size: f64| if size < smallest { size } else { smallest };
        let Some(smallest) = sizes.reduce(smaller) else {
            return UnitScale { decimals: 3, factor: 1.0, prefix: "" };
        };
        let prefixes = if is_binary { BINARY_PREFIXES } else { DECIMAL_PREFIXES };
        let scaled = |digits: &str, power: i32| {
            if is_binary { decimal(digits, 0) * 2f64.powi(power) } else { decimal(digits, power) }
        };
        let (mut factor, mut prefix) = (1.0, "");
        for (step_prefix, power) in prefixes {
            (factor, prefix) = (scaled("1", *power), *step_prefix);
            let index = DIGIT_EDGES.iter().position(|edge| smallest >= scaled(edge, *power));
            if let Some(index) = index {
                return UnitScale { decimals: index + 1, factor, prefix };
            }
        }
        // Even with the smallest prefix, the smallest value is below 1, so more decimals are shown.
        let value = smallest / factor;
        let zeros = (1..8_i32).find(|zeros| value >= decimal("9.9995", -*zeros)).unwrap_or(8);
        UnitScale { decimals: zeros as usize + 2, factor, prefix }
    }

    /// Formats a value in this scale.
    pub fn format_value(&self, value: f64) -> String {
        format_fixed(value / self.factor, self.decimals) + self.prefix
    }
}

/// Formats a number with `decimals` decimals as Go does.
pub fn format_fixed(value: f64, decimals: usize) -> String {
    match value {
        v if v.is_nan() => "NaN".to_owned(),
        v if v.is_infinite() => if v > 0.0 { "+Inf" } else { "-Inf" }.to_owned(),
        v => format!("{v:.decimals$}"),
    }
}

/// Formats a change in percent, with its sign.
pub fn format_percentage(change: f64) -> String {
    match change {
        v if v.is_nan() => "+NaN%".to_owned(),
        v if v.is_infinite() => format_fixed(v, 2) + "%",
        v => format!("{:+.2}%", v),
    }
}

/// Formats a number with the fewest digits that identify it, as Go does. Numbers below 0.0001, and
/// numbers from a million on, have an exponent.
pub fn format_shortest(value: f64) -> String {
    if !value.is_finite() {
        return format_fixed(value, 0);
    }
    let scientific = format!("{value:e}");
    if value != 0.0 && !(-4..6).contains(&split_exponent(&scientific).1) {
        return to_c_exponent(&scientific);
    }
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_stats::distribution::binomial;

    #[test]
    fn median_intervals_come_from_the_binomial_distribution() {
        // Exact coverage: 1 - 2/2^6 = 96.9 % between the smallest and the largest of six.
        assert_eq!(interval_orders(6, 0.95), (1, 6));
        assert_eq!(interval_orders(5, 0.95), (0, 5));
        assert_eq!(interval_orders(10, 0.95), (2, 9));
        assert_eq!(interval_orders(3, 1.0), (0, 4));
        let covered = |(low, high): (usize, usize), count: u64| {
            let below = |at: usize| binomial::cdf(at as u64 - 1, count, 0.5);
            below(high) - below(low)
        };
        let (low, high) = interval_orders(100, 0.95);
        assert!((0.94..0.97).contains(&covered((low, high), 100)), "{low} {high}");
    }

    #[test]
    fn too_few_or_equal_samples_produce_warnings() {
        let summary = ValueAssumption::Nothing.summarize(&[1.0, 2.0], 0.95);
        assert_eq!(summary.warnings, ["need >= 6 samples for confidence interval at level 0.95"]);
        assert_eq!((summary.relative_reach().as_str(), summary.centre), ("∞", 1.5));
        let compared = ValueAssumption::Nothing.compare_samples(&[1.0], &[2.0], 0.05);
        assert_eq!(compared.format_p(), "p=1.000 n=1");
        assert_eq!(compared.format_change(1.0, 2.0), "~");
        assert_eq!(
            compared.warnings,
            ["need >= 4 samples to detect a difference at alpha level 0.05"]
        );
        let equal = ValueAssumption::Nothing.compare_samples(&[1.0; 9], &[1.0; 8], 0.05);
        assert_eq!(equal.warnings, ["all samples are equal"]);
        assert_eq!(equal.format_p(), "p=1.000 n=9+8");
    }

    #[test]
    fn exact_units_have_a_mode_and_no_test() {
        let summary = ValueAssumption::Exact.summarize(&[1.0, 2.0, 2.0], 0.95);
        assert_eq!(summary.centre, 2.0);
        assert_eq!(summary.warnings, ["exact distribution expected, but values range from 1 to 2"]);
        let compared = ValueAssumption::Exact.compare_samples(&[2.0], &[2.1], 0.05);
        assert_eq!(
            (compared.format_p().as_str(), compared.format_change(2.0, 2.1).as_str()),
            ("n=1", "+5.00%")
        );
    }

    #[test]
    fn disjoint_samples_have_the_smallest_possible_p_value() {
        let (low, high): (Vec<f64>, Vec<f64>) =
            ((1..=5).map(f64::from).collect(), (6..=10).map(f64::from).collect());
        assert_eq!(p_value(&low, &high), Some(smallest_p(5, 5)));
        // Exact p value with ties, as computed by R's package coin for c(1,1,2,3) and c(3,4,5,5):
        // of the 70 ways to pick four of the eight values, two are at least as extreme in this
        // direction.
        let p = p_value(&[1.0, 1.0, 2.0, 3.0], &[3.0, 4.0, 5.0, 5.0]);
        assert!(p.is_some_and(|p| (p - 2.0 * 2.0 / 70.0).abs() < 1e-12), "{p:?}");
    }

    #[test]
    fn units_are_tidied_above_the_fraction_bar_only() {
        assert_eq!(tidy_unit("ns/op"), ("sec/op".to_owned(), 1e-9));
        assert_eq!(tidy_unit("p99-ns/MB"), ("p99-sec/MB".to_owned(), 1e-9));
        assert_eq!(tidy_unit("op/ns*MB"), ("op/ns*B".to_owned(), 1e6));
        assert_eq!(tidy_unit("MB*ns/op"), ("B*sec/op".to_owned(), 1e6 / 1e9));
        assert_eq!(tidy_unit("allocs/op"), ("allocs/op".to_owned(), 1.0));
        assert!(is_binary("B/op") && is_binary("text-bytes") && !is_binary("op/B"));
    }

    #[test]
    fn the_smallest_value_sets_the_prefix_and_has_four_digits() {
        let one =
            |value: f64, is_binary| UnitScale::for_values(&[value], is_binary).format_value(value);
        for (value, text) in [
            (0.0, "0.000"),
            (1.5e-6, "1.500µ"),
            (99.994, "99.99"),
            (99.996, "100.0"),
            (9.99951e-4, "1.000m"),
            (123456.0, "123.5k"),
            (1e15, "1000.0T"),
            (1e-10, "0.1000n"),
            (1e-20, "0.0000000000n"),
        ] {
            assert_eq!(one(value, false), text, "{value}");
        }
        assert_eq!(one(1024.0, true), "1.000Ki");
        let scale = UnitScale::for_values(&[-2.0, 3000.0], false);
        assert_eq!(scale.format_value(3000.0), "3000.000");
    }

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        for (value, text) in [
            (2.2530000000000003e-06, "2.2530000000000003e-06"),
            (0.0001, "0.0001"),
            (534300.0, "534300"),
            (8507500.0, "8.5075e+06"),
            (1e21, "1e+21"),
            (0.95, "0.95"),
            (-1.5, "-1.5"),
            (f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(format_shortest(value), text);
        }
        assert_eq!(format_percentage(-0.001), "-0.00%");
    }
}
