//! Output of `speedwell eval`: plausible figures, names, lines that repeat a failure, and what `-q`
//! leaves.

use super::harness_driver::find_tool;
use super::project::TempProject;

#[test]
fn commands_that_cost_no_more_than_the_shell_have_times_and_are_compared() {
    let project = TempProject::new();
    let words = ["eval", "sh", "true", "echo $((1+2))", "-r2", "--iterations=2", "-n1", "-w0"];
    let answer = project.run(&[&words[..], &["--format", "json"]].concat()).expect_status(0);
    let found = answer.json();
    for (at, name) in ["true", "echo $((1+2))"].into_iter().enumerate() {
        let code = &found["codes"][at];
        assert_eq!(code["code"], name);
        // Both were executed by the shell, whose time is included.
        for figure in ["time_median_ns", "time_p5_ns", "shell_ns", "user_ns", "system_ns"] {
            let value = code[figure].as_f64().unwrap();
            assert!(
                value > 0.0 || figure.starts_with("user") || figure.starts_with("system"),
                "{code}"
            );
        }
        let disturbance = code["disturbance"].as_f64().unwrap();
        assert!(disturbance.is_finite() && disturbance > 0.0, "{code}");
    }
    let text = project.run(&["report"]).expect_status(0).stdout;
    assert!(!text.contains("inf") && !text.contains("no logarithm"), "{text}");
}

#[test]
fn the_command_to_repeat_a_failed_run_includes_its_time_limit() {
    let project = TempProject::new();
    let words = ["eval", "sh", "exit 3", "--runs", "1", "--timeout", "3s"];
    let answer = project.run(&words).expect_status(2);
    answer.expect_stdout(&["speedwell time 'exit 3' --runs 1 --timeout 3s", "1 of 1 run failed."]);
}

#[test]
fn a_session_is_resumed_without_its_code() {
    let project = TempProject::new();
    let words = ["eval", "sh", "true", "--runs", "2", "--iterations=1", "-n", "1", "-w", "0"];
    project.run(&words).expect_status(0);
    // The session is found and its plan is read; nothing is left to do.
    let resumed = project.run(&["eval", "--resume", "@latest"]);
    resumed.expect_status(2).expect_stderr(&["session @1 is complete"]);
    let twice = project.run(&["eval", "sh", "true", "--resume", "@latest"]);
    twice.expect_status(2).expect_stderr(&["cannot be used with"]);
    project.run(&["eval"]).expect_status(2);
}

#[test]
fn multiline_snippets_are_named_in_one_line_and_quiet_prints_one_line() {
    let project = TempProject::new();
    let words = ["eval", "sh", "true\ntrue", "--runs", "1", "--iterations=1", "-n", "1", "-w", "0"];
    let answer = project.run(&words).expect_status(0);
    // What comes before the sentence depends on how long it took.
    for begin in ["true true: ", "true true "] {
        let is_there = answer.stdout.lines().any(|line| line.starts_with(begin));
        assert!(is_there, "no line begins with {begin:?} in {answer:#?}");
    }
    let quiet = project.run(&[&words[..], &["-q"]].concat()).expect_status(0);
    let lines: Vec<&str> = quiet.stdout.trim().lines().collect();
    assert!(lines.len() == 1 && lines[0].starts_with("true true: "), "{quiet:#?}");
    // A busy machine still causes a warning.
    assert!(quiet.stderr.lines().all(|l| l.starts_with("warning: ")), "{quiet:#?}");
}

#[test]
fn only_code_that_a_compiler_can_leave_out_is_called_folded() {
    for (program, code, is_folded) in [
        (
            "python3",
            &["python", "lambda s, previous: previous + 1", "--init-worker", "0"][..],
            false,
        ),
        ("python3", &["python", "2 ** 10"], true),
        ("node", &["node", "state.n++", "--init-worker", "({ n: 0 })"], false),
        ("node", &["node", "Math.sqrt(2)"], true),
    ] {
        if find_tool(&[program]).is_none() {
            continue;
        }
        let short = ["--runs", "1", "-n", "2", "-t", "20ms"];
        for shared in [&[][..], &["--shared"]] {
            let words = [&["eval"], code, &short, shared].concat();
            let answer = TempProject::new().run(&words).expect_status(0);
            let said = [&answer.stdout[..], &answer.stderr].concat();
            assert_eq!(said.contains("optimized"), is_folded, "{words:?}: {said}");
        }
    }
}
