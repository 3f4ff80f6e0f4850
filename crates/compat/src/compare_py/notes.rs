//! Writes the messages that `compare.py` itself does not have. Sentences go to standard error, and
//! lines are printed below the table.
//!
//! Decides which facts about a comparison are reported, and in which words. Does not lay out the
//! table. Start at [`ComparisonRemarks`].

use super::side::ComparedSide;
use crate::compare_py::figures::UTestTable;
use indexmap::IndexMap;
use serde_json::Value;
use speedwell_formats::foreign::google_benchmark::GoogleBenchmarkEntry;
use speedwell_report::escape_line;
use std::borrow::Cow;

/// Maximum number of names listed in a sentence; further names are only counted.
const MAX_LISTED_NAMES: usize = 20;

/// Environment facts that make figures hard to compare if they differ.
const ENVIRONMENT_KEYS: [&str; 6] = [
    "host_name",
    "num_cpus",
    "cpu_scaling_enabled",
    "aslr_enabled",
    "library_version",
    "library_build_type",
];

/// Facts about a comparison, from which the messages are written.
pub struct ComparisonRemarks<'r> {
    /// Names of the sides as typed by the user.
    pub labels: [&'r str; 2],
    pub table: &'r UTestTable<'r>,
}

impl ComparisonRemarks<'_> {
    /// Returns sentences about what the table omits.
    pub fn warning_sentences(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (label, names) in self.labels.iter().zip(&self.table.unmatched) {
            if !names.is_empty() {
                warnings.push(format!("only in '{label}': {}", format_names(names)));
            }
        }
        if !self.table.odd_units.is_empty() {
            let names = format_names(&self.table.odd_units);
            warnings.push(format!("not compared, because their units are incompatible: {names}"));
        }
        if self.table.not_in_geomean > 0 && self.table.geomean.is_some() {
            warnings.push(format!(
                "OVERALL_GEOMEAN leaves out {} without a counterpart or a time",
                format_count(self.table.not_in_geomean, "repetition")
            ));
        }
        warnings
    }

    /// Returns lines about failed or skipped entries. Each line has the name, the reason, and how
    /// often this happened on each side.
    pub fn resultless_lines(&self) -> Vec<String> {
        let mut counts_by_reason: IndexMap<(&str, String), [usize; 2]> = IndexMap::new();
        for (side, entries) in self.table.without_result.iter().enumerate() {
            for entry in entries {
                counts_by_reason.entry((&entry.name, resultless_reason(entry))).or_default()
                    [side] += 1;
            }
        }
        let lines = counts_by_reason.iter().map(|((name, reason), counts)| {
            let sides = self.labels.iter().zip(counts).filter(|(_, count)| **count > 0);
            let sides: Vec<String> = if self.labels[0] == self.labels[1] {
                vec![format_count(counts.iter().sum(), "time")]
            } else {
                sides
                    .map(|(label, count)| format!("{} in '{label}'", format_count(*count, "time")))
                    .collect()
            };
            let line = format!("not compared: {name} {reason} ({})", sides.join(", "));
            escape_line(&line).into_owned()
        });
        lines.collect()
    }
}

/// Warns about a filter that makes different names equal.
pub fn merge_warning(side: &ComparedSide<'_>, filter: &str) -> Option<String> {
    let (count, name) = side.merged.as_ref()?;
    Some(format!(
        "the filter '{filter}' makes {count} names equal ('{}'), so different benchmarks and \
         figures count as repetitions of one benchmark; use a narrower filter",
        escape_line(name)
    ))
}

/// Warns about environment facts that differ.
pub fn environment_warning(contexts: [&Value; 2]) -> Option<String> {
    let differing = ENVIRONMENT_KEYS.iter().filter_map(|key| {
        let [Some(baseline), Some(contender)] = contexts.map(|context| context.get(key)) else {
            return None;
        };
        (baseline != contender)
            .then(|| format!("{key} {} and {}", format_value(baseline), format_value(contender)))
    });
    let differing: Vec<String> = differing.collect();
    (!differing.is_empty())
        .then(|| format!("the sides were measured differently: {}", differing.join(", ")))
}

fn format_value(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => format!("'{text}'").into(),
        other => other.to_string().into(),
    }
}

fn resultless_reason(entry: &GoogleBenchmarkEntry<'_>) -> String {
    let (outcome, message) = if entry.has_failed {
        ("failed", &entry.error_message)
    } else {
        ("was skipped", &entry.skip_message)
    };
    match message.as_deref().filter(|message| !message.is_empty()) {
        Some(message) => format!("{outcome}: {message}"),
        None => outcome.to_owned(),
    }
}

fn format_names(names: &[&str]) -> String {
    let (listed, omitted) = names.split_at(names.len().min(MAX_LISTED_NAMES));
    let joined = listed.join(", ");
    let escaped = escape_line(&joined);
    match omitted.len() {
        0 => escaped.into_owned(),
        count => format!("{escaped} and {}", format_count(count, "more name")),
    }
}

fn format_count(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}
