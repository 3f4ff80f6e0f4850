//! Infers the direction of improvement from a unit.
//!
//! Time and memory, in total or per unit of work, are costs. Work per time is a gain. Other units,
//! such as rates of misses, errors or retries, have no direction. Start at
//! [`MetricDirection::of_unit`].

use crate::MetricDirection;

/// Units of time, in lower case.
const TIMES: [&str; 25] = [
    "ns",
    "nsec",
    "nanosecond",
    "us",
    "µs",
    "μs",
    "usec",
    "microsecond",
    "ms",
    "msec",
    "millisecond",
    "s",
    "sec",
    "second",
    "m",
    "min",
    "minute",
    "h",
    "hr",
    "hour",
    "d",
    "day",
    "cpu-s",
    "cpu-ns",
    "cpu-ms",
];

/// Units of work, in lower case and singular. More work per time is better.
const WORK: [&str; 52] = [
    "op",
    "operation",
    "iter",
    "iteration",
    "req",
    "request",
    "reply",
    "response",
    "query",
    "row",
    "record",
    "item",
    "event",
    "frame",
    "flop",
    "token",
    "byte",
    "b",
    "bit",
    "message",
    "msg",
    "call",
    "transaction",
    "txn",
    "tx",
    "element",
    "elem",
    "entry",
    "key",
    "line",
    "word",
    "char",
    "character",
    "image",
    "sample",
    "packet",
    "job",
    "task",
    "doc",
    "document",
    "insert",
    "read",
    "write",
    "get",
    "set",
    "lookup",
    "update",
    "commit",
    "node",
    "point",
    "pixel",
    "file",
];

/// Prefixes that mean a thousand, a million and so on. The empty string represents no prefix.
const PREFIXES: [&str; 9] = ["", "k", "m", "g", "t", "ki", "mi", "gi", "ti"];

/// Rates written as one word, in lower case. Each may have a prefix.
const RATES: [&str; 11] =
    ["qps", "rps", "tps", "iops", "fps", "flops", "bps", "ops", "pps", "mps", "rpm"];

impl MetricDirection {
    /// The direction implied by a unit. `ns/op` and `KiB` are costs; `ops/sec`, `rows per second`,
    /// `MB/s` and `qps` are gains; `misses/s` and `%` imply no direction.
    pub fn of_unit(unit: &str) -> MetricDirection {
        let normalized = unit
            .trim()
            .trim_start_matches(['#', '[', '('])
            .trim_end_matches([']', ')'])
            .to_lowercase()
            .replace(" per ", "/")
            .replace("_per_", "/");
        match normalized.rsplit_once('/') {
            Some((numerator, denominator)) if is_time(denominator) && is_work(numerator) => {
                MetricDirection::Higher
            }
            Some((numerator, denominator)) if is_cost(numerator) && is_work(denominator) => {
                MetricDirection::Lower
            }
            None if is_cost(&normalized) => MetricDirection::Lower,
            None if is_rate(&normalized) => MetricDirection::Higher,
            _ => MetricDirection::Unknown,
        }
    }
}

/// Whether `text` is a unit of time: `s`, `sec`, `seconds`, `100ms`.
fn is_time(text: &str) -> bool {
    let unit = text.trim().trim_start_matches(|letter: char| letter.is_ascii_digit());
    TIMES.contains(&unit) || singular_unit(unit).is_some_and(|singular| TIMES.contains(&&*singular))
}

/// Whether `text` is a unit of work, with or without a prefix: `ops`, `kreq`, `M rows`, `1`, or empty.
fn is_work(text: &str) -> bool {
    let text = text.trim();
    let is_known = |text: &str| {
        WORK.contains(&text)
            || singular_unit(text).is_some_and(|singular| WORK.contains(&&*singular))
    };
    text.is_empty() || text == "1" || without_prefix(text).any(is_known)
}

/// Whether `text` is a unit of time or memory.
fn is_cost(text: &str) -> bool {
    let is_size = |text: &str| ["b", "byte", "bytes"].contains(&text);
    is_time(text) || without_prefix(text.trim()).any(is_size)
}

fn is_rate(text: &str) -> bool {
    let is_known = |text: &str| RATES.contains(&text);
    without_prefix(text).any(is_known)
}

/// For every prefix of [`PREFIXES`] with which `text` starts, yields the rest of `text`.
fn without_prefix(text: &str) -> impl Iterator<Item = &str> {
    let strip_prefix = |prefix: &&str| text.strip_prefix(*prefix);
    PREFIXES.iter().filter_map(strip_prefix).map(str::trim_start)
}

/// Returns the singular of an English plural.
fn singular_unit(text: &str) -> Option<String> {
    match text.strip_suffix("ies") {
        Some(stem) => Some(format!("{stem}y")),
        None => text.strip_suffix('s').map(str::to_owned),
    }
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
