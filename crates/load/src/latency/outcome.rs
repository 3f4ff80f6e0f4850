//! Latencies apart by what became of the request.

use crate::outcomes::ErrorClass;

/// What became of a request whose times are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Answered well.
    Ok,
    /// Failed in some way.
    Failed(ErrorClass),
    /// Still without an end when the load ended; its times are lower bounds.
    InFlight,
    /// Given up by the client; its times are lower bounds.
    Cancelled,
    /// Due but never sent; its response time is a lower bound.
    Unsent,
}

/// Places for every outcome: those of [`Outcome`] besides the classes are four.
const PLACES: usize = ErrorClass::COUNT + 4;

impl Outcome {
    /// The name in files, the same as in [`crate::outcomes::OutcomeCounts::rows`].
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::Failed(class) => class.name(),
            Outcome::InFlight => "in-flight",
            Outcome::Cancelled => "cancelled",
            Outcome::Unsent => "unsent",
        }
    }

    /// The outcome with this name.
    pub fn from_name(name: &str) -> Option<Outcome> {
        Outcome::every().find(|outcome| outcome.name() == name)
    }

    /// Whether the request has come to an end, so that its times are whole.
    pub fn is_over(self) -> bool {
        matches!(self, Outcome::Ok | Outcome::Failed(_))
    }

    fn place(self) -> usize {
        match self {
            Outcome::Ok => 0,
            Outcome::Failed(class) => 1 + class.index(),
            Outcome::InFlight => PLACES - 3,
            Outcome::Cancelled => PLACES - 2,
            Outcome::Unsent => PLACES - 1,
        }
    }

    fn every() -> impl Iterator<Item = Outcome> {
        let last = [Outcome::InFlight, Outcome::Cancelled, Outcome::Unsent];
        std::iter::once(Outcome::Ok)
            .chain(ErrorClass::every().map(Outcome::Failed))
            .chain(last)
    }
}

/// A set of distributions that is kept for each outcome.
pub trait Timed: Default {
    /// Adds another set.
    fn merge(&mut self, other: &Self);

    /// Empties it and keeps its memory.
    fn clear(&mut self);
}

/// One set per outcome. That of good answers is there from the start; any other is made when its
/// outcome first happens, once in a load, and never again.
#[derive(Debug, Clone, PartialEq)]
pub struct ByOutcome<T> {
    sets: [Option<Box<T>>; PLACES],
}

impl<T: Timed> Default for ByOutcome<T> {
    fn default() -> ByOutcome<T> {
        let mut sets = [const { None }; PLACES];
        sets[Outcome::Ok.place()] = Some(Box::default());
        ByOutcome { sets }
    }
}

impl<T: Timed> ByOutcome<T> {
    /// The set of an outcome, if it happened.
    pub fn get(&self, outcome: Outcome) -> Option<&T> {
        self.sets[outcome.place()].as_deref()
    }

    /// The set of good answers.
    pub fn ok(&self) -> &T {
        self.get(Outcome::Ok)
            .unwrap_or_else(|| unreachable!("the set of good answers is there from the start"))
    }

    /// The outcomes that happened, with their sets, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = (Outcome, &T)> {
        Outcome::every().filter_map(|outcome| Some((outcome, self.get(outcome)?)))
    }

    /// All outcomes in one set.
    pub fn merged(&self) -> T {
        let mut all = T::default();
        self.iter().for_each(|(_, set)| all.merge(set));
        all
    }

    pub(super) fn entry(&mut self, outcome: Outcome) -> &mut T {
        self.sets[outcome.place()].get_or_insert_default()
    }

    /// Empties every set and keeps its memory.
    pub fn clear(&mut self) {
        self.sets.iter_mut().flatten().for_each(|set| set.clear());
    }

    /// Adds the sets of another thread.
    pub fn merge(&mut self, other: &ByOutcome<T>) {
        for (outcome, set) in other.iter() {
            self.entry(outcome).merge(set);
        }
    }
}
