//! Interface of all languages: which cases does a file have, and what does one fresh process report
//! for one of them? Must not know which languages exist.

use crate::attempt::Attempt;
use crate::job::{Description, Job, Request, Setting, Source};
use std::path::PathBuf;

/// Describes and performs benchmarks of one language.
pub trait Harness: Sync {
    /// Finds the cases of a file without measuring anything.
    fn describe(&self, source: &Source, request: &Request) -> Description;

    /// Executes one job in a fresh process.
    fn perform(&self, job: &Job, setting: &Setting<'_>) -> Attempt;

    /// Builds in advance what [`Harness::perform`] needs. Concurrent runs are prepared one after
    /// the other. Failures are reported when the job is performed.
    fn prepare(&self, _job: &Job, _setting: &Setting<'_>) {}

    /// Default program of variants that name none.
    fn usual_program(&self, source: &Source) -> PathBuf;

    /// Whether a variant's program may be asked for its version: a benchmark program might
    /// interpret the request as a command to measure.
    fn has_version(&self, _source: &Source) -> bool {
        true
    }

    /// Whether the harness decides the length and number of samples.
    fn divides_runs(&self) -> bool {
        false
    }

    /// Whether the harness can record a series from the first iteration on.
    fn records_series(&self) -> bool {
        self.divides_runs()
    }
}
