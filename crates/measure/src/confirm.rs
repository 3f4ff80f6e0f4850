//! Measuring a change again that somebody or the history suspects.
//!
//! Decides what is measured for a change of the store: the case and the target come from a session that has it. How many
//! runs that takes is decided in `analysis::confirm`. Start at [`of_change`].

use super::{MeasureRequest, Plans, RevisionRequest, revisions};
use anyhow::{Context, Result, bail, ensure};
use regex::Regex;
use speedwell_harness::Job;
use speedwell_harness::plan::Plan;
use speedwell_model::{Change, Purpose, SeriesKey, Variant};
use speedwell_results::store::Store;

/// A change of the store that is measured again.
#[derive(Debug, Clone)]
pub struct Suspect {
    /// What is known of it.
    pub change: Change,
    /// Its series.
    pub series: SeriesKey,
}

impl Suspect {
    /// Keeps nothing of the plans but the case of the change.
    ///
    /// # Errors
    /// They do not have it.
    pub fn keep_case(&self, plans: &mut Plans) -> Result<()> {
        plans.plan.jobs.retain(|job| is_of(job, &self.series));
        ensure!(
            !plans.plan.jobs.is_empty(),
            "the revisions of change {} have no case '{}' any more",
            self.change.number,
            self.series.case
        );
        Ok(())
    }
}

fn is_of(job: &Job, series: &SeriesKey) -> bool {
    match &job.case {
        Some(case) => case.id() == series.case,
        None => job.label == series.case,
    }
}

/// Whether all variants are one and the same program, so that measuring says nothing about a change.
pub fn are_identical(plans: &Plans) -> bool {
    revisions::are_identical(&plans.plan)
}

/// The change of that number, and what is measured to confirm it; `request` says how.
///
/// # Errors
/// No such change, or no session knows the target of its case.
pub fn of_change(
    store: &Store,
    number: i64,
    request: &MeasureRequest,
) -> Result<(Suspect, MeasureRequest)> {
    let stored = store.change_numbered(number)?;
    let all = store.series()?;
    let series = all.into_iter().find(|known| known.number == stored.series);
    let series = series.context("the series of the change is gone")?.key;
    let change = stored.change;
    ensure!(
        !change.is_drift,
        "change {number} is a drift: it has no two revisions between which it lies\nhint: --old rev:OLD --new rev:NEW \
         compares any two"
    );
    let (job, variant) = job_of(store, stored.series, &series)?;
    let mut request = request.clone();
    request.targets = vec![job.source.operand()];
    let case = job.case.as_ref();
    let values = case.map(|case| case.values.as_slice()).unwrap_or_default();
    if !job.source.is_program() {
        let sets = values
            .iter()
            .map(|(name, value)| (name.clone(), value.plain()));
        request.selection.sets.extend(sets);
    }
    let name = case.map_or(&job.source.name, |case| &case.benchmark);
    request.selection.filters = vec![Regex::new(&format!("^{}$", regex::escape(name)))?];
    let old = RevisionRequest {
        variant: 0,
        typed: change.before.clone(),
        program: None,
        names_variant: true,
    };
    let new = RevisionRequest {
        variant: 1,
        typed: change.after.clone(),
        ..old.clone()
    };
    let own = |name: &str| Variant {
        name: name.to_owned(),
        program: None,
        worktree: None,
        ..variant.clone()
    };
    request.variants.given = vec![own("before"), own("after")];
    request.variants.revisions = vec![old, new];
    request.plan.purpose = Purpose::Confirm;
    Ok((Suspect { change, series }, request))
}

/// The job of a case, and the variant that performed it, from the newest session with a plan that has it.
fn job_of(store: &Store, series: i64, key: &SeriesKey) -> Result<(Job, Variant)> {
    for point in store.points(series)?.iter().rev() {
        let Some(text) = store.plan(point.session)? else {
            continue;
        };
        let Ok(plan) = serde_json::from_str::<Plan>(&text) else {
            continue;
        };
        if let Some(job) = plan.jobs.iter().find(|job| is_of(job, key)) {
            let named = plan.variants.iter().find(|own| own.name == key.variant);
            let variant = named.or(plan.variants.first());
            let mut variant = variant.cloned().context("a plan has variants")?;
            if variant.worktree.take().is_some() {
                // What was filled in for another revision is filled in anew.
                variant.environment.clear();
            }
            return Ok((job.clone(), variant));
        }
    }
    bail!(
        "no session knows the target of '{}': it was imported or given another name\nhint: speedwell confirm --old \
         rev:OLD --new rev:NEW TARGET",
        key.case
    )
}
