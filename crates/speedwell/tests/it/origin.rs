//! Sessions record which code they measured, and can be found by it.

use super::project::CommandResult;
use super::repository::TestRepository;

/// A repository with a benchmark file; `None` without git.
fn repository() -> Option<TestRepository> {
    Some(TestRepository::new()?.with("g/quick.fake", "case n=1\n* 1 2 3\n"))
}

fn measure(repository: &TestRepository, words: &[&str]) {
    let words = [&["run", "g"][..], words].concat();
    repository.run(&words).expect_status(0);
}

/// The number of the session that `reference` resolves to.
fn resolve_reference(repository: &TestRepository, reference: &str) -> String {
    let answer = repository.run(&["report", reference, "--format", "json"]);
    let source = &answer.expect_status(0).json()["sources"][0];
    format!("@{}", source["number"])
}

#[test]
fn sessions_are_found_by_revision_branch_and_merge_base() {
    let Some(repository) = repository() else {
        return;
    };
    let one = repository.commit_all("one");
    measure(&repository, &[]);
    repository.commit_all("two, not measured");
    repository.create_branch("fix/slow");
    repository.commit_all("three");
    measure(&repository, &[]);
    repository.write_file("g/quick.fake", "case n=1\n* 4\n");
    measure(&repository, &[]);

    assert_eq!(resolve_reference(&repository, "@rev:HEAD~2"), "@1");
    assert_eq!(resolve_reference(&repository, &format!("@rev:{}", &one[..7])), "@1");
    assert_eq!(resolve_reference(&repository, "@branch:main"), "@1");
    assert_eq!(
        resolve_reference(&repository, "@branch:fix/slow"),
        "@2",
        "what is not committed does not count"
    );
    assert_eq!(resolve_reference(&repository, "@rev:fix/slow"), "@2");
    let base = repository.run(&["report", "@base:main"]);
    let place = format!(
        "@base:main is @1, {}, 1 commit before the merge base with 'refs/heads/main'",
        &one[..10]
    );
    base.expect_status(0).expect_stderr(&[&place]);
}

#[test]
fn git_variables_of_another_repository_are_ignored() {
    let (Some(own), Some(other)) = (repository(), repository()) else {
        return;
    };
    let head = own.commit_all("own");
    other.commit_all("of the other one");
    let git = other.folder().join(".git");
    let mut command = own.command(&["run", "g"]);
    for (name, path) in [
        ("GIT_DIR", git.clone()),
        ("GIT_COMMON_DIR", git.clone()),
        ("GIT_INDEX_FILE", git.join("index")),
        ("GIT_OBJECT_DIRECTORY", git.join("objects")),
        ("GIT_WORK_TREE", other.folder().to_owned()),
        ("GIT_NAMESPACE", "theirs".into()),
    ] {
        command.env(name, path);
    }
    CommandResult::from(command.output().unwrap()).expect_status(0);
    assert_eq!(resolve_reference(&own, &format!("@rev:{head}")), "@1");
}

#[test]
fn an_unknown_reference_is_refused_with_a_hint() {
    let Some(repository) = repository() else {
        return;
    };
    repository.commit_all("one");
    let report = |reference: &str| repository.run(&["report", reference]);
    measure(&repository, &["--branch", "elsewhere"]);
    for (reference, reason) in [
        ("@rev:v9", "speedwell history shows which revisions"),
        ("@branch:main", "speedwell history shows which revisions"),
        ("@base:v9", "no branch 'v9' here"),
    ] {
        report(reference).expect_status(2).expect_stderr(&[reason]);
    }
    repository.run_git(&["branch", "-m", "main", "elsewhere"]);
    report("@base").expect_status(2).expect_stderr(&["hint: name it, for example @base:main"]);
    repository.run_git(&["branch", "-m", "elsewhere", "main"]);
    repository.run_git(&["checkout", "-q", "--orphan", "island"]);
    repository.commit_all("of its own");
    report("@base:main")
        .expect_status(2)
        .expect_stderr(&["have no common commit in this clone", "git fetch --unshallow"]);
    let Some(fresh) = self::repository() else {
        return;
    };
    fresh.commit_all("one");
    measure(&fresh, &["--revision", "from the supplier"]);
    let answer = fresh.run(&["report", "@base:main"]);
    answer.expect_status(2).expect_stderr(&["no measured revision at or before the merge base"]);
}

#[test]
fn the_list_shows_revisions_and_can_be_filtered_by_branch() {
    let Some(repository) = repository() else {
        return;
    };
    let one = repository.commit_all("one");
    measure(&repository, &[]);
    measure(&repository, &["--revision", "v1.4", "--branch", "release"]);
    let history = |words: &[&str]| {
        let words = [&["history", "--format", "csv"][..], words].concat();
        repository.run(&words).expect_status(0).stdout
    };
    let all = history(&[]);
    assert!(all.contains(&one) && all.contains("v1.4"), "{all}");
    let release = history(&["--branch", "release"]);
    assert!(!release.contains(&one) && release.contains("v1.4"), "{release}");
    assert_eq!(history(&["--since", "2999-12-31"]).lines().count(), 1);
    assert_eq!(history(&["--since", "2026-01-31"]), all);
    assert_eq!(history(&["-f", "quick.* n=[12]"]), all);
    assert_eq!(history(&["-f", "slow", "-f", "n=2"]).lines().count(), 1);
    let none = repository.run(&["history", "-f", "slow"]);
    none.expect_status(0).expect_stdout(&["no stored session matches"]);
    // An import keeps it.
    let lines = repository.run(&["report", "@1", "--export", "jsonl"]);
    std::fs::write(repository.project.path("one.jsonl"), lines.stdout).unwrap();
    let words = ["import", "one.jsonl", "--db", "other.db", "--branch", "old"];
    repository.run(&words).expect_status(0);
    let other = history(&["--db", "other.db"]);
    assert!(other.contains(&one) && other.contains("old"), "{other}");
}

#[test]
fn the_list_can_be_limited_to_descendants_of_a_revision() {
    let Some(repository) = repository() else {
        return;
    };
    repository.commit_all("one");
    repository.commit_all("two");
    repository.run_git(&["tag", "v1"]);
    repository.create_branch("fix").commit_all("three, on a branch");
    measure(&repository, &[]);
    repository.check_out("main").commit_all("three");
    measure(&repository, &[]);
    // Measured last, and older than the tag.
    measure(&repository, &["--revision", &repository.commit_id("v1~")]);
    measure(&repository, &["--revision", &repository.commit_id("v1")]);
    let numbers = |words: &[&str]| {
        let words = [&["history", "--format", "json", "--since"][..], words].concat();
        let json = repository.run(&words).expect_status(0).json();
        let numbers = json["sessions"].as_array().unwrap().iter();
        numbers.map(|session| session["number"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&["v1"]), [1, 2]);
    assert_eq!(numbers(&["@4"]), [1, 2]);
    assert_eq!(numbers(&["v1~"]), [1, 2, 4]);
    assert_eq!(numbers(&["v1", "--branch", "main"]), [2]);
    let answer = repository.run(&["history", "--since", "v9"]);
    answer.expect_status(2).expect_stderr(&[
        "cannot resolve 'v9': expected a day, or a revision",
        "--since 2026-01-31",
    ]);
}
