//! How runs are executed.

use clap::{Args, ValueEnum};
use speedwell_harness::Trial;
use speedwell_measure::PlanRequest;
use speedwell_model::{Clock, Order};
use speedwell_process::CpuSet;
use std::time::Duration;

use super::{ComparisonArgs, SamplingArgs, parse};

/// Execution options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Execution")]
pub struct ExecutionArgs {
    /// Order of runs: randomised blocks; pairs that share one processor and are compared by processor time, for busy
    /// machines; fixed alternation as in Node core; or, for snippets, all at once
    #[arg(long, value_name = "ORDER", default_value = "blocks")]
    pub order: OrderName,
    /// Time to compare: wall, or cpu for the processor time of work that does not wait
    #[arg(long, value_name = "CLOCK")]
    pub clock: Option<ClockName>,
    /// Seed of all random choices [default: random; stored and shown]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Pin measured processes to these CPUs, e.g. 1 or 0,2-3
    #[arg(long, value_name = "CPUS")]
    pub pin: Option<CpuSet>,
    /// Print the cases and measure nothing
    #[arg(long, conflicts_with = "test")]
    pub list: bool,
    /// Run each case once with small values and report what fails; no figures
    #[arg(long)]
    pub test: bool,
    /// Stop at the first failure
    #[arg(long)]
    pub fail_fast: bool,
    /// Stop after the first complete block of runs after this time
    #[arg(long, value_name = "DUR", value_parser = parse::duration)]
    pub budget: Option<Duration>,
    /// Resume an interrupted session, e.g. @latest
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["list", "test", "seed", "pin"])]
    pub resume: Option<String>,
}

impl ExecutionArgs {
    /// Whether cases are only tried.
    pub fn trial(&self) -> Trial {
        if self.test {
            Trial::EveryWord
        } else {
            Trial::No
        }
    }

    /// How runs are planned.
    pub fn plan(&self, sampling: &SamplingArgs, comparison: &ComparisonArgs) -> PlanRequest {
        PlanRequest {
            sampling: sampling.request(),
            order: self.order.into(),
            clock: self.clock.map(Clock::from).unwrap_or_default(),
            seed: self.seed,
            pin: self.pin.clone(),
            budget: self.budget,
            confidence: comparison.confidence,
            threshold: comparison.threshold,
        }
    }
}

/// Times that can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ClockName {
    /// Waiting included.
    Wall,
    /// What processors spend.
    Cpu,
}

impl From<ClockName> for Clock {
    fn from(name: ClockName) -> Clock {
        match name {
            ClockName::Wall => Clock::Wall,
            ClockName::Cpu => Clock::Cpu,
        }
    }
}

/// Orders that can be asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum OrderName {
    /// Randomised blocks.
    #[default]
    Blocks,
    /// Baseline and candidate at once on one processor.
    Paired,
    /// Baseline, candidate, baseline, candidate ...
    Alternate,
    /// All at the same time.
    Parallel,
}

impl From<OrderName> for Order {
    fn from(name: OrderName) -> Order {
        match name {
            OrderName::Blocks => Order::Blocks,
            OrderName::Paired => Order::Paired,
            OrderName::Alternate => Order::Alternate,
            OrderName::Parallel => Order::Parallel,
        }
    }
}
