//! What somebody meets who tries the command for the first time: mistakes are found before anything is measured, and
//! the obvious wrong word is answered with the right one.

use super::project::{Answer, Project};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ONE_CASE: &str = "case n=1 k=a\n* 100 101 102 103 104 105 106 107\n";

fn project() -> Project {
    Project::new().with("g/one.fake", ONE_CASE)
}

/// The session that would be there had something been measured.
#[track_caller]
fn expect_nothing_measured(project: &Project) {
    let history = project.run(&["history", "--format", "csv"]);
    assert_eq!(history.stdout.lines().count(), 1, "{history:#?}");
}

#[test]
fn what_cannot_be_written_is_refused_before_the_first_run() {
    let project = project().with("results/keep", "");
    let closed = project.path("closed");
    std::fs::create_dir(&closed).unwrap();
    for (file, why) in [
        ("x.pdf", "unknown kind of file (known: "),
        ("no/such/x.svg", "there is no folder 'no/such'"),
        ("keep.svg/x.svg", "there is no folder 'keep.svg'"),
        ("results", "unknown kind of file"),
    ] {
        for command in ["run", "compare"] {
            project
                .run(&[command, "g/one.fake", "-o", file])
                .expect_status(2)
                .expect_stderr(&[why, file]);
        }
        for words in [
            &["eval", "sh", "true"][..],
            &["load", "http://127.0.0.1:1/"],
            &["report"],
        ] {
            project
                .run(&[words, &["-o", file]].concat())
                .expect_status(2)
                .expect_stderr(&[why]);
        }
    }
    for option in ["--hdr", "--log-requests"] {
        let words = ["load", "http://127.0.0.1:1/", option, "no/such/file"];
        project
            .run(&words)
            .expect_status(2)
            .expect_stderr(&["there is no folder 'no/such'"]);
    }
    expect_nothing_measured(&project);
    assert!(
        !project.path("x.pdf").exists(),
        "a check leaves nothing behind"
    );
}

#[test]
fn a_report_that_cannot_be_made_is_refused_before_the_first_run() {
    let project = project();
    let two = ["--variant", "a=", "--variant", "b="];
    let check = |words: &[&str], why: &str| {
        let words = [&["run", "g/one.fake"], words].concat();
        project.run(&words).expect_status(2).expect_stderr(&[why]);
    };
    check(&["--x-axis", "m"], "no parameter 'm'; there are 'n', 'k'");
    check(&["--x-axis", "n", "--by", "m"], "no parameter 'm'");
    check(
        &["--sort", "size"],
        "there is no column 'size' to sort by (known: ",
    );
    check(
        &[&["--sort", "-candidat"], &two[..]].concat(),
        "there is no column 'candidat'",
    );
    check(&["--chart", "forest"], "there is nothing to compare");
    check(
        &["--chart", "line"],
        "a line chart needs a parameter study (--x-axis NAME)",
    );
    check(&["--chart", "pie"], "unknown chart 'pie'");
    check(
        &[&["--baseline", "c"], &two[..]].concat(),
        "no variant is named 'c'",
    );
    project
        .run(&["eval", "sh", "true", "--sort", "size"])
        .expect_status(2)
        .expect_stderr(&["there is no column 'size'"]);
    expect_nothing_measured(&project);
}

#[test]
fn what_a_report_can_show_passes_the_check() {
    let project = project();
    let words = [
        "--sort", "-median", "--x-axis", "n", "--by", "k", "-o", "x.svg",
    ];
    let words = [&["run", "g/one.fake", "--runs", "2"], &words[2..]].concat();
    project.run(&words).expect_status(0);
    let words = [
        "--variant",
        "a=",
        "--variant",
        "b=",
        "--runs",
        "2",
        "--sort",
        "-change",
        "--chart",
        "forest",
    ];
    project
        .run(&[&["run", "g/one.fake"], &words[..]].concat())
        .expect_status(0);
}

#[test]
fn a_metric_that_no_case_reports_ends_the_session_after_one_run_each() {
    let project = project().with("g/two.fake", ONE_CASE);
    let answer = project
        .run(&["run", "g", "--metric", "throuput"])
        .expect_status(2);
    answer.expect_stderr(&[
        "there is no metric 'throuput'",
        "hint: did you mean 'throughput'?",
    ]);
    let lines = project.run(&["report", "--export", "jsonl"]).stdout;
    let runs = lines
        .lines()
        .filter(|line| line.contains("\"slot\""))
        .count();
    assert_eq!(runs, 2, "{lines}");
    assert!(project.run(&["history"]).stdout.contains("interrupted"));
    project.run(&["run", "g", "--runs", "1"]).expect_status(0);
    for words in [&["report"][..], &["compare", "@1", "@2"]] {
        project
            .run(&[words, &["--metric", "latency"]].concat())
            .expect_status(2)
            .expect_stderr(&["no metric 'latency'", "hint: there is only throughput"]);
    }
}

#[test]
fn a_baseline_among_results_must_exist() {
    let project = project();
    project
        .run(&["run", "g", "--runs", "2", "--tag", "t"])
        .expect_status(0);
    project.run(&["run", "g", "--runs", "2"]).expect_status(0);
    let why = "in --baseline: no source is named 'x'\nhint: they are @1, @2";
    project
        .run(&["compare", "@1", "@2", "--baseline", "x"])
        .expect_status(2)
        .expect_stderr(&[why]);
    project
        .run(&["compare", "@1", "@2", "--baseline", "@2"])
        .expect_status(0)
        .expect_stdout(&["whether @1 is faster than @2"]);
    project
        .run(&["report", "--baseline", "x"])
        .expect_status(2)
        .expect_stderr(&["no variant 'x'"]);
}

#[test]
fn the_obvious_wrong_word_is_answered_with_the_right_one() {
    let project = project()
        .with("b/copy.js", "require('speedwell').createBenchmark()")
        .with("b/other.js", "createBenchmark");
    let say = |words: &[&str]| project.run(words).expect_status(2);
    say(&["rn", "x"]).expect_stderr(&["'run'"]);
    let answer = say(&["harness", "x"]);
    assert!(!answer.stderr.contains("harness-sh"), "{answer:#?}");
    let answer = say(&["load", "--worke", "1"]);
    assert!(!answer.stderr.contains("--worker"), "{answer:#?}");
    say(&["run", "b/cpoy.js"]).expect_stderr(&["hint: did you mean 'b/copy.js'?"]);
    say(&["run", "ls"]).expect_stderr(&["speedwell eval sh 'ls'"]);
    say(&["compare", "b/copy.js", "b/other.js"]).expect_stderr(&[
        "'b/copy.js' is something to be measured, not a result",
        "compare --old PROGRAM --new PROGRAM b/copy.js",
        "speedwell run b/copy.js b/other.js",
    ]);
    say(&["compare", "ls", "cat"]).expect_stderr(&["speedwell eval sh ls cat"]);
    say(&["as", "compare"]).expect_stderr(&["compare.js"]);
    say(&["run", "x", "--filtr", "y"]).expect_stderr(&["--filter"]);
}

#[test]
fn a_name_that_is_not_utf8_is_named() {
    use std::os::unix::ffi::OsStrExt;
    let project = project();
    let mut command = project.command(&["run"]);
    command.arg(std::ffi::OsStr::from_bytes(b"bad\xff.js"));
    Answer::from(command.output().unwrap())
        .expect_status(2)
        .expect_stderr(&[r#"the argument "bad\xFF.js" is not UTF-8"#]);
}

#[test]
fn values_are_a_list_wherever_they_stand() {
    let project = Project::new().with("g/n.fake", "case n=1\n* 1\ncase n=2\n* 1\ncase n=3\n* 1\n");
    for words in [&["n=1,3"][..], &["--set", "n=1,3"], &["-s", "n=1", "n=3"]] {
        let listed = project
            .run(&[&["run", "g", "--list"], words].concat())
            .expect_status(0);
        assert!(
            listed.stdout.contains("2 cases") && !listed.stdout.contains("n=2"),
            "{words:?}: {listed:#?}"
        );
    }
}

#[test]
fn the_last_of_an_option_with_one_value_wins() {
    let project = project();
    project
        .run(&[
            "run", "g", "--list", "--runs", "6", "--runs", "40", "-q", "-q",
        ])
        .expect_status(0)
        .expect_stdout(&["40 runs"]);
}

#[test]
fn a_variable_that_names_the_store_does_not_contradict_no_save() {
    let project = project();
    let run = |words: &[&str]| {
        let mut command = project.command(words);
        Answer::from(
            command
                .env("SPEEDWELL_DB", project.path("own.db"))
                .output()
                .unwrap(),
        )
    };
    run(&["run", "g", "--runs", "1", "--no-save"]).expect_status(0);
    assert!(!project.path("own.db").exists());
    run(&["run", "g", "--runs", "1"]).expect_status(0);
    assert!(project.path("own.db").exists());
    run(&["run", "g", "--db", "x.db", "--no-save"])
        .expect_status(2)
        .expect_stderr(&["cannot be used with"]);
}

#[test]
fn a_home_that_cannot_be_written_is_told_with_both_remedies() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("one.fake"), ONE_CASE).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_speedwell"));
    command
        .current_dir(&folder)
        .args(["run", "one.fake"])
        .stdin(Stdio::null());
    command
        .env_remove("XDG_DATA_HOME")
        .env_remove("SPEEDWELL_DB")
        .env("HOME", "/proc/nowhere");
    Answer::from(command.output().unwrap())
        .expect_status(2)
        .expect_stderr(&["--db FILE", "--no-save"]);
}

#[test]
fn completions_load_in_bash() {
    let project = project();
    let script = project
        .run(&["completions", "bash"])
        .expect_status(0)
        .stdout;
    std::fs::write(project.path("c.bash"), script).unwrap();
    let shell = "bash -n c.bash && . ./c.bash && complete -p speedwell && \
                 COMP_WORDS=(speedwell rep) COMP_CWORD=1 && _speedwell speedwell rep speedwell && echo ${COMPREPLY[@]}";
    let mut bash = Command::new("bash");
    let answer = bash
        .args(["--norc", "-c", shell])
        .current_dir(project.path(""))
        .output();
    let Ok(answer) = answer else {
        eprintln!("skipped: there is no 'bash'");
        return;
    };
    Answer::from(answer)
        .expect_status(0)
        .expect_stdout(&["-F _speedwell", "speedwell\nreport\n"]);
    for shell in ["zsh", "fish"] {
        project
            .run(&["completions", shell])
            .expect_status(0)
            .expect_stdout(&["calibrate"]);
    }
    let answer = project.run(&["completions", "bash"]);
    assert!(!answer.stdout.contains("harness-sh") && !answer.stdout.contains("--worker"));
}

#[test]
fn every_command_has_a_manual_page() {
    let project = project();
    project
        .run(&["man"])
        .expect_status(0)
        .expect_stdout(&[".TH speedwell 1", "speedwell\\-run(1)"]);
    project.run(&["man", "pages/man1"]).expect_status(0);
    for command in speedwell::cli::grammar().get_subcommands() {
        let page = project.path(&format!("pages/man1/speedwell-{}.1", command.get_name()));
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.contains(".SH SYNOPSIS"), "{}", page.display());
    }
}

#[test]
fn ctrl_c_while_something_is_compiled_is_an_interruption() {
    let slow = "#!/bin/sh\ntouch started\nexec sleep 60\n";
    for words in [
        &["run", "g/x.cpp"][..],
        &["run", "g/x.cpp", "--list"],
        &["eval", "c", "1"],
    ] {
        let project = Project::new()
            .with("g/x.cpp", "#include <speedwell.hpp>\n")
            .with_program("slow", slow);
        let mut command = project.command(words);
        for variable in ["CC", "CXX"] {
            command.env(variable, project.path("slow"));
        }
        command.env("XDG_CACHE_HOME", project.path("cache"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        // The compiler is started where its file is, so its mark is looked for everywhere.
        let is_started = || {
            let mut find = Command::new("find");
            let found = find
                .arg(project.path(""))
                .args(["-name", "started"])
                .output()
                .unwrap();
            !found.stdout.is_empty()
        };
        let limit = Instant::now() + Duration::from_secs(60);
        while !is_started() && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut kill = Command::new("kill");
        assert!(
            kill.args(["-INT", &child.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
        let answer = Answer::from(child.wait_with_output().unwrap()).expect_status(130);
        assert!(
            !answer.stderr.contains("reported nothing"),
            "{words:?}: {answer:#?}"
        );
        answer.expect_stderr(&["interrupted"]);
    }
}

#[test]
fn the_list_says_how_long_the_runs_measure_where_that_is_known() {
    let project = project();
    project
        .run(&["eval", "sh", "true", "--list", "--runs", "10"])
        .expect_status(0)
        .expect_stdout(&["1 case, 10 runs, 3.0 s of measuring\n"]);
    project
        .run(&["eval", "sh", "true", "false", "--list"])
        .expect_stdout(&["1 case, 64 runs at most, 19.2 s at most of measuring\n"]);
    let toml = "[benchmark.hello]\nkind = \"load\"\nserve = \"true {port}\"\nurl = \"http://127.0.0.1:{port}/\"\n\
                duration = \"5s\"\nwarmup = \"500ms\"\n";
    let project = project.with("servers.toml", toml);
    project
        .run(&["run", "servers.toml", "--list", "--runs", "128"])
        .expect_status(0)
        .expect_stdout(&["1 case, 128 runs, 11 min 44 s of measuring\n"]);
    project
        .run(&["run", "g", "--list"])
        .expect_stdout(&["1 case, 6 runs\n"]);
}

#[test]
fn a_written_picture_is_named_with_what_it_shows() {
    let words = [
        "run",
        "g",
        "--variant",
        "a=",
        "--variant",
        "b=",
        "-o",
        "x.svg",
        "-o",
        "x.csv",
    ];
    project().run(&words).expect_status(0).expect_stderr(&[
        "wrote 'x.svg': ",
        "wrote 'x-2.svg': ",
        "wrote 'x.csv'\n",
    ]);
}
