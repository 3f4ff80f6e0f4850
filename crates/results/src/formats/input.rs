//! A file to be read, and what the user says of it that is not in it.
//!
//! Decides how such words are understood. It must not know any format. Start at [`Input`]; at [`Directions`] for files that do
//! not say which direction of a metric is good.

use anyhow::{Context, Result, bail};
use speedwell_model::Better;
use std::collections::BTreeMap;

/// A file to be read.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// What the user calls it: a path, or `-`.
    pub label: &'a str,
    /// All of it.
    pub bytes: &'a [u8],
    /// What the user says of metrics whose file does not say which direction is good.
    pub better: &'a Directions,
}

/// What the user says of metrics: which direction is good.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directions {
    /// Of all metrics without a direction of their own.
    pub all: Option<Better>,
    /// Of single metrics.
    pub of: BTreeMap<String, Better>,
}

impl Directions {
    /// The name under which `--set` takes them.
    pub const NAME: &'static str = "better";

    /// Takes `better=less` or `better.METRIC=more` from the command line; false for any other name.
    ///
    /// # Errors
    /// It is neither more nor less.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool> {
        let metric = match name.strip_prefix(Directions::NAME) {
            Some("") => None,
            Some(rest) if rest.starts_with('.') => Some(&rest[1..]),
            _ => return Ok(false),
        };
        let better = match value {
            "less" => Better::Lower,
            "more" => Better::Higher,
            other => {
                bail!("'{other}' is no direction\nhint: --set {name}=less, or --set {name}=more")
            }
        };
        match metric {
            Some(metric) => drop(self.of.insert(metric.to_owned(), better)),
            None => self.all = Some(better),
        }
        Ok(true)
    }

    /// The direction of a metric, if the user says one.
    pub fn of(&self, metric: &str) -> Option<Better> {
        self.of.get(metric).copied().or(self.all)
    }

    /// The direction of a metric of which the file says nothing.
    ///
    /// # Errors
    /// The user says nothing either; the message says how.
    pub fn need(&self, metric: &str) -> Result<Better> {
        self.of(metric).with_context(|| {
            format!(
                "the file does not say whether more or less of '{metric}' is better\n\
                 hint: speedwell import FILE --set better=less, or --set 'better.{metric}=more' for this metric alone"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direction_is_said_of_all_metrics_or_of_one() {
        let mut better = Directions::default();
        assert!(better.need("ops").is_err());
        assert!(better.set("better", "less").unwrap());
        assert!(better.set("better.ops", "more").unwrap());
        assert!(!better.set("betterment", "more").unwrap());
        assert_eq!(better.of("time"), Some(Better::Lower));
        assert_eq!(better.need("ops").unwrap(), Better::Higher);
        let wrong = better.set("better", "up").unwrap_err().to_string();
        assert!(wrong.starts_with("'up' is no direction\nhint: "), "{wrong}");
    }
}
