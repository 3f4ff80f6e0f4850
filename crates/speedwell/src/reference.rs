//! Resolves references like `@latest` or `@base` to stored sessions, with the help of git.

use crate::history::project::branch_tip;
use anyhow::Context;
use speedwell_machine::environment::{GitRepository, ci_target_branch};
use speedwell_model::short_revision;
use speedwell_store::{SessionReference, Store};
use std::path::Path;
use std::time::Duration;

/// Timeout for git, which reads the history once.
const GIT_TIMEOUT: Duration = Duration::from_secs(10);

/// A resolved session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedSession {
    /// Number of the session.
    pub number: i64,
    /// What the word was resolved to, unless that is obvious.
    pub note: Option<String>,
}

/// Finds the session to which `word` refers.
///
/// # Errors
/// Fails if there is no such session, or git cannot find the merge base.
pub fn find_session(store: &Store, word: &str) -> anyhow::Result<ResolvedSession> {
    let git = GitRepository::for_folder(Path::new("."), GIT_TIMEOUT);
    let reference: SessionReference = word.parse()?;
    let reference = match &reference {
        SessionReference::Base(branch) => return find_base(store, &git, branch.as_deref()),
        SessionReference::Revision(revision) => match git.commit_id(revision) {
            Some(id) => SessionReference::Revision(id),
            None => reference,
        },
        _ => reference,
    };
    let number = store.resolve_reference(&reference)?;
    Ok(ResolvedSession { number, note: None })
}

/// Resolves `word`, which names a revision or a session such as `@base`, to a revision ID. A word
/// that git does not know is taken as an ID.
///
/// # Errors
/// Fails if there is no such session, or its revision is unknown.
pub fn resolve_revision(store: &Store, git: &GitRepository, word: &str) -> anyhow::Result<String> {
    if !word.starts_with('@') {
        return Ok(git.commit_id(word).unwrap_or_else(|| word.to_owned()));
    }
    let session = store.load_session(find_session(store, word)?.number)?;
    let origin = session
        .origin
        .with_context(|| format!("'{word}' has no known revision"))?;
    Ok(origin.revision)
}

/// Returns the position of a revision in the first-parent history of the branch `line`. `word`
/// names the revision, or a session with this revision, such as `@base`. If the revision is not in
/// this history, returns the position at which the branch of the revision forked from it.
///
/// # Errors
/// Fails if `word` names neither a revision nor a session, or if the branch of the revision did not
/// fork from `line`.
pub fn line_position(store: &Store, line: &str, word: &str) -> anyhow::Result<u32> {
    let git = GitRepository::for_folder(Path::new("."), GIT_TIMEOUT);
    let revision = resolve_revision(store, &git, word)?;
    if let Some(position) = store.line_position(line, &revision)? {
        return Ok(position);
    }
    let fork = branch_tip(&git, line).and_then(|tip| git.merge_base(&tip, &revision));
    let position = match &fork {
        Some(fork) => store.line_position(line, fork)?,
        None => None,
    };
    position.with_context(|| format!("'{word}' is not a revision in the history of '{line}'"))
}

/// The point at which `HEAD` forked from the branch into which it will be merged.
pub struct BranchFork {
    /// The branch, as git names it.
    pub target: String,
    /// ID of the last common commit.
    pub id: String,
}

/// Returns the merge base of `HEAD` and `branch`. The default of `branch` is the branch into which
/// a CI job's pull request will be merged, or else the default branch of the remote repository.
///
/// # Errors
/// Fails if there is no such branch or no common commit, as in a shallow clone.
pub fn find_fork(git: &GitRepository, branch: Option<&str>) -> anyhow::Result<BranchFork> {
    let word = branch.map_or_else(|| "@base".to_owned(), |branch| format!("@base:{branch}"));
    let ci_branch = ci_target_branch();
    let name = branch.or(ci_branch.as_deref());
    let target = git.target_branch(name).with_context(|| match name {
        Some(name) => missing_branch_message(git, name),
        None => format!(
            "cannot resolve '{word}': the branch that the current branch will be merged into is unknown\nhint: name \
             it, for example @base:main"
        ),
    })?;
    let id = git.merge_base(&target, "HEAD").with_context(|| {
        format!(
            "'{word}': HEAD and '{target}' have no common commit in this clone\nhint: run 'git \
             fetch --unshallow' if the clone is shallow"
        )
    })?;
    Ok(BranchFork { target, id })
}

/// Explains that a branch is missing, and how to fetch it if there is a remote repository.
fn missing_branch_message(git: &GitRepository, name: &str) -> String {
    let hint = match git.try_git_output(&["remote", "get-url", "origin"]) {
        Some(_) => {
            let unshallow = if git.is_shallow() { "--unshallow " } else { "" };
            format!("git fetch {unshallow}origin {name}:refs/remotes/origin/{name}")
        }
        None => "'git branch' lists all branches".to_owned(),
    };
    format!("no branch '{name}' here\nhint: {hint}")
}

/// Returns the session of the newest measured revision that the checkout and `branch` have in
/// common. The search follows the first parents of the branch.
fn find_base(
    store: &Store,
    git: &GitRepository,
    branch: Option<&str>,
) -> anyhow::Result<ResolvedSession> {
    let BranchFork { target, id: fork } = find_fork(git, branch)?;
    let measured = store.measured_revisions()?;
    let line = git.first_parents_of(&fork);
    let newest_measured = line
        .iter()
        .enumerate()
        .find_map(|(commits_behind, revision)| {
            let number = *measured.get(revision)?;
            Some((commits_behind, revision, number))
        });
    let (commits_behind, revision, number) = newest_measured.with_context(|| {
        format!(
            "no measured revision at or before the merge base with '{target}', {}\nhint: measure it, for example after \
             'git checkout {}'",
            short_revision(&fork),
            short_revision(&fork)
        )
    })?;
    let distance = match commits_behind {
        0 => "the merge base".to_owned(),
        1 => "1 commit before the merge base".to_owned(),
        count => format!("{count} commits before the merge base"),
    };
    Ok(ResolvedSession {
        number,
        note: Some(format!(
            "{} is @{number}, {}, {distance} with '{target}'",
            SessionReference::Base(branch.map(str::to_owned)),
            short_revision(revision)
        )),
    })
}
