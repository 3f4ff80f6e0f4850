//! Implements `--list`, which shows what would be measured, and `--test`, which finds out whether
//! every case works.

use super::options::MeasureTask;
use super::{CommandStatus, status};
use speedwell_adapters::BenchmarkJob;
use speedwell_adapters::plan::SessionPlan;
use speedwell_engine::execution::SessionEnd;
use speedwell_engine::experiment::{
    ExperimentEstimate, estimate_from_trial, estimate_loads, measuring_time,
};
use speedwell_engine::{PreparedPlan, describe_failure, reach_warning, try_cases};
use speedwell_model::Case;
use speedwell_report::{self as report, CaseLine, TrialOutcome, format_count, format_duration};

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
    Ok(print_suite_problems(plans))
}

/// Executes each case once under the first variant, and reports failures. Executes the cases of an
/// experiment once under every variant.
///
/// # Errors
/// Fails if the output cannot be written.
pub fn test_cases(plans: &PreparedPlan, task: &MeasureTask) -> anyhow::Result<CommandStatus> {
    let warnings = plans.suite.warnings.iter();
    warnings.for_each(|warning| status::print_warning(warning));
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
    let document = report::report_trial(&outcome, &task.output.report_settings());
    task.output.print_document(&document)?;
    Ok(match trial_result.ended {
        SessionEnd::Interrupted => CommandStatus::INTERRUPTED,
        _ => status::status_of_failures(&outcome.failures),
    })
}

fn describe_time(estimate: &ExperimentEstimate, plan: &SessionPlan) -> String {
    let time =
        (!estimate.time.is_zero()).then(|| format_duration(estimate.time.as_millis() as u64));
    let requests = format_count(estimate.requests as usize, "request", "requests");
    let request_part = (estimate.requests > 0).then(|| format!("the time for {requests}"));
    let parts: Vec<String> = time.into_iter().chain(request_part).collect();
    let budget = plan
        .sampling
        .budget_ms
        .map(|budget| format!("; measuring ends after at most {}", format_duration(budget)));
    parts.join(" plus ") + &budget.unwrap_or_default()
}

fn print_suite_problems(plans: &PreparedPlan) -> CommandStatus {
    let warnings = plans.suite.warnings.iter();
    warnings.for_each(|warning| status::print_warning(warning));
    for failure in &plans.suite.failures {
        status::print_warning(&describe_failure(failure));
    }
    match plans.suite.hard_failures().next() {
        Some(_) => CommandStatus::FAILED,
        None => CommandStatus::DONE,
    }
}
