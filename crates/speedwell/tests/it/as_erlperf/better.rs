//! Defects of the original, one test for each that is visible from outside.

use super::super::harness_driver::is_missing;
use super::{as_erlperf, command};
use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

#[test]
fn one_sample_is_enough_and_has_no_deviation() {
    if is_missing("erl") {
        return;
    }
    let modes: [&[&str]; 3] = [&["-d", "20"], &["-l", "5"], &["-d", "20", "--cv", "0.1"]];
    for mode in modes {
        let words = [&["timer:sleep(1).", "-s", "1", "-r", "extended"], mode].concat();
        let called = as_erlperf(&words);
        assert_eq!(called.status, 0, "{}", called.stderr);
        let row = called.row("timer:sleep(1).");
        assert_eq!(row[..2], ["1", "1"]);
        assert!(row.contains(&"-"), "{row:?}");
    }
}

#[test]
fn a_runner_slower_than_a_sample_is_timed_correctly() {
    if is_missing("erl") {
        return;
    }
    let called = as_erlperf(&["timer:sleep(700).", "-d", "300", "-s", "2"]);
    let row = called.row("timer:sleep(700).");
    let time: f64 = row[2].parse().unwrap();
    assert_eq!(row[3], "ms");
    // A busy machine wakes up late, never early.
    assert!((699.0..1400.0).contains(&time), "{row:?}");
}

#[test]
fn codes_run_one_after_the_other_unless_parallel_is_requested() {
    if is_missing("erl") {
        return;
    }
    let took = |order: &str| {
        let words = ["timer:sleep(1).", "timer:sleep(2).", "-d", "400", "--order", order];
        let begin = Instant::now();
        let called = as_erlperf(&words);
        assert_eq!(called.status, 0, "{}", called.stderr);
        begin.elapsed()
    };
    assert!(took("blocks") > Duration::from_millis(2400));
    assert!(took("alternate") > Duration::from_millis(2400));
    assert!(took("parallel") > Duration::from_millis(1200));
}

#[test]
fn waiting_for_steady_samples_ends_with_a_warning() {
    if is_missing("erl") {
        return;
    }
    let words = ["timer:sleep(1).", "-d", "10", "--cv", "0.0", "--max-samples", "9"];
    let called = as_erlperf(&words);
    assert_eq!(called.status, 0);
    called.row("timer:sleep(1).");
    assert!(called.stderr.contains("that --cv requires"), "{}", called.stderr);
}

#[test]
fn a_pass_without_completed_iterations_counts() {
    if is_missing("erl") {
        return;
    }
    let called = as_erlperf(&["timer:sleep(100).", "-d", "10", "-q", "--max", "2", "-s", "1"]);
    assert_eq!(called.status, 0, "{}", called.stderr);
    called.row("timer:sleep(100).");
}

#[test]
fn a_forgotten_dot_is_forgiven_and_calls_are_hooks_too() {
    if is_missing("erl") {
        return;
    }
    let called = as_erlperf(&["timer:sleep(1)", "-d", "20"]);
    assert_eq!(called.status, 0, "{}", called.stderr);
    called.row("timer:sleep(1)");
    let words =
        ["r(Node) -> nonode@nohost = Node, timer:sleep(1).", "--init_runner", "{erlang, node, []}"];
    let called = as_erlperf(&[&words[..], &["-d", "20"]].concat());
    assert_eq!(called.status, 0, "{}", called.stderr);
    let nonsense = as_erlperf(&["no_calls.bin"]);
    assert_eq!(nonsense.status, 2);
    let hint = "no file 'no_calls.bin' with recorded calls exists";
    assert!(nonsense.stderr.contains(hint), "{}", nonsense.stderr);
}

#[test]
fn letters_of_any_script_are_code_and_labels() {
    if is_missing("erl") {
        return;
    }
    let code = "timer:sleep(length(\"лямбда\") div 6).";
    let called = as_erlperf(&[code, "ok.", "--label", "лямбда", "-d", "20"]);
    assert_eq!(called.status, 0, "{}", called.stderr);
    called.row("лямбда");
    let called = as_erlperf(&[code, "-d", "20"]);
    called.row(code);
}

#[test]
fn a_runner_that_fails_is_a_row_and_the_others_have_their_figures() {
    if is_missing("erl") {
        return;
    }
    for order in ["blocks", "parallel"] {
        let words = ["erlang:error(boom).", "timer:sleep(1).", "-d", "20", "--order", order];
        let called = as_erlperf(&words);
        assert_eq!(called.status, 2);
        assert_eq!(called.row("erlang:error(boom)."), ["1", "failed", "-", "-"]);
        let sleep = called.row("timer:sleep(1).");
        // On a busy machine a short sleep is a longer one.
        assert!(["us", "ms"].contains(&sleep[3]), "{sleep:?}");
        assert_eq!(sleep[4..], ["100%"]);
        assert!(
            called.stderr.contains("'erlang:error(boom).': the runner failed: boom"),
            "{}",
            called.stderr
        );
    }
}

#[test]
fn a_runner_that_fails_after_a_while_is_reported_as_failed() {
    if is_missing("erl") {
        return;
    }
    let code = "r(_, 5) -> erlang:error(boom); r(_, N) -> timer:sleep(1), N + 1.";
    // The failure ends the run. Samples are this long so that a stall of the machine cannot end it
    // first.
    let called = as_erlperf(&[code, "--init_runner", "0.", "-d", "30000"]);
    assert_eq!(called.status, 2, "{}{}", called.stdout, called.stderr);
    assert_eq!(called.stdout, "");
    assert!(called.stderr.contains("boom"), "{}", called.stderr);
}

#[test]
fn iterations_longer_than_samples_give_fewer_samples_or_fail() {
    if is_missing("erl") {
        return;
    }
    // Stopped after 2.04 s, in its first iteration.
    let words = ["timer:sleep(3000).", "-d", "10", "-s", "2"];
    let called = as_erlperf(&words);
    assert_eq!(called.status, 0, "{}", called.stderr);
    let row = called.row("timer:sleep(3000).");
    assert_eq!(row[0], "1");
    assert!(called.stderr.contains("Only 1 of 2 samples were taken"), "{}", called.stderr);
    // In its warm-up.
    let called = as_erlperf(&[&words[..], &["-w", "1"]].concat());
    assert_eq!((called.status, &*called.stdout), (2, ""));
    assert!(called.stderr.contains("no sample was taken"), "{}", called.stderr);
}

#[test]
fn a_failure_after_measuring_keeps_the_figures_and_exits_with_2() {
    if is_missing("erl") {
        return;
    }
    let called = as_erlperf(&["timer:sleep(1).", "--done", "erlang:error(doneboom).", "-d", "20"]);
    assert_eq!(called.status, 2);
    called.row("timer:sleep(1).");
    assert!(
        called.stderr.contains("exception while executing 'done': error:doneboom"),
        "{}",
        called.stderr
    );
}

#[test]
fn codes_in_machines_of_their_own_have_columns_in_the_monitor() {
    if is_missing("erl") {
        return;
    }
    let words = ["timer:sleep(1).", "timer:sleep(2).", "-i", "-v", "-s", "2"];
    let called = as_erlperf(&words);
    assert_eq!(called.status, 0, "{}", called.stderr);
    assert!(called.stdout.contains("Mem ETS           #1           #2\n"), "{}", called.stdout);
    let lines = called.stdout.lines().filter(|line| line.starts_with("20"));
    assert!(lines.count() >= 1, "{}", called.stdout);
}

#[test]
fn a_fixed_number_of_short_iterations_has_a_positive_time() {
    if is_missing("erl") {
        return;
    }
    let called = as_erlperf(&["ok.", "-l", "3m"]);
    assert_eq!(called.status, 0, "{}", called.stderr);
    let row = called.row("ok.");
    let time = row.iter().position(|cell| *cell == "ns").map(|at| row[at - 1]);
    assert!(time.is_some_and(|time| time.parse::<f64>().unwrap() > 0.0), "{row:?}");
}

#[test]
fn the_cost_of_an_empty_iteration_can_be_subtracted() {
    if is_missing("erl") {
        return;
    }
    let time = |more: &[&str]| -> f64 {
        let words = ["rand:uniform().", "-l", "200k", "-s", "5", "--format", "json"];
        let called = as_erlperf(&[&words[..], more].concat());
        let document: serde_json::Value = serde_json::from_str(&called.stdout).unwrap();
        let text = document.to_string();
        let at = text.find("\"iteration_ns\":").unwrap();
        let digits = text[at + 15..].split([',', '}']).next().unwrap();
        digits.parse().unwrap()
    };
    // Both are positive; which one is smaller is within the noise of a busy machine.
    assert!(time(&[]) > 1.0 && time(&["--subtract-empty"]) > 0.0);
}

#[test]
fn csv_output_has_codes_and_exact_figures() {
    if is_missing("erl") {
        return;
    }
    let words = ["timer:sleep(1).", "erlang:error(x).", "-d", "20", "--format", "csv"];
    let called = as_erlperf(&words);
    assert_eq!(called.status, 2);
    let rows: Vec<Vec<&str>> = called.stdout.lines().map(|row| row.split(',').collect()).collect();
    assert_eq!(rows[0][..4], ["code", "workers", "samples", "average"]);
    assert_eq!(rows[1][..3], ["timer:sleep(1).", "1", "3"]);
    assert!(rows[1][3].parse::<f64>().unwrap() > 0.0);
    assert_eq!(rows[2][..4], ["erlang:error(x).", "1", "0", ""]);
}

#[test]
fn ctrl_c_ends_the_measurement_with_status_130() {
    if is_missing("erl") {
        return;
    }
    let mut child = command(&["timer:sleep(1).", "-v", "-s", "600"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The first line of the monitor comes when a sample is nearly over.
    lines.find(|line| line.as_ref().unwrap().starts_with("20")).unwrap().unwrap();
    let killed =
        std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.unwrap().success());
    let begin = Instant::now();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(begin.elapsed() < Duration::from_secs(120));
}

#[test]
fn a_missing_erlang_installation_is_reported() {
    let called = command(&["ok."]).env("PATH", "/nowhere").output().unwrap();
    assert_eq!(called.status.code(), Some(2));
    let told = String::from_utf8(called.stderr).unwrap();
    assert!(told.contains("erl"), "{told}");
    assert!(called.stdout.is_empty());
}

#[test]
fn the_native_command_prints_the_same_tables_on_request() {
    if is_missing("erl") {
        return;
    }
    let store = tempfile::tempdir().unwrap();
    let eval = |codes: &[&str], style: &str| {
        let mut native = std::process::Command::new(env!("CARGO_BIN_EXE_speedwell"));
        native.args(["eval", "erlang"]).args(codes);
        native.args(["--runs", "1", "-n", "2", "-t", "20ms", "-w", "0", "--style", style]);
        native.arg("--db").arg(store.path().join("store"));
        super::ErlperfCall::from(native.output().unwrap())
    };
    let basic = eval(&["timer:sleep(1).", "timer:sleep(2)."], "erlperf");
    assert_eq!(basic.status, 0, "{}", basic.stderr);
    assert!(
        basic.stdout.starts_with("Code                    ||        QPS       Time   Rel\n"),
        "{}",
        basic.stdout
    );
    basic.row("timer:sleep(1).");
    basic.row("timer:sleep(2).");
    assert!(basic.stdout.lines().nth(1).unwrap().ends_with(" 100%"));
    let eval = |style: &str| eval(&["timer:sleep(1)."], style);
    let full = eval("erlperf-full");
    assert!(full.stdout.starts_with("OS : Linux\n"), "{}", full.stdout);
    assert_eq!(eval("erlperf-extended").stdout.lines().next(), full.stdout.lines().nth(4));
    assert_eq!(eval("other").status, 2);
}

#[test]
fn late_samples_cause_the_timer_warning_of_the_original() {
    if is_missing("erl") {
        return;
    }
    // An iteration takes a millisecond, except for every hundredth, which takes 600.
    let code = "r(S, N) when is_integer(N), N rem 100 =:= 99 -> timer:sleep(600), 0; \
                r(S, N) when is_integer(N) -> timer:sleep(1), N + 1; r(_, _) -> 0.";
    let called = as_erlperf(&[code, "--init_runner", "0.", "-d", "100", "-s", "12", "-r", "basic"]);
    assert_eq!(called.status, 0, "{}", called.stderr);
    let first = called.stdout.lines().next();
    let warning = "Timer accuracy problem detected, results may be inaccurate";
    assert_eq!(first, Some(warning), "{}", called.stdout);
    for part in ["A sample ended ", " late, although samples should take only 100 ms", "lcnt"] {
        assert!(called.stderr.contains(part), "{part}: {}", called.stderr);
    }
    // Each iteration takes as long as it is late.
    let slow = as_erlperf(&["timer:sleep(300).", "-d", "100", "-s", "2"]);
    assert!(!slow.stdout.contains(warning), "{}", slow.stdout);
}

/// Other load on the machine would change the results.
mod measures {
    use super::*;

    #[test]
    fn a_search_lists_its_passes_and_the_best_result() {
        if is_missing("erl") {
            return;
        }
        let words = [
            "r(C) -> N = counters:get(C,1), timer:sleep(20*N*N).",
            "--init",
            "counters:new(1,[]).",
            "--init_runner",
            "ir(C) -> counters:add(C,1,1), C.",
            "-q",
            "--max",
            "2",
            "-d",
            "200",
        ];
        let called = as_erlperf(&words);
        assert_eq!(called.status, 0, "{}", called.stderr);
        // The throughput per worker count depends on the machine; the row shows the best.
        let done = |pass: &str| -> f64 {
            let line = called.stderr.lines().find_map(|l| l.strip_prefix(pass));
            let figure = line.and_then(|rest| rest.split_whitespace().next());
            let figure = figure.unwrap_or_else(|| panic!("{pass}: {}", called.stderr));
            figure.parse().unwrap()
        };
        let (one, two) = (done("erlperf: 1 worker: "), done("erlperf: 2 workers: "));
        let row = called.stdout.lines().nth(1).unwrap();
        let best = row[50..].split_whitespace().next();
        let is_best = match best {
            Some("1") => one > 0.8 * two,
            Some("2") => two > 0.8 * one,
            _ => false,
        };
        assert!(is_best, "{one} and {two}: {row}");
        let exported = as_erlperf(&[&words[..], &["--format", "json"]].concat());
        assert!(exported.stdout.contains("\"passes\""), "{}", exported.stdout);
    }
}

mod mostly_waits {
    use super::*;

    #[test]
    fn workers_that_slow_each_other_down_cause_a_hint_to_lcnt() {
        if is_missing("erl") {
            return;
        }
        // Two workers together do a quarter of what one does.
        let words = [
            "r(C) -> N = counters:get(C,1), timer:sleep(20*N*N*N).",
            "--init",
            "counters:new(1,[]).",
            "--init_runner",
            "ir(C) -> counters:add(C,1,1), C.",
            "-q",
            "--max",
            "2",
            "-d",
            "400",
        ];
        let called = as_erlperf(&words);
        assert_eq!(called.status, 0, "{}", called.stderr);
        let hint = "Workers hinder each other: 2 of them achieve less throughput than one alone. lcnt names the lock that they wait for";
        assert!(called.stderr.contains(hint), "{}", called.stderr);
    }
}
