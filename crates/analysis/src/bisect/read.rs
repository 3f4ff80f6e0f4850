//! Reads the state of a search from a stored session.

use super::walk::walk;
use super::{Found, Outcome, State, Step};
use speedwell_model::{Better, Bisection, Cause, Metric, Session, Step as FailedStep, Stopping};
use speedwell_stats::sequential::DEFAULT_DELTA;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Analyzes a bisection session; `None` for any other session.
pub fn analyse(session: &Session) -> Option<Found> {
    let bisection = session.design.bisection.clone()?;
    let state = State::of(session, &bisection);
    let (step, standing) = walk(&state);
    Some(Found {
        metric: metric_of(session, &bisection).cloned(),
        answer: match step {
            Step::Answer(answer) => Some(answer),
            Step::Build(_) | Step::Measure(_) => None,
        },
        bisection,
        state,
        standing,
    })
}

impl State {
    /// Collects what a session knows of its line. No revision counts as built.
    pub fn of(session: &Session, bisection: &Bisection) -> State {
        let places: HashMap<&str, usize> = bisection
            .line
            .iter()
            .enumerate()
            .map(|(place, revision)| (&*revision.id, place))
            .collect();
        let of_variant = |name: &str| {
            let variant = session.variants.iter().find(|own| own.name == name)?;
            let revision = &variant.worktree.as_ref()?.revision;
            places.get(revision.as_str()).copied()
        };
        let metric = metric_of(session, bisection);
        let mut slots: BTreeMap<u32, (usize, Outcome)> = BTreeMap::new();
        let mut unbuildable = BTreeSet::new();
        for failure in &session.failures {
            let place = failure.variant.as_deref().and_then(of_variant);
            match (failure.step, failure.slot, place) {
                (FailedStep::Build, _, Some(place)) => {
                    unbuildable.insert(place);
                }
                (_, Some(slot), Some(place)) => {
                    let outcome = match failure.cause {
                        Cause::Timeout { .. } => Outcome::Hung,
                        _ => Outcome::Failed,
                    };
                    slots.insert(slot, (place, outcome));
                }
                _ => {}
            }
        }
        for run in &session.runs {
            let value = metric.and_then(|metric| run.value_of(&metric.name));
            let value = value.filter(|value| value.is_finite() && *value > 0.0);
            if let Some(place) = of_variant(&run.variant) {
                let outcome = value.map_or(Outcome::Failed, Outcome::Value);
                slots.insert(run.slot, (place, outcome));
            }
        }
        State {
            revisions: bisection.line.len(),
            delta: match session.design.stopping {
                Stopping::Sequential { delta, .. } => delta,
                Stopping::Fixed { .. } => DEFAULT_DELTA,
            },
            better: metric.map_or(Better::Lower, |metric| metric.better),
            slots,
            built: BTreeSet::new(),
            unbuildable,
            works: works(session, bisection, of_variant),
        }
    }

    /// Values of a revision, in execution order.
    pub fn values(&self, revision: usize) -> Vec<f64> {
        let own = self.slots.values().filter(|(own, _)| *own == revision);
        let value = |(_, outcome): &(usize, Outcome)| match outcome {
            Outcome::Value(value) => Some(*value),
            Outcome::Hung | Outcome::Failed => None,
        };
        own.filter_map(value).collect()
    }
}

/// Digest of the single benchmark's source in each revision.
fn works(
    session: &Session,
    bisection: &Bisection,
    place: impl Fn(&str) -> Option<usize>,
) -> BTreeMap<usize, String> {
    if bisection.with_own_benchmarks {
        return BTreeMap::new();
    }
    let works = session.variants.iter().filter_map(|own| {
        // A variant of a bisection has exactly one benchmark.
        let work = own.work.values().next()?;
        Some((place(&own.name)?, work.clone()))
    });
    works.collect()
}

/// Metric that a search follows.
fn metric_of<'s>(session: &'s Session, bisection: &Bisection) -> Option<&'s Metric> {
    match &bisection.metric {
        Some(name) => session.metric(name),
        None => session.metrics.first(),
    }
}
