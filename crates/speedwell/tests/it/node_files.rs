//! Benchmark files of Node.js as found in the wild: odd names, values that conflict when they are
//! reduced, errors while a file is loaded, TypeScript.

use super::project::{CommandResult, TempProject, node, repository};

/// Asserts that the benchmark file `path` is measured under its own name.
#[track_caller]
fn expect_measured(project: &TempProject, path: &str, name: &str) {
    let words = ["run", path, "--runs", "1", "-n", "1", "-t", "1ms"];
    let answer = project.run(&words).expect_status(0);
    assert!(answer.stdout.contains(name), "{name}: {answer:#?}");
}

const COUNTS: &str = "const { createBenchmark } = require('speedwell');\n\
     const bench = createBenchmark(main, { n: [1000] });\n\
     function main({ n }) { bench.start(); for (let i = 0; i < n; i++); bench.end(n); }\n";

#[test]
fn names_with_spaces_and_other_characters_are_measured() {
    if node().is_none() {
        return;
    }
    let python = "import speedwell\n\n\n@speedwell.benchmark(size=[1])\ndef add(bench, size):\n    \
                  for _ in bench:\n        size + 1\n";
    let project = TempProject::new()
        .with("my bench/co py.js", COUNTS)
        .with("my bench/a=1,b %41 c.js", COUNTS)
        .with("my bench/li sts.py", python);
    expect_measured(&project, "my bench/co py.js", "my bench/co py.js");
    expect_measured(&project, "my bench/a=1,b %41 c.js", "my bench/a=1,b %41 c.js");
    let listed = project.run(&["run", "my bench", "--list"]).expect_status(0);
    assert_eq!(listed.stdout.matches("my bench/").count(), 3, "{listed:#?}");
    expect_measured(&project, "my bench/li sts.py", "my bench/li sts/add");
}

#[test]
fn names_with_spaces_work_with_made_up_numbers() {
    let project = TempProject::new().with("my bench/a =b.fake", "case n=1\n* 10\ncase n=2\n* 20\n");
    let answer = project.run(&["run", "my bench", "--runs", "1"]);
    let answer = answer.expect_status(0).expect_stdout(&["my bench/a =b.fake"]);
    assert!(!answer.stdout.contains("failed"), "{answer:#?}");
}

/// A file whose reduced values conflict, with a check that then fails.
fn contradicting_file(condition: &str) -> String {
    format!(
        "createBenchmark(main, {{ len: [100], method: ['equal', 'notEqual'], n: [5] }});\n\
         function main({{ len, method, n }}) {{\n\
           if ({condition}) throw new Error('they are equal');\n\
           bench.start(); for (let i = 0; i < n; i++); bench.end(n);\n}}\n"
    )
}

fn try_file(condition: &str, common: bool) -> Option<CommandResult> {
    node()?;
    let head = if common {
        "const { createBenchmark } = require('../common.js');\nconst bench = "
    } else {
        "const { createBenchmark } = require('speedwell');\nconst bench = "
    };
    let text = format!("{head}{}", contradicting_file(condition));
    let project = TempProject::new().with("benchmark/g/deep.js", &text);
    let project = if common {
        let library = repository().join("crates/adapters/languages/node/common.js");
        let text = format!("module.exports = require({library:?});");
        project.with("benchmark/common.js", &text)
    } else {
        project
    };
    Some(project.run(&["run", "benchmark/g/deep.js", "--test"]))
}

#[test]
fn a_trial_passes_if_only_its_reduced_values_fail() {
    let condition = "method === 'notEqual' && len < 2";
    for common in [false, true] {
        let Some(answer) = try_file(condition, common) else {
            return;
        };
        let answer = answer.expect_status(0);
        answer.expect_stdout(&["1 of 1 benchmark files work: 2 cases"]);
    }
    let broken = try_file("method === 'notEqual'", false).unwrap().expect_status(2);
    broken.expect_stdout(&["1 failed", "they are equal", "len=100"]);
}

#[test]
fn a_syntax_error_shows_its_line_and_can_be_repeated() {
    let Some(_) = node() else { return };
    let bad = "const { createBenchmark } = require('speedwell');\n\
               const bench = createBenchmark(main, { n: [1] });\n\
               function main({ n }) {\n  bench.start(\n  bench.end(n);\n}\n";
    let project = TempProject::new().with("g/bad.js", bad);
    let answer = project.run(&["run", "g/bad.js", "--runs", "1"]).expect_status(2);
    let answer = answer.expect_stderr(&["SyntaxError: missing )", "bad.js:5", "bench.end(n);"]);
    let line = answer.stderr.split("repeat it with: ").nth(1).unwrap();
    let line = line.lines().next().unwrap();
    assert!(!line.contains("PATH=") && line.contains("bad.js"), "{line}");
    let repeated = std::process::Command::new("sh").args(["-c", line]).output().unwrap();
    let said = String::from_utf8_lossy(&repeated.stderr).into_owned();
    assert!(said.contains("bad.js:5") && said.contains("SyntaxError"), "{line}\n{said}");
}

#[test]
fn typescript_is_measured_only_if_node_supports_it() {
    let Some(node) = node() else { return };
    let text = "import { createBenchmark } from 'speedwell';\n\
                const bench = createBenchmark(main, { n: [1000] });\n\
                function main({ n }: { n: number }): void {\n\
                  bench.start(); for (let i = 0; i < n; i++); bench.end(n);\n}\n";
    let project = TempProject::new()
        .with("g/count.ts", text)
        .with("g/count.d.ts", "export declare function createBenchmark(): void;\n");
    let question = ["-p", "Boolean(process.features.typescript)"];
    let answer = std::process::Command::new(node).args(question).output().unwrap();
    let answer_of_ours = project.run(&["run", "g", "--runs", "1"]);
    if answer.stdout.starts_with(b"true") {
        answer_of_ours.expect_status(0).expect_stdout(&["g/count.ts"]);
    } else {
        answer_of_ours.expect_status(2).expect_stderr(&["does not run TypeScript; 22.18"]);
    }
}
