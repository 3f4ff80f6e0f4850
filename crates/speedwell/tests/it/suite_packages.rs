//! Builds before measuring, and missing dependencies: reported before any run.

use super::harness_driver::find_tool;
use super::project::{CommandResult, TempProject};
use super::suite_projects::source;
use std::fs;

/// A Go package with a file that is compiled only with the tag `broken`.
fn package() -> Option<TempProject> {
    find_tool(&["go"])?;
    let text = |name: &str| fs::read_to_string(source("go").join(name)).unwrap();
    let broken = "//go:build broken\n\npackage tiny\n\nvar lost = nowhere\n";
    let project = TempProject::new()
        .with("tiny/go.mod", &text("go.mod"))
        .with("tiny/tiny_test.go", &text("tiny_test.go"))
        .with("tiny/broken_test.go", broken);
    Some(project)
}

const SHORT: [&str; 5] = ["-f", "Sum", "-r", "2", "--iterations=5"];

#[test]
fn a_package_is_built_once_per_variant_with_a_message() {
    let Some(project) = package() else { return };
    let variants = ["--variant", "now=", "--variant", "tagged=GOFLAGS=-tags=other"];
    let words = [&["run", "./tiny"][..], &variants, &SHORT].concat();
    let answer = project.run(&words).expect_status(0);
    for line in ["building 'tiny' for 'now'\n", "building 'tiny' for 'tagged'\n"] {
        assert_eq!(answer.stderr.matches(line).count(), 1, "{answer:#?}");
    }
    let quiet = project.run(&[&words[..], &["--quiet"]].concat());
    let quiet = quiet.expect_status(0);
    assert!(!quiet.stderr.contains("building"), "{quiet:#?}");
}

#[test]
fn a_variant_that_does_not_compile_is_an_error_before_any_run() {
    let Some(project) = package() else { return };
    let variants = ["--variant", "now=", "--variant", "broken=GOFLAGS=-tags=broken"];
    let words = [&["run", "./tiny"][..], &variants, &SHORT].concat();
    let answer = project.run(&words).expect_status(2);
    answer.expect_stderr(&[
        "'tiny' of 'broken' does not compile: ",
        "undefined: nowhere",
        "hint: repeat it with: ",
        "GOFLAGS=-tags=broken",
    ]);
    let kept = project.run(&["history"]);
    assert!(!kept.stdout.contains("tiny"), "{kept:#?}");
}

/// Runs with only the programs in that folder of the project in `PATH`.
fn with_programs_of(project: &TempProject, folder: &str, words: &[&str]) -> CommandResult {
    let mut command = project.command(words);
    command.env("PATH", project.path(folder));
    CommandResult::from(command.output().unwrap())
}

#[test]
fn a_missing_program_is_reported_once_with_an_install_hint() {
    let project = TempProject::new()
        .with("benchmarks.jar", "PK\u{3}\u{4} META-INF/BenchmarkList")
        .with("tiny/go.mod", "module tiny\n")
        .with("tiny/tiny_test.go", "package tiny\n\nfunc BenchmarkSum(b *testing.B) {}\n")
        .with("nothing/here", "");
    for (target, hint) in [
        ("benchmarks.jar", "hint: install a Java runtime from your distribution"),
        ("./tiny", "hint: install Go from your distribution or go.dev"),
    ] {
        let answer = with_programs_of(&project, "nothing", &["run", target]).expect_status(2);
        let said = answer.stdout.clone() + &answer.stderr;
        assert_eq!(said.matches(hint).count(), 1, "{hint}: {answer:#?}");
    }
}

#[test]
fn a_missing_suite_is_reported_with_an_install_hint() {
    let python = "#!/bin/sh\necho \"ModuleNotFoundError: No module named '$LACKS'\" >&2\nexit 1\n";
    let node = "#!/bin/sh\necho \"Error: Cannot find module '$PWD/node_modules/vitest/vitest.mjs'\" >&2\nexit 1\n";
    let project = TempProject::new()
        .with("test_sums.py", "def test_sum(benchmark):\n    benchmark(sum, [1])\n")
        .with("sums.py", "import pyperf\n")
        .with("sums.bench.ts", "import { bench } from 'vitest';\n")
        .with("bin/readme", "")
        .with_program("bin/python3", python)
        .with_program("bin/node", node);
    for (target, lacks, expected) in [
        (
            "test_sums.py",
            "pytest_benchmark",
            "needs pytest-benchmark, which is not installed for 'python3'",
        ),
        ("test_sums.py", "pytest", "pip install pytest-benchmark"),
        ("test_sums.py", "numpy", "No module named 'numpy'"),
        ("sums.py", "pyperf", "pip install pyperf"),
        ("sums.bench.ts", "", "npm install --save-dev vitest in the project"),
    ] {
        let mut command = project.command(&["run", target]);
        command.env("PATH", project.path("bin")).env("LACKS", lacks);
        let answer = CommandResult::from(command.output().unwrap()).expect_status(2);
        let said = answer.stdout.clone() + &answer.stderr;
        assert!(said.contains(expected), "{target} without {lacks}: {answer:#?}");
        assert_eq!(said.contains("hint: install "), lacks != "numpy", "{answer:#?}");
        assert_eq!(said.contains("ModuleNotFoundError"), lacks == "numpy", "{answer:#?}");
    }
}
