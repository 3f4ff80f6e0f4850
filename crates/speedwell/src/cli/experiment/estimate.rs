//! How long an experiment would take, as far as that can be told from having tried everything once.

use crate::definition::experiment::{Experiment, control};
use crate::model::Value;
use crate::model::assignment::{Traffic, Warmup, Work};
use crate::plan::Plan;
use crate::report::duration;
use std::time::Duration;

/// A sentence with the time that the loads of all runs take, which is known before anything was tried; `None` where
/// there are none.
///
/// # Errors
/// The definition is that of another version.
pub fn of_loads(plan: &Plan) -> anyhow::Result<Option<String>> {
    let Some(experiment) = plan.experiment()? else {
        return Ok(None);
    };
    let untimed = vec![Some(0); plan.jobs.len() * plan.variants.len()];
    let length = length_of_all(plan, &experiment, &untimed);
    Ok(length.map(|length| {
        format!(
            "The loads of {} runs of every case and variant take {length}, without starting and ending what they are \
             sent to; --test estimates the whole.",
            plan.runs_per_variant()
        )
    }))
}

/// A sentence with the time that all runs would take. `tried_ns` are the lives of the tried runs, in the order in
/// which `runner::try_all` counts them: all variants of a job, then the next job.
///
/// # Errors
/// The definition is that of another version.
pub fn told(plan: &Plan, tried_ns: &[Option<u64>]) -> anyhow::Result<Option<String>> {
    let Some(experiment) = plan.experiment()? else {
        return Ok(None);
    };
    let length = length_of_all(plan, &experiment, tried_ns);
    Ok(length.map(|length| {
        format!(
            "{} runs of every case and variant would take about {length}.",
            plan.runs_per_variant()
        )
    }))
}

/// The time of all runs in words; `lived_ns` is what each takes besides its load, `None` for one that is not counted.
fn length_of_all(plan: &Plan, experiment: &Experiment, lived_ns: &[Option<u64>]) -> Option<String> {
    let runs = u64::from(plan.runs_per_variant());
    let (mut total, mut requests) = (Duration::ZERO, 0);
    for (at, lived_ns) in lived_ns.iter().enumerate() {
        let (job, variant) = (at / plan.variants.len(), at % plan.variants.len());
        let (Some(lived_ns), Some(job)) = (lived_ns, plan.jobs.get(job)) else {
            continue;
        };
        total += Duration::from_nanos(lived_ns * runs);
        let name = &plan.variants[variant].name;
        if let Some(traffic) = job
            .case
            .as_ref()
            .and_then(|case| traffic(experiment, case, name))
        {
            let (time, count) = length(&traffic);
            total += time * u32::try_from(runs).unwrap_or(u32::MAX);
            requests += count * runs;
        }
    }
    let shown = (!total.is_zero()).then(|| duration(total.as_millis() as u64));
    let counted =
        (requests > 0).then(|| format!("the time of {} requests", Value::Number(requests as f64)));
    let parts: Vec<String> = shown.into_iter().chain(counted).collect();
    if parts.is_empty() {
        return None;
    }
    let budget = plan
        .sampling
        .budget_ms
        .map(|budget| format!("; it ends after {} at the latest", duration(budget)));
    Some(parts.join(" and ") + &budget.unwrap_or_default())
}

fn traffic(experiment: &Experiment, case: &crate::model::Case, variant: &str) -> Option<Traffic> {
    let group = experiment.group_of(case)?;
    let assignment = experiment
        .assignment(group, case, control::origin(variant), 0)
        .ok()?;
    match assignment.work {
        Work::Server(service) => Some(service.load),
        Work::Command => None,
    }
}

/// Time and requests of a load with its warm-up.
fn length(traffic: &Traffic) -> (Duration, u64) {
    let time = traffic.spec.time.unwrap_or_default();
    let (warm_time, warm_requests) = match traffic.warmup {
        Warmup::None => (0, 0),
        Warmup::Requests(count) => (0, count),
        Warmup::DurationMs(ms) | Warmup::SteadyMs(ms) => (ms, 0),
    };
    (
        time + Duration::from_millis(warm_time),
        traffic.spec.count.unwrap_or(0) + warm_requests,
    )
}
