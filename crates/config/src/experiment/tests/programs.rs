//! Programs of variants, and groups of benchmark files.

use super::{assignment_of, message_of, read_experiment};
use speedwell_model::ParameterValue;
use std::path::Path;

/// A command with variants that name programs, variables and arguments, and benchmark files beside
/// it.
const PROGRAMS: &str = r#"
program = "node"
[[variant]]
name = "old"
program = "/opt/old/node"
args = ["--flag", 1]
env = { A = { append = "x" }, P_PATH = { prepend = "/y" }, B = "{speed}" }
speed = "{fast}+1"
[[variant]]
name = "new"
speed = 2
[[group]]
name = "direct"
kind = "command"
[group.target]
command = "sh app.sh 'a b' {{speed}}"
[[group]]
name = "behind"
kind = "command"
[group.target]
command = ["nice", "{program}", "app.js"]
[[group]]
name = "files"
kind = "function"
files = ["bench/parse.js"]
parameters = { size = ["{fast}", 100] }
[params]
fast = 7
[[claim]]
expr = "throughput[files](old) > 5 and wall_time[direct](new) < 2s"
"#;

#[test]
fn a_program_is_the_first_word_unless_a_placeholder_says_where_it_belongs() {
    let found = read_experiment(PROGRAMS).unwrap();
    let command =
        |group: &str, variant: &str| assignment_of(&found, group, 0, variant).target.command;
    assert_eq!(command("direct", "new"), ["sh", "app.sh", "a b", "{speed}"]);
    let old = ["/opt/old/node", "app.sh", "a b", "{speed}", "--flag", "1"];
    assert_eq!(command("direct", "old"), old);
    assert_eq!(command("behind", "new"), ["nice", "node", "app.js"]);
    assert_eq!(command("behind", "old"), ["nice", "/opt/old/node", "app.js", "--flag", "1"]);
}

#[test]
fn variants_are_translated_for_the_harness_of_benchmark_files() {
    let found = read_experiment(PROGRAMS).unwrap();
    let group = found.find_group("files").unwrap();
    assert_eq!(group.files, [Path::new("/x/bench/parse.js")]);
    assert_eq!(group.parameters[0].1, [7.0, 100.0].map(ParameterValue::Number));
    assert!(group.cases.is_empty());
    let ours = |name: &str| ["A", "P_PATH"].contains(&name).then(|| "have".to_owned());
    let old = found.harness_variant("old", &ours).unwrap();
    assert_eq!(old.program.as_deref(), Some(Path::new("/opt/old/node")));
    assert_eq!(old.arguments, ["--flag", "1"]);
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let variables = [pair("A", "have x"), pair("P_PATH", "/y:have"), pair("B", "8")];
    assert_eq!(old.environment, variables);
    let refused =
        message_of(&PROGRAMS.replace("speed = 2", "speed = 2\nenv = { A = { unset = true } }"));
    assert!(refused.contains("line 12: 'A' cannot be unset"), "{refused}");
}

#[test]
fn a_claim_of_single_cases_is_evaluated_once() {
    let found = read_experiment(PROGRAMS).unwrap();
    let rows: Vec<Vec<(usize, Option<usize>)>> = found.claims[0]
        .rows
        .iter()
        .map(|row| row.iter().map(|case| (case.group, case.case)).collect())
        .collect();
    assert_eq!(rows, [[(2, None), (0, Some(0))]]);
}

#[test]
fn an_override_of_a_metric_keeps_the_keys_that_it_does_not_name() {
    let text = r#"
[[group]]
name = "tool"
kind = "command"
target.command = "tool {n}"
parameters = { n = [1, 2] }
metric.took = { regex = 'took (\d+)', unit = "ms" }
[[group.override]]
match = { n = 2 }
metric.took.unit = "s"
"#;
    let found = read_experiment(text).unwrap();
    let [one, two] = [0, 1].map(|case| assignment_of(&found, "tool", case, "usual").figures);
    assert_eq!((one[0].factor, two[0].factor), (1e6, 1e9));
    assert_eq!(one[0].from, two[0].from);
}
