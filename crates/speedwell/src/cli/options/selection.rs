//! Which benchmarks, which values, which metric.

use crate::define::Selection;
use crate::harness::Trial;
use anyhow::Context;
use clap::Args;
use regex::Regex;

/// Selection options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Selection")]
pub struct SelectionArgs {
    /// Only benchmarks whose 'group/name' matches this pattern (repeatable: any of them)
    #[arg(short = 'f', long = "filter", value_name = "RE")]
    pub filter: Vec<Regex>,
    /// Leave out benchmarks whose 'group/name' matches this pattern (repeatable)
    #[arg(short = 'x', long = "exclude", value_name = "RE")]
    pub exclude: Vec<Regex>,
    /// Set a parameter to these values instead of the declared ones (repeatable)
    #[arg(short = 's', long = "set", value_name = "NAME=V[,V...]")]
    pub set: Vec<String>,
    #[command(flatten)]
    pub metric: MetricArgs,
}

/// What is looked at.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Selection")]
pub struct MetricArgs {
    /// Report this metric instead of the first (repeatable; 'all' for every one)
    #[arg(long = "metric", value_name = "NAME")]
    pub names: Vec<String>,
}

impl SelectionArgs {
    /// What is to be read, with `more` NAME=VALUE words that stood among the targets.
    ///
    /// # Errors
    /// A setting that is not of the form NAME=VALUE.
    pub fn selection(&self, more: &[String], trial: Trial) -> anyhow::Result<Selection> {
        let mut sets = Vec::new();
        for text in &self.set {
            sets.extend(Selection::parse_set(text).context("in --set")?);
        }
        for text in more {
            // Typed as in the original: the whole rest of the word is one value.
            let (name, value) = text
                .split_once('=')
                .context("a value has the form NAME=VALUE")?;
            sets.push((name.to_owned(), Selection::written_out(value)));
        }
        Ok(Selection {
            filters: self.filter.clone(),
            excludes: self.exclude.clone(),
            sets,
            trial,
            ..Selection::default()
        })
    }
}
