//! Which benchmarks, and with which values.

use crate::harness::Trial;
use anyhow::bail;
use regex::Regex;

/// What the selection options ask for.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// A benchmark stays if any of these matches its name; all stay if there are none.
    pub filters: Vec<Regex>,
    /// A benchmark goes if any of these matches its name.
    pub excludes: Vec<Regex>,
    /// Parameter values in the order given; several values of one name are all measured.
    pub sets: Vec<(String, String)>,
    /// Whether and how cases are only tried with small values.
    pub trial: Trial,
}

impl Selection {
    /// Whether the benchmark of that name is wanted.
    pub fn wants(&self, name: &str) -> bool {
        let any = |list: &[Regex]| list.iter().any(|pattern| pattern.is_match(name));
        (self.filters.is_empty() || any(&self.filters)) && !any(&self.excludes)
    }

    /// Reads `NAME=V[,V...]` as typed after `--set`.
    ///
    /// # Errors
    /// A text without `=` or with an empty name.
    pub fn parse_set(text: &str) -> anyhow::Result<Vec<(String, String)>> {
        match text.split_once('=') {
            Some((name, values)) if !name.is_empty() => Ok(values
                .split(',')
                .map(|value| (name.to_owned(), value.to_owned()))
                .collect()),
            _ => bail!("'{text}' is not of the form NAME=VALUE[,VALUE...]"),
        }
    }
}
