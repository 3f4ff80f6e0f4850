//! Defines the options for comparisons, for the gate (the condition that decides the exit status),
//! and for series of the history.

use super::parse::{self, Choice};
use crate::history::project::HistoryRequest;
use clap::Args;
use regex::Regex;
use speedwell_analysis::gate::FailOn;
use speedwell_analysis::{AnalysisSettings, StatisticalMethod, TestingCorrection};
use speedwell_config::project::ProjectFile;
use speedwell_model::{MetricDirection, quote};

/// Comparison options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Comparison")]
pub struct ComparisonArgs {
    /// Statistical test [default: rank for runs, mann-whitney for files]
    ///
    /// The default is rank if the runs were measured in randomised blocks, and mann-whitney otherwise.
    #[arg(long, value_name = "METHOD", value_parser = parse::choice(METHODS))]
    pub method: Option<StatisticalMethod>,
    /// Confidence level of the intervals [default: 95]
    #[arg(long, value_name = "PCT", value_parser = parse::confidence)]
    pub confidence: Option<f64>,
    /// Multiple-testing correction [default: bh; holm with --fail-on]
    #[arg(long, value_name = "RULE", value_parser = parse::choice(CORRECTIONS))]
    pub correct: Option<TestingCorrection>,
    /// Smallest change that matters, e.g. 5%
    ///
    /// Smaller changes are 'same', only larger ones 'better' or 'worse' [default: 2% for 'same', any significant change
    /// for 'better' and 'worse'].
    #[arg(long, value_name = "PCT", value_parser = parse::percentage_as_fraction)]
    pub threshold: Option<f64>,
    /// Exit 1 if a case is 'worse', or 'unclear' as well
    ///
    /// Values: never (the default), worse and unclear. With 'unclear', the status is also 1 if a case may be worse, or if only one side has it. The status is 2 if no
    /// case fails but some cannot be judged.
    #[arg(long, value_name = "WHEN", default_value = "never", hide_default_value = true, value_parser = parse::choice(parse::FAIL_ON))]
    pub fail_on: FailOn,
    /// Compare changed benchmarks, too: each side runs its own version
    #[arg(long)]
    pub with_own_benchmarks: bool,
    /// Which direction of a metric is better (repeatable)
    ///
    /// Needed if neither the unit nor the framework implies it. Without a direction, changes of the metric have no
    /// verdict.
    #[arg(long, value_name = "METRIC=higher|lower", value_parser = parse::better)]
    pub better: Vec<(String, MetricDirection)>,
}

/// Selectable tests: their names, help and values.
const METHODS: [Choice<StatisticalMethod>; 4] = [
    ("rank", "Stratified-permutation rank test", StatisticalMethod::Rank),
    ("welch", "Welch's t test", StatisticalMethod::Welch),
    ("mann-whitney", "Mann-Whitney U test", StatisticalMethod::MannWhitney),
    ("bootstrap", "Percentile bootstrap", StatisticalMethod::Bootstrap),
];

/// Selectable corrections: their names, help and values.
const CORRECTIONS: [Choice<TestingCorrection>; 3] = [
    (
        "bh",
        "Benjamini-Hochberg: controls the false discovery rate",
        TestingCorrection::BenjaminiHochberg,
    ),
    ("holm", "Holm: controls the family-wise error rate", TestingCorrection::Holm),
    ("none", "No correction", TestingCorrection::None),
];

impl ComparisonArgs {
    /// Formats the gate's options for a command line: ` --fail-on worse --threshold 5%`. The result
    /// is empty if there is no gate.
    pub fn gate_options(&self, metrics: &[String]) -> String {
        if self.fail_on == FailOn::Never {
            return String::new();
        }
        let format_percent = |fraction: f64| format!("{}%", (fraction * 1e10).round() / 1e8);
        let method = self.method.and_then(|method| parse::name_of_choice(&METHODS, method));
        let correct = self.correct.and_then(|rule| parse::name_of_choice(&CORRECTIONS, rule));
        let mut options = vec![("fail-on", self.fail_on.name().to_owned())];
        options.extend(metrics.iter().map(|metric| ("metric", metric.clone())));
        options.extend(method.map(|method| ("method", method.to_owned())));
        options.extend(self.confidence.map(|fraction| ("confidence", format_percent(fraction))));
        options.extend(correct.map(|rule| ("correct", rule.to_owned())));
        options.extend(self.threshold.map(|fraction| ("threshold", format_percent(fraction))));
        for (metric, better) in &self.better {
            let direction = if *better == MetricDirection::Higher { "higher" } else { "lower" };
            options.push(("better", format!("{metric}={direction}")));
        }
        let format_option =
            |(option, value): &(&str, String)| format!(" --{option} {}", quote(value));
        let arguments: String = options.iter().map(format_option).collect();
        arguments + if self.with_own_benchmarks { " --with-own-benchmarks" } else { "" }
    }

    /// Returns the settings of the analysis. With `--fail-on`, the default correction is Holm,
    /// which limits the chance of even one false alarm.
    pub fn analysis_settings(
        &self,
        metrics: &[String],
        baseline: Option<&str>,
    ) -> AnalysisSettings {
        let default_correction = match self.fail_on {
            FailOn::Never => TestingCorrection::BenjaminiHochberg,
            _ => TestingCorrection::Holm,
        };
        AnalysisSettings {
            method: self.method,
            confidence: self.confidence,
            correction: self.correct.unwrap_or(default_correction),
            threshold: self.threshold,
            metrics: metrics.to_vec(),
            better: self.better.iter().cloned().collect(),
            baseline: baseline.map(str::to_owned),
            with_own_benchmarks: self.with_own_benchmarks,
            ..AnalysisSettings::default()
        }
    }
}

/// Metric selection.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Selection")]
pub struct MetricArgs {
    /// Report this metric instead of the first; 'all' for all
    #[arg(long = "metric", value_name = "NAME")]
    pub names: Vec<String>,
}

/// Series selection.
#[derive(Debug, Args)]
#[command(next_help_heading = "Selection")]
pub struct SeriesArgs {
    /// Show only cases whose name matches this pattern (repeatable)
    #[arg(value_name = "PATTERN")]
    patterns: Vec<Regex>,
    /// The same as PATTERN
    #[arg(short, long, value_name = "RE")]
    filter: Vec<Regex>,
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
            filters: self.patterns.iter().chain(&self.filter).cloned().collect(),
            sets: self.set.clone(),
            metrics: self.metric.names.clone(),
            threshold: self.threshold.map_or_else(default_threshold, Ok)?,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resume_command_repeats_the_gate_options() {
        let gate = ComparisonArgs {
            fail_on: FailOn::Unclear,
            threshold: Some(0.05),
            correct: Some(TestingCorrection::BenjaminiHochberg),
            better: vec![("misses/s".to_owned(), MetricDirection::Lower)],
            ..ComparisonArgs::default()
        };
        let options = gate.gate_options(&["cpu_time".to_owned()]);
        assert!(
            options.starts_with(" --fail-on unclear --metric cpu_time --correct bh --threshold 5%"),
            "{options}"
        );
        assert!(options.contains("misses/s=lower"), "{options}");
        assert_eq!(ComparisonArgs::default().gate_options(&[]), "");
    }
}
