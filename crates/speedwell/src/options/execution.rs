//! Defines the options that control how runs are planned and executed.

use clap::Args;
use speedwell_adapters::TrialMode;
use speedwell_machine::process::CpuSet;
use speedwell_model::{ComparedClock, InstructionCounting, Metric, RejectRules, RunOrder};
use std::time::Duration;

use super::parse;

/// Execution options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Execution")]
pub struct ExecutionArgs {
    /// Order of runs
    ///
    /// 'paired' runs baseline and candidate together on one processor and compares processor time, for busy machines.
    /// 'alternate' is the order that Node core uses. 'parallel' is for snippets only.
    #[arg(long, value_name = "ORDER", default_value = "blocks")]
    pub order: RunOrder,
    /// Which time to compare: wall, or cpu for code that does not wait
    ///
    /// cpu is the processor time, which excludes time spent sleeping or waiting for I/O.
    #[arg(long, value_name = "CLOCK")]
    pub clock: Option<ComparedClock>,
    /// Seed for all random choices [default: random; stored and shown]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Pin measured processes to these CPUs, e.g. 1 or 0,2-3
    #[arg(long, value_name = "CPUS")]
    pub pin: Option<CpuSet>,
    /// Repeat runs that were disturbed, e.g. 'steal>1%'
    ///
    /// Runs that exceed these limits on kernel counters are excluded and repeated, e.g. 'steal>1%,involuntary>50/s'.
    #[arg(long, value_name = "RULES")]
    pub reject: Option<RejectRules>,
    /// With --metric instructions: also estimate cycles
    ///
    /// The estimate comes from a cache model; no verdict is based on it.
    #[arg(long)]
    pub estimate_cycles: bool,
    /// Print the cases without measuring them
    #[arg(long, conflicts_with = "test")]
    pub list: bool,
    /// Run each case once and report failures, without measuring
    ///
    /// Parameters are set to small values.
    #[arg(long)]
    pub test: bool,
    /// Stop at the first failure
    #[arg(long)]
    pub fail_fast: bool,
    /// Stop after the first block of runs that completes past this time
    #[arg(long, value_name = "DUR", value_parser = parse::duration)]
    pub budget: Option<Duration>,
    /// Resume an interrupted session, e.g. @latest
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["list", "test", "seed", "pin", "reject"])]
    pub resume: Option<String>,
}

impl ExecutionArgs {
    /// Returns the metrics to report: `names` and, if requested, the estimate of cycles.
    pub fn report_metrics(&self, names: &[String]) -> Vec<String> {
        let cycles_estimate = self.estimate_cycles.then(|| Metric::CYCLES_ESTIMATE.to_owned());
        names.iter().cloned().chain(cycles_estimate).collect()
    }

    /// Returns the trial mode that `--test` selects.
    pub fn trial_mode(&self) -> TrialMode {
        if self.test { TrialMode::EveryWord } else { TrialMode::No }
    }
}

/// Returns how to count instructions, if `metrics` requests it.
pub fn instruction_counting(metrics: &[String], cache_model: bool) -> Option<InstructionCounting> {
    let is_requested = |metric: &str| metrics.iter().any(|name| name == metric);
    is_requested(Metric::INSTRUCTIONS).then(|| InstructionCounting {
        tool: String::new(),
        cache_model,
        also_timed: Metric::TIMES.into_iter().any(is_requested),
    })
}
