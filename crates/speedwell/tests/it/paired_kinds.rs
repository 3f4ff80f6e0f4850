//! Pairs of everything that reports processor time: snippets of every language, files of every
//! harness, scripts of Node.js core, programs of google/benchmark. The second side has many times
//! the work of the first.

use super::harness_driver::find_tool;
use super::programs::PROGRAM;
use super::project::{CommandResult, TempProject, node, repository};

const PAIRS: [&str; 6] = ["--order", "paired", "--runs", "2", "--format", "json"];

/// Samples that are not examined closely. With shorter ones a harness on a busy machine would spend
/// most of its life waiting for commands, and work that waits is rejected.
const SHORT: [&str; 6] = ["-n", "2", "-t", "80ms", "-w", "20ms"];

/// Asserts that two pairs were compared by processor time, and that the second side used far more
/// of it.
#[track_caller]
fn is_paired(answer: CommandResult) {
    let found = answer.expect_status(0).json();
    let metric = &found["comparisons"][0]["metric"]["name"];
    let method = &found["comparisons"][0]["method"];
    assert_eq!((metric, method), (&"cpu_time".into(), &"signed-rank".into()));
    let change = &found["changes"][0];
    assert_eq!((&change["baseline_runs"], &change["candidate_runs"]), (&2.into(), &2.into()));
    let [one, other] = ["baseline_median", "candidate_median"].map(|key| {
        let median = change[key].as_f64();
        median.unwrap_or_else(|| panic!("{change}"))
    });
    assert!(other > 2.0 * one, "{one} ns and {other} ns");
}

/// Two snippets; the second has thirty times the work.
fn snippets(language: &str, tools: &[&str], text: &str) {
    if find_tool(tools).is_none() {
        return;
    }
    let [one, other] = ["1000", "30000"].map(|count| text.replace("COUNT", count));
    let words = [&["eval", language, &one, &other][..], &PAIRS[..], &SHORT[..]].concat();
    is_paired(TempProject::new().run(&words));
}

/// A file under `wrapper`, a program that executes it with the amount of work in a variable.
fn files(project: TempProject, program: &str, file: &str, more: &[&str]) {
    let wrapper = |work: u32| format!("#!/bin/sh\nWORK={work} exec {program} \"$@\"\n");
    let project = project.with_program("one", &wrapper(1)).with_program("other", &wrapper(30));
    let variants = ["--variant", "a=./one", "--variant", "b=./other"];
    is_paired(project.run(&[&["run", file][..], &variants[..], &PAIRS[..], more].concat()));
}

#[test]
fn pairs_of_snippets_in_python() {
    snippets("python", &["python3"], "sum(range(COUNT))");
}

#[test]
fn pairs_of_snippets_in_javascript() {
    snippets("node", &["node"], "JSON.stringify(Array.from({ length: COUNT }))");
}

#[test]
fn pairs_of_snippets_in_c() {
    let text = "volatile int x = 0; for (int i = 0; i < COUNT; i++) x += i; x";
    snippets("c", &["cc", "gcc", "clang"], text);
}

#[test]
fn pairs_of_snippets_in_cpp() {
    let text = "volatile int x = 0; for (int i = 0; i < COUNT; i++) x = x + i; x";
    snippets("cpp", &["c++", "g++", "clang++"], text);
}

#[test]
fn pairs_of_snippets_in_rust() {
    let text = "(0..COUNT).map(std::hint::black_box).sum::<u64>()";
    snippets("rust", &["rustc"], text);
}

#[test]
fn pairs_of_snippets_in_go() {
    snippets("go", &["go"], "len(strings.Repeat(\"ab\", COUNT))");
}

#[test]
fn pairs_of_snippets_in_java() {
    let text = "long x = 0; for (int i = 0; i < COUNT; i++) { x += i * (x | 3); } return x;";
    snippets("java", &["javac"], text);
}

#[test]
fn pairs_of_snippets_in_erlang() {
    snippets("erlang", &["erl"], "lists:sum(lists:seq(1, COUNT)).");
}

#[test]
fn pairs_of_snippets_in_elixir() {
    snippets("elixir", &["elixir"], "Enum.sum(Enum.map(1..COUNT, &(&1 * 3)))");
}

#[test]
fn pairs_of_a_python_file() {
    let text = "import os\nimport speedwell\n\nWORK = 1000 * int(os.environ['WORK'])\n\n\n@speedwell.benchmark\n\
                def add(bench):\n    for _ in bench:\n        sum(range(WORK))\n";
    if find_tool(&["python3"]).is_some() {
        files(TempProject::new().with("add.py", text), "python3", "add.py", &SHORT);
    }
}

#[test]
fn pairs_of_a_file_that_uses_our_package_for_node() {
    let text = "const { createBenchmark } = require('speedwell');\n\
        const bench = createBenchmark(main, { n: [1000] });\n\
        function main({ n }) {\n  let sum = 0;\n  const turns = n * 1000 * process.env.WORK;\n  bench.start();\n\
          for (let i = 0; i < turns; i++) sum += i % 7;\n  bench.end(n);\n}\n";
    if node().is_some() {
        files(TempProject::new().with("add.js", text), "node", "add.js", &[]);
    }
}

/// The whole process is measured, so the work must be long compared with the start of Node.js.
#[test]
fn pairs_of_a_script_of_node_core() {
    let script = "const common = require('../common.js');\n\
        const bench = common.createBenchmark(main, { n: [1] });\n\
        function main({ n }) {\n  let sum = 0;\n  const turns = 5e6 * process.env.WORK;\n  bench.start();\n\
          for (let i = 0; i < turns; i++) sum += i % 7;\n  bench.end(n);\n}\n";
    if node().is_none() {
        return;
    }
    let library = repository().join("crates/adapters/languages/node/index.js");
    let library = format!("module.exports = require({library:?});\n");
    let project = TempProject::new()
        .with("benchmark/common.js", &library)
        .with("benchmark/api/add.js", script);
    files(project, "node", "benchmark/api/add.js", &[]);
}

#[test]
fn pairs_of_programs_with_google_benchmark() {
    let program = |time_us: &str| {
        // The reported processor time is compared. It computes a little, because work that waits is
        // rejected.
        let busy = "i=0; while [ $i -lt 50000 ]; do i=$((i + 1)); done";
        (PROGRAM.replace("NAMES", "BM_copy").replace("TIME", time_us))
            .replace("BEFORE", busy)
            .replace("BUILD", "release")
    };
    let project = TempProject::new()
        .with_program("old", &program("100"))
        .with_program("new", &program("300"));
    let words = ["compare", "./old", "./new"];
    is_paired(project.run(&[&words[..], &PAIRS[..]].concat()));
}

/// Its clients would be paired while its server is not.
#[test]
fn a_load_cannot_be_paired() {
    let definition =
        "[benchmark.hello]\nkind = \"load\"\nurl = \"http://127.0.0.1:9/\"\nrequests = 10\n";
    let project = TempProject::new().with("load.toml", definition);
    let words = ["run", "load.toml", "--variant", "a=true", "--variant", "b=true"];
    let refused = project.run(&[&words[..], &PAIRS[..]].concat());
    refused.expect_status(2).expect_stderr(&[
        "has a server, which uses processor time of its own",
        "hint: --order blocks",
    ]);
}
