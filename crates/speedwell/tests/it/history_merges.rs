//! Histories that are not linear: merges, squashed branches, and the gate of a branch.

use super::history::{
    COMMITS, SLOWER, benchmark, changes, import, list_sessions, measured_repository, session,
};
use super::repository::TestRepository;
use serde_json::Value;
use speedwell_fixtures::{BEGIN_UNIX_S, ImportedCommit};

/// A session of each commit of a git `range`, with the figures of commit `as_if`.
fn sessions(repository: &TestRepository, range: &str, as_if: u32) -> String {
    let listed = repository.run_git(&["log", "--reverse", "--format=%H %T", range]);
    let sessions = listed.lines().map(|line| {
        let (revision, tree) = line.split_once(' ').unwrap();
        session(as_if, [revision, tree], |_| {})
    });
    sessions.collect()
}

/// Forty commits along the first parents. The 16th merges a branch of three and the 18th squashes
/// another branch of two; the benchmark became slower with the 23rd.
fn with_branches() -> Option<TestRepository> {
    let repository = TestRepository::new()?;
    let go_to = |first: u32, last: u32| {
        let commit = |commit: u32| ImportedCommit {
            message: format!("commit {commit}"),
            unix_s: BEGIN_UNIX_S + 3600 * i64::from(commit),
            files: vec![("g/parse.fake".to_owned(), benchmark(commit))],
        };
        repository.import_changes(&(first..=last).map(commit).collect::<Vec<_>>());
    };
    go_to(1, 12);
    repository.create_branch("topic");
    for part in 1..=3 {
        repository.write_file("topic", &format!("{part}"));
        repository.commit_all(&format!("part {part} of the topic"));
    }
    repository.check_out("main");
    go_to(13, 15);
    repository.merge_branch("topic", "commit 16, a merge");
    go_to(17, 17);
    repository.create_branch("fix").write_file("fix", "1").commit_all("half a fix");
    repository.write_file("fix", "2").commit_all("the whole fix");
    repository.check_out("main");
    repository.squash_branch("fix", "commit 18, squashed");
    go_to(19, COMMITS);
    Some(repository)
}

#[test]
fn a_merge_or_squashed_branch_counts_once_without_its_inner_commits() {
    let Some(repository) = with_branches() else {
        return;
    };
    let line =
        repository.run_git(&["log", "--first-parent", "--reverse", "--format=%H %T", "main"]);
    assert_eq!(line.lines().count() as u32, COMMITS);
    let mut text = String::new();
    for (commit, line) in (1..).zip(line.lines()) {
        let (revision, tree) = line.split_once(' ').unwrap();
        text += &session(commit, [revision, tree], |_| {});
    }
    // As slow as later commits: on the main line they would be a separate change.
    text += &sessions(&repository, "main~24^..topic", 30);
    text += &sessions(&repository, "fix^..fix", 18);
    text += &sessions(&repository, "fix~2..fix~1", 30);
    import(&repository, &text);

    let found = changes(repository.run(&list_sessions(&[])));
    assert_eq!(found.len(), 1, "{found:?}");
    let slower = repository.commit_id(&format!("main~{}", COMMITS - SLOWER));
    assert_eq!(found[0]["after"], slower.as_str());
    assert_eq!(found[0]["revisions"], 1);
    let trend = repository.run(&["history", "trend", "--format", "json"]);
    let shown = trend.expect_status(0).json();
    let points = shown["points"].as_array().unwrap();
    let places: Vec<u64> = points.iter().map(|point| point["position"].as_u64().unwrap()).collect();
    // The tip of the squashed branch has the files of the 18th commit, so it counts there.
    let mut expected: Vec<u64> = (0..u64::from(COMMITS)).collect();
    expected.insert(18, 17);
    assert_eq!(places, expected);
    let listed = repository.run(&["history", "changes"]).expect_status(0);
    listed.expect_stdout(&[
        "4 points are left out, because the measured revision is not on this branch",
    ]);
}

#[test]
fn a_branch_gate_starts_at_the_merge_base_and_needs_a_measured_revision() {
    let Some(repository) = measured_repository(|commit, _: &mut Value| (3..=20).contains(&commit))
    else {
        return;
    };
    let gate = |base: &str| {
        let words = ["history", "changes", "--fail-on", "worse", "--since", base];
        repository.run(&[&words[..], &["--branch", "topic"]].concat())
    };
    repository.run_git(&["checkout", "-q", "-b", "topic", "main~20"]);
    let mut text = String::new();
    for commit in 21..=COMMITS {
        // Five more commits without the change, and then some with it.
        let as_if = if commit < 26 { commit - 20 } else { commit };
        repository.write_file("own", &format!("{commit}"));
        let id = repository.commit_all(&format!("own commit {commit}"));
        let tree = repository.commit_id(&format!("{id}^{{tree}}"));
        text += &session(as_if, [&id, &tree], |_| {});
    }
    import(&repository, &text);
    gate("@base:main").expect_status(1);
    // Compared with where the branch is now, nothing has changed.
    repository.run_git(&["branch", "release", "topic"]);
    gate("@base:release").expect_status(0);
    repository.run_git(&["branch", "ancient", "main~38"]);
    gate("@base:ancient")
        .expect_status(2)
        .expect_stderr(&["no measured revision at or before the merge base"]);
}
