//! Defines the options that select benchmarks, parameter values and metrics.

use anyhow::Context;
use clap::Args;
use regex::Regex;
use speedwell_adapters::TrialMode;
use speedwell_adapters::discover::BenchmarkSelection;
use speedwell_report::session::StudyChoice;

/// Selection options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Selection")]
pub struct SelectionArgs {
    /// Only benchmarks whose 'group/name' matches this pattern
    ///
    /// Repeatable: benchmarks that match any of the patterns are measured.
    #[arg(short = 'f', long = "filter", value_name = "RE")]
    pub filter: Vec<Regex>,
    /// Leave out benchmarks that match this pattern (repeatable)
    ///
    /// The pattern may match anywhere in 'group/name'.
    #[arg(short = 'x', long = "exclude", value_name = "RE")]
    pub exclude: Vec<Regex>,
    /// Set a parameter to these values (repeatable)
    ///
    /// The values replace the declared ones. NAME=V[,V...] among the targets has the same effect. '@FILE' reads lines
    /// such as 'group/file.js n=1000', as written by 'speedwell iterations'.
    #[arg(short = 's', long = "set", value_name = "NAME=V[,V...]")]
    pub set: Vec<String>,
    #[command(flatten)]
    pub metric: MetricArgs,
}

/// Metric selection.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Selection")]
pub struct MetricArgs {
    /// Report this metric, or 'all', instead of the first (repeatable)
    #[arg(long = "metric", value_name = "NAME")]
    pub names: Vec<String>,
}

impl SelectionArgs {
    /// Builds the selection. `set_arguments` are the NAME=VALUE arguments among the targets.
    ///
    /// # Errors
    /// Fails if a setting is not of the form NAME=VALUE, or if a file of settings cannot be read.
    pub fn build_selection(
        &self,
        set_arguments: &[String],
        trial: TrialMode,
    ) -> anyhow::Result<BenchmarkSelection> {
        let mut selection = BenchmarkSelection {
            filters: self.filter.clone(),
            excludes: self.exclude.clone(),
            trial,
            ..BenchmarkSelection::default()
        };
        for text in &self.set {
            match text.strip_prefix('@') {
                Some(file) => std::fs::read_to_string(file)
                    .map_err(anyhow::Error::from)
                    .and_then(|lines| selection.add_lines(&lines))
                    .with_context(|| format!("cannot read the values in '{file}'"))
                    .context("in --set")?,
                None => {
                    selection.sets.extend(BenchmarkSelection::parse_set(text).context("in --set")?)
                }
            }
        }
        for text in set_arguments {
            selection.sets.extend(BenchmarkSelection::parse_set(text)?);
        }
        Ok(selection)
    }
}

/// Study options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Study")]
pub struct StudyArgs {
    /// Study how the metric depends on this parameter
    #[arg(long, value_name = "NAME")]
    pub x_axis: Option<String>,
    /// Draw a line for each value of NAME ('variant': each variant)
    #[arg(long, value_name = "NAME", requires = "x_axis")]
    pub by: Option<String>,
    /// Use a logarithmic x axis
    #[arg(long, requires = "x_axis")]
    pub log: bool,
}

impl StudyArgs {
    /// Converts the options for the report.
    pub fn study_choice(&self) -> StudyChoice {
        StudyChoice { x_axis: self.x_axis.clone(), by: self.by.clone(), log: self.log }
    }
}
