//! Describes the origin of measured code: its revision and branch. Also describes the range of revisions that a
//! bisection searches.

use serde::{Deserialize, Serialize};

/// The revision that a session measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CodeOrigin {
    /// Commit id, or the user's name for the revision.
    pub revision: String,
    /// The id of the commit's tree. Two revisions with the same tree have the same code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// The parent commits; a merge has several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<String>,
    /// The branch on which the revision was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The merge base of the revision and the branch into which it will be merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Commit time in milliseconds since the Unix epoch, for display only. Revisions are never
    /// ordered by time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committed_unix_ms: Option<i64>,
    /// First line of the commit message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Digest of uncommitted changes. `None` for a clean working tree, or if the revision was not
    /// checked out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty: Option<String>,
    /// Number of the pull or merge request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull: Option<String>,
    /// URL of the CI job that ran the measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_url: Option<String>,
    /// How the revision was determined.
    pub source: OriginSource,
}

/// How the revision of a session was determined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OriginSource {
    /// By a command-line option.
    Option,
    /// By environment variables of the CI service.
    Ci,
    /// By the repository of the working directory.
    #[default]
    Git,
    /// By the imported file.
    File,
}

/// The user's values for the origin, which override detected ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OriginRequest {
    /// The revision.
    pub revision: Option<String>,
    /// The branch.
    pub branch: Option<String>,
}

/// Length of an abbreviated commit id.
const SHORT: usize = 10;

impl CodeOrigin {
    /// The revision, abbreviated if it is a commit id.
    pub fn short(&self) -> &str {
        short_revision(&self.revision)
    }
}

/// Abbreviates a commit id. Returns any other name unchanged.
pub fn short_revision(revision: &str) -> &str {
    let is_id = revision.len() >= 40 && revision.bytes().all(|byte| byte.is_ascii_hexdigit());
    revision.get(..SHORT).filter(|_| is_id).unwrap_or(revision)
}

/// A range of revisions in which to search for the revision that changed a benchmark.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BisectionRange {
    /// The range as the user typed it: `v1.4..HEAD`.
    pub range: String,
    /// The revisions from good to bad, each the parent of the next.
    pub line: Vec<LineRevision>,
    /// The metric to follow; by default the first one reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// Whether to accept a change in results if the revision also changed the benchmark's code.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub with_own_benchmarks: bool,
}

/// One revision of a range.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineRevision {
    /// Full commit id.
    pub id: String,
    /// First line of the commit message, truncated.
    pub subject: String,
    /// Author of the commit, truncated.
    pub author: String,
    /// Author time in milliseconds since the Unix epoch.
    pub authored_unix_ms: i64,
}

impl LineRevision {
    /// Abbreviated commit id.
    pub fn short(&self) -> &str {
        self.id.get(..10).unwrap_or(&self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_shortened_and_names_are_not() {
        let origin =
            |revision: &str| CodeOrigin { revision: revision.to_owned(), ..CodeOrigin::default() };
        let id = "8d75325f00aabbccddeeff00112233445566778899";
        assert_eq!(origin(&id[..40]).short(), "8d75325f00");
        assert_eq!(origin("release-2026-11-of-the-year").short().len(), 27);
    }
}
