//! Defines variants. A variant has a program, flags and environment variables. It may be built from
//! a revision or be a snippet. Start at [`Variant`] and [`Snippet`]. Also describes the origin of
//! measured code.

use crate::case::{ParameterValue, SnippetLanguage};
use crate::parse::format_fixed;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One side of a comparison. One variant is the baseline, which is the reference; the others are
/// candidates.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// The name in tables: `old`, `node22`, `with-module`.
    pub name: String,
    /// The program that executes the cases; `None` means the harness's default from `PATH`.
    pub program: Option<PathBuf>,
    /// Arguments for the program; the benchmark's own arguments follow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Environment variables set for the measured process only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<(String, String)>,
    /// The measured snippet, if snippets are compared.
    #[serde(alias = "code", default, skip_serializing_if = "Option::is_none")]
    pub snippet: Option<Snippet>,
    /// The worktree of the variant's revision. `None` if the variant uses the user's checkout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<VariantWorktree>,
    /// The built file that replaces the target, such as one of the compared jars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<PathBuf>,
    /// Digests of the source of the variant's benchmarks, by the benchmark's name. If the digests
    /// of two variants differ, the benchmark does different work in each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub work: BTreeMap<String, String>,
    /// Project files that the variant loads from the user's checkout instead of from its revision.
    /// Paths are relative to the checkout's root. Results of such a variant do not describe its
    /// revision.
    #[serde(alias = "strays", default, skip_serializing_if = "Vec::is_empty")]
    pub checkout_files: Vec<String>,
}

impl Variant {
    /// Creates a variant with default settings.
    pub fn plain(name: impl Into<String>) -> Variant {
        Variant { name: name.into(), ..Variant::default() }
    }

    /// Maps a path in the user's checkout to the path that this variant uses.
    pub fn path_of<'a>(&self, path: &'a Path) -> Cow<'a, Path> {
        let in_worktree = self.worktree.as_ref().and_then(|worktree| worktree.path_of(path));
        in_worktree.map_or(Cow::Borrowed(path), Cow::Owned)
    }
}

/// A worktree of one revision, with its build command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariantWorktree {
    /// Full commit id.
    pub revision: String,
    /// The revision as the user typed it: `main`.
    pub typed: String,
    /// The root of the user's checkout.
    pub checkout: PathBuf,
    /// The folder of the worktree.
    pub folder: PathBuf,
    /// The build command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<BuildCommand>,
    /// Uncommitted changes that the worktree has in addition to the commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<UncommittedChanges>,
    /// Commits that the working tree has in addition to the revision with which it is compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commits: Option<CommitsSince>,
}

/// Commits after a revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitsSince {
    /// Number of commits, at least 1.
    pub count: usize,
    /// The revision as the user typed it, or the branch whose merge base it is.
    pub revision: String,
}

/// Differences between the user's checkout and a commit, untracked files included.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UncommittedChanges {
    /// Number of files that were changed, added or deleted.
    pub files: usize,
    /// Digest of their names and contents.
    pub digest: String,
}

impl VariantWorktree {
    /// Abbreviated commit id.
    pub fn short_revision(&self) -> &str {
        self.revision.get(..7).unwrap_or(&self.revision)
    }

    /// Maps a path in the checkout to the worktree; `None` for paths outside the checkout.
    pub fn path_of(&self, path: &Path) -> Option<PathBuf> {
        let inside = path.strip_prefix(&self.checkout).ok()?;
        Some(self.folder.join(inside))
    }
}

/// How a revision is built.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BuildCommand {
    /// The shell command.
    pub command: String,
    /// Working directory, relative to the worktree's root.
    pub directory: PathBuf,
    /// Time limit in milliseconds.
    pub limit_ms: u64,
}

/// A piece of code to measure, as the user wrote it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Snippet {
    /// Its language.
    pub language: SnippetLanguage,
    /// Code of one iteration.
    pub runner: String,
    /// Code executed once before the workers start. It returns the shared value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init: Option<String>,
    /// Code executed once in each worker. It returns the worker's state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_worker: Option<String>,
    /// For a command: executed before every iteration and not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare: Option<String>,
    /// For a command: whether to use a shell even if the command needs none. A comparison uses a
    /// shell for all its commands or for none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_shell: bool,
    /// For a command: warm-up executions at the start of every run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup: Option<u32>,
    /// For a command: whether an exit status other than 0 is a success.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignores_failure: bool,
    /// For a command: whether to show its output.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shows_output: bool,
    /// Code executed once after the workers have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<String>,
    /// Absolute search paths for modules, headers or classes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathBuf>,
    /// Other nodes of a distributed Erlang or Elixir system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<ErlangNodes>,
}

/// Nodes of a distributed Erlang system.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ErlangNodes {
    /// This many connected nodes on this machine, including the measuring node.
    Local(u32),
    /// A running node that executes the code.
    Remote {
        /// Full node name, `name@host`.
        name: String,
        /// The shared secret of the nodes; by default the user's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cookie: Option<String>,
    },
}

impl Snippet {
    /// Warning for a snippet so short that the compiler has probably removed the code. The analysis
    /// recognizes such runs in the store by exactly this text.
    pub const FOLDED: &str = "An iteration takes less than three times as long as an empty one: the code may have been \
                              folded away.";

    /// Creates a snippet that only has the code of an iteration, with default settings.
    pub fn new(language: SnippetLanguage, runner: impl Into<String>) -> Snippet {
        Snippet { language, runner: runner.into(), ..Snippet::default() }
    }

    /// Returns the snippet of one case: replaces every `{NAME}` with the case's value of the
    /// parameter. Code and number of workers, which are parameters of all snippets, are not
    /// substituted.
    pub fn with_defaults<'a>(&'a self, values: &[(String, ParameterValue)]) -> Cow<'a, Snippet> {
        let is_parameter = |name: &str| !matches!(name, "code" | "concurrency");
        let parameters = values.iter().filter(|(name, _)| is_parameter(name));
        let settings: Vec<(String, String)> =
            parameters.map(|(name, value)| (format!("{{{name}}}"), value.plain())).collect();
        if settings.is_empty() {
            return Cow::Borrowed(self);
        }
        let fill = |text: &String| format_fixed(text, &settings);
        Cow::Owned(Snippet {
            runner: fill(&self.runner),
            init: self.init.as_ref().map(fill),
            init_worker: self.init_worker.as_ref().map(fill),
            prepare: self.prepare.as_ref().map(fill),
            done: self.done.as_ref().map(fill),
            ..self.clone()
        })
    }
}

// The origin of measured code: its revision and branch, and the range of revisions that a bisection
// searches.

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
    /// Author of the commit, truncated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
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
