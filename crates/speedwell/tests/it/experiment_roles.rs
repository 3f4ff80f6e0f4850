//! A variant changes only the target, all variants of a block get the same seed, and target and
//! load stay on their processors.

use super::experiment_life::{failure, perform_run, run_request};
use super::harness_driver::is_missing;
use super::project::{CommandResult, TempProject, repository};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A load tool that records its arguments and the variables of itself, its parent and its
/// grandparent; it prints recorded output of the real one.
const CLIENT: &str = r#"#!/bin/sh
tools=$(dirname "$0")
if [ "$1" = -V ]; then echo "This is ApacheBench, Version 2.3"; exit 0; fi
echo "$@" >> "$tools/seen"
env >> "$tools/seen"
tr '\0' '\n' < /proc/$PPID/environ >> "$tools/seen"
parent=$(sed -n 's/^PPid:\s*//p' /proc/$PPID/status)
tr '\0' '\n' < /proc/$parent/environ >> "$tools/seen"
cat "$tools/answer"
"#;

#[test]
fn the_load_client_sees_nothing_of_the_variant() {
    if is_missing("python3") {
        return;
    }
    let server = repository().join("crates/speedwell/tests/experiment/server.py");
    let file = format!(
        r#"
[[variant]]
name = "plain"
[[variant]]
name = "changed"
args = ["says=marked-word"]
env = {{ NODE_OPTIONS = {{ append = "--marked-option" }}, MARKED_NAME = "on" }}
assert = {{ stderr = "marked-word" }}
[[group]]
name = "web"
kind = "server"
metrics = ["throughput"]
[group.target]
command = ["sh", "-c", 'env > "target-$MARKED_NAME"; exec python3 {} "$@"', "sh", "{{port}}"]
[group.load]
client = "ab"
requests = 200
concurrency = 2
[group.verify]
status = 200
"#,
        server.display()
    );
    let golden = repository().join("crates/speedwell/tests/golden/ab/ab_keepalive.out");
    let project = TempProject::new()
        .with("roles.toml", &file)
        .with("tools/answer", &std::fs::read_to_string(golden).unwrap())
        .with_program("tools/ab", CLIENT);
    let path = std::env::var("PATH").unwrap();
    let tools = project.path("tools");
    let mut command = project.command(&["run", "roles.toml", "--runs=1"]);
    command.env("PATH", format!("{}:{path}", tools.display())).env("NODE_OPTIONS", "--ours");
    CommandResult::from(command.output().unwrap()).expect_status(0);
    let read = |name: &str| std::fs::read_to_string(project.path(name)).unwrap();
    let target = read("target-on");
    assert!(target.contains("NODE_OPTIONS=--ours --marked-option\n"), "{target}");
    assert!(read("target-").contains("NODE_OPTIONS=--ours\n"));
    let seen = read("tools/seen");
    assert_eq!(seen.matches("http://127.0.0.1:").count(), 2, "{seen}");
    assert!(seen.matches("NODE_OPTIONS=--ours\n").count() >= 6, "{seen}");
    assert!(!seen.to_lowercase().contains("marked"), "{seen}");
}

/// Printed seeds of each group, by block.
fn seeds(project: &TempProject, group: &str) -> BTreeMap<u64, Vec<u64>> {
    let lines = project.run(&["report", "--export", "jsonl"]).expect_status(0);
    let mut found: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for line in lines.stdout.lines() {
        let run = &serde_json::from_str::<Value>(line).unwrap()["run"];
        if run["benchmark"] != format!("seeds/{group}") {
            continue;
        }
        let samples = run["samples"].as_array().unwrap();
        let seed = samples.iter().find(|sample| sample["metric"] == "seed");
        let value = seed.and_then(|seed| seed["value"].as_f64()).unwrap();
        let block = run["block"].as_u64().unwrap();
        found.entry(block).or_default().push(value as u64);
    }
    found
}

#[test]
fn all_variants_of_a_block_get_the_same_seed() {
    let group = |name: &str, rule: &str| {
        format!(
            "[[group]]\nname = \"{name}\"\nkind = \"command\"\n{rule}\n\
             target.command = [\"echo\", \"seed {{seed}}\"]\n\
             metric.seed = {{ regex = 'seed (\\d+)', unit = \"points\", better = \"lower\" }}\n"
        )
    };
    let groups =
        [group("usual", ""), group("each", "seed = \"per-run\""), group("fixed", "seed = 42")];
    let file =
        format!("[[variant]]\nname = \"old\"\n[[variant]]\nname = \"new\"\n{}", groups.concat());
    let project = TempProject::new().with("seeds.toml", &file);
    project.run(&["run", "seeds.toml", "--runs=4"]).expect_status(0);
    let usual = seeds(&project, "usual");
    assert_eq!(usual.len(), 2, "two blocks of two runs a side: {usual:?}");
    let first: Vec<u64> = usual.values().map(|seeds| seeds[0]).collect();
    for (seeds, first) in usual.values().zip(&first) {
        assert_eq!(seeds, &[*first; 4], "one block, one seed: {usual:?}");
    }
    assert_ne!(first[0], first[1], "blocks differ");
    let each: BTreeSet<u64> = seeds(&project, "each").into_values().flatten().collect();
    assert_eq!(each.len(), 8, "every run has its own");
    let fixed: BTreeSet<u64> = seeds(&project, "fixed").into_values().flatten().collect();
    assert_eq!(fixed, [42].into());
}

#[test]
fn the_target_keeps_to_its_share_of_the_processors() {
    if is_missing("python3") {
        return;
    }
    let mut order = run_request(&[]);
    order["work"]["verify"]["path"] = json!("/processors");
    order["work"]["verify"]["body"]["json"] = json!(1);
    if std::thread::available_parallelism().unwrap().get() < 2 {
        eprintln!("skipped: there is only one processor");
        return;
    }
    order["processors"] = json!({ "target": 1, "load": 1 });
    let done = perform_run(&order);
    assert_eq!(done["failure"], Value::Null, "{done:#}");
    order["processors"] = json!({ "target": 1, "load": 100_000 });
    let (stage, reason) = failure(&order);
    assert_eq!(stage, "verify", "it may use all of them: {reason}");
}
