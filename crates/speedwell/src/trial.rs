//! `--list` and `--test`: shows what would be measured, and whether it works.

use super::options::Task;
use super::{Status, status};
use speedwell_harness::Job;
use speedwell_harness::plan::Plan;
use speedwell_measure::experiment::{Estimate, measuring_time, of_loads, of_trial};
use speedwell_measure::{Plans, described, reach_warning, try_out};
use speedwell_model::{Case, Value};
use speedwell_report::{self as report, CaseLine, Trial, duration};
use speedwell_runner::Ended;

/// Prints every case.
///
/// # Errors
/// Fails if the output cannot be written.
pub fn list(plans: &Plans, task: &Task) -> anyhow::Result<Status> {
    let plan = &plans.plan;
    let runs = u64::from(plan.runs_per_variant()) * plan.variants.len() as u64;
    let line = |job: &Job| CaseLine {
        case: job
            .case
            .clone()
            .or_else(|| job.label_as_case())
            .unwrap_or_else(|| {
                // A label that is not a case id is the name of a file whose cases only the file
                // knows.
                Case::new(&job.label, Vec::new())
            }),
        runs,
    };
    let cases: Vec<CaseLine> = plan.jobs.iter().map(line).collect();
    let is_upper_bound = plan.may_need_fewer_runs();
    let time = measuring_time(plan);
    task.output
        .print(&report::cases(&cases, is_upper_bound, time))?;
    if let Some(sentence) = reach_warning(plan, &task.settings) {
        status::warn(&sentence);
    }
    if let Some(estimate) = of_loads(plan)?
        && !task.output.quiet
    {
        status::note(&format!(
            "The loads of {} runs of every case and variant take {}, without starting and ending what they are \
             sent to; --test estimates the whole.",
            plan.runs_per_variant(),
            length(&estimate, plan)
        ));
    }
    Ok(tell_broken(plans))
}

/// Executes each case once under the first variant and reports failures.
///
/// # Errors
/// Fails if the output cannot be written.
pub fn test(plans: &Plans, task: &Task) -> anyhow::Result<Status> {
    let warnings = plans.suite.warnings.iter();
    warnings.for_each(|warning| status::warn(warning));
    let tried = try_out(plans, task.execution.fail_fast, &mut task.progress())?;
    if tried.ended == Ended::Complete
        && let Some(estimate) = of_trial(&plans.plan, &tried.lived_ns)?
    {
        status::note(&format!(
            "{} runs of every case and variant would take about {}.",
            plans.plan.runs_per_variant(),
            length(&estimate, &plans.plan)
        ));
    }
    let works = |(passed, failed): &&(usize, usize)| *passed > 0 && *failed == 0;
    let trial = Trial {
        files: tried.files.len(),
        working_files: tried.files.values().filter(works).count(),
        cases: tried.files.values().map(|(passed, _)| passed).sum(),
        failures: tried.failures,
        is_experiment: plans.plan.design.experiment.is_some(),
    };
    let document = report::trial(&trial, &task.output.settings());
    task.output.print(&document)?;
    Ok(match tried.ended {
        Ended::Interrupted => Status::INTERRUPTED,
        _ => status::of_failures(&trial.failures),
    })
}

/// Formats the estimated time of all runs.
fn length(estimate: &Estimate, plan: &Plan) -> String {
    let time = (!estimate.time.is_zero()).then(|| duration(estimate.time.as_millis() as u64));
    let requests = Value::Number(estimate.requests as f64);
    let counted = (estimate.requests > 0).then(|| format!("the time of {requests} requests"));
    let parts: Vec<String> = time.into_iter().chain(counted).collect();
    let budget = plan
        .sampling
        .budget_ms
        .map(|budget| format!("; it ends after {} at the latest", duration(budget)));
    parts.join(" and ") + &budget.unwrap_or_default()
}

fn tell_broken(plans: &Plans) -> Status {
    let warnings = plans.suite.warnings.iter();
    warnings.for_each(|warning| status::warn(warning));
    for failure in &plans.suite.failures {
        status::warn(&described(failure));
    }
    match plans.suite.broken().next() {
        Some(_) => Status::COULD_NOT,
        None => Status::DONE,
    }
}
