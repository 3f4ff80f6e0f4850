//! Checks the requirements of an experiment, applies its variants, parameter values and settings to
//! the plan of a session, and estimates how long the plan takes.
//!
//! This module decides which options of a request override the definition file.
//! [`PreparedPlan::read`](crate::PreparedPlan::read) reads the file.

use crate::{EventListener, MeasureRequest, PlanRequest};
use anyhow::{Context, Result, ensure};
use regex::Regex;
use speedwell_adapters::discover::BenchmarkSelection;
use speedwell_adapters::plan::SessionPlan;
use speedwell_adapters::{BenchmarkJob, SourceKind};
use speedwell_config::experiment::{Experiment, RequirementKind};
use speedwell_model::assignment::{LoadWarmup, RunAssignment, TargetWork};
use speedwell_model::experiment::{BenchmarkGroup, repeated_variant, repetition_of};
use speedwell_model::{RunCount, RunOrder, SessionEvent, StoppingDesign, Variant, as_milliseconds};
use std::cmp::Ordering;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Returns a warning if the file divides the processors but there are too few of them.
pub(crate) fn shared_processors_warning(experiment: &Experiment) -> Option<String> {
    let is_shared = experiment.plan.pins.is_some() && experiment.shares.is_none();
    is_shared.then(|| {
        format!(
            "The plan divides the processors between target and load, but there are only {}: the load \
             generator takes processor time from the target.",
            experiment.cpus
        )
    })
}

/// Gives benchmark files only the parameter values of their group.
pub(crate) fn divide_values(experiment: &Experiment, selection: &mut BenchmarkSelection) {
    for group in &experiment.groups {
        let pairs = group.parameters.iter().flat_map(|(name, values)| {
            values.iter().map(move |value| (name.clone(), value.plain()))
        });
        let values: Vec<(String, String)> = pairs.collect();
        selection.of_files.extend(group.files.iter().map(|file| (file.clone(), values.clone())));
    }
    let has_parameter = |group: &BenchmarkGroup, name: &str| {
        group.parameters.iter().any(|(parameter, _)| parameter == name)
    };
    let belongs_to_group = |name: &str| {
        let mut others = experiment.groups.iter().filter(|group| group.files.is_empty());
        others.any(|group| has_parameter(group, name))
    };
    selection.sets.retain(|(name, _)| {
        belongs_to_group(name) || experiment.params.iter().any(|(parameter, _)| parameter == name)
    });
}

/// Returns the variants, the baseline first. The control comes after the variant that it repeats.
pub(crate) fn build_variants(
    experiment: &Experiment,
    request: &MeasureRequest,
) -> Result<Vec<Variant>> {
    let current_variable = |name: &str| std::env::var(name).ok();
    let mut variants = Vec::new();
    for variant in &experiment.variants {
        let harness_variant = experiment.harness_variant(&variant.name, &current_variable);
        // A variant that replaces the command has no meaning for benchmark files, which do not use
        // the command.
        let mut plain = harness_variant.unwrap_or_else(|_| Variant::plain(&variant.name));
        plain.arguments.splice(0..0, request.variants.arguments.iter().cloned());
        variants.push(plain.clone());
        if experiment.plan.control.as_ref() == Some(&variant.name) {
            variants.push(Variant { name: repetition_of(&variant.name), ..plain });
        }
    }
    let requested = request.variants.baseline.as_ref();
    let baseline = requested.unwrap_or(&experiment.compare.baseline);
    let found = variants.iter().position(|variant| variant.name == *baseline);
    let position = found.with_context(|| format!("no variant is named '{baseline}'"))?;
    variants[..=position].rotate_right(1);
    Ok(variants)
}

/// Applies the file's plan settings, unless the request overrides them.
pub(crate) fn apply_file_plan(
    experiment: &Experiment,
    request: &PlanRequest,
    plan: &mut SessionPlan,
) {
    let file_plan = &experiment.plan;
    let sampling = &request.sampling;
    if sampling.runs.is_none()
        && let Some(runs) = file_plan.runs
    {
        plan.sampling.runs = RunCount::Fixed(runs);
        plan.design.stopping = StoppingDesign::Fixed { runs };
    }
    plan.sampling.precision = sampling.precision.or(file_plan.precision);
    plan.sampling.timeout_ms = as_milliseconds(file_plan.timeout);
    let file_budget = file_plan.budget.filter(|_| sampling.runs.is_none());
    plan.sampling.budget_ms = plan.sampling.budget_ms.or(file_budget.map(as_milliseconds));
    if !request.execution.excludes_blocks() {
        plan.design.order = match file_plan.order {
            RunOrder::Alternate => RunOrder::Alternate,
            _ => RunOrder::Blocks,
        };
    }
    plan.design.threshold = plan.design.threshold.or(experiment.compare.threshold);
    if let StoppingDesign::Sequential { alpha, delta, .. } = &mut plan.design.stopping {
        if request.confidence.is_none() {
            *alpha = 1.0 - experiment.compare.confidence;
        }
        if let Some(threshold) = plan.design.threshold {
            *delta = threshold;
        }
    }
}

/// Checks all requirements and installs missing packages.
///
/// # Errors
/// Fails if something is missing, too old, or cannot be installed.
pub(crate) fn check_requirements(
    experiment: &Experiment,
    listener: &mut EventListener<'_>,
) -> Result<()> {
    let mut missing = Vec::new();
    for requirement in &experiment.requirements {
        let result = match &requirement.need {
            RequirementKind::Program { command, pattern, at_least } => {
                check_program(command, pattern, at_least.as_deref())
            }
            RequirementKind::Packages { directory, lockfile } => {
                install_packages(directory, *lockfile, listener)
            }
        };
        if let Err(problem) = result {
            let hint = requirement.hint.as_ref().map(|hint| format!(" ({hint})"));
            missing.push(format!("{}: {problem}{}", requirement.name, hint.unwrap_or_default()));
        }
    }
    ensure!(
        missing.is_empty(),
        "requirements of '{}' are not met:\n  {}",
        experiment.name,
        missing.join("\n  ")
    );
    Ok(())
}

/// Checks that a program exists and is recent enough.
fn check_program(command: &[String], pattern: &str, at_least: Option<&str>) -> Result<(), String> {
    let [program, arguments @ ..] = command else {
        return Err("no command is given to check for it".to_owned());
    };
    let displayed = command.join(" ");
    let output = run_program(Command::new(program).args(arguments))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    let expression = Regex::new(pattern).map_err(|error| error.to_string())?;
    let captures = expression.captures(&text);
    let version =
        captures.as_ref().and_then(|captures| captures.name("version").or_else(|| captures.get(0)));
    let Some(version) = version else {
        return Err(format!(
            "cannot find a version in the output of '{displayed}': {}",
            text.lines().next().unwrap_or_default()
        ));
    };
    match at_least {
        Some(min_version) if compare_versions(version.as_str(), min_version) == Ordering::Less => {
            Err(format!("version {} is older than {min_version}", version.as_str()))
        }
        _ => Ok(()),
    }
}

/// Runs a program without input.
fn run_program(command: &mut Command) -> Result<Output, String> {
    let output = command.stdin(Stdio::null()).output();
    output.map_err(|error| format!("cannot start '{}': {error}", command.get_program().display()))
}

/// Compares versions number by number.
fn compare_versions(installed: &str, required: &str) -> Ordering {
    let numbers = |text: &str| -> Vec<u64> {
        let parts = text.split(|c: char| !c.is_ascii_digit());
        parts.filter_map(|part| part.parse().ok()).collect()
    };
    let (mut installed, required) = (numbers(installed), numbers(required));
    // Only as many parts are compared as the requirement has: 20.20.2 satisfies 20.
    installed.resize(required.len(), 0);
    installed.cmp(&required)
}

/// Installs missing packages, in exactly the versions of the lockfile if there is one. If
/// `lockfile` is set, a missing lockfile is an error. Does not run scripts of packages: results
/// must not depend on what a package does to the machine.
fn install_packages(
    directory: &Path,
    lockfile: bool,
    listener: &mut EventListener<'_>,
) -> Result<(), String> {
    let displayed = directory.display();
    if !directory.join("package.json").is_file() {
        return Err(format!("'{displayed}' has no package.json"));
    }
    let lock = directory.join("package-lock.json");
    if lockfile && !lock.is_file() {
        return Err(format!("'{displayed}' has no package-lock.json"));
    }
    // npm keeps a copy of the lockfile that it last installed from.
    let installed = directory.join("node_modules/.package-lock.json");
    let modified =
        |file: &Path| std::fs::metadata(file).and_then(|metadata| metadata.modified()).ok();
    if modified(&installed).zip(modified(&lock)).is_some_and(|(installed, lock)| installed >= lock)
    {
        return Ok(());
    }
    let note = format!("installing the packages of '{displayed}'");
    listener.observe(&SessionEvent::Note(&note)).map_err(|error| error.to_string())?;
    let command = if lock.is_file() { "ci" } else { "install" };
    let arguments = [command, "--ignore-scripts", "--no-audit", "--no-fund"];
    let output = run_program(Command::new("npm").args(arguments).current_dir(directory))?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let last_error =
        errors.lines().rev().find(|line| line.contains("error") || line.contains("ERR"));
    Err(format!(
        "'npm {}' in '{displayed}' failed: {}",
        arguments.join(" "),
        last_error.unwrap_or("no error message")
    ))
}

/// Estimated time and requests of all runs together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExperimentEstimate {
    /// Time of the runs, as far as it is known. Excludes the time of `requests`.
    pub time: Duration,
    /// Requests of loads that end after a number of requests. Their duration is unknown.
    pub requests: u64,
}

/// Returns the measuring time of benchmark files and snippets, without the time to start programs
/// and servers. Returns `None` if a benchmark or a framework determines the time, and for paired or
/// shared runs, searches, and instruction counts. Also returns `None` for experiments that measure
/// anything besides benchmark files; [`estimate_loads`] estimates these.
pub fn measuring_time(plan: &SessionPlan) -> Option<Duration> {
    let is_sequential = plan.design.order != RunOrder::Paired && !plan.shared;
    if !is_sequential || plan.is_search || plan.design.counting.is_some() {
        return None;
    }
    let mut one_round = Duration::ZERO;
    for job in &plan.jobs {
        for variant in &plan.variants {
            one_round += time_of_run(plan, job, variant)?;
        }
    }
    let total = one_round * plan.runs_per_variant();
    (!total.is_zero()).then_some(total)
}

fn time_of_run(plan: &SessionPlan, job: &BenchmarkJob, variant: &Variant) -> Option<Duration> {
    match job.source.kind {
        SourceKind::Load => {
            let experiment = job.source.definition().ok()?.experiment().ok()?;
            let case = job.case.as_ref()?;
            let group = experiment.group_of(case)?;
            let assignment = experiment.load_assignment(group, case, variant, None).ok()?;
            let (time, requests) = load_length(assignment)?;
            (requests == 0).then_some(time)
        }
        SourceKind::Cpp | SourceKind::Program | SourceKind::Python | SourceKind::Snippet(_) => {
            job.samples.unwrap_or(plan.sampling.samples).planned_time()
        }
        _ => None,
    }
}

/// Estimates how long the loads of all runs take, without a trial; `None` if there are no loads.
///
/// # Errors
/// Fails if the definition was stored by a version of this program with a different grammar.
pub fn estimate_loads(plan: &SessionPlan) -> Result<Option<ExperimentEstimate>> {
    let untimed = vec![Some(0); plan.jobs.len() * plan.variants.len()];
    estimate_from_trial(plan, &untimed)
}

/// Estimates the time and requests of all runs from a trial; `None` if the estimate is empty or the
/// plan is not an experiment. `lived_ns` are the lifetimes of the trial runs in the order of
/// [`try_cases`](crate::try_cases): all variants of a job, then the next job. The planned time of
/// the run's load is added to each lifetime. If an entry is `None`, the runs of that job and
/// variant are left out of the estimate.
///
/// # Errors
/// Fails if the definition was stored by a version of this program with a different grammar.
pub fn estimate_from_trial(
    plan: &SessionPlan,
    lived_ns: &[Option<u64>],
) -> Result<Option<ExperimentEstimate>> {
    let Some(experiment) = plan.experiment()? else { return Ok(None) };
    let runs = u64::from(plan.runs_per_variant());
    let mut estimate = ExperimentEstimate::default();
    for (index, lived_ns) in lived_ns.iter().enumerate() {
        let (job, variant) = (index / plan.variants.len(), index % plan.variants.len());
        let (Some(lived_ns), Some(job)) = (lived_ns, plan.jobs.get(job)) else { continue };
        estimate.time += Duration::from_nanos(lived_ns * runs);
        let name = repeated_variant(&plan.variants[variant].name);
        let length = job.case.as_ref().and_then(|case| {
            let group = experiment.group_of(case)?;
            load_length(experiment.assignment(group, case, name, 0).ok()?)
        });
        if let Some((time, count)) = length {
            estimate.time += time * u32::try_from(runs).unwrap_or(u32::MAX);
            estimate.requests += count * runs;
        }
    }
    Ok(Some(estimate).filter(|estimate| *estimate != ExperimentEstimate::default()))
}

/// Time and number of requests of a run's load, including its warm-up; `None` for a command.
fn load_length(assignment: RunAssignment) -> Option<(Duration, u64)> {
    let (spec, warmup_time, warmup_requests) = match assignment.work {
        TargetWork::Server(service) => {
            let (ms, requests) = match service.load.warmup {
                LoadWarmup::None => (0, 0),
                LoadWarmup::Requests(count) => (0, count),
                LoadWarmup::DurationMs(ms) | LoadWarmup::SteadyMs(ms) => (ms, 0),
            };
            (service.load.spec, Duration::from_millis(ms), requests)
        }
        TargetWork::Load(spec) => {
            let warmup_time = spec.warmup.unwrap_or_default();
            (*spec, warmup_time, 0)
        }
        TargetWork::Command => return None,
    };
    let time = spec.time.unwrap_or_default() + warmup_time;
    Some((time, spec.count.unwrap_or(0) + warmup_requests))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_number_by_number() {
        assert_eq!(compare_versions("20.9.1", "20.10"), Ordering::Less);
        assert_eq!(compare_versions("20.20.2", "20"), Ordering::Equal);
        assert_eq!(compare_versions("v22.1", "18"), Ordering::Greater);
        assert_eq!(compare_versions("9", "18.0.1"), Ordering::Less);
    }

    #[test]
    fn a_program_is_asked_for_its_version() {
        let words = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
        let pattern = r"(?P<version>\d+\S*)";
        let echo = words("echo v3.2.1");
        assert_eq!(check_program(&echo, pattern, Some("3.2")), Ok(()));
        assert!(
            check_program(&echo, pattern, Some("4")).unwrap_err().contains("3.2.1 is older than 4")
        );
        let gone = check_program(&words("no-such-program --version"), pattern, None);
        assert!(gone.unwrap_err().contains("cannot start 'no-such-program'"));
        assert!(
            check_program(&words("echo hello"), pattern, None)
                .unwrap_err()
                .contains("cannot find a version")
        );
    }
}
