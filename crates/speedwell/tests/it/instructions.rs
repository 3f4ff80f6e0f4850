//! Instruction counts by callgrind. Tests that need valgrind are skipped without it.

use super::project::TempProject;
use serde_json::Value;
use std::process::Command;

/// Two pieces of work; the second does 2% more.
const WORK: [&str; 2] = [
    "volatile int x = 0; for (int i = 0; i < 1000; i++) x += i; x",
    "volatile int x = 0; for (int i = 0; i < 1020; i++) x += i; x",
];

/// A benchmark whose work is all in its loop.
const FILE: &str = "#include <speedwell.hpp>\n\
    SPEEDWELL_BENCHMARK(sum, speedwell::param(\"n\", {100, 300})) {\n\
      const int n = bench.get<int>(\"n\");\n\
      for (auto _ : bench) {\n\
        volatile int x = 0;\n\
        for (int i = 0; i < n; i++) x = x + i;\n\
        bench.pause();\n\
        for (int i = 0; i < 1000; i++) x = x + i;\n\
        bench.resume();\n\
      }\n\
    }\n";

fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: there is no program {tool}");
    }
    found
}

fn numbers(list: &Value) -> Vec<f64> {
    serde_json::from_value(list.clone()).unwrap()
}

#[test]
fn two_equal_counts_on_each_side_give_an_exact_verdict() {
    if !has("valgrind") || !has("cc") {
        return;
    }
    let words = ["eval", "c", WORK[0], WORK[1], "--metric", "instructions", "--format", "json"];
    let more = ["--iterations=100", "--estimate-cycles", "--fail-on", "worse"];
    let found = TempProject::new().run(&[&words[..], &more].concat()).expect_status(1).json();
    let [exact, estimate] = [0, 1].map(|at| &found["changes"][at]);
    assert_eq!((&exact["metric"], &exact["verdict"]), (&"instructions".into(), &"worse".into()));
    let [old, new] = ["baseline_values", "candidate_values"].map(|side| numbers(&exact[side]));
    assert_eq!((old.len(), new.len()), (2, 2));
    assert!(old[0] == old[1] && new[0] == new[1] && old[0] > 1000.0, "{old:?} {new:?}");
    let change = exact["change"].as_f64().unwrap();
    assert!((0.018..0.021).contains(&change), "{change}");
    assert_eq!(exact["p"], Value::Null);
    assert_eq!(exact["notes"], "Exact: 2 of 2 runs agree.");
    assert_eq!(estimate["metric"], "cycles_estimate");
    assert!(
        numbers(&estimate["baseline_values"])[0] > old[0],
        "each instruction takes a cycle at least"
    );
    let tool = found["sources"][0]["design"]["counting"]["tool"].as_str().unwrap();
    assert!(tool.starts_with("valgrind-"), "{tool}");
}

#[test]
fn paused_code_is_not_counted() {
    if !has("valgrind") || !has("g++") {
        return;
    }
    let project = TempProject::at_constant_path("instructions").with("sum.cpp", FILE);
    let words =
        ["run", "sum.cpp", "--metric", "instructions", "--iterations=10", "--format", "json"];
    let found = project.run(&words).expect_status(0).json();
    let medians = [0, 1].map(|at| found["summaries"][at]["median"].as_f64().unwrap());
    // At least four instructions per iteration; the paused loop has ten times as many iterations.
    let per_turn = (medians[1] - medians[0]) / 200.0;
    assert!((2.0..8.0).contains(&per_turn), "{medians:?}");
    assert!(medians[0] < 1000.0, "{medians:?}");
}

#[test]
fn times_are_taken_beside_the_count_where_they_are_asked_for() {
    if !has("valgrind") || !has("cc") {
        return;
    }
    let words = ["eval", "c", WORK[0], WORK[1], "--iterations=100"];
    let metrics = ["--metric", "instructions", "--metric", "time", "--format", "json"];
    let project = TempProject::new();
    let found = project.run(&[&words[..], &metrics[..]].concat()).expect_status(0).json();
    let changes = found["changes"].as_array().unwrap();
    let names: Vec<&Value> = changes.iter().map(|change| &change["metric"]).collect();
    assert_eq!(names, ["instructions", "time"]);
    assert_eq!(changes[0]["verdict"], "worse");
    let notes = changes[0]["notes"].as_str().unwrap();
    assert!(notes.starts_with("Exact: 8 of 8 runs agree."), "{notes}");
    // Times vary, so there is no verdict on them before there are eight.
    let times = numbers(&changes[1]["baseline_values"]);
    assert_eq!(times.len(), 8);
    assert!(times.iter().all(|&time_ns| time_ns > 100.0), "{times:?}");
    assert_ne!(changes[1]["p"], Value::Null);
    let again = project.run(&["report", "--metric", "cpu_time"]);
    again.expect_status(0).expect_stdout(&["CPU time"]);
}

#[test]
fn uncountable_targets_and_options_are_refused_with_a_reason() {
    let project = TempProject::new().with("g/x.fake", "case k=1\na 1\n");
    for (words, reason) in [
        (&["eval", "java", "1 + 1"][..], "compiles at run time"),
        (&["eval", "erlang", "1 + 1."], "compiles at run time"),
        (&["eval", "sh", "true"], "a shell starts other processes"),
        (&["eval", "c", "1", "-c", "2"], "one thread at a time"),
        (&["eval", "c", "1", "--clock", "cpu"], "apply only to times"),
        (&["eval", "c", "1", "--reject", "steal>1%"], "--reject applies only to times"),
        (&["run", "g/x.fake"], "its numbers are made up"),
    ] {
        let refused = project.run(&[words, &["--metric", "instructions"]].concat());
        refused.expect_status(2).expect_stderr(&[reason]);
    }
    let lost = project.run(&["eval", "c", "1", "--estimate-cycles"]);
    lost.expect_status(2).expect_stderr(&["hint: add --metric instructions"]);
}

#[test]
fn missing_valgrind_is_reported_with_an_installation_hint() {
    let project = TempProject::new();
    let mut command = project.command(&["eval", "c", "1", "--metric", "instructions"]);
    let answer = command.env("PATH", project.path("nothing")).output().unwrap();
    let said = String::from_utf8(answer.stderr).unwrap();
    assert_eq!(answer.status.code(), Some(2));
    assert!(
        said.contains("which is not installed") && said.contains("hint: apt install valgrind"),
        "{said}"
    );
}
