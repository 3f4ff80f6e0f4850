//! Performs runs that are profiled instead of timed. All variants must do the same work. A load
//! with a given duration is therefore replaced by a load with a given number of requests.

use super::{
    AssignedRun, BenchmarkJob, RunContext, parse_report, resolve_assignment, run_in_process,
};
use anyhow::{Context, bail};
use speedwell_machine::process::{ProcessEnd, is_interrupt_requested};
use speedwell_model::assignment::{LoadWarmup, ProfilingOptions, RunAssignment, TargetWork};
use speedwell_model::load::spec::LoadClient;
use speedwell_model::{ProfileOutcome, StackProfile};
use std::sync::Arc;

/// How to profile a case. All variants are profiled in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProfileRequest {
    /// Which tool records, and when the recording starts.
    pub profiling: ProfilingOptions,
    /// Number of requests to send if the file gives a duration for the load instead of a number.
    pub requests: Option<u64>,
}

/// Profiles a run in a separate process. If no profile can be recorded, the outcome gives the
/// reason. Returns `None` only if the user interrupted the run.
pub fn record_profile(
    job: &BenchmarkJob,
    setting: &RunContext<'_>,
    request: &ProfileRequest,
) -> Option<ProfileOutcome> {
    let recorded = match take_profile(job, setting, request) {
        Ok(profile) => ProfileOutcome::Taken(Arc::new(profile)),
        Err(error) => ProfileOutcome::Missing(format!("{error:#}")),
    };
    (!is_interrupt_requested()).then_some(recorded)
}

fn take_profile(
    job: &BenchmarkJob,
    setting: &RunContext<'_>,
    request: &ProfileRequest,
) -> anyhow::Result<StackProfile> {
    let AssignedRun { mut assignment, seed, .. } = resolve_assignment(job, setting)?;
    let remark = prepare_assignment(&mut assignment, request)?;
    let (outcome, events) = run_in_process(&assignment, seed, setting)?;
    let performed = events.first("performed");
    if let Some(failure) = performed.and_then(parse_report).and_then(|performed| performed.failure)
    {
        bail!("the run failed at '{}': {}", failure.stage, failure.reason);
    }
    let Some(text) = performed.and_then(|performed| performed.get("profile")) else {
        match outcome.ended {
            ProcessEnd::Timeout => bail!("the run timed out"),
            _ => bail!("the run reported nothing"),
        }
    };
    let profile = serde_json::from_str(&text);
    let mut profile: StackProfile = profile.context("the profile cannot be read")?;
    profile.notes.extend(remark);
    Ok(profile)
}

/// Makes the work the same for all variants, and removes what only matters for measuring. If this
/// changes the load, returns a note for readers.
fn prepare_assignment(
    assignment: &mut RunAssignment,
    request: &ProfileRequest,
) -> anyhow::Result<Option<String>> {
    assignment.profile = Some(request.profiling);
    assignment.also.clear();
    assignment.figures.clear();
    let service = match &mut assignment.work {
        TargetWork::Server(service) => service,
        TargetWork::Command => return Ok(None),
        TargetWork::Load(_) => bail!("a load defined as [benchmark.NAME] cannot be profiled"),
    };
    let load = &mut service.load;
    // Only the built-in generator stops after a number of requests regardless of other options.
    load.spec.client = LoadClient::Builtin;
    let requests = match load.spec.count {
        Some(requests) => requests,
        None => {
            let served = request
                .requests
                .context("no timed run has shown how many requests the server can handle")?;
            // Fewer requests than connections would leave some connections unused.
            served.max(u64::from(load.in_flight()))
        }
    };
    let is_chosen = load.spec.count.is_none();
    (load.spec.time, load.spec.count) = (None, Some(requests));
    let is_timed = !matches!(load.warmup, LoadWarmup::None | LoadWarmup::Requests(_));
    if is_timed && !request.profiling.after_warmup {
        load.warmup = LoadWarmup::Requests(requests);
    }
    Ok(is_chosen.then(|| {
        format!(
            "For the profile, the server received {requests} requests instead of a load of fixed \
             duration, so that both sides do the same work."
        )
    }))
}
