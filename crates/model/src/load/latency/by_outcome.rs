//! Keeps a set of times for each outcome of a request.

use crate::load::outcomes::ErrorClass;

/// Outcome of a request whose times are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestOutcome {
    /// Successful response.
    Ok,
    /// Failed.
    Failed(ErrorClass),
    /// Still in flight when the load ended; its times are lower bounds.
    InFlight,
    /// Cancelled by the client; its times are lower bounds.
    Cancelled,
    /// Due but never sent; its response time is a lower bound.
    Unsent,
}

const OUTCOME_COUNT: usize = ErrorClass::COUNT + 4;

impl RequestOutcome {
    /// Stable name in files, the same as in [`crate::load::outcomes::OutcomeCounts::rows`].
    pub fn name(self) -> &'static str {
        match self {
            RequestOutcome::Ok => "ok",
            RequestOutcome::Failed(class) => class.name(),
            RequestOutcome::InFlight => "in-flight",
            RequestOutcome::Cancelled => "cancelled",
            RequestOutcome::Unsent => "unsent",
        }
    }

    /// Finds an outcome by name.
    pub fn from_name(name: &str) -> Option<RequestOutcome> {
        RequestOutcome::all_outcomes().find(|outcome| outcome.name() == name)
    }

    /// Whether the request has ended, so that its times are complete.
    pub fn has_ended(self) -> bool {
        matches!(self, RequestOutcome::Ok | RequestOutcome::Failed(_))
    }

    fn outcome_index(self) -> usize {
        match self {
            RequestOutcome::Ok => 0,
            RequestOutcome::Failed(class) => 1 + class.index(),
            RequestOutcome::InFlight => OUTCOME_COUNT - 3,
            RequestOutcome::Cancelled => OUTCOME_COUNT - 2,
            RequestOutcome::Unsent => OUTCOME_COUNT - 1,
        }
    }

    fn all_outcomes() -> impl Iterator<Item = RequestOutcome> {
        let last = [RequestOutcome::InFlight, RequestOutcome::Cancelled, RequestOutcome::Unsent];
        std::iter::once(RequestOutcome::Ok)
            .chain(ErrorClass::all_classes().map(RequestOutcome::Failed))
            .chain(last)
    }
}

/// A set of distributions kept per outcome.
pub trait OutcomeSet: Default {
    /// Adds another set.
    fn merge(&mut self, other: &Self);

    /// Clears the set but keeps the allocated memory.
    fn clear(&mut self);
}

/// One set per outcome. The set of successful responses always exists. Every other set is allocated
/// when its outcome first occurs, so at most once per load.
#[derive(Debug, Clone, PartialEq)]
pub struct ByOutcome<T> {
    sets: [Option<Box<T>>; OUTCOME_COUNT],
}

impl<T: OutcomeSet> Default for ByOutcome<T> {
    fn default() -> ByOutcome<T> {
        let mut sets = [const { None }; OUTCOME_COUNT];
        sets[RequestOutcome::Ok.outcome_index()] = Some(Box::default());
        ByOutcome { sets }
    }
}

impl<T: OutcomeSet> ByOutcome<T> {
    /// Returns the set of an outcome, if it occurred.
    pub fn get(&self, outcome: RequestOutcome) -> Option<&T> {
        self.sets[outcome.outcome_index()].as_deref()
    }

    /// The set of successful responses.
    pub fn ok(&self) -> &T {
        self.get(RequestOutcome::Ok)
            .unwrap_or_else(|| unreachable!("the set of successful responses always exists"))
    }

    /// Iterates over `Ok` and the other outcomes that occurred, each with its set. The order is
    /// fixed.
    pub fn iter(&self) -> impl Iterator<Item = (RequestOutcome, &T)> {
        RequestOutcome::all_outcomes().filter_map(|outcome| Some((outcome, self.get(outcome)?)))
    }

    /// Merges all outcomes into one set.
    pub fn merge_all(&self) -> T {
        let mut merged = T::default();
        self.iter().for_each(|(_, set)| merged.merge(set));
        merged
    }

    pub(super) fn get_or_create(&mut self, outcome: RequestOutcome) -> &mut T {
        self.sets[outcome.outcome_index()].get_or_insert_default()
    }

    /// The sets of all outcomes except failures.
    pub fn without_failed(&self) -> ByOutcome<T>
    where
        T: Clone,
    {
        let mut remaining = ByOutcome::default();
        for (outcome, set) in self.iter() {
            if !matches!(outcome, RequestOutcome::Failed(_)) {
                *remaining.get_or_create(outcome) = set.clone();
            }
        }
        remaining
    }

    /// Clears every set but keeps the allocated memory.
    pub fn clear(&mut self) {
        self.sets.iter_mut().flatten().for_each(|set| set.clear());
    }

    /// Adds the sets of another thread.
    pub fn merge(&mut self, other: &ByOutcome<T>) {
        for (outcome, set) in other.iter() {
            self.get_or_create(outcome).merge(set);
        }
    }
}
