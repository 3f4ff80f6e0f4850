//! Loads the plan and the finished work of an interrupted session.

use super::{Listener, Plans, Resumed, revisions};
use crate::reference;
use crate::session::looks_back;
use anyhow::{Context, anyhow, bail, ensure};
use speedwell_harness::discover::Suite;
use speedwell_harness::plan::Plan;
use speedwell_harness::{Job, Kind};
use speedwell_model::{DefinitionFile, State, milliseconds, quote};
use speedwell_process as process;
use speedwell_results::store::{LARGE_SESSION, Store};
use speedwell_suite as suite;
use std::sync::Arc;
use std::time::Duration;

fn why_unplanned(store: &Store, number: i64) -> anyhow::Result<anyhow::Error> {
    let session = store.session_without_runs(number)?;
    if session.state == State::Imported {
        return Ok(anyhow!(
            "session @{number} was imported: there is nothing to resume"
        ));
    }
    let words: Vec<String> = session.command.iter().map(|word| quote(word)).collect();
    Ok(anyhow!(
        "session @{number} was not measured in runs that could be continued later, as a load is sent in one go: it \
         cannot be resumed\nhint: measure it again: {}",
        words.join(" ")
    ))
}

/// Loads the plan of the session `reference`. The rest may take the time `budget`, or else the
/// session's own budget again.
///
/// # Errors
/// Fails if there is no such session, or it has no plan because it was imported.
pub fn resumed(
    store: &Store,
    reference: &str,
    budget: Option<Duration>,
    listener: &mut Listener<'_>,
) -> anyhow::Result<Plans> {
    process::adopt_orphans();
    process::on_interrupt()?;
    let number = reference::find(store, reference)?.number;
    let Some(text) = store.plan(number)? else {
        return Err(why_unplanned(store, number)?);
    };
    let mut plan: Plan = serde_json::from_str(&text)
        .with_context(|| format!("the plan of session @{number} cannot be read"))?;
    ensure!(
        plan.design.bisection.is_none(),
        "session @{number} is a bisection\nhint: speedwell bisect --resume @{number}"
    );
    ensure!(
        !plan.is_search,
        "session @{number} searched for the best concurrency, where each level follows from those before it: it \
         cannot be resumed\nhint: start it again; 'speedwell report @{number}' shows what was measured"
    );
    plan.sampling.budget_ms = budget.map(milliseconds).or(plan.sampling.budget_ms);
    attach_definitions(&mut plan)?;
    revisions::restore(&plan, listener)?;
    // The text of a definition file is stored with its plan.
    let is_kept =
        |job: &Job| job.source.kind == Kind::Experiment || job.source.definition.is_some();
    for job in plan.jobs.iter().filter(|job| !is_kept(job)) {
        let mut files = plan
            .variants
            .iter()
            .map(|own| own.path_of(&job.source.file));
        if let Some(gone) = files.find(|file| !file.exists()) {
            bail!("'{}' of session @{number} is gone", gone.display());
        }
    }
    let resumed = Some(what_is_done(store, number, &plan, LARGE_SESSION)?);
    Ok(Plans {
        plan,
        suite: Suite::default(),
        resumed,
        held: None,
    })
}

/// The finished work of a session. If it has more than `most` runs, omits those no longer needed.
fn what_is_done(store: &Store, number: i64, plan: &Plan, most: usize) -> anyhow::Result<Resumed> {
    let done = store.finished_slots(number)?;
    // The workers of a distributed session know which of their cases are settled.
    let is_elsewhere = !store.parcels(number)?.is_empty();
    let is_large = store.run_count(number)? > most && !looks_back(plan);
    let session = if is_elsewhere || is_large {
        store.session_without_runs(number)?
    } else {
        store.session(number)?
    };
    let (mut runs, mut silent) = (session.runs, None);
    if is_large && !is_elsewhere {
        runs = store.runs_of_slots(number, &plan.begun_slots(&done))?;
        silent = Some(store.silent_slots(number)?);
    }
    let failures = session.failures.iter();
    Ok(Resumed {
        number,
        done,
        failed: failures.filter_map(|failure| failure.slot).collect(),
        runs,
        silent,
    })
}

/// Gives jobs the text of their definition file as of the start of the session. Plans of earlier
/// versions do not contain it, so the file is read, once.
pub(crate) fn attach_definitions(plan: &mut Plan) -> anyhow::Result<()> {
    let keep = |source: DefinitionFile| Arc::new(suite::Definition::new(source));
    let known = plan.design.definitions.iter().cloned().map(keep);
    let mut known: Vec<Arc<suite::Definition>> = known.collect();
    let loads = plan.jobs.iter_mut().map(|job| &mut job.source);
    for source in loads.filter(|source| source.kind == Kind::Load) {
        let own = known
            .iter()
            .find(|known| known.source().file == source.file)
            .cloned();
        let own = match own {
            Some(own) => own,
            None => {
                known.push(keep(suite::source(&source.file, &[])?));
                known[known.len() - 1].clone()
            }
        };
        source.definition = Some(own);
    }
    Ok(())
}
