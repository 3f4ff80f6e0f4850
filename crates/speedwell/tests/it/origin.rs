//! Sessions know which code they measured, and are found by it.

use super::project::Project;
use std::process::Command;

/// A repository on `main` with a benchmark file, measured at each of its commits.
struct Repository {
    project: Project,
}

impl Repository {
    fn new() -> Repository {
        let project = Project::new()
            .with("g/quick.fake", "case n=1\n* 1 2 3\n")
            .with(".gitignore", ".speedwell\n");
        let repository = Repository { project };
        repository.git(&["init", "-q", "-b", "main"]);
        repository
    }

    fn git(&self, words: &[&str]) -> String {
        let identity = ["-c", "user.name=N", "-c", "user.email=n@example.org"];
        let done = Command::new("git")
            .current_dir(self.project.path("."))
            .args(identity)
            .args(words)
            .output()
            .unwrap();
        assert!(done.status.success(), "{words:?}: {done:?}");
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    /// A commit more.
    fn commit(&self, subject: &str) -> String {
        self.git(&["add", "."]);
        self.git(&["commit", "-q", "--allow-empty", "-m", subject]);
        self.git(&["rev-parse", "HEAD"])
    }

    fn measure(&self, words: &[&str]) {
        let words = [&["run", "g"][..], words].concat();
        self.project.run(&words).expect_status(0);
    }

    /// The number of the session that `reference` means.
    fn found(&self, reference: &str) -> String {
        let answer = self.project.run(&["report", reference, "--format", "json"]);
        let source = &answer.expect_status(0).json()["sources"][0];
        format!("@{}", source["number"])
    }
}

#[test]
fn sessions_are_found_by_revision_branch_and_merge_base() {
    let repository = Repository::new();
    let one = repository.commit("one");
    repository.measure(&[]);
    repository.commit("two, not measured");
    repository.git(&["checkout", "-q", "-b", "fix/slow"]);
    repository.commit("three");
    repository.measure(&[]);
    std::fs::write(repository.project.path("g/quick.fake"), "case n=1\n* 4\n").unwrap();
    repository.measure(&[]);

    assert_eq!(repository.found("@rev:HEAD~2"), "@1");
    assert_eq!(repository.found(&format!("@rev:{}", &one[..7])), "@1");
    assert_eq!(repository.found("@branch:main"), "@1");
    assert_eq!(
        repository.found("@branch:fix/slow"),
        "@2",
        "what is not committed does not count"
    );
    assert_eq!(repository.found("@rev:fix/slow"), "@2");
    let base = repository.project.run(&["report", "@base:main"]);
    let place = format!(
        "@base:main is @1, {}, 1 commit before the merge base with 'refs/heads/main'",
        &one[..10]
    );
    base.expect_status(0).expect_stderr(&[&place]);
}

#[test]
fn what_is_not_there_is_said_with_what_to_do() {
    let repository = Repository::new();
    repository.commit("one");
    let report = |reference: &str| repository.project.run(&["report", reference]);
    repository.measure(&["--branch", "elsewhere"]);
    for (reference, reason) in [
        ("@rev:v9", "speedwell history shows which revisions"),
        ("@branch:main", "speedwell history shows which revisions"),
        ("@base:v9", "there is no branch 'v9' here"),
        ("@base", "hint: name it, for example @base:main"),
    ] {
        report(reference).expect_status(2).expect_stderr(&[reason]);
    }
    repository.git(&["checkout", "-q", "--orphan", "island"]);
    repository.commit("of its own");
    report("@base:main")
        .expect_status(2)
        .expect_stderr(&["have no commit in common here", "git fetch --unshallow"]);
    let fresh = Repository::new();
    fresh.commit("one");
    fresh.measure(&["--revision", "from the supplier"]);
    let answer = fresh.project.run(&["report", "@base:main"]);
    answer
        .expect_status(2)
        .expect_stderr(&["no measured revision at or before the merge base"]);
}

#[test]
fn the_list_shows_revisions_and_can_be_of_one_branch() {
    let repository = Repository::new();
    let one = repository.commit("one");
    repository.measure(&[]);
    repository.measure(&["--revision", "v1.4", "--branch", "release"]);
    let history = |words: &[&str]| {
        let words = [&["history", "--format", "csv"][..], words].concat();
        repository.project.run(&words).expect_status(0).stdout
    };
    let all = history(&[]);
    assert!(all.contains(&one) && all.contains("v1.4"), "{all}");
    let release = history(&["--branch", "release"]);
    assert!(
        !release.contains(&one) && release.contains("v1.4"),
        "{release}"
    );
    // What is imported again knows it still.
    let lines = repository
        .project
        .run(&["report", "@1", "--export", "jsonl"]);
    std::fs::write(repository.project.path("one.jsonl"), lines.stdout).unwrap();
    let words = ["import", "one.jsonl", "--db", "other.db", "--branch", "old"];
    repository.project.run(&words).expect_status(0);
    let other = history(&["--db", "other.db"]);
    assert!(other.contains(&one) && other.contains("old"), "{other}");
}
