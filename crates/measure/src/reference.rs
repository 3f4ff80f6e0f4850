//! Which stored session a word like `@latest` or `@base` means, where git has to be asked.

use anyhow::Context;
use speedwell_environment::Git;
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

/// The newest measured revision that the checkout and `branch` have in common, on the branch's own line.
fn base(store: &Store, git: &Git, branch: Option<&str>) -> anyhow::Result<Found> {
    let word = branch.map_or_else(|| "@base".to_owned(), |branch| format!("@base:{branch}"));
    let target = git.target(branch).with_context(|| match branch {
        Some(name) => format!("there is no branch '{name}' here"),
        None => format!(
            "'{word}' needs the branch that this one will be merged into\nhint: name it, for example @base:main"
        ),
    })?;
    let fork = git.merge_base(&target, "HEAD").with_context(|| {
        format!(
            "'{word}': HEAD and '{target}' have no commit in common here\nhint: git fetch --unshallow, if the history \
             was cut off"
        )
    })?;
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
            "{word} is @{number}, {}, {place} with '{target}'",
            short_revision(revision)
        )),
    })
}
