//! Runs that are recorded instead of timed. Both sides of a comparison must do the same work, so a load that lasts
//! for a time becomes one of so many requests.

use super::{Job, Order, Setting, answered_by_process, performed, resolved};
use anyhow::{Context, bail};
use speedwell_model::assignment::{Assignment, Profiling, Warmup, Work};
use speedwell_model::load_spec::Client;
use speedwell_model::{Profile, Recorded};
use speedwell_process::{Ended, interrupted};
use std::sync::Arc;

/// How a case is recorded, the same under every variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProfileOrder {
    /// With what, from when on.
    pub profiling: Profiling,
    /// Requests of a load, where the file gives it a time and not a number.
    pub requests: Option<u64>,
}

/// Has a process perform a run that is recorded. That nothing was recorded is an answer, too; `None` if the user
/// does not want to wait for one.
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

/// Makes the work the same for all variants, and leaves out what is only measured. Gives what a reader should know
/// of that, as a sentence.
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
    // Only our own generator ends after a number of requests whatever else is asked of it.
    load.spec.client = Client::Builtin;
    let requests = match load.spec.count {
        Some(requests) => requests,
        None => {
            let served = order.requests;
            let served = served.context("no timed run tells how many requests it can serve")?;
            // Fewer than there are connections would leave some without work.
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
