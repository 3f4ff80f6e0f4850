//! Resolves references such as `@latest` or `@base` to stored sessions.

use crate::history::project::branch_tip;
use anyhow::Context;
use speedwell_machine::environment::{BranchFork, GitRepository, find_fork};
use speedwell_model::{SessionReference, short_revision};
use speedwell_store::Store;
use std::path::Path;
use std::time::Duration;

/// Timeout for git, which reads the history once.
const GIT_TIMEOUT: Duration = Duration::from_secs(10);

/// A resolved session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedSession {
    /// Number of the session.
    pub number: i64,
    /// What the reference means, if that is not obvious.
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

/// Returns the ID of the revision that `word` names, directly or by a session such as `@base`. A
/// word that git does not know counts as an ID.
///
/// # Errors
/// Fails if there is no such session, or its revision is unknown.
pub fn resolve_revision(store: &Store, git: &GitRepository, word: &str) -> anyhow::Result<String> {
    if !word.starts_with('@') {
        return Ok(git.commit_id(word).unwrap_or_else(|| word.to_owned()));
    }
    let session = store.load_session(find_session(store, word)?.number)?;
    let origin = session.origin.with_context(|| format!("'{word}' has no known revision"))?;
    Ok(origin.revision)
}

/// Returns the position of a revision in the first-parent history of the branch `line`. If the
/// revision is not in this history, returns the position where its branch forked from `line`.
/// `word` names the revision, directly or by a session such as `@base`.
///
/// # Errors
/// Fails if `word` names neither a revision nor a session, or the revision's branch did not fork
/// from `line`.
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

/// Returns the session of the newest measured revision that is in the history of both the checkout
/// and `branch`. Starts at their merge base and follows first parents.
fn find_base(
    store: &Store,
    git: &GitRepository,
    branch: Option<&str>,
) -> anyhow::Result<ResolvedSession> {
    let BranchFork { target, id: fork } = find_fork(git, branch)?;
    let measured = store.measured_revisions()?;
    let line = git.first_parents_of(&fork);
    let newest_measured = line.iter().enumerate().find_map(|(commits_behind, revision)| {
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
