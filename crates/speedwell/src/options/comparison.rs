//! How variants are compared, and when the answer makes the command fail.

use super::parse;
use clap::{Args, ValueEnum};
use speedwell_analysis::{Correction, Method, Settings};
use speedwell_model::Verdict;

/// Comparison options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Comparison")]
pub struct ComparisonArgs {
    /// The test [default: rank for own runs, mann-whitney for files]
    ///
    /// In full: rank where runs were measured in randomised blocks, mann-whitney otherwise.
    #[arg(long, value_name = "METHOD")]
    pub method: Option<MethodName>,
    /// Confidence of intervals [default: 95]
    #[arg(long, value_name = "PCT", value_parser = parse::confidence)]
    pub confidence: Option<f64>,
    /// Correction for many cases [default: bh; holm with --fail-on]
    #[arg(long, value_name = "RULE")]
    pub correct: Option<CorrectionName>,
    /// The smallest change that matters, e.g. 5%
    ///
    /// Less is 'same', and only more is 'better' or 'worse' [default: 2% for 'same', any sure change for 'better' and
    /// 'worse'].
    #[arg(long, value_name = "PCT", value_parser = parse::percent)]
    pub threshold: Option<f64>,
    /// Exit with status 1 if any case is 'worse', or 'unclear'
    ///
    /// 'unclear' fails as well where a case is not known to be no worse.
    #[arg(long, value_name = "WHEN", default_value = "never")]
    pub fail_on: FailOn,
    /// Judge a benchmark that changed itself: each side measures its own
    #[arg(long)]
    pub with_own_benchmarks: bool,
}

/// Tests that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MethodName {
    /// Stratified-permutation rank test.
    Rank,
    /// Welch's t test.
    Welch,
    /// Mann-Whitney U test.
    MannWhitney,
    /// Percentile bootstrap.
    Bootstrap,
}

/// Corrections that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CorrectionName {
    /// Benjamini-Hochberg: controls the false discovery rate.
    Bh,
    /// Holm: controls the family-wise error rate.
    Holm,
    /// No correction.
    None,
}

/// What makes the gate fail.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// A case that is worse.
    Worse,
    /// A case that is worse or unclear.
    Unclear,
    /// Nothing.
    #[default]
    Never,
}

impl FailOn {
    /// Whether the gate refuses a case with this verdict.
    pub fn refuses(self, verdict: Verdict) -> bool {
        match self {
            FailOn::Never => false,
            FailOn::Worse => verdict == Verdict::Worse,
            FailOn::Unclear => matches!(verdict, Verdict::Worse | Verdict::Unclear),
        }
    }
}

impl ComparisonArgs {
    /// The settings of the analysis. A gate keeps the chance of any false alarm, so `--fail-on`
    /// turns the default correction into Holm's.
    pub fn settings(&self, metrics: &[String], baseline: Option<&str>) -> Settings {
        let correction = match self.correct {
            Some(CorrectionName::Holm) => Correction::Holm,
            Some(CorrectionName::None) => Correction::None,
            None if self.fail_on != FailOn::Never => Correction::Holm,
            Some(CorrectionName::Bh) | None => Correction::BenjaminiHochberg,
        };
        Settings {
            method: self.method.map(|name| match name {
                MethodName::Rank => Method::Rank,
                MethodName::Welch => Method::Welch,
                MethodName::MannWhitney => Method::MannWhitney,
                MethodName::Bootstrap => Method::Bootstrap,
            }),
            confidence: self.confidence,
            correction,
            threshold: self.threshold,
            metrics: metrics.to_vec(),
            baseline: baseline.map(str::to_owned),
            with_own_benchmarks: self.with_own_benchmarks,
            ..Settings::default()
        }
    }
}
