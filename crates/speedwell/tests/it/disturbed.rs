//! Disturbed runs by kernel counters, from the command line.

use super::project::{CommandResult, TempProject};
use serde_json::Value;

/// Either side is preempted now and then, and slower when it is.
const NOW_AND_THEN: &str = "case k=1\n\
    old 100~10 80~90|101~3 102~20 99~0 101~8 100~10 99~7 102~1\n\
    new 110~10 111~3 110~4 70~99|85~70|109~5 110~6 111~2 109~9 110~0\n";

/// Only one side is preempted, repeatedly.
const ONE_SIDE: &str = "case k=1\nold 100~10 101~4\nnew 110~80|90~80|95~80 111~80|112~0\n";

const RULE: &str = "involuntary>50/s";

fn project(text: &str) -> TempProject {
    TempProject::new().with("g/x.fake", text)
}

fn measure(project: &TempProject, words: &[&str]) -> CommandResult {
    let mut all = vec!["run", "g/x.fake", "--runs", "8", "--variant", "old=true", "--variant"];
    all.push("new=true");
    all.extend(words);
    project.run(&all)
}

/// The runs of the last session, as exported.
fn runs(project: &TempProject) -> Vec<Value> {
    let exported = project.run(&["report", "@latest", "--export", "jsonl"]);
    let lines = exported.expect_status(0).stdout;
    let lines = lines.lines().map(|line| serde_json::from_str(line).unwrap());
    let runs = lines.filter_map(|mut line: Value| line.as_object_mut()?.remove("run"));
    runs.filter(|run| run.is_object()).collect()
}

#[test]
fn a_disturbed_run_is_kept_marked_and_repeated_in_its_block() {
    let project = project(NOW_AND_THEN);
    let found = measure(&project, &["--reject", RULE, "--format", "json"]).expect_status(0).json();
    let change = &found["changes"][0];
    let values = |side: &str| {
        let mut values: Vec<f64> = serde_json::from_value(change[side].clone()).unwrap();
        values.sort_by(f64::total_cmp);
        values
    };
    assert_eq!(values("baseline_values"), [99.0, 99.0, 100.0, 100.0, 101.0, 101.0, 102.0, 102.0]);
    assert_eq!(
        values("candidate_values"),
        [109.0, 109.0, 110.0, 110.0, 110.0, 110.0, 111.0, 111.0]
    );
    assert_eq!(change["verdict"], "better");
    assert_eq!(
        (&change["baseline_disturbed"], &change["candidate_disturbed"]),
        (&0.125.into(), &0.125.into())
    );
    assert_eq!(found["sources"][0]["design"]["reject"], RULE);

    let runs = runs(&project);
    let marked: Vec<u64> = runs
        .iter()
        .filter(|run| run["rejected_by"] == RULE)
        .map(|run| run["usage"]["involuntary_switches"].as_u64().unwrap())
        .collect();
    assert_eq!((runs.len(), marked.len()), (19, 3), "16 runs and three repetitions");
    assert!(marked.iter().all(|&switches| switches > 50));
    let blocks: Vec<u64> = runs.iter().map(|run| run["block"].as_u64().unwrap()).collect();
    assert!(blocks.is_sorted(), "repetitions belong to the end of their block: {blocks:?}");
}

#[test]
fn a_side_that_is_disturbed_more_often_keeps_its_runs() {
    let found = measure(&project(ONE_SIDE), &["--reject", RULE, "--format", "json"]).json();
    let change = &found["changes"][0];
    let notes = change["notes"].as_str().unwrap();
    assert!(
        notes.contains("'new' was disturbed more often (in 100% of its runs, against 0%)"),
        "{notes}"
    );
    assert_eq!(
        change["candidate_values"],
        serde_json::json!([110, 111, 110, 111, 110, 111, 110, 111])
    );
}

#[test]
fn a_machine_that_disturbs_most_runs_is_too_busy() {
    let busy = "case k=1\nold 100~80 101~80\nnew 110~80 111~80\n";
    let answer = measure(&project(busy), &["--reject", RULE, "--format", "json"]);
    let found = answer.expect_status(1).json();
    let warnings = found["warnings"].to_string();
    assert!(
        warnings.contains("100% of the runs") && warnings.contains("the machine is too busy"),
        "{warnings}"
    );
}

#[test]
fn without_a_rule_nothing_is_repeated_and_many_disturbed_runs_are_shown() {
    let often = project(ONE_SIDE);
    let answer = measure(&often, &["-v"]).expect_status(0);
    answer.expect_stdout(&["disturbed", " 0% | 100%"]);
    assert_eq!(runs(&often).len(), 16);
    let calm = measure(&project("case k=1\nold 100~10\nnew 110~10\n"), &["-v"]);
    let calm = calm.expect_status(0);
    assert!(!calm.stdout.contains("disturbed"), "{}", calm.stdout);
}

#[test]
fn rules_that_make_no_sense_are_refused_with_the_reason() {
    let project = project(ONE_SIDE);
    for (words, reason) in [
        (&["--reject", "time>3"][..], "'time', which is a measured"),
        (&["--reject", "wait>5%"], "a fraction of the measured time"),
        (&["--reject", "stael>1%"], "did you mean 'steal'?"),
        (&["--reject", RULE, "--order", "alternate"], "requires '--order blocks'"),
    ] {
        let refused = measure(&project, words);
        refused.expect_status(2).expect_stderr(&[reason]);
    }
}

#[test]
fn kernel_statistics_of_a_process_are_recorded_with_its_run() {
    let project = TempProject::new();
    let words = ["eval", "sh", "true", "-r", "2", "-n", "1", "-t", "10ms", "--format", "json"];
    project.run(&words).expect_status(0);
    let run = &runs(&project)[0];
    for figure in ["voluntary_switches", "minor_faults", "major_faults"] {
        assert!(run["usage"][figure].is_u64(), "{run}");
    }
    assert!(run["kernel_stats"]["load"].is_number(), "{run}");
}

#[test]
fn a_calibration_says_how_many_runs_each_rule_would_reject() {
    let project = project("case k=1\na 100~80 101~3 102~4 99~51\nb 101~2 100~90 99~7 102~8\n");
    let words = ["doctor", "--calibrate", "g/x.fake", "--runs", "8", "--comparisons", "2"];
    project.run(&words).expect_status(0).expect_stdout(&[
        "Fraction of these runs that --reject would discard:",
        "involuntary>50/s 38%",
    ]);
    let refused = project.run(&[&words[..], &["--reject", RULE]].concat());
    refused.expect_status(2);
}
