//! Definition files before anything is started: mistakes, missing requirements, and the plan.

use super::experiments::{all_values, cost_project, data};
use super::project::{TempProject, node};

const VARIANTS: &str = "[[variant]]\nname = \"old\"\n[[variant]]\nname = \"new\"\n";

/// Asserts that an invalid file is rejected with these words, and that nothing is started.
#[track_caller]
fn expect_rejected(text: &str, words: &[&str]) {
    let project = TempProject::new().with("wrong.toml", text);
    let answer = project.run(&["run", "wrong.toml"]).expect_status(2);
    assert_eq!(answer.stdout, "", "{answer:#?}");
    answer.expect_stderr(words);
    assert!(!project.path("started").exists(), "it was started");
}

/// A group that creates a file if it is ever started, with additional lines in it and after it.
fn starting_group(inside: &str, behind: &str) -> String {
    format!(
        "{VARIANTS}\n[[group]]\nname = \"go\"\nkind = \"command\"\n{inside}\n[group.target]\n\
         command = [\"touch\", \"{{root}}/started\"]\n{behind}"
    )
}

#[test]
fn a_mistake_is_reported_with_its_line_and_the_probable_correction() {
    let unknown = |message: &str, near: &str| {
        [format!("{message}\n"), format!("hint: did you mean '{near}'?")]
    };
    let told = |text: String, words: [String; 2]| expect_rejected(&text, &[&words[0], &words[1]]);
    told(
        starting_group("", "timeot = \"1s\"\n"),
        unknown("line 12: [group.target] has an unknown key 'timeot'", "timeout"),
    );
    told(
        starting_group("", "").replace("command = [", "comand = ["),
        unknown("line 11: [group.target] has an unknown key 'comand'", "command"),
    );
    told(
        starting_group("metrics = [\"wal_time\"]", ""),
        unknown("line 9: the group 'go' has no metric 'wal_time'", "wall_time"),
    );
    let claim = "[[claim]]\nsay = \"x\"\nexpr = \"wall_time(nwe) > wall_time(old)\"\n";
    told(
        starting_group("", claim),
        unknown(
            "line 14: unknown variant 'nwe'\n  wall_time(nwe) > wall_time(old)\n            ^",
            "new",
        ),
    );
    let gate = "[compare]\ngate = { og = \"wall_time < +5%\" }\n";
    told(starting_group("", gate), unknown("line 13: unknown group 'og'", "go"));
}

#[test]
fn every_variant_needs_a_command() {
    let group = "[[group]]\nname = \"go\"\nkind = \"command\"\n[group.target]\n";
    expect_rejected(
        &format!("{VARIANTS}command = [\"true\"]\n{group}"),
        &["[group.target] has no key 'command'", "in the variant 'old'"],
    );
}

#[test]
fn all_unmet_requirements_are_listed_at_once() {
    let requires = "[requires]\n\
        frobnicate = { hint = \"there is a package 'frobnicate'\" }\n\
        ancient = { command = [\"echo\", \"v3.1.4\"], at_least = \"3.10\" }\n\
        there = { command = [\"echo\", \"v3.10\"], at_least = \"3.10\" }\n\
        packages = { dir = \"servers\" }\n";
    expect_rejected(
        &starting_group("", requires),
        &[
            "requirements of 'wrong' are not met:",
            "frobnicate: cannot start 'frobnicate'",
            "(there is a package 'frobnicate')",
            "ancient: version 3.1.4 is older than 3.10",
            "packages: '",
            "has no package.json",
        ],
    );
    let project = TempProject::new().with("wrong.toml", &starting_group("", requires));
    let answer = project.run(&["run", "wrong.toml"]);
    assert!(!answer.stderr.contains("there: "), "{answer:#?}");
    // Listing the cases needs none of it.
    project.run(&["run", "wrong.toml", "--list"]).expect_status(0).expect_stdout(&["wrong/go"]);
}

const GRID: &str = r#"
[params]
size = 3
[[variant]]
name = "old"
[[group]]
name = "small"
kind = "command"
[group.parameters]
kind = ["a", "b"]
n = [1, "2*{size}"]
[[group.exclude]]
kind = "b"
n = 1
[group.target]
command = ["echo", "{kind}", "{n}"]
[[group]]
name = "large"
kind = "command"
[group.target]
command = ["echo"]
"#;

/// The cases that a project's file lists.
#[track_caller]
fn list_cases(project: &TempProject, words: &[&str]) -> Vec<String> {
    let words = [&["run"], words, &["--list", "--format=json"]].concat();
    let found = data(&project.run(&words).expect_status(0));
    let ids = all_values(&found, "cases", "case");
    ids.into_iter().map(str::to_owned).collect()
}

#[test]
fn list_shows_the_cases_and_set_changes_them() {
    let project = TempProject::new().with("grid.toml", GRID);
    assert_eq!(
        list_cases(&project, &["grid.toml"]),
        ["grid/small kind=a n=1", "grid/small kind=a n=6", "grid/small kind=b n=6", "grid/large"]
    );
    let changed = |words: &[&str]| list_cases(&project, &[&["grid.toml"], words].concat());
    assert_eq!(changed(&["--set", "size=5", "--filter", "small"])[1], "grid/small kind=a n=10");
    assert_eq!(
        changed(&["--set", "kind=b", "--set", "n=7,8", "-f", "small"]),
        ["grid/small kind=b n=7", "grid/small kind=b n=8"]
    );
    assert_eq!(changed(&["--filter", "^grid/large$"]), ["grid/large"]);
    let answer = project.run(&["run", "grid.toml", "--set", "sise=5"]);
    answer.expect_status(2).expect_stderr(&["'sise'", "did you mean 'size'?"]);
}

#[test]
fn json_of_the_same_tree_has_the_same_cases() {
    let twin = r#"{
        "params": { "size": 3 },
        "variant": [{ "name": "old" }],
        "group": [
            { "name": "small", "kind": "command",
              "parameters": { "kind": ["a", "b"], "n": [1, "2*{size}"] },
              "exclude": [{ "kind": "b", "n": 1 }],
              "target": { "command": ["echo", "{kind}", "{n}"] } },
            { "name": "large", "kind": "command", "target": { "command": ["echo"] } }
        ]
    }"#;
    let project = TempProject::new().with("grid.toml", GRID).with("grid.json", twin);
    assert_eq!(list_cases(&project, &["grid.json"]), list_cases(&project, &["grid.toml"]));
    let answer = project.run(&["run", "grid.json", "--runs=1", "--format=json"]);
    let found = data(&answer.expect_status(0));
    assert_eq!(found["summaries"].as_array().map(Vec::len), Some(4), "{found:#}");
}

#[test]
fn test_tries_every_case_under_every_variant() {
    let group = "[[group]]\nname = \"shop\"\nkind = \"command\"\nparameters.n = [1, 2]\n\
        [group.target]\ncommand = [\"sh\", \"-c\", \"echo {n} $0 >> log; test $0 != gone\"]\n";
    let variants = "[[variant]]\nname = \"old\"\nargs = [\"here\"]\n\
        [[variant]]\nname = \"new\"\nargs = [\"gone\"]\n";
    let project = TempProject::new().with("shop.toml", &format!("{variants}{group}"));
    let answer = project.run(&["run", "shop.toml", "--test", "-v"]);
    answer.expect_status(2).expect_stdout(&[
        "2 of 4 combinations of case and variant work",
        "shop/shop n=1 (new) and 1 other case: failed at 'alive': exited with status 1 (2 times)",
    ]);
    let log = std::fs::read_to_string(project.path("log")).unwrap();
    let mut tried: Vec<&str> = log.lines().collect();
    tried.sort_unstable();
    assert_eq!(tried, ["1 gone", "1 here", "2 gone", "2 here"]);
    let stored = project.run(&["report"]);
    assert_ne!(stored.status, 0, "a trial is no measurement: {stored:#?}");
}

#[test]
fn list_says_how_long_the_loads_take() {
    let text = "[[variant]]\nname = \"old\"\n[[variant]]\nname = \"new\"\n\
        [[group]]\nname = \"web\"\nkind = \"server\"\nparameters.n = [1, 2, 3]\n\
        [group.target]\ncommand = [\"no-such-server\"]\n\
        [group.load]\nduration = \"5s\"\nwarmup = { duration = \"1s\" }\n\
        [[group.override]]\nmatch = { n = 3 }\nload.duration = \"10s\"\n[plan]\nruns = 10\n";
    let project = TempProject::new().with("web.toml", text);
    // 10 runs of 2 variants: 2 cases of 6 s and one of 11 s.
    project
        .run(&["run", "web.toml", "--list"])
        .expect_status(0)
        .expect_stdout(&["3 cases, 60 runs"])
        .expect_stderr(&[
            "With 10 runs of every case and variant, the loads take 7 min 40 s. Starting and stopping",
        ]);
    let quiet = project.run(&["run", "web.toml", "--list", "-q"]);
    assert_eq!(quiet.expect_status(0).stderr, "");
    let command = cost_project(&[("old", "1000")], "").run(&["run", "costs.toml", "--list"]);
    assert_eq!(command.expect_status(0).stderr, "", "nothing is known of a command");
}

#[test]
fn set_values_apply_when_measuring() {
    let project = cost_project(&[("old", "1000"), ("slow", "{more}")], "[params]\nmore = 1500\n");
    let words = ["run", "costs.toml", "--runs=1", "--format=json", "--set=more=2000"];
    let found = data(&project.run(&words).expect_status(0));
    let median_ns = found["changes"][0]["candidate_median"].as_f64().unwrap();
    assert!((2000e6..2007e6).contains(&median_ns), "{median_ns}");
}

#[test]
fn benchmark_files_are_measured_under_variants() {
    if node().is_none() {
        return;
    }
    let file = r#"
[[variant]]
name = "plain"
[[variant]]
name = "marked"
args = ["--no-warnings"]
env = { SHOP_MODE = "marked" }
[[group]]
name = "code"
kind = "function"
files = ["sum.js"]
parameters.n = [20, 30]
"#;
    let benchmark = r"
const { createBenchmark } = require('speedwell');
const bench = createBenchmark(main, { n: [1e6] });
function main({ n }) {
  require('fs').appendFileSync(`${__dirname}/log`,
    `${n} ${process.env.SHOP_MODE} ${process.execArgv.includes('--no-warnings')}\n`);
  bench.start();
  bench.end(n);
}
";
    let project = TempProject::new().with("code.toml", file).with("sum.js", benchmark);
    let cases = list_cases(&project, &["code.toml"]);
    assert_eq!(cases.len(), 2, "{cases:?}");
    assert!(cases[0].ends_with("sum.js n=20"), "{cases:?}");
    let answer = project.run(&["run", "code.toml", "--runs=1", "--format=json"]);
    let found = data(&answer.expect_status(0));
    assert_eq!(all_values(&found, "changes", "candidate"), ["marked", "marked"]);
    assert_eq!(all_values(&found, "changes", "metric"), ["throughput", "throughput"]);
    let log = std::fs::read_to_string(project.path("log")).unwrap();
    for seen in ["20 undefined false", "20 marked true", "30 undefined false", "30 marked true"] {
        assert!(log.contains(seen), "no '{seen}' in {log}");
    }
    assert!(!log.contains("marked false"), "{log}");
}
