//! Puts a change into words: a factor from a tenth on, and a share in percent below.

use crate::figure::{format_change, format_factor, format_magnitude, format_percent_interval};
use crate::unit::{UnitDimension, dimension_of};
use speedwell_model::{IntervalEstimate, Metric, MetricDirection};

/// The words for a change: `is 9.28 times as fast`, `as`, ` [9.19, 9.37]`.
pub struct EffectWords {
    /// The verb with the size of the change.
    pub predicate: String,
    /// The word between the predicate and the other side.
    pub link: &'static str,
    /// The interval with a space before it, or nothing.
    pub interval: String,
    /// Whether the change is stated as a factor.
    pub is_factor: bool,
}

/// Changes from this factor on are stated as factors, smaller ones in percent.
const MIN_FACTOR: f64 = 1.10;

/// Describes a change of the subject's figure against the other's.
pub fn describe_effect(metric: &Metric, change: &IntervalEstimate) -> EffectWords {
    let noun = metric_noun(metric);
    let dimension = dimension_of(&metric.unit);
    let is_time = dimension == Some(UnitDimension::Time) && noun.ends_with("time");
    let is_less = change.value < 0.0;
    let (speed, time) = match metric.better {
        MetricDirection::Lower if is_time => (Some(reversed(change)), Some(*change)),
        MetricDirection::Higher if dimension == Some(UnitDimension::Rate) => (Some(*change), None),
        _ => (None, None),
    };
    let factor_words = |change: IntervalEstimate, words: &str| {
        let [factor, interval] = format_factor(&change.map(|share| 1.0 + share));
        let predicate = words.replace('N', &factor);
        EffectWords { predicate, link: "as", interval: spaced(&interval), is_factor: true }
    };
    let is_large = |change: &IntervalEstimate| 1.0 + change.value >= MIN_FACTOR;
    if let Some(speed) = speed.filter(is_large) {
        return factor_words(speed, "is N times as fast");
    }
    if let Some(time) = time.filter(is_large) {
        return factor_words(time, "takes N times as long");
    }
    let magnitude = if is_less { opposite(change) } else { *change };
    let [percent, interval] = format_magnitude(&magnitude);
    let (verb, directions) = share_words(metric);
    let direction = directions[usize::from(!is_less)];
    EffectWords {
        predicate: format!("{verb} {percent} {direction} {noun}"),
        link: "than",
        interval: spaced(&interval),
        is_factor: false,
    }
}

/// Returns the verb of a share, and the words for less and for more.
fn share_words(metric: &Metric) -> (&'static str, [&'static str; 2]) {
    match (dimension_of(&metric.unit), metric.better) {
        (Some(UnitDimension::Time), MetricDirection::Lower)
            if metric_noun(metric).ends_with("time") =>
        {
            ("takes", ["less", "more"])
        }
        (Some(UnitDimension::Rate), MetricDirection::Higher) => ("has", ["less", "more"]),
        _ => ("has", ["lower", "higher"]),
    }
}

/// Describes a bounded change that may be chance: `takes 64% less time than main, or up to 2% more
/// [-85%, +2%]`.
pub fn describe_unclear(metric: &Metric, change: &IntervalEstimate, other: &str) -> String {
    let percent = |value: f64| {
        let text = format_change(&IntervalEstimate { value, ..*change }).replace(['+', '-'], "");
        // Nothing if it rounds to zero.
        Some(text).filter(|text| text.contains(|digit: char| ('1'..='9').contains(&digit)))
    };
    let noun = metric_noun(metric);
    let (verb, [less, more]) = share_words(metric);
    let (direction, back, far_end) = if change.value < 0.0 {
        (less, more, change.high.max(0.0))
    } else {
        (more, less, change.low.min(0.0))
    };
    let Some(size) = percent(change.value) else {
        let end = |value| percent(value).unwrap_or_else(|| "0%".to_owned());
        let [low, high] = [change.low, change.high].map(end);
        return format!("{verb} between {low} {less} and {high} {more} {noun} than {other}");
    };
    let or_back =
        percent(far_end).map(|end| format!(", or up to {end} {back}")).unwrap_or_default();
    let interval = spaced(&format_percent_interval(change));
    format!("{verb} {size} {direction} {noun} than {other}{or_back}{interval}")
}

/// Returns the change with the opposite sign.
fn opposite(change: &IntervalEstimate) -> IntervalEstimate {
    IntervalEstimate { value: -change.value, low: -change.high, high: -change.low }
}

/// Returns the plain name of a metric, such as `CPU time`.
pub fn metric_noun(metric: &Metric) -> String {
    match metric.name.as_str() {
        Metric::CPU_TIME | Metric::OWN_CPU_TIME => "CPU time".to_owned(),
        Metric::TIME | Metric::TIME_MEDIAN | Metric::TIME_P5 | Metric::SHELL_TIME => "time".into(),
        name => name.replace('_', " "),
    }
}

/// Puts a space before an interval, unless the interval is empty.
pub fn spaced(interval: &str) -> String {
    if interval.is_empty() { String::new() } else { format!(" {interval}") }
}

/// Returns the change of the baseline against the candidate.
pub fn reversed(change: &IntervalEstimate) -> IntervalEstimate {
    let reverse = |end: f64| 1.0 / (1.0 + end) - 1.0;
    let IntervalEstimate { value, low, high } = change.map(reverse);
    IntervalEstimate { value, low: high, high: low }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_a_factor_from_a_tenth_on_and_otherwise_a_share() {
        let time = |name: &str| Metric::new(name, "ns", MetricDirection::Lower);
        let memory = Metric::new("max_rss", "B", MetricDirection::Lower);
        for (metric, value, words) in [
            (time("time"), -0.89, "is 9.1 times as fast as [8.3, 10.0]"),
            (time("time"), 5.0, "takes 6.00 times as long as [5.99, 6.01]"),
            (time("cpu_time"), -0.05, "takes 5.0 less CPU time than [4.0, 6.0]"),
            (time("setup_time"), 0.05, "takes 5.0 more setup time than [4.0, 6.0]"),
            (time("latency_p99"), 0.5, "has 50.0 higher latency p99 than [49.0, 51.0]"),
            (Metric::throughput(), 0.12, "is 1.12 times as fast as [1.11, 1.13]"),
            (Metric::throughput(), 0.05, "has 5.0 more throughput than [4.0, 6.0]"),
            (Metric::throughput(), -0.5, "has 50.0 less throughput than [49.0, 51.0]"),
            (memory, -0.12, "has 12.0 lower max rss than [11.0, 13.0]"),
        ] {
            let (low, high) = (value - 0.01, value + 0.01);
            let EffectWords { predicate, link, interval, .. } =
                describe_effect(&metric, &IntervalEstimate { value, low, high });
            let told = format!("{predicate} {link}{interval}");
            assert_eq!(told.replace([' ', '%'], ""), words.replace(' ', ""), "{told}");
        }
        for (metric, [value, low, high], words) in [
            (
                time("time"),
                [-0.64, -0.85, 0.02],
                "takes 64% less time than a, or up to 2% more [-85%, +2%]",
            ),
            (
                time("system_time"),
                [0.34, 0.08, 0.51],
                "takes 34% more system time than a [+8%, +51%]",
            ),
            (time("time"), [0.001, -0.5, 0.8], "takes between 50% less and 80% more time than a"),
            (
                Metric::throughput(),
                [0.1, -0.2, 0.3],
                "has 10% more throughput than a, or up to 20% less [-20%, +30%]",
            ),
        ] {
            let change = IntervalEstimate { value, low, high };
            assert_eq!(describe_unclear(&metric, &change, "a"), words);
        }
        let change = IntervalEstimate { value: 1.0, low: 0.0, high: f64::INFINITY };
        let back = reversed(&change);
        assert_eq!((back.value, back.low, back.high), (-0.5, -1.0, 0.0));
    }
}
