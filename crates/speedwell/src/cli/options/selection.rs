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
    /// Only benchmarks whose 'group/name' matches this pattern
    ///
    /// Repeatable: any of them.
    #[arg(short = 'f', long = "filter", value_name = "RE")]
    pub filter: Vec<Regex>,
    /// Leave out benchmarks whose 'group/name' matches this pattern (repeatable)
    #[arg(short = 'x', long = "exclude", value_name = "RE")]
    pub exclude: Vec<Regex>,
    /// Set a parameter to these values (repeatable)
    ///
    /// They replace the declared ones. NAME=V[,V...] among the targets means the same.
    #[arg(short = 's', long = "set", value_name = "NAME=V[,V...]")]
    pub set: Vec<String>,
    #[command(flatten)]
    pub metric: MetricArgs,
}

/// What is looked at.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Selection")]
pub struct MetricArgs {
    /// Report this metric instead of the first; 'all' for every one (repeatable)
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
            sets.extend(Selection::parse_set(text)?);
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
