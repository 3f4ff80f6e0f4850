//! Reads the metrics that a target reports itself (`[group.metric.NAME]`). `group.rs` decides which
//! metrics a group reports.

use crate::file_part::FilePart;
use crate::reader::unknown_name;
use crate::value::{RegexPattern, checked, or_placeholder};
use anyhow::Result;
use indexmap::IndexMap;
use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;
use speedwell_model::assignment::{MetricSource, TargetMetric};
use speedwell_model::expression::QuantityUnit;
use speedwell_model::{Metric, MetricDirection};

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
