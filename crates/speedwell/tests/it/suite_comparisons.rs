//! Typical comparisons by users of a suite: two revisions of a package or of a test file, two
//! programs, two runtimes.

use super::harness_driver::find_tool;
use super::project::{CommandResult, TempProject};
use super::repository::TestRepository;
use super::suite_projects::{self, TestSuite};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A bench target of Rust's own harness, which needs no crates. It repeats a benchmark for up to
/// three seconds, until its times agree; a sleep agrees soon, and takes no processor time.
const BENCH: &str = "#![feature(test)]
extern crate test;

#[bench]
fn fold(bencher: &mut test::Bencher) {
    bencher.iter(|| std::thread::sleep(std::time::Duration::from_micros(tiny::MICROSECONDS)))
}

#[bench]
fn NAME(bencher: &mut test::Bencher) {
    bencher.iter(|| test::black_box(1))
}
";
const MANIFEST: &str = "[package]
name = \"tiny\"
version = \"0.0.0\"
edition = \"2021\"
[lib]
bench = false
[profile.bench]
opt-level = 0
";

/// The cases of a report, each with its numbers of runs on both sides.
fn cases(json: &Value) -> Vec<(&str, usize, usize)> {
    let changes = json["changes"].as_array().unwrap().iter();
    let count = |change: &Value, side: &str| change[side].as_array().unwrap().len();
    changes
        .map(|change| {
            let case = change["case"].as_str().unwrap();
            (case, count(change, "baseline_values"), count(change, "candidate_values"))
        })
        .collect()
}

#[test]
fn a_cargo_package_is_compared_at_two_revisions() {
    let (Some(_), Some(repository)) = (find_tool(&["cargo"]), TestRepository::new()) else {
        return;
    };
    let repository = repository
        .with(".gitignore", "target\nCargo.lock\n")
        .with("tiny/Cargo.toml", MANIFEST)
        .with("tiny/src/lib.rs", "pub const MICROSECONDS: u64 = 1000;\n")
        .with("tiny/benches/sums.rs", &BENCH.replace("NAME", "gone"))
        .committed("first");
    repository.create_branch("more");
    let repository = repository
        .with("tiny/src/lib.rs", "pub const MICROSECONDS: u64 = 2000;\n")
        .with("tiny/benches/sums.rs", &BENCH.replace("NAME", "added"))
        .committed("longer");
    let words = ["compare", "--old", "rev:main", "--new", "rev:HEAD", "./tiny"];
    let mut command = repository.command(&[&words[..], &["-r", "1", "--format", "json"]].concat());
    command.env("RUSTC_BOOTSTRAP", "1");
    let answer = CommandResult::from(command.output().unwrap()).expect_status(0);
    let json = answer.json();
    assert_eq!(cases(&json), [("sums/fold", 1, 1)], "{answer:#?}");
    answer.expect_stderr(&["does not have them: 'sums/gone'"]);
}

#[test]
fn a_test_file_of_python_measures_the_code_of_two_revisions() {
    let (Some(suite), Some(repository)) =
        (suite_projects::pytest_benchmark(), TestRepository::new())
    else {
        return;
    };
    // Each revision's code records that it was measured.
    let code = "import os\n\ndef total():\n    open(os.path.join(os.environ['SEEN'], 'NAME'), 'w').close()\n";
    let test = "from sums import total\n\ndef test_total(benchmark):\n    benchmark(total)\n";
    let repository = repository
        .with("tests/sums.py", &code.replace("NAME", "old"))
        .with("tests/test_perf.py", test)
        .committed("first");
    repository.create_branch("more");
    let repository =
        repository.with("tests/sums.py", &code.replace("NAME", "new")).committed("another file");
    let words = ["compare", "--old", "rev:main", "--new", "rev:HEAD", "tests/test_perf.py"];
    let short = ["-r", "1", "-t", "1ms", "-n", "2", "--format", "json"];
    let seen = tempfile::tempdir().unwrap();
    let mut command = repository.command(&[&words[..], &short].concat());
    command
        .envs(suite.environment.iter().map(|(name, value)| (name, value)))
        .env("SEEN", seen.path());
    let answer = CommandResult::from(command.output().unwrap()).expect_status(0);
    assert_eq!(cases(&answer.json()), [("test_total", 1, 1)], "{answer:#?}");
    for name in ["old", "new"] {
        assert!(seen.path().join(name).exists(), "{name} was not measured");
    }
}

/// Links a program into the project under this name.
fn link(project: &TempProject, to: &Path, name: &str) {
    symlink(to, project.path(name)).unwrap();
}

/// Looks up a program in `PATH`.
fn find_in_path(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(program));
    places.find(|place| place.is_file()).unwrap()
}

/// Compares two variants of the suite's quick case.
fn compare_variants(suite: &TestSuite, words: &[&str]) -> CommandResult {
    let own = ["-r", "1", "--format", "json", "-f"];
    let mut command: Command =
        suite.project.command(&[&["compare"], words, &own, suite.small, suite.short].concat());
    command.envs(suite.environment.iter().map(|(name, value)| (name, value)));
    CommandResult::from(command.output().unwrap()).expect_status(0)
}

#[test]
fn two_programs_of_catch2_are_compared() {
    let Some(suite) = suite_projects::catch2() else {
        return;
    };
    let program = fs::read_link(suite.project.path("sums")).unwrap();
    link(&suite.project, &program, "sums-old");
    let answer = compare_variants(&suite, &["./sums-old", "./sums"]);
    let case = "sums, [of] all/inner/small";
    assert_eq!(cases(&answer.json()), [(case, 1, 1)], "{answer:#?}");
}

#[test]
fn two_java_versions_are_compared() {
    let Some(suite) = suite_projects::jmh() else {
        return;
    };
    for name in ["java-17", "java-21"] {
        link(&suite.project, &find_in_path("java"), name);
    }
    let answer =
        compare_variants(&suite, &["--old", "./java-17", "--new", "./java-21", &suite.target]);
    let json = answer.json();
    let found = cases(&json);
    assert!(!found.is_empty(), "{answer:#?}");
    for (case, old, new) in found {
        assert!(
            case.starts_with("tiny.Sums.total size=1000") && (old, new) == (1, 1),
            "{answer:#?}"
        );
    }
}

#[test]
fn two_node_versions_are_compared_with_vitest() {
    let Some(suite) = suite_projects::vitest() else {
        return;
    };
    for name in ["node20", "node22"] {
        link(&suite.project, &find_in_path("node"), name);
    }
    let answer =
        compare_variants(&suite, &["--old", "./node20", "--new", "./node22", &suite.target]);
    assert_eq!(cases(&answer.json()), [("sums (of all)/small", 1, 1)], "{answer:#?}");
}
