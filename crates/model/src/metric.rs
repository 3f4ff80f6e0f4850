//! Defines metrics, which are named quantities with a unit and a direction. Also defines estimates
//! with intervals, and verdicts.

use serde::{Deserialize, Serialize};

/// The direction in which a metric improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricDirection {
    /// More is better: throughput.
    Higher,
    /// Less is better: time, latency, memory, errors.
    Lower,
    /// The direction is neither declared nor implied by the unit. Changes are shown without a verdict.
    Unknown,
}

name_variants!(MetricDirection: Higher = "higher", Lower = "lower", Unknown = "unknown");

/// A named quantity. Harnesses declare metrics; there is no central list.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Metric {
    /// The name used by `--metric`: `throughput`, `latency_p99`.
    pub name: String,
    /// The unit of the stored values, as its usual symbol: `1/s`, `ns`, `B`.
    pub unit: String,
    /// The direction of improvement.
    pub better: MetricDirection,
}

impl Metric {
    /// The name of the metric that every Node.js benchmark reports.
    pub const THROUGHPUT: &'static str = "throughput";

    /// Mean time that one worker needs for an iteration.
    pub const TIME: &'static str = "time";

    /// Time that one worker needs for an iteration in the median batch, which disturbances hardly
    /// affect.
    pub const TIME_MEDIAN: &'static str = "time_median";

    /// Time that one worker needs for an iteration at the 5th percentile of batches.
    pub const TIME_P5: &'static str = "time_p5";

    /// Processor time of all workers, divided by their iterations. Unlike [`Metric::TIME`], it
    /// excludes waiting.
    pub const CPU_TIME: &'static str = "cpu_time";

    /// Instructions per iteration.
    pub const INSTRUCTIONS: &'static str = "instructions";

    /// Cycles per iteration, estimated by a cache model; never used for a verdict.
    pub const CYCLES_ESTIMATE: &'static str = "cycles_estimate";

    /// Time that a shell takes for an empty command. If a shell executes the measured commands,
    /// this time is part of every iteration.
    pub const SHELL_TIME: &'static str = "shell_time";

    /// Processor time of a command with its shell, minus the processor time of the shell alone. A
    /// run has no value if the difference is within the variation of the shell's processor time.
    pub const OWN_CPU_TIME: &'static str = "own_cpu_time";

    /// Time of the harness's reference loop. The loop always does the same work, so only the
    /// machine can change its time.
    pub const REFERENCE_TIME: &'static str = "reference_time";

    /// Metrics that runs report, on request, in addition to instruction counts.
    pub const TIMES: [&'static str; 3] = [Metric::TIME, Metric::TIME_MEDIAN, Metric::CPU_TIME];

    /// Returns the name in sentences and charts: the time of a snippet is its median time, so that
    /// is just called its time.
    pub fn plain_name(&self) -> &str {
        if self.name == Metric::TIME_MEDIAN { Metric::TIME } else { &self.name }
    }

    /// Returns the name in a text that also mentions [`Metric::TIME_MEDIAN`], whose plain name is
    /// that of [`Metric::TIME`].
    pub fn name_beside_median(&self) -> &str {
        if self.name == Metric::TIME { "mean time" } else { self.plain_name() }
    }

    /// Whether the metric is a count of instructions, or is computed from such counts.
    pub fn is_count(&self) -> bool {
        [Metric::INSTRUCTIONS, Metric::CYCLES_ESTIMATE].contains(&&*self.name)
    }

    /// Percentage of requests that took no longer than a latency metric states: 50 for `latency_p50`,
    /// 99.9 for `latency_p99_9`, 0 for `latency_min`, 100 for `latency_max`.
    pub fn latency_percent(name: &str) -> Option<f64> {
        let digits = match name.strip_prefix("latency_")? {
            "min" => "0",
            "max" => "100",
            statistic => statistic.strip_prefix('p')?,
        };
        let percent: f64 = digits.replace('_', ".").parse().ok()?;
        let is_number = digits.starts_with(|first: char| first.is_ascii_digit());
        (is_number && (0.0..=100.0).contains(&percent)).then_some(percent)
    }

    /// Iterations per second, higher is better.
    pub fn throughput() -> Metric {
        Metric::new(Metric::THROUGHPUT, "1/s", MetricDirection::Higher)
    }

    /// Processor time per iteration in nanoseconds, lower is better.
    pub fn cpu_time() -> Metric {
        Metric::new(Metric::CPU_TIME, "ns", MetricDirection::Lower)
    }

    /// Creates a metric from its three parts.
    pub fn new(
        name: impl Into<String>,
        unit: impl Into<String>,
        better: MetricDirection,
    ) -> Metric {
        Metric { name: name.into(), unit: unit.into(), better }
    }
}

/// A point estimate with its confidence interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct IntervalEstimate {
    /// The point estimate.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl IntervalEstimate {
    /// Whether the whole interval lies within `low..=high`.
    pub fn lies_within(&self, low: f64, high: f64) -> bool {
        self.low >= low && self.high <= high
    }

    /// Applies `convert` to the estimate and to each end.
    pub fn map(&self, convert: impl Fn(f64) -> f64) -> IntervalEstimate {
        let [value, low, high] = [self.value, self.low, self.high].map(convert);
        IntervalEstimate { value, low, high }
    }
}

/// The verdict on a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The statistical test rejects equality. The whole interval is beyond the threshold in the
    /// direction of improvement.
    Better,
    /// The statistical test rejects equality. The whole interval is beyond the threshold in the
    /// opposite direction.
    Worse,
    /// The whole interval is within the threshold, or the sequential test stopped because both
    /// variants are equivalent.
    Same,
    /// None of the above: more runs are needed, or the question cannot be answered at this threshold.
    Unclear,
}

name_variants!(Verdict: Better = "better", Worse = "worse", Same = "same", Unclear = "unclear");

// The direction of improvement, inferred from a unit.
//
// Time and memory, in total or per unit of work, are costs. Work per time is a gain. Other units,
// such as rates of misses, errors or retries, have no direction. Start at
// [`MetricDirection::of_unit`].

/// Units of time, in lower case.
const TIMES: &str = "ns nsec nanosecond us µs μs usec microsecond ms msec millisecond s sec \
    second m min minute h hr hour d day cpu-s cpu-ns cpu-ms";

/// Units of work, in lower case and singular. More work per time is better.
const WORK: &str = "op operation iter iteration req request reply response query row record \
    item event frame flop token byte b bit message msg call transaction txn tx element elem \
    entry key line word char character image sample packet job task doc document insert read \
    write get set lookup update commit node point pixel file";

/// Prefixes that mean a thousand, a million and so on. The empty string represents no prefix.
const PREFIXES: [&str; 9] = ["", "k", "m", "g", "t", "ki", "mi", "gi", "ti"];

/// Rates written as one word, in lower case. Each may have a prefix.
const RATES: [&str; 11] =
    ["qps", "rps", "tps", "iops", "fps", "flops", "bps", "ops", "pps", "mps", "rpm"];

impl MetricDirection {
    /// The direction implied by a unit. `ns/op` and `KiB` are costs; `ops/sec`, `rows per second`,
    /// `MB/s` and `qps` are gains; `misses/s` and `%` imply no direction.
    pub fn of_unit(unit: &str) -> MetricDirection {
        let bare = unit.trim().trim_start_matches(['#', '[', '(']).trim_end_matches([']', ')']);
        let normalized = bare.to_lowercase().replace(" per ", "/").replace("_per_", "/");
        match normalized.rsplit_once('/') {
            Some((numerator, denominator)) if is_time(denominator) && is_work(numerator) => {
                MetricDirection::Higher
            }
            Some((numerator, denominator)) if is_cost(numerator) && is_work(denominator) => {
                MetricDirection::Lower
            }
            None if is_cost(&normalized) => MetricDirection::Lower,
            None if without_prefix(&normalized).any(|text| RATES.contains(&text)) => {
                MetricDirection::Higher
            }
            _ => MetricDirection::Unknown,
        }
    }
}

/// Whether `text` or its singular is one of the words in `words`.
fn has_word(words: &str, text: &str) -> bool {
    let singular = singular_unit(text);
    words.split(' ').any(|word| word == text || singular.as_deref() == Some(word))
}

/// Whether `text` is a unit of time: `s`, `sec`, `seconds`, `100ms`.
fn is_time(text: &str) -> bool {
    let unit = text.trim().trim_start_matches(|letter: char| letter.is_ascii_digit());
    has_word(TIMES, unit)
}

/// Whether `text` is a unit of work, with or without a prefix: `ops`, `kreq`, `M rows`, `1`, or empty.
fn is_work(text: &str) -> bool {
    let text = text.trim();
    text.is_empty() || text == "1" || without_prefix(text).any(|text| has_word(WORK, text))
}

/// Whether `text` is a unit of time or memory.
fn is_cost(text: &str) -> bool {
    let is_size = |text: &str| ["b", "byte", "bytes"].contains(&text);
    is_time(text) || without_prefix(text.trim()).any(is_size)
}

/// For every prefix of [`PREFIXES`] with which `text` starts, yields the rest of `text`.
fn without_prefix(text: &str) -> impl Iterator<Item = &str> {
    let strip_prefix = |prefix: &&str| text.strip_prefix(*prefix);
    PREFIXES.iter().filter_map(strip_prefix).map(str::trim_start)
}

/// Returns the singular of an English plural.
fn singular_unit(text: &str) -> Option<String> {
    let stem = text.strip_suffix("ies").map(|stem| format!("{stem}y"));
    stem.or_else(|| text.strip_suffix('s').map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_all(units: &[&str], better: MetricDirection) {
        for unit in units {
            assert_eq!(MetricDirection::of_unit(unit), better, "{unit}");
        }
    }

    #[test]
    fn higher_rates_are_better_however_the_unit_is_written() {
        assert_all(
            &[
                "1/s",
                "/s",
                "op/s",
                "ops/s",
                "ops/sec",
                "Ops/Second",
                "rows/second",
                "rows per second",
                "queries/sec",
                "req/s",
                "kreq/s",
                "k req/s",
                "Mops/s",
                "items/ms",
                "events/min",
                "frames/s",
                "GFLOP/s",
                "GFLOPS",
                "tokens/s",
                "B/s",
                "MB/sec",
                "MiB/s",
                "bytes/second",
                "Mbit/s",
                "qps",
                "QPS",
                "rps",
                "fps",
                "requests_per_second",
                "[#/sec]",
                "entries/s",
            ],
            MetricDirection::Higher,
        );
    }

    #[test]
    fn less_time_and_less_memory_are_better() {
        assert_all(
            &[
                "ns", "us", "µs", "ms", "s", "seconds", "ns/op", "ms/req", "B", "KiB", "MB",
                "bytes", "B/op", "s/iter",
            ],
            MetricDirection::Lower,
        );
    }

    #[test]
    fn any_other_unit_has_an_unknown_direction() {
        assert_all(
            &[
                "",
                "misses/s",
                "errors/sec",
                "retries/second",
                "page-faults/s",
                "cache misses/s",
                "failed requests/s",
                "hits/op",
                "allocs/op",
                "%",
                "x",
                "points",
                "widgets",
                "GHz",
                "cycles",
                "misses",
                "V",
            ],
            MetricDirection::Unknown,
        );
    }
}
