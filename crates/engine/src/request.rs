//! Defines the options for measuring, as plain data, and their defaults. `session.rs` plans
//! accordingly.

use crate::EventListener;
use crate::execution::ExecuteOptions;
use anyhow::{Result, bail};
use clap::Args;
use speedwell_adapters::TrialMode;
use speedwell_adapters::discover::{BenchmarkSelection, CaseDivision, DiscoveredBenchmarks};
use speedwell_adapters::plan::SessionPlan;
use speedwell_analysis::AnalysisSettings;
use speedwell_analysis::scaling::SaturationRules;
use speedwell_config::experiment::RolePlacement;
use speedwell_config::project::ProjectFile;
use speedwell_machine::environment;
use speedwell_machine::process::CpuSet;
use speedwell_model::{
    CodeOrigin, ComparedClock, Environment, InstructionCounting, LayoutVariation, MachinePlacement,
    Metric, OrderRequest, OriginRequest, RejectRules, RequestedDivision, RunCount, RunOrder,
    SampleDivision, SampleLength, SamplingOptions, SessionPurpose, SteadyRule, Variant,
    as_milliseconds, parse,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default number of runs if nothing is compared: the smallest number for which minimum and maximum
/// bound a 95% interval of the median (1 - 2 / 2^6 = 96.9%).
const RUNS_OF_ONE_VARIANT: u32 = 6;

/// Minimum number of runs per side to decide a comparison: the number at the first default look.
const MIN_TEST_RUNS: u32 = AnalysisSettings::DEFAULT_LOOKS[0];

/// Maximum number of runs when measuring until a precision is reached.
const RUNS_FOR_PRECISION: u32 = 40;

/// Options for measuring benchmarks.
#[derive(Debug, Clone, Default)]
pub struct MeasureRequest {
    /// What to measure: files, folders and names of groups.
    pub targets: Vec<String>,
    /// Which of the targets' benchmarks to measure, with which parameter values.
    pub selection: BenchmarkSelection,
    /// What to compare.
    pub variants: VariantRequest,
    /// How to plan runs.
    pub plan: PlanRequest,
    /// Acquires the machines for an experiment whose roles (target, services and load) run on
    /// different machines.
    pub place_roles: Option<PlaceRoles>,
}

/// Acquires a machine for every role of an experiment. Receives the roles and the folder of the
/// definition file. Returns where each role runs, and a guard that releases the machines when it is
/// dropped.
pub type PlaceRoles =
    fn(&RolePlacement, &Path, &mut EventListener<'_>) -> Result<(MachinePlacement, HeldMachines)>;

/// Holds machines until it is dropped.
pub type HeldMachines = Box<dyn std::any::Any + Send>;

/// What to compare with what.
#[derive(Debug, Clone, Default)]
pub struct VariantRequest {
    /// The variants. If empty, the variants that files declare are used.
    pub given: Vec<Variant>,
    /// Variants that are revisions of the user's repository.
    pub revisions: Vec<RevisionRequest>,
    /// How to build revisions.
    pub build: BuildArgs,
    /// Values or benchmarks of the targets that are the variants, instead of programs.
    pub division: Option<CaseDivision>,
    /// The baseline; the first variant by default.
    pub baseline: Option<String>,
    /// Arguments for every measured program. They come before the variant's own arguments.
    pub arguments: Vec<String>,
}

/// A revision whose code is a variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionRequest {
    /// Index of the variant.
    pub variant: usize,
    /// The revision as the user typed it.
    pub revision: String,
    /// Program that is built from the revision, relative to the current folder. If `None`, the
    /// target itself comes from the revision.
    pub program: Option<PathBuf>,
    /// Whether the variant is named after the revision, because it has no name of its own.
    pub names_variant: bool,
}

/// How to build revisions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct BuildArgs {
    /// Build each revision with this shell command
    ///
    /// The command runs in a worktree in the cache folder. Successful builds are cached.
    // The default is the command of the project file, if any.
    #[arg(long, value_name = "CMD")]
    pub build: Option<String>,
    /// Time limit for building a revision
    #[arg(long, value_name = "DUR", default_value = "1h", value_parser = parse::duration)]
    pub build_timeout: Duration,
}

/// Options for planning runs, for benchmarks as well as snippets.
#[derive(Debug, Clone, Default)]
pub struct PlanRequest {
    /// How much to measure.
    pub sampling: SamplingRequest,
    /// How to execute the runs.
    pub execution: ExecutionArgs,
    /// Confidence level of intervals and verdicts.
    pub confidence: Option<f64>,
    /// The smallest change that matters, as a fraction.
    pub threshold: Option<f64>,
    /// Counts instructions instead of measuring time.
    pub counting: Option<InstructionCounting>,
    /// What to vary in a program's memory layout between runs.
    pub layout: LayoutVariation,
    /// An option of the comparison that fixes the order under `--order auto`.
    pub fixed_by: Option<&'static str>,
    /// Purpose of the measurement. Confirming a suspected change allows fewer false alarms and
    /// therefore takes more runs.
    pub purpose: SessionPurpose,
}

impl PlanRequest {
    /// Fixes the order under `--order auto`, because the metric of a gate must not depend on the
    /// machine. The order of the project file applies to gates, too.
    pub const GATE_OPTION: &'static str = "--fail-on";

    /// Returns the option that fixes the order under `--order auto`, if there is one.
    pub fn fixing_option(&self) -> Option<&'static str> {
        let needs_blocks = [
            (self.counting.is_some(), "--metric"),
            (self.execution.clock == Some(ComparedClock::Wall), "--clock wall"),
            (self.execution.reject.is_some(), "--reject"),
            (self.sampling.precision.is_some(), "--precision"),
            (self.sampling.steady, "--steady"),
            (self.layout.builds > 0, "--builds"),
        ];
        let option = needs_blocks.into_iter().find(|(is_given, _)| *is_given);
        option.map(|(_, option)| option).or(self.fixed_by)
    }
}

/// How much to measure: options that all measuring commands have.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingRequest {
    /// Runs per case [default: 6; in comparisons 8 to 32]
    ///
    /// By default, a case with a single variant has 6 runs. When variants are compared, each side has as many as the
    /// sequential test needs, 8 to 32.
    #[arg(short = 'r', long, value_name = "N", value_parser = parse::count)]
    pub runs: Option<u32>,
    /// Minimum number of runs per case and variant, if their number is not fixed.
    #[arg(skip)]
    pub min_runs: Option<u32>,
    /// Maximum number of runs.
    #[arg(skip)]
    pub max_runs: Option<u32>,
    /// Without comparison: measure to this precision, in up to 40 runs
    ///
    /// The precision is the half width of the interval.
    #[arg(
        long,
        value_name = "PCT",
        value_parser = parse::percentage_as_fraction,
        conflicts_with = "runs"
    )]
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
    #[arg(long, value_name = "N", value_parser = parse::count, conflicts_with = "time")]
    pub iterations: Option<u32>,
    /// Warm-up before the first sample; 0 for none [default: 100ms]
    ///
    /// Its iterations are not measured.
    #[arg(short = 'w', long, value_name = "DUR", value_parser = WarmupLength::parse_time)]
    pub warmup: Option<WarmupLength>,
    /// Also find each run's steady part, as metric 'steady_time'
    ///
    /// Every run is recorded from its first iteration.
    #[arg(
        long,
        conflicts_with_all = ["samples", "time", "iterations", "warmup", "precision"]
    )]
    pub steady: bool,
    /// Time limit per run
    #[arg(long, value_name = "DUR", default_value = "5m", value_parser = parse::duration)]
    pub timeout: Option<Duration>,
}

/// Value of `--warmup`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarmupLength {
    /// This long.
    Time(Duration),
    /// For commands: this many executions.
    Executions(u32),
}

impl WarmupLength {
    /// Parses a duration with a unit, or `0`.
    ///
    /// # Errors
    /// Fails for anything else.
    pub fn parse_time(text: &str) -> Result<WarmupLength, String> {
        parse::warmup_time(text).map(WarmupLength::Time)
    }

    /// Parses a duration with a unit, or a number of executions.
    ///
    /// # Errors
    /// Fails for anything else.
    pub fn parse(text: &str) -> Result<WarmupLength, String> {
        parse::count(text).map(WarmupLength::Executions).or_else(|_| WarmupLength::parse_time(text))
    }
}

/// How to execute the runs: options of every command that measures.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Execution")]
pub struct ExecutionArgs {
    /// auto, blocks, paired or alternate [default: blocks]
    ///
    /// 'paired' runs baseline and candidate together on one processor and compares processor time, for busy machines.
    /// 'auto' chooses before the first run. 'alternate' is the order that Node core uses. 'parallel' is for snippets
    /// only.
    #[arg(long, value_name = "ORDER")]
    pub order: Option<OrderRequest>,
    /// Order that the project file requests for comparisons.
    #[arg(skip)]
    pub project_order: Option<OrderRequest>,
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
    /// Run each case once and report failures
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

    /// Returns the order for a session of this many variants. The project file's order applies only
    /// to comparisons.
    pub fn order_request(&self, variants: usize) -> OrderRequest {
        self.order.or(self.project_order.filter(|_| variants > 1)).unwrap_or_default()
    }

    /// Whether the user requested exactly this order.
    pub fn is_order(&self, order: RunOrder) -> bool {
        self.order == Some(OrderRequest::Fixed(order))
    }

    /// Whether the user requested an order that may not be blocks.
    pub fn excludes_blocks(&self) -> bool {
        self.order.is_some_and(|order| order.initial_order() != RunOrder::Blocks)
    }

    /// Returns the options with the order of the project file, which `--order` overrides.
    ///
    /// # Errors
    /// Fails if the project file cannot be read.
    pub fn with_project_order(&self) -> Result<ExecutionArgs> {
        let project = match self.order {
            Some(_) => None,
            None => ProjectFile::find_file(&std::env::current_dir()?)?,
        };
        let project_order = project.and_then(|project| project.order);
        Ok(ExecutionArgs { project_order, ..self.clone() })
    }

    /// Returns the trial mode that `--test` selects.
    pub fn trial_mode(&self) -> TrialMode {
        if self.test { TrialMode::EveryWord } else { TrialMode::No }
    }
}

/// A search for the concurrency at which throughput stops growing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SearchRequest {
    /// The levels of concurrency are multiples of this number. By default, each level is twice the
    /// level before, and the search then refines around the best level.
    pub step: Option<u32>,
    /// The highest level of concurrency to try.
    pub limit: Option<u32>,
    /// Number of levels without growth after which to stop.
    pub patience: Option<u32>,
    /// Visits (measurements) per level. Levels that decide the answer may get more.
    pub visits: Option<u32>,
}

/// Options for measuring and storing a session.
#[derive(Debug, Clone, Default)]
pub struct SessionRequest {
    /// Settings of the analysis that decides when a case needs no more runs.
    pub settings: AnalysisSettings,
    /// Tags of the session.
    pub tags: Vec<String>,
    /// The command line, stored with the session.
    pub command: Vec<String>,
    /// The revision and branch that the user gave for the measured code. If `None`, revision and
    /// branch are not looked up either.
    pub origin: Option<OriginRequest>,
    /// The user's name for the machine.
    pub machine: Option<String>,
    /// The server project to push the session to when it ends.
    pub push: Option<String>,
    /// Whether to stop at the first failure.
    pub fail_fast: bool,
    /// Whether the user gave options that divide runs into samples.
    pub divides_runs: bool,
}

impl SessionRequest {
    /// Looks up the code that is measured in the current folder.
    pub fn find_origin(&self) -> Option<CodeOrigin> {
        environment::find_origin(Path::new("."), self.origin.as_ref()?)
    }

    /// Captures the machine and the facts about programs; see [`environment::capture_environment`].
    pub fn capture_environment(
        &self,
        programs: &[(String, PathBuf, Option<String>)],
    ) -> Environment {
        Environment { machine: self.machine.clone(), ..environment::capture_environment(programs) }
    }
}

impl SearchRequest {
    /// Returns the rules of the search, which starts at level `first`. `limit` is the highest level
    /// if the request has none.
    pub fn search_rules(&self, first: u32, limit: u32) -> SaturationRules {
        let defaults = SaturationRules::default();
        let visits = self.visits.unwrap_or(defaults.visits);
        SaturationRules {
            first,
            step: self.step,
            limit: self.limit.unwrap_or(limit),
            patience: self.patience.unwrap_or(defaults.patience),
            visits,
            most_visits: defaults.most_visits.max(visits),
        }
    }
}

impl SamplingRequest {
    /// Returns the sampling options for this many variants.
    pub fn sampling_options(&self, variants: usize) -> SamplingOptions {
        let runs = match (self.runs, self.precision) {
            (Some(runs), _) => RunCount::Fixed(runs),
            (None, Some(_)) if variants == 1 => {
                RunCount::Fixed(self.max_runs.unwrap_or(RUNS_FOR_PRECISION))
            }
            (None, _) if variants == 1 => {
                let max_runs = self.max_runs.unwrap_or(u32::MAX);
                RunCount::Fixed(RUNS_OF_ONE_VARIANT.max(self.min_runs.unwrap_or(0)).min(max_runs))
            }
            (None, _) => RunCount::Sequential,
        };
        SamplingOptions {
            runs,
            precision: self.precision.filter(|_| variants == 1),
            timeout_ms: as_milliseconds(self.timeout.unwrap_or(SamplingOptions::USUAL_TIMEOUT)),
            budget_ms: None,
            samples: self.sample_division(SampleDivision::default()),
            requested: RequestedDivision {
                count: self.samples,
                length: self.length(),
                warmup_ns: self.warmup_ns(),
            },
            clock: ComparedClock::Wall,
        }
    }

    /// Returns the numbers of runs after which to look at the results, within the bounds on runs.
    /// The last look is at the maximum number of runs.
    pub(crate) fn bounded_looks(&self, default_looks: &[u32]) -> Vec<u32> {
        let min_runs = self.min_runs.unwrap_or(0);
        let last = default_looks.last().copied().unwrap_or(0);
        let max_runs = self.max_runs.unwrap_or(last.max(min_runs));
        let is_within_bounds = |look: &u32| *look >= min_runs && *look < max_runs;
        let looks = default_looks.iter().copied().filter(is_within_bounds);
        looks.chain([max_runs]).collect()
    }

    /// Rejects bounds on the number of runs if they leave too few runs to decide a comparison of
    /// this many variants.
    ///
    /// # Errors
    /// Fails if the minimum is above the maximum, or the maximum is below what a test needs.
    pub fn check_bounds(&self, variants: usize) -> Result<()> {
        if let (Some(min_runs), Some(max_runs)) = (self.min_runs, self.max_runs)
            && min_runs > max_runs
        {
            bail!("--min-runs {min_runs} is more than --max-runs {max_runs}");
        }
        match self.max_runs {
            Some(max_runs) if variants > 1 && max_runs < MIN_TEST_RUNS => bail!(
                "--max-runs {max_runs} is too few: a comparison needs at least {MIN_TEST_RUNS} runs of \
                 each variant\nhint: --runs {max_runs} measures exactly that many, but the verdict may \
                 be 'unclear'"
            ),
            _ => Ok(()),
        }
    }

    /// How to divide a run; `defaults` provides what the request leaves open.
    pub fn sample_division(&self, defaults: SampleDivision) -> SampleDivision {
        SampleDivision {
            count: self.samples.unwrap_or(defaults.count),
            length: self.length().unwrap_or(defaults.length),
            warmup_ns: self.warmup_ns().unwrap_or(defaults.warmup_ns),
        }
    }

    /// Length of a sample, if it is given.
    fn length(&self) -> Option<SampleLength> {
        let time = self.time.map(|time| SampleLength::TimeNs(time.as_nanos() as u64));
        self.iterations.map(|count| SampleLength::Iterations(count.into())).or(time)
    }

    /// Warm-up time in nanoseconds, if it is given.
    pub fn warmup_ns(&self) -> Option<u64> {
        let WarmupLength::Time(time) = self.warmup? else { return None };
        Some(time.as_nanos() as u64)
    }

    /// Warm-up executions of a command, if they are given.
    pub fn warmup_executions(&self) -> Option<u32> {
        let WarmupLength::Executions(count) = self.warmup? else { return None };
        Some(count)
    }

    /// Returns the rule that finds the steady part of every run, or `None` without `--steady`.
    pub fn steady_rule(&self, clock: Option<ComparedClock>) -> Option<SteadyRule> {
        self.steady.then(|| SteadyRule { clock, is_metric: true, ..SteadyRule::default() })
    }

    /// Whether any option divides runs in a non-default way.
    pub fn divides_runs(&self) -> bool {
        self.samples.is_some() || self.length().is_some() || self.warmup_ns().is_some()
    }
}

/// A plan and related information.
pub struct PreparedPlan {
    /// What to execute.
    pub plan: SessionPlan,
    /// The discovered benchmarks, with the warnings and failures of the discovery.
    pub suite: DiscoveredBenchmarks,
    /// The session to resume, with its finished work.
    pub resumed: Option<ResumedSession>,
    /// The machines of an experiment whose roles run on different machines.
    pub held: Option<HeldMachines>,
}

/// A session to resume.
pub struct ResumedSession {
    /// Number of the session.
    pub number: i64,
    /// The finished work of the session. Its runs are omitted if the session is measured on other
    /// machines. For a large session, it has only the runs that are still needed.
    pub finished: ExecuteOptions,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct SamplingCli {
        #[command(flatten)]
        sampling: SamplingRequest,
    }

    fn args(words: &[&str]) -> SamplingRequest {
        SamplingCli::parse_from([&["x"], words].concat()).sampling
    }

    #[test]
    fn a_run_is_divided_as_requested_or_by_default() {
        assert_eq!(args(&[]).sampling_options(1).samples, SampleDivision::default());
        assert!(!args(&["--runs", "3"]).divides_runs());
        let requested = args(&["-n", "9", "-t", "2ms", "-w", "0"]);
        let expected =
            SampleDivision { count: 9, length: SampleLength::TimeNs(2_000_000), warmup_ns: 0 };
        assert_eq!(requested.sampling_options(2).samples, expected);
        let fixed = args(&["--iterations", "10k"]);
        assert_eq!(fixed.sampling_options(1).samples.length, SampleLength::Iterations(10_000));
        assert!(requested.divides_runs() && fixed.divides_runs());
        assert!(SamplingCli::try_parse_from(["x", "-w", "3"]).is_err(), "a unit is missing");
        assert_eq!(WarmupLength::parse("3"), Ok(WarmupLength::Executions(3)));
        assert_eq!(WarmupLength::parse("0"), Ok(WarmupLength::Time(Duration::ZERO)));
    }
}
