//! `speedwell doctor`: finds sources of measurement noise on this machine and suggests remedies.
//! `--calibrate` measures a program against itself, to calibrate later comparisons on this machine.
//!
//! This module decides how many runs a calibration takes; the analysis decides what counts as a
//! false alarm.

use crate::features::tune::{MachineTuner, TunePlace, restore_after_command};
use crate::options::{
    ComparisonArgs, MeasureTask, OutputArgs, SelectionArgs, StoreArgs, VariantArgs, hide_unused,
    parse, plan_request,
};
use crate::stored_session::load_interrupted_plan;
use crate::{CommandStatus, run, status};
use anyhow::{Result, ensure};
use clap::{ArgGroup, Args};
use speedwell_analysis::{self as analysis, CalibrationOutcome};
use speedwell_engine::{ExecutionArgs, MeasureRequest, PreparedPlan, SamplingRequest};
use speedwell_machine::environment::{self, CheckResult, CheckState, tune};
use speedwell_model::{LayoutVariation, OrderRequest, RunCount, RunOrder, StoppingDesign, Variant};
use speedwell_report::{self as report, CheckLine};
use speedwell_store::Store;

/// Check this machine for sources of measurement noise
///
/// It checks frequency scaling, system limits, load by other programs and missing tools.
///
/// With --calibrate, the targets are measured against themselves: how often does a comparison find a difference where
/// there is none, and how noisy is each case? --runs is then the number of runs per side of a comparison (default: 10).
/// The result is stored; if there are too many or too few false alarms, later comparisons carry a warning. With --tuned, a
/// second measurement uses the settings of 'speedwell tune', which needs root.
///
/// With --builds, each target is linked 8 times with functions and data in different orders, each build is measured 4
/// times, and one line says whether the layout matters.
///
/// Exit status 1 if a problem is found, if a calibration without --tuned has too many or too few false alarms, or if
/// --tuned finds no setting to change.
#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("measures").args(["calibrate", "builds"])),
    mut_group("SelectionArgs", |group| group.requires("measures")),
    mut_group("SamplingRequest", |group| group.requires("measures")),
    mut_group("ExecutionArgs", |group| group.requires("measures")),
    mut_args(|arg| hide_unused(arg, "order reject estimate_cycles precision steady chart")),
    mut_arg("reject", |arg| arg.conflicts_with("measures")),
    mut_arg("estimate_cycles", |arg| arg.conflicts_with("measures")),
    mut_arg("precision", |arg| arg.conflicts_with("measures")),
    mut_arg("steady", |arg| arg.conflicts_with("measures")),
    after_help = "Examples:
  speedwell doctor
  speedwell doctor --calibrate benchmarks/buffers/copy.js len=1024
  speedwell doctor --calibrate ./bench -f memcpy -t 2ms -n 1 --pin 1
  sudo speedwell doctor --calibrate ./bench --tuned --pin 1
  speedwell doctor --builds memory/copy.cpp"
)]
pub struct DoctorArgs {
    /// With --calibrate or --builds: targets to measure, as for 'run'
    ///
    /// Files, folders, group names; NAME=VALUE sets a parameter.
    #[arg(index = 1, value_name = "TARGET|NAME=VALUE", requires = "measures")]
    targets: Vec<String>,
    /// After '--': arguments for every measured program
    #[arg(index = 2, last = true, value_name = "ARG", requires = "measures")]
    arguments: Vec<String>,
    /// Measure the targets against themselves and count false alarms
    #[arg(long)]
    calibrate: bool,
    /// Measure 8 builds of each target in different layouts
    #[arg(long, conflicts_with = "resume")]
    builds: bool,
    /// Total number of comparisons, spread evenly over the cases
    #[arg(long, value_name = "N", default_value = "200", value_parser = parse::count,
          requires = "calibrate")]
    comparisons: u32,
    /// Measure before and after 'speedwell tune', and compare the noise
    #[arg(long, requires = "calibrate", conflicts_with_all = ["resume", "list", "test", "budget"])]
    tuned: bool,
    #[command(flatten)]
    place: TunePlace,
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    sampling: SamplingRequest,
    #[command(flatten)]
    execution: ExecutionArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// Checks the machine.
///
/// # Errors
/// Fails if the output cannot be written. With `--calibrate` or `--builds`, also returns the errors
/// of the command `run`.
pub fn run(args: DoctorArgs) -> Result<CommandStatus> {
    if args.calibrate {
        return calibrate_machine(&args);
    }
    if args.builds {
        return measure_builds(&args);
    }
    let mut checks = environment::run_all_checks(&args.place.root);
    let results = args.store.database.database_path()?;
    if Store::server_address(&results).is_none() {
        checks.push(environment::check_free_disk(&results));
    }
    let mut lines: Vec<CheckLine> = checks.iter().map(check_line).collect();
    lines.push(report::calibration_check(args.store.calibration_of_this_machine().as_ref()));
    let journal = tune::current_changes(&args.place.open_machine()?).unwrap_or_default();
    lines.push(report::tuned_check(journal.map(|journal| journal.knobs.join(", "))));
    // `doctor` does not check the store, so an unreadable store counts as a store without uploads.
    let store = args.store.open_existing().ok().flatten();
    let uploads = store.and_then(|store| store.list_uploads().ok()).unwrap_or_default();
    lines.extend(report::outbox_check(&uploads));
    args.output.print_document(&report::report_checks(&lines))?;
    let has_problem = checks.iter().any(|check| check.state == CheckState::Bad);
    Ok(if has_problem { CommandStatus::NEGATIVE } else { CommandStatus::DONE })
}

/// Measures the targets against themselves and reports how well the machine is calibrated.
fn calibrate_machine(args: &DoctorArgs) -> Result<CommandStatus> {
    ensure!(
        !args.targets.is_empty() || args.execution.resume.is_some(),
        "no target given for the calibration\nhint: name what you compare most, for example speedwell \
         doctor --calibrate benchmarks/buffers/copy.js"
    );
    ensure!(
        !args.execution.excludes_blocks(),
        "a calibration uses randomised blocks: --order cannot be changed"
    );
    let runs = args.sampling.runs.unwrap_or(DEFAULT_RUNS);
    ensure!(
        runs >= MIN_RUNS,
        "--runs {runs} is too few: a verdict needs at least {MIN_RUNS} runs per side"
    );
    if args.tuned {
        return calibrate_tuned(args, runs);
    }
    let task = args.measure_task();
    let mut store = task.open_store()?;
    let plans = match &args.execution.resume {
        Some(session) => {
            let plans = load_interrupted_plan(&store, session, &task)?;
            ensure!(
                differ_only_in_name(&plans.plan.variants),
                "{session} is not a calibration: its variants differ"
            );
            plans
        }
        None => plan_calibration(args, runs, &task)?,
    };
    if args.execution.list || args.execution.test {
        return run::execute_plans(plans, &mut store, &task);
    }
    let (session, ended) = run::measure_session(plans, &mut store, &task)?;
    let calibration_result = analysis::calibrate_session(&session, runs as usize, &task.settings);
    if calibration_result.outcome != CalibrationOutcome::Unknown {
        store.store_calibration(&session.environment, &calibration_result.counts)?;
    }
    let document = report::report_calibration(&calibration_result, &args.output.report_settings());
    args.output.print_document(&document)?;
    let result_status = match calibration_result.outcome {
        CalibrationOutcome::Yes | CalibrationOutcome::Unknown => CommandStatus::DONE,
        _ => CommandStatus::NEGATIVE,
    };
    Ok(ended
        .worse_of(result_status)
        .worse_of(status::status_of_failures(&calibration_result.failures)))
}

/// Measures the targets against themselves before and after tuning the machine.
fn calibrate_tuned(args: &DoctorArgs, runs: u32) -> Result<CommandStatus> {
    let Some(tuner) = MachineTuner::new(&args.place, args.execution.pin.as_ref())? else {
        status::print_warning(
            "No setting of this machine can be changed: 'speedwell tune --dry-run' shows why.",
        );
        return Ok(CommandStatus::NEGATIVE);
    };
    let task = args.measure_task();
    let mut store = task.open_store()?;
    let mut measure = || {
        let plans = plan_calibration(args, runs, &task)?;
        let (session, ended) = run::measure_session(plans, &mut store, &task)?;
        let result = analysis::calibrate_session(&session, runs as usize, &task.settings);
        anyhow::Ok((session, ended, result))
    };
    let (before, ended, before_result) = measure()?;
    if ended != CommandStatus::DONE {
        return Ok(ended);
    }
    let knobs = tuner.tune_machine()?;
    let measured_again = measure();
    restore_after_command(&tuner.machine)?;
    let (after, ended, after_result) = measured_again?;
    if before_result.outcome != CalibrationOutcome::Unknown {
        store.store_calibration(&before.environment, &before_result.counts)?;
    }
    let spreads = analysis::compare_spreads(&before, &after, &task.settings);
    let both_results = [&before_result, &after_result];
    let document = report::report_tuned_calibration(
        &spreads,
        &knobs,
        both_results,
        &args.output.report_settings(),
    );
    args.output.print_document(&document)?;
    let failure_statuses = both_results.map(|result| status::status_of_failures(&result.failures));
    Ok(ended.worse_of(failure_statuses[0]).worse_of(failure_statuses[1]))
}

/// Number of builds per target, twice the minimum for a comparison. Measuring takes about a minute.
const BUILDS: u32 = 8;
/// Number of runs per build, twice the minimum for a comparison.
const RUNS_OF_BUILD: u32 = 4;

/// Measures builds of the targets in several layouts and reports how much they differ.
fn measure_builds(args: &DoctorArgs) -> Result<CommandStatus> {
    ensure!(
        !args.targets.is_empty(),
        "no target given to build\nhint: name a C++ file, for example speedwell doctor --builds memory/copy.cpp"
    );
    ensure!(
        args.sampling.runs.is_none(),
        "--builds always measures {BUILDS} builds {RUNS_OF_BUILD} times each\nhint: to choose these numbers, use speedwell run FILE --builds N --runs N"
    );
    let mut request = args.measure_request()?;
    request.plan.sampling.runs = Some(BUILDS * RUNS_OF_BUILD);
    request.plan.layout = LayoutVariation { builds: BUILDS, env: true, stack: true, align: false };
    let task = MeasureTask { store: args.store.clone(), ..args.measure_task() };
    let mut store = task.open_store()?;
    let plans = PreparedPlan::read(&request, &mut task.progress_display())?;
    if args.execution.list || args.execution.test {
        return run::execute_plans(plans, &mut store, &task);
    }
    let (session, ended) = run::measure_session(plans, &mut store, &task)?;
    let findings = analysis::analyze_session(&session, &task.settings);
    args.output.print_document(&report::report_layouts(&findings))?;
    Ok(ended.worse_of(status::status_of_failures(&findings.failures)))
}

impl DoctorArgs {
    /// Builds the request that measures the targets against themselves.
    fn measure_request(&self) -> Result<MeasureRequest> {
        let (variants, comparison) = (VariantArgs::default(), ComparisonArgs::default());
        let order = Some(OrderRequest::Fixed(RunOrder::Blocks));
        let execution = ExecutionArgs { order, ..self.execution.clone() };
        let plan = plan_request(&execution, &self.sampling, &comparison, &[]);
        self.selection.measure_request(&self.targets, &self.arguments, &variants, plan)
    }

    /// Builds the task, which tags the session as a calibration.
    fn measure_task(&self) -> MeasureTask {
        let mut store = self.store.clone();
        store.tag.push(CALIBRATION_TAG.to_owned());
        MeasureTask {
            settings: ComparisonArgs::default()
                .analysis_settings(&self.selection.metric.names, None),
            divides_runs: self.sampling.divides_runs(),
            execution: self.execution.clone(),
            output: self.output.clone(),
            store,
            resume_command: "doctor --calibrate",
            ..MeasureTask::default()
        }
    }
}

fn check_line(check: &CheckResult) -> CheckLine {
    let state = match check.state {
        CheckState::Good => "ok",
        CheckState::Warning => "warning",
        CheckState::Bad => "problem",
        CheckState::Unknown => "unknown",
    };
    CheckLine {
        name: check.name.to_string(),
        state: state.to_owned(),
        found: check.found.clone(),
        remedy: check.remedy.clone().unwrap_or_default(),
    }
}

/// Runs per side in one comparison. Five blocks of four runs can be arranged in 7776 ways. The
/// analysis enumerates all of them. At a nominal level of 5%, the actual error rate is 4.5%. With
/// four blocks, it would be 4.2% (crates/stats/DERIVATIONS.md, "Calibration").
const DEFAULT_RUNS: u32 = 10;

/// Minimum number of runs per side for a meaningful p-value.
const MIN_RUNS: u32 = 8;

/// Tag of all calibration sessions.
const CALIBRATION_TAG: &str = "calibration";

/// Plans to measure each target against itself.
fn plan_calibration(args: &DoctorArgs, runs: u32, task: &MeasureTask) -> Result<PreparedPlan> {
    let mut request = args.measure_request()?;
    request.variants.given = ["a", "b"].map(Variant::plain).to_vec();
    // The number of runs is set below, once the number of cases is known.
    request.plan.sampling.runs = None;
    let mut plans = PreparedPlan::read(&request, &mut task.progress_display())?;
    // Distribute the comparisons evenly over the cases. Each comparison consists of whole blocks.
    let plan = &mut plans.plan;
    let block = plan.design.runs_per_block.max(1);
    let runs_per_comparison = runs.div_ceil(block).saturating_mul(block);
    let cases = plan.jobs.len().max(1) as u32;
    let runs = args.comparisons.div_ceil(cases).saturating_mul(runs_per_comparison);
    plan.sampling.runs = RunCount::Fixed(runs);
    plan.design.stopping = StoppingDesign::Fixed { runs };
    Ok(plans)
}

fn differ_only_in_name(variants: &[Variant]) -> bool {
    let [a, b] = variants else { return false };
    *a == Variant { name: a.name.clone(), ..b.clone() }
}
