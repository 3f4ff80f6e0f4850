//! `speedwell eval`, with shell commands, which every machine has.

use super::busy::{ensure_holds, retry_busy};
use super::harness_driver::find_tool;
use super::project::{CommandResult, TempProject};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Too few runs for figures that are examined.
const QUICK: [&str; 8] = ["--runs", "2", "-n", "1", "--time", "30ms", "-w", "0"];

fn eval(project: &TempProject, words: &[&str]) -> CommandResult {
    project.run(&[&["eval", "sh"], words, &QUICK[..]].concat())
}

/// As many runs as a verdict needs.
fn eval_six_times(project: &TempProject, words: &[&str]) -> CommandResult {
    let enough = ["--runs", "6", "--time", "30ms", "-w", "0"];
    project.run(&[&["eval", "sh"], words, &enough[..]].concat())
}

#[test]
fn a_command_that_sleeps_takes_less_processor_time_than_time() {
    let project = TempProject::new();
    let words = ["sleep 0.2"];
    let metrics = ["--metric", "cpu_time", "--metric", "time"];
    let answer = eval(&project, &[&words[..], &metrics, &["--format", "json"]].concat());
    let json = answer.expect_status(0).json();
    let median = |at: usize| json["summaries"][at]["median"].as_f64().unwrap();
    assert_eq!(json["summaries"][0]["metric"], "cpu_time");
    assert!(median(0) > 0.0 && median(0) < median(1) / 2.0, "{json}");
}

#[test]
fn any_code_may_be_the_baseline_by_its_name() {
    let project = TempProject::new();
    let words = ["eval", "sh", "true", ":", "--name", "x", "--name", "y"];
    let quick = ["--runs", "1", "--time", "1ms", "-w", "0", "--format", "csv"];
    let with =
        |baseline: &str| project.run(&[&words[..], &["--baseline", baseline], &quick].concat());
    for (baseline, other) in [("y", "x"), ("x", "y")] {
        let answer = with(baseline).expect_status(0);
        let cells = format!("{baseline},{other},");
        assert!(answer.stdout.contains(&cells), "{answer:#?}");
    }
    with("z")
        .expect_status(2)
        .expect_stderr(&["no variant is named 'z'", "hint: the variants are x, y"]);
}

#[test]
fn a_command_that_fails_leaves_the_others_their_figures() {
    let project = TempProject::new();
    let failing = "echo no such file >&2; exit 3";
    let answer = eval(&project, &["sleep 0.005", failing, "sleep 0.006"]).expect_status(2);
    assert_eq!(answer.stderr.matches("if the exit status is expected: ").count(), 1);
    assert!(!answer.stdout.contains("failed (failed"), "{answer:#?}");
    answer.expect_stdout(&[
        "exited with status 3",
        "\n  no such file\n",
        "speedwell time 'echo no such file >&2; exit 3' --runs 1",
        "\nsleep 0.005 ",
        "\nsleep 0.006 ",
    ]);
}

#[test]
fn shell_syntax_errors_are_shown_in_the_words_of_the_shell() {
    let project = TempProject::new();
    eval(&project, &["echo 'a"])
        .expect_status(2)
        .expect_stderr(&["does not compile", "nterminated"]);
}

#[test]
fn a_file_in_the_wrong_place_is_explained() {
    let project = TempProject::new()
        .with("slug.js", "exports.regex = (text) => text;\n")
        .with("slug.erl", "-module(slug).\n");
    let missing = "cannot read 'slog.js': no such file\nhint: did you mean 'slug.js'?";
    let module = "'slug.js' is a module\nhint: to measure a function that it exports: speedwell eval node \
                  --init @slug.js 'regex(text)'";
    for (line, message) in [
        ("eval node 'f()' --init @slog.js", format!("in --init: {missing}")),
        ("eval go 'f()' --init-worker @slog.js", format!("in --init-worker: {missing}")),
        ("eval python 'f()' --done @slog.js", format!("in --done: {missing}")),
        ("eval sh @slog.js", missing.to_owned()),
        ("load http://127.0.0.1:1/ -d @slog.js", missing.to_owned()),
        (
            "eval node 'f()' --init slug.js",
            "not code\nhint: speedwell eval node 'f()' --init @slug.js".to_owned(),
        ),
        ("eval node 'f()' --init-worker @slug.js", format!("in --init-worker: {module}")),
        ("eval node @slug.js", module.to_owned()),
        ("eval erlang @slug.erl", "'slug.erl' is a module".to_owned()),
        ("eval node slug.js", "speedwell eval node --init @slug.js 'regex(text)'".to_owned()),
        (
            "compare slug.js::regex slug.js::loop",
            "speedwell eval node --init @slug.js 'regex(text)' 'loop()'".to_owned(),
        ),
    ] {
        let words = shell_words::split(line).unwrap();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        project.run(&words).expect_status(2).expect_stderr(&[&message]);
    }
}

#[test]
fn a_name_that_a_file_here_defines_is_found_before_anything_is_measured() {
    let project = TempProject::new().with("slug.py", "def slug(text):\n    return text\n");
    for code in [&["slug('a')"][..], &["slug('a')", "slug('b')"]] {
        let words = [&["eval", "python"], code, &QUICK].concat();
        project.run(&words).expect_status(2).expect_stderr(&[
            "'slug('a')' failed: ",
            "name 'slug' is not defined",
            "hint: 'slug.py' has this name; add --init @slug.py",
        ]);
    }
    let list = project.run(&["history"]);
    assert!(!list.stdout.contains("@1"), "{list:#?}");
    let defined = ["eval", "python", "--init", "@slug.py", "slug('a')", "-q"];
    project.run(&[&defined[..], &QUICK].concat()).expect_status(0);
}

#[test]
fn a_gate_names_commands_by_their_text() {
    let project = TempProject::new();
    let words = ["eval", "sh", "true", "sleep 0.01", "--fail-on", "worse", "-q"];
    let answer = project.run(&[&words[..], &["--runs", "8", "--time", "1ms", "-w", "0"]].concat());
    let line = "gate failed: 1 worse ('sleep 0.01') of 1 case by time";
    let answer = answer.expect_status(1).expect_stdout(&[line]);
    assert!(!answer.stdout.contains("\u{2500}"), "a table: {answer:#?}");
    assert!(!answer.stdout.contains("eval/") && !answer.stdout.contains("time_median"));
}

#[test]
fn hooks_are_executed_before_and_after() {
    let project = TempProject::new();
    let log = project.path("log");
    let log = log.display();
    let words = [
        format!("echo run >> {log}"),
        format!("echo init >> {log}"),
        format!("echo worker >> {log}"),
        format!("echo prepare >> {log}"),
        format!("echo done >> {log}"),
    ];
    let [run, init, worker, prepare, done] = words.each_ref().map(String::as_str);
    let answer = project.run(&[
        "eval",
        "sh",
        run,
        "--init",
        init,
        "--init-worker",
        worker,
        "--prepare",
        prepare,
        "--done",
        done,
        "--runs",
        "1",
        "--iterations=2",
        "-n",
        "1",
        "-w",
        "0",
    ]);
    answer.expect_status(0);
    let told = std::fs::read_to_string(project.path("log")).unwrap();
    let told: Vec<&str> = told.lines().collect();
    assert_eq!(told, ["init", "worker", "prepare", "run", "prepare", "run", "done"]);
}

#[test]
fn preparation_does_not_count_towards_the_measured_time() {
    let project = TempProject::new();
    let words = [
        "sleep 0.002",
        "--prepare",
        "sleep 0.1",
        "--format",
        "json",
        "--runs",
        "2",
        "-n",
        "2",
        "--iterations=5",
    ];
    // Including its preparation, it would be 100 ms and more every time.
    retry_busy(1, || {
        let answer = project.run(&[&["eval", "sh"], &words[..]].concat());
        let code = answer.expect_status(0).json();
        let time_ms = code["codes"][0]["time_ns"].as_f64().unwrap() / 1e6;
        ensure_holds(time_ms < 60.0, || format!("{time_ms} ms"))
    });
}

#[test]
fn failing_hooks_are_reported_by_name() {
    let project = TempProject::new();
    for (option, stage) in [("--init", "init"), ("--init-worker", "init-worker")] {
        eval(&project, &["true", option, "exit 4"])
            .expect_status(2)
            .expect_stdout(&[&format!("failed in {stage}: "), "exited with status 4"]);
    }
    // Earlier measurements are kept.
    eval(&project, &["true", "--done", "exit 5"]).expect_status(2).expect_stdout(&[
        "true: ",
        "an execution",
        "failed in done: ",
        "exited with status 5",
    ]);
}

#[test]
fn a_command_that_never_ends_is_ended_with_all_it_started() {
    let project = TempProject::new();
    let begin = Instant::now();
    // A duration that no other process sleeps for.
    let time = format!("86398.{}", std::process::id());
    let sleep = format!("sleep {time} & sleep {time}; wait");
    project
        .run(&["eval", "sh", &sleep, "--runs", "1", "--timeout", "1s"])
        .expect_status(2)
        .expect_stdout(&["timeout: did not end within"]);
    assert!(begin.elapsed() < Duration::from_secs(120));
    let left = std::process::Command::new("pgrep").args(["-f", &format!("sleep {time}")]).output();
    let left = left.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    assert_eq!(left.unwrap_or_default(), "");
}

#[test]
fn codes_in_one_process_take_turns_or_work_at_the_same_time() {
    let project = TempProject::new();
    for manner in [["--shared", "--seed", "1"], ["--order", "parallel", "--verbose"]] {
        let words = [&["sleep 0.005", "sleep 0.02"], &manner[..]].concat();
        eval(&project, &words).expect_status(0).expect_stdout(&["\nsleep 0.02 "]);
    }
    let exported = project.run(&["report", "@latest", "--export", "jsonl"]).expect_status(0);
    assert!(exported.stdout.contains("\"parallel\""), "{exported:#?}");
}

#[test]
fn watching_prints_a_line_for_every_window() {
    let project = TempProject::new();
    let words = ["eval", "sh", "sleep 0.01", "--watch", "-n", "3", "-t", "100ms"];
    let answer = project.run(&words).expect_status(0);
    let lines: Vec<&str> = answer.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{answer:#?}");
    assert!(lines[0].contains("rate") && lines[0].contains("rss"), "{answer:#?}");
    // On a busy machine no iteration may end within a window.
    retry_busy(1, || {
        let answer = project.run(&[&words[..], &["--format", "json"]].concat());
        let lines = answer.expect_status(0).stdout;
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let odd = lines.into_iter().find(|line| {
            let per_s = line["code0_per_s"].as_f64().unwrap_or(0.0);
            assert!(line["rss_bytes"].as_f64().unwrap() > 1e5, "{line}");
            !(5.0..100.0).contains(&per_s)
        });
        ensure_holds(odd.is_none(), || format!("{odd:?}"))
    });
}

#[test]
fn two_programs_perform_the_same_code() {
    let project = TempProject::new();
    let words = ["eval", "sh", "true && true", "--old", "/bin/sh", "--new", "/bin/sh"];
    let short = ["-r", "2", "-n", "1", "--iterations=1", "-w", "0"];
    project.run(&[&words[..], &short].concat()).expect_status(0).expect_stdout(&[
        "old",
        "new",
        "runs a side",
    ]);
}

#[test]
fn snippets_can_be_read_from_files_and_named() {
    let project = TempProject::new().with("work.sh", "sleep 0.001\n");
    let file = format!("@{}", project.path("work.sh").display());
    eval(&project, &[&file, "sleep 0.002", "--name", "from file", "--name", "typed"])
        .expect_status(0)
        .expect_stdout(&["\nfrom file ", "\ntyped "]);
}

#[test]
fn invalid_arguments_are_refused_before_anything_is_measured() {
    let project = TempProject::new();
    let refused = |words: &[&str], texts: &[&str]| {
        let words = [&["eval"], words].concat();
        project.run(&words).expect_status(2).expect_stderr(texts);
    };
    refused(&["js", "1"], &["unknown language 'js'\nhint: speedwell eval node 1"]);
    refused(
        &["sh", "a", "b", "--init", "1", "--init", "2", "--init", "3"],
        &["--init", "3 times", "hint:"],
    );
    refused(&["sh", "a", "b", "--name", "x"], &["--name", "once", "2 snippets"]);
    refused(&["sh", " "], &["snippet number 1 is empty"]);
    refused(&["python", "1", "--prepare", "2"], &["--prepare needs 'sh'"]);
    refused(&["cpp", "1", "2", "--shared"], &["compiled", "--shared"]);
    refused(&["c", "1", "--shared"], &["compiled", "--shared"]);
    refused(&["sh", "a", "-c", "max", "--iterations=5"], &["--iterations", "hint:"]);
    refused(&["python", "1", "--path", "/nowhere/at/all"], &["--path"]);
    refused(&["sh", "true", "--watch", "--old", "sh", "--new", "sh"], &["--watch"]);
    let nothing = project.run(&["run", "--order", "parallel", "x"]).expect_status(2);
    assert!(nothing.stderr.contains("speedwell eval"), "{nothing:#?}");
}

#[test]
fn every_value_of_a_parameter_is_substituted_into_a_separate_case() {
    let project = TempProject::new();
    let written = project.path("written").display().to_string();
    let command = format!("sh -c 'echo {{n}}-{{who}} >> {written}'");
    let short = ["-r1", "-n1", "--iterations=1", "-w0", "--format", "json"];
    let words = [
        "eval", "sh", &command, "-P", "n", "1", "2", "-D", "0.5", "-L", "who", "a,b", "-f", "who=b",
    ];
    let answer = project.run(&[&words[..], &short].concat()).expect_status(0);
    let mut lines: Vec<String> = std::fs::read_to_string(project.path("written"))
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort();
    assert_eq!(lines, ["1-b", "1.5-b", "2-b"]);
    let json = answer.json();
    let codes = json["codes"].as_array().unwrap();
    let labels: Vec<&str> = codes.iter().filter_map(|code| code["code"].as_str()).collect();
    assert_eq!(labels.len(), 3, "{labels:?}");
    assert!(labels[1].ends_with(" n=1.5 who=b"), "{labels:?}");
}

#[test]
fn snippets_with_parameters_are_compared_value_by_value() {
    let project = TempProject::new();
    let words = [
        "eval",
        "sh",
        "sleep {d}",
        "sleep 0.001",
        "-L",
        "d",
        "0.001,0.002",
        "-r",
        "2",
        "-n",
        "1",
        "--iterations=1",
        "-w",
        "0",
        "--format",
        "json",
    ];
    let json = project.run(&words).expect_status(0).json();
    let rows = json["changes"].as_array().cloned().unwrap_or_default();
    let cases: Vec<&str> = rows.iter().filter_map(|row| row["case"].as_str()).collect();
    assert_eq!(cases, ["eval/sh d=0.001", "eval/sh d=0.002"]);
}

#[test]
fn a_session_with_parameters_is_resumed_where_it_was_interrupted() {
    let project = TempProject::new();
    let (log, go) = (project.path("log"), project.path("go"));
    let (log, go) = (log.display(), go.display());
    // The fifth execution emulates the user's Ctrl-C: it signals the parent of the harness that
    // executes the command.
    let command = format!(
        "echo {{n}} >> {log}; [ -e {go} ] || [ $(wc -l < {log}) -lt 5 ] || \
         kill -INT $(sed -n 's/^PPid:.//p' /proc/$PPID/status)"
    );
    let words = ["eval", "sh", &command, "-L", "n", "1,2,3", "-r4", "-n1", "--iterations=1", "-w0"];
    let interrupted = project.run(&words).expect_status(130);
    interrupted.expect_stderr(&["resume with: speedwell time --resume @1"]);
    std::fs::write(project.path("go"), "").unwrap();
    let again = ["eval", "--resume", "@latest", "--format", "json"];
    let json = project.run(&again).expect_status(0).json();
    let codes = json["codes"].as_array().unwrap();
    let runs: Vec<u64> = codes.iter().filter_map(|code| code["runs"].as_u64()).collect();
    assert_eq!(runs, [4, 4, 4]);
    let log = std::fs::read_to_string(project.path("log")).unwrap();
    // Only the interrupted run is executed again.
    assert!((12..=13).contains(&log.lines().count()), "{log}");
}

#[test]
fn a_warm_up_is_counted_and_output_is_shown_on_stderr_only() {
    let project = TempProject::new();
    let words =
        ["eval", "sh", "echo said", "-w2", "--show-output", "-r", "1", "-n", "1", "--iterations=3"];
    let answer = project.run(&words).expect_status(0);
    assert_eq!(answer.stderr.matches("said\n").count(), 5, "{answer:#?}");
    assert!(!answer.stdout.contains("\nsaid\n"), "{answer:#?}");
}

#[test]
fn processor_time_without_the_shell_is_positive_or_absent() {
    let project = TempProject::new();
    let long = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let words = ["eval", "sh", ":", long, "-r", "2", "-n", "1", "--iterations=1", "-w", "0"];
    let json = project.run(&[&words[..], &["--format", "json"]].concat()).expect_status(0).json();
    let codes = json["codes"].as_array().unwrap();
    for code in codes {
        let own = &code["own_cpu_ns"];
        assert!(own.is_null() || own.as_f64().unwrap() > 0.0, "{code}");
    }
    let own = codes[1]["own_cpu_ns"].as_f64().expect("a long loop is told from its shell");
    let whole = codes[1]["user_ns"].as_f64().unwrap() + codes[1]["system_ns"].as_f64().unwrap();
    assert!(own < whole, "{codes:?}");
    // A ratio to something that takes no longer than its shell would be unbounded.
    let [row] = json["changes"].as_array().unwrap().as_slice() else {
        panic!("{json}");
    };
    assert!(row["change"].as_f64().unwrap().is_finite(), "{row}");
    assert!(row["baseline_location"].as_f64().unwrap() > 0.0, "{row}");
}

#[test]
fn run_limits_apply_and_limits_too_low_for_a_comparison_are_refused() {
    let project = TempProject::new();
    let quick = ["eval", "sh", "true", "-n", "1", "--iterations=1", "-w", "0", "--format", "json"];
    for (bound, count, runs) in [("--min-runs", "7", 7), ("--max-runs", "3", 3)] {
        let answer = project.run(&[&quick[..], &[bound, count]].concat()).expect_status(0);
        assert_eq!(answer.json()["codes"][0]["runs"], runs, "{bound}");
    }
    let pair = ["eval", "sh", "true", ":"];
    for (words, part) in [
        (&["--max-runs", "7"][..], "too few: a comparison needs at least"),
        (&["--min-runs", "20", "--max-runs", "10"], "is more than"),
    ] {
        project.run(&[&pair[..], words].concat()).expect_status(2).expect_stderr(&[part]);
    }
}

#[test]
fn invalid_parameters_are_refused() {
    let project = TempProject::new();
    for (words, part) in [
        (&["-P", "n", "3", "1"][..], "is empty"),
        (&["-P", "n", "1", "x"], "expected a decimal number"),
        (&["-P", "n", "1", "2", "-D", "0"], "expected a number greater than 0"),
        (&["-L", "n", "1", "-L", "n", "2"], "given twice"),
        (&["-L", "concurrency", "1"], "invalid parameter name 'concurrency'"),
        (&["-L", "a=b", "1"], "invalid parameter name 'a=b'"),
        (&["-L", "n", "1", "-f", "n=2"], "0 of 1 cases are selected"),
    ] {
        let words = [&["eval", "sh", "true"], words].concat();
        project.run(&words).expect_status(2).expect_stderr(&[part]);
    }
    let python = ["eval", "python", "1", "-w", "2"];
    project.run(&python).expect_status(2).expect_stderr(&["'sh'"]);
}

/// Other load on the machine would change the results.
mod measures {
    use super::*;

    #[test]
    fn a_command_is_timed_in_processes_of_its_own() {
        let project = TempProject::new();
        retry_busy(1, || {
            let words = ["sleep 0.02", "--format", "json"];
            let answer = eval_six_times(&project, &words).expect_status(0);
            let code = &answer.json()["codes"][0];
            assert_eq!(code["runs"], 6);
            let median_ms = code["time_median_ns"].as_f64().unwrap() / 1e6;
            assert!(median_ms >= 20.0, "{answer:#?}");
            let per_s = code["throughput"].as_f64().unwrap();
            let time_ms = code["time_ns"].as_f64().unwrap() / 1e6;
            // Starting a process takes a while, more on a busy machine. Both figures are medians over
            // the runs, so they agree only if most runs do.
            let same = per_s * time_ms / 1000.0;
            ensure_holds(median_ms < 60.0 && (same - 1.0).abs() < 0.1, || code.to_string())
        });
        project.run(&["report"]).expect_status(0).expect_stdout(&[
            "sleep 0.02: ",
            "an execution",
            "6 runs",
            "user",
            "system",
        ]);
    }

    #[test]
    fn commands_are_compared_and_the_first_is_the_baseline() {
        let project = TempProject::new();
        retry_busy(1, || {
            let answer = project
                .run(&["eval", "sh", "sleep 0.005", "sleep 0.05", "--time", "20ms"])
                .expect_status(0)
                .expect_stdout(&["command", "baseline"])
                .expect_stderr(&["speedwell: stored as @"]);
            assert!(!answer.stdout.contains("Each command by itself"), "{answer:#?}");
            let at = |text: &str| answer.stdout.rfind(text).unwrap();
            assert!(at("\nsleep 0.005 ") < at("\nsleep 0.05 "), "{answer:#?}");
            // The verdict came at the first look: so large a difference needs no more runs, unless the
            // machine stalled during the quick ones.
            let all = [" times as fast as sleep 0.05 [", "8 runs a side in random blocks."];
            let is_told = all.iter().all(|text| answer.stdout.contains(text));
            ensure_holds(is_told, || answer.stdout)
        });
        project.run(&["report", "-v"]).expect_stdout(&["Each command by itself", "bin/sleep"]);
    }
}

/// These pass beside each other, but not beside tests that compute.
mod mostly_waits {
    use super::*;

    #[test]
    fn a_search_finds_how_many_workers_a_lock_lets_through() {
        let project = TempProject::new();
        let lock = project.path("lock");
        // Of any number of workers, only one at a time holds the lock, for 50 ms. Meanwhile another can
        // start its shell, even on a busy machine.
        let code = format!("flock {} sleep 0.05", lock.display());
        let words =
            ["-c", "max", "--concurrency-limit", "3", "-t", "400ms", "-n", "2", "--format", "json"];
        if find_tool(&["flock"]).is_none() {
            return;
        }
        // If the machine stalls during a pass, the next one may look better.
        retry_busy(1, || {
            let answer = project.run(&[&["eval", "sh", &code], &words[..]].concat());
            let found = answer.expect_status(0).json();
            let answer = found["scaling"][0]["concurrency"].as_u64().unwrap();
            ensure_holds(answer <= 2, || found.to_string())
        });
        project.run(&["report"]).expect_status(0).expect_stdout(&[
            "throughput ",
            "workers",
            "◀ here",
        ]);
    }

    #[test]
    fn several_numbers_of_workers_are_levels_of_one_code() {
        let project = TempProject::new();
        let words = ["sleep 0.02", "-c", "1,4", "--format", "json"];
        retry_busy(1, || {
            let found = eval_six_times(&project, &words).expect_status(0).json();
            let levels = &found["scaling"][0];
            let is_best = levels["still_grows"] == true && levels["concurrency"] == 4;
            ensure_holds(is_best, || found.to_string())
        });
    }
}
