//! Gates of every command: exit status and line. The table is in docs/reference/gates.md; its cells
//! are tested in `analysis/src/tests/gates.rs`.

use super::project::{CommandResult, TempProject};
use super::run::TWO_CASES;
use std::fmt::Write as _;

const OLD_NEW: [&str; 4] = ["--variant", "old=", "--variant", "new="];

/// The second variant has a third less throughput in both cases.
fn slower_cases() -> String {
    let values = |level: f64| -> String {
        let value = |at: u32| format!(" {}", level + f64::from(at * 7 % 8) / 10.0);
        (0..8).map(value).collect()
    };
    let case = |size: u32| {
        let (old, new) = (values(100.0), values(66.0));
        format!("case len={size}\nold{old}\nnew{new}\n")
    };
    case(16) + &case(1024)
}

/// A file of `go test`: this many lines of one benchmark, with these figures after the time.
fn go_output(runs: u32, figures: &str) -> String {
    let mut text = "pkg: example.com/words\n".to_owned();
    for at in 0..runs {
        let time = 100 + at * 7 % 5;
        let _ = writeln!(text, "BenchmarkJoin-2 1000 {time} ns/op {figures}");
    }
    text
}

fn words<'a>(parts: &[&[&'a str]]) -> Vec<&'a str> {
    parts.concat()
}

fn compare(old: &str, new: &str, more: &[&str]) -> CommandResult {
    let project = TempProject::new().with("old.txt", old).with("new.txt", new);
    project.run(&words(&[&["compare", "old.txt", "new.txt"], more]))
}

const WORSE: [&str; 2] = ["--fail-on", "worse"];

#[test]
fn a_gate_with_one_variant_is_refused_before_anything_is_measured() {
    let project = TempProject::new().with("g/a.fake", TWO_CASES);
    let refused = project.run(&["run", "g", "--fail-on", "worse"]).expect_status(2);
    refused.expect_stderr(&["could never fail", "there is only one variant", "hint: "]);
    let refused = project.run(&["eval", "sh", ":", "--fail-on", "worse"]).expect_status(2);
    refused.expect_stderr(&["could never fail"]);
    assert_eq!(project.stored_runs(), 0);
}

#[test]
fn a_gate_with_too_few_runs_is_refused_before_anything_is_measured() {
    let project = TempProject::new().with("g/a.fake", TWO_CASES);
    let refused = project.run(&words(&[&["run", "g", "--runs", "2"], &OLD_NEW, &WORSE]));
    refused.expect_status(2).expect_stderr(&["could never fail", "hint: --runs"]);
    assert_eq!(project.stored_runs(), 0);
}

#[test]
fn a_stored_session_that_is_worse_fails_the_gate_of_its_report() {
    let project = TempProject::new().with("g/a.fake", &slower_cases());
    let run = project.run(&words(&[&["run", "g"], &OLD_NEW, &WORSE]));
    let line = "gate failed: 2 worse ('g/a.fake len=1024' and 'g/a.fake len=16') of 2 cases by";
    run.expect_status(1).expect_stdout(&[line]);
    let report = project.run(&words(&[&["report", "@latest"], &WORSE]));
    report.expect_status(1).expect_stdout(&[line]);
    // Without a gate of its own, a report shows the one of the measurement.
    project.run(&["report", "@latest"]).expect_status(0).expect_stdout(&[line]);
    for (option, printed) in
        [("-q", [1, 0]), ("--format=markdown", [1, 0]), ("--format=csv", [0, 1])]
    {
        let told = project.run(&words(&[&["report", "@latest", option], &WORSE]));
        let lines = [&told.stdout, &told.stderr].map(|text| text.matches("gate failed").count());
        assert_eq!(lines, printed, "{option}: {told:#?}");
    }
}

#[test]
fn the_gate_is_the_first_line_of_a_comparison() {
    let project = TempProject::new().with("g/a.fake", &slower_cases());
    let run = project.run(&words(&[&["run", "g"], &OLD_NEW, &WORSE]));
    assert!(run.stdout.starts_with("gate failed: 2 worse"), "{run:#?}");
    for (options, start) in [
        (&["report", "@1"][..], "gate failed: 2 worse"),
        (&["compare", "@1"], "gate failed: 2 worse"),
        (&["compare", "@1", "--format=markdown"], "**gate failed: 2 worse"),
    ] {
        let told = project.run(&words(&[options, &WORSE])).expect_status(1);
        assert!(told.stdout.starts_with(start), "{options:?}: {told:#?}");
    }
    let later = project.run(&["report", "@1", "--format=markdown"]).expect_status(0);
    assert!(later.stdout.starts_with("**gate failed: 2 worse"), "{later:#?}");
    for (options, status) in [
        (words(&[&["compare", "@1", "-o", "page.html"], &WORSE]), 1),
        (vec!["report", "@1", "-o", "page.html"], 0),
    ] {
        project.run(&options).expect_status(status);
        let page = std::fs::read_to_string(project.path("page.html")).unwrap();
        let [gate, title] =
            ["<b>gate failed: 2 worse", "<h1 class=\"bad\">"].map(|text| page.find(text).unwrap());
        assert!(gate < title, "{page}");
    }
}

#[test]
fn one_allocation_instead_of_none_fails_the_gate() {
    let (old, new) = (go_output(12, "0 B/op 0 allocs/op"), go_output(12, "8 B/op 1 allocs/op"));
    let by_allocs = words(&[&["--metric", "allocs_per_op"], &WORSE]);
    let found = compare(&old, &new, &by_allocs).expect_status(1);
    found.expect_stdout(&["0 -> 1", "worse", "gate failed: 1 worse"]);
    let passed = compare(&old, &new, &WORSE).expect_status(0);
    passed.expect_stdout(&[
        "gate passed: 1 case by time; bytes_per_op and allocs_per_op differ but are not in the gate",
    ]);
}

#[test]
fn twelve_runs_against_seven_are_judged_and_one_against_one_is_not() {
    let one = compare(&go_output(1, ""), &go_output(1, ""), &WORSE).expect_status(2);
    one.expect_stdout(&["gate cannot judge: ", "too few runs in 1 case"]);
    compare(&go_output(12, "5 B/op"), &go_output(7, "5 B/op"), &WORSE).expect_status(0);
    let fewer = compare(
        &go_output(6, "5 B/op"),
        &go_output(6, "9 B/op"),
        &["--metric", "bytes_per_op", "--fail-on", "worse"],
    );
    fewer.expect_status(1);
}

#[test]
fn exact_sizes_that_differ_keep_all_their_digits() {
    let by_size = ["--metric", "bytes_per_op", "--fail-on", "worse"];
    let found = compare(&go_output(6, "9304 B/op"), &go_output(6, "9312 B/op"), &by_size);
    found.expect_stdout(&["bytes_per_op in B", "9,304", "9,312"]);
}

#[test]
fn a_unit_without_a_known_direction_has_no_verdict_until_one_is_given() {
    let (old, new) =
        (go_output(12, "5 misses/s 7 rows/second"), go_output(12, "9 misses/s 3 rows/second"));
    let misses = words(&[&["--metric", "misses/s"], &WORSE]);
    let open = compare(&old, &new, &misses).expect_status(2);
    let open = open.expect_stdout(&["≠ differs", "gate cannot judge"]);
    let told = open.stdout + &open.stderr;
    assert_eq!(told.matches("whether more or less of 'misses/s'").count(), 1, "{told}");
    let said = words(&[&misses, &["--better", "misses/s=lower"]]);
    compare(&old, &new, &said).expect_status(1);
    let said = words(&[&misses, &["--better", "misses/s=higher"]]);
    compare(&old, &new, &said).expect_status(0);
    let rows = words(&[&["--metric", "rows/second"], &WORSE]);
    compare(&old, &new, &rows).expect_status(1);
    let wrong = compare(&old, &new, &["--better", "misses/s"]).expect_status(2);
    wrong.expect_stderr(&["expected METRIC=higher or METRIC=lower"]);
}

#[test]
fn metrics_and_cases_missing_on_one_side_are_reported() {
    let (old, new) = (go_output(12, "5 B/op"), go_output(12, ""));
    let all = words(&[&["--metric", "all"], &WORSE]);
    let lacks = compare(&old, &new, &all).expect_status(2);
    lacks.expect_stdout(&["gate cannot judge: ", "has no metric 'bytes_per_op'"]);
    let unknown =
        compare(&old, &old.replace("100 ns", "101 ns"), &words(&[&["--metric", "tiem"], &WORSE]));
    unknown.expect_status(2);
    let more = format!("{old}{}", go_output(12, "5 B/op").replace("Join", "Split"));
    let without = compare(&more, &old.replace("100 ns", "101 ns"), &WORSE).expect_status(0);
    without.expect_stdout(&["gate passed: 1 case by time; 1 only in the baseline"]);
    let unclear = ["--fail-on", "unclear"];
    compare(&more, &old.replace("100 ns", "101 ns"), &unclear).expect_status(1);
}

#[test]
fn the_gate_cannot_judge_two_copies_of_the_same_results() {
    let file = go_output(12, "5 B/op");
    let same = compare(&file, &file, &WORSE).expect_status(2);
    same.expect_stdout(&["contain the same results"]);
    compare(&file, &file, &[]).expect_status(0);
}

#[test]
fn a_failed_side_is_reported_as_failed() {
    let text = "case n=1\nold 100 101 99 100.5\nnew exit:3 exit:3\n";
    let project = TempProject::new().with("g/a.fake", text);
    let failed = project.run(&words(&[&["run", "g", "--runs", "8"], &OLD_NEW, &WORSE]));
    let failed = failed.expect_status(2);
    assert!(!failed.stdout.contains("in common"), "{failed:#?}");
    failed.expect_stdout(&["new failed", "gate cannot judge"]);
    let again = project.run(&["compare", "@latest"]).expect_status(2);
    assert!(!again.stderr.contains("no case has results"), "{again:#?}");
}

#[test]
fn a_load_refuses_a_percentile_that_its_requests_cannot_show() {
    let project = TempProject::new();
    let words = ["load", "http://127.0.0.1:9/", "-n", "5", "--fail-on", "p99.99>1s"];
    let refused = project.run(&words).expect_status(2);
    refused.expect_stderr(&[
        "cannot be evaluated: 5 requests are too few",
        "hint: use -n 10000 or more",
    ]);
}

#[test]
fn confirm_refuses_the_fail_on_option() {
    let project = TempProject::new();
    let refused = project.run(&["confirm", "1", "--fail-on", "worse"]).expect_status(2);
    refused.expect_stderr(&["a confirmation is a gate itself"]);
}
