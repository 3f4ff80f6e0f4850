//! Decides which line of revisions to show, and brings the stored line up to date with the
//! repository.
//!
//! A line is a sequence of revisions, usually the first-parent history of a branch. Start at
//! [`resolve_line`].

use anyhow::{Context, Result, bail};
use speedwell_config::project::ProjectFile;
use speedwell_machine::environment::GitRepository;
use speedwell_model::Revision;
use speedwell_store::Store;
use std::collections::HashSet;

/// Number of recently measured revisions that identify a repository.
const RECENT_REVISIONS: u32 = 50;

/// Name prefix of lines that do not come from a repository. Their revisions are in the order of the
/// first measurement. No branch name starts with this prefix.
const MEASURED_ORDER_PREFIX: char = '/';

/// Determines the line to show. If the repository contains this line, also adds its new revisions
/// to the store.
///
/// # Errors
/// Fails if the store or the project file cannot be accessed, or there is no such line.
pub fn resolve_line(
    store: &mut Store,
    git: &GitRepository,
    wanted: Option<&str>,
    notes: &mut Vec<String>,
) -> Result<String> {
    let line_name = wanted.map_or_else(|| default_branch(git), |name| Ok(Some(name.to_owned())))?;
    let Some(name) = line_name else {
        // Without a repository, use the stored line if there is exactly one.
        return match &repository_lines(store)?[..] {
            [line] => Ok(line.clone()),
            _ => main_line(store, notes),
        };
    };
    if let Some(tip) = branch_tip(git, &name)
        && update_line(store, git, &name, &tip, notes)?
    {
        return Ok(name);
    }
    if store.line_tip(&name)?.is_some() {
        return Ok(name);
    }
    if wanted.is_none() {
        return main_line(store, notes);
    }
    let measured = order_as_measured(store, Some(&name), notes)?;
    if store.line_tip(&measured)?.is_some() {
        return Ok(measured);
    }
    let names: Vec<String> =
        repository_lines(store)?.iter().map(|line| format!("'{line}'")).collect();
    let stored = match &names[..] {
        [] => "the store has no branch".to_owned(),
        names => format!("the store has {}", names.join(", ")),
    };
    bail!(
        "no branch '{name}' here\nhint: {stored}; 'git fetch' fetches the branches of the remote repository"
    )
}

/// Returns the stored lines that come from a repository.
fn repository_lines(store: &Store) -> Result<Vec<String>> {
    let mut lines = store.list_lines()?;
    lines.retain(|line| !line.starts_with(MEASURED_ORDER_PREFIX));
    Ok(lines)
}

/// Returns the line of the main branch among the measured ones. If no branch is the main one, it is
/// the line of all revisions.
fn main_line(store: &mut Store, notes: &mut Vec<String>) -> Result<String> {
    match store.main_branch()? {
        Some(branch) if store.line_tip(&branch)?.is_some() => Ok(branch),
        branch => order_as_measured(store, branch.as_deref(), notes),
    }
}

/// Returns the branch in the project file, else the remote repository's default branch, else the
/// checked-out branch.
///
/// # Errors
/// Fails if the project file cannot be read.
pub fn default_branch(git: &GitRepository) -> Result<Option<String>> {
    let project = ProjectFile::find_file(&std::env::current_dir()?)?;
    let from_project_file = project.and_then(|project| project.history.branch);
    let from_remote =
        || Some(git.target_branch(None)?.reference.rsplit_once("origin/")?.1.to_owned());
    let from_checkout = || git.try_git_output(&["symbolic-ref", "--short", "-q", "HEAD"]);
    Ok(from_project_file.or_else(from_remote).or_else(from_checkout))
}

/// Returns the newest commit of a branch, local or remote.
pub fn branch_tip(git: &GitRepository, branch: &str) -> Option<String> {
    let ref_prefixes = ["refs/heads/", "refs/remotes/origin/"];
    match ref_prefixes.map(|prefix| git.commit_id(&format!("{prefix}{branch}"))) {
        [Some(local), Some(remote)] if local != remote => {
            // If the local branch is not behind, it is ahead or has diverged.
            let is_behind = git.merge_base(&local, &remote).as_ref() == Some(&local);
            Some(if is_behind { remote } else { local })
        }
        [local, remote] => local.or(remote),
    }
}

/// Brings the stored line up to date with its newest commit. Returns `false` if the line stays as
/// it is because the repository seems unrelated to the measured revisions.
///
/// # Errors
/// Fails if git cannot list the commits, or the store cannot be accessed.
pub fn update_line(
    store: &mut Store,
    git: &GitRepository,
    branch: &str,
    tip: &str,
    notes: &mut Vec<String>,
) -> Result<bool> {
    let stored_tip = store.line_tip(branch)?;
    if let Some((last, id)) = &stored_tip {
        if id == tip {
            return Ok(true);
        }
        let added = git.first_parent_line(tip, Some(id)).unwrap_or_default();
        if added.first().and_then(|first| first.parents.first()) == Some(id) {
            store.store_line(branch, last + 1, &added)?;
            return Ok(true);
        }
    }
    let whole_line = git.first_parent_line(tip, None).context("git cannot list the commits")?;
    if !is_measured_repository(store, git, &whole_line)? {
        notes.push(format!(
            "This repository has none of the revisions that were measured last, so it is considered \
             unrelated, and its branch '{branch}' is ignored."
        ));
        return Ok(false);
    }
    let first_position = match (&stored_tip, whole_line.first()) {
        (Some((last, _)), Some(first)) if git.is_shallow() => {
            match store.line_position(branch, &first.id)? {
                Some(position) => position,
                None => {
                    notes.push(format!(
                    "The clone is shallow, and its commits do not reach back to the stored ones of \
                     '{branch}'; 'git fetch --unshallow' closes the gap."
                ));
                    last + 1
                }
            }
        }
        _ => 0,
    };
    store.store_line(branch, first_position, &whole_line)?;
    Ok(true)
}

/// Whether the repository contains a recently measured revision, or `line` contains a revision with
/// the same files. Accepts every shallow clone, because it may lack the revisions, and every
/// repository before the first measurement.
fn is_measured_repository(store: &Store, git: &GitRepository, line: &[Revision]) -> Result<bool> {
    let measured = store.newest_revisions(RECENT_REVISIONS)?;
    let ids: Vec<&str> = measured.iter().map(|(id, _)| &**id).collect();
    let trees: HashSet<&str> = (measured.iter()).filter_map(|(_, tree)| tree.as_deref()).collect();
    let mut line_trees = line.iter().filter_map(|revision| revision.tree.as_deref());
    Ok(measured.is_empty()
        || git.has_any(&ids)
        || line_trees.any(|tree| trees.contains(tree))
        || git.is_shallow())
}

/// Orders all revisions, or the revisions of a branch, by first measurement or import.
fn order_as_measured(
    store: &mut Store,
    branch: Option<&str>,
    notes: &mut Vec<String>,
) -> Result<String> {
    let name = format!("{MEASURED_ORDER_PREFIX}{}", branch.unwrap_or_default());
    store.store_measured_order(&name, branch)?;
    if store.line_tip(&name)?.is_some() {
        notes.push(
            "No repository defines the order of the revisions: they are in the order of measurement \
             or import."
                .to_owned(),
        );
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_fixtures::FakeSession;
    use speedwell_model::OriginSource::{Ci, Git};
    use speedwell_model::{CodeOrigin, SessionState};
    use std::time::Duration;

    #[test]
    fn the_main_branch_is_the_default_among_several_without_a_repository() {
        let folder = tempfile::tempdir().unwrap();
        let git = GitRepository::for_folder(folder.path(), Duration::from_secs(60));
        let mut store = Store::in_memory().unwrap();
        let mut notes = Vec::new();
        let branches = [
            ("topic", Git, "/"),
            ("topic", Git, "/"),
            ("fix", Git, "/"),
            ("nightly", Ci, "/nightly"),
            ("master", Git, "/master"),
            ("main", Git, "/main"),
        ];
        for (index, (branch, source, expected)) in branches.into_iter().enumerate() {
            let mut session = FakeSession::with_fixed_blocks(&["default"], 1).build();
            session.id = format!("session {index}");
            session.state = SessionState::Imported;
            session.origin = Some(CodeOrigin {
                revision: format!("{index:040x}"),
                branch: Some(branch.to_owned()),
                source,
                ..CodeOrigin::default()
            });
            store.insert_session(&session).unwrap();
            let line = resolve_line(&mut store, &git, None, &mut notes).unwrap();
            assert_eq!(line, expected, "{branch}");
        }
        // The order of a repository takes precedence over that of the measurements.
        for line in ["fix", "main"] {
            let revision = Revision { id: line.to_owned(), ..Revision::default() };
            store.store_line(line, 0, &[revision]).unwrap();
            assert_eq!(resolve_line(&mut store, &git, None, &mut notes).unwrap(), line);
        }
    }
}
