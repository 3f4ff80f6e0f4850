//! Defines the metrics that every group of a kind has, and reads the metrics that a target reports
//! itself (`[group.metric.NAME]`). `group.rs` decides which metrics a group reports.

use super::target::GroupKind;
use crate::expression::QuantityUnit;
use crate::file_part::FilePart;
use crate::reader::unknown_name;
use crate::value::{RegexPattern, checked, or_placeholder};
use anyhow::Result;
use indexmap::IndexMap;
use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;
use speedwell_model::assignment::{MetricSource, TargetMetric};
use speedwell_model::{Metric, MetricDirection};

/// Metrics of a server under load.
const SERVER_METRICS: [(&str, &str, MetricDirection); 13] = [
    ("throughput", "1/s", MetricDirection::Higher),
    ("bytes_per_second", "B/s", MetricDirection::Higher),
    ("bytes_per_response", "B", MetricDirection::Lower),
    ("cpu_per_request", "ns", MetricDirection::Lower),
    ("cpu_cores", "1", MetricDirection::Lower),
    ("instructions_per_request", "1", MetricDirection::Lower),
    ("max_rss", "B", MetricDirection::Lower),
    ("server_ready", "ns", MetricDirection::Lower),
    ("server_exit", "ns", MetricDirection::Lower),
    ("effective_concurrency", "1", MetricDirection::Higher),
    ("requests_per_connection_min", "1", MetricDirection::Higher),
    ("requests_per_connection_max", "1", MetricDirection::Lower),
    ("cpu_time", "ns", MetricDirection::Lower),
];

/// Metrics of a load in the short form, `[benchmark.NAME]`.
const LOAD_METRICS: [&str; 4] =
    ["throughput", "bytes_per_second", "cpu_per_request", "server_ready"];

/// Metrics of a command.
const COMMAND_METRICS: [(&str, &str, MetricDirection); 3] = [
    ("wall_time", "ns", MetricDirection::Lower),
    ("cpu_time", "ns", MetricDirection::Lower),
    ("max_rss", "B", MetricDirection::Lower),
];

/// Possible values of `also`: counters of the operating system. Not every machine has all of these
/// counters.
pub const ALSO_METRICS: [(&str, &str); 16] = [
    ("cpu_time", "ns"),
    ("max_rss", "B"),
    ("instructions", "1"),
    ("instructions:u", "1"),
    ("cycles", "1"),
    ("cycles:u", "1"),
    ("branches", "1"),
    ("branches:u", "1"),
    ("branch-misses", "1"),
    ("branch-misses:u", "1"),
    ("cache-references", "1"),
    ("cache-misses", "1"),
    ("task-clock", "ns"),
    ("page-faults", "1"),
    ("context-switches", "1"),
    ("cpu-migrations", "1"),
];

/// Returns the name, unit and direction of each metric of a kind.
fn kind_metrics(
    kind: GroupKind,
) -> impl Iterator<Item = (&'static str, &'static str, MetricDirection)> {
    let table: &[(&str, &str, MetricDirection)] = match kind {
        GroupKind::Server | GroupKind::Load => &SERVER_METRICS,
        GroupKind::Command => &COMMAND_METRICS,
        GroupKind::Function => &[],
    };
    let is_reported = move |name: &str| kind != GroupKind::Load || LOAD_METRICS.contains(&name);
    table.iter().copied().filter(move |(name, ..)| is_reported(name))
}

fn is_loaded(kind: GroupKind) -> bool {
    matches!(kind, GroupKind::Server | GroupKind::Load)
}

/// Returns the metric with that name, if every group of the kind has it.
pub fn find_metric(kind: GroupKind, name: &str) -> Option<Metric> {
    let listed = kind_metrics(kind).find(|(listed_name, ..)| *listed_name == name);
    let latency =
        || (is_loaded(kind) && is_latency(name)).then_some(("ns", MetricDirection::Lower));
    let (unit, better) = listed.map(|(_, unit, better)| (unit, better)).or_else(latency)?;
    Some(Metric::new(name, unit, better))
}

/// Returns the name under which runs store a metric: without `:u`, and `latency_max` for the
/// highest percentile of a load.
pub fn stored_name(kind: GroupKind, name: &str) -> &str {
    match name.strip_suffix(":u").unwrap_or(name) {
        "latency_p100" if is_loaded(kind) => "latency_max",
        plain => plain,
    }
}

/// Returns the metric that `also` requests by that name.
pub fn also_metric(name: &str) -> Option<Metric> {
    let (_, unit) = ALSO_METRICS.iter().find(|(other, _)| *other == name)?;
    Some(Metric::new(name, *unit, MetricDirection::Lower))
}

/// Whether the metric is a latency: `latency_mean`, `latency_min`, `latency_max`, or a percentile
/// such as `latency_p50` or `latency_p99_9`.
fn is_latency(name: &str) -> bool {
    let Some(statistic) = name.strip_prefix("latency_") else {
        return false;
    };
    let percentile = statistic.strip_prefix('p').and_then(|text| {
        let is_number = text.starts_with(|c: char| c.is_ascii_digit());
        text.replace('_', ".").parse::<f64>().ok().filter(|_| is_number)
    });
    ["mean", "min", "max"].contains(&statistic)
        || percentile.is_some_and(|p| (0.0..=100.0).contains(&p))
}

/// Returns the metric names that a hint suggests for groups of this kind.
pub fn metric_names(kind: GroupKind) -> Vec<String> {
    let latencies = ["mean", "p50", "p75", "p90", "p95", "p99", "p99_9", "max"]
        .into_iter()
        .filter(|_| is_loaded(kind))
        .map(|statistic| format!("latency_{statistic}"));
    kind_metrics(kind).map(|(name, ..)| name.to_owned()).chain(latencies).collect()
}

/// A metric that the target reports itself, from one of `regex`, `json`, or `from` and `to`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricKeys {
    /// Pattern for stdout; the value is its group (?P<value>...), else its first group.
    regex: Option<RegexPattern>,
    /// A number in the JSON on stdout: "results.0.time".
    json: Option<String>,
    /// Mark at which a time begins: "start", "process-end" or "mark:NAME". Default: "start".
    from: Option<TimeMark>,
    /// Mark at which a time ends. Default: "process-end".
    to: Option<TimeMark>,
    /// "ns", "us", "ms", "s", "B", "KiB", "MiB" ..., or any other string.
    unit: Option<String>,
    /// Whether lower or higher is better; required unless the unit is a time, a size, or ends in
    /// "/s".
    better: Option<BetterDirection>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = or_placeholder)]
enum BetterDirection {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
}

checked! {
    /// Start or end of a time: `start`, `process-end`, or `mark:NAME` for the first output line
    /// with that prefix.
    struct TimeMark(String) from String as {
        "type": "string", "pattern": r"^(start|process-end|mark:.+)$|\{[A-Za-z_]"
    },
    |mark| {
        let name = mark.strip_prefix("mark:");
        if name.is_some_and(|name| !name.is_empty()) || mark == "start" || mark == "process-end" {
            return Ok(mark);
        }
        let names = ["start", "process-end", "mark:NAME"].map(str::to_owned);
        Err(unknown_name(&mark, &names))
    }
}

/// Returns the metrics that the target of a group reports itself, in order. The placeholders of
/// `group` must already be filled.
pub fn target_figures(group: &FilePart) -> Result<Vec<TargetMetric>> {
    let keys: Option<IndexMap<String, MetricKeys>> = group.read_key("metric")?;
    let parts = group.child_tables("metric");
    keys.into_iter()
        .flatten()
        .map(|(_, keys)| keys)
        .zip(&parts)
        .map(|(keys, part)| resolve_figure(keys, part))
        .collect()
}

/// Resolves a metric that the target reports itself. Times are stored in nanoseconds, and sizes in
/// bytes, whatever unit the target reports.
fn resolve_figure(keys: MetricKeys, part: &FilePart) -> Result<TargetMetric> {
    let unit = keys.unit.clone().unwrap_or_else(|| "1".to_owned());
    let known_unit = QuantityUnit::find_unit(&unit);
    let (mut stored, mut factor) =
        known_unit.map_or((unit.as_str(), 1.0), |unit| (unit.stored, unit.factor));
    let (better, has_unit) = (keys.better, keys.unit.is_some());
    let from = figure_origin(keys, part)?;
    if let MetricSource::Marks(..) = from {
        // A time between marks is measured by Speedwell, in nanoseconds.
        if has_unit && stored != "ns" {
            let message = format!("a time between marks cannot have the unit '{unit}'");
            return Err(part.error_at_key("unit", format!("{message}\nhint: unit = \"ms\"")));
        }
        (stored, factor) = ("ns", 1.0);
    }
    let better = match better {
        Some(BetterDirection::Lower) => MetricDirection::Lower,
        Some(BetterDirection::Higher) => MetricDirection::Higher,
        None => default_direction(part, stored)?,
    };
    Ok(TargetMetric { metric: Metric::new(part.place.last_key(), stored, better), from, factor })
}

/// Returns the default direction: less time and memory are better, more per second is better; for
/// anything else the file must specify it.
fn default_direction(part: &FilePart, unit: &str) -> Result<MetricDirection> {
    match MetricDirection::of_unit(unit) {
        MetricDirection::Unknown => {
            Err(part.missing_key("better", "better = \"lower\", or \"higher\""))
        }
        known => Ok(known),
    }
}

fn figure_origin(keys: MetricKeys, part: &FilePart) -> Result<MetricSource> {
    let mut found = Vec::new();
    if let Some(RegexPattern(pattern)) = keys.regex {
        let groups = Regex::new(&pattern).map_or(0, |pattern| pattern.captures_len());
        if groups < 2 {
            let message = format!("the pattern '{pattern}' has no group for the value");
            let hint = r"time: (?P<value>[\d.]+) ms";
            return Err(part.error_at_key("regex", format!("{message}\nhint: {hint}")));
        }
        found.push(MetricSource::Regex(pattern));
    }
    found.extend(keys.json.map(MetricSource::Json));
    if keys.from.is_some() || keys.to.is_some() {
        let mark_or = |mark: Option<TimeMark>, default: &str| {
            mark.map_or_else(|| default.to_owned(), |mark| mark.0)
        };
        let (from, to) = (mark_or(keys.from, "start"), mark_or(keys.to, "process-end"));
        found.push(MetricSource::Marks(from, to));
    }
    match (found.pop(), found.is_empty()) {
        (Some(origin), true) => Ok(origin),
        _ => Err(part.wrong_table(
            "must have exactly one source of values\n\
             hint: regex = '(?P<value>...)', json = \"results.0.time\", or from = \"mark:NAME\" \
             and to",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_every_latency_percentile_and_commands_have_none() {
        for name in ["latency_p50", "latency_p99_9", "latency_p100", "latency_mean", "throughput"] {
            assert!(find_metric(GroupKind::Server, name).is_some(), "{name}");
            assert!(find_metric(GroupKind::Command, name).is_none(), "{name}");
        }
        for name in ["latency_p101", "latency_pinf", "latency_p", "latency", "p50"] {
            assert!(find_metric(GroupKind::Server, name).is_none(), "{name}");
        }
        for kind in [GroupKind::Server, GroupKind::Command, GroupKind::Load] {
            assert!(metric_names(kind).iter().all(|name| find_metric(kind, name).is_some()));
        }
    }
}
