//! The order of runs that Speedwell chooses or the project file requests, and its consequences.

use super::project::TempProject;
use serde_json::Value;

const FAKE: &str = "case k=1\n\
    old 7,cpu_time=100 7,cpu_time=200 7,cpu_time=150\n\
    new 9,cpu_time=103 9,cpu_time=206 9,cpu_time=154.6\n";

const COMPARE: [&str; 8] =
    ["run", "g/pairs.fake", "--variant", "old=true", "--variant", "new=true", "--format", "json"];

fn project() -> TempProject {
    TempProject::new().with("g/pairs.fake", FAKE)
}

fn design(found: &Value) -> &Value {
    &found["sources"][0]["design"]
}

#[test]
fn the_reason_for_blocks_is_stored_and_shown() {
    let project = project();
    let reasons: [(&[&str], &str); 5] = [
        (&["--fail-on", "worse"], "--fail-on"),
        (&["--metric", "cpu_time"], "--metric"),
        (&["--clock", "wall"], "--clock wall"),
        (&["--reject", "steal>1%"], "--reject"),
        // Fake results come from no process.
        (&[], "the CPU use of 'g/pairs.fake k=1' is unknown"),
    ];
    for (options, reason) in reasons {
        let words = [&COMPARE[..], &["--order", "auto", "-r", "8"], options].concat();
        let found = project.run(&words).json();
        let choice = &design(&found)["order_choice"];
        assert_eq!(choice["requested"], "auto", "{choice}");
        assert_eq!(choice["reason"], reason);
        assert_eq!(
            (&design(&found)["order"], &choice["clock"]),
            (&"blocks".into(), &"wall".into())
        );
        assert!(found["sources"][0]["compared_metric"].is_string());
    }
    let report = project.run(&["report"]).expect_status(0);
    report.expect_stdout(&["order: blocks by wall time (the CPU use of"]);
}

#[test]
fn commands_that_sleep_are_compared_by_wall_time() {
    let eval = ["eval", "sh", "sleep 0.2", "sleep 0.21", "--order", "auto"];
    let sampling = ["-r", "2", "-n", "1", "--iterations=1", "-w", "0", "--format", "json"];
    let found = TempProject::new().run(&[&eval[..], &sampling].concat()).expect_status(0).json();
    let choice = &design(&found)["order_choice"];
    assert_eq!((&design(&found)["order"], &choice["clock"]), (&"blocks".into(), &"wall".into()));
}

#[test]
fn a_program_that_cannot_start_is_found_by_the_trial() {
    let words = ["eval", "sh", "true", "no-such-program-x", "--order", "auto"];
    let answer = TempProject::new().run(&words).expect_status(2);
    answer.expect_stderr(&["no-such-program-x"]);
}

#[test]
fn the_project_file_requests_an_order_for_comparisons() {
    let project = project().with("speedwell.toml", "order = \"paired\"\n");
    let order = |options: &[&str]| {
        let found = project.run(&[&COMPARE[..], options].concat()).json();
        design(&found)["order"].as_str().unwrap().to_owned()
    };
    assert_eq!(order(&[]), "paired");
    assert_eq!(order(&["--fail-on", "worse"]), "paired", "gates may be paired");
    assert_eq!(order(&["--order", "blocks"]), "blocks");
    assert_eq!(order(&["--metric", "throughput"]), "blocks");
    let one = ["run", "g/pairs.fake", "--variant", "old=true", "--format", "json"];
    assert_eq!(design(&project.run(&one).json())["order"], "blocks", "nothing to pair");
}

#[test]
fn levels_of_pairs_and_blocks_are_not_compared() {
    let project = project();
    for order in ["paired", "blocks"] {
        project.run(&[&COMPARE[..], &["--order", order]].concat()).expect_status(0);
    }
    let refused = project.run(&["compare", "@1", "@2"]).expect_status(2);
    refused.expect_stderr(&["cannot compare levels: @1 was measured in pairs, @2 in blocks"]);
}

#[test]
fn a_complete_session_can_be_repeated_with_new_runs() {
    let project = project();
    project.run(&COMPARE).expect_status(0);
    let again = ["run", "--resume", "@1", "--runs", "10", "--format", "json"];
    let answer = project.run(&again).expect_status(0);
    let found = answer.json();
    assert_eq!(found["sources"][0]["number"], 2);
    assert_eq!(found["changes"][0]["baseline_runs"], 10);
    answer.expect_stderr(&["10 new runs a side, judged without those of @1"]);
}

#[test]
fn an_unclear_end_says_how_to_look_closer() {
    let unclear = ["70 130 85 115 95 105 100 60", "130 85 115 95 105 100 60 70"];
    let clear = ["100 100.7 100.6 100.5 100.4 100.3", "66 66.7 66.6 66.5 66.4 66.3"];
    let rows: [(_, &[&str], bool); 3] =
        [(unclear, &[], true), (unclear, &["-q"], false), (clear, &[], false)];
    for ([old, new], options, is_told) in rows {
        let text = format!("case k=1\nold {old}\nnew {new}\n");
        let project = TempProject::new().with("g/pairs.fake", &text);
        let answer = project.run(&[&COMPARE[..6], options].concat()).expect_status(0);
        let hint = "to look closer: speedwell run --resume @1 --runs 64";
        assert_eq!(answer.stderr.contains(hint), is_told, "{options:?}: {answer:#?}");
    }
}
