//! One row of `benchmarks`: a repetition, or an aggregate of several.
//!
//! Decides units and which members are counters. It must not know other rows. The entry point is
//! [`Row::read`].

use crate::exchange::foreign_json::Node;
use crate::model::Cause;
use anyhow::{Context, Result};

/// Members that the library writes itself; any other number is a counter.
const NO_COUNTERS: [&str; 12] = [
    "family_index",
    "per_family_instance_index",
    "repetitions",
    "repetition_index",
    "threads",
    "iterations",
    "real_time",
    "cpu_time",
    "cpu_coefficient",
    "real_coefficient",
    "rms",
    "time_unit",
];

/// Ends of the names of aggregates.
const ENDS: [&str; 6] = ["_mean", "_median", "_stddev", "_cv", "_BigO", "_RMS"];

/// What a row is.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// One repetition.
    Iteration,
    /// A figure over several repetitions, with its name: `median`.
    Aggregate(String),
    /// Files before version 1.5 of the library do not say.
    Unsaid,
}

/// One row.
#[derive(Debug)]
pub struct Row {
    /// The benchmark's name with arguments and thread number, without the aggregate's.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Over all threads; of an aggregate the number of repetitions.
    pub iterations: Option<f64>,
    /// Number of threads.
    pub threads: f64,
    /// Per iteration.
    pub real_ns: Option<f64>,
    /// Per iteration.
    pub cpu_ns: Option<f64>,
    /// Counters in the order of the file.
    pub counters: Vec<(String, f64)>,
    error: Option<String>,
    skipped: Option<String>,
    label: Option<String>,
}

impl Row {
    /// Reads a row.
    ///
    /// # Errors
    /// A member is missing, unknown or of another type.
    pub fn read(row: &Node<'_>) -> Result<Row> {
        let text = |key: &str| -> Result<Option<String>> {
            let node = row.get(key);
            node.map(|node| node.text().map(str::to_owned)).transpose()
        };
        let number = |key: &str| row.get(key).map(|node| node.number()).transpose();
        let name = row.need("name")?.text()?;
        let kind = match text("run_type")?.as_deref() {
            Some("aggregate") => Kind::Aggregate(text("aggregate_name")?.unwrap_or_default()),
            Some(_) => Kind::Iteration,
            None => Kind::Unsaid,
        };
        let (real, cpu) = (number("real_time")?, number("cpu_time")?);
        let factor = match real.or(cpu) {
            Some(_) => ns_per_unit(row)?,
            None => 1.0,
        };
        let reason = |flag: &str, message: &str| -> Result<Option<String>> {
            let is_so = row.get(flag).is_some_and(|node| node.is_true());
            Ok(match is_so {
                true => Some(text(message)?.unwrap_or_default()),
                false => None,
            })
        };
        Ok(Row {
            name: text("run_name")?.unwrap_or_else(|| name.to_owned()),
            kind,
            iterations: number("iterations")?,
            threads: number("threads")?.unwrap_or(1.0),
            real_ns: real.map(|time| time * factor),
            cpu_ns: cpu.map(|time| time * factor),
            counters: counters(row),
            error: reason("error_occurred", "error_message")?,
            skipped: reason("skipped", "skip_message")?,
            label: text("label")?.filter(|label| !label.is_empty()),
        })
    }

    /// Whether it is said to be a figure over several repetitions.
    pub fn is_aggregate(&self) -> bool {
        matches!(self.kind, Kind::Aggregate(_))
    }

    /// Whether it is the aggregate of that name, and has a time.
    pub fn is_centre(&self, name: &str) -> bool {
        self.real_ns.is_some() && self.kind == Kind::Aggregate(name.to_owned())
    }

    /// The name without the end that an aggregate's has.
    pub fn base(&self) -> Option<&str> {
        ENDS.iter().find_map(|end| self.name.strip_suffix(end))
    }

    /// Why it has no result, if it has none.
    pub fn cause(&self) -> Option<Cause> {
        let invalid = |reason: &str| Cause::Invalid {
            reason: reason.to_owned(),
        };
        match (&self.error, &self.skipped) {
            (Some(message), _) => Some(invalid(message)),
            (None, Some(reason)) => Some(Cause::Skipped {
                reason: reason.clone(),
            }),
            (None, None) if self.real_ns.is_none() => Some(invalid("there is no real_time")),
            (None, None) => None,
        }
    }

    /// Remarks on its figures.
    pub fn notes(&self) -> Vec<String> {
        let label = self
            .label
            .iter()
            .map(|label| format!("Its label is '{label}'."));
        let aggregate = match &self.kind {
            Kind::Aggregate(name) => Some(format!(
                "This is the {name} of {} repetitions, which are not in the file.",
                self.iterations
                    .map_or("some".to_owned(), |count| count.to_string())
            )),
            _ => None,
        };
        label.chain(aggregate).collect()
    }
}

fn ns_per_unit(row: &Node<'_>) -> Result<f64> {
    let unit = row.need("time_unit")?;
    let name = unit.text()?;
    ns_per(name).with_context(|| format!("'{}' is '{name}', not ns, us, ms or s", unit.place()))
}

/// Nanoseconds in one of a unit that the library writes; `None` for any other name.
pub fn ns_per(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    })
}

fn counters(row: &Node<'_>) -> Vec<(String, f64)> {
    row.members()
        .filter(|(name, _)| !NO_COUNTERS.contains(name))
        .filter_map(|(name, value)| Some((name.to_owned(), value.as_f64()?)))
        .collect()
}
