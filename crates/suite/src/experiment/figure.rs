//! `[group.metric.NAME]`: figures that a target gives by itself.
//!
//! Values are kept in the units that reports know: times in nanoseconds, sizes in bytes.

use super::requirement::check_pattern;
use crate::keys::Keys;
use crate::unit;
use anyhow::Result;
use regex::Regex;
use speedwell_model::assignment::{Figure, Origin};
use speedwell_model::{Better, Metric};

/// Reads all figures of a group, in order. Blanks are filled.
pub fn read(group: &Keys) -> Result<Vec<Figure>> {
    group.tables("metric")?.iter().map(one).collect()
}

fn one(keys: &Keys) -> Result<Figure> {
    let unit = keys.text("unit")?.unwrap_or_else(|| "1".to_owned());
    let known = unit::find(&unit);
    let (stored, factor) = known.map_or((unit.as_str(), 1.0), |unit| (unit.kept, unit.factor));
    let from = origin(keys)?;
    let is_time = stored == "ns";
    let factor = match from {
        // A time between marks is measured here, in nanoseconds.
        Origin::Marks(..) if is_time || !keys.has("unit") => 1.0,
        Origin::Marks(..) => {
            let message = format!("a time between marks cannot have the unit '{unit}'");
            return Err(keys.error("unit", format!("{message}\nhint: unit = \"ms\"")));
        }
        _ => factor,
    };
    let stored = match from {
        Origin::Marks(..) => "ns",
        _ => stored,
    };
    let better = match keys.choice("better", &["lower", "higher"])?.as_deref() {
        Some("lower") => Better::Lower,
        Some(_) => Better::Higher,
        None => usual_direction(keys, stored)?,
    };
    keys.finish()?;
    Ok(Figure {
        metric: Metric::new(&keys.name, stored, better),
        from,
        factor,
    })
}

/// Less time and less memory are better, more per second is better; of anything else nobody knows.
fn usual_direction(keys: &Keys, unit: &str) -> Result<Better> {
    match unit {
        "ns" | "B" => Ok(Better::Lower),
        unit if unit.ends_with("/s") => Ok(Better::Higher),
        _ => Err(keys.missing("better", "better = \"lower\", or \"higher\"")),
    }
}

fn origin(keys: &Keys) -> Result<Origin> {
    let mut found = Vec::new();
    if let Some(pattern) = keys.text("regex")? {
        check_pattern(keys, "regex", &pattern)?;
        let groups = Regex::new(&pattern).map_or(0, |pattern| pattern.captures_len());
        if groups < 2 {
            let message = format!("the pattern '{pattern}' has no group for the value");
            let hint = r"time: (?P<value>[\d.]+) ms";
            return Err(keys.error("regex", format!("{message}\nhint: {hint}")));
        }
        found.push(Origin::Regex(pattern));
    }
    found.extend(keys.text("json")?.map(Origin::Json));
    let (from, to) = (mark(keys, "from")?, mark(keys, "to")?);
    match (from, to) {
        (None, None) => {}
        (from, to) => found.push(Origin::Marks(
            from.unwrap_or_else(|| "start".to_owned()),
            to.unwrap_or_else(|| "process-end".to_owned()),
        )),
    }
    match (found.pop(), found.is_empty()) {
        (Some(origin), true) => Ok(origin),
        _ => Err(keys.wrong_table(
            "does not say one place that its values come from\n\
             hint: regex = '(?P<value>...)', json = \"results.0.time\", or from = \"mark:NAME\" and to",
        )),
    }
}

/// `start`, `process-end`, `mark:NAME`.
fn mark(keys: &Keys, key: &str) -> Result<Option<String>> {
    let Some(mark) = keys.text(key)? else {
        return Ok(None);
    };
    let is_named = mark
        .strip_prefix("mark:")
        .is_some_and(|name| !name.is_empty());
    if is_named || ["start", "process-end"].contains(&mark.as_str()) {
        Ok(Some(mark))
    } else {
        let known = ["start", "process-end", "mark:NAME"].map(str::to_owned);
        Err(keys.unknown(key, &mark, &known))
    }
}
