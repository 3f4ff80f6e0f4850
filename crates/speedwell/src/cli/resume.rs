//! `--resume`: the plan of an interrupted session, with what it has done.

use super::measure::{Plans, Resumed};
use crate::define::Suite;
use crate::harness::{Job, Kind};
use crate::plan::Plan;
use crate::process;
use crate::store::{Reference, Store};
use anyhow::{Context, bail};

/// The plan of the session that `reference` names.
///
/// # Errors
/// No such session, or one that was imported and so has no plan.
pub fn plans(store: &Store, reference: &str) -> anyhow::Result<Plans> {
    process::adopt_orphans();
    process::on_interrupt()?;
    let number = store.find(&reference.parse::<Reference>()?)?;
    let Some(text) = store.plan(number)? else {
        bail!("session @{number} was imported: there is nothing to go on with");
    };
    let plan: Plan = serde_json::from_str(&text)
        .with_context(|| format!("the plan of session @{number} cannot be read"))?;
    // The text of an experiment is kept with its plan.
    let is_gone = |job: &&Job| job.source.kind != Kind::Experiment && !job.source.file.exists();
    let missing = plan.jobs.iter().find(is_gone);
    if let Some(job) = missing {
        bail!(
            "'{}' of session @{number} is gone",
            job.source.file.display()
        );
    }
    let runs = store.session(number)?.runs;
    let done = store.finished_slots(number)?;
    let resumed = Some(Resumed { number, done, runs });
    Ok(Plans {
        plan,
        suite: Suite::default(),
        resumed,
    })
}
