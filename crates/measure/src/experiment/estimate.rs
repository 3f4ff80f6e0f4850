//! Estimates the duration of an experiment, as far as a trial of everything reveals it.

use speedwell_harness::plan::Plan;
use speedwell_harness::{Job, Kind};
use speedwell_model::assignment::{Assignment, Traffic, Warmup, Work};
use speedwell_model::{Case, Length, Order, Variant, milliseconds};
use speedwell_suite::experiment::{Experiment, repeated_variant};
use std::time::Duration;

/// Estimated total of all runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Estimate {
    /// Time, as far as known.
    pub time: Duration,
    /// Requests, whose duration is unknown.
    pub requests: u64,
}

/// Measuring time of benchmark files and snippets, if options and files determine it before
/// anything runs. Excludes starting programs and servers. `None` if a benchmark or framework
/// decides it, and for experiments, about which [`of_loads`] knows more.
pub fn measuring_time(plan: &Plan) -> Option<Duration> {
    let is_one_after_the_other = plan.design.order != Order::Paired && !plan.shared;
    if !is_one_after_the_other || plan.is_search || plan.design.counting.is_some() {
        return None;
    }
    let mut all = Duration::ZERO;
    for job in &plan.jobs {
        for variant in &plan.variants {
            all += time_of_run(plan, job, variant)?;
        }
    }
    let all = all * plan.runs_per_variant();
    (!all.is_zero()).then_some(all)
}

fn time_of_run(plan: &Plan, job: &Job, variant: &Variant) -> Option<Duration> {
    match job.source.kind {
        Kind::Load => {
            let experiment = job.source.definition().ok()?.experiment().ok()?;
            let case = job.case.as_ref()?;
            let group = experiment.group_of(case)?;
            let assignment = experiment
                .load_assignment(group, case, variant, None)
                .ok()?;
            let (time, requests) = length(&traffic_of(assignment)?);
            (requests == 0).then_some(time)
        }
        Kind::Cpp | Kind::Program | Kind::Python | Kind::Snippet(_) => {
            let samples = job.samples.unwrap_or(plan.sampling.samples);
            let Length::TimeNs(ns) = samples.length else {
                return None;
            };
            let measured_ns = ns * u64::from(samples.count);
            Some(Duration::from_nanos(measured_ns + samples.warmup_ns))
        }
        _ => None,
    }
}

/// Estimates the loads of all runs, without a trial; `None` if there are none.
///
/// # Errors
/// Fails if the definition was read by another version with a different grammar.
pub fn of_loads(plan: &Plan) -> anyhow::Result<Option<Estimate>> {
    let untimed = vec![Some(0); plan.jobs.len() * plan.variants.len()];
    of_trial(plan, &untimed)
}

/// Estimates all runs from a trial; `None` if the estimate is empty or the plan is not an
/// experiment. `lived_ns` are the lifetimes of the trial runs in the order of `runner::try_all`:
/// all variants of a job, then the next job.
///
/// # Errors
/// Fails if the definition was read by another version with a different grammar.
pub fn of_trial(plan: &Plan, lived_ns: &[Option<u64>]) -> anyhow::Result<Option<Estimate>> {
    let Some(experiment) = plan.experiment()? else {
        return Ok(None);
    };
    let all = estimate(plan, &experiment, lived_ns);
    Ok(Some(all).filter(|all| *all != Estimate::default()))
}

/// `lived_ns` is the time of each run besides its load, `None` for runs that do not count.
fn estimate(plan: &Plan, experiment: &Experiment, lived_ns: &[Option<u64>]) -> Estimate {
    let runs = u64::from(plan.runs_per_variant());
    let mut all = Estimate::default();
    for (at, lived_ns) in lived_ns.iter().enumerate() {
        let (job, variant) = (at / plan.variants.len(), at % plan.variants.len());
        let (Some(lived_ns), Some(job)) = (lived_ns, plan.jobs.get(job)) else {
            continue;
        };
        all.time += Duration::from_nanos(lived_ns * runs);
        let name = &plan.variants[variant].name;
        let case = job.case.as_ref();
        if let Some(traffic) = case.and_then(|case| traffic(experiment, case, name)) {
            let (time, count) = length(&traffic);
            all.time += time * u32::try_from(runs).unwrap_or(u32::MAX);
            all.requests += count * runs;
        }
    }
    all
}

fn traffic(experiment: &Experiment, case: &Case, variant: &str) -> Option<Traffic> {
    let group = experiment.group_of(case)?;
    let assignment = experiment
        .assignment(group, case, repeated_variant(variant), 0)
        .ok()?;
    traffic_of(assignment)
}

fn traffic_of(assignment: Assignment) -> Option<Traffic> {
    match assignment.work {
        Work::Server(service) => Some(service.load),
        Work::Load(spec) => Some(Traffic {
            warmup: match spec.warmup {
                Some(time) => Warmup::DurationMs(milliseconds(time)),
                None => Warmup::None,
            },
            spec: *spec,
        }),
        Work::Command => None,
    }
}

/// Time and number of requests of a load, including its warm-up.
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
