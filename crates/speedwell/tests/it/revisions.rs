//! Revisions of a repository as variants: built in worktrees and compared, without touching the
//! checkout.

use super::project::{CommandResult, TempProject, node};
use super::repository::{BENCH, TestRepository};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use speedwell_fixtures::FakeRepo;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A repository with a program that takes 100 µs on `main` and 50 µs on the branch `fast`, which is
/// checked out; `None`, with a message, without git.
fn repository() -> Option<TestRepository> {
    let repository = TestRepository::with_program("100")?;
    repository.create_branch("fast");
    Some(repository.with("cost", "50").committed("faster"))
}

/// `main` against the branch, two runs per side.
fn compare(repository: &TestRepository, more: &[&str]) -> CommandResult {
    let words = ["compare", "--old", "rev:main", "--new", "rev:HEAD", "--runs", "2"];
    repository.run(&[&words, more].concat())
}

fn worktrees(repository: &TestRepository) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(repository.outside("cache/speedwell/worktrees"));
    let entries = entries.into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

#[test]
fn a_branch_is_compared_with_main_and_the_checkout_stays_as_it_was() {
    let Some(repository) = repository() else {
        return;
    };
    let state = || {
        let status = repository.run_git(&["status", "--porcelain"]);
        (repository.commit_id("HEAD"), repository.run_git(&["branch", "--list"]), status)
    };
    let before = state();
    let words = ["compare", "--old", "rev:main", "--new", "rev:HEAD", "--seed", "7"];
    let answer = repository.run(&[&words, &BENCH[..]].concat()).expect_status(0);
    let (old, new) = (repository.short_id("main"), repository.short_id("HEAD"));
    let sentence = format!("HEAD ({new}) against main ({old}): both cases faster");
    answer.expect_stdout(&[&sentence]);
    assert_eq!(state(), before);
    assert!(!repository.project.path("bench").exists());
    let said = repository.run(&["report", "--export", "jsonl"]).expect_status(0).stdout;
    assert!(said.contains(&repository.commit_id("main")), "{said}");
}

#[test]
fn compared_revisions_have_points_in_the_trends_of_their_branches() {
    let Some(repository) = repository() else {
        return;
    };
    compare(&repository, &[&["--order", "blocks"], &BENCH[..]].concat()).expect_status(0);
    let trend = |branch: &str, more: &[&str]| {
        let words = ["history", "trend", "--branch", branch, "-f", "BM_copy/64"];
        repository.run(&[&words, more].concat()).expect_status(0)
    };
    for (branch, revisions) in [("main", &["main"][..]), ("fast", &["main", "fast"][..])] {
        let shown = trend(branch, &["--format", "json"]).json();
        let points = shown["points"].as_array().unwrap().iter();
        let points = points.filter(|point| point["series"] == shown["trends"][0]["series"]);
        let found: Vec<_> = points.map(|point| point["revision"].clone()).collect();
        let expected: Vec<_> = revisions.iter().map(|name| repository.commit_id(name)).collect();
        assert_eq!(found, expected, "{branch}");
    }
    let shown = trend("fast", &[]).expect_stdout(&["  revision  ", "  faster"]).stdout;
    assert!(!shown.contains("Spread between sessions"), "{shown}");
}

#[test]
fn a_build_that_succeeded_is_used_again_and_another_command_builds_again() {
    let Some(repository) = repository() else {
        return;
    };
    compare(&repository, &BENCH).expect_status(0);
    compare(&repository, &BENCH).expect_status(0);
    let revisions = ["main", "HEAD"].map(|name| repository.commit_id(name));
    assert_eq!(repository.log(), revisions);
    compare(&repository, &["--build", "sh ./build.sh", "./bench"]).expect_status(0);
    assert_eq!(repository.log().len(), 4);
}

#[test]
fn variants_may_be_revisions_with_or_without_a_program() {
    let Some(repository) = repository() else {
        return;
    };
    let answer = repository.run(&[
        "run",
        "--variant",
        "base=rev:main:bench",
        "--variant",
        "own=FOO=1 rev:fast:./bench",
        "--runs",
        "2",
        "--build",
        "sh build.sh",
        "bench.in",
        "--list",
    ]);
    // The target is not a benchmark, which is detected only after the programs were built.
    answer.expect_status(2);
    assert_eq!(repository.log().len(), 2);
    let answer = repository.run(&[
        "run",
        "--variant",
        "base=rev:main",
        "--variant",
        "own=rev:fast",
        "--runs",
        "2",
        "--build",
        "sh build.sh",
        "./bench",
    ]);
    answer.expect_status(0).expect_stdout(&["base", "own"]);
}

#[test]
fn commands_and_scripts_are_answered_with_the_command_that_measures_revisions() {
    let Some(repository) = TestRepository::with_program("100") else {
        return;
    };
    let repository = repository.with("prog.sh", "true\n").committed("script");
    repository.create_branch("fast");
    let repository = repository.with("cost", "50").committed("faster");
    let build = "printf '#!/bin/sh\\n' > own; chmod +x own";
    let sides = ["compare", "--old", "rev:main", "--new", "rev:HEAD"];
    for (words, expected) in [
        (
            &["bisect", "main..HEAD", "sh prog.sh"][..],
            "'sh prog.sh' --old rev:main --new rev:HEAD\n",
        ),
        (&["backfill", "main..HEAD", "sh prog.sh"], "'sh prog.sh' --old rev:main --new rev:HEAD\n"),
        (&["bisect", "main..HEAD", "prog.sh"], "'sh prog.sh' --old rev:main --new rev:HEAD\n"),
        (&["compare", "--old", "rev:main", "sh prog.sh"], "'sh prog.sh' --old rev:main\n"),
        (
            &[&sides[..], &["--build", build, "./own"]].concat()[..],
            "./own --old rev:main --new rev:HEAD --build 'printf ",
        ),
    ] {
        let answer = repository.run(words).expect_status(2);
        let hint = format!("hint: to measure it as a command: speedwell eval sh {expected}");
        assert!(answer.stderr.contains(&hint), "{words:?}: {answer:#?}");
        assert!(!answer.stderr.contains("did not build"), "{words:?}: {answer:#?}");
    }
    let words = ["eval", "sh", "sh prog.sh", "--old", "rev:main", "--new", "rev:HEAD", "--list"];
    repository.run(&words).expect_status(0);
}

#[test]
fn invalid_revisions_are_refused_with_a_hint() {
    let Some(repository) = repository() else {
        return;
    };
    let refused = |rev: &str, expected: &[&str]| {
        let answer = repository.run(&["compare", "--old", rev, "--new", "rev:HEAD", "./bench"]);
        answer.expect_status(2).expect_stderr(expected);
    };
    refused("rev:mian", &["unknown revision 'mian'", "hint: did you mean 'main'?"]);
    refused("rev:0123456789", &["unknown revision '0123456789'", "hint: name a branch, a tag"]);
    for option in ["-x", "--help", "--output=/tmp/x", "--all"] {
        refused(&format!("rev:{option}"), &["unknown revision '-"]);
    }
    refused("rev:", &["cannot parse revision 'rev:': expected rev:REVISION[:PROGRAM]"]);
    refused("rev:main:", &["expected rev:REVISION[:PROGRAM]"]);
    refused("rev:main:cost", &["'cost' of revision 'main'", "cannot be executed"]);
    refused(
        "rev:main",
        &["revision 'main'", "no program './bench'", "hint: --build COMMAND builds it"],
    );
    refused("rev:main^{tree}", &["unknown revision"]);
    let answer = repository.run(&["run", "--build", "make", "./bench"]);
    answer.expect_status(2).expect_stderr(&["--build needs a revision", "--old rev:main"]);
    let answer = repository.run(&["compare", "rev:main", "rev:HEAD"]);
    answer.expect_status(2).expect_stderr(&["--old rev:main --new rev:HEAD"]);
}

#[test]
fn missing_repositories_and_shallow_clones_are_reported() {
    let Some(repository) = repository() else {
        return;
    };
    let outside = TempProject::new();
    let words = ["compare", "--old", "rev:main", "--new", "rev:HEAD", "./bench"];
    let answer = outside.run(&words).expect_status(2);
    answer.expect_stderr(&["revision 'main'", "is not in a checkout of a git repository"]);
    let root = repository.project.path("");
    let name = root.file_name().unwrap().to_str().unwrap();
    let mut above = repository.command(&[&words[..5], &["--no-save", name]].concat());
    let answer = above.current_dir(root.parent().unwrap()).output().unwrap();
    let line = "speedwell compare --old rev:main --new rev:HEAD --no-save .";
    let hint = format!("hint: cd {name} && {line}");
    CommandResult::from(answer).expect_status(2).expect_stderr(&[&hint]);
    let mut without_git = repository.command(&words);
    let answer = CommandResult::from(without_git.env("PATH", "/nonexistent").output().unwrap());
    let answer = answer.expect_status(2).expect_stderr(&["cannot start 'git'"]);
    assert!(!answer.stderr.contains("not in a checkout"), "{answer:?}");
    let origin = format!("file://{}", repository.project.path("").display());
    let clone = repository.outside("clone");
    let cloned = ["clone", "--quiet", "--depth", "1", &origin, &clone.to_string_lossy()];
    repository.run_git(&cloned);
    let mut command =
        repository.command(&["compare", "--old", "rev:HEAD~7", "--new", "rev:HEAD", "./bench"]);
    let answer = CommandResult::from(command.current_dir(&clone).output().unwrap());
    answer.expect_status(2).expect_stderr(&["this clone is shallow", "git fetch --unshallow"]);
}

#[test]
fn a_failed_build_shows_what_it_said_last_and_is_tried_again() {
    let Some(repository) = repository() else {
        return;
    };
    let build = "seq 100; echo nothing to link >&2; echo tried >> $LOG; exit 3";
    for attempt in 1..=2 {
        let answer = compare(&repository, &["--build", build, "./bench"]).expect_status(2);
        let expected = [
            "cannot build revision 'main'",
            "exited with status 3",
            "\n99\n100\nnothing to link",
            "/output'",
        ];
        let answer = answer.expect_stderr(&expected);
        assert!(!answer.stderr.contains("\n50\n"), "{answer:?}");
        assert_eq!(repository.log().len(), attempt);
    }
    let built = compare(&repository, &["--build", "true", "./bench"]).expect_status(2);
    built.expect_stderr(&["no program './bench'", "'true' succeeded, but did not build it"]);
}

#[test]
fn a_build_that_hangs_is_ended_with_everything_it_started() {
    let Some(repository) = repository() else {
        return;
    };
    let build = "sleep 1000 & echo $! > $LOG; sleep 1000";
    let answer = compare(&repository, &["--build", build, "--build-timeout", "1s", "./bench"]);
    answer.expect_status(2).expect_stderr(&["timed out after 1 s (--build-timeout)"]);
    let pid: i32 = repository.log()[0].parse().unwrap();
    assert!(test_kill_process(Pid::from_raw(pid).unwrap()).is_err(), "{pid} is alive");
}

/// Starts a comparison whose first build waits for a file to go away, and waits until that build
/// has started.
fn begin_build(repository: &TestRepository) -> std::process::Child {
    let build = "echo begun >> $LOG; while [ -e $FLAG ]; do sleep 0.05; done; sh build.sh";
    std::fs::write(repository.outside("flag"), "").unwrap();
    let words = [
        "compare", "--old", "rev:main", "--new", "rev:HEAD", "--runs", "2", "--build", build,
        "./bench",
    ];
    let mut command = repository.command(&words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while repository.log().is_empty() {
        assert!(Instant::now() < deadline, "no build was begun");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

#[test]
fn a_worktree_whose_build_was_killed_is_built_again() {
    let Some(repository) = repository() else {
        return;
    };
    let mut child = begin_build(&repository);
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    std::fs::remove_file(repository.outside("flag")).unwrap();
    let build = "echo begun >> $LOG; while [ -e $FLAG ]; do sleep 0.05; done; sh build.sh";
    compare(&repository, &["--build", build, "./bench"]).expect_status(0);
    let builds = repository.log().iter().filter(|line| *line == "begun").count();
    assert_eq!(builds, 3, "the one that was killed, and one for each revision");
}

#[test]
fn ctrl_c_in_a_build_ends_with_status_130() {
    let Some(repository) = repository() else {
        return;
    };
    let child = begin_build(&repository);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let answer = CommandResult::from(child.wait_with_output().unwrap());
    answer.expect_status(130).expect_stderr(&["interrupted"]);
}

#[test]
fn two_speedwells_at_once_build_each_revision_once() {
    let Some(repository) = repository() else {
        return;
    };
    let first = begin_build(&repository);
    let build = "echo begun >> $LOG; while [ -e $FLAG ]; do sleep 0.05; done; sh build.sh";
    let words = [
        "compare", "--old", "rev:main", "--new", "rev:HEAD", "--runs", "2", "--build", build,
        "./bench",
    ];
    let mut second = repository.command(&words);
    let second = second.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::fs::remove_file(repository.outside("flag")).unwrap();
    for child in [first, second] {
        CommandResult::from(child.wait_with_output().unwrap()).expect_status(0);
    }
    let builds = repository.log().iter().filter(|line| *line == "begun").count();
    assert_eq!(builds, 2);
}

#[test]
fn eight_worktrees_are_kept_and_the_least_recently_used_one_goes() {
    let Some(repository) = repository() else {
        return;
    };
    for number in 0..7 {
        let build = format!("sh build.sh; : {number}");
        let words = ["run", "--variant", "a=rev:main", "--build", &build, "--list", "./bench"];
        repository.run(&words).expect_status(0);
    }
    let first = |builds: usize| {
        let words =
            ["run", "--variant", "a=rev:main", "--build", "sh build.sh; : 0", "--list", "./bench"];
        repository.run(&words).expect_status(0);
        assert_eq!(repository.log().len(), builds);
    };
    // The oldest is used again, so that the second oldest is evicted.
    first(7);
    compare(&repository, &BENCH).expect_status(0);
    assert_eq!(worktrees(&repository).len(), 8);
    // git does not list them as worktrees of the repository.
    assert_eq!(repository.run_git(&["worktree", "list"]).lines().count(), 1);
    first(9);
    let second =
        ["run", "--variant", "a=rev:main", "--build", "sh build.sh; : 1", "--list", "./bench"];
    repository.run(&second).expect_status(0);
    assert_eq!(repository.log().len(), 10);
}

#[test]
fn a_session_of_revisions_is_resumed_even_if_the_worktrees_are_gone() {
    let Some(repository) = repository() else {
        return;
    };
    let build = "sh build.sh && sed -i '1a [ -n \"$list\" ] || [ ! -e \"$FLAG\" ] || [ $# -lt 4 ] || exit 9' bench";
    std::fs::write(repository.outside("flag"), "").unwrap();
    let answer = compare(&repository, &["--build", build, "--fail-fast", "./bench"]);
    answer.expect_status(2).expect_stdout(&["1 of 1 run failed"]);
    std::fs::remove_file(repository.outside("flag")).unwrap();
    std::fs::remove_dir_all(repository.outside("cache/speedwell/worktrees")).unwrap();
    let answer = repository.run(&["run", "--resume", "@latest"]).expect_status(2);
    let (old, new) = (repository.short_id("main"), repository.short_id("HEAD"));
    let answer = answer.expect_stdout(&[&format!("main ({old})"), &format!("HEAD ({new})")]);
    assert!(answer.stdout.contains("1 of 8 runs failed"), "{answer:?}");
    assert_eq!(repository.log().len(), 4);
}

#[test]
fn the_file_of_the_project_may_say_how_revisions_are_built() {
    let Some(repository) = repository() else {
        return;
    };
    let repository = repository.with("speedwell.toml", "[history]\nbuild = \"sh build.sh\"\n");
    compare(&repository, &["./bench"]).expect_status(0);
    assert_eq!(repository.log().len(), 2);
    let repository = repository.with("speedwell.toml", "[history]\nbild = \"sh build.sh\"\n");
    let answer = compare(&repository, &["./bench"]).expect_status(2);
    answer.expect_stderr(&["speedwell.toml'", "line 2", "did you mean 'build'?"]);
}

#[test]
fn identical_sides_are_reported_as_an_a_a_comparison() {
    let Some(repository) = repository() else {
        return;
    };
    let repository = repository.with("README", "new").committed("words alone");
    let same = |old: &str, new: &str| {
        let words = ["compare", "--old", old, "--new", new, "--runs", "2"];
        repository.run(&[&words, &BENCH[..]].concat()).expect_status(0)
    };
    let answer = same("rev:HEAD", "rev:HEAD");
    let short = repository.short_id("HEAD");
    let names = format!(
        "'HEAD ({short})' and 'HEAD ({short}) #2' have the same files and the same build: this is"
    );
    answer.expect_stderr(&[&names, "A/A comparison"]);
    same("rev:HEAD~1", "rev:HEAD")
        .expect_stderr(&["are the same program, byte for byte", "A/A comparison"]);
    let answer = same("rev:main", "rev:HEAD");
    assert!(!answer.stderr.contains("A/A"), "{answer:?}");
    let variants = ["--variant", "a=X=1 rev:HEAD", "--variant", "b=X=2 rev:HEAD"];
    let words = [&["run", "--runs", "2"], &variants[..], &BENCH[..]].concat();
    let answer = repository.run(&words).expect_status(0);
    assert!(!answer.stderr.contains("A/A"), "what differs are variables: {answer:?}");
}

#[test]
fn ignored_uncommitted_changes_are_reported() {
    let Some(repository) = repository() else {
        return;
    };
    let repository = repository.with("cost", "7");
    let answer = compare(&repository, &BENCH).expect_status(0);
    answer.expect_stderr(&[
        "Uncommitted changes are ignored, except in benchmark files given as targets: 'HEAD' is the last commit.",
    ]);
}

#[test]
fn benchmarks_that_one_revision_lacks_are_left_out_and_named() {
    let Some(repository) = repository() else {
        return;
    };
    let text = std::fs::read_to_string(repository.project.path("bench.in")).unwrap();
    let more = text.replace("BM_copy/8", "BM_new BM_copy/8");
    let repository = repository.with("bench.in", &more).committed("one more benchmark");
    let words = ["compare", "--old", "rev:HEAD", "--new", "rev:main", "--runs", "2"];
    let answer = repository.run(&[&words, &BENCH[..]].concat()).expect_status(0);
    answer.expect_stderr(&["not measured, because 'main (", "does not have them: 'BM_new'"]);
}

/// A library with a benchmark that imports it by a relative path, and records the imported text in
/// `$LOG`.
#[test]
fn a_benchmark_file_imports_the_code_of_each_revision() {
    let (Some(repository), Some(_)) = (repository(), node()) else {
        return;
    };
    let benchmark = "const { createBenchmark } = require('speedwell');
        const bench = createBenchmark(main, { n: [1] });
        function main({ n }) {
          require('fs').appendFileSync(process.env.LOG, require('../lib.js') + '\\n');
          bench.start(); bench.end(n);
        }";
    let repository = repository
        .with("lib.js", "module.exports = 'old';")
        .with("speed/parse.js", "throw new Error('an older benchmark');")
        .committed("library");
    repository.run_git(&["branch", "library"]);
    let repository = repository
        .with("lib.js", "module.exports = 'new';")
        .with("speed/parse.js", benchmark)
        .committed("another library");
    let words =
        ["compare", "--old", "rev:library", "--new", "rev:HEAD", "--runs", "2", "speed/parse.js"];
    repository.run(&words).expect_status(0);
    let mut log = repository.log();
    log.sort();
    assert_eq!(log, ["new", "new", "old", "old"]);
    let elsewhere = TempProject::new().with("speed/own.js", benchmark);
    let own = elsewhere.path("speed/own.js");
    let words = ["compare", "--old", "rev:library", "--new", "rev:HEAD", &own.to_string_lossy()];
    let answer = repository.run(&words).expect_status(2);
    answer.expect_stderr(&["is outside the repository", "'rev:library:PROGRAM'"]);
}

#[test]
fn commands_are_executed_in_the_worktree_and_may_name_it() {
    let Some(repository) = repository() else {
        return;
    };
    let words =
        ["eval", "sh", "cat cost $WHERE/cost >> $LOG; echo >> $LOG", "--iterations=1", "-r1"];
    let variants =
        ["--variant", "a=WHERE={worktree} rev:main", "--variant", "b=WHERE={worktree} rev:HEAD"];
    repository.run(&[&words[..], &variants].concat()).expect_status(0);
    let mut log = repository.log();
    log.sort();
    // A command is executed more often than it is timed.
    log.dedup();
    assert_eq!(log, ["100100", "5050"]);
}

#[test]
fn submodules_come_from_the_checkout() {
    let Some(repository) = repository() else {
        return;
    };
    let library = repository.outside("library");
    let submodule = FakeRepo::init(&library).unwrap();
    submodule.write_file("cost", "20").commit_all("one");
    repository.run_git(&[
        "submodule",
        "--quiet",
        "add",
        &library.to_string_lossy(),
        "deps/library",
    ]);
    repository.commit_all("a library");
    // The original repository is gone; the checkout still has its contents.
    std::fs::remove_dir_all(&library).unwrap();
    let build = "cp deps/library/cost cost; sh build.sh";
    let words = ["run", "--variant", "a=rev:HEAD", "--build", build, "--runs", "1", "./bench"];
    repository.run(&words).expect_status(0).expect_stdout(&["20"]);
    assert_eq!(repository.run_git(&["status", "--porcelain"]), "");
}
