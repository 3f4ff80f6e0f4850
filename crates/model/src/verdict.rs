//! The four answers.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What the data say about a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The test rejects and the whole interval lies beyond the threshold on the good side.
    Better,
    /// The same on the bad side.
    Worse,
    /// The whole interval lies within the threshold, or the equivalence stop fired.
    Same,
    /// Neither: more runs are needed, or the question cannot be answered at this threshold.
    Unclear,
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Same => "same",
            Verdict::Unclear => "unclear",
        })
    }
}
