//! Defines the callbacks into the command-line program, and the values that they take and return.

use speedwell_analysis::history::ProjectHistory;
use speedwell_analysis::{AnalysisFindings, AnalysisSettings};
use speedwell_model::Session;
use speedwell_store::Store;
use std::path::Path;

/// Name and value of a command-line option of a comparison.
pub type ComparisonOption<'a> = (&'a str, &'a str);

/// Callbacks into the command line, so that a page shows the same result as the corresponding
/// command.
#[derive(Debug, Clone, Copy)]
pub struct CommandLookups {
    /// Returns the number of the session that a reference such as `@latest` or `@base` names.
    pub session: fn(&Store, &str) -> anyhow::Result<i64>,
    /// Resolves the sources of a comparison. File names are not accepted.
    pub sources: fn(&Store, &[String]) -> anyhow::Result<Vec<ComparisonSource>>,
    /// Builds the settings of a comparison from option names and values.
    pub settings: fn(&[ComparisonOption<'_>]) -> anyhow::Result<AnalysisSettings>,
    /// Adds facts from the store to a comparison: the calibrations, and which sessions are still
    /// running.
    pub mark_known: fn(&mut AnalysisFindings, &[&Session], &Store),
    /// Returns the exit status and the one-line result of comparing two sessions with these
    /// options.
    pub gate: fn(&Store, &[String], &[ComparisonOption<'_>]) -> anyhow::Result<GateResult>,
    /// Returns the plan of a running session.
    pub planned: fn(&Store, i64) -> anyhow::Result<PlanSummary>,
    /// Computes missing summary points of sessions in the store at a path, until the time for one
    /// request is used up. Returns how many sessions are left.
    pub summarize: fn(&Path) -> anyhow::Result<usize>,
    /// Returns results over time from the store at a path, and caches derived data in the store.
    /// The last argument is the number of sessions without points.
    pub history: fn(&Path, &TrendQuery, usize) -> anyhow::Result<ProjectHistory>,
}

/// One side of a comparison.
#[derive(Debug)]
pub struct ComparisonSource {
    /// Display name.
    pub label: String,
    /// Results.
    pub session: Session,
    /// The selected variant.
    pub variant: Option<String>,
    /// The session that the reference resolved to, if that is not obvious.
    pub resolved_as: Option<String>,
}

/// Result of a comparison as a CI gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateResult {
    /// Exit status of the command: 0 if the gate passes, 1 if the gate fails, 2 if the gate cannot
    /// be evaluated.
    pub status: i32,
    /// The reason, in one line.
    pub message: String,
}

/// Selects the results that a trend shows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct TrendQuery {
    /// The branch whose history is shown.
    pub branch: Option<String>,
    /// Restricts the result to the case with this id.
    pub case: Option<String>,
    /// Names of metrics; empty for the primary metrics.
    pub metrics: Vec<String>,
    /// Whether to include details of the whole series: environment changes, revision names,
    /// failures, and the continuation of the parent branch.
    pub includes_details: bool,
}

/// Parts of a session's plan that its viewers need.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlanSummary {
    /// Maximum number of slots (planned runs); 0 if unknown.
    pub slots: usize,
    /// Timeout of a run in milliseconds; 0 if unknown.
    pub timeout_ms: u64,
}
