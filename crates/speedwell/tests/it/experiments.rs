//! Experiments from the definition file to the answer, on a program that prints exact numbers, so
//! that the report is known beforehand.
//!
//! Each run of `print.sh` prints a cost that hardly depends on the seed. Other tests of experiments
//! are in `experiment_*.rs`.

use super::project::{CommandResult, TempProject};
use serde_json::Value;

/// `print.sh SEED COST [TIMES]`; the cost `wild` alternates between high and low.
const PRINT: &str = r#"
cost=$2
if [ "$cost" = wild ]; then
  echo >> "turns"
  cost=$((400 + 1600 * ($(wc -l < turns) % 2)))
fi
echo "seed $1"
echo "cost $((cost * ${3:-1} + $1 % 7)) ms"
"#;

/// A group that executes the program; variants are named after the arguments that they add.
const GROUP: &str = r#"
[[group]]
name = "print"
kind = "command"
[group.target]
command = ["sh", "print.sh", "{seed}"]
[group.metric.cost]
regex = 'cost (\S+)'
unit = "ms"
"#;

/// A project with `costs.toml`: a variant for each name and cost, the group, and `rest`.
pub fn cost_project(variants: &[(&str, &str)], rest: &str) -> TempProject {
    let variant = |(name, cost): &(&str, &str)| {
        format!("[[variant]]\nname = \"{name}\"\nargs = [\"{cost}\"]\n")
    };
    let variants: String = variants.iter().map(variant).collect();
    TempProject::new()
        .with("print.sh", PRINT)
        .with("costs.toml", &format!("{variants}{GROUP}{rest}"))
}

/// The report as data.
#[track_caller]
pub fn data(answer: &CommandResult) -> Value {
    answer.json()
}

/// The values of a key in all items of a list.
#[track_caller]
pub fn all_values<'a>(data: &'a Value, list: &str, key: &str) -> Vec<&'a str> {
    let items = data[list].as_array().unwrap_or_else(|| panic!("no list {list} in {data:#}"));
    items.iter().map(|item| item[key].as_str().unwrap_or_default()).collect()
}

/// Runs `costs.toml` with 8 runs per side, enough for a verdict.
#[track_caller]
fn measure(project: &TempProject, status: i32) -> Value {
    let words = ["run", "costs.toml", "--seed=1", "--runs=8", "--format=json"];
    data(&project.run(&words).expect_status(status))
}

/// The change of the first row of a candidate.
#[track_caller]
fn change(data: &Value, candidate: &str) -> f64 {
    let rows = data["changes"].as_array().unwrap();
    let row = rows.iter().find(|row| row["candidate"] == candidate);
    row.and_then(|row| row["change"].as_f64())
        .unwrap_or_else(|| panic!("no change of {candidate} in {data:#}"))
}

#[test]
fn each_variant_gets_the_verdict_that_its_numbers_deserve() {
    let variants =
        [("old", "1000"), ("slow", "1500"), ("fast", "600"), ("alike", "1001"), ("wild", "wild")];
    let smallest = "[compare]\nthreshold = \"3%\"\n";
    let found = measure(&cost_project(&variants, smallest), 0);
    assert_eq!(all_values(&found, "changes", "candidate"), ["slow", "fast", "alike", "wild"]);
    assert_eq!(all_values(&found, "changes", "verdict"), ["worse", "better", "same", "unclear"]);
    assert!((change(&found, "slow") - 0.5).abs() < 0.005, "{found:#}");
    assert!((change(&found, "fast") + 0.4).abs() < 0.005, "{found:#}");
    let first = &found["changes"][0];
    // A cost is printed in milliseconds and stored in nanoseconds.
    let median_ns = first["baseline_median"].as_f64().unwrap();
    assert!((1000e6..1007e6).contains(&median_ns), "{median_ns}");
    assert_eq!(first["baseline_runs"], 8);
}

#[test]
fn claims_hold_or_fail_or_stay_undecided() {
    let claims = r#"
[[claim]]
say = "Slow costs half as much again"
expr = "cost(slow) > 1.4*cost(old) and cost(slow) < 1.6*cost(old)"
[[claim]]
say = "Fast costs more"
expr = "cost(fast) > cost(old)"
[[claim]]
say = "Wild costs more"
expr = "cost(wild) > cost(old)"
[[claim]]
say = "Old takes less than two seconds"
expr = "cost(old) < 2s"
"#;
    let variants = [("old", "1000"), ("slow", "1500"), ("fast", "600"), ("wild", "wild")];
    let project = cost_project(&variants, claims);
    let found = measure(&project, 0);
    assert_eq!(all_values(&found, "claims", "answer"), ["holds", "fails", "undecided", "holds"]);
    assert_eq!(found["claims"][1]["claim"], "Fast costs more");
    let sides = &found["claims"][1]["parts"][0];
    let ratio = sides["ratio"].as_f64().unwrap();
    assert!((ratio - 0.6).abs() < 0.01, "{sides:#}");
    project.run(&["report"]).expect_status(0).expect_stdout(&[
        "Fast costs more                  ✗ fails",
        "? undecided",
        "cost(fast) > cost(old): 60",
    ]);
}

#[test]
fn claims_stay_undecided_with_too_few_runs() {
    let claim = "[[claim]]\nsay = \"Slow is slower\"\nexpr = \"cost(slow) > cost(old)\"\n";
    let project = cost_project(&[("old", "1000"), ("slow", "1500")], claim);
    let answer = project.run(&["run", "costs.toml", "--runs=3", "--format=json"]);
    let found = data(&answer.expect_status(0));
    assert_eq!(all_values(&found, "claims", "answer"), ["undecided"]);
    assert_eq!(all_values(&found, "changes", "verdict"), ["unclear"]);
}

#[test]
fn a_broken_gate_is_exit_status_1() {
    let gate = "[compare]\ngate = { print = \"cost < +20%\" }\n";
    let slow = cost_project(&[("old", "1000"), ("slow", "1500"), ("alike", "1001")], gate);
    let found = measure(&slow, 1);
    let broken = |at: usize| found["gates"][at]["failed"].as_bool();
    assert_eq!((broken(0), broken(1)), (Some(true), Some(false)));
    slow.run(&["report"]).expect_status(1).expect_stdout(&[
        "Gates: 1 of 2 passed, 1 failed, 0 undecided.",
        "'slow' breaks the gate 'cost < +20%' in costs/print: +49.",
    ]);
    let fast = cost_project(&[("old", "1000"), ("fast", "600")], gate);
    assert_eq!(measure(&fast, 0)["gates"][0]["passed"], true);
    // Undecided data neither fail nor pass a gate.
    let wild = cost_project(&[("old", "1000"), ("wild", "wild")], gate);
    let open = measure(&wild, 2);
    assert_eq!(open["gates"][0]["passed"], false);
    assert_eq!(open["gate"]["answer"], "cannot judge");
}

#[test]
fn a_control_shows_the_difference_of_a_variant_from_itself() {
    let plan = "[plan]\ncontrol = \"old\"\n";
    let found = measure(&cost_project(&[("old", "1000"), ("slow", "1500")], plan), 0);
    assert_eq!(all_values(&found, "changes", "candidate"), ["slow", "old-again"], "it stands last");
    assert_eq!(change(&found, "old-again"), 0.0, "same seeds, same numbers");
    let notes = found["notes"].to_string();
    assert!(notes.contains("'old' measured against itself changed by 0.0%"), "{notes}");
    let headlines = found["headlines"].to_string();
    assert!(!headlines.contains("old-again"), "{headlines}");
}

#[test]
fn variants_in_two_respects_give_a_grid_and_pairs_give_one_table() {
    let factors = [("main", "main"), ("many", "main"), ("main", "one"), ("many", "one")];
    let names = [("red", "1000"), ("green", "1500"), ("blue", "600"), ("cyan", "300")];
    let variant = |((name, cost), (http, calc)): (&(&str, &str), &(&str, &str))| {
        format!(
            "[[variant]]\nname = \"{name}\"\nargs = [\"{cost}\"]\n\
             factors = {{ http = \"{http}\", calc = \"{calc}\" }}\n"
        )
    };
    let variants: String = names.iter().zip(&factors).map(variant).collect();
    let pairs = "[compare]\npairs = [[\"red\", \"green\"], [\"blue\", \"cyan\"]]\n\
                 [[output]]\ntable = \"factors\"\n[[output]]\nchart = \"factors\"\n";
    let project = TempProject::new()
        .with("print.sh", PRINT)
        .with("costs.toml", &format!("{variants}{GROUP}{pairs}"));
    let found = measure(&project, 0);
    let values = |at: usize| found["factors"][at]["values"].clone();
    let known = |row: &Value, name: &str| row[name].as_f64().unwrap_or_default() / 1e6;
    let (main, one) = (values(0), values(1));
    assert!((known(&main, "red") - 1003.0).abs() < 4.0, "{main}");
    assert!((known(&main, "green") - 1503.0).abs() < 4.0, "{main}");
    assert!((known(&one, "cyan") - 303.0).abs() < 4.0, "{one}");
    assert_eq!(all_values(&found, "changes", "baseline"), ["red", "blue"]);
    let shown = project.run(&["report"]).expect_status(0);
    let shown = shown.expect_stdout(&["(green)", "green against red", "cyan against blue"]);
    assert_eq!(shown.stdout.matches("lower is better").count(), 1);
    assert!(shown.stdout.contains("http: main"), "{}", shown.stdout);
    let page = project.run(&["report", "--format", "html"]).expect_status(0);
    // Their bars: two groups of two.
    page.expect_stdout(&[">cost by calc and http</", ">calc: one</", ">http: many</"]);
}

#[test]
fn several_unlike_cases_have_a_range_of_changes() {
    let variants = "[[variant]]\nname = \"old\"\nargs = [\"100\"]\n[[variant]]\nname = \"new\"\nargs = [\"200\"]\n";
    let group = GROUP
        .replace("\"{seed}\"]", "\"0\"]")
        .replace("[group.target]", "parameters.n = [1, 2, 4]\n[group.target]");
    let text = format!("{variants}{group}");
    let text = text.replace("args = [\"200\"]", "args = [\"200\", \"{n}\"]");
    let text = text.replace("args = [\"100\"]", "args = [\"100\", \"1\"]");
    let project = TempProject::new().with("print.sh", PRINT).with("costs.toml", &text);
    let found = measure(&project, 0);
    assert_eq!(all_values(&found, "changes", "verdict"), ["worse"; 3]);
    // 2, 4 and 8 times: no typical change of three unlike cases, but their range.
    let comparison = &found["comparisons"][0];
    assert!(comparison["overall"].is_null(), "{comparison}");
    for (end, expected) in [(0, 1.0), (1, 7.0)] {
        let value = comparison["range"][end].as_f64().unwrap();
        assert!((value - expected).abs() < 1e-9, "{comparison}");
    }
    let headlines = found["headlines"].to_string();
    assert!(headlines.contains("from +100.0% to +700.0%"), "{headlines}");
}

#[test]
fn a_filter_without_matches_is_refused_with_the_available_cases() {
    let project = cost_project(&[("old", "100"), ("new", "200")], "");
    for mode in [&[][..], &["--test"], &["--list"]] {
        let words = [&["run", "costs.toml", "--filter", "nonsense"], mode].concat();
        project
            .run(&words)
            .expect_status(2)
            .expect_stderr(&["leave no benchmarks", "hint: the files contain 'costs/"]);
    }
}
