//! Implements `speedwell warmup`: finds out which processes become steady, when, and at what cost.
//!
//! The module also changes plans so that they record each run as a time series from its first
//! iteration on, for this command and for the option `--steady` ([`plan_series`]). First, every case
//! is run once to find out how long an iteration takes; this run is discarded. The module then
//! decides how many iterations make one point of a series, and how many points a process records.
//! `analysis::warmup` decides when a series is steady, and `run.rs` reports the results. Start at
//! [`run`].

use crate::options::{
    ComparisonArgs, MeasureTask, OutputArgs, SelectionArgs, SnippetArgs, StoreArgs, VariantArgs,
    hide_unused, language, parse, read_snippets,
};
use crate::stored_session::load_interrupted_plan;
use crate::{CommandStatus, run as measuring};
use anyhow::{Context, bail, ensure};
use clap::Args;
use speedwell_adapters::discover::BenchmarkSelection;
use speedwell_adapters::{self as adapters, BenchmarkJob, SourceKind};
use speedwell_analysis::AnalysisSettings;
use speedwell_engine::eval::{self, EvalRequest};
use speedwell_engine::execution::{ExecuteOptions, SessionEnd, execute};
use speedwell_engine::{
    AnalysisStoppingRule, EventListener, ExecutionArgs, PlanRequest, PreparedPlan, SamplingRequest,
};
use speedwell_machine::process::{self, InterruptedEarly};
use speedwell_model::{
    Metric, Run, RunOrder, SampleDivision, SampleLength, SessionEvent, SessionObserver,
    SnippetLanguage, SteadyRule, StoppingDesign, quote,
};
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

/// Length of a process's series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeriesLength {
    /// 2000 points, or fewer if 2000 would take more than half a minute.
    Usual,
    /// This many iterations.
    Iterations(u64),
    /// As many iterations as take about this long.
    Time(Duration),
}

/// Number of points of a default series, as in Barrett et al., OOPSLA 2017.
const DEFAULT_POINTS: u64 = 2000;
/// Longest duration of a default series.
const MAX_DEFAULT_TIME: Duration = Duration::from_secs(30);
/// Maximum number of points of a series. In longer series, every point covers more iterations.
const MAX_POINTS: u64 = 100_000;
/// Minimum number of points to find a change of level.
const MIN_POINTS: u64 = 50;
/// Minimum duration of a point, so that occasional interrupts do not dominate it.
const MIN_POINT_NS: f64 = 1e6;
/// Minimum duration of a point if the user requests few iterations. In shorter points, reading the
/// clock would take too large a share.
const MIN_SHORT_POINT_NS: f64 = 50e3;
/// If the user requests few iterations, a single iteration may be a point if it takes longer than
/// this.
const SINGLE_POINT_NS: f64 = 20e3;

/// Turns every run of the plan into a series of the given length. `rule` finds the steady part.
///
/// # Errors
/// Fails if a case has its own loop, if processes do not run one at a time, if the series is too
/// short, or if the user interrupts the discarded runs.
pub fn plan_series(
    mut plans: PreparedPlan,
    length: SeriesLength,
    rule: SteadyRule,
    listener: &mut EventListener<'_>,
) -> anyhow::Result<PreparedPlan> {
    for job in &plans.plan.jobs {
        check_records_series(job)?;
    }
    ensure!(
        matches!(plans.plan.design.order, RunOrder::Blocks | RunOrder::Alternate)
            && !plans.plan.shared,
        "--order cannot be combined with recording series: every process must run alone\nhint: leave \
         out --order"
    );
    let runs = measure_iteration_times(&plans, listener)?;
    for job in &mut plans.plan.jobs {
        let name = job.label.clone();
        let job_runs = runs.iter().filter(|run| run.case.id() == name);
        // Use the fastest sample, because a busy machine only makes samples longer.
        let samples = job_runs.flat_map(|run| &run.samples);
        let rates = samples.filter(|sample| *sample.metric == *Metric::THROUGHPUT);
        let time_ns = rates.map(|sample| 1e9 / sample.value).fold(f64::INFINITY, f64::min);
        if time_ns.is_finite() {
            let samples = divide_series(length, time_ns).with_context(|| format!("in '{name}'"))?;
            job.samples = Some(samples);
        }
    }
    plans.plan.design.steady = Some(rule);
    let (count, iterations) = match length {
        SeriesLength::Iterations(count) => {
            (count.clamp(1, MAX_POINTS), count.div_ceil(MAX_POINTS).max(1))
        }
        _ => (DEFAULT_POINTS, 1),
    };
    plans.plan.sampling.samples = divide_evenly(count, iterations);
    Ok(plans)
}

fn divide_evenly(count: u64, iterations: u64) -> SampleDivision {
    let length = SampleLength::Iterations(iterations);
    SampleDivision { count: count as u32, length, warmup_ns: 0 }
}

fn check_records_series(job: &BenchmarkJob) -> anyhow::Result<()> {
    let kind = job.source.kind;
    if kind.records_series() {
        return Ok(());
    }
    let name = &job.source.name;
    let hint = match kind {
        SourceKind::Node | SourceKind::NodeCore => {
            "\nhint: speedwell warmup --code node 'CODE' measures code in Speedwell's loop"
        }
        SourceKind::Suite => {
            "\nhint: a C++ file that includes speedwell.hpp uses Speedwell's loop: create one with \
             'speedwell new suite'"
        }
        _ => "",
    };
    bail!("'{}' has its own loop, so its first iterations cannot be recorded{hint}", quote(name))
}

/// Runs every case and variant once to find out how long iterations take.
fn measure_iteration_times(
    plans: &PreparedPlan,
    listener: &mut EventListener<'_>,
) -> anyhow::Result<Vec<Run>> {
    listener.observe(&SessionEvent::Note("measuring how long iterations take"))?;
    let mut plan = plans.plan.clone();
    plan.design.stopping = StoppingDesign::Fixed { runs: 1 };
    plan.design.runs_per_block = 1;
    plan.sampling.samples = SampleDivision::default();
    let options = ExecuteOptions {
        time_budget: plan.sampling.budget_ms.map(Duration::from_millis),
        ..ExecuteOptions::default()
    };
    let mut stopping_rule = AnalysisStoppingRule::new(&plan, &AnalysisSettings::default());
    let mut collector = RunCollector::default();
    let ended = execute(&plan, options, &mut stopping_rule, &mut [&mut collector]);
    adapters::remove_builds();
    process::clear_interrupt();
    if ended? == SessionEnd::Complete { Ok(collector.0) } else { Err(InterruptedEarly.into()) }
}

/// Keeps the discarded runs until their times are known. Ignores failures, which are reported when
/// the measured runs fail, too.
#[derive(Default)]
struct RunCollector(Vec<Run>);

impl SessionObserver for RunCollector {
    fn observe(&mut self, event: &SessionEvent<'_>) -> anyhow::Result<()> {
        if let SessionEvent::RunFinished(run) = event {
            self.0.push((*run).clone());
        }
        Ok(())
    }
}

/// Decides how many points a series has, and how many iterations make one point. An iteration takes
/// `time_ns`.
fn divide_series(length: SeriesLength, time_ns: f64) -> anyhow::Result<SampleDivision> {
    let iterations_lasting = |ns: f64| (ns / time_ns).ceil().max(1.0) as u64;
    let (iterations, count) = match length {
        SeriesLength::Usual => {
            let iterations = iterations_lasting(MIN_POINT_NS);
            let max_points = MAX_DEFAULT_TIME.as_nanos() as f64 / (iterations as f64 * time_ns);
            (iterations, DEFAULT_POINTS.min(max_points as u64).max(MIN_POINTS))
        }
        SeriesLength::Time(time) => {
            let total_ns = time.as_nanos() as f64;
            let iterations = iterations_lasting(MIN_POINT_NS.max(total_ns / MAX_POINTS as f64));
            let count = (total_ns / (iterations as f64 * time_ns)) as u64;
            (iterations, count.min(MAX_POINTS))
        }
        SeriesLength::Iterations(total) => {
            let min_iterations =
                if time_ns < SINGLE_POINT_NS { iterations_lasting(MIN_SHORT_POINT_NS) } else { 1 };
            let iterations = iterations_lasting(MIN_POINT_NS)
                .min(total / DEFAULT_POINTS)
                .max(min_iterations)
                .max(total.div_ceil(MAX_POINTS));
            (iterations, total / iterations)
        }
    };
    ensure!(
        count >= MIN_POINTS,
        "a series of {count} points is too short to detect a change: expected at least {MIN_POINTS} \
         points of {iterations} iterations each\nhint: --iterations {} or more, or a longer --time",
        MIN_POINTS * iterations
    );
    Ok(divide_evenly(count, iterations))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divide(length: SeriesLength, time_ns: f64) -> (u32, u64) {
        let samples = divide_series(length, time_ns).unwrap();
        match samples.length {
            SampleLength::Iterations(iterations) => (samples.count, iterations),
            SampleLength::TimeNs(_) => panic!("{samples:?}"),
        }
    }

    #[test]
    fn a_default_series_has_2000_points_unless_iterations_are_slow() {
        let usual = |ns| divide(SeriesLength::Usual, ns);
        assert_eq!(usual(100.0), (2000, 10_000));
        assert_eq!(usual(400e3), (2000, 3));
        assert_eq!(usual(5e6), (2000, 1));
        assert_eq!(usual(100e6), (300, 1));
        assert_eq!(usual(10e9), (50, 1), "fewer would say nothing");
    }

    #[test]
    fn points_cover_exactly_the_requested_iterations() {
        let of = |all, ns| divide(SeriesLength::Iterations(all), ns);
        assert_eq!(of(2000, 5e6), (2000, 1));
        assert_eq!(
            of(2000, 300e3),
            (2000, 1),
            "points may be short where there are few iterations"
        );
        assert_eq!(of(20_000, 300e3), (5000, 4));
        assert_eq!(of(500_000, 1e3), (2000, 250));
        assert_eq!(of(100_000, 1e3), (2000, 50), "no point is shorter than 50 us");
        assert_eq!(of(1_000_000, 2e6), (100_000, 10), "there are no more than 100 000 points");
    }

    #[test]
    fn a_requested_time_is_filled_with_points() {
        let of = |s, ns| divide(SeriesLength::Time(Duration::from_secs(s)), ns);
        assert_eq!(of(10, 5e6), (2000, 1));
        assert_eq!(of(10, 1e3), (10_000, 1000));
        assert_eq!(of(1000, 1e3), (100_000, 10_000));
    }

    #[test]
    fn a_too_short_series_is_refused_with_the_required_length() {
        let told = divide_series(SeriesLength::Iterations(1000), 100.0).unwrap_err().to_string();
        assert!(told.contains("points of 500 iterations each"), "{told}");
        assert!(told.ends_with("hint: --iterations 25000 or more, or a longer --time"), "{told}");
    }
}
