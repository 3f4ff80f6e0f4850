//! The code that a session measured: its revision, where that lies, and the line of revisions that a bisection searches.

use serde::{Deserialize, Serialize};

/// What is known of the code behind a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Origin {
    /// The revision: the id of a commit, or what the user calls it.
    pub revision: String,
    /// The id of its tree: two revisions with the same tree hold the same code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// The revisions it follows; a merge has several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<String>,
    /// The branch it was measured on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Where the branch left the one it will be merged into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// When it was committed, in milliseconds since the Unix epoch. A label; never an order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committed_unix_ms: Option<i64>,
    /// The first line of its message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// A digest of what was changed and not committed; `None` where nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty: Option<String>,
    /// The number of the pull or merge request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull: Option<String>,
    /// The page of the job that measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_url: Option<String>,
    /// Who said which revision it is.
    pub source: OriginSource,
}

/// Who said which revision a session measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OriginSource {
    /// The user.
    Option,
    /// Variables of the service that ran the job.
    Ci,
    /// The repository that was measured in.
    #[default]
    Git,
    /// The file that the session was imported from.
    File,
}

/// What the user says of the code, which wins over what can be found out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OriginRequest {
    /// The revision.
    pub revision: Option<String>,
    /// The branch.
    pub branch: Option<String>,
}

/// Letters of a commit's id that people read.
const SHORT: usize = 10;

impl Origin {
    /// The revision as people write it: the beginning of a commit's id, anything else whole.
    pub fn short(&self) -> &str {
        short_revision(&self.revision)
    }
}

/// The beginning of a commit's id; any other name of a revision whole.
pub fn short_revision(revision: &str) -> &str {
    let is_id = revision.len() >= 40 && revision.bytes().all(|byte| byte.is_ascii_hexdigit());
    revision.get(..SHORT).filter(|_| is_id).unwrap_or(revision)
}

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
    /// Whether a change is confirmed where the benchmark itself changed as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub with_own_benchmarks: bool,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_shortened_and_names_are_not() {
        let origin = |revision: &str| Origin {
            revision: revision.to_owned(),
            ..Origin::default()
        };
        let id = "8d75325f00aabbccddeeff00112233445566778899";
        assert_eq!(origin(&id[..40]).short(), "8d75325f00");
        assert_eq!(origin("release-2026-11-of-the-year").short().len(), 27);
    }
}
