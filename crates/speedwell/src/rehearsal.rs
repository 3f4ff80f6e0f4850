//! Performs the steps before the first run: `--list` shows what would be measured, `--test` finds
//! out whether every case works, and the requested report is checked by building it from made-up
//! values.
//!
//! A nonexistent sort column, x-axis parameter or chart is thus rejected early. The module cannot
//! check the names of metrics, because only a run reveals them (see `engine::rehearsal`). Start at
//! [`check_report`].

use crate::options::MeasureTask;
use crate::{CommandStatus, status};
use anyhow::bail;
use speedwell_adapters::BenchmarkJob;
use speedwell_adapters::plan::{PlanSlot, SessionPlan};
use speedwell_analysis::{self as analysis, AnalysisSettings};
use speedwell_engine::execution::SessionEnd;
use speedwell_engine::experiment::{
    ExperimentEstimate, estimate_from_trial, estimate_loads, measuring_time,
};
use speedwell_engine::{PreparedPlan, describe_failure, reach_warning, try_cases};
use speedwell_model::{Case, Metric, MetricDirection, Run, Sample, Session, StoppingDesign};
use speedwell_report::{
    self as report, CaseLine, ChartKind, OutputOptions, TrialOutcome, Verbosity, format_about,
    format_count, format_duration, report_requested,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Number of made-up runs per case and variant, enough for every interval and test.
const RUNS: u32 = 8;

/// Maximum number of cases of a benchmark with the same parameter names. More cases would add no
/// column or chart.
const MAX_SIMILAR_CASES: usize = 3;

/// Checks the report options against a plan.
///
/// # Errors
/// Fails if the report of a session with this plan cannot be made.
pub fn check_report(plan: &SessionPlan, task: &MeasureTask) -> anyhow::Result<()> {
    let settings = &task.settings;
    let has_only_snippets = !plan.jobs.is_empty() && plan.jobs.iter().all(BenchmarkJob::is_snippet);
    if has_only_snippets && plan.design.counting.is_none() {
        let is_compared = plan.variants.len() > 1;
        report::snippet::check_snippet_unit(task.output.unit, &settings.metrics, is_compared)?;
    }
    let output = OutputOptions {
        // Do not check the unit of others, because only runs reveal their metrics.
        unit: None,
        verbosity: Verbosity::Quiet,
        ..task.output.report_settings()
    };
    let is_unrestricted = task.study.x_axis.is_none() && settings.metrics.is_empty();
    if plan.design.experiment.is_some() && is_unrestricted {
        return check_experiment(output.chart, task.profile);
    }
    let is_series = plan.design.steady.is_some_and(|rule| !rule.is_metric);
    let has_report_options = output.sort.is_some()
        || output.chart.is_some()
        || task.study.x_axis.is_some()
        || !output.files.is_empty();
    let knows_cases = plan.jobs.iter().all(|job| job.case.is_some());
    if !has_report_options
        || is_series && is_unrestricted
        || !knows_cases
        || plan.jobs.is_empty()
        || task.style.is_some()
    {
        return Ok(());
    }
    let session = made_up_session(plan, settings);
    let findings = analysis::analyze_session(&session, settings);
    let study = task.study.study_choice();
    let document = report_requested((&session, None), &findings, &study, settings, &output)?;
    report::check_document(&document, &output)
}

/// Checks the requested chart of an experiment, without made-up values.
fn check_experiment(chart: Option<ChartKind>, is_profiled: bool) -> anyhow::Result<()> {
    match chart {
        None => Ok(()),
        Some(ChartKind::Flame) if is_profiled => Ok(()),
        Some(ChartKind::Flame) => {
            bail!("flame graphs need profiles\nhint: measure with --profile")
        }
        Some(_) => bail!(
            "an experiment defines its own charts\nhint: add --metric NAME to draw this chart for one metric"
        ),
    }
}

/// Makes up a session as it might result from the plan.
fn made_up_session(plan: &SessionPlan, settings: &AnalysisSettings) -> Session {
    let plan = shorten_plan(plan);
    let metrics = made_up_metrics(&plan, settings);
    let runs = plan.slots().into_iter().filter(|slot| slot.ordinal < RUNS);
    let mut design = plan.design.clone();
    design.stopping = StoppingDesign::Fixed { runs: RUNS };
    Session {
        runs: runs.filter_map(|slot| made_up_run(&plan, &slot, &metrics)).collect(),
        design,
        variants: plan.variants,
        metrics,
        ..Session::default()
    }
}

/// Keeps only a few cases of each benchmark with the same parameter names.
fn shorten_plan(plan: &SessionPlan) -> SessionPlan {
    let mut counts: HashMap<(String, Vec<String>), usize> = HashMap::new();
    let is_kept = |job: &&BenchmarkJob| {
        let case = job.case.as_ref();
        let names = case.map_or_else(Vec::new, |case| {
            case.values.iter().map(|(name, _)| name.clone()).collect()
        });
        let count = counts.entry((job.source.name.clone(), names)).or_default();
        *count += 1;
        *count <= MAX_SIMILAR_CASES
    };
    SessionPlan { jobs: plan.jobs.iter().filter(is_kept).cloned().collect(), ..plan.clone() }
}

/// Returns the metrics of the made-up runs: throughput, the requested metrics and, for snippets,
/// the metrics that all snippets have.
fn made_up_metrics(plan: &SessionPlan, settings: &AnalysisSettings) -> Vec<Metric> {
    let requested = settings.metrics.iter().map(String::as_str);
    let mut names: Vec<&str> = requested.filter(|name| *name != "all").collect();
    if plan.jobs.iter().any(BenchmarkJob::is_snippet) {
        names.extend([Metric::TIME, Metric::TIME_MEDIAN, Metric::TIME_P5]);
        names.extend(["user_time", "system_time"]);
    }
    names.retain(|name| *name != Metric::THROUGHPUT);
    let others = names.into_iter().map(|name| Metric::new(name, "ns", MetricDirection::Lower));
    [Metric::throughput()].into_iter().chain(others).collect()
}

fn made_up_run(plan: &SessionPlan, slot: &PlanSlot, metrics: &[Metric]) -> Option<Run> {
    let case: &Case = plan.jobs[slot.job].case.as_ref()?;
    let sample = |metric: &Metric| Sample {
        metric: Arc::from(metric.name.as_str()),
        value: 100.0 + f64::from(slot.index % 7),
        elapsed_ns: Some(1_000_000),
        iterations: Some(1.0),
    };
    Some(Run {
        build: slot.build,
        wall_ns: 1_000_000,
        samples: metrics.iter().map(sample).collect(),
        ..Run::empty(
            case.clone(),
            plan.variants[slot.variant].name.as_str(),
            slot.index,
            slot.block,
        )
    })
}

/// Prints every case.
///
/// # Errors
/// Fails if the output cannot be written.
pub fn list_cases(plans: &PreparedPlan, task: &MeasureTask) -> anyhow::Result<CommandStatus> {
    let plan = &plans.plan;
    let runs = u64::from(plan.runs_per_variant()) * plan.variants.len() as u64;
    let line = |job: &BenchmarkJob| CaseLine {
        case: job.case.clone().or_else(|| job.label_as_case()).unwrap_or_else(|| {
            // A label that is not a case id is a file name. Only that file knows its cases.
            Case::new(&job.label, Vec::new())
        }),
        runs,
    };
    let cases: Vec<CaseLine> = plan.jobs.iter().map(line).collect();
    let is_upper_bound = plan.may_need_fewer_runs();
    let time = measuring_time(plan);
    task.output.print_document(&report::list_planned_cases(&cases, is_upper_bound, time))?;
    if let Some(warning) = reach_warning(plan, &task.settings) {
        status::print_warning(&warning);
    }
    if let Some(estimate) = estimate_loads(plan)?
        && !task.output.quiet
    {
        status::print_note(&format!(
            "With {} of every case and variant, the loads take {}. Starting and stopping the servers takes \
             additional time; --test estimates the total.",
            format_count(plan.runs_per_variant() as usize, "run", "runs"),
            describe_time(&estimate, plan)
        ));
    }
    plans.suite.warnings.iter().for_each(|warning| status::print_warning(warning));
    for failure in &plans.suite.failures {
        status::print_warning(&describe_failure(failure));
    }
    Ok(status::status_of_failures(&plans.suite.failures))
}

/// Time from which the expected duration of a session is announced.
pub const ANNOUNCED_TIME: Duration = Duration::from_secs(30);

/// Announces how long a new session will measure, if it is long.
pub fn announce_time(plans: &PreparedPlan, task: &MeasureTask) {
    let plan = &plans.plan;
    let time = measuring_time(plan).filter(|time| *time >= ANNOUNCED_TIME);
    let Some(time) = time.filter(|_| !task.output.quiet && plans.resumed.is_none()) else { return };
    let budget = plan.sampling.budget_ms.map_or(Duration::MAX, Duration::from_millis);
    let is_upper_bound = plan.may_need_fewer_runs() || budget < time;
    let precision = if is_upper_bound { "up to" } else { "about" };
    status::print_note(&format!("measuring takes {precision} {}", format_about(time.min(budget))));
}

/// Executes each case once under the first variant, and reports failures. Executes the cases of an
/// experiment once under every variant.
///
/// # Errors
/// Fails if the output cannot be written.
pub fn test_cases(plans: &PreparedPlan, task: &MeasureTask) -> anyhow::Result<CommandStatus> {
    plans.suite.warnings.iter().for_each(|warning| status::print_warning(warning));
    let trial_result = try_cases(plans, task.execution.fail_fast, &mut task.progress_display())?;
    if trial_result.ended == SessionEnd::Complete
        && let Some(estimate) = estimate_from_trial(&plans.plan, &trial_result.lived_ns)?
    {
        status::print_note(&format!(
            "{} of every case and variant would take about {}.",
            format_count(plans.plan.runs_per_variant() as usize, "run", "runs"),
            describe_time(&estimate, &plans.plan)
        ));
    }
    let is_working = |(passed, failed): &&(usize, usize)| *passed > 0 && *failed == 0;
    let outcome = TrialOutcome {
        files: trial_result.files.len(),
        working_files: trial_result.files.values().filter(is_working).count(),
        cases: trial_result.files.values().map(|(passed, _)| passed).sum(),
        failures: trial_result.failures,
        is_experiment: plans.plan.design.experiment.is_some(),
    };
    task.output.print_document(&report::report_trial(&outcome, &task.output.report_settings()))?;
    let failed = status::status_of_failures(&outcome.failures);
    Ok(CommandStatus::from_session_end(trial_result.ended).worse_of(failed))
}

fn describe_time(estimate: &ExperimentEstimate, plan: &SessionPlan) -> String {
    let time =
        (!estimate.time.is_zero()).then(|| format_duration(estimate.time.as_millis() as u64));
    let requests = format_count(estimate.requests as usize, "request", "requests");
    let request_part = (estimate.requests > 0).then(|| format!("the time for {requests}"));
    let parts: Vec<String> = time.into_iter().chain(request_part).collect();
    let end = |budget| format!("; measuring ends after at most {}", format_duration(budget));
    parts.join(" plus ") + &plan.sampling.budget_ms.map(end).unwrap_or_default()
}
