//! `[group.metric.NAME]`: figures that a target gives itself.

use crate::expression::Unit;
use crate::part::Part;
use crate::reader::unknown_name;
use crate::schema::or_placeholder;
use crate::value::{Pattern, checked};
use anyhow::Result;
use indexmap::IndexMap;
use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;
use speedwell_model::assignment::{Figure, Origin};
use speedwell_model::{Better, Metric};

/// A figure that the target gives itself, from one of `regex`, `json`, or `from` and `to`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricKeys {
    /// A pattern on stdout; the value is the group (?P<value>...), else the first one.
    regex: Option<Pattern>,
    /// A number in the JSON on stdout: "results.0.time".
    json: Option<String>,
    /// The mark at which a time begins: "start", "process-end" or "mark:NAME". Usually "start".
    from: Option<Mark>,
    /// The mark at which a time ends. Usually "process-end".
    to: Option<Mark>,
    /// "ns", "us", "ms", "s", "B", "KiB", "MiB" ..., or any other word.
    unit: Option<String>,
    /// Which direction is good; must be said unless the unit is a time, a size, or ends in "/s".
    better: Option<Direction>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = or_placeholder)]
enum Direction {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
}

checked! {
    /// The beginning or end of a time: `start`, `process-end`, or `mark:NAME` for the first line of output that begins so.
    struct Mark(String) from String as {
        "type": "string", "pattern": r"^(start|process-end|mark:.+)$|\{[A-Za-z_]"
    },
    |mark| {
        let name = mark.strip_prefix("mark:");
        if name.is_some_and(|name| !name.is_empty()) || mark == "start" || mark == "process-end" {
            return Ok(mark);
        }
        let known = ["start", "process-end", "mark:NAME"].map(str::to_owned);
        Err(unknown_name(&mark, &known))
    }
}

/// The figures that the target of a group gives itself, in order. Placeholders are filled.
pub fn figures(group: &Part) -> Result<Vec<Figure>> {
    let keys: Option<IndexMap<String, MetricKeys>> = group.read_key("metric")?;
    let parts = group.tables("metric");
    let keys = keys.into_iter().flatten().map(|(_, keys)| keys);
    keys.zip(&parts)
        .map(|(keys, part)| figure(keys, part))
        .collect()
}

/// Values are stored in the units that reports know: times in nanoseconds, sizes in bytes.
fn figure(keys: MetricKeys, part: &Part) -> Result<Figure> {
    let unit = keys.unit.clone().unwrap_or_else(|| "1".to_owned());
    let known = Unit::find(&unit);
    let (mut stored, mut factor) =
        known.map_or((unit.as_str(), 1.0), |unit| (unit.stored, unit.factor));
    let (better, has_unit) = (keys.better, keys.unit.is_some());
    let from = origin(keys, part)?;
    if let Origin::Marks(..) = from {
        // A time between marks is measured here, in nanoseconds.
        if has_unit && stored != "ns" {
            let message = format!("a time between marks cannot have the unit '{unit}'");
            return Err(part.error("unit", format!("{message}\nhint: unit = \"ms\"")));
        }
        (stored, factor) = ("ns", 1.0);
    }
    let better = match better {
        Some(Direction::Lower) => Better::Lower,
        Some(Direction::Higher) => Better::Higher,
        None => usual_direction(part, stored)?,
    };
    Ok(Figure {
        metric: Metric::new(part.place.name(), stored, better),
        from,
        factor,
    })
}

/// Less time and less memory are better, more per second is better; for anything else the file must say.
fn usual_direction(part: &Part, unit: &str) -> Result<Better> {
    match unit {
        "ns" | "B" => Ok(Better::Lower),
        unit if unit.ends_with("/s") => Ok(Better::Higher),
        _ => Err(part.missing("better", "better = \"lower\", or \"higher\"")),
    }
}

fn origin(keys: MetricKeys, part: &Part) -> Result<Origin> {
    let mut found = Vec::new();
    if let Some(Pattern(pattern)) = keys.regex {
        let groups = Regex::new(&pattern).map_or(0, |pattern| pattern.captures_len());
        if groups < 2 {
            let message = format!("the pattern '{pattern}' has no group for the value");
            let hint = r"time: (?P<value>[\d.]+) ms";
            return Err(part.error("regex", format!("{message}\nhint: {hint}")));
        }
        found.push(Origin::Regex(pattern));
    }
    found.extend(keys.json.map(Origin::Json));
    if keys.from.is_some() || keys.to.is_some() {
        let or =
            |mark: Option<Mark>, usual: &str| mark.map_or_else(|| usual.to_owned(), |mark| mark.0);
        let (from, to) = (or(keys.from, "start"), or(keys.to, "process-end"));
        found.push(Origin::Marks(from, to));
    }
    match (found.pop(), found.is_empty()) {
        (Some(origin), true) => Ok(origin),
        _ => Err(part.wrong_table(
            "does not say one place that its values come from\n\
             hint: regex = '(?P<value>...)', json = \"results.0.time\", or from = \"mark:NAME\" and to",
        )),
    }
}
