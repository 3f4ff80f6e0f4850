//! Which stored session a word like `@latest` or `@base` means, where git has to be asked.

use crate::history::tip;
use anyhow::Context;
use speedwell_environment::{Git, target_of_job};
use speedwell_model::short_revision;
use speedwell_results::store::{Reference, Store};
use std::path::Path;
use std::time::Duration;

/// How long git may take. It reads the history once.
const LIMIT: Duration = Duration::from_secs(10);

/// A session that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its number.
    pub number: i64,
    /// What the word was taken for, where that is not plain.
    pub taken_for: Option<String>,
}

/// The session that `word` means.
///
/// # Errors
/// There is none, or git cannot say.
pub fn find(store: &Store, word: &str) -> anyhow::Result<Found> {
    let git = Git::at(Path::new("."), LIMIT);
    let reference: Reference = word.parse()?;
    let reference = match &reference {
        Reference::Base(branch) => return base(store, &git, branch.as_deref()),
        Reference::Revision(revision) => match git.commit_id(revision) {
            Some(id) => Reference::Revision(id),
            None => reference,
        },
        _ => reference,
    };
    let number = store.find(&reference)?;
    Ok(Found {
        number,
        taken_for: None,
    })
}

/// The id of the revision that `word` names, or of which a session is that it names, such as `@base`. A word that git does not
/// know is taken for an id.
///
/// # Errors
/// There is no such session, or nobody knows what it measured.
pub fn revision(store: &Store, git: &Git, word: &str) -> anyhow::Result<String> {
    if !word.starts_with('@') {
        return Ok(git.commit_id(word).unwrap_or_else(|| word.to_owned()));
    }
    let session = store.session(find(store, word)?.number)?;
    let origin = session.origin;
    let origin = origin.with_context(|| format!("'{word}' is of no known revision"))?;
    Ok(origin.revision)
}

/// The place on a line of what `word` names: a revision, or a session such as `@base`.
///
/// # Errors
/// It names none, or one that is not on the line.
pub fn position(store: &Store, line: &str, word: &str) -> anyhow::Result<u32> {
    let git = Git::at(Path::new("."), LIMIT);
    let revision = revision(store, &git, word)?;
    if let Some(position) = store.position(line, &revision)? {
        return Ok(position);
    }
    let fork = tip(&git, line).and_then(|tip| git.merge_base(&tip, &revision));
    let place = match &fork {
        Some(fork) => store.position(line, fork)?,
        None => None,
    };
    place.with_context(|| format!("'{word}' is no revision on the line of '{line}'"))
}

/// Where `HEAD` parts from the branch that it will be merged into.
pub struct Fork {
    /// The branch, as git names it.
    pub target: String,
    /// The id of the last commit that both have.
    pub id: String,
}

/// The merge base of `HEAD` and `branch`. Without a name, that is the branch into which a job's pull request will be merged,
/// else the one that the remote repository calls its own.
///
/// # Errors
/// No such branch, or nothing in common, as in a clone whose history was cut off.
pub fn fork(git: &Git, branch: Option<&str>) -> anyhow::Result<Fork> {
    let word = branch.map_or_else(|| "@base".to_owned(), |branch| format!("@base:{branch}"));
    let of_job = target_of_job();
    let name = branch.or(of_job.as_deref());
    let target = git.target(name).with_context(|| match name {
        Some(name) => no_branch(git, name),
        None => format!(
            "'{word}' needs the branch that this one will be merged into\nhint: name it, for example @base:main"
        ),
    })?;
    let id = git.merge_base(&target, "HEAD").with_context(|| {
        format!(
            "'{word}': HEAD and '{target}' have no commit in common here\nhint: git fetch --unshallow, if the history \
             was cut off"
        )
    })?;
    Ok(Fork { target, id })
}

/// What is missing, and how it is brought here from the remote repository if there is one.
fn no_branch(git: &Git, name: &str) -> String {
    let hint = match git.ask(&["remote", "get-url", "origin"]) {
        Some(_) => {
            let unshallow = if git.is_shallow() { "--unshallow " } else { "" };
            format!("git fetch {unshallow}origin {name}:refs/remotes/origin/{name}")
        }
        None => "'git branch' lists those that are".to_owned(),
    };
    format!("there is no branch '{name}' here\nhint: {hint}")
}

/// The newest measured revision that the checkout and `branch` have in common, on the branch's own line.
fn base(store: &Store, git: &Git, branch: Option<&str>) -> anyhow::Result<Found> {
    let Fork { target, id: fork } = fork(git, branch)?;
    let measured = store.measured_revisions()?;
    let line = git.line_to(&fork);
    let found = line.iter().enumerate().find_map(|(behind, revision)| {
        let number = *measured.get(revision)?;
        Some((behind, revision, number))
    });
    let (behind, revision, number) = found.with_context(|| {
        format!(
            "no measured revision at or before the merge base with '{target}', {}\nhint: measure it, for example after \
             'git checkout {}'",
            short_revision(&fork),
            short_revision(&fork)
        )
    })?;
    let place = match behind {
        0 => "the merge base".to_owned(),
        1 => "1 commit before the merge base".to_owned(),
        count => format!("{count} commits before the merge base"),
    };
    Ok(Found {
        number,
        taken_for: Some(format!(
            "{} is @{number}, {}, {place} with '{target}'",
            Reference::Base(branch.map(str::to_owned)),
            short_revision(revision)
        )),
    })
}
