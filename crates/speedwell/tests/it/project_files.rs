//! The project file: written by `init`, and the source of targets and options of `run`.

use super::project::{CommandResult, TempProject};
use super::repository::{BENCH, TestRepository};

/// A project with one benchmark and a folder without any.
fn project() -> TempProject {
    TempProject::new()
        .with("b/a.fake", "case n=1\n* 100 101 102\n")
        .with("notes/a.md", "")
        .with("node_modules/x/a.fake", "case n=1\n* 1\n")
}

#[test]
fn init_names_the_benchmarks_and_run_measures_them_from_any_folder() {
    let project = project();
    let refused = project.run(&["run"]).expect_status(2);
    refused.expect_stderr(&["no targets\nhint: speedwell run b\n", ": speedwell init"]);
    let refused = project.run(&["run", "-bench", ".", "-r", "3"]).expect_status(2);
    refused.expect_stderr(&["hint: speedwell run b -bench . -r 3\n"]);
    let written = project.run(&["init"]).expect_status(0);
    written.expect_stdout(&["speedwell.toml\n"]).expect_stderr(&["next: speedwell run"]);
    let text = std::fs::read_to_string(project.path("speedwell.toml")).unwrap();
    assert!(text.contains("\ntargets = [\"b\"]\n"), "{text}");
    project.run(&["init"]).expect_status(2).expect_stderr(&["exists already"]);
    assert_eq!(std::fs::read_to_string(project.path("speedwell.toml")).unwrap(), text);
    let mut command = project.command(&["run", "--runs", "2"]);
    command.current_dir(project.path("notes"));
    let measured = CommandResult::from(command.output().unwrap()).expect_status(0);
    measured.expect_stderr(&["'../speedwell.toml' adds: ../b\n"]);
    let nothing = TempProject::new().run(&["init"]).expect_status(2);
    nothing.expect_stderr(&["no benchmarks found in", "hint: 'speedwell new suite'"]);
}

#[test]
fn a_typed_option_wins_over_the_project_file() {
    for (keys, words, status, expected) in [
        ("runs = 3", &["run"][..], 0, "adds: b --runs=3\n"),
        ("runs = 3", &["run", "--runs", "2"], 0, "adds: b\n"),
        ("runs = 3", &["run", "b"], 0, "adds: --runs=3\n"),
        ("test = true", &["run", "--list"], 0, "adds: b\n"),
        ("test = true", &["run", "-bench=zzz"], 2, "no benchmarks found"),
        ("rums = 3", &["run"], 2, "[run] has an unknown key 'rums'\nhint: did you mean 'runs'?"),
        ("order = 'sideways'", &["run"], 2, "the key 'order' of [run]: invalid value 'sideways'"),
        ("runs = []", &["run", "--help"], 0, ""),
    ] {
        let text = format!("[run]\ntargets = 'b'\n{keys}\n");
        let answer = project().with("speedwell.toml", &text).run(words);
        answer.expect_status(status).expect_stderr(&[expected]);
    }
}

#[test]
fn a_revision_is_compared_with_the_working_tree() {
    let Some(repository) = TestRepository::with_program("100") else {
        return;
    };
    let repository = repository.with("cost", "50").with("more", "new");
    let words = ["compare", "--old", "rev:HEAD", "--runs", "2"];
    let answer = repository.run(&[&words, &BENCH[..]].concat()).expect_status(0);
    answer.expect_stdout(&["HEAD (", "\nworking tree, 2 files changed\n"]);
    assert!(!repository.project.path("bench").exists());
    assert_eq!(repository.run_git(&["status", "--porcelain"]).lines().count(), 2);
    // The same files are built once, and other files anew.
    let compare = || repository.run(&[&words, &BENCH[..]].concat()).expect_status(0);
    compare();
    assert_eq!(repository.log().len(), 2);
    repository.write_file("more", "newer");
    compare();
    assert_eq!(repository.log().len(), 3);
}

#[test]
fn a_working_tree_includes_the_commits_of_its_branch() {
    let Some(repository) = TestRepository::with_program("100") else {
        return;
    };
    repository.create_branch("topic");
    let repository = repository.with("cost", "50").committed("faster").with("more", "new");
    for (old, expected) in [
        ("rev:@base", "\nworking tree, 1 file changed, includes 1 commit since main\n"),
        ("rev:HEAD~1", "\nworking tree, 1 file changed, includes 1 commit since HEAD~1\n"),
        ("rev:HEAD", "\nworking tree, 1 file changed\n"),
    ] {
        let words = ["compare", "--old", old, "--runs", "2"];
        let answer = repository.run(&[&words, &BENCH[..]].concat()).expect_status(0);
        answer.expect_stdout(&[expected]);
    }
}
