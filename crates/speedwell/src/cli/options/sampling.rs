//! How much is measured.

use super::parse;
use crate::model::{Runs, Sampling};
use clap::Args;
use std::time::Duration;

/// The fewest runs whose smallest and largest value are a 95 % interval of the median
/// (1 - 2 / 2^6 = 96.9 %): the default where nothing is compared.
const RUNS_OF_ONE_VARIANT: u32 = 6;

/// Where `--precision` gives up.
const RUNS_FOR_PRECISION: u32 = 40;

/// Sampling options.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingArgs {
    /// Measure exactly N runs of every case and variant [default: 6; when variants are compared,
    /// as many as the sequential test needs, 8 to 32]
    #[arg(short = 'r', long, value_name = "N", value_parser = parse::count)]
    pub runs: Option<u32>,
    /// Without comparison: measure until the interval's half width is below this (at most 40 runs)
    #[arg(long, value_name = "PCT", value_parser = parse::percent, conflicts_with = "runs")]
    pub precision: Option<f64>,
    /// End a run that takes longer than this
    #[arg(long, value_name = "DUR", default_value = "5m", value_parser = parse::duration)]
    pub timeout: Duration,
}

impl SamplingArgs {
    /// The sampling for this many variants.
    pub fn sampling(&self, variants: usize) -> Sampling {
        let runs = match (self.runs, self.precision) {
            (Some(runs), _) => Runs::Fixed(runs),
            (None, Some(_)) if variants == 1 => Runs::Fixed(RUNS_FOR_PRECISION),
            (None, _) if variants == 1 => Runs::Fixed(RUNS_OF_ONE_VARIANT),
            (None, _) => Runs::Sequential,
        };
        let precision = self.precision.filter(|_| variants == 1);
        Sampling {
            runs,
            precision,
            timeout_ms: self.timeout.as_millis() as u64,
        }
    }
}
