//! Node.js scripts that misbehave in every way seen in practice: each leaves a clear record, the
//! other cases continue, the exit status reports it, and no process is left.

use super::project::{CommandResult, TempProject, node, repository};

/// Runs one of the fixtures, driven like Node core scripts.
fn fixture(name: &str, more: &[&str]) -> Option<(TempProject, CommandResult)> {
    node()?;
    let file =
        repository().join(format!("crates/adapters/languages/node/test/fixtures/zz/{name}.js"));
    let project = TempProject::new();
    let answer = project.run(&[&["run", file.to_str().unwrap(), "--runs", "1"], more].concat());
    Some((project, answer))
}

fn fails_with(name: &str, texts: &[&str]) {
    if let Some((_, answer)) = fixture(name, &[]) {
        answer.expect_status(2).expect_stdout(texts);
    }
}

fn is_refused_with(name: &str, texts: &[&str]) {
    if let Some((_, answer)) = fixture(name, &[]) {
        answer.expect_status(2).expect_stderr(texts);
    }
}

#[test]
fn a_killed_case_is_a_failure_and_the_others_are_measured() {
    // The original counts a child killed by a signal as a success and omits its row.
    let Some((_, answer)) = fixture("kill", &[]) else {
        return;
    };
    let answer = answer.expect_status(2);
    answer.expect_stdout(&["a=0", "a=2", "signal 9", "NODE_RUN_BENCHMARK_FN="]);
}

#[test]
fn a_script_that_reports_nothing_is_a_failure() {
    fails_with("noend", &["reported nothing"]);
}

#[test]
fn misuse_of_start_and_end_gives_the_original_messages() {
    fails_with("endnostart", &["called end without start"]);
    fails_with("starttwice", &["Called start more than once in a single benchmark"]);
    fails_with("zero", &["called end() with operation count <= 0"]);
    fails_with("noops", &["called end() without specifying operation count"]);
}

#[test]
fn a_sample_before_a_failure_is_kept_and_marked() {
    let Some((project, answer)) = fixture("endtwice", &[]) else {
        return;
    };
    answer.expect_status(2).expect_stdout(&["called end multiple times"]);
    let kept = project.run(&["report", "--export", "jsonl"]);
    kept.expect_stdout(&["exited with status 1 after reporting this value"]);
}

#[test]
fn files_that_cannot_be_described_are_refused_with_the_reason() {
    is_refused_with("typecfg", &["configuration \"n\" had type object"]);
    is_refused_with("mixed", &["configuration \"n\" has mixed types"]);
    is_refused_with("filternb", &["Combination filter must always return a boolean"]);
    is_refused_with("throwtop", &["Error: top"]);
}

#[test]
fn a_filter_that_leaves_nothing_is_a_warning() {
    let Some((_, answer)) = fixture("filternone", &[]) else {
        return;
    };
    answer.expect_status(0).expect_stderr(&["no cases"]);
}

#[test]
fn the_exit_status_of_a_case_is_kept() {
    fails_with("exit3", &["exited with status 3"]);
}

#[test]
fn values_with_special_characters_are_exported_intact() {
    let Some((project, answer)) = fixture("scalar", &[]) else {
        return;
    };
    answer.expect_status(0);
    let csv = project.run(&["report", "--export", "node-csv"]).expect_status(0).stdout;
    // One variant gives the file format of run.js, whose values are JSON texts.
    for configuration in [
        r#""q=""a\""b"" s=""x y"" n=5""#,
        r#""q=""c,d"" s=""x y"" n=5""#,
        r#""q=""e'f"" s=""x y"" n=5""#,
        r#""q=""g\nh"" s=""x y"" n=5""#,
        r#""q=""é😀"" s=""x y"" n=5""#,
    ] {
        assert!(csv.contains(configuration), "no {configuration} in {csv}");
    }
}

#[test]
fn the_processor_time_of_a_script_includes_its_whole_process() {
    let Some((_, answer)) = fixture("scalar", &["--metric", "cpu_time", "--format", "json"]) else {
        return;
    };
    let json = answer.expect_status(0).json();
    let summary = &json["summaries"][0];
    assert_eq!((&summary["metric"], &summary["unit"]), (&"cpu_time".into(), &"ns".into()));
    // No Node.js process starts within a millisecond.
    assert!(summary["median"].as_f64().unwrap() > 1e6, "{json}");
}

#[test]
fn chatter_on_stdout_does_not_reach_the_data() {
    let Some((project, answer)) = fixture("chatter", &[]) else {
        return;
    };
    let answer = answer.expect_status(0);
    let stored = project.run(&["report", "--export", "jsonl"]);
    let stored = stored.expect_status(0);
    for text in [&answer.stdout, &stored.stdout] {
        assert!(!text.contains("noise"), "{text}");
    }
}

#[test]
fn a_hanging_case_ends_at_its_limit() {
    let Some((_, answer)) = fixture("hang", &["--timeout", "700ms"]) else {
        return;
    };
    answer.expect_status(2).expect_stdout(&["timeout"]);
}
