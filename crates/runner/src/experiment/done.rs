//! What a run gives, also when it ends before its time.

use crate::load::LoadRun;
use speedwell_model::Profile;
use speedwell_model::performed::{Performed, Stage, StageFailure};

/// Everything that came of a run.
#[derive(Debug, Default)]
pub struct Done {
    /// Figures, remarks, and where it failed.
    pub performed: Performed,
    /// Everything known of the load, where our own generator sent it.
    pub load: Option<LoadRun>,
    /// Where its time went, if it was to be recorded instead of timed.
    pub profile: Option<Profile>,
}

/// What ends a run before its time.
pub type Fallible<T> = Result<T, StageFailure>;

/// A run that failed before anything was written.
pub fn stage_failure(stage: Stage, reason: impl Into<String>) -> StageFailure {
    StageFailure {
        stage,
        reason: reason.into(),
        stderr_tail: String::new(),
    }
}
