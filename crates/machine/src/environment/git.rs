//! Runs git, which may be slow, missing, or configured to run other programs.
//!
//! Git is started with options that prevent hooks, file system monitors and password prompts.
//! Queries neither change nor lock anything in the repository. Start at [`GitRepository`].

use crate::process::{
    ChildConversation, NextStep, OutputStream, ProcessEnd, ProcessOutcome, ProcessSpec, run_child,
};
use speedwell_model::{LineRevision, Revision};
use std::collections::{HashMap, HashSet};
use std::io;
use std::iter::successors;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The repository of a folder, for a series of git commands with a common time limit.
#[derive(Debug, Clone)]
pub struct GitRepository {
    folder: PathBuf,
    limit: Duration,
    deadline: Instant,
    /// Set once it is known that the folder has no repository. Git is then no longer started.
    has_no_repository: Arc<AtomicBool>,
}

/// A branch.
#[derive(Debug, Clone)]
pub struct BranchTip {
    /// Full name of the branch, as in `refs/heads/main`.
    pub reference: String,
    /// ID of its newest commit.
    pub id: String,
}

/// Why git did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// Git cannot be started.
    #[error("cannot start 'git'")]
    Absent(#[source] io::Error),
    /// Git was killed at its time limit.
    #[error("'git {command}' took longer than {} s", limit.as_secs())]
    TooSlow {
        /// Git subcommand, such as `log`.
        command: String,
        /// The limit.
        limit: Duration,
    },
    /// The user interrupted this program.
    #[error("interrupted")]
    Interrupted,
    /// Git failed with this message.
    #[error("git failed: {0}")]
    Says(String),
}

/// Variables through which git tells a hook about the repository. To work on another repository or
/// worktree, they must be unset. Variables for user settings (`GIT_CONFIG_COUNT`, `GIT_SSH`) are
/// not included.
pub const REPOSITORY_VARIABLES: [&str; 13] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_GRAFT_FILE",
    "GIT_REPLACE_REF_BASE",
    "GIT_NO_REPLACE_OBJECTS",
];

/// Options that keep git from starting other programs, and keep queries from writing to the
/// repository.
const QUIET_OPTIONS: [&str; 5] =
    ["--no-optional-locks", "-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null"];

/// Maximum length of a subject or an author name.
const MAX_TEXT_CHARS: usize = 200;

/// Beginning of git's message for a folder outside any repository.
const NO_REPOSITORY_MESSAGE: &str = "not a git repository";

/// Maximum number of IDs per command; the system limits the length of a command line.
const MAX_IDS_PER_COMMAND: usize = 10_000;

/// Collects all of standard output.
struct StdoutCollector(Vec<u8>);

impl ChildConversation for StdoutCollector {
    fn handle_line(&mut self, _line: &[u8]) -> NextStep {
        NextStep::Wait
    }

    fn observe_output(&mut self, stream: OutputStream, bytes: &[u8]) {
        if stream == OutputStream::Stdout {
            self.0.extend_from_slice(bytes);
        }
    }
}

impl GitRepository {
    /// Creates an object for the repository of `folder`. All its commands together may take up to
    /// `limit`.
    pub fn for_folder(folder: &Path, limit: Duration) -> GitRepository {
        GitRepository {
            folder: folder.to_owned(),
            limit,
            deadline: Instant::now() + limit,
            has_no_repository: Arc::new(AtomicBool::new(!may_have_repository(folder))),
        }
    }

    /// Runs git, and returns its output without the trailing line feed. Arguments from a user must
    /// follow `--end-of-options` or `--`, so that git does not take them for options.
    ///
    /// # Errors
    /// Fails if git or the repository is missing, git fails, or the time limit is exceeded.
    pub fn git_output(&self, arguments: &[&str]) -> Result<String, GitError> {
        let command = arguments.first().copied().unwrap_or_default();
        let arguments: Vec<&str> = QUIET_OPTIONS.iter().chain(arguments).copied().collect();
        self.run_command(ProcessSpec::new("git").args(arguments), command)
    }

    /// Same as [`GitRepository::git_output`], but returns `None` if it fails, whatever the reason.
    pub fn try_git_output(&self, arguments: &[&str]) -> Option<String> {
        self.git_output(arguments).ok()
    }

    /// Returns a digest of the uncommitted changes to tracked files; `None` without changes, or if
    /// git fails.
    pub fn uncommitted_digest(&self) -> Option<String> {
        let diff = ["diff", "HEAD", "--no-ext-diff", "--no-textconv", "--binary"];
        if self.git_output(&[&diff[..], &["--quiet"]].concat()).is_ok() {
            return None;
        }
        let [quiet, diff] = [&QUIET_OPTIONS[..], &diff].map(|words| words.join(" "));
        let script = format!("git {quiet} {diff} | git hash-object --stdin");
        let shell = ProcessSpec::new("/bin/sh").args(["-c", script.as_str()]);
        let digest = self.run_command(shell, "diff").ok()?;
        (!digest.is_empty()).then_some(digest)
    }

    /// Returns the ID of the commit that `revision` names.
    pub fn commit_id(&self, revision: &str) -> Option<String> {
        let commit = format!("{revision}^{{commit}}");
        self.try_git_output(&["rev-parse", "--verify", "-q", "--end-of-options", &commit])
    }

    /// Returns the branch into which other branches are merged. With `name`, this is the branch
    /// `name` of the remote, or else the local branch `name`. Without `name`, it is the default
    /// branch of the remote, or else the user's default branch, or else the first existing branch
    /// with a usual name.
    pub fn target_branch(&self, name: Option<&str>) -> Option<BranchTip> {
        if let Some(name) = name {
            return self.branch_tips(&[name])?.into_iter().flatten().next();
        }
        // `HEAD` stands for the default branch of the remote, unless it is a branch of this name.
        let is_default = |tip: &BranchTip| !tip.reference.ends_with("/HEAD");
        let mut tips = self.branch_tips(&["HEAD", "main", "master", "trunk"])?.into_iter();
        let user_default = || self.try_git_output(&["config", "--get", "init.defaultBranch"]);
        (tips.next().flatten().filter(is_default))
            .or_else(|| self.target_branch(Some(&user_default()?)))
            .or_else(|| tips.flatten().next())
    }

    /// Returns the branch of each name: the branch of the remote, or else the local branch.
    fn branch_tips(&self, names: &[&str]) -> Option<Vec<Option<BranchTip>>> {
        let places_of = |name: &&str| {
            ["refs/remotes/origin/", "refs/heads/"].map(|folder| format!("{folder}{name}"))
        };
        let places: Vec<[String; 2]> = names.iter().map(places_of).collect();
        let mut arguments = vec!["for-each-ref", "--format=%(refname)%00%(symref)%00%(objectname)"];
        arguments.extend(places.as_flattened().iter().map(String::as_str));
        let listing = self.try_git_output(&arguments)?;
        let tip_of = |place: &String| {
            let after_place = |line| str::strip_prefix(line, place.as_str())?.strip_prefix('\0');
            let (target, id) = listing.lines().find_map(after_place)?.split_once('\0')?;
            let reference = if target.is_empty() { place.as_str() } else { target };
            Some(BranchTip { reference: reference.to_owned(), id: id.to_owned() })
        };
        Some(places.iter().map(|places| places.iter().find_map(tip_of)).collect())
    }

    /// Whether the clone is shallow.
    pub fn is_shallow(&self) -> bool {
        let output = self.try_git_output(&["rev-parse", "--is-shallow-repository"]);
        output.as_deref() == Some("true")
    }

    /// Returns the merge base of two revisions.
    pub fn merge_base(&self, first: &str, second: &str) -> Option<String> {
        self.try_git_output(&["merge-base", "--end-of-options", first, second])
    }

    /// Returns the commits that are reachable from any of `tips`, but not from `excluded`. Ignores
    /// tips that do not exist in the repository. Returns `None` if `excluded` does not exist.
    pub fn commits_after(&self, excluded: &str, tips: &[&str]) -> Option<HashSet<String>> {
        let exclusion = format!("^{}", self.commit_id(excluded)?);
        let mut commits = HashSet::new();
        for tips in tips.chunks(MAX_IDS_PER_COMMAND) {
            let options = ["rev-list", "--ignore-missing", "--end-of-options", &exclusion];
            let arguments: Vec<&str> = options.iter().chain(tips).chain(&["--"]).copied().collect();
            commits.extend(self.try_git_output(&arguments)?.lines().map(str::to_owned));
        }
        Some(commits)
    }

    /// Whether any of these revisions exists in the repository.
    pub fn has_any(&self, revisions: &[&str]) -> bool {
        let options = ["rev-list", "--no-walk", "--ignore-missing", "--end-of-options"];
        let arguments: Vec<&str> =
            options.iter().chain(revisions).chain(&["--"]).copied().collect();
        self.try_git_output(&arguments).is_some_and(|output| !output.is_empty())
    }

    /// Returns `revision` and its ancestors along first parents, the newest first; empty if git
    /// fails.
    pub fn first_parents_of(&self, revision: &str) -> Vec<String> {
        let revisions = self.first_parent_line(revision, None).unwrap_or_default();
        revisions.into_iter().map(|revision| revision.id).rev().collect()
    }

    /// Returns `tip` and its ancestors along first parents, the oldest first. Leaves out `excluded`
    /// and its ancestors.
    pub fn first_parent_line(&self, tip: &str, excluded: Option<&str>) -> Option<Vec<Revision>> {
        let exclusion = excluded.map(|excluded| format!("^{excluded}"));
        let mut arguments = vec!["--first-parent", "--reverse", "--end-of-options", tip];
        arguments.extend(exclusion.as_deref());
        Some(self.log_commits(&arguments)?.into_iter().map(|(revision, _)| revision).collect())
    }

    /// Returns details of the commit that `revision` names, and its author.
    pub fn commit_details(&self, revision: &str) -> Option<(Revision, Option<String>)> {
        self.log_commits(&["-1", "--end-of-options", revision])?.pop()
    }

    /// Returns commits, each with its author, in the order of `git log`.
    fn log_commits(&self, arguments: &[&str]) -> Option<Vec<(Revision, Option<String>)>> {
        let format = "--format=%H%x00%T%x00%P%x00%ct%x00%an%x00%s";
        let format = ["-c", "log.showSignature=false", "log", format];
        let arguments: Vec<&str> = format.iter().chain(arguments).chain(&["--"]).copied().collect();
        self.try_git_output(&arguments)?.lines().map(parse_revision).collect()
    }

    /// Returns the tag of each tagged commit, by commit ID. If a commit has several tags, returns
    /// the last one in alphabetical order.
    pub fn tags_by_commit(&self) -> HashMap<String, String> {
        let format = "--format=%(if)%(*objectname)%(then)%(*objectname)%(else)%(objectname)%(end) %(refname:short)";
        let listing = self
            .try_git_output(&["for-each-ref", "--sort=refname", format, "refs/tags"])
            .unwrap_or_default();
        let pairs = listing.lines().filter_map(|line| line.split_once(' '));
        pairs.map(|(id, name)| (id.to_owned(), name.to_owned())).collect()
    }

    /// Runs `spec` and returns its standard output.
    fn run_command(&self, spec: ProcessSpec, command: &str) -> Result<String, GitError> {
        if self.has_no_repository.load(Ordering::Relaxed) {
            return Err(GitError::Says(NO_REPOSITORY_MESSAGE.to_owned()));
        }
        let too_slow = || GitError::TooSlow { command: command.to_owned(), limit: self.limit };
        let spec = ProcessSpec {
            directory: Some(self.folder.clone()),
            limit: (self.deadline.checked_duration_since(Instant::now())).ok_or_else(too_slow)?,
            unset: REPOSITORY_VARIABLES.map(str::to_owned).to_vec(),
            ..spec
        };
        // Git must not ask for a password. Its messages must be in English, whatever the user's
        // language is.
        let spec = spec.env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C");
        let mut output = StdoutCollector(Vec::new());
        let outcome = run_child(&spec, &mut output).map_err(GitError::Absent)?;
        match outcome.ended {
            ProcessEnd::Exit(0) => {
                let text = String::from_utf8_lossy(&output.0);
                Ok(text.trim_end_matches('\n').to_owned())
            }
            ProcessEnd::Timeout => Err(too_slow()),
            ProcessEnd::Interrupted => Err(GitError::Interrupted),
            _ => {
                let complaint = error_message(&outcome);
                if complaint.starts_with(NO_REPOSITORY_MESSAGE) {
                    self.has_no_repository.store(true, Ordering::Relaxed);
                }
                Err(GitError::Says(complaint))
            }
        }
    }
}

/// Returns false if it is certain that neither this folder nor a folder above it is, or contains, a
/// repository. If it returns true, only git can tell whether there is one.
fn may_have_repository(folder: &Path) -> bool {
    let has_repository = |folder: &Path| {
        folder.join(".git").symlink_metadata().is_ok() || folder.join("objects").is_dir()
    };
    folder.canonicalize().map_or(true, |folder| folder.ancestors().any(has_repository))
}

fn error_message(outcome: &ProcessOutcome) -> String {
    let lines = outcome.stderr.last_lines(3);
    match lines.trim() {
        "" => format!("it {} without a message", outcome.ended),
        lines => lines.trim_start_matches("fatal: ").to_owned(),
    }
}

/// Parses a line of `git log` in our format: a commit, and its author.
fn parse_revision(line: &str) -> Option<(Revision, Option<String>)> {
    let truncate = |text: &str| text.chars().take(MAX_TEXT_CHARS).collect::<String>();
    let mut parts = line.splitn(6, '\0');
    let mut next = || parts.next().map(str::to_owned);
    let (id, tree) = (next()?, next());
    let parents = next()?.split_whitespace().map(str::to_owned).collect();
    let committed_unix_ms = next()?.parse::<i64>().ok().map(|seconds| seconds * 1000);
    let author = next().filter(|author| !author.is_empty()).map(|author| truncate(&author));
    let subject = next().map(|subject| truncate(&subject));
    Some((Revision { id, tree, parents, committed_unix_ms, subject }, author))
}

// Lists the revisions from one commit to another. Each revision in the list is a parent of the next
// one.

/// A commit as listed by git.
struct ListedCommit {
    parents: Vec<String>,
    revision: LineRevision,
}

/// Returns the chain of revisions from `good` to `bad` (both full IDs), including both. The chain
/// follows first parents. If `along_all_parents` is set, it is the longest chain along any parents.
/// Returns `None` if there is no such chain.
///
/// # Errors
/// Fails if git fails.
pub fn revision_line(
    git: &GitRepository,
    good: &str,
    bad: &str,
    along_all_parents: bool,
) -> Result<Option<Vec<LineRevision>>, GitError> {
    let range = format!("{good}..{bad}");
    let format = "--format=%H%x00%P%x00%at%x00%an%x00%s";
    let path = if along_all_parents { "--ancestry-path" } else { "--first-parent" };
    let arguments =
        ["log", "--reverse", format, path, "--topo-order", "--end-of-options", &range, "--"];
    let log = git.git_output(&arguments)?;
    let commits: Vec<ListedCommit> = log.lines().filter_map(parse_commit).collect();
    let first = git.git_output(&["log", "-1", format, "--end-of-options", good, "--"])?;
    Ok(parse_commit(&first)
        .and_then(|first| longest_path(&commits, first.revision, bad, along_all_parents)))
}

/// Finds the longest path from `first` to `bad`. Each of `commits` comes after its parents.
fn longest_path(
    commits: &[ListedCommit],
    first: LineRevision,
    bad: &str,
    along_all_parents: bool,
) -> Option<Vec<LineRevision>> {
    // For each commit: the length of the longest path from `first`, and the index of the commit.
    let mut paths: HashMap<&str, (usize, Option<usize>)> = HashMap::from([(&*first.id, (0, None))]);
    // The index of each commit's predecessor on this path.
    let mut predecessors = vec![None; commits.len()];
    for (index, commit) in commits.iter().enumerate() {
        let parents = commit.parents.iter().take(if along_all_parents { usize::MAX } else { 1 });
        let parent_paths = parents.filter_map(|parent| paths.get(parent.as_str()));
        let longest = parent_paths.max_by_key(|(length, _)| *length).copied();
        if let Some((length, parent)) = longest {
            predecessors[index] = parent;
            paths.insert(&commit.revision.id, (length + 1, Some(index)));
        }
    }
    let backwards = successors(paths.get(bad)?.1, |index| predecessors[*index]);
    let mut revisions: Vec<LineRevision> =
        backwards.map(|index| commits[index].revision.clone()).collect();
    revisions.push(first.clone());
    revisions.reverse();
    Some(revisions)
}

fn parse_commit(line: &str) -> Option<ListedCommit> {
    let mut parts = line.splitn(5, '\0');
    let mut next = || parts.next();
    let truncate = |text: &str| text.chars().take(MAX_TEXT_CHARS).collect();
    let (id, parents, seconds) = (next()?, next()?, next()?);
    Some(ListedCommit {
        parents: parents.split(' ').map(str::to_owned).collect(),
        revision: LineRevision {
            id: id.to_owned(),
            authored_unix_ms: seconds.parse::<i64>().ok()?.checked_mul(1000)?,
            author: truncate(next()?),
            subject: truncate(next()?),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_fixtures::FakeRepo;
    use std::process::Command;
    use std::time::Duration;
    use tempfile::TempDir;

    const PATIENTLY: Duration = Duration::from_secs(60);

    #[test]
    fn output_is_complete_and_errors_are_distinguished_from_timeouts() {
        let folder = tempfile::tempdir().unwrap();
        let Some(history) = FakeRepo::init(folder.path()) else { return };
        let message = "0123456789abcdef".repeat(20_000);
        std::fs::write(folder.path().join(".git/message"), &message).unwrap();
        history.run_git(&["commit", "--quiet", "--allow-empty", "--file", ".git/message"]);
        let git = GitRepository::for_folder(folder.path(), PATIENTLY);
        let answer = git.git_output(&["log", "-1", "--format=%B"]).unwrap();
        assert!(answer == message, "{} bytes", answer.len());

        let error = git.git_output(&["log", "--end-of-options", "nowhere", "--"]);
        let error = error.unwrap_err();
        assert!(matches!(&error, GitError::Says(_)), "{error:?}");
        assert_eq!(error.to_string(), "git failed: bad revision 'nowhere'");

        let error = GitRepository::for_folder(folder.path(), Duration::ZERO).git_output(&["log"]);
        let error = error.unwrap_err();
        assert_eq!(error.to_string(), "'git log' took longer than 0 s");
        let error = GitRepository::for_folder(&folder.path().join("nowhere"), PATIENTLY)
            .git_output(&["log"]);
        assert!(matches!(error, Err(GitError::Absent(_))), "{error:?}");
    }

    #[test]
    fn git_is_started_only_where_there_may_be_a_repository() {
        let folder = tempfile::tempdir().unwrap();
        let asked =
            |folder: &Path| GitRepository::for_folder(folder, Duration::ZERO).git_output(&["log"]);
        let is_too_slow = |answer| matches!(answer, Err(GitError::TooSlow { .. }));
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let error = asked(&inner).unwrap_err();
        assert_eq!(error.to_string(), "git failed: not a git repository");
        // A worktree has a file instead of a folder.
        std::fs::write(folder.path().join(".git"), "gitdir: elsewhere").unwrap();
        assert!(is_too_slow(asked(&inner)));
        std::fs::remove_file(folder.path().join(".git")).unwrap();
        std::fs::create_dir(folder.path().join("objects")).unwrap();
        assert!(is_too_slow(asked(&inner)), "it may be a bare one");
    }

    fn git(folder: &TempDir, words: &[&str]) -> String {
        let identity = ["-c", "user.name=N", "-c", "user.email=n@example.org"];
        let mut command = Command::new("git");
        let output = command.current_dir(folder).args(identity).args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn commit(folder: &TempDir, subject: &str) -> String {
        git(folder, &["commit", "-q", "--allow-empty", "-m", subject]);
        git(folder, &["rev-parse", "HEAD"])
    }

    fn subjects(folder: &TempDir, good: &str, bad: &str, all: bool) -> Option<Vec<String>> {
        let git = GitRepository::for_folder(folder.path(), Duration::from_secs(60));
        let line = revision_line(&git, good, bad, all).unwrap()?;
        Some(line.into_iter().map(|revision| revision.subject).collect())
    }

    #[test]
    fn a_merge_is_one_revision_unless_all_parents_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        git(&folder, &["init", "-q", "-b", "main"]);
        let first = commit(&folder, "first");
        git(&folder, &["checkout", "-q", "-b", "side"]);
        commit(&folder, "side one");
        let inner = commit(&folder, "side two");
        git(&folder, &["checkout", "-q", "main"]);
        commit(&folder, "second");
        git(&folder, &["merge", "-q", "--no-ff", "-m", "merge", "side"]);
        let last = commit(&folder, "last");
        let subjects_of = |good: &str, bad: &str, all| subjects(&folder, good, bad, all);
        let expected = ["first", "second", "merge", "last"].map(str::to_owned);
        assert_eq!(subjects_of(&first, &last, false).unwrap(), expected);
        let expected = ["first", "side one", "side two", "merge", "last"].map(str::to_owned);
        assert_eq!(subjects_of(&first, &last, true).unwrap(), expected);
        // The chain of first parents contains the merge of `inner`, but not `inner` itself.
        assert_eq!(subjects_of(&inner, &last, false), None);
        assert_eq!(subjects_of(&inner, &last, true).unwrap().len(), 3);
        assert_eq!(subjects_of(&last, &first, true), None);
    }
}
