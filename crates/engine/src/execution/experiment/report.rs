//! What a run reports, and how a stage of it fails.

use serde::{Deserialize, Serialize};
use speedwell_model::StackProfile;
use speedwell_model::load::measurement::LoadRun;
use speedwell_model::stage_report::{RunStage, StageFailure, StageReport};

/// Everything a run yielded.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RunReport {
    /// Metrics, notes, and the failure if there was one.
    pub performed: StageReport,
    /// Details of the load, if the built-in generator sent it.
    pub load: Option<LoadRun>,
    /// Profile, if the run was profiled instead of timed. Only runs on this machine have one.
    #[serde(skip)]
    pub profile: Option<StackProfile>,
}

/// Result of a step that can end a run early.
pub type StageResult<T> = Result<T, StageFailure>;

/// Builds the failure of a stage, without stderr.
pub fn stage_failure(stage: RunStage, reason: impl Into<String>) -> StageFailure {
    StageFailure { stage, reason: reason.into(), stderr_tail: String::new() }
}

/// Returns a function that turns an error into the failure of a stage.
pub fn stage_error(stage: RunStage) -> impl Fn(anyhow::Error) -> StageFailure {
    move |error| stage_failure(stage, format!("{error:#}"))
}
