//! Measured once, reported often: reports of stored experiments, interrupted ones, and those of
//! other machines.

use super::experiments::{all_values, cost_project, data};
use super::project::{CommandResult, TempProject};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const REST: &str = "[compare]\nthreshold = \"3%\"\ngate = { print = \"cost < +60%\" }\n\
    [[claim]]\nsay = \"Slow is slower\"\nexpr = \"cost(slow) > cost(old)\"\n";

fn three_variants(rest: &str) -> TempProject {
    cost_project(&[("old", "1000"), ("slow", "1500"), ("fast", "600")], rest)
}

/// The runs of the latest session: slot, block and variant.
fn runs(project: &TempProject) -> Vec<(u64, u64, String)> {
    let lines = project.run(&["report", "--export", "jsonl"]).expect_status(0).stdout;
    let run = |line: &str| {
        let run = &serde_json::from_str::<serde_json::Value>(line).unwrap()["run"];
        let variant = run["variant"].as_str()?.to_owned();
        Some((run["slot"].as_u64()?, run["block"].as_u64()?, variant))
    };
    lines.lines().filter_map(run).collect()
}

#[test]
fn the_method_is_described_once_for_all_tables_of_an_experiment() {
    let project = three_variants(REST);
    let words = ["run", "costs.toml", "--runs=8", "--seed=1"];
    let refused = project.run(&[&words[..], &["--sort=typo"]].concat());
    refused.expect_status(2).expect_stderr(&["unknown sort column 'typo'"]);
    let report = project.run(&[&words[..], &["-v"]].concat()).expect_status(0).stdout;
    assert_eq!(report.matches("Method: ").count(), 1, "{report}");
    let one = project.run(&["report", "@latest[slow]"]).expect_status(0);
    assert!(!one.stdout.contains("fast"), "{one:#?}");
}

#[test]
fn a_report_is_made_again_without_measuring_even_if_the_file_is_gone() {
    let project = three_variants(REST);
    let first = project.run(&["run", "costs.toml", "--runs=8", "--seed=1"]).expect_status(0);
    let again = |words: &[&str]| project.run(words).expect_status(0).stdout;
    assert_eq!(again(&["report", "@latest"]), first.stdout);
    let project_file = project.path("costs.toml");
    std::fs::write(&project_file, "this is no definition file any more").unwrap();
    assert_eq!(again(&["report", "@latest"]), first.stdout);
    std::fs::remove_file(&project_file).unwrap();
    assert_eq!(again(&["report", "@latest"]), first.stdout);
    assert!(first.stdout.contains("✓ holds"), "{first:#?}");
    // Other machines do not need it, either.
    let exported = again(&["report", "--export", "jsonl"]);
    let elsewhere = TempProject::new().with("costs.jsonl", &exported);
    elsewhere.run(&["import", "costs.jsonl"]).expect_status(0);
    let there = |words: &[&str]| elsewhere.run(words).expect_status(0).stdout;
    assert_eq!(there(&["report", "@latest"]), first.stdout);
    assert_eq!(there(&["report", "costs.jsonl"]), first.stdout);
}

#[test]
fn another_baseline_can_be_chosen_when_measuring_and_when_reporting() {
    let project = three_variants(REST);
    let words = ["run", "costs.toml", "--runs=8", "--baseline=fast", "--format=json"];
    // Compared with the fast one, both others fail the gate.
    let found = data(&project.run(&words).expect_status(1));
    assert_eq!(all_values(&found, "changes", "baseline"), ["fast", "fast"]);
    assert_eq!(all_values(&found, "changes", "candidate"), ["old", "slow"]);
    assert_eq!(all_values(&found, "gates", "candidate"), ["old", "slow"]);
    let stored = data(&project.run(&["report", "--format=json"]).expect_status(1));
    assert_eq!(all_values(&stored, "changes", "baseline"), ["fast", "fast"]);
    let other = project.run(&["report", "--format=json", "--baseline=slow"]);
    let other = data(&other.expect_status(0));
    assert_eq!(other["gate"]["answer"], "passed");
    assert_eq!(all_values(&other, "changes", "baseline"), ["slow", "slow"]);
    assert_eq!(all_values(&other, "changes", "candidate"), ["old", "fast"]);
    let wrong = project.run(&["run", "costs.toml", "--baseline=lsow"]);
    wrong.expect_status(2).expect_stderr(&["no variant is named 'lsow'"]);
}

#[test]
fn one_metric_gives_the_ordinary_comparison() {
    let project = three_variants(REST);
    project.run(&["run", "costs.toml", "--runs=8"]).expect_status(0);
    let found = data(&project.run(&["report", "--metric=wall_time", "--format=json"]));
    assert_eq!(all_values(&found, "changes", "metric"), ["wall_time", "wall_time"]);
    assert!(found["claims"].is_null(), "{found:#}");
    let words = ["run", "costs.toml", "--runs=2", "--metric=cost", "--format=json"];
    let found = data(&project.run(&words).expect_status(0));
    assert_eq!(all_values(&found, "changes", "metric"), ["cost", "cost"]);
    assert_eq!(found["speedwell"]["report"], "comparison");
}

#[test]
fn outputs_go_to_the_working_directory_unless_others_are_named() {
    let project =
        three_variants("[[output]]\nreport = [\"markdown\", \"json\", \"csv\", \"html\"]\n");
    let folder = project.path("elsewhere");
    std::fs::create_dir(&folder).unwrap();
    let run = |words: &[&str]| {
        let mut command = project.command(&[&["run", "../costs.toml", "--runs=1"], words].concat());
        CommandResult::from(command.current_dir(&folder).output().unwrap()).expect_status(0)
    };
    run(&["-o", "mine.md"]);
    let names = || {
        let entries = std::fs::read_dir(&folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["mine.md"]);
    run(&[]);
    let written = [
        "costs-2.svg",
        "costs.csv",
        "costs.html",
        "costs.json",
        "costs.md",
        "costs.svg",
        "mine.md",
    ];
    assert_eq!(names(), written);
    let markdown = std::fs::read_to_string(folder.join("costs.md")).unwrap();
    for picture in ["](<costs.svg>)", "](<costs-2.svg>)"] {
        assert!(markdown.contains(picture), "{markdown}");
    }
    let text = std::fs::read_to_string(folder.join("costs.json")).unwrap();
    let found: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(all_values(&found, "changes", "candidate"), ["slow", "fast"]);
}

/// The seventh run waits for a file.
const WAITING: &str = "echo >> log\n\
    if [ $(wc -l < log) = 7 ]; then while [ ! -e go ]; do sleep 0.02; done; fi\n";

const PAIR: &str = "[[variant]]\nname = \"old\"\n[[variant]]\nname = \"new\"\n\
    [[group]]\nname = \"nap\"\nkind = \"command\"\n";

/// Starts an experiment whose runs add lines to `log`, and interrupts it in its seventh run.
fn interrupt_in_run_7(project: &TempProject, words: &[&str]) {
    let mut child = project
        .command(words)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let lines =
        || std::fs::read_to_string(project.path("log")).map_or(0, |log| log.lines().count());
    while lines() < 7 {
        assert!(Instant::now() < deadline, "the seventh run never began");
        std::thread::sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn resuming_an_experiment_grants_the_full_budget_again() {
    // The first six are quick, so that the seventh starts in time on any machine.
    let script = "echo >> log\n[ $(wc -l < log) -lt 7 ] || sleep 0.2\n";
    let file = format!("{PAIR}target.command = [\"sh\", \"nap.sh\"]\n[plan]\nruns = 100\n");
    let project = TempProject::new().with("nap.sh", script).with("nap.toml", &file);
    interrupt_in_run_7(&project, &["run", "nap.toml", "--budget=6s"]);
    project.run(&["run", "--resume", "@latest"]).expect_status(0);
    // All 200 would take nearly 40 seconds.
    let runs = runs(&project).len();
    assert!((8..200).contains(&runs), "{runs} runs");
}

#[test]
fn an_interrupted_experiment_can_be_completed() {
    let file = format!("{PAIR}target.command = [\"sh\", \"wait.sh\"]\n");
    let project = TempProject::new().with("wait.sh", WAITING).with("nap.toml", &file);
    interrupt_in_run_7(&project, &["run", "nap.toml", "--runs=8"]);
    assert_eq!(runs(&project).len(), 6, "the one that was interrupted does not count");
    let project = project.with("go", "");
    let answer = project.run(&["run", "--resume", "@latest", "--format=json"]);
    let found = data(&answer.expect_status(0));
    assert_eq!(found["changes"][0]["baseline_runs"], 8);
    let slots: BTreeSet<u64> = runs(&project).into_iter().map(|run| run.0).collect();
    assert_eq!(slots, (0..16).collect());
}

#[test]
fn a_budget_ends_measuring_after_whole_blocks() {
    let project = TempProject::new().with(
        "nap.toml",
        &format!("{PAIR}target.command = [\"sleep\", \"0.2\"]\n[plan]\nruns = 50\n"),
    );
    project.run(&["run", "nap.toml", "--budget=1s"]).expect_status(0);
    let runs = runs(&project);
    // 100 runs would take 20 seconds.
    assert!((4..100).contains(&runs.len()), "{} runs", runs.len());
    for block in runs.iter().map(|run| run.1) {
        let of_block = |name: &str| {
            let own = runs.iter().filter(|run| run.1 == block && run.2 == name);
            own.count()
        };
        assert_eq!((of_block("old"), of_block("new")), (2, 2), "block {block}");
    }
}
