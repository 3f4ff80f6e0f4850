//! Which revision of a line brought a change, and what to measure next: a pure state machine.
//!
//! Decides everything from the runs so far, so that a search that was killed continues where it was: [`next`] walks from the
//! beginning through what is measured and says what is missing. It must not build or measure anything. Start at [`State`]
//! and [`next`]; the walk is in `walk.rs`.

mod read;
#[cfg(test)]
mod tests;
mod walk;

pub use read::analyse;
pub use walk::{next, standing};

use crate::confirm::Confirmation;
use speedwell_model::{Better, Bisection, Estimate, Metric};
use std::collections::{BTreeMap, BTreeSet};

/// Runs of each revision in one block.
pub const RUNS_PER_BLOCK: u32 = 2;

/// What is known of the revisions of a line. They count from 0, the good end, to the bad end.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// Revisions of the line, both ends included.
    pub revisions: usize,
    /// The least change that matters, as a share.
    pub delta: f64,
    /// Which values are good ones.
    pub better: Better,
    /// What came of each slot that is done, with the revision that was measured in it.
    pub slots: BTreeMap<u32, (usize, Outcome)>,
    /// Revisions that are built and can be measured at once.
    pub built: BTreeSet<usize>,
    /// Revisions that could not be built.
    pub unbuildable: BTreeSet<usize>,
    /// What the benchmark does in revisions that have their own text of it; empty where that is of no account.
    pub works: BTreeMap<usize, String>,
}

/// What came of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// Its value.
    Value(f64),
    /// It was ended at the time limit.
    Hung,
    /// It gave nothing.
    Failed,
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Build a revision; it is then built or unbuildable.
    Build(usize),
    /// Measure a block, or what is left of it.
    Measure(Block),
    /// Nothing: the search is over.
    Answer(Answer),
}

/// Two runs of each of some revisions, shuffled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Its number, from 0.
    pub number: u32,
    /// The slot of its first run.
    pub first_slot: u32,
    /// The revisions, in order of the line.
    pub revisions: Vec<usize>,
    /// What it is measured for.
    pub phase: Phase,
}

impl Block {
    /// Its runs.
    pub fn runs(&self) -> u32 {
        RUNS_PER_BLOCK * self.revisions.len() as u32
    }
}

/// What a block is measured for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Whether the ends differ.
    Ends,
    /// Where the change is.
    Search,
    /// Whether it is there.
    Confirm,
}

/// What a search came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The bad end against the good one.
    pub ends: Ends,
    /// The changes, in order of the line; none where the ends do not differ or cannot be measured.
    pub parts: Vec<Part>,
}

impl Answer {
    /// Whether the change was found: every part of it confirmed, but for changes of the benchmark itself.
    pub fn is_found(&self) -> bool {
        let is_confirmed = |part: &Part| {
            matches!(
                part.confirmed,
                Confirmed::Hangs | Confirmed::Measured(Confirmation::Confirmed(_))
            )
        };
        let is_of_code = |part: &&Part| part.confirmed != Confirmed::BenchmarkChanged;
        let mut parts = self.parts.iter().filter(is_of_code).peekable();
        parts.peek().is_some() && parts.all(is_confirmed)
    }
}

impl Answer {
    /// Whether some of what was found is a change of the benchmark itself.
    pub fn has_changed_benchmark(&self) -> bool {
        let mut parts = self.parts.iter();
        parts.any(|part| part.confirmed == Confirmed::BenchmarkChanged)
    }
}

/// How two revisions of the line compare.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ends {
    /// They differ, by this share.
    Differ(Estimate),
    /// They do not differ by what matters.
    Alike(Estimate),
    /// Whether they do is unclear.
    Unclear(Estimate),
    /// The bad one exceeds the time limit and the good one does not.
    Hangs,
    /// This revision gives no figures, or none that can be compared.
    Unmeasurable(usize),
}

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The last revision without the change that could be measured.
    pub before: usize,
    /// The first revision with the change that could be measured. The change came with it, or with one of those between both.
    pub after: usize,
    /// The revisions that together have 95 % of the probability.
    pub set: Vec<usize>,
    /// What measuring the two again came to.
    pub confirmed: Confirmed,
}

/// Whether a change is where it was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Confirmed {
    /// The two revisions were measured again.
    Measured(Confirmation),
    /// The second exceeds the time limit and the first does not.
    Hangs,
    /// The two revisions have another text of the benchmark: nothing is known of their code.
    BenchmarkChanged,
    /// It was not found before the search gave up.
    NotFound,
}

/// How far a search is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Standing {
    /// How the ends compare, once that is known.
    pub ends: Option<Ends>,
    /// The revisions that together have 95 % of the probability; all before anything is known.
    pub set: Vec<usize>,
}

/// What a session that searches a line has come to.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The line.
    pub bisection: Bisection,
    /// The metric that is followed; `None` before anything is measured.
    pub metric: Option<Metric>,
    /// What is known of its revisions.
    pub state: State,
    /// How far it is.
    pub standing: Standing,
    /// What it came to, if it is over.
    pub answer: Option<Answer>,
}
