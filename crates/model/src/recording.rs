//! Profiles that belong to a session: where a case under a variant spent its time, or why that is not known.

use super::{Case, Profile};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a run of its own, which was recorded and never timed, gave for one case under one variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// The case.
    pub case: Case,
    /// The name of the variant.
    pub variant: String,
    /// What was recorded.
    pub profile: Recorded,
}

/// A profile, or the lack of one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Recorded {
    /// Where the time went. Shared, because parts of a session are copied.
    Taken(Arc<Profile>),
    /// Why there is none, as the end of a sentence.
    Missing(String),
}
