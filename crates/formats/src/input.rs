//! Defines the input of a reader: the content of a file, and facts that the user provides.
//!
//! Decides how these facts are parsed. This module knows nothing about file formats. Start at
//! [`InputFile`], or at [`MetricDirections`] for files that do not say which direction of a metric
//! is better.

use anyhow::{Context, Result, bail};
use speedwell_model::MetricDirection;
use std::collections::BTreeMap;

/// A file to read.
#[derive(Debug, Clone, Copy)]
pub struct InputFile<'a> {
    /// The name by which the user refers to the file: a path, or `-`.
    pub label: &'a str,
    /// Whole content of the file.
    pub bytes: &'a [u8],
    /// Directions of metrics, for files that do not state them.
    pub better: &'a MetricDirections,
}

/// Directions of metrics, as given by the user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetricDirections {
    /// Direction of every metric that has no entry in `of`.
    pub all: Option<MetricDirection>,
    /// Directions of individual metrics, by name.
    pub of: BTreeMap<String, MetricDirection>,
}

impl MetricDirections {
    /// Name that the option `--set` uses for these directions.
    pub const NAME: &'static str = "better";

    /// Parses `better=less` or `better.METRIC=more` from the command line; returns false for any
    /// other name.
    ///
    /// # Errors
    /// Fails if the value is neither `more` nor `less`.
    pub fn set_direction(&mut self, name: &str, value: &str) -> Result<bool> {
        let metric = match name.strip_prefix(MetricDirections::NAME) {
            Some("") => None,
            Some(suffix) if suffix.starts_with('.') => Some(&suffix[1..]),
            _ => return Ok(false),
        };
        let better = match value {
            "less" => MetricDirection::Lower,
            "more" => MetricDirection::Higher,
            other => {
                bail!(
                    "unknown direction '{other}'\nhint: use --set {name}=less or --set {name}=more"
                )
            }
        };
        match metric {
            Some(metric) => drop(self.of.insert(metric.to_owned(), better)),
            None => self.all = Some(better),
        }
        Ok(true)
    }

    /// Returns the direction of a metric, if the user has given one.
    pub fn direction_of(&self, metric: &str) -> Option<MetricDirection> {
        self.of.get(metric).copied().or(self.all)
    }

    /// Returns the direction of a metric for which the file states no direction.
    ///
    /// # Errors
    /// Fails if the user has not given a direction; the message explains how to give one.
    pub fn require_direction(&self, metric: &str) -> Result<MetricDirection> {
        self.direction_of(metric).with_context(|| {
            format!(
                "the file does not state whether more or less of '{metric}' is better\n\
                 hint: speedwell import FILE --set better=less, or --set 'better.{metric}=more' for this metric alone"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direction_can_be_set_for_all_metrics_or_a_single_one() {
        let mut better = MetricDirections::default();
        assert!(better.require_direction("ops").is_err());
        assert!(better.set_direction("better", "less").unwrap());
        assert!(better.set_direction("better.ops", "more").unwrap());
        assert!(!better.set_direction("betterment", "more").unwrap());
        assert_eq!(better.direction_of("time"), Some(MetricDirection::Lower));
        assert_eq!(better.require_direction("ops").unwrap(), MetricDirection::Higher);
        let error = better.set_direction("better", "up").unwrap_err().to_string();
        assert!(error.starts_with("unknown direction 'up'\nhint: "), "{error}");
    }
}
