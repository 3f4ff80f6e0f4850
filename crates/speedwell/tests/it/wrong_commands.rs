//! What newcomers type first: the golden file lists command lines, and how each is answered.

use super::project::{TempProject, expect_golden};
use std::fmt::Write;
use std::path::Path;

/// The golden file, which is also the list of command lines.
const GOLDEN: &str = "wrong-commands.txt";

/// A folder with the files that the command lines name. Only its own programs are in PATH.
fn project() -> TempProject {
    let benchmark = "const { createBenchmark } = require('speedwell');\n";
    let project = TempProject::new()
        .with("g/one.fake", "case n=1 k=a\n* 100 101 102 103\n")
        .with("bench.js", benchmark)
        .with("slug.js", "exports.regex = (text) => text.replace(/ /g, '-');\n")
        .with("script.js", "import http from 'k6/http';\n")
        .with("a.py", "print(1)\n")
        .with("b.py", "print(2)\n")
        .with("before.json", "{}")
        .with("after.json", "{}")
        .with("my results.json", "{}");
    let programs = ["ls", "cat", "true", "stat", "node", "python3", "pytest", "cargo", "go"];
    let project = programs.iter().fold(project, |project, name| {
        project.with_program(&format!("bin/{name}"), "#!/bin/sh\nexit 1\n")
    });
    let project = project.with_program("bin/sh", "#!/bin/sh\nexec /bin/sh \"$@\"\n");
    let path = project.path("bin");
    project.with_variable("PATH", path)
}

#[test]
fn every_wrong_command_is_answered_with_one_that_works() {
    let project = project();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(GOLDEN);
    let golden = std::fs::read_to_string(file).unwrap();
    let typed: Vec<&str> =
        golden.lines().filter_map(|line| line.strip_prefix("$ speedwell ")).collect();
    assert!(typed.len() >= 80, "{} command lines", typed.len());
    let folder = project.path("").to_string_lossy().into_owned();
    let mut answers = String::new();
    for line in typed {
        let words = shell_words::split(line).unwrap();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let answer = project.run(&words);
        let text = (answer.stdout + &answer.stderr).replace(&folder, "FOLDER/");
        // Lines of the list begin with '$ speedwell'.
        assert!(!text.contains("\n$ speedwell"), "{text}");
        write!(answers, "$ speedwell {line}\n{text}status {}\n\n", answer.status).unwrap();
        assert_eq!(answer.status, 2, "{line}:\n{text}");
    }
    assert_eq!(project.stored_runs(), 0, "a wrong command was measured");
    expect_valid_hints(&answers);
    expect_golden(GOLDEN, &answers);
}

/// Checks that the program accepts every command line that a hint names.
fn expect_valid_hints(answers: &str) {
    let grammar = speedwell::build_grammar();
    let hints = answers.lines().filter_map(|line| line.strip_prefix("hint: "));
    let mut checked = 0;
    for part in hints.flat_map(|hint| hint.split(", or: ")) {
        let command = match part.strip_prefix("speedwell ") {
            Some(command) => command,
            None => match part.split_once(": speedwell ") {
                Some((_, command)) => command,
                None => continue,
            },
        };
        let command = command.split("   #").next().unwrap_or_default();
        let words = shell_words::split(&format!("speedwell {command}")).unwrap();
        if let Err(error) = grammar.clone().try_get_matches_from(words) {
            assert!(!error.use_stderr(), "{part}: {error}");
        }
        checked += 1;
    }
    assert!(checked > 60, "{checked} hints");
}

#[test]
fn the_benchmarks_of_a_go_module_are_named() {
    let test = "package x\nimport \"testing\"\nfunc BenchmarkA(b *testing.B) {}\n";
    let project = TempProject::new().with("go.mod", "module x\n").with("x_test.go", test);
    for (line, expected) in [
        ("bench", "run ./..."),
        ("test -bench=. ./...", "run ./..."),
        ("test -bench Sort -count 3", "run ./... -f Sort -r 3"),
        ("go test -bench=. -count=3 ./...", "run -r 3 ./..."),
        ("bench -- --save-baseline x", "run ./... --tag x"),
        ("cargo bench parse -- --sample-size 20", "run ./... -f parse -r 20"),
        ("run", "run ./..."),
        ("run -bench . -count 3", "run ./... -r 3"),
        ("run -count 3 n=100", "run ./... -r 3 n=100"),
        ("run go test -bench Sort", "run ./... --filter Sort"),
        ("compare --old rev:HEAD", "compare ./... --old rev:HEAD"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let answer = project.run(&words).expect_status(2);
        let hint = format!("hint: speedwell {expected}\n");
        assert!(answer.stderr.contains(&hint), "{line}: {answer:#?}");
    }
    assert!(!project.path("speedwell.toml").exists());
}
