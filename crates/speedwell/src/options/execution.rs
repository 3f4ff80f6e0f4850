//! Defines the options that control how runs are planned, executed, and divided into samples.

use clap::{Args, ValueEnum};
use speedwell_adapters::TrialMode;
use speedwell_engine::{PlanRequest, SamplingRequest};
use speedwell_machine::process::CpuSet;
use speedwell_model::{
    ComparedClock, InstructionCounting, LayoutVariation, Metric, RejectRules, RunOrder,
    SampleLength, SessionPurpose, SteadyRule,
};
use std::time::Duration;

use super::{ComparisonArgs, parse};

/// Execution options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Execution")]
pub struct ExecutionArgs {
    /// Order of runs
    ///
    /// 'paired' runs baseline and candidate together on one processor and compares processor time, for busy machines.
    /// 'alternate' is the order of Node core. 'parallel' is for snippets only.
    #[arg(long, value_name = "ORDER", default_value = "blocks")]
    pub order: OrderName,
    /// Which time to compare: wall, or cpu for code that does not wait
    ///
    /// cpu is the processor time, which excludes time spent sleeping or waiting for I/O.
    #[arg(long, value_name = "CLOCK")]
    pub clock: Option<ClockName>,
    /// Seed for all random choices [default: random; stored and shown]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Pin measured processes to these CPUs, e.g. 1 or 0,2-3
    #[arg(long, value_name = "CPUS")]
    pub pin: Option<CpuSet>,
    /// Repeat runs that were disturbed, e.g. 'steal>1%'
    ///
    /// Runs that exceed these limits of kernel counters are excluded and repeated, e.g. 'steal>1%,involuntary>50/s'.
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

    /// Builds the request for the plan of runs. `metrics` are the requested metrics.
    pub fn plan_request(
        &self,
        sampling: &SamplingArgs,
        comparison: &ComparisonArgs,
        metrics: &[String],
    ) -> PlanRequest {
        PlanRequest {
            sampling: sampling.sampling_request(),
            order: self.order.into(),
            clock: self.clock.map(ComparedClock::from).unwrap_or_default(),
            seed: self.seed,
            pin: self.pin.clone(),
            budget: self.budget,
            confidence: comparison.confidence,
            threshold: comparison.threshold,
            reject: self.reject.clone().unwrap_or_default(),
            counting: instruction_counting(metrics, self.estimate_cycles),
            layout: LayoutVariation::default(),
            purpose: SessionPurpose::Measured,
        }
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

/// Sampling options.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingArgs {
    /// Runs per case and variant [default: 6; in comparisons 8 to 32]
    ///
    /// By default, a case with a single variant has 6 runs. When variants are compared, each side has as many as the
    /// sequential test needs, 8 to 32.
    #[arg(short = 'r', long, value_name = "N", value_parser = parse::count)]
    pub runs: Option<u32>,
    /// Without comparison: measure to this precision, in up to 40 runs
    ///
    /// The precision is the half width of the interval.
    #[arg(long, value_name = "PCT", value_parser = parse::percentage_as_fraction, conflicts_with = "runs")]
    pub precision: Option<f64>,
    /// Samples per run [default: 5]
    ///
    /// For harnesses that run the loop themselves: C++, Python and snippets.
    #[arg(short = 'n', long, value_name = "N", value_parser = parse::count)]
    pub samples: Option<u32>,
    /// Duration of a sample [default: 50ms]
    ///
    /// The harness determines the number of iterations.
    #[arg(short = 't', long, value_name = "DUR", value_parser = parse::duration)]
    pub time: Option<Duration>,
    /// Iterations per sample, instead of a duration
    #[arg(short = 'i', long, value_name = "N", value_parser = parse::count, conflicts_with = "time")]
    pub iterations: Option<u32>,
    /// Warm-up before the first sample; 0 for none [default: 100ms]
    ///
    /// Its iterations do not count.
    #[arg(short = 'w', long, value_name = "DUR", value_parser = parse::duration_or_none)]
    pub warmup: Option<Duration>,
    /// Also find each run's steady part, as metric 'steady_time'
    ///
    /// Every run is recorded from its first iteration.
    #[arg(long, conflicts_with_all = ["samples", "time", "iterations", "warmup", "precision"])]
    pub steady: bool,
    /// Time limit per run
    #[arg(long, value_name = "DUR", default_value = "5m", value_parser = parse::duration)]
    pub timeout: Duration,
}

impl SamplingArgs {
    /// Returns the rule that finds the steady part of every run, or `None` without `--steady`.
    pub fn steady_rule(&self, clock: Option<ClockName>) -> Option<SteadyRule> {
        self.steady.then(|| SteadyRule {
            clock: clock.map(ComparedClock::from),
            is_metric: true,
            ..SteadyRule::default()
        })
    }

    pub fn sampling_request(&self) -> SamplingRequest {
        let to_ns = |time: Duration| time.as_nanos() as u64;
        let time = self.time.map(|time| SampleLength::TimeNs(to_ns(time)));
        let iterations = self.iterations.map(|count| SampleLength::Iterations(count.into()));
        SamplingRequest {
            runs: self.runs,
            min_runs: None,
            max_runs: None,
            precision: self.precision,
            samples: self.samples,
            length: iterations.or(time),
            warmup_ns: self.warmup.map(to_ns),
            timeout: Some(self.timeout),
        }
    }
}

/// Selectable clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ClockName {
    /// Elapsed time, including waiting.
    Wall,
    /// Processor time.
    Cpu,
}

impl From<ClockName> for ComparedClock {
    fn from(name: ClockName) -> ComparedClock {
        match name {
            ClockName::Wall => ComparedClock::Wall,
            ClockName::Cpu => ComparedClock::Cpu,
        }
    }
}

/// Selectable orders.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum OrderName {
    /// Randomised blocks.
    #[default]
    Blocks,
    /// Baseline and candidate at the same time on one processor.
    Paired,
    /// Baseline, candidate, baseline, candidate ...
    Alternate,
    /// All at the same time.
    Parallel,
}

impl From<OrderName> for RunOrder {
    fn from(name: OrderName) -> RunOrder {
        match name {
            OrderName::Blocks => RunOrder::Blocks,
            OrderName::Paired => RunOrder::Paired,
            OrderName::Alternate => RunOrder::Alternate,
            OrderName::Parallel => RunOrder::Parallel,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use speedwell_model::SampleDivision;

    #[derive(Parser)]
    struct SamplingCli {
        #[command(flatten)]
        sampling: SamplingArgs,
    }

    fn args(words: &[&str]) -> SamplingRequest {
        SamplingCli::parse_from([&["x"], words].concat()).sampling.sampling_request()
    }

    #[test]
    fn a_run_is_divided_as_requested_or_by_default() {
        assert_eq!(args(&[]).sampling_options(1).samples, SampleDivision::default());
        assert!(!args(&["--runs", "3"]).divides_runs());
        let requested = args(&["-n", "9", "-t", "2ms", "-w", "0"]);
        let expected =
            SampleDivision { count: 9, length: SampleLength::TimeNs(2_000_000), warmup_ns: 0 };
        assert_eq!(requested.sampling_options(2).samples, expected);
        let fixed = args(&["-i", "10k"]);
        assert_eq!(fixed.sampling_options(1).samples.length, SampleLength::Iterations(10_000));
        assert!(requested.divides_runs() && fixed.divides_runs());
    }
}
