//! Measures a suspected change again.
//!
//! This module decides what to measure. It takes the case and the target from a session that has
//! measured them. `analysis::confirm` decides how many runs a confirmation takes. Start at
//! [`prepare_change`].

use anyhow::{Context, Result, bail, ensure};
use regex::Regex;
use speedwell_adapters::BenchmarkJob;
use speedwell_adapters::plan::SessionPlan;
use speedwell_engine::{self as engine, MeasureRequest, PreparedPlan, RevisionRequest};
use speedwell_model::{Machine, RecordedChange, SeriesKey, SessionPurpose, Variant};
use speedwell_store::{Store, StoredSeries};
use std::collections::BTreeSet;

/// A stored change to measure again.
#[derive(Debug, Clone)]
pub struct SuspectChange {
    /// The change.
    pub change: RecordedChange,
    /// The series of the change.
    pub series: SeriesKey,
    /// Machines with points of the series.
    pub machines: Vec<Machine>,
}

impl SuspectChange {
    fn new(store: &Store, change: RecordedChange, series: StoredSeries) -> Result<SuspectChange> {
        let points = store.load_points(series.number)?;
        let numbers: BTreeSet<i64> = points.iter().map(|point| point.machine).collect();
        let machines =
            numbers.into_iter().map(|number| store.find_machine(number)).collect::<Result<_>>()?;
        Ok(SuspectChange { change, series: series.key, machines })
    }

    /// Whether this is a change of `metric` in `case`.
    pub fn is_of(&self, case: &str, metric: &str) -> bool {
        self.series.case == case && self.series.metric.name == metric
    }
}

/// Changes between the same two revisions of one target. One session measures all these changes.
#[derive(Debug, Clone)]
pub struct SuspectGroup {
    /// The changes.
    pub suspects: Vec<SuspectChange>,
    /// What to measure for these changes.
    pub request: MeasureRequest,
}

impl SuspectGroup {
    /// Whether another change can be measured in the same session.
    fn accepts_change(&self, suspect: &SuspectChange, request: &MeasureRequest) -> bool {
        let has_same_revisions = |other: &SuspectChange| {
            other.change.before == suspect.change.before
                && other.change.after == suspect.change.after
        };
        self.suspects.iter().all(has_same_revisions)
            && self.request.targets == request.targets
            && self.request.variants.given == request.variants.given
    }

    /// Adds another change with its cases.
    fn add_change(&mut self, suspect: SuspectChange, request: MeasureRequest) {
        let selection = &mut self.request.selection;
        selection.filters.extend(request.selection.filters);
        selection.sets.extend(request.selection.sets);
        selection.sets.sort();
        selection.sets.dedup();
        self.suspects.push(suspect);
    }
}

/// Keeps only the cases of these changes in the plans.
///
/// # Errors
/// Fails if a case is missing.
pub fn keep_cases(suspects: &[SuspectChange], plans: &mut PreparedPlan) -> Result<()> {
    for SuspectChange { change, series, .. } in suspects {
        ensure!(
            plans.plan.jobs.iter().any(|job| measures_series(job, series)),
            "the revisions of change {} no longer have case '{}'",
            change.number,
            series.case
        );
    }
    let series = suspects.iter().map(|suspect| &suspect.series);
    plans.plan.jobs.retain(|job| series.clone().any(|series| measures_series(job, series)));
    Ok(())
}

fn measures_series(job: &BenchmarkJob, series: &SeriesKey) -> bool {
    match &job.case {
        Some(case) => case.id() == series.case,
        None => job.label == series.case,
    }
}

/// Whether all variants are the same program, so that measuring them says nothing about a change.
pub fn are_identical(plans: &PreparedPlan) -> bool {
    engine::are_identical(&plans.plan)
}

/// Groups the changes with these numbers. One session can confirm a group. `request` supplies the
/// options.
///
/// # Errors
/// Fails if a change does not exist or is a gradual drift, or if no stored session has its target.
pub fn group_changes(
    store: &Store,
    numbers: &[i64],
    request: &MeasureRequest,
) -> Result<Vec<SuspectGroup>> {
    let mut groups: Vec<SuspectGroup> = Vec::new();
    for number in numbers {
        let (suspect, request) = prepare_change(store, *number, request)?;
        match groups.iter_mut().find(|group| group.accepts_change(&suspect, &request)) {
            Some(group) => group.add_change(suspect, request),
            None => groups.push(SuspectGroup { suspects: vec![suspect], request }),
        }
    }
    Ok(groups)
}

/// Finds the stored changes that an interrupted session was to measure again.
///
/// # Errors
/// Fails if the store cannot be read.
pub fn changes_in_plan(store: &Store, plan: &SessionPlan) -> Result<Vec<SuspectChange>> {
    let commit =
        |variant: usize| Some(plan.variants.get(variant)?.worktree.as_ref()?.revision.as_str());
    let (Some(before), Some(after)) = (commit(0), commit(1)) else {
        return Ok(Vec::new());
    };
    let mut suspects = Vec::new();
    for series in store.list_series()? {
        if !plan.jobs.iter().any(|job| measures_series(job, &series.key)) {
            continue;
        }
        for number in store.find_changes_between(series.number, before, after)? {
            let change = store.find_change(number)?.change;
            suspects.push(SuspectChange::new(store, change, series.clone())?);
        }
    }
    Ok(suspects)
}

/// Returns the change with this number, and what to measure. `request` supplies the options.
///
/// # Errors
/// Fails if the change does not exist or is a gradual drift, or if no stored session has its
/// target.
pub fn prepare_change(
    store: &Store,
    number: i64,
    request: &MeasureRequest,
) -> Result<(SuspectChange, MeasureRequest)> {
    let stored = store.find_change(number)?;
    let all_series = store.list_series()?;
    let series = all_series
        .into_iter()
        .find(|series| series.number == stored.series)
        .context("the series of the change no longer exists")?;
    let change = stored.change;
    ensure!(
        !change.is_drift,
        "change {number} is a gradual drift, not a step between two revisions\nhint: --old rev:OLD \
         --new rev:NEW compares any two revisions"
    );
    let (job, variant) = find_job(store, &series)?;
    let mut request = request.clone();
    request.targets = vec![job.source.to_operand()];
    let case = job.case.as_ref();
    let values = case.map(|case| case.values.as_slice()).unwrap_or_default();
    if !job.source.is_program() {
        let sets = values.iter().map(|(name, value)| (name.clone(), value.plain()));
        request.selection.sets.extend(sets);
    }
    let name = case.map_or(&job.source.name, |case| &case.benchmark);
    request.selection.filters = vec![Regex::new(&format!("^{}$", regex::escape(name)))?];
    let before_request = RevisionRequest {
        variant: 0,
        revision: change.before.clone(),
        program: None,
        names_variant: true,
    };
    let after_request =
        RevisionRequest { variant: 1, revision: change.after.clone(), ..before_request.clone() };
    let named_variant = |name: &str| Variant {
        name: name.to_owned(),
        program: None,
        worktree: None,
        ..variant.clone()
    };
    request.variants.given = vec![named_variant("before"), named_variant("after")];
    request.variants.revisions = vec![before_request, after_request];
    request.plan.purpose = SessionPurpose::Confirm;
    Ok((SuspectChange::new(store, change, series)?, request))
}

/// Finds a case's job in the newest session that planned the case. Also returns the series' variant
/// in that plan or, if it is missing, the plan's first variant.
fn find_job(store: &Store, series: &StoredSeries) -> Result<(BenchmarkJob, Variant)> {
    let key = &series.key;
    for point in store.load_points(series.number)?.iter().rev() {
        let Some(text) = store.session_plan(point.session)? else {
            continue;
        };
        let Ok(plan) = serde_json::from_str::<SessionPlan>(&text) else {
            continue;
        };
        if let Some(job) = plan.jobs.iter().find(|job| measures_series(job, key)) {
            let same_variant = plan.variants.iter().find(|variant| variant.name == key.variant);
            let mut variant = same_variant
                .or(plan.variants.first())
                .cloned()
                .context("the plan has no variants")?;
            if variant.worktree.take().is_some() {
                // The environment refers to another worktree. It is filled in again for the new
                // worktree.
                variant.environment.clear();
            }
            return Ok((job.clone(), variant));
        }
    }
    bail!(
        "no session records the target of '{}': its results were imported, or the case was \
         renamed\nhint: speedwell confirm --old rev:OLD --new rev:NEW TARGET",
        key.case
    )
}
