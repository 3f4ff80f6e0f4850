//! Loads the plan and the finished work of an interrupted session.

use crate::reference;
use anyhow::{Context, anyhow, bail, ensure};
use speedwell_adapters::discover::DiscoveredBenchmarks;
use speedwell_adapters::plan::SessionPlan;
use speedwell_adapters::{BenchmarkJob, SourceKind};
use speedwell_engine::{
    EventListener, PreparedPlan, ResumedSession, attach_definitions, needs_earlier_runs, revisions,
};
use speedwell_machine::process;
use speedwell_model::{SessionState, as_milliseconds, quote};
use speedwell_store::{LARGE_SESSION, Store};
use std::time::Duration;

fn explain_no_plan(store: &Store, number: i64) -> anyhow::Result<anyhow::Error> {
    let session = store.load_session_without_runs(number)?;
    if session.state == SessionState::Imported {
        return Ok(anyhow!("session @{number} was imported: nothing to resume"));
    }
    let arguments: Vec<String> = session.command.iter().map(|argument| quote(argument)).collect();
    Ok(anyhow!(
        "session @{number} cannot be resumed: it was not measured in separate runs, because it is an \
         HTTP load\nhint: measure it again: {}",
        arguments.join(" ")
    ))
}

/// Loads the plan of the session `reference`. `budget` limits the time for the remaining runs; by
/// default, the session's own budget applies again, in full.
///
/// # Errors
/// Fails if there is no such session, or the session cannot be resumed, for example after an
/// import.
pub fn load_interrupted_plan(
    store: &Store,
    reference: &str,
    budget: Option<Duration>,
    listener: &mut EventListener<'_>,
) -> anyhow::Result<PreparedPlan> {
    process::adopt_orphans();
    process::install_handlers()?;
    let number = reference::find_session(store, reference)?.number;
    let Some(text) = store.session_plan(number)? else {
        return Err(explain_no_plan(store, number)?);
    };
    let mut plan: SessionPlan = serde_json::from_str(&text)
        .with_context(|| format!("cannot read the plan of session @{number}"))?;
    ensure!(
        plan.design.bisection.is_none(),
        "session @{number} is a bisection\nhint: speedwell bisect --resume @{number}"
    );
    ensure!(
        !plan.is_search,
        "session @{number} cannot be resumed: a concurrency search chooses each level based on \
         earlier ones\nhint: start it again; 'speedwell report @{number}' shows what was measured"
    );
    plan.sampling.budget_ms = budget.map(as_milliseconds).or(plan.sampling.budget_ms);
    attach_definitions(&mut plan)?;
    revisions::restore_worktrees(&plan, listener)?;
    // A definition file need not exist, because its text is stored with the plan.
    let is_kept = |job: &BenchmarkJob| {
        job.source.kind == SourceKind::Experiment || job.source.definition.is_some()
    };
    for job in plan.jobs.iter().filter(|job| !is_kept(job)) {
        let mut files = plan.variants.iter().map(|variant| variant.path_of(&job.source.file));
        if let Some(missing) = files.find(|file| !file.exists()) {
            bail!("'{}' of session @{number} no longer exists", missing.display());
        }
    }
    let resumed = Some(finished_work(store, number, &plan, LARGE_SESSION)?);
    Ok(PreparedPlan { plan, suite: DiscoveredBenchmarks::default(), resumed, held: None })
}

/// Loads the finished work of a session. If the session has more than `max_runs` runs, loads only
/// the runs that the rest of the session needs.
fn finished_work(
    store: &Store,
    number: i64,
    plan: &SessionPlan,
    max_runs: usize,
) -> anyhow::Result<ResumedSession> {
    let finished = store.finished_slots(number)?;
    // In a distributed session, the runs are not needed, because the workers know their settled
    // cases.
    let is_elsewhere = !store.list_shards(number)?.is_empty();
    let is_large = store.count_runs(number)? > max_runs && !needs_earlier_runs(plan);
    let session = if is_elsewhere || is_large {
        store.load_session_without_runs(number)?
    } else {
        store.load_session(number)?
    };
    let (mut runs, mut empty_slots) = (session.runs, None);
    if is_large && !is_elsewhere {
        runs = store.load_slot_runs(number, &plan.begun_slots(&finished))?;
        empty_slots = Some(store.empty_slots(number)?);
    }
    let failures = session.failures.iter();
    Ok(ResumedSession {
        number,
        completed_slots: finished,
        failed_slots: failures.filter_map(|failure| failure.slot).collect(),
        runs,
        empty_slots,
    })
}
