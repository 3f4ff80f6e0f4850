//! Reads the state of a search from a stored session.

use super::search::replay_search;
use super::{BisectFindings, BisectObservations, BisectOutcome, BisectStep};
use speedwell_model::{
    BisectionRange, FailureCause, Metric, MetricDirection, Session, SessionStep as FailedStep,
    StoppingDesign,
};
use speedwell_stats::sequential::DEFAULT_DELTA;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Analyzes a bisection session. Returns `None` for any other session.
pub fn analyze_bisection(session: &Session) -> Option<BisectFindings> {
    let bisection = session.design.bisection.clone()?;
    let state = BisectObservations::from_session(session, &bisection);
    let (step, standing) = replay_search(&state);
    Some(BisectFindings {
        metric: followed_metric(session, &bisection).cloned(),
        answer: match step {
            BisectStep::Answer(answer) => Some(answer),
            BisectStep::Build(_) | BisectStep::Measure(_) => None,
        },
        bisection,
        state,
        standing,
    })
}

impl BisectObservations {
    /// Collects what a session has recorded about the revisions of its search. `built` stays empty;
    /// the caller adds the revisions whose builds are ready.
    pub fn from_session(session: &Session, bisection: &BisectionRange) -> BisectObservations {
        let indices: HashMap<&str, usize> = bisection
            .line
            .iter()
            .enumerate()
            .map(|(index, revision)| (&*revision.id, index))
            .collect();
        let index_of_variant = |name: &str| {
            let variant = session.variants.iter().find(|variant| variant.name == name)?;
            let revision = &variant.worktree.as_ref()?.revision;
            indices.get(revision.as_str()).copied()
        };
        let metric = followed_metric(session, bisection);
        let mut slots: BTreeMap<u32, (usize, BisectOutcome)> = BTreeMap::new();
        let mut unbuildable = BTreeSet::new();
        for failure in &session.failures {
            let index = failure.variant.as_deref().and_then(index_of_variant);
            match (failure.step, failure.slot, index) {
                (FailedStep::Build, _, Some(index)) => {
                    unbuildable.insert(index);
                }
                (_, Some(slot), Some(index)) => {
                    let outcome = match failure.cause {
                        FailureCause::Timeout { .. } => BisectOutcome::Hung,
                        _ => BisectOutcome::Failed,
                    };
                    slots.insert(slot, (index, outcome));
                }
                _ => {}
            }
        }
        for run in &session.runs {
            let value = metric
                .and_then(|metric| run.value_of(&metric.name))
                .filter(|value| value.is_finite() && *value >= 0.0);
            if let Some(index) = index_of_variant(&run.variant) {
                let outcome = value.map_or(BisectOutcome::Failed, BisectOutcome::Value);
                slots.insert(run.slot, (index, outcome));
            }
        }
        BisectObservations {
            revisions: bisection.line.len(),
            delta: match session.design.stopping {
                StoppingDesign::Sequential { delta, .. } => delta,
                StoppingDesign::Fixed { .. } => DEFAULT_DELTA,
            },
            better: metric.map_or(MetricDirection::Lower, |metric| metric.better),
            slots,
            built: BTreeSet::new(),
            unbuildable,
            work_digests: work_digests(session, bisection, index_of_variant),
        }
    }

    /// Values of a revision, in execution order.
    pub fn values_of_revision(&self, revision: usize) -> Vec<f64> {
        let measured = self.slots.values().filter(|(owner, _)| *owner == revision);
        let value = |(_, outcome): &(usize, BisectOutcome)| match outcome {
            BisectOutcome::Value(value) => Some(*value),
            BisectOutcome::Hung | BisectOutcome::Failed => None,
        };
        measured.filter_map(value).collect()
    }
}

/// Digest of the single benchmark's source in each revision.
fn work_digests(
    session: &Session,
    bisection: &BisectionRange,
    index_of: impl Fn(&str) -> Option<usize>,
) -> BTreeMap<usize, String> {
    if bisection.with_own_benchmarks {
        return BTreeMap::new();
    }
    let digests = session.variants.iter().filter_map(|variant| {
        // A variant of a bisection has exactly one benchmark.
        let work = variant.work.values().next()?;
        Some((index_of(&variant.name)?, work.clone()))
    });
    digests.collect()
}

/// Metric that a search follows.
fn followed_metric<'s>(session: &'s Session, bisection: &BisectionRange) -> Option<&'s Metric> {
    match &bisection.metric {
        Some(name) => session.metric(name),
        None => session.metrics.first(),
    }
}
