//! What every language answers: which cases has a file, and what does one fresh process report for one of them. It must not know
//! which languages there are.

use crate::attempt::Attempt;
use crate::job::{Description, Job, Request, Setting, Source};
use std::path::PathBuf;

/// A language's way of describing and performing benchmarks.
pub trait Harness: Sync {
    /// Finds the cases of a file without measuring anything.
    fn describe(&self, source: &Source, request: &Request) -> Description;

    /// Executes one job in a fresh process.
    fn perform(&self, job: &Job, setting: &Setting<'_>) -> Attempt;

    /// Makes ready what [`Harness::perform`] would otherwise make at the beginning: runs that begin at the same time are
    /// prepared one after the other. What goes wrong is said when the job is performed.
    fn prepare(&self, _job: &Job, _setting: &Setting<'_>) {}

    /// The program used when a variant names none.
    fn usual_program(&self, source: &Source) -> PathBuf;

    /// Whether a variant's program may be asked for its version: a benchmark program might take the
    /// question for an order to measure.
    fn has_version(&self, _source: &Source) -> bool {
        true
    }

    /// Whether the harness decides how long a sample is and how many a run has.
    fn divides_runs(&self) -> bool {
        false
    }

    /// Whether it can record a series from the first iteration on.
    fn records_series(&self) -> bool {
        self.divides_runs()
    }
}
