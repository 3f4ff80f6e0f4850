//! Looks for commits that silently undo the work of others.
//!
//! A commit made on a stale tree (two people in one folder, a stash, a copy of an old checkout) carries old versions of files
//! that others have changed since. Git accepts it, and every test that would notice is lost with the work.
//! But it leaves a trace: several files become byte for byte what they were before another commit.

use super::repository::TestRepository;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::process::Command;

/// Commits up to this one have been reviewed by hand.
const REVIEWED: &str = "03542238882b50a837fa04c1da2e484c0bb9e99a";

/// Files of one earlier commit that must be undone before a commit is suspicious: a single one is often a coincidence, such
/// as a line that was added and removed again.
const MIN_FILES: usize = 2;

/// Words in a commit message that mark the old versions as intended.
const DELIBERATE: [&str; 4] = ["revert", "restore", "back out", "undo"];

/// Version of a file: the name of its blob, and the index of the commit that wrote it (`None`: before the log begins).
type FileVersion<'a> = (&'a str, Option<usize>);

/// What a commit undoes of an earlier one.
#[derive(Default)]
struct UndoneWork<'a> {
    /// Changed files that are back at an older version.
    put_back: Vec<&'a str>,
    /// Files that the earlier commit added. Alone they prove nothing: files are moved and joined all the time.
    deleted: Vec<&'a str>,
}

/// Returns a line for each commit after `reviewed` that puts files back without saying so.
///
/// # Errors
/// Returns git's error message if it cannot read the history.
fn lost_work(folder: &Path, reviewed: &str) -> Result<Vec<String>, String> {
    let mut git = Command::new("git");
    git.current_dir(folder)
        .args(["log", "--reverse", "--topo-order", "--first-parent", "-m"])
        .args(["--raw", "--no-abbrev", "--find-renames", "-l10000", "-z"])
        .arg("--format=%x01%H %s%x02%B%x02");
    let output = git.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let log = String::from_utf8_lossy(&output.stdout).into_owned();
    let commits: Vec<[&str; 3]> = log
        .split('\u{1}')
        .skip(1)
        .filter_map(|commit| commit.splitn(3, '\u{2}').collect::<Vec<_>>().try_into().ok())
        .collect();
    let first_checked = commits
        .iter()
        .position(|[name, ..]| name.starts_with(reviewed))
        .map_or(0, |position| position + 1);
    let mut versions = HashMap::new();
    let mut findings = Vec::new();
    for (index, [name, message, changes]) in commits.iter().enumerate() {
        let undone = undone_by(index, changes, &mut versions);
        let message = message.to_lowercase();
        let is_deliberate = DELIBERATE.iter().any(|word| message.contains(word));
        if is_deliberate || index < first_checked {
            continue;
        }
        for (victim, UndoneWork { put_back, deleted }) in undone {
            let files = put_back.len() + deleted.len();
            if files >= MIN_FILES && !put_back.is_empty() {
                let [victim, ..] = commits[victim];
                findings.push(format!(
                    "'{name}' undoes '{victim}' in {files} files, such as {}",
                    put_back[0]
                ));
            }
        }
    }
    Ok(findings)
}

/// Adds the changes of commit `index` to `versions`; returns what it undoes, by the index of the earlier commit.
fn undone_by<'a>(
    index: usize,
    changes: &'a str,
    versions: &mut HashMap<&'a str, Vec<FileVersion<'a>>>,
) -> BTreeMap<usize, UndoneWork<'a>> {
    let mut undone: BTreeMap<usize, UndoneWork> = BTreeMap::new();
    let mut fields = changes.trim_start_matches(['\0', '\n']).split('\0');
    while let (Some(change), Some(mut path)) = (fields.next(), fields.next()) {
        let words: Vec<&str> = change.trim_start().split(' ').collect();
        let [_, _, old_blob, new_blob, status] = words[..] else {
            break;
        };
        if status.starts_with('R')
            && let Some(moved_to) = fields.next()
        {
            // A moved file keeps its history.
            let history = versions.remove(path).unwrap_or_default();
            path = moved_to;
            versions.insert(path, history);
        }
        let earlier = versions.entry(path).or_default();
        if earlier.is_empty() && status != "A" {
            earlier.push((old_blob, None));
        }
        if old_blob != new_blob
            && let [older @ .., (_, Some(last_change))] = &earlier[..]
        {
            let victim = undone.entry(*last_change).or_default();
            if older.iter().any(|(blob, _)| *blob == new_blob) {
                victim.put_back.push(path);
            } else if status == "D" && older.is_empty() {
                victim.deleted.push(path);
            }
        }
        earlier.push((new_blob, Some(index)));
    }
    undone
}

#[test]
fn no_commit_silently_undoes_the_work_of_another() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match lost_work(&root, REVIEWED) {
        Ok(findings) => assert!(
            findings.is_empty(),
            "{findings:#?}\nBring the work back, or say in the message of the commit that it is a revert."
        ),
        Err(reason) => eprintln!("skipped: no history of this checkout: {reason}"),
    }
}

#[test]
fn a_commit_from_a_stale_tree_is_found() {
    let Some(repository) = TestRepository::new() else {
        return;
    };
    let commit = |files: &[(&str, &str)], subject: &str| {
        for (path, text) in files {
            repository.write_file(path, text);
        }
        repository.commit_all(subject);
    };
    let stale = [("help.rs", "long"), ("gate.rs", "open"), ("chart.rs", "plain")];
    commit(&stale, "first");
    commit(&[("help.rs", "short"), ("gate.rs", "shut")], "finished work");
    commit(&[("chart.rs", "colored")], "another subject");
    let found = || lost_work(repository.folder(), "none").unwrap();
    assert!(found().is_empty());

    commit(&[("help.rs", "long"), ("gate.rs", "open"), ("chart.rs", "zoomed")], "zoom charts");
    let findings = found();
    assert_eq!(findings.len(), 1, "{findings:?}");
    let undone = findings[0].split_once("zoom charts' undoes '").unwrap().1;
    assert!(undone.contains("finished work' in 2 files"), "{findings:?}");
}

#[test]
fn declared_reverts_and_mere_deletions_are_not_reported() {
    let Some(repository) = TestRepository::new() else {
        return;
    };
    for (text, subject) in [("1", "first"), ("2", "second"), ("1", "Revert second: too slow")] {
        repository.write_file("a", text);
        repository.write_file("b", text);
        repository.commit_all(subject);
    }
    let found = || lost_work(repository.folder(), "none").unwrap();
    assert!(found().is_empty());

    repository.write_file("a", "2");
    repository.write_file("new.rs", "one");
    repository.commit_all("add a command");
    std::fs::remove_file(repository.folder().join("new.rs")).unwrap();
    repository.commit_all("join two files");
    assert!(found().is_empty());

    repository.write_file("a", "3");
    repository.write_file("another.rs", "two");
    repository.commit_all("add another command");
    std::fs::remove_file(repository.folder().join("another.rs")).unwrap();
    repository.write_file("a", "2");
    repository.commit_all("change something else");
    assert_eq!(found().len(), 1, "{:?}", found());
}

#[test]
fn files_moved_repeatedly_are_not_reported() {
    let Some(repository) = TestRepository::new() else {
        return;
    };
    let texts = ["a", "b"].map(|name| (name, format!("{name}\n").repeat(50)));
    let place = |folder: &str| {
        for (name, text) in &texts {
            repository.write_file(&format!("{folder}/{name}.rs"), text);
        }
    };
    let remove = |folder: &str| std::fs::remove_dir_all(repository.folder().join(folder)).unwrap();
    place("x");
    repository.commit_all("write two files");
    for (from, to) in [("x", "y"), ("y", "x"), ("x", "z")] {
        remove(from);
        place(to);
        repository.commit_all("move two files");
    }
    assert_eq!(lost_work(repository.folder(), "none").unwrap(), [""; 0]);
}
