//! `speedwell doctor`: sources of measurement noise on this machine, and remedies.

use super::options::Task;
use super::options::{
    ComparisonArgs, ExecutionArgs, OrderName, OutputArgs, SamplingArgs, SelectionArgs, StoreArgs,
    VariantArgs, parse,
};
use super::run;
use super::{Status, calibrated, status};
use anyhow::bail;
use clap::Args;
use speedwell_analysis::{self as analysis, Calibrated};
use speedwell_environment::{self as environment, Check, State};
use speedwell_measure::{MeasureRequest, calibration};
use speedwell_report::{self as report, CheckLine};
use std::path::Path;

/// Check this machine for sources of measurement noise: scaling, limits, other work, missing tools
///
/// With --calibrate, measure the same thing against itself: how often does a comparison here find a
/// difference where there is none, and how noisy is each case? --runs is then the number of runs a
/// side of one comparison (10). The result is kept, and marks later comparisons on a machine that is
/// out of range.
///
/// Exit status 1 if a problem was found, or the machine is not calibrated.
#[derive(Debug, Args)]
#[command(
    mut_group("SelectionArgs", |group| group.requires("calibrate")),
    mut_group("SamplingArgs", |group| group.requires("calibrate")),
    mut_group("ExecutionArgs", |group| group.requires("calibrate")),
    mut_arg("order", |arg| arg.hide(true)),
    mut_arg("reject", |arg| arg.hide(true).conflicts_with("calibrate")),
    mut_arg("with_cache_model", |arg| arg.hide(true).conflicts_with("calibrate")),
    mut_arg("precision", |arg| arg.hide(true).conflicts_with("calibrate")),
    after_help = "Examples:
  speedwell doctor
  speedwell doctor --calibrate benchmarks/buffers/copy.js len=1024
  speedwell doctor --calibrate ./bench -f memcpy -t 2ms -n 1 --pin 1"
)]
pub struct DoctorArgs {
    /// With --calibrate: files, folders, group names; and NAME=VALUE to set a parameter
    #[arg(index = 1, value_name = "TARGET|NAME=VALUE", requires = "calibrate")]
    targets: Vec<String>,
    /// After '--': arguments for every measured program
    #[arg(index = 2, last = true, value_name = "ARG", requires = "calibrate")]
    arguments: Vec<String>,
    /// Measure the targets against themselves, and count the false alarms
    #[arg(long)]
    calibrate: bool,
    /// Comparisons in all, spread evenly over the cases
    #[arg(long, value_name = "N", default_value = "200", value_parser = parse::count,
          requires = "calibrate")]
    comparisons: u32,
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    execution: ExecutionArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// Examines the machine.
///
/// # Errors
/// The output cannot be written; with `--calibrate` also what makes `run` fail.
pub fn run(args: DoctorArgs) -> anyhow::Result<Status> {
    if args.calibrate {
        return calibrate(&args);
    }
    let mut checks = environment::checks(Path::new("/"));
    checks.push(environment::free_disk(&args.store.path()?));
    let mut lines: Vec<CheckLine> = checks.iter().map(line).collect();
    let known = calibrated::of_this_machine(&args.store);
    lines.push(report::calibration_check(known.as_ref()));
    args.output.print(&report::checks(&lines))?;
    let bad = checks.iter().any(|check| check.state == State::Bad);
    Ok(if bad { Status::NO } else { Status::DONE })
}

/// Measures the targets against themselves, and reports what that says of the machine.
fn calibrate(args: &DoctorArgs) -> anyhow::Result<Status> {
    if args.targets.is_empty() && args.execution.resume.is_none() {
        bail!(
            "nothing to calibrate with\nhint: name what you compare most, for example speedwell \
             doctor --calibrate benchmarks/buffers/copy.js"
        );
    }
    if args.execution.order != OrderName::Blocks {
        bail!("a calibration is about runs in randomised blocks: --order cannot be changed");
    }
    let runs = calibration::runs(args.sampling.runs)?;
    let task = args.task();
    let mut store = task.open_store()?;
    let plans = match &args.execution.resume {
        Some(session) => calibration::rest(&store, session, args.execution.budget)?,
        None => calibration::plans(
            args.request()?,
            runs,
            args.comparisons,
            &mut task.progress(),
        )?,
    };
    if args.execution.list || args.execution.test {
        return run::execute(plans, &mut store, &task);
    }
    let (session, ended) = run::measure(plans, &mut store, &task)?;
    let found = analysis::calibrate(&session, runs as usize, &task.settings);
    if found.outcome != Calibrated::Unknown {
        store.keep_calibration(&session.environment, &found.counts)?;
    }
    let document = report::calibration(&found, &args.output.settings());
    args.output.print(&document)?;
    let answer = match found.outcome {
        Calibrated::Yes | Calibrated::Unknown => Status::DONE,
        Calibrated::TooManyAlarms | Calibrated::TooFewAlarms => Status::NO,
    };
    Ok(ended.or(answer).or(status::of_failures(&found.failures)))
}

impl DoctorArgs {
    /// What is measured against itself.
    fn request(&self) -> anyhow::Result<MeasureRequest> {
        let variants = VariantArgs::default();
        let comparison = ComparisonArgs::default();
        let plan = self.execution.plan(&self.sampling, &comparison, &[]);
        self.selection.request(
            &self.targets,
            &self.arguments,
            &variants,
            &self.execution,
            plan,
        )
    }

    /// What is done with it.
    fn task(&self) -> Task {
        let mut store = self.store.clone();
        store.tag.push(calibration::TAG.to_owned());
        Task {
            settings: ComparisonArgs::default().settings(&self.selection.metric.names, None),
            divides_runs: self.sampling.request().divides_runs(),
            execution: self.execution.clone(),
            output: self.output.clone(),
            store,
            resumed_by: "doctor --calibrate",
            ..Task::default()
        }
    }
}

fn line(check: &Check) -> CheckLine {
    let state = match check.state {
        State::Good => "ok",
        State::Warning => "warning",
        State::Bad => "problem",
        State::Unknown => "unknown",
    };
    CheckLine {
        name: check.name.to_string(),
        state: state.to_owned(),
        found: check.found.clone(),
        remedy: check.remedy.clone().unwrap_or_default(),
    }
}
