//! Estimates how long an experiment takes, based on its plan or on a trial of all its cases.

use speedwell_adapters::plan::SessionPlan;
use speedwell_adapters::{BenchmarkJob, SourceKind};
use speedwell_config::experiment::{Experiment, repeated_variant};
use speedwell_model::assignment::{LoadWarmup, RunAssignment, ServerLoad, TargetWork};
use speedwell_model::{Case, RunOrder, Variant, as_milliseconds};
use std::time::Duration;

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
            let (time, requests) = load_length(&assignment_traffic(assignment)?);
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
pub fn estimate_loads(plan: &SessionPlan) -> anyhow::Result<Option<ExperimentEstimate>> {
    let untimed = vec![Some(0); plan.jobs.len() * plan.variants.len()];
    estimate_from_trial(plan, &untimed)
}

/// Estimates the time and requests of all runs from a trial; `None` if the estimate is empty or the
/// plan is not an experiment. `lived_ns` are the lifetimes of the trial runs in the order of
/// `execution::try_all`: all variants of a job, then the next job.
///
/// # Errors
/// Fails if the definition was stored by a version of this program with a different grammar.
pub fn estimate_from_trial(
    plan: &SessionPlan,
    lived_ns: &[Option<u64>],
) -> anyhow::Result<Option<ExperimentEstimate>> {
    let Some(experiment) = plan.experiment()? else {
        return Ok(None);
    };
    let estimate = estimate_runs(plan, &experiment, lived_ns);
    Ok(Some(estimate).filter(|estimate| *estimate != ExperimentEstimate::default()))
}

/// Estimates the time and requests of all runs. `lived_ns` has one entry for each job and variant:
/// the lifetime of its trial run, to which the time of the load is added, or `None` if its runs do
/// not count.
fn estimate_runs(
    plan: &SessionPlan,
    experiment: &Experiment,
    lived_ns: &[Option<u64>],
) -> ExperimentEstimate {
    let runs = u64::from(plan.runs_per_variant());
    let mut estimate = ExperimentEstimate::default();
    for (index, lived_ns) in lived_ns.iter().enumerate() {
        let (job, variant) = (index / plan.variants.len(), index % plan.variants.len());
        let (Some(lived_ns), Some(job)) = (lived_ns, plan.jobs.get(job)) else {
            continue;
        };
        estimate.time += Duration::from_nanos(lived_ns * runs);
        let name = &plan.variants[variant].name;
        let case = job.case.as_ref();
        if let Some(traffic) = case.and_then(|case| case_traffic(experiment, case, name)) {
            let (time, count) = load_length(&traffic);
            estimate.time += time * u32::try_from(runs).unwrap_or(u32::MAX);
            estimate.requests += count * runs;
        }
    }
    estimate
}

fn case_traffic(experiment: &Experiment, case: &Case, variant: &str) -> Option<ServerLoad> {
    let group = experiment.group_of(case)?;
    let assignment = experiment.assignment(group, case, repeated_variant(variant), 0).ok()?;
    assignment_traffic(assignment)
}

fn assignment_traffic(assignment: RunAssignment) -> Option<ServerLoad> {
    match assignment.work {
        TargetWork::Server(service) => Some(service.load),
        TargetWork::Load(spec) => Some(ServerLoad {
            warmup: match spec.warmup {
                Some(time) => LoadWarmup::DurationMs(as_milliseconds(time)),
                None => LoadWarmup::None,
            },
            spec: *spec,
        }),
        TargetWork::Command => None,
    }
}

/// Time and number of requests of a load, including its warm-up.
fn load_length(traffic: &ServerLoad) -> (Duration, u64) {
    let time = traffic.spec.time.unwrap_or_default();
    let (warmup_ms, warmup_requests) = match traffic.warmup {
        LoadWarmup::None => (0, 0),
        LoadWarmup::Requests(count) => (0, count),
        LoadWarmup::DurationMs(ms) | LoadWarmup::SteadyMs(ms) => (ms, 0),
    };
    (time + Duration::from_millis(warmup_ms), traffic.spec.count.unwrap_or(0) + warmup_requests)
}
