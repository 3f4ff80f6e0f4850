//! Defines the interface that each language implements: it lists the cases of a file, and performs
//! one of them in a fresh process. The interface does not depend on which languages exist.

use crate::job::{
    BenchmarkDescription, BenchmarkJob, BenchmarkSource, DescribeRequest, RunContext,
};
use crate::run_outcome::RunOutcome;
use std::path::PathBuf;

/// Describes and performs benchmarks of one language.
pub trait LanguageHarness: Sync {
    /// Finds the cases of a file without measuring anything.
    fn describe_source(
        &self,
        source: &BenchmarkSource,
        request: &DescribeRequest,
    ) -> BenchmarkDescription;

    /// Executes one job in a fresh process.
    fn perform_job(&self, job: &BenchmarkJob, setting: &RunContext<'_>) -> RunOutcome;

    /// Builds in advance what [`LanguageHarness::perform_job`] needs. Before several runs start at
    /// the same time, this is called for each run in turn. Failures are reported when the job is
    /// performed.
    fn prepare_job(&self, _job: &BenchmarkJob, _setting: &RunContext<'_>) {}

    /// Returns the program of variants that do not name a program.
    fn default_program(&self, source: &BenchmarkSource) -> PathBuf;

    /// Whether a variant's program may be queried for its version. A benchmark program might
    /// interpret this query as a command to measure.
    fn has_version(&self, _source: &BenchmarkSource) -> bool {
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
