//! Runs that are profiled instead of timed. All variants must do the same work, so a load with a
//! duration becomes one with a number of requests.

use super::{Job, Order, Setting, answered_by_process, performed, resolved};
use anyhow::{Context, bail};
use speedwell_model::assignment::{Assignment, Profiling, Warmup, Work};
use speedwell_model::load_spec::Client;
use speedwell_model::{Profile, Recorded};
use speedwell_process::{Ended, interrupted};
use std::sync::Arc;

/// Profiling of a case, the same under every variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProfileOrder {
    /// Tool and start of the recording.
    pub profiling: Profiling,
    /// Number of requests of a load for which the file gives a duration.
    pub requests: Option<u64>,
}

/// Profiles a run in a process. A missing profile is a valid result; `None` only if the user
/// interrupted.
pub fn record(job: &Job, setting: &Setting<'_>, order: &ProfileOrder) -> Option<Recorded> {
    let recorded = match profile(job, setting, order) {
        Ok(profile) => Recorded::Taken(Arc::new(profile)),
        Err(error) => Recorded::Missing(format!("{error:#}")),
    };
    (!interrupted()).then_some(recorded)
}

fn profile(job: &Job, setting: &Setting<'_>, order: &ProfileOrder) -> anyhow::Result<Profile> {
    let Order {
        mut assignment,
        seed,
        ..
    } = resolved(job, setting)?;
    let remark = prepare(&mut assignment, order)?;
    let (outcome, events) = answered_by_process(&assignment, seed, setting)?;
    let told = events.first("performed");
    if let Some(failure) = told
        .and_then(performed)
        .and_then(|performed| performed.failure)
    {
        bail!("the run failed at '{}': {}", failure.stage, failure.reason);
    }
    let Some(text) = told.and_then(|told| told.get("profile")) else {
        match outcome.ended {
            Ended::Timeout => bail!("the run did not end in time"),
            _ => bail!("the run reported nothing"),
        }
    };
    let profile = serde_json::from_str(&text);
    let mut profile: Profile = profile.context("the profile cannot be read")?;
    profile.remarks.extend(remark);
    Ok(profile)
}

/// Makes the work the same for all variants, and removes what only matters for measuring. Returns a
/// note for readers, if the load changed.
fn prepare(assignment: &mut Assignment, order: &ProfileOrder) -> anyhow::Result<Option<String>> {
    assignment.profile = Some(order.profiling);
    assignment.also.clear();
    assignment.figures.clear();
    let service = match &mut assignment.work {
        Work::Server(service) => service,
        Work::Command => return Ok(None),
        Work::Load(_) => bail!("loads of the short form are not recorded"),
    };
    let load = &mut service.load;
    // Only the built-in generator stops after a number of requests regardless of other options.
    load.spec.client = Client::Builtin;
    let requests = match load.spec.count {
        Some(requests) => requests,
        None => {
            let served = order.requests;
            let served = served.context("no timed run tells how many requests it can serve")?;
            // Fewer requests than connections would leave some connections unused.
            served.max(u64::from(load.in_flight()))
        }
    };
    let is_chosen = load.spec.count.is_none();
    (load.spec.time, load.spec.count) = (None, Some(requests));
    let is_timed = !matches!(load.warmup, Warmup::None | Warmup::Requests(_));
    if is_timed && !order.profiling.after_warmup {
        load.warmup = Warmup::Requests(requests);
    }
    Ok(is_chosen.then(|| {
        format!(
            "While a server was recorded it was sent {requests} requests instead of a load that lasts for a time: \
             both sides must do the same work."
        )
    }))
}
