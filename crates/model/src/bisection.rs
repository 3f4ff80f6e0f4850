//! What a bisection searches: a line of revisions, fixed before measuring. Start at [`Bisection`].

use serde::{Deserialize, Serialize};

/// A line of revisions in one of which a benchmark changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bisection {
    /// What was typed: `v1.4..HEAD`.
    pub range: String,
    /// The revisions from the good end to the bad one, each the parent of the next.
    pub line: Vec<LineRevision>,
    /// The metric that is followed; the first one that is reported if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
}

/// One revision of a line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineRevision {
    /// The commit, whole.
    pub id: String,
    /// The first line of its message, cut.
    pub subject: String,
    /// Who wrote it, cut.
    pub author: String,
    /// When it was written, in milliseconds since the Unix epoch.
    pub authored_unix_ms: i64,
}

impl LineRevision {
    /// The commit as people write it.
    pub fn short(&self) -> &str {
        self.id.get(..10).unwrap_or(&self.id)
    }
}
