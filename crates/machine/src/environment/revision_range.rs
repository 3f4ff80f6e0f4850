//! Lists the revisions from one commit to another. Each revision in the list is a parent of the
//! next one. Start at [`revision_line`].

use crate::environment::git::{GitError, GitRepository};
use speedwell_model::LineRevision;
use std::collections::HashMap;

/// Maximum length of a subject or an author name.
const MAX_TEXT_CHARS: usize = 200;

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
    let ancestry_options = if along_all_parents {
        ["--ancestry-path", "--topo-order"]
    } else {
        ["--first-parent", "--topo-order"]
    };
    let arguments =
        [&["log", "--reverse", format][..], &ancestry_options, &["--end-of-options", &range, "--"]];
    let log = git.git_output(&arguments.concat())?;
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
    // For each commit: the length of the longest path from `first`, and the index of the commit's
    // predecessor on this path.
    let mut paths: HashMap<&str, (usize, Option<usize>)> = HashMap::from([(&*first.id, (0, None))]);
    for (index, commit) in commits.iter().enumerate() {
        let parents = commit.parents.iter().take(if along_all_parents { usize::MAX } else { 1 });
        let parent_paths = parents.filter_map(|parent| Some((paths.get(parent.as_str())?, parent)));
        let longest = parent_paths.max_by_key(|(path, _)| path.0);
        let Some((&(length, _), parent)) = longest else {
            continue;
        };
        let predecessor =
            commits[..index].iter().rposition(|candidate| candidate.revision.id == *parent);
        paths.insert(&commit.revision.id, (length + 1, predecessor));
    }
    paths.get(bad)?;
    let mut revisions = Vec::new();
    let mut next_index = commits.iter().rposition(|commit| commit.revision.id == bad);
    while let Some(index) = next_index {
        revisions.push(commits[index].revision.clone());
        next_index = paths.get(commits[index].revision.id.as_str())?.1;
    }
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
    use std::process::Command;
    use std::time::Duration;
    use tempfile::TempDir;

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
