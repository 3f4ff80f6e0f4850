//! Finds which revision in a linear history introduced a change, and decides what to measure next.
//! The module is a pure state machine: it builds and measures nothing.
//!
//! Everything is derived from the runs so far, so a killed search can resume. [`next_step`] replays
//! the search over the measured runs, and returns the first step that is not done yet. Start at
//! [`BisectObservations`] and [`next_step`]; the replay is in `search.rs`.

mod search;
#[cfg(test)]
mod tests;

pub use search::{analyze_bisection, bisect_state, next_step};

use crate::confirm::ConfirmationResult;
use speedwell_model::{BisectionRange, IntervalEstimate, Metric, MetricDirection};
use std::collections::{BTreeMap, BTreeSet};

/// Number of runs of each revision in one block.
pub const RUNS_PER_BLOCK: u32 = 2;

/// Observations on the revisions of a linear history. The revisions are numbered from 0, the good
/// end, up to the bad end.
#[derive(Debug, Clone, PartialEq)]
pub struct BisectObservations {
    /// Number of revisions, both ends included.
    pub revisions: usize,
    /// Smallest change that matters, as a fraction (0.02 is 2%).
    pub delta: f64,
    /// Preferred direction of the metric.
    pub better: MetricDirection,
    /// Outcome of each finished slot (position in execution order), with the revision measured
    /// in it.
    pub slots: BTreeMap<u32, (usize, BisectOutcome)>,
    /// Revisions that are built and ready to measure.
    pub built: BTreeSet<usize>,
    /// Revisions that could not be built.
    pub unbuildable: BTreeSet<usize>,
    /// Digest of the benchmark's source, by revision, where known. Different digests mean different
    /// work. If empty, the search confirms changes even where the benchmark itself changed.
    pub work_digests: BTreeMap<usize, String>,
}

/// Outcome of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BisectOutcome {
    /// Measured value.
    Value(f64),
    /// Killed at the time limit.
    Hung,
    /// The run gave no usable value.
    Failed,
}

/// Next step of the search.
#[derive(Debug, Clone, PartialEq)]
pub enum BisectStep {
    /// Build this revision, which adds it to `built` or `unbuildable`.
    Build(usize),
    /// Measure this block, or the rest of it.
    Measure(BisectBlock),
    /// The search is over.
    Answer(BisectAnswer),
}

/// A block: two runs of each of its revisions, shuffled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BisectBlock {
    /// Number of the block, from 0.
    pub number: u32,
    /// Slot of its first run.
    pub first_slot: u32,
    /// Revisions, from the good end towards the bad end.
    pub revisions: Vec<usize>,
    /// Purpose of the block.
    pub phase: BisectPhase,
}

impl BisectBlock {
    /// Number of runs in the block.
    pub fn run_count(&self) -> u32 {
        RUNS_PER_BLOCK * self.revisions.len() as u32
    }
}

/// Purpose of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BisectPhase {
    /// Test whether the ends differ.
    Ends,
    /// Locate the change.
    Search,
    /// Confirm the change.
    Confirm,
}

/// Result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct BisectAnswer {
    /// Comparison of the bad end with the good end.
    pub ends: EndsComparison,
    /// Changes, from the good end towards the bad end; empty if the ends do not clearly differ or
    /// cannot be measured.
    pub parts: Vec<BisectedChange>,
}

impl BisectAnswer {
    /// Whether a change in the code was found and every such change was confirmed. Changes to the
    /// benchmark itself do not count.
    pub fn is_found(&self) -> bool {
        let is_confirmed = |part: &BisectedChange| {
            matches!(
                part.confirmed,
                ChangeConfirmation::Hangs
                    | ChangeConfirmation::Measured(ConfirmationResult::Confirmed(_))
            )
        };
        let is_of_code =
            |part: &&BisectedChange| part.confirmed != ChangeConfirmation::BenchmarkChanged;
        let mut parts = self.parts.iter().filter(is_of_code).peekable();
        parts.peek().is_some() && parts.all(is_confirmed)
    }

    /// Whether any of the changes found is a change to the benchmark itself.
    pub fn has_changed_benchmark(&self) -> bool {
        let mut parts = self.parts.iter();
        parts.any(|part| part.confirmed == ChangeConfirmation::BenchmarkChanged)
    }
}

/// Comparison of the good end and the bad end of the searched part of the history.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EndsComparison {
    /// The two revisions differ by this relative change.
    Differ(IntervalEstimate),
    /// The two revisions differ by less than the smallest change that matters.
    Alike(IntervalEstimate),
    /// The data do not show whether the two revisions differ.
    Unclear(IntervalEstimate),
    /// The bad end exceeds the time limit and the good end does not.
    Hangs,
    /// This revision has no values, or its values cannot be compared.
    Unmeasurable(usize),
}

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub struct BisectedChange {
    /// Last measurable revision without the change.
    pub before: usize,
    /// First measurable revision with the change. The change came with this revision or with an
    /// unmeasurable one before it.
    pub after: usize,
    /// Smallest set of revisions that contains the cause with a probability of 95%.
    pub set: Vec<usize>,
    /// Result of the confirmation.
    pub confirmed: ChangeConfirmation,
}

/// Result of measuring the two revisions around a change again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ChangeConfirmation {
    /// Both revisions were measured again.
    Measured(ConfirmationResult),
    /// The second revision exceeds the time limit and the first does not.
    Hangs,
    /// The benchmark itself differs between the two revisions, so nothing is known about the code
    /// under test.
    BenchmarkChanged,
    /// The search gave up before it had located and confirmed the change, or an end no longer runs.
    NotFound,
}

/// Progress of a search.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BisectState {
    /// Comparison of the ends, once known.
    pub ends: Option<EndsComparison>,
    /// Smallest set of revisions that contains the cause with a probability of 95%. As long as
    /// nothing is known, the set holds all revisions but the good end.
    pub set: Vec<usize>,
}

/// A bisection session, analyzed.
#[derive(Debug, Clone, PartialEq)]
pub struct BisectFindings {
    /// The bisection's settings and the history that it searches.
    pub bisection: BisectionRange,
    /// Metric that the search follows; `None` before anything is measured.
    pub metric: Option<Metric>,
    /// Observations on the revisions.
    pub state: BisectObservations,
    /// Progress of the search.
    pub standing: BisectState,
    /// Result, once the search is over.
    pub answer: Option<BisectAnswer>,
}

impl BisectFindings {
    /// Returns the numbers of the good and the bad end of the history.
    pub fn ends(&self) -> [usize; 2] {
        [0, self.state.revisions - 1]
    }
}
