//! Measures a suspected change again.
//!
//! Decides what to measure for a stored change: the case and the target come from a session that
//! has them. `analysis::confirm` decides how many runs that takes. Start at [`of_change`].

use super::{MeasureRequest, Plans, RevisionRequest, revisions};
use anyhow::{Context, Result, bail, ensure};
use regex::Regex;
use speedwell_harness::Job;
use speedwell_harness::plan::Plan;
use speedwell_model::{Change, Machine, Purpose, SeriesKey, Variant};
use speedwell_results::store::{Store, StoredSeries};
use std::collections::BTreeSet;

/// A stored change to measure again.
#[derive(Debug, Clone)]
pub struct Suspect {
    /// The change.
    pub change: Change,
    /// Its series.
    pub series: SeriesKey,
    /// Machines with points of the series.
    pub machines: Vec<Machine>,
}

impl Suspect {
    fn new(store: &Store, change: Change, series: StoredSeries) -> Result<Suspect> {
        let points = store.points(series.number)?;
        let machines: BTreeSet<i64> = points.iter().map(|point| point.machine).collect();
        let machines = machines.into_iter().map(|number| store.machine(number));
        Ok(Suspect {
            change,
            series: series.key,
            machines: machines.collect::<Result<_>>()?,
        })
    }

    /// Whether it is a change of the case and metric with these names.
    pub fn is_of(&self, case: &str, metric: &str) -> bool {
        self.series.case == case && self.series.metric.name == metric
    }
}

/// Changes between the same revisions of one target, measured in one session.
#[derive(Debug, Clone)]
pub struct Suspects {
    /// The changes.
    pub suspects: Vec<Suspect>,
    /// What to measure for them.
    pub request: MeasureRequest,
}

impl Suspects {
    /// Whether another change can be measured in the same session.
    fn takes(&self, suspect: &Suspect, request: &MeasureRequest) -> bool {
        let same = |own: &Suspect| {
            own.change.before == suspect.change.before && own.change.after == suspect.change.after
        };
        self.suspects.iter().all(same)
            && self.request.targets == request.targets
            && self.request.variants.given == request.variants.given
    }

    /// Adds another change with its cases.
    fn add(&mut self, suspect: Suspect, request: MeasureRequest) {
        let own = &mut self.request.selection;
        own.filters.extend(request.selection.filters);
        own.sets.extend(request.selection.sets);
        own.sets.sort();
        own.sets.dedup();
        self.suspects.push(suspect);
    }
}

/// Keeps only the cases of these changes in the plans.
///
/// # Errors
/// Fails if a case is missing.
pub fn keep_cases(suspects: &[Suspect], plans: &mut Plans) -> Result<()> {
    for Suspect { change, series, .. } in suspects {
        ensure!(
            plans.plan.jobs.iter().any(|job| is_of(job, series)),
            "the revisions of change {} have no case '{}' any more",
            change.number,
            series.case
        );
    }
    let of = suspects.iter().map(|suspect| &suspect.series);
    plans
        .plan
        .jobs
        .retain(|job| of.clone().any(|series| is_of(job, series)));
    Ok(())
}

fn is_of(job: &Job, series: &SeriesKey) -> bool {
    match &job.case {
        Some(case) => case.id() == series.case,
        None => job.label == series.case,
    }
}

/// Whether all variants are the same program, so that measuring says nothing about a change.
pub fn are_identical(plans: &Plans) -> bool {
    revisions::are_identical(&plans.plan)
}

/// Groups the changes with these numbers by the sessions that confirm them. `request` supplies the
/// options.
///
/// # Errors
/// Fails if a change does not exist or no session knows the target of its case.
pub fn of_changes(
    store: &Store,
    numbers: &[i64],
    request: &MeasureRequest,
) -> Result<Vec<Suspects>> {
    let mut all: Vec<Suspects> = Vec::new();
    for number in numbers {
        let (suspect, request) = of_change(store, *number, request)?;
        match all.iter_mut().find(|own| own.takes(&suspect, &request)) {
            Some(own) => own.add(suspect, request),
            None => all.push(Suspects {
                suspects: vec![suspect],
                request,
            }),
        }
    }
    Ok(all)
}

/// Finds the stored changes that an interrupted session measures again.
///
/// # Errors
/// Fails if the store cannot be read.
pub fn of_plan(store: &Store, plan: &Plan) -> Result<Vec<Suspect>> {
    let commit = |at: usize| Some(plan.variants.get(at)?.worktree.as_ref()?.revision.as_str());
    let (Some(before), Some(after)) = (commit(0), commit(1)) else {
        return Ok(Vec::new());
    };
    let mut all = Vec::new();
    for series in store.series()? {
        if !plan.jobs.iter().any(|job| is_of(job, &series.key)) {
            continue;
        }
        for number in store.changes_between(series.number, before, after)? {
            let change = store.change_numbered(number)?.change;
            all.push(Suspect::new(store, change, series.clone())?);
        }
    }
    Ok(all)
}

/// Returns the change with this number and what to measure to confirm it. `request` supplies the
/// options.
///
/// # Errors
/// Fails if the change does not exist or no session knows the target of its case.
pub fn of_change(
    store: &Store,
    number: i64,
    request: &MeasureRequest,
) -> Result<(Suspect, MeasureRequest)> {
    let stored = store.change_numbered(number)?;
    let all = store.series()?;
    let series = all.into_iter().find(|known| known.number == stored.series);
    let series = series.context("the series of the change is gone")?;
    let change = stored.change;
    ensure!(
        !change.is_drift,
        "change {number} is a drift: it has no two revisions between which it lies\nhint: --old rev:OLD --new rev:NEW \
         compares any two"
    );
    let (job, variant) = job_of(store, &series)?;
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
    Ok((Suspect::new(store, change, series)?, request))
}

/// Finds the job of a case and its variant in the newest session whose plan has them.
fn job_of(store: &Store, series: &StoredSeries) -> Result<(Job, Variant)> {
    let key = &series.key;
    for point in store.points(series.number)?.iter().rev() {
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
                // It was filled in for another revision and will be filled in again.
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
