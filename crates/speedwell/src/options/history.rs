//! Defines the options that select series of the history.

use super::{MetricArgs, parse};
use crate::history::project::HistoryRequest;
use clap::Args;
use regex::Regex;
use speedwell_config::project::ProjectFile;

/// Series selection.
#[derive(Debug, Args)]
#[command(next_help_heading = "Selection")]
pub struct SeriesArgs {
    /// Show only cases whose name matches this pattern (repeatable)
    #[arg(value_name = "PATTERN")]
    patterns: Vec<Regex>,
    /// Show only cases with this parameter value (repeatable)
    #[arg(short = 's', long, value_name = "NAME=VALUE", value_parser = parse::assignment)]
    set: Vec<(String, String)>,
    #[command(flatten)]
    metric: MetricArgs,
    /// Branch whose commits are shown [default: the main branch]
    ///
    /// The main branch is the one named in speedwell.toml, else the default branch of the remote repository, else the
    /// checked-out one.
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// Smallest change that matters, e.g. 5%
    ///
    /// A change counts as 'worse' or 'better' only if its whole confidence interval lies beyond the threshold [default: the
    /// threshold in speedwell.toml; without one, every significant change counts].
    #[arg(long, value_name = "PCT", value_parser = parse::percentage_as_fraction)]
    threshold: Option<f64>,
    /// Treat results as one series even if the benchmark itself changed
    #[arg(long)]
    same_work: bool,
}

impl SeriesArgs {
    /// Converts the options to a request.
    ///
    /// # Errors
    /// Fails if the project file cannot be read.
    pub fn history_request(&self) -> anyhow::Result<HistoryRequest> {
        Ok(HistoryRequest {
            branch: self.branch.clone(),
            filters: self.patterns.clone(),
            sets: self.set.clone(),
            metrics: self.metric.names.clone(),
            threshold: match self.threshold {
                Some(threshold) => threshold,
                None => default_threshold()?,
            },
            ignores_benchmark_changes: self.same_work,
            ..HistoryRequest::default()
        })
    }
}

/// Returns the threshold in the project file. The default is 0: every significant change counts.
///
/// # Errors
/// Fails if the project file cannot be read.
pub fn default_threshold() -> anyhow::Result<f64> {
    let project = ProjectFile::find_file(&std::env::current_dir()?)?;
    Ok(project.and_then(|project| project.history.threshold).unwrap_or(0.0))
}
