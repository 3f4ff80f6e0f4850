//! Implements `speedwell warmup`: finds out which processes become steady, when, and at what cost.
//!
//! `series.rs` plans the recordings, `analysis::warmup` decides when a series is steady, and
//! `run.rs` reports the results. Start at [`run`].

pub mod series;

use crate::options::{
    ComparisonArgs, MeasureTask, OutputArgs, SelectionArgs, SnippetArgs, StoreArgs, VariantArgs,
    hide_unused, language, parse, read_snippets,
};
use crate::stored_session::load_interrupted_plan;
use crate::{CommandStatus, run as measuring};
use anyhow::ensure;
use clap::Args;
use series::{SeriesLength, plan_series};
use speedwell_adapters::discover::BenchmarkSelection;
use speedwell_engine::eval::{self, EvalRequest};
use speedwell_engine::{ExecutionArgs, PlanRequest, PreparedPlan, SamplingRequest};
use speedwell_machine::process;
use speedwell_model::{SnippetLanguage, SteadyRule};
use speedwell_report as report;
use std::time::Duration;

/// Find out whether and when processes reach a steady state, and what the warm-up costs
///
/// Every run is a fresh process, recorded from its first iteration. Changes in the level of its times are detected, and
/// the process is classified as flat, a warm-up, a slow-down, cyclic, without steady state, or unclear. The results are
/// three figures: the time of an iteration in the steady part, the time until that part begins, and the total. With
/// several variants, all three are compared. Files in C++ and Python can be recorded, and, with --code, snippets in
/// every language.
///
/// With --fail-on, exit status 1 if a figure is worse or a case has no steady state, provided that at least 80% of the
/// processes agree.
#[derive(Debug, Args)]
#[command(mut_args(|arg| hide_unused(arg, "names chart reject estimate_cycles")), after_help = "Examples:
  speedwell warmup examples/python/data/lists.py
  speedwell warmup --code node 'JSON.stringify(state)' --init-worker '@big.json' -o warmup.html
  speedwell warmup --code python 'f(1000)' 'g(1000)' --init '@functions.py'
  speedwell warmup sort.cpp --variant 'O2=g++ -O2' --variant 'O3=g++ -O3' --time 10s")]
pub struct WarmupArgs {
    /// Files, folders, group names, NAME=VALUE; with --code, snippets
    ///
    /// NAME=VALUE sets a parameter.
    #[arg(index = 1, value_name = "TARGET|NAME=VALUE", required_unless_present = "resume")]
    targets: Vec<String>,
    /// After '--': arguments for every measured program
    ///
    /// They precede the variant's own arguments.
    #[arg(index = 2, last = true, value_name = "ARG")]
    arguments: Vec<String>,
    /// Record snippets in this language, e.g. node
    ///
    /// The languages are erlang, elixir, node, python, c, cpp, go, rust, java and sh.
    #[arg(long, value_name = "LANG", value_parser = language, help_heading = "Code")]
    code: Option<SnippetLanguage>,
    #[command(flatten)]
    snippet: SnippetArgs,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Processes per case and variant
    #[arg(short = 'r', long, value_name = "N", default_value = "10", value_parser = parse::count, help_heading = "Sampling")]
    runs: u32,
    /// Iterations per process [default: as many as take 2 to 30s]
    ///
    /// The iterations of a process are grouped into points of at least a millisecond, or shorter ones if N is small. By default, 2000 points are recorded, or fewer if they would take more than 30 s.
    #[arg(long, value_name = "N", value_parser = parse::count, conflicts_with = "time", help_heading = "Sampling")]
    iterations: Option<u32>,
    /// Approximate time to record a process, instead of --iterations
    #[arg(short = 't', long, value_name = "DUR", value_parser = parse::duration, help_heading = "Sampling")]
    time: Option<Duration>,
    /// Treat levels that differ by no more than this as one
    #[arg(long, value_name = "PCT", default_value = "2%", value_parser = parse::percentage_as_fraction, help_heading = "Sampling")]
    delta: f64,
    /// Minimum part of a process that must be steady
    #[arg(long, value_name = "PCT", default_value = "25%", value_parser = parse::percentage_as_fraction, help_heading = "Sampling")]
    steady: f64,
    /// Time limit per run
    #[arg(long, value_name = "DUR", default_value = "5m", value_parser = parse::duration, help_heading = "Sampling")]
    timeout: Duration,
    #[command(flatten)]
    variants: VariantArgs,
    #[command(flatten)]
    execution: ExecutionArgs,
    #[command(flatten)]
    comparison: ComparisonArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// Records every process from its first iteration, and reports the results.
///
/// # Errors
/// Fails if an option is invalid, a target has its own measuring loop, or the store cannot be
/// written.
pub fn run(args: WarmupArgs) -> anyhow::Result<CommandStatus> {
    ensure!(
        args.steady < 1.0,
        "the steady part must be less than the whole process, but --steady is {}",
        report::format_share(args.steady)
    );
    process::prepare_to_measure()?;
    let task = args.measure_task();
    let mut store = task.open_store()?;
    let plans = match &args.execution.resume {
        Some(session) => load_interrupted_plan(&store, session, &task)?,
        None if args.execution.list || args.execution.test => args.plan_runs(&task)?,
        None => {
            let rule = SteadyRule {
                delta: args.delta,
                min_share: args.steady,
                clock: args.execution.clock,
                is_metric: false,
            };
            let plans = args.plan_runs(&task)?;
            plan_series(plans, args.series_length(), rule, &mut task.progress_display())?
        }
    };
    measuring::execute_plans(plans, &mut store, &task)
}

impl WarmupArgs {
    fn series_length(&self) -> SeriesLength {
        match (self.iterations, self.time) {
            (Some(count), _) => SeriesLength::Iterations(count.into()),
            (None, Some(time)) => SeriesLength::Time(time),
            (None, None) => SeriesLength::Usual,
        }
    }

    /// Plans ordinary runs, which [`plan_series`] turns into recordings.
    fn plan_runs(&self, task: &MeasureTask) -> anyhow::Result<PreparedPlan> {
        let plan = PlanRequest {
            sampling: SamplingRequest {
                runs: Some(self.runs),
                timeout: Some(self.timeout),
                ..SamplingRequest::default()
            },
            // The steady part determines the clock, and disturbed runs are not repeated.
            execution: ExecutionArgs { clock: None, reject: None, ..self.execution.clone() },
            confidence: self.comparison.confidence,
            threshold: self.comparison.threshold,
            ..PlanRequest::default()
        };
        match self.code {
            Some(language) => {
                let request = EvalRequest {
                    parameters: Vec::new(),
                    selection: BenchmarkSelection::default(),
                    language,
                    snippets: read_snippets(language, &self.targets, &self.snippet, &[])?,
                    levels: Vec::new(),
                    variants: self.variants.variant_request(&self.arguments)?,
                    program: None,
                    plan,
                    shares_process: false,
                };
                eval::plan_snippets(request, &mut task.progress_display())
            }
            None => {
                let (targets, variants) = (&self.targets, &self.variants);
                let request =
                    self.selection.measure_request(targets, &self.arguments, variants, plan)?;
                PreparedPlan::read(&request, &mut task.progress_display())
            }
        }
    }

    fn measure_task(&self) -> MeasureTask {
        MeasureTask {
            settings: self.comparison.analysis_settings(&[], None),
            fail_on: self.comparison.fail_on,
            gate_options: self.comparison.gate_options(&[]),
            execution: self.execution.clone(),
            output: self.output.clone(),
            store: self.store.clone(),
            resume_command: "warmup",
            ..MeasureTask::default()
        }
    }
}
